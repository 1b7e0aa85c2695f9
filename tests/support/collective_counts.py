"""What programs send between devices, counted in their text and when they are compiled."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

import weft
import weft.numpy as wnp

LOWERED = re.compile(
    r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_\w+)\b"
)
COMPILED = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-\w+)(?:-start)?\("
)


def double(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return wnp.asarray(values, dtype=wnp.float64)


def communicates(function, *args):
    """The collectives in the text of a program. Compiled it has the same kinds; XLA may combine
    several all-reduces, and adds none."""
    lowered = weft.jit(function).lower(*args)
    found = Counter(LOWERED.findall(lowered.as_text()))
    compiled = Counter(
        name.replace("-", "_") for name in COMPILED.findall(lowered.compile().as_text())
    )
    assert compiled.keys() == found.keys() and compiled <= found
    return dict(found)


def inner_jaxpr(function, *args):
    """The program of the one shard_map in a function's jaxpr."""
    (eqn,) = [
        e for e in weft.make_jaxpr(function)(*args).jaxpr.eqns if e.primitive.name == "shard_map"
    ]
    return eqn.params["jaxpr"]
