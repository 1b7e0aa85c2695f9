"""The operators and methods that arrays and tracers share.

`ArrayOperators` is a mixin whose every method calls the function of the same meaning in
`implementations`; the numpy layer fills that table. So the core can give its tracers operators
without importing any operation. Each method has the arguments of NumPy's method, and the function
it calls is described in `weft.numpy`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from weft.errors import Fix, WeftTypeError

F = TypeVar("F", bound=Callable[..., Any])
# The class of arrays that a type checker infers for the results; set by the inheriting class.
Result = TypeVar("Result", covariant=True)

implementations: dict[str, Callable[..., Any]] = {}


def install(**functions: Callable[..., Any]) -> None:
    """Sets the functions that the operators call (called once, by the numpy layer)."""
    implementations.update(functions)


class Unary(Protocol[Result]):
    """A method without arguments."""

    def __call__(self) -> Result: ...


class Binary(Protocol[Result]):
    """A method that takes the other operand."""

    def __call__(self, other: Any, /) -> Result: ...


def _unary(name: str) -> Any:
    def operator(self: Any) -> Any:
        return implementations[name](self)

    return operator


def _binary(name: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return implementations[name](self, other)

    return operator


def _reflected_operator(name: str) -> Any:
    def operator(self: Any, other: Any) -> Any:
        return implementations[name](other, self)

    return operator


def _forwarding(method: F) -> F:
    """A method that calls the implementation of its name with its own arguments. The decorated
    function states the signature and the meaning."""
    return _alike(method.__name__, method, method.__doc__ or "")


def _alike(name: str, method: F, doc: str) -> F:
    """The method for the implementation of a name, with another one's arguments."""

    @functools.wraps(method)
    def forwarding(self: Any, /, *args: Any, **named: Any) -> Any:
        return implementations[name](self, *args, **named)

    forwarding.__name__, forwarding.__doc__ = name, doc
    forwarding.__qualname__ = f"ArrayOperators.{name}"
    return forwarding  # type: ignore[return-value]


class ArrayOperators(Generic[Result]):
    """Arithmetic, comparison and indexing operators, and the methods of an array."""

    __slots__ = ()
    __array_priority__ = 1000
    # Comparison is elementwise, so equality cannot serve for hashing.
    __hash__ = None  # type: ignore[assignment]

    __neg__: Unary[Result] = _unary("negative")
    __pos__: Unary[Result] = _unary("positive")
    __abs__: Unary[Result] = _unary("abs")
    __invert__: Unary[Result] = _unary("invert")
    __add__: Binary[Result] = _binary("add")
    __radd__: Binary[Result] = _reflected_operator("add")
    __sub__: Binary[Result] = _binary("subtract")
    __rsub__: Binary[Result] = _reflected_operator("subtract")
    __mul__: Binary[Result] = _binary("multiply")
    __rmul__: Binary[Result] = _reflected_operator("multiply")
    __truediv__: Binary[Result] = _binary("true_divide")
    __rtruediv__: Binary[Result] = _reflected_operator("true_divide")
    __floordiv__: Binary[Result] = _binary("floor_divide")
    __rfloordiv__: Binary[Result] = _reflected_operator("floor_divide")
    __mod__: Binary[Result] = _binary("remainder")
    __rmod__: Binary[Result] = _reflected_operator("remainder")
    __divmod__: Binary[tuple[Result, Result]] = _binary("divmod")
    __rdivmod__: Binary[tuple[Result, Result]] = _reflected_operator("divmod")
    __pow__: Binary[Result] = _binary("power")
    __rpow__: Binary[Result] = _reflected_operator("power")
    __matmul__: Binary[Result] = _binary("matmul")
    __rmatmul__: Binary[Result] = _reflected_operator("matmul")
    __and__: Binary[Result] = _binary("bitwise_and")
    __rand__: Binary[Result] = _reflected_operator("bitwise_and")
    __or__: Binary[Result] = _binary("bitwise_or")
    __ror__: Binary[Result] = _reflected_operator("bitwise_or")
    __xor__: Binary[Result] = _binary("bitwise_xor")
    __rxor__: Binary[Result] = _reflected_operator("bitwise_xor")
    __lshift__: Binary[Result] = _binary("left_shift")
    __rlshift__: Binary[Result] = _reflected_operator("left_shift")
    __rshift__: Binary[Result] = _binary("right_shift")
    __rrshift__: Binary[Result] = _reflected_operator("right_shift")
    __eq__: Binary[Result] = _binary("equal")  # type: ignore[assignment]
    __ne__: Binary[Result] = _binary("not_equal")  # type: ignore[assignment]
    __lt__: Binary[Result] = _binary("less")
    __le__: Binary[Result] = _binary("less_equal")
    __gt__: Binary[Result] = _binary("greater")
    __ge__: Binary[Result] = _binary("greater_equal")

    def __getitem__(self, index: Any) -> Result:
        return implementations["getitem"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        message = "arrays do not support item assignment: a weft array never changes"
        got = f"an assignment to elements of {getattr(self, 'type', 'an array')}"
        wanted = "a new array"
        fix = Fix("at", "write x = x.at[...].set(value), or .add, .multiply, .min, .max")
        raise WeftTypeError(message, operation="x[...] = value", got=got, wanted=wanted, fix=fix)

    def __round__(self, ndigits: int | None = None) -> Result:
        return implementations["round"](self, ndigits or 0, None)

    # ---- properties -----------------------------------------------------------------------------

    @property
    def T(self) -> Result:
        """The array with its dimensions in reverse order."""
        return implementations["transpose"](self)

    @property
    def mT(self) -> Result:
        """The array with its last two dimensions exchanged."""
        return implementations["matrix_transpose"](self)

    @property
    def real(self) -> Result:
        """The real part of every element."""
        return implementations["real"](self)

    @property
    def imag(self) -> Result:
        """The imaginary part of every element."""
        return implementations["imag"](self)

    @property
    def at(self) -> Any:
        """Updates at an index that give a new array: `x.at[i].set(v)`, `.add(v)`, `.get()`, …"""
        return implementations["at"](self)

    @property
    def flat(self) -> Result:
        """The elements one after the other: an array of one dimension."""
        return implementations["ravel"](self)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.type.dtype.itemsize)  # type: ignore[attr-defined]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements together."""
        return self.itemsize * int(self.type.size)  # type: ignore[attr-defined]

    # ---- shape and elements ---------------------------------------------------------------------

    def reshape(
        self, *shape: Any, order: str = "C", copy: bool | None = None, out_sharding: None = None
    ) -> Result:
        """The same elements in another shape: integers or one tuple; -1 is the length that is
        left.

        order: "C" for the last index fastest, "F" for the first; copy: True for a new array, False
        for this one itself, which then has that shape already.
        """
        return implementations["reshape"](
            self,
            shape[0] if len(shape) == 1 else shape,
            order=order,
            copy=copy,
            out_sharding=out_sharding,
        )

    @_forwarding
    def ravel(self, order: str = "C", *, out_sharding: None = None) -> Result:
        """The elements in one dimension.

        order: "C" for the last index fastest, "F" for the first.
        """

    def flatten(self, order: str = "C", *, out_sharding: None = None) -> Result:
        """The elements in one dimension.

        order: "C" for the last index fastest, "F" for the first.
        """
        return implementations["ravel"](self, order=order, out_sharding=out_sharding)

    def transpose(self, *axes: Any) -> Result:
        """The dimensions in another order (by default, reversed)."""
        if not axes:
            return implementations["transpose"](self)
        return implementations["transpose"](self, axes[0] if len(axes) == 1 else axes)

    @_forwarding
    def swapaxes(self, axis1: int, axis2: int) -> Result:
        """The array with two dimensions exchanged.

        axis1, axis2: the positions of the two; negative ones count from the end.
        """

    @_forwarding
    def squeeze(self, axis: int | Sequence[int] | None = None) -> Result:
        """The array without dimensions of length 1."""

    @_forwarding
    def repeat(
        self,
        repeats: Any,
        axis: int | None = None,
        *,
        total_repeat_length: int | None = None,
        out_sharding: None = None,
    ) -> Result:
        """Each element, repeated.

        repeats: a number for all elements or one for each; total_repeat_length: the length of the
        result, needed if `repeats` is traced.
        """

    @_forwarding
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Result:
        """The elements whose indices along two axes are equal.

        offset: how far above the main diagonal; axis1, axis2: the axes of the matrices' rows and
        columns.
        """

    @_forwarding
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
        """The elements at the given indices along an axis.

        indices: integers, an array of any shape; mode: "fill" (the default), "clip" or "wrap" for
        positions out of bounds; fill_value: what "fill" gives for those; unique_indices,
        indices_are_sorted: promises, without effect.
        """

    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        *,
        out: None = None,
        size: int | None = None,
        fill_value: Any = None,
    ) -> Result:
        """The slices along an axis for which a condition holds.

        condition: a vector of booleans; size: the number of slices to return, needed if the
        condition is traced; fill_value: what stands for missing ones, by default 0.
        """
        return implementations["compress"](
            condition, self, axis=axis, out=out, size=size, fill_value=fill_value
        )

    @_forwarding
    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Result:
        """Elements of several arrays, chosen by this array of integers.

        choices: a list of arrays, or an array whose first dimension counts them; mode: "clip" or
        "wrap" for numbers out of range, "raise" for known ones.
        """

    @_forwarding
    def nonzero(self, *, fill_value: Any = None, size: int | None = None) -> tuple[Result, ...]:
        """The indices of the elements that are not zero, one array for each dimension.

        size: how many positions to return, needed if the array is traced; fill_value: what stands
        for missing ones, by default 0.
        """

    @_forwarding
    def searchsorted(
        self, v: Any, side: str = "left", sorter: Any = None, *, method: str = "scan"
    ) -> Result:
        """The indices at which inserting values would keep this sorted array in order.

        v: the values; side: "left" goes before equal elements, "right" behind them; sorter: the
        positions that sort this array, if it is not in order; method: as in
        `weft.numpy.searchsorted`.
        """

    def copy(self) -> Result:
        """The same values in a new array."""
        return implementations["copy"](self)

    # ---- dtype ----------------------------------------------------------------------------------

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> Result:
        """The values converted to a dtype.

        copy: whether the result is a new array even if nothing changes.
        """
        return implementations["astype"](self, dtype, copy=copy, device=device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return implementations["array_namespace"](api_version)

    def to_device(self, device: Any, *, stream: Any = None) -> Result:
        """The array moved to a device, a sharding, a spec over the current mesh, or a Format.

        stream: must be None, because the runtime orders copies by itself.
        """
        return implementations["to_device"](self, device, stream)

    @_forwarding
    def view(self, dtype: Any = None, type: None = None) -> Result:
        """The same bits read as another dtype.

        type: must be None, because arrays have one class.
        """

    @_forwarding
    def byteswap(self) -> Result:
        """The elements with the order of their bytes reversed."""

    # ---- elementwise ----------------------------------------------------------------------------

    def conj(self) -> Result:
        """The complex conjugate of every element."""
        return implementations["conj"](self)

    def conjugate(self) -> Result:
        """The complex conjugate of every element."""
        return implementations["conj"](self)

    @_forwarding
    def round(self, decimals: int = 0, out: None = None) -> Result:
        """The elements rounded to a number of decimals, halves to even.

        decimals: the number of digits after the point; a negative one rounds to tens, hundreds, …
        """

    @_forwarding
    def clip(self, min: Any = None, max: Any = None) -> Result:  # noqa: A002  (NumPy's names)
        """The elements held between two bounds.

        min, max: numbers or arrays that broadcast with this one; None for no bound.
        """

    # ---- reductions -----------------------------------------------------------------------------

    @_forwarding
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
        """The sum over axes (None: all).

        initial: a number that is added; promote_integers: whether narrow integers are summed in the
        default width.
        """

    prod = _alike(
        "prod",
        sum,
        "The product over axes (None: all).\n\ninitial: a number by which it is multiplied; "
        "promote_integers: whether narrow integers are multiplied in the default width.",
    )

    @_forwarding
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

    @_forwarding
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
        """The standard deviation over axes (None: all).

        ddof, correction: the number to subtract from the count of elements; only one of both is
        given.
        """

    var = _alike(
        "var",
        std,
        "The variance over axes (None: all).\n\nddof, correction: the number to subtract from the "
        "count of elements; only one of both is given.",
    )

    @_forwarding
    def max(
        self,
        axis: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Result:
        """The largest element over axes (None: all).

        initial: a value that the result is not less than; needed if there are no elements.
        """

    min = _alike(
        "min",
        max,
        "The smallest element over axes (None: all).\n\ninitial: a value that the result is not "
        "greater than; needed if there are no elements.",
    )

    @_forwarding
    def all(
        self, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
    ) -> Result:
        """Whether every element is true, over axes (None: all)."""

    any = _alike("any", all, "Whether some element is true, over axes (None: all).")

    @_forwarding
    def ptp(self, axis: Any = None, out: None = None, keepdims: bool = False) -> Result:
        """The largest element minus the smallest, over axes (None: all)."""

    @_forwarding
    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Result:
        """The index of the largest element along an axis (None: of all elements in order)."""

    argmin = _alike(
        "argmin",
        argmax,
        "The index of the smallest element along an axis (None: of all elements in order).",
    )

    @_forwarding
    def cumsum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Result:
        """The sums of the elements up to each one along an axis."""

    cumprod = _alike(
        "cumprod", cumsum, "The products of the elements up to each one along an axis."
    )

    # ---- order and products ---------------------------------------------------------------------

    @_forwarding
    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Result:
        """The elements in order along an axis, in a new array.

        stable: whether equal elements keep their order; descending: in decreasing order, NaN first;
        kind: a name of one of NumPy's algorithms, without effect; order: must be None.
        """

    argsort = _alike(
        "argsort",
        sort,
        "The indices that put the elements in order along an axis.\n\nstable, descending, kind, "
        "order: as in `sort`.",
    )

    @_forwarding
    def argpartition(self, kth: int, axis: int = -1) -> Result:
        """The indices that put the element of position `kth` there, and smaller ones before it.

        kth: a position in the sorted order, counted from the end if it is negative.
        """

    @_forwarding
    def dot(self, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Result:
        """The product with another array, as `weft.numpy.dot`."""

    @_forwarding
    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
    ) -> Result:
        """The sum of the elements whose indices along two axes are equal.

        offset, axis1, axis2: as in `diagonal`.
        """


# So that they are pickled and shown as methods of the class.
for _name, _member in vars(ArrayOperators).items():
    if getattr(_member, "__name__", None) == "operator":
        _member.__name__, _member.__qualname__ = _name, f"ArrayOperators.{_name}"


# ---- operators of other classes ------------------------------------------------------------------

_ARITHMETIC = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or",
    "xor", "lshift", "rshift",
)  # fmt: skip
# Without == and !=, which a dataclass defines without a thought of arrays.
_REFLECTED = {f"__{name}__": f"__r{name}__" for name in _ARITHMETIC} | {
    "__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__",
}  # fmt: skip
# Operator of ArrayOperators -> the classes that define its reflected form.
_own: dict[str, set[type]] = {}


def let_reflect(cls: type) -> None:
    """Makes arrays on the left leave an operator to a class that defines the reflected one. As
    NumPy's arrays and Python's numbers do. An operator of arrays checks for such operands only once
    there is such a class, so that other programs do not pay for it."""
    for name, reflected in _REFLECTED.items():
        defined = getattr(cls, reflected, None)
        if defined in (None, getattr(object, reflected, None), getattr(ArrayOperators, reflected)):
            continue  # the orderings of `object` take no other class
        if name not in _own:
            _own[name] = set()
            setattr(ArrayOperators, name, _leaving(getattr(ArrayOperators, name), _own[name]))
        _own[name].add(cls)


def _leaving(operator: Callable[..., Any], to: set[type]) -> Callable[..., Any]:
    @functools.wraps(operator)
    def leaving(self: Any, other: Any) -> Any:
        return NotImplemented if type(other) in to else operator(self, other)

    return leaving
