"""Checks the arguments of FFI calls: operands, layouts, shared memory, batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft import dtypes
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    DTypeError,
    Fix,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.ffi.targets import batch_partitionable
from weft.sharding import Layout

Order = tuple[int, ...] | None


def operands(operation: str, args: Sequence[Any]) -> tuple[list[Any], tuple[ArrayType, ...]]:
    """The operands of a call, and their types. Raises WeftTypeError for anything that is not an
    array."""
    values = []
    for i, arg in enumerate(args):
        try:
            value = user_value(arg)
            type = type_of(value)
        except WeftTypeError:
            message = f"{operation}: argument {i} is no array"
            got = f"{arg!r:.100} of class {arg.__class__.__name__}"
            wanted = "arrays and numbers by position"
            text = "pass the arrays of a tree one by one, and attributes by keyword"
            fix = Fix("operand", text, {"argument": i})
            raise WeftTypeError(
                message, operation=operation, got=got, wanted=wanted, fix=fix
            ) from None
        check_type(operation, f"argument {i}", type)
        values.append(value)
    return values, tuple(type_of(value) for value in values)


def check_type(operation: str, what: str, type: ArrayType) -> None:
    """Raises DTypeError for values that have no memory that compiled code could read."""
    if dtypes.is_extended(type.dtype) or type.dtype == dtypes.float0:
        message = f"{operation}: {what} has a dtype that compiled code does not know"
        wanted = "numbers or booleans"
        fix = Fix("key_data", "pass weft.random.key_data(key) for a random key", {"what": what})
        raise DTypeError(message, operation=operation, got=f"{type}", wanted=wanted, fix=fix)


def is_layout(given: Any) -> bool:
    """Whether this is one layout, not a sequence of layouts."""
    if isinstance(given, Sequence):
        return all(isinstance(entry, int) for entry in given)
    return isinstance(given, Layout)


def orders(operation: str, name: str, given: Any, types: Sequence[ArrayType]) -> tuple[Order, ...]:
    """The dimensions of each value from major to minor, None for row-major ones."""
    if given is None:
        return (None,) * len(types)
    if not isinstance(given, Sequence) or len(given) != len(types):
        message = f"{operation}: {name} has one entry for each of {len(types)} arrays"
        got = f"{name}={given!r:.100}"
        wanted = f"{len(types)} entries"
        fix = Fix("layouts", f"pass {name}={[None] * len(types)}", {name: [None] * len(types)})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    found: list[Order] = []
    for i, (entry, type) in enumerate(zip(given, types, strict=True)):
        if entry is None:
            found.append(None)
            continue
        layout = entry if isinstance(entry, Layout) else Layout(entry)
        layout.check_rank(operation, f"{name}[{i}]", type.shape)
        if layout.tiling:
            message = f"{operation}: {name}[{i}] has tiles, which the interface cannot say"
            got = f"{layout}"
            fix = Fix("layout", f"pass Layout({layout.major_to_minor})", {name: i})
            raise WeftNotImplementedError(
                message, operation=operation, got=got, wanted="an order of the dimensions", fix=fix
            )
        found.append(None if layout.is_row_major else layout.major_to_minor)
    return tuple(found)


def checked_aliases(
    operation: str,
    given: Mapping[int, int] | None,
    types: tuple[Sequence[ArrayType], Sequence[ArrayType]],
    orders: tuple[Sequence[Order], Sequence[Order]],
) -> tuple[tuple[int, int], ...]:
    """Pairs of operand and result that share memory. Raises WeftValueError for a bad pair."""
    (ins, outs), (in_orders, out_orders) = types, orders
    pairs = tuple(sorted((given or {}).items()))
    for i, o in pairs:
        wrong = None
        if not (0 <= i < len(ins) and 0 <= o < len(outs)):
            wrong = f"{len(ins)} operands and {len(outs)} results"
        elif (ins[i].shape, ins[i].dtype) != (outs[o].shape, outs[o].dtype):
            wrong = f"operand {i} is {ins[i]} and result {o} is {outs[o]}"
        elif in_orders[i] != out_orders[o]:
            wrong = f"operand {i} and result {o} have different layouts"
        elif len({other for _, other in pairs}) < len(pairs):
            wrong = "two operands for one result"
        if wrong is not None:
            raise WeftValueError(
                f"{operation}: input_output_aliases has a pair that cannot share memory",
                operation=operation,
                got=f"{{{i}: {o}}} where there is {wrong}"
                if wrong[0].isdigit()
                else f"{{{i}: {o}}}: {wrong}",
                wanted="an operand and a result of one shape, dtype and layout",
                fix=Fix("remove", f"leave {i}: {o} out", {"operand": i, "result": o}),
            )
    return pairs


def checked_batch_dims(target: str, count: int, types: Sequence[ArrayType]) -> int:
    """How many leading dimensions a call may be cut along. Raises WeftValueError if the target
    is not batch partitionable, ShapeError if those dimensions differ."""
    if count == 0:
        return 0
    operation = f"ffi_call of {target}"
    if not batch_partitionable(target):
        message = f"{operation}: nobody said that the handler may be called on parts of a batch"
        got = f"num_batch_dims={count}"
        wanted = "0, or a target that is registered as batch partitionable"
        text = f"call weft.ffi.register_ffi_target_as_batch_partitionable({target!r}) before"
        fix = Fix("register", text, {"target": target})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    leading = {type.shape[:count] for type in types}
    if len(leading) > 1 or count < 0 or any(type.ndim < count for type in types):
        common = 0
        while len({(type.ndim > common, *type.shape[: common + 1]) for type in types}) == 1 and (
            types[0].ndim > common
        ):
            common += 1
        raise ShapeError(
            f"{operation}: operands and results do not agree in their first {count} dimensions",
            operation=operation,
            got=", ".join(map(str, types)),
            wanted=f"num_batch_dims from 0 to {common}",
            fix=Fix("num_batch_dims", f"pass num_batch_dims={common}", {"num_batch_dims": common}),
        )
    return count


def untyped_config(
    operation: str, version: Any, config: Any, name: str = "legacy_backend_config"
) -> tuple[int, str] | None:
    """The version and the text of a call by the untyped interface; None for a typed call. Raises
    WeftValueError for an unknown version or a text that does not fit it, WeftTypeError for a text
    that is not a str."""
    if isinstance(version, bool) or version not in (1, 2, 3, 4):
        message = f"{operation}: there is no such version of the interface"
        got = f"version {version!r}"
        wanted = "4, the typed interface, or 1, 2 or 3 of the one before it"
        fix = Fix("custom_call_api_version", "pass 4", {"custom_call_api_version": 4})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    if config is not None and not isinstance(config, str):
        message = f"{operation}: {name} is a text"
        got = f"{config!r:.100} of class {type(config).__name__}"
        wanted = "a text, or None"
        fix = Fix(name, f"pass {name}=str(...)")
        raise WeftTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    if version != 4:
        return int(version), config or ""
    if config is not None:
        message = f"{operation}: a typed call has attributes, not {name}"
        got = f"{name}={config!r:.100}"
        wanted = "attributes by keyword"
        fix = Fix(name, f"leave {name} out", {name: None})
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return None
