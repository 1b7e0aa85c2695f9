"""Jacobians and Hessians: `jacfwd`, `jacrev`, `hessian`, each a vmap over a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Never, Unpack, overload

import numpy as np

from weft import dtypes, tree
from weft.api.autodiff import flat_function, vjp_with_aux
from weft.api.gradient_arguments import (
    Argnums,
    Aux,
    Both,
    First,
    Forward,
    No,
    OfFirst,
    OfTwo,
    P,
    R,
    Reverse,
    S,
    Second,
    T,
    Yes,
    chosen_arguments,
    numbers_of,
    one_or_all,
    operands,
)
from weft.arrays.array import Array, put
from weft.base.util import like
from weft.core.rules import AxisData
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, api_boundary
from weft.interpreters.jvp import jvp_flat
from weft.interpreters.staging import function_name
from weft.interpreters.vmap import vmap_flat
from weft.numpy.promotion import UnaryUfunc
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.shape import move_dim, reshape, transpose
from weft.ops.structural.tangents import instantiate
from weft.typing import ArrayLike


def _basis(leaves: Sequence[Any]) -> list[Any]:
    """For each leaf the standard basis of all leaves together, along a first dimension. Where the
    leaves have no elements, one vector of no elements stands for the basis."""
    total = sum(type_of(x).size for x in leaves)
    out, start = [], 0
    for leaf in leaves:
        aval = type_of(leaf)
        rows = np.zeros((max(total, 1), aval.size), aval.dtype)
        rows[start : start + aval.size] = np.eye(aval.size, dtype=aval.dtype)
        shape = (max(total, 1), *aval.shape)
        out.append(put(rows.reshape(shape), ArrayType(shape, aval.dtype, aval.weak_type)))
        start += aval.size
    return out


def _split_basis(values: Any, leaves: Sequence[Any]) -> list[Any]:
    """One piece per leaf of the first dimension of `values`, which gets the shape of the leaf."""
    out, start = [], 0
    shape = type_of(values).shape
    for leaf in leaves:
        aval = type_of(leaf)
        piece = slice_in_dim(values, start, start + aval.size, axis=0)
        out.append(reshape(piece, aval.shape + shape[1:]))
        start += aval.size
    return out


def _over_basis(
    function: Callable[..., list[Any]], leaves: Sequence[Any], name: str
) -> tuple[list[Any], Sequence[int | None], int]:
    """The function's results for each vector of the basis, their mapped dimensions, and length."""
    basis = _basis(leaves)
    total = type_of(basis[0]).shape[0] if basis else 1
    axis = AxisData(None, total)
    return (*vmap_flat(function, axis, basis, [0] * len(leaves), name), total)


def _other_values(dtype: Any, holomorphic: bool) -> Fix:
    if holomorphic:
        return Fix("convert", "convert the values to complex64, or leave holomorphic out")
    if dtype in dtypes.COMPLEX:
        text = "pass holomorphic=True for a holomorphic function, else real and imaginary parts"
        return Fix("holomorphic", text)
    return Fix("convert", "convert the values to a floating-point dtype")


def _check_jacobian(
    what: str, leaves: Sequence[Any], holomorphic: bool, allowed: Set[Any] = frozenset()
) -> None:
    for leaf in leaves:
        dtype = type_of(leaf).dtype
        wanted = dtypes.COMPLEX if holomorphic else dtypes.FLOATING
        if dtype not in wanted and dtype not in allowed:
            raise DTypeError(
                f"{what} takes {'complex' if holomorphic else 'floating-point'} values here",
                got=f"dtype {dtypes.short_name(dtype)}",
                wanted=", ".join(sorted(d.name for d in wanted)),
                fix=_other_values(dtype, holomorphic),
            )


# What a type checker knows of a Jacobian: a function from an array has Jacobians that make the tree
# of its results, a function to an array those that make the tree of its argument. Nothing is known
# where the function returns `Any`: only such a one passes for a function that never returns.
# The last signature matches nothing that the ones before it do not; it lets mypy say `Any` of the
# Jacobian of a lambda, where it finds several that match, and not that it calls what has no types.
@overload
def jacfwd(  # type: ignore[overload-overlap]  # a ufunc is a function of arrays, too
    fun: UnaryUfunc, argnums: First = 0, has_aux: No = False, **how: Unpack[Forward]
) -> Callable[[ArrayLike], Array]: ...
@overload
def jacfwd(
    fun: OfFirst[T, P, Never], argnums: First = 0, has_aux: bool = False, **how: Unpack[Forward]
) -> OfFirst[T, P, Any]: ...
@overload
def jacfwd(
    fun: OfFirst[T, P, Array], argnums: First = 0, has_aux: No = False, **how: Unpack[Forward]
) -> OfFirst[T, P, T]: ...
@overload
def jacfwd(
    fun: OfFirst[Array, P, R], argnums: First = 0, has_aux: No = False, **how: Unpack[Forward]
) -> OfFirst[Array, P, R]: ...
@overload
def jacfwd(
    fun: OfTwo[S, T, P, Array], argnums: Second, has_aux: No = False, **how: Unpack[Forward]
) -> OfTwo[S, T, P, T]: ...
@overload
def jacfwd(
    fun: OfTwo[S, T, P, Array], argnums: Both, has_aux: No = False, **how: Unpack[Forward]
) -> OfTwo[S, T, P, tuple[S, T]]: ...
@overload
def jacfwd(
    fun: OfFirst[T, P, tuple[Array, Aux]],
    argnums: First = 0,
    *,
    has_aux: Yes,
    **how: Unpack[Forward],
) -> OfFirst[T, P, tuple[T, Aux]]: ...
@overload
def jacfwd(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, **how: Unpack[Forward]
) -> Callable[P, Any]: ...
@overload
def jacfwd(  # for lambdas
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Any: ...
def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `fun` column by column, in forward mode.

    For a result of shape S and an argument of shape T the Jacobian has shape S + T; trees give
    trees of Jacobians, results outside, arguments inside. Cheap where there are few inputs.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate with respect to. An int gives one
            Jacobian, a sequence gives a tuple of them.
        has_aux: Whether `fun` returns `(result, aux)`. The result is then `(jacobian, aux)`.
        holomorphic: Whether `fun` is holomorphic, with complex arguments and results.

    >>> import weft, weft.numpy as jnp
    >>> weft.jacfwd(lambda x: x * x)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    numbers, name = numbers_of(argnums, "jacfwd"), function_name(fun)

    @api_boundary("jacfwd")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, _ = chosen_arguments("jacfwd", fun, numbers, args, kwargs)
        leaves, in_tree = operands(chosen, f"jacfwd of {name}")
        _check_jacobian("jacfwd", leaves, holomorphic)
        flat, store = flat_function(partial, in_tree, f"jacfwd of {name}", has_aux)

        def columns(*tangents: Any) -> list[Any]:
            outs, found = jvp_flat(flat, leaves, tangents, name)
            aux_leaves, aux_tree = tree.flatten(store[1])
            store[1] = aux_tree
            return [*[instantiate(t) for t in found], *aux_leaves]

        mapped, dims, total = _over_basis(columns, leaves, name)
        out_tree, aux_tree = store
        n = out_tree.num_leaves
        found = []
        for value, dim in zip(mapped[:n], dims[:n], strict=True):
            pieces = _split_basis(move_dim(value, dim, 0, total), leaves)
            row = [_inputs_last(x, leaf) for x, leaf in zip(pieces, leaves, strict=True)]
            found.append(one_or_all(argnums, in_tree.unflatten(row)))
        result = out_tree.unflatten(found)
        return (result, aux_tree.unflatten(mapped[n:])) if has_aux else result

    return like(fun, jacobian_of)


def _inputs_last(piece: Any, leaf: Any) -> Any:
    """The first dimensions of a piece, those of the leaf, moved to the end."""
    ndim, leading = type_of(piece).ndim, type_of(leaf).ndim
    return transpose(piece, (*range(leading, ndim), *range(leading)))


@overload
def jacrev(  # type: ignore[overload-overlap]  # a ufunc is a function of arrays, too
    fun: UnaryUfunc, argnums: First = 0, has_aux: No = False, **how: Unpack[Reverse]
) -> Callable[[ArrayLike], Array]: ...
@overload
def jacrev(
    fun: OfFirst[T, P, Never], argnums: First = 0, has_aux: bool = False, **how: Unpack[Reverse]
) -> OfFirst[T, P, Any]: ...
@overload
def jacrev(
    fun: OfFirst[T, P, Array], argnums: First = 0, has_aux: No = False, **how: Unpack[Reverse]
) -> OfFirst[T, P, T]: ...
@overload
def jacrev(
    fun: OfFirst[Array, P, R], argnums: First = 0, has_aux: No = False, **how: Unpack[Reverse]
) -> OfFirst[Array, P, R]: ...
@overload
def jacrev(
    fun: OfTwo[S, T, P, Array], argnums: Second, has_aux: No = False, **how: Unpack[Reverse]
) -> OfTwo[S, T, P, T]: ...
@overload
def jacrev(
    fun: OfTwo[S, T, P, Array], argnums: Both, has_aux: No = False, **how: Unpack[Reverse]
) -> OfTwo[S, T, P, tuple[S, T]]: ...
@overload
def jacrev(
    fun: OfFirst[T, P, tuple[Array, Aux]],
    argnums: First = 0,
    *,
    has_aux: Yes,
    **how: Unpack[Reverse],
) -> OfFirst[T, P, tuple[T, Aux]]: ...
@overload
def jacrev(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, **how: Unpack[Reverse]
) -> Callable[P, Any]: ...
@overload
def jacrev(  # for lambdas
    fun: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `fun` row by row, in reverse mode.

    Shapes and trees as for `jacfwd`. Cheap where there are few results.

    Args:
        fun: The function to differentiate.
        argnums: The positions of the arguments to differentiate with respect to. An int gives one
            Jacobian, a sequence gives a tuple of them.
        has_aux: Whether `fun` returns `(result, aux)`. The result is then `(jacobian, aux)`.
        holomorphic: Whether `fun` is holomorphic, with complex arguments and results.
        allow_int: Whether integer arguments get float0 Jacobians instead of an error.

    >>> import weft, weft.numpy as jnp
    >>> weft.jacrev(lambda x: x * x)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """
    numbers, name = numbers_of(argnums, "jacrev"), function_name(fun)

    @api_boundary("jacrev")
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, _ = chosen_arguments("jacrev", fun, numbers, args, kwargs)
        leaves, in_tree = operands(chosen, f"jacrev of {name}")
        # A real function of complex arguments has gradients, as for `grad`.
        allowed = (dtypes.BITS if allow_int else set()) | (set() if holomorphic else dtypes.COMPLEX)
        _check_jacobian("jacrev", leaves, holomorphic, allowed)
        value, pullback, aux = vjp_with_aux(partial, chosen, "jacrev", has_aux)
        outs, out_tree = tree.flatten(value)
        _check_jacobian("jacrev", outs, holomorphic)

        def rows(*cotangents: Any) -> list[Any]:
            return tree.leaves(pullback(out_tree.unflatten(cotangents)))

        mapped, dims, total = _over_basis(rows, outs, name)
        whole = [move_dim(x, dim, 0, total) for x, dim in zip(mapped, dims, strict=True)]
        pieces = [_split_basis(x, outs) for x in whole]
        rows_out = [in_tree.unflatten([column[i] for column in pieces]) for i in range(len(outs))]
        result = out_tree.unflatten([one_or_all(argnums, row) for row in rows_out])
        return (result, aux) if has_aux else result

    return like(fun, jacobian_of)


jacobian = jacrev


@overload
def hessian(  # type: ignore[overload-overlap]  # a ufunc is a function of arrays, too
    fun: UnaryUfunc, argnums: First = 0, has_aux: No = False, **how: Unpack[Forward]
) -> Callable[[ArrayLike], Array]: ...
@overload
def hessian(
    fun: OfFirst[T, P, Never], argnums: First = 0, has_aux: bool = False, **how: Unpack[Forward]
) -> OfFirst[T, P, Any]: ...
@overload
def hessian(
    fun: OfFirst[Array, P, R], argnums: First = 0, has_aux: No = False, **how: Unpack[Forward]
) -> OfFirst[Array, P, R]: ...
@overload
def hessian(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, **how: Unpack[Forward]
) -> Callable[P, Any]: ...
@overload
def hessian(  # for lambdas
    fun: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False
) -> Any: ...
def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that computes the matrix of second derivatives of `fun`: `jacfwd` of `jacrev`.

    Args:
        fun: The function, whose result is usually a scalar.
        argnums: The positions of the arguments to differentiate with respect to. A sequence gives a
            tuple of tuples, one block per pair of arguments.
        has_aux: Whether `fun` returns `(result, aux)`. The result is then `(hessian, aux)`.
        holomorphic: Whether `fun` is holomorphic, with complex arguments and results.

    >>> import weft, weft.numpy as jnp
    >>> weft.hessian(lambda x: (x**3).sum())(jnp.array([1.0, 2.0]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
