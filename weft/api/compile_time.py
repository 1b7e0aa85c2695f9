"""`ensure_compile_time_eval`: known values are computed with while a function is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.core.trace import Trace, Tracer, bottom_trace, current_trace, using_trace


class _KnownTrace(Trace):
    """Evaluates operations with known operands, and passes on the others."""

    __slots__ = ()

    def interpreter(self, args: Sequence[Any]) -> Trace:
        """The trace that interprets an operation on these operands."""
        traced = any(isinstance(x, Tracer) for x in args)
        return self.parent if traced and self.parent is not None else bottom_trace()

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        trace = self.interpreter(args)
        with using_trace(trace):
            return trace.process_primitive(primitive, args, params)

    def process_call(
        self,
        primitive: Any,
        function: Callable[..., Any],
        args: Sequence[Any],
        params: dict[str, Any],
    ) -> Any:
        trace = self.interpreter(args)
        with using_trace(trace):
            return trace.process_call(primitive, function, args, params)


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A `with` block, or a decorator, in which operations on known values are evaluated at once.

    While a function is traced, operations on arrays that it did not get as arguments are recorded
    like all others. In the block they are not: their results are arrays, on whose values Python
    can branch. Operations on traced values are traced as ever.

    >>> import weft, weft.numpy as jnp
    >>> @weft.jit
    ... def f(x):
    ...     with weft.ensure_compile_time_eval():
    ...         n = int(jnp.sum(jnp.arange(4)))
    ...     return x * n
    >>> f(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    outer = current_trace()
    if outer is bottom_trace() or isinstance(outer, _KnownTrace):
        yield
        return
    with using_trace(_KnownTrace(outer, outer.name, outer.function)):
        yield
