"""What the op table does not show of `weft.lax.linalg`: conventions, degenerate cases, failures,
large matrices, devices, threads, and programs that other processes run."""

from __future__ import annotations

import concurrent.futures
import functools
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.linalg

import weft
import weft.numpy as wnp
from closeness import close
from weft import export
from weft.lax import linalg
from weft.sharding import NamedSharding, P
from weft.testing import assert_close, check_grads, exact_array

pytestmark = pytest.mark.fast


def drawn(*shape, seed=0, dtype=np.float64):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * generator.normal(size=shape)
    return x.astype(dtype)


def adjoint(x):
    return np.asarray(x).swapaxes(-1, -2).conj()


# ---- conventions -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_eigenvectors_have_norm_one_and_a_real_largest_element(dtype):
    x = drawn(5, 5, dtype=dtype)
    w, vl, vr = map(np.asarray, linalg.eig(exact_array(x)))
    np.testing.assert_allclose(x @ vr, vr * w, atol=1e-13)
    np.testing.assert_allclose(adjoint(vl) @ x, w[:, None] * adjoint(vl), atol=1e-13)
    for v in (vl, vr):
        np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, atol=1e-14)
        largest = v[np.argmax(np.abs(v), axis=0), np.arange(5)]
        np.testing.assert_allclose(largest.imag, 0, atol=1e-15)
    if dtype == np.float64:
        pairs = np.flatnonzero(w.imag > 0)
        np.testing.assert_array_equal(w[pairs + 1], w[pairs].conj())
        np.testing.assert_array_equal(vr[:, pairs + 1], vr[:, pairs].conj())


def test_eigenvector_derivatives_keep_norm_and_phase():
    x, dx = (exact_array(drawn(4, 4, seed=s)) for s in (1, 2))
    (_, _, v), (_, _, dv) = weft.jvp(
        lambda x: linalg.eig(x, enable_eigvec_derivs=True), (x,), (dx,)
    )
    v, dv = np.asarray(v), np.asarray(dv)
    np.testing.assert_allclose(np.sum(v.conj() * dv, axis=0).real, 0, atol=1e-13)
    places = np.argmax(np.abs(v), axis=0), np.arange(4)
    np.testing.assert_allclose(dv[places].imag, 0, atol=1e-13)


@pytest.mark.parametrize("compute", [{"compute_left_eigenvectors": False}, {}])
def test_eig_gives_what_is_asked_for(compute):
    found = linalg.eig(exact_array(np.diag([1.0, 2.0])), **compute)
    assert [x.shape for x in found] == [(2,)] + [(2, 2)] * (3 - len(compute) - 1)


# ---- degenerate matrices and failures ----------------------------------------------------------


def test_equal_eigenvalues_leave_eigenvalues_a_derivative():
    x, dx = exact_array(np.eye(3)), exact_array(drawn(3, 3))
    (_, w), (dv, dw) = weft.jvp(linalg.eigh, (x,), (dx,))
    np.testing.assert_allclose(w, 1)
    np.testing.assert_allclose(dw, np.diag(dx), atol=1e-14)
    assert not np.isfinite(dv).all()
    gradient = weft.grad(lambda x: wnp.sum(linalg.eigh(x)[1] * exact_array(np.arange(3.0))))(x)
    np.testing.assert_allclose(gradient, np.diag(np.arange(3.0)), atol=1e-14)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 0, 0), (2, 1, 1)])
def test_eigenvalues_of_small_matrices_have_second_derivatives(shape):
    hessian = weft.hessian(lambda x: (wnp.linalg.eigvalsh(x) ** 2).sum())(wnp.ones(shape))
    assert hessian.shape == (*shape, *shape)
    np.testing.assert_allclose(np.sum(hessian), 2 * np.prod(shape))


SPECTRA = ([1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_symmetric_functions_of_equal_eigenvalues_have_second_derivatives(spectrum, turned):
    """The trace of the exponential by its eigenvalues, whose gradient is the exponential, and whose
    second derivative SciPy's expm_frechet; with eigenvalues that are equal exactly, or rounded."""
    q = np.linalg.qr(drawn(4, 4))[0] if turned else np.eye(4)
    x = q @ np.diag(spectrum) @ q.T
    dx, dy = (drawn(4, 4, seed=seed) for seed in (1, 2))
    dx, dy = dx + dx.T, dy + dy.T
    want = scipy.linalg.expm_frechet(x, dx, compute_expm=False)

    def total(x):
        return wnp.exp(wnp.linalg.eigvalsh(x)).sum()

    def slope(x):
        return weft.jvp(total, (x,), (exact_array(dx),))[1]

    given = exact_array(x)
    found = weft.jvp(weft.grad(total), (given,), (exact_array(dx),))[1]
    np.testing.assert_allclose(found, want, atol=1e-11)
    hessian = np.asarray(weft.jit(weft.hessian(total))(given))
    np.testing.assert_allclose(np.einsum("ijkl,kl->ij", hessian, dx), want, atol=1e-11)
    twice = weft.jvp(slope, (given,), (exact_array(dy),))[1]
    np.testing.assert_allclose(twice, np.sum(want * dy), atol=1e-10)
    # Reverse mode twice has no basis that is right in all directions: never a wrong number.
    backward = np.asarray(weft.grad(lambda x: (weft.grad(total)(x) * exact_array(dx)).sum())(given))
    if len(set(spectrum)) == 4:
        np.testing.assert_allclose(backward, want, atol=1e-11)
    else:
        assert not np.isfinite(backward).all()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("spectrum", [[1.0, 1.0, 3.0], [1.0, 1.0 + 1e-3, 3.0]])
def test_a_simple_eigenvector_has_derivatives_where_others_are_equal(spectrum, turned):
    """Held to the resolvent, (3 - x)^+, and to differences of its formula."""
    q = np.linalg.qr(drawn(3, 3))[0] if turned else np.eye(3)
    x, b, dx = q @ np.diag(spectrum) @ q.T, drawn(3, 3, seed=1), drawn(3, 3, seed=2)
    b, dx = b + b.T, dx + dx.T

    def value(x):
        v = linalg.eigh(x)[0][:, 2]
        return v @ exact_array(b) @ v

    def slope(x):
        w, v = np.linalg.eigh(x)
        y = np.linalg.pinv(w[2] * np.eye(3) - x, rcond=1e-8) @ (2 * b @ v[:, 2])
        return (np.outer(y, v[:, 2]) + np.outer(v[:, 2], y)) / 2

    np.testing.assert_allclose(weft.grad(value)(exact_array(x)), slope(x), atol=1e-11)
    step = 1e-5
    want = (slope(x + step * dx) - slope(x - step * dx)) / (2 * step)
    found = weft.jvp(weft.grad(value), (exact_array(x),), (exact_array(dx),))[1]
    np.testing.assert_allclose(found, want, atol=1e-7)


def test_equal_singular_values_leave_singular_values_a_derivative():
    x, dx = exact_array(np.eye(3)), exact_array(drawn(3, 3))
    _, (du, ds, _) = weft.jvp(linalg.svd, (x,), (dx,))
    np.testing.assert_allclose(np.sum(ds), np.trace(dx), atol=1e-13)
    assert not np.isfinite(du).all()
    gradient = weft.grad(lambda x: wnp.sum(linalg.svd(x, compute_uv=False)))(x)
    np.testing.assert_allclose(gradient, np.eye(3), atol=1e-14)


def test_one_singular_value_of_a_square_matrix_may_be_zero():
    x = drawn(3, 3) + np.diag([2.0, 4.0, 6.0])
    u, s, vh = np.linalg.svd(x)
    x = exact_array((u * [s[0], s[1], 0.0]) @ vh)
    for part in weft.jvp(linalg.svd, (x,), (exact_array(drawn(3, 3, seed=1)),))[1]:
        assert np.isfinite(part).all()


def test_a_singular_matrix_has_lu_factors():
    packed, _, order = linalg.lu(exact_array(np.array([[1.0, 2.0], [2.0, 4.0]])))
    np.testing.assert_array_equal(packed, [[2, 4], [0.5, 0]])
    np.testing.assert_array_equal(order, [1, 0])


def test_nan_stays_in_its_own_matrix():
    x = np.stack([np.eye(3), np.full((3, 3), np.nan)])
    for function in (linalg.eigh, linalg.eig, linalg.schur, linalg.lu, linalg.qr, linalg.cholesky):
        for out in weft.tree.leaves(function(exact_array(x))):
            out = np.asarray(out)
            assert np.isfinite(out[0]).all(), function
            assert out.dtype.kind == "i" or np.isnan(out[1]).any(), function


def test_matrices_without_a_factorization_give_nan():
    x = np.stack([np.eye(2), -np.eye(2)])
    found = np.asarray(linalg.cholesky(exact_array(x)))
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).any()
    zeros = exact_array(np.zeros(3))
    assert np.isnan(linalg.tridiagonal_solve(zeros, zeros, zeros, zeros[:, None])).all()
    perturbed = linalg.tridiagonal_solve(
        zeros, zeros, zeros, exact_array(np.ones((3, 1))), perturb_singular=True
    )
    assert np.isfinite(perturbed).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (0, 2, 2), (2, 0, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_nothing_is_factorized(shape, full):
    x = exact_array(np.zeros(shape))
    for ours, theirs in [
        (linalg.svd(x, full_matrices=full), np.linalg.svd(np.zeros(shape), full_matrices=full)),
        (
            linalg.qr(x, full_matrices=full),
            np.linalg.qr(np.zeros(shape), mode="complete" if full else "reduced"),
        ),
    ]:
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    order = linalg.qr(x, pivoting=True)[2]
    assert order.shape == (*shape[:-2], shape[-1])
    _, pivots, permutation = linalg.lu(x)
    assert (pivots.shape, permutation.shape) == (
        (*shape[:-2], min(shape[-2:])),
        (*shape[:-2], shape[-2]),
    )


def test_one_row_and_column():
    x = exact_array(np.array([[3.0]]))
    packed, taus = linalg.hessenberg(x)
    assert float(packed[0, 0]) == 3.0 and taus.shape == (0,)
    _, d, e, taus = linalg.tridiagonal(x)
    assert (d.shape, e.shape, taus.shape) == ((1,), (0,), (0,))
    assert [v.shape for v in linalg.hessenberg(exact_array(np.zeros((0, 0))))] == [(0, 0), (0,)]
    assert [v.shape for v in linalg.tridiagonal(exact_array(np.zeros((0, 0))))] == [
        (0, 0),
        (0,),
        (0,),
        (0,),
    ]


# ---- the polar decomposition -------------------------------------------------------------------


def test_polar_factors_of_a_matrix_that_is_almost_singular():
    u, v = (scipy.linalg.qr(drawn(8, 8, seed=s))[0] for s in (1, 2))
    x = (u * np.logspace(0, -14, 8)) @ v
    found, h, count, converged = linalg.qdwh(exact_array(x))
    found, h = np.asarray(found), np.asarray(h)
    assert bool(converged) and 1 <= int(count) <= 7
    np.testing.assert_allclose(found @ h, x, atol=1e-14)
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-13)
    assert not bool(linalg.qdwh(exact_array(x), max_iterations=1)[3])


def test_polar_factors_of_a_padded_matrix():
    x = drawn(5, 4)
    factors = weft.jit(lambda x, m, n: linalg.qdwh(x, dynamic_shape=(m, n))[:2])
    u, h = map(np.asarray, factors(exact_array(x), 4, 2))
    wanted = scipy.linalg.polar(x[:4, :2])
    np.testing.assert_allclose(u[:4, :2], wanted[0], atol=1e-14)
    np.testing.assert_allclose(h[:2, :2], wanted[1], atol=1e-14)
    assert not u[4:].any() and not u[:, 2:].any() and not h[2:].any() and not h[:, 2:].any()
    check_grads(lambda x: linalg.qdwh(x, dynamic_shape=(4, 2))[:2], (exact_array(x),), 1, ("rev",))


# ---- large matrices, many of them, devices, threads --------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_large_matrices(dtype):
    n = 512
    x = drawn(n, n, dtype=dtype) / np.sqrt(n).astype(np.float32)
    bound = 200 * float(np.finfo(dtype).eps)
    wide = x.astype(np.result_type(dtype, np.float64))
    given = exact_array(x)
    same = functools.partial(close, rtol=0, atol=bound)
    u, s, vh = (np.asarray(v).astype(wide.dtype) for v in linalg.svd(given))
    same((u * s.real) @ vh, wide)
    q, r = (np.asarray(v).astype(wide.dtype) for v in linalg.qr(given))
    same(q @ r, wide)
    same(adjoint(q) @ q, np.eye(n))
    v, w = (np.asarray(v).astype(wide.dtype) for v in linalg.eigh(given))
    same((v * w.real) @ adjoint(v), (wide + adjoint(wide)) / 2)
    packed, _, order = (np.asarray(v) for v in linalg.lu(given))
    packed = packed.astype(wide.dtype)
    lower = np.tril(packed, -1) + np.eye(n)
    same(lower @ np.triu(packed), wide[order])
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_a_batch_over_devices_stays_there():
    mesh = weft.make_mesh((8,), ("device",))
    over = NamedSharding(mesh, P("device"))
    x = drawn(16, 4, 4) + 3 * np.eye(4)
    given = weft.device_put(exact_array(x), over)

    def factors(x):
        return linalg.svd(x)[1], linalg.lu(x), linalg.qr(x), linalg.eigh(x)[1]

    compiled = weft.jit(factors).lower(given).compile()
    text = compiled.as_text()
    assert "all-gather" not in text and "all-reduce" not in text and "all-to-all" not in text
    found, wanted = compiled(given), factors(exact_array(x))
    for got, want in zip(weft.tree.leaves(found), weft.tree.leaves(wanted), strict=True):
        assert got.sharding.is_equivalent_to(over, got.ndim)
        assert_close(exact_array(np.asarray(got)), want)
    blocks = weft.shard_map(factors, mesh=mesh, in_specs=P("device"), out_specs=P("device"))
    for got, want in zip(
        weft.tree.leaves(weft.jit(blocks)(given)), weft.tree.leaves(wanted), strict=True
    ):
        assert_close(exact_array(np.asarray(got)), want)


def test_in_threads():
    matrices = [drawn(6, 6, seed=s) for s in range(24)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda x: np.asarray(linalg.svd(exact_array(x))[1]), matrices)
    for got, x in zip(found, matrices, strict=True):
        np.testing.assert_allclose(got, np.linalg.svd(x, compute_uv=False), atol=1e-13)


def test_in_a_loop():
    def body(x, _):
        q, r = linalg.qr(x)
        return r @ q, None

    x = drawn(3, 3)
    x = x @ x.T + np.diag([0.0, 3.0, 9.0])

    def last(x):
        return wnp.diagonal(weft.lax.scan(body, x, None, length=40)[0])

    np.testing.assert_allclose(
        np.sort(last(exact_array(x))), np.linalg.eigvalsh(x), rtol=1e-6, atol=1e-6
    )
    check_grads(lambda x: weft.lax.scan(body, x, None, length=2)[0], (exact_array(x),), 1)


# ---- programs for other processes --------------------------------------------------------------

OTHER = """
    import os, sys
    import numpy as np
    import weft
    from weft import export

    loaded = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
    s, x = loaded.call(np.diag([1.0, 3.0, 2.0]).astype(np.float32))
    print(np.asarray(s).tolist(), np.asarray(x).tolist())
"""


def test_an_exported_program_runs_where_nothing_was_factorized(tmp_path):
    def function(x):
        ones = wnp.ones_like(x)[:, :1]
        diagonal = wnp.diagonal(x)
        zeros = wnp.zeros_like(diagonal)
        solved = linalg.tridiagonal_solve(zeros, diagonal, zeros, ones, perturb_singular=True)
        return linalg.svd(x, compute_uv=False), solved[:, 0]

    program = export.export(weft.jit(function))(weft.ShapeDtypeStruct((3, 3), np.float32))
    path = pathlib.Path(tmp_path, "program")
    path.write_bytes(program.serialize())
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OTHER), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[3.0, 2.0, 1.0] [1.0, 0.333")


FROM_DISK = """
    import numpy as np
    from weft.lax import linalg
    print(np.asarray(linalg.svd(np.diag([1.0, 3.0]).astype(np.float32))[1]).tolist())
"""


def test_compiled_programs_are_read_from_the_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    kept = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FROM_DISK)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "[3.0, 1.0]\n"), done.stderr
        kept.append({path.name for path in tmp_path.rglob("*") if path.is_file()})
    assert kept[0] and kept[0] == kept[1]
