"""What holds for every test: eight host devices, checked jaxprs, hypothesis profiles, GPU marks.

The settings are environment variables because weft reads them when it is imported, and a test
module may import it at its top.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest

from tiers import TIER, chosen

if any(name == "weft" or name.startswith("weft.") for name in sys.modules):
    raise RuntimeError("weft was imported before tests/conftest.py could choose its settings")

# Every test may use a mesh of eight devices, on any machine.
os.environ["WEFT_NUM_CPU_DEVICES"] = "8"
# Every jaxpr that a test traces or transforms goes through the type checker.
os.environ["WEFT_CHECK_JAXPRS"] = "1"
# Most of the time of all tests went into XLA's optimizing of programs that run once. What tests
# prove of weft stands in the program that XLA is given; WEFT_COMPILE_EFFORT=full has them optimized
# all the same.
os.environ.setdefault("WEFT_COMPILE_EFFORT", "least")
# No test depends on what an earlier run compiled, nor fills the cache of whoever runs it: but a
# developer may say where the tests keep what they compiled, for their next run.
os.environ["WEFT_CACHE_DIR"] = os.environ.get("WEFT_TEST_CACHE_DIR", "")

# Interpreters that tests start, from whatever folder, find the weft that is tested.
_ROOT = str(pathlib.Path(__file__).resolve().parent.parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))

# A first call compiles, so how long an example takes says nothing: no deadline. Continuous
# integration draws from the same seeds on every run; a developer's machine draws new examples. They
# are not all the same there either: Hypothesis also tries numbers that it finds in the modules that
# a process has loaded.
_profile = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", derandomize=True, print_blob=True, **_profile)
hypothesis.settings.register_profile("dev", **_profile)
hypothesis.settings.load_profile(os.environ.get("WEFT_HYPOTHESIS_PROFILE", "dev"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Their order, which belong to this run, and which are skipped: those marked `gpu` where there
    is no NVIDIA GPU."""
    kept = chosen(row_by_row(items), TIER)
    config.hook.pytest_deselected(items=[*set(items).difference(kept)])
    items[:] = kept
    if pathlib.Path("/dev/nvidiactl").exists():
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU, and this machine has none")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


def row_by_row(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of a module in the order of the rows of its table, where each has a `row`.

    Most of their time goes into compiling, and what one property of a row has had compiled serves
    the others as long as it is remembered.
    """
    first: dict[tuple[str, str], int] = {}
    places = []
    for number, item in enumerate(items):
        row = item.callspec.params.get("row") if hasattr(item, "callspec") else None
        name = getattr(row, "name", None)
        module = item.nodeid.partition("::")[0]
        places.append(number if name is None else first.setdefault((module, name), number))
    return [items[i] for i in sorted(range(len(items)), key=places.__getitem__)]


@contextlib.contextmanager
def settings_kept() -> Iterator[None]:
    """What happens inside leaves the settings of the process as they were, or as the environment
    says where weft is first imported inside."""
    loaded: Any = sys.modules.get("weft.config")
    before = loaded and (loaded._global, loaded._host)
    yield
    config: Any = sys.modules.get("weft.config")
    if config is None or before == (config._global, config._host):
        return
    if before is None:
        before = (config._from_environment(), config._from_environment(config.HostSettings))
    for part in before:
        for field in dataclasses.fields(part):
            config.update(field.name, getattr(part, field.name))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """A module of tests may import what changes the settings: `weft.as_jax` or a tool."""
    with settings_kept():
        return (yield)


@pytest.fixture(autouse=True)
def settings_stay() -> Iterator[None]:
    """What a test changes in the settings ends with it: by `import weft.as_jax` too, which a test
    that walks through the modules of weft may be the first to do."""
    with settings_kept():
        yield


@pytest.fixture(scope="module")
def optimized() -> Iterator[None]:
    """The tests of a module compile as users do, and so do the processes that they start: the last
    digits of results depend on it."""
    # Not imported at the top: the tests choose weft's settings before.
    config: Any = importlib.import_module("weft.config")
    before = config.settings().compile_effort
    config.update("compile_effort", "full")
    os.environ["WEFT_COMPILE_EFFORT"] = "full"
    yield
    config.update("compile_effort", before)
    os.environ["WEFT_COMPILE_EFFORT"] = before


@pytest.fixture
def x64() -> Iterator[None]:
    """Arrays are made of 64 bits."""
    # Not imported at the top: the tests choose weft's settings before.
    weft: Any = importlib.import_module("weft")
    with weft.enable_x64():
        yield


@pytest.fixture
def young_heap() -> Iterator[None]:
    """The collector, and who asks it for all objects, looks at those of this test alone.

    After some thousand tests a process holds millions of objects, and one collection takes seconds.
    No test may use it that asks for older objects, or for what a module holds.
    """
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def only_known_calls(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Makes calls of functions of a class fail, from then on, that are not known."""

    def forbid(functions: type) -> None:
        # Where copies are guarded anywhere in the process, those from the host are left to Python.
        monkeypatch.setattr("weft.config.guarding", False)
        monkeypatch.setattr(functions, "_unknown_call", None)

    return forbid


# What programs may map before they are forgotten between two tests. Each takes a few mappings, and
# weft itself forgets them at half of the 65,530 that Linux allows: in the middle of a test that
# counts compilations.
MOST_MAPPINGS = 16_000
_ended = 0


@pytest.fixture(autouse=True)
def loaded_programs_stay_few() -> Iterator[None]:
    """Now and then forgets compiled programs, where a process has come to hold many."""
    global _ended
    yield
    _ended += 1
    mappings = pathlib.Path("/proc/self/maps")
    if _ended % 50 or "weft" not in sys.modules or not mappings.exists():
        return
    if mappings.read_bytes().count(b"\n") > MOST_MAPPINGS:
        # Not imported at the top: the tests choose weft's settings before.
        sys.modules["weft"].clear_caches()
