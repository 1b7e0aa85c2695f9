"""Iterative solutions of linear systems: those of NumPy, with the derivatives of a solution."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft import lax
from weft.scipy.sparse import linalg
from weft.testing import check_grads

RANDOM = np.random.default_rng(41)


def real(*shape):
    return RANDOM.normal(size=shape)


A = real(6, 6)
C = A + 1j * real(6, 6)
S = A @ A.T + np.eye(6)
H = C @ C.conj().T + np.eye(6)
GENERAL = {"real": A + 4 * np.eye(6), "complex": C + 4 * np.eye(6)}
B, D = real(6), real(6) + 1j * real(6)


@pytest.fixture
def wide():
    with weft.enable_x64():
        yield


def incremental(*args, **options):
    return linalg.gmres(*args, solve_method="incremental", **options)


SOLVERS = [linalg.bicgstab, linalg.gmres, incremental]


# A solver stops at a small residual, and its error may be larger.
close = functools.partial(close_doubles, tolerance=1e-9)


def test_conjugate_gradients(wide):
    for a, b in ((S, B), (H, D)):
        want = np.linalg.solve(a, b)
        close(linalg.cg(a, b, tol=1e-12)[0], want)
        close(linalg.cg(lambda x, a=a: jnp.matmul(a, x), b, tol=1e-12)[0], want)
        near = np.linalg.inv(a + 0.1 * np.eye(6))
        close(linalg.cg(a, b, b, tol=1e-12, M=near)[0], want)
    x, info = linalg.cg(S, B)
    assert info is None
    assert np.linalg.norm(S @ x - B) <= 1e-5 * np.linalg.norm(B)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("solve", SOLVERS, ids=lambda f: f.__name__)
def test_general_matrices(solve, kind, wide):
    a, b = GENERAL[kind], B if kind == "real" else D
    want = np.linalg.solve(a, b)
    close(solve(a, b, tol=1e-12)[0], want)
    close(solve(a, b, want + 1, tol=1e-12, M=np.linalg.inv(a + np.eye(6)))[0], want)
    if solve is not linalg.bicgstab:
        close(solve(a, b, tol=1e-12, restart=3, maxiter=200)[0], want)


@pytest.mark.parametrize("solve", [linalg.gmres, incremental], ids=lambda f: f.__name__)
def test_spaces_that_end_early(solve, wide):
    """A vector of which the matrix makes nothing new ends the basis."""
    diagonal = np.diag([2.0, 2.0, 2.0, 3.0, 3.0, 3.0])
    close(solve(diagonal, B)[0], B / np.diag(diagonal))
    close(solve(np.eye(6), B)[0], B)
    close(solve(np.eye(6), np.zeros(6))[0], np.zeros(6))
    # Singular, with a right-hand side that it reaches.
    low = np.diag([1.0, 2.0, 0.0])
    close(low @ solve(low, np.array([1.0, 4.0, 0.0]))[0], [1.0, 4.0, 0.0])


def test_zeros_and_limits(wide):
    for solve in (linalg.cg, linalg.bicgstab):
        close(solve(S, np.zeros(6))[0], np.zeros(6))
        close(solve(S, B, maxiter=0)[0], np.zeros(6))
        close(solve(S, B, np.linalg.solve(S, B))[0], np.linalg.solve(S, B))
    # As many products as steps: more digits need more of them.
    errors = [np.linalg.norm(S @ linalg.cg(S, B, maxiter=n)[0] - B) for n in (1, 3, 6)]
    assert errors[2] < 1e-6 * errors[0]


def test_vectors_that_are_trees(wide):
    b = {"x": real(2, 2), "y": (real(3), np.float32(2.0))}

    def scale(v):
        return {"x": 3 * v["x"], "y": (v["y"][0] * 2 + v["y"][1].astype(float), v["y"][1] * 4)}

    for solve in SOLVERS:
        x, _ = solve(scale, b, tol=1e-6)
        assert x["y"][1].dtype == np.float32
        close_doubles(x["x"], b["x"] / 3, 1e-5)
        close_doubles(x["y"][0], (b["y"][0] - 0.5) / 2, 1e-5)
    x, _ = linalg.cg(lambda v: {k: 2 * w for k, w in v.items()}, {"x": b["x"], "z": b["y"][0]})
    close(x["z"], b["y"][0] / 2)


@pytest.mark.parametrize("solve", SOLVERS, ids=lambda f: f.__name__)
def test_derivatives(solve, wide):
    def f(a, b):
        return solve(lambda x: jnp.matmul(a, x), b, tol=1e-13)[0]

    a = GENERAL["real"]
    # The rule is one for all solvers: the second derivative by the one that compiles fastest.
    check_grads(f, (a, B), order=2 if solve is linalg.bicgstab else 1)
    # A preconditioner and a guess change nothing.
    near = np.linalg.inv(a + np.eye(6))

    def helped(a, b, near, guess):
        return solve(a, b, guess, tol=1e-13, M=near)[0].sum()

    plain = weft.grad(lambda a, b: f(a, b).sum(), (0, 1))(a, B)
    found = weft.grad(helped, (0, 1, 2, 3))(a, B, near, B)
    close(found[0], plain[0])
    close(found[1], plain[1])
    close(found[2], 0 * a)
    close(found[3], 0 * B)


def test_derivatives_of_conjugate_gradients(wide):
    check_grads(lambda a, b: linalg.cg(a + a.T, b, tol=1e-13)[0], (S, B), order=2)
    check_grads(lambda b: linalg.cg(H, b, tol=1e-13)[0], (D,), order=1)


@pytest.mark.parametrize("solve", [linalg.cg, *SOLVERS], ids=lambda f: f.__name__)
def test_vmap_and_jit(solve, wide):
    both = np.stack([B, B[::-1]])
    want = np.linalg.solve(S, both.T).T
    close(weft.vmap(lambda b: solve(S, b, tol=1e-12)[0])(both), want)
    close(weft.jit(lambda a, b: solve(a, b, tol=1e-12)[0])(S, B), want[0])


def test_vectors_over_devices(wide):
    """The system of all devices, whose matrix sums over them."""
    mesh = weft.make_mesh((8,), ("i",))
    scale, b = np.arange(1.0, 9.0), real(8)

    def body(scale, b):
        return linalg.cg(lambda x: scale * x, b, tol=1e-13)[0]

    f = weft.shard_map(body, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    close(f(scale, b), b / scale)

    def together(scale, b):
        return linalg.gmres(lambda x: lax.psum(scale * x, "i"), b, tol=1e-13)[0]

    g = weft.shard_map(together, mesh=mesh, in_specs=(weft.P("i"), weft.P()), out_specs=weft.P())
    close(g(scale, b), b / 36)
