"""Rows of `ops.rounding`, `ops.complex`, `ops.selection` and `ops.convert`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, any_bits, away, between, integers, widened
from weft import dtypes
from weft.ops.elementwise import complex, convert, rounding, selection
from weft.ops.structural import tangents
from weft.testing import exact_array

R, C = dtypes.FLOATING, dtypes.COMPLEX
METHOD = rounding.RoundingMethod
REAL_WIDE = frozenset({dtypes.float32, dtypes.float64})
halves = integers(-6, 6)
BOOL = Arg(dtype=np.bool_)


def half_integers(generator, shape, dtype):
    return (integers(-9, 9)(generator, shape, np.float64) / 2).astype(dtype)


def away_from_zero(x, rounding_method):
    return np.trunc(x + np.copysign(0.5, x))


def converted(x, new_dtype):
    """What NumPy makes of it: with booleans by comparing, complex to real by the real part."""
    if new_dtype == np.bool_:
        return x != 0
    if np.iscomplexobj(x) and new_dtype.kind != "c":
        x = x.real
    return widened(x.astype(new_dtype))


def nextafter_is_exact(row, dtype):
    x, y = row.host_operands(dtype)
    want = neighbour(x, y) if dtype == dtypes.bfloat16 else np.nextafter(x, y)
    np.testing.assert_array_equal(np.asarray(row.call(*map(exact_array, (x, y)))), want)


def neighbour(x, y):
    """The next bfloat16 after x towards y, by its bits (for x other than zero)."""
    bits = x.view(np.int16) + np.where((y > x) == (x > 0), 1, -1).astype(np.int16)
    return np.where(x == y, x, bits.view(x.dtype))


def bounded(low, high):
    """Numbers of a range, moved up where the dtype has no negative ones."""

    def draw(generator, shape, dtype):
        up = 4 if np.dtype(dtype).kind == "u" else 0
        return away((-1, 1, -2, 2), 0.05, between(low + up, high + up))(generator, shape, dtype)

    return draw


ROWS = [
    Op(rounding.floor, np.floor, R, ulps=0),
    Op(rounding.ceil, np.ceil, R, ulps=0),
    Op(rounding.round, away_from_zero, R, draw=half_integers, grad_draw=between(0.1, 0.4), ulps=0,
       params={"rounding_method": METHOD.AWAY_FROM_ZERO}, name="round away from zero"),
    Op(rounding.round, lambda x, rounding_method: np.rint(x), R, draw=half_integers, ulps=0,
       grad_draw=between(0.1, 0.4), params={"rounding_method": METHOD.TO_NEAREST_EVEN},
       name="round to even"),
    Op(rounding.is_finite, np.isfinite, R),
    Op(rounding.nextafter, None, R, arity=2, draw=away((0,), 0.2, between(-3, 3)), order=0,
       property_of=nextafter_is_exact),
    Op(complex.real, np.real, C, ulps=0.5),
    Op(complex.imag, np.imag, C, ulps=0.5),
    Op(complex.conj, np.conj, C, ulps=0, refuses=False),
    Op(complex.conj, lambda x: x.astype(np.complex128), R, name="conj of real numbers", ulps=0,
       weak=None, refuses=False),
    Op(complex.complex, lambda x, y: x + 1j * y, REAL_WIDE, arity=2, ulps=0.5, specials=False),
    Op(selection.select, np.where, dtypes.ANY, args=(BOOL, Arg(), Arg()),
       elementwise=False, ulps=0.5),
    Op(selection.select, np.where, dtypes.ANY, name="select by one boolean",
       args=(Arg((), np.bool_), Arg(), Arg()), elementwise=False, ulps=0.5),
    Op(selection.select_n, lambda p, x, y: np.where(p, y, x), dtypes.ANY,
       args=(BOOL, Arg(), Arg()), elementwise=False, ulps=0.5),
    Op(selection.select_n, lambda p, *cases: np.choose(p, cases), dtypes.ANY, ulps=0.5,
       name="select_n of four", elementwise=False,
       args=(Arg(dtype=np.int32, draw=integers(0, 3)), Arg(), Arg(), Arg(), Arg())),
    Op(selection.clamp, lambda low, x, high: np.minimum(np.maximum(x, low), high), dtypes.ORDERED,
       arity=3, draw=(bounded(-2, -1), bounded(-3, 3), bounded(1, 2)),
       ulps=0.5, specials=False),
    *(
        Op(convert.convert_element_type, converted, accepts, name=f"convert to {new}",
           params={"new_dtype": np.dtype(new)}, ulps=0.5, weak="strong",
           draw=away((0,), 0.2, between(0 if new.startswith("uint") else -3, 3)),
           specials=False, refuses=False)
        for new, accepts in (
            ("bool", dtypes.ANY), ("int8", dtypes.ANY), ("uint32", dtypes.ANY),
            ("int64", dtypes.ANY), ("float16", dtypes.ANY), ("float32", dtypes.ANY),
            ("float64", dtypes.ANY),
            ("complex64", dtypes.ANY), ("complex128", dtypes.ANY),
            ("float8_e4m3fn", dtypes.FLOATING),
        )
    ),
    Op(convert.bitcast_convert_type, lambda x, new_dtype: x.view(new_dtype), dtypes.INTEGER,
       name="bitcast to itself unsigned", params={"new_dtype": np.dtype("u4")}, weak="strong",
       args=(Arg((2, 3), np.int32, any_bits),), elementwise=False, refuses=False, order=0),
    Op(convert.bitcast_convert_type,
       lambda x, new_dtype: x.view(new_dtype).reshape(2, 3, 4), frozenset({dtypes.int32}),
       name="bitcast to narrower", params={"new_dtype": np.dtype("u1")}, weak="strong",
       draw=any_bits, elementwise=False, refuses=False, order=0),
    Op(convert.bitcast_convert_type, lambda x, new_dtype: x.view(new_dtype).reshape(2, 3),
       frozenset({dtypes.uint8}), args=(Arg((2, 3, 4)),), name="bitcast to wider",
       params={"new_dtype": np.dtype("i4")}, weak="strong", draw=any_bits, elementwise=False,
       refuses=False, order=0),
    Op(convert.stop_gradient, lambda x: x, dtypes.INEXACT, ulps=0, order=0, refuses=False),
    Op(tangents.add_tangents, np.add, dtypes.INEXACT, arity=2, ulps=1, elementwise=False,
       refuses=False),
    Op(convert.reduce_precision,
       lambda x, exponent_bits, mantissa_bits: x.astype(np.float16).astype(x.dtype),
       dtypes.FLOATING, params={"exponent_bits": 5, "mantissa_bits": 10}, ulps=0.5, order=0),
]  # fmt: skip
