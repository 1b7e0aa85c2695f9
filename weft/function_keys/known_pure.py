"""What is known to be pure: the modules, functions and classes that code with a key may use.

Whatever is not named here, not weft's own and not written in Python, for the walk to read, may
depend on what no key can see: then a function that refers to it has no key. A list of what may be
dangerous could never be complete; from this one something useful can be missing, and costs a trace.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from typing import Any

import numpy as np

__all__ = [
    "impure", "is_global_of_weft", "is_pure_class", "is_pure_function", "is_pure_module",
    "is_unknown", "is_unknown_module", "pure_builtins", "unlisted_names",
]  # fmt: skip

# The folder of weft's own files.
_WEFT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

# What these modules have depends on arguments alone, but for the names below. Those that begin with
# an underscore are written in C.
_MODULES = frozenset(
    """
    _abc _bisect _collections _collections_abc _functools _heapq _operator abc bisect cmath
    collections collections.abc contextlib copy dataclasses enum fractions functools heapq itertools
    math ml_dtypes numbers operator re reprlib string types typing
    """.split()
)
# They read the namespaces of modules, and what classes were registered.
_BUT = frozenset(("get_cache_token", "get_type_hints"))

_BUILTINS = """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex delattr dict
    divmod enumerate filter float format frozenset getattr hasattr hash hex int isinstance
    issubclass iter len list map max min next object oct ord pow print property range repr reversed
    round set setattr slice sorted staticmethod str sum super tuple type zip
"""

# Of NumPy's functions those that depend on their arguments, and on how it treats floating-point
# errors, which keys contain. Its scalar classes, dtypes and constants are known by their class.
_NUMPY = """
    abs absolute acos acosh add all allclose amax amin angle any append apply_along_axis
    apply_over_axes arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    argpartition argsort argwhere around array array_equal array_equiv array_split asanyarray
    asarray ascontiguousarray asfortranarray asin asinh astype atan atan2 atanh atleast_1d
    atleast_2d atleast_3d average bartlett base_repr binary_repr bincount bitwise_and bitwise_count
    bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
    blackman block broadcast broadcast_arrays broadcast_shapes broadcast_to can_cast cbrt ceil
    choose clip column_stack common_type compress concat concatenate conj conjugate convolve copy
    copysign corrcoef correlate cos cosh count_nonzero cov cross cumprod cumsum cumulative_prod
    cumulative_sum deg2rad degrees delete diag diag_indices diag_indices_from diagflat diagonal diff
    digitize divide divmod dot dsplit dstack ediff1d einsum einsum_path empty_like equal exp exp2
    expand_dims expm1 extract eye fabs fill_diagonal finfo fix flatnonzero flip fliplr flipud
    float_power floor floor_divide fmax fmin fmod frexp frombuffer fromfunction full full_like gcd
    geomspace gradient greater greater_equal hamming hanning heaviside histogram histogram2d
    histogram_bin_edges histogramdd hsplit hstack hypot i0 identity iinfo imag indices inner insert
    interp intersect1d invert isclose iscomplex iscomplexobj isdtype isfinite isfortran isin isinf
    isnan isneginf isposinf isreal isrealobj isscalar issubdtype iterable ix_ kaiser kron lcm ldexp
    left_shift less less_equal lexsort linspace log log10 log1p log2 logaddexp logaddexp2
    logical_and logical_not logical_or logical_xor logspace mask_indices matmul matrix_transpose
    matvec max maximum mean median meshgrid min min_scalar_type minimum mod modf moveaxis multiply
    nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin
    nanpercentile nanprod nanquantile nanstd nansum nanvar ndenumerate ndim ndindex negative
    nextafter nonzero not_equal ones ones_like outer packbits pad partition percentile permute_dims
    piecewise poly polyadd polyder polydiv polyfit polyint polymul polysub polyval positive pow
    power prod promote_types ptp put put_along_axis quantile rad2deg radians ravel
    ravel_multi_index real real_if_close reciprocal remainder repeat require reshape resize
    result_type right_shift rint roll rollaxis roots rot90 round searchsorted select setdiff1d
    setxor1d shape sign signbit sin sinc sinh size sort sort_complex spacing split sqrt square
    squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace
    transpose trapezoid tri tril tril_indices tril_indices_from trim_zeros triu triu_indices
    triu_indices_from true_divide trunc union1d unique unique_all unique_counts unique_inverse
    unique_values unpackbits unravel_index unstack unwrap vander var vdot vecdot vecmat vectorize
    vsplit vstack where zeros zeros_like
"""
_NUMPY_MODULES = ("linalg", "fft")
# Not functions: constants, classes, and objects that are indexed.
_NUMPY_OTHER = frozenset(
    """
    c_ e euler_gamma index_exp inf mgrid nan newaxis ogrid pi r_ s_ dtype ndarray ufunc False_ True_
    """.split()
)


def pure_builtins() -> dict[str, Any]:
    """The builtins that are listed as pure, by name."""
    exceptions = {name: x for name, x in vars(builtins).items() if _is_exception(x)}
    return exceptions | {name: getattr(builtins, name) for name in _BUILTINS.split()}


@functools.cache
def _listed() -> dict[int, Any]:
    """The listed objects by their identities, and so kept."""
    found: list[Any] = list(pure_builtins().values())
    for module, names in (
        (np, [*_NUMPY.split(), *_NUMPY_OTHER]),
        *[(getattr(np, name), getattr(np, name).__all__) for name in _NUMPY_MODULES],
    ):
        found += [getattr(module, name) for name in names if hasattr(module, name)]
    found += [np.vectorize, *map(type, (np.r_, np.c_, np.s_, np.mgrid, np.ogrid))]
    found += [types.GenericAlias, types.UnionType, types.EllipsisType, types.NoneType]
    found += [type(NotImplemented), type(np.dtype), type(np.sum)]
    return {id(x): x for x in found}


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


# Functions of weft that read what no key contains: files, settings of how arrays are shown.
_impure: dict[int, Any] = {}


def impure(function: Any) -> Any:
    """Marks a function of weft that depends on more than its arguments and weft's settings."""
    _impure[id(function)] = function
    return function


@functools.lru_cache(maxsize=4096)
def _standing(name: str) -> tuple[bool, bool]:
    top = name.partition(".")[0]
    unknown = top in sys.stdlib_module_names or top in ("numpy", "jaxlib")
    return name in _MODULES or top == "weft", unknown


def is_pure_module(name: Any) -> bool:
    """Whether all of a module, by its name, is pure: a listed one, or one of weft's."""
    return isinstance(name, str) and _standing(name)[0]


def is_unknown_module(name: Any) -> bool:
    """Whether a module is Python's or NumPy's, so that its code is used where listed only."""
    return isinstance(name, str) and _standing(name)[1]


def is_pure_function(value: Any) -> bool:
    """Whether a function, written in C or Python, is listed, or is weft's."""
    if id(value) in _impure:
        return False
    if id(value) in _listed():
        return True
    if isinstance(value, types.FunctionType):
        if value.__code__.co_filename.startswith(_WEFT):
            return True
        module = value.__globals__.get("__name__")
    else:  # a function of a module that is written in C
        module = getattr(getattr(value, "__self__", None), "__name__", None)
    return module in _MODULES and value.__name__ not in _BUT


def is_global_of_weft(value: types.FunctionType) -> bool:
    """Whether a function is what weft's module has under its name: what it closes over was set when
    the module was loaded."""
    name = value.__module__
    if not isinstance(name, str) or name.partition(".")[0] != "weft":
        return False
    module = sys.modules.get(name)
    return module is not None and module.__dict__.get(value.__name__) is value


def is_unknown(value: types.FunctionType) -> bool:
    """Whether the code of a function that is not pure cannot be read: see `is_unknown_module`."""
    return id(value) in _impure or is_unknown_module(value.__globals__.get("__name__"))


def is_pure_class(cls: type) -> bool:
    """Whether the methods of a class depend on its objects and the arguments alone."""
    if id(cls) in _listed():
        return True
    module = cls.__module__
    if is_pure_module(module):
        return cls.__name__ not in _BUT
    # An array that is mapped to a file has a class of its own.
    known = (np.ndarray, np.generic, np.dtype, Exception)
    of_numpy = issubclass(cls, known) and cls is not np.memmap
    return of_numpy and str(module).partition(".")[0] == "numpy"


def unlisted_names(names: frozenset[str]) -> frozenset[str]:
    """Those of the names that NumPy has and that are not listed."""
    return frozenset(names & vars(np).keys()) - _known_names()


@functools.cache
def _known_names() -> frozenset[str]:
    classes = (np.generic, np.dtype, bool, int, float)
    known = {name for name, x in vars(np).items() if isinstance(x, type) and issubclass(x, classes)}
    return frozenset((*known, *_NUMPY.split(), *_NUMPY_MODULES)) | _NUMPY_OTHER
