"""Fixes of jitted functions and of their stages."""

from __future__ import annotations

import pickle

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, tree
from weft.errors import (
    DeletedArrayError,
    KeyReuseError,
    NonFiniteError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.layout import Format, Layout

X = np.arange(4, dtype=np.float32)
A = np.arange(6, dtype=np.float32).reshape(2, 3)
COLUMNS = Layout((1, 0))


@weft.jit
def double(x):
    return 2 * x


def devices():
    return weft.devices()


def compiled(*args, function=double, **kwargs):
    return function.lower(*args, **kwargs).compile()


def power(x, n):
    return x**n


static = weft.jit(power, static_argnames="n")


def placed(order):
    """A matrix on the first device, row by row or column by column."""
    return weft.device_put(A, Format(Layout(order), devices()[0]))


def over(*devices):
    return weft.NamedSharding(weft.make_mesh((2,), ("i",), devices=devices), P("i"))


# ---- compiled functions ------------------------------------------------------------------------


class Tagged:
    """A container with data of its own."""

    def __init__(self, x, tag):
        self.x, self.tag = x, tag


tree.register_node(Tagged, lambda t: ((t.x,), t.tag), lambda tag, parts: Tagged(parts[0], tag))


of_tagged = weft.jit(lambda t: 2 * t.x)

bits = weft.jit(lambda x: x if x.dtype == "int32" else weft.random.key_data(x))
first = weft.jit(lambda tree: list(tree.values()))


def tagged(tag, other):
    return of_tagged.lower(Tagged(X, tag)).compile()(Tagged(X, other))


def given_away():
    x = jnp.array(X)
    weft.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x


COMPILED = [
    Fixed(
        "call double itself (the jitted function) instead",
        wrong=lambda: weft.vmap(compiled(np.float32(1)))(X),
        fixed=lambda fix: weft.vmap(double)(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass an array of type f32[4]",
        wrong=lambda: compiled(X)("0 1 2 3"),
        fixed=lambda fix: compiled(X)(jnp.zeros(fix.data["type"].shape, fix.data["type"].dtype)),
        value=np.zeros(4),
        error=WeftTypeError,
    ),
    Fixed(
        "compile it for these types too, double.lower(...).compile(), or call double itself",
        wrong=lambda: compiled(X)(X[:2]),
        fixed=lambda fix: [double.lower(X[:2]).compile()(X[:2]), double(X[:2])],
        value=[2 * X[:2], 2 * X[:2]],
        error=WeftTypeError,
    ),
    Fixed(
        "compile it for these types too, <lambda>.lower(...).compile()",
        wrong=lambda: compiled(weft.random.key(7), function=bits)(jnp.int32(7)),
        fixed=lambda fix: [compiled(jnp.int32(7), function=bits)(jnp.int32(7))],
        value=[7],
        error=WeftTypeError,
    ),
    Fixed(
        "pass x.astype('float32')",
        wrong=lambda: compiled(X)(X.astype("int32")),
        fixed=lambda fix: compiled(X)(X.astype("int32").astype("float32")),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass weft.numpy.array(x, 'float32')",
        wrong=lambda: compiled(1.0)(3),
        fixed=lambda fix: compiled(1.0)(weft.numpy.array(3, "float32")),
        value=6,
        error=WeftTypeError,
    ),
    Fixed(
        "pass an array that was not given away before",
        wrong=lambda: compiled(X)(given_away()),
        fixed=lambda fix: compiled(X)(jnp.array(X)),
        value=2 * X,
        error=DeletedArrayError,
    ),
    Fixed(
        "pass weft.device_put(x, ",
        wrong=lambda: compiled(X)(weft.device_put(X, devices()[1])),
        fixed=lambda fix: compiled(X)(
            weft.device_put(weft.device_put(X, devices()[1]), fix.data["device"])
        ),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "x: pass x.astype('float32')\nn: pass n.astype('float32')",
        wrong=lambda: compiled(X, X, function=weft.jit(power))(X.astype("int32"), jnp.arange(4)),
        fixed=lambda fix: compiled(X, X, function=weft.jit(power))(
            X.astype("int32").astype("float32"), jnp.arange(4).astype("float32")
        ),
        value=X**X,
        error=WeftTypeError,
    ),
    Fixed(
        "write a dict with the keys ['x']",
        wrong=lambda: compiled({"x": X}, function=first)({"y": X}),
        fixed=lambda fix: compiled({"x": X}, function=first)({"x": X}),
        value=[X],
        error=TreeError,
    ),
    Fixed(
        "write a Tagged with 1 child and the data 'a'",
        wrong=lambda: tagged("a", "b"),
        fixed=lambda fix: tagged("a", "a"),
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "leave it out, or compile for it: power.lower(..., n=3)",
        wrong=lambda: compiled(X, n=2, function=static)(X, n=3),
        fixed=lambda fix: [
            compiled(X, n=2, function=static)(X),
            static.lower(X, n=3).compile()(X, n=3),
        ],
        value=[X**2, X**3],
        error=WeftValueError,
    ),
]

# ---- stages ------------------------------------------------------------------------------------


def closing(y):
    return weft.jit(lambda x: x + y).lower(X).compile()(X)


STAGES = [
    Fixed(
        ["make the value an argument", "or call lower() outside of the transformation"],
        wrong=lambda: weft.jit(closing)(X),
        fixed=lambda fix: [weft.jit(lambda x, y: x + y).lower(X, X).compile()(X, X), closing(X)],
        value=[2 * X] * 2,
        error=WeftTypeError,
    ),
    Fixed(
        "use weft.export.export(double)(...).serialize()",
        wrong=lambda: pickle.dumps(compiled(X)),
        fixed=lambda fix: weft.export.deserialize(
            pickle.loads(pickle.dumps(weft.export.export(double)(X).serialize()))
        ).call(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass 'cpu', or nothing",
        wrong=lambda: double.trace(X).lower(lowering_platforms="abacus"),
        fixed=lambda fix: [
            double.trace(X).lower(lowering_platforms="cpu").compile()(X),
            double.trace(X).lower().compile()(X),
        ],
        value=[2 * X, 2 * X],
        error=WeftValueError,
    ),
    Fixed(
        "lower it for 'cpu'",
        wrong=lambda: double.trace(X).lower(lowering_platforms=("cpu", "cuda")),
        fixed=lambda fix: double.trace(X).lower(lowering_platforms="cpu").compile()(X),
        value=2 * X,
        error=WeftNotImplementedError,
    ),
    Fixed(
        'pass "stablehlo"',
        wrong=lambda: double.lower(X).as_text("mhlo"),
        fixed=lambda fix: double.lower(X).as_text("stablehlo"),
        value=lambda text: "stablehlo.multiply" in text or "stablehlo.add" in text,
        error=WeftValueError,
    ),
    Fixed(
        "lower it for cpu: traced.lower()",
        wrong=lambda: double.trace(X).lower(lowering_platforms="cuda").compile(),
        fixed=lambda fix: double.trace(X).lower().compile()(X),
        value=2 * X,
        error=WeftValueError,
    ),
]

# ---- calls -------------------------------------------------------------------------------------


def jitted(x, **options):
    return weft.jit(lambda x: 2 * x, **options)(x)


def donating(x, y):
    return weft.jit(lambda x, y: x + y, donate_argnums=0)(x, y)


def traced_once(*calls, **options):
    function = weft.jit(lambda x: 2 * x, **options)
    return [function(x) for x in calls]


def root(x):
    with weft.debug_nans(True):
        return jnp.sqrt(x)


def allowed(x):
    with weft.debug_nans(True), weft.debug_nans(False):
        return jnp.sqrt(x)


CALLS = [
    Fixed(
        "pass a copy of it: x.copy()",
        wrong=lambda: (lambda x: donating(x, x))(jnp.array(X)),
        fixed=lambda fix: (lambda x: donating(x.copy(), x))(jnp.array(X)),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "pass weft.device_put(x, ",
        wrong=lambda: jitted(
            weft.device_put(X, over(*devices()[2:4])), in_shardings=over(*devices()[:2])
        ),
        fixed=lambda fix: jitted(
            weft.device_put(weft.device_put(X, over(*devices()[2:4])), fix.data["device"]),
            in_shardings=over(*devices()[:2]),
        ),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        [
            "pass weft.device_put(x, Format(Layout(major_to_minor=(1, 0)), x.sharding))",
            "or compile for the layout that the array has, x.format in in_shardings",
            "or let it be copied at each call, with jit(..., relayout='auto')",
        ],
        wrong=lambda: jitted(placed((0, 1)), in_shardings=Format(COLUMNS, devices()[0])),
        fixed=lambda fix: [
            jitted(
                weft.device_put(
                    placed((0, 1)), Format(Layout(major_to_minor=(1, 0)), placed((0, 1)).sharding)
                ),
                in_shardings=Format(COLUMNS, devices()[0]),
            ),
            jitted(placed((0, 1)), in_shardings=placed((0, 1)).format),
            jitted(placed((0, 1)), in_shardings=Format(COLUMNS, devices()[0]), relayout="auto"),
        ],
        value=[2 * A] * 3,
        error=WeftValueError,
    ),
    Fixed(
        "make the argument static (static_argnums or static_argnames)",
        wrong=lambda: weft.jit(scaled)(X, by="two"),
        fixed=lambda fix: [
            weft.jit(scaled, static_argnums=1)(X, "two"),
            weft.jit(scaled, static_argnames="by")(X, by="two"),
        ],
        value=[2 * X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "pass a tuple instead of a list or an array",
        wrong=lambda: weft.jit(moved, static_argnums=1)(A, [1, 0]),
        fixed=lambda fix: weft.jit(moved, static_argnums=1)(A, (1, 0)),
        value=A.T,
        error=WeftValueError,
    ),
    Fixed(
        "or do not make the argument static",
        wrong=lambda: weft.jit(power, static_argnums=1)(X, X),
        fixed=lambda fix: weft.jit(power)(X, X),
        value=X**X,
        error=WeftValueError,
    ),
    Fixed(
        ["call it with arguments of the types it was traced for", "or raise max_traces"],
        wrong=lambda: traced_once(X, X[:2], max_traces=1),
        fixed=lambda fix: [
            traced_once(X, X + 1, max_traces=1),
            traced_once(X, X[:2], max_traces=fix.data["max_traces"]),
        ],
        value=[[2 * X, 2 * X + 2], [2 * X, 2 * X[:2]]],
        error=WeftValueError,
    ),
    Fixed(
        "split the key first: first, second = weft.random.split(key)",
        wrong=lambda: drawn(lambda key: (key, key)),
        fixed=lambda fix: drawn(weft.random.split),
        value=lambda found: found[0] != found[1],
        error=KeyReuseError,
    ),
    Fixed(
        "where the same numbers are wanted again, use weft.random.clone(key)",
        wrong=lambda: drawn(lambda key: (key, key)),
        fixed=lambda fix: drawn(lambda key: (key, weft.random.clone(key))),
        value=lambda found: found[0] == found[1],
        error=KeyReuseError,
    ),
    Fixed(
        [
            "change the operands before they reach this operation",
            "or allow the value: with weft.debug_nans(False)",
        ],
        wrong=lambda: root(X - 1),
        fixed=lambda fix: [root(jnp.maximum(X - 1, 0)), allowed(X - 1)],
        value=[np.sqrt([0, 0, 1, 2]), np.array([np.nan, 0, 1, np.sqrt(2)])],
        error=NonFiniteError,
    ),
]


def drawn(keys):
    """Two draws with the keys that a function makes of one, with checks."""

    def draw(key):
        first, second = keys(key)
        return weft.random.normal(first), weft.random.normal(second)

    with weft.debug_key_reuse(True):
        return weft.jit(draw)(weft.random.key(0))


def scaled(x, by):
    return x * {"two": 2}[by]


def moved(x, axes):
    return jnp.transpose(x, axes)


FIXES = COMPILED + STAGES + CALLS
