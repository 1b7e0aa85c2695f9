"""Arrays and tracers are instances of `weft.Array`: `isinstance` and `functools.singledispatch`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.trace import Tracer
from weft.sharding import AbstractMesh

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])


@functools.singledispatch
def kind(value):
    return "something"


@kind.register
def _(value: weft.Array):
    return "array"


@kind.register(float)
@kind.register(np.ndarray)
def _(value):
    return "number"


def sharded(function):
    return weft.shard_map(function, mesh=MESH, in_specs=weft.P("i"), out_specs=weft.P("i"))


def cond(function):
    return lambda x: weft.lax.cond(x.sum() > 0, function, lambda x: x, x)


def scan(function):
    return lambda x: weft.lax.scan(lambda carry, row: (function(carry), None), x, None, length=2)


def custom_jvp(function):
    made = weft.custom_jvp(function)
    made.defjvp(lambda primals, tangents: (function(*primals), tangents[0]))
    return made


def custom_vjp(function):
    made = weft.custom_vjp(function)
    made.defvjp(lambda x: (function(x), x), lambda x, ct: (function(x) * ct,))
    return made


def carried(loop):
    return lambda function: lambda x: loop(function, x)


TRANSFORMATIONS = {
    "none": lambda f: f,
    "jit": weft.jit,
    "grad": lambda f: weft.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: weft.jvp(f, (x,), (x,)),
    "value_and_grad": lambda f: weft.value_and_grad(lambda x: f(x).sum()),
    "vjp": lambda f: lambda x: weft.vjp(f, x)[1](x),
    "jacfwd": weft.jacfwd,
    "jacrev": weft.jacrev,
    "linearize": lambda f: lambda x: weft.linearize(f, x),
    "vmap": weft.vmap,
    "checkpoint": weft.checkpoint,
    "make_jaxpr": weft.make_jaxpr,
    "eval_shape": lambda f: lambda x: weft.eval_shape(f, x),
    "linear_transpose": lambda f: lambda x: weft.linear_transpose(f, x)(x),
    "cond": cond,
    "scan": scan,
    "switch": lambda f: lambda x: weft.lax.switch(1, [f, f], x),
    "while_loop": carried(lambda f, x: weft.lax.while_loop(lambda x: x[0] < 9.0, f, x)),
    "fori_loop": carried(lambda f, x: weft.lax.fori_loop(0, 3, lambda i, x: f(x), x)),
    "map": carried(lambda f, x: weft.lax.map(f, x)),
    "associative_scan": lambda f: weft.jit(
        lambda x: weft.lax.associative_scan(lambda a, b: f(a) + b, x)
    ),
    "custom_linear_solve": carried(
        lambda f, x: weft.lax.custom_linear_solve(f, x, lambda f, b: b / 2.0, symmetric=True)
    ),
    "custom_vjp": lambda f: weft.grad(lambda x: custom_vjp(f)(x).sum()),
    "export": lambda f: lambda x: weft.export.export(weft.jit(f))(x),
    "pmap": lambda f: lambda x: weft.pmap(f, devices=weft.devices()[:2])(x.reshape(2, 2)),
    "custom_jvp": lambda f: weft.grad(lambda x: custom_jvp(f)(x).sum()),
    "shard_map": sharded,
    "jit of shard_map": lambda f: weft.jit(sharded(f)),
    "simulated": lambda f: lambda x: simulated(f, x),
    "vmap of grad": lambda f: weft.vmap(weft.grad(f)),
    "grad of vmap": lambda f: weft.grad(lambda x: weft.vmap(f)(x).sum()),
    "jit of hessian": lambda f: weft.jit(weft.hessian(lambda x: f(x).sum())),
}


def simulated(function, x):
    mesh = AbstractMesh((2,), ("i",))
    mapped = weft.shard_map(function, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    with weft.simulate(mesh):
        return mapped(x)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_what_a_transformed_function_sees_is_an_array(name):
    seen = []

    def function(x):
        seen.append(x)
        return x * 2.0

    TRANSFORMATIONS[name](function)(wnp.ones(4))
    assert seen
    for value in seen:
        # The rule of a custom derivative sees the values themselves.
        assert name in ("none", "custom_jvp", "custom_vjp") or isinstance(value, Tracer)
        assert isinstance(value, weft.Array)
        assert issubclass(type(value), weft.Array)
        assert kind(value) == "array"
        assert not isinstance(value, (np.ndarray, float))


KEYS = {
    "none": lambda f, keys: f(keys),
    "jit": lambda f, keys: weft.jit(f)(keys),
    "vmap": lambda f, keys: weft.vmap(f)(keys),
    "scan": lambda f, keys: weft.lax.scan(lambda c, key: (c, f(key)), 0, keys),
    "cond": lambda f, keys: weft.lax.cond(keys.shape[0] > 1, f, lambda keys: f(keys), keys),
    "grad": lambda f, keys: weft.grad(lambda x, keys: f(keys).sum() * x)(1.0, keys),
    "shard_map": lambda f, keys: sharded(f)(keys),
    "make_jaxpr": lambda f, keys: weft.make_jaxpr(f)(keys),
}


@pytest.mark.parametrize("name", KEYS)
def test_random_keys_are_arrays(name):
    seen = []

    def bits(keys):
        seen.append(keys)
        return weft.random.key_data(keys).astype("float32")

    KEYS[name](bits, weft.random.split(weft.random.key(0), 2))
    assert seen
    for value in seen:
        assert isinstance(value, weft.Array)
        assert kind(value) == "array"
        assert weft.dtypes.is_extended(value.dtype)


@pytest.mark.parametrize("name", ["jit", "vmap", "shard_map", "grad"])
@pytest.mark.parametrize("number", [1.0, np.float32(1.0), np.ones(2, np.float32)])
def test_what_goes_into_a_transformation_becomes_an_array(name, number):
    seen = []

    def function(x, given):
        seen.append(given)
        return (x * given).sum() if name == "grad" else x * given

    ones, whole, split = wnp.ones(2), weft.P(), weft.P("i")
    numbers = np.ones(2, np.float32) * number
    {
        "jit": lambda: weft.jit(function)(ones, number),
        "vmap": lambda: weft.vmap(function)(ones, numbers),
        "grad": lambda: weft.grad(function, argnums=(0, 1))(ones, number),
        "shard_map": lambda: weft.shard_map(
            function, mesh=MESH, in_specs=(split, whole), out_specs=split
        )(ones, np.float32(1.0)),
    }[name]()
    assert [kind(value) for value in seen] == ["array"]


X, NUMBER = np.ones((2, 3), np.float32), np.float32(2)
# Operations that have nothing to do.
IDENTITIES = {
    "block": lambda: wnp.block(X),
    "broadcast": lambda: lax.broadcast(X, ()),
    "broadcast_in_dim": lambda: lax.broadcast_in_dim(X, (2, 3), (0, 1)),
    "broadcast_in_dim of a number": lambda: lax.broadcast_in_dim(NUMBER, (), ()),
    "collapse": lambda: lax.collapse(X, 0, 1),
    "concatenate": lambda: lax.concatenate([X], 0),
    "convert_element_type": lambda: lax.convert_element_type(X, np.float32),
    "dynamic_slice": lambda: lax.dynamic_slice(NUMBER, (), ()),
    "dynamic_update_slice": lambda: lax.dynamic_update_slice(X, X[:0], (0, 0)),
    "expand_dims": lambda: lax.expand_dims(X, ()),
    "ix_": lambda: wnp.ix_(np.arange(2))[0],
    "pad": lambda: lax.pad(X, NUMBER, ((0, 0, 0), (0, 0, 0))),
    "polyder": lambda: wnp.polyder(X[0], 0),
    "reduce": lambda: lax.reduce(X, NUMBER, lax.add, ()),
    "reduce_and": lambda: lax.reduce_and(X > 0, ()),
    "reduce_max": lambda: lax.reduce_max(X, ()),
    "reduce_min": lambda: lax.reduce_min(X, ()),
    "reduce_or": lambda: lax.reduce_or(X > 0, ()),
    "reduce_prod": lambda: lax.reduce_prod(X, ()),
    "reduce_sum": lambda: lax.reduce_sum(X, ()),
    "reduce_xor": lambda: lax.reduce_xor(X > 0, ()),
    "reshape": lambda: lax.reshape(X, (2, 3)),
    "reshape of a number": lambda: lax.reshape(NUMBER, ()),
    "rev": lambda: lax.rev(X, ()),
    "roll": lambda: wnp.roll(X, (), ()),
    "slice": lambda: lax.slice(X, (0, 0), (2, 3)),
    "slice of a number": lambda: lax.slice(NUMBER, (), ()),
    "slice_in_dim": lambda: lax.slice_in_dim(X, 0, 2),
    "squeeze": lambda: lax.squeeze(X, ()),
    "squeeze of a number": lambda: lax.squeeze(NUMBER, ()),
    "stop_gradient": lambda: lax.stop_gradient(np.arange(2)),
    "tile": lambda: lax.tile(X, (1, 1)),
    "transpose": lambda: lax.transpose(X, (0, 1)),
    "transpose of a number": lambda: lax.transpose(NUMBER, ()),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_has_nothing_to_do_returns_an_array(name):
    assert kind(IDENTITIES[name]()) == "array"


def test_what_has_nothing_to_do_keeps_the_dtype():
    # The 1.0 is a number of float64 inside, which passes through derivatives of derivatives.
    def f(x):
        return wnp.where(x == 0, 1.0, x)

    x = wnp.asarray(2.0, wnp.float64)
    second = weft.jvp(lambda x: weft.jvp(f, (x,), (x,))[1], (x,), (x,))
    assert [y.dtype for y in second] == ["float64", "float64"]
    assert lax.reshape(np.float64(0.1), ()).dtype == lax.neg(np.float64(0.1)).dtype


def test_what_is_no_array():
    for value in (1.0, np.ones(2), "text", None, [1.0], weft.ShapeDtypeStruct((2,), "float32")):
        assert not isinstance(value, weft.Array)
        assert not issubclass(type(value), weft.Array)
    assert kind(1.0) == kind(np.ones(2)) == "number" and kind("text") == "something"
    assert not issubclass(weft.Array, Tracer)


def test_match_statement():
    def describe(x):
        match x:
            case weft.Array(ndim=1):
                return x * 1.0
            case weft.Array():
                return x * 2.0
        return x * 3.0

    assert weft.jit(describe)(wnp.ones(2)).tolist() == [1.0, 1.0]
    assert weft.vmap(describe)(wnp.ones((1, 2, 1))).tolist() == [[[2.0], [2.0]]]


def test_a_method_for_arrays_is_chosen_while_tracing():
    class Model:
        @functools.singledispatchmethod
        def apply(self, value):
            return -1.0

        @apply.register
        def _(self, value: weft.Array):
            return value * 3.0

    model = Model()
    assert weft.grad(lambda x: model.apply(x))(2.0).item() == 3.0
    assert weft.jit(model.apply)(2.0).item() == 6.0
    assert model.apply(2.0) == -1.0
