"""`custom_gradient` and `closure_convert`: derivatives from a function that returns its gradient's
function beside its value, and functions whose closed-over values are made arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from weft import dtypes, tree
from weft.api.autodiff import flat_function
from weft.api.gradient_arguments import operands
from weft.base.util import like, merge, partition
from weft.core.jaxpr import eval_jaxpr
from weft.core.trace import Tracer
from weft.core.types import type_of
from weft.custom_derivatives.custom_vjp_rules import custom_vjp
from weft.errors import Fix, TreeError, WeftTypeError, api_boundary
from weft.interpreters.staging import function_name, trace_to_jaxpr
from weft.tracing.closure_lifting import TracedValues

P = ParamSpec("P")
R = TypeVar("R")


def custom_gradient(fun: Callable[P, tuple[R, Any]]) -> Callable[P, R]:
    """A function with its own derivative, from one that returns `(result, gradient)`.

    fun: a function that returns such a pair. `gradient` is a function from the cotangent of the
    result to those of the arguments: a tuple with one entry per argument, or the cotangent itself
    where there is one argument. weft keeps the values that it closes over for the backward pass.
    Raises WeftTypeError if the function returns no such pair, and otherwise what `custom_vjp`
    raises.

    >>> import weft
    >>> @weft.custom_gradient
    ... def f(x):
    ...     return x**2, lambda ct: ct * 3.0 * x
    >>> weft.grad(f)(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if not callable(fun):
        raise WeftTypeError(f"custom_gradient takes a function, not {type(fun).__name__}")

    def value(*args: P.args, **kwargs: P.kwargs) -> R:
        return _check_pair(fun, fun(*args, **kwargs))[0]

    called: Callable[..., Any] = fun

    def forward(*args: Any) -> tuple[Any, Any]:
        result, gradient = _check_pair(fun, called(*args))
        # The function itself is part of the residuals, with its traced values beside it: rules
        # hand residuals on as operands, so that each transformation sees them.
        held = TracedValues()
        held.search(gradient)
        return result, (list(held.found), _Kept(gradient, held, len(args)))

    def backward(residuals: Any, cotangent: Any) -> Any:
        values, kept = residuals
        (gradient,) = kept.held.replace_traced([kept.gradient], values)
        out = gradient(cotangent)
        if kept.count == 1 and not (isinstance(out, (tuple, list)) and len(out) == 1):
            return (out,)
        return out

    made = custom_vjp(like(fun, value))
    made.defvjp(forward, backward)
    return made


class _Kept:
    """The gradient's function of one call, and how many arguments the call had."""

    def __init__(self, gradient: Callable[..., Any], held: TracedValues, count: int) -> None:
        self.gradient = gradient
        self.held = held
        self.count = count


def _check_pair(fun: Callable[..., Any], pair: Any) -> tuple[Any, Callable[..., Any]]:
    if isinstance(pair, (tuple, list)) and len(pair) == 2 and callable(pair[1]):
        return pair[0], pair[1]
    message = (
        f"custom_gradient of {function_name(fun)}: the function returns no pair of a result and "
        "the function of its gradient"
    )
    got, wanted = f"{type(pair).__name__}", "(result, function from a cotangent to cotangents)"
    fix = Fix("pair", "return (result, lambda ct: ...)")
    raise WeftTypeError(message, operation="custom_gradient", got=got, wanted=wanted, fix=fix)


@api_boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Any, list[Any]]:
    """A function that takes the differentiable values that `fun` closes over as arguments.

    Returns `(converted, values)` where `converted(*args, *values)` is `fun(*args)`, for `args` with
    the structure, shapes and dtypes of `example_args`. The values are the traced ones of inexact
    dtype, in the order in which `fun` uses them; `fun` is traced once, here.
    Raises TreeError if `converted` gets arguments of another structure.

    >>> import weft, weft.numpy as jnp
    >>> def loss(a):
    ...     converted, values = weft.closure_convert(lambda x: a * x, 1.0)
    ...     return converted(2.0, *values)
    >>> weft.grad(loss)(3.0)
    Array(2., dtype=float32, weak_type=True)
    """
    name = function_name(fun)
    what = f"closure_convert of {name}"
    leaves, in_tree = operands(example_args, what)
    flat, store = flat_function(fun, in_tree, what)
    types = [type_of(x) for x in leaves]
    jaxpr, consts = trace_to_jaxpr(flat, types, transformation="closure_convert", name=name)
    out_tree = store[0]
    hoisted = [isinstance(x, Tracer) and type_of(x).dtype in dtypes.INEXACT for x in consts]
    values, kept = partition(hoisted, consts)
    count = len(example_args)

    @api_boundary("closure_convert")
    def converted(*args: Any) -> Any:
        """The function, of its arguments and then the values that it closed over."""
        given, structure = tree.flatten(args[:count])
        if structure != in_tree or len(args) != count + len(values):
            message = f"{what}: the arguments have another structure than the examples"
            got = f"{structure} and {len(args) - count} values"
            fix = Fix("values", "call converted(*args, *values)", {"count": len(values)})
            raise TreeError(message, got=got, wanted=f"{in_tree} and {len(values)} values", fix=fix)
        return out_tree.unflatten(eval_jaxpr(jaxpr, merge(hoisted, args[count:], kept), *given))

    return converted, values
