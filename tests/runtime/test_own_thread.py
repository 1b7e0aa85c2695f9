"""What signals do while programs are compiled and jaxlib is imported, on threads of their own."""

from __future__ import annotations

import _thread
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from at_once import together
from weft.runtime.jaxlib import own_thread
from weft.runtime.jaxlib.own_thread import on_own_thread, wait_for_threads

pytestmark = pytest.mark.fast


class Interrupt(Exception):
    """What the handlers of these tests raise."""


@pytest.fixture
def alarm():
    def handler(number, frame):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


variable = contextvars.ContextVar("variable", default="unset")


def test_returns_and_raises_what_the_function_does_in_the_callers_context():
    def look():
        return variable.get(), threading.get_ident()

    token = variable.set("set")
    found, thread = on_own_thread(look)
    variable.reset(token)
    assert found == "set" and thread != threading.get_ident()
    assert on_own_thread(dict, [(1, 2)], a=3) == {1: 2, "a": 3}
    assert on_own_thread(lambda: None) is None

    def fails():
        raise KeyError("this one")

    with pytest.raises(KeyError, match="this one") as caught:
        on_own_thread(fails)
    assert "fails" in [frame.name for frame in traceback.extract_tb(caught.tb)]


def test_an_interrupt_reaches_the_caller_at_once_and_the_function_runs_to_its_end(alarm):
    # Twelve at a time, one of them with an error that nobody is told of.
    ended = []

    def slow(number, gate):
        gate.wait(30)
        ended.append(number)
        if number == 5:
            raise ValueError("dropped")

    gate = threading.Event()
    for number in range(12):
        started = time.monotonic()
        with pytest.raises(Interrupt):
            alarm(0.02)
            on_own_thread(slow, number, gate)
        assert time.monotonic() - started < 10 and not ended
    assert len(own_thread._running) >= 12
    gate.set()
    wait_for_threads()
    assert sorted(ended) == [*range(12)] and not own_thread._running


def test_callers_do_not_wait_for_each_other():
    # Each waits until the other has started: in turn, neither would end.
    barrier = threading.Barrier(3, timeout=30)
    others = [threading.Thread(target=on_own_thread, args=(barrier.wait,)) for _ in range(2)]
    for other in others:
        other.start()
    on_own_thread(barrier.wait)
    for other in others:
        other.join()


def test_the_callers_thread_does_it_where_the_system_grants_none(monkeypatch):
    def refuse(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert on_own_thread(threading.get_ident) == threading.get_ident()
    assert not own_thread._running
    np.testing.assert_array_equal(weft.jit(lambda x: 3 * x - 11)(np.arange(3)), [-11, -8, -5])


def test_a_callback_may_compile_and_threads_compile_at_a_time():
    def times(factor):
        return weft.jit(lambda x: factor * x - 17)

    def host(x):
        return np.asarray(times(5)(x))

    call = weft.jit(
        lambda x: weft.pure_callback(host, weft.ShapeDtypeStruct(x.shape, x.dtype), x) + 1
    )

    def work(number):
        x = jnp.arange(3.0 + number)
        return np.asarray(call(x) + times(number)(x))

    for number, found in enumerate(together(work, 4)):
        x = np.arange(3.0 + number)
        np.testing.assert_array_equal(found, (5 * x - 17 + 1) + (number * x - 17))


# Interrupts a compilation each time that the compiler has just begun, then uses what is left.
INTERRUPTED = """
import os, signal, sys, threading, time
import weft, weft.numpy as jnp
from weft.runtime.jaxlib import own_thread
from weft.runtime.backends import process_end

# Ignored in what a shell runs in the background, and in all that this starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt(times):
    for _ in range(times):
        while not own_thread._running:
            time.sleep(0.001)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        done.acquire()

def lowered(number, count=12):
    def f(x):
        for i in range(count):
            x = jnp.sin(x @ x) * (i + number)
        return x.sum()
    return weft.jit(f).lower(jnp.ones((20, 20)))

def compile(program):
    try:
        program.compile()
    except KeyboardInterrupt:
        return True
    finally:
        done.release()

done = threading.Semaphore(0)
x = jnp.arange(3.0)
"""
MANY = """
programs = [lowered(number) for number in range(5)]
with weft.config.override(cache_dir=sys.argv[1]):
    threading.Thread(target=interrupt, args=(5,), daemon=True).start()
    interrupted = sum(bool(compile(program)) for program in programs)
    assert interrupted == 5, interrupted
    own_thread.wait_for_threads()
    kept = weft.debug.program_cache_info()
    assert kept.entries == 5, kept
    for program in programs:
        program.compile()
    assert weft.debug.program_cache_info().hits == 5
assert (x * 2 + 1).tolist() == [1, 3, 5]
assert float(weft.jit(lambda x: (3 * x).sum())(x)) == 9
sys.exit(3)
"""
# The compiler is still at work when the process ends: waited for, until an interrupt or the bound.
AT_THE_END = """
import gc
program = lowered(1, 1500)
threading.Thread(target=interrupt, args=(1,), daemon=True).start()
assert compile(program)
if sys.argv[1] == "bound":
    process_end.LONGEST_WAIT = 0.3
else:
    process_end.LONGEST_WAIT = 600.0
    def again():
        while process_end._gate is None:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=again, daemon=True).start()
assert own_thread._running
sys.exit(3)
"""


# Interrupts the first calls of a process, which import jaxlib and start the devices, a little later
# each time, until one comes through.
FIRST_CALLS = """
import signal, sys
import numpy as np
import weft, weft.numpy as jnp

class Interrupt(Exception):
    pass

def handler(number, frame):
    raise Interrupt

def function(x):
    y = jnp.outer(x, x) + jnp.eye(3)
    return jnp.linalg.inv(y)[jnp.argsort(-x)].sum(0) + weft.lax.erf_inv(x * 0.01)

signal.signal(signal.SIGALRM, handler)
delay, interrupts = float(sys.argv[1]), 0
while True:
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        found = weft.jit(function)(np.arange(3.0))
        signal.setitimer(signal.ITIMER_REAL, 0)
        break
    except Interrupt:
        interrupts, delay = interrupts + 1, 1.3 * delay
assert interrupts
x = np.arange(3.0)
z = 0.01 * x
erf_inv = np.sqrt(np.pi) / 2 * (z + np.pi / 12 * z**3)  # its series
wanted = np.linalg.inv(np.outer(x, x) + np.eye(3)).sum(0) + erf_inv
np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
sys.exit(3)
"""


def ended(code, argument, status, **settings):
    environment = {**os.environ, "WEFT_CACHE_DIR": "", "WEFT_COMPILE_EFFORT": "full", **settings}
    done = subprocess.run(
        [sys.executable, "-c", code, str(argument)],
        env=environment, timeout=300, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == status, (done.returncode, done.stderr)
    assert not done.stderr


def test_a_process_survives_interrupts_of_the_compiler_and_keeps_what_it_made(tmp_path):
    ended(INTERRUPTED + MANY, tmp_path, 3)


@pytest.mark.parametrize("delay", [0.01, 0.03, 0.08])
def test_first_calls_may_be_interrupted_and_made_again(delay):
    ended(FIRST_CALLS, delay, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems free C++'s data at exit")
@pytest.mark.parametrize("how", ["bound", "second interrupt"])
def test_a_process_ends_with_its_status_while_the_compiler_is_at_work(how):
    ended(INTERRUPTED + AT_THE_END, how, 3)
