"""Properties of derivatives: the jvp agrees with finite differences, and each other rule with it.

They are checked in double precision where the type rule takes it, and in complex numbers where it
takes those, with the formulas of `weft.testing`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import dtypes, testing
from weft.api.autodiff import jvp, linear_transpose, vjp
from weft.api.jit import jit, make_jaxpr
from weft.core.types import type_of
from weft.errors import MissingRuleError, WeftTypeError
from weft.testing.function_checks import product, replace_parts
from weft.testing.primitive_application import (
    PrimitiveApplication,
    Skipped,
    convert_operands,
    random_like,
)

# In narrow dtypes derivatives are rounded: what is far out of these bounds is wrong.
_NARROW = {"float16": 0.1, "bfloat16": 0.25, "float32": 1e-2}


def finite_differences(case: PrimitiveApplication) -> None:
    """The jvp gives the results, and tangents that agree with finite differences."""
    case.smooth()
    for one in case.variants():
        places = one.inexact
        xs = tuple(one.double[i] for i in places)
        tangents = tuple(random_like(x, 2) for x in xs)
        outs, _ = jvp(_everything(one, places), xs, tangents)
        testing.assert_close(outs, one.call(*one.double), what="the value under jvp")
        # Of some operands alone: the others' tangents are symbolic zeros.
        for some in _subsets(places):
            testing.check_jvp(one.restrict_to(some), [one.double[i] for i in some])


def _subsets(places: Sequence[int]) -> list[tuple[int, ...]]:
    """All of the indices, each alone, and the pairs of three or four."""
    found = [tuple(places), *((i,) for i in places)]
    if 2 < len(places) < 5:
        found += itertools.combinations(places, 2)
    return list(dict.fromkeys(found))


def linearized(case: PrimitiveApplication) -> None:
    """linearize gives the results and the tangents that jvp gives."""
    case.smooth()
    for one in case.variants():
        for some in _subsets(one.inexact):
            testing.check_linearize(one.restrict_to(some), [one.double[i] for i in some])


def transposed(case: PrimitiveApplication) -> None:
    """Reverse mode is the transpose of forward mode, of all results and of each alone."""
    case.smooth(mode="rev")
    for one in case.variants():
        for some in _subsets(one.inexact):
            testing.check_vjp(one.restrict_to(some), [one.double[i] for i in some])
        whole, xs = one.restrict_to(one.inexact), [one.double[i] for i in one.inexact]
        count = len(whole(*xs))
        for k in range(count if count > 1 else 0):
            testing.check_vjp(lambda *ys, k=k, f=whole: f(*ys)[k], xs)


def second_derivatives(case: PrimitiveApplication) -> None:
    """The derivatives of the derivatives, in every combination of modes."""
    case.smooth(order=2)
    if any(map(_is_narrow, case.double)):
        raise Skipped("the type rule takes half precision only, which has too few digits")
    for one in case.variants():
        xs = [one.double[i] for i in one.inexact]
        testing.check_grads(one.restrict_to(one.inexact), xs, order=2, modes=case.example.modes)


def _is_narrow(x: Any) -> bool:
    return type_of(x).dtype in (dtypes.float16, dtypes.bfloat16)


def low_precision(case: PrimitiveApplication) -> None:
    """In narrower dtypes derivatives have the dtypes of their values, and are those of double
    precision but for rounding."""
    case.smooth()
    for one in case.variants():
        types = [type_of(one.double[i]).dtype for i in one.inexact]
        kinds = dtypes.COMPLEX if dtypes.COMPLEX & set(types) else dtypes.FLOATING
        narrow = ("float16", "bfloat16", "float32", "complex64")
        names = [name for name in narrow if getattr(dtypes, name) in kinds]
        given = {name: convert_operands(one.double, getattr(dtypes, name)) for name in names}
        given = {name: args for name, args in given.items() if one.takes(args)}
        got = jit(lambda every, one=one: _derivatives(one, every))(given)
        wide = {n: convert_operands(args, None) for n, args in given.items()}
        if not all(one.takes(args) for args in wide.values()):
            continue
        wanted = _derivatives(one, wide)
        for name in given:
            _compare(name, got[name], wanted[name])


def _derivatives(case: PrimitiveApplication, given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """For each dtype values, tangents and cotangents."""
    places = case.inexact
    out = {}
    for name, args in given.items():
        function, xs = case.restrict_to(places, args), [args[i] for i in places]
        # Numbers that every dtype has.
        tangents = [testing.exact_array(_coarse(x), type_of(x).dtype) for x in xs]
        outs, moved = jvp(function, tuple(xs), tuple(tangents))
        back: Sequence[Any] = []
        if "rev" in case.example.modes:
            cts = [testing.exact_array(_coarse(y), type_of(y).dtype) for y in outs]
            back = vjp(function, *xs)[1](cts)
        out[name] = (outs, moved, list(back), xs)
    return out


def _coarse(x: Any) -> np.ndarray[Any, Any]:
    return np.round(4 * np.asarray(np.random.default_rng(5).normal(size=type_of(x).shape))) / 4


def _compare(name: str, got: Any, wanted: Any) -> None:
    """Raises AssertionError unless derivatives in a narrow dtype are those of double precision."""
    limit = _NARROW.get(name, 1e-2)
    outs, moved, back, xs = got
    for a, b in zip([*moved, *back], [*outs, *(xs if back else [])], strict=True):
        assert type_of(a).dtype == type_of(b).dtype, (
            f"in {name}, the derivative has dtype {type_of(a).dtype}, not {type_of(b).dtype}"
        )
    if not _near(outs, wanted[0], limit):
        return  # The value itself has lost its digits, or is out of range.
    for what, a, b in (("tangents", moved, wanted[1]), ("cotangents", back, wanted[2])):
        assert _near(a, b, limit), (
            f"in {name}, the {what} are {[np.asarray(x) for x in a]}, and in double precision "
            f"{[np.asarray(x) for x in b]}"
        )


def _near(got: Sequence[Any], wanted: Sequence[Any], limit: float) -> bool:
    """Whether values agree, measured at the largest."""
    for a, b in zip(got, wanted, strict=True):
        x, y = (np.asarray(v).astype(np.complex128) for v in (a, b))
        with np.errstate(all="ignore"):
            size = max(1.0, np.max(np.abs(y), initial=0.0))
            if not (np.abs(x - y) <= limit * size).all():
                return False
    return True


def forward_effects(case: PrimitiveApplication) -> None:
    """The derivative has the effects that the application has."""
    wanted = case.program().effects
    if not wanted:
        raise Skipped("it has no effects")
    if case.example.order < 1:
        raise Skipped("the example has order=0")
    places = case.inexact
    if not places:
        raise Skipped("no operand has tangents")
    xs = tuple(case.double[i] for i in places)
    kept = make_jaxpr(lambda *ys: jvp(_everything(case, places), ys, ys))(*xs).effects
    assert wanted <= kept, f"the effects {set(wanted - kept)} are lost"


def declared_linear(case: PrimitiveApplication) -> None:
    """The primitive is linear in the operands that are declared so."""
    groups = getattr(case.primitive, "linear", ())
    if not groups:
        raise Skipped("nothing is declared linear")
    for group in groups:
        assert max(group) < len(case.double), f"linear={group}, and {len(case.double)} operands"
        assert _is_linear(_everything(case, group), [case.double[i] for i in group]), (
            f"it is not linear in the operands {group}"
        )


def _everything(case: PrimitiveApplication, places: Sequence[int]) -> Callable[..., list[Any]]:
    return lambda *xs: case.call(*replace_parts(case.double, places, xs))


def _is_linear(function: Callable[..., list[Any]], args: Sequence[Any]) -> bool:
    """Whether f(a x + b y) = a f(x) + b f(y) at random numbers."""
    xs = [random_like(x, 3) for x in args]
    ys = [random_like(x, 4) for x in args]
    joined = [
        testing.exact_array(-1.5 * np.asarray(x) + 0.75 * np.asarray(y), type_of(x).dtype)
        for x, y in zip(xs, ys, strict=True)
    ]
    outs = [function(*xs), function(*ys), function(*joined)]
    for f_x, f_y, f_joined in zip(*outs, strict=True):
        if type_of(f_x).dtype not in dtypes.INEXACT:
            return False
        near = 5e-2 if _is_narrow(f_x) else 1e-5
        wanted = -1.5 * np.asarray(f_x) + 0.75 * np.asarray(f_y)
        if not np.allclose(np.asarray(f_joined), wanted, rtol=near, atol=near):
            return False
    return True


def transpose_rule(case: PrimitiveApplication) -> None:
    """Where the primitive is linear in operands, its own transpose rule is the adjoint map."""
    groups = [tuple(group) for group in getattr(case.primitive, "linear", ())]
    declared = set(groups)
    if "rev" in case.example.modes:
        groups += [(i,) for i in case.inexact if (i,) not in declared]
    checked, without = 0, []
    for one in case.variants():
        for group in groups:
            found = _adjoint(one, group, group in declared)
            checked += found == "checked"
            if found == "without":
                without.append(group)
    if without:
        raise Skipped(f"it is linear in the operands {without}, and has no transpose rule")
    if not checked:
        raise Skipped("it is linear in no operand")


def _adjoint(case: PrimitiveApplication, group: tuple[int, ...], declared: bool) -> str:
    """Checks the transpose rule in some operands: "checked", "without" a rule, or "other" where
    the primitive is not linear in them, or the rule does not claim them."""
    function, xs = _everything(case, group), [case.double[i] for i in group]
    if any(type_of(x).dtype not in dtypes.INEXACT for x in xs) or not _is_linear(function, xs):
        return "other"
    tangents = [random_like(x, 5) for x in xs]
    outs = function(*tangents)
    cts = [random_like(out, 6) for out in outs]
    try:
        found = linear_transpose(function, *xs)(cts)
    except WeftTypeError as error:
        if declared or (error.fix is not None and error.fix.kind == "rule_result"):
            raise
        return "other"
    except MissingRuleError:
        if declared:
            raise
        return "without"
    for x, ct in zip(xs, found, strict=True):
        got, want = type_of(ct), type_of(x)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), (
            f"the cotangent of operands {group} has type {got}, not {want}"
        )
    adjoint, direct = product(found, tangents), product(cts, outs)
    near = 0.1 if any(map(_is_narrow, xs)) else 1e-4
    assert abs(adjoint - direct) <= near * (1.0 + abs(direct)), (
        f"in the operands {group}: <T ct, v> = {adjoint} and <ct, f(v)> = {direct}"
    )
    return "checked"
