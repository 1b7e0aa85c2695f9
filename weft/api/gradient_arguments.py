"""Flattens, chooses and checks arguments and results of functions that are differentiated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array, put
from weft.arrays.conversion import as_array
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import DTypeError, Fix, ShapeError, TreeError, WeftTypeError
from weft.errors.argument_errors import invalid_type, not_an_array
from weft.interpreters.staging import function_name
from weft.ops.elementwise.convert import beside_float64, convert_element_type
from weft.refs.reference import Ref, not_array_error

P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")
# The bound lets a type checker take the argument of a lambda for anything, not for an `object`.
T = TypeVar("T", bound=Any)
S = TypeVar("S", bound=Any)
# Functions by their first positional arguments, the others and the result.
OfFirst: TypeAlias = Callable[Concatenate[T, P], R]
OfTwo: TypeAlias = Callable[Concatenate[S, T, P], R]
Yes: TypeAlias = Literal[True]
No: TypeAlias = Literal[False]
First: TypeAlias = Literal[0]
Second: TypeAlias = Literal[1]
Both: TypeAlias = tuple[First, Second]
Argnums: TypeAlias = int | Sequence[int]


class Forward(TypedDict, total=False):
    """Options that are given by name."""

    holomorphic: bool


class Reverse(Forward, total=False):
    """Options of reverse mode that are given by name."""

    allow_int: bool


class Gradient(Reverse, total=False):
    """Options of gradients that are given by name."""

    reduce_axes: Sequence[Any]


def operand(value: Any, what: str, path: Any = ()) -> Any:
    """A leaf that a transformation may box, a tracer or an array; else raises WeftTypeError."""
    if isinstance(value, (Array, Tracer)):
        return value
    if type(value) is Ref:
        raise not_array_error(value)
    value = user_value(value)
    try:
        if not type_of(value).shape:
            return value  # a number stays one, so that a trace records it as a literal
        return as_array(value)
    except WeftTypeError:
        place = f" at {tree.keystr(path)}" if path else ""
        raise not_an_array(what, f"{what}: the value{place}", value) from None


def vector(value: Any, wanted: ArrayType, what: str, path: Any = ()) -> Any:
    """A leaf of tangents or cotangents: an `operand`; NumPy values of the wanted dtype keep it."""
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype == wanted.dtype:
        array = np.asarray(value)
        return put(array, ArrayType(array.shape, array.dtype)) if array.shape else array[()]
    return operand(value, what, path)


def operands(values: Any, what: str) -> tuple[list[Any], Any]:
    """The leaves of a tree, each of them an array or a tracer, and the structure."""
    leaves, structure = tree.flatten(values)
    if all(type(x) is Array for x in leaves):
        return leaves, structure
    leaves = list(beside_float64(leaves))
    paths = tree.leaves_with_path(structure.unflatten(leaves))
    found = [operand(x, what, path) for path, x in paths]
    return [x if isinstance(x, (Array, Tracer)) else as_array(x) for x in found], structure


def yields_to(got: ArrayType, wanted: ArrayType) -> bool:
    """Whether a tangent is a Python number that may take the wanted dtype."""
    real = got.dtype in dtypes.FLOATING or wanted.dtype in dtypes.COMPLEX
    return got.weak_type and got.dtype in dtypes.INEXACT and real


def conversion(got: Any, wanted: Any, what: str) -> Fix:
    """The fix for a tangent or cotangent of another dtype than is wanted."""
    if got in dtypes.COMPLEX and wanted not in dtypes.COMPLEX:
        return Fix("real", f"pass the real part of {what}: x.real.astype({wanted})")
    return Fix("convert", f"convert {what} to {wanted}", {"dtype": wanted})


def fit_to_type(value: Any, wanted: ArrayType, what: str) -> Any:
    """A tangent or cotangent of the wanted shape and dtype; only Python numbers are converted.
    Raises ShapeError or DTypeError for any other."""
    got = type_of(value)
    if got.shape != wanted.shape:
        raise ShapeError(
            f"{what} has another shape", got=str(got), wanted=str(wanted), operation=what
        )
    if got.dtype == wanted.dtype:
        return value
    if yields_to(got, wanted):
        return convert_element_type(value, wanted.dtype)
    message = f"{what} has another dtype"
    fix = conversion(got.dtype, wanted.dtype, "it")
    raise DTypeError(message, operation=what, got=str(got), wanted=str(wanted), fix=fix)


def tangent_leaves(
    given: Any, structure: Any, types: Sequence[ArrayType], what: str, operation: str, noun: str
) -> list[Any]:
    """The leaves of a tree of tangents or cotangents (`noun`), each fitted to its type. Raises
    TreeError if the structure is another one, ShapeError and DTypeError for leaves."""
    leaves = tree.leaves_with_path(given)
    if (found := tree.structure(given)) != structure:
        many = noun == "tangent"
        message = (
            f"{what}: the {noun}{'s have' if many else ' has'} another structure than the "
            f"{'arguments' if many else 'result'}"
        )
        raise TreeError(message, operation=operation, got=str(found), wanted=str(structure))
    out = []
    for (path, leaf), wanted in zip(leaves, types, strict=True):
        if wanted.dtype == dtypes.float0:
            check_no_tangent(leaf, wanted, f"{what}, {noun}{tree.keystr(path)}", operation)
        else:
            leaf = vector(leaf, wanted, what, path)
            leaf = fit_to_type(leaf, wanted, f"{what}, {noun}{tree.keystr(path)}")
        out.append(leaf)
    return out


def check_no_tangent(leaf: Any, wanted: ArrayType, what: str, operation: str) -> None:
    """Raises ShapeError or DTypeError unless a leaf is the tangent of a value that has none, float0
    of the shape. Python numbers stand for it, too."""
    if isinstance(leaf, (bool, int, float, complex)):
        return
    of = type_of(leaf)
    got, expected = f"{of}", f"np.zeros({wanted.shape}, weft.dtypes.float0)"
    if of.shape != wanted.shape:
        raise ShapeError(f"{what} has another shape", operation=operation, got=got, wanted=expected)
    if of.dtype not in (dtypes.float0, dtypes.bool_) and of.dtype in dtypes.INEXACT:
        message = f"{what}: a value that is no floating-point number has tangents of dtype float0"
        fix = Fix("float0", f"pass {expected}")
        raise DTypeError(message, operation=operation, got=got, wanted=expected, fix=fix)


def numbers_of(argnums: Argnums, operation: str) -> tuple[int, ...]:
    """The numbers in `argnums`: one, or several. Raises WeftTypeError for anything else."""
    one = isinstance(argnums, (int, np.integer))
    try:
        return tuple(map(operator.index, (argnums,) if one else argnums))  # type: ignore[arg-type]
    except TypeError:
        pass
    message = f"{operation}: argnums takes the number of an argument, or a tuple of numbers"
    wanted = "integers, counted from 0"
    raise invalid_type(message, operation, "argnums", argnums, wanted, 0)


def one_or_all(argnums: Argnums, found: tuple[Any, ...]) -> Any:
    """The values for the numbers in `argnums`: a tuple, unless it is one number."""
    return found[0] if isinstance(argnums, (int, np.integer)) else found


def chosen_arguments(
    operation: str,
    fun: Callable[..., Any],
    numbers: tuple[int, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[..., Any], tuple[Any, ...], list[int]]:
    """The function of the positional arguments of these numbers, the others being fixed; those
    arguments; and their indices, counted from 0. Raises WeftTypeError for a number beyond."""
    name, count = function_name(fun), len(args)
    for i in numbers:
        if not -count <= i < count:
            call = f"the call has {count} positional arguments"
            message = f"{operation} of {name}: argnums={i} and {call}"
            wanted = "the number of a positional argument; keyword arguments are not differentiated"
            fix = Fix("argnums", f"pass the arguments up to number {i} by position", {})
            if count and not kwargs:
                choice = "argnums=0" if count == 1 else f"argnums from 0 to {count - 1}"
                fix = Fix("argnums", f"pass {choice}", {"argnums": 0})
            raise invalid_type(message, operation, "argnums", i, wanted, fix=fix)
    indices = [int(i) % count for i in numbers]

    def partial(*values: Any) -> Any:
        full = list(args)
        for i, value in zip(indices, values, strict=True):
            full[i] = value
        return fun(*full, **kwargs)

    partial.__name__ = name
    return partial, tuple(args[i] for i in indices), indices


def check_grad_inputs(
    chosen: tuple[Any, ...], indices: list[int], name: str, holomorphic: bool, allow_int: bool
) -> None:
    for number, value in zip(indices, chosen, strict=True):
        for path, leaf in tree.leaves_with_path(value):
            dtype = type_of(operand(leaf, f"grad of {name}", path)).dtype
            where = f"argument {number}{tree.keystr(path)}"
            if holomorphic:
                if dtype not in dtypes.COMPLEX:
                    message = f"grad of {name} with holomorphic=True takes complex arguments"
                    got = f"{where} of dtype {dtype}"
                    wanted = "a complex dtype"
                    fix = Fix("convert", "convert the argument to complex64")
                    raise DTypeError(message, got=got, wanted=wanted, fix=fix)
            elif dtype in dtypes.COMPLEX:
                continue
            elif dtype not in dtypes.FLOATING and not allow_int:
                message = f"grad of {name} takes floating-point arguments"
                got = f"{where} of dtype {dtypes.short_name(dtype)}"
                wanted = "a floating-point or complex dtype"
                fix = Fix(
                    "convert",
                    "convert the argument to a floating-point dtype (pass 3.0 instead of 3), "
                    "or pass allow_int=True for float0 gradients",
                    {"allow_int": True},
                )
                raise DTypeError(message, got=got, wanted=wanted, fix=fix)


def check_grad_result(value: Any, name: str, holomorphic: bool) -> None:
    leaves, structure = tree.flatten(value)
    if structure != tree.structure(0):
        fix = Fix("has_aux", "return (scalar, others) and pass has_aux=True", {"has_aux": True})
        if len(leaves) < 2:
            fix = Fix("scalar", f"return the scalar itself from {name}")
        raise WeftTypeError(
            f"grad takes a function that returns one scalar, and {name} returned {structure}",
            got=str(structure),
            wanted="an array without dimensions",
            fix=fix,
        )
    aval = type_of(leaves[0])
    if aval.shape:
        message = f"grad takes a function that returns a scalar, and {name} returned {aval}"
        fix = Fix("sum", "reduce the result, for example by .sum() or .mean()")
        raise WeftTypeError(message, got=str(aval), wanted="an array without dimensions", fix=fix)
    wanted = dtypes.COMPLEX if holomorphic else dtypes.FLOATING
    if aval.dtype not in wanted:
        kind = "complex (holomorphic=True)" if holomorphic else "real floating-point"
        message = f"grad takes a function with a {kind} result, and {name} returned {aval}"
        got = str(aval)
        fix = Fix("convert", "convert the result to a floating-point dtype")
        if holomorphic:
            fix = Fix("holomorphic", "leave holomorphic out: only complex results can be it")
        elif aval.dtype in dtypes.COMPLEX:
            advice = "take the real part, or pass holomorphic=True and complex arguments for a "
            fix = Fix("holomorphic", f"{advice}holomorphic function")
        raise DTypeError(message, got=got, wanted=f"a {kind} dtype", fix=fix)
