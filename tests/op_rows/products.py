"""Rows of `ops.dot` and `ops.convolution`; convolutions have more tests in `test_convolution`."""

from __future__ import annotations

import numpy as np

from op_table import Arg, Op, between
from weft import dtypes
from weft.ops.products import convolution, dot

# The sum of a few products of numbers below 3, in units in the last place of 8.
SUMS = {"draw": between(-3, 3), "floor": 8, "elementwise": False}
NARROW = {np.dtype(np.float16): 1, dtypes.bfloat16: 1, None: 4}


def einsum(spec):
    """`np.einsum` in the dtype of the operands; of booleans, "or" of "and"."""

    def reference(x, y, **params):
        if x.dtype == y.dtype == np.bool_:
            return np.einsum(spec, x.astype(int), y.astype(int)) > 0
        return np.einsum(spec, x, y, dtype=x.dtype)

    return reference


def preferring(x, y, dimension_numbers, preferred_element_type):
    (left,), (right,) = dimension_numbers[0]
    return np.tensordot(x.astype(np.float64), y.astype(np.float64), (left, right)).astype(
        preferred_element_type
    )


def dot_row(name, spec, left, right, numbers, **fields):
    return Op(
        dot.dot_general,
        einsum(spec),
        dtypes.ANY,
        name=f"dot_general {name}",
        args=(Arg(left), Arg(right)),
        params={"dimension_numbers": numbers},
        ulps=NARROW,
        **SUMS | fields,
    )


DOTS = [
    dot_row("of matrices", "ij,jk->ik", (2, 3), (3, 4), (((1,), (0,)), ((), ()))),
    dot_row("transposed", "ji,kj->ik", (3, 2), (4, 3), (((0,), (1,)), ((), ()))),
    dot_row("of two contracted", "abc,cda->bd", (2, 3, 4), (4, 2, 2), (((2, 0), (0, 2)), ((), ()))),
    dot_row("with a batch", "abc,dbc->bad", (2, 3, 4), (2, 3, 4), (((2,), (2,)), ((1,), (1,)))),
    dot_row(
        "with two batches",
        "abcd,dbea->bace",
        (2, 3, 2, 2),
        (2, 3, 2, 2),
        (((3,), (0,)), ((1, 0), (1, 3))),
    ),
    dot_row("outer", "a,b->ab", (2,), (3,), (((), ()), ((), ()))),
    dot_row("elementwise", "ab,ba->ab", (2, 3), (3, 2), (((), ()), ((0, 1), (1, 0)))),
    dot_row("of nothing", "ij,jk->ik", (2, 0), (0, 3), (((1,), (0,)), ((), ())), order=0),
    Op(
        dot.dot_general,
        preferring,
        dtypes.REAL - {dtypes.float64},
        name="dot_general into float64",
        args=(Arg((2, 3)), Arg((3, 2))),
        ulps=2,
        weak="strong",
        refuses=False,
        **SUMS,
        params={
            "dimension_numbers": (((1,), (0,)), ((), ())),
            "preferred_element_type": np.float64,
        },
    ),
    Op(
        dot.dot_general,
        preferring,
        dtypes.FLOATING,
        name="dot_general into bfloat16",
        args=(Arg((2, 3)), Arg((3, 2))),
        ulps=2,
        weak="strong",
        refuses=False,
        order=0,
        **SUMS,
        params={
            "dimension_numbers": (((1,), (0,)), ((), ())),
            "preferred_element_type": dtypes.bfloat16,
        },
    ),
    Op(
        dot.dot_general,
        lambda x, y, dimension_numbers: x @ y,
        dtypes.COMPLEX,
        name="dot_general of real and complex",
        args=(Arg((2, 3), np.float64), Arg((3, 2), np.complex128)),
        params={"dimension_numbers": (((1,), (0,)), ((), ()))},
        ulps=4,
        weak=None,
        refuses=False,
        **SUMS,
    ),
    Op(
        dot.dot_general,
        lambda x, y, dimension_numbers: x @ y,
        dtypes.ANY - dtypes.COMPLEX,
        name="dot_general of mixed dtypes",
        args=(Arg((2, 3)), Arg((3, 2), np.float64)),
        params={"dimension_numbers": (((1,), (0,)), ((), ()))},
        ulps=4,
        weak=None,
        refuses=False,
        **SUMS,
    ),
    Op(dot.dot, einsum("i,i->"), dtypes.ANY, args=(Arg((4,)), Arg((4,))), ulps=NARROW, **SUMS),
    Op(
        dot.dot,
        einsum("ij,j->i"),
        dtypes.ANY,
        name="dot of matrix and vector",
        args=(Arg((2, 4)), Arg((4,))),
        ulps=NARROW,
        **SUMS,
    ),
    Op(
        dot.batch_matmul,
        einsum("abij,abjk->abik"),
        dtypes.ANY,
        args=(Arg((2, 1, 2, 3)), Arg((2, 1, 3, 2))),
        ulps=NARROW,
        **SUMS,
    ),
]


def correlated(x, k, **params):
    """A convolution of one spatial dimension without padding, by definition."""
    n = x.shape[2] - k.shape[2] + 1
    kind = np.int64 if x.dtype == np.bool_ else x.dtype
    x, k = x.astype(kind), k.astype(kind)
    found = np.stack(
        [np.einsum("nci,oci->no", x[:, :, i : i + k.shape[2]], k) for i in range(n)], -1
    )
    return found


def of_booleans(reference):
    def compared(x, k, **params):
        found = reference(x, k, **params)
        return found > 0 if x.dtype == np.bool_ else found

    return compared


CONVOLUTIONS = [
    Op(
        convolution.conv_general_dilated,
        of_booleans(correlated),
        dtypes.ANY,
        args=(Arg((2, 2, 4)), Arg((3, 2, 2))),
        ulps=NARROW,
        **SUMS,
        params={"window_strides": (1,), "padding": "VALID"},
    )
]

ROWS = [*DOTS, *CONVOLUTIONS]
