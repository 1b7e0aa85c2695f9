"""Traced values that a function reads where no search finds them, such as attributes of objects.

A shard_map would hide such a read from the transformation that the value belongs to. Its function
is run again, with the value as one more operand: a trace on top of the others replaces the value,
recognized by its identity, by the operand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.core.primitive import Primitive
from weft.core.trace import Trace, Tracer, current_trace, using_trace
from weft.errors import Fix, WeftValueError


class HiddenValues(WeftValueError):
    """Raised when a function reads `values`, which belong to transformations around it."""

    def __init__(self, values: Sequence[Tracer]) -> None:
        self.values = list(values)
        super().__init__(
            "the function of a shard_map reads a traced value that is hidden in an object",
            operation="shard_map",
            got=values[0].describe(),
            wanted="traced values that are arguments, or that the function closes over",
            fix=Fix("argument", "pass the value as an argument with in_specs=P()"),
        )


def check_not_hidden(values: Iterable[Any], outside: frozenset[Any]) -> None:
    """Raises HiddenValues for values of the transformations in `outside`."""
    found = [x for x in values if isinstance(x, Tracer) and x._trace in outside]
    if found:
        raise HiddenValues(found)


class Substitution(Trace):
    """A trace that replaces traced values from outside by operands; else as its parent."""

    __slots__ = ("operands",)

    parent: Trace

    def __init__(self, parent: Trace, operands: dict[int, Any]) -> None:
        super().__init__(parent, parent.name, parent.function)
        self.operands = operands

    def put(self, args: Sequence[Any]) -> list[Any]:
        return [self.operands.get(id(x), x) for x in args]

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        return self.parent.process_primitive(primitive, self.put(args), params)

    def process_call(
        self,
        primitive: Primitive,
        function: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        def substituted(*values: Any) -> Any:
            with using_trace(Substitution(current_trace(), self.operands)):
                return self.put(function(*values))

        return self.parent.process_call(primitive, substituted, self.put(args), params)


def substituting(values: Sequence[Tracer], operands: Sequence[Any]) -> Any:
    """`with substituting(values, operands):` replaces values by operands."""
    if not values:
        return contextlib.nullcontext()
    pairs = zip(values, operands, strict=True)
    return using_trace(Substitution(current_trace(), {id(x): new for x, new in pairs}))
