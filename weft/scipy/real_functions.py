"""SciPy's functions of real arrays: promotion, broadcasting, and one executable per call.

A formula is written for arrays of one floating-point dtype, its parameters annotated with `Real`.
`elementwise` makes a public function of it: integers become real numbers, and half precision is
computed in float32 and returned in its own dtype.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ParamSpec, TypeVar, cast

import numpy as np

from weft import dtypes
from weft.arrays.conversion import scalar_array
from weft.core.trace import current_variable
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import DTypeError, Fix, WeftTypeError
from weft.kinds.arguments import NEVER, count_from
from weft.kinds.array_function import ArrayFunction
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_ranks,
    computing_dtype,
    convert,
    inexact,
    promote_values,
)
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import canonical_type, in_dtype, promote_operands
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.formulas import kernel
from weft.ops.operand_errors import to_dtype

__all__ = [
    "Natural", "Real", "RealOrComplex", "elementwise", "kernel", "operand_type", "real",
    "real_function", "real_operands", "to_working_dtype",
]  # fmt: skip

P = ParamSpec("P")
Result = TypeVar("Result")
_trace = current_variable.get


def operand_type(name: str, value: Any) -> ArrayType:
    """The type of an argument. Raises WeftTypeError with its name if it is no array or number."""
    listed = isinstance(value, (list, tuple))
    check_unmasked(value, "")
    try:
        if not listed:
            return canonical_type(value)
    except TypeError:
        pass
    message = f"takes arrays or numbers, and {name} is a {type(value).__name__}"
    got = f"{name}={value!r:.80} of class {type(value).__name__}"
    wanted = "an array, a NumPy array or a number"
    fix = Fix("array", f"convert it: weft.numpy.array({name})", {}) if listed else None
    raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)


def _take_real(value: Any, call: Arguments) -> Any:
    of = operand_type(call.name, value)
    if of.dtype not in dtypes.REAL and of.dtype not in dtypes.BOOLEAN:
        message = f"takes real numbers as {call.name}"
        wanted = "an integer or floating-point dtype"
        fix = to_dtype(call.name, of.dtype, dtypes.float32)
        raise DTypeError(message, got=f"{call.name} of type {of}", wanted=wanted, fix=fix)
    # No array of integers holds a large number, and a real one does.
    large = type(value) is int and not dtypes.fits(value, dtypes.default_int())
    return float(value) if large else value


def _take_numbers(value: Any, call: Arguments) -> Any:
    of = operand_type(call.name, value)
    return value if of.dtype in dtypes.COMPLEX else _take_real(value, call)


_real_kind = Kind(
    _take_real, "real numbers", ([1.0], "text", np.complex64(1j)), 0.5, False, plain=NEVER
)
Real = Annotated[Any, dataclasses.replace(_real_kind, by_class=True)]
RealOrComplex = Annotated[
    Any,
    dataclasses.replace(
        _real_kind, take=_take_numbers, means="numbers", wrong=([1.0], "text"), by_class=True
    ),
]


def real(means: str, right: Any, check: Callable[[ArrayType, Arguments], None]) -> Kind:
    """The kind of real numbers whose type `check` accepts, or raises."""

    def take(value: Any, call: Arguments) -> Any:
        value = _take_real(value, call)
        check(type_of(value), call)
        return value

    return dataclasses.replace(_real_kind, take=take, means=means, right=right)


Natural = Annotated[int, count_from(0, use=0)]


def real_dtype(values: Sequence[Any]) -> tuple[Any, bool]:
    """The floating-point dtype that operands promote to, and whether it is weak."""
    types = [canonical_type(x) for x in values]
    dtype, weak = dtypes.promote(*[(of.dtype, of.weak_type) for of in types])
    return inexact(dtype), weak


def to_working_dtype(*values: Any) -> tuple[Any, ...]:
    """Real arrays in the dtype of the computation, and the dtype of the result."""
    dtype, _ = real_dtype(values)
    return *[convert_element_type(x, computing_dtype(dtype)) for x in values], dtype


_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray)


def _scalar(value: Any, dtype: Any, weak: bool) -> Any:
    """Converts a number to a dtype; an array stays as it is."""
    if not isinstance(value, _NUMBERS) or np.ndim(value):
        return value
    value = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
    if _trace(None) is None:
        return scalar_array(value, ArrayType((), dtype, weak))
    return float(value) if weak else in_dtype(value, dtype)


def real_operands(names: Sequence[str], values: Sequence[Any]) -> tuple[list[Any], Any]:
    """Arguments with numbers in the real dtype to which all promote, and that dtype."""
    call = Arguments()
    taken = []
    for name, value in zip(names, values, strict=True):
        call.name = name
        taken.append(_take_real(value, call))
    dtype, weak = real_dtype(taken)
    return [_scalar(x, dtype, weak) for x in taken], dtype


class RealFunction(ArrayFunction):
    """A function of real arrays. Numbers come in the dtype that all operands promote to.

    chapter: what stands before the name in errors.
    """

    of_complex: Callable[..., Any] | None = None

    def given(self, taken: dict[str, Any]) -> dict[str, Any]:
        """The operands by name, without those that are None."""
        return {name: taken[name] for name in self.operand_names if taken[name] is not None}

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        try:
            return super()._bound(args, kwargs)
        except TypeError as error:
            message = str(error).removeprefix(f"{self.function.__name__}() ")
            got = f"{len(args)} arguments and the keywords {sorted(kwargs)}"
            wanted = f"the arguments {', '.join(self.kinds)}"
            raise WeftTypeError(message, got=got, wanted=wanted) from None

    def _take_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        taken = super()._take_arguments(args, kwargs)
        given = self.given(taken)
        values: Sequence[Any] = [*given.values()]
        if self.of_complex and any(type_of(x).dtype in dtypes.COMPLEX for x in values):
            values = promote_operands(self.operation, *values)
        else:
            dtype, weak = real_dtype(values)
            values = [_scalar(x, dtype, weak) for x in values]
        taken.update(zip(given, values, strict=True))
        return taken


class ElementwiseFunction(RealFunction):
    """A function of real arrays that broadcast: its formula gets them in one dtype and shape, or
    without dimensions for numbers."""

    def _take_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        taken = super()._take_arguments(args, kwargs)
        shapes = [type_of(x).shape for x in self.given(taken).values()]
        if len({*shapes}) > 1:
            check_ranks(self.operation, shapes)
            broadcast_shape(*shapes)
        return taken

    def __init__(
        self, formula: Callable[..., Any], chapter: str, of_complex: Any, then: Any
    ) -> None:
        super().__init__(formula, chapter=chapter)
        self.of_complex, self.then = of_complex, then
        self.formula, self.body = self.body, self.apply_formula

    def apply_formula(self, **taken: Any) -> Any:
        """Applies the formula to arrays in one dtype and shape, and converts the result."""
        by_name = self.given(taken)
        arrays = by_name.values()
        if self.of_complex and any(x.dtype in dtypes.COMPLEX for x in arrays):
            return self.of_complex(*promote_values(self.operation, *arrays))
        dtype, _ = real_dtype([*arrays])
        shape = broadcast_shape(*[x.shape for x in arrays])
        operands = {name: _prepare(x, computing_dtype(dtype), shape) for name, x in by_name.items()}
        out = self.formula(**{**taken, **operands})
        out = self.then(out) if self.then else out
        if isinstance(out, tuple):
            return tuple(convert(x, dtype) for x in out)
        return convert_element_type(out, dtype) if out.dtype != dtype else out


def _prepare(x: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Converts an operand of a formula to the dtype, and broadcasts it if it has dimensions."""
    x = x if x.dtype == dtype else convert_element_type(x, dtype, type_of(x).weak_type)
    return x if x.shape in ((), shape) else broadcasted(x, shape)


def elementwise(
    formula: Callable[P, Result],
    chapter: str = "",
    of_complex: Callable[..., Any] | None = None,
    then: Callable[[Any], Any] | None = None,
) -> Callable[P, Result]:
    """Makes a function of arrays and numbers from a formula of real arrays of one dtype.

    The formula gets arrays of one shape, and scalars among them. chapter: what stands before the
    name in errors. of_complex: the formula for complex arrays, with functions of `weft.numpy`;
    parameters of `RealOrComplex` need it. then: applied to the result of the formula.
    """
    return cast(Any, ElementwiseFunction(formula, chapter, of_complex, then))


def real_function(chapter: str) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Makes a function of real arrays of any shapes, as `array_function` does."""
    return lambda body: cast(Any, RealFunction(body, chapter=chapter))
