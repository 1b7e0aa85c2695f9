"""The transformation for users: trees in and out, around the elimination on flat lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from inversion.elimination import NotInvertibleError, eliminate
from weft import tree
from weft.errors import Fix, api_boundary
from weft.extend.core import trace_to_jaxpr, type_of

__all__ = ["inverse", "inverse_and_log_det", "log_density"]


def inverse(function: Callable[[Any], Any], like: Any = None) -> Callable[[Any], Any]:
    """The inverse of a function of one argument: `inverse(f)(f(x))` is `x`.

    `like` is a tree of arrays (or ShapeDtypeStructs) of the argument's structure, shapes and
    dtypes, needed where those are not the ones of the result. The inverse may be transformed as any
    function, and differentiated with respect to arrays that `function` closes over.

    Raises NotInvertibleError, naming the operation and its line, where an operation has no inverse
    or a value enters the result in two ways.

    >>> g = inverse(lambda x: jnp.exp(2 * x + 1))
    >>> g(jnp.exp(jnp.array([7.0])))
    Array([3.], dtype=float32)
    """
    both = inverse_and_log_det(function, like)

    @api_boundary
    def inverted(y: Any) -> Any:
        return both(y)[0]

    return inverted


def inverse_and_log_det(
    function: Callable[[Any], Any], like: Any = None
) -> Callable[[Any], tuple[Any, Any]]:
    """Like `inverse`, with log|det| of the derivative of the inverse: a number.

    For a batch of values apply `weft.vmap`.

    >>> inverse_and_log_det(lambda x: 4 * x)(jnp.array([8.0]))
    (Array([2.], dtype=float32), Array(-1.3862944, dtype=float32))
    """

    @api_boundary
    def inverted(y: Any) -> tuple[Any, Any]:
        leaves = [jnp.asarray(leaf) for leaf in tree.leaves(y)]
        template = y if like is None else like
        wanted, structure = tree.flatten(template)
        types = [type_of(x).strong() if hasattr(x, "type") else jnp.asarray(x).type for x in wanted]
        result: list[Any] = []

        def flat(*values: Any) -> Sequence[Any]:
            found, out = tree.flatten(function(tree.unflatten(structure, values)))
            result.append(out)
            return found

        name = getattr(function, "__name__", "function")
        jaxpr, consts = trace_to_jaxpr(flat, types, transformation="inverse", name=name)
        check(jaxpr, leaves, tree.structure(y), result[-1], types)
        inputs, log_det = eliminate(jaxpr, [*consts, *[None] * len(types)], leaves)
        return tree.unflatten(structure, inputs[len(consts) :]), log_det

    return inverted


def check(jaxpr: Any, leaves: Any, given: Any, wanted: Any, types: Any) -> None:
    """Raises NotInvertibleError where the value is none that the function returns, or where the
    function does not keep the number of elements."""
    found = [(x.shape, x.dtype) for x in leaves]
    outs = [(t.shape, t.dtype) for t in jaxpr.out_types]
    if given != wanted or found != outs:
        raise NotInvertibleError(
            "the value is not of the structure and types that the function returns",
            operation="inverse",
            got=f"{given} of {', '.join(str(x.type) for x in leaves)}",
            wanted=f"{wanted} of {', '.join(map(str, jaxpr.out_types))}",
            fix=Fix("like", "give an argument of the function: inverse(f, like=x)", {}),
        )
    sizes = sum(t.size for t in types), sum(t.size for t in jaxpr.out_types)
    if sizes[0] != sizes[1]:
        raise NotInvertibleError(
            f"the function maps {sizes[0]} numbers to {sizes[1]}",
            operation="inverse",
            got=f"{sizes[1]} numbers",
            wanted=f"{sizes[0]} numbers",
            fix=Fix("return_all", "return as many numbers as the function takes", {}),
        )


def log_density(
    function: Callable[[Any], Any], base: Callable[[Any], Any], like: Any = None
) -> Callable[[Any], Any]:
    """The log-density of `function(x)` where x has the log-density `base`: the change of variables
    log p(y) = base(x) + log|det dx/dy|, with x the inverse of y.

    >>> normal = lambda x: jnp.sum(-0.5 * x**2 - 0.5 * jnp.log(2 * jnp.pi))
    >>> density = log_density(lambda x: 2 * x + 1, normal)
    >>> round(float(density(jnp.array([1.0]))), 4)
    -1.6121
    """
    both = inverse_and_log_det(function, like)

    @api_boundary
    def density(y: Any) -> Any:
        x, log_det = both(y)
        return base(x) + log_det

    return density
