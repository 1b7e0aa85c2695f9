"""`weft.scipy.sparse`: solvers for matrices given as functions."""

from weft.base.facades import public_names
from weft.scipy.sparse import linalg

__all__ = ["linalg"]

__dir__ = public_names(globals())
