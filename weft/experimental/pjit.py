"""`pjit`, the older name of `jit`."""

from weft.api.jit import jit
from weft.base.facades import public_names

__all__ = ["pjit"]

__dir__ = public_names(globals())

pjit = jit
