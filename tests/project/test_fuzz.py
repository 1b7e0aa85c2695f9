"""Random programs: recorded rounds run again, and the tool that draws new ones finds faults."""

from __future__ import annotations

import importlib
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from source_files import ROOT

sys.path.insert(0, str(ROOT / "tools"))
fuzz = importlib.import_module("fuzz")
CORPUS = list(fuzz.corpus())

# Functions over hidden state open files that the collector closes.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("family, test, seed, count", CORPUS, ids=lambda part: str(part))
def test_recorded_rounds_hold(family, test, seed, count):
    assert fuzz.run_round(fuzz.tests_of(family)[test], seed, count) >= count


def test_every_test_of_every_family_has_a_recorded_round():
    every = {(family, name) for family in fuzz.FAMILIES for name in fuzz.tests_of(family)}
    assert every == {(family, name) for family, name, _, _ in CORPUS}


def test_a_round_finds_what_is_wrong_and_makes_it_small():
    ran = []

    @hypothesis.settings(max_examples=1)
    @hypothesis.given(st.lists(st.integers(0, 1000)))
    def sums_stay_small(numbers):
        assert sum(numbers) < 1500

    with pytest.raises(AssertionError) as caught:
        fuzz.run_round(sums_stay_small, 0, 500, before=ran.append)
    assert "numbers=[" in "".join(caught.value.__notes__)
    assert sum(ran[-1]["numbers"]) == 1500  # the smallest that fails
    assert sums_stay_small._hypothesis_internal_use_settings.max_examples == 1


def test_a_round_draws_the_same_programs_again():
    @hypothesis.given(st.integers())
    def anything(number):
        pass

    drawn = [], []
    for values in drawn:
        fuzz.run_round(anything, 5, 20, before=lambda kept, values=values: values.append(kept))
    assert drawn[0] == drawn[1] and len(drawn[0]) >= 20


def numbered(wrong):
    """A test that draws from numbers: those of `wrong` fail, and every tenth is left out."""

    def test():
        pass

    def from_seed(number):
        assert number not in wrong, "this one is wrong"
        return number % 10 != 0

    test.from_seed = from_seed
    return test


def test_a_round_of_numbers_goes_on_after_a_failure_and_counts_what_ran():
    before = []
    ran, failed = fuzz.run_numbered(numbered({101, 123}), 2, before=before.append)
    assert before == list(range(100, 150)) and ran == 45
    assert [text.splitlines()[:2] for text in failed] == [
        ["program 101:", "this one is wrong"],
        ["program 123:", "this one is wrong"],
    ]
    assert fuzz.run_round(numbered({101}), 0) == 45
    with pytest.raises(AssertionError, match="program 101"):
        fuzz.run_round(numbered({101}), 2)


def test_rounds_of_a_ledger_are_not_run_again(tmp_path, monkeypatch, capsys):
    ledger, ran = tmp_path / "ledger.txt", []
    monkeypatch.setattr(fuzz, "tests_of", lambda family: {"test": numbered(ran)})
    monkeypatch.setattr(fuzz, "MEMORY", fuzz.resource.RLIM_INFINITY)
    monkeypatch.setattr(
        fuzz, "run_numbered", lambda test, seed, before: (ran.append(seed), (7, []))[1]
    )
    arguments = ["fuzz", "--family", "compiler", "--test", "test", "--ledger", str(ledger)]
    arguments += ["--work", str(tmp_path / "notes"), "--seconds", "0", "--jobs", "2"]
    for seed in ("0", "0", "1", "0"):
        monkeypatch.setattr(sys, "argv", [*arguments, "--seed", seed])
        assert fuzz.main() == 0
    assert ran == [0, 2, 1, 4]
    assert fuzz.rounds_done(ledger, "test") == {0: 7, 1: 7, 2: 7, 4: 7}
    assert fuzz.rounds_done(ledger, "another") == {} == fuzz.rounds_done(None, "test")
    assert '"programs": 7' in capsys.readouterr().out


@pytest.mark.parametrize("code, status", [("import os; os.abort()", -6), ("1 / 0", 1), ("", 0)])
def test_a_process_that_ends_is_noticed(code, status, tmp_path):
    notes = tmp_path / "notes"
    notes.write_text("")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    assert fuzz.wait(process, notes) == status


def test_a_program_that_does_not_end_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "PATIENCE", 0.3)
    notes = tmp_path / "notes"
    notes.write_text("")
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    assert fuzz.wait(process, notes) is None
    assert process.returncode == -9
