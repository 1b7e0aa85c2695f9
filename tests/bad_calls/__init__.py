"""Calls that must raise, as data: a module per chapter with a list `CALLS`, run by
`test_bad_calls.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

__all__ = ["BadCall"]


@dataclasses.dataclass(frozen=True)
class BadCall:
    """A call, the class of the error it raises, and what the message says beside the name of the
    function that is called."""

    name: str
    call: Callable[[], Any]
    error: type[Exception]
    says: tuple[str, ...]
