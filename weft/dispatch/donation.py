"""Reports which result lies in the memory of each donated argument, and if none does, why.

Whether a result lies in an argument's memory is the compiler's decision, and is read from the
executable. Why it does not is worked out here, from the sizes of arguments and results.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from weft import tree
from weft.base import source as sources
from weft.base.util import bytes_text
from weft.core.types import ArrayType
from weft.lowering.executables import Program
from weft.ops.structural.extended_dtypes import physical_type
from weft.sharding import Sharding

_LOOKED_AT = (
    "debug_nans or debug_infs searches the program again where a result is bad, and needs its "
    "arguments for that: nothing is taken"
)
_NOT_READ = "the program does not read it: it is not passed, and nothing is taken"
_EMPTY = "it has no elements, and so no memory"


@dataclasses.dataclass(frozen=True, slots=True)
class DonatedArgument:
    """A donated array: `reused_for` names the result in its memory, or is None, and `reason` says
    why. `leaf` is its index among the leaves; `taken` says whether a call deletes it."""

    path: str
    leaf: int
    type: ArrayType
    reused_for: str | None
    reason: str | None
    taken: bool

    def __str__(self) -> str:
        fate = f"reused for {self.reused_for}" if self.reused_for else f"not reused: {self.reason}"
        return f"{self.path} ({self.type}): {fate}"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Donation:
    """The donated arrays of a compiled function, in the order of its arguments."""

    arguments: tuple[DonatedArgument, ...]

    @property
    def reused(self) -> tuple[DonatedArgument, ...]:
        """The arguments whose memory a result reuses."""
        return tuple(x for x in self.arguments if x.reused_for is not None)

    @property
    def unused(self) -> tuple[DonatedArgument, ...]:
        """The arguments that were donated in vain: deleted, but not reused."""
        return tuple(x for x in self.arguments if x.taken and x.reused_for is None)

    def __iter__(self) -> Iterator[DonatedArgument]:
        return iter(self.arguments)

    def __len__(self) -> int:
        return len(self.arguments)

    def __getitem__(self, path: str | int) -> DonatedArgument:
        if isinstance(path, int):
            return self.arguments[path]
        for argument in self.arguments:
            if argument.path == path:
                return argument
        raise KeyError(path)

    def __repr__(self) -> str:
        if not self.arguments:
            return "Donation(nothing is donated)"
        return "\n".join(["Donation:", *(f"  {argument}" for argument in self.arguments)])


def donation_of(
    program: Program,
    names: Sequence[str],
    types: Sequence[ArrayType],
    donated: Sequence[bool],
    inputs: Sequence[int | None],
    results: Sequence[str],
    looked_at: bool,
) -> Donation:
    """The donation of an executable. By leaf: its name in messages, its type, whether it is
    donated, and its index among the inputs (None: dropped). `results` has the names of the
    results."""
    if not any(donated):
        return Donation(())
    aliases = {} if looked_at else program.executable.input_aliases()
    owners = {
        result: names[leaf]
        for leaf, i in enumerate(inputs)
        if (result := aliases.get(i)) is not None
    }
    found = []
    for leaf, (name, type, given, i) in enumerate(zip(names, types, donated, inputs, strict=True)):
        if not given:
            continue
        reused_for, reason, taken = None, None, False
        if looked_at:
            reason = _LOOKED_AT
        elif i is None:
            reason = _NOT_READ
        elif i in aliases:
            reused_for, taken = results[aliases[i]], True
        else:
            reason, taken = _why_not(program, type, i, results, owners), True
        found.append(DonatedArgument(name, leaf, type, reused_for, reason, taken))
    return Donation(tuple(found))


def _why_not(
    program: Program, type: ArrayType, i: int, results: Sequence[str], owners: dict[int, str]
) -> str:
    if not type.size:
        return _EMPTY
    several = bool(program.in_shardings)
    wanted = _block_bytes(type, program.in_shardings[i] if several else None)
    pairs = zip(program.out_types, program.out_places, strict=True)
    sizes = [_block_bytes(out, place) for out, place in pairs]
    amount = bytes_text(wanted) + (" on each device" if several else "")
    fitting = [k for k, size in enumerate(sizes) if size == wanted]
    if not fitting:
        return f"no result takes {amount}"
    free = [k for k in fitting if k not in owners]
    if not free:
        taken = ", ".join(f"{results[k]} in that of {owners[k]}" for k in fitting)
        return f"every result that takes {amount} lies in other memory: {taken}"
    listed = ", ".join(f"{results[k]} ({program.out_types[k]})" for k in free)
    return f"the compiler did not use it, though as many bytes are taken by {listed}"


def _block_bytes(type: ArrayType, place: Any) -> int:
    """The bytes that an array takes on each of its devices."""
    shape = place.shard_shape(type.shape) if isinstance(place, Sharding) else type.shape
    stored = physical_type(ArrayType(shape, type.dtype))
    return int(stored.size * stored.dtype.itemsize)


def result_names(out_tree: Any) -> list[str]:
    """The names of the results of a function in messages."""
    dummy = tree.unflatten(out_tree, range(out_tree.num_leaves))
    return [f"result{tree.keystr(path)}" for path, _ in tree.leaves_with_path(dummy)]


# Executables that the user was warned of. The jaxprs that they were compiled from own them.
_told: weakref.WeakSet[Any] = weakref.WeakSet()


def warn_of_unused(donation: Donation, name: str, program: Program) -> None:
    """Warns, at the user's line and once per executable, of arrays that are donated in vain."""
    rows = donation.unused
    if not rows or program.executable in _told:
        return
    _told.add(program.executable)
    listed = "\n".join(f"  {row.path} ({row.type}): {row.reason}" for row in rows)
    sources.warn(f"Some donated buffers were not usable, in jit of {name}:\n{listed}")
