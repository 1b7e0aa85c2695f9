"""SciPy's functions of real arrays: promotion, broadcasting, and one executable per call.

A formula is written for arrays of one floating-point dtype. `elementwise` makes a public function
of it: integers become real numbers, half precision is computed in float32 and returned in its own
dtype, and called eagerly the whole formula runs as one executable.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from weft import dtypes
from weft.argument_errors import invalid_class, invalid_dtype
from weft.arrays.conversion import scalar_array
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import DTypeError, Fix, WeftTypeError, api_boundary
from weft.kinds.checks import (
    broadcast_shape,
    broadcasted,
    check_ranks,
    computing_dtype,
    convert,
    inexact,
    promoted,
)
from weft.kinds.compiled_functions import compiled, is_eager
from weft.kinds.numbers import canonical_type, number_of, promote_operands
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.formulas import kernel
from weft.ops.operand_errors import to_dtype

__all__ = ["elementwise", "kernel", "operand_type", "real_operands"]

P = ParamSpec("P")
Result = TypeVar("Result")


def operand_type(operation: str, name: str, value: Any) -> ArrayType:
    """The type of an argument. Raises WeftTypeError naming it where it is no array or number."""
    listed = isinstance(value, (list, tuple))
    check_unmasked(value, operation)
    try:
        if not listed:
            return canonical_type(value)
    except TypeError:
        pass
    message = f"{operation} takes arrays or numbers, and {name} is a {type(value).__name__}"
    wanted = "an array, a NumPy array or a number"
    fix = Fix("array", f"convert it: weft.numpy.array({name})", {}) if listed else None
    raise invalid_class(message, operation, name, value, wanted, fix=fix)


def _real_dtype(operation: str, names: Sequence[str], types: Sequence[ArrayType]) -> Any:
    """The floating-point dtype that operands promote to, and whether it is weak."""
    for name, of in zip(names, types, strict=True):
        if of.dtype not in dtypes.REAL and of.dtype not in dtypes.BOOLEAN:
            message = f"{operation} takes real numbers as {name}"
            wanted = "an integer or floating-point dtype"
            fix = to_dtype(name, of.dtype, dtypes.float32)
            raise invalid_dtype(message, operation, name, of, wanted, fix=fix)
    try:
        dtype, weak = dtypes.promote(*[(of.dtype, of.weak_type) for of in types])
    except DTypeError as error:
        error.operation = operation
        raise
    return inexact(dtype), weak


def real_operands(
    operation: str, names: Sequence[str], values: Sequence[Any], *, broadcast: bool = True
) -> tuple[list[Any], Any]:
    """Arguments as arrays (or literals of a jaxpr), and the real dtype that they promote to.

    broadcast: whether their shapes have to broadcast together.

    Raises WeftTypeError, DTypeError and ShapeError naming the argument.
    """
    types = [operand_type(operation, n, v) for n, v in zip(names, values, strict=True)]
    dtype, weak = _real_dtype(operation, names, types)
    if broadcast and len({of.shape for of in types}) > 1:
        check_ranks(operation, [of.shape for of in types])
        broadcast_shape(operation, *[of.shape for of in types])
    arrays = is_eager() or not any(hasattr(value, "type") or np.ndim(value) for value in values)
    operands = []
    for value, of in zip(values, types, strict=True):
        if hasattr(value, "type") or of.shape:
            operands.append(value)
            continue
        number = value.item() if isinstance(value, (np.ndarray, np.generic)) else value
        scalar = ArrayType((), dtype, weak)
        if not weak:
            number = number_of(number, dtype, operation)
        operands.append(scalar_array(number, scalar) if arrays else number_of(number, dtype, ""))
    return operands, dtype


def _bound(
    operation: str, signature: inspect.Signature, args: Sequence[Any], keywords: dict[str, Any]
) -> Sequence[Any]:
    """All arguments in order, with defaults."""
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        names = ", ".join(signature.parameters)
        message = f"{operation}: {error}"
        got = f"{len(args)} arguments and the keywords {sorted(keywords)}"
        wanted = f"the arguments {names}"
        raise WeftTypeError(message, operation=operation, got=got, wanted=wanted) from None
    bound.apply_defaults()
    return list(bound.arguments.values())


def elementwise(
    function: Callable[P, Result],
    name: str | None = None,
    of_complex: Callable[..., Any] | None = None,
) -> Callable[P, Result]:
    """Makes a function of arrays and numbers from a formula of real arrays of one dtype.

    The formula gets arrays of one shape, and scalars among them. name: the name in errors, by
    default that of the function. of_complex: the formula for complex arrays, with functions of
    `weft.numpy`; without one they are refused.
    """
    chapter = function.__module__.rpartition(".stats.")
    name = name or function.__name__.strip("_")
    operation = f"{chapter[2]}.{name}" if chapter[1] else name
    signature = inspect.signature(function)
    names = tuple(signature.parameters)
    formula = cast(Any, function)

    def program(*values: Any, dtype: Any) -> Any:
        working = computing_dtype(dtype)
        shape = broadcast_shape(operation, *[type_of(x).shape for x in values])
        out = formula(*[_in(x, working, shape) for x in values])
        if isinstance(out, tuple):
            return tuple(convert(x, dtype) for x in out)
        return convert_element_type(out, dtype) if type_of(out).dtype != dtype else out

    program.__name__ = function.__name__
    run = compiled(program)
    run_complex = None if of_complex is None else compiled(of_complex)

    @functools.wraps(function)
    def public(*args: Any, **keywords: Any) -> Any:
        if keywords or len(args) != len(names):
            args = tuple(_bound(operation, signature, args, keywords))
        if run_complex is not None:
            types = [operand_type(operation, n, x) for n, x in zip(names, args, strict=True)]
            if any(of.dtype in dtypes.COMPLEX for of in types):
                broadcast_shape(operation, *[of.shape for of in types])
                return run_complex(*promoted(operation, *promote_operands(operation, *args)))
        operands, dtype = real_operands(operation, names, args)
        return run(*operands, dtype=dtype)

    return cast(Callable[P, Result], api_boundary(public))


def _in(x: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """An operand of a formula: of the dtype, and of the shape or without dimensions."""
    of = type_of(x)
    if of.dtype != dtype:
        x = convert_element_type(x, dtype, of.weak_type)
    return x if of.shape in ((), shape) else broadcasted(x, shape)
