"""Builders of StableHLO operations on shapes, products and algorithms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special

from stablehlo_programs import BF16, BOOL, COMPLEX, FLOATS, check, double, run, sample, tolerance
from weft.runtime import stablehlo
from weft.runtime.stablehlo import ConvDimensions, GatherDimensions

# ---- shape ---------------------------------------------------------------------------------------

SOME = [np.dtype("f4"), np.dtype("i8"), BOOL, BF16, np.dtype("c8")]


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_shape_operations(dtype):
    x = sample(dtype, (2, 3, 4))
    check(
        lambda v: stablehlo.broadcast_in_dim(v, (3, 2, 5), (1,)),
        [x[:, 0, 0]],
        np.broadcast_to(x[:, 0, 0][None, :, None], (3, 2, 5)),
        0,
    )
    check(lambda v: stablehlo.reshape(v, (4, 6)), [x], x.reshape(4, 6), 0)
    check(lambda v: stablehlo.transpose(v, (2, 0, 1)), [x], x.transpose(2, 0, 1), 0)
    check(lambda v: stablehlo.reverse(v, (0, 2)), [x], x[::-1, :, ::-1], 0)
    check(lambda v: stablehlo.concatenate([v, v, v], 1), [x], np.concatenate([x, x, x], 1), 0)
    check(lambda v: stablehlo.slice_(v, (0, 1, 0), (2, 3, 4)), [x], x[:, 1:3], 0)
    check(lambda v: stablehlo.slice_(v, (0, 0, 1), (2, 3, 4), (1, 2, 2)), [x], x[:, ::2, 1:4:2], 0)


def test_slices_of_nothing():
    x = sample("f4", (4,))
    check(lambda v: stablehlo.slice_(v, (2,), (2,)), [x], x[2:2], 0)


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_pad(dtype):
    x, fill = sample(dtype, (3,)), np.ones((), dtype)
    apart = np.array([1, 1, x[0], 1, x[1], 1, x[2], 1]).astype(dtype)
    check(lambda v, p: stablehlo.pad(v, p, (2,), (1,), (1,)), [x, fill], apart, 0)
    check(lambda v, p: stablehlo.pad(v, p, (-1,), (-1,)), [x, fill], x[1:2], 0)
    check(
        lambda v, p: stablehlo.pad(v, p, (-2,), (3,), (1,)),
        [x, fill],
        apart[4:].repeat(1)[[0, 1, 2, 3, 3, 3]],
        0,
    )


def test_dynamic_slices():
    x = sample("f4", (5, 6))
    at = [np.int32(1), np.int32(2)]
    check(lambda v, i, j: stablehlo.dynamic_slice(v, (i, j), (2, 3)), [x, *at], x[1:3, 2:5], 0)
    far = [np.int32(9), np.int32(-4)]
    check(lambda v, i, j: stablehlo.dynamic_slice(v, (i, j), (2, 3)), [x, *far], x[3:5, 0:3], 0)
    update, expected = sample("f4", (2, 3), seed=2), x.copy()
    expected[1:3, 2:5] = update
    check(
        lambda v, u, i, j: stablehlo.dynamic_update_slice(v, u, (i, j)),
        [x, update, *at],
        expected,
        0,
    )


def test_gather_rows_and_windows():
    x, rows = sample("f4", (5, 3)), np.array([[4], [0], [2]], np.int32)
    take = GatherDimensions(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=1
    )
    check(lambda v, i: stablehlo.gather(v, i, take, (1, 3)), [x, rows], x[rows[:, 0]], 0)
    windows = GatherDimensions(offset_dims=(0, 2), start_index_map=(0, 1), index_vector_dim=1)
    starts = np.array([[0, 1], [3, 0], [1, 1]], np.int32)
    expected = np.stack([x[i : i + 2, j : j + 2] for i, j in starts], axis=1)
    check(lambda v, i: stablehlo.gather(v, i, windows, (2, 2)), [x, starts], expected, 0)


def test_gather_with_batching_dimensions_and_scalar_indices():
    x, picks = sample("f4", (4, 6)), np.array([[5, 0], [1, 1], [2, 3], [0, 4]], np.int32)
    batched = GatherDimensions(
        collapsed_slice_dims=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
        start_index_map=(1,),
        index_vector_dim=2,
    )
    expected = np.take_along_axis(x, picks, 1)
    check(lambda v, i: stablehlo.gather(v, i, batched, (1, 1), True), [x, picks], expected, 0)


# ---- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, np.dtype("i4"), np.dtype("u1")], ids=str)
def test_dot_general(dtype):
    x, y = sample(dtype, (2, 3, 4)), sample(dtype, (2, 4, 5), seed=1)
    expected = np.einsum("bij,bjk->bik", double(x), double(y)).astype(dtype)
    limit = 10 * tolerance(dtype)
    check(
        lambda a, b: stablehlo.dot_general(a, b, ((2,), (1,)), ((0,), (0,))),
        [x, y],
        expected,
        limit,
    )
    check(
        lambda a, b: stablehlo.dot_general(a, b, ((1,), (0,)), precision="highest"),
        [x[0], y[0]],
        (double(x[0]) @ double(y[0])).astype(dtype),
        limit,
    )


def test_dot_general_with_a_wider_result():
    x, y = sample("i1", (3, 4), -100, 100), sample("i1", (4, 2), -100, 100, seed=1)
    expected = x.astype("i4") @ y.astype("i4")
    check(lambda a, b: stablehlo.dot_general(a, b, ((1,), (0,)), dtype="i4"), [x, y], expected)
    x, y = sample(BF16, (3, 4)), sample(BF16, (4, 2), seed=1)
    expected = x.astype("f4") @ y.astype("f4")
    check(
        lambda a, b: stablehlo.dot_general(
            a, b, ((1,), (0,)), dtype="f4", precision=("high", "default")
        ),
        [x, y],
        expected,
        1e-6,
    )


NCHW = ConvDimensions(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))


def convolve(x, k, stride=(1, 1), pad=((0, 0), (0, 0)), dilation=(1, 1), groups=1):
    """The reference: NCHW with OIHW kernels."""
    x = np.pad(x, ((0, 0), (0, 0), *pad))
    spread = np.zeros(
        (*k.shape[:2], *((n - 1) * d + 1 for n, d in zip(k.shape[2:], dilation, strict=True)))
    )
    spread[:, :, :: dilation[0], :: dilation[1]] = k
    height, width = spread.shape[2:]
    rows = (x.shape[2] - height) // stride[0] + 1
    columns = (x.shape[3] - width) // stride[1] + 1
    out = np.zeros((x.shape[0], k.shape[0], rows, columns))
    inside, outside = x.shape[1] // groups, k.shape[0] // groups
    for g in range(groups):
        for i in range(rows):
            for j in range(columns):
                top, left = i * stride[0], j * stride[1]
                part = x[:, g * inside : (g + 1) * inside, top : top + height, left : left + width]
                kernel = spread[g * outside : (g + 1) * outside]
                out[:, g * outside : (g + 1) * outside, i, j] = np.einsum(
                    "nchw,ochw->no", part, kernel
                )
    return out


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8"), BF16], ids=str)
@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"),
    [
        ((1, 1), ((0, 0), (0, 0)), (1, 1), 1),
        ((2, 1), ((1, 2), (0, 1)), (1, 2), 1),
        ((1, 1), ((1, 1), (1, 1)), (1, 1), 2),
    ],
)
def test_convolution(dtype, stride, pad, dilation, groups):
    x, k = sample(dtype, (2, 4, 6, 7)), sample(dtype, (6, 4 // groups, 3, 2), seed=1)
    expected = convolve(double(x), double(k), stride, pad, dilation, groups).astype(dtype)

    def build(a, b):
        made = stablehlo.tensor_type(expected.shape, dtype)
        return stablehlo.convolution(
            a,
            b,
            made,
            NCHW,
            strides=stride,
            padding=pad,
            rhs_dilation=dilation,
            feature_group_count=groups,
        )

    check(build, [x, k], expected, 20 * tolerance(dtype))


def test_convolution_with_negative_padding_dilated_input_and_reversal():
    x, k = sample("f8", (1, 1, 5, 5)), sample("f8", (1, 1, 2, 2), seed=1)
    grown = np.zeros((1, 1, 9, 9))
    grown[:, :, ::2, ::2] = x
    expected = convolve(grown[:, :, 1:, :-1], k[:, :, ::-1, ::-1])

    def build(a, b):
        return stablehlo.convolution(
            a,
            b,
            stablehlo.tensor_type(expected.shape, "f8"),
            NCHW,
            strides=(1, 1),
            padding=((-1, 0), (0, -1)),
            lhs_dilation=(2, 2),
            window_reversal=(True, True),
        )

    check(build, [x, k], expected)


# ---- numerical algorithms ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_fft(dtype):
    x = sample(dtype, (2, 4, 6))
    limit = 10 * tolerance(dtype)
    check(lambda v: stablehlo.fft(v, "FFT", (6,)), [x], np.fft.fft(double(x)).astype(dtype), limit)
    check(
        lambda v: stablehlo.fft(v, "IFFT", (4, 6)),
        [x],
        np.fft.ifft2(double(x)).astype(dtype),
        limit,
    )
    real = x.real.copy()
    half = np.fft.rfft(double(real)).astype(dtype)
    check(lambda v: stablehlo.fft(v, "RFFT", (6,)), [real], half, limit)
    check(lambda v: stablehlo.fft(v, "IRFFT", (6,)), [half], real, limit)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8"), *COMPLEX], ids=str)
def test_cholesky_and_triangular_solve(dtype):
    a = sample(dtype, (2, 3, 3))
    a = (a @ a.conj().swapaxes(1, 2) + 3 * np.eye(3)).astype(dtype)
    limit = 20 * tolerance(dtype)
    found = run(lambda v: stablehlo.cholesky(v), [a], a)
    np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(a), rtol=limit, atol=limit)
    low, b = np.tril(a[0]), sample(dtype, (3, 2), seed=1)
    for transpose, trans in (("NO_TRANSPOSE", 0), ("TRANSPOSE", 1), ("ADJOINT", 2)):
        expected = scipy.linalg.solve_triangular(low, b, trans=trans, lower=True).astype(dtype)

        def build(m, v, transpose=transpose):
            return stablehlo.triangular_solve(
                m, v, left_side=True, lower=True, transpose_a=transpose
            )

        check(build, [low, b], expected, limit)
    right = scipy.linalg.solve_triangular(low, b, trans=1, lower=True, unit_diagonal=True).T
    check(
        lambda m, v: stablehlo.triangular_solve(
            m, v, left_side=False, lower=True, unit_diagonal=True
        ),
        [low, np.ascontiguousarray(b.T)],
        np.ascontiguousarray(right.astype(dtype)),
        limit,
    )


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
def test_random_bits_are_reproducible_and_even(algorithm):
    state = np.array([1, 2] if algorithm == "THREE_FRY" else [1, 2, 3], np.uint64)

    def build(v):
        return stablehlo.rng_bit_generator(v, (1000,), np.uint32, algorithm)

    shapes = [state, np.zeros(1000, np.uint32)]
    (after, bits), (_, again) = run(build, [state], shapes), run(build, [state], shapes)
    assert np.array_equal(bits, again) and not np.array_equal(after, state)
    ones = np.unpackbits(bits.view(np.uint8)).mean()
    assert 0.48 < ones < 0.52


def test_top_k():
    x = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], np.float32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :3].astype(np.int32)
    expected = [np.take_along_axis(x, order, 1), order]
    check(lambda v: stablehlo.top_k(v, 3), [x], expected, 0)
