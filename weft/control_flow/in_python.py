"""Loops and branches that run in Python, for the setting `disable_jit`: step by step, as often as
the values say.

What has no values (a condition under `vmap`, say) is left to the traced form, as is a loop of no
steps, whose results only tracing tells the types of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from weft import config, tree
from weft.arrays.conversion import as_array
from weft.core.trace import Tracer
from weft.core.types import type_of, user_value
from weft.errors import Fix, TreeError, WeftTypeError
from weft.interpreters.staging import function_name
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.indexing.dynamic_slicing import dynamic_index_in_dim
from weft.ops.structural.joining import stack


def in_python() -> bool:
    """Whether loops and branches run in Python here."""
    return config.settings().disable_jit


def known_number(value: Any) -> Any:
    """A scalar as a Python number; None if it is traced without a known value."""
    if isinstance(value, Tracer):
        value = value.concrete()
    return value if value is None or isinstance(value, (bool, int, float)) else value.item()


def run_scan(
    what: str, f: Callable[[Any, Any], Any], init: Any, xs: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """Runs a scan of at least one step; returns the last carry and the stacked results. Raises
    WeftTypeError or TreeError for a step that returns no pair or other results."""
    name = function_name(f)
    leaves, structure = tree.flatten(xs)
    rows: list[list[Any]] = []
    first: Any = None
    carry = init
    order = range(length)
    for i in reversed(order) if reverse else order:
        x = structure.unflatten([dynamic_index_in_dim(leaf, i, keepdims=False) for leaf in leaves])
        out = f(carry, x)
        if not isinstance(out, tuple) or len(out) != 2:
            raise _no_pair(what, name, out)
        carry, y = out
        row, found = tree.flatten(y)
        first = found if first is None else first
        if found != first:
            message = f"{what} of {name}: the steps return results of different structures"
            raise TreeError(message, got=found, wanted=first)
        rows.append(row)
    if reverse:
        rows.reverse()
    return carry, first.unflatten([_stack_column(column) for column in zip(*rows, strict=True)])


def _stack_column(column: Sequence[Any]) -> Any:
    # Steps may differ in weak types: what comes first may be a number.
    values = [user_value(x) for x in column]
    strong = [type_of(x) for x in values if not type_of(x).weak_type]
    dtype = (strong or [type_of(values[0])])[0].dtype
    weak = not strong
    return stack([convert_element_type(x, dtype, weak) for x in values])


def _no_pair(what: str, name: str, out: Any) -> WeftTypeError:
    message = f"{what} of {name}: the body has to return a pair (carry, y)"
    wanted = "a tuple of two: the carry, and what is stacked (None for nothing)"
    fix = Fix("pair", "return (carry, None) where nothing is stacked")
    return WeftTypeError(message, got=f"{out!r:.100}", wanted=wanted, fix=fix)


def run_while(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> tuple[Any, bool]:
    """Runs a while loop while its condition is known; returns the carry, and whether it ended."""
    value = tree.map(lambda x: x if hasattr(x, "type") else as_array(user_value(x)), init_val)
    while True:
        goes_on = known_number(cond_fun(value))
        if goes_on is None or not goes_on:
            return value, goes_on is not None
        value = body_fun(value)


def run_fori(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], value: Any) -> Any:
    """Runs a loop between known integers."""
    for i in range(operator.index(lower), operator.index(upper)):
        value = body_fun(i, value)
    return value
