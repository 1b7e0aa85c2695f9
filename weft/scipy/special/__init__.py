"""`weft.scipy.special`: special functions with the names and arguments of SciPy.

They are elementwise: arguments are promoted to one dtype, integers to real numbers, and broadcast
to one shape, which the result has; float16 and bfloat16 are computed in float32. They raise
WeftTypeError for anything that is not an array or number, DTypeError for complex numbers unless
they take them, and ShapeError for shapes that do not broadcast.

>>> from weft.scipy import special
>>> special.gammaln(1j)
Traceback (most recent call last):
    ...
weft.errors.DTypeError: gammaln takes real numbers as x
  ...
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, public_names
from weft.scipy.special.bessel import *
from weft.scipy.special.entropies import *
from weft.scipy.special.error_functions import *
from weft.scipy.special.gammas import *
from weft.scipy.special.hypergeometric import *
from weft.scipy.special.integrals import *

# Type checkers see the imports above.
if not TYPE_CHECKING:
    __all__ = handed_on(globals())

__dir__ = public_names(globals())
