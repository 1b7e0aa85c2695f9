"""`pjit`, the older name of `jit`."""

from weft.api.jit import jit

__all__ = ["pjit"]

pjit = jit
