"""The names of `jax.interpreters.mlir` and `jax.extend.lowering` whose functions differ from those
of weft with the same names."""

from weft.define.lowering_functions import custom_call_op as custom_call
from weft.define.lowering_functions import set_lowering as register_lowering

__all__ = ["custom_call", "register_lowering"]
