"""What a thread spends on making programs is charged once, to the innermost kind."""

from __future__ import annotations

import threading
import time

import pytest

from weft.base.timing import charged, time_spent

pytestmark = pytest.mark.fast


def test_a_moment_is_charged_to_the_innermost_kind():
    before = time_spent()
    start = time.perf_counter()
    with charged("tracing"):
        time.sleep(0.02)
        with charged("compiling"):
            time.sleep(0.04)
        with charged("tracing"):
            time.sleep(0.01)
    elapsed = time.perf_counter() - start
    cost = time_spent().since(before)
    assert cost.tracing >= 0.03 and cost.compiling >= 0.04
    assert cost.seconds == pytest.approx(elapsed, abs=5e-3)
    assert (cost.traced, cost.compiled, cost.lowered, cost.loaded) == (2, 1, 0, 0)


def test_a_look_in_between_counts_what_is_running():
    before = time_spent()
    with charged("lowering"):
        time.sleep(0.01)
        within = time_spent().since(before)
    assert within.lowering >= 0.01 and within.lowered == 0


def test_what_fails_is_paid_for_and_not_done():
    @charged("loading")
    def fail():
        """Fails."""
        time.sleep(0.01)
        raise KeyError("no")

    assert fail.__doc__ == "Fails."
    before = time_spent()
    with pytest.raises(KeyError):
        fail()
    cost = time_spent().since(before)
    assert cost.loading >= 0.01 and cost.loaded == 0
    with charged("tracing"):
        pass
    assert time_spent().since(before).loaded == 0


def test_threads_are_told_apart():
    before = time_spent()

    def work():
        with charged("compiling"):
            time.sleep(0.01)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert time_spent().since(before).compiling == 0
