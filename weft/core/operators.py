"""The operators and methods that arrays and tracers share.

`ArrayOperators` is a mixin whose every method forwards to a function of the same meaning in
`implementations`; the numpy layer, which lies above, fills that namespace. So the core can give its
tracers operators without knowing any operation. Each method has the arguments of NumPy's method,
and the function it names is described in `weft.numpy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from weft.errors import Fix, WeftTypeError

__all__ = ["ArrayOperators", "implementations", "install", "let_reflect"]

# What a type checker takes the results for: arrays, as the class says that has these methods.
Result = TypeVar("Result", covariant=True)

implementations: Any = SimpleNamespace()


def install(**functions: Callable[..., Any]) -> None:
    """Sets the functions that the operators call (done once, by the numpy layer)."""
    for name, function in functions.items():
        setattr(implementations, name, function)


class ArrayOperators(Generic[Result]):
    """Arithmetic, comparison and indexing operators, and the methods of an array."""

    __slots__ = ()
    __array_priority__ = 1000
    # Comparison is elementwise, so equality cannot serve for hashing.
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Result:
        return implementations.negative(self)

    def __pos__(self) -> Result:
        return implementations.positive(self)

    def __abs__(self) -> Result:
        return implementations.abs(self)

    def __invert__(self) -> Result:
        return implementations.invert(self)

    def __add__(self, other: Any) -> Result:
        return implementations.add(self, other)

    def __radd__(self, other: Any) -> Result:
        return implementations.add(other, self)

    def __sub__(self, other: Any) -> Result:
        return implementations.subtract(self, other)

    def __rsub__(self, other: Any) -> Result:
        return implementations.subtract(other, self)

    def __mul__(self, other: Any) -> Result:
        return implementations.multiply(self, other)

    def __rmul__(self, other: Any) -> Result:
        return implementations.multiply(other, self)

    def __truediv__(self, other: Any) -> Result:
        return implementations.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> Result:
        return implementations.true_divide(other, self)

    def __floordiv__(self, other: Any) -> Result:
        return implementations.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Result:
        return implementations.floor_divide(other, self)

    def __mod__(self, other: Any) -> Result:
        return implementations.remainder(self, other)

    def __rmod__(self, other: Any) -> Result:
        return implementations.remainder(other, self)

    def __divmod__(self, other: Any) -> tuple[Result, Result]:
        return implementations.divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Result, Result]:
        return implementations.divmod(other, self)

    def __pow__(self, other: Any) -> Result:
        return implementations.power(self, other)

    def __rpow__(self, other: Any) -> Result:
        return implementations.power(other, self)

    def __matmul__(self, other: Any) -> Result:
        return implementations.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Result:
        return implementations.matmul(other, self)

    def __and__(self, other: Any) -> Result:
        return implementations.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Result:
        return implementations.bitwise_and(other, self)

    def __or__(self, other: Any) -> Result:
        return implementations.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Result:
        return implementations.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Result:
        return implementations.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Result:
        return implementations.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Result:
        return implementations.left_shift(self, other)

    def __rlshift__(self, other: Any) -> Result:
        return implementations.left_shift(other, self)

    def __rshift__(self, other: Any) -> Result:
        return implementations.right_shift(self, other)

    def __rrshift__(self, other: Any) -> Result:
        return implementations.right_shift(other, self)

    def __eq__(self, other: Any) -> Result:  # type: ignore[override]
        return implementations.equal(self, other)

    def __ne__(self, other: Any) -> Result:  # type: ignore[override]
        return implementations.not_equal(self, other)

    def __lt__(self, other: Any) -> Result:
        return implementations.less(self, other)

    def __le__(self, other: Any) -> Result:
        return implementations.less_equal(self, other)

    def __gt__(self, other: Any) -> Result:
        return implementations.greater(self, other)

    def __ge__(self, other: Any) -> Result:
        return implementations.greater_equal(self, other)

    def __getitem__(self, index: Any) -> Result:
        return implementations.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise WeftTypeError(
            "arrays do not support item assignment: a weft array never changes",
            operation="x[...] = value",
            got=f"an assignment to elements of {getattr(self, 'type', 'an array')}",
            wanted="a new array",
            fix=Fix("at", "write x = x.at[...].set(value), or .add, .multiply, .min, .max"),
        )

    def __round__(self, ndigits: int | None = None) -> Result:
        return implementations.round(self, ndigits or 0, None)

    # ---- properties -----------------------------------------------------------------------------

    @property
    def T(self) -> Result:
        """The array with its dimensions in reverse order."""
        return implementations.transpose(self)

    @property
    def mT(self) -> Result:
        """The array with its last two dimensions exchanged."""
        return implementations.matrix_transpose(self)

    @property
    def real(self) -> Result:
        """The real part of every element."""
        return implementations.real(self)

    @property
    def imag(self) -> Result:
        """The imaginary part of every element."""
        return implementations.imag(self)

    @property
    def at(self) -> Any:
        """Updates at an index that give a new array: `x.at[i].set(v)`, `.add(v)`, `.get()`, …"""
        return implementations.at(self)

    @property
    def flat(self) -> Result:
        """The elements one after the other: an array of one dimension."""
        return implementations.ravel(self)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.type.dtype.itemsize)  # type: ignore[attr-defined]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self.itemsize * int(self.type.size)  # type: ignore[attr-defined]

    # ---- shape and elements ---------------------------------------------------------------------

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Result:
        """The same elements in another shape: integers or one tuple; -1 is what is left."""
        return implementations.reshape(
            self, shape[0] if len(shape) == 1 else shape, order=order, copy=copy
        )

    def ravel(self, order: str = "C") -> Result:
        """The elements in one dimension."""
        return implementations.ravel(self, order=order)

    def flatten(self, order: str = "C") -> Result:
        """The elements in one dimension."""
        return implementations.ravel(self, order=order)

    def transpose(self, *axes: Any) -> Result:
        """The dimensions in another order (reversed where none is given)."""
        if not axes:
            return implementations.transpose(self)
        return implementations.transpose(self, axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> Result:
        """The array with two dimensions exchanged."""
        return implementations.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Result:
        """The array without dimensions of length 1."""
        return implementations.squeeze(self, axis=axis)

    def repeat(
        self, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
    ) -> Result:
        """Each element several times."""
        return implementations.repeat(
            self, repeats, axis=axis, total_repeat_length=total_repeat_length
        )

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """The elements whose indices along two axes are equal."""
        return implementations.diagonal(self, offset=offset, axis1=axis1, axis2=axis2)

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Any = None,
    ) -> Result:
        """The elements at the given indices along an axis."""
        return implementations.take(
            self,
            indices,
            axis=axis,
            out=out,
            mode=mode,
            unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted,
            fill_value=fill_value,
        )

    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: Any = None,
    ) -> Result:
        """The slices along an axis for which a condition holds."""
        return implementations.compress(
            condition, self, axis=axis, out=out, size=size, fill_value=fill_value
        )

    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Result:
        """Elements of several arrays, chosen by this array of integers."""
        return implementations.choose(self, choices, out=out, mode=mode)

    def nonzero(self, *, fill_value: Any = None, size: int | None = None) -> tuple[Result, ...]:
        """The indices of the elements that are not zero, one array for each dimension."""
        return implementations.nonzero(self, fill_value=fill_value, size=size)

    def searchsorted(
        self, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
    ) -> Result:
        """Where values would be inserted to keep this sorted array in order."""
        return implementations.searchsorted(self, v, side=side, sorter=sorter, method=method)

    def copy(self) -> Result:
        """The same values in a new array."""
        return implementations.copy(self)

    # ---- dtype ----------------------------------------------------------------------------------

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Result:
        """The values converted to a dtype."""
        return implementations.astype(self, dtype, copy=copy, device=device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return implementations.array_namespace(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Result:
        """The array at a place: a device, a sharding, a spec over the current mesh, or a Format."""
        return implementations.to_device(self, device, stream)

    def view(self, dtype: Any = None, type: None = None) -> Result:
        """The same bits read as another dtype."""
        return implementations.view(self, dtype, type)

    # ---- elementwise ----------------------------------------------------------------------------

    def conj(self) -> Result:
        """The complex conjugate of every element."""
        return implementations.conj(self)

    def conjugate(self) -> Result:
        """The complex conjugate of every element."""
        return implementations.conj(self)

    def round(self, decimals: int = 0, out: None = None) -> Result:
        """The elements rounded to a number of decimals, halves to even."""
        return implementations.round(self, decimals, out)

    def clip(self, min: Any = None, max: Any = None) -> Result:  # noqa: A002  (NumPy's names)
        """The elements held between two bounds."""
        return implementations.clip(self, min, max)

    # ---- reductions -----------------------------------------------------------------------------

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Result:
        """The sum over axes (None: all)."""
        return implementations.sum(
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            keepdims=keepdims,
            initial=initial,
            where=where,
            promote_integers=promote_integers,
        )

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        promote_integers: bool = True,
    ) -> Result:
        """The product over axes (None: all)."""
        return implementations.prod(
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            keepdims=keepdims,
            initial=initial,
            where=where,
            promote_integers=promote_integers,
        )

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: Any = None,
    ) -> Result:
        """The mean over axes (None: all)."""
        return implementations.mean(
            self, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where
        )

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        correction: Any = None,
    ) -> Result:
        """The standard deviation over axes (None: all)."""
        return implementations.std(
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            correction=correction,
        )

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        correction: Any = None,
    ) -> Result:
        """The variance over axes (None: all)."""
        return implementations.var(
            self,
            axis=axis,
            dtype=dtype,
            out=out,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            correction=correction,
        )

    def max(
        self,
        axis: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Result:
        """The largest element over axes (None: all)."""
        return implementations.max(
            self, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where
        )

    def min(
        self,
        axis: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Result:
        """The smallest element over axes (None: all)."""
        return implementations.min(
            self, axis=axis, out=out, keepdims=keepdims, initial=initial, where=where
        )

    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Result:
        """Whether every element is true, over axes (None: all)."""
        return implementations.all(self, axis=axis, out=out, keepdims=keepdims, where=where)

    def any(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Result:
        """Whether some element is true, over axes (None: all)."""
        return implementations.any(self, axis=axis, out=out, keepdims=keepdims, where=where)

    def ptp(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Result:
        """The largest element minus the smallest, over axes (None: all)."""
        return implementations.ptp(self, axis=axis, out=out, keepdims=keepdims)

    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Result:
        """The index of the largest element along an axis (None: of all elements in order)."""
        return implementations.argmax(self, axis=axis, out=out, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Result:
        """The index of the smallest element along an axis (None: of all elements in order)."""
        return implementations.argmin(self, axis=axis, out=out, keepdims=keepdims)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Result:
        """The sums of the elements up to each one along an axis."""
        return implementations.cumsum(self, axis=axis, dtype=dtype, out=out)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: None = None) -> Result:
        """The products of the elements up to each one along an axis."""
        return implementations.cumprod(self, axis=axis, dtype=dtype, out=out)

    # ---- order and products ---------------------------------------------------------------------

    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Result:
        """The elements in order along an axis, in a new array."""
        return implementations.sort(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Result:
        """The indices that put the elements in order along an axis."""
        return implementations.argsort(
            self, axis=axis, kind=kind, order=order, stable=stable, descending=descending
        )

    def argpartition(self, kth: int, axis: int = -1) -> Result:
        """The indices that put the kth element in its place, smaller ones before it."""
        return implementations.argpartition(self, kth, axis=axis)

    def dot(self, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Result:
        """The product with another array, as `weft.numpy.dot`."""
        return implementations.dot(
            self, b, precision=precision, preferred_element_type=preferred_element_type
        )

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Result:
        """The sum of the elements whose indices along two axes are equal."""
        return implementations.trace(
            self, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype, out=out
        )


# ---- operators of other classes ------------------------------------------------------------------

_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or",
    "xor", "lshift", "rshift",
)  # fmt: skip
# Without == and !=: a dataclass has these whether its author thought of arrays or not.
_REFLECTED = {f"__{name}__": f"__r{name}__" for name in _ARITHMETIC} | {
    "__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__",
}  # fmt: skip
# Operators of ArrayOperators that classes have in their own way, with these classes.
_own: dict[str, set[type]] = {}


def let_reflect(cls: type) -> None:
    """Makes arrays on the left leave an operator to a class that defines the reflected one.

    As NumPy's arrays and Python's numbers do. An operator of arrays looks for such operands only
    from the first class on that has one: other programs do not pay for the question.
    """
    for name, reflected in _REFLECTED.items():
        defined = getattr(cls, reflected, None)
        if defined in (None, getattr(object, reflected, None), getattr(ArrayOperators, reflected)):
            continue  # `object` has orderings, which know no other class
        if name not in _own:
            _own[name] = set()
            setattr(ArrayOperators, name, _leaving(getattr(ArrayOperators, name), _own[name]))
        _own[name].add(cls)


def _leaving(operator: Callable[..., Any], to: set[type]) -> Callable[..., Any]:
    @functools.wraps(operator)
    def leaving(self: Any, other: Any) -> Any:
        return NotImplemented if type(other) in to else operator(self, other)

    return leaving
