"""`python -m weft.launch`: output with numbers, the first failure last, signals, exit statuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from group_runs import PROGRAM, ROOT

from processes import python_output


def command(*arguments):
    return [sys.executable, "-m", "weft.launch", *arguments]


def environment():
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "XLA_FLAGS"))}
    return kept | {"PYTHONPATH": str(ROOT)}


def launch(*arguments):
    return subprocess.run(
        command(*arguments), env=environment(), capture_output=True, text=True, timeout=90
    )


def script(folder, text):
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def test_processes_and_their_arguments(tmp_path):
    path = script(
        tmp_path,
        """
import os, sys
print(os.environ["WEFT_PROCESS_ID"], os.environ["WEFT_NUM_PROCESSES"], sys.argv[1:])
print("rest without an end", end="", file=sys.stderr)
""",
    )
    done = launch("-n", "3", path, "--rate", "0.1", "-n", "7")
    assert done.returncode == 0
    expected = [f"[{n}] {n} 3 ['--rate', '0.1', '-n', '7']" for n in range(3)]
    assert sorted(done.stdout.splitlines()) == expected
    assert sorted(done.stderr.splitlines()) == [f"[{n}] rest without an end" for n in range(3)]


def test_a_group_with_devices():
    done = launch("-n", "2", "--devices-per-process", "2", str(PROGRAM), "values")
    assert done.returncode == 0, done.stderr
    assert '"processes": 2' in done.stdout


def test_the_example():
    """Each process has data of its own, and all the same weights."""
    path = str(ROOT / "examples" / "several_processes.py")
    done = launch("-n", "2", "--devices-per-process", "1", path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "loss" in line]
    assert len(lines) == 6 and lines[-1].startswith("[0] 2 processes, 2 devices: loss 0.")
    first, last = (float(line.split()[-1]) for line in (lines[0], lines[-1]))
    assert last < first / 3


def test_a_module(tmp_path):
    done = launch("-n", "1", "-m", "json.tool", "--help")
    assert done.returncode == 0 and "[0] usage:" in done.stdout


def test_the_first_failure_ends_all_and_is_shown_last(tmp_path):
    path = script(
        tmp_path,
        """
import os, time
if os.environ["WEFT_PROCESS_ID"] == "1":
    raise ValueError("bad data")
time.sleep(120)
""",
    )
    # The others do nothing that would tell them: they are ended.
    began = time.monotonic()
    done = launch("-n", "3", path)
    assert done.returncode == 1 and time.monotonic() - began < 40
    lines = done.stderr.splitlines()
    assert lines[-1] == "ValueError: bad data"
    assert "weft.launch: process 1 of 3 failed first: exit status 1" in lines


def test_the_cause_is_told_from_what_follows_from_it():
    done = launch("-n", "2", "--devices-per-process", "1", str(PROGRAM), "error")
    assert done.returncode == 1 and done.stderr.rstrip().endswith("ValueError: bad data")
    assert "process 1 of 2 failed first" in done.stderr


@pytest.mark.parametrize(
    ("ending", "status"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137)]
)
def test_exit_statuses_are_kept(tmp_path, ending, status):
    done = launch("-n", "2", script(tmp_path, f"import os, sys\n{ending}\n"))
    assert done.returncode == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_go_to_all(tmp_path, number):
    path = script(
        tmp_path,
        f"""
import signal, sys, time
def handle(number, frame):
    print("got it", flush=True)
    sys.exit(0)
signal.signal({int(number)}, handle)
print("ready", flush=True)
for _ in range(600):  # a signal just before a long sleep would be handled after it
    time.sleep(0.1)
""",
    )
    process = subprocess.Popen(
        command("-n", "2", path), env=environment(), stdout=subprocess.PIPE, text=True
    )
    seen = [process.stdout.readline() for _ in range(2)]
    assert all("ready" in line for line in seen)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and sorted(out.splitlines()) == ["[0] got it", "[1] got it"]


def test_a_signal_while_processes_start_goes_to_all(tmp_path):
    """It comes when the last process runs already, and its start has not come to its end."""
    path = script(
        tmp_path,
        f"""
import os, pathlib, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))
(pathlib.Path({str(tmp_path)!r}) / ("ready" + os.environ["WEFT_PROCESS_ID"])).touch()
for _ in range(600):
    time.sleep(0.1)
sys.exit(3)
""",
    )
    program = f"""if True:
        import os, pathlib, signal, sys, time
        from weft import launch
        class Slow(launch.Process):
            def __init__(self, number, *rest):
                super().__init__(number, *rest)
                deadline = time.monotonic() + 60
                ready = pathlib.Path({str(tmp_path)!r}) / f"ready{{number}}"
                while not ready.exists() and time.monotonic() < deadline:
                    time.sleep(0.02)
                if number == 1:
                    os.kill(os.getpid(), signal.SIGUSR1)
        launch.Process = Slow
        sys.exit(launch.main(["-n", "2", {path!r}]))
    """
    python_output("-c", program, env=environment(), timeout=90)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-n", "0", "x.py"), "'0' is not a positive whole number"),
        (("-n", "2", "no_such_file.py"), "there is no file no_such_file.py"),
        (("script.py",), "-n"),
    ],
)
def test_bad_arguments(arguments, text):
    done = launch(*arguments)
    assert done.returncode == 2 and text in done.stderr
