"""`weft.scipy.sparse.linalg`: linear systems whose matrix is given as a function."""

from weft.base.facades import public_names
from weft.scipy.sparse.gmres import gmres
from weft.scipy.sparse.krylov import bicgstab, cg

__all__ = ["bicgstab", "cg", "gmres"]

__dir__ = public_names(globals())
