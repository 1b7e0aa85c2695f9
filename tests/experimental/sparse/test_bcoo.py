"""`BCOO` beside dense arrays in double precision: every operation, in every layout."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft import lax
from weft.experimental import sparse

RNG = np.random.default_rng(0)
LAYOUTS = [(b, d) for b, d in itertools.product(range(4), range(4)) if b + d <= 3]


pytestmark = pytest.mark.usefixtures("x64")


def mostly_zero(*shape):
    x = RNG.standard_normal(shape)
    return np.where(RNG.random(shape) < 0.5, x, 0.0)


def made(dense, n_batch=0, n_dense=0, spare=0):
    """A BCOO with some padding."""
    nse = sparse.bcoo_fromdense(dense, n_batch=n_batch, n_dense=n_dense).nse
    return sparse.bcoo_fromdense(dense, n_batch=n_batch, n_dense=n_dense, nse=nse + spare)


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_there_and_back(n_batch, n_dense):
    dense = mostly_zero(2, 3, 4)
    x = made(dense, n_batch, n_dense, spare=2)
    assert (x.n_batch, x.n_dense, x.n_sparse) == (n_batch, n_dense, 3 - n_batch - n_dense)
    close_doubles(x, dense)
    close_doubles(weft.jit(sparse.todense)(x), dense)
    twice = x + x.sort_indices()
    close_doubles(twice, 2 * dense)
    close_doubles(twice.sum_duplicates(), 2 * dense)
    close_doubles(sparse.bcoo_sum_duplicates(twice, nse=x.nse), 2 * dense)
    close_doubles(sparse.bcoo_extract(x, jnp.asarray(dense * 3)), dense * 3)


CHANGES = [(a, LAYOUTS[(3 * i + j) % 10]) for i, a in enumerate(LAYOUTS) for j in (0, 4)]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_layouts(before, after):
    dense = mostly_zero(2, 3, 4)
    x = made(dense, *before, spare=1)
    close_doubles(x.update_layout(n_batch=after[0], n_dense=after[1], on_inefficient=None), dense)


def test_layouts_that_cost_much_are_refused():
    x = made(mostly_zero(3, 4))
    with pytest.raises(sparse.SparseEfficiencyError, match="n_batch"):
        x.update_layout(n_batch=1)
    with pytest.warns(sparse.SparseEfficiencyWarning, match="n_dense"):
        x.update_layout(n_dense=1, on_inefficient="warn")
    with pytest.raises(ValueError, match="on_inefficient"):
        x.update_layout(n_dense=1, on_inefficient="perhaps")


DOTS = [
    ((4, 5), (5, 3), (((1,), (0,)), ((), ()))),
    ((4, 5), (4,), (((0,), (0,)), ((), ()))),
    ((2, 4, 5), (2, 5, 3), (((2,), (1,)), ((0,), (0,)))),
    ((2, 4, 5), (4, 5), (((1, 2), (0, 1)), ((), ()))),
    ((2, 4, 5), (5, 3, 2), (((2,), (0,)), ((0,), (2,)))),
    ((2, 4, 5), (6,), (((), ()), ((), ()))),
    ((2, 4, 5), (2, 4, 5), (((0, 2), (0, 2)), ((1,), (1,)))),
]


@pytest.mark.parametrize(("left", "right", "numbers"), DOTS)
def test_products_with_dense_arrays(left, right, numbers):
    a, b = mostly_zero(*left), RNG.standard_normal(right)
    wanted = np.asarray(lax.dot_general(a, b, numbers))
    for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]:
        if n_batch + n_dense > len(left):
            continue
        x = made(a, n_batch, n_dense, spare=1)
        close_doubles(sparse.bcoo_dot_general(x, b, dimension_numbers=numbers), wanted)
        (contract, other), (batch, other_batch) = numbers
        turned = ((other, contract), (other_batch, batch))
        close_doubles(
            sparse.bcoo_dot_general(b, x, dimension_numbers=turned),
            np.asarray(lax.dot_general(b, a, turned)),
        )


@pytest.mark.parametrize(("left", "right", "numbers"), DOTS)
def test_products_of_two(left, right, numbers):
    a, b = mostly_zero(*left), mostly_zero(*right)
    wanted = np.asarray(lax.dot_general(a, b, numbers))
    batch = len(numbers[1][0])
    x, y = made(a, spare=2), made(b, spare=3)
    close_doubles(sparse.bcoo_dot_general(x, y, dimension_numbers=numbers), wanted)
    if batch and numbers[1] == ((0,), (0,)):
        x, y = made(a, 1, spare=1), made(b, 1)
        out = sparse.bcoo_dot_general(x, y, dimension_numbers=numbers)
        assert out.n_batch == 1
        close_doubles(out, wanted)
    f = weft.jit(lambda x, y: sparse.bcoo_dot_general(x, y, dimension_numbers=numbers).todense())
    close_doubles(f(x, y), wanted)


def test_products_of_large_matrices_store_what_meets():
    a = sp.random(2000, 2000, 0.001, random_state=1).tocsr()
    x = sparse.BCOO.from_scipy_sparse(a)
    y = x @ x.T
    assert y.nse <= 2 * (np.diff(a.tocsc().indptr) ** 2).sum()
    out = y.sum_duplicates()
    wanted = (a @ a.T).tocoo()
    found = sp.coo_matrix(
        (np.asarray(out.data), (np.asarray(out.indices[:, 0]), np.asarray(out.indices[:, 1]))),
        shape=out.shape,
    )
    assert abs(found - wanted).max() < 1e-12


def test_sampled_products():
    for left, right, numbers in DOTS:
        a, b = RNG.standard_normal(left), RNG.standard_normal(right)
        full = np.asarray(lax.dot_general(a, b, numbers))
        for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]:
            if n_batch + n_dense > full.ndim:
                continue
            spare = n_batch + n_dense < full.ndim  # else padding cannot be marked
            pattern = made(np.ones_like(full), n_batch, n_dense, spare=int(spare))
            data = sparse.bcoo_dot_general_sampled(a, b, pattern.indices, dimension_numbers=numbers)
            close_doubles(sparse.BCOO((data, pattern.indices), shape=full.shape), full)


@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_shapes(n_batch, n_dense):
    dense = mostly_zero(2, 3, 4)
    x = made(dense, n_batch, n_dense, spare=1)
    for axes in [(0,), (1,), (2,), (0, 1), (1, 2)]:
        close_doubles(sparse.bcoo_reduce_sum(x, axes=axes), dense.sum(axes))
        close_doubles(sparse.bcoo_rev(x, axes), np.flip(dense, axes))
    close_doubles(x.sum(1, keepdims=True), dense.sum(1, keepdims=True))
    close_doubles(x.sum(), dense.sum())
    close_doubles(x[:, 1:3, ::2], dense[:, 1:3, ::2])
    close_doubles(x[1, ..., -1], dense[1, ..., -1])
    close_doubles(x[:, None, ::-1], dense[:, None, ::-1])
    close_doubles(x[0:0], dense[0:0])
    i = jnp.int32(1)
    close_doubles(x[i, :, i], dense[1, :, 1])
    if n_batch or not n_dense == 3:
        close_doubles(x[jnp.array([1, 0, 1])], dense[[1, 0, 1]])
    cut = weft.jit(lambda x, i: sparse.bcoo_dynamic_slice(x, (i, 1, i), (1, 2, 3)))(x, i)
    close_doubles(cut, dense[1:2, 1:3, 1:4])
    close_doubles(sparse.bcoo_squeeze(x[:1, :, :1], dimensions=(0, 2)), dense[0, :, 0])
    wide = sparse.bcoo_broadcast_in_dim(x, shape=(2, 5, 3, 4, 2), broadcast_dimensions=(0, 2, 3))
    close_doubles(wide, np.broadcast_to(dense[:, None, :, :, None], (2, 5, 3, 4, 2)))
    thin = sparse.bcoo_broadcast_in_dim(x[:, :1], shape=(2, 3, 4), broadcast_dimensions=(0, 1, 2))
    close_doubles(thin, np.broadcast_to(dense[:, :1], (2, 3, 4)))
    for dim in range(3):
        close_doubles(sparse.bcoo_concatenate([x, x[:, ::-1]], dimension=dim),
             np.concatenate([dense, dense[:, ::-1]], dim))  # fmt: skip
    close_doubles(abs(x), abs(dense))
    close_doubles(x**2 - x * 3 / 2, dense**2 - dense * 1.5)
    close_doubles(x.astype("float32"), dense.astype("float32"))
    assert len(list(x)) == 2


def test_reshapes_and_transposes():
    dense = mostly_zero(4, 3, 6)
    close_doubles(made(dense).reshape(2, 6, -1), dense.reshape(2, 6, 6))
    close_doubles(made(dense, 1).reshape(2, 2, 9, 2), dense.reshape(2, 2, 9, 2))
    close_doubles(made(dense, 0, 1).reshape(12, 2, 3), dense.reshape(12, 2, 3))
    close_doubles(made(dense).transpose((2, 0, 1)), dense.transpose(2, 0, 1))
    close_doubles(made(dense, 1).transpose((0, 2, 1)), dense.transpose(0, 2, 1))
    close_doubles(made(dense, 2).transpose((1, 0, 2)), dense.transpose(1, 0, 2))
    with pytest.raises(NotImplementedError, match="among themselves"):
        made(dense, 1).transpose((1, 0, 2))
    with pytest.raises(NotImplementedError, match="mixes"):
        made(dense, 1).reshape(12, 6)


def test_products_element_by_element():
    a, b = mostly_zero(3, 4), mostly_zero(3, 4)
    row = mostly_zero(4)
    for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        x = made(a, n_batch, n_dense, spare=2)
        for y in (made(b, spare=1), made(b, 1), made(b + 0) + made(b, spare=1)):
            close_doubles(
                x * y if y.n_dense == x.n_dense or n_dense == 0 else x * y, a * y.todense()
            )
        close_doubles(x * row, a * row)
        close_doubles(row * x, a * row)
        close_doubles(x * made(row), a * row)
        close_doubles(x * made(b[:, :1]), a * b[:, :1])
        close_doubles(x / (row + 10), a / (row + 10))
        close_doubles(x * np.ones((2, 1, 4)), a * np.ones((2, 1, 4)))
    close_doubles(made(a[:, :1]) * made(b[:1]), a[:, :1] * b[:1])
    close_doubles(made(a) + b, a + b)
    close_doubles(b - made(a), b - a)
    close_doubles(made(a) - made(row), a - row)


def test_matmul():
    a = mostly_zero(3, 4)
    x = made(a)
    b, v = RNG.standard_normal((4, 5)), RNG.standard_normal(4)
    batch = RNG.standard_normal((2, 4, 5))
    close_doubles(x @ b, a @ b)
    close_doubles(x @ v, a @ v)
    close_doubles(v @ x.T, v @ a.T)
    close_doubles(jnp.asarray(b.T) @ x.T, b.T @ a.T)
    close_doubles(x @ batch, a @ batch)
    three = mostly_zero(2, 5, 3)
    close_doubles(made(three, 1) @ a, three @ a)
    close_doubles(made(three) @ x, three @ a)
    close_doubles(
        made(three, 1) @ batch.transpose(0, 2, 1)[:, :3], three @ batch.transpose(0, 2, 1)[:, :3]
    )
    with pytest.raises(ValueError, match="do not fit"):
        x @ a


def test_derivatives():
    a, b = mostly_zero(3, 4), RNG.standard_normal((4, 2))
    x = made(a, spare=2)

    def f(x, b):
        return jnp.sum(jnp.sin((x @ b) ** 2))

    value, (by_x, by_b) = sparse.value_and_grad(f, argnums=(0, 1))(x, b)
    wanted, (dense_x, dense_b) = weft.value_and_grad(f, argnums=(0, 1))(a, b)
    close_doubles(value, wanted)
    close_doubles(by_b, dense_b)
    close_doubles(by_x, np.where(a != 0, dense_x, 0))

    def g(data):
        y = sparse.BCOO((data, x.indices), shape=x.shape)
        pair = (y @ y.T) * 2 + y[:, :3]
        return jnp.sum((pair * pair).todense() ** 2) + jnp.sum(y.sum(0).todense() ** 3)

    h = 1e-6
    direction = RNG.standard_normal(x.nse)
    slope = (g(x.data + h * direction) - g(x.data - h * direction)) / (2 * h)
    np.testing.assert_allclose(weft.jvp(g, (x.data,), (direction,))[1], slope, rtol=1e-6)
    np.testing.assert_allclose(weft.grad(g)(x.data) @ direction, slope, rtol=1e-6)


def test_jacobians():
    x = made(mostly_zero(3, 4))
    v = RNG.standard_normal(4)
    for transformation in (sparse.jacfwd, sparse.jacrev, sparse.jacobian):
        found = transformation(lambda x: x @ v)(x)
        assert (found.shape, found.n_batch) == ((3, 3, 4), 1)
        mask = np.asarray(x.todense() != 0)
        close_doubles(found, np.einsum("ij,jk,k->ijk", np.eye(3), np.ones((3, 4)), v) * mask)


def test_vmap_maps_batches():
    dense = mostly_zero(3, 4, 5)
    x = made(dense, 1)
    v = RNG.standard_normal((3, 5))
    close_doubles(weft.vmap(lambda x, v: x @ v)(x, v), np.einsum("bij,bj->bi", dense, v))
    out = weft.vmap(lambda x: x * 2 + x)(x)
    assert out.shape == x.shape and out.n_batch == 1
    close_doubles(out, dense * 3)
    close_doubles(weft.vmap(lambda d: sparse.bcoo_fromdense(d, nse=20))(dense), dense)
    close_doubles(weft.vmap(lambda x: (x @ x.T).todense())(x), dense @ dense.transpose(0, 2, 1))
    assert weft.vmap(lambda x: x.shape[0] + 0 * v[0, 0], axis_size=3, in_axes=0)(x)[0] == 4


def test_repeated_batches_are_not_stored():
    indices = jnp.array([[[0], [2]]])
    data = RNG.standard_normal((3, 2))
    x = sparse.BCOO((data, indices), shape=(3, 4))
    dense = np.zeros((3, 4))
    dense[:, [0, 2]] = data
    close_doubles(x, dense)
    close_doubles(x @ np.arange(4.0), dense @ np.arange(4.0))
    close_doubles(x.T if x.n_batch == 0 else x.sum(1), dense.sum(1))
    close_doubles(x.update_layout(n_batch=0), dense)


def test_positions_beyond_32_bits():
    indices = np.array([[2**20, 2**21], [0, 5], [2**20, 2**21]], "int32")
    x = sparse.BCOO((jnp.array([1.0, 2.0, 3.0]), indices), shape=(2**22, 2**22))
    y = x.sum_duplicates()
    assert y.nse == 2
    np.testing.assert_array_equal(y.indices, [[0, 5], [2**20, 2**21]])
    np.testing.assert_array_equal(y.data, [2.0, 4.0])
    np.testing.assert_array_equal((x * y).sum_duplicates().data, [4.0, 16.0])
    assert float((x @ x.T).sum_duplicates().sum()) == 16.0 + 4.0


def test_eye_and_random():
    for n, m, k in [(3, 3, 0), (3, 4, 1), (4, 2, -1), (3, 4, -5)]:
        for n_batch, n_dense in [(0, 0), (1, 0), (0, 1), (1, 1)]:
            close_doubles(sparse.eye(n, m, k, n_batch=n_batch, n_dense=n_dense), np.eye(n, m, k))
        for kind in ("coo", "csr", "csc"):
            close_doubles(sparse.eye(n, m, k, sparse_format=kind), np.eye(n, m, k))
    x = sparse.random_bcoo(weft.random.key(0), (3, 4), nse=3, dtype="float32")
    # As JAX 0.10.2: sparse.random_bcoo(jax.random.key(0), (3, 4), nse=3)
    np.testing.assert_array_equal(x.indices, [[0, 0], [0, 3], [2, 1]])
    np.testing.assert_allclose(x.data, [0.8423141, 0.18237865, 0.2271781], rtol=1e-6)
    assert sparse.random_bcoo(weft.random.key(0), (3, 4, 5), nse=0.3, n_batch=1).nse == 6


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="do not fit"):
        sparse.BCOO((jnp.ones(2), jnp.ones((3, 1), int)), shape=(4,))
    x = made(mostly_zero(3, 4))
    for operation in (lambda: x == x, lambda: x > 0, lambda: 2 / x, lambda: x + 1, lambda: x**-1):
        with pytest.raises(NotImplementedError):
            operation()
    with pytest.raises(TypeError) as caught:
        weft.jit(sparse.BCOO.fromdense)(jnp.eye(2))
    assert "nse=" in caught.value.__notes__[-1]
    with pytest.raises(ValueError, match="nse must be given"):
        weft.jit(lambda x: x.sum_duplicates())(x + x[::-1])
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
