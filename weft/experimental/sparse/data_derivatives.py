"""Derivatives by sparse arrays: of their data, in the structure of the argument."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft import tree
from weft.api import autodiff
from weft.api import jacobian as dense_jacobian
from weft.core.types import type_of
from weft.errors import WeftNotImplementedError
from weft.errors.argument_errors import refusal
from weft.experimental.sparse.base import JAXSparse
from weft.experimental.sparse.bcoo_array import BCOO

Function = Callable[..., Any]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def _with_data(x: Any, data: Any) -> Any:
    """A sparse array with other data."""
    (_, *rest), info = x.tree_flatten()
    return type(x).tree_unflatten(info, (data, *rest))


def _data_of(value: Any) -> Any:
    return tree.map(lambda x: x.data if _is_sparse(x) else x, value, is_leaf=_is_sparse)


def _by_data(
    transformation: Function, fun: Function, argnums: int | Sequence[int], has_aux: bool,
    options: dict[str, Any],
) -> tuple[Function, Function]:  # fmt: skip
    """The transformation of `fun` with the data of its sparse arguments in their place, and a
    function that puts data into the arguments' structure."""

    def call(*args: Any, **kwargs: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        given = {n % len(args): args[n] for n in numbers}

        def of_data(*values: Any, **named: Any) -> Any:
            full = list(values)
            for n, arg in given.items():
                full[n] = tree.map(
                    lambda x, data: _with_data(x, data) if _is_sparse(x) else data,
                    arg, values[n], is_leaf=_is_sparse,
                )  # fmt: skip
            return fun(*full, **named)

        data = [_data_of(x) if i in given else x for i, x in enumerate(args)]
        transformed = transformation(of_data, argnums=argnums, has_aux=has_aux, **options)
        return transformed(*data, **kwargs)

    def restore(args: Sequence[Any], found: Any, put: Function) -> Any:
        if isinstance(argnums, int):
            return put(args[argnums], found)
        return tuple(put(args[n], x) for n, x in zip(argnums, found, strict=True))

    return call, restore


def _gradients(arg: Any, found: Any) -> Any:
    def one(x: Any, data: Any) -> Any:
        return _with_data(x, data) if _is_sparse(x) else data

    return tree.map(one, arg, found, is_leaf=_is_sparse)


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`weft.value_and_grad` of a function of trees with sparse arrays.

    The gradient by a sparse array is one of the same structure: the derivatives by its elements.

    >>> from weft.experimental import sparse
    >>> sparse.value_and_grad(lambda m: (m @ jnp.ones(2)).sum())(sparse.eye(2))
    (Array(2., dtype=float32), BCOO(float32[2, 2], nse=2))
    """
    call, restore = _by_data(autodiff.value_and_grad, fun, argnums, has_aux, kwargs)

    @functools.wraps(fun, updated=())
    def differentiated(*args: Any, **named: Any) -> tuple[Any, Any]:
        value, found = call(*args, **named)
        return value, restore(args, found, _gradients)

    return differentiated


def grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`weft.grad` of a function of trees with sparse arrays: see `value_and_grad`.

    >>> from weft.experimental import sparse
    >>> sparse.grad(lambda m: (m @ jnp.arange(2.0)).sum())(sparse.eye(2)).data
    Array([0., 1.], dtype=float32)
    """
    call, restore = _by_data(autodiff.grad, fun, argnums, has_aux, kwargs)

    @functools.wraps(fun, updated=())
    def differentiated(*args: Any, **named: Any) -> Any:
        found = call(*args, **named)
        if has_aux:
            return restore(args, found[0], _gradients), found[1]
        return restore(args, found, _gradients)

    return differentiated


def _jacobian_of(x: Any, data: Any) -> Any:
    """The derivatives of one result by the elements of an argument: the result's dimensions become
    leading batch dimensions."""
    if not _is_sparse(x):
        return data
    if not isinstance(x, BCOO):
        message = "the Jacobian by a sparse array takes a BCOO"
        raise refusal(WeftNotImplementedError, message, "jacobian", repr(x), "a BCOO")
    outer = type_of(data).shape[: type_of(data).ndim - type_of(x.data).ndim]
    indices = x.indices if not outer else jnp.broadcast_to(
        x.indices, (*[1] * len(outer), *type_of(x.indices).shape)
    )  # fmt: skip
    return BCOO.tree_unflatten(x._info._replace(shape=(*outer, *x.shape)), (data, indices))


def _jacobian_by(transformation: Function) -> Function:
    def jacobian(
        fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
    ) -> Function:
        call, restore = _by_data(transformation, _dense_results(fun, has_aux), argnums, has_aux,
                                 kwargs)  # fmt: skip

        @functools.wraps(fun, updated=())
        def differentiated(*args: Any, **named: Any) -> Any:
            found = call(*args, **named)
            found, *aux = found if has_aux else (found,)
            chosen = args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in argnums)
            structure = tree.flatten(chosen, is_leaf=_is_sparse)[1]

            def jacobian_of(one: Any) -> Any:
                jacobians = functools.partial(tree.map, _jacobian_of, is_leaf=_is_sparse)
                return restore(args, one, jacobians)

            by_result = tree.map(
                jacobian_of, found, is_leaf=lambda x: tree.structure(x) == structure
            )
            return (by_result, *aux) if aux else by_result

        return differentiated

    return jacobian


def _dense_results(fun: Function, has_aux: bool) -> Function:
    """The function, with WeftNotImplementedError where a result is sparse."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        results = out[0] if has_aux else out
        if any(map(_is_sparse, tree.leaves(results, is_leaf=_is_sparse))):
            message = "the Jacobian of a sparse result is not known"
            wanted = "a function with dense results"
            raise refusal(WeftNotImplementedError, message, "jacobian", repr(results)[:100], wanted)
        return out

    return checked


_forward = _jacobian_by(dense_jacobian.jacfwd)
_reverse = _jacobian_by(dense_jacobian.jacrev)


def jacfwd(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`weft.jacfwd` of a function of trees with BCOOs and dense results.

    The Jacobian by a BCOO is one with the result's dimensions as batch dimensions in front.

    >>> from weft.experimental import sparse
    >>> sparse.jacfwd(lambda m: m @ jnp.ones(2))(sparse.eye(2))
    BCOO(float32[2, 2, 2], nse=2, n_batch=1)
    """
    out: Function = _forward(fun, argnums, has_aux, **kwargs)
    return out


def jacrev(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`weft.jacrev` of a function of trees with BCOOs and dense results: see `jacfwd`."""
    out: Function = _reverse(fun, argnums, has_aux, **kwargs)
    return out


jacobian = jacrev
