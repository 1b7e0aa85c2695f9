"""`custom_partitioning`: functions with a rule for how they are divided over devices.

XLA divides what weft compiles, and takes no rules from Python. A function is divided as its
operations are: its values are the same, and its rule is not called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.api.jit import jit
from weft.base.facades import public_names

__all__ = [
    "ArrayMapping", "BATCHING", "CompoundFactor", "SdyShardingRule", "custom_partitioning",
]  # fmt: skip

__dir__ = public_names(globals())

BATCHING = "…"


class CompoundFactor(tuple[str, ...]):
    """Several factors that make one dimension.

    Args:
        factors: The names of the factors, the slowest first.
    """

    def __new__(cls, *factors: str) -> CompoundFactor:
        return super().__new__(cls, factors)


class ArrayMapping(tuple[Any, ...]):
    """The factors of the dimensions of one array.

    Args:
        dimensions: The factor of each dimension: a name, or a `CompoundFactor`.
    """

    def __new__(cls, *dimensions: Any) -> ArrayMapping:
        return super().__new__(cls, dimensions)


class SdyShardingRule(NamedTuple):
    """The factors of operands and results, and the sizes of factors.

    Args:
        operand_mappings: The factors of each operand.
        result_mappings: The factors of each result.
        factor_sizes: The sizes of factors that no dimension alone shows, by name.
    """

    operand_mappings: Sequence[ArrayMapping]
    result_mappings: Sequence[ArrayMapping]
    factor_sizes: dict[str, int] = {}


class custom_partitioning:
    """A function with a rule for its partitioning: computed as `weft.jit` of it.

    Args:
        fun: A function of arrays.
        static_argnums: The positions of arguments that are no arrays, as for `weft.jit`.

    >>> from weft.experimental.custom_partitioning import custom_partitioning
    >>> f = custom_partitioning(lambda x: 2 * x)
    >>> f.def_partition(partition=None, sharding_rule="i -> i")
    >>> f(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """

    def __init__(self, fun: Callable[..., Any], static_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.static_argnums = tuple(static_argnums)
        self.rules: dict[str, Any] = {}
        self._jitted = jit(fun, static_argnums=self.static_argnums)

    def def_partition(self, partition: Any = None, *args: Any, **rules: Any) -> None:
        """Keeps the rules, which are not called."""
        self.rules = {"partition": partition, "arguments": args, **rules}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(*args, **kwargs)
