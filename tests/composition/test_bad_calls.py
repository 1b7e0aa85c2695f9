"""Wrong calls raise errors that name the function, what it got and what it takes."""

from __future__ import annotations

import importlib

import pytest

from source_files import ROOT

pytestmark = pytest.mark.fast

FOLDER = ROOT / "tests" / "bad_calls"
CHAPTERS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
CALLS = [
    pytest.param(bad, id=f"{chapter}-{bad.name}-{number}")
    for chapter in CHAPTERS
    for number, bad in enumerate(importlib.import_module(f"bad_calls.{chapter}").CALLS)
]


@pytest.mark.parametrize("bad", CALLS)
def test_a_bad_call_raises(bad):
    with pytest.raises(bad.error) as found:
        bad.call()
    message = str(found.value)
    for text in (bad.name, *bad.says):
        assert text in message, f"{text!r} is not said:\n{message}"
