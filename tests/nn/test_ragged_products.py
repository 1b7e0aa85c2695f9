"""`ragged_dot`, `ragged_dot_general` and products with scales, against loops over groups."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import DTypeError, ShapeError
from weft.testing import check_grads

RNG = np.random.default_rng(3)
Numbers = lax.RaggedDotDimensionNumbers


def drawn(*shape):
    return RNG.normal(size=shape)


def by_group(lhs, rhs, sizes):
    """Rows (m, k) times the matrices (g, k, n) of their groups."""
    out, start = np.zeros((lhs.shape[0], rhs.shape[2])), 0
    for size, matrix in zip(sizes, rhs, strict=True):
        out[start : start + size] = lhs[start : start + size] @ matrix
        start += size
    return out


def sums_by_group(lhs, rhs, sizes):
    """The products of the rows of each group, (m, k) and (m, n)."""
    bounds = zip(np.cumsum(sizes) - sizes, np.cumsum(sizes), strict=True)
    return np.stack([lhs[low:high].T @ rhs[low:high] for low, high in bounds])


# Groups of any lengths: empty ones, one that has all rows, and rows that are in none.
SIZES = [
    (37, [5, 0, 20, 12]),
    (37, [0, 0, 0, 37]),
    (37, [37, 0, 0, 0]),
    (40, [1, 2, 3, 4]),
    (300, [100, 1, 99, 100]),
    (64, [16, 16, 16, 16]),
    (5, [0, 0, 0, 0]),
    (1, [0, 1, 0, 0]),
]


@pytest.mark.parametrize(("rows", "sizes"), SIZES)
def test_each_group_has_a_matrix_of_its_own(rows, sizes):
    x, w = drawn(rows, 6), drawn(4, 6, 3)
    found = weft.jit(lax.ragged_dot)(x, w, np.array(sizes))
    np.testing.assert_allclose(found, by_group(x, w, sizes), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "sizes"), SIZES)
def test_each_group_has_a_sum_of_its_own(rows, sizes):
    x, y = drawn(rows, 6), drawn(rows, 3)
    numbers = Numbers((((0,), (0,)), ((), ())), (0,), ())
    found = lax.ragged_dot_general(x, y, np.array(sizes), numbers)
    np.testing.assert_allclose(found, sums_by_group(x, y, sizes), rtol=1e-5, atol=1e-5)


def test_rows_of_other_groups_do_not_matter():
    x, w = drawn(8, 2), drawn(2, 2, 2)
    x[3], w[1, 0, 0] = np.inf, np.nan
    found = np.asarray(lax.ragged_dot(x, w, np.array([3, 0])))
    np.testing.assert_allclose(found, by_group(x[:], w[:1], [3]), rtol=1e-5)
    numbers = Numbers((((0,), (0,)), ((), ())), (0,), ())
    sums = lax.ragged_dot_general(x, x, np.array([3, 0]), numbers)
    np.testing.assert_allclose(sums, sums_by_group(x, x, [3, 0]), rtol=1e-5)


def test_derivatives():
    x, w, sizes = drawn(20, 3), drawn(3, 3, 2), np.array([4, 9, 5])
    with weft.enable_x64():
        wide = [jnp.asarray(v, "float64") for v in (x, w)]
        check_grads(lambda x, w: lax.ragged_dot(x, w, sizes), wide, order=2, modes=("fwd", "rev"))
        numbers = Numbers((((0,), (0,)), ((), ())), (0,), ())
        other = jnp.asarray(drawn(20, 2), "float64")
        check_grads(
            lambda x, y: lax.ragged_dot_general(x, y, sizes, numbers), [wide[0], other], order=2
        )


def test_it_is_mapped_over_rows_matrices_and_sizes():
    x, w = drawn(2, 9, 3), drawn(2, 3, 3, 2)
    sizes = np.array([[3, 2, 4], [0, 8, 1]])
    wanted = np.stack([by_group(*one) for one in zip(x, w, sizes, strict=True)])
    np.testing.assert_allclose(weft.vmap(lax.ragged_dot)(x, w, sizes), wanted, rtol=1e-5, atol=1e-6)
    only = weft.vmap(lax.ragged_dot, (None, None, 0))(x[0], w[0], sizes)
    wanted = np.stack([by_group(x[0], w[0], one) for one in sizes])
    np.testing.assert_allclose(only, wanted, rtol=1e-5, atol=1e-6)


def test_all_places_of_the_ragged_dimension():
    x, sizes = drawn(4, 2, 3), np.array([1, 3])
    # Kept, with a dimension after it; the groups are those of the first dimension.
    w = drawn(2, 3, 5)
    found = lax.ragged_dot_general(x, w, sizes, Numbers((((2,), (1,)), ((), ())), (0,), (0,)))
    wanted = np.stack([x[i] @ w[0 if i < 1 else 1] for i in range(4)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    # Kept, with a dimension before it, of which each element has groups of its own.
    each = np.array([[1, 1], [2, 0], [0, 2], [1, 1]])
    found = lax.ragged_dot_general(x, w, each, Numbers((((2,), (1,)), ((), ())), (1,), (0,)))
    wanted = np.stack([by_group(x[i], w, each[i]) for i in range(4)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    # Kept, beside a batch dimension.
    w = drawn(4, 2, 3, 5)
    numbers = Numbers((((2,), (2,)), ((0,), (0,))), (1,), (1,))
    found = lax.ragged_dot_general(x, w, each, numbers)
    wanted = np.stack([by_group(x[i], w[i], each[i]) for i in range(4)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    # Summed, among other summed dimensions.
    numbers = Numbers((((0, 1), (0, 1)), ((), ())), (0,), ())
    found = lax.ragged_dot_general(x, x, sizes, numbers)
    wanted = np.stack([np.einsum("abk,abn->kn", x[s], x[s]) for s in (slice(1), slice(1, 4))])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    # A batch dimension: the groups change nothing.
    numbers = Numbers((((2,), (2,)), ((0,), (0,))), (0,), ())
    found = lax.ragged_dot_general(x, x, sizes, numbers)
    np.testing.assert_allclose(found, np.einsum("aik,ajk->aij", x, x), rtol=1e-5)


def test_dtypes_are_those_of_products():
    x, w, sizes = np.ones((4, 3), np.float16), np.ones((2, 3, 2), np.float16), np.array([1, 3])
    assert lax.ragged_dot(x, w, sizes).dtype == "float16"
    assert lax.ragged_dot(x, w, sizes, preferred_element_type="float32").dtype == "float32"
    assert lax.ragged_dot(x.astype("int8"), w.astype("int8"), sizes).dtype == "int8"
    # Sums of 16-bit numbers are kept in 32 bits, over blocks too.
    ones = jnp.ones((5000, 1), "bfloat16")
    numbers = Numbers((((0,), (0,)), ((), ())), (0,), ())
    found = lax.ragged_dot_general(ones, ones, np.array([4096, 904]), numbers)
    np.testing.assert_array_equal(np.asarray(found).ravel().astype(float), [4096, 904])


def test_operands_that_do_not_fit_are_refused():
    x, w = np.ones((4, 3)), np.ones((2, 3, 2))
    for wrong in (
        lambda: lax.ragged_dot(x[:, :2], w, np.array([1, 3])),
        lambda: lax.ragged_dot(x, w, np.array([1, 3, 0])),
        lambda: lax.ragged_dot(x[None], w, np.array([1, 3])),
        lambda: lax.ragged_dot_general(
            x, w, np.array([1, 3]), Numbers((((1,), (1,)), ((), ())), (0,), ())
        ),
        lambda: lax.ragged_dot_general(
            x, w, np.array([1, 3]), Numbers((((1,), (1,)), ((), ())), (0, 1), (0,))
        ),
    ):
        with pytest.raises(ShapeError):
            wrong()
    with pytest.raises(DTypeError):
        lax.ragged_dot(x, w, np.array([1.0, 3.0]))


# ---- products with scales ------------------------------------------------------------------------


def test_scales_of_blocks():
    x, y = drawn(3, 8), drawn(8, 2)
    left, right = drawn(3, 4), drawn(2, 2)
    found = lax.scaled_dot(x, y, lhs_scale=left, rhs_scale=right, preferred_element_type="float32")
    wanted = (x * np.repeat(left, 2, 1)) @ (y * np.repeat(right, 4, 0))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert lax.scaled_dot(x, y).dtype == "bfloat16"


def test_eight_bit_numbers_with_scales():
    x = np.array([[[1.0, 2.0, -3.0, 0.5]]])
    small = jnp.asarray(x, "float8_e4m3fn")
    scales = jnp.array([[[2.0, 8.0]]], "float8_e8m0fnu")
    found = weft.nn.scaled_matmul(small, small, scales, scales)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, (x * [2, 2, 8, 8]) @ (x * [2, 2, 8, 8]).swapaxes(1, 2))


def test_scales_that_do_not_fit_are_refused():
    for scale in (np.ones((1, 2)), np.ones((2, 3)), np.ones(4)):
        with pytest.raises(ShapeError):
            lax.scaled_dot(np.ones((2, 4)), np.ones((4, 3)), lhs_scale=scale)
    with pytest.raises(ShapeError):
        lax.scaled_dot(np.ones(4), np.ones((4, 3)))
