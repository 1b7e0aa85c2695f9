"""Processes that end while others of their threads compute, and forked ones, which cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.fast

BOTH = pytest.mark.parametrize("compiled_calls", ["1", "0"])


def outcome(code, compiled_calls="1", timeout=120):
    environment = {**os.environ, "WEFT_COMPILED_CALLS": compiled_calls, "WEFT_CACHE_DIR": ""}
    # The tests' own processes have several devices; what runs on one is started another way.
    environment.pop("WEFT_NUM_CPU_DEVICES", None)
    environment.pop("XLA_FLAGS", None)
    environment["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment, timeout=timeout, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@BOTH
def test_a_daemon_thread_that_goes_on_calling_does_not_keep_the_process(compiled_calls):
    code = """
    import sys, threading, time, weft, weft.numpy as jnp
    small = weft.jit(lambda x: jnp.sin(x) * 0.5)
    large = weft.jit(lambda x: jnp.sin(x @ x) * 0.01)
    ready = threading.Barrier(4)

    def work(function, x):
        function(x)
        ready.wait()
        while True:
            x = function(x)

    for function, x in (
        (small, jnp.ones(3)), (large, jnp.ones((300, 300))), (lambda x: x + 1, jnp.ones(3)),
    ):
        threading.Thread(target=work, args=(function, x), daemon=True).start()
    ready.wait()
    time.sleep(0.1)
    sys.exit(7)
    """
    assert outcome(code, compiled_calls) == (7, "", "")


def test_a_daemon_thread_that_goes_on_compiling_ends_without_a_word():
    code = """
    import sys, threading, time, weft, weft.numpy as jnp
    started = threading.Event()

    def work():
        for k in range(1, 10**6):
            weft.jit(lambda x: x * k + jnp.sin(x))(jnp.ones(k))
            started.set()

    threading.Thread(target=work, daemon=True).start()
    started.wait()
    time.sleep(0.5)
    sys.exit(7)
    """
    assert outcome(code) == (7, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems free C++'s data at exit")
def test_a_program_without_end_is_waited_for_within_a_bound():
    code = """
    import sys, weft, weft.numpy as jnp
    from weft import lax
    from weft.runtime.backends import process_end
    process_end.LONGEST_WAIT = 0.5
    x = jnp.ones((100, 100))
    y = weft.jit(lambda x: lax.while_loop(lambda x: x[0, 0] > 0, lambda x: x + 1.0, x))(x)
    sys.exit(7)
    """
    assert outcome(code) == (7, "", "")


def test_a_function_called_at_exit_still_computes():
    code = """
    import atexit, threading
    def report():
        import weft.numpy as jnp
        thread = threading.Thread(target=lambda: print(total(jnp.arange(5.0))))
        print(total(jnp.arange(4.0)))
    atexit.register(report)  # before weft: called after weft's own
    import weft
    total = weft.jit(lambda x: (2 * x).sum())
    total(weft.numpy.arange(4.0))
    """
    assert outcome(code) == (0, "12.0\n", "")


# What a forked process may do with weft, one process for each: the operation and what is expected.
FORKED = """
import os, signal, sys
import numpy as np
import weft, weft.numpy as jnp

f = weft.jit(lambda x: jnp.sin(x) * 2)
g = weft.jit(lambda x: jnp.sin(x @ x))
x, y = jnp.ones(3), jnp.ones((400, 400))
f(x), x + 1, g(y).block_until_ready()
compiled = g.lower(y).compile()
data = compiled.as_text()
endless = weft.jit(lambda x: weft.lax.while_loop(lambda x: x[0, 0] > 0, lambda x: x + 1.0, x))

REFUSED = {
    "a known operation": lambda: x + 1,
    "a new operation": lambda: jnp.tan(x),
    "a known function": lambda: f(x),
    "a large one": lambda: g(y),
    "a compiled one": lambda: compiled(y),
    "a new function": lambda: weft.jit(lambda x: x * 3 + x)(x),
    "a loaded one": lambda: weft.export.deserialize(exported).call(x),
    "a callback": lambda: weft.jit(lambda x: weft.pure_callback(np.sin, x, x))(x),
}
PENDING = {
    "reading a value": lambda: np.asarray(pending),
    "waiting for it": lambda: pending.block_until_ready(),
}
ALLOWED = {
    "a value": lambda: np.asarray(x),
    "waiting for it": lambda: weft.block_until_ready([x, y]),
    "its text": lambda: repr(y),
    "making an array": lambda: np.asarray(jnp.asarray(np.arange(5.0))).sum() == 10,
    "tracing": lambda: weft.make_jaxpr(lambda x: jnp.sin(x) * 7)(x),
    "lowering": lambda: weft.jit(lambda x: x * 5).lower(x).as_text(),
}
exported = weft.export.export(f)(x).serialize()

def child(name, run, refused):
    try:
        run()
    except weft.errors.WeftError as error:
        text = str(error)
        return refused and "forked" in text and "get_context('spawn')" in text
    return not refused

for refused, cases in ((True, REFUSED), (False, ALLOWED), (True, PENDING)):
    if cases is PENDING:
        assert float((f(x) + g(y)[0, :3])[0]) < 2  # the parent goes on
        pending = endless(y)
    for name, run in cases.items():
        pid = os.fork()
        if not pid:
            signal.alarm(20)
            os._exit(0 if child(name, run, refused) else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            print(name, status)
pid = os.fork()
if not pid:  # the end of such a process waits for nothing
    signal.alarm(20)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@BOTH
def test_a_forked_process_says_that_it_cannot_compute(compiled_calls):
    assert outcome(FORKED, compiled_calls) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_processes_that_do_not_compute_and_those_forked_before_are_not_concerned():
    code = """
    import multiprocessing, os, subprocess, sys
    import weft, weft.numpy as jnp

    f = weft.jit(lambda x: (x * x).sum())

    def work(number):
        return number * number

    pid = os.fork()
    value = float(f(jnp.arange(400.0)))
    if not pid:
        os._exit(3 if value == 21253400.0 else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, range(4)) == [0, 1, 4, 9]
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    subprocess.run([sys.executable, "-c", "pass"], check=True, preexec_fn=lambda: None)
    assert float(f(jnp.arange(3.0))) == 5
    """
    assert outcome(code) == (0, "", "")
