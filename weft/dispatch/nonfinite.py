"""Tests results for NaNs and infinities, and makes the error that says where one was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.base import source as sources
from weft.core.types import type_of
from weft.errors import Fix, NonFiniteError

_LOOKED_AT = dtypes.INEXACT | dtypes.NARROW_FLOATING


class Watch(NamedTuple):
    """A test of values for NaNs, infinities, or both."""

    nans: bool
    infs: bool

    def finds(self, value: Any) -> bool:
        """Whether a value holds a NaN or an infinity that this test looks for."""
        if type_of(value).dtype not in _LOOKED_AT:
            return False
        numbers = np.asarray(value)
        return bool(
            (self.nans and np.isnan(numbers).any()) or (self.infs and np.isinf(numbers).any())
        )


def watch_of(settings: config.Settings) -> Watch:
    """The test that the settings ask for."""
    return Watch(settings.debug_nans, settings.debug_infs)


def nonfinite_error(
    watch: Watch,
    operation: str,
    args: Sequence[Any],
    outs: Sequence[Any],
    within: tuple[str, ...],
    *,
    names: Sequence[str] = (),
    note: str = "",
) -> NonFiniteError:
    """The error for an application on the current line. `within` has the loops, branches and jitted
    functions around it, innermost first; `names` has the user's names of its operands."""
    place, value = next((i, x) for i, x in enumerate(outs) if watch.finds(x))
    numbers = np.asarray(value)
    is_nan = watch.nans and bool(np.isnan(numbers).any())
    test, what, setting = (
        (np.isnan, "NaN", "debug_nans") if is_nan else (np.isinf, "infinity", "debug_infs")
    )
    marks = test(numbers)
    which = f"result {place}" if len(outs) > 1 else "the result"
    lines = [_result_text(which, value, numbers, marks, what)]
    lines += [
        _operand_text(i, x, marks, names[i] if i < len(names) else "") for i, x in enumerate(args)
    ]
    given = any(type_of(x).dtype in _LOOKED_AT and test(np.asarray(x)).any() for x in args)
    source = sources.here()
    return NonFiniteError(
        f"{operation} {'passed on' if given else 'made'} {'a' if is_nan else 'an'} {what}",
        kind=what,
        within=within,
        backward=sources.in_backward_pass(source),
        device=(str(value.device) if type(value) is Array and value.committed else None),
        operation=operation,
        got="\n".join([*lines, note] if note else lines),
        where=source,
        fix=Fix(
            "allow",
            "change the operands before they reach this operation (a choice made on its result "
            "alone leaves the derivative at fault), or allow the value: "
            f"with weft.{setting}(False)",
            {"setting": setting, "operation": operation},
        ),
    )


def _result_text(which: str, value: Any, numbers: Any, marks: Any, what: str) -> str:
    """Names the result at fault, with the number of elements and the first."""
    of = type_of(value)
    if not of.shape:
        return f"{which}, {of}, is {numbers}"
    first = ", ".join(str(i) for i in np.argwhere(marks)[0])
    count = f"{int(marks.sum())} of {marks.size} elements"
    return f"{which}, {of}, with {what} in {count}, first at [{first}]"


def _operand_text(i: int, value: Any, marks: Any, name: str) -> str:
    """An operand's type, its value where the result is at fault, and its NaNs and infinities."""
    of = type_of(value)
    text = f"operand {i}, {of} ({name})" if name else f"operand {i}, {of}"
    if of.dtype not in dtypes.ANY | dtypes.NARROW:
        return text
    numbers = np.asarray(value)
    if not of.shape:
        text += f": {numbers}"
    elif of.shape == marks.shape:
        text += f": {numbers[tuple(np.argwhere(marks)[0])]} there"
    if of.dtype in _LOOKED_AT:
        tests = (("NaN", np.isnan), ("infinity", np.isinf))
        held = [word for word, test in tests if test(numbers).any()]
        if held:
            text += f"; it holds {' and '.join(held)} already"
    return text
