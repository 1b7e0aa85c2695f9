"""Errors about rules: missing ones, second ones, and answers that cannot be used."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import config
from weft.core import rules
from weft.core.jaxpr import Literal, Var
from weft.errors import JaxprError, MissingRuleError, ShapeError, WeftValueError
from weft.extend.core import IO, ArrayType, Primitive, Zero, define_primitive
from weft.extend.interpreters import ad, batching, mlir, partial_eval
from weft.extend.interpreters.partial_eval import SplitEquation
from weft.ops.elementwise.arithmetic import add_p

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
    if "evaluation" in given:
        p.def_impl(given["evaluation"])
    return p


def kept(transform, x):
    """A traced value of a transformation that has ended."""
    found = []
    transform(lambda x: found.append(x) or x)(x)
    return found[0]


DEAD = {
    "jit": kept(weft.jit, np.float32(1)),
    "grad": kept(weft.grad, np.float32(1)),
    "vmap": kept(weft.vmap, np.ones(2, np.float32)),
}
ZERO = Zero(ArrayType((), np.float32))


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
            call = error.fix.text.split(": ", 1)[1].split(", where primitive is 'bare'")[0]
            exec(call, {"weft": weft, "primitive": p, "rule": SCOPE[kind](p)})
    assert found == list(USES)


@pytest.mark.parametrize("kind", ["evaluation", "type", "jvp", "linearize", "transpose", "vmap"])
def test_every_table_that_raises_names_a_public_call(kind):
    tables = {t.kind: t for t in vars(rules).values() if isinstance(t, rules.Table)}
    call = tables[kind].register_with.split("(")[0]
    if not call.startswith("primitive."):
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


def eager(p):
    return p.bind(1.0)


def compiled(p):
    return weft.jit(p.bind)(np.ones(3, np.float32))


WRONG = {
    "jvp: no pair": lambda x, t: x[0],
    "jvp: three parts": lambda x, t: (x[0], t[0], t[0]),
    "jvp: a list for one result": lambda x, t: ([x[0]], [t[0]]),
    "jvp: None as tangent": lambda x, t: (x[0], None),
    "jvp: result of another shape": lambda x, t: (wnp.ones(2), t[0]),
    "jvp: tangent of another shape": lambda x, t: (x[0], wnp.ones(2)),
    "jvp: tangent of another dtype": lambda x, t: (x[0], wnp.asarray(t[0], np.float16)),
    "jvp: a zero of another shape": lambda x, t: (x[0], Zero(ArrayType((2,), np.float32))),
    "jvp: a text as result": lambda x, t: ("x", t[0]),
    "linearize: None": lambda x, t: (x[0], None),
    "jvp: a value that was kept": lambda x, t: (DEAD["jit"], t[0]),
    "jvp: a tangent that was kept": lambda x, t: (x[0], DEAD["vmap"]),
    "jvp: Zero as result": lambda x, t: (ZERO, t[0]),
    "jvp: Zero of no type": lambda x, t: (x[0], Zero("f32")),
    "jvp: a type as tangent": lambda x, t: (x[0], ZERO.type),
    "jvp: a generator": lambda x, t: (y for y in (x[0], t[0])),
    "jvp: a result made of tangents": lambda x, t: (x[0] * t[0], t[0]),
    "linearize: a value that was kept": lambda x, t: (DEAD["grad"], t[0]),
    "transpose: a value that was kept": lambda ct, x: [DEAD["jit"]],
    "transpose: the operand": lambda ct, x: [x],
    "transpose: None": lambda ct, x: None,
    "transpose: an array": lambda ct, x: wnp.ones(1),
    "transpose: a generator": lambda ct, x: (c for c in [ct]),
    "transpose: Zero of another type": lambda ct, x: [Zero(ArrayType((3,), np.float32))],
    "transpose: Zero of no type": lambda ct, x: [Zero("f32")],
    "transpose: no list": lambda ct, x: ct,
    "transpose: too many": lambda ct, x: [ct, ct],
    "transpose: too few": lambda ct, x: [],
    "transpose: another shape": lambda ct, x: [wnp.ones(2)],
    "transpose: another dtype": lambda ct, x: [wnp.asarray(ct, np.float16)],
    "transpose: a text": lambda ct, x: ["x"],
    "vmap: no pair": lambda axis, x, d: x[0],
    "vmap: a list for one result": lambda axis, x, d: (x, d),
    "vmap: dim is no int": lambda axis, x, d: (x[0], 0.0),
    "vmap: dim is a bool": lambda axis, x, d: (x[0], False),
    "vmap: dim of NumPy's": lambda axis, x, d: (x[0], np.int64(0)),
    "vmap: dim is an array": lambda axis, x, d: (x[0], wnp.asarray(0)),
    "vmap: a value that was kept": lambda axis, x, d: (DEAD["jit"], None),
    "vmap: other dtype": lambda axis, x, d: (x[0].astype(bool), 0),
    "vmap: Zero": lambda axis, x, d: (ZERO, None),
    "vmap: None": lambda axis, x, d: None,
    "vmap: dim out of range": lambda axis, x, d: (x[0], 2),
    "vmap: dim below zero": lambda axis, x, d: (x[0], -2),
    "vmap: another dimension": lambda axis, x, d: (x[0], 1),
    "vmap: not mapped, it says": lambda axis, x, d: (x[0], None),
    "vmap: other elements": lambda axis, x, d: (x[0][:, :1], 0),
    "type: no type": lambda x: x.shape,
    "type: a list for one result": lambda x: [x],
    "type: None": lambda x: None,
    "type: a structure": lambda x: weft.ShapeDtypeStruct(x.shape, x.dtype),
    "type: the class": lambda x: ArrayType,
    "type: a value": lambda x: DEAD["jit"],
    "evaluation: None": lambda x: None,
    "evaluation: a text": lambda x: "x",
    "evaluation: a list for one result": lambda x: [x],
    "evaluation: another shape": lambda x: np.ones(3),
    "evaluation: another dtype": lambda x: 1,
    "evaluation: a value that was kept": lambda x: DEAD["jit"],
    "evaluation: objects": lambda x: np.array(object()),
}
WRONG_OF_TWO = {
    "jvp: one result of two": lambda x, t: ([x[0]], [t[0]]),
    "jvp: one tangent of two": lambda x, t: (x * 2, [t[0]]),
    "jvp: no list of results": lambda x, t: (x[0], t[0]),
    "vmap: an array for two": lambda axis, x, d: (wnp.ones((2, 2, 3)), [0, 0]),
    "vmap: one dim of two": lambda axis, x, d: (x * 2, d),
    "vmap: no list of dims": lambda axis, x, d: (x * 2, 0),
    "type: no list for two": lambda x: x,
    "type: a generator for two": lambda x: (y for y in [x, x]),
    "evaluation: three for two": lambda x: [x, x, x],
    "evaluation: an array for two": lambda x: np.ones(2),
}
USED_BY = {
    "jvp": forward,
    "jvp: a result made of tangents": lambda p: weft.grad(p.bind)(1.0),
    "linearize": lambda p: weft.grad(p.bind)(1.0),
    "transpose": reverse,
    "vmap": mapped,
    "type": compiled,
    "evaluation": eager,
}


@pytest.mark.parametrize("name", [*WRONG, *WRONG_OF_TWO])
def test_a_wrong_answer_names_the_rule_the_primitive_and_what_is_wanted(name):
    kind = name.partition(":")[0]
    rule = WRONG.get(name) or WRONG_OF_TWO[name]
    p = typed("wrong", multiple_results=name in WRONG_OF_TWO, **{kind: rule})
    with pytest.raises(JaxprError) as info:
        USED_BY.get(name, USED_BY[kind])(p)
    error = info.value
    assert f"the {kind} rule of the primitive 'wrong'" in str(error)
    assert f"{__file__}:{line_of(rule)}" in str(error) and error.fix.kind == "rule_result"
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
        (lambda eqn, used: ([None], eqn), "True or False"),
        (lambda eqn, used: ([1], eqn), "True or False"),
        (lambda eqn, used: (np.array([True]), eqn), "1 marks"),
        (lambda eqn, used: ([False], eqn), "every input that the equation reads"),
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
        (lambda eqn, unknown: SplitEquation(None, eqn, None, []), "2 marks"),
        (lambda eqn, unknown: SplitEquation(None, eqn, (1, 1), []), "True or False"),
        (lambda eqn, unknown: SplitEquation("x", None, (False, False), []), "an Equation, or None"),
        (lambda eqn, unknown: SplitEquation(None, None, (True, True), []), "bind the variables"),
        (lambda eqn, unknown: SplitEquation(eqn, None, (False, False), []), "not marked"),
        (lambda eqn, unknown: SplitEquation(None, eqn, (True, True), [eqn.inputs[0]]), "residuals"),
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


def test_a_part_may_compute_what_belongs_to_the_other_once_more():
    p = typed("loop_like", multiple_results=True)

    def split(eqn, unknown):
        twice = eqn.replace(outputs=[Var(eqn.outputs[0].type), eqn.outputs[1]])
        known = eqn.replace(inputs=[Literal(1.0, eqn.inputs[0].type)])
        known = known.replace(outputs=[eqn.outputs[0], Var(eqn.outputs[1].type)])
        return SplitEquation(known, twice, (False, True), [])

    partial_eval.register(p, split)
    program = weft.make_jaxpr(lambda x: p.bind(x))(1.0).jaxpr
    assert partial_eval.partial_eval_jaxpr(program, (True,)).unknown_out == (False, True)


# Kinds whose wrong results no interpreter notices by itself.
OWN = {
    "jvp": (rules.jvp, lambda primals, tangents: (primals[0], None), forward),
    "vmap": (rules.vmap, lambda axis, args, dims: (args[0][:, :1], 0), mapped),
    "transpose": (rules.transpose, lambda ct, x: [wnp.ones(2)], reverse),
    "evaluation": (rules.impl, lambda x: np.ones(3), eager),
    "type": (rules.type_rule, lambda x: x.shape, compiled),
}


@pytest.mark.parametrize("kind", OWN)
def test_results_of_wefts_own_rules_are_checked_where_jaxprs_are(kind):
    table, rule, use = OWN[kind]

    def made(name):
        given = [
            (rules.type_rule, lambda x: x),
            (rules.lower, lambda context, x: x),
            (rules.jvp, lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))),
        ]
        p = Primitive(name)
        for other, right in given:
            if other is not table:
                other.register(p, right)
        table.register(p, rule)
        return p

    with pytest.raises(JaxprError, match=f"the {kind} rule of the primitive 'own'"):
        use(made("own"))
    with config.override(check_jaxprs=False):
        assert table[made("unchecked")] is rule


def test_an_exception_in_a_rule_of_wefts_own_stays_as_it_is():
    p = Primitive("own_failing")
    rules.jvp.register(p, lambda primals, tangents: [][0])
    with pytest.raises(IndexError) as info:
        forward(p)
    assert not hasattr(info.value, "__notes__")


@pytest.mark.parametrize(
    "answer",
    [None, {IO}, [IO], IO, "io", frozenset(["io"])],
    ids=["None", "set", "list", "effect", "text", "texts"],
)
def test_a_rule_of_effects(answer):
    p = Primitive("effectful", multiple_results=True, memoise=False)
    p.def_abstract_eval(lambda x: [x])
    partial_eval.register_effects(p, lambda params: answer)
    with pytest.raises(JaxprError, match="the effects rule of .*'effectful'") as info:
        weft.make_jaxpr(lambda x: p.bind(x))(1.0)
    assert "frozenset([IO])" in info.value.fix.text and __file__ in info.value.location


@pytest.mark.parametrize(
    "register",
    [
        partial_eval.register_effects,
        partial_eval.register_stage,
        partial_eval.register_retype,
        partial_eval.register_hoist,
        partial_eval.register_runs,
    ],
)
def test_a_rule_that_would_never_be_asked_for(register):
    with pytest.raises(WeftValueError, match="'remembered' is not asked") as info:
        register(Primitive("remembered"), lambda *args: None)
    register(Primitive("remembered", memoise=info.value.fix.data["memoise"]), lambda *args: None)


# ---- exceptions and signatures -----------------------------------------------------------------

FAILING = {
    "type": (lambda x: [][x.ndim], compiled),
    "evaluation": (lambda x: [][0], eager),
    "jvp": (lambda x, t: [][0], forward),
    "linearize": (lambda x, t: [][0], lambda p: weft.grad(p.bind)(1.0)),
    "transpose": (lambda ct, x: [][0], reverse),
    "vmap": (lambda axis, x, d: [][0], mapped),
    "lower": (lambda context, x: [][0], compiled),
}


@pytest.mark.parametrize("kind", FAILING)
def test_an_exception_inside_a_rule_has_a_note_with_the_rule_and_the_line(kind):
    rule, use = FAILING[kind]
    p = typed("failing", **{kind: rule})
    with pytest.raises(IndexError) as info:
        use(p)
    (note,) = info.value.__notes__
    named = {"lower": "lowering"}.get(kind, kind)
    assert f"in the {named} rule of the primitive 'failing'" in note
    assert f"{__file__}:{line_of(rule)}" in note
    lines = range(line_of(use), line_of(use) + len(inspect.getsourcelines(use)[0]))
    assert any(f"{__file__}:{line} in {use.__name__}" in note for line in lines)


def test_an_error_of_an_operation_in_a_rule_keeps_its_line_and_has_the_other_in_a_note():
    def jvp(primals, tangents):
        return primals[0], weft.lax.add(wnp.ones(2), wnp.ones(3))  # the operation

    with pytest.raises(ShapeError) as info:
        weft.jit(lambda: forward(typed("adds", jvp=jvp)))()
    assert f"{__file__}:{line_of(jvp) + 1}" in info.value.location
    assert f"{__file__}:{line_of(forward) + 1}" in info.value.__notes__[0]


def test_an_error_that_a_type_rule_raises_for_its_operands_stays_as_it_is():
    def refuse(x):
        raise ShapeError("too short", operation="refusing")

    with pytest.raises(ShapeError, match="too short") as info:
        typed("refusing", type=refuse).bind(1.0)
    assert not hasattr(info.value, "__notes__")


EVERY_NAME = dict.fromkeys(
    (
        "args axis axis_data axis_name block body context cotangent cotangents dims equation eqn "
        "error found function jaxpr key kind linear lower manual mesh name operands operation "
        "params platform primals primitive rule self sharding size source tangents transpose type "
        "types unknown used value values x y"
    ).split(),
    1,
)


# Rules of a primitive like the identity, in the names of the signature that is suggested.
BODIES = {
    "type": "return types[0]",
    "lower": "return values[0]",
    "jvp": "return p.bind(primals[0], **given), tangents[0]",
    "transpose": "return [cotangent]",
    "vmap": "return p.bind(operands[0], **given), dims[0]",
    "evaluation": "return operands[0]",
}
USING = {
    "type": lambda bind: weft.jit(bind)(1.0),
    "lower": lambda bind: weft.jit(bind)(1.0),
    "jvp": lambda bind: weft.jvp(bind, (1.0,), (1.0,))[1],
    "transpose": lambda bind: weft.linear_transpose(bind, np.float32(1))(np.float32(1))[0],
    "vmap": lambda bind: weft.vmap(bind)(np.ones(1, np.float32))[0],
    "evaluation": lambda bind: bind(1.0),
}


@pytest.mark.parametrize("params", [{}, {"by": 1}, EVERY_NAME], ids=["none", "one", "every name"])
@pytest.mark.parametrize("kind", USING)
def test_a_rule_that_does_not_take_what_it_is_called_with_and_the_fix(kind, params):
    general = {
        "type": lambda *types, **params: types[0],
        "lower": lambda context, /, *values, **params: values[0],
        "jvp": lambda primals, tangents, /, **params: (p.bind(*primals, **params), tangents[0]),
        "transpose": lambda cotangent, /, *operands, **params: [cotangent],
    }
    p = typed("called", **{**general, kind: lambda: None})
    use = USING[kind]

    def bind(x):
        return p.bind(x, **params)

    with pytest.raises(JaxprError, match="does not take what it is called with") as info:
        use(bind)
    error = info.value
    assert error.fix.kind == "rule_signature" and __file__ in error.location
    assert "the primitive 'called'" in error.message
    scope = {"given": params}
    exec(f"def rule({error.fix.data['signature']}): {BODIES[kind]}", scope)
    p = scope["p"] = typed("called", **{**general, kind: scope["rule"]})
    assert float(use(lambda x: p.bind(x, **params))) == 1.0


def test_rules_of_a_declared_primitive_are_checked_as_well():
    p = define_primitive("declared", body=lambda x: x * x, jvp=lambda x, t: (x[0], None))
    with pytest.raises(JaxprError, match="the jvp rule of the primitive 'declared'"):
        weft.grad(p)(1.0)
    with pytest.raises(JaxprError, match="the jvp rule of the primitive 'declared'"):
        weft.vmap(weft.grad(p))(np.ones(2))
