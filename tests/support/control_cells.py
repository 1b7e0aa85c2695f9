"""The cells of the composition matrix: operations with functions inside, and what is done to them.

An operation makes a function of three arguments from a step, which is such a function too, so that
operations nest: `x` is what it is applied to or carries along, `w` is closed over, and `p` steers:
it chooses branches and the number of steps. Each is written once over the operations of a
namespace: `Weft` has those of weft, `Plain` loops of Python over NumPy arrays and dual numbers.
The letters of a word are transformations, the innermost first.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

import weft
import weft.numpy as jnp
from dual_numbers import Dual, Reference, promote, stack, tangent_of, value
from weft import lax

X = np.array([0.3, -0.7, 0.5])
W = np.array([0.8, -0.4, 1.1])
P = np.array(0.45)
POINT = (X, W, P)
DIRECTION = (np.array([1.0, 0.5, -0.25]), np.array([-0.6, 0.3, 0.9]), np.array(0.7))
WEIGHTS = np.array([0.5, 1.0, -1.5, 0.8, -0.3, 0.6, 1.2])
ROWS = np.array([[0.2, -0.5, 0.3], [0.7, 0.1, -0.4]])
# What a mapped argument is multiplied with: the steering one takes every branch and step count.
SCALES = {0: (1.0, -0.6, 0.4), 1: (1.0, 0.5, -0.9), 2: (1.0, -1.6, 2.0)}
ROW_WEIGHTS = np.array([1.0, -0.7, 0.4])
# Rules say another derivative than the function has, to show that they are what is used.
JVP_FACTOR, VJP_FACTOR = 1.5, 0.75

# Values that debug callbacks got.
SEEN: list[np.ndarray] = []


# ---- two ways to run a program ------------------------------------------------------------------


class Plain(Reference):
    """Python's own control flow, over NumPy arrays and dual numbers."""

    closest = np.inf  # how near any comparison came to being an equality

    @staticmethod
    def less(a, b):
        difference = float(value(a - b))
        Plain.closest = min(Plain.closest, abs(difference))
        return difference < 0

    @staticmethod
    def both(a, b):
        return a and b

    @staticmethod
    def count(*flags):
        return sum(flags)

    @staticmethod
    def scan(body, carry, xs):
        ys = []
        for i in range(len(value(xs))):
            carry, y = body(carry, xs[i])
            ys.append(y)
        return carry, ys

    @staticmethod
    def while_loop(condition, body, carry):
        while condition(carry):
            carry = body(carry)
        return carry

    @staticmethod
    def cond(pred, when, otherwise, *operands):
        return (when if pred else otherwise)(*operands)

    @staticmethod
    def switch(index, branches, *operands):
        return branches[index](*operands)

    @staticmethod
    def map(function, xs):
        return [function(xs[i]) for i in range(len(value(xs)))]

    @staticmethod
    def rows_total(rows):
        return functools.reduce(lambda a, b: a + b, rows)

    @staticmethod
    def checkpoint(function):
        return function

    @staticmethod
    def with_jvp(function, closed):
        return lambda *args: with_factor(function, JVP_FACTOR, args, closed)

    @staticmethod
    def with_vjp(function):
        return lambda *args: with_factor(lambda _: function, VJP_FACTOR, args, args[0])

    host_sin = Reference.sin

    @staticmethod
    def watch(x):
        SEEN.append(value(x))


def with_factor(function, factor, args, closed):
    """The result of `function(closed)` whose derivative in its arguments, not in what it closes
    over, is multiplied with a factor."""
    if not isinstance(args[0], Dual):
        return function(closed)(*args)
    tangent = function(closed)(*(Dual(x.a, x.b * factor) for x in args)).b
    return Dual(with_factor(function, factor, [x.a for x in args], closed.a), tangent)


class Weft:
    """The operations of weft."""

    sin, sum = jnp.sin, jnp.sum
    less, both = jnp.less, jnp.logical_and
    scan, while_loop, cond, switch, map = (
        lax.scan, lax.while_loop, lax.cond, lax.switch, lax.map
    )  # fmt: skip
    checkpoint = weft.checkpoint

    @staticmethod
    @functools.cache
    def rows():
        return jnp.array(ROWS, np.float64)

    @staticmethod
    def constant(array):
        return Weft.rows() if array is ROWS else jnp.array(array, np.float64)

    @staticmethod
    def count(*flags):
        return sum(flag.astype(np.int32) for flag in flags)

    @staticmethod
    def rows_total(rows):
        return jnp.sum(rows, 0)

    @staticmethod
    def with_jvp(function, closed):
        plain = function(closed)
        custom = weft.custom_jvp(plain)

        @custom.defjvp
        def rule(primals, tangents):
            return custom(*primals), weft.jvp(plain, primals, tangents)[1] * JVP_FACTOR

        return custom

    @staticmethod
    def with_vjp(function):
        custom = weft.custom_vjp(function)

        def backward(args, cotangent):
            # By forward mode, so that loops without a reverse mode get one.
            jacobians = weft.jacfwd(function, tuple(range(len(args))))(*args)
            return tuple(jnp.tensordot(cotangent, j, 1) * VJP_FACTOR for j in jacobians)

        custom.defvjp(lambda *args: (custom(*args), args), backward)
        return custom

    @staticmethod
    def watch(x):
        weft.debug.callback(lambda seen: SEEN.append(np.array(seen)), x)


def on_host(function):
    """A function of NumPy, called for one element after the other."""

    def call(x):
        out = weft.ShapeDtypeStruct(x.shape, x.dtype)
        return weft.pure_callback(function, out, x, vmap_method="sequential")

    return call


host_sin = weft.custom_jvp(on_host(np.sin))
host_sin.defjvp(lambda xs, ts: (host_sin(*xs), jnp.cos(*xs) * ts[0]))
Weft.host_sin = staticmethod(host_sin)


# ---- the operations -----------------------------------------------------------------------------


def base(op, x, w, p):
    """The step that everything begins with."""
    return op.sin(x * w + p) + x * w * 0.5


def scan(op, step, x, w, p):
    def body(carry, row):
        c, n = carry
        y = step(c * 0.8 + row * w, w, p)
        return (y, n + 1), y * row * n

    (c, n), ys = op.scan(body, (x, 1), op.constant(ROWS))
    return c * n * 0.5 + op.rows_total(ys)


def while_loop(op, step, x, w, p):
    def condition(carry):
        c, n = carry
        return op.both(op.less(n * 0.5, p + 0.83), op.less(op.sum(c * c), p + 20.0))

    def body(carry):
        c, n = carry
        return step(c * 0.7 + w * 0.3, w, p), n + 1

    c, n = op.while_loop(condition, body, (x, 0))
    return c * n * 0.1 + c


def cond(op, step, x, w, p):
    return op.cond(
        op.less(0.107, op.sum(x) * 0.2 + p),
        lambda y, p: step(y * 1.1, w, p),
        lambda y, p: step(w * 0.5, y, p) * x,
        x,
        p,
    )


def switch(op, step, x, w, p):
    branches = [
        lambda y: step(y * 0.9 + 0.1, w, p) * 2.0,
        lambda y: op.sin(step(y, w * 0.7, p)),
        lambda y: y * w * p,
    ]
    index = op.count(op.less(0.013, p), op.less(0.617, op.sum(x) + p))
    return op.switch(index, branches, x)


def custom_jvp(op, step, x, w, p):
    return op.with_jvp(lambda v: lambda y, q: step(y * 0.9, v, q), w)(x, p) * w


def custom_vjp(op, step, x, w, p):
    return op.with_vjp(lambda y, v, q: step(y * 0.9, v, q))(x, w, p) * 0.8


def remat(op, step, x, w, p):
    return op.checkpoint(lambda y, q: op.sin(step(op.sin(y), w, q)))(x, p) + x * w


def mapped(op, step, x, w, p):
    return op.rows_total(op.map(lambda row: step(row + x * 0.5, w, p), op.constant(ROWS) * p))


def pure_callback(op, step, x, w, p):
    return op.host_sin(step(x * 0.9, w, p)) * w


def debug_callback(op, step, x, w, p):
    y = step(x * 0.8, w, p) * x
    op.watch(y)
    return y


OPERATIONS = {
    "scan": scan,
    "while": while_loop,
    "cond": cond,
    "switch": switch,
    "custom_jvp": custom_jvp,
    "custom_vjp": custom_vjp,
    "remat": remat,
    "map": mapped,
    "pure_callback": pure_callback,
    "debug_callback": debug_callback,
}


@functools.cache
def function_of(op, chain):
    """The function of a chain of operations, the outermost first."""
    if not chain:
        return functools.partial(base, op)
    return functools.partial(OPERATIONS[chain[0]], op, function_of(op, chain[1:]))


# ---- the transformations ------------------------------------------------------------------------

# Each is an operator from functions of the three arguments to such functions. Results are vectors;
# a gradient is one vector of the gradients in all arguments.


@functools.cache
def arrays(kind):
    """Constants as arrays of weft, made once."""
    values = {"direction": DIRECTION, "weights": (WEIGHTS,), "point": POINT,
              "row weights": (ROW_WEIGHTS,),
              "scales": tuple(np.array(SCALES[i]) for i in range(3))}[kind]  # fmt: skip
    return tuple(jnp.array(v, np.float64) for v in values)


def by_jvp(f):
    return lambda *args: weft.jvp(f, args, arrays("direction"))[1]


def by_linearize(f):
    return lambda *args: weft.linearize(f, *args)[1](*arrays("direction"))


def by_grad(f):
    def total(*args):
        out = f(*args)
        return jnp.sum(arrays("weights")[0][: out.shape[0]] * out)

    gradient = weft.grad(total, (0, 1, 2))

    def flat(*args):
        in_x, in_w, in_p = gradient(*args)
        return jnp.concatenate([in_x, in_w, in_p[None]])

    return flat


def by_vmap(*places):
    axes = tuple(0 if i in places else None for i in range(3))

    def transform(f):
        mapped = weft.vmap(f, in_axes=axes)

        def total(*args):
            rows = [
                weft.vmap(lambda s, x=x: s * x)(arrays("scales")[i]) if i in places else x
                for i, x in enumerate(args)
            ]
            return jnp.tensordot(arrays("row weights")[0], mapped(*rows), 1)

        return total

    return transform


def plain_forward(f, args, directions):
    tokens = [Dual(x, promote(d, x)) for x, d in zip(args, directions, strict=True)]
    return tangent_of(f(*tokens), args[0])


def plain_jvp(f):
    return lambda *args: plain_forward(f, args, DIRECTION)


def plain_grad(f):
    def flat(*args):
        columns = []
        for one in np.eye(7):
            column = plain_forward(f, args, (one[:3], one[3:6], one[6]))
            columns.append(Reference.sum(column * WEIGHTS[: len(value(column))]))
        return stack(columns)

    return flat


def plain_vmap(*places):
    def transform(f):
        def total(*args):
            rows = [
                f(*(x * SCALES[i][k] if i in places else x for i, x in enumerate(args)))
                * ROW_WEIGHTS[k]
                for k in range(3)
            ]
            return functools.reduce(lambda a, b: a + b, rows)

        return total

    return transform


# Name: what it is in weft, and what it means.
TRANSFORMATIONS = {
    "jit": (weft.jit, lambda f: f),
    "jvp": (by_jvp, plain_jvp),
    "linearize": (by_linearize, plain_jvp),
    "grad": (by_grad, plain_grad),
    "vmap of the operand": (by_vmap(0), plain_vmap(0)),
    "vmap of the closure": (by_vmap(1), plain_vmap(1)),
    "vmap of the predicate": (by_vmap(2), plain_vmap(2)),
    "vmap of all": (by_vmap(0, 1, 2), plain_vmap(0, 1, 2)),
}
MAPS = ("vmap of the operand", "vmap of the closure", "vmap of the predicate", "vmap of all")
DERIVATIVES = ("jvp", "linearize", "grad")

WORDS = [(), *itertools.product(TRANSFORMATIONS, repeat=1)] + [
    (first, second)
    for first, second in itertools.product(TRANSFORMATIONS, repeat=2)
    # A map of a map is one of two axes and says nothing of control flow that depth three would not.
    if not (first in MAPS and second in MAPS)
]
# What each ordered pair of operations is put through.
PAIR_WORDS = [
    (),
    ("jvp",),
    ("grad",),
    ("vmap of the predicate",),
    ("vmap of all",),
    ("grad", "jvp"),
    ("jvp", "grad"),
    ("vmap of all", "grad"),
]


def transformed(chain, word):
    """The function of a chain under a word of transformations."""
    f = function_of(Weft, chain)
    for name in word:
        f = TRANSFORMATIONS[name][0](f)
    return f


@functools.cache
def reference(chain, word):
    """The same result as a NumPy array, from loops of Python."""
    f = function_of(Plain, chain)
    for name in word:
        f = TRANSFORMATIONS[name][1](f)
    return np.asarray(value(f(*POINT)))


# ---- which cells are errors ---------------------------------------------------------------------


def outside_rules(chain):
    """Whether a while loop of the chain is differentiated by its own rule."""
    return "while" in chain and "custom_vjp" not in chain[: chain.index("while")]


def reverse_of_while(chain, word):
    return outside_rules(chain) and "grad" in word


def reverse_of_a_backward_rule(chain, word):
    """The backward rule of custom_vjp differentiates the loop forwards, and is then reversed."""
    first = next((i for i, name in enumerate(word) if name in DERIVATIVES), len(word))
    return "while" in chain and not outside_rules(chain) and "grad" in word[first + 1 :]


# When a cell is an error, and why; the error is checked in place of numbers.
REFUSED = [
    (reverse_of_while, "reverse mode has no place for the residuals of a while loop"),
    (reverse_of_a_backward_rule, "the backward rule holds a while loop, which is reversed"),
]


def refusal(chain, word):
    """Why a cell is an error; None where it has a value."""
    return next((reason for holds, reason in REFUSED if holds(chain, word)), None)
