"""`hoist_casts` on jaxprs by themselves: which inputs they take then, and what is left in them."""

from __future__ import annotations

import numpy as np
import pytest

from weft import lax
from weft.core.axes import extend_mesh, with_environment
from weft.extend.core import ArrayType, check_jaxpr, eval_jaxpr, trace_to_jaxpr
from weft.interpreters.hoist import hoist_casts
from weft.sharding import AbstractMesh

MESH = AbstractMesh((2, 2), ("i", "j"))
SAME, VARIES = (ArrayType((3,), np.float32, varying=axes) for axes in ((), ("i",)))


@pytest.fixture(autouse=True)
def in_mesh():
    with extend_mesh(MESH, ("i", "j")):
        yield


def recorded(function, *types):
    return trace_to_jaxpr(function, types, transformation="test", name="f")[0]


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def hoisted(jaxprs, movable):
    found = hoist_casts(jaxprs, movable)
    for jaxpr in found.jaxprs:
        check_jaxpr(jaxpr)
        assert len(jaxpr.inputs) == len(found.operands)
        for var, (i, axes, _) in zip(jaxpr.inputs, found.operands, strict=True):
            old = jaxprs[0].in_types[i]
            assert var.type is old.update(varying=old.varying | axes)
    return found


def ways(found):
    return [(i, "".join(sorted(axes))) for i, axes, _ in found.operands]


def test_without_casts_there_is_nothing_to_do():
    assert hoist_casts([recorded(lambda x: [lax.sin(x)], SAME)], (True,)) is None
    (eqn,) = (jaxpr := recorded(lambda x: [lax.pbroadcast(x, "i")], SAME)).eqns
    assert hoist_casts([jaxpr], (False,)) is None
    assert hoist_casts([jaxpr], (True,)) is hoist_casts([jaxpr], (True,))
    assert eqn.primitive.name == "pbroadcast"


def test_an_input_becomes_the_cast_value():
    jaxpr = recorded(lambda w, x: [w * x, w + x], SAME, VARIES)
    found = hoisted([jaxpr], (True, True))
    assert ways(found) == [(0, "i"), (1, "")]
    assert names(found.jaxprs[0]) == ["mul", "add"]


def test_an_input_that_is_read_in_several_ways():
    def function(w, x):
        both = lax.pbroadcast(w, ("i", "j"))
        return [w * x, lax.sin(w), lax.cos(both), lax.pbroadcast(lax.pbroadcast(w, "j"), "i")]

    found = hoisted([recorded(function, SAME, VARIES)], (True, True))
    assert ways(found) == [(0, ""), (1, ""), (0, "i"), (0, "ij")]
    assert names(found.jaxprs[0]) == ["mul", "sin", "cos"]


def test_a_cast_that_nothing_reads():
    def function(w, x):
        lax.pbroadcast(w, "j")
        return [w * x]

    found = hoisted([recorded(function, SAME, VARIES)], (True, True))
    assert ways(found) == [(0, "i"), (1, "")]


def test_branches_agree_on_their_inputs():
    one = recorded(lambda w, x: [w * x], SAME, VARIES)
    other = recorded(lambda w, x: [x * w.sum()], SAME, VARIES)
    neither = recorded(lambda w, x: [lax.sin(x)], SAME, VARIES)
    found = hoisted([neither, one], (True, True))
    assert ways(found) == [(0, "i"), (1, "")]
    found = hoisted([other, neither, one], (True, True))
    assert ways(found) == [(0, ""), (1, ""), (0, "i")]
    assert [names(jaxpr) for jaxpr in found.jaxprs][1:] == [["sin"], ["mul"]]


def test_conversions_and_shapes_are_passed():
    def function(w, x):
        row = (lax.neg(w) * 2.0).astype(np.float16).reshape(1, 3)
        return [lax.pbroadcast(row, "i"), row]

    jaxpr = recorded(function, SAME, VARIES)
    found = hoisted([jaxpr], (True, True))
    assert ways(found) == [(0, ""), (1, ""), (0, "i")]
    kinds = names(found.jaxprs[0])
    assert "pbroadcast" not in kinds and kinds.count("convert_element_type") == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w[:2],  # of more elements before
        lambda w: w.sum(),
        lambda w: w.astype(np.float64),  # of a narrower dtype before
        lax.sin,
    ],
)
def test_what_is_not_passed(function):
    jaxpr = recorded(lambda w, x: [lax.pbroadcast(function(w), "i")], SAME, VARIES)
    assert hoist_casts([jaxpr], (True, True)) is None


def test_the_line_is_that_of_the_cast():
    jaxpr = recorded(lambda w, x: [w * x], SAME, VARIES)
    (cast,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "pbroadcast"]
    found = hoisted([jaxpr], (True, True))
    assert found.operands[0].source is cast.source and cast.source is not None


def test_values_stay():
    jaxpr = recorded(lambda w, x: [w * x + w, lax.sin(w)], SAME, VARIES)
    found = hoisted([jaxpr], (True, True))
    w, x = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    with with_environment(()):
        old = eval_jaxpr(jaxpr, (), w, x)
        new = eval_jaxpr(found.jaxprs[0], (), *([w, x][i] for i, *_ in found.operands))
    for a, b in zip(old, new, strict=True):
        np.testing.assert_array_equal(a, b)
