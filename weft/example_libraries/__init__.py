"""Small libraries of networks and optimizers, for examples and for programs that use them."""

from weft.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]
