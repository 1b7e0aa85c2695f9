"""Arrays and tracers are instances of `weft.Array`: `isinstance` and `functools.singledispatch`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
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


TRANSFORMATIONS = {
    "none": lambda f: f,
    "jit": weft.jit,
    "grad": lambda f: weft.grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: weft.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: weft.linearize(f, x),
    "vmap": weft.vmap,
    "checkpoint": weft.checkpoint,
    "make_jaxpr": weft.make_jaxpr,
    "eval_shape": lambda f: lambda x: weft.eval_shape(f, x),
    "linear_transpose": lambda f: lambda x: weft.linear_transpose(f, x)(x),
    "cond": cond,
    "scan": scan,
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
        assert name in ("none", "custom_jvp") or isinstance(value, Tracer)
        assert isinstance(value, weft.Array)
        assert issubclass(type(value), weft.Array)
        assert kind(value) == "array"
        assert not isinstance(value, (np.ndarray, float))


def test_what_is_no_array():
    for value in (1.0, np.ones(2), "text", None, [1.0], weft.ShapeDtypeStruct((2,), "float32")):
        assert not isinstance(value, weft.Array)
        assert not issubclass(type(value), weft.Array)
    assert kind(1.0) == kind(np.ones(2)) == "number"
    assert kind("text") == "something"
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
