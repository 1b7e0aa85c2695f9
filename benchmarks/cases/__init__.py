"""All cases, in the order in which they are run and reported."""

from cases import (  # isort: skip
    processes,
    calls,
    tracing,
    steady,
    sharded,
    collectives,
    memory,
    scaling,
    transfer,
)
from cases.registry import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "calls",
    "collectives",
    "memory",
    "processes",
    "scaling",
    "sharded",
    "steady",
    "tracing",
    "transfer",
]
