"""`weft.scipy.linalg`: linear algebra with SciPy's names and arguments."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, public_names
from weft.scipy.linalg.eigenvalues import eigh as eigh
from weft.scipy.linalg.eigenvalues import eigh_tridiagonal as eigh_tridiagonal
from weft.scipy.linalg.exponential import *
from weft.scipy.linalg.factorizations import *
from weft.scipy.linalg.matrix_functions import *
from weft.scipy.linalg.schur import rsf2csf as rsf2csf
from weft.scipy.linalg.schur import schur as schur
from weft.scipy.linalg.solving import *
from weft.scipy.linalg.special_matrices import *
from weft.scipy.linalg.sylvester import solve_sylvester as solve_sylvester

# Type checkers see the imports above.
if not TYPE_CHECKING:
    __all__ = handed_on(globals())

__dir__ = public_names(globals())
