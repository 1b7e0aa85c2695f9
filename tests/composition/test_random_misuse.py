"""Random misuse: wrong arguments of public functions, transformations and methods of arrays.

Whatever is given, a call returns or raises one of the errors that weft means to raise: nothing from
the inside, no end of the process, no number in place of an error that a jitted call raises.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import warnings

import hypothesis
import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from op_table import rows
from scipy_calls import scipy_calls
from valid_calls import KEY, valid_calls
from weft import lax
from weft.errors import WeftError
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

MESH = weft.make_mesh((4, 2), ("i", "j"))
DELIBERATE = (WeftError, TypeError, ValueError, NotImplementedError, OverflowError, IndexError)


class Operation:
    """A row of the op table as a valid call: the operation with operands and parameters."""

    module = "the op table"

    def __init__(self, row):
        self.name, self.function, self.kwargs = row.name, row.function, row.params
        self.args = tuple(row.host_operands(row.dtypes[0]))
        self.signature = inspect.signature(self.function)

    def names(self):
        return [f"operand {i}" for i in range(len(self.args))]


@functools.cache
def calls():
    """Functions of arrays, with the methods that take another object out; then operations."""
    found = [call for call in (*valid_calls(), *scipy_calls()) if "." not in call.name]
    public = [row for row in rows() if row.function.__module__.partition(".")[0] == "weft"]
    return [*found, *map(Operation, public)]


class AnObject:
    """Of a class that nothing knows."""

    def __repr__(self):
        return "an object"


# Arrays of every kind, by a text that says what they are.
ARRAYS = {
    "zeros(0)": np.zeros(0, np.float32),
    "zeros((0, 3))": np.zeros((0, 3), np.float32),
    "ones(())": np.ones((), np.float32),
    "ones(3)": jnp.ones(3),
    "ones((3, 4))": jnp.ones((3, 4)),
    "ones((2, 3, 4))": np.ones((2, 3, 4), np.float32),
    "nan": jnp.full(4, jnp.nan),
    "inf": np.full((3, 3), np.inf, np.float32),
    "int32": jnp.arange(4),
    "int64": np.arange(4, dtype=np.int64) + 2**40,
    "int8": np.full(4, -128, np.int8),
    "uint8": np.full((2, 3), 255, np.uint8),
    "bool": np.array([True, False, True, True]),
    "complex64": np.full((3, 3), 1 + 2j, np.complex64),
    "float64": np.linspace(-1, 1, 4),
    "float16": np.full(4, 6e4, np.float16),
    "bfloat16": jnp.ones((3, 3), jnp.bfloat16),
    "float8": jnp.zeros(4, jnp.float8_e4m3fn),
    "int4": jnp.ones(4, jnp.int4),
    "key": KEY,
    "keys": weft.random.split(KEY, 4),
    "strings": np.array(["a", "b"]),
    "objects": np.array([None, 1]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "structured": np.zeros(2, [("a", "f4")]),
    "masked": np.ma.masked_array(np.ones(3, np.float32), [True, False, False]),
    "strided": np.ones((6, 8), np.float32)[::2, ::-2],
    "big-endian": np.ones(3, ">f4"),
    "sharded": weft.device_put(np.ones((8, 4), np.float32), NamedSharding(MESH, P("i", "j"))),
    "elsewhere": weft.device_put(np.ones(4, np.float32), weft.devices()[3]),
}
# (No 2**31: a machine may have memory for it, and time passes.)
HUGE = (2**40, 2**62, 2**63, 2**64, -(2**63), 10**30)
NUMBERS = (0, 1, -1, 2, 3, 7, -9, 1.5, -0.0, 1e300, 1j, float("nan"), float("inf"), True, False)
OTHERS = (
    None, "x", "", b"x", "float32", "f99", (), [], {}, (2,), (-1,), (2, 3), (0,), (1.5,), ("x",),
    (None,), [[1, 2], [3]], {"a": 1}, {1, 2}, range(3), slice(None), slice(2**40), ..., AnObject(),
    AnObject, len, np.float32, np.dtype("int8"), object, lambda x: x, lambda: 0, iter([1]),
    np.float64(2), np.int64(-3), np.bool_(True), P("i"), P("no axis"), MESH,
    NamedSharding(MESH, P()),
    weft.ShapeDtypeStruct((2,), "float32"), weft.devices()[0],
)  # fmt: skip
SHAPES = (
    (2**40, 2**40), (2**62,), (2**31, 2**31), (2**63,), (2**40,), (2**20, 2**20, 2**20), (-1, -1),
    (3, -1), (0, 2**40), (2**62, 0, 2**62),
)  # fmt: skip
# How often something is done: more than a few take as long as they say.
COUNTS = frozenset(
    "maxiter max_iter maxfun num_iters steps power_iterations max_squarings iterations n_iter "
    "max_steps rank num_power_iterations n_init max_step sections indices_or_sections reps".split()
)


def values(name):
    """Values for a parameter; those of `COUNTS` are small, which never says to work for days."""
    arrays = st.sampled_from(sorted(ARRAYS)).map(lambda kind: Named(kind, ARRAYS[kind]))
    plain = st.sampled_from(NUMBERS) | st.sampled_from(OTHERS)
    if name in COUNTS:
        return arrays | plain
    return arrays | plain | st.sampled_from(HUGE) | st.sampled_from(SHAPES)


class Named:
    """A value and a short text for it, which is shown where a call is reported."""

    def __init__(self, text, value):
        self.text, self.value = text, value

    def __repr__(self):
        return f"<{self.text}>"


def plain(value):
    return value.value if isinstance(value, Named) else value


class Misuse:
    """A valid call with some of its arguments, by position or by name, replaced."""

    def __init__(self, call, replaced, way):
        self.call, self.replaced, self.way = call, replaced, way

    def __repr__(self):
        name = f"{self.call.module}.{self.call.name}"
        return f"{self.way}: {name} with {self.replaced} in {self.call.args} {self.call.kwargs}"

    def run(self):
        args, kwargs = list(self.call.args), dict(self.call.kwargs)
        for where, value in self.replaced.items():
            if isinstance(where, int):
                args[where] = plain(value)
            else:
                kwargs[where] = plain(value)
        return WAYS[self.way](lambda: self.call.function(*args, **kwargs), args)


def jitted(call, args):
    return weft.jit(call)()


def mapped(call, args):
    return weft.vmap(lambda _: call())(jnp.ones(2))


def differentiated(call, args):
    return weft.jvp(lambda x: (call(), x)[0], (1.0,), (1.0,))


def traced(call, args):
    return weft.make_jaxpr(call)()


def lowered(call, args):
    return weft.jit(call).lower()


# How a call is made. Most run at once: a program that is compiled for one wrong call takes longer.
WAYS = {
    "eager": lambda call, args: call(),
    "traced": traced,
    "lowered": lowered,
    "jitted": jitted,
    "mapped": mapped,
    "differentiated": differentiated,
}


@st.composite
def misuses(draw):
    call = draw(st.sampled_from(calls()))
    names = call.names()
    parameters = call.signature.parameters
    places = list(range(len(names)))
    # What is passed by position is not passed by name as well.
    places += [
        p.name
        for p in parameters.values()
        if p.name not in names and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    hypothesis.assume(places)
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True))
    replaced = {p: draw(values(names[p] if isinstance(p, int) else p)) for p in chosen}
    way = draw(st.sampled_from(["eager", "eager", "eager", *WAYS]))
    return Misuse(call, replaced, way)


def outcome(run):
    """Lets `run()` raise one of the errors that weft means to raise, and no other."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                weft.block_until_ready(run())
            except DELIBERATE:
                return
            except RuntimeError as error:
                # What no memory holds is refused where it is run: only XLA knows how much there is.
                if "RESOURCE_EXHAUSTED" not in str(error):
                    raise
            except MemoryError as error:
                if "Unable to allocate" not in str(error):
                    raise  # not NumPy's, which says how much


@hypothesis.settings(max_examples=100)
@hypothesis.given(misuses())
def test_functions_return_or_refuse(misuse):
    outcome(misuse.run)


# ---- transformations ---------------------------------------------------------------------------


def scalar(x):
    return jnp.sum(jnp.sin(x))


# Transformations with a place for a wrong value `w`; `x` is an array that would do.
TRANSFORMED = {
    "jit": lambda w, x: weft.jit(w)(x),
    "jit of an argument": lambda w, x: weft.jit(jnp.sin)(w),
    "jit(static_argnums)": lambda w, x: weft.jit(lambda x, n: x, static_argnums=w)(x, 2),
    "jit(static_argnames)": lambda w, x: weft.jit(lambda x, n: x, static_argnames=w)(x, n=2),
    "jit(donate_argnums)": lambda w, x: weft.jit(jnp.sin, donate_argnums=w)(x + 1),
    "jit(in_shardings)": lambda w, x: weft.jit(jnp.sin, in_shardings=w)(x),
    "jit(out_shardings)": lambda w, x: weft.jit(jnp.sin, out_shardings=w)(x),
    "jit of a result": lambda w, x: weft.jit(lambda x: w)(x),
    "grad": lambda w, x: weft.grad(w)(x),
    "grad of an argument": lambda w, x: weft.grad(scalar)(w),
    "grad(argnums)": lambda w, x: weft.grad(lambda x, y: scalar(x * y), w)(x, x),
    "grad of a result": lambda w, x: weft.grad(lambda x: w)(x),
    "value_and_grad(has_aux)": lambda w, x: weft.value_and_grad(scalar, has_aux=w)(x),
    "jvp of tangents": lambda w, x: weft.jvp(jnp.sin, (x,), (w,)),
    "jvp of primals": lambda w, x: weft.jvp(jnp.sin, w, (x,)),
    "vjp of a cotangent": lambda w, x: weft.vjp(jnp.sin, x)[1](w),
    "linearize of a tangent": lambda w, x: weft.linearize(jnp.sin, x)[1](w),
    "linear_transpose": lambda w, x: weft.linear_transpose(lambda x: 2 * x, w)(x),
    "jacfwd(argnums)": lambda w, x: weft.jacfwd(scalar, w)(x),
    "hessian": lambda w, x: weft.hessian(scalar)(w),
    "vmap": lambda w, x: weft.vmap(w)(x),
    "vmap of an argument": lambda w, x: weft.vmap(jnp.sin)(w),
    "vmap(in_axes)": lambda w, x: weft.vmap(jnp.sin, in_axes=w)(x),
    "vmap(out_axes)": lambda w, x: weft.vmap(jnp.sin, out_axes=w)(x),
    "vmap(axis_size)": lambda w, x: weft.vmap(jnp.sin, axis_size=w)(x),
    "vmap(axis_name)": lambda w, x: weft.vmap(jnp.sin, axis_name=w)(x),
    "scan": lambda w, x: lax.scan(w, x, None, length=2),
    "scan of a carry": lambda w, x: lax.scan(lambda c, _: (c, c), w, None, length=2),
    "scan to a carry": lambda w, x: lax.scan(lambda c, _: (w, c), x, None, length=2),
    "scan of xs": lambda w, x: lax.scan(lambda c, y: (c, y), x, w),
    "scan(unroll)": lambda w, x: lax.scan(lambda c, y: (c, y), 0.0, x, unroll=w),
    "scan(reverse)": lambda w, x: lax.scan(lambda c, y: (c, y), 0.0, x, reverse=w),
    # Traced only: a condition that is always true is no mistake, and does not end.
    "while's condition": lambda w, x: weft.eval_shape(
        lambda x: lax.while_loop(lambda c: w, lambda c: (c[0], x), (0, x)), x
    ),
    "while's body": lambda w, x: lax.while_loop(lambda c: jnp.sum(x) < 0, lambda c: w, x),
    "fori's body": lambda w, x: lax.fori_loop(0, 2, lambda i, c: w, x),
    "cond's predicate": lambda w, x: lax.cond(w, jnp.sin, jnp.cos, x),
    "cond's branch": lambda w, x: lax.cond(True, jnp.sin, w, x),
    "cond's result": lambda w, x: lax.cond(jnp.sum(x) > 0, jnp.sin, lambda x: w, x),
    "switch's index": lambda w, x: lax.switch(w, [jnp.sin, jnp.cos], x),
    "switch's branches": lambda w, x: lax.switch(1, w, x),
    "map": lambda w, x: lax.map(jnp.sin, w),
    "map(batch_size)": lambda w, x: lax.map(jnp.sin, x, batch_size=w),
    "associative_scan": lambda w, x: lax.associative_scan(lambda a, b: w, x),
    "checkpoint": lambda w, x: weft.checkpoint(w)(x),
    "checkpoint(policy)": lambda w, x: weft.grad(weft.checkpoint(scalar, policy=w))(x),
    "custom_jvp's rule": lambda w, x: weft.grad(with_jvp(lambda p, t: w))(x),
    "custom_vjp's forward": lambda w, x: weft.grad(with_vjp(lambda x: w, lambda r, g: (g * x,)))(x),
    "custom_vjp's backward": lambda w, x: weft.grad(
        with_vjp(lambda x: (scalar(x), x), lambda r, g: w)
    )(x),
    "pure_callback's result": lambda w, x: weft.pure_callback(lambda x: w, x, x),
    "pure_callback's type": lambda w, x: weft.pure_callback(np.sin, w, x),
    "eval_shape": lambda w, x: weft.eval_shape(jnp.sin, w),
    "device_put": lambda w, x: weft.device_put(x, w),
    "device_put of a value": lambda w, x: weft.device_put(w),
    "shard_map(in_specs)": lambda w, x: weft.shard_map(
        jnp.sin, mesh=MESH, in_specs=w, out_specs=P()
    )(x),
    "shard_map(out_specs)": lambda w, x: weft.shard_map(
        jnp.sin, mesh=MESH, in_specs=P(), out_specs=w
    )(x),
    "shard_map(mesh)": lambda w, x: weft.shard_map(jnp.sin, mesh=w, in_specs=P(), out_specs=P())(x),
    "shard_map's result": lambda w, x: weft.shard_map(
        lambda x: w, mesh=MESH, in_specs=P(), out_specs=P()
    )(x),
    "psum's axis": lambda w, x: weft.shard_map(
        lambda x: lax.psum(x, w), mesh=MESH, in_specs=P("i"), out_specs=P()
    )(x),
    "make_mesh": lambda w, x: weft.make_mesh(w, ("a", "b")),
    "make_mesh of names": lambda w, x: weft.make_mesh((4, 2), w),
    "PartitionSpec": lambda w, x: weft.device_put(x, NamedSharding(MESH, P(w))),
    "tree.map": lambda w, x: weft.tree.map(lambda a, b: a, (x, x), w),
    "index": lambda w, x: x[w],
    "at": lambda w, x: x.at[w].set(1.0),
    "at's values": lambda w, x: x.at[1].add(w),
    "at's mode": lambda w, x: x.at[7].get(mode=w),
    "add": lambda w, x: x + w,
    "matmul": lambda w, x: w @ x,
    "compare": lambda w, x: x == w,
    "power": lambda w, x: x**w,
    "shift": lambda w, x: jnp.arange(3) << w,
    "reshape": lambda w, x: x.reshape(w),
    "astype": lambda w, x: x.astype(w),
    "full": lambda w, x: jnp.full((2,), w),
    "zeros": lambda w, x: jnp.zeros(w),
    "broadcast_to": lambda w, x: jnp.broadcast_to(x, w),
    "iota": lambda w, x: lax.iota("float32", w),
    "random.normal": lambda w, x: weft.random.normal(KEY, w),
    "random.key": lambda w, x: weft.random.key(w),
    "array": lambda w, x: jnp.array(w),
    "array of a dtype": lambda w, x: jnp.array([1, 2], w),
    "ShapeDtypeStruct": lambda w, x: weft.jit(jnp.sin).lower(weft.ShapeDtypeStruct(w, "float32")),
    "export": lambda w, x: weft.export.export(weft.jit(jnp.sin))(w),
    "export of bytes": lambda w, x: weft.export.deserialize(w),
}


def with_jvp(rule):
    function = weft.custom_jvp(scalar)
    function.defjvp(rule)
    return function


def with_vjp(forward, backward):
    function = weft.custom_vjp(scalar)
    function.defvjp(forward, backward)
    return function


OUTER = {
    "eager": lambda f: f,
    "jit": weft.jit,
    "grad": lambda f: functools.partial(lambda g, x: weft.linearize(lambda x: (g(x), x)[1], x), f),
    "vmap": lambda f: lambda x: weft.vmap(f)(jnp.stack([x, x])),
}


@hypothesis.settings(max_examples=100)
@hypothesis.given(
    st.sampled_from(sorted(TRANSFORMED)), values("w"), st.sampled_from(["eager", *OUTER])
)
def test_transformations_return_or_refuse(what, wrong, outer):
    given = plain(wrong)
    outcome(lambda: OUTER[outer](lambda x: TRANSFORMED[what](given, x))(jnp.ones(3) * 0.5))


def test_what_weft_does_not_mean_to_raise_is_not_caught():
    """The two tests above are able to fail."""
    for error in (KeyError("no"), AttributeError("no"), AssertionError("no"), RecursionError("no")):

        def run(error=error):
            raise error

        try:
            outcome(run)
        except type(error):
            continue
        raise AssertionError(f"{error!r} was taken for an error of weft")
