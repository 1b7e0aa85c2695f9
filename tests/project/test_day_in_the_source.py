"""docs/day_in_the_source.md names functions in the order in which a call passes through them.

The page's program runs in an interpreter of its own, under a profiler that notes which functions of
weft are entered. Every step of the page has to be entered, after the step before it.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from processes import python_output
from source_files import ROOT

pytestmark = pytest.mark.fast

PAGE = ROOT / "docs" / "day_in_the_source.md"
# A step: a numbered line that begins with a file and a function of it.
STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)` `(?P<function>[\w.]+)`", re.MULTILINE)

PROGRAM = """
import json, os, sys
import weft
import weft.numpy as jnp

root = os.path.dirname(weft.__file__) + os.sep
entered = []

def note(frame, event, _):
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(root):
        function = frame.f_code.co_qualname.replace(".<locals>", "")
        entered.append((path[len(root):].replace(os.sep, "/"), function))

def followed(call):
    entered.clear()
    sys.setprofile(note)
    result = call()
    sys.setprofile(None)
    return [*entered], result

def f(x):
    return jnp.sum(jnp.sin(x) ** 2)

x = jnp.arange(3.0)
gradient = weft.jit(weft.grad(f))
first, _ = followed(lambda: gradient(x))
second, y = followed(lambda: gradient(x))
read, _ = followed(lambda: y.tolist())
print(json.dumps([first, second, read]))
"""


def chapters(page):
    """The steps of each chapter of the page that has some."""
    for chapter in page.split("\n## ")[1:]:
        steps = [(found["file"], found["function"]) for found in STEP.finditer(chapter)]
        if steps:
            yield chapter.splitlines()[0], steps


def missing(steps, entered):
    """The steps that are not entered after the one before."""
    here = 0
    for step in steps:
        try:
            here = entered.index(step, here) + 1
        except ValueError:
            yield step


def test_the_steps_are_those_of_a_call():
    out = python_output("-c", PROGRAM, env={**os.environ, "WEFT_COMPILED_CALLS": "0"})
    calls = [[(file, function) for file, function in call] for call in json.loads(out)]
    told = list(chapters(PAGE.read_text(encoding="utf-8")))
    assert len(told) == len(calls), "a chapter for each call that the program makes"
    for (title, steps), entered in zip(told, calls, strict=True):
        assert not list(missing(steps, entered)), title


def test_the_page_shows_the_program_that_is_followed():
    page = PAGE.read_text(encoding="utf-8")
    for line in ("def f(x):", "gradient = weft.jit(weft.grad(f))"):
        assert line in page and line in PROGRAM


def test_a_step_out_of_order_is_found():
    entered = [("a.py", "f"), ("b.py", "g")]
    assert not list(missing([("a.py", "f"), ("b.py", "g")], entered))
    assert list(missing([("b.py", "g"), ("a.py", "f")], entered)) == [("a.py", "f")]
    assert list(missing([("a.py", "h")], entered)) == [("a.py", "h")]
    page = "# Title\n\n## One\n\n1. `core/trace.py` `bind` does.\n2. nothing\n"
    assert list(chapters(page)) == [("One", [("core/trace.py", "bind")])]
