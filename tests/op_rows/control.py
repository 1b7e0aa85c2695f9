"""Rows of `weft.control_flow`: operations with functions inside. References are loops of Python."""

from __future__ import annotations

import numpy as np

import weft
from op_table import Arg, Op, away, between, by_kind, distinct, integers
from weft import dtypes, lax
from weft.testing import exact_array

REAL_WIDE = frozenset({dtypes.float32, dtypes.float64})
VECTOR, STACK = Arg((2,)), Arg((4, 2))
small = between(-1.5, 1.5)
CHOICE = Arg((3,), np.bool_)


def row(name, function, reference, accepts=dtypes.NUMERIC, args=(VECTOR, VECTOR), **fields):
    """A row of an operation, which takes all dtypes that the functions inside it take.

    Magnitudes below one are measured as at it, since terms cancel.
    """
    fields = {
        "draw": small, "ulps": by_kind(6, 10), "floor": 1.0, "weak": "join", "refuses": False,
        **fields,
    }  # fmt: skip
    return Op(function, reference, accepts, name=name, args=args, elementwise=False, **fields)


# ---- loops -------------------------------------------------------------------------------------


def step(c, x, w):
    """One step of a recurrence that is not linear in what it carries."""
    return c * w + x, c * x - w


def scanned(init, xs, w, **options):
    return lax.scan(lambda c, x: step(c, x, w), init, xs, **options)


def scanned_reference(init, xs, w, reverse=False, **_):
    order = range(len(xs))[::-1] if reverse else range(len(xs))
    carry, ys = init, np.zeros_like(xs)
    for i in order:
        carry, ys[i] = step(carry, xs[i], w)
    return carry, ys


def carried_only(c, w, length):
    return lax.scan(lambda c, _: (c * w + w, None), c, None, length)[0]


def carried_only_reference(c, w, length):
    for _ in range(length):
        c = c * w + w
    return c


def stacked_only(xs, w):
    return lax.scan(lambda _, x: (None, x * w), None, xs)[1]


def counted(x, w, limit):
    """A while loop whose number of steps is an operand."""
    return lax.while_loop(
        lambda c: c[1] < limit[0], lambda c: (c[0] * w + x, c[1] + 1), (x, np.int32(0))
    )[0]


def counted_reference(x, w, limit):
    c = x
    for _ in range(limit[0]):
        c = c * w + x
    return c


def doubled(x, w):
    """A while loop whose number of steps depends on the values that it carries."""
    return lax.while_loop(lambda c: c[0][0] < 4, lambda c: (c[0] + c[0], c[1] * c[0]), (x, w))


def doubled_reference(x, w):
    while x[0] < 4:
        x, w = x + x, w * x
    return x, w


def ranged(x, w, lower, upper):
    def body(i, c):
        return c * w + x * lax.convert_element_type(i, x.dtype)

    return lax.fori_loop(lower, upper, body, x)


def ranged_reference(x, w, lower, upper):
    c = x
    for i in range(lower, upper):
        c = c * w + x * np.asarray(i).astype(x.dtype)
    return c


def ranged_by_operands(x, w, bounds):
    return ranged(x, w, 0, bounds[0])


def ranged_by_operands_reference(x, w, bounds):
    return ranged_reference(x, w, 0, bounds[0])


def mapped(xs, w, **options):
    return lax.map(lambda x: x * w + x, xs, **options)


def composed(first, second):
    """Affine functions x -> a x + b, one after the other."""
    (a, b), (c, d) = first, second
    return a * c, b * c + d


def prefixes(a, b, **options):
    return lax.associative_scan(composed, (a, b), **options)


def prefixes_reference(a, b, reverse=False, axis=0):
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    if reverse:
        a, b = a[::-1], b[::-1]
    pairs = [(a[0], b[0])]
    for pair in zip(a[1:], b[1:], strict=True):
        pairs.append(composed(pairs[-1], pair))
    a, b = (np.stack(part) for part in zip(*pairs, strict=True))
    if reverse:
        a, b = a[::-1], b[::-1]
    return np.moveaxis(a, 0, axis), np.moveaxis(b, 0, axis)


LOOPS = [
    *(
        row(f"scan{name}", scanned, scanned_reference, args=(VECTOR, STACK, VECTOR), params=params,
            ulps=by_kind(16, 24))
        for name, params in (
            ("", {}), (" reversed and unrolled", {"reverse": True, "unroll": 3}),
        )
    ),
    row("scan of nothing", carried_only, carried_only_reference, params={"length": 3}),
    row("scan without a step", carried_only, carried_only_reference, params={"length": 0}, ulps=0),
    row("scan without a carry", stacked_only, lambda xs, w: xs * w, args=(STACK, VECTOR)),
    row("while_loop", counted, counted_reference, modes=("fwd",),
        args=(VECTOR, VECTOR, Arg((3,), np.int32, integers(0, 4))), ulps=by_kind(12, 20)),
    row("while_loop by its values", doubled, doubled_reference, dtypes.FLOATING, modes=("fwd",),
        args=(Arg((3,), draw=distinct(0.7, 3)), Arg((3,))), weak=None),
    row("fori_loop", ranged, ranged_reference, params={"lower": -1, "upper": 3},
        ulps=by_kind(12, 20), weak="strong"),
    row("fori_loop without a step", ranged, ranged_reference, params={"lower": 2, "upper": 2},
        ulps=0, weak="strong"),
    row("fori_loop by its operand", ranged_by_operands, ranged_by_operands_reference,
        modes=("fwd",), args=(VECTOR, VECTOR, Arg((2,), np.int32, integers(0, 3))),
        ulps=by_kind(12, 20), weak="strong"),
    row("map", mapped, lambda xs, w: xs * w + xs, args=(STACK, VECTOR)),
    row("map in batches", mapped, lambda xs, w, batch_size: xs * w + xs, args=(Arg((5, 2)), VECTOR),
        params={"batch_size": 2}),
    row("associative_scan", prefixes, prefixes_reference, args=(Arg((5, 2)), Arg((5, 2))),
        ulps=by_kind(16, 24), weak=None),
    row("associative_scan reversed", prefixes, prefixes_reference,
        args=(Arg((2, 3)), Arg((2, 3))), params={"reverse": True, "axis": 1},
        ulps=by_kind(12, 20), weak=None),
]  # fmt: skip


# ---- choices -----------------------------------------------------------------------------------


def chosen(flags, x, w):
    """The branches read other operands, and close over some."""
    return lax.cond(flags[0], lambda y: (y * w, w), lambda y: (y + y, y * x), x)


def chosen_reference(flags, x, w):
    return (x * w, w) if flags[0] else (x + x, x * x)


def switched(places, x, w):
    return lax.switch(
        places[0], [lambda y, v: y * v, lambda y, v: y - v, lambda y, v: v * v * x], x, w
    )


def switched_reference(places, x, w):
    return [x * w, x - w, w * w * x][min(max(int(places[0]), 0), 2)]


CHOICES = [
    row("cond", chosen, chosen_reference, args=(CHOICE, VECTOR, VECTOR)),
    row("switch", switched, switched_reference,
        args=(Arg((3,), np.int32, integers(-1, 3)), VECTOR, VECTOR)),
]  # fmt: skip


# ---- functions with a treatment ----------------------------------------------------------------


def formula(x, w):
    return x * x * w - w


def jitted(x, w):
    return weft.jit(lambda y: formula(y, w))(x)


def rematerialized(x, w):
    return weft.checkpoint(lambda y: formula(y * w, w))(x)


by_jvp = weft.custom_jvp(formula)


@by_jvp.defjvp
def by_jvp_rule(primals, tangents):
    (x, w), (dx, dw) = primals, tangents
    return by_jvp(x, w), (x * w + w * x) * dx + (x * x - lax.full_like(x, 1)) * dw


by_vjp = weft.custom_vjp(formula)


def by_vjp_forward(x, w):
    return by_vjp(x, w), (x, w)


def by_vjp_backward(residuals, ct):
    x, w = residuals
    return (x * w + w * x) * ct, (x * x - lax.full_like(x, 1)) * ct


by_vjp.defvjp(by_vjp_forward, by_vjp_backward)


def closing_over(x, w):
    """A custom function that closes over an operand, which is differentiated through it."""
    inner = weft.custom_jvp(lambda y: formula(y, w))
    inner.defjvp(lambda ys, dys: (inner(*ys), (ys[0] * w + w * ys[0]) * dys[0]))
    return inner(x)


TABLE = exact_array([2.0, -0.5])


@weft.jit
def with_a_table(x, w):
    """A rule that closes over an array is run where there is no place for further inputs."""
    inner = weft.custom_jvp(formula)

    @inner.defjvp
    def rule(primals, tangents):
        (x, w), (dx, dw) = primals, tangents
        two = lax.convert_element_type(TABLE[0], x.dtype)
        return inner(x, w), two * x * w * dx + (x * x - lax.full_like(x, 1)) * dw

    return inner(x, w)


TREATED = [
    row("jit", jitted, formula),
    row("checkpoint_name", weft.checkpoint_name, lambda x, name: x, dtypes.ANY, args=(VECTOR,),
        params={"name": "kept"}, ulps=0.5),
    row("checkpoint", rematerialized, lambda x, w: formula(x * w, w), ulps=by_kind(12, 20)),
    row("custom_jvp", lambda x, w: by_jvp(x, w), formula),
    row("custom_jvp that closes over", closing_over, formula),
    row("custom_jvp with a table, in jit", with_a_table, formula),
    row("custom_vjp", lambda x, w: by_vjp(x, w), formula),
]  # fmt: skip


# ---- solvers -----------------------------------------------------------------------------------


def dominant(generator, shape, dtype):
    """Matrices whose solutions are well conditioned."""
    return (small(generator, shape, dtype) + 4 * np.eye(2)).astype(dtype)


def by_cramer(a, b):
    """The solution of a system of two equations."""
    determinant = a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    first = (a[1, 1] * b[0] - a[0, 1] * b[1]) / determinant
    second = (a[0, 0] * b[1] - a[1, 0] * b[0]) / determinant
    return weft.numpy.stack([first, second])


def times(a, x):
    return weft.numpy.stack([a[i, 0] * x[0] + a[i, 1] * x[1] for i in range(2)])


def solved(a, b):
    return lax.custom_linear_solve(
        lambda x: times(a, x),
        b,
        lambda _, b: by_cramer(lax.stop_gradient(a), b),
        lambda _, b: by_cramer(lax.stop_gradient(a).T, b),
    )


def solved_symmetric(a, b):
    return lax.custom_linear_solve(
        lambda x: a * x, b, lambda matvec, b: b / matvec(lax.full_like(b, 1)), symmetric=True
    )


def square_root(a, guess):
    def newton(f, x):
        def improve(_, x):
            y, slope = weft.jvp(f, (x,), (lax.full_like(x, 1),))
            return x - y / slope

        return lax.fori_loop(0, 8, improve, x)

    return lax.custom_root(
        lambda x: x * x - a, guess, newton, lambda g, y: y / g(lax.full_like(y, 1))
    )


SOLVERS = [
    row("custom_linear_solve", solved, np.linalg.solve, dtypes.INEXACT,
        args=(Arg((2, 2), draw=dominant), VECTOR)),
    row("custom_linear_solve of a symmetric system", solved_symmetric, lambda a, b: b / a,
        dtypes.INEXACT, args=(Arg((2,), draw=away((0,), 0.5, small)), VECTOR)),
    row("custom_root", square_root, lambda a, guess: np.sqrt(a), dtypes.FLOATING,
        args=(Arg((3,), draw=between(0.7, 3)), Arg((3,), draw=between(0.8, 2))), ulps=2),
]  # fmt: skip


# ---- the host ----------------------------------------------------------------------------------


def like(x):
    return weft.ShapeDtypeStruct(x.shape, x.dtype)


def on_host(x, w, vmap_method):
    return weft.pure_callback(formula, like(x), x, w, vmap_method=vmap_method)


def on_host_in_order(x, w):
    return weft.io_callback(formula, like(x), x, w, ordered=True)


host_sin = weft.custom_jvp(
    lambda x: weft.pure_callback(np.sin, like(x), x, vmap_method="expand_dims")
)
host_sin.defjvp(lambda xs, dxs: (host_sin(*xs), lax.cos(*xs) * dxs[0]))


def watched(x, w):
    """A result beside a callback that sees it."""
    got = formula(x, w)
    weft.debug.callback(lambda value: np.asarray(value).sum(), got)
    return got


HOST = [
    *(
        row(f"pure_callback {method}", on_host, lambda x, w, vmap_method: formula(x, w), order=0,
            params={"vmap_method": method}, weak="strong")
        for method in ("sequential", "broadcast_all")
    ),
    row("pure_callback with a derivative", lambda x: host_sin(x), np.sin, REAL_WIDE,
        args=(VECTOR,), ulps=2, weak="strong"),
    row("io_callback", on_host_in_order, formula, order=0, weak="strong"),
    row("debug.callback", watched, formula),
]  # fmt: skip

ROWS = LOOPS + CHOICES + TREATED + SOLVERS + HOST
