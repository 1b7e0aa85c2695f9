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
weft.errors.ShapeError: add got operands whose shapes do not broadcast together
  ...
"""

# Each submodule's public names are public here; the submodules follow the Array API standard.

import importlib
from typing import TYPE_CHECKING, Any

from numpy import e, euler_gamma, inf, nan, newaxis, pi
from numpy.exceptions import ComplexWarning

from weft.arrays.array import Array as ndarray
from weft.numpy.averages import average
from weft.numpy.choosing import *
from weft.numpy.clipping import clip
from weft.numpy.closeness import *
from weft.numpy.creation import *
from weft.numpy.diagonals import *
from weft.numpy.differences import *
from weft.numpy.divisors import *
from weft.numpy.dtypes import *
from weft.numpy.einsum import *
from weft.numpy.elementary import *
from weft.numpy.elementwise import *
from weft.numpy.grids import fromfunction, meshgrid
from weft.numpy.inspection import *
from weft.numpy.joining import *
from weft.numpy.linear_algebra import *
from weft.numpy.logic import *
from weft.numpy.manipulation import *
from weft.numpy.methods import ARRAY_API as __array_api_version__
from weft.numpy.namespace_info import array_namespace_info as __array_namespace_info__
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
from weft.numpy.ufuncs import ufunc
from weft.numpy.vectorizing import *

if TYPE_CHECKING:
    from weft.numpy import fft, linalg
    from weft.numpy.bit_packing import packbits, unpackbits
    from weft.numpy.files import *
    from weft.numpy.index_tricks import *
    from weft.numpy.known_values import *
    from weft.numpy.polynomials import *
    from weft.numpy.ufunc_methods import frompyfunc
    from weft.numpy.windows import *

# fmt: off
__all__ = [
    "ComplexWarning", "__array_api_version__", "__array_namespace_info__", "abs", "absolute",
    "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle", "any", "append",
    "apply_along_axis", "apply_over_axes", "arange", "arccos", "arccosh", "arcsin", "arcsinh",
    "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort", "argwhere",
    "around", "array", "array2string", "array_equal", "array_equiv", "array_repr",
    "array_split", "array_str", "asarray", "ascontiguousarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett",
    "bfloat16", "bincount", "bitwise_and", "bitwise_count", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "blackman", "block", "bool", "bool_", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "c_", "can_cast", "cbrt", "cdouble", "ceil", "character", "choose", "clip",
    "column_stack", "common_type", "complex128", "complex64", "complex_", "complexfloating",
    "compress", "concat", "concatenate", "conj", "conjugate", "convolve", "copy", "copysign",
    "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "csingle",
    "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "deg2rad", "degrees", "delete",
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff", "digitize",
    "divide", "divmod", "dot", "double", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum",
    "einsum_path", "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims",
    "expm1", "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero",
    "flexible", "flip", "fliplr", "flipud", "float16", "float32", "float4_e2m1fn", "float64",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float_", "float_power", "floating",
    "floor", "floor_divide", "fmax", "fmin", "fmod", "frexp", "from_dlpack", "frombuffer",
    "fromfile", "fromfunction", "fromiter", "frompyfunc", "fromstring", "full", "full_like",
    "gcd", "generic", "geomspace", "get_printoptions", "gradient", "greater", "greater_equal",
    "half", "hamming", "hanning", "heaviside", "histogram", "histogram2d",
    "histogram_bin_edges", "histogramdd", "hsplit", "hstack", "hypot", "i0", "identity",
    "iinfo", "imag", "index_exp", "indices", "inexact", "inf", "inner", "insert", "int16",
    "int2", "int32", "int4", "int64", "int8", "int_", "integer", "interp", "intersect1d",
    "invert", "isclose", "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isin", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar", "issubdtype",
    "iterable", "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift", "less", "less_equal",
    "lexsort", "linalg", "linspace", "load", "log", "log10", "log1p", "log2", "logaddexp",
    "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logspace",
    "mask_indices", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median",
    "meshgrid", "mgrid", "min", "min_scalar_type", "minimum", "mod", "modf", "moveaxis",
    "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile",
    "nanstd", "nansum", "nanvar", "ndarray", "ndenumerate", "ndim", "ndindex", "negative",
    "newaxis", "nextafter", "nonzero", "not_equal", "number", "object_", "ogrid", "ones",
    "ones_like", "outer", "packbits", "pad", "partition", "percentile", "permute_dims", "pi",
    "piecewise", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint",
    "polymul", "polysub", "polyval", "positive", "pow", "power", "printoptions", "prod",
    "promote_types", "ptp", "put", "put_along_axis", "quantile", "r_", "rad2deg", "radians",
    "ravel", "ravel_multi_index", "real", "real_if_close", "reciprocal", "remainder", "repeat",
    "reshape", "resize", "result_type", "right_shift", "rint", "roll", "rollaxis", "roots",
    "rot90", "round", "s_", "save", "savez", "savez_compressed", "searchsorted", "select",
    "set_printoptions", "setdiff1d", "setxor1d", "shape", "sign", "signbit", "signedinteger",
    "sin", "sinc", "single", "sinh", "size", "sort", "sort_complex", "spacing", "split", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take",
    "take_along_axis", "tan", "tanh", "tensordot", "tile", "trace", "transpose", "trapezoid",
    "tri", "tril", "tril_indices", "tril_indices_from", "trim_zeros", "triu", "triu_indices",
    "triu_indices_from", "true_divide", "trunc", "ufunc", "uint", "uint16", "uint2", "uint32",
    "uint4", "uint64", "uint8", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unpackbits", "unravel_index", "unsignedinteger",
    "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat", "vectorize", "vsplit",
    "vstack", "where", "zeros", "zeros_like",
]
# fmt: on

# Imported on first use, so that `import weft` stays cheap.
_LAZY_MODULES = ("fft", "linalg")
_LAZY_NAMES = {
    "frompyfunc": "weft.numpy.ufunc_methods",
    "packbits": "weft.numpy.bit_packing",
    "unpackbits": "weft.numpy.bit_packing",
    "load": "weft.numpy.files",
    "save": "weft.numpy.files",
    "savez": "weft.numpy.files",
    "savez_compressed": "weft.numpy.files",
    "c_": "weft.numpy.index_tricks",
    "index_exp": "weft.numpy.index_tricks",
    "mgrid": "weft.numpy.index_tricks",
    "ogrid": "weft.numpy.index_tricks",
    "r_": "weft.numpy.index_tricks",
    "s_": "weft.numpy.index_tricks",
    "array2string": "weft.numpy.known_values",
    "ascontiguousarray": "weft.numpy.known_values",
    "common_type": "weft.numpy.known_values",
    "min_scalar_type": "weft.numpy.known_values",
    "ndenumerate": "weft.numpy.known_values",
    "ndindex": "weft.numpy.known_values",
    "real_if_close": "weft.numpy.known_values",
    "poly": "weft.numpy.polynomials",
    "polyadd": "weft.numpy.polynomials",
    "polyder": "weft.numpy.polynomials",
    "polydiv": "weft.numpy.polynomials",
    "polyfit": "weft.numpy.polynomials",
    "polyint": "weft.numpy.polynomials",
    "polymul": "weft.numpy.polynomials",
    "polysub": "weft.numpy.polynomials",
    "polyval": "weft.numpy.polynomials",
    "roots": "weft.numpy.polynomials",
    "trim_zeros": "weft.numpy.polynomials",
    "vander": "weft.numpy.polynomials",
    "bartlett": "weft.numpy.windows",
    "blackman": "weft.numpy.windows",
    "hamming": "weft.numpy.windows",
    "hanning": "weft.numpy.windows",
    "kaiser": "weft.numpy.windows",
}


# A type checker sees the names above, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            return importlib.import_module(f"weft.numpy.{name}")
        if name in _LAZY_NAMES:
            found = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module 'weft.numpy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})
