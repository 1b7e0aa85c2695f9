"""Checks of arguments that are true or false."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import Fix, WeftTypeError, with_operation


def check_flag(value: Any, argument: str, *, none: bool = False, operation: str = "") -> None:
    """Raises WeftTypeError if a flag is neither true nor false (nor None, where `none` is set).
    Python gives every object a truth value, under which the string "no" would be true."""
    if value is False or value is True or (none and value is None):
        return
    if isinstance(value, np.bool_) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return
    if getattr(value, "shape", None) == () and getattr(value, "dtype", None) == np.bool_:
        bool(value)  # raises for a traced value: the operation depends on the flag
        return
    message, got = f"{argument} is True or False", f"{argument}={value!r:.80}"
    message = with_operation(operation, message)
    wanted = "True, False or None" if none else "True or False"
    fix = Fix("flag", f"pass {argument}=True or {argument}=False", {"argument": argument})
    raise WeftTypeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def check_flags(operation: str, **flags: Any) -> dict[str, bool]:
    """The flags as booleans, by their names. Raises as `check_flag` for the first wrong one."""
    for argument, value in flags.items():
        check_flag(value, argument, operation=operation)
    return {argument: bool(value) for argument, value in flags.items()}
