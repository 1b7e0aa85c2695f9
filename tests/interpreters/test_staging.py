"""Staging: what tracing records, where constants go, and what it must not keep."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config, lax
from weft.core.jaxpr import Literal
from weft.core.trace import bottom_trace, current_trace
from weft.core.types import ArrayType, type_of
from weft.errors import JaxprError, WeftTypeError
from weft.extend.core import Primitive
from weft.interpreters.staging import StagingTracer, trace_to_jaxpr

F32 = ArrayType((), np.float32)

pytestmark = pytest.mark.usefixtures("young_heap")


def stage(f, *types):
    return trace_to_jaxpr(f, types, transformation="test", name="f")


def test_equations_are_recorded_in_order():
    jaxpr, consts = stage(lambda x: [lax.sin(lax.cos(x)), x], F32)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["cos", "sin"]
    assert consts == []
    assert jaxpr.outputs[1] is jaxpr.inputs[0]


def test_the_function_sees_tracers_of_the_given_types():
    def f(x, y):
        assert type(x) is StagingTracer
        assert (x.shape, x.dtype, y.weak_type) == ((2, 3), np.int8, True)
        return []

    stage(f, ArrayType((2, 3), np.int8), ArrayType((), np.float32, weak_type=True))


def test_operations_without_tracers_are_recorded_too():
    table = jnp.ones(3)
    jaxpr, consts = stage(lambda: [lax.add(table, table)])
    assert len(jaxpr.eqns) == 1
    assert consts[0] is table and len(consts) == 1


def test_the_previous_trace_is_current_again_also_after_an_error():
    def f():
        assert current_trace() is not bottom_trace()
        raise LookupError("of the user")

    with pytest.raises(LookupError):
        stage(f)
    assert current_trace() is bottom_trace()


def test_scalars_of_numpy_are_literals_of_exactly_their_dtype():
    jaxpr, consts = stage(lambda x: [lax.mul(x, np.float16(2.0))], ArrayType((3,), np.float16))
    assert consts == []
    literal = jaxpr.eqns[0].inputs[1]
    assert isinstance(literal, Literal) and literal.type.dtype == np.float16


def test_a_numpy_array_without_dimensions_is_a_literal():
    jaxpr, consts = stage(lambda x: [lax.mul(x, np.array(2.0, np.float32))], F32)
    assert consts == [] and isinstance(jaxpr.eqns[0].inputs[1], Literal)


def test_a_numpy_array_that_changes_while_tracing_is_captured_as_it_is():
    table = np.ones(3, np.float32)

    def f(x):
        y = x + table
        table[:] = 10.0
        return y + table

    jitted = weft.jit(f)
    np.testing.assert_array_equal(jitted(np.zeros(3, np.float32)), [11.0, 11.0, 11.0])
    table[:] = 77.0
    np.testing.assert_array_equal(jitted(np.zeros(3, np.float32)), [11.0, 11.0, 11.0])


def test_values_of_an_outer_trace_are_closed_over_inputs():
    def outer(x):
        inner, consts = stage(lambda y: [lax.mul(x, y)], F32)
        assert inner.num_consts == 1 and consts[0] is x
        return [x]

    stage(outer, F32)


def test_types_follow_the_type_rule_and_are_remembered():
    asked = []
    asked_p = Primitive("asked_for_types")

    @asked_p.def_abstract_eval
    def rule(x, *, k):
        asked.append(k)
        return x

    for _ in range(3):
        stage(lambda x: [asked_p.bind(asked_p.bind(x, k=1), k=(2,))], F32)
    assert [k for k in asked if k == 1] != [] and len(asked_p.type_cache) == 2
    before = len(asked)
    with config.override(check_jaxprs=False):
        stage(lambda x: [asked_p.bind(asked_p.bind(x, k=1), k=(2,))], F32)
    assert len(asked) == before


def test_parameters_that_cannot_be_hashed_work_without_memory():
    p = Primitive("takes_a_list")
    p.def_abstract_eval(lambda x, *, values: x)
    jaxpr, _ = stage(lambda x: [p.bind(x, values=[1, 2])], F32)
    assert jaxpr.eqns[0].params == {"values": [1, 2]}


def test_primitives_with_several_results():
    p = Primitive("two_results", multiple_results=True)
    p.def_abstract_eval(lambda x: [x, x.update(dtype=np.dtype(np.int32))])
    jaxpr, _ = stage(lambda x: p.bind(x)[::-1], F32)
    assert [str(t) for t in jaxpr.out_types] == ["i32[]", "f32[]"]


def test_errors_of_a_type_rule_are_the_only_ones_shown():
    with pytest.raises(WeftTypeError) as info:
        weft.make_jaxpr(lambda x, y: lax.add(x, y))(jnp.ones(3), jnp.ones(4))
    assert info.value.__context__ is None or info.value.__suppress_context__
    assert info.value.operation == "add"
    with pytest.raises(WeftTypeError) as info:
        lax.add(jnp.ones(3), jnp.ones(4))
    assert info.value.__context__ is None or info.value.__suppress_context__


def test_a_value_that_is_no_array_is_refused():
    with pytest.raises(WeftTypeError, match="not an array or a number"):
        stage(lambda: [lax.sin("text")])
    with pytest.raises(WeftTypeError, match="holds no numbers"):
        stage(lambda: [lax.sin(np.array(["text"]))])
    with pytest.raises(WeftTypeError):
        stage(lambda: [object()])


def test_a_finished_trace_keeps_neither_tracers_nor_big_arrays():
    seen = []

    def f(x):
        seen.append(weakref.ref(x))
        return x * 2.0

    weft.jit(f)(1.0)
    weft.grad(f)(1.0)
    weft.vmap(f)(np.ones(3))
    weft.linearize(f, 1.0)
    gc.collect()
    assert [ref() for ref in seen] == [None] * len(seen)


def test_clearing_and_dropping_a_jitted_function_drops_its_programs():
    @weft.jit
    def f(x):
        return jnp.sin(x)

    f(1.0)
    weft.grad(f)(1.0)
    weft.vmap(f)(np.ones(3))
    program = weakref.ref(f.trace(1.0).jaxpr.jaxpr)
    function = weakref.ref(f)
    f.clear_cache()  # without it the program stays for the next equal function, for a while
    del f
    gc.collect()
    assert function() is None and program() is None


def test_closed_over_arrays_live_as_long_as_the_function():
    def make():
        table = jnp.ones(1000)
        return weft.jit(lambda x: x + table), weakref.ref(table)

    f, ref = make()
    f(1.0)
    gc.collect()
    assert ref() is not None
    np.testing.assert_array_equal(np.asarray(f(1.0))[:2], [2.0, 2.0])
    del f
    gc.collect()
    assert ref() is None


def test_recursion_and_long_programs():
    def f(x, n):
        return x if n == 0 else f(lax.sin(x), n - 1)

    jaxpr = weft.make_jaxpr(lambda x: f(x, 300))(1.0)
    assert len(jaxpr.eqns) == 300

    def long(x):
        for _ in range(5000):
            x = lax.add(x, 1.0)
        return x

    assert float(weft.jit(long)(0.0)) == 5000.0 and float(weft.grad(long)(0.0)) == 1.0


def test_types_are_hash_consed_and_weak_types_are_their_own():
    assert ArrayType([2, 3], "float32") is ArrayType((2, 3), np.float32)
    assert ArrayType((), np.float32) is not ArrayType((), np.float32, weak_type=True)
    assert type_of(1.0) is ArrayType((), np.float32, weak_type=True)
    assert type_of(np.float64(1.0)) is ArrayType((), np.float64)
    with weft.enable_x64():
        assert type_of(1.0) is ArrayType((), np.float64, weak_type=True)


def test_the_checker_runs_on_everything_that_is_traced():
    assert config.settings().check_jaxprs
    fickle = iter([F32, F32.update(dtype=np.dtype(np.int32))])
    p = Primitive("fickle", memoise=False)
    p.def_abstract_eval(lambda x: next(fickle))
    with pytest.raises(JaxprError, match="fickle"):
        stage(lambda x: [p.bind(x)], F32)
