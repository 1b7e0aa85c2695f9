"""Errors about rules: missing ones, second ones, and answers that cannot be used."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core import rules
from weft.errors import JaxprError, MissingRuleError, WeftValueError
from weft.extend.core import ArrayType, Primitive, Zero, define_primitive
from weft.extend.interpreters import ad, batching, mlir, partial_eval
from weft.extend.interpreters.partial_eval import SplitEquation
from weft.ops.arithmetic import add_p

pytestmark = pytest.mark.fast


def line_of(function):
    """The first line of a function of this file."""
    return inspect.getsourcelines(function)[1]


def typed(name="wrong", multiple_results=False, **given):
    """A primitive like the identity (or giving its operand twice), with some rules replaced."""
    p = Primitive(name, multiple_results)
    p.def_abstract_eval(given.get("type", (lambda x: [x, x]) if multiple_results else lambda x: x))
    lower = given.get("lower", (lambda _, x: [x, x]) if multiple_results else lambda _, x: x)
    mlir.register_lowering(p, lower)
    if "jvp" in given:
        ad.register_jvp(p, given["jvp"])
    if "linearize" in given:
        ad.register_linearize(p, given["linearize"])
    if "transpose" in given:
        ad.register_transpose(p, given["transpose"])
    if "vmap" in given:
        batching.register_vmap(p, given["vmap"])
    return p


# ---- missing -----------------------------------------------------------------------------------


def right_jvp(p):
    return lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))


SCOPE = {
    "type": lambda p: lambda x: x,
    "lowering": lambda p: lambda context, x: x,
    "jvp": right_jvp,
    "transpose": lambda p: lambda ct, x: [p.bind(ct)],
    "vmap": lambda p: lambda axis, args, dims: (p.bind(*args), dims[0]),
}
USES = {
    "type": lambda p: p.bind(1.0),
    "lowering": lambda p: weft.jit(p.bind)(1.0),
    "jvp": lambda p: weft.jvp(p.bind, (1.0,), (1.0,))[1],
    "transpose": lambda p: weft.grad(p.bind)(1.0),
    "vmap": lambda p: weft.vmap(p.bind)(np.ones(1))[0],
}


def test_every_rule_that_is_missing_is_named_with_the_line_and_a_call_that_registers_it():
    p = Primitive("bare")
    found = []
    for _ in range(len(USES) + 1):
        try:
            for kind, use in USES.items():
                assert float(use(p)) == 1.0, kind
        except MissingRuleError as error:
            kind = error.fix.data["rule"]
            found.append(kind)
            assert error.operation == "bare" and f"has no {kind} rule" in str(error)
            assert __file__ in error.location
            call = error.fix.text.split(": ", 1)[1].split(";")[0]
            exec(call, {"weft": weft, "bare_p": p, "rule": SCOPE[kind](p)})
    assert found == list(USES)


@pytest.mark.parametrize("kind", ["evaluation", "type", "jvp", "linearize", "transpose", "vmap"])
def test_every_table_that_raises_names_a_public_call(kind):
    tables = {t.kind: t for t in vars(rules).values() if isinstance(t, rules.Table)}
    call = tables[kind].register_with.split("(")[0].format("p")
    if not call.startswith("p_p."):
        target = weft
        for part in call.split(".")[1:]:
            target = getattr(target, part)
        assert callable(target)
    else:
        assert callable(getattr(Primitive, call.split(".")[1]))


def test_a_missing_lowering_names_the_line_of_the_application():
    p = Primitive("not_lowered")
    p.def_abstract_eval(lambda x: x)

    def apply(x):
        return p.bind(x)  # the line

    with pytest.raises(MissingRuleError) as info:
        weft.jit(lambda x: apply(x) + 1.0)(1.0)
    assert f"{__file__}:{line_of(apply) + 1}" in info.value.location


# ---- twice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("register", "kind"),
    [
        (lambda p: p.def_abstract_eval(lambda x: x), "type"),
        (lambda p: p.def_impl(lambda x: x), "evaluation"),
        (lambda p: ad.register_jvp(p, right_jvp(p)), "jvp"),
        (lambda p: ad.register_linearize(p, right_jvp(p)), "linearize"),
        (lambda p: ad.register_transpose(p, lambda ct, x: [ct]), "transpose"),
        (lambda p: batching.register_vmap(p, SCOPE["vmap"](p)), "vmap"),
        (lambda p: mlir.register_lowering(p, lambda c, x: x), "lowering"),
        (lambda p: mlir.register_lowering(p, lambda c, x: x, platform="cpu"), "lowering (cpu)"),
    ],
)
def test_registering_twice_is_an_error(register, kind):
    p = Primitive("twice")
    register(p)
    with pytest.raises(WeftValueError, match="already") as info:
        register(p)
    assert info.value.fix.kind == "remove" and info.value.fix.data["rule"] == kind
    assert __file__ in info.value.location


def test_rules_of_wefts_own_primitives_are_not_replaced():
    with pytest.raises(WeftValueError, match="'add' has a jvp rule already"):
        ad.register_jvp(add_p, lambda primals, tangents: (primals[0], tangents[0]))


def test_a_lowering_for_a_platform_can_stand_beside_one_for_all():
    p = typed("two_platforms")
    mlir.register_lowering(p, lambda context, x: mlir.hlo.add(x, x), platform="cpu")
    assert float(weft.jit(p.bind)(2.0)) == 4.0


# ---- answers -----------------------------------------------------------------------------------


def forward(p):
    return weft.jvp(p.bind, (1.0,), (1.0,))


def reverse(p):
    out = weft.linear_transpose(lambda x: p.bind(x), np.float32(1))
    return out([np.float32(1)] * 2 if p.multiple_results else np.float32(1))


def mapped(p):
    return weft.vmap(p.bind)(np.ones((2, 3), np.float32))


def compiled(p):
    return weft.jit(p.bind)(np.ones(3, np.float32))


WRONG = {
    "jvp: no pair": ("jvp", lambda x, t: x[0], forward, {}),
    "jvp: three parts": ("jvp", lambda x, t: (x[0], t[0], t[0]), forward, {}),
    "jvp: a list for one result": ("jvp", lambda x, t: ([x[0]], [t[0]]), forward, {}),
    "jvp: None as tangent": ("jvp", lambda x, t: (x[0], None), forward, {}),
    "jvp: result of another shape": ("jvp", lambda x, t: (wnp.ones(2), t[0]), forward, {}),
    "jvp: tangent of another shape": ("jvp", lambda x, t: (x[0], wnp.ones(2)), forward, {}),
    "jvp: tangent of another dtype": (
        "jvp",
        lambda x, t: (x[0], wnp.asarray(t[0], np.float16)),
        forward,
        {},
    ),
    "jvp: a zero of another shape": (
        "jvp",
        lambda x, t: (x[0], Zero(ArrayType((2,), np.float32))),
        forward,
        {},
    ),
    "jvp: a text as result": ("jvp", lambda x, t: ("x", t[0]), forward, {}),
    "jvp: one result of two": ("jvp", lambda x, t: ([x[0]], [t[0]]), forward, {"two": True}),
    "jvp: one tangent of two": ("jvp", lambda x, t: (x * 2, [t[0]]), forward, {"two": True}),
    "jvp: no list of results": ("jvp", lambda x, t: (x[0], t[0]), forward, {"two": True}),
    "linearize: None": (
        "linearize",
        lambda x, t: (x[0], None),
        lambda p: weft.grad(p.bind)(1.0),
        {},
    ),
    "transpose: no list": ("transpose", lambda ct, x: ct, reverse, {}),
    "transpose: too many": ("transpose", lambda ct, x: [ct, ct], reverse, {}),
    "transpose: too few": ("transpose", lambda ct, x: [], reverse, {}),
    "transpose: another shape": ("transpose", lambda ct, x: [wnp.ones(2)], reverse, {}),
    "transpose: another dtype": (
        "transpose",
        lambda ct, x: [wnp.asarray(ct, np.float16)],
        reverse,
        {},
    ),
    "transpose: a text": ("transpose", lambda ct, x: ["x"], reverse, {}),
    "vmap: no pair": ("vmap", lambda axis, x, d: x[0], mapped, {}),
    "vmap: a list for one result": ("vmap", lambda axis, x, d: (x, d), mapped, {}),
    "vmap: dim is no int": ("vmap", lambda axis, x, d: (x[0], 0.0), mapped, {}),
    "vmap: dim is a bool": ("vmap", lambda axis, x, d: (x[0], False), mapped, {}),
    "vmap: dim out of range": ("vmap", lambda axis, x, d: (x[0], 2), mapped, {}),
    "vmap: dim below zero": ("vmap", lambda axis, x, d: (x[0], -2), mapped, {}),
    "vmap: another dimension": ("vmap", lambda axis, x, d: (x[0], 1), mapped, {}),
    "vmap: not mapped, it says": ("vmap", lambda axis, x, d: (x[0], None), mapped, {}),
    "vmap: other elements": ("vmap", lambda axis, x, d: (x[0][:, :1], 0), mapped, {}),
    "vmap: one dim of two": ("vmap", lambda axis, x, d: (x * 2, d), mapped, {"two": True}),
    "vmap: no list of dims": ("vmap", lambda axis, x, d: (x * 2, 0), mapped, {"two": True}),
    "type: no type": ("type", lambda x: x.shape, compiled, {}),
    "type: a list for one result": ("type", lambda x: [x], compiled, {}),
    "type: no list for two": ("type", lambda x: x, compiled, {"two": True}),
    "type: None": ("type", lambda x: None, compiled, {}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_names_the_rule_the_primitive_and_what_is_wanted(name):
    kind, rule, use, options = WRONG[name]
    p = typed("wrong", options.get("two", False), **{kind: rule})
    with pytest.raises(JaxprError) as info:
        use(p)
    error = info.value
    assert f"the {kind} rule of the primitive 'wrong'" in str(error)
    assert f"{__file__}:{line_of(rule)}" in str(error)
    assert error.fix.kind == "rule_result"
    assert error.fix.data["primitive"] == "wrong" and error.fix.data["rule"] == kind
    assert error.got is not None and error.wanted
    assert __file__ in error.location


def test_the_fix_of_a_wrong_answer_applies():
    answers = [None]

    def jvp(primals, tangents):
        return p.bind(*primals), answers[0]

    p = typed("to_fix", jvp=jvp)
    with pytest.raises(JaxprError, match="None as the tangent") as info:
        forward(p)
    assert "Zero(type)" in info.value.fix.text
    answers[0] = Zero(ArrayType((), np.float32))
    assert float(forward(p)[1]) == 0.0


def test_an_evaluation_rule_answers_with_as_many_arrays_as_there_are_results():
    p = Primitive("in_python", multiple_results=True)
    p.def_impl(lambda x: x)
    with pytest.raises(JaxprError, match="evaluation rule of the primitive 'in_python'"):
        p.bind(1.0)
    q = Primitive("in_python_none")
    q.def_impl(lambda x: None)
    with pytest.raises(JaxprError, match="no array"):
        q.bind(1.0)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda eqn, used: None, "a pair"),
        (lambda eqn, used: ([], eqn), "1 marks"),
        (lambda eqn, used: ([True], "eqn"), "an Equation"),
        (lambda eqn, used: ([False], None), "binds every result"),
        (lambda eqn, used: ([True], eqn.replace(outputs=eqn.outputs[1:])), "binds every result"),
    ],
)
def test_a_rule_of_dead_code_elimination(answer, text):
    p = typed("dead", multiple_results=True)
    partial_eval.register_dce(p, answer)
    program = weft.make_jaxpr(lambda x: p.bind(x))(1.0).jaxpr
    with pytest.raises(JaxprError, match="the dead-code elimination rule of .*'dead'") as info:
        partial_eval.dce_jaxpr(program, (True, False))
    assert text in info.value.wanted


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda eqn, unknown: (None, eqn), "a SplitEquation"),
        (lambda eqn, unknown: SplitEquation(None, eqn, (True,), []), "2 marks"),
        (lambda eqn, unknown: SplitEquation(eqn, None, (True, False), []), "1 known results"),
        (lambda eqn, unknown: SplitEquation(None, eqn, (True, False), []), "1 unknown results"),
    ],
)
def test_a_rule_of_partial_evaluation(answer, text):
    p = typed("parted", multiple_results=True)
    partial_eval.register(p, answer)
    program = weft.make_jaxpr(lambda x: p.bind(x))(1.0).jaxpr
    with pytest.raises(JaxprError, match="the partial evaluation rule of .*'parted'") as info:
        partial_eval.partial_eval_jaxpr(program, (True,))
    assert text in info.value.wanted


# ---- lowerings ---------------------------------------------------------------------------------

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


LOWERINGS = {
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
        with pytest.raises(JaxprError, match="of another function"):
            weft.jit(lambda x: first(x) + second(x))(np.float32(1))
    finally:
        _elsewhere.clear()


def test_errors_of_a_lowerings_own_code_pass():
    def broken(context, x):
        return {}["missing"]

    with pytest.raises(KeyError):
        weft.jit(typed("broken", lower=broken).bind)(1.0)


def test_a_lowering_may_answer_with_an_operation_or_its_results():
    for lower in (
        lambda context, x: mlir.hlo.AddOp(x, x),
        lambda context, x: mlir.hlo.AddOp(x, x).results,
        lambda context, x: (mlir.hlo.add(x, x),),
    ):
        assert float(weft.jit(typed("forms", lower=lower).bind)(2.0)) == 4.0


def test_rules_of_a_declared_primitive_are_checked_as_well():
    p = define_primitive("declared", body=lambda x: x * x, jvp=lambda x, t: (x[0], None))
    with pytest.raises(JaxprError, match="the jvp rule of the primitive 'declared'"):
        weft.grad(p)(1.0)
    with pytest.raises(JaxprError, match="the jvp rule of the primitive 'declared'"):
        weft.vmap(weft.grad(p))(np.ones(2))
