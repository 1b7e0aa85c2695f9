"""What a program costs: flops, functions, bytes and memory, by the user's line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from weft.analysis.hardware import Hardware, check_hardware, communication_time
from weft.analysis.program_costs import LineTotal, ProgramCost, cost_of
from weft.api.jit import make_jaxpr
from weft.base import source as sources
from weft.dispatch.jitted import Jitted
from weft.errors import api_boundary
from weft.interpreters.partial_eval import dce_jaxpr
from weft.interpreters.staging import check_function, function_name

_MOST_LINES = 20


class LineCost(NamedTuple):
    """What one line of the user's program costs: see `CostReport` for the fields.

    Args:
        line: The file and the line number.
        flops: Arithmetic operations on inexact numbers.
        functions: Elements of functions such as `exp`.
        bytes_read: The bytes that operations read, each by itself.
        bytes_written: The bytes that operations write, each by itself.
        fused_bytes: The bytes of those values alone that are stored.
        communication: The bytes that a device sends or receives.
    """

    line: str
    flops: float
    functions: float
    bytes_read: float
    bytes_written: float
    fused_bytes: float
    communication: float


class RooflineRow(NamedTuple):
    """How long a line takes on a device, in seconds: computing, moving bytes between the device and
    its memory, and communicating. `bound` names the longest of the three.

    Args:
        line: The file and the line number.
        compute: The seconds of arithmetic.
        memory: The seconds of moving bytes.
        communication: The seconds of communicating.
    """

    line: str
    compute: float
    memory: float
    communication: float

    @property
    def seconds(self) -> float:
        """The longest of the three: they are taken to happen at the same time."""
        return max(self[1:])

    @property
    def bound(self) -> str:
        """`compute`, `memory` or `communication`, whichever takes longest."""
        return max(("compute", "memory", "communication"), key=lambda name: getattr(self, name))


@dataclasses.dataclass(frozen=True, repr=False)
class CostReport:
    """What a program costs; inside of `shard_map` on each device, outside of it in total.

    flops: arithmetic on inexact numbers, by the name of the dtype in `flops_by_dtype`; functions:
    elements of functions such as `exp`. bytes_read, bytes_written: of each operation by itself;
    fused_bytes: of those values alone that are stored where elementwise operations are computed
    within what reads them. communication: bytes that a device sends, or receives, by kind and axes
    in `collectives`. peak_memory: the most bytes of arguments and stored values that are alive at
    once, an estimate. unknown: primitives that have no cost here, with how often they run.

    Args:
        name: The name of the function.
        lines: The costs of each of the user's lines.
        flops_by_dtype: Arithmetic operations, by the name of the dtype.
        collectives: The bytes that a device sends or receives, by kind and axes.
        notes: What the numbers leave out.
        totals: The sums over each operation by its line, from which other reports are made.
    """

    name: str
    lines: tuple[LineCost, ...]
    flops_by_dtype: Mapping[str, float]
    peak_memory: float
    unknown: Mapping[str, float]
    collectives: Mapping[Any, float]
    notes: tuple[str, ...]
    totals: tuple[tuple[str, LineTotal], ...] = dataclasses.field(repr=False, default=())

    @property
    def flops(self) -> float:
        """Additions, multiplications, divisions and extrema of real numbers."""
        return sum(self.flops_by_dtype.values())

    @property
    def functions(self) -> float:
        """Elements of functions such as `exp`."""
        return sum(line.functions for line in self.lines)

    @property
    def bytes_read(self) -> float:
        """The bytes that operations read, each by itself."""
        return sum(line.bytes_read for line in self.lines)

    @property
    def bytes_written(self) -> float:
        """The bytes that operations write, each by itself."""
        return sum(line.bytes_written for line in self.lines)

    @property
    def fused_bytes(self) -> float:
        """The bytes that are read and written where elementwise operations are fused."""
        return sum(line.fused_bytes for line in self.lines)

    @property
    def communication(self) -> float:
        """The bytes that a device sends, or receives."""
        return sum(line.communication for line in self.lines)

    def roofline(self, hardware: Hardware) -> tuple[RooflineRow, ...]:
        """How long each line takes on a device, the longest first (Williams, Waterman and
        Patterson, Roofline: an insightful visual performance model, 2009).

        A function of a number counts as one flop of float32. Raises WeftValueError for a mesh axis
        without a bandwidth, WeftTypeError for anything that is not a `weft.Hardware`.
        """
        check_hardware("roofline", hardware)
        rows = [RooflineRow(line, *_times(total, hardware)) for line, total in self.totals]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def seconds(self, hardware: Hardware) -> float:
        """How long the program takes where lines run one after the other."""
        return sum(row.seconds for row in self.roofline(hardware))

    def __repr__(self) -> str:
        return _table(self)


def _times(total: LineTotal, hardware: Hardware) -> tuple[float, float, float]:
    compute = sum(count / hardware.flops_of(name) for name, count in total.flops.items())
    compute += total.functions / hardware.flops_of("float32")
    sent = sum(
        times * communication_time(hardware, kind, size, group, axes)
        for (kind, axes, group, size), times in total.collectives.items()
    )
    return compute, total.fused_bytes / hardware.memory_bandwidth, sent


@api_boundary
def cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostReport:
    """Adds up what `fun(*args, **kwargs)` costs. Nothing is computed.

    fun: the function, for a derivative `weft.grad(f)`; args, kwargs: its arguments: arrays,
    numbers, ShapeDtypeStructs and trees of these. Meshes may be abstract. Operations in loops are
    multiplied; a `while` loop of unknown length counts once; a conditional counts as its branch
    with the most flops. Unused results are left out.

    >>> import weft, weft.numpy as jnp
    >>> report = weft.cost(lambda x, y: jnp.tanh(x @ y), jnp.ones((8, 16)), jnp.ones((16, 4)))
    >>> report.flops, report.functions, report.bytes_written, report.peak_memory
    (1024.0, 32.0, 256.0, 1024.0)
    """
    check_function("cost", fun)
    if isinstance(fun, Jitted):
        fun, args, kwargs = fun.of_dynamic(args, kwargs)
    jaxpr = make_jaxpr(fun)(*args, **kwargs).jaxpr
    smaller, _ = dce_jaxpr(jaxpr, (True,) * len(jaxpr.outputs), keep_inputs=True)
    found = cost_of(smaller)
    # Several places of the program may stand on one line.
    totals: dict[str, LineTotal] = {}
    for place, total in found.lines.items():
        totals.setdefault(sources.describe(place), LineTotal()).add(total)
    lines = [
        LineCost(
            line,
            float(sum(total.flops.values())),
            total.functions,
            total.bytes_read,
            total.bytes_written,
            total.fused_bytes,
            float(sum(size * times for (_, _, _, size), times in total.collectives.items())),
        )
        for line, total in totals.items()
    ]
    lines.sort(key=lambda line: (-line.flops, -line.fused_bytes))
    whole = LineTotal()
    for total in totals.values():
        whole.add(total)
    return CostReport(
        function_name(fun),
        tuple(lines),
        dict(whole.flops),
        found.peak,
        dict(found.unknown),
        dict(whole.collectives),
        _notes(found),
        tuple(totals.items()),
    )


def _notes(found: ProgramCost) -> tuple[str, ...]:
    notes = []
    if found.whiles:
        notes.append("a while loop whose count depends on values is counted once")
    if found.branches:
        notes.append("of the branches of a conditional the one with the most flops is counted")
    if found.unknown:
        names = ", ".join(f"{name} ({count:g})" for name, count in sorted(found.unknown.items()))
        notes.append(f"no cost is known of {names}")
    return tuple(notes)


# ---- text --------------------------------------------------------------------------------------

_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(number: float) -> str:
    """A number with three digits and a prefix of the SI."""
    for size, prefix in _UNITS:
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g}"


def _table(report: CostReport) -> str:
    head = ("flops", "functions", "read", "written", "fused", "sent", "line")
    rows = [
        (*map(short, line[1:]), os.path.basename(line.line)) for line in report.lines[:_MOST_LINES]
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        f"{report.name} costs {short(report.flops)}flop, {short(report.functions)} functions, "
        f"{short(report.fused_bytes)}B of memory traffic ({short(report.bytes_read)}B read and "
        f"{short(report.bytes_written)}B written without fusion), "
        f"{short(report.communication)}B sent, peak memory {short(report.peak_memory)}B",
        "",
    ]
    for row in (head, *rows):
        cells = [text.rjust(width) for text, width in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]))
    more = len(report.lines) - len(rows)
    if more > 0:
        lines.append(f"and {more} more lines")
    return "\n".join([*lines, *report.notes])
