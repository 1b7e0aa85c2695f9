"""The operators and methods that arrays and tracers share.

`ArrayOperators` is a mixin whose every method forwards to a function of the same meaning in
`implementations`; the numpy layer, which lies above, fills that namespace. So the core can give its
tracers operators without knowing any operation.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["ArrayOperators", "implementations", "install"]

implementations: Any = SimpleNamespace()


def install(**functions: Callable[..., Any]) -> None:
    """Sets the functions that the operators call (done once, by the numpy layer)."""
    for name, function in functions.items():
        setattr(implementations, name, function)


class ArrayOperators:
    """Arithmetic, comparison and indexing operators, and the methods of an array."""

    __slots__ = ()
    __array_priority__ = 1000
    # Comparison is elementwise, so equality cannot serve for hashing.
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return implementations.negative(self)

    def __pos__(self) -> Any:
        return implementations.positive(self)

    def __abs__(self) -> Any:
        return implementations.abs(self)

    def __invert__(self) -> Any:
        return implementations.invert(self)

    def __add__(self, other: Any) -> Any:
        return implementations.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return implementations.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return implementations.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return implementations.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return implementations.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return implementations.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return implementations.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return implementations.true_divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return implementations.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return implementations.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return implementations.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return implementations.remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        return implementations.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return implementations.divmod(other, self)

    def __pow__(self, other: Any) -> Any:
        return implementations.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return implementations.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return implementations.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return implementations.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return implementations.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return implementations.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return implementations.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return implementations.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return implementations.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return implementations.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return implementations.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return implementations.left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return implementations.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return implementations.right_shift(other, self)

    def __eq__(self, other: Any) -> Any:
        return implementations.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        return implementations.not_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return implementations.less(self, other)

    def __le__(self, other: Any) -> Any:
        return implementations.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return implementations.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return implementations.greater_equal(self, other)

    def __getitem__(self, index: Any) -> Any:
        return implementations.getitem(self, index)

    def __round__(self, ndigits: int | None = None) -> Any:
        return implementations.round(self, ndigits or 0)

    def __getattr__(self, name: str) -> Any:
        # Methods (`x.sum()`, `x.T`, `x.at`) live in the numpy layer's table: looked up only here,
        # after everything that the class itself has.
        method = getattr(implementations, "method_" + name, None)
        if method is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if isinstance(method, property):
            return method.fget(self)  # type: ignore[misc]
        return method.__get__(self)
