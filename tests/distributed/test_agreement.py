"""What processes announce is compared: no false alarm, and no difference overlooked."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from weft.distributed import agreement
from weft.distributed.agreement import Agreement

pytestmark = pytest.mark.fast


class Group:
    """Processes that announce what their threads come to, one thread a list of steps."""

    def __init__(self, clock):
        self.clock = clock
        self.agreement = Agreement()
        self.requests = 0
        self.waiting = {}  # request -> (process, thread)
        self.objections = []

    def announce(self, process, thread, step, patience=2.0):
        digest, processes, once = step
        self.requests += 1
        announcement = {
            "id": self.requests, "digest": digest, "name": f"`{digest}`", "where": "here",
            "processes": list(processes), "once": once, "patience": patience,
        }  # fmt: skip
        self.waiting[self.requests] = process, thread
        self.take(self.agreement.record_announcement(process, announcement))

    def take(self, answers):
        for number, answer in answers:
            process, _ = self.waiting.pop(answer["id"])
            assert process == number
            if answer["objection"] is not None:
                self.objections.append((process, answer["objection"]))

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.take(self.agreement.differing())

    def is_free(self, process, thread):
        return (process, thread) not in self.waiting.values()


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(agreement, "time", made)
    return made


COUNT = 3
subsets = st.sets(st.integers(0, COUNT - 1), min_size=2).map(sorted).map(tuple)
steps = st.tuples(st.sampled_from("abc"), subsets, st.booleans())
# Threads among the same processes have steps of their own kind, so that no two threads of a process
# announce one digest in another order than those of another process do.
threads = st.lists(st.lists(steps, max_size=5), min_size=1, max_size=2)


def play(data, group, plans, patience):
    """Lets the processes go through their plans in a drawn order, and time pass in between. One
    that is told of a difference goes no further."""
    places = dict.fromkeys(plans, 0)
    for _ in range(1000):
        ended = {process for process, _ in group.objections}
        free = [
            key
            for key, plan in plans.items()
            if places[key] < len(plan) and group.is_free(*key) and key[0] not in ended
        ]
        if not free:
            break
        key = data.draw(st.sampled_from(free))
        step = plans[key][places[key]]
        places[key] += 1
        if key[0] in step[1]:
            group.announce(*key, step, patience)
        group.pass_time(data.draw(st.sampled_from([0.0, 0.1, 1.0])))
    return all(places[key] == len(plan) for key, plan in plans.items())


def named(plan, thread):
    return [(f"{thread}{digest}", processes, once) for digest, processes, once in plan]


@given(st.data(), threads)
def test_equal_programs_are_never_taken_for_different_ones(data, plans):
    """Threads in whatever order, overlapping groups of processes, programs announced again."""
    clock = Clock()
    patched = pytest.MonkeyPatch()
    patched.setattr(agreement, "time", clock)
    try:
        group = Group(clock)
        all_plans = {
            (process, thread): named(plan, thread)
            for thread, plan in enumerate(plans)
            for process in range(COUNT)
        }
        # More patience than the play can take: a thread that is to come is waited for.
        assert play(data, group, all_plans, patience=10_000.0)
        group.pass_time(1000.0)
        assert not group.waiting and not group.objections and not group.agreement.waits
    finally:
        patched.undo()


@given(st.data(), st.lists(steps, min_size=1, max_size=5), st.integers(0, 4))
def test_a_different_step_is_found(data, plan, place):
    """One process comes to something else at one place, where all have one thread."""
    everyone = tuple(range(COUNT))
    plan = [(f"{n}{digest}", everyone, once) for n, (digest, _, once) in enumerate(plan)]
    place %= len(plan)
    other = data.draw(st.integers(0, COUNT - 1))
    clock = Clock()
    patched = pytest.MonkeyPatch()
    patched.setattr(agreement, "time", clock)
    try:
        group = Group(clock)
        plans = {(process, 0): list(plan) for process in range(COUNT)}
        plans[other, 0][place] = ("strange", everyone, plan[place][2])
        play(data, group, plans, patience=2.0)
        group.pass_time(3.0)
        assert not group.waiting and {process for process, _ in group.objections} == {0, 1, 2}
        assert all("`strange`" in text for _, text in group.objections)
    finally:
        patched.undo()


def test_values_with_the_digest_of_a_program_wait_for_values(clock):
    """A program that was announced before, and is announced again, is no answer to them."""
    group = Group(clock)
    program, values = ("a", (0, 1), False), ("a", (0, 1), True)
    for process in (0, 1):
        group.announce(process, 0, program)
    assert not group.waiting
    group.announce(0, 0, values)
    group.announce(1, 0, program)
    assert list(group.waiting.values()) == [(0, 0)]
    group.announce(1, 0, values)
    assert not group.waiting and not group.objections


def test_the_ended_come_to_nothing(clock):
    group = Group(clock)
    group.announce(0, 0, ("a", (0, 1), False))
    group.agreement.left(1)
    group.pass_time(0.0)
    assert group.objections == [(0, "process 1 has ended, and did not come to `a` (here)")]


def test_a_thread_that_may_come_is_waited_for(clock):
    """Two threads in another order in each process, seconds apart."""
    group = Group(clock)
    group.announce(0, 0, ("a", (0, 1), True), patience=60.0)
    group.pass_time(1.0)
    group.announce(1, 1, ("b", (0, 1), True), patience=60.0)
    group.pass_time(30.0)
    group.announce(0, 1, ("b", (0, 1), True), patience=60.0)
    group.pass_time(10.0)
    group.announce(1, 0, ("a", (0, 1), True), patience=60.0)
    assert not group.waiting and not group.objections


def test_values_that_are_put_again_are_compared_again(clock):
    """What agreed once does not answer for the next time."""
    group = Group(clock)
    for process in (0, 1):
        group.announce(process, 0, ("a", (0, 1), True))
    assert not group.waiting
    group.announce(0, 0, ("a", (0, 1), True))
    group.announce(1, 0, ("b", (0, 1), True))
    group.pass_time(3.0)
    assert len(group.objections) == 2
    # A program that all have announced is known, whoever compiles it again.
    for process in (0, 1, 0):
        group.announce(process, 0, ("p", (0, 1), False))
    assert not group.waiting
