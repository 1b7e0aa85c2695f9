"""Every cast between every two dtypes, over special values, by every function that casts.

The reference is NumPy, where that says what the result is: beyond the range of an integer dtype,
where NumPy leaves it to the processor, the nearest end of the range, and zero for NaN. Subnormal
numbers are left out, which CPUs are set to take for zero, except as booleans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax

DTYPES = [
    *map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")),
    *map(np.dtype, ("uint64", "float16", "float32", "float64", "complex64", "complex128")),
    np.dtype(ml_dtypes.bfloat16),
]
_POWERS = [2.0**k for k in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64)]
FLOATS = [
    *(0.0, 0.5, 0.99999999, 1.0, 1.0000001, 1 / 3, 1.5, 2.5, 127.5, 255.5, 65504.0, 65519.9),
    *(65520.0, 3.4028235e38, 3.5e38, 1e20, 1e300, math.inf, math.nan, 1e-8, 2049.0, 257.0),
    *(1 + 2.0**-8, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-24, 1 + 3 * 2.0**-24),
    *_POWERS, *(p - 1 for p in _POWERS), *(p + 1 for p in _POWERS),
]  # fmt: skip
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, 300.0, 65520.0, 3.5e38, math.inf, math.nan, -1e20]


def values_of(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Special values of a dtype."""
    with np.errstate(all="ignore"):
        if dtype.kind == "b":
            return np.array([False, True])
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            powers = [int(p) + d for p in _POWERS for d in (-1, 0, 1)]
            signed = [s * n for n in (0, 1, 2, 3, *powers) for s in (1, -1)]
            found = {n for n in signed if info.min <= n <= info.max} | {info.min, info.max}
            return np.array(sorted(found), dtype)
        if dtype.kind == "c":
            return np.array([complex(a, b) for a in PARTS for b in PARTS]).astype(dtype)
        return np.array([s * x for x in FLOATS for s in (1, -1)]).astype(dtype)


def expected(values: Any, dtype: np.dtype[Any]) -> Any:
    """The values in a dtype, number by number where NumPy does not say."""
    with np.errstate(all="ignore"):
        if dtype.kind == "b":
            return values != 0
        if values.dtype.kind == "c" and dtype.kind != "c":
            values = values.real
        if dtype.kind not in "iu" or values.dtype.kind in "biu":
            return values.astype(dtype)
    info = np.iinfo(dtype)

    def one(x: float) -> int:
        if math.isnan(x):
            return 0
        return info.max if x >= info.max else info.min if x <= info.min else int(x)

    return np.array([one(float(x)) for x in values], dtype)


def check(out: Any, want: Any, values: Any) -> None:
    """Equal, zeros by their sign too."""
    out = np.asarray(out)
    assert out.dtype == want.dtype
    for part in ("real", "imag") if want.dtype.kind == "c" else ("",):
        a, b = (getattr(z, part) if part else z for z in (out, want))
        same = (a == b) & (np.signbit(a) == np.signbit(b)) if a.dtype.kind in "fV" else a == b
        same |= (a != a) & (b != b)
        assert same.all(), [*zip(values[~same], out[~same], want[~same], strict=True)][:5]


# Functions of an array, its values as NumPy has them, and the dtype.
CASTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "astype": lambda x, v, d: x.astype(d),
    "astype of NumPy": lambda x, v, d: jnp.astype(v, d),
    "asarray": lambda x, v, d: jnp.asarray(x, d),
    "asarray of NumPy": lambda x, v, d: jnp.asarray(v, d),
    "array of NumPy": lambda x, v, d: jnp.array(v, d),
    "convert_element_type": lambda x, v, d: lax.convert_element_type(x, d),
    "convert_element_type of NumPy": lambda x, v, d: lax.convert_element_type(v, d),
    "full": lambda x, v, d: jnp.full(len(v), v, d),
    "full_like": lambda x, v, d: jnp.full_like(x, v, d),
    "set": lambda x, v, d: jnp.zeros(len(v), d).at[:].set(x),
    "set at indices": lambda x, v, d: jnp.zeros(len(v), d).at[np.arange(len(v))].set(x),
    "concatenate": lambda x, v, d: jnp.concatenate([x], dtype=d),
    "concatenate of NumPy": lambda x, v, d: jnp.concatenate([v], dtype=d),
    "stack": lambda x, v, d: jnp.stack([x], dtype=d)[0],
    "sum": lambda x, v, d: jnp.sum(x[None], axis=0, dtype=d),
    "cumsum": lambda x, v, d: jnp.cumsum(x[None], axis=0, dtype=d)[0],
    "vmap": lambda x, v, d: weft.vmap(lambda y: y.astype(d))(x),
    "scalars": lambda x, v, d: jnp.stack([jnp.full((), y, d) for y in v]),
}
# These compile a program for each pair: from a few dtypes, and with a few values.
SLOW = ("scalars", "sum", "cumsum", "set at indices", "stack", "concatenate", "vmap")
FEW = [np.dtype(name) for name in ("int32", "uint8", "float32", "complex64")]
ROWS = [(name, dtype) for name in CASTS for dtype in (FEW if name in SLOW else DTYPES)]


@pytest.mark.parametrize(("name", "source"), ROWS, ids=lambda part: str(part))
def test_casts(name: str, source: np.dtype[Any]) -> None:
    values = values_of(source)
    if name in SLOW:
        values = values[:: max(1, len(values) // 16)]
    x = jnp.asarray(values, source)
    for dtype in DTYPES:
        if name in ("sum", "cumsum") and dtype.kind in "biu" and dtype.itemsize < 4:
            continue
        want, found = expected(values, dtype), np.asarray(CASTS[name](x, values, dtype))
        if name in ("sum", "cumsum"):  # whose zeros have any sign
            want, found = (y + np.zeros_like(want) for y in (want, found))
        check(found, want, values)


@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("how", ["jit", "scan", "jit of vmap", "closed over"])
def test_casts_in_programs(how: str, source: np.dtype[Any]) -> None:
    values = values_of(source)
    x = jnp.asarray(values, source)

    def all_casts(x: Any) -> list[Any]:
        return [x.astype(dtype) for dtype in DTYPES]

    out = {
        "jit": lambda: weft.jit(all_casts)(x),
        "scan": lambda: lax.scan(lambda c, y: (c, all_casts(y)), 0, x)[1],
        "jit of vmap": lambda: weft.jit(weft.vmap(all_casts))(x),
        "closed over": lambda: weft.jit(lambda: all_casts(jnp.asarray(x)))(),
    }[how]()
    for found, dtype in zip(out, DTYPES, strict=True):
        check(found, expected(values, dtype), values)


TRUTHS: dict[str, Callable[[Any], Any]] = {
    "astype": lambda x: x.astype(bool),
    "jit": weft.jit(lambda x: x.astype(bool)),
    "array": lambda x: jnp.array(x, dtype=bool),
    "where": lambda x: jnp.where(x, True, False),
    "logical_not": lambda x: ~jnp.logical_not(x),
    "logical_and": lambda x: jnp.logical_and(x, True),
    "any": lambda x: jnp.any(x[None], axis=0),
    "all": lambda x: jnp.all(x[None], axis=0),
    "set": lambda x: jnp.zeros(x.shape, bool).at[:].set(x),
}


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_what_is_not_zero_is_true(name: str, source: np.dtype[Any]) -> None:
    values = values_of(source)
    if source.kind in "fcV" and name in ("astype", "jit", "array"):
        least = np.array([5e-324, 1e-45, 6e-8], np.float64).astype(source)
        values = np.concatenate([values, least, -least])
    np.testing.assert_array_equal(TRUTHS[name](jnp.asarray(values, source)), values != 0)
