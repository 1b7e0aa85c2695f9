"""Functions of JAX that weft cannot have: importing them is no error, calling one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from weft.errors import WeftNotImplementedError
from weft.errors.argument_errors import refusal


def unavailable_error(name: str, why: str, wanted: str | None = None) -> WeftNotImplementedError:
    """The error for a call of something that weft does not have."""
    message = f"{name} is not available: {why}"
    return refusal(WeftNotImplementedError, message, name, f"a call of {name}", wanted)


def refusing(name: str, why: str, wanted: str | None = None) -> Callable[..., Any]:
    """A function of this name that raises WeftNotImplementedError when it is called."""

    def unavailable(*args: Any, **kwargs: Any) -> NoReturn:
        raise unavailable_error(name, why, wanted)

    unavailable.__name__ = unavailable.__qualname__ = name.rpartition(".")[2]
    unavailable.__doc__ = f"Not available: {why}. Raises WeftNotImplementedError."
    return unavailable
