"""Random programs over random meshes, for shard_map and for the partitioner.

A program is data: a list of (operation, operands). One interpreter runs it twice, on whole arrays
and on blocks, and knows in both runs how each value is split; only on blocks do its operations
communicate.
"""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from weft import lax, shard_map
from weft.sharding import PartitionSpec as P

__all__ = ["Program", "programs", "reference", "specs_of"]

Spec = tuple[tuple[str, ...], ...]

MESHES = [
    {"i": 1},
    {"i": 2},
    {"i": 3},
    {"i": 8},
    {"i": 2, "j": 2},
    {"i": 4, "j": 2},
    {"i": 3, "j": 2},
    {"i": 1, "j": 4},
    {"i": 2, "j": 2, "k": 2},
    {"i": 2, "j": 1, "k": 3},
]


@dataclasses.dataclass(frozen=True)
class Piece:
    """A value, and the mesh axes over which each of its dimensions is split."""

    value: Any
    spec: Spec

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for entry in self.spec for axis in entry)


def table(length, rank):
    """An array that programs close over."""
    return np.linspace(-0.8, 0.9, length**rank).reshape((length,) * rank)


TABLES: dict[tuple[int, int], Any] = {}


def closed_over(length, rank):
    found = TABLES.get((length, rank))
    if found is None:
        found = TABLES[length, rank] = wnp.array(table(length, rank), np.float64)
    return found


class Interpreter:
    """Runs operations on whole arrays, or on blocks with the communication they need. All
    dimensions have one length, so that a rank says the shape."""

    def __init__(self, sizes: dict[str, int], length: int, blocks: bool) -> None:
        self.sizes = sizes
        self.length = length
        self.blocks = blocks

    def psum(self, value, axes):
        return lax.psum(value, axes) if self.blocks and axes else value

    def scattered(self, value, spec):
        if self.blocks:
            for dim, axes in enumerate(spec):
                if axes:
                    value = lax.pscatter(value, axes, axis=dim, tiled=True)
        return value

    def resplit(self, x, spec):
        """The same value split in another way."""
        value = x.value
        if x.spec == spec:
            return x
        if self.blocks:
            for dim, axes in enumerate(x.spec):
                if axes:
                    value = lax.all_gather_invariant(value, axes, axis=dim, tiled=True)
        return Piece(self.scattered(value, spec), spec)

    # ---- one operand -----------------------------------------------------------------------

    def sin(self, x):
        return Piece(wnp.sin(x.value), x.spec)

    def quotient(self, x):
        return Piece(x.value / (x.value * x.value + 1.0), x.spec)

    def jitted(self, x):
        return Piece(weft.jit(lambda v: wnp.tanh(v) * v)(x.value), x.spec)

    def checkpointed(self, x):
        def inner(v):
            return wnp.sin(v) + self.psum(v.sum(), x.axes) / self.length ** len(x.spec)

        return Piece(weft.checkpoint(inner)(x.value), x.spec)

    def times_table(self, x):
        whole = closed_over(self.length, len(x.spec))
        return Piece(x.value * self.scattered(whole, x.spec), x.spec)

    def total(self, x):
        return Piece(self.psum(x.value.sum(), x.axes) * 0.1, ())

    def sum_first(self, x):
        return Piece(self.psum(x.value.sum(0), x.spec[0]) * 0.3, x.spec[1:])

    def max_last(self, x):
        value = x.value.max(-1)
        if self.blocks and x.spec[-1]:
            value = lax.pmax(value, x.spec[-1])
        return Piece(value, x.spec[:-1])

    def mean_last(self, x):
        value = x.value.mean(-1)
        if self.blocks and x.spec[-1]:
            value = lax.pmean(value, x.spec[-1])
        return Piece(value, x.spec[:-1])

    def transpose(self, x):
        return Piece(x.value.T, x.spec[::-1])

    def gather_and_slice(self, x):
        """All blocks on every device, of which each keeps its own: nothing changes."""
        value = x.value
        if self.blocks:
            for dim, axes in enumerate(x.spec):
                if axes:
                    size = value.shape[dim]
                    every = lax.all_gather(value, axes, axis=dim, tiled=True)
                    start = lax.axis_index(axes) * size
                    value = lax.dynamic_slice_in_dim(every, start, size, dim)
        return Piece(value, x.spec)

    def exchange(self, x):
        """Split along the last dimension in place of the first, if the last is not split."""
        first, last = x.spec
        if not first or last:
            return x
        value = x.value
        if self.blocks:
            value = lax.all_to_all(value, first, 1, 0, tiled=True)
        return Piece(value, ((), first))

    def shift(self, x):
        """Each block of the first dimension goes to the next device."""
        axes = x.spec[0]
        count = prod(self.sizes[axis] for axis in axes)
        if self.blocks and axes:
            pairs = [(i, (i + 1) % count) for i in range(count)]
            return Piece(lax.ppermute(x.value, axes, pairs), x.spec)
        if self.blocks:
            return x
        return Piece(wnp.roll(x.value, self.length // count if count > 1 else 0, 0), x.spec)

    def scan(self, x):
        def step(carry, _):
            mean = self.psum(carry.sum(), x.axes) / self.length ** len(x.spec)
            return wnp.tanh(carry) * 0.5 + mean, mean

        out, means = lax.scan(step, x.value, None, length=3)
        return Piece(out * means.sum(), x.spec)

    def cond(self, x):
        """A branch that all devices take; both communicate."""
        positive = self.psum(x.value.sum(), x.axes) > 0
        out = lax.cond(
            positive,
            lambda v: v * 0.5 + self.psum(v.sum(), x.axes) * 0.1,
            lambda v: wnp.sin(v) * self.psum((v * v).sum(), x.axes) * 0.1,
            x.value,
        )
        return Piece(out, x.spec)

    def first_device(self, x):
        """A branch that the first devices along an axis take, and others not."""
        axes = x.spec[0]
        if not axes:
            return x
        if self.blocks:
            first = lax.axis_index(axes[0]) == 0
            return Piece(lax.cond(first, lambda v: v * 2, wnp.sin, x.value), x.spec)
        inside = np.arange(self.length) < self.length // self.sizes[axes[0]]
        mask = inside.reshape((-1,) + (1,) * (len(x.spec) - 1))
        return Piece(wnp.where(mask, x.value * 2, wnp.sin(x.value)), x.spec)

    def normalized_columns(self, x):
        def column(v):
            return v / (1.0 + self.psum((v * v).sum(), x.spec[0]))

        return Piece(weft.vmap(column, in_axes=1, out_axes=1)(x.value), x.spec)

    # ---- two operands ----------------------------------------------------------------------

    def alike(self, x, y):
        """Two operands split in one way; a number is repeated."""
        if not x.spec or not y.spec:
            return x, y
        return x, self.resplit(y, x.spec)

    def add(self, x, y):
        x, y = self.alike(x, y)
        return Piece(x.value + y.value, x.spec or y.spec)

    def mul(self, x, y):
        x, y = self.alike(x, y)
        return Piece(x.value * y.value * 0.5, x.spec or y.spec)

    def select(self, x, y):
        x, y = self.alike(x, y)
        return Piece(wnp.where(x.value > y.value, x.value, y.value * 0.5), x.spec or y.spec)

    def matmul(self, x, y):
        return self.product(x, y, scatter=False)

    def matmul_and_scatter(self, x, y):
        return self.product(x, y, scatter=True)

    def product(self, x, y, scatter):
        rows, inner = x.spec
        used = {*rows, *inner}
        rest = tuple(tuple(a for a in entry if a not in used) for entry in y.spec[1:])
        y = self.resplit(y, (inner, *rest))
        value = x.value @ y.value * 0.2
        if scatter and inner and not rows:
            if self.blocks:
                value = lax.psum_scatter(value, inner, scatter_dimension=0, tiled=True)
            return Piece(value, (inner, *rest))
        return Piece(self.psum(value, inner), (rows, *rest))


ANY = ("sin", "quotient", "jitted", "checkpointed", "times_table", "total", "scan", "cond")
RANK_1 = ("sum_first", "max_last", "mean_last", "gather_and_slice", "shift", "first_device")
RANK_2 = ("transpose", "exchange", "normalized_columns")
PAIRS = ("add", "mul", "select")
PRODUCTS = ("matmul", "matmul_and_scatter")


def rank_after(name, ranks):
    if name == "total":
        return 0
    if name in ("sum_first", "max_last", "mean_last"):
        return ranks[0] - 1
    return ranks[1] if name in PRODUCTS else max(ranks)


@dataclasses.dataclass(frozen=True)
class Program:
    sizes: dict[str, int]
    length: int
    specs: tuple[Spec, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]

    def inputs(self):
        rng = np.random.default_rng(0)
        shapes = [(self.length,) * len(spec) for spec in self.specs]
        return [wnp.array(rng.normal(size=shape), np.float64) for shape in shapes]

    def mesh(self):
        return weft.make_mesh(tuple(self.sizes.values()), tuple(self.sizes))

    def run(self, inputs, blocks):
        """The last value, a sum of all of it with weights, and how it is split."""
        run = Interpreter(self.sizes, self.length, blocks)
        pieces = [Piece(value, spec) for value, spec in zip(inputs, self.specs, strict=True)]
        for name, operands in self.steps:
            pieces.append(getattr(run, name)(*(pieces[i] for i in operands)))
        last = pieces[-1]
        weights = wnp.cos(closed_over(self.length, len(last.spec)) * 5)
        loss = run.psum((last.value * run.scattered(weights, last.spec)).sum(), last.axes)
        return last.value, loss, last.spec

    def whole(self, *inputs):
        value, loss, _ = self.run(inputs, blocks=False)
        return loss, value

    def out_spec(self):
        specs = []

        def run(*inputs):
            specs.append(self.run(inputs, blocks=False)[2])
            return 0

        weft.eval_shape(run, *self.inputs())
        return P(*specs[0])

    def sharded(self, check_vma=True):
        def body(*inputs):
            value, loss, _ = self.run(inputs, blocks=True)
            return loss, value

        return shard_map(
            body,
            mesh=self.mesh(),
            in_specs=tuple(P(*spec) for spec in self.specs),
            out_specs=(P(), self.out_spec()),
            check_vma=check_vma,
        )


@st.composite
def specs_of(draw, sizes, rank):
    """A random way to split dimensions: each axis once at most, in any order."""
    entries: list[list[str]] = [[] for _ in range(rank)]
    for axis in draw(st.permutations(list(sizes))):
        place = draw(st.integers(-1, rank - 1))
        if place >= 0:
            entries[place].append(axis)
    return tuple(map(tuple, entries))


@st.composite
def programs(draw, most_steps):
    sizes = draw(st.sampled_from(MESHES))
    ranks = draw(st.lists(st.sampled_from([0, 1, 2, 2]), min_size=1, max_size=3))
    specs = tuple(draw(specs_of(sizes, rank)) for rank in ranks)
    steps = []
    for _ in range(draw(st.integers(1, most_steps))):
        x = draw(st.integers(0, len(ranks) - 1))
        names = list(ANY)
        if ranks[x] >= 1:
            names += RANK_1
        if ranks[x] == 2:
            names += RANK_2
        others = [i for i, rank in enumerate(ranks) if rank == ranks[x] or not rank * ranks[x]]
        factors = [i for i, rank in enumerate(ranks) if ranks[x] == 2 and rank >= 1]
        names += PAIRS * (len(others) > 1) + PRODUCTS * bool(factors)
        name = draw(st.sampled_from(names))
        operands = (x,)
        if name in PAIRS:
            operands = (x, draw(st.sampled_from(others)))
        elif name in PRODUCTS:
            operands = (x, draw(st.sampled_from(factors)))
        steps.append((name, operands))
        ranks.append(rank_after(name, [ranks[i] for i in operands]))
    return Program(sizes, prod(sizes.values()), specs, tuple(steps))


def reference(program):
    inputs = program.inputs()
    numbers = tuple(range(len(inputs)))
    run = weft.jit(weft.value_and_grad(program.whole, numbers, has_aux=True))
    return inputs, numbers, run(*inputs)
