"""Traces and tracers written with JAX's conventions, and questions about the trace in force."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.define.for_jax.foreign_traces import (
    axis_names_in_force,
    has_axis_names,
    under_jit,
    under_vmap,
)
from weft.errors import ConcretizationError
from weft.extend import linear_util as lu
from weft.extend.core import (
    ForeignTrace,
    Trace,
    Tracer,
    TraceTag,
    concrete_or_error,
    current_trace,
    eval_context,
    find_top_trace,
    full_lower,
    get_opaque_trace_state,
    mapped_aval,
    set_current_trace,
    take_current_trace,
    trace_state_clean,
    unmapped_aval,
)

X = np.array([0.5, -1.5], "float32")


class UnitTracer(Tracer):
    """A value with a unit; its type is a property, and `__init__` of `Tracer` is not called."""

    __slots__ = ("unit", "value")

    def __init__(self, trace, value, unit):
        self._trace = trace
        self.value, self.unit = value, unit

    @property
    def aval(self):
        return weft.typeof(self.value)

    def full_lower(self):
        return full_lower(self.value) if not self.unit else self


class UnitTrace(ForeignTrace):
    """Follows powers of metres through products and sums."""

    __slots__ = ("parent_trace", "tag")

    def __init__(self, parent_trace, tag):
        self.tag = tag
        self.parent_trace = parent_trace
        super().__init__()

    def opened(self, value):
        if isinstance(value, UnitTracer) and value._trace.tag is self.tag:
            return value.value, value.unit
        return value, 0

    def process_primitive(self, primitive, tracers, params):
        values, units = zip(*map(self.opened, tracers), strict=True)
        avals = [weft.typeof(x) for x in values]
        out = primitive.bind_with_trace(self.parent_trace, values, avals, params)
        unit = sum(units) if primitive.name in ("mul", "dot_general") else max(units)
        if primitive.multiple_results:
            return [UnitTracer(self, x, unit) for x in out]
        return UnitTracer(self, out, unit)

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        values, units = zip(*map(self.opened, tracers), strict=True)
        avals = tuple(weft.typeof(x) for x in values)
        params = dict(subfuns=(fun, jvp), symbolic_zeros=symbolic_zeros)
        outs = primitive.bind_with_trace(self.parent_trace, values, avals, params)
        return [UnitTracer(self, x, max(units)) for x in outs]


@lu.transformation_with_aux
def with_units(unit, *args):
    tag = TraceTag()
    with take_current_trace() as parent:
        trace = UnitTrace(parent, tag)
        with set_current_trace(trace):
            outs = yield [UnitTracer(trace, x, unit) for x in args], {}
            found = [trace.opened(x) for x in outs]
    yield [x for x, _ in found], [u for _, u in found]


def units(function, *args):
    fun, aux = with_units(lu.wrap_init(lambda *xs: [function(*xs)]), 1)
    (out,) = fun.call_wrapped(*args)
    return out, aux()[0]


def area(x):
    return jnp.sum(x * x)


def test_a_trace_with_conventions_of_jax():
    out, unit = units(area, jnp.asarray(X))
    assert unit == 2 and type(out) is weft.Array
    np.testing.assert_allclose(out, (X * X).sum(), rtol=1e-6)
    assert trace_state_clean()


def test_it_composes_with_every_transformation():
    inside = lambda x: units(area, x)[0]  # noqa: E731
    np.testing.assert_allclose(weft.jit(inside)(X), (X * X).sum(), rtol=1e-6)
    np.testing.assert_allclose(weft.grad(inside)(X), 2 * X, rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(lambda x: units(lambda y: y * y, x)[0])(X), X * X)
    out, unit = units(weft.grad(area), jnp.asarray(X))
    np.testing.assert_allclose(out, 2 * X)
    out, unit = units(weft.jit(area), jnp.asarray(X))
    np.testing.assert_allclose(out, (X * X).sum(), rtol=1e-6)
    out, unit = units(lambda x: lax.fori_loop(0, 2, lambda i, c: c * 2.0, x), jnp.asarray(X))
    np.testing.assert_allclose(out, 4 * X)


def test_functions_with_a_jvp_of_their_own_keep_it():
    @weft.custom_jvp
    def sine(x):
        return jnp.sin(x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), 100 * tangents[0]))
    out, unit = units(sine, jnp.float32(1.0))
    np.testing.assert_allclose(out, np.sin(1.0), rtol=1e-6)
    assert float(weft.grad(lambda x: units(sine, x)[0])(1.0)) == 100.0
    mapped = weft.vmap(weft.grad(lambda x: units(sine, x)[0]))(X)
    np.testing.assert_allclose(mapped, [100.0, 100.0])


def test_a_trace_that_takes_no_notice_runs_the_function():
    class Plain(ForeignTrace):
        names: list[str] = []

        def __init__(self, parent):
            super().__init__()
            self.parent_trace = parent

        def process_primitive(self, primitive, tracers, params):
            # While it processes one, operations of its own are evaluated.
            assert float(jnp.add(1.0, 1.0)) == 2.0
            self.names.append(primitive.name)
            return primitive.bind_with_trace(self.parent_trace, tracers, params)

        def process_call(self, primitive, fun, tracers, params):
            return fun.call_wrapped(*tracers)

    @weft.custom_vjp
    def sine(x):
        return jnp.sin(x)

    sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct,))
    with take_current_trace() as parent, set_current_trace(Plain(parent)) as trace:
        sine(1.0)
        assert trace.process_call(None, lu.wrap_init(lambda x: [x]), [3.0], {}) == [3.0]
    assert Plain.names == ["sin"] and trace.parent is parent and trace.main is trace
    assert isinstance(current_trace(), ForeignTrace) and isinstance(trace, Trace)


def test_what_is_asked_of_the_trace_in_force():
    outside = get_opaque_trace_state(convention="nnx")
    found = {}

    def inside(x):
        found.update(
            jit=under_jit(), names=axis_names_in_force(), clean=trace_state_clean(),
            map=under_vmap(), same=outside == get_opaque_trace_state(),
            top=find_top_trace(()) is current_trace(),
        )  # fmt: skip
        with eval_context():
            found["evaluated"] = isinstance(jnp.add(1, 1), weft.Array) and trace_state_clean()
        return x

    weft.vmap(inside, axis_name="i")(X)
    assert found == dict(
        jit=False, names=["i"], clean=False, map=True, same=False, top=True, evaluated=True
    )
    weft.jit(inside)(X)
    assert found["jit"] and found["names"] == [] and not has_axis_names()
    assert outside == get_opaque_trace_state() and hash(outside) == hash(get_opaque_trace_state())


def test_values_that_have_to_be_known():
    assert concrete_or_error(None, 3.0) == 3.0
    assert weft.jvp(lambda x: concrete_or_error(float, x), (2.0,), (1.0,))[0] == 2.0
    with pytest.raises(ConcretizationError) as caught:
        weft.jit(lambda x: concrete_or_error(int, x, "the size of a basis"))(1)
    assert "the size of a basis" in caught.value.__notes__


def test_types_of_elements_and_of_whole_arrays():
    of = weft.typeof(jnp.ones((2, 3)))
    assert mapped_aval(3, -1, of).shape == (2,) and mapped_aval(3, None, of) is of
    assert unmapped_aval(4, -1, of).shape == (2, 3, 4) and unmapped_aval(4, None, of) is of


class ParameterTrace(ForeignTrace):
    """Notes the parameters of each primitive and passes them on as they are."""

    __slots__ = ("noted", "parent_trace")

    def __init__(self, parent_trace, noted):
        self.parent_trace, self.noted = parent_trace, noted
        super().__init__()

    def process_primitive(self, primitive, tracers, params):
        self.noted[primitive.name] = set(params)
        return primitive.bind_with_trace(self.parent_trace, tracers, params)


def test_a_foreign_trace_sees_parameters_of_jax_at_their_neutral_values():
    noted = {}
    with take_current_trace() as parent, set_current_trace(ParameterTrace(parent, noted)):
        doubled = weft.jit(lambda x: 2 * x)(X)
        wide = lax.broadcast_in_dim_p.bind(X, shape=(2, 2), broadcast_dimensions=(1,))
    np.testing.assert_array_equal(doubled, 2 * X)
    assert {"inline", "jaxpr", "name"} <= noted["jit"]
    assert "sharding" in noted["broadcast_in_dim"]
    assert wide.shape == (2, 2)


def test_primitives_take_parameters_of_jax_at_their_neutral_values():
    product = lax.mul_p.bind(X, X, out_dtype=None)
    np.testing.assert_array_equal(product, X * X)
    with pytest.raises(TypeError, match="out_dtype"):
        lax.mul_p.bind(X, X, out_dtype=np.dtype("float32"))
