"""How long a program would take on devices that are not here: `plan`, `plans` and `scaling`.

The program is traced for its mesh, which may be abstract and of any size, and its costs on one
device are divided by what the device does in a second. Nothing depends on the number of devices but
the lengths of the mesh's axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.analysis.cost import CostReport, cost, short
from weft.analysis.hardware import Hardware, check_hardware, communication_time
from weft.analysis.picture_style import line_chart
from weft.errors import Fix, WeftTypeError, api_boundary
from weft.sharding.mesh import AnyMesh


@dataclasses.dataclass(frozen=True, repr=False)
class ProgramPlan:
    """How long a program takes on each device of a mesh, in seconds, and what memory it needs.

    compute, memory: of arithmetic, and of moving stored values. communication: by the mesh axes
    along which it is. device_memory: bytes alive at once on a device, an estimate. costs: what all
    of it is computed from.

    name: the name of the program, or of the way to run it; hardware: the devices on which it would
    run.
    """

    name: str
    hardware: Hardware
    compute: float
    memory: float
    communication: Mapping[tuple[Any, ...], float]
    device_memory: float
    costs: CostReport

    @property
    def seconds(self) -> float:
        """Of a program that waits for every transfer: each line computes, or moves bytes, whichever
        takes longer, and communicates after that."""
        rows = self.costs.roofline(self.hardware)
        return sum(max(row.compute, row.memory) + row.communication for row in rows)

    @property
    def overlapped(self) -> float:
        """Of one whose transfers all hide behind computing, as far as they fit: no less is possible
        with these programs."""
        rows = self.costs.roofline(self.hardware)
        busy = sum(max(row.compute, row.memory) for row in rows)
        return max([busy, *self.communication.values()])

    @property
    def fits(self) -> bool:
        """Whether the memory of a device holds it."""
        return self.device_memory <= self.hardware.memory

    @property
    def utilization(self) -> float:
        """The share of `seconds` in which the device's arithmetic is used."""
        return self.compute / self.seconds if self.seconds else 0.0

    def __repr__(self) -> str:
        return _table([self])


@api_boundary
def plan(fun: Callable[..., Any], *args: Any, hardware: Hardware, **kwargs: Any) -> ProgramPlan:
    """Estimates how long `fun(*args, **kwargs)` takes on each device of its mesh. Nothing is run.

    fun, args, kwargs: as in `weft.cost`. hardware: the devices of the mesh, for example an entry of
    `weft.ACCELERATORS`. Everything inside `shard_map` is counted on one device, and everything
    outside it counts whole: put the whole step inside. Raises WeftTypeError for hardware that is
    not a `weft.Hardware`, WeftValueError for a mesh axis without a bandwidth.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((4096,), ("data",))
    >>> @weft.shard_map(mesh=mesh, in_specs=(P(), P("data")), out_specs=P())
    ... def loss(w, x):
    ...     return weft.lax.pmean(jnp.mean((x @ w) ** 2), "data")
    >>> w, x = (weft.ShapeDtypeStruct(s, "bfloat16") for s in ((8192, 8192), (4096 * 512, 8192)))
    >>> chip = weft.Hardware(flops=1e15, memory_bandwidth=3e12, link_bandwidth=4e11)
    >>> step = weft.plan(weft.grad(loss), w, x, hardware=chip)
    >>> f"{step.compute * 1e6:.0f} us", f"{step.communication['data',] * 1e6:.0f} us"
    ('137 us', '671 us')
    """
    check_hardware("plan", hardware)
    costs = cost(fun, *args, **kwargs)
    rows = costs.roofline(hardware)
    communication: dict[tuple[Any, ...], float] = {}
    for (kind, axes, group, size), times in costs.collectives.items():
        taken = times * communication_time(hardware, kind, size, group, axes)
        communication[axes] = communication.get(axes, 0.0) + taken
    return ProgramPlan(
        costs.name,
        hardware,
        sum(row.compute for row in rows),
        sum(row.memory for row in rows),
        communication,
        costs.peak_memory,
        costs,
    )


# ---- several ways, several meshes --------------------------------------------------------------

# A function with its arguments.
Program = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, repr=False)
class Plans:
    """Ways to run one program, the fastest that fits in memory first.

    plans: a `ProgramPlan` for each way, in this order.
    """

    plans: tuple[ProgramPlan, ...]

    def __iter__(self) -> Any:
        return iter(self.plans)

    def __len__(self) -> int:
        return len(self.plans)

    def __getitem__(self, place: int) -> ProgramPlan:
        return self.plans[place]

    def __repr__(self) -> str:
        return _table(self.plans)


@api_boundary
def plans(programs: Mapping[str, Program], *, hardware: Hardware) -> Plans:
    """Compares several ways to compute one thing: a dict from names to `(function, *arguments)`,
    each with its own shardings. Raises what `plan` does, and WeftTypeError for programs of another
    form.

    programs: the name and the program of each way; hardware: as in `plan`.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> mesh = AbstractMesh((64,), ("i",))
    >>> x, w = (
    ...     weft.ShapeDtypeStruct((64, 8192), "float32"),
    ...     weft.ShapeDtypeStruct((8192, 8192), "float32"),
    ... )
    >>> by_columns = weft.shard_map(
    ...     lambda x, w: x @ w, mesh=mesh, in_specs=(P(), P(None, "i")), out_specs=P(None, "i")
    ... )
    >>> by_rows = weft.shard_map(
    ...     lambda x, w: weft.lax.psum(x @ w, "i"),
    ...     mesh=mesh,
    ...     in_specs=(P(None, "i"), P("i")),
    ...     out_specs=P(),
    ... )
    >>> found = weft.plans(
    ...     {"columns": (by_columns, x, w), "rows": (by_rows, x, w)},
    ...     hardware=weft.ACCELERATORS["H100"],
    ... )
    >>> [way.name for way in found]
    ['columns', 'rows']
    """
    if not isinstance(programs, Mapping):
        raise _no_program("plans", programs, "a dict of names to tuples (function, *arguments)")
    check_hardware("plans", hardware)
    found = []
    for name, program in programs.items():
        fun, *args = _check_program("plans", program)
        found.append(dataclasses.replace(plan(fun, *args, hardware=hardware), name=name))
    return Plans(tuple(sorted(found, key=lambda way: (not way.fits, way.seconds))))


@dataclasses.dataclass(frozen=True, repr=False)
class Scaling:
    """A program over meshes of several sizes: `plans[k]` runs on `devices[k]` of them.

    devices: the numbers of devices, rising; plans: a plan for each of them.
    """

    devices: tuple[int, ...]
    plans: tuple[ProgramPlan, ...]

    def __repr__(self) -> str:
        return _table(self.plans)

    @property
    def svg(self) -> str:
        """A picture: seconds of computing, communication and in all, by the number of devices."""
        series = {
            "in all": [way.seconds for way in self.plans],
            "computing": [max(way.compute, way.memory) for way in self.plans],
            "communication": [sum(way.communication.values()) for way in self.plans],
        }
        name = self.plans[0].hardware.name if self.plans else ""
        return line_chart(f"seconds on {name}", "devices", self.devices, series)

    def _repr_html_(self) -> str:
        return self.svg


@api_boundary
def scaling(
    make: Callable[[Any], Program], meshes: Iterable[Any], *, hardware: Hardware
) -> Scaling:
    """Plans a program over several meshes. `make(mesh)` returns `(function, *arguments)`.

    make: a function that takes a mesh; meshes: `Mesh` or `AbstractMesh` objects of several sizes;
    hardware: as in `plan`.

    If the arguments stay the same, this is strong scaling; if they grow with the mesh, it is weak
    scaling. Raises what `plan` does, and WeftTypeError for anything that is neither a mesh nor such
    a tuple.

    >>> import weft, weft.numpy as jnp
    >>> from weft.sharding import AbstractMesh, PartitionSpec as P
    >>> def make(mesh):
    ...     total = weft.shard_map(
    ...         lambda x: weft.lax.psum(jnp.sum(x), "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    ...     )
    ...     return total, weft.ShapeDtypeStruct((1 << 20,), "float32")
    >>> meshes = [AbstractMesh((n,), ("i",)) for n in (8, 64, 4096)]
    >>> curve = weft.scaling(make, meshes, hardware=weft.ACCELERATORS["TPU v4"])
    >>> [int(way.costs.flops) for way in curve.plans]
    [131071, 16383, 255]
    """
    found = []
    for mesh in meshes:
        if not isinstance(mesh, AnyMesh):
            raise _no_mesh(mesh)
        function, *args = _check_program("scaling", make(mesh))
        way = plan(function, *args, hardware=hardware)
        found.append((mesh.size, dataclasses.replace(way, name=f"{mesh.size} devices")))
    return Scaling(tuple(size for size, _ in found), tuple(way for _, way in found))


def _check_program(operation: str, program: Any) -> Program:
    """A tuple of a function and arguments; raises WeftTypeError for anything else."""
    if isinstance(program, (tuple, list)) and program and callable(program[0]):
        return tuple(program)
    raise _no_program(operation, program, "a tuple (function, *arguments)")


def _no_program(operation: str, got: Any, wanted: str) -> WeftTypeError:
    message = f"{operation} takes programs as tuples of a function and its arguments"
    fix = Fix("program", "write (f, x) for f(x)")
    return WeftTypeError(message, got=f"{got!r:.100}", wanted=wanted, fix=fix)


def _no_mesh(got: Any) -> WeftTypeError:
    fix = Fix("mesh", 'pass meshes, such as weft.sharding.AbstractMesh((8,), ("i",))')
    message = "scaling takes the meshes over which a program is planned"
    return WeftTypeError(message, got=f"{got!r:.100}", wanted="meshes", fix=fix)


# ---- text --------------------------------------------------------------------------------------


def _table(found: Iterable[ProgramPlan]) -> str:
    """A line for each plan: times, memory and whether it fits."""
    head = ("", "seconds", "overlapped", "computing", "memory", "communication", "peak memory")
    rows = [
        (
            way.name,
            _seconds(way.seconds),
            _seconds(way.overlapped),
            _seconds(way.compute),
            _seconds(way.memory),
            _axes(way.communication),
            f"{short(way.device_memory)}B" + ("" if way.fits else " (does not fit)"),
        )
        for way in found
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def _axes(communication: Mapping[tuple[Any, ...], float]) -> str:
    parts = [f"{', '.join(map(str, axes))}: {_seconds(x)}" for axes, x in communication.items()]
    return "; ".join(parts) or "none"


def _seconds(number: float) -> str:
    for size, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"), (1e-12, "p")):
        if number >= size:
            return f"{number / size:.3g} {prefix}s"
    return f"{number:.3g} s"
