"""Jaxprs: built by tracing and by hand, checked, printed, evaluated, and traced again."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.base import source as sources
from weft.core.check import check_jaxpr
from weft.core.jaxpr import (
    ClosedJaxpr,
    Equation,
    Jaxpr,
    Literal,
    Var,
    eval_jaxpr,
    jaxprs_in,
    show_jaxpr,
)
from weft.core.types import ArrayType
from weft.errors import JaxprError
from weft.extend.core import Primitive
from weft.ops.elementwise.arithmetic import add_p, mul_p, sin_p
from weft.ops.structural.shape import reduce_sum_p

F32 = ArrayType((), np.float32)
I32 = ArrayType((), np.int32)
VEC = ArrayType((3,), np.float32)


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


# ---- by tracing --------------------------------------------------------------------------------


def test_a_traced_program_has_typed_inputs_equations_and_results():
    closed = weft.make_jaxpr(lambda x: lax.mul(lax.sin(x), lax.cos(x)))(jnp.ones(3))
    assert isinstance(closed, ClosedJaxpr)
    assert names(closed) == ["sin", "cos", "mul"]
    assert closed.in_avals == [VEC] and closed.out_avals == [VEC] and closed.consts == []
    check_jaxpr(closed)


def test_everything_is_staged_constants_too():
    closed = weft.make_jaxpr(lambda: lax.mul(2.0, 2.0))()
    assert names(closed) == ["mul"]
    assert all(isinstance(atom, Literal) for atom in closed.eqns[0].inputs)
    assert [float(x) for x in closed()] == [4.0]


def test_numbers_are_literals_and_arrays_are_hoisted_once_per_identity():
    table = jnp.array([1.0, 2.0, 3.0])
    twin = jnp.array([1.0, 2.0, 3.0])

    def f(x):
        return lax.add(lax.add(lax.mul(x, table), lax.mul(table, np.float32(2.0))), twin)

    closed = weft.make_jaxpr(f)(jnp.ones(3))
    assert closed.jaxpr.num_consts == 2
    assert closed.consts[0] is table and closed.consts[1] is twin
    literals = [a for eqn in closed.eqns for a in eqn.inputs if isinstance(a, Literal)]
    assert [float(a.value) for a in literals] == [2.0]
    np.testing.assert_array_equal(closed(jnp.ones(3))[0], [4.0, 8.0, 12.0])


def test_numpy_arrays_are_hoisted_too():
    table = np.arange(3, dtype=np.float32)
    closed = weft.make_jaxpr(lambda x: lax.add(lax.mul(x, table), table))(jnp.ones(3))
    assert closed.jaxpr.num_consts == 1 and closed.jaxpr.inputs[0].type is VEC


def test_a_nested_program_receives_what_it_closes_over_as_operands():
    table = jnp.arange(3.0)
    inner = weft.jit(lambda x: lax.mul(x, table))
    closed = weft.make_jaxpr(lambda x: lax.add(inner(x), table))(jnp.ones(3))
    assert closed.jaxpr.num_consts == 1
    (call,) = [eqn for eqn in closed.eqns if eqn.primitive.name == "jit"]
    assert call.inputs[0] is closed.jaxpr.inputs[0]
    (program,) = jaxprs_in(call.params)
    assert program.num_consts == 1


def test_results_may_be_inputs_literals_and_repeated():
    closed = weft.make_jaxpr(lambda x, y: (y, 3.0, y, x))(1.0, 2)
    assert closed.eqns == []
    assert [str(t) for t in closed.out_avals] == ["i32[]", "f32[]", "i32[]", "f32[]"]
    assert closed(5.0, 7) == [7, 3.0, 7, 5.0]


def test_make_jaxpr_takes_shapes_trees_keywords_and_static_arguments():
    struct = weft.ShapeDtypeStruct((2, 3), np.float32)
    closed, shapes = weft.make_jaxpr(
        lambda tree, n, *, scale: {"out": lax.mul(tree["x"], scale), "n": n + 1},
        static_argnums=1,
        return_shape=True,
    )({"x": struct}, 4, scale=np.float32(2.0))
    assert closed.in_avals[0].shape == (2, 3)
    assert shapes["out"].shape == (2, 3) and shapes["n"].dtype == np.int32


def test_eval_shape_computes_nothing():
    calls = []

    def f(x):
        calls.append(1)
        return x @ x

    out = weft.eval_shape(f, weft.ShapeDtypeStruct((1000, 1000), np.float32))
    assert (out.shape, out.dtype) == ((1000, 1000), np.float32)
    assert calls == [1]


def test_every_equation_has_the_users_line():
    def f(x):
        y = lax.sin(x)
        return jnp.sum(y * 2.0)

    first = f.__code__.co_firstlineno
    closed = weft.make_jaxpr(f)(jnp.ones(3))

    def check(jaxpr):
        for eqn in jaxpr.eqns:
            place = sources.locate(eqn.source)
            assert place.file == __file__
            assert first < place.line <= first + 2, place
            for inner in jaxprs_in(eqn.params):
                check(inner)

    check(closed.jaxpr)
    assert sources.locate(closed.eqns[0].source).line == first + 1


def test_derived_programs_keep_the_users_line():
    def f(x):
        return lax.mul(lax.sin(x), x)

    first = f.__code__.co_firstlineno
    for transformed in (weft.grad(f), lambda x: weft.jvp(f, (x,), (x,))[1], weft.grad(weft.jit(f))):
        closed = weft.make_jaxpr(transformed)(1.0)
        lines = set()

        def collect(jaxpr, lines=lines):
            for eqn in jaxpr.eqns:
                place = sources.locate(eqn.source)
                assert place.file == __file__
                lines.add(place.line)
                for inner in jaxprs_in(eqn.params):
                    collect(inner)

        collect(closed.jaxpr)
        assert first + 1 in lines, lines  # the line of the sine, not that of the call of grad


# ---- by hand -----------------------------------------------------------------------------------


def by_hand():
    x, y, a, b = Var(F32), Var(F32), Var(F32), Var(F32)
    return Jaxpr([x, y], [Equation(sin_p, [x], {}, [a]), Equation(mul_p, [a, y], {}, [b])], [b])


def test_a_program_built_by_hand_is_checked_evaluated_and_transformed():
    jaxpr = by_hand()
    check_jaxpr(jaxpr)
    (out,) = eval_jaxpr(jaxpr, (), np.float32(0.5), np.float32(3.0))
    np.testing.assert_allclose(out, np.sin(0.5) * 3, rtol=1e-6)

    def f(x, y):
        return eval_jaxpr(jaxpr, (), x, y)[0]

    x, y = np.float32(0.5), np.float32(3.0)
    np.testing.assert_allclose(weft.grad(f)(x, y), np.cos(0.5) * 3, rtol=1e-6)
    np.testing.assert_allclose(weft.grad(weft.grad(f))(x, y), -np.sin(0.5) * 3, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(f)(x, y), np.sin(0.5) * 3, rtol=1e-6)
    xs = jnp.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(
        weft.vmap(f, in_axes=(0, None))(xs, y), np.sin([0.5, 1.0, 2.0]) * 3, rtol=1e-6
    )
    assert str(weft.make_jaxpr(f)(x, y)) == str(jaxpr)


def test_eval_jaxpr_wants_the_right_number_of_values():
    with pytest.raises(TypeError, match="takes 0 and 2"):
        eval_jaxpr(by_hand(), (), 1.0)


def test_evaluation_of_a_traced_program_is_a_fixed_point():
    def f(x, y):
        inner = weft.jit(lambda v: lax.sin(v) * y)
        return lax.cond(jnp.sum(x) > 0, inner, lambda v: -v, x), y

    args = jnp.ones(3), np.float32(2.0)
    closed = weft.make_jaxpr(f)(*args)
    again = weft.make_jaxpr(lambda *a: closed(*a))(*args)
    assert str(again) == str(closed)
    np.testing.assert_allclose(weft.jit(lambda *a: closed(*a))(*args)[0], f(*args)[0])


# ---- the checker -------------------------------------------------------------------------------


def unbound():
    x, ghost, a = Var(F32), Var(F32), Var(F32)
    return Jaxpr([x], [Equation(add_p, [x, ghost], {}, [a])], [a])


def unbound_result():
    return Jaxpr([Var(F32)], [], [Var(F32)])


def used_before_bound():
    x, a, b = Var(F32), Var(F32), Var(F32)
    return Jaxpr([x], [Equation(sin_p, [a], {}, [b]), Equation(sin_p, [x], {}, [a])], [b])


def bound_twice():
    x, a = Var(F32), Var(F32)
    eqns = [Equation(sin_p, [x], {}, [a]), Equation(sin_p, [x], {}, [a])]
    return Jaxpr([x], eqns, [a])


def input_twice():
    x = Var(F32)
    return Jaxpr([x, x], [], [x])


def wrong_result_type():
    x, a = Var(F32), Var(VEC)
    return Jaxpr([x], [Equation(sin_p, [x], {}, [a])], [a])


def wrong_weak_type():
    x, a = Var(F32), Var(F32.update(weak_type=True))
    return Jaxpr([x], [Equation(sin_p, [x], {}, [a])], [a])


def literal_bound():
    x = Var(F32)
    return Jaxpr([x], [Equation(sin_p, [x], {}, [Literal(1.0, F32)])], [x])


def literal_with_dimensions():
    a = Var(VEC)
    return Jaxpr([], [Equation(sin_p, [Literal(np.ones(3, np.float32), VEC)], {}, [a])], [a])


def operand_that_is_a_value():
    a = Var(F32)
    return Jaxpr([], [Equation(sin_p, [1.0], {}, [a])], [a])


def too_many_results():
    x, a, b = Var(F32), Var(F32), Var(F32)
    return Jaxpr([x], [Equation(sin_p, [x], {}, [a, b])], [a])


def missing_consts():
    x, c, a = Var(F32), Var(F32), Var(F32)
    return ClosedJaxpr(Jaxpr([c, x], [Equation(mul_p, [c, x], {}, [a])], [a], num_consts=1), [])


def fault_inside():
    x, a = Var(F32), Var(F32)
    jit = Primitive("call_of_fault", multiple_results=True, memoise=False)
    jit.def_abstract_eval(lambda *types, jaxpr: jaxpr.out_types)
    return Jaxpr([x], [Equation(jit, [x], {"jaxpr": bound_twice()}, [a])], [a])


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (unbound, "nothing has bound"),
        (unbound_result, "the results reads a variable"),
        (used_before_bound, "nothing has bound"),
        (bound_twice, "a second time"),
        (input_twice, "a second time"),
        (wrong_result_type, "wrong types"),
        (wrong_weak_type, "wrong types"),
        (literal_bound, "not a variable"),
        (literal_with_dimensions, "literal with dimensions"),
        (operand_that_is_a_value, "neither a variable nor a literal"),
        (too_many_results, "wrong types"),
        (missing_consts, "takes 1 closed-over values and 0 are given"),
        (fault_inside, "a second time"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_checker_rejects(make, phrase):
    with pytest.raises(JaxprError, match=phrase):
        check_jaxpr(make())


def test_the_checker_rejects_consts_of_the_wrong_type():
    closed = weft.make_jaxpr(lambda x: lax.mul(x, np.ones(3, np.float32)))(jnp.ones(3))
    check_jaxpr(closed)
    with pytest.raises(JaxprError, match="closed-over value"):
        check_jaxpr(ClosedJaxpr(closed.jaxpr, [np.ones(4, np.float32)]))


def test_the_checker_rejects_operands_that_the_type_rule_rejects():
    x, y, a = Var(VEC), Var(ArrayType((4,), np.float32)), Var(VEC)
    with pytest.raises(weft.errors.ShapeError, match="one shape"):
        check_jaxpr(Jaxpr([x, y], [Equation(add_p, [x, y], {}, [a])], [a]))
    b = Var(F32)
    with pytest.raises(weft.errors.AxisError):
        check_jaxpr(Jaxpr([x], [Equation(reduce_sum_p, [x], {"axes": (1,)}, [b])], [b]))


def test_the_checker_names_the_equation_and_the_line():
    closed = weft.make_jaxpr(lambda x: lax.sin(lax.sin(x)))(1.0)
    eqns = [closed.eqns[0], closed.eqns[0]]
    with pytest.raises(JaxprError, match=r"equation 1 \(sin, .*test_jaxpr.py:\d+"):
        check_jaxpr(Jaxpr(closed.jaxpr.inputs, eqns, closed.jaxpr.outputs))


def test_tracing_checks_what_it_builds():
    bad = Primitive("answers_with_the_wrong_type")
    bad.def_abstract_eval(lambda x: VEC)
    fresh = iter([VEC, F32])
    moody = Primitive("changes_its_mind", memoise=False)
    moody.def_abstract_eval(lambda x: next(fresh))
    assert weft.make_jaxpr(lambda x: bad.bind(x))(1.0).out_avals == [VEC]
    with pytest.raises(JaxprError, match="changes_its_mind"):
        weft.make_jaxpr(lambda x: moody.bind(x))(1.0)


# ---- printing ----------------------------------------------------------------------------------


def test_the_text_names_variables_in_the_order_of_binding():
    closed = weft.make_jaxpr(lambda x, y: lax.add(lax.mul(x, y), 1.0))(
        jnp.ones((2, 3)), jnp.ones((2, 3))
    )
    assert str(closed) == (
        "{ lambda ; a:f32[2,3] b:f32[2,3]. let\n"
        "    c:f32[2,3] = mul a b\n"
        "    d:f32[2,3] = add c 1.0:f32[]\n"
        "  in (d,) }"
    )


def test_the_text_is_the_same_every_time():
    def f(x):
        return lax.cond(x > 0, weft.jit(lambda y: y * 2.0), lambda y: -y, x)

    assert str(weft.make_jaxpr(f)(1.0)) == str(weft.make_jaxpr(f)(1.0))


def test_there_are_names_enough():
    def f(x):
        for _ in range(1000):
            x = lax.sin(x)
        return x

    text = str(weft.make_jaxpr(f)(1.0))
    bound = [line.split(":")[0].strip() for line in text.splitlines()[1:-1]]
    assert len(set(bound)) == len(bound) == 1000


def test_the_text_can_show_lines():
    closed = weft.make_jaxpr(lambda x: lax.sin(x))(1.0)
    assert "test_jaxpr.py:" in show_jaxpr(closed, source=True)
    assert "test_jaxpr.py" not in show_jaxpr(closed)


def test_a_program_without_equations_and_one_without_inputs_print():
    assert str(weft.make_jaxpr(lambda x: x)(1.0)) == "{ lambda ; a:f32[]. let  in (a,) }"
    assert str(weft.make_jaxpr(lambda: ())()) == "{ lambda ;. let  in () }"


# ---- numbers as literals -----------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, 3, -2.5, 1 + 2j, np.float64(0.1), np.int8(3), np.nan])
def test_literals_keep_their_value_and_type(value):
    closed = weft.make_jaxpr(lambda: (value,))()
    (atom,) = closed.jaxpr.outputs
    assert isinstance(atom, Literal)
    (out,) = weft.jit(lambda: (value,))()
    assert out.type is atom.type
    np.testing.assert_array_equal(np.asarray(out), np.asarray(value).astype(out.dtype))


def test_the_sign_of_zero_survives():
    out = weft.jit(lambda: (0.0, -0.0))()
    assert [bool(np.signbit(np.asarray(x))) for x in out] == [False, True]
