"""`composite`: a function under a name that compilers may know better than its operations.

It is lowered to StableHLO's `composite`, which refers to the function of the decomposition
(https://github.com/openxla/stablehlo/blob/main/docs/spec.md#composite). A compiler that does not
know the name takes the decomposition, and so does every transformation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.control_flow.body_tracing import run_as_one, trace_body
from weft.control_flow.loops import typed_leaves
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.primitive import Facts, Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Values
from weft.custom_derivatives.custom_primitive import jvp_by_linearize
from weft.errors import WeftTypeError, WeftValueError, api_boundary
from weft.interpreters.jvp import jvp_flat, known_operands, merge_cotangents, nonzero_tangents
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.staging import check_function
from weft.interpreters.transpose import transpose_jaxpr
from weft.interpreters.vmap import vmap_jaxpr
from weft.runtime import stablehlo


@api_boundary
def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """A function that computes `decomposition` and shows compilers a name for it.

    Positional arguments are trees of arrays; keyword arguments are attributes of the operation:
    numbers, texts, NumPy arrays, or sequences and dictionaries of these. Those that are None are
    left out. `name` is of the form "namespace.name"; `version` tells meanings of one name apart.

    Derivatives and `vmap` are those of the decomposition. Raises WeftValueError for a name without
    namespace; WeftTypeError for arguments that are not arrays, and for other attributes.

    Args:
        decomposition: A function of trees of arrays, with keywords for attributes.
        name: The name, of the form "namespace.name".
        version: A number that tells meanings of one name apart.

    >>> @functools.partial(lax.composite, name="my.scaled")
    ... def scaled(x, *, factor):
    ...     return x * factor
    >>> scaled(3.0, factor=2.0)
    Array(6., dtype=float32, weak_type=True)
    >>> weft.grad(scaled)(3.0, factor=2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    check_function("composite", decomposition)
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        message = "composite takes a name such as 'my_library.my_operation'"
        raise WeftValueError(message, got=f"name={name!r}", wanted="identifiers, divided by points")

    @functools.wraps(decomposition)
    @api_boundary("composite")
    def call(*args: Any, **attributes: Any) -> Any:
        leaves, types, in_tree = typed_leaves("composite", name, "the arguments", args)
        given = {key: value for key, value in attributes.items() if value is not None}
        for key, value in given.items():
            _check_attribute(name, key, value)
        function = functools.partial(decomposition, **attributes)
        traced = trace_body("composite", function, in_tree, types)
        outs = composite_p.bind(
            *traced.consts,
            *leaves,
            jaxpr=traced.jaxpr,
            name=name,
            version=int(version),
            attributes=tuple([(key, to_parameter(given[key])) for key in sorted(given)]),
        )
        return traced.out_tree.unflatten(outs)

    return call


class ArrayAttribute(NamedTuple):
    """A NumPy array as a parameter, which has to be hashable."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]


def to_parameter(value: Any) -> Any:
    """An attribute as a parameter."""
    if isinstance(value, np.ndarray):
        return ArrayAttribute(value.tobytes(), value.dtype.name, value.shape)
    if isinstance(value, Mapping):
        return ("dict", *[(key, to_parameter(value[key])) for key in sorted(value)])
    return tuple([to_parameter(x) for x in value]) if isinstance(value, list | tuple) else value


def from_parameter(value: Any) -> Any:
    """The value of a parameter's attribute."""
    if isinstance(value, ArrayAttribute):
        return np.frombuffer(value.data, dtypes.parse(value.dtype)).reshape(value.shape)
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {key: from_parameter(x) for key, x in value[1:]}
    return [from_parameter(x) for x in value] if isinstance(value, tuple) else value


def _check_attribute(name: str, key: str, value: Any) -> None:
    try:
        stablehlo.to_attribute(value)
    except WeftTypeError as error:
        message = f"composite {name}: {key} is given by name, and cannot be an attribute"
        raise WeftTypeError(message, got=error.got, wanted=error.wanted) from None


composite_p = Primitive("composite", multiple_results=True, memoise=False)
composite_p.facts = Facts(flops="none")  # What it holds is counted by itself.


def inside(jaxpr: Jaxpr) -> Callable[..., list[Any]]:
    """The decomposition as a function of operands."""
    return functools.partial(eval_jaxpr, jaxpr, ())


def composite_derivative(
    derive: Callable[..., Derived], primals: Values, tangents: Values, *, jaxpr: Jaxpr, **_: Any
) -> Derived:
    return derive(inside(jaxpr), primals, tangents, jaxpr.name)


def composite_transpose(
    cotangents: Values, *operands: Any, jaxpr: Jaxpr, **params: Any
) -> list[Any]:
    linear, known = known_operands(operands)
    nonzero, given = nonzero_tangents(cotangents)
    backward, reached = transpose_jaxpr(jaxpr, linear, nonzero)
    return merge_cotangents(linear, reached, inside(backward)(*known, *given))


def composite_vmap(
    axis: AxisData, args: Values, dims: Dims, *, jaxpr: Jaxpr, **params: Any
) -> Mapped:
    mapped, dims_out = vmap_jaxpr(jaxpr, axis, tuple(dims))
    return inside(mapped)(*args), dims_out


def composite_steps(
    *operands: Any, jaxpr: Jaxpr, name: str, **params: Any
) -> Iterator[tuple[str, Jaxpr, Sequence[Any]]]:
    yield f"the composite {name}", jaxpr, operands


def composite_lower(
    context: Any,
    *values: Any,
    jaxpr: Jaxpr,
    name: str,
    version: int,
    attributes: tuple[tuple[str, Any], ...],
) -> list[Any]:
    if jaxpr.effects:
        return list(context.lower_jaxpr(jaxpr, values, name))
    symbol = context.function_of(jaxpr, name)
    types = context.result_ir_types()
    found = {key: from_parameter(value) for key, value in attributes}
    return list(stablehlo.composite(name, values, types, symbol, version, found))


holds_one_jaxpr(
    OneJaxpr(composite_p, lambda params: f"composite {params['name']}"),
    impl=functools.partial(run_as_one, composite_p, False),
    jvp=functools.partial(composite_derivative, jvp_flat),
    linearize=functools.partial(composite_derivative, jvp_by_linearize),
    transpose=composite_transpose,
    vmap=composite_vmap,
    # Cut or split it would no longer be what its name says.
    partial_eval=None,
    dce=None,
    lower=composite_lower,
    steps=composite_steps,
)
