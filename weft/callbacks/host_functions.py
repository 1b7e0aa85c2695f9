"""The host side of callbacks: Python functions from stored arrays to stored arrays.

A `HostFunction` puts a user's function of trees behind an interface of flat lists of NumPy arrays,
gives it the surroundings of an ordinary call, and checks its results against the promised types.
"""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, errors, tree
from weft.arrays.array import Array, as_stored
from weft.base import source as sources
from weft.core.shared_jaxprs import register_content, structure_parts
from weft.core.trace import bottom_trace, using_trace
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, TreeError, WeftError, WeftTypeError
from weft.errors.argument_errors import describe_value
from weft.ops.structural.extended_dtypes import KeyDType, physical_type

Stored = np.ndarray[Any, Any]
Types = Sequence[ArrayType]

_EXACT = dtypes.ANY | dtypes.NARROW


def stored_values(array: Array) -> Stored:
    """The values of an array as they are stored: of random keys, their bits."""
    return array._stored()


def from_stored_values(values: Stored, type: ArrayType, device: Any = None) -> Array:
    """The array of a type from its stored values, on a device (None: the default one)."""
    return as_stored(values, type, device)


@dataclasses.dataclass(eq=False, repr=False)
class HostFunction:
    """A user's function of trees.

    `what` is how messages call it; `in_tree` the structure of (args, kwargs), whose leaves are
    arrays but for those in `static`, pairs of index and value; `out_tree` the structure that its
    result shall have (None: the result is ignored), whose leaves at the indices `empty` (of dtype
    float0) are not looked at; `source` and `settings` are those of the call.
    """

    what: str
    function: Callable[..., Any]
    in_tree: Any
    static: Sequence[tuple[int, Any]]
    out_tree: Any
    empty: Sequence[int]
    source: Any
    settings: config.Settings

    def __repr__(self) -> str:
        return f"<{self.what}>"

    def __call__(self, arrays: Sequence[Stored], in_types: Types, out_types: Types) -> list[Stored]:
        """Calls the function. Raises what it raises, and an error for a result without the promised
        structure, shapes and dtypes; under `argument_rule="jax"` a JaxRuntimeError for each, with
        the text of their traceback."""
        if self.settings.argument_rule == "weft":
            return self.call(arrays, in_types, out_types)
        try:
            return self.call(arrays, in_types, out_types)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            raise errors.JaxRuntimeError(f"INTERNAL: a callback failed: {text.rstrip()}") from error

    def call(self, arrays: Sequence[Stored], in_types: Types, out_types: Types) -> list[Stored]:
        """Calls the function and checks what it returns."""
        leaves = list(map(handed_over, arrays, in_types))
        for place, value in self.static:
            leaves.insert(place, value)
        # A transformation may be active around the caller; the callback is no part of it.
        with using_trace(bottom_trace()), sources.user_frames(), self.settings_in_force():
            args, kwargs = self.in_tree.unflatten(leaves)
            result = self.function(*args, **kwargs)
            return [] if self.out_tree is None else self.results(result, out_types)

    def settings_in_force(self) -> contextlib.AbstractContextManager[object]:
        """The settings under which the callback was traced, also in a thread of the runtime."""
        if config.settings() is self.settings:
            return contextlib.nullcontext()
        return config.using(self.settings)

    def results(self, result: Any, out_types: Sequence[ArrayType]) -> list[Stored]:
        """The leaves of a result as they are stored, checked against the types."""
        leaves, structure = tree.flatten(result)
        # A function that returns nothing fits where no array was promised, however that is written.
        if structure != self.out_tree and (result is not None or self.out_tree.num_leaves):
            wanted = self.out_tree
            lines = "".join(
                f"\n    result{tree.keystr(path)}: {text}"
                for path, text in tree.equality_errors(wanted, structure)
            )
            raise TreeError(
                f"{self.what} returned another structure than was promised{lines}",
                operation=self.what,
                got=structure,
                wanted=wanted,
                where=self.source,
                fix=Fix(
                    "same_structure",
                    "return the structure of result_shape_dtypes, or change that",
                    {"structure": wanted},
                ),
            )
        places = [i for i in range(len(leaves)) if i not in self.empty]
        return [self.result(leaves, i, t) for i, t in zip(places, out_types, strict=True)]

    def result(self, leaves: Sequence[Any], i: int, type: ArrayType) -> Stored:
        """One leaf of a result as it is stored, checked against its type."""
        value = leaves[i]
        try:
            got = exact_type(value)
        except WeftTypeError:
            raise self.bad_result(
                WeftTypeError, i, "is no array", describe_value(value), type
            ) from None
        if got.shape != type.shape:
            raise self.bad_result(ShapeError, i, "has another shape than was promised", got, type)
        if not yields_to(got, type):
            raise self.bad_result(DTypeError, i, "has another dtype than was promised", got, type)
        if isinstance(type.dtype, KeyDType):
            return stored_values(value)
        array = np.asarray(value)
        with np.errstate(over="ignore"):  # 1e300 in float32 is infinity, as everywhere.
            out = np.ascontiguousarray(array, type.dtype).reshape(type.shape)
        exact = type.dtype.kind not in "iu" or array.dtype == type.dtype
        if not exact and not np.array_equal(out, array):
            raise self.bad_result(DTypeError, i, "holds numbers that do not fit", got, type)
        return out

    def bad_result(
        self, kind: Callable[..., WeftError], i: int, fault: str, got: Any, wanted: ArrayType
    ) -> WeftError:
        """The error for a leaf of the result, named by its path."""
        dummy = self.out_tree.unflatten(range(self.out_tree.num_leaves))
        path = tree.keystr(tree.leaves_with_path(dummy)[i][0])
        dtype = dtypes.short_name(wanted.dtype)
        return kind(
            f"{self.what}: result{path} {fault}",
            operation=self.what,
            got=got,
            wanted=wanted,
            where=self.source,
            fix=Fix(
                "promised_type",
                f"return an array of shape {wanted.shape} and dtype {dtype}, or promise what is "
                "returned in result_shape_dtypes",
                {"path": path, "shape": wanted.shape, "dtype": wanted.dtype},
            ),
        )


def handed_over(values: Stored, type: ArrayType) -> Any:
    """An operand for the user's function: a NumPy array, or an array of random keys."""
    return from_stored_values(values, type) if isinstance(type.dtype, KeyDType) else values


def exact_type(value: Any) -> ArrayType:
    """The type of a value, NumPy arrays in their own width. Raises WeftTypeError for no array."""
    if isinstance(value, (np.ndarray, np.generic)):
        dtype = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
        if dtype in _EXACT:
            return ArrayType(value.shape, dtype)
    if type(value) is int:  # Whether it fits depends on the promised dtype.
        return ArrayType((), dtypes.int64, weak_type=True)
    return type_of(value)


def yields_to(got: ArrayType, wanted: ArrayType) -> bool:
    """Whether a result of one type is accepted where another was promised: Python numbers without
    loss, and NumPy's 64-bit results, which functions often compute unasked, where weft takes such
    arrays in the default width."""
    if got.dtype == wanted.dtype:
        return True
    if dtypes.is_extended(wanted.dtype) or dtypes.is_extended(got.dtype):
        return False
    if got.weak_type:
        return dtypes.promote((got.dtype, True), (wanted.dtype, False))[0] == wanted.dtype
    return bool(dtypes.canonical(got.dtype) == wanted.dtype)


# The user's function counts by identity; lines are for messages alone.
register_content(
    HostFunction,
    lambda f: (
        f.what,
        f.function,
        structure_parts(f.in_tree),
        tuple(f.static),
        None if f.out_tree is None else structure_parts(f.out_tree),
        tuple(f.empty),
        f.settings,
    ),
)


@dataclasses.dataclass(eq=False, repr=False)
class MappedHostFunction:
    """A host function applied to each element along a leading axis, one after the other. `flags`
    marks the operands that have that axis; every result has it."""

    element: Any
    flags: Sequence[bool]
    size: int

    @property
    def what(self) -> str:
        """How messages call it."""
        return str(self.element.what)

    def __repr__(self) -> str:
        return f"<{self.what}, {self.size} times>"

    def __call__(self, arrays: Sequence[Stored], in_types: Types, out_types: Types) -> list[Stored]:
        """Calls the function once per element, and stacks the results."""
        pairs = zip(in_types, self.flags, strict=True)
        inner_in = [t.update(shape=t.shape[1:]) if flag else t for t, flag in pairs]
        inner_out = [t.update(shape=t.shape[1:]) for t in out_types]
        physical = [physical_type(t) for t in out_types]
        found = [np.empty(t.shape, t.dtype) for t in physical]
        for i in range(self.size):
            row = [x[i, ...] if flag else x for x, flag in zip(arrays, self.flags, strict=True)]
            outs = self.element(row, inner_in, inner_out)
            for whole, out in zip(found, outs, strict=True):
                whole[i] = out
        return found


@dataclasses.dataclass(eq=False)
class ProgramCallback:
    """A host function as an executable calls it, for operands and results of given types. With
    `ordered`, the last operand and the last result are the number that keeps the order."""

    function: Any
    in_types: Types
    out_types: Types
    ordered: bool

    def __call__(self, *arrays: Stored) -> tuple[Stored, ...]:
        values = arrays[:-1] if self.ordered else arrays
        outs = self.function(values, self.in_types, self.out_types)
        return (*outs, np.zeros((), np.int32)) if self.ordered else tuple(outs)

    def zeros(self) -> tuple[Stored, ...]:
        """Stands for the results where the function has failed and the executable goes on."""
        types = map(physical_type, self.out_types)
        outs = tuple(np.zeros(type.shape, type.dtype) for type in types)
        return (*outs, np.zeros((), np.int32)) if self.ordered else outs


register_content(MappedHostFunction, lambda f: (f.element, tuple(f.flags), f.size))
