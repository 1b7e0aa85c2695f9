"""`weft.scipy.sparse`: what works on matrices that are known as functions only."""

from weft.scipy.sparse import linalg

__all__ = ["linalg"]
