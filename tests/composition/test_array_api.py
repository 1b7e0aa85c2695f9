"""The Array API standard, version 2024.12: every function with the standard's arguments, what the
namespace says about itself, and what arrays have.

The table has the signatures of the standard; array-api-strict, where it is installed, is the peer.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import WeftValueError

pytestmark = pytest.mark.fast

# Arguments before the slash are given by position only, those behind the star by keyword only.
# Functions with the same arguments stand together.
SIGNATURES = {
    "x, /": "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 "
    "floor imag isfinite isinf isnan log log1p log2 log10 logical_not negative positive real "
    "reciprocal round sign signbit sin sinh sqrt square tan tanh trunc matrix_transpose nonzero "
    "unique_all unique_counts unique_inverse unique_values",
    "x1, x2, /": "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift "
    "bitwise_xor copysign divide equal floor_divide greater greater_equal hypot less less_equal "
    "logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow "
    "remainder subtract matmul",
    "x, /, min, max": "clip",
    "x, /, *, dtype, device": "empty_like ones_like zeros_like",
    "x, /, fill_value, *, dtype, device": "full_like",
    "shape, *, dtype, device": "empty ones zeros",
    "shape, fill_value, *, dtype, device": "full",
    "start, /, stop, step, *, dtype, device": "arange",
    "start, stop, /, num, *, dtype, device, endpoint": "linspace",
    "obj, /, *, dtype, device, copy": "asarray",
    "n_rows, n_cols, /, *, k, dtype, device": "eye",
    "x, /, *, device, copy": "from_dlpack",
    "*arrays, indexing": "meshgrid",
    "x, /, *, k": "tril triu",
    "x, dtype, /, *, copy, device": "astype",
    "*arrays": "broadcast_arrays",
    "x, /, shape": "broadcast_to",
    "from_, to, /": "can_cast",
    "type, /": "finfo iinfo",
    "dtype, kind": "isdtype",
    "*arrays_and_dtypes": "result_type",
    "x, indices, /, *, axis": "take take_along_axis",
    "x1, x2, /, *, axes": "tensordot",
    "x1, x2, /, *, axis": "vecdot",
    "arrays, /, *, axis": "concat stack",
    "x, /, *, axis": "expand_dims flip unstack",
    "x, source, destination, /": "moveaxis",
    "x, /, axes": "permute_dims",
    "x, repeats, /, *, axis": "repeat",
    "x, /, shape, *, copy": "reshape",
    "x, /, shift, *, axis": "roll",
    "x, /, axis": "squeeze",
    "x, repetitions, /": "tile",
    "x, /, *, axis, keepdims": "argmax argmin count_nonzero all any max mean min",
    "x1, x2, /, *, side, sorter": "searchsorted",
    "condition, x1, x2, /": "where",
    "x, /, *, axis, descending, stable": "argsort sort",
    "x, /, *, axis, dtype, include_initial": "cumulative_prod cumulative_sum",
    "x, /, *, axis, dtype, keepdims": "prod sum",
    "x, /, *, axis, correction, keepdims": "std var",
    "x, /, *, axis, n, prepend, append": "diff",
}
LINALG = {
    "x, /, *, upper": "cholesky",
    "x1, x2, /, *, axis": "cross vecdot",
    "x, /": "det eigh eigvalsh inv matrix_transpose slogdet svdvals",
    "x, /, *, offset": "diagonal",
    "x1, x2, /": "matmul outer solve",
    "x, /, *, keepdims, ord": "matrix_norm",
    "x, n, /": "matrix_power",
    "x, /, *, rtol": "matrix_rank pinv",
    "x, /, *, mode": "qr",
    "x, /, *, full_matrices": "svd",
    "x1, x2, /, *, axes": "tensordot",
    "x, /, *, offset, dtype": "trace",
    "x, /, *, axis, keepdims, ord": "vector_norm",
}
FFT = {
    "x, /, *, n, axis, norm": "fft ifft rfft irfft hfft ihfft",
    "x, /, *, s, axes, norm": "fftn ifftn rfftn irfftn",
    "n, /, *, d, dtype, device": "fftfreq rfftfreq",
    "x, /, *, axes": "fftshift ifftshift",
}
CONSTANTS = ["e", "inf", "nan", "newaxis", "pi"]
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
]


def rows():
    for space, table in (("", SIGNATURES), ("linalg.", LINALG), ("fft.", FFT)):
        for arguments, names in table.items():
            for name in names.split():
                yield space + name, arguments


def lookup(namespace, name):
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


def positional_and_keywords(arguments):
    positional, keywords, only = 0, [], False
    fields = [a.strip() for a in arguments.split(",")]
    slash = fields.index("/") if "/" in fields else 0
    for place, field in enumerate(fields):
        if field.startswith("*"):
            only = True
        elif field != "/":
            positional += not only
            if place > slash:
                keywords.append(field)
    return positional, keywords, fields[0].startswith("*")


@pytest.mark.parametrize(("name", "arguments"), list(rows()))
def test_signatures(name, arguments):
    """What the standard lets a program pass by position and by keyword can be passed so."""
    signature = inspect.signature(lookup(jnp, name))
    positional, keywords, any_number = positional_and_keywords(arguments)
    if any_number:
        signature.bind(*range(5), **dict.fromkeys(keywords))
    else:
        by_place = [f for f in arguments.replace(" ", "").split(",") if f not in "/*"]
        count = len(by_place) - len(keywords)
        signature.bind(*range(count), **dict.fromkeys(keywords))
        signature.bind(*range(positional), **dict.fromkeys(keywords[positional - count :]))


def test_the_table_is_that_of_the_peer():
    strict = pytest.importorskip("array_api_strict")
    ours = {name for name, _ in rows()} | set(CONSTANTS) | set(DTYPES)
    theirs = set()
    for space in ("", "linalg.", "fft."):
        namespace = lookup(strict, space[:-1]) if space else strict
        theirs |= {space + n for n in namespace.__all__ if not n.startswith("_")}
    # The last two came with version 2025.12.
    own = {"ArrayAPIStrictFlags", "Device", "linalg", "fft", "broadcast_shapes", "isin"}
    own |= {n for n in theirs if n.endswith("_array_api_strict_flags")}
    assert theirs - own - ours == set()


def test_constants_and_dtypes():
    for name in CONSTANTS:
        assert getattr(jnp, name) is getattr(np, name)
    for name in DTYPES:
        assert jnp.dtype(getattr(jnp, name)) == np.dtype(name)


def test_the_namespace_of_arrays():
    assert jnp.__array_api_version__ == "2024.12"
    x = jnp.ones((2, 3))
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(WeftValueError, match="2024"):
        x.__array_namespace__(api_version="2099.12")
    weft.jit(lambda t: [t.__array_namespace__().sin(t)])(x)


def test_what_the_namespace_says_of_itself():
    info = jnp.__array_namespace_info__()
    now = {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.capabilities() == now
    seen = []
    weft.jit(lambda x: seen.append(info.capabilities()) or x)(1.0)
    assert seen[0]["boolean indexing"] is False
    assert info.default_device() == jnp.ones(1).device and info.devices() == weft.devices()
    assert list(info.dtypes()) == DTYPES and info.dtypes(kind="bool") == {"bool": np.dtype(bool)}
    assert list(info.dtypes(kind=("complex floating", "bool")))[0] == "bool"
    assert len(info.dtypes(kind="numeric")) == len(DTYPES) - 1
    for wide in (False, True):
        with weft.enable_x64(wide):
            found = info.default_dtypes(device=info.default_device())
            assert found["real floating"] == jnp.ones(1).dtype
            assert found["complex floating"] == jnp.asarray([1j]).dtype
            assert found["integral"] == jnp.asarray([1]).dtype
            assert found["indexing"] == jnp.argsort(jnp.ones(2)).dtype or not wide
    with pytest.raises(WeftValueError, match="device"):
        info.dtypes(device="cpu")


OPERATORS = """
    abs add and bool complex eq float floordiv ge getitem gt index int invert le lshift lt matmul
    mod mul ne neg or pos pow rshift setitem sub truediv xor radd rand rfloordiv rlshift rmatmul
    rmod rmul ror rpow rrshift rsub rtruediv rxor dlpack dlpack_device array_namespace
""".split()


def test_members_of_arrays():
    x = jnp.arange(6).reshape(2, 3)
    for name in OPERATORS:
        assert hasattr(type(x), f"__{name}__")
    assert (x.ndim, x.size, x.shape, x.dtype) == (2, 6, (2, 3), np.dtype("int32"))
    assert x.T.shape == x.mT.shape == (3, 2)
    moved = x.to_device(weft.devices()[-1])
    assert moved.device == weft.devices()[-1]
    np.testing.assert_array_equal(moved, x)
    y = x
    y += 1  # a new array under the name
    assert int(x[0, 0]) == 0 and int(y[0, 0]) == 1


def test_dlpack_takes_the_arguments_of_the_standard():
    x = jnp.arange(3.0)
    host = np.from_dlpack(x, copy=True)
    np.testing.assert_array_equal(host, x)
    assert host.ctypes.data != x.unsafe_buffer_pointer()
    shared = np.from_dlpack(x, device="cpu")
    assert shared.ctypes.data == x.unsafe_buffer_pointer()
    x.__dlpack__(stream=None, max_version=(1, 0), dl_device=x.__dlpack_device__(), copy=None)
    with pytest.raises(BufferError, match="to_device"):
        x.__dlpack__(dl_device=(2, 0))
