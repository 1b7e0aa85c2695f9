"""Fixes of functions with derivatives of their own."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import (
    DTypeError,
    LeakedTracerError,
    MissingDerivativeError,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
)

TWO = jnp.float32(2)


def square(x):
    return x * x


def square_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return x * x, 2 * x * t


def product(x, y):
    return x * y


def with_jvp(rule, function=square, **options):
    made = weft.custom_jvp(function, **options)
    made.defjvp(rule)
    return made


def with_jvps(*rules, function=product, **options):
    made = weft.custom_jvp(function, **options)
    made.defjvps(*rules)
    return made


def with_vjp(bwd, fwd=lambda *args: (square(args[0]), args), function=square, **options):
    made = weft.custom_vjp(function, **options)
    made.defvjp(fwd, bwd)
    return made


def square_bwd(saved, ct):
    return (2 * saved[0] * ct,)


def power_fwd(kind, x, n):
    return x**n, x


def keyword_only(x, *, n):
    return x * n


def by_position(x, n):
    return x * n


def scaled_bwd(n, _, ct):
    return (n * ct,)


def scaled(bwd=lambda n, _, ct: (n * ct,), **options):
    """x * n, where n has no derivative."""
    return with_vjp(bwd, lambda x, n: (x * n, None), product, nondiff_argnums=1, **options)


def scaled_too():
    return with_vjp(
        lambda saved, ct: (saved[1] * ct, saved[0] * ct), lambda x, n: (x * n, (x, n)), product
    )


def differentiated(stopped):
    """The derivative of x * n(x) at 3, for n = x."""
    return weft.grad(lambda x: scaled()(x, stopped(x)))(3.0)


class Box:
    """Holds a value where nothing looks for it."""

    def __init__(self, value):
        self.value = value


def held(scale, x):
    box = Box(scale)
    made = with_jvp(
        lambda primals, tangents: (box.value * primals[0], box.value * tangents[0]),
        lambda x: box.value * x,
    )
    return made(x)


def passed(scale, x):
    made = with_jvp(
        lambda primals, tangents: (product(*primals), product(primals[0], tangents[1])),
        lambda scale, x: scale * x,
    )
    return made(scale, x)


def index_tangent(tangent):
    """A function with an integer among its results."""
    rule = with_jvp(
        lambda primals, tangents: ((primals[0], jnp.int32(0)), (tangents[0], tangent)),
        lambda x: (x, jnp.int32(0)),
    )
    return weft.grad(lambda x: rule(x)[0])(2.0)


def zero_tangent(zeros):
    """A function whose derivative is zero."""
    rule = with_jvp(lambda primals, tangents: (jnp.sign(primals[0]), zeros), jnp.sign)
    return weft.grad(lambda x: rule(x).sum())(jnp.ones(2))


def index_cotangent(cotangent):
    """The derivative of x[i] in x, for an integer i that may have None."""
    made = with_vjp(
        lambda i, ct: (jnp.zeros(3).at[i].set(ct), cotangent),
        lambda x, i: (x[i], i),
        lambda x, i: x[i],
    )
    return weft.grad(lambda x: made(x, 1))(jnp.zeros(3))


def forwards(bwd):
    made = with_vjp(bwd, lambda x: (x, None), lambda x: x)
    return weft.jvp(made, (3.0,), (1.0,))[1]


def clipped_backwards():
    made = with_vjp(lambda _, ct: (jnp.clip(ct, -1, 1),), lambda x: (x, None), lambda x: x)
    return lambda x: 5.0 * made(x)


RULES = [
    Fixed(
        "set the rule with .defjvp(...) before the first call",
        wrong=lambda: weft.custom_jvp(square)(2.0),
        fixed=lambda fix: weft.grad(with_jvp(square_jvp))(2.0),
        value=4.0,
        error=MissingDerivativeError,
    ),
    Fixed(
        "set the rule with .defvjp(...) before the first call",
        wrong=lambda: weft.custom_vjp(square)(2.0),
        fixed=lambda fix: weft.grad(with_vjp(square_bwd))(2.0),
        value=4.0,
        error=MissingDerivativeError,
    ),
    Fixed(
        "leave 'm' out of nondiff_argnames",
        wrong=lambda: with_vjp(
            scaled_bwd, lambda x, n: (x * n, None), by_position, nondiff_argnames=("n", "m")
        ),
        fixed=lambda fix: weft.grad(
            with_vjp(scaled_bwd, lambda x, n: (x * n, None), by_position, nondiff_argnames=("n",))
        )(2.0, 5),
        value=5.0,
        error=WeftValueError,
    ),
    Fixed(
        "leave 2 out of nondiff_argnums",
        wrong=lambda: with_vjp(
            scaled_bwd, lambda x, n: (x * n, None), by_position, nondiff_argnums=(1, 2)
        ),
        fixed=lambda fix: weft.grad(
            with_vjp(scaled_bwd, lambda x, n: (x * n, None), by_position, nondiff_argnums=(1,))
        )(2.0, 5),
        value=5.0,
        error=WeftValueError,
    ),
    Fixed(
        "make them ordinary parameters of the function (no bare *",
        wrong=lambda: with_jvp(
            lambda primals, tangents: (by_position(*primals), tangents[0] * primals[1]),
            keyword_only,
        )(2.0, n=5.0),
        fixed=lambda fix: weft.grad(
            with_jvp(
                lambda primals, tangents: (by_position(*primals), tangents[0] * primals[1]),
                by_position,
            )
        )(2.0, n=5.0),
        value=5.0,
        error=WeftTypeError,
    ),
    Fixed(
        "make it an argument without derivatives: nondiff_argnums=(0,)",
        wrong=lambda: weft.grad(
            with_vjp(
                lambda saved, ct: (None, 2 * saved * ct),
                lambda kind, x: (square(x), x),
                lambda kind, x: square(x),
            ),
            1,
        )("fast", 2.0),
        fixed=lambda fix: weft.grad(
            with_vjp(
                lambda kind, saved, ct: (2 * saved * ct,),
                lambda kind, x: (square(x), x),
                lambda kind, x: square(x),
                **fix.data,
            ),
            1,
        )("fast", 2.0),
        value=4.0,
        error=WeftTypeError,
    ),
    Fixed(
        "make it an argument without derivatives: nondiff_argnums=(0, 2)",
        wrong=lambda: weft.grad(
            with_vjp(
                lambda kind, saved, ct: (2 * saved * ct, None),
                lambda kind, x, mode: (square(x), x),
                lambda kind, x, mode: square(x),
                nondiff_argnums=0,
            ),
            1,
        )("fast", 2.0, "exact"),
        fixed=lambda fix: weft.grad(
            with_vjp(
                lambda kind, mode, saved, ct: (2 * saved * ct,),
                lambda kind, x, mode: (square(x), x),
                lambda kind, x, mode: square(x),
                **fix.data,
            ),
            1,
        )("fast", 2.0, "exact"),
        value=4.0,
        error=WeftTypeError,
    ),
    Fixed(
        [
            "take it out of nondiff_argnums and have the rule handle it",
            "or pass weft.lax.stop_gradient of it",
        ],
        wrong=lambda: differentiated(lambda x: x),
        fixed=lambda fix: [
            weft.grad(lambda x: scaled_too()(x, x))(3.0),
            differentiated(weft.lax.stop_gradient),
        ],
        value=[6.0, 3.0],
        error=WeftTypeError,
    ),
    Fixed(
        "pass the value as an argument",
        wrong=lambda: weft.vmap(held)(np.float32([2, 3]), np.float32([5, 7])),
        fixed=lambda fix: weft.vmap(passed)(np.float32([2, 3]), np.float32([5, 7])),
        value=np.array([10.0, 21.0]),
        error=LeakedTracerError,
    ),
]
FORWARD = [
    Fixed(
        "return (result, tangent) from the jvp rule",
        wrong=lambda: weft.grad(with_jvp(lambda primals, tangents: 2 * primals[0] * tangents[0]))(
            2.0
        ),
        fixed=lambda fix: weft.grad(
            with_jvp(lambda primals, tangents: (square(primals[0]), 2 * primals[0] * tangents[0]))
        )(2.0),
        value=4.0,
        error=WeftTypeError,
    ),
    Fixed(
        "use defjvp, whose rule gets these arguments first",
        wrong=lambda: with_jvps(lambda t, out, x: 5 * t, None, nondiff_argnums=1),
        fixed=lambda fix: weft.grad(
            with_jvp(
                lambda n, primals, tangents: (primals[0] * n, tangents[0] * n),
                product,
                nondiff_argnums=1,
            )
        )(2.0, 5),
        value=5.0,
        error=WeftTypeError,
    ),
    Fixed(
        "give 2 rules, None where the derivative is zero",
        wrong=lambda: with_jvps(lambda t, out, x, y: t * y),
        fixed=lambda fix: weft.grad(with_jvps(lambda t, out, x, y: t * y, None), (0, 1))(2.0, 5.0),
        value=(5.0, 0.0),
        error=WeftTypeError,
    ),
    Fixed(
        "return np.zeros((), weft.float0)",
        wrong=lambda: index_tangent(1.0),
        fixed=lambda fix: index_tangent(np.zeros((), weft.float0)),
        value=1.0,
        error=DTypeError,
    ),
    Fixed(
        "return zeros of shape (2,) and dtype float32",
        wrong=lambda: zero_tangent(np.zeros(2, weft.float0)),
        fixed=lambda fix: zero_tangent(np.zeros(**fix.data)),
        value=np.zeros(2),
        error=DTypeError,
    ),
    Fixed(
        "return it in the shape (2,)",
        wrong=lambda: zero_tangent(jnp.zeros(())),
        fixed=lambda fix: zero_tangent(jnp.zeros(**fix.data)),
        value=np.zeros(2),
        error=ShapeError,
    ),
    Fixed(
        "convert it to f32",
        wrong=lambda: zero_tangent(jnp.zeros(2, "float16")),
        fixed=lambda fix: zero_tangent(jnp.zeros(2, "float16").astype(**fix.data)),
        value=np.zeros(2),
        error=DTypeError,
    ),
]
BACKWARD = [
    Fixed(
        "return (result, residuals) from the fwd rule",
        wrong=lambda: weft.grad(with_vjp(square_bwd, square))(2.0),
        fixed=lambda fix: weft.grad(with_vjp(square_bwd, lambda x: (square(x), (x,))))(2.0),
        value=4.0,
        error=WeftTypeError,
    ),
    Fixed(
        "return (cotangent,) for one argument",
        wrong=lambda: weft.grad(with_vjp(lambda saved, ct: 2 * saved[0] * ct))(2.0),
        fixed=lambda fix: weft.grad(with_vjp(lambda saved, ct: (2 * saved[0] * ct,)))(2.0),
        value=4.0,
        error=TreeError,
    ),
    Fixed(
        "return 2 cotangents",
        wrong=lambda: weft.grad(
            with_vjp(lambda saved, ct: (ct,), lambda x, y: (x + y, None), lambda x, y: x + y)
        )(2.0, 3.0),
        fixed=lambda fix: weft.grad(
            with_vjp(lambda saved, ct: (ct, ct), lambda x, y: (x + y, None), lambda x, y: x + y)
        )(2.0, 3.0),
        value=1.0,
        error=TreeError,
    ),
    Fixed(
        "return its real part: x.real",
        wrong=lambda: weft.grad(with_vjp(lambda saved, ct: ((2 + 1j) * ct,)))(2.0),
        fixed=lambda fix: weft.grad(with_vjp(lambda saved, ct: (((2 + 1j) * ct).real,)))(2.0),
        value=2.0,
        error=DTypeError,
    ),
    Fixed(
        "return None for this argument",
        wrong=lambda: index_cotangent(jnp.float32(0)),
        fixed=lambda fix: index_cotangent(None),
        value=np.array([0.0, 1.0, 0.0]),
        error=DTypeError,
    ),
    Fixed(
        "return None where the cotangent is zero",
        wrong=lambda: weft.grad(with_vjp(lambda saved, ct: (np.zeros((), weft.float0),)))(2.0),
        fixed=lambda fix: weft.grad(with_vjp(lambda saved, ct: (None,)))(2.0),
        value=0.0,
        error=DTypeError,
    ),
    Fixed(
        "define the derivative with weft.custom_jvp",
        wrong=lambda: forwards(lambda _, ct: (jnp.clip(ct, -1, 1),)),
        fixed=lambda fix: weft.jvp(
            with_jvp(lambda primals, tangents: (primals[0], jnp.clip(tangents[0], -1, 1))),
            (3.0,),
            (5.0,),
        )[1],
        value=1.0,
        error=WeftTypeError,
    ),
    Fixed(
        ["or differentiate in reverse mode (weft.grad", "weft.vjp"],
        wrong=lambda: weft.jvp(clipped_backwards(), (3.0,), (1.0,)),
        fixed=lambda fix: [
            weft.grad(clipped_backwards())(3.0),
            weft.vjp(clipped_backwards(), 3.0)[1](1.0),
        ],
        value=[1.0, (1.0,)],
        error=WeftTypeError,
    ),
    Fixed(
        "weft.jacrev)",
        wrong=lambda: weft.jacfwd(clipped_backwards())(3.0),
        fixed=lambda fix: weft.jacrev(clipped_backwards())(3.0),
        value=1.0,
        error=WeftTypeError,
    ),
]
FIXES = RULES + FORWARD + BACKWARD
