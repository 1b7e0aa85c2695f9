"""`jax._src.numpy.einsum`: the contractions that opt_einsum has ordered, one after the other."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

from weft import numpy
from weft.lax import dot_general

__all__ = ["einsum", "einsum_path"]

einsum, einsum_path = numpy.einsum, numpy.einsum_path


def in_letters(subscripts: str) -> str:
    """The subscripts with a letter for each label, which opt_einsum lets be any character."""
    labels = dict.fromkeys(c for c in subscripts if c not in ",->")
    letters = dict(zip(labels, string.ascii_letters, strict=False))
    return "".join(letters.get(c, c) for c in subscripts)


def _einsum(
    operands: Sequence[Any],
    contractions: Sequence[tuple[Sequence[int], frozenset[str], str]],
    precision: Any,
    preferred_element_type: Any,
    _dot_general: Callable[..., Any] = dot_general,
    out_sharding: Any = None,
) -> Any:
    """The last result, where each contraction takes one or two operands out of the list, by their
    positions, and puts its result at the end."""
    work = list(operands)
    for positions, _, subscripts in contractions:
        taken = [work.pop(position) for position in positions]
        work.append(
            einsum(
                in_letters(subscripts), *taken, precision=precision, _dot_general=_dot_general,
                preferred_element_type=preferred_element_type, out_sharding=out_sharding,
            )
        )  # fmt: skip
    (result,) = work
    return result
