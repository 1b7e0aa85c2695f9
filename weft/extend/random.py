"""Random generators of your own, the bits of keys, and the cipher behind the default generator."""

from weft.base.facades import public_names
from weft.ops.structural.extended_dtypes import (
    KeyDType,
    is_key,
    key_bits,
    physical_type,
    through_bits,
    wrap_key_bits,
)
from weft.random.generator import Generator, define_generator, generator_named, register
from weft.random.keys import key_data as unwrap
from weft.random.keys import wrap_key_data as wrap
from weft.random.threefry import threefry_2x32

# fmt: off
__all__ = [
    "Generator", "KeyDType", "define_generator", "generator_named", "is_key", "key_bits",
    "physical_type", "register", "threefry_2x32", "through_bits", "unwrap", "wrap",
    "wrap_key_bits",
]
# fmt: on

__dir__ = public_names(globals())
