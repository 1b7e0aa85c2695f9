"""A trace that evaluates, and remembers which executables ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.core.primitive import Primitive
from weft.lowering.eval_trace import EvalTrace, operation_key


class WatchedTrace(EvalTrace):
    """Evaluates primitives and records which executables ran on which arrays."""

    __slots__ = ("ran",)

    def __init__(self) -> None:
        super().__init__(None, "eval")
        self.ran: list[tuple[Any, Sequence[Array], Any]] = []

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        out = super().process_primitive(primitive, args, params)
        arrays = [as_array(x) for x in args]
        # None where Python evaluates the primitive.
        self.note(primitive.eager_cache.get(operation_key(arrays, params)), arrays, out)
        return out

    def note(self, program: Any, arrays: Sequence[Array], out: Any) -> None:
        """Records an executable (or None), its operands and its result."""
        self.ran.append((program, arrays, out))
