"""The collectives of a recorded program as rows: what is sent, where, how often, and by whom.

Here too: which primitives are collectives, of which kinds, and what an equation of each sends.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.analysis.occurrences import Occurrence, occurrences, place_of
from weft.base import source as sources
from weft.core.inner_programs import InnerPrograms
from weft.core.jaxpr import Equation, Jaxpr
from weft.core.primitive import Primitive
from weft.core.types import ArrayType
from weft.ops.collectives.all_reduce import pmax_p, pmin_p, psum_p
from weft.ops.collectives.invariant import all_gather_invariant_p
from weft.ops.collectives.movement import all_gather_p, all_to_all_p, psum_scatter_p
from weft.ops.collectives.permutation import ppermute_p
from weft.sharding.mesh import AnyMesh

KIND_OF: dict[Primitive, str] = {
    psum_p: "all_reduce",
    pmax_p: "all_reduce",
    pmin_p: "all_reduce",
    all_gather_p: "all_gather",
    all_gather_invariant_p: "all_gather",
    psum_scatter_p: "reduce_scatter",
    ppermute_p: "collective_permute",
    all_to_all_p: "all_to_all",
}


class Collective(NamedTuple):
    """What one execution of a collective sends.

    axes: the mesh axes along which devices communicate, without those of length 1. group: how many
    devices communicate with each other. bytes: on one device, of the operand, and of an all_gather
    of the result: always the larger of both. dtype: of the elements.
    """

    kind: str
    axes: tuple[str, ...]
    group: int
    bytes: int
    dtype: np.dtype


def size_in_bytes(of: ArrayType) -> int:
    """The bytes of an array of a type. Narrow numbers are packed; a random key has the bytes of its
    generator's state."""
    dtype = of.dtype
    bits = 8 * dtype.itemsize if dtypes.is_extended(dtype) else dtypes.itemsize_bits(dtype)
    return int(of.size) * bits // 8


def collective_of(eqn: Equation, mesh: AnyMesh | None) -> Collective | None:
    """The collective that an equation within a `shard_map` over a mesh is; None if it sends
    nothing: it is no collective, or has no other device or no elements."""
    kind = KIND_OF.get(eqn.primitive)
    if kind is None or mesh is None:
        return None
    sizes = {name: mesh.axis_size(name) for name in eqn.params["axis_name"]}
    groups = eqn.params.get("axis_index_groups")
    group = prod(sizes.values()) if groups is None else len(groups[0])
    sent = (eqn.outputs[0] if kind == "all_gather" else eqn.inputs[0]).type
    size = size_in_bytes(sent)
    if group <= 1 or not size:
        return None
    axes = tuple(name for name, length in sizes.items() if length > 1)
    return Collective(kind, axes, group, size, sent.dtype)


# In the order of a report. HLO writes hyphens: all-reduce.
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "collective_permute", "all_to_all")

# What an operation of a backward pass is the transpose of; of a psum in groups it is a psum.
_TRANSPOSE_OF: dict[Primitive, str] = {
    psum_p: "pbroadcast",
    all_gather_p: "psum_scatter",
    all_gather_invariant_p: "pscatter",
    psum_scatter_p: "all_gather",
    ppermute_p: "ppermute",
    all_to_all_p: "all_to_all",
}


# What a collective of a compiled program is the derivative of.
UNKNOWN = "?"


class CommsRow(NamedTuple):
    """A collective of a program.

    kind: one of "all_reduce", "all_gather", "reduce_scatter", "collective_permute", "all_to_all".
    operation: the function of `weft.lax` (`psum`), or for a compiled program the operation that the
    compiler made it for. axes: the mesh axes along which devices communicate, without
    those of length 1; empty if a compiled program does not say.

    bytes: of one execution on one device. It is the size of the operand, and of an all_gather that
    of the result: always the larger of both. dtype: of the operand. group: how many devices
    communicate with each other. trips: how often it runs, the product of the lengths of the loops
    around it; None if one is a `while` loop whose count depends on values. Sums count it once.
    branch: whether it stands in a branch of a conditional. Sums count every branch.

    backward: whether it runs in the backward pass of a derivative. line: the user's,
    `file.py:12 in function`; in a backward pass that of the operation that was differentiated.
    derivative_of: the operation whose derivative it is (see `origin`), None for a call that stands
    in the program, and "?" in a compiled program, which does not say. inserted: whether that
    operation is a cast (`pbroadcast`) that stands nowhere in the program, but was inserted in front
    of the operation at `line`. transposed: whether reverse mode made it; tangent: whether forward
    mode did, for the operation itself or for its transpose.
    """

    kind: str
    operation: str
    axes: tuple[str, ...]
    dtype: np.dtype[Any]
    bytes: int
    group: int
    trips: int | None
    branch: bool
    backward: bool
    line: str
    derivative_of: str | None
    inserted: bool
    transposed: bool = False
    tangent: bool = False

    @property
    def implied(self) -> bool:
        """Whether a derivative made it: the transpose of an operation, or what forward mode sends
        for one."""
        return self.derivative_of not in (None, UNKNOWN)

    @property
    def times(self) -> int:
        """How often sums count it: its trips, or once where they are not known."""
        return 1 if self.trips is None else self.trips

    @property
    def total_bytes(self) -> int:
        """The bytes of all its executions on one device."""
        return self.bytes * self.times

    @property
    def origin(self) -> str:
        """`explicit`, or what it is the derivative of."""
        if self.derivative_of is None:
            return "explicit"
        if self.derivative_of == UNKNOWN:
            return UNKNOWN
        what = f"{self.derivative_of} (inserted)" if self.inserted else self.derivative_of
        text = f"transpose of {what}" if self.transposed else what
        if self.tangent:
            return f"derivative of the {text}" if self.transposed else f"derivative of {text}"
        return text

    def __str__(self) -> str:
        known = {None: "an unknown number of times", 1: "once"}
        runs = known.get(self.trips, f"{self.trips} times")
        along = f" along {', '.join(self.axes)}" if self.axes else ""
        return (
            f"{self.kind} ({self.operation}){along} of {self.bytes} bytes, {runs}, "
            f"{'backward' if self.backward else 'forward'}, {self.origin}, at {self.line}"
        )


def rows_of(jaxpr: Jaxpr) -> list[CommsRow]:
    """Returns the collectives of a program in the order of its equations. What communicates with
    nobody, along axes of length 1 or without elements, is left out."""
    calls: set[Any] = set()

    def wanted(eqn: Equation, inner: InnerPrograms) -> bool:
        if eqn.primitive in KIND_OF:
            return True
        if inner.parts:
            calls.add(_instruction(eqn))
        return False

    collectives = occurrences(jaxpr, wanted)
    # The operations at a line: a cast at the line of one of these was inserted for it.
    takers = calls | {
        _instruction(one.eqn) for one in collectives if one.eqn.primitive is not psum_p
    }
    found = ((one, collective_of(one.eqn, one.mesh)) for one in collectives)
    return [_row(one, sent, takers) for one, sent in found if sent is not None]


def _instruction(eqn: Equation) -> Any:
    """The call in the user's program that an equation belongs to."""
    return None if eqn.source is None else (id(eqn.source[0]), eqn.source[1])


def _row(found: Occurrence, sent: Collective, takers: set[Any]) -> CommsRow:
    eqn = found.eqn
    primitive = eqn.primitive
    in_groups = eqn.params.get("axis_index_groups") is not None
    made, tangent_of = sources.made_by(eqn.source), sources.differentiated_operation(eqn.source)
    of, inserted = tangent_of or None, False
    transposed = made in (sources.TRANSPOSE, sources.TRANSPOSE_OF_CAST)
    if transposed:
        of = "psum" if primitive is psum_p and in_groups else _TRANSPOSE_OF.get(primitive)
        inserted = made == sources.TRANSPOSE_OF_CAST or (
            of == "pbroadcast" and _instruction(eqn) in takers
        )
    return CommsRow(
        kind=sent.kind,
        operation=primitive.name,
        axes=sent.axes,
        dtype=sent.dtype,
        bytes=sent.bytes,
        group=sent.group,
        trips=found.trips,
        branch=found.branch,
        backward=found.backward,
        line=sources.describe(place_of(eqn)),
        derivative_of=of,
        inserted=inserted,
        transposed=transposed,
        tangent=bool(tangent_of),
    )
