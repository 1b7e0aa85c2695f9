"""`linear_call`: a linear function with a transpose of the user's.

The primitive holds both, as jaxprs of the same fixed operands (residuals, and values that either
closes over) and of the linear ones; its transpose is the same primitive with the two exchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft import tree
from weft.control_flow.body_tracing import run_as_one, trace_body
from weft.control_flow.loops import typed_leaves
from weft.core.jaxpr import Jaxpr, Var, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import (
    AxisData,
    Derived,
    Dims,
    LinearOperand,
    Mapped,
    Params,
    Values,
    Zero,
    not_linear,
)
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_function import check_structure, fit_to_type
from weft.custom_derivatives.custom_primitive import jvp_by_linearize
from weft.errors import api_boundary
from weft.interpreters.hoist import pvary_jaxpr, varying_along
from weft.interpreters.jvp import jvp_flat
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.staging import check_function, function_name
from weft.interpreters.vmap import vmap_jaxpr
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import add_tangents, instantiate
from weft.tracing.traces import TracedBody


@api_boundary
def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """`fun(residual_args, linear_args)`, whose transpose is `fun_transpose(residual_args, ct)`.

    `fun` is linear in `linear_args`, a tree of arrays; `fun_transpose` takes a cotangent, a tree
    like the result, and returns one like `linear_args`. Nothing checks that the two belong
    together. Derivatives in the residuals are those of `fun`. Raises TreeError, ShapeError or
    DTypeError if the transpose returns something else than `linear_args` are.

    >>> from weft.custom_derivatives import linear_call
    >>> def halved(x):
    ...     return linear_call(lambda r, x: x / r, lambda r, ct: 10.0 * ct, 2.0, x)
    >>> halved(3.0), weft.grad(halved)(3.0)
    (Array(1.5, dtype=float32, weak_type=True), Array(10., dtype=float32, weak_type=True))
    """
    name = check_function("linear_call", fun)
    check_function("linear_call", fun_transpose, "second")
    fixed, fixed_types, fixed_tree = typed_leaves(
        "linear_call", name, "residual_args", residual_args
    )
    given, types, in_tree = typed_leaves("linear_call", name, "linear_args", linear_args)
    forward = trace_body(
        "linear_call", fun, tree.treedef_tuple((fixed_tree, in_tree)), [*fixed_types, *types]
    )

    def checked(residuals: Any, cotangent: Any) -> Any:
        """The transpose; its result has the types of the linear arguments."""
        found = fun_transpose(residuals, cotangent)
        what = f"linear_call of {name}"
        if tree.structure(found) != in_tree:
            message = f"{what}: {function_name(fun_transpose)} returns another structure than "
            raise check_structure(found, in_tree, message + "linear_args", "linear_call")
        rows = zip(tree.leaves(found), types, tree.leaves_with_path(found), strict=True)
        return in_tree.unflatten(
            fit_to_type(x, of, f"{what}: the transpose's result{tree.keystr(path)}", "linear_call")
            for x, of, (path, _) in rows
        )

    back_tree = tree.treedef_tuple((fixed_tree, forward.out_tree))
    backward = trace_body(
        "linear_call", checked, back_tree, [*fixed_types, *forward.jaxpr.out_types]
    )
    bodies = (forward, backward)
    outs = linear_call_p.bind(
        *forward.consts,
        *backward.consts,
        *fixed,
        *given,
        jaxpr=with_consts(0, bodies),
        transposed=with_consts(1, bodies),
        fixed=len(forward.consts) + len(backward.consts) + len(fixed),
    )
    return forward.out_tree.unflatten(outs)


def with_consts(place: int, bodies: Sequence[TracedBody]) -> Jaxpr:
    """The jaxpr of one of two bodies, which takes the constants of both."""
    jaxpr, n = bodies[place].jaxpr, len(bodies[place].consts)
    types = [type_of(x) for x in bodies[1 - place].consts]

    def make() -> Jaxpr:
        others: list[Any] = [Var(of) for of in types]
        own, rest = list(jaxpr.inputs[:n]), list(jaxpr.inputs[n:])
        front = [*own, *others] if place == 0 else [*others, *own]
        return Jaxpr([*front, *rest], jaxpr.eqns, jaxpr.outputs, 0, jaxpr.name)

    return jaxpr.memoize(("with other constants", n, place, *types), make)


linear_call_p = Primitive("linear_call", multiple_results=True, memoise=False)


def linear_call_derivative(
    derive: Callable[..., Derived], primals: Values, tangents: Values, **params: Any
) -> Derived:
    jaxpr, n = params["jaxpr"], params["fixed"]
    outs = linear_call_p.bind(*primals, **params)
    found: list[Any] = [Zero(type_of(x).tangent()) for x in outs]
    if any(type(t) is not Zero for t in tangents[n:]):
        moved = [instantiate(t) for t in tangents[n:]]
        found = linear_call_p.bind(*primals[:n], *moved, **params)
    if any(type(t) is not Zero for t in tangents[:n]):
        rest = [Zero(type_of(x).tangent()) for x in primals[n:]]
        function = functools.partial(eval_jaxpr, jaxpr, ())
        _, more = derive(function, primals, [*tangents[:n], *rest], jaxpr.name)
        found = [add_tangents(a, b) for a, b in zip(found, more, strict=True)]
    return outs, found


def linear_call_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    n = params["fixed"]
    for x in operands[:n]:
        if type(x) is LinearOperand:
            raise not_linear(x)
    given = [instantiate(ct) for ct in cotangents]
    exchanged = {"jaxpr": params["transposed"], "transposed": params["jaxpr"], "fixed": n}
    pairs = zip(operands[n:], linear_call_p.bind(*operands[:n], *given, **exchanged), strict=True)
    return [None] * n + [ct if type(x) is LinearOperand else None for x, ct in pairs]


def linear_call_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    n = params["fixed"]
    mapped = {}
    for which, count in (("jaxpr", len(args) - n), ("transposed", len(params["jaxpr"].outputs))):
        mapped[which], _ = vmap_jaxpr(params[which], axis, (*dims[:n], *(0,) * count), True)
    rows = zip(args[n:], dims[n:], strict=True)
    given = [move_dim(x, dim, 0, axis.size) for x, dim in rows]
    outs = linear_call_p.bind(*args[:n], *given, fixed=n, **mapped)
    return outs, [0] * len(outs)


def linear_call_retype(
    types: Sequence[ArrayType], params: Params
) -> tuple[Sequence[ArrayType], Params]:
    """Linear operands and results vary alike, along all axes along which anything does."""
    jaxpr, back, n = params["jaxpr"], params["transposed"], params["fixed"]
    union: frozenset[str] = frozenset().union(
        *(t.varying for t in types), *(t.varying for t in (*jaxpr.out_types, *back.out_types))
    )

    def widen(program: Jaxpr) -> Jaxpr:
        own = [
            *types[:n],
            *varying_along(program.in_types[n:], [union] * (len(program.inputs) - n)),
        ]
        return pvary_jaxpr(program, own, [union] * len(program.outputs))

    given = [*types[:n], *varying_along(types[n:], [union] * (len(types) - n))]
    return given, params | {"jaxpr": widen(jaxpr), "transposed": widen(back)}


def linear_call_steps(
    *operands: Any, jaxpr: Jaxpr, **params: Any
) -> Iterator[tuple[str, Jaxpr, Sequence[Any]]]:
    yield f"the linear_call of {jaxpr.name}", jaxpr, operands


def linear_call_lower(context: Any, *values: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return list(context.lower_jaxpr(jaxpr, values, jaxpr.name))


holds_one_jaxpr(
    OneJaxpr(linear_call_p, lambda params: f"linear_call of {params['jaxpr'].name}"),
    impl=functools.partial(run_as_one, linear_call_p, False),
    retype=linear_call_retype,
    jvp=functools.partial(linear_call_derivative, jvp_flat),
    linearize=functools.partial(linear_call_derivative, jvp_by_linearize),
    transpose=linear_call_transpose,
    vmap=linear_call_vmap,
    # The two jaxprs belong together: neither is split or cut.
    partial_eval=None,
    dce=None,
    lower=linear_call_lower,
    steps=linear_call_steps,
)
