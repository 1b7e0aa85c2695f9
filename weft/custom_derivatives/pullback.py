"""The linear part of a `custom_vjp`: a primitive from residuals and tangents to tangents.

It is given by its transpose, the backward rule. Evaluated forwards it transposes that rule: the
rule's operations on cotangents are recorded, and the record is run backwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.util import Flags, drop_marked, keep_marked, merge, scatter_to_marked
from weft.core import rules
from weft.core.axes import axis_environment, mesh_axes, with_environment
from weft.core.inner_programs import InnerProgram, InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr, Steps, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import (
    AxisData,
    Derived,
    Dims,
    LinearOperand,
    Mapped,
    Params,
    Retyped,
    Values,
    Zero,
    not_linear,
)
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_primitive import jvp_by_linearize, mapped_at_front
from weft.errors import Fix, MissingRuleError, WeftTypeError
from weft.interpreters.jvp import jvp_flat, nonzero_tangents
from weft.interpreters.linearize import record_linear
from weft.interpreters.staging import rebuild, trace_to_jaxpr
from weft.interpreters.transpose import backward_pass
from weft.interpreters.vmap import mapped_type, vmap_flat
from weft.ops.collectives.all_reduce import psum_p
from weft.ops.collectives.invariant import on_first_device
from weft.ops.structural.shape import move_dim, reduce_sum
from weft.ops.structural.tangents import instantiate, zeros

Types = tuple[ArrayType, ...]


class Pullback:
    """A function from residuals and cotangents (or `Zero`) to the cotangents of all arguments. It
    takes cotangents of the differentiable results; None is a zero cotangent. Its results may vary
    along more mesh axes than the arguments: they are to be summed."""

    def __init__(self, name: str, function: str) -> None:
        self.name = name
        self.function = function
        # The rule may name the axes that were bound where it was made.
        self.axes = axis_environment()
        # Forward jaxprs, by the types of their operands.
        self.programs: dict[Any, Jaxpr] = {}

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def mapped(self, axis: AxisData, residual_dims: Dims, dims: Dims) -> Pullback:
        """The pullback under `vmap`; arguments are mapped at `dims`, results at 0."""
        return MappedPullback(self, axis, residual_dims, dims)

    def __repr__(self) -> str:
        return self.name


class MappedPullback(Pullback):
    """A pullback under `vmap`; cotangents of arguments that are not mapped are summed."""

    def __init__(self, inner: Pullback, axis: AxisData, residual_dims: Dims, dims: Dims) -> None:
        super().__init__(inner.name, inner.function)
        self.inner, self.axis = inner, axis
        self.residual_dims, self.dims = residual_dims, dims

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        n = len(residuals)
        flags, given = nonzero_tangents(cotangents)
        zeros = [
            Zero(ct.type.update(shape=ct.type.shape[1:])) for ct in drop_marked(flags, cotangents)
        ]
        reached: list[bool] = []

        def function(*values: Any) -> list[Any]:
            found = self.inner(values[:n], merge(flags, values[n:], zeros))
            reached[:] = [x is not None for x in found]
            return keep_marked(reached, found)

        dims = [*self.residual_dims, *[0] * len(given)]
        found, found_dims = vmap_flat(function, self.axis, [*residuals, *given], dims, self.name)
        return scatter_to_marked(
            reached, map(self.placed, found, found_dims, keep_marked(reached, self.dims))
        )

    def placed(self, value: Any, source: int | None, target: int | None) -> Any:
        if target is not None:
            return move_dim(value, source, target, self.axis.size)
        (whole,) = mapped_at_front([value], [source], self.axis)
        return reduce_sum(whole, (0,))


def push_forward(
    pullback: Pullback, active: Flags, residuals: Values, tangents: Values, out_types: Types
) -> list[Any]:
    """The results' tangents (or `Zero`), given those of the arguments marked `active`."""

    def pulled_back(*cotangents: Any) -> list[Any]:
        return keep_marked(active, pullback(residuals, cotangents))

    found, linear = record_linear(pulled_back, out_types, "custom_vjp", pullback.function)
    pairs = [(x, t) for x, t in zip(found, tangents, strict=True) if x is not None]
    for x, _ in pairs:
        # Only a known cotangent is checked: a traced one, which may be zero, counts as zero.
        if type(x) in (Array, np.ndarray) and np.any(np.asarray(x)):
            raise _not_linear(pullback, "a result that does not depend on the cotangent", None)
    outputs = [linear.atom(x) for x, _ in pairs]
    known = dict(linear.consts.values())
    try:
        return backward_pass(linear.eqns, linear.inputs, known, outputs, [t for _, t in pairs])
    except (MissingRuleError, WeftTypeError) as error:
        if error.fix is None or error.fix.kind not in ("register_rule", "linearize"):
            raise
        raise _not_linear(pullback, str(error.operation), error) from None


def push_forward_later(
    pullback: Pullback, active: Flags, residuals: Values, tangents: Values, out_types: Types
) -> Values:
    """`push_forward` as one operation, for tangents that are recorded."""
    if not out_types:
        return ()
    return custom_vjp_tangents_p.bind(
        *residuals, *tangents, pullback=pullback, active=active, out_types=out_types
    )


def _not_linear(pullback: Pullback, operation: str, error: Any) -> WeftTypeError:
    return WeftTypeError(
        f"custom_vjp of {pullback.function}: forward mode takes the transpose of the bwd rule, "
        "and that is not linear in the cotangent",
        operation=operation,
        got=f"{operation}, in {pullback.name}",
        wanted="operations that are linear in the cotangent",
        where=getattr(error, "where", None),
        fix=Fix(
            "custom_jvp",
            "define the derivative with weft.custom_jvp, or differentiate in reverse mode "
            "(weft.grad, weft.vjp, weft.jacrev)",
            {"operation": operation},
        ),
    )


def forward_program(
    types: Sequence[ArrayType], pullback: Pullback, active: Flags, out_types: Types
) -> Jaxpr:
    """The jaxpr from residuals and tangents to tangents; cached on the pullback."""
    key = (tuple(types), active, out_types, config.settings())
    out = pullback.programs.get(key)
    if out is None:
        n = len(types) - sum(active)

        def function(*values: Any) -> list[Any]:
            outs = push_forward(pullback, active, values[:n], values[n:], out_types)
            return [instantiate(x) for x in outs]

        with with_environment(pullback.axes):
            out = rebuild(function, types, pullback.function, "custom_vjp")
        pullback.programs[key] = out
    return out


custom_vjp_tangents_p = Primitive("custom_vjp_tangents", multiple_results=True, memoise=False)


def tangents_impl(*operands: Any, **params: Any) -> list[Any]:
    arrays = [as_array(x) for x in operands]
    return eval_jaxpr(forward_program([x.type for x in arrays], **params), (), *arrays)


def tangents_steps(*operands: Any, pullback: Pullback, **params: Any) -> Steps:
    program = forward_program([type_of(x) for x in operands], pullback, **params)
    yield f"the forward derivative of the custom_vjp of {pullback.function}", program, operands


def tangents_retype(types: Sequence[ArrayType], params: Params) -> Retyped:
    """Casts the tangents of invariant arguments whose cotangents vary. The transpose of a cast is
    their sum, which the rule's own result needs; but a cast leaves a loop, so that there is one sum
    for all steps."""
    pullback, active, out_types = params["pullback"], params["active"], params["out_types"]
    n = len(types) - sum(active)
    explicit = {axis.name for axis in mesh_axes() if axis.explicit}
    union = frozenset[str]().union(*(t.varying for t in (*types, *out_types))) - explicit
    if all(union <= t.varying for t in types[n:]):
        return list(types), params

    def pulled_back(*values: Any) -> list[Any]:
        found = keep_marked(active, pullback(values[:n], values[n:]))
        return [zeros(t) if x is None else x for x, t in zip(found, types[n:], strict=True)]

    given = [*types[:n], *out_types]
    program, _ = trace_to_jaxpr(
        pulled_back, given, transformation="custom_vjp", name=pullback.function
    )
    found = [t.varying - explicit for t in program.out_types]
    wide = [t.update(varying=t.varying | f) for t, f in zip(types[n:], found, strict=True)]
    return [*types[:n], *wide], params


def tangents_runs(eqn: Equation) -> InnerPrograms:
    program = forward_program([x.type for x in eqn.inputs], **eqn.params)
    return InnerPrograms((InnerProgram(program),))


def tangents_type(*types: ArrayType, out_types: Types, **params: Any) -> list[ArrayType]:
    return list(out_types)


def tangents_derivative(
    derive: Callable[..., Derived], primals: Values, tangents: Values, **params: Any
) -> Derived:
    program = forward_program([type_of(x) for x in primals], **params)
    return derive(lambda *xs: eval_jaxpr(program, (), *xs), primals, tangents, program.name)


def tangents_transpose(
    cotangents: Sequence[Any], *operands: Any, pullback: Pullback, active: Flags, out_types: Types
) -> list[Any]:
    n = len(operands) - sum(active)
    for x in operands[:n]:
        if type(x) is LinearOperand:
            raise not_linear(x)
    found = keep_marked(active, pullback(operands[:n], cotangents))
    return [None] * n + [
        with_axes_of(ct, type_of(x)) for ct, x in zip(found, operands[n:], strict=True)
    ]


def with_axes_of(cotangent: Any, wanted: ArrayType) -> Any:
    """Sums a cotangent over the mesh axes along which it varies and its argument does not: all
    devices use the argument. With a cast tangent, a cotangent equal on all devices is such a sum
    already."""
    if cotangent is None:
        return None
    own = type_of(cotangent).varying
    if own - wanted.varying:
        names = tuple(sorted(own - wanted.varying))
        cotangent = psum_p.bind(cotangent, axis_name=names, axis_index_groups=None)
    return on_first_device(cotangent, tuple(sorted(wanted.varying - own)))


def tangents_vmap(
    axis: AxisData, args: Values, dims: Dims, *, pullback: Pullback, active: Flags, out_types: Types
) -> Mapped:
    n = len(args) - sum(active)
    # The dimensions of the others do not matter: their cotangents are not asked for.
    outs = custom_vjp_tangents_p.bind(
        *args,
        pullback=pullback.mapped(axis, dims[:n], scatter_to_marked(active, dims[n:])),
        active=active,
        out_types=tuple(mapped_type(t, 0, axis) for t in out_types),
    )
    return outs, [0] * len(outs)


def tangents_lower(context: Any, *values: Any, **params: Any) -> list[Any]:
    program = forward_program(context.in_types, **params)
    return list(context.lower_jaxpr(program, values, program.name))


rules.impl.register(custom_vjp_tangents_p, tangents_impl)
rules.type_rule.register(custom_vjp_tangents_p, tangents_type)
rules.jvp.register(custom_vjp_tangents_p, functools.partial(tangents_derivative, jvp_flat))
rules.linearize.register(
    custom_vjp_tangents_p, functools.partial(tangents_derivative, jvp_by_linearize)
)
rules.retype.register(custom_vjp_tangents_p, tangents_retype)
rules.transpose.register(custom_vjp_tangents_p, tangents_transpose)
rules.vmap.register(custom_vjp_tangents_p, tangents_vmap)
rules.lower.register(custom_vjp_tangents_p, tangents_lower)
rules.runs.register(custom_vjp_tangents_p, tangents_runs)
rules.steps.register(custom_vjp_tangents_p, tangents_steps)
