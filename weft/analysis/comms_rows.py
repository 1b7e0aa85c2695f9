"""The collectives of a recorded program as rows: what is sent, where, how often, and by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weft.analysis.collective_bytes import KIND_OF, Collective, collective_of
from weft.analysis.inner_programs import Inner, Occurrence, occurrences, place_of
from weft.base import source as sources
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.primitive import Primitive
from weft.ops.collectives.all_reduce import pbroadcast_p, pmax_p, pmin_p, psum_p
from weft.ops.collectives.invariant import all_gather_invariant_p
from weft.ops.collectives.movement import all_gather_p, all_to_all_p, psum_scatter_p
from weft.ops.collectives.permutation import ppermute_p
from weft.ops.elementwise.arithmetic import eq_p, mul_p
from weft.ops.elementwise.selection import select_n_p

__all__ = ["KINDS", "UNKNOWN", "CommsRow", "rows_of"]

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
    those of length 1; empty where a compiled program does not say.

    bytes: of one execution on one device. It is the size of the operand, and of an all_gather that
    of the result: always the larger of both. dtype: of the operand. group: how many devices
    communicate with each other. trips: how often it runs, the product of the lengths of the loops
    around it; None where one is a `while` loop whose count depends on values. Sums count it once.
    branch: whether it stands in a branch of a conditional. Sums count every branch.

    backward: whether it runs in the backward pass of a derivative. line: the user's,
    `file.py:12 in function`; in a backward pass that of the operation that was differentiated.
    derivative_of: the operation whose derivative it is (see `implied`), None for a call that stands
    in the program, and "?" in a compiled program, which does not say. inserted: whether that
    operation is a cast (`pbroadcast`) that stands nowhere in the program, but was inserted in front
    of the operation at `line`.
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

    @property
    def implied(self) -> bool:
        """Whether a derivative made it: in reverse mode it is the transpose of an operation."""
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
        return f"transpose of {what}" if self.backward else f"derivative of {what}"

    def __str__(self) -> str:
        known = {None: "an unknown number of times", 1: "once"}
        runs = known.get(self.trips, f"{self.trips} times")
        along = f" along {', '.join(self.axes)}" if self.axes else ""
        return (
            f"{self.kind} ({self.operation}){along} of {self.bytes} bytes, {runs}, "
            f"{'backward' if self.backward else 'forward'}, {self.origin}, at {self.line}"
        )


def rows_of(jaxpr: Jaxpr) -> list[CommsRow]:
    """Returns the collectives of a program in the order of its equations.

    What communicates with nobody, along axes of length 1 or without elements, is left out.
    """
    calls: set[Any] = set()

    def wanted(eqn: Equation, inner: Inner) -> bool:
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
    counts = _counters()
    found = ((one, collective_of(one.eqn, one.mesh)) for one in collectives)
    return [_row(one, sent, takers, counts) for one, sent in found if sent is not None]


def _instruction(eqn: Equation) -> Any:
    """The call in the user's program that an equation belongs to."""
    return None if eqn.source is None else (id(eqn.source[0]), eqn.source[1])


def _row(
    found: Occurrence,
    sent: Collective,
    takers: set[Any],
    counts: Callable[[Occurrence], str | None],
) -> CommsRow:
    eqn = found.eqn
    primitive = eqn.primitive
    in_groups = eqn.params.get("axis_index_groups") is not None
    made = sources.made_by(eqn.source)
    of, inserted = None, False
    if made in (sources.TRANSPOSE, sources.TRANSPOSE_OF_CAST):
        of = "psum" if primitive is psum_p and in_groups else _TRANSPOSE_OF.get(primitive)
        inserted = made == sources.TRANSPOSE_OF_CAST or (
            of == "pbroadcast" and _instruction(eqn) in takers
        )
    elif primitive is psum_p:
        of = counts(found)
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
    )


def _counters() -> Callable[[Occurrence], str | None]:
    """Returns a function that says of a `psum` which extremum has it in its derivative.

    The derivative of `pmax` counts the elements that attain the maximum, and shares its tangent
    among them: both are sums of `select(eq(x, pmax(x)), …)`.
    """
    makers: dict[Jaxpr, dict[Any, Equation]] = {}

    def extremum(found: Occurrence) -> str | None:
        known = makers.get(found.jaxpr)
        if known is None:
            known = {var: eqn for eqn in found.jaxpr.eqns for var in eqn.outputs}
            makers[found.jaxpr] = known

        def made(atom: Any, *kinds: Primitive) -> Equation | None:
            eqn = known.get(atom) if type(atom) is Var else None
            return eqn if eqn is not None and eqn.primitive in kinds else None

        (operand,) = found.eqn.inputs
        product = made(operand, mul_p)
        for atom in product.inputs if product is not None else (operand,):
            chosen = made(atom, select_n_p)
            equal = chosen and made(chosen.inputs[0], eq_p)
            for side in equal.inputs if equal else ():
                cast = made(side, pbroadcast_p)
                most = made(cast.inputs[0] if cast else side, pmax_p, pmin_p)
                if most is not None and _instruction(most) == _instruction(found.eqn):
                    return most.primitive.name
        return None

    return extremum
