"""The rules that the primitives of custom derivatives share: all but the derivative.

An application holds a function, in one of two forms: `function`, in Python, which sees values where
there are any, or, once it has been recorded, `jaxpr`. Its `rule` differentiates the arguments. The
operands before those are the values that the function closes over; these are differentiated by
ordinary rules, through the function: the derivative is the sum of the two.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft import dtypes
from weft.arrays.conversion import as_array
from weft.base.util import drop_marked, keep_marked, merge, scatter_to_marked
from weft.core import axes, rules
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Params, Values, Zero
from weft.core.shared_jaxprs import emits_jaxprs, register_content, with_rule
from weft.core.types import ArrayType, type_of
from weft.errors import ConcretizationError, Fix, WeftTypeError
from weft.interpreters.jvp import (
    jvp_flat,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.linearize import linear_program, linearize_flat, user_rule
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.staging import trace_to_jaxpr
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import element_type, mapped_type, vmap_flat, vmap_jaxpr
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.shape import move_dim, squeeze
from weft.ops.structural.tangents import add_tangents
from weft.refs.discharge import has_references, inner_write_error, pure_call


class Rule:
    """The derivative of an application with respect to its arguments. Primals are all operands;
    tangents are those of the arguments, at least one of them not a `Zero`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        """Results and tangents, in forward mode."""
        raise NotImplementedError(f"{type(self).__name__} does not define jvp")

    def linearize(self, primals: Values, tangents: Values) -> Derived:
        """Results and tangents, with operations on tangents recorded."""
        return self.jvp(primals, tangents)

    # Whether a tangent may differ among the elements of a map for which the result is the same.
    own_tangents = True

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        """The rule of the mapped function, whose results are mapped along dimension 0."""
        raise NotImplementedError(f"{type(self).__name__} does not define mapped")

    def after(self, count: int) -> Rule:
        """The rule of an application with `count` more operands in front."""
        return LaterRule(self, count)

    def __repr__(self) -> str:
        return self.name


class MappedRule(Rule):
    """The rule of a mapped application, whose results are all mapped along dimension 0."""

    def __init__(self, rule: Any, axis: AxisData, dims: Dims) -> None:
        super().__init__(rule.name)
        self.rule, self.axis, self.dims = rule, axis, dims


class LaterRule(Rule):
    """A rule that ignores the first operands."""

    def __init__(self, rule: Rule, count: int) -> None:
        super().__init__(rule.name)
        self.rule, self.count, self.own_tangents = rule, count, rule.own_tangents

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        return self.rule.jvp(primals[self.count :], tangents)

    def linearize(self, primals: Values, tangents: Values) -> Derived:
        return self.rule.linearize(primals[self.count :], tangents)

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return LaterRule(self.rule.mapped(axis, dims[self.count :]), self.count)


register_content(LaterRule, lambda rule: (rule.rule, rule.count))


def counts(captured: tuple[int, ...]) -> tuple[int, int, int]:
    """The numbers of operands that the function closes over, that only rules close over, and that
    are in arguments without derivatives."""
    return captured or (0, 0, 0)  # type: ignore[return-value]


def body_of(params: dict[str, Any]) -> Callable[..., list[Any]]:
    """The function of an application, from operands to results."""
    return params.get("function") or functools.partial(eval_jaxpr, params["jaxpr"], ())


def apply_again(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Applies the primitive as it was applied: to a function or with a jaxpr."""
    if "function" in params:
        rest = {key: value for key, value in params.items() if key != "function"}
        return list(primitive.call(params["function"], *args, **rest))
    return list(primitive.bind(*args, **params))


def mapped_at_front(values: Sequence[Any], dims: Dims, axis: AxisData) -> list[Any]:
    """Moves the mapped dimension of each value to the front; repeats unmapped values."""
    return [move_dim(x, dim, 0, axis.size) for x, dim in zip(values, dims, strict=True)]


def jvp_by_linearize(
    function: Callable[..., Sequence[Any]], primals: Values, tangents: Values, name: str = ""
) -> Derived:
    """The results of `jvp_flat`, with tangents computed by a linear jaxpr.

    A jvp rule run by `linearize` does not use `jvp_flat`: loops and branches would compute results
    and tangents together, which cannot be transposed.
    """
    active, given = nonzero_tangents(tangents)
    outs, found, linear = linearize_flat(function, primals, active, "linearize", name)
    jaxpr, residuals, flags = linear_program(linear, found)
    return outs, merge(flags, eval_jaxpr(jaxpr, residuals, *given), drop_marked(flags, found))


def custom_impl(*operands: Any, **params: Any) -> list[Any]:
    return [as_array(x) for x in body_of(params)(*operands)]


def custom_steps(
    primitive: Primitive, *operands: Any, jaxpr: Jaxpr, name: str, **others: Any
) -> Iterator[tuple[str, Jaxpr, Sequence[Any]]]:
    yield f"the {primitive.name} of {name}", jaxpr, operands


def custom_stage(primitive: Primitive, args: Values, params: Params) -> tuple[Values, Params]:
    """Records the function; further closed-over values become operands in front."""
    if "function" not in params:
        return args, params
    consts, params = record(primitive, [type_of(x) for x in args], params)
    return [*consts, *args], params


def record(
    primitive: Primitive, in_types: Sequence[ArrayType], params: Params
) -> tuple[list[Any], Params]:
    """The further operands in front, and the parameters with a jaxpr for the function."""
    name, rule, captured = params["name"], params["rule"], params["captured"]
    jaxpr, consts = trace_to_jaxpr(
        params["function"], in_types, transformation=primitive.name, name=name, references=True
    )
    if has_references(consts):
        call = pure_call(jaxpr, consts)
        if call.written:
            raise inner_write_error(f"{primitive.name} of {name}", call.written[0])
        jaxpr, consts = call.jaxpr, call.consts
    if consts:
        closed, passive, given = counts(captured)
        captured = (closed + len(consts), passive, given)
        rule = rule.after(len(consts))
        jaxpr = Jaxpr(jaxpr.inputs, jaxpr.eqns, jaxpr.outputs, 0, name)
    return consts, {"jaxpr": jaxpr, "name": name, "rule": rule, "captured": captured}


def custom_derivative(
    primitive: Primitive, forward: bool, primals: Values, tangents: Values, **params: Any
) -> Derived:
    rule, name = params["rule"], params["name"]
    closed, passive, given = counts(params["captured"])
    first = closed + passive + given
    for i in range(closed + passive, first):
        if type(tangents[i]) is not Zero:
            raise _differentiation_error(primitive, name, type_of(primals[i]))
    own = tangents[first:]
    outs: list[Any] | None = None
    if any(type(t) is not Zero for t in own):
        with user_rule():
            outs, found = (rule.jvp if forward else rule.linearize)(primals, own)
    if any(type(t) is not Zero for t in tangents[:closed]):
        fixed = [Zero(type_of(x).tangent()) for x in primals[closed:]]
        derive = jvp_flat if forward else jvp_by_linearize
        _, more = derive(body_of(params), primals, [*tangents[:closed], *fixed], name)
        if outs is None:
            found = more
        else:
            found = [add_tangents(a, b) for a, b in zip(found, more, strict=True)]
    if outs is None:
        # Bound again, not taken from the derivative: there the arguments would no longer have
        # their rule, which a transformation further out may ask for.
        outs = apply_again(primitive, primals, params)
        if not any(type(t) is not Zero for t in tangents[:closed]):
            found = [Zero(type_of(x).tangent()) for x in outs]
    return outs, found


def _differentiation_error(primitive: Primitive, name: str, type: ArrayType) -> WeftTypeError:
    return WeftTypeError(
        f"{primitive.name} of {name}: an argument that was declared to have no derivative "
        "is differentiated",
        operation=primitive.name,
        got=f"a value of type {type} that depends on what is differentiated, in nondiff_argnums",
        wanted="values that do not depend on what is differentiated",
        fix=Fix(
            "differentiable",
            "take it out of nondiff_argnums and have the rule handle it, or pass "
            "weft.lax.stop_gradient of it",
            {"function": name},
        ),
    )


def custom_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    linear, known = known_operands(operands)
    nonzero, given = nonzero_tangents(cotangents)
    backward, reached = transpose_jaxpr(params["jaxpr"], linear, nonzero)
    return merge_cotangents(linear, reached, eval_jaxpr(backward, (), *known, *given))


def custom_vmap(
    primitive: Primitive, axis: AxisData, args: Values, dims: Dims, **params: Any
) -> Mapped:
    if "function" in params and (axis.name is not None or None in dims):
        # A jaxpr says which results are the same for all elements.
        pairs = zip(map(type_of, args), dims, strict=True)
        elements = [of if dim is None else element_type(of, dim, axis) for of, dim in pairs]
        with contextlib.suppress(ConcretizationError), axes.extend_axis(axis.name, axis.size):
            more, params = record(primitive, elements, params)
            args, dims = [*more, *args], [*[None] * len(more), *dims]
    # Every result is mapped, so that the function and its rule agree on which are.
    mapped = dict(params, rule=params["rule"].mapped(axis, dims))
    if "function" in params:
        inner, name = params["function"], params["name"]

        def function(*values: Any) -> list[Any]:
            return mapped_at_front(*vmap_flat(inner, axis, values, dims, name), axis)

        mapped["function"] = function
    else:
        mapped["jaxpr"] = vmap_jaxpr(params["jaxpr"], axis, tuple(dims), True)[0]
    outs = apply_again(primitive, args, mapped)
    if "function" in params or not axis.size:
        return outs, [0] * len(outs)
    # Of what is the same for all elements, the first one stands for all, and has the cotangent.
    flags = mapped_results(axis, tuple(dims), **params)
    rows = zip(flags, outs, strict=True)
    first = [x if flag else squeeze(slice_in_dim(x, 0, 1), (0,)) for flag, x in rows]
    return first, [0 if flag else None for flag in flags]


_looking = contextvars.ContextVar("weft_mapped_results", default=False)


def mapped_results(
    axis: AxisData,
    dims: tuple[int | None, ...],
    *,
    jaxpr: Jaxpr,
    rule: Rule,
    captured: tuple[int, ...],
    name: str,
) -> list[bool]:
    """Which results are mapped: by a mapped operand, or by their tangents in the rule."""
    out = [dim is not None for dim in vmap_jaxpr(jaxpr, axis, dims)[1]]
    if all(out) or not rule.own_tangents or _looking.get():
        return out
    n, own = len(dims), slice(sum(counts(captured)), None)
    types = [mapped_type(of, dim, axis) for of, dim in zip(jaxpr.in_types, dims, strict=True)]
    tangents = [of.tangent() for of in types[own]]
    flags = [of.dtype != dtypes.float0 for of in tangents]
    reached: list[bool] = []
    mapped: list[int | None] = []

    def derivative(*elements: Any) -> list[Any]:
        given = merge_zeros(flags, elements[n:], jaxpr.in_types[own])
        _, values = rule.jvp(elements[:n], given)
        reached[:], values = nonzero_tangents(values)
        return values

    def function(*values: Any) -> list[Any]:
        every = [*dims, *keep_marked(flags, dims[own])]
        places = vmap_flat(derivative, axis, values, every, name)[1]
        mapped[:] = scatter_to_marked(reached, places)
        return []

    every_type = [*types, *keep_marked(flags, tangents)]
    token = _looking.set(True)  # A rule may apply its own function.
    try:
        trace_to_jaxpr(function, every_type, transformation="vmap", name=name)
    except Exception:  # noqa: BLE001 - it is raised again where a derivative is asked for
        return [True] * len(out)
    finally:
        _looking.reset(token)
    return [flag or dim is not None for flag, dim in zip(out, mapped, strict=True)]


def custom_lower(context: Any, *values: Any, jaxpr: Jaxpr, name: str, **others: Any) -> list[Any]:
    return list(context.lower_jaxpr(jaxpr, values, name))


def custom_primitive(name: str) -> Primitive:
    """A primitive whose applications each have a rule (see `Rule`)."""
    made = Primitive(name, multiple_results=True, memoise=False)
    with_rule.add(made)
    emits_jaxprs.add(made)
    rules.stage.register(made, functools.partial(custom_stage, made))
    holds_one_jaxpr(
        OneJaxpr(made, lambda params: f"custom derivative of {params['name']}"),
        impl=custom_impl,
        jvp=functools.partial(custom_derivative, made, True),
        linearize=functools.partial(custom_derivative, made, False),
        transpose=custom_transpose,
        vmap=functools.partial(custom_vmap, made),
        # An application is neither split nor cut: its rule is about the whole function.
        partial_eval=None,
        dce=None,
        lower=custom_lower,
        steps=functools.partial(custom_steps, made),
    )
    return made
