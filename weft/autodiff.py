"""Differentiation for users: `jvp`, `linearize`, `vjp`, `grad` and what is built from them.

Each function flattens trees at its border, checks that primals, tangents and cotangents fit leaf by
leaf, and hands flat lists to the transformations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.array import Array, as_array, put
from weft.control.jitted import check_results
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.rules import Zero
from weft.core.trace import Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    TreeError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.ops.convert import convert_element_type
from weft.ops.shape import broadcast_in_dim_p
from weft.ops.tangents import instantiate
from weft.transforms.jvp import jvp_flat
from weft.transforms.linearize import linear_program, linearize_flat
from weft.transforms.staging import function_name, trace_to_jaxpr
from weft.transforms.transpose import backward_pass

__all__ = [
    "grad",
    "jvp",
    "linear_transpose",
    "linearize",
    "value_and_grad",
    "vjp",
]


def operand(value: Any, what: str, path: Any = ()) -> Any:
    """A leaf that a transformation may box, a tracer or an array; else raises WeftTypeError."""
    if isinstance(value, (Array, Tracer)):
        return value
    value = user_value(value)
    try:
        if not type_of(value).shape:
            return value  # a number stays one, so that a trace records it as a literal
        return as_array(value)
    except WeftTypeError:
        place = f" at {tree.keystr(path)}" if path else ""
        raise WeftTypeError(
            f"{what}: the value{place} is no array",
            operation=what,
            got=f"{value!r:.100} of class {type(value).__name__}",
            wanted="an array, a number, or a tree of those",
        ) from None


def vector(value: Any, wanted: ArrayType, what: str, path: Any = ()) -> Any:
    """A leaf of tangents or cotangents: an `operand`; NumPy values of the wanted dtype keep it."""
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype == wanted.dtype:
        array = np.asarray(value)
        return put(array, ArrayType(array.shape, array.dtype)) if array.shape else array[()]
    return operand(value, what, path)


def operands(values: Any, what: str) -> tuple[list[Any], Any]:
    """The leaves of a tree, each of them an array or a tracer, and the structure."""
    leaves, structure = tree.flatten(values)
    if all(type(x) is Array for x in leaves):
        return leaves, structure
    paths = tree.leaves_with_path(values)
    found = [operand(x, what, path) for path, x in paths]
    return [x if isinstance(x, (Array, Tracer)) else as_array(x) for x in found], structure


def concrete(value: Any) -> Any:
    """A result that the user sees: numbers become arrays."""
    if isinstance(value, (Array, Tracer)) or type_of(value).dtype == dtypes.float0:
        return value
    if current_trace() is bottom_trace():
        return as_array(value)
    return broadcast_in_dim_p.bind(value, shape=type_of(value).shape, broadcast_dimensions=())


def flat_function(
    function: Callable[..., Any], in_tree: Any, what: str, has_aux: bool = False
) -> tuple[Callable[..., list[Any]], list[Any]]:
    """A function of flat lists, and a list that receives the tree of results (and the aux)."""
    store: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        out = function(*tree.unflatten(in_tree, leaves))
        aux = None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise WeftTypeError(
                    f"{what} with has_aux=True takes a function that returns a pair (result, aux)",
                    operation=what,
                    got=f"{type(out).__name__}",
                    wanted="a tuple of two",
                )
            out, aux = out
            aux = tree.map(primal_of, aux)
        leaves_out, out_tree = tree.flatten(out)
        store[:] = [out_tree, aux]
        return check_results(out, leaves_out, what)

    return flat, store


def primal_of(value: Any) -> Any:
    """The value alone of a leaf of the aux result, without what the current trace boxes it in."""
    trace = current_trace()
    if isinstance(value, Tracer) and value._trace is trace:
        return trace.unbox(value)[0]  # type: ignore[attr-defined]
    return value


# ---- jvp ---------------------------------------------------------------------------------------


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The result of `fun(*primals)` and its directional derivative along `tangents`.

    `primals` and `tangents` are tuples of equal structure, leaf by leaf of equal shape and dtype
    (float0 for integers). Answers `(result, tangent)`, or `(result, tangent, aux)` with `has_aux`.
    Raises TreeError, ShapeError or DTypeError naming the leaf that does not fit.

    >>> import weft, weft.numpy as wnp
    >>> weft.jvp(wnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise WeftTypeError(f"jvp takes a function first, not {type(fun).__name__}")
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise WeftTypeError(
                f"jvp takes its {name} as a tuple, one per argument of the function",
                operation="jvp",
                got=type(value).__name__,
                wanted="a tuple",
                fix=Fix("tuple", f"write ({name[:-1]},)", {"argument": name}),
            )
    what = f"jvp of {function_name(fun)}"
    primals_flat, in_tree = operands(tuple(primals), what)
    tangents_flat, tangent_tree = tree.flatten(tuple(tangents))
    if in_tree != tangent_tree:
        differences = tree.equality_errors(tuple(primals), tuple(tangents))
        raise TreeError(
            f"{what}: primals and tangents have different structures",
            operation="jvp",
            got=f"tangents of structure {tangent_tree}",
            wanted=f"the structure of the primals, {in_tree}"
            + "".join(
                f"\n    {tree.keystr(path) or 'the arguments'}: {text}"
                for path, text in differences
            ),
        )
    paths = [path for path, _ in tree.leaves_with_path(tuple(primals))]
    boxed = [
        _check_tangent(x, t, f"{what}, primals{tree.keystr(path)}")
        for x, t, path in zip(primals_flat, tangents_flat, paths, strict=True)
    ]
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents_out = jvp_flat(flat, primals_flat, boxed, function_name(fun))
    out_tree, aux = store
    tangents_found = [concrete(instantiate(t)) for t in tangents_out]
    result = out_tree.unflatten(outs), out_tree.unflatten(tangents_found)
    return (*result, aux) if has_aux else result


def _check_tangent(primal: Any, tangent: Any, what: str) -> Any:
    """A tangent that fits its primal, as a `Zero` where the primal has none."""
    wanted = type_of(primal).tangent()
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        got_shape, got_dtype = tangent.shape, dtypes.float0
    else:
        tangent = vector(tangent, wanted, what)
        got_shape, got_dtype = type_of(tangent).shape, type_of(tangent).dtype
    if got_shape != wanted.shape:
        raise ShapeError(
            f"{what}: the tangent has another shape",
            operation="jvp",
            got=f"a tangent of shape {got_shape}",
            wanted=f"shape {wanted.shape}, that of the primal",
        )
    if wanted.dtype == dtypes.float0:
        if got_dtype != dtypes.float0:
            raise DTypeError(
                f"{what}: a value of dtype {type_of(primal).dtype} has tangents of dtype float0",
                operation="jvp",
                got=f"a tangent of dtype {got_dtype}",
                wanted="np.zeros(shape, weft.dtypes.float0), or a floating-point primal",
                fix=Fix("float", "convert the primal to a floating-point dtype", {}),
            )
        return Zero(wanted)
    if got_dtype != wanted.dtype:
        if yields_to(type_of(tangent), wanted):
            return convert_element_type(tangent, wanted.dtype)
        raise DTypeError(
            f"{what}: the tangent has another dtype",
            operation="jvp",
            got=f"a tangent of dtype {got_dtype}",
            wanted=f"dtype {wanted.dtype}",
            fix=Fix("convert", f"convert the tangent to {wanted.dtype}", {"dtype": wanted.dtype}),
        )
    return tangent


# ---- linearize and vjp -------------------------------------------------------------------------


def _differentiable(leaves: Sequence[Any]) -> list[bool]:
    return [type_of(x).tangent().dtype != dtypes.float0 for x in leaves]


class LinearFunction:
    """The derivative of a function at a point: call it with tangents, one per argument.

    `jaxpr` is its program, whose first inputs are the residuals; applying it redoes none of the
    work that computed them.
    """

    def __init__(
        self, jaxpr: Jaxpr, residuals: list[Any], in_tree: Any, in_types: list[ArrayType],
        out_tree: Any, out_types: list[ArrayType], nonzero: list[bool], name: str,
    ) -> None:  # fmt: skip
        self.jaxpr = jaxpr
        self.residuals = residuals
        self._in_tree = in_tree
        self._in_types = in_types
        self._out_tree = out_tree
        self._out_types = out_types
        self._nonzero = nonzero
        self.__name__ = f"linear part of {name}"

    def __call__(self, *tangents: Any) -> Any:
        what = self.__name__
        leaves, structure = tree.flatten(tangents)
        if structure != self._in_tree:
            raise TreeError(
                f"{what}: the tangents have another structure than the arguments",
                operation="linearize",
                got=str(structure),
                wanted=str(self._in_tree),
            )
        values = []
        for (path, leaf), wanted in zip(
            tree.leaves_with_path(tangents), self._in_types, strict=True
        ):
            if wanted.tangent().dtype != dtypes.float0:
                leaf = vector(leaf, wanted.tangent(), what, path)
                leaf = fitted(leaf, wanted.tangent(), f"{what}, tangent{tree.keystr(path)}")
                values.append(leaf)
        found = iter(eval_jaxpr(self.jaxpr, self.residuals, *values))
        outs = [
            next(found) if flag else instantiate(Zero(type.tangent()))
            for flag, type in zip(self._nonzero, self._out_types, strict=True)
        ]
        return self._out_tree.unflatten(outs)

    def __repr__(self) -> str:
        return f"<{self.__name__}>\n{self.jaxpr}"


def yields_to(got: ArrayType, wanted: ArrayType) -> bool:
    """Whether a tangent is a Python number that may take the wanted dtype."""
    real = got.dtype in dtypes.FLOATING or wanted.dtype in dtypes.COMPLEX
    return got.weak_type and got.dtype in dtypes.INEXACT and real


def fitted(value: Any, wanted: ArrayType, what: str) -> Any:
    """A tangent or cotangent of the wanted shape and dtype; only Python numbers are converted.

    Raises ShapeError or DTypeError for any other.
    """
    got = type_of(value)
    if got.shape != wanted.shape:
        raise ShapeError(
            f"{what} has another shape", got=str(got), wanted=str(wanted), operation=what
        )
    if got.dtype == wanted.dtype:
        return value
    if yields_to(got, wanted):
        return convert_element_type(value, wanted.dtype)
    raise DTypeError(
        f"{what} has another dtype",
        got=str(got),
        wanted=str(wanted),
        operation=what,
        fix=Fix("convert", f"convert it to {wanted.dtype}", {"dtype": wanted.dtype}),
    )


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `fun(*primals)` and the linear function that is its derivative there.

    Applying the linear function to tangents (one per primal, of equal shapes and dtypes) costs only
    the linear work: the point's own computation is done once, here.

    >>> import weft, weft.numpy as wnp
    >>> y, f_lin = weft.linearize(wnp.sin, 0.0)
    >>> f_lin(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    what = f"linearize of {function_name(fun)}"
    leaves, in_tree = operands(primals, what)
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents, linear = linearize_flat(
        flat, leaves, _differentiable(leaves), "linearize", function_name(fun)
    )
    out_tree, aux = store
    jaxpr, residuals, nonzero = linear_program(linear, tangents)
    function = LinearFunction(
        jaxpr, residuals, in_tree, [type_of(x) for x in leaves],
        out_tree, [type_of(x) for x in outs], nonzero, function_name(fun),
    )  # fmt: skip
    result = out_tree.unflatten(outs)
    return (result, function, aux) if has_aux else (result, function)


@api_boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `fun(*primals)` and the function from a cotangent of the result to those of the
    primals (a tuple, one per primal). That function is a tree of what it keeps for the backward
    pass.

    >>> import weft, weft.numpy as wnp
    >>> y, f_vjp = weft.vjp(wnp.sin, 0.0)
    >>> f_vjp(3.0)
    (Array(3., dtype=float32, weak_type=True),)
    """
    result, pullback, aux = vjp_with_aux(fun, primals, "vjp", has_aux)
    return (result, pullback, aux) if has_aux else (result, pullback)


def vjp_with_aux(
    fun: Callable[..., Any], primals: tuple[Any, ...], what: str, has_aux: bool
) -> tuple[Any, Callable[[Any], Any], Any]:
    """What `vjp` does, under the name of the caller for messages."""
    what = f"{what} of {function_name(fun)}"
    leaves, in_tree = operands(primals, what)
    active = _differentiable(leaves)
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents, linear = linearize_flat(
        flat, leaves, active, what.split(" ")[0], function_name(fun)
    )
    out_tree, aux = store
    in_types = [type_of(x) for x in leaves]
    out_types = [type_of(x) for x in outs]

    outputs = [linear.atom(t) for t in tangents if type(t) is not Zero]
    variables = [var for var, _ in linear.consts.values()]
    residuals = [value for _, value in linear.consts.values()]

    @api_boundary
    def pullback(residuals: list[Any], cotangent: Any) -> Any:
        """The cotangents of the primals, given that of the result."""
        given, structure = tree.flatten(cotangent)
        if structure != out_tree:
            raise TreeError(
                f"{what}: the cotangent has another structure than the result",
                operation="vjp",
                got=str(structure),
                wanted=str(out_tree),
            )
        cts = []
        paths = tree.leaves_with_path(cotangent)
        for (path, leaf), wanted, tangent in zip(paths, out_types, tangents, strict=True):
            if wanted.tangent().dtype != dtypes.float0:
                leaf = vector(leaf, wanted.tangent(), what, path)
                leaf = fitted(leaf, wanted.tangent(), f"{what}, cotangent{tree.keystr(path)}")
            if type(tangent) is not Zero:
                cts.append(leaf)
        known = dict(zip(variables, residuals, strict=True))
        found = iter(backward_pass(linear.eqns, linear.inputs, known, outputs, cts))
        results = [
            next(found) if flag else Zero(type.tangent())
            for flag, type in zip(active, in_types, strict=True)
        ]
        return in_tree.unflatten([concrete(instantiate(x)) for x in results])

    # A tree with the residuals as its leaves, so that it can be returned from a transformed
    # function, and be what a forward rule of `custom_vjp` hands on to the backward rule.
    return out_tree.unflatten(outs), tree.Partial(pullback, residuals), aux


# ---- grad --------------------------------------------------------------------------------------


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that computes `fun` and its gradient.

    `argnums` says with respect to which positional arguments (an int: one gradient; a sequence: a
    tuple of them). With `has_aux`, `fun` returns `(value, aux)` and the answer is
    `((value, aux), gradient)`. `holomorphic` allows complex arguments and results of a holomorphic
    function; `allow_int` gives integer arguments float0 gradients instead of an error.

    >>> import weft
    >>> weft.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise WeftTypeError(
            f"grad takes a function first, not {type(fun).__name__}", operation="grad"
        )
    numbers = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    name = function_name(fun)

    @api_boundary
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        places = argument_places(numbers, args, name)
        chosen = tuple(args[i] for i in places)
        _check_grad_inputs(chosen, places, name, holomorphic, allow_int)

        partial = partial_function(fun, args, kwargs, places)
        value, pullback, aux = vjp_with_aux(partial, chosen, "grad", has_aux)
        _check_grad_result(value, name, holomorphic)
        of = type_of(value)
        weak = of.weak_type and of.dtype == dtypes.default_float()
        gradients = pullback(1.0 if weak else of.dtype.type(1))
        gradient = gradients[0] if isinstance(argnums, (int, np.integer)) else gradients
        return ((value, aux) if has_aux else value), gradient

    return like(fun, value_and_gradient)


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that computes the gradient of `fun`, which returns a real scalar.

    Arguments as for `value_and_grad`; with `has_aux` the answer is `(gradient, aux)`.

    >>> import weft, weft.numpy as wnp
    >>> weft.grad(wnp.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return like(fun, gradient)


def partial_function(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], places: list[int]
) -> Callable[..., Any]:
    """The function of some positional arguments, the others being fixed."""

    def partial(*values: Any) -> Any:
        full = list(args)
        for i, value in zip(places, values, strict=True):
            full[i] = value
        return fun(*full, **kwargs)

    partial.__name__ = function_name(fun)
    return partial


def like(fun: Callable[..., Any], made: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(fun)(made) if hasattr(fun, "__name__") else made


def argument_places(numbers: tuple[int, ...], args: tuple[Any, ...], name: str) -> list[int]:
    places = []
    for i in numbers:
        if not -len(args) <= i < len(args):
            raise WeftValueError(
                f"grad of {name}: argnums={i} and the call has {len(args)} positional arguments",
                operation="grad",
                got=f"argnums={i}",
                wanted=f"a number from 0 to {len(args) - 1}; "
                "keyword arguments are not differentiated",
            )
        places.append(int(i) % len(args))
    return places


def _check_grad_inputs(
    chosen: tuple[Any, ...], places: list[int], name: str, holomorphic: bool, allow_int: bool
) -> None:
    for number, value in zip(places, chosen, strict=True):
        for path, leaf in tree.leaves_with_path(value):
            dtype = type_of(operand(leaf, f"grad of {name}", path)).dtype
            where = f"argument {number}{tree.keystr(path)}"
            if holomorphic:
                if dtype not in dtypes.COMPLEX:
                    raise DTypeError(
                        f"grad of {name} with holomorphic=True takes complex arguments",
                        operation="grad",
                        got=f"{where} of dtype {dtype}",
                        wanted="a complex dtype",
                        fix=Fix("convert", "convert the argument to complex64", {}),
                    )
            elif dtype in dtypes.COMPLEX:
                continue
            elif dtype not in dtypes.FLOATING and not allow_int:
                raise DTypeError(
                    f"grad of {name} takes floating-point arguments",
                    operation="grad",
                    got=f"{where} of dtype {dtypes.short_name(dtype)}",
                    wanted="a floating-point or complex dtype",
                    fix=Fix(
                        "convert",
                        "convert the argument to a floating-point dtype (pass 3.0 instead of 3), "
                        "or pass allow_int=True for float0 gradients",
                        {"allow_int": True},
                    ),
                )


def _check_grad_result(value: Any, name: str, holomorphic: bool) -> None:
    leaves, structure = tree.flatten(value)
    if structure != tree.structure(0):
        raise WeftTypeError(
            f"grad takes a function that returns one scalar, and {name} returned {structure}",
            operation="grad",
            got=str(structure),
            wanted="an array without dimensions",
            fix=Fix("has_aux", "return (scalar, others) and pass has_aux=True", {"has_aux": True}),
        )
    of = type_of(leaves[0])
    if of.shape:
        raise WeftTypeError(
            f"grad takes a function that returns a scalar, and {name} returned {of}",
            operation="grad",
            got=str(of),
            wanted="an array without dimensions",
            fix=Fix("sum", "reduce the result, for example by .sum() or .mean()", {}),
        )
    wanted = dtypes.COMPLEX if holomorphic else dtypes.FLOATING
    if of.dtype not in wanted:
        kind = "complex (holomorphic=True)" if holomorphic else "real floating-point"
        raise DTypeError(
            f"grad takes a function with a {kind} result, and {name} returned {of}",
            operation="grad",
            got=str(of),
            wanted=f"a {kind} dtype",
            fix=Fix(
                "holomorphic" if of.dtype in dtypes.COMPLEX else "convert",
                "pass holomorphic=True for a holomorphic function, or take the real part"
                if of.dtype in dtypes.COMPLEX
                else "convert the result to a floating-point dtype",
                {},
            ),
        )


# ---- linear_transpose --------------------------------------------------------------------------


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], Any]:
    """The transpose of a function that is linear in all its arguments.

    `primals` give the types only (arrays or ShapeDtypeStructs). The answer takes a cotangent of the
    result and gives a tuple of cotangents, one per argument. Raises MissingRuleError or
    WeftTypeError when called, where the function applies an operation that is not linear.

    >>> import weft
    >>> weft.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    name = function_name(fun)
    leaves, in_tree = tree.flatten(primals)
    in_types = [type_of(x).tangent() for x in leaves]
    flat, store = flat_function(fun, in_tree, f"linear_transpose of {name}")
    jaxpr, consts = trace_to_jaxpr(flat, in_types, transformation="linear_transpose", name=name)
    out_tree = store[0]

    @api_boundary
    def transposed(cotangent: Any) -> Any:
        """The cotangents of the arguments, given that of the result."""
        given, structure = tree.flatten(cotangent)
        if structure != out_tree:
            raise TreeError(
                f"linear_transpose of {name}: the cotangent has another structure than the result",
                operation="linear_transpose",
                got=str(structure),
                wanted=str(out_tree),
            )
        cts = []
        for (path, leaf), wanted in zip(
            tree.leaves_with_path(cotangent), jaxpr.out_types, strict=True
        ):
            leaf = vector(leaf, wanted, f"linear_transpose of {name}", path)
            what = f"linear_transpose of {name}, cotangent{tree.keystr(path)}"
            cts.append(fitted(leaf, wanted, what))
        n = len(consts)
        known = dict(zip(jaxpr.inputs[:n], consts, strict=True))
        found = backward_pass(jaxpr.eqns, jaxpr.inputs[n:], known, jaxpr.outputs, cts)
        return in_tree.unflatten([concrete(instantiate(x)) for x in found])

    return transposed
