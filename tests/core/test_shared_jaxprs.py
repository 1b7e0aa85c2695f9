"""Equal jaxprs are one, and no two that differ in anything are taken for one another."""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import itertools
import struct
import weakref
from typing import Any, NamedTuple

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from at_once import together
from compilations import counted_compilations
from op_table import rows
from weft import lax
from weft.base.source import Scope
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var
from weft.core.primitive import Primitive
from weft.core.shared_jaxprs import SharedJaxprs, content_of, program_alone, share_jaxpr
from weft.core.types import ArrayType
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


# ---- random jaxprs, and copies that differ in one thing ------------------------------------------


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Options:
    size: Any
    name: Any


class Pair(NamedTuple):
    first: Any
    second: Any


class Opaque:
    """Equal to all of its class, as a user's class may be."""

    def __eq__(self, other):
        return type(other) is Opaque

    def __hash__(self):
        return 1


MESH = weft.make_mesh((8,), ("i",))
PRIMITIVES = [Primitive(f"p{i}", multiple_results=True) for i in range(3)]
TYPES = [
    ArrayType((), np.float32),
    ArrayType((), np.float32, weak_type=True),
    ArrayType((3,), np.float32),
    ArrayType((3,), np.float32, varying=frozenset("i")),
    ArrayType((3,), np.int32),
    ArrayType((3, 1), np.float32),
    ArrayType((3,), np.dtype(ml_dtypes.bfloat16)),
]
FLOATS = [0.0, -0.0, 1.0, float("nan"), float("inf"), 1e-310]


def _with_payload(number):
    return struct.unpack("d", struct.pack("Q", 0x7FF8000000000000 + number))[0]


def _function():
    return lambda x: x


# Values by which parameters and literals may differ; no two rows of a list are the same value. Each
# is made anew for each jaxpr, except callables and opaque objects, of which a copy is another one.
def values():
    return [
        0, False, 0.0, -0.0, 0j, -0j, complex(0.0, -0.0), None, "", b"", (), frozenset(),
        1, True, 1.0, 1 + 0j, "1", b"1", (1,), (True,), (1.0,), ((1,),), (1, 1), frozenset((1,)),
        frozenset((True,)), _with_payload(0), _with_payload(1), -_with_payload(0), float("inf"),
        np.float32(0), np.float32(-0.0), np.float64(0), np.int32(0), np.int64(0), np.bool_(False),
        np.float32("nan"), np.float16(0), ml_dtypes.bfloat16(0), np.uint8(1), np.str_("1"),
        np.dtype("f4"), np.dtype("f8"), np.dtype(">f4"), np.dtype(ml_dtypes.bfloat16), np.float32,
        Color.RED, Color.BLUE, Options(1, "a"), Options(True, "a"), Options(1, "b"), Pair(1, 2),
        Pair(1, 2.0), (1, 2), slice(1, 2), slice(1, 3), range(2), range(3),
        NamedSharding(MESH, P("i")), NamedSharding(MESH, P()), P("i"), P(None, "i"), ("i",),
        lax.Precision.HIGHEST, np.zeros(2, np.float32), -np.zeros(2, np.float32),
        np.zeros(2, np.float64), np.zeros((1, 2), np.float32),
        functools.partial(len, 1), functools.partial(len, True), functools.partial(len, a=1),
        len, min, "a".join, "b".join,
    ]  # fmt: skip


VALUES = values()
NEW = [_function, Opaque, object, lambda: [1], lambda: {"a": 1}]  # equal to nothing but themselves


@dataclasses.dataclass
class Plan:
    """What a jaxpr is made of: numbers in place of objects, so that it can be made again."""

    inputs: list[int]
    consts: int
    # Per equation: primitive, operands (a variable, or a literal: value and type), parameters by
    # name, types of results, effects, metadata, inner jaxprs.
    eqns: list[list[Any]]
    outputs: list[Any]


def draw_plan(draw, depth=0):
    count = draw(st.integers(1, 3))
    inputs = [draw(st.integers(0, len(TYPES) - 1)) for _ in range(count)]
    eqns, known = [], count
    for _ in range(draw(st.integers(1, 4))):
        operands = [
            draw(st.integers(0, known - 1))
            if draw(st.booleans())
            else ("literal", draw(st.integers(0, len(VALUES) - 1)), draw(st.integers(0, 1)))
            for _ in range(draw(st.integers(1, 3)))
        ]
        params = {
            name: draw(st.integers(0, len(VALUES) - 1))
            for name in draw(st.sampled_from(["", "a", "ab"]))
        }
        results = [draw(st.integers(0, len(TYPES) - 1)) for _ in range(draw(st.integers(1, 2)))]
        effects = draw(st.sampled_from([(), ("print",)]))
        metadata = draw(st.sampled_from([(), (("a", "1"),)]))
        inner = draw_plan(draw, depth + 1) if depth < 2 and draw(st.integers(0, 5)) == 0 else None
        eqns.append([draw(st.integers(0, 2)), operands, params, results, effects, metadata, inner])
        known += len(results)
    outputs = [draw(st.integers(0, known - 1)) for _ in range(draw(st.integers(1, 2)))]
    return Plan(inputs, draw(st.integers(0, count)), eqns, outputs)


def source(metadata):
    scope = Scope("", False, metadata)
    return (source.__code__, 0, scope) if metadata else (build.__code__, 2)


def build(plan, made, new=None):
    """The jaxpr of a plan; `made` has the values, and `new` one in place of a parameter."""
    inputs = [Var(TYPES[i]) for i in plan.inputs]
    known, eqns = list(inputs), []

    def atom(of):
        if isinstance(of, int):
            return known[of]
        return Literal(made[of[1]], TYPES[of[2]])

    for number, operands, params, results, effects, metadata, inner in plan.eqns:
        outs = [Var(TYPES[i]) for i in results]
        named: dict[str, Any] = {name: made[i] for name, i in params.items()}
        if inner is not None:
            named["jaxpr"] = build(inner, made)
            named["branches"] = (build(inner, made), 1)
        if new is not None and not eqns:
            named["new"] = new
        eqns.append(
            Equation(
                PRIMITIVES[number],
                [atom(x) for x in operands],
                named,
                outs,
                source(metadata),
                frozenset(effects),
            )  # fmt: skip
        )
        known += outs
    return Jaxpr(inputs, eqns, [atom(x) for x in plan.outputs], plan.consts, "f")


def changed(draw, plan):
    """A copy of the plan that differs in one thing, and its name."""
    other = copy_of(plan)
    ways = [
        "input", "consts", "output", "another output", "primitive", "operand", "literal",
        "literal's type", "parameter", "parameter's name", "result", "effect", "metadata", "inner",
        "an equation less",
    ]  # fmt: skip
    for way in draw(st.permutations(ways)):
        if change(draw, other, way):
            return other, way
    return None, ""


def copy_of(plan):
    eqns = [
        [a, list(b), dict(c), list(d), e, f, None if g is None else copy_of(g)]
        for a, b, c, d, e, f, g in plan.eqns
    ]
    return Plan(list(plan.inputs), plan.consts, eqns, list(plan.outputs))


def another(draw, old, count):
    return (old + draw(st.integers(1, count - 1))) % count


def change(draw, plan, way):
    eqn = draw(st.sampled_from(plan.eqns))
    at = plan.eqns.index(eqn)
    before = len(plan.inputs) + sum(len(e[3]) for e in plan.eqns[:at])
    if way == "input":
        i = draw(st.integers(0, len(plan.inputs) - 1))
        plan.inputs[i] = another(draw, plan.inputs[i], len(TYPES))
    elif way == "consts":
        plan.consts = another(draw, plan.consts, len(plan.inputs) + 1)
    elif way == "output":
        total = len(plan.inputs) + sum(len(e[3]) for e in plan.eqns)
        if total < 2:
            return False
        i = draw(st.integers(0, len(plan.outputs) - 1))
        plan.outputs[i] = another(draw, plan.outputs[i], total)
    elif way == "another output":
        plan.outputs.append(plan.outputs[0])
    elif way == "primitive":
        eqn[0] = another(draw, eqn[0], len(PRIMITIVES))
    elif way == "operand":
        places = [i for i, x in enumerate(eqn[1]) if isinstance(x, int)]
        if not places or before < 2:
            return False
        eqn[1][places[0]] = another(draw, eqn[1][places[0]], before)
    elif way in ("literal", "literal's type"):
        places = [i for i, x in enumerate(eqn[1]) if not isinstance(x, int)]
        if not places:
            return False
        _, value, of = eqn[1][places[0]]
        if way == "literal":
            eqn[1][places[0]] = ("literal", another(draw, value, len(VALUES)), of)
        else:
            eqn[1][places[0]] = ("literal", value, 1 - of)
    elif way == "parameter":
        if not eqn[2]:
            return False
        name = draw(st.sampled_from(sorted(eqn[2])))
        eqn[2][name] = another(draw, eqn[2][name], len(VALUES))
    elif way == "parameter's name":
        if not eqn[2]:
            return False
        eqn[2]["c"] = eqn[2].pop(sorted(eqn[2])[0])
    elif way == "result":
        eqn[3][0] = another(draw, eqn[3][0], len(TYPES))
    elif way == "effect":
        eqn[4] = () if eqn[4] else ("print",)
    elif way == "metadata":
        eqn[5] = (("a", "2"),) if eqn[5] else (("a", "1"),)
    elif way == "inner":
        return eqn[6] is not None and change(
            draw, eqn[6], draw(st.sampled_from(["input", "consts"]))
        )
    elif way == "an equation less":
        last = len(plan.inputs) + sum(len(e[3]) for e in plan.eqns[:-1])
        if len(plan.eqns) < 2 or any(x >= last for x in plan.outputs):
            return False
        plan.eqns.pop()
    return True


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.data())
def test_jaxprs_that_differ_in_one_thing_are_two(data):
    plan = draw_plan(data.draw)
    other, way = changed(data.draw, plan)
    hypothesis.assume(other is not None)
    table = SharedJaxprs()
    first = build(plan, VALUES)
    assert table.first(first) is first
    second = build(other, values())
    assert table.first(second) is second, way


@hypothesis.settings(max_examples=100)
@hypothesis.given(st.data())
def test_jaxprs_that_differ_in_nothing_are_one(data):
    plan = draw_plan(data.draw)
    table = SharedJaxprs()
    first = build(plan, VALUES)
    # The same values, made again: tuples and numbers are other objects, callables and arrays, which
    # can change, the same ones.
    again = [b if _is_value(a) else a for a, b in zip(VALUES, values(), strict=True)]
    assert table.first(first) is first and table.first(build(plan, again)) is first
    # What counts by identity is another one in a copy.
    make = data.draw(st.sampled_from(NEW))
    new = make()
    one, other = (build(plan, VALUES, x) for x in (new, make()))
    assert table.first(one) is one and table.first(other) is other
    assert table.first(build(plan, VALUES, new)) is one


def _is_value(value):
    return not callable(value) and not isinstance(value, (slice, range, np.ndarray))


def test_orders_of_equations_differ():
    x = Var(TYPES[0])
    eqns = [Equation(p, [x], {}, [Var(TYPES[0])]) for p in PRIMITIVES[:2]]
    one, other = (Jaxpr([x], order, [x]) for order in (eqns, eqns[::-1]))
    assert content_of(one) != content_of(other)


# ---- what tracing twice gives --------------------------------------------------------------------


# Their functions are made anew by each call, and these count by identity.
MADE_ANEW = ("custom_root", "debug.callback")


def test_every_operation_traced_again_is_one_jaxpr():
    """A parameter that is another object at each call would keep programs from being found."""
    found = []
    for row in rows():
        if row.name in MADE_ANEW:
            continue
        operands = row.operands(row.dtypes[0])
        one, other = (weft.make_jaxpr(row.call)(*operands).jaxpr for _ in range(2))
        if program_alone(one) is not program_alone(other):
            found.append(row.name)
    assert not found


PROGRAMS = {
    "jit": lambda: weft.jit(lambda x: jnp.sin(x) * 2.5),
    "grad": lambda: weft.jit(weft.grad(lambda x: (jnp.tanh(x) * 1.5).sum())),
    "vmap": lambda: weft.jit(weft.vmap(lambda x: x * 3.5)),
    "scan": lambda: weft.jit(lambda x: lax.scan(lambda c, y: (c * 0.25 + y, c), 0.0, x)),
    "grad of scan": lambda: weft.jit(
        weft.grad(lambda x: lax.scan(lambda c, y: (c * 0.25 + y, None), 0.0, x)[0])
    ),
    "while": lambda: weft.jit(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 2, x)),
    "cond": lambda: weft.jit(lambda x: lax.cond(x[0] > 0, lambda v: v + 1.25, lambda v: v, x)),
    "checkpoint": lambda: weft.jit(
        weft.grad(lambda x: weft.checkpoint(lambda v: jnp.sin(v) * v)(x).sum())
    ),
    "jit in jit": lambda: weft.jit(lambda x: weft.jit(lambda v: v * 4.5)(x) + 1),
    "a custom derivative": lambda: weft.jit(weft.grad(lambda x: jnp.sum(weft.nn.relu(x)))),
    "a custom derivative of one's own": lambda: weft.jit(weft.grad(lambda x: clipped(x).sum())),
    "a custom derivative, mapped": lambda: weft.jit(weft.vmap(lambda x: clipped(x))),
    "shard_map": lambda: weft.jit(
        weft.shard_map(lambda x: lax.psum(x, "i"), mesh=MESH, in_specs=P("i"), out_specs=P())
    ),
    "a callback": lambda: weft.jit(
        lambda x: weft.pure_callback(np.sin, weft.ShapeDtypeStruct((8,), np.float32), x)
    ),
    "printing": lambda: weft.jit(lambda x: (weft.debug.print("{}", x.sum()), x + 1)[1]),
    "random": lambda: weft.jit(lambda x: x + weft.random.normal(weft.random.key(0), (8,))),
    "linear algebra": lambda: weft.jit(lambda x: jnp.linalg.solve(jnp.eye(8) * 2, x)),
}


@weft.custom_vjp
def clipped(x):
    return x * 1.0


clipped.defvjp(lambda x: (clipped(x), None), lambda _, ct: (jnp.clip(ct, -1, 1),))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_made_anew_compiles_nothing(name, monkeypatch):
    x = jnp.arange(8.0)
    wanted = PROGRAMS[name]()(x)
    compiled = counted_compilations(monkeypatch)
    for _ in range(2):
        found = PROGRAMS[name]()(x)
        weft.tree.map(np.testing.assert_array_equal, found, wanted)
    assert compiled == []


def test_lines_count_but_not_to_the_compiler():
    def make():
        return weft.make_jaxpr(lambda x: weft.jit(lambda x: x * 2.0)(x))(1.0).jaxpr

    one, again = make(), make()
    other = weft.make_jaxpr(lambda x: weft.jit(lambda x: x * 2.0)(x))(1.0).jaxpr
    assert share_jaxpr(one) is share_jaxpr(again) and share_jaxpr(one) is not share_jaxpr(other)
    assert program_alone(one) is program_alone(other)
    assert program_alone(one, lines=True) is not program_alone(other, lines=True)
    with weft.config.override(debug_nans=True):
        assert program_alone(one) is not program_alone(other)


# ---- what is held --------------------------------------------------------------------------------


def simple(number):
    x = Var(TYPES[2])
    y = Var(TYPES[2])
    return Jaxpr([x], [Equation(PRIMITIVES[0], [x], {"number": number}, [y])], [y])


def test_programs_are_held_within_a_bound():
    table = SharedJaxprs(most=1_000_000)
    gone = [weakref.ref(table.first(simple(i))) for i in range(100)]
    gc.collect()
    alive = [r() is not None for r in gone]
    assert 10 < sum(alive) < 30 and all(alive[-10:]) and not any(alive[:50])
    assert len(table) == sum(alive)
    kept = table.first(simple(-1))
    for i in range(100):
        table.first(simple(i))
    assert table.first(simple(-1)) is kept  # found while it lives
    table.clear()
    assert len(table) == 0


def test_a_program_that_refers_to_itself_is_freed():
    table = SharedJaxprs()

    def make():
        held: list[Any] = []

        def function():
            return held

        jaxpr = simple(function)
        held.append(jaxpr)
        return weakref.ref(table.first(jaxpr))

    reference = make()
    table._held.clear()
    gc.collect()
    assert reference() is None and len(table) == 0


def test_identities_that_come_again_find_nothing():
    """An object in a parameter dies with its jaxpr, and another one may get its place in memory."""
    table = SharedJaxprs(most=0)
    for _ in range(2000):
        jaxpr = simple(Opaque())
        assert table.first(jaxpr) is jaxpr


def test_threads_get_one_jaxpr():
    table = SharedJaxprs()
    found = together(lambda _: [table.first(simple(i)) for i in range(200)], 8)
    for one, other in itertools.pairwise(found):
        assert all(a is b for a, b in zip(one, other, strict=True))
