"""Array functions with the names and arguments of NumPy, differentiable and compiled.

Functions take arrays of any shape, NumPy arrays and numbers, and lists where they say so. Operands
are promoted to one dtype and broadcast to one shape, which the result has if nothing else is said.
All raise WeftTypeError for what is no array, ShapeError for shapes that do not fit, DTypeError for
a dtype that they do not take, AxisError for an axis that is out of range, OverflowError for a
Python number that the dtype does not hold, WeftNotImplementedError for `out=`, and while tracing
ConcretizationError where values decide a shape. Docstrings name the errors raised besides these.

>>> import weft.numpy as jnp
>>> jnp.add(jnp.ones(2), jnp.ones(3))
Traceback (most recent call last):
    ...
weft.errors.ShapeError: add: the shapes do not broadcast together
  ...
"""

# Each submodule's public names are public here; the submodules follow the Array API standard.

from typing import TYPE_CHECKING

from numpy import e as e
from numpy import euler_gamma as euler_gamma
from numpy import inf as inf
from numpy import nan as nan
from numpy import newaxis as newaxis
from numpy import pi as pi
from numpy.exceptions import ComplexWarning as ComplexWarning

from weft.arrays.array import Array as ndarray  # noqa: F401
from weft.base.facades import handed_on, load_on_first_use
from weft.numpy.choosing import *
from weft.numpy.closeness import *
from weft.numpy.creation import *
from weft.numpy.diagonals import *
from weft.numpy.differences import *
from weft.numpy.dtypes import *
from weft.numpy.einsum import *
from weft.numpy.elementary import *
from weft.numpy.elementwise import *
from weft.numpy.index_tricks import *
from weft.numpy.inspection import *
from weft.numpy.joining import *
from weft.numpy.linear_algebra import *
from weft.numpy.logic import *
from weft.numpy.manipulation import *
from weft.numpy.methods import ARRAY_API as __array_api_version__  # noqa: F401
from weft.numpy.namespace_info import array_namespace_info as __array_namespace_info__  # noqa: F401
from weft.numpy.nan_reductions import *
from weft.numpy.padding import *
from weft.numpy.quantiles import *
from weft.numpy.ranges import *
from weft.numpy.reductions import *
from weft.numpy.representation import *
from weft.numpy.searching import *
from weft.numpy.sets import *
from weft.numpy.sorting import *
from weft.numpy.statistics import *
from weft.numpy.taking import *
from weft.numpy.ufuncs import ufunc as ufunc
from weft.numpy.vectorizing import *

if TYPE_CHECKING:
    from weft.numpy import fft as fft
    from weft.numpy import linalg as linalg
    from weft.numpy.bit_packing import *
    from weft.numpy.files import *
    from weft.numpy.index_tricks import *
    from weft.numpy.known_values import *
    from weft.numpy.polynomials import *
    from weft.numpy.ufunc_methods import *
    from weft.numpy.windows import *

# Imported on first use, so that `import weft` stays cheap.
_LAZY_MODULES = ("weft.numpy.fft", "weft.numpy.linalg")
_LAZY_NAMES = {
    "weft.numpy.bit_packing": "packbits unpackbits",
    "weft.numpy.files": (
        "frombuffer fromfile fromiter fromstring load save savez savez_compressed"
    ),
    "weft.numpy.index_tricks": "c_ index_exp mgrid ogrid r_ s_",
    "weft.numpy.known_values": (
        "array2string ascontiguousarray common_type min_scalar_type ndenumerate ndindex "
        "real_if_close"
    ),
    "weft.numpy.polynomials": (
        "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots trim_zeros "
        "vander"
    ),
    "weft.numpy.ufunc_methods": "frompyfunc",
    "weft.numpy.windows": "bartlett blackman hamming hanning kaiser",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES, _LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
