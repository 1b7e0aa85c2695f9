"""Compiling that takes long says so, once, on a terminal."""

from __future__ import annotations

import io
import itertools
import sys
import threading
import time

import pytest

import weft
import weft.numpy as jnp
from at_once import together
from weft.lowering import executables, slow_compiles
from weft.lowering.slow_compiles import noticed

pytestmark = pytest.mark.fast
NUMBERS = itertools.count(41)


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def lines(self):
        return self.getvalue().splitlines()


@pytest.fixture
def terminal(monkeypatch):
    """A terminal, on which a second of the setting lasts a twentieth of one."""
    stream, begin = Terminal(), slow_compiles._begin
    # pytest puts its own streams in place for each test, after the fixtures.
    monkeypatch.setattr(slow_compiles, "is_terminal", stream.isatty)
    monkeypatch.setattr(slow_compiles, "write", stream.write)
    monkeypatch.setattr(slow_compiles, "_begin", lambda name, s: begin(name, s / 20))
    yield stream
    watcher = slow_compiles._watcher
    if watcher is not None:
        watcher.join(10)
    assert slow_compiles._running == {} and slow_compiles._watcher is None


def test_long_compiling_says_so_once(terminal, monkeypatch):
    compiled = executables._compile

    def slowly(*args):
        time.sleep(0.4)
        return compiled(*args)

    monkeypatch.setattr(executables, "_compile", slowly)
    # A number of its own: a program that was compiled before is not compiled again.
    number = next(NUMBERS)
    with weft.config.override(compile_notice_seconds=2):
        weft.jit(lambda x: jnp.sin(x) * 3 + number)(2.0)
    first, last = terminal.lines()
    assert first.startswith("weft: compiling <lambda> takes longer than ")
    assert first.endswith("(the setting compile_notice_seconds, 0 for silence)")
    seconds = float(last.removeprefix("weft: compiling <lambda> took ").removesuffix(" s"))
    assert 0.4 <= seconds < 60


def test_short_compiling_says_nothing_and_shares_a_watcher(terminal, monkeypatch):
    started = []
    own = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda t: (started.append(t), own(t))[1])
    with weft.config.override(compile_notice_seconds=20):
        for _ in range(100):
            with noticed("f"):
                pass
    assert len(started) == 1 and terminal.lines() == []


def test_what_is_compiled_inside_is_a_part(terminal):
    with weft.config.override(compile_notice_seconds=1), noticed("outer"), noticed("inner"):
        time.sleep(0.3)
    assert [line.split()[2] for line in terminal.lines()] == ["outer", "outer"]


def test_several_threads(terminal):
    def work(number):
        with weft.config.override(compile_notice_seconds=1), noticed("fg"[number]):
            time.sleep(0.3)

    together(work, 2)
    assert sorted(line.split()[2] for line in terminal.lines()) == ["f", "f", "g", "g"]


def test_an_error_ends_it(terminal):
    with pytest.raises(ValueError), noticed("f"):
        raise ValueError("no such option")


@pytest.mark.parametrize("stream", [io.StringIO(), None], ids=["a pipe", "none"])
def test_nothing_is_said_without_a_terminal(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(slow_compiles, "_begin", None)
    with noticed("f"):
        pass


def test_the_setting_turns_it_off(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(slow_compiles, "_begin", None)
    with weft.config.override(compile_notice_seconds=0), noticed("f"):
        pass


def test_the_setting_is_a_whole_number():
    with pytest.raises(TypeError, match="a whole number of seconds, not 0.5"):
        weft.config.update("compile_notice_seconds", 0.5)
