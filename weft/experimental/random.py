"""Random generators with state: each draw uses a new key and advances a counter.

The n-th draw uses `fold_in(base key, n)`, where a reference holds n. Functions that draw can
therefore be compiled, mapped and differentiated, like all functions that write to references
(docs/references.md).
"""

from __future__ import annotations

import dataclasses
import operator
import secrets
from collections.abc import Sequence
from typing import Any

import weft.numpy as jnp
from weft import random
from weft.base.facades import public_names
from weft.define.for_jax.foreign_traces import trace_state_clean
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.errors.argument_errors import refusal
from weft.refs.reference import Ref, new_ref
from weft.tree import register_dataclass
from weft.typing import Array

__all__ = ["StatefulPRNG", "stateful_rng"]

__dir__ = public_names(globals())


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a draw: the given size, or the broadcast shape of the parameters."""
    if size is None:
        return tuple(jnp.broadcast_shapes(*(jnp.shape(parameter) for parameter in parameters)))
    return tuple(size) if isinstance(size, Sequence) else (operator.index(size),)


def _count(operation: str, count: Any) -> int:
    if (count := operator.index(count)) < 0:
        fix = Fix("count", "pass a count of at least 0", {"count": 0})
        message = "the number of generators is negative"
        raise refusal(WeftValueError, message, operation, str(count), "at least 0", fix)
    return count


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class StatefulPRNG:
    """A random generator with state; made by `stateful_rng`.

    A container of its key and of the reference to its counter. Like references, a generator cannot
    be returned from a traced function, nor be in the carry of a loop.

    Args:
        _base_key: The key from which all others are made.
        _counter: A reference to the number of keys made so far.
    """

    _base_key: Array
    _counter: Ref

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A new key, or an array of new keys of a shape.

        >>> from weft.experimental.random import stateful_rng
        >>> stateful_rng(0).key((2, 3)).shape
        (2, 3)
        """
        count = self._counter[...]
        self._counter[...] = count + 1
        key = random.fold_in(self._base_key, count)
        wanted = _shape(shape)
        return random.split(key, wanted) if wanted else key

    def random(self, size: int | Sequence[int] | None = None, dtype: Any = float) -> Array:
        """Numbers uniform in [0, 1), of a shape, by default ()."""
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self,
        low: Any = 0,
        high: Any = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = float,
    ) -> Array:
        """Numbers uniform in [low, high), of a shape, by default that of the bounds together.

        >>> from weft.experimental.random import stateful_rng
        >>> stateful_rng(0).uniform(0, jnp.array([1.0, 2.0])).shape
        (2,)
        """
        return random.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(
        self,
        loc: Any = 0,
        scale: Any = 1,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = float,
    ) -> Array:
        """Normal numbers of a mean and a standard deviation, of a shape, by default that of both.

        >>> from weft.experimental.random import stateful_rng
        >>> stateful_rng(0).normal(10, 2, (2, 3)).shape
        (2, 3)
        """
        shape = _shape(size, loc, scale)
        return jnp.add(loc, jnp.multiply(scale, random.normal(self.key(), shape, dtype)))

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: int | Sequence[int] | None = None,
        *,
        dtype: Any = int,
    ) -> Array:
        """Integers uniform in [low, high), or without `high` in [0, low).

        >>> from weft.experimental.random import stateful_rng
        >>> bool((stateful_rng(0).integers(6, size=100) < 6).all())
        True
        """
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of independent generators. Raises WeftValueError for a negative number of them.

        >>> from weft.experimental.random import stateful_rng
        >>> len(stateful_rng(0).spawn(3))
        3
        """
        count = _count("StatefulPRNG.spawn", n_children)
        keys = random.split(self.key(), count)
        return [StatefulPRNG(keys[i], new_ref(jnp.asarray(0))) for i in range(count)]

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """One generator whose key and counter have leading axes, to be mapped over.

        >>> import weft
        >>> from weft.experimental.random import stateful_rng
        >>> weft.vmap(lambda rng, x: x + rng.uniform())(
        ...     stateful_rng(0).split(3), jnp.zeros(3)
        ... ).shape
        (3,)
        """
        shape = tuple(_count("StatefulPRNG.split", count) for count in _shape(num))
        return StatefulPRNG(random.split(self.key(), shape), new_ref(jnp.zeros(shape, int)))


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator with state, from an integer seed; without one, from the system's randomness.

    `impl` names the generator of bits, as in `weft.random.key`. Raises WeftTypeError without a seed
    in a traced function, where the system's draw would be made once for all calls.

    Args:
        seed: An integer; None for the system's randomness.

    >>> from weft.experimental.random import stateful_rng
    >>> rng = stateful_rng(0)
    >>> bool(rng.uniform() == rng.uniform())
    False
    """
    if seed is None:
        if not trace_state_clean():
            message = "in a traced function a generator needs a seed"
            fix = Fix("seed", "pass an integer, or an argument of the function", {"seed": 0})
            raise refusal(WeftTypeError, message, "stateful_rng", "None", "an integer", fix)
        seed = secrets.randbits(31)
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(jnp.asarray(0)))
