"""A process that is stuck is named to all others within 10 seconds, wherever it is stuck."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from group_runs import HERE, environment, free_port

from weft.distributed import watch
from weft.distributed.watch import Clock, Unmet, late_processes

WITHIN = 10.0
# What the others take to join before they can miss one, on a machine that is busy.
JOINING = 10.0
PROGRAM = HERE / "stuck_program.py"

# Place, kind, number of the stuck process, count, and what names it. Those of a batch
# run at the same time: they take as long as one.
BATCHES = {
    "waiting": [
        ("before_the_start", "stops", 1, 2, "not here yet: 1"),
        ("before_the_start", "stops", 0, 2, "which process 0 starts"),
        ("in_a_checkpoint", "stops", 1, 2, "process 1 ("),
        ("at_a_barrier", "stops", 0, 2, "process 0 ("),
    ],
    "computing": [
        ("in_a_step", "stops", 1, 3, "process 1 ("),
        ("between_steps", "stops", 1, 2, "process 1 ("),
        ("in_a_compilation", "stops", 1, 2, "process 1 ("),
    ],
    "looping": [
        ("between_steps", "loops", 1, 2, "has not come to shared program"),
        ("in_a_checkpoint", "loops", 1, 2, "in be_stuck"),
        ("at_a_barrier", "loops", 1, 2, "has not come to barrier"),
    ],
}


@pytest.mark.parametrize("batch", BATCHES)
def test_a_stuck_process_is_named_to_all_others(tmp_path, batch):
    groups = [StuckGroup(tmp_path / f"{n}", *case) for n, case in enumerate(BATCHES[batch])]
    try:
        end, pause = time.monotonic() + 120, 0.0
        while not all(group.is_named() for group in groups):
            before = time.monotonic()
            time.sleep(0.05)
            pause = max(pause, time.monotonic() - before - 0.05)
            assert time.monotonic() < end, [group.shown() for group in groups]
        # A machine that lets this process wait lets each step to the name wait as long.
        late = 10 * pause
        for group in groups:
            joining = JOINING if group.place == "before_the_start" else 0.0
            assert group.named - group.stuck < WITHIN + joining + late, group.shown()
            # The others go on waiting: a process that is stopped may be continued.
            assert all(process.poll() is None for process in group.processes), group.shown()
    finally:
        for process in (process for group in groups for process in group.processes):
            process.kill()
            process.wait()


class StuckGroup:
    """Processes of which one is stuck somewhere: when it was, and when all others had named it."""

    def __init__(self, folder, place, kind, victim, count, text):
        folder.mkdir()
        self.place, self.victim, self.text = place, victim, text
        self.stuck = self.named = None
        port = free_port()
        self.files = [(folder / f"{n}.out", folder / f"{n}.err") for n in range(count)]
        self.processes = []
        for number, (out, errors) in enumerate(self.files):
            with open(out, "wb") as first, open(errors, "wb") as second:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, str(PROGRAM), place, kind, str(victim)],
                        env=environment(number, count, port, 1, FOLDER=str(folder / "saved")),
                        stdout=first, stderr=second,
                    )
                )  # fmt: skip

    def is_named(self):
        others = [n for n in range(len(self.files)) if n != self.victim]
        if self.stuck is None and "stuck at" in self.files[self.victim][0].read_text():
            # Whoever is to name one that has not come has to come first.
            started = self.place != "before_the_start" or all(
                "starts" in self.files[n][0].read_text() for n in others
            )
            self.stuck = time.monotonic() if started else None
        if self.named is None and all(self.text in self.files[n][1].read_text() for n in others):
            self.named = time.monotonic()
        return None not in (self.stuck, self.named)

    def shown(self):
        return "\n".join(one.read_text() for pair in self.files for one in pair)


# ---- who is late, by what all say ----------------------------------------------------------------


def status(runs, *waits, idle=100.0):
    """What a process says: its runs, and waits as (seconds, whether for a program)."""
    return {
        "runs": [[[0, 1, 2], runs]], "idle": idle, "main": "train.py:1",
        "waits": [{"what": "x", "seconds": s, "of_program": p, "where": ""} for s, p in waits],
    }  # fmt: skip


LONG, SHORT = watch.BEHIND_AFTER + 1, watch.BEHIND_AFTER - 1
STATUSES = [
    # All compute the same for long.
    ([status(5, (LONG, True))] * 3, []),
    # One has not started what the others wait for.
    ([status(5, (LONG, True)), status(4), status(5, (LONG, True))], [1]),
    ([status(5, (LONG, True)), status(4), status(3)], [1, 2]),
    # The others have not waited for long.
    ([status(5, (SHORT, True)), status(4), status(5, (SHORT, True))], []),
    # One has started more, and waits for what all compute: the others wait for it as well, or
    # have just started it.
    ([status(7, (LONG, True)), status(5, (LONG, True)), status(5, (SHORT, True))], []),
    ([status(7, (LONG, True)), status(5, idle=SHORT), status(5, idle=0.0)], []),
    # A thread of the late one waits at a barrier meanwhile.
    ([status(5, (LONG, True)), status(4, (LONG, False)), status(5)], [1]),
    # Nobody waits.
    ([status(5), status(1), status(5)], []),
    # A process says nothing: it is silent, and named for that.
    ([status(5, (LONG, True)), None, status(5, (LONG, True))], []),
]


@pytest.mark.fast
@pytest.mark.parametrize(("statuses", "late"), STATUSES)
def test_who_is_late_with_programs(statuses, late):
    said = {n: one for n, one in enumerate(statuses) if one is not None}
    assert [one.number for one in late_processes(said, [], 0.0)] == late


@pytest.mark.fast
def test_programs_of_other_processes_do_not_count():
    """Each set of processes has its own count."""
    one = {**status(0), "runs": [[[0, 1], 9], [[0, 2], 1]], "waits": []}
    two = {**status(0), "runs": [[[0, 1], 9]]}
    three = {**status(0, (LONG, True)), "runs": [[[0, 2], 1]]}
    assert list(late_processes({0: one, 1: two, 2: three}, [], 0.0)) == []
    three = {**three, "runs": [[[0, 2], 2]]}
    (late,) = late_processes({0: one, 1: two, 2: three}, [], 0.0)
    assert (late.number, late.what, late.waiting) == (0, "shared program 2", (2,))


@pytest.mark.fast
def test_who_is_late_at_a_barrier():
    unmet = [Unmet("barrier 'a'", frozenset({0, 2}), frozenset({1, 3}), 10.0)]
    said = {0: status(5), 1: status(5), 2: status(5)}
    assert list(late_processes(said, unmet, 10.0 + SHORT)) == []
    (late,) = late_processes(said, unmet, 10.0 + LONG)  # process 3 is silent
    assert (late.number, late.seconds, late.waiting) == (1, LONG, (0, 2))


@pytest.mark.fast
def test_a_clock():
    clock = Clock(0.0)
    assert not clock.is_due(watch.ASK_EVERY - 0.1) and clock.is_due(watch.ASK_EVERY)
    assert not clock.is_due(100.0)  # until it has answered
    asked = watch.ASK_EVERY
    assert not clock.falls_silent(asked + watch.SILENT_AFTER - 0.1)
    clock.forgive(50.0)  # the coordinator was stopped
    assert not clock.falls_silent(50.0) and clock.falls_silent(50.0 + watch.SILENT_AFTER)
    assert not clock.falls_silent(1000.0)  # it is said once
    assert clock.answers(1001.0) and not clock.answers(1002.0)
    assert clock.is_due(1002.0 + watch.ASK_EVERY)


@pytest.mark.fast
def test_the_times_leave_room():
    """From the fault to its being named: the next question, no answer, and a look after each."""
    look = watch.LOOK_EVERY
    silent = watch.ASK_EVERY + watch.SILENT_AFTER + 2 * look
    round_ = watch.ROUND_PAUSE + watch.ROUND_SECONDS
    behind = watch.BEHIND_AFTER + watch.ASK_EVERY + round_ + 2 * look
    assert max(silent, behind, watch.MEET_AFTER + look) < WITHIN
