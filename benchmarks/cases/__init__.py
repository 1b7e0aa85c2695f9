"""All cases, in the order in which they are run and reported."""

from cases import (  # isort: skip
    processes,
    calls,
    tracing,
    steady,
    sharded,
    shard_map,
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
    "shard_map",
    "sharded",
    "steady",
    "tracing",
    "transfer",
]
