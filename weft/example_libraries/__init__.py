"""Small libraries of networks and optimizers, for examples and for programs that use them."""

from weft.base.facades import public_names
from weft.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]

__dir__ = public_names(globals())
