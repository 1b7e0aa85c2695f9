"""What is said of a lowering rule that emits, or answers with, what is not valid: the operation."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
from weft.errors import JaxprError
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir

pytestmark = pytest.mark.fast


def line_of(function):
    """The first line of a function of this file."""
    return inspect.getsourcelines(function)[1]


def typed(name, lower):
    """A primitive whose result has the type of its operand."""
    p = Primitive(name)
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lower)
    return p


_elsewhere = []


def keeps(context, x):
    """Answers with a value that an earlier program computed."""
    out = mlir.hlo.add(x, x)
    _elsewhere.append(out)
    return _elsewhere[0]


def uses_a_kept_one(context, x):
    _elsewhere.append(x)
    return mlir.hlo.add(_elsewhere[0], x)


def unregistered(context, x):
    return mlir.ir.Operation.create("no_dialect.no_op", results=[x.type], operands=[x]).result


def not_verified(context, x):
    return mlir.ir.Operation.create("stablehlo.add", results=[x.type], operands=[x]).result


def other_shape(context, x):
    return mlir.hlo.slice(x, np.zeros(1, np.int64), np.full(1, 2, np.int64), np.ones(1, np.int64))


def in_front(context, x):
    out = mlir.hlo.add(x, x)
    with mlir.ir.InsertionPoint(out.owner):
        mlir.hlo.multiply(out, x)
    return out


def ends_the_function(context, x):
    mlir.ir.Operation.create("func.return", operands=[x])
    return x


def calls_nothing(context, x):
    callee = {"callee": mlir.ir.FlatSymbolRefAttr.get("nothing")}
    return mlir.ir.Operation.create("func.call", [x.type], [x], attributes=callee).result


def loop(x, step):
    """A loop that is never run, and what its body computes."""
    op = mlir.ir.Operation.create("stablehlo.while", results=[x.type], operands=[x], regions=2)
    inside = []
    stop = lambda _: mlir.constant(False, (), bool)  # noqa: E731
    for region, made in zip(op.regions, (stop, step), strict=True):
        block = region.blocks.append(x.type)
        with mlir.ir.InsertionPoint(block):
            inside.append(made(block.arguments[0]))
            mlir.ir.Operation.create("stablehlo.return", operands=[inside[-1]])
    return op.result, inside[1]


def answers_from_a_region(context, x):
    return loop(x, lambda y: mlir.hlo.add(y, y))[1]


def reads_from_a_region(context, x):
    return mlir.hlo.add(x, loop(x, lambda y: mlir.hlo.add(y, y))[1])


def wrong_inside_of_a_region(context, x):
    return loop(x, lambda y: mlir.constant(1, (), np.int32))[0]


def without_an_end(context, x):
    op = mlir.ir.Operation.create("stablehlo.while", results=[x.type], operands=[x], regions=2)
    for region in op.regions:
        region.blocks.append(x.type)
    return op.result


def erased(context, x):
    out = mlir.hlo.add(x, x)
    out.owner.erase()
    return out


LOWERINGS = {
    "out of order": (in_front, "in front of the one that computes", "stablehlo.multiply"),
    "ends the function": (ends_the_function, "ends the function", "func.return"),
    "calls nothing": (calls_nothing, "does not have", "@nothing"),
    "from a region": (answers_from_a_region, "function or region", "no operation in front"),
    "reads from a region": (reads_from_a_region, "function or region as operand", "stablehlo.add"),
    "wrong in a region": (wrong_inside_of_a_region, "not valid", "stablehlo.while"),
    "a region without an end": (without_an_end, "not valid", "stablehlo.while"),
    "erased": (erased, "function or region as result", "no operation in front"),
    "other operands": (
        lambda context, x: mlir.hlo.add(x, mlir.constant(1, (), np.int32)),
        "does not take",
        "stablehlo.add",
    ),
    "no operand": (lambda context, x: mlir.hlo.add(x, None), "does not take", "stablehlo.add"),
    "a NumPy array": (
        lambda context, x: mlir.hlo.add(x, np.ones(3, np.float32)),
        "does not take",
        "stablehlo.add",
    ),
    "no text of an operation": (
        lambda context, x: mlir.ir.Operation.parse("stablehlo.nonsense %0").result,
        "does not take",
        "stablehlo.nonsense",
    ),
    "no text of a type": (
        lambda context, x: mlir.constant(0, (), mlir.ir.Type.parse("tensor<3xq9>")),
        "does not take",
        "tensor<3xq9>",
    ),
    "an operation that is none": (
        lambda context, x: mlir.ir.Operation.create("stablehlo.none", [x.type], [x]).result,
        "does not take|not valid",
        "stablehlo.none",
    ),
    "a text": (lambda context, x: "x", "no MLIR value", "'x'"),
    "a dictionary": (lambda context, x: {"x": x}, "no MLIR value", "dict"),
    "a type": (lambda context, x: x.type, "no MLIR value", "tensor<3xf32>"),
    "a block": (lambda context, x: x.owner, "no MLIR value", "Block"),
    "no value": (lambda context, x: 3.0, "no MLIR value", "3.0"),
    "None": (lambda context, x: None, "no MLIR value", "None"),
    "a list of no values": (lambda context, x: [3.0], "no MLIR value as result 0", "3.0"),
    "two values": (lambda context, x: [x, x], "wrong number of values", 2),
    "no values": (lambda context, x: [], "wrong number of values", 0),
    "another type": (other_shape, "wrong type as result 0", "stablehlo.slice"),
    "not registered": (unregistered, "does not take|not valid", "no_dialect"),
    "not valid": (not_verified, "not valid", "stablehlo.add"),
}


@pytest.mark.parametrize("name", LOWERINGS)
def test_a_lowering_that_emits_what_is_not_valid_is_shown_with_the_operation(name):
    rule, text, got = LOWERINGS[name]
    p = typed("lowered", lower=rule)

    def apply(x):
        return p.bind(x)  # the line

    with pytest.raises(JaxprError, match=text) as info:
        weft.jit(apply)(np.ones(3, np.float32))
    error = info.value
    assert "the lowering rule of the primitive 'lowered'" in str(error)
    assert str(got) in str(error.got)
    assert f"{__file__}:{line_of(apply) + 1}" in error.location


@pytest.mark.parametrize("rule", [keeps, uses_a_kept_one])
def test_a_lowering_that_uses_values_of_another_function(rule):
    _elsewhere.clear()
    p = typed("kept", lower=rule)
    first = weft.jit(lambda x: p.bind(x))
    second = weft.jit(lambda x: p.bind(x) * 1.0)
    try:
        assert float(first(np.float32(1.5))) == 3.0
        _elsewhere.clear()
        with pytest.raises(JaxprError, match="of another function or region"):
            weft.jit(lambda x: first(x) + second(x))(np.float32(1))
    finally:
        _elsewhere.clear()


def test_the_line_of_a_lowering_inside_of_a_loop_is_that_of_the_application():
    def broken(context, x):
        return {}["missing"]

    def step(x, _):
        return typed("broken", lower=broken).bind(x), None  # the line

    with pytest.raises(KeyError) as info:
        weft.jit(lambda x: weft.lax.scan(step, x, None, length=2)[0])(1.0)
    assert f"{__file__}:{line_of(step) + 1}" in info.value.__notes__[0]


def test_a_lowering_may_answer_with_an_operation_or_its_results():
    for lower in (
        lambda context, x: mlir.hlo.AddOp(x, x),
        lambda context, x: mlir.hlo.AddOp(x, x).results,
        lambda context, x: (mlir.hlo.add(x, x),),
    ):
        assert float(weft.jit(typed("forms", lower=lower).bind)(2.0)) == 4.0
