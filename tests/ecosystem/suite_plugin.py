"""A plugin of pytest that draws some tests and writes down how each ends, as lines of JSON.

It is told by environment variables: SUITE_RESULT, the file to write; SUITE_COUNT, how many tests
are drawn by the hash of their names at most, and SUITE_SECONDS, how many seconds after the first
the last one is begun; SUITE_ONLY, a file with the names of those to run instead; SUITE_SYSTEM,
"weft" to run on weft.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import time
from typing import Any

import pytest

if os.environ["SUITE_SYSTEM"] == "weft":
    import weft.as_jax  # noqa: F401

RESULT = pathlib.Path(os.environ["SUITE_RESULT"])
_begun: list[float] = []
_failed: dict[str, str] = {}


def write(line: dict[str, Any]) -> None:
    with RESULT.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def hash_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    only = os.environ.get("SUITE_ONLY")
    if only:
        names = set(pathlib.Path(only).read_text(encoding="utf-8").splitlines())
        items[:] = [item for item in items if item.nodeid in names]
        return
    # In the order of the hashes: those that a time suffices for are a fair sample.
    items.sort(key=lambda item: hash_of(item.nodeid))
    del items[int(os.environ["SUITE_COUNT"]) :]


def pytest_runtest_logfinish(nodeid: str) -> None:
    reason = _failed.get(nodeid)
    outcome = "passed" if reason is None else "failed" if reason else "skipped"
    seconds = time.monotonic() - _begun[-1]
    write({"test": nodeid, "outcome": outcome, "reason": reason, "seconds": seconds})


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any) -> None:
    _begun.append(time.monotonic())
    if _begun[-1] - _begun[0] > float(os.environ["SUITE_SECONDS"]):
        item.session.shouldstop = "the time is over"


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        write({"file": report.nodeid, "reason": reason_of(report)})


def pytest_runtest_logstart(nodeid: str) -> None:
    write({"test": nodeid, "outcome": "started"})


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _failed.setdefault(report.nodeid, reason_of(report))
    elif report.skipped:
        _failed.setdefault(report.nodeid, "")


def reason_of(report: Any) -> str:
    """The error that a test ended with, in one line that is the same on other machines."""
    return re.sub(r"(?<![\w.])/[^\s'\"]*/", "", message_of(report))


def message_of(report: Any) -> str:
    """What a test's error says, in one line."""
    text = report.longrepr
    crash = getattr(text, "reprcrash", None)
    message = crash.message if crash else str(text).strip()
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if not lines:
        return "no message"
    if not crash:
        errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E  ")]
        return (errors or lines)[-1]
    return " ".join(lines[:3])
