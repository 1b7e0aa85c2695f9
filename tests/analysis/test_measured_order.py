"""Plans of every division of a decoder, in the order of what they take on eight host devices.

The devices are threads of one processor, whose time is measured, not that of a clock: what else it
does is left out, and a device that waits takes none. What a device computes, moves and sends in a
second is measured first, by programs that do nothing else; then each division is planned with these
numbers, and run.
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.analysis import gradient_program

MODEL = weft.Decoder(4, 128, 8, 512, 1024, dtype="float32")
BATCH, LENGTH, MICROBATCHES = 16, 32, 2
REPEATS, ROUNDS = 8, 6


def seconds(function, *args):
    """The processor's time for each device."""
    start = time.process_time()
    weft.block_until_ready(function(*args))
    return (time.process_time() - start) / weft.device_count()


def repeated(mesh, step, x):
    """The least time of a step that every device takes over and over."""
    every = P(mesh.axis_names)
    looped = weft.shard_map(
        lambda x: lax.scan(lambda c, _: (step(c), None), x, None, length=REPEATS)[0],
        mesh=mesh, in_specs=every, out_specs=every,
    )  # fmt: skip
    compiled = weft.jit(looped)
    compiled(x)
    return min(seconds(compiled, x) for _ in range(ROUNDS)) / REPEATS


def measured(mesh):
    """The hardware that each device of a mesh is, while all of them work."""
    k, n = 256, 1 << 20
    product = repeated(mesh, lambda x: jnp.tanh(x @ x), jnp.ones((mesh.size * k, k)))
    stored = lambda x: lax.optimization_barrier(1.001 * x + 1.0)  # noqa: E731
    moved = repeated(mesh, stored, jnp.ones(mesh.size * n))
    links, latencies = {}, []
    for axis in mesh.axis_names:
        others = mesh.shape[axis] - 1
        mean = lambda x, axis=axis: lax.pbroadcast(lax.pmean(x, axis), axis)  # noqa: E731
        small, large = (repeated(mesh, mean, jnp.ones(mesh.size * size)) for size in (1, n))
        latencies.append(small / (2 * others))
        links[axis] = 2 * others / (others + 1) * 4 * n / (large - small)
    return weft.Hardware(2 * k**3 / product, 8 * n / moved, links, latency=max(latencies))


def planned_and_measured(mesh):
    """Of each division the seconds of its plan, and the least that it took: in rounds over all of
    them, so that what else the processor does disturbs them alike."""
    planned = weft.propose(
        MODEL, mesh, batch=BATCH, length=LENGTH, microbatches=MICROBATCHES, hardware=measured(mesh)
    )
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.normal(size=shape) / np.sqrt(shape[-2])).astype(np.float32)
        for name, shape in MODEL.weights.items()
    }
    tokens = np.zeros((BATCH, LENGTH), np.int32)
    steps = []
    for way in planned:
        roles = dict(part.split(": ") for part in way.name.split(", "))
        function, *_ = gradient_program(MODEL, mesh, roles, BATCH, LENGTH, MICROBATCHES)
        steps.append(weft.jit(function))
        weft.block_until_ready(steps[-1](weights, tokens))
    times = [[seconds(step, weights, tokens) for step in steps] for _ in range(ROUNDS)]
    least = np.min(times, axis=0)
    return [(way.name, way.seconds, took) for way, took in zip(planned, least, strict=True)]


def ranks(numbers):
    return np.argsort(np.argsort(numbers))


@pytest.mark.slow
@pytest.mark.usefixtures("optimized")
def test_what_is_planned_to_take_longer_takes_longer():
    found = planned_and_measured(weft.make_mesh((2, 4), ("i", "j")))
    assert len(found) >= 20

    def apart(ratio):
        pairs = itertools.permutations(found, 2)
        return [(fast, slow) for fast, slow in pairs if slow[1] > ratio * fast[1]]

    def wrong(ratio):
        return [(fast, slow) for fast, slow in apart(ratio) if fast[2] >= slow[2]]

    # Half as long again: no pair is the other way round.
    assert len(apart(1.5)) >= 30
    assert not wrong(1.5), wrong(1.5)
    # A fifth longer: nine of ten pairs.
    assert len(apart(1.2)) >= 100
    assert len(wrong(1.2)) <= 0.1 * len(apart(1.2)), wrong(1.2)
    order = np.corrcoef(*[ranks([row[k] for row in found]) for k in (1, 2)])[0, 1]
    assert order > 0.8
    # What is planned is also near what it takes.
    assert 0.5 < np.median([took / planned for _, planned, took in found]) < 2
