"""Whole processes, timed from outside by the driver: import, first result, first script, and the
gradient of a deep network whose program an earlier process has compiled.

All but the last start with an empty cache of compiled programs. benchmarks/starting.md says
where the time goes.
"""

from cases.registry import case


@case(reps=7, process=True)
def import_time(lib):
    """Fresh interpreter: import lib, lib.numpy."""


@case(reps=7, process=True)
def first_result(lib):
    """Fresh interpreter to the first jit(lambda x: x + 1)(1.0)."""


@case(reps=7, process=True)
def first_script(lib):
    """Fresh interpreter: a short script of unjitted operations and one grad."""


@case(reps=7, process=True)
def warm_start(lib):
    """Fresh interpreter to the gradient of a 100-layer MLP that an earlier one has compiled."""
