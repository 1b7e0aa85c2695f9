"""Linear algebra: held to NumPy row by row, decompositions by what they are; with derivatives, for
singular matrices and equal singular values too."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_doubles
from numpy_cases import case, check
from op_table import assert_within_ulps
from weft.errors import ShapeError, WeftNotImplementedError
from weft.testing import check_grads, check_jit, check_vmap, exact_array

RANDOM = np.random.default_rng(17)
linalg = jnp.linalg


def real(*shape):
    return RANDOM.normal(size=shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


def regular(*shape):
    return real(*shape) + 3 * np.eye(shape[-1])


def of_rank(n, rank):
    return real(n, rank) @ real(rank, n)


def adjoint(x):
    return np.asarray(x).conj().swapaxes(-1, -2)


def positive(n, draw=real):
    x = draw(n, n)
    return x @ adjoint(x) + np.eye(n)


A, B = regular(4, 4), real(4, 2)
C, D = regular(3, 3) + 1j * real(3, 3), complex_(3, 2)
S = np.stack([regular(3, 3) for _ in range(2)])
H = positive(3, complex_)
TALL, WIDE = real(5, 3), real(2, 4)
LOW = of_rank(4, 2)
WHOLE = RANDOM.integers(-4, 5, size=(4, 4))

ROWS = [
    case("linalg.solve", A, B, _grad=True),
    case("linalg.solve", A, real(4), _vmap=False, _grad=True),
    case("linalg.solve", C, D, _grad=True),
    case("linalg.solve", S, real(3)),
    case("linalg.solve", S, real(3, 2), _vmap=False),
    case("linalg.solve", S[0], real(2, 3, 2), _vmap=False, _grad=True),
    case("linalg.solve", S, real(4, 1, 3, 2), _vmap=False),
    case("linalg.solve", WHOLE, B),
    case("linalg.solve", A, complex_(4, 1)),
    case("linalg.solve", np.zeros((0, 0)), np.zeros((0, 2)), _vmap=False),
    case("linalg.solve", np.zeros((2, 0, 0)), np.zeros(0), _vmap=False),
    case("linalg.solve", A, np.zeros((4, 0)), _vmap=False),
    case("linalg.inv", A, _grad=True),
    case("linalg.inv", C, _grad=True),
    case("linalg.inv", S),
    case("linalg.inv", np.zeros((3, 0, 0)), _vmap=False),
    *[case("linalg.det", regular(n, n), _grad=n < 4) for n in (0, 1, 2, 3, 4, 7)],
    *[case("linalg.det", complex_(2, n, n)) for n in (1, 2, 3, 4)],
    case("linalg.det", WHOLE),
    *[case("linalg.slogdet", regular(n, n)) for n in (0, 1, 2, 5)],
    case("linalg.slogdet", -A, _grad=True),
    case("linalg.slogdet", C, _grad=True),
    case("linalg.slogdet", S),
    case("linalg.cholesky", positive(4), _vmap=False),
    case("linalg.cholesky", H, _vmap=False, _grad=True),
    case("linalg.cholesky", H, upper=True, _vmap=False, _grad=True),
    case("linalg.cholesky", np.stack([H, 2 * H]), _vmap=False),
    case("linalg.pinv", TALL, _grad=True),
    case("linalg.pinv", WIDE, _grad=True),
    case("linalg.pinv", complex_(3, 2), _grad=True),
    case("linalg.pinv", real(2, 3, 4)),
    case("linalg.pinv", H, hermitian=True, _vmap=False, _grad=True),
    case("linalg.pinv", LOW, _reference=lambda a: np.linalg.pinv(a, rcond=1e-12), _rtol=1e-7),
    case("linalg.pinv", A, rtol=0.3, _reference=lambda a, rtol: np.linalg.pinv(a, rcond=rtol)),
    case("linalg.pinv", A, rcond=0.3),
    case("linalg.pinv", np.zeros((0, 3)), _vmap=False),
    case("linalg.pinv", np.zeros((3, 2)), _vmap=False),
    case("linalg.svdvals", TALL, _grad=True),
    case("linalg.svdvals", complex_(2, 2, 3)),
    case("linalg.svd", TALL, compute_uv=False),
    case("linalg.svd", H, compute_uv=False, hermitian=True, _vmap=False),
    case("linalg.svdvals", np.zeros((0, 3)), _vmap=False),
    case("linalg.eigvalsh", H, _vmap=False, _grad=True),
    case("linalg.eigvalsh", A, UPLO="L"),
    case("linalg.eigvalsh", A, UPLO="U"),
    case("linalg.matrix_rank", TALL),
    case("linalg.matrix_rank", np.stack([LOW, A]), _vmap=False),
    case("linalg.matrix_rank", LOW, _vmap=False),
    case("linalg.matrix_rank", np.zeros((2, 3))),
    case("linalg.matrix_rank", A, tol=4.0),
    case("linalg.matrix_rank", A, rtol=0.3),
    case("linalg.matrix_rank", H, hermitian=True, _vmap=False),
    case("linalg.matrix_rank", np.zeros(3), _vmap=False),
    case("linalg.matrix_rank", real(3), _vmap=False),
    *[case("linalg.cond", A, p) for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc")],
    case("linalg.cond", TALL, _grad=True),
    case("linalg.cond", complex_(2, 3, 3)),
    case("linalg.cond", np.diag([1.0, 2.0, 0.0]), _vmap=False),
    case("linalg.cond", np.diag([1.0, 2.0, 0.0]), 1, _vmap=False,
         _reference=lambda a, p: np.array(np.inf)),
    case("linalg.tensorinv", regular(6, 6).reshape(2, 3, 6)),
    case("linalg.tensorinv", regular(6, 6).reshape(6, 2, 3), ind=1),
    case("linalg.tensorsolve", regular(6, 6).reshape(2, 3, 6), real(2, 3), _grad=True),
    case("linalg.tensorsolve", regular(6, 6).reshape(2, 3, 3, 2), real(2, 3), _vmap=False),
    case("linalg.tensorsolve", regular(6, 6).reshape(2, 6, 3), real(2, 3), axes=(1,)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row):
    check(row)


# ---- accuracy in all dtypes ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_and_accuracy(dtype):
    x = (positive(6, complex_) if dtype[0] == "c" else positive(6)).astype(dtype)
    wide = x.astype(np.complex128 if dtype[0] == "c" else np.float64)
    given, real_dtype = exact_array(x), np.zeros((), dtype).real.dtype
    for name, bound in (("inv", 64), ("cholesky", 16), ("pinv", 128), ("det", 64)):
        got, want = getattr(linalg, name)(given), getattr(np.linalg, name)(wide)
        assert got.dtype == dtype
        assert_within_ulps(got, want, bound, floor=float(np.max(np.abs(want))))
    for name, bound in (("eigvalsh", 16), ("svdvals", 16), ("matrix_norm", 4), ("cond", 256)):
        got, want = getattr(linalg, name)(given), getattr(np.linalg, name)(wide)
        assert got.dtype == real_dtype
        assert_within_ulps(got, want, bound, floor=float(np.max(np.abs(want))))
    assert linalg.eigvals(given).dtype == np.result_type(dtype, np.complex64)
    assert linalg.slogdet(given).logabsdet.dtype == real_dtype


def test_sixteen_bits_and_integers():
    for dtype in ("float16", "bfloat16"):
        x = jnp.asarray(S[0]).astype(dtype)
        wide = np.asarray(x).astype(np.float64)
        for name in ("inv", "det", "svdvals"):
            got, want = getattr(linalg, name)(x), getattr(np.linalg, name)(wide)
            assert got.dtype == dtype
            assert_within_ulps(got, want, 1, floor=0.1)
        assert linalg.eigvals(x).dtype == np.complex64
        assert linalg.qr(x).Q.dtype == linalg.solve(x, x).dtype == dtype
    assert linalg.inv(exact_array(WHOLE, "int32")).dtype == np.float32
    assert linalg.inv(exact_array(WHOLE, "int64")).dtype == np.float64
    assert linalg.matrix_power(exact_array(WHOLE, "int32"), 3).dtype == np.int32
    np.testing.assert_allclose(linalg.inv(np.eye(2) > 0), np.eye(2))


# ---- decompositions ------------------------------------------------------------------------------


def identities(q):
    """What the adjoint of q times q is where its columns are orthonormal."""
    *batch, _, n = q.shape
    return np.broadcast_to(np.eye(n), (*batch, n, n))


OPERANDS = [A, C, S, TALL, WIDE, complex_(2, 4, 3), np.zeros((3, 0)), np.zeros((0, 2)), LOW]


@pytest.mark.parametrize("a", OPERANDS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_qr(a):
    with weft.enable_x64():
        for mode in ("reduced", "complete"):
            q, r = found = linalg.qr(a, mode)
            close_doubles(q @ r, a)
            close_doubles(adjoint(q) @ q, identities(q))
            wanted = np.linalg.qr(a, mode)
            assert (found.Q.shape, found.R.shape) == (wanted.Q.shape, wanted.R.shape)
            np.testing.assert_array_equal(np.tril(r, -1), 0 * np.asarray(r))
        close_doubles(linalg.qr(a, "r"), linalg.qr(a).R)
        h, tau = linalg.qr(a, "raw")
        if a.ndim == 2:
            wanted = np.linalg.qr(a, "raw")
            assert (h.shape, tau.shape) == (wanted[0].shape, wanted[1].shape)
        k = min(a.shape[-2:])
        close_doubles(np.triu(np.asarray(h).swapaxes(-1, -2))[..., :k, :], linalg.qr(a).R)


@pytest.mark.parametrize("a", OPERANDS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_svd(a):
    with weft.enable_x64():
        for full in (True, False):
            u, s, vh = found = linalg.svd(a, full_matrices=full)
            wanted = np.linalg.svd(a, full_matrices=full)
            assert [x.shape for x in found] == [x.shape for x in wanted]
            k = s.shape[-1]
            close_doubles(
                np.asarray(u)[..., :k] * np.asarray(s)[..., None, :] @ np.asarray(vh)[..., :k, :], a
            )
            close_doubles(adjoint(u) @ u, adjoint(u) @ u * np.eye(u.shape[-1]))
            close_doubles(np.asarray(s), wanted.S)
        part = linalg.svd(a, full_matrices=False, subset_by_index=(0, k // 2))
        close_doubles(part.S, wanted.S[..., : k // 2])


@pytest.mark.parametrize("a", [H, np.diag([2.0, -3.0, 0.0, 1.0]), -positive(3)])
def test_svd_of_hermitian_matrices(a):
    with weft.enable_x64():
        u, s, vh = linalg.svd(a, hermitian=True)
        close_doubles(np.asarray(u) * np.asarray(s) @ vh, a)
        close_doubles(s, np.linalg.svd(a, hermitian=True).S)
        close_doubles(adjoint(u) @ u, np.eye(len(a)))
        close_doubles(vh @ adjoint(vh), np.eye(len(a)))
        first = linalg.svd(a, hermitian=True, full_matrices=False, subset_by_index=(0, 2))
        close_doubles(first.Vh, np.asarray(vh)[:2])


def test_eigh():
    with weft.enable_x64():
        for a in (H, np.stack([positive(4), LOW + LOW.T]), np.zeros((0, 0))):
            w, v = found = linalg.eigh(a)
            close_doubles(a @ np.asarray(v), np.asarray(v) * np.asarray(w)[..., None, :], 1e-11)
            close_doubles(found.eigenvalues, np.linalg.eigh(a).eigenvalues, 1e-11)
        lower, upper = np.tril(A) + np.tril(A, -1).T, np.triu(A) + np.triu(A, 1).T
        for uplo, whole in (("L", lower), ("U", upper), ("u", upper)):
            w, v = linalg.eigh(A, uplo)
            close_doubles(whole @ np.asarray(v), np.asarray(v) * np.asarray(w))
        both = (A + A.T) / 2
        close_doubles(linalg.eigvalsh(A), np.linalg.eigvalsh(both))
        close_doubles(linalg.eigvalsh(A, "U", symmetrize_input=True), np.linalg.eigvalsh(both))


def test_eig():
    with weft.enable_x64():
        for a in (A, C, S, np.array([[0.0, -1.0], [1.0, 0.0]]), np.zeros((0, 0))):
            w, v = linalg.eig(a)
            close_doubles(a @ np.asarray(v), np.asarray(v) * np.asarray(w)[..., None, :])
            close_doubles(np.linalg.norm(v, axis=-2), np.ones(w.shape))
            got, want = np.sort_complex(linalg.eigvals(a)), np.sort_complex(np.linalg.eigvals(a))
            close_doubles(got, want)


def test_lstsq():
    with weft.enable_x64():
        for a, b in (
            (TALL, real(5)),
            (TALL, real(5, 2)),
            (complex_(3, 4), complex_(3, 1)),
            (LOW, B),
        ):
            options = {} if a is not LOW else {"rcond": 1e-10}
            got = linalg.lstsq(a, b, numpy_resid=True, **options)
            want = np.linalg.lstsq(a, b, **options)
            for x, y in zip(got, want, strict=True):
                assert np.shape(x) == np.shape(y)
                close_doubles(x, y, 1e-10)
            residuals = linalg.lstsq(a, b, **options)[1]
            missed = np.linalg.norm((a @ want[0] - b).reshape(len(b), -1), axis=0) ** 2
            close_doubles(residuals, missed, 1e-10)
        for x, y in zip(linalg.lstsq(A, B, 0.4), np.linalg.lstsq(A, B, 0.4), strict=True):
            if np.size(y):
                close_doubles(x, y)
        assert linalg.lstsq(np.zeros((0, 3)), np.zeros(0))[0].tolist() == [0, 0, 0]


# ---- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [real, complex_])
def test_derivatives_of_determinants_of_any_rank(draw):
    batch = np.stack([draw(4, rank) @ draw(rank, 4) for rank in range(5)])
    with weft.enable_x64():
        check_grads(linalg.det, (batch,), order=2)


def test_the_third_derivative_of_a_determinant():
    """Along a line a determinant is a polynomial, here of degree 4."""
    places = np.linspace(-1, 1, 5)
    with weft.enable_x64():

        @weft.jit
        def third(a, step):
            line = weft.grad(weft.grad(lambda t: linalg.det(a + t * step)))
            return weft.grad(line)(0.0)

        for rank in range(5):
            a, step = of_rank(4, rank), real(4, 4)
            values = [np.linalg.det(a + t * step) for t in places]
            wanted = np.polyfit(places, values, 4)[::-1]
            np.testing.assert_allclose(third(a, step), 6 * wanted[3], rtol=1e-8, atol=1e-8)


def test_the_derivative_of_a_determinant_where_the_first_columns_depend():
    a = real(5, 5)
    a[:, 1] = 2 * a[:, 0]
    with weft.enable_x64():
        gradient = weft.grad(linalg.det)(a)
        rows = np.arange(5)
        cofactors = [
            [(-1.0) ** (i + j) * np.linalg.det(a[np.ix_(rows != i, rows != j)]) for j in range(5)]
            for i in range(5)
        ]
        close_doubles(gradient, cofactors, 1e-11)
        batch = np.stack([a, real(5, 5), np.zeros((5, 5))])
        check_vmap(linalg.det, (batch,))


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (2, 0, 3), (0, 3, 3)])
def test_norms_of_matrices_without_elements(shape, order):
    """Of none the greatest is 0, as in NumPy; there is no least."""
    for keepdims in (False, True):
        options = {"axis": (-2, -1), "keepdims": keepdims}
        try:
            want = np.linalg.norm(np.zeros(shape), order, **options)
        except ValueError:
            for function in (linalg.norm, weft.jit(linalg.norm, static_argnums=(1, 2, 3))):
                with pytest.raises(ShapeError, match="there is no least of no"):
                    function(np.zeros(shape), order, (-2, -1), keepdims)
            continue
        got = linalg.norm(np.zeros(shape), order, **options)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
        if order is not None:
            got = linalg.matrix_norm(np.zeros(shape), ord=order, keepdims=keepdims)
            np.testing.assert_array_equal(got, want)


SECOND = {
    "solve": (linalg.solve, (A, B)),
    "solve of complex": (linalg.solve, (C, D)),
    "inv": (linalg.inv, (S[0],)),
    "slogdet": (linalg.slogdet, (S[0],)),
    "slogdet of complex": (linalg.slogdet, (C,)),
    "cholesky": (lambda x: linalg.cholesky(x, upper=True), (H,)),
    "qr": (lambda x: tuple(linalg.qr(x)), (TALL[:3, :2],)),
    "eigvalsh": (linalg.eigvalsh, (H,)),
    "svdvals": (linalg.svdvals, (WIDE,)),
    "eigvals": (linalg.eigvals, (C,)),
    "pinv of complex": (linalg.pinv, (D,)),
    "lstsq": (lambda a, b: linalg.lstsq(a, b)[:2], (TALL[:3, :2], real(3))),
    "nuclear norm": (lambda x: linalg.norm(x, "nuc"), (S[0],)),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name):
    function, operands = SECOND[name]
    with weft.enable_x64():
        check_grads(function, operands, order=2)


def test_eigh_and_svd_have_derivatives_of_what_is_invariant():
    """Of functions that do not depend on the phases of vectors."""
    with weft.enable_x64():

        def projector(x):
            v = linalg.eigh(x).eigenvectors[:, :1]
            return v @ jnp.conj(v.T)

        def nearest(x):
            u, _, vh = linalg.svd(x, full_matrices=False)
            return u @ vh

        check_grads(projector, (H,), order=2)
        check_grads(nearest, (complex_(3, 2),), order=1)


def test_the_pseudoinverse_has_derivatives_where_singular_values_are_equal():
    with weft.enable_x64():
        a = np.linalg.qr(TALL).Q
        check_grads(linalg.pinv, (a,), order=1)


def test_the_pseudoinverse_of_low_rank_along_matrices_of_that_rank():
    left, right = real(4, 2), real(2, 3)
    with weft.enable_x64():
        check_grads(lambda x, y: linalg.pinv(x @ y, rtol=1e-9), (left, right), order=1)


def test_what_has_no_derivative_says_so():
    with pytest.raises(WeftNotImplementedError, match="full_matrices"):
        weft.jacfwd(lambda x: linalg.qr(x, "complete").Q)(TALL.astype(np.float32))
    with pytest.raises(WeftNotImplementedError, match="eig"):
        weft.jacfwd(lambda x: linalg.eig(x).eigenvectors)(A.astype(np.float32))


# ---- singular matrices ---------------------------------------------------------------------------


def test_singular_matrices_give_no_exception():
    singular = jnp.zeros((3, 3)).at[0, 0].set(1.0)
    for how in (lambda f: f, weft.jit):
        assert not np.all(np.isfinite(how(linalg.inv)(singular)))
        assert not np.all(np.isfinite(how(linalg.solve)(singular, jnp.ones(3))))
        assert how(linalg.det)(singular) == 0
        assert tuple(map(float, how(linalg.slogdet)(singular))) == (0, -np.inf)
        assert np.isinf(how(linalg.cond)(singular))
        assert np.all(np.isnan(np.diagonal(how(linalg.cholesky)(-jnp.eye(2)))))
        assert how(linalg.matrix_rank)(singular) == 1
    complex_zero = linalg.slogdet(jnp.zeros((2, 2), "complex64"))
    assert complex_zero.sign == 0 and complex_zero.logabsdet == -np.inf
    assert np.isnan(linalg.cond(jnp.full((2, 2), np.nan)))


# ---- together with other transformations ---------------------------------------------------------


def test_a_gradient_factors_a_matrix_once():
    def names(jaxpr):
        found = []
        for eqn in jaxpr.eqns:
            found.append(eqn.primitive.name)
            for value in eqn.params.values():
                if hasattr(value, "eqns"):
                    found += names(value)
        return found

    def loss(a, b):
        return jnp.sum(linalg.solve(a, b) ** 2)

    jaxpr = weft.make_jaxpr(weft.grad(loss, (0, 1)))(A, B).jaxpr
    assert names(jaxpr).count("lu") == 1


def test_in_scan_cond_and_shard_map():
    a = np.stack([regular(3, 3) for _ in range(8)]).astype(np.float32)
    want = np.linalg.inv(a.astype(np.float64))
    _, out = weft.lax.scan(lambda c, x: (c, linalg.inv(x)), 0.0, a)
    np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-4)
    mesh = weft.make_mesh((8,), ("i",))

    def body(x):
        first = weft.lax.cond(x[0, 0, 0] > 0, linalg.inv, lambda x: linalg.pinv(x), x)
        return first, linalg.det(x), linalg.eigvalsh(x), linalg.svdvals(x), linalg.slogdet(x)[1]

    mapped = weft.shard_map(body, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    for out in (mapped(a), weft.jit(mapped)(a)):
        np.testing.assert_allclose(out[0], want, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(out[1], np.linalg.det(a), rtol=1e-4)
        np.testing.assert_allclose(out[3], np.linalg.svdvals(a), rtol=1e-4)

    def loss(x, how):
        return sum(jnp.sum(jnp.sin(y)) for y in how(x))

    got, single = weft.grad(loss)(a, mapped), weft.grad(loss)(a, body)
    np.testing.assert_allclose(got, single, rtol=1e-2, atol=1e-3)


def test_jit_and_vmap_of_decompositions():
    x = np.stack([positive(3), positive(3)]).astype(np.float32)
    for function in (linalg.eigh, linalg.svd, linalg.qr, linalg.slogdet):

        def flat(x, function=function):
            return tuple(function(x))

        check_jit(flat, (x,))
        check_vmap(flat, (x,), limit=3)
    assert isinstance(linalg.eigh(x), tuple)
    assert linalg.svd(x).Vh.shape == (2, 3, 3)
