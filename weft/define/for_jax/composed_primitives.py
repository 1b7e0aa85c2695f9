"""Primitives of JAX's that are not primitives in weft: `bind` calls the function that does the
same.

Rules can be set for them, for other systems that have them; no jaxpr of weft's ever holds one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.numpy as jnp
from weft.api.device_put import device_put
from weft.api.vmap import vmap
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.ops.linalg.rank_updates import cholesky_update, symmetric_product
from weft.ops.reductions.sorting import approx_max_k, approx_min_k
from weft.ops.structural.shape import squeeze
from weft.random.keys import fold_in, key, key_data, split, wrap_key_data
from weft.random.uniforms import bits


class ComposedPrimitive(Primitive):
    """A primitive whose application is that of a function of other operations.

    >>> from weft.define.for_jax.composed_primitives import COMPOSED
    >>> COMPOSED["squeeze_p"].bind(np.ones((1, 3)), dimensions=(0,)).shape
    (3,)
    """

    __slots__ = ("function",)

    def __init__(
        self, name: str, function: Callable[..., Any], multiple_results: bool = False
    ) -> None:
        super().__init__(name, multiple_results)
        self.function = function

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the function: arrays are positional, parameters are keywords."""
        return self.function(*args, **params)


def _each(function: Callable[..., Any], *arrays: Any) -> Any:
    """The function of single elements, mapped over all dimensions of the first array."""
    for _ in range(type_of(arrays[0]).ndim):
        function = vmap(function)
    return function(*arrays)


def _approx_top_k(
    operand: Any, *, k: int, reduction_dimension: int, is_max_k: bool, **how: Any
) -> list[Any]:
    return list(
        (approx_max_k if is_max_k else approx_min_k)(operand, k, reduction_dimension, **how)
    )


def _device_put(*values: Any, devices: Any, srcs: Any = (), copy_semantics: Any = ()) -> list[Any]:
    return [device_put(x, place) for x, place in zip(values, devices, strict=True)]


def _random_fold_in(random_keys: Any, messages: Any) -> Any:
    random_keys, messages = jnp.broadcast_arrays(random_keys, messages)
    return _each(fold_in, random_keys, messages)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky_update_p": cholesky_update,
    "copy_p": jnp.copy,
    "random_bits_p": lambda random_keys, *, bit_width, shape: _each(
        lambda one: bits(one, shape, f"uint{bit_width}"), random_keys
    ),
    "random_fold_in_p": _random_fold_in,
    "random_seed_p": lambda seeds, *, impl: _each(lambda seed: key(seed, impl=impl), seeds),
    "random_split_p": lambda random_keys, *, shape: _each(
        lambda one: split(one, shape), random_keys
    ),
    "random_unwrap_p": key_data,
    "random_wrap_p": lambda data, *, impl: wrap_key_data(data, impl=impl),
    "squeeze_p": lambda x, *, dimensions: squeeze(x, dimensions),
    "symmetric_product_p": symmetric_product,
    "tile_p": lambda x, *, reps: jnp.tile(x, reps),
}

# By JAX's names.
COMPOSED: dict[str, ComposedPrimitive] = {
    **{
        name: ComposedPrimitive(name.removesuffix("_p"), function)
        for name, function in _FUNCTIONS.items()
    },
    "approx_top_k_p": ComposedPrimitive("approx_top_k", _approx_top_k, multiple_results=True),
    "device_put_p": ComposedPrimitive("device_put", _device_put, multiple_results=True),
}
