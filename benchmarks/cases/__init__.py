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
    layouts,
    retracing,
)
from cases.registry import CASES, Case

__all__ = [
    "CASES",
    "Case",
    "calls",
    "collectives",
    "layouts",
    "memory",
    "processes",
    "retracing",
    "scaling",
    "shard_map",
    "sharded",
    "steady",
    "tracing",
    "transfer",
]
