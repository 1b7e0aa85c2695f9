"""Declared primitives in corners: parameters of every kind and name, bodies that cannot be."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest

import weft
import weft.lax as lax
import weft.numpy as wnp
from at_once import together
from weft.errors import (
    JaxprError,
    LeakedTracerError,
    MissingRuleError,
    ShapeError,
    UnboundAxisError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend import Example, check_primitive
from weft.extend.core import Primitive, define_primitive, eval_jaxpr
from weft.extend.interpreters import ad, mlir
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

X = np.arange(4, dtype=np.float32)
N = np.array([3], np.int32)


def line_of(function):
    """The first line of a function of this file."""
    return inspect.getsourcelines(function)[1]


def eager(function, x):
    return function(x)


def jitted(function, x):
    return weft.jit(function)(x)


def mapped(function, x):
    return weft.vmap(function)(x)


def mapped_twice(function, x):
    return weft.vmap(weft.vmap(function))(x[None])[0]


def on_blocks(function, x):
    mesh = weft.make_mesh((1,), ("i",))
    return weft.shard_map(function, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))(x)


WAYS = [eager, jitted, mapped, mapped_twice, on_blocks]

# ---- parameters --------------------------------------------------------------------------------

scaled = define_primitive("scaled_by_parameter", body=lambda x, *, by: x * by)


@dataclasses.dataclass(frozen=True)
class Scale:
    by: object

    def __rmul__(self, x):
        return x * self.by


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrap", [lambda n: n, Scale], ids=["plain", "in a dataclass"])
def test_equal_parameters_of_other_classes_are_others(way, wrap):
    bys = [2, 2.0, True, 1, 1.0, np.int32(2), np.float32(2), 2 + 0j, False, 0.0]
    for _ in range(2):
        for by in bys:
            if isinstance(by, np.generic) and wrap is Scale:
                continue  # NumPy's scalars multiply arrays by themselves
            out = way(lambda x, by=by: scaled(x, by=wrap(by)), N)
            assert out.dtype == (wnp.asarray(N) * by).dtype, by
            assert np.asarray(out).tolist() == [3 * by]


def test_zeros_of_either_sign_in_tuples_and_alone_are_others():
    signs = define_primitive(
        "signs_of_test", body=lambda x, *, s: wnp.copysign(x, s[0] if isinstance(s, tuple) else s)
    )
    for s, wanted in ((0.0, 1.0), (-0.0, -1.0), ((0.0,), 1.0), ((-0.0,), -1.0)):
        assert float(signs(1.0, s=s)) == wanted
        assert float(weft.jit(weft.grad(lambda x, s=s: signs(x, s=s)))(1.0)) == wanted


def test_parameters_of_a_primitive_with_rules_by_hand_are_told_apart_as_well():
    p = Primitive("by_hand_of_test")
    p.def_abstract_eval(lambda x, *, by: x.update(dtype=np.dtype(type(by)), weak_type=False))
    mlir.register_lowering(
        p, lambda context, x, *, by: mlir.constant(by, (), np.dtype(context.out_types[0].dtype))
    )
    with weft.enable_x64():
        found = [p.bind(0.0, by=by) for by in (1, 1.0, True, 1)]
        assert [x.dtype for x in found] == [np.int64, np.float64, np.bool_, np.int64]


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"),
        lambda: np.float64("nan"),
        lambda: (float("nan"), "a"),
        lambda: complex(float("nan"), 1),
        lambda: frozenset([2.5]),
    ],
)
def test_parameters_made_anew_at_each_call_make_no_program_anew(make):
    calls = []

    @define_primitive("made_anew_of_test")
    def counted(x, *, by):
        calls.append(by)
        return x * 2

    for _ in range(4):
        assert counted(X, by=make()).shape == X.shape
    assert len(calls) == 1


def test_functions_as_parameters_count_by_identity():
    applied = define_primitive("applied_of_test", body=lambda x, *, f: f(x))
    for k in (2.0, 3.0, 2.0):
        assert float(applied(1.0, f=lambda x, k=k: x * k)) == k
        assert float(weft.grad(lambda x, k=k: applied(x, f=lambda y: y**k))(2.0)) == k * 2 ** (
            k - 1
        )
    assert float(weft.vmap(lambda x: applied(x, f=weft.jit(lambda y: y * y)))(X)[2]) == 4.0


NAMES = dict.fromkeys(
    (
        "self args axis axis_data axis_name block body context cotangent cotangents ct dims "
        "donated eqn equation error function jaxpr key kind linear lower manual mesh name operands "
        "params platform primals primitive rule sharding size source tangents type types unknown "
        "used value values"
    ).split(),
    1,
)
named = define_primitive("named_of_test", body=lambda *xs, **params: xs[0] * len(params))
named_by_rules = define_primitive(
    "named_by_rules_of_test",
    type_rule=lambda *types, **params: types[0],
    lower=lambda _, /, *values, **params: mlir.hlo.add(values[0], values[0]),
    linear=0,
    transpose=lambda ct, /, *operands, **params: [named_by_rules(ct, **params)],
)


@pytest.mark.parametrize(("p", "slope"), [(named, float(len(NAMES))), (named_by_rules, 2.0)])
def test_parameters_may_have_any_name(p, slope):
    def f(x):
        return p(x, **NAMES)

    assert float(p.bind(1.0, **NAMES)) == slope == float(f(1.0)) == float(weft.jit(f)(1.0))
    for g in (weft.grad(f), weft.grad(weft.checkpoint(f)), weft.jit(weft.grad(f))):
        assert float(g(1.0)) == slope
    assert [float(x) for x in weft.jvp(f, (1.0,), (2.0,))] == [slope, 2 * slope]
    assert float(weft.linearize(f, 1.0)[1](1.0)) == slope
    np.testing.assert_array_equal(weft.vmap(weft.grad(f))(X), np.full(4, slope))
    assert float(lax.scan(lambda c, _: (f(c), None), 1.0, None, length=2)[0]) == slope**2
    assert float(eval_jaxpr(weft.make_jaxpr(f)(1.0).jaxpr, (), 1.0)[0]) == slope
    assert float(weft.export.export(weft.jit(f))(1.0).call(3.0)) == 3 * slope
    spread = weft.shard_map(f, weft.make_mesh((4,), ("i",)), P("i"), P("i"))
    np.testing.assert_array_equal(spread(X), slope * X)
    with weft.simulate():
        np.testing.assert_array_equal(spread(X), slope * X)
    with weft.debug_nans():
        assert float(f(1.0)) == slope == float(weft.jit(f)(1.0))
    assert check_primitive(p, [Example((1.5,), NAMES)]).failed == []


@pytest.mark.parametrize("value", [object(), {1}, X[:0].tolist(), b"x", np.array(["x"])])
def test_operands_that_are_no_arrays_are_named_with_the_primitive(value):
    with pytest.raises(WeftTypeError, match="operand 0 is no array") as info:
        scaled(value, by=2)
    assert info.value.operation == "scaled_by_parameter" and info.value.fix.data["operand"] == 0


# ---- bodies ------------------------------------------------------------------------------------


def test_an_error_in_a_body_has_both_lines():
    def body(x, y):
        return lax.add(x, y)  # in the body

    bad = define_primitive("bad_of_test", body=body)

    def apply(x):
        return bad(x, np.ones(3))  # the application

    for way in (eager, jitted, lambda f, x: weft.grad(lambda x: f(x).sum())(x)):
        with pytest.raises(ShapeError) as info:
            way(apply, np.ones(2, np.float32))
        assert f"{__file__}:{line_of(body) + 1}" in info.value.location
        (note,) = info.value.__notes__
        assert "in the body of the primitive 'bad_of_test'" in note
        assert f"{__file__}:{line_of(apply) + 1}" in note


def test_an_error_in_a_body_that_is_recorded_for_the_lowering_has_the_line_of_the_application():
    late = define_primitive("late_of_test", type_rule=lambda x: x, body=lambda x: {}["key"])

    def apply(x):
        return late(x)

    with pytest.raises(KeyError) as info:
        weft.jit(lambda x: apply(x) + 1.0)(1.0)
    assert f"{__file__}:{line_of(apply) + 1}" in info.value.__notes__[0]


@pytest.mark.parametrize(
    ("type_rule", "more"),
    [
        (lambda x: x.update(shape=(3,)), {}),
        (lambda x: x.update(dtype=np.int32), {}),
        (lambda x: [x], {"multiple_results": True}),
    ],
)
def test_a_type_rule_that_the_body_does_not_keep(type_rule, more):
    body = (lambda x: [x, x]) if more else (lambda x: x)
    p = define_primitive("apart_of_test", type_rule=type_rule, body=body, **more)
    for way in WAYS:
        with pytest.raises(JaxprError, match="the type rule of .*'apart_of_test'") as info:
            way(p, X)
        assert info.value.fix.kind == "disagreement"
    repaired = define_primitive("apart_of_test", body=body, **more)
    np.testing.assert_array_equal(repaired(X)[-1] if more else repaired(X), X)


CALLS = {
    "grad": lambda f: weft.grad(f)(3.0),
    "jit": lambda f: weft.jit(f)(3.0),
    "vmap": lambda f: weft.vmap(f)(np.full(2, 3.0))[0],
    "jvp": lambda f: weft.jvp(f, (3.0,), (1.0,))[1],
    "linearize": lambda f: weft.linearize(f, 3.0)[1](1.0),
    "checkpoint": lambda f: weft.grad(weft.checkpoint(f))(3.0),
    "scan": lambda f: lax.scan(lambda c, _: (f(c), None), 3.0, None, length=1)[0],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("as_parameter", [False, True])
def test_a_body_that_closes_over_a_traced_value_and_the_fix(name, as_parameter):
    applied = define_primitive("applying_of_test", body=lambda x, *, f: f(x))

    def wrong(y):
        if as_parameter:
            return applied(2.0, f=lambda x: x * y)
        return define_primitive("closing_of_test", body=lambda x: x * y)(2.0)

    product = define_primitive("open_of_test", body=lambda x, y: x * y)  # what the fix says
    with pytest.raises(LeakedTracerError, match="closes over a traced value") as info:
        CALLS[name](wrong)
    assert info.value.fix.kind == "operand" and "_of_test" in info.value.operation
    assert "the variable 'y'" in str(info.value) and __file__ in info.value.location
    wanted = 6.0 if name in ("jit", "vmap", "scan") else 2.0
    assert float(CALLS[name](lambda y: product(2.0, y))) == wanted


def test_a_body_that_applies_itself():
    power = define_primitive(
        "power_of_test", body=lambda x, *, n: x if n == 1 else x * power(x, n=n - 1)
    )
    assert float(power(2.0, n=5)) == 32.0
    assert float(weft.grad(lambda x: power(x, n=5))(2.0)) == 80.0
    np.testing.assert_array_equal(weft.vmap(lambda x: power(x, n=3))(X), X**3)
    endless = define_primitive("endless_of_test", body=lambda x: endless(x) + 1)
    typed = define_primitive("typed_of_test", type_rule=lambda x: x, body=lambda x: typed(x))
    inside = define_primitive(
        "inside_of_test",
        type_rule=lambda x: x,
        body=lambda x: lax.cond(x > 0, lambda x: inside(x), lambda x: x, x),
    )
    one = define_primitive("one_of_two_of_test", body=lambda x: other(x))
    other = define_primitive("other_of_two_of_test", body=lambda x: one(x))
    for p in (endless, typed, inside, one):
        for way in (eager, jitted, lambda f, x: weft.grad(f)(x), lambda f, x: mapped(f, x[None])):
            with pytest.raises(WeftValueError, match="never ends") as info:
                way(p, np.float32(1))
            assert info.value.fix.kind == "recursion" and __file__ in info.value.location


def test_a_collective_in_a_body_is_told_to_stand_outside():
    summed = define_primitive("summed_of_test", body=lambda x: lax.psum(x, "i"))
    mesh = weft.make_mesh((4,), ("i",))
    for apply in (
        lambda: weft.vmap(summed, axis_name="i")(X),
        lambda: weft.shard_map(summed, mesh, P("i"), P())(X),
        lambda: weft.jit(weft.shard_map(summed, mesh, P("i"), P()))(X),
    ):
        with pytest.raises(UnboundAxisError, match="'summed_of_test' names the axis 'i'") as info:
            apply()
        assert info.value.fix.kind == "outside" and info.value.fix.data["axis"] == "i"
    doubled = define_primitive("doubled_before_sum_of_test", body=lambda x: 2 * x)
    fixed = weft.vmap(lambda x: lax.psum(doubled(x), "i"), axis_name="i")
    np.testing.assert_array_equal(fixed(X), np.full(4, 12.0))
    own = define_primitive(
        "own_axis_of_test", body=lambda x: weft.vmap(lambda y: lax.psum(y, "i"), axis_name="i")(x)
    )
    np.testing.assert_array_equal(weft.vmap(own, axis_name="i")(X[None]), np.full((1, 4), 6.0))


def test_bodies_with_everything_inside():
    @weft.custom_jvp
    def bent(x):
        return x * x

    bent.defjvp(lambda p, t: (bent(*p), 7.0 * t[0]))

    @define_primitive("everything_of_test")
    def everything(x):
        looped = lax.scan(lambda c, _: (wnp.sin(c), None), x, None, length=3)[0]
        found = lax.while_loop(lambda c: c < 0, lambda c: c + 1.0, -2.5)
        chosen = lax.cond(x > 0, lambda x: x * x, lambda x: -x, x)
        return looped + chosen + bent(x) + weft.grad(lambda y: y**3)(x) + found

    def value(x):
        chosen = x * x if x > 0 else -x
        return np.sin(np.sin(np.sin(x))) + chosen + x * x + 3 * x * x + 0.5

    def slope(x):
        chain = np.cos(np.sin(np.sin(x))) * np.cos(np.sin(x)) * np.cos(x)
        return chain + (2 * x if x > 0 else -1.0) + 7.0 + 6 * x

    xs = np.array([0.7, -1.3], np.float32)
    np.testing.assert_allclose(weft.vmap(everything)(xs), list(map(value, xs)), rtol=1e-5)
    for gradient in (
        weft.grad(everything),
        weft.jacfwd(everything),
        weft.jit(weft.grad(everything)),
    ):
        np.testing.assert_allclose([gradient(x) for x in xs], list(map(slope, xs)), rtol=1e-5)
    np.testing.assert_allclose(
        weft.vmap(weft.grad(everything))(xs), list(map(slope, xs)), rtol=1e-5
    )
    exported = weft.export.export(weft.jit(everything))(xs[0])
    again = weft.export.deserialize(exported.serialize(vjp_order=1))
    np.testing.assert_allclose(again.vjp().call(xs[0], np.float32(1))[0], slope(xs[0]), rtol=1e-5)


def test_no_operands_no_results_and_many_results():
    ramp = define_primitive("ramp_of_no_operand", body=lambda *, n: wnp.arange(n) * 1.0)
    np.testing.assert_array_equal(weft.jit(lambda: ramp(n=3))(), [0, 1, 2])
    np.testing.assert_array_equal(weft.vmap(lambda x: x * ramp(n=2))(X[:, None])[3], [0, 3])
    np.testing.assert_array_equal(weft.vmap(lambda: ramp(n=2), axis_size=2)(), [[0, 1]] * 2)
    np.testing.assert_array_equal(weft.grad(lambda x: (x * ramp(n=4)).sum())(X), [0, 1, 2, 3])
    empty = define_primitive("no_result_of_test", body=lambda x: [], multiple_results=True)
    assert empty(1.0) == weft.jit(empty)(1.0) == weft.vmap(empty)(X) == []
    assert weft.jvp(empty, (1.0,), (1.0,)) == ([], [])
    assert float(weft.vjp(empty, 1.0)[1]([])[0]) == 0.0
    many = define_primitive(
        "many_of_test", body=lambda x: [x * k for k in range(30)], multiple_results=True
    )
    assert float(weft.grad(lambda x: sum(many(x)))(1.0)) == sum(range(30))
    assert float(weft.vmap(many)(X)[29][2]) == 58.0


def test_complex_operands():
    rotated = define_primitive("rotated_of_test", body=lambda z: z * z * 1j)
    z = 1 + 2j
    assert complex(weft.grad(rotated, holomorphic=True)(z)) == 2j * z
    got = weft.vmap(weft.grad(rotated, holomorphic=True))(np.array([z, 2 * z]))
    np.testing.assert_allclose(got, [2j * z, 4j * z])


def test_a_weak_or_strong_result_of_a_rule_does_not_matter_in_loops():
    def jvp(primals, tangents):
        (x,), (t,) = primals, map(ad.instantiate, tangents)
        one = wnp.asarray(1.0, np.float32)  # makes the results strong where the operand is weak
        return one * x * x, one * 2 * x * t

    squared = define_primitive("squared_of_test", body=lambda x: x * x, jvp=jvp)

    def looped(x):
        return lax.scan(lambda c, _: (squared(c), None), x, None, length=3)[0]

    def steps(x):
        return lax.fori_loop(0, 3, lambda _, c: squared(c), x)

    wanted = 8 * 1.5**7
    np.testing.assert_allclose(weft.grad(looped)(1.5), wanted, rtol=1e-6)
    np.testing.assert_allclose(weft.jvp(steps, (1.5,), (1.0,))[1], wanted, rtol=1e-6)
    branch = weft.grad(lambda x: lax.cond(x > 0, squared, lambda x: x, x))
    assert float(branch(1.5)) == 3.0


# ---- one of many -------------------------------------------------------------------------------


def test_primitives_of_one_name_are_apart():
    bodies = [lambda x: x + 1, lambda x: x * 10, lambda x: x - 2]
    for way in WAYS:  # each makes programs that differ in nothing but the body
        for body in bodies:
            p = define_primitive("shared_name_of_test", body=body)
            np.testing.assert_array_equal(way(p, X), body(X))
    first, second = (define_primitive("shared_name_of_test", body=b) for b in bodies[:2])
    both = weft.jit(lambda x: (first(x), second(x)))(X)
    np.testing.assert_array_equal(both, (X + 1, X * 10))


def test_threads_that_apply_a_primitive_for_the_first_time():
    tower = define_primitive(
        "tower_of_test", body=lambda x, *, n: x if n == 0 else tower(2 * x, n=n - 1)
    )

    def work(_):
        return float(tower(1.0, n=6)), float(weft.grad(lambda x: tower(x, n=6))(1.0))

    assert together(work, 4) == [(64.0, 64.0)] * 4


@pytest.mark.parametrize("p", [scaled, Primitive("plain_of_test")])
def test_copies_are_the_primitive_itself_and_pickling_is_an_error(p):
    assert copy.copy(p) is p and copy.deepcopy({"p": [p]})["p"][0] is p
    with pytest.raises(WeftTypeError, match="cannot be pickled") as info:
        pickle.dumps(p)
    assert info.value.fix.kind == "name_it"


def test_the_fix_of_a_missing_transpose_is_a_call_that_works():
    shift = define_primitive(
        "shift_of_test", type_rule=lambda x: x, lower=lambda context, x: x, linear=0
    )
    with pytest.raises(MissingRuleError) as info:
        weft.grad(shift)(1.0)
    text = info.value.fix.text
    assert "where primitive is 'shift_of_test'" in text
    call = text.split(": ", 1)[1].split(", where")[0]
    exec(call, {"weft": weft, "primitive": shift, "rule": lambda ct, x: [ct]})
    assert float(weft.grad(shift)(1.0)) == 1.0
