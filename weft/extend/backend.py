"""The backends of the process."""

from weft.base.facades import public_names
from weft.define.for_jax.backends import *
from weft.define.for_jax.backends import __all__ as __all__

__dir__ = public_names(globals())
