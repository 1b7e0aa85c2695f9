"""Wrong programs as data: the error that each raises, and the program with the suggested fix.

Lines that an error has to name end in `# here`, and those that have to be said to have made a value
vary along an axis in `# varies`.
"""

from __future__ import annotations

import dataclasses
import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.errors import Fix, WeftError

__all__ = ["Case", "Table", "check", "marked"]


@dataclasses.dataclass(frozen=True)
class Case:
    """`wrong()` raises `error`, whose text has the phrases; `fixed(fix)` gives `value`."""

    error: type[WeftError]
    phrases: tuple[str, ...]
    wrong: Callable[[], Any]
    fixed: Callable[[Any], Any]
    value: Any


class Table(dict[str, Case]):
    """Cases by name: `case(name, error, *phrases)(wrong=..., fixed=..., value=...)` adds one."""

    def __call__(self, name: str, error: type[WeftError], *phrases: str) -> Callable[..., None]:
        assert name not in self
        return lambda **programs: self.update({name: Case(error, phrases, **programs)})


def marked(location: str | None, mark: str) -> bool:
    """Whether the last line of a file that a text names has a mark."""
    places = re.findall(r"(\S+\.py):(\d+)", location or "")
    return bool(places) and mark in linecache.getline(places[-1][0], int(places[-1][1]))


def check(row: Case) -> None:
    """Runs the wrong program and reads its error, then the fixed one."""
    with pytest.raises(row.error) as caught:
        row.wrong()
    error = caught.value
    text = str(error)
    for phrase in row.phrases:
        assert phrase in text, (phrase, text)
    assert error.got is not None or "missing" in error.message, text
    assert error.wanted is not None, text
    assert marked(error.location, "# here"), text
    assert isinstance(error.fix, Fix) and error.fix.text, text
    # A wrong axis or operation is never mended by looking away.
    assert "check_vma" not in text
    np.testing.assert_allclose(np.asarray(row.fixed(error.fix)), row.value, rtol=1e-6)
