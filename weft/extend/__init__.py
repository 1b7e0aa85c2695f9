"""What packages outside weft build on: the same names that weft's own operations are made of."""

from weft.extend import core, interpreters

__all__ = ["core", "interpreters"]
