"""The error for operands of types that an operation does not take, and fixes for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from weft import dtypes
from weft.errors import Fix, WeftError

E = TypeVar("E", bound=WeftError)


def unfit(
    kind: type[E],
    operation: str,
    takes: str,
    types: Iterable[Any],
    wanted: str,
    fix: Fix | None = None,
) -> E:
    """The error of a class, for its caller to raise; `takes` says what the operation takes."""
    got = ", ".join(map(str, types))
    return kind(f"{operation} takes {takes}", operation=operation, got=got, wanted=wanted, fix=fix)


def to_dtype(operand: str, found: Any, wanted: Any) -> Fix:
    """The fix that converts an operand from one dtype to another."""
    if dtypes.is_extended(found) or dtypes.is_extended(wanted):
        return dtypes.KEYS_FIX
    if dtypes.is_complex(found) and not dtypes.is_complex(wanted):
        # A conversion would drop the imaginary part.
        text = f"take real numbers of it first: {operand}.real, {operand}.imag or abs({operand})"
        return Fix("real", text)
    name = wanted.name
    return Fix("convert", f"convert it first: {operand}.astype({name!r})", {"dtype": name})


def use_numpy(function: str, what: str) -> Fix:
    """The fix that calls a function of `weft.numpy`, and what it does in addition."""
    name = f"weft.numpy.{function}".rstrip(".")
    return Fix("use_numpy", f"use {name}, which {what}", {"function": function})
