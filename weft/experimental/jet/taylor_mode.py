"""`jet`: derivatives of all orders up to one along a curve, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from weft import dtypes, tree
from weft.core.types import type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import describe_value
from weft.experimental.jet import taylor_loops as taylor_loops  # rules are registered at import
from weft.experimental.jet import taylor_rules as taylor_rules
from weft.experimental.jet.taylor_trace import instantiate_zeros, jet_flat, scale
from weft.interpreters.staging import check_function, check_results
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.shape import broadcast_in_dim
from weft.ops.structural.tangents import zeros


@api_boundary
def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:
    """The value and the derivatives of `fun` along a curve, of all orders up to one.

    Each argument is an array that moves along a curve x(t): `primals` has x(0), and `series` for
    each argument the derivatives of x at 0, from the first on, as many for all. Returns the value
    of fun(x(t)) at 0 and its derivatives, in lists at the places of the arrays in the result. With
    `factorial_scaled=False` coefficients of powers are taken and returned, instead of derivatives.

    The cost grows with the square of the order, where nested `jvp` doubles it with each. Raises
    WeftValueError for series of different lengths, WeftTypeError for arguments that are not arrays,
    DTypeError or ShapeError for ones that do not fit. Source: Griewank, Walther: Evaluating
    Derivatives (2008), chapter 13.

    Args:
        _: Further arguments of JAX's function, which have no meaning here.
        fun: A function of arrays.
        primals: The value x(0) of each argument.
        series: The derivatives of each argument at 0, from the first on; as many for all.
        factorial_scaled: Whether derivatives are taken and returned, and not coefficients of
            powers.

    >>> from weft.experimental.jet import jet
    >>> y, (y1, y2, y3) = jet(jnp.sin, (0.0,), ((1.0, 0.0, 0.0),))
    >>> print(y, y1, y2, y3)
    0.0 1.0 0.0 -1.0
    """
    name = check_function("jet", fun)
    if len(primals) != len(series):
        message = "jet takes a series for each argument"
        fix = Fix("series", "pass a tuple with the derivatives of each argument")
        got = f"{len(primals)} arguments and {len(series)} series"
        raise WeftValueError(message, got=got, fix=fix)
    orders = {len(terms) for terms in series}
    if len(orders) != 1:
        message = "jet terms have inconsistent lengths for different arguments"
        fix = Fix("series", "give each argument as many derivatives, zeros where there are none")
        got = f"lengths {sorted(orders)}"
        raise WeftValueError(message, got=got, wanted="equal lengths", fix=fix)
    (order,) = orders
    values = [_argument(i, x) for i, x in enumerate(primals)]
    factors = [factorial(k) if factorial_scaled else 1 for k in range(1, order + 1)]
    coefficients = [
        [
            scale(1 / factor, _term(i, k, term, x))
            for k, (factor, term) in enumerate(zip(factors, terms, strict=True))
        ]
        for i, (terms, x) in enumerate(zip(series, values, strict=True))
    ]
    structure: Any = None

    def flat(*args: Any) -> list[Any]:
        nonlocal structure
        out = fun(*args)
        leaves, structure = tree.flatten(out)
        return check_results(out, leaves, f"jet of {name}")

    outs, found = jet_flat(flat, values, coefficients, order, name)
    columns = [_derivatives(x, own, factors) for x, own in zip(outs, found, strict=True)]
    return structure.unflatten(outs), structure.unflatten(columns)


def jet2(fun: Callable[..., Any], primals: Any, series: Any, **more: Any) -> tuple[Any, Any]:
    """`jet` of coefficients of powers instead of derivatives.

    Args:
        fun: A function of arrays.
        primals: The value of each argument at 0.
        series: The coefficients of each argument, from the first power on.
        more: Further keyword arguments of `jet`.

    >>> from weft.experimental.jet import jet2
    >>> print(jet2(jnp.exp, (0.0,), ((1.0, 0.0),))[1][1])
    0.5
    """
    return jet(fun, primals, series, factorial_scaled=False, **more)


def _derivatives(x: Any, terms: Any, factors: Sequence[int]) -> list[Any]:
    """The derivatives of a result; zeros of its dtype if it is not floating."""
    if type_of(x).dtype not in dtypes.INEXACT:
        return [zeros(type_of(x)) for _ in factors]
    pairs = zip(factors, instantiate_zeros(terms, x), strict=True)
    return [scale(factor, term) for factor, term in pairs]


def _argument(i: int, x: Any) -> Any:
    if not tree.treedef_is_leaf(tree.structure(x)):
        message = f"primal value at position {i} is not an array"
        fix = Fix("arrays", "pass the arrays of a tree as arguments of their own")
        raise WeftValueError(message, got=describe_value(x), fix=fix)
    value = user_value(x)
    if type_of(value).dtype not in dtypes.INEXACT:
        message = f"jet: the primal value at position {i} is not differentiable"
        fix = Fix("convert", "pass a number of a floating dtype, or close over it")
        raise DTypeError(message, got=str(type_of(value)), wanted="a floating dtype", fix=fix)
    return value


def _term(i: int, k: int, term: Any, x: Any) -> Any:
    """A derivative in the dtype of its argument."""
    if not tree.treedef_is_leaf(tree.structure(term)):
        message = f"term {k} for argument {i} is not an array"
        fix = Fix("arrays", "pass the arrays of a tree as arguments of their own")
        raise WeftTypeError(message, got=describe_value(term), fix=fix)
    wanted, value = type_of(x), user_value(term)
    got = type_of(value)
    if got.dtype != wanted.dtype:
        value = convert_element_type(value, wanted.dtype)
    if not got.shape and wanted.shape:
        return broadcast_in_dim(value, wanted.shape, ())
    if got.shape != wanted.shape:
        message = f"jet: term {k} for argument {i} has another shape than the argument"
        fix = Fix("shape", f"pass an array of shape {wanted.shape}", {"shape": wanted.shape})
        raise ShapeError(message, got=str(got), wanted=str(wanted), fix=fix)
    return value
