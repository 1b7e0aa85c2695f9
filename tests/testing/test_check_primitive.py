"""`check_primitive`: right primitives pass, and in broken ones it names the broken rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft.core.rules import Zero
from weft.errors import JaxprError, WeftTypeError
from weft.extend import Example, check_primitive
from weft.extend.core import Primitive, define_primitive
from weft.extend.interpreters import ad, batching, mlir

X = np.array([0.4, 1.1, -0.7])
ROW = np.array([[0.4, 1.1, -0.7], [0.2, -1.3, 0.9]])


# ---- right ones --------------------------------------------------------------------------------


def right(name="right", **replaced):
    """x * sin(y) along with y doubled, every rule by hand; `replaced` may break some."""
    p = Primitive(name, multiple_results=True)

    def bind(x, y, *, scale):
        return p.bind(x, y, scale=scale)

    def type_rule(x, y, *, scale):
        if x.shape != y.shape or x.dtype != y.dtype or x.dtype.kind not in "fV":
            raise WeftTypeError("the operands of right are alike")
        varying = x.varying | y.varying
        return [x.update(weak_type=False, varying=varying)] * 2

    def lower(context, x, y, *, scale):
        return [mlir.hlo.multiply(x, mlir.hlo.sine(y)), mlir.hlo.add(y, y)]

    def jvp(primals, tangents, *, scale):
        (x, y), (dx, dy) = primals, map(ad.instantiate, tangents)
        return bind(x, y, scale=scale), [dx * wnp.sin(y) + x * wnp.cos(y) * dy, 2.0 * dy]

    def vmap(axis, args, dims, *, scale):
        args = [batching.move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        return bind(*args, scale=scale), [0, 0]

    rules = {"type": type_rule, "lower": lower, "jvp": jvp, "vmap": vmap}
    for key, change in replaced.items():
        rules[key] = change(p, rules.get(key))
    p.def_abstract_eval(rules["type"])
    mlir.register_lowering(p, rules["lower"])
    if rules["jvp"] is not None:
        ad.register_jvp(p, rules["jvp"])
    if rules["vmap"] is not None:
        batching.register_vmap(p, rules["vmap"])
    if "linearize" in rules:
        ad.register_linearize(p, rules["linearize"])
    return p


EXAMPLES = [Example((X[:1], X[1:2]), {"scale": 2}), Example((X, X + 0.3), {"scale": 2})]


def test_a_right_primitive_passes_everything():
    report = check_primitive(right(), EXAMPLES).raise_if_failed(missing=True)
    assert report.broken is None and not report.missing
    assert report.rules["jvp"] == "given" and report.rules["linearize"] == "the jvp rule"
    assert all(check.outcome in ("passed", "skipped") for check in report.checks)
    assert all(check.message for check in report.with_outcome("skipped"))
    assert sum(check.outcome == "passed" for check in report.checks) >= 20


def test_a_declared_primitive_passes_everything():
    p = define_primitive("declared", body=lambda x, n, *, axis: wnp.cumsum(x * n, axis))
    example = Example((ROW, np.array([1, 2, 3], np.int32)), {"axis": 1})
    report = check_primitive(p, [example]).raise_if_failed(missing=True)
    assert report.rules["vmap"] == "derived"


def test_a_linear_primitive_without_a_body_passes_everything():
    p = define_primitive(
        "reversed_twice",
        type_rule=lambda x: x,
        lower=lambda context, x: mlir.hlo.reverse(mlir.hlo.add(x, x), np.zeros(1, np.int64)),
        linear=(0,),
        transpose=lambda ct, x: [p(ct)],
    )
    report = check_primitive(p, [(X,)]).raise_if_failed(missing=True)
    assert "skipped" not in [c.outcome for c in report.checks if c.rule == "transpose"]


# ---- broken ones: each rule broken in turn -----------------------------------------------------


def scaled(factor):
    """The right rule with the tangents multiplied."""

    def change(p, rule):
        def jvp(primals, tangents, **params):
            outs, found = rule(primals, tangents, **params)
            return outs, [factor * t for t in found]

        return jvp

    return change


def jvp_forgets_one(p, rule):
    def jvp(primals, tangents, **params):
        return rule(primals, [tangents[0], Zero(tangents[1].type)], **params)

    return jvp


def jvp_stops_second_derivatives(p, rule):
    def jvp(primals, tangents, **params):
        return rule([weft.lax.stop_gradient(x) for x in primals], tangents, **params)

    return jvp


def jvp_swaps(p, rule):
    def jvp(primals, tangents, **params):
        outs, (a, b) = rule(primals, tangents, **params)
        return outs, [b, a]

    return jvp


def jvp_with_wrong_value(p, rule):
    def jvp(primals, tangents, **params):
        outs, found = rule(primals, tangents, **params)
        return [outs[0] + 1.0, outs[1]], found

    return jvp


def jvp_not_linear(p, rule):
    def jvp(primals, tangents, **params):
        outs, found = rule(primals, tangents, **params)
        return outs, [wnp.sin(found[0]), found[1]]

    return jvp


def vmap_ignores_one(p, rule):
    def vmap(axis, args, dims, **params):
        args = [batching.move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
        return p.bind(args[0], args[1][:1] + 0 * args[1], **params), [0, 0]

    return vmap


def vmap_along_another_axis(p, rule):
    def vmap(axis, args, dims, **params):
        outs, _ = rule(axis, args, dims, **params)
        return [batching.move_dim(x, 0, 1, axis.size) for x in outs], [0, 0]

    return vmap


def vmap_assumes_the_front(p, rule):
    return lambda axis, args, dims, **params: rule(axis, args, [0] * len(dims), **params)


def vmap_fails_for_nothing(p, rule):
    def vmap(axis, args, dims, **params):
        assert axis.size > 0, "no elements"
        return rule(axis, args, dims, **params)

    return vmap


def vmap_of_one_result(p, rule):
    return lambda *args, **params: tuple(part[:1] for part in rule(*args, **params))


def type_of_another_dtype(p, rule):
    return lambda *types, **params: [
        t.update(dtype=np.dtype(np.int32)) for t in rule(*types, **params)
    ]


def type_that_changes(p, rule):
    calls = itertools.count()

    def type_rule(*types, **params):
        found = rule(*types, **params)
        return [found[0].update(shape=(2,)), found[1]] if next(calls) % 2 else found

    p.memoise = False  # else the first answer is remembered
    return type_rule


def type_by_setting(p, rule):
    def type_rule(*types, **params):
        found = rule(*types, **params)
        wide = weft.config.settings().enable_x64
        return [found[0].update(dtype=np.dtype(np.float16)), found[1]] if wide else found

    p.memoise = False
    return type_rule


def type_forgets_to_vary(p, rule):
    return lambda *types, **params: [t.update(varying=frozenset()) for t in rule(*types, **params)]


def lowering_of_another_function(p, rule):
    return lambda context, x, y, **params: [mlir.hlo.multiply(x, y), mlir.hlo.add(y, y)]


def lowering_of_another_shape(p, rule):
    def lower(context, x, y, **params):
        one = np.ones(1, np.int64)
        short = mlir.hlo.slice(x, np.zeros(1, np.int64), one, one)
        return [short if context.in_types[0].shape != (1,) else x, mlir.hlo.add(y, y)]

    return lower


def lowering_that_is_not_valid(p, rule):
    def lower(context, x, y, **params):
        bad = mlir.ir.Operation.create("stablehlo.sine", results=[x.type], operands=[x, y])
        return [bad.result, y]

    return lower


def lowering_of_one_result(p, rule):
    return lambda *args, **params: rule(*args, **params)[:1]


def linearize_of_another_slope(p, rule):
    def linearize(primals, tangents, **params):
        outs = p.bind(*primals, **params)
        return outs, [3.0 * t for t in map(ad.instantiate, tangents)]

    return linearize


def nothing(p, rule):
    return None


BROKEN = {
    "a jvp twice as large": ("jvp", {"jvp": scaled(2.0)}),
    "a jvp of the wrong sign": ("jvp", {"jvp": scaled(-1.0)}),
    "a jvp that is zero": ("jvp", {"jvp": scaled(0.0)}),
    "a jvp that forgets an operand": ("jvp", {"jvp": jvp_forgets_one}),
    "a jvp whose own derivative is lost": ("jvp", {"jvp": jvp_stops_second_derivatives}),
    "a jvp with its results swapped": ("jvp", {"jvp": jvp_swaps}),
    "a jvp with another value": ("jvp", {"jvp": jvp_with_wrong_value}),
    "a jvp that is not linear": ("jvp", {"jvp": jvp_not_linear}),
    "a linearize rule of another slope": ("linearize", {"linearize": linearize_of_another_slope}),
    "a vmap rule that ignores elements": ("vmap", {"vmap": vmap_ignores_one}),
    "a vmap rule that mixes axes": ("vmap", {"vmap": vmap_along_another_axis}),
    "a vmap rule that assumes the front": ("vmap", {"vmap": vmap_assumes_the_front}),
    "a vmap rule that needs elements": ("vmap", {"vmap": vmap_fails_for_nothing}),
    "a vmap rule of one result": ("vmap", {"vmap": vmap_of_one_result}),
    "a type rule of another dtype": ("type", {"type": type_of_another_dtype}),
    "a type rule that changes": ("type", {"type": type_that_changes}),
    "a type rule that obeys a setting": ("type", {"type": type_by_setting}),
    "a lowering of another function": ("lowering", {"lower": lowering_of_another_function}),
    "a lowering of another shape": ("lowering", {"lower": lowering_of_another_shape}),
    "a lowering that is not valid": ("lowering", {"lower": lowering_that_is_not_valid}),
    "a lowering of one result": ("lowering", {"lower": lowering_of_one_result}),
}
# What no other rule can contradict: the derivative is checked against the value.
NAMED_BY_ANOTHER = {
    "a lowering of another function": "jvp",
    "a type rule of another dtype": "lowering",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name):
    kind, replaced = BROKEN[name]
    report = check_primitive(right("broken", **replaced), EXAMPLES[1:])
    assert report.broken == NAMED_BY_ANOTHER.get(name, kind), repr(report)
    with pytest.raises(JaxprError, match=f"the {report.broken} rule is failed") as info:
        report.raise_if_failed()
    assert info.value.fix.data["rule"] == report.broken
    assert report.failed[0].example is not None and report.failed[0].message


def test_what_builds_on_a_broken_rule_is_skipped_with_the_reason():
    report = check_primitive(right("broken", jvp=scaled(2.0)), EXAMPLES)
    reasons = [c.message for c in report.with_outcome("skipped")]
    assert "the jvp rule is failed" in reasons
    assert [c.rule for c in report.failed] == ["jvp"]
    assert report.failed[0].example.args[0].shape == (1,)  # the smallest


@pytest.mark.parametrize(
    ("transpose", "linear", "rule"),
    [
        (lambda p: lambda ct, x, y: [ct, ct], (0, 1), "transpose"),
        (lambda p: lambda ct, x, y: [2.0 * ct, -1.0 * ct], (0, 1), None),
        (lambda p: lambda ct, x, y: [2.0 * ct, None], (0, 1), "transpose"),
        (lambda p: lambda ct, x, y: [ct[:1], ct], (0, 1), "transpose"),
        (lambda p: lambda ct, x, y: [2.0 * ct], (0, 1), "transpose"),
    ],
)
def test_transpose_rules(transpose, linear, rule):
    p = define_primitive(
        "twice_less",
        type_rule=lambda x, y: x,
        lower=lambda context, x, y: mlir.hlo.subtract(mlir.hlo.add(x, x), y),
        linear=linear,
        transpose=lambda ct, x, y: transpose(p)(ct, x, y),
    )
    report = check_primitive(p, [(X, X + 1.0)])
    assert report.broken == rule, repr(report)


def test_what_is_declared_linear_and_is_not():
    p = define_primitive("square", body=lambda x: x * x, linear=(0,))
    assert check_primitive(p, [(X,)]).broken == "linear"
    shifted = define_primitive("shifted", body=lambda x: x + 1.0, linear=(0,))
    assert check_primitive(shifted, [(X,)]).broken == "linear"


def test_a_lowering_that_is_not_the_body():
    p = define_primitive(
        "not_the_body", body=lambda x: x + x, lower=lambda context, x: mlir.hlo.multiply(x, x)
    )
    report = check_primitive(p, [(X,)])
    assert report.broken == "lowering" and "body" in report.failed[0].message


def test_a_type_rule_that_forgets_which_devices_differ():
    report = check_primitive(right("forgets", type=type_forgets_to_vary), EXAMPLES)
    assert [c.rule for c in report.failed] == ["type"]
    assert "devices" in report.failed[0].what


def test_missing_rules_are_listed_with_the_call_that_registers_them():
    report = check_primitive(right("bare", jvp=nothing, vmap=nothing), EXAMPLES)
    assert report.missing == ["jvp", "vmap"] and not report.failed
    assert "register_jvp" in repr(report)
    report.raise_if_failed()
    with pytest.raises(JaxprError, match="the jvp rule is missing"):
        report.raise_if_failed(missing=True)


def test_parameters_without_a_hash():
    p = right("unhashable")
    report = check_primitive(p, [Example((X, X), {"scale": [2]})])
    assert report.broken == "parameters"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: check_primitive(lambda x: x, [(X,)]), "primitive"),
        (lambda: check_primitive(right(), []), "example"),
        (lambda: check_primitive(right(), [X]), "example"),
    ],
)
def test_bad_calls(call, kind):
    with pytest.raises(WeftTypeError) as info:
        call()
    assert info.value.fix.kind == kind


def test_vmap_over_nothing_of_what_gathers_and_scatters():
    x, places = np.zeros((0, 4, 3), np.float32), np.zeros((0, 5), np.int32)
    added = weft.vmap(lambda x, i, u: x.at[i].add(u))(
        wnp.asarray(x), places, np.zeros((0, 5, 3), np.float32)
    )
    assert added.shape == (0, 4, 3)
    values, where = weft.vmap(lambda x: weft.lax.top_k(x, 2))(x)
    assert values.shape == where.shape == (0, 4, 2) and where.dtype == np.int32
