"""`custom_linear_solve`: solutions and their derivatives, against NumPy and finite differences."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import names
from weft import P, lax
from weft.errors import LeakedTracerError, TreeError, WeftNotImplementedError, WeftTypeError
from weft.scipy.sparse.linalg import cg
from weft.testing import check_grads

generator = np.random.default_rng(5)


def system(n=3, dtype=np.float64):
    """A matrix far from singular, and a right-hand side."""
    a, b = generator.normal(size=(n, n)) + 3 * np.eye(n), generator.normal(size=n)
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j * generator.normal(size=(n, n)), b + 1j * generator.normal(size=n)
    return jnp.array(a, dtype), jnp.array(b, dtype)


def eliminate(matrix, b):
    """Gauss and Jordan without pivots: a solver of which every step could be differentiated."""
    n = b.shape[0]
    rows = [jnp.concatenate([matrix[i], b[i : i + 1]]) for i in range(n)]
    for i in range(n):
        rows[i] = rows[i] / rows[i][i]
        for j in range(n):
            if j != i:
                rows[j] = rows[j] - rows[i] * rows[j][i]
    return jnp.stack([row[n] for row in rows])


def dense(matvec, b):
    """Solves by building the matrix of the system it is given."""
    return eliminate(weft.vmap(matvec, out_axes=1)(jnp.eye(b.shape[0], dtype=b.dtype)), b)


def conjugate_gradients(matvec, b):
    """Conjugate gradients in a while loop, which has no derivative in reverse."""

    def dot(x, y):
        return sum(jnp.sum(u * v) for u, v in zip(*map(weft.tree.leaves, (x, y)), strict=True))

    def along(x, t, y):
        return weft.tree.map(lambda u, v: u + t * v, x, y)

    def step(c):
        n, x, r, p = c
        moved = matvec(p)
        size = dot(r, r)
        t = size / dot(p, moved)
        x, r = along(x, t, p), along(r, -t, moved)
        return n + 1, x, r, along(r, dot(r, r) / size, p)

    zero = weft.tree.map(jnp.zeros_like, b)
    start = (0, zero, b, b)
    return lax.while_loop(lambda c: (dot(c[2], c[2]) > 1e-24) & (c[0] < 50), step, start)[1]


def solve(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, dense, dense)


def symmetric(a, b):
    positive = a @ a.T + jnp.eye(len(a), dtype=a.dtype)
    return lax.custom_linear_solve(lambda x: positive @ x, b, conjugate_gradients, symmetric=True)


# ---- values and derivatives --------------------------------------------------------------------


def test_solutions():
    a, b = system()
    for run in (solve, weft.jit(solve)):
        close(run(a, b), np.linalg.solve(a, b), 1e-10)
    positive = np.asarray(a) @ np.asarray(a).T + np.eye(3)
    for run in (symmetric, weft.jit(symmetric)):
        close(run(a, b), np.linalg.solve(positive, b), 1e-10)
    assert float(lax.custom_linear_solve(lambda x: 4.0 * x, 2.0, lambda m, b: b / m(1.0))) == 0.5


@pytest.mark.parametrize("f", [solve, symmetric], ids=["dense", "conjugate gradients"])
def test_derivatives_to_second_order_in_both_modes(f):
    check_grads(f, system(2), 2)


def test_gradients_by_formula():
    a, b = system()
    ct = generator.normal(size=3)
    x = np.linalg.solve(a, b)
    of_b = np.linalg.solve(np.asarray(a).T, ct)
    for run in (weft.vjp(solve, a, b)[1], weft.jit(lambda ct: weft.vjp(solve, a, b)[1](ct))):
        close(run(jnp.array(ct, np.float64)), (-np.outer(of_b, x), of_b), 1e-9)
    only_b = weft.grad(lambda b: jnp.sum(solve(a, b) * ct))(b)
    close(only_b, of_b, 1e-9)
    only_a = weft.grad(lambda a: jnp.sum(solve(a, b) * ct))(a)
    close(only_a, -np.outer(of_b, x), 1e-9)
    moved = jnp.array(generator.normal(size=(3, 3)), np.float64)
    _, tangent = weft.jvp(lambda a: solve(a, b), (a,), (moved,))
    close(tangent, -np.linalg.solve(a, np.asarray(moved) @ x), 1e-9)


def test_no_derivative_goes_through_the_solver():
    a, b = system()

    def stubborn(matvec, b):
        return lax.stop_gradient(dense(matvec, b))

    def f(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, stubborn, stubborn)

    close(
        weft.grad(lambda *v: jnp.sum(f(*v)), (0, 1))(a, b),
        weft.grad(lambda *v: jnp.sum(solve(*v)), (0, 1))(a, b),
        1e-10,
    )
    jaxpr = weft.make_jaxpr(weft.grad(lambda b: jnp.sum(symmetric(a, b))))(b).jaxpr
    assert names(jaxpr).count("linear_solve") == 2


def test_linearize_and_transpose():
    a, b = system()
    _, linear = weft.linearize(lambda b: solve(a, b), b)
    ct = jnp.array(generator.normal(size=3), np.float64)
    close(linear(ct), np.linalg.solve(a, ct), 1e-10)
    transposed = weft.linear_transpose(lambda b: solve(a, b), b)
    close(transposed(ct), (np.linalg.solve(np.asarray(a).T, ct),), 1e-10)
    back = weft.linear_transpose(lambda ct: transposed(ct)[0], ct)
    close(back(b), (np.linalg.solve(a, b),), 1e-10)
    with pytest.raises(WeftTypeError, match="linear in its right-hand side only") as info:
        weft.linear_transpose(lambda a: solve(a, b), a)(ct)
    assert info.value.fix.kind == "linearize"
    fixed = weft.linear_transpose(weft.linearize(lambda a: solve(a, b), a)[1], a)(ct)
    x, of_b = np.linalg.solve(a, b), np.linalg.solve(np.asarray(a).T, ct)
    close(fixed, (-np.outer(of_b, x),), 1e-9)


# ---- complex systems ---------------------------------------------------------------------------


def test_complex_systems_are_transposed_without_conjugation():
    a, b = system(dtype=np.complex128)
    assert np.iscomplexobj(np.asarray(a))
    close(solve(a, b), np.linalg.solve(a, b), 1e-10)
    ct = jnp.array(generator.normal(size=3) + 1j * generator.normal(size=3), np.complex128)
    (transposed,) = weft.linear_transpose(lambda b: solve(a, b), b)(ct)
    close(transposed, np.linalg.solve(np.asarray(a).T, ct), 1e-10)
    of_a, of_b = weft.vjp(solve, a, b)[1](ct)
    through = weft.vjp(lambda a, b: eliminate(a, b), a, b)[1](ct)
    close((of_a, of_b), through, 1e-9)
    check_grads(solve, (a, b), 1)
    # A symmetric complex matrix (not a Hermitian one) is its own transpose.
    s = a + a.T

    def own(b):
        return lax.custom_linear_solve(lambda x: s @ x, b, dense, symmetric=True)

    close(weft.linear_transpose(own, b)(ct), (np.linalg.solve(np.asarray(s).T, ct),), 1e-9)


# ---- vmap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes", [d for d in itertools.product((None, 0, 1), repeat=2) if d != (None, None)], ids=str
)
@pytest.mark.parametrize("f", [solve, symmetric], ids=["dense", "conjugate gradients"])
def test_mapped_matrices_and_right_hand_sides(axes, f):
    pairs = [system(), system()]
    whole = [np.stack([np.asarray(p[i]) for p in pairs]) for i in range(2)]
    args = [
        pairs[0][i] if d is None else jnp.array(np.moveaxis(whole[i], 0, d), np.float64)
        for i, d in enumerate(axes)
    ]
    got = weft.vmap(f, in_axes=axes)(*args)
    for k in range(2):
        one = [pairs[0 if d is None else k][i] for i, d in enumerate(axes)]
        matrix = np.asarray(one[0])
        if f is symmetric:
            matrix = matrix @ matrix.T + np.eye(3)
        close(got[k], np.linalg.solve(matrix, one[1]), 1e-9)


def test_vmap_of_grad_and_grad_of_vmap():
    pairs = [system(), system()]
    a, b = (jnp.array(np.stack([np.asarray(p[i]) for p in pairs]), np.float64) for i in range(2))

    def loss(a, b):
        return jnp.sum(solve(a, b) ** 2)

    wanted = []
    for matrix, right in pairs:
        x = np.linalg.solve(matrix, right)
        of_b = np.linalg.solve(np.asarray(matrix).T, 2 * x)
        wanted.append((-np.outer(of_b, x), of_b))
    stacked = tuple(np.stack(parts) for parts in zip(*wanted, strict=True))
    close(weft.jit(weft.vmap(weft.grad(loss, (0, 1))))(a, b), stacked, 1e-8)
    close(weft.grad(lambda a, b: jnp.sum(weft.vmap(loss)(a, b)), (0, 1))(a, b), stacked, 1e-8)


# ---- trees and further results -----------------------------------------------------------------


def coupled(scale, b):
    """Two blocks, a scalar and a vector, that act on each other; symmetric and positive."""

    def matvec(x):
        return {
            "scalar": x["scalar"] * 5.0 + jnp.sum(x["vector"]) * scale,
            "vector": x["vector"] * 4.0 + x["scalar"] * scale,
        }

    return lax.custom_linear_solve(matvec, b, conjugate_gradients, symmetric=True)


def test_trees():
    b = {"scalar": jnp.array(1.0, np.float64), "vector": jnp.array([2.0, -1.0], np.float64)}
    scale = jnp.array(0.7, np.float64)
    matrix = np.array([[5.0, 0.7, 0.7], [0.7, 4.0, 0.0], [0.7, 0.0, 4.0]])
    x = np.linalg.solve(matrix, [1.0, 2.0, -1.0])
    got = coupled(scale, b)
    close(got, {"scalar": x[0], "vector": x[1:]}, 1e-9)
    check_grads(coupled, (scale, b), 2)
    mapped = weft.vmap(coupled, in_axes=(0, None))(jnp.array([0.7, 0.1], np.float64), b)
    close(mapped["vector"][0], x[1:], 1e-9)


def test_what_the_solver_returns_beside_the_solution():
    a, b = system()

    def counting(matvec, b):
        return dense(matvec, b), {"steps": 3, "size": jnp.sum(b)}

    def f(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, counting, counting, has_aux=True)

    x, aux = weft.jit(f)(a, b)
    close(x, np.linalg.solve(a, b), 1e-10)
    assert int(aux["steps"]) == 3
    close(aux["size"], np.sum(b))
    (_, tangents) = weft.jvp(f, (a, b), (a, b))
    assert float(tangents[1]["size"]) == 0.0  # it is not part of the solution
    plain = weft.grad(lambda a, b: jnp.sum(solve(a, b)), (0, 1))(a, b)
    close(weft.grad(lambda a, b: jnp.sum(f(a, b)[0]), (0, 1))(a, b), plain, 1e-10)
    with_aux = weft.grad(lambda b: (jnp.sum(f(a, b)[0]), f(a, b)[1]), has_aux=True)(b)
    close(with_aux[0], plain[1], 1e-10)


def test_float32_and_python_numbers():
    a, b = system(dtype=np.float32)
    got = solve(a, b)
    assert got.dtype == np.float32
    close(got, np.linalg.solve(a, b), 1e-4)

    def half(b):
        return lax.custom_linear_solve(
            lambda x: np.float32(2.0) * x, b, lambda m, b: b / 2.0, symmetric=True
        )

    assert float(half(3.0)) == 1.5 and float(weft.grad(half)(3.0)) == 0.5


# ---- errors ------------------------------------------------------------------------------------


def test_reverse_mode_without_a_transposed_solver_and_its_fixes():
    a, b = system()

    def f(b, **options):
        return jnp.sum(lax.custom_linear_solve(lambda x: a @ x, b, dense, **options))

    weft.jvp(f, (b,), (b,))
    for run in (weft.grad(f), weft.jit(weft.grad(f))):
        with pytest.raises(WeftNotImplementedError, match="transposed system") as info:
            run(b)
        assert info.value.fix.kind == "transpose_solve" and "symmetric=True" in info.value.fix.text
        assert "test_linear_solve.py" in str(info.value)
    fixed = weft.grad(functools.partial(f, transpose_solve=dense))(b)
    close(fixed, np.linalg.solve(np.asarray(a).T, np.ones(3)), 1e-10)


def test_functions_of_the_wrong_type():
    b = jnp.ones(3)

    def run(matvec=lambda x: x, b=b, solver=lambda m, b: b, **options):
        return lax.custom_linear_solve(matvec, b, solver, **options)

    for options, which in (
        ({"matvec": 3}, "matvec"),
        ({"solver": 3}, "solve"),
        ({"transpose_solve": 3}, "transpose_solve"),
    ):
        with pytest.raises(WeftTypeError, match=f"takes a function as {which}, not int"):
            run(**options)
    with pytest.raises(TreeError, match="matvec double returns another structure") as info:

        def double(x):
            return x, x

        run(double)
    assert info.value.fix.kind == "same_structure"
    with pytest.raises(WeftTypeError, match="solve .* returns another type than b has") as info:
        run(solver=lambda m, b: b[:2])
    assert info.value.got == "f32[2]" and info.value.wanted == "f32[3]"
    with pytest.raises(WeftTypeError, match=r"another type than b has at b\['q'\]"):
        run(lambda x: {"q": x["q"].astype(np.float16)}, {"q": b})
    with pytest.raises(WeftTypeError, match="transpose_solve .* returns another type"):
        run(transpose_solve=lambda m, b: b[:1])
    with pytest.raises(WeftTypeError, match="solve .* returns another type") as info:
        run(lambda x: 2 * x, 3, lambda m, b: b / 2)
    fixed = run(lambda x: 2 * x, jnp.array(3, info.value.fix.data["dtype"]), lambda m, b: b / 2)
    assert float(fixed) == 1.5
    with pytest.raises(TreeError, match="returns no pair") as info:
        run(has_aux=True)
    assert info.value.fix.kind == "pair"
    assert run(solver=lambda m, b: (b, 1), has_aux=True)[1] == 1
    with pytest.raises(WeftTypeError, match="b is no array"):
        run(b="text")


def test_a_matvec_that_is_not_linear():
    with pytest.raises(WeftTypeError, match="not linear") as info:
        lax.custom_linear_solve(lambda x: x * x, jnp.ones(3), lambda m, b: b, lambda m, b: b)
    assert "test_linear_solve.py" in str(info.value)


@pytest.mark.parametrize("where", ["matvec", "solve"])
def test_a_value_that_escapes(where):
    kept = []

    def leaky(*values):
        kept.append(values[-1] * 2.0)
        return values[-1]

    functions = {"matvec": lambda x: x, "solve": lambda m, b: b} | {where: leaky}
    lax.custom_linear_solve(functions["matvec"], jnp.ones(3), functions["solve"])
    with pytest.raises(LeakedTracerError, match="custom_linear_solve") as info:
        kept[0] + 1.0
    assert "test_linear_solve.py" in str(info.value)


# ---- a system on each device -----------------------------------------------------------------


def solved_by_function(a, b):
    """The matrix is known to both solvers, so no step of theirs is that of the transposed one."""
    return lax.custom_linear_solve(
        lambda x: a @ x,
        b,
        lambda _, y: jnp.linalg.solve(a, y),
        lambda _, y: jnp.linalg.solve(a.T, y),
    )


def solved_by_iteration(a, b):
    return cg(lambda x: a.T @ (a @ x), b, tol=0.0, maxiter=3)[0]


ONE = np.ones(3)
# What varies over devices: the matrix, through d; the right-hand side is the same on all, or not.
SYSTEMS = {
    "the same right-hand side": lambda solve: lambda a, d: solve(a + d[0] * jnp.eye(3), ONE),
    "one of the same matrix": lambda solve: lambda a, d: solve(a + d[0] * jnp.eye(3), a[0]),
    "its own right-hand side": lambda solve: lambda a, d: solve(a, a[0] + d),
    "on some devices": lambda solve: (
        lambda a, d: lax.cond(d[0] > 1.0, lambda: solve(a + d[0] * jnp.eye(3), ONE), lambda: d)
    ),
}
WAYS = {
    "value": lambda f: f,
    "jit": weft.jit,
    "grad": lambda f: weft.grad(lambda a, d: jnp.sum(jnp.sin(f(a, d))), argnums=(0, 1)),
    "forward over reverse": lambda f: (
        lambda a, d: weft.jvp(WAYS["grad"](f), (a, d), (0.3 * a, 0.1 * d))[1]
    ),
    "reverse over reverse": lambda f: weft.jit(
        weft.grad(lambda a, d: jnp.sum(WAYS["grad"](f)(a, d)[0] ** 2), argnums=(0, 1))
    ),
}


@pytest.mark.parametrize("solver", [solved_by_function, solved_by_iteration])
@pytest.mark.parametrize("where", SYSTEMS)
def test_each_device_solves_its_own_system(where, solver):
    """Held to the same function of each block, one after the other, on one device."""
    body = SYSTEMS[where](solver)
    mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])

    def together(a, d):
        return weft.shard_map(
            lambda a, d: body(a, d[0])[None], mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i")
        )(a, d)

    def one_by_one(a, d):
        return jnp.stack([body(a, row) for row in d])

    with weft.enable_x64():
        a = 3 * np.eye(3) + np.random.default_rng(2).uniform(size=(3, 3))
        d = np.linspace(0.2, 2.0, 12).reshape(4, 3)
        for way in WAYS.values():
            got, want = (weft.tree.leaves(way(f)(a, d)) for f in (together, one_by_one))
            for x, y in zip(got, want, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-8)
