"""Where cases are registered: name -> function, devices, repetitions, time limit."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure, on one library, in one fresh process."""

    function: Callable[[Any], Any]
    devices: int  # forced host CPU devices
    reps: int  # how often the driver repeats it, each time in a fresh process
    timeout: float  # seconds for one run
    process: bool  # timed from outside (processes.py), not by the function

    @property
    def summary(self) -> str:
        """The first line of what the case says of itself."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


CASES: dict[str, Case] = {}


def case(name=None, *, devices=1, reps=5, timeout=600, process=False):
    """Registers a function `case(lib) -> Figures`; `lib` is the imported root package."""

    def register(function):
        CASES[name or function.__name__] = Case(function, devices, reps, timeout, process)
        return function

    return register
