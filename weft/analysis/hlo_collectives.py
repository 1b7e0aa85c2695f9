"""The collectives of a compiled program as rows, read from its HLO.

Where shardings are given and the compiler divides the work, no jaxpr says what is communicated:
only the compiled program does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft.analysis.comms_rows import UNKNOWN, CommsRow
from weft.errors import WeftValueError
from weft.runtime.hlo_text import Computation, HloModule, Instruction, Shape, parse
from weft.sharding.mesh import AnyMesh

_COLLECTIVE = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all|collective-broadcast"
    r"|ragged-all-to-all)(-start)?"
)
# The attributes that name the computations an instruction runs.
_CALLS = {
    "call": ("to_apply",),
    "fusion": ("calls",),
    "async-start": ("calls",),
    "conditional": ("branch_computations", "true_computation", "false_computation"),
}

Groups = tuple[tuple[int, ...], ...]


class _Context(NamedTuple):
    """The context of a computation."""

    trips: int | None = 1
    branch: bool = False

    def times(self, count: int | None) -> _Context:
        known = self.trips is not None and count is not None
        return self._replace(trips=self.trips * count if known else None)  # type: ignore[operator]


def compiled_rows(text: str, mesh: AnyMesh | None = None) -> list[CommsRow]:
    """Returns the collectives of a compiled program, of which `text` is the HLO.

    One that XLA combined from several has a row for each of its operands. `mesh` gives the names of
    axes: devices are numbered in its order. Whether a derivative made a collective is not known.
    Raises WeftValueError for text that is not HLO.

    >>> text = '''HloModule m, num_partitions=4
    ...
    ... ENTRY %main (x: f32[4]) -> f32[4] {
    ...   %x = f32[4]{0} parameter(0)
    ...   ROOT %y = f32[4]{0} all-reduce(%x), replica_groups=[2,2]<=[4], to_apply=%add
    ... }'''
    >>> [row] = compiled_rows(text)
    >>> row.kind, row.bytes, row.group, row.trips
    ('all_reduce', 16, 2, 1)
    """
    module = parse(text)
    found = _walk(module, module.entry, _Context(), mesh)
    return [row for row in found if row.group > 1 and row.bytes]


def _walk(
    module: HloModule, name: str, around: _Context, mesh: AnyMesh | None
) -> Iterator[CommsRow]:
    computation = module.computations[name]
    for one in computation.instructions:
        if _COLLECTIVE.fullmatch(one.opcode):
            yield from _rows(module, computation, one, around, mesh)
        elif one.opcode == "while":
            count = re.search(r'"known_trip_count":\{"n":"(\d+)"', one.attributes)
            n = int(count[1]) if count else None
            condition, body = one.computations("condition", "body")
            yield from _walk(module, condition, around.times(None if n is None else n + 1), mesh)
            yield from _walk(module, body, around.times(n), mesh)
        else:
            inside = around._replace(branch=True) if one.opcode == "conditional" else around
            for inner in one.computations(*_CALLS.get(one.opcode, ())):
                yield from _walk(module, inner, inside, mesh)


def _rows(
    module: HloModule, where: Computation, one: Instruction, around: _Context, mesh: AnyMesh | None
) -> Iterator[CommsRow]:
    kind = one.opcode.removesuffix("-start").replace("-", "_")
    operands = where.operand_shapes(one)
    if kind == "collective_permute":
        pairs = _lists(one.attribute("source_target_pairs"))
        # Further operands of a permutation are the places that it writes to.
        operands, groups = operands[:1], _components(pairs, module.devices)
    else:
        groups = device_groups(_groups_text(one), module.devices)
    axes = _axes(groups, mesh)
    group = max(map(len, groups))
    if kind == "collective_permute" and axes and mesh is not None:
        group = prod(map(mesh.axis_size, axes))
    if kind == "all_to_all":
        # Operands are the parts that go to the devices of a group, or one array of all of them.
        operands = [Shape(operands[0].dtype, (len(operands), *operands[0].lengths))]
    path = re.search(r'op_name="([^"]*)"', one.attributes)
    names = path[1] if path else ""
    for shape in operands:
        yield CommsRow(
            kind=kind,
            operation=names.rpartition("/")[2].rstrip(")") or "?",
            axes=axes,
            dtype=shape.dtype,
            bytes=shape.bytes * (group if kind == "all_gather" else 1),
            group=group,
            trips=around.trips,
            branch=around.branch,
            backward="transpose(" in names,
            line=module.line(one),
            derivative_of=UNKNOWN,
            inserted=False,
        )


def _groups_text(one: Instruction) -> str:
    """The attribute `replica_groups`, which continues after a comma if it names a mesh."""
    mesh = re.search(
        r"replica_groups=(mesh\[.*?\](?:, device_ids=\(.*?\))? \{[^{}]*\})", one.attributes
    )
    return mesh[1] if mesh is not None else one.attribute("replica_groups")


# ---- which devices -----------------------------------------------------------------------------


def device_groups(text: str, devices: int) -> Groups:
    """Returns the groups of devices that an attribute `replica_groups` has, in any notation.

    In `[2,4]<=[4,2]T(1,0)` the devices are numbered in an array of shape (4, 2), whose dimensions
    are permuted; read row by row it makes two groups of four. `mesh['x'=2,'y'=4] {'y'}` has groups
    along the axis y of an array of devices; `'y':(2)2` is the part of length 2 of that axis with
    2 in front of it, and `device_ids` permutes the devices. No groups are one group of all.

    >>> device_groups("{{0,2},{1,3}}", 4)
    ((0, 2), (1, 3))
    >>> device_groups("[2,2]<=[2,2]T(1,0)", 4)
    ((0, 2), (1, 3))
    >>> device_groups("mesh['x'=2,'y'=2] {'x'}", 4)
    ((0, 2), (1, 3))
    """
    numbered = re.fullmatch(r"\[(\d+),(\d+)\]<=(\[.*)", text)
    if numbered is not None:
        return _as_groups(_numbers(numbered[3]).reshape(-1, int(numbered[2])))
    mesh = re.fullmatch(r"mesh\[(.*?)\](?:, device_ids=\((.*)\))? \{(.*)\}", text)
    if mesh is not None:
        return _groups_of_mesh(*mesh.groups(default=""))
    if not re.fullmatch(r"\{[\d,{} ]*\}|", text):
        message = "comms does not know this notation for the devices that a collective joins"
        raise WeftValueError(message, operation="comms", got=f"replica_groups={text}")
    return _lists(text) or (tuple(range(devices)),)


def _as_groups(rows: np.ndarray[Any, Any]) -> Groups:
    return tuple(map(tuple, rows.tolist()))


def _numbers(text: str) -> np.ndarray[Any, Any]:
    """The device numbers of `[4,2]T(1,0)` or of a list, in order."""
    sizes, _, order = text.partition("T")
    numbers = np.array([int(n) for n in re.findall(r"\d+", sizes)])
    if not sizes.startswith("["):
        return numbers
    found = np.arange(prod(numbers)).reshape(numbers)
    return (
        found.transpose([int(n) for n in re.findall(r"\d+", order)]) if order else found
    ).ravel()


def _groups_of_mesh(sizes: str, order: str, axes: str) -> Groups:
    lengths = {name: int(n) for name, n in re.findall(r"'?([^',=]+)'?=(\d+)", sizes)}
    # Of each axis of the mesh the parts: along which groups lie, and what is around them.
    parts: dict[str, list[tuple[int, int]]] = {name: [] for name in lengths}
    along = []
    for name, before, size in re.findall(r"'?([^',:]+)'?(?::\((\d+)\)(\d+))?(?:,|$)", axes):
        along.append((name, int(before) if size else 1, int(size) if size else lengths[name]))
        parts[name].append(along[-1][1:])
    shape: list[int] = []
    places: dict[tuple[str, int], int] = {}
    for name, length in lengths.items():
        done = 1
        for before, size in sorted(parts[name]):
            shape.append(before // done)
            places[name, before] = len(shape)
            shape.append(size)
            done = before * size
        shape.append(length // done)
    numbers = _numbers(order) if order else np.arange(prod(lengths.values()))
    chosen = [places[name, before] for name, before, _ in along]
    return _as_groups(_along(numbers.reshape(shape), chosen))


def _lists(text: str) -> Groups:
    found = re.findall(r"\{([\d, ]+)\}", text)
    return tuple(tuple(int(n) for n in row.split(",")) for row in found)


def _components(pairs: Groups, devices: int) -> Groups:
    """The sets of devices that a permutation connects."""
    group = {i: {i} for i in range(devices)}
    for source, target in pairs:
        joined = group[source] | group[target]
        for member in joined:
            group[member] = joined
    return tuple({id(one): tuple(sorted(one)) for one in group.values()}.values())


def _axes(groups: Groups, mesh: AnyMesh | None) -> tuple[str, ...]:
    """The mesh axes along which the devices of a group differ. A group that is a part of such a set
    of devices, as in a permutation, has the fewest axes that contain it."""
    if mesh is None:
        return ()
    numbers = np.arange(prod(mesh.axis_sizes)).reshape(mesh.axis_sizes)
    sets = {frozenset(row) for row in groups}
    places = [i for i, size in enumerate(mesh.axis_sizes) if size > 1]
    holding = [
        chosen
        for count in range(1, len(places) + 1)
        for chosen in itertools.combinations(places, count)
        if all(
            any(one <= row for row in set(map(frozenset, _along(numbers, chosen).tolist())))
            for one in sets
        )
    ]
    return tuple(mesh.axis_names[i] for i in holding[0]) if holding else ()


def _along(numbers: np.ndarray[Any, Any], chosen: Sequence[int]) -> np.ndarray[Any, Any]:
    """Returns the numbers along some dimensions of an array as rows."""
    last = range(numbers.ndim - len(chosen), numbers.ndim)
    return np.moveaxis(numbers, chosen, last).reshape(-1, prod(numbers.shape[i] for i in chosen))
