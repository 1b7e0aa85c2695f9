"""Differentiation for users: `jvp`, `linearize`, `vjp`, `grad` and what is built from them.

Each function flattens trees at its border, checks that primals, tangents and cotangents fit leaf by
leaf, and hands flat lists to the transformations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, Unpack, overload

import numpy as np

from weft import dtypes, tree
from weft.api.gradient_arguments import (
    Argnums,
    Aux,
    Both,
    First,
    Gradient,
    No,
    OfFirst,
    OfTwo,
    P,
    R,
    S,
    Second,
    T,
    Yes,
    check_grad_inputs,
    check_grad_result,
    chosen_arguments,
    conversion,
    numbers_of,
    one_or_all,
    operands,
    tangent_leaves,
    vector,
    yields_to,
)
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.util import like
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.rules import Zero
from weft.core.shape_struct import described_type
from weft.core.trace import Tracer, bottom_trace, current_trace
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, TreeError, WeftTypeError, api_boundary
from weft.errors.argument_errors import not_a_function, unsupported_argument
from weft.interpreters.jvp import jvp_flat
from weft.interpreters.linearize import linear_program, linearize_flat
from weft.interpreters.staging import check_results, function_name, trace_to_jaxpr
from weft.interpreters.transpose import backward_pass
from weft.numpy.promotion import UnaryUfunc
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.structural.shape import broadcast_in_dim_p
from weft.ops.structural.tangents import instantiate
from weft.refs.discharge import array_in, as_closure, boxed_call, has_references
from weft.refs.gradients import PullbackOfReferences, VJPFunction
from weft.refs.reference import Ref
from weft.runtime.jaxlib.lazy import pending_nodes
from weft.typing import ArrayLike, TreeOfArrays

Tree = TypeVar("Tree", bound=TreeOfArrays)
Tree2 = TypeVar("Tree2", bound=TreeOfArrays)


def concrete(value: Any) -> Any:
    """A result that the user sees: numbers become arrays."""
    if isinstance(value, (Array, Tracer)) or type_of(value).dtype == dtypes.float0:
        return value
    if current_trace() is bottom_trace():
        return as_array(value)
    return broadcast_in_dim_p.bind(value, shape=type_of(value).shape, broadcast_dimensions=())


def derivative_of(wanted: ArrayType, tangent: Any) -> Any:
    """A tangent or cotangent that the user sees: an array, as weakly typed as its value is."""
    out = concrete(instantiate(tangent))
    type = type_of(out)
    if type.weak_type == wanted.weak_type or type.dtype == dtypes.float0:
        return out
    return convert_element_type(out, type.dtype, wanted.weak_type)


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
                message = (
                    f"{what} with has_aux=True takes a function that returns a pair (result, aux)"
                )
                got = f"{type(out).__name__}"
                raise WeftTypeError(message, operation=what, got=got, wanted="a tuple of two")
            out, aux = out
            aux = tree.map(primal_of, aux)
        leaves_out, out_tree = tree.flatten(out)
        store[:] = [out_tree, aux]
        return check_results(out, leaves_out, what)

    return flat, store


def primal_of(value: Any) -> Any:
    """The value of a leaf of the aux result, unboxed from the current trace."""
    trace = current_trace()
    if isinstance(value, Tracer) and value._trace is trace:
        return trace.unbox(value)[0]  # type: ignore[attr-defined]
    return value


@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: No = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Yes
) -> tuple[R, R, Aux]: ...
@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """The result of `fun(*primals)` and its directional derivative along `tangents`.

    Args:
        fun: The function to differentiate.
        primals: A tuple of the arguments at which the derivative is taken.
        tangents: A tuple of directions, of the structure of `primals`, leaf by leaf of equal shape
            and dtype (float0 for integers).
        has_aux: Whether `fun` returns `(result, aux)`; `aux` is not differentiated.

    Returns `(result, tangent)`, or `(result, tangent, aux)` with `has_aux`. Raises TreeError,
    ShapeError or DTypeError naming the leaf that does not fit.

    >>> import weft, weft.numpy as jnp
    >>> weft.jvp(jnp.sin, (0.0,), (2.0,))
    (Array(0., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise not_a_function("jvp", fun)
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            message = f"jvp takes its {name} as a tuple, one per argument of the function"
            got = type(value).__name__
            fix = Fix("tuple", f"write ({name[:-1]},)", {"argument": name})
            raise WeftTypeError(message, got=got, wanted="a tuple", fix=fix)
    what = f"jvp of {function_name(fun)}"
    if has_references(tree.leaves(tuple(primals))):
        return _jvp_of_references(fun, tuple(primals), tuple(tangents), has_aux)
    primals_flat, in_tree = operands(tuple(primals), what)
    tangents_flat, tangent_tree = tree.flatten(tuple(tangents))
    if in_tree != tangent_tree:
        differences = tree.equality_errors(tuple(primals), tuple(tangents))
        message = f"{what}: primals and tangents have different structures"
        got = f"tangents of structure {tangent_tree}"
        wanted = f"the structure of the primals, {in_tree}" + "".join(
            f"\n    {tree.keystr(path) or 'the arguments'}: {text}" for path, text in differences
        )
        raise TreeError(message, got=got, wanted=wanted)
    paths = [path for path, _ in tree.leaves_with_path(tuple(primals))]
    boxed = [
        _check_tangent(x, t, f"{what}, primals{tree.keystr(path)}")
        for x, t, path in zip(primals_flat, tangents_flat, paths, strict=True)
    ]
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents_out = jvp_flat(flat, primals_flat, boxed, function_name(fun))
    out_tree, aux = store
    tangents_found = [derivative_of(type_of(x), t) for x, t in zip(outs, tangents_out, strict=True)]
    result = out_tree.unflatten(outs), out_tree.unflatten(tangents_found)
    return (*result, aux) if has_aux else result


def _jvp_of_references(
    fun: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], has_aux: bool
) -> Any:
    """`jvp` with references among the primals: their tangents are references too, and are written
    as the primals are."""
    leaves, in_tree = tree.flatten(primals)
    given, tangent_tree = tree.flatten(tangents)
    call = boxed_call("jvp", fun, leaves, in_tree, has_aux)
    values = tree.unflatten(tangent_tree, [array_in(x) for x in given])
    derive: Callable[..., Any] = jvp
    found = derive(call.function, call.arrays(), values, has_aux)
    (out, arrays), (tangent, tangent_arrays), *aux = found
    call.write(arrays)
    for i, value in zip(call.places, tangent_arrays, strict=True):
        if type(given[i]) is Ref:
            given[i][...] = value
    return (out, tangent, *aux)


def _check_tangent(primal: Any, tangent: Any, what: str) -> Any:
    """A tangent that fits its primal, as a `Zero` where the primal has none."""
    wanted = type_of(primal).tangent()
    if isinstance(tangent, np.ndarray) and tangent.dtype == dtypes.float0:
        got_shape, got_dtype = tangent.shape, dtypes.float0
    else:
        tangent = vector(tangent, wanted, what)
        got_shape, got_dtype = type_of(tangent).shape, type_of(tangent).dtype
    if got_shape != wanted.shape:
        message, got = f"{what}: the tangent has another shape", f"a tangent of shape {got_shape}"
        raise ShapeError(message, got=got, wanted=f"shape {wanted.shape}, that of the primal")
    if wanted.dtype == dtypes.float0:
        if got_dtype != dtypes.float0:
            raise DTypeError(
                f"{what}: a value of dtype {type_of(primal).dtype} has tangents of dtype float0",
                got=f"a tangent of dtype {got_dtype}",
                wanted="np.zeros(shape, weft.dtypes.float0), or a floating-point primal",
                fix=Fix("float", "convert the primal to a floating-point dtype"),
            )
        return Zero(wanted)
    if got_dtype != wanted.dtype:
        if yields_to(type_of(tangent), wanted):
            return convert_element_type(tangent, wanted.dtype)
        message = f"{what}: the tangent has another dtype"
        got = f"a tangent of dtype {got_dtype}"
        fix = conversion(got_dtype, wanted.dtype, "the tangent")
        raise DTypeError(message, got=got, wanted=f"dtype {wanted.dtype}", fix=fix)
    return tangent


def _differentiable(leaves: Sequence[Any]) -> list[bool]:
    return [type_of(x).tangent().dtype != dtypes.float0 for x in leaves]


@dataclasses.dataclass(eq=False)
class LinearProgram:
    """A linear function without its residuals, the first inputs of `jaxpr`."""

    jaxpr: Jaxpr
    in_tree: Any
    in_types: list[ArrayType]
    out_tree: Any
    out_types: list[ArrayType]
    nonzero: list[bool]
    name: str


class LinearFunction(Generic[R]):
    """The derivative of a function at a point: call it with tangents, one per argument. `jaxpr` has
    the residuals as its first inputs; applying it redoes none of the work that computed them. It is
    a tree of its residuals, which a transformed function can return."""

    def __init__(self, program: LinearProgram, residuals: Sequence[Any]) -> None:
        self._program = program
        self.jaxpr, self.residuals = program.jaxpr, residuals
        self.__name__ = program.name

    def __call__(self, *tangents: Any) -> R:
        program, what = self._program, self.__name__
        types = [type.tangent() for type in program.in_types]
        leaves = tangent_leaves(tangents, program.in_tree, types, what, "linearize", "tangent")
        values = [x for x, type in zip(leaves, types, strict=True) if type.dtype != dtypes.float0]
        found = iter(eval_jaxpr(self.jaxpr, self.residuals, *values))
        outs = [
            derivative_of(type, next(found) if flag else Zero(type.tangent()))
            for flag, type in zip(program.nonzero, program.out_types, strict=True)
        ]
        result: R = program.out_tree.unflatten(outs)
        return result

    def __repr__(self) -> str:
        return f"<{self.__name__}>\n{self.jaxpr}"


pending_nodes.append(
    (LinearFunction, lambda f: (f.residuals, f._program), LinearFunction, None)
)  # not registered at once, which would load jaxlib


@overload
def linearize(  # type: ignore[overload-overlap]  # that of a parameter has_aux of `fun`
    fun: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Yes
) -> tuple[R, LinearFunction[R], Aux]: ...
@overload
def linearize(
    fun: Callable[P, R], *primals: P.args, **has_no_aux: P.kwargs
) -> tuple[R, LinearFunction[R]]: ...
@overload
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool) -> Any: ...
@api_boundary  # type: ignore[misc]  # mypy: *Any does not take P.args
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `fun(*primals)` and the linear function that is its derivative there.

    Applying the linear function to tangents (one per primal, of equal shapes and dtypes) costs only
    the linear work: the point's own computation is done once, here.

    Args:
        fun: The function to differentiate.
        primals: The arguments at which the derivative is taken.
        has_aux: Whether `fun` returns `(result, aux)`; `aux` is not differentiated.

    Returns `(result, f_lin)`, or `(result, f_lin, aux)` with `has_aux`.

    >>> import weft, weft.numpy as jnp
    >>> y, f_lin = weft.linearize(jnp.sin, 0.0)
    >>> f_lin(2.0)
    Array(2., dtype=float32, weak_type=True)
    """
    if has_references(tree.leaves(primals)):
        return _linearize_of_references(fun, primals, has_aux)
    what = f"linearize of {function_name(fun)}"
    leaves, in_tree = operands(primals, what)
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents, linear = linearize_flat(
        flat, leaves, _differentiable(leaves), "linearize", function_name(fun)
    )
    out_tree, aux = store
    jaxpr, residuals, nonzero = linear_program(linear, tangents)
    program = LinearProgram(
        jaxpr, in_tree, [type_of(x) for x in leaves],
        out_tree, [type_of(x) for x in outs], nonzero, f"linear part of {function_name(fun)}",
    )  # fmt: skip
    function: LinearFunction[Any] = LinearFunction(program, residuals)
    result = out_tree.unflatten(outs)
    return (result, function, aux) if has_aux else (result, function)


def _linearize_of_references(
    fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool
) -> Any:
    """`linearize` where references are among the primals: the linear function takes references in
    their places, and writes them as `fun` writes the primals."""
    leaves, in_tree = tree.flatten(primals)
    call = boxed_call("linearize", fun, leaves, in_tree, has_aux)
    derive: Callable[..., Any] = linearize
    (out, last), linear, *aux = derive(call.function, *call.arrays(), has_aux=has_aux)
    call.write(last)

    def function(linear: LinearFunction[Any], *tangents: Any) -> Any:
        given, structure = tree.flatten(tangents)
        tangent, last = linear(*structure.unflatten([array_in(x) for x in given]))
        for i, value in zip(call.places, last, strict=True):
            if type(given[i]) is Ref:
                given[i][...] = value
        return tangent

    return (out, tree.Partial(function, linear), *aux)


@overload
def vjp(fun: Callable[[Tree], R], primal: Tree, /) -> tuple[R, Callable[[Any], tuple[Tree]]]: ...
@overload
def vjp(
    fun: Callable[[Tree, Tree2], R], primal: Tree, other: Tree2, /
) -> tuple[R, Callable[[Any], tuple[Tree, Tree2]]]: ...
@overload
def vjp(  # type: ignore[overload-overlap]  # that of a parameter has_aux of `fun`
    fun: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Yes
) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...
@overload
def vjp(
    fun: Callable[P, R], *primals: P.args, **has_no_aux: P.kwargs
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool) -> Any: ...
@api_boundary  # type: ignore[misc]  # mypy: *Any does not take P.args
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `fun(*primals)` and the function from a cotangent of the result to those of the
    primals (a tuple, one per primal). That function is a tree of its residuals.

    Args:
        fun: The function to differentiate.
        primals: The arguments at which the derivative is taken.
        has_aux: Whether `fun` returns `(result, aux)`; `aux` is not differentiated.

    Returns `(result, f_vjp)`, or `(result, f_vjp, aux)` with `has_aux`.

    >>> import weft, weft.numpy as jnp
    >>> y, f_vjp = weft.vjp(jnp.sin, 0.0)
    >>> f_vjp(3.0)
    (Array(3., dtype=float32, weak_type=True),)
    """
    if has_references(tree.leaves(primals)):
        return _vjp_of_references(fun, primals, has_aux)
    result, pullback, aux = vjp_with_aux(fun, primals, "vjp", has_aux)
    return (result, pullback, aux) if has_aux else (result, pullback)


def _vjp_of_references(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool) -> Any:
    """`vjp` where references are among the primals: of the function of what they hold, which also
    returns what they hold in the end."""
    leaves, in_tree = tree.flatten(primals)
    call = boxed_call("vjp", fun, leaves, in_tree, has_aux)
    (out, last), pullback, aux = vjp_with_aux(call.function, call.arrays(), "vjp", has_aux)
    call.write(last)
    kind = PullbackOfReferences(in_tree, call.places, [type_of(x).tangent() for x in last])
    function = VJPFunction(kind, pullback)
    return (out, function, aux) if has_aux else (out, function)


def vjp_with_aux(
    fun: Callable[..., Any], primals: tuple[Any, ...], what: str, has_aux: bool
) -> tuple[Any, Callable[[Any], Any], Any]:
    """Does what `vjp` does; `what` names the caller in messages."""
    what = f"{what} of {function_name(fun)}"
    fun, primals = as_closure(what, fun, primals)
    leaves, in_tree = operands(primals, what)
    active = _differentiable(leaves)
    flat, store = flat_function(fun, in_tree, what, has_aux)
    outs, tangents, linear = linearize_flat(
        flat, leaves, active, what.split(" ")[0], function_name(fun)
    )
    out_tree, aux = store
    in_types = [type_of(x) for x in leaves]
    out_types = [type_of(x).tangent() for x in outs]

    outputs = [linear.atom(t) for t in tangents if type(t) is not Zero]
    variables = [var for var, _ in linear.consts.values()]
    residuals = [value for _, value in linear.consts.values()]

    @api_boundary("vjp")
    def pullback(residuals: list[Any], cotangent: Any) -> Any:
        """The cotangents of the primals, given that of the result."""
        leaves = tangent_leaves(cotangent, out_tree, out_types, what, "vjp", "cotangent")
        cts = [x for x, t in zip(leaves, tangents, strict=True) if type(t) is not Zero]
        known = dict(zip(variables, residuals, strict=True))
        found = iter(backward_pass(linear.eqns, linear.inputs, known, outputs, cts))
        results = [
            next(found) if flag else Zero(type.tangent())
            for flag, type in zip(active, in_types, strict=True)
        ]
        pairs = zip(in_types, results, strict=True)
        return in_tree.unflatten([derivative_of(type, x) for type, x in pairs])

    # A tree with the residuals as its leaves, so that a transformed function can return it and a
    # forward rule of `custom_vjp` can hand it on to the backward rule.
    return out_tree.unflatten(outs), VJPFunction(pullback, residuals), aux


# ---- grad --------------------------------------------------------------------------------------
# A type checker takes the gradient for a value of the type that the function declares for its
# argument: a tree of gradients is one of the same classes. More is known only of a ufunc, which
# takes whatever serves as an array.


@overload
def value_and_grad(  # type: ignore[overload-overlap]  # a ufunc is a function, too
    fun: UnaryUfunc, argnums: First = 0, has_aux: No = False, **how: Unpack[Gradient]
) -> Callable[[ArrayLike], tuple[Array, Array]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]  # with a function of any arguments
    fun: OfFirst[T, P, R], argnums: First = 0, has_aux: bool = False, **how: Unpack[Gradient]
) -> OfFirst[T, P, tuple[R, T]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]  # with a function of any arguments
    fun: OfTwo[S, T, P, R], argnums: Second, has_aux: bool = False, **how: Unpack[Gradient]
) -> OfTwo[S, T, P, tuple[R, T]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]  # pairs are sequences, too
    fun: OfTwo[S, T, P, R], argnums: Both, has_aux: bool = False, **how: Unpack[Gradient]
) -> OfTwo[S, T, P, tuple[R, tuple[S, T]]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R], argnums: Argnums, has_aux: bool = False, **how: Unpack[Gradient]
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[..., R], argnums: Argnums = 0, has_aux: bool = False, **how: Unpack[Gradient]
) -> Callable[..., tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any: ...
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that computes `fun` and its gradient.

    Args:
        fun: The function, whose result is a real scalar.
        argnums: The positions of the arguments to differentiate with respect to. An int gives one
            gradient, a sequence gives a tuple of them.
        has_aux: Whether `fun` returns `(value, aux)`. The result is then
            `((value, aux), gradient)`.
        holomorphic: Whether `fun` is holomorphic, with complex arguments and results.
        allow_int: Whether integer arguments get float0 gradients instead of an error.
        reduce_axes: Must be empty: JAX has given it up, and other values raise
            WeftNotImplementedError.

    >>> import weft
    >>> weft.value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    if not callable(fun):
        raise not_a_function("grad", fun)
    if reduce_axes:
        why = "types say where gradients are summed"
        fix = "leave it out; where a sum is wanted, take it: weft.lax.psum(gradient, 'i')"
        raise unsupported_argument("grad", "reduce_axes", reduce_axes, why, fix, wanted=())
    numbers, name = numbers_of(argnums, "grad"), function_name(fun)

    @api_boundary("grad")
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, indices = chosen_arguments("grad", fun, numbers, args, kwargs)
        check_grad_inputs(chosen, indices, name, holomorphic, allow_int)
        value, pullback, aux = vjp_with_aux(partial, chosen, "grad", has_aux)
        check_grad_result(value, name, holomorphic)
        aval = type_of(value)
        one = aval.dtype.type(1)
        number = one.item()  # a Python number, where that is what the function gave
        weak = aval.weak_type and aval.dtype == dtypes.of_scalar(number)
        gradients = pullback(number if weak else one)
        return ((value, aux) if has_aux else value), one_or_all(argnums, gradients)

    return like(fun, value_and_gradient)


@overload
def grad(
    fun: UnaryUfunc, argnums: First = 0, has_aux: No = False, **how: Unpack[Gradient]
) -> Callable[[ArrayLike], Array]: ...
@overload
def grad(
    fun: OfFirst[T, P, Any], argnums: First = 0, has_aux: No = False, **how: Unpack[Gradient]
) -> OfFirst[T, P, T]: ...
@overload
def grad(
    fun: OfTwo[S, T, P, Any], argnums: Second, has_aux: No = False, **how: Unpack[Gradient]
) -> OfTwo[S, T, P, T]: ...
@overload
def grad(
    fun: OfTwo[S, T, P, Any], argnums: Both, has_aux: No = False, **how: Unpack[Gradient]
) -> OfTwo[S, T, P, tuple[S, T]]: ...
@overload
def grad(
    fun: OfFirst[T, P, tuple[Any, Aux]],
    argnums: First = 0,
    *,
    has_aux: Yes,
    **how: Unpack[Gradient],
) -> OfFirst[T, P, tuple[T, Aux]]: ...
@overload
def grad(
    fun: Callable[P, Any], argnums: Argnums, has_aux: bool = False, **how: Unpack[Gradient]
) -> Callable[P, Any]: ...
@overload
def grad(
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Any: ...
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that computes the gradient of `fun`, which returns a real scalar.

    Args:
        fun: The function, whose result is a real scalar.
        argnums: The positions of the arguments to differentiate with respect to. An int gives one
            gradient, a sequence gives a tuple of them.
        has_aux: Whether `fun` returns `(value, aux)`. The result is then `(gradient, aux)`.
        holomorphic: Whether `fun` is holomorphic, with complex arguments and results.
        allow_int: Whether integer arguments get float0 gradients instead of an error.
        reduce_axes: Must be empty: JAX has given it up, and other values raise
            WeftNotImplementedError.

    >>> import weft, weft.numpy as jnp
    >>> weft.grad(jnp.tanh)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    both: Callable[..., Any] = value_and_grad(
        fun, argnums, has_aux, holomorphic, allow_int, reduce_axes
    )

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return like(fun, gradient)


@overload
def linear_transpose(
    fun: Callable[[Tree], Any], primal: Tree, /
) -> Callable[[Any], tuple[Tree]]: ...
@overload
def linear_transpose(
    fun: Callable[..., Any], *primals: Any
) -> Callable[[Any], tuple[Any, ...]]: ...
@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a function that is linear in all its arguments.

    fun: a function of arrays or trees of these. `primals` give the types only (arrays or
    ShapeDtypeStructs). The transpose takes a cotangent of the result and returns a tuple of
    cotangents, one per argument. Raises MissingRuleError or WeftTypeError when called, where the
    function applies an operation that is not linear.

    >>> import weft
    >>> weft.linear_transpose(lambda x: 3.0 * x, 1.0)(2.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    name = function_name(fun)
    what = f"linear_transpose of {name}"
    leaves, in_tree = tree.flatten(primals)
    in_types = [described_type(x) for x in leaves]
    integers = all(type.dtype in dtypes.INTEGER for type in in_types)
    if not integers:
        in_types = [type.tangent() for type in in_types]
    flat, store = flat_function(fun, in_tree, what)
    jaxpr, consts = trace_to_jaxpr(flat, in_types, transformation="linear_transpose", name=name)
    out_tree = store[0]
    bad = [type for type in jaxpr.out_types if integers and type.dtype not in dtypes.INTEGER]
    if bad:
        # Cotangents of integers are integers here: those of floating-point results do not fit.
        message = f"{what}: integer arguments have no transpose to floating-point results"
        wanted = "integer results, or floating-point arguments"
        fix = Fix("convert", "give the arguments a floating-point dtype")
        raise DTypeError(message, got=bad[0], wanted=wanted, fix=fix)

    @api_boundary("linear_transpose")
    def transposed(consts: list[Any], cotangent: Any) -> Any:
        """The cotangents of the arguments, given that of the result."""
        cts = tangent_leaves(
            cotangent, out_tree, jaxpr.out_types, what, "linear_transpose", "cotangent"
        )
        n = len(consts)
        known = dict(zip(jaxpr.inputs[:n], consts, strict=True))
        found = backward_pass(jaxpr.eqns, jaxpr.inputs[n:], known, jaxpr.outputs, cts)
        pairs = zip(in_types, found, strict=True)
        return in_tree.unflatten([derivative_of(type, x) for type, x in pairs])

    # A tree of what the function closes over, so that a transformed function can return it.
    return tree.Partial(transposed, consts)
