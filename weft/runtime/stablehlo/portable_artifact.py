"""StableHLO's portable artifacts: modules that other releases of jaxlib read.

A portable artifact is written for a version of StableHLO, and every reader of that version or a
later one takes it (https://openxla.org/stablehlo/compatibility). Operations of CHLO, which have no
such guarantee, are written as composites that hold their own decomposition; those of Shardy, which
only modules for several devices have, as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib import _jax
from jaxlib.mlir import ir, passmanager

from weft.errors import Fix, WeftError, WeftValueError
from weft.runtime.stablehlo import mlir, structural
from weft.runtime.stablehlo.collectives import partition_id
from weft.runtime.stablehlo.mlir import sdy, stablehlo

Axes = tuple[tuple[str, int], ...]


def current_version() -> str:
    """The version of StableHLO that this release of jaxlib writes and reads."""
    return str(stablehlo.get_current_version())


def version_key(version: str) -> tuple[int, ...]:
    """A version as numbers that can be compared. Raises ValueError for another text."""
    major, minor, patch = version.split(".")
    return int(major), int(minor), int(patch)


def target_versions() -> tuple[str, ...]:
    """The versions to write for, best first. The version of three months ago is also read by the
    releases of jaxlib since then. A module with newer operations is written for the current
    version."""
    requirement = stablehlo.StablehloCompatibilityRequirement.WEEK_12
    old = str(stablehlo.get_version_from_compatibility_requirement(requirement))
    return tuple(dict.fromkeys((old, current_version())))


def portable_artifact(module: ir.Module) -> tuple[bytes, str]:
    """A module as a portable artifact, and its version of StableHLO. Source locations, which name
    local files, are left out. Does not change the module. Raises WeftError if an operation cannot
    be written."""
    # In a context of its own, so that a failing pass and its diagnostics touch no other module.
    copy = mlir.private_copy(module)
    with copy.context:
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(copy.operation)
    code = mlir.bytecode(copy)
    mixed = any(op.name.startswith("sdy.") for op in _operations(copy.operation))
    failure = None
    for version in target_versions():
        try:
            return bytes(_jax.mlir.serialize_portable_artifact(code, version, mixed)), version
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            failure = error
    message, got = "StableHLO cannot write this program as a portable artifact", str(failure)
    raise WeftError(message, operation="export", got=got, wanted="operations of StableHLO and CHLO")


def from_portable_artifact(data: bytes) -> ir.Module:
    """The module of a portable artifact. Raises WeftValueError for other bytes."""
    try:
        module: ir.Module = stablehlo.deserialize_portable_artifact(mlir.context(), data)
        if module is None or not module.operation.verify():
            raise ValueError("the module is invalid")
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        message = "a section is no StableHLO program that this release of jaxlib reads"
        got = str(error)[:300]
        wanted = f"a portable artifact of StableHLO {current_version()} or older"
        fix = Fix("export_again", "export the program again", {})
        raise WeftValueError(message, operation="export", got=got, wanted=wanted, fix=fix) from None
    return module


def parse_text(text: str) -> ir.Module:
    """Parses the text of a module. Raises WeftValueError for another text."""
    try:
        return ir.Module.parse(text, mlir.context())
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        message = "a program with sizes filled in is no StableHLO that this release of jaxlib reads"
        raise WeftValueError(message, operation="export", got=str(error)[:300]) from None


def _operations(operation: Any) -> Iterator[Any]:
    """All operations inside of one, depth first."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _operations(inner.operation)


def custom_calls(module: ir.Module) -> list[tuple[str, str]]:
    """The targets of the module's custom calls, each with its location."""
    return [
        (op.attributes["call_target_name"].value, str(op.location))
        for op in _operations(module.operation)
        if op.name == "stablehlo.custom_call"
    ]


def of_lapack(target: str) -> bool:
    """Whether a custom call is one of LAPACK or of another solver that jaxlib binds."""
    return target.endswith("_ffi") and target.startswith(("lapack_", "tridiagonal_solve_"))


def entry_types(module: ir.Module) -> tuple[list[Any], list[Any]] | None:
    """The MLIR types of the arguments and results of the entry point; None if there is none."""
    for op in module.body.operations:
        if _symbol(op) == "main" and op.operation.name == "func.func":
            kind = op.attributes["function_type"].value
            return list(kind.inputs), list(kind.results)
    return None


def _symbol(op: Any) -> str:
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else ""


def splice(
    module: mlir.Module,
    source: ir.Module,
    name: str,
    *,
    mesh: Callable[[Axes, Sequence[int]], str],
    channel: Callable[[], int],
    partitions: Sequence[int] = (),
) -> str:
    """Moves the functions of a module into another one as private functions under names that are
    free there, and returns the name of its former entry point. `source` is used up.

    `partitions` says, for each partition of the source, which one of the module runs it; it is
    empty if that is the same. `mesh` returns the symbol of a mesh in the module, given its axes
    and the partitions in its order, and `channel` a number that no collective has.
    """
    operations = list(source.body.operations)
    functions = [op for op in operations if op.operation.name == "func.func"]
    new: dict[str, str] = {}
    for op in functions:
        old = _symbol(op)
        new[old] = module.symbol(name if old == "main" else f"{name}_{old}")
    entry = new["main"]
    for op in operations:
        if op.operation.name == "sdy.mesh":
            axes, numbers = _mesh(op)
            new[_symbol(op)] = mesh(
                axes, [partitions[i] for i in numbers] if partitions else numbers
            )
    _rename(source, operations, new)
    moved: dict[int, int] = {}
    for op in list(_operations(source.operation)):
        if "channel_handle" in op.attributes:
            _renumber_channel(op, moved, channel)
        if partitions:
            _renumber_partitions(op, partitions)
    for op in functions:
        _make_private(op)
        op.operation.clone(ip=module.insertion_point())
    return entry


def _mesh(op: Any) -> tuple[Axes, list[int]]:
    """The axes of a mesh, and the partitions in its order."""
    found = sdy.MeshAttr(op.attributes["mesh"])
    axes = tuple((str(axis.name), int(axis.size)) for axis in map(sdy.MeshAxisAttr, found.axes))
    size = int(np.prod([size for _, size in axes], dtype=np.int64))
    return axes, [int(i) for i in found.device_ids] or list(range(size))


def _rename(source: ir.Module, operations: Sequence[Any], new: dict[str, str]) -> None:
    """Renames symbols in two steps, since a new name may be another symbol's old one."""
    named = [op for op in operations if _symbol(op) in new]
    names = [new[_symbol(op)] for op in named]
    for step in ([f"{i}.moving" for i in range(len(named))], names):
        for op, name in zip(named, step, strict=True):
            ir.SymbolTable.replace_all_symbol_uses(_symbol(op), name, source.operation)
            op.attributes["sym_name"] = ir.StringAttr.get(name, mlir.context())


def _make_private(op: Any) -> None:
    """Makes a function private, and drops the attributes that only an entry point has."""
    op.attributes["sym_visibility"] = ir.StringAttr.get("private", mlir.context())
    for key in ("arg_attrs", "res_attrs"):
        if key in op.attributes:
            del op.attributes[key]


def _renumber_channel(op: Any, moved: dict[int, int], channel: Callable[[], int]) -> None:
    """Gives a collective a new channel; operations that shared a channel still share one."""
    handle = stablehlo.ChannelHandle(op.attributes["channel_handle"])
    old = int(handle.handle)
    if old not in moved:
        moved[old] = channel()
    op.attributes["channel_handle"] = stablehlo.ChannelHandle.get(
        moved[old], int(handle.channel_type), mlir.context()
    )


def _renumber_partitions(op: Any, partitions: Sequence[int]) -> None:
    """Renumbers the partitions in an operation's groups, pairs or sharding."""
    table = np.asarray(partitions, np.int64)
    for key in ("replica_groups", "source_target_pairs"):
        if key in op.attributes:
            found = op.attributes[key]
            rows = np.asarray(ir.DenseIntElementsAttr(found), np.int64).reshape(found.type.shape)
            op.attributes[key] = ir.DenseElementsAttr.get(
                np.where(rows < 0, rows, table[rows]), context=mlir.context()
            )
    if op.name == "stablehlo.partition_id":
        _translate_partition(op, np.argsort(table))


def _translate_partition(op: Any, numbers: np.ndarray[Any, Any]) -> None:
    """Translates the result of `partition_id` to the number in the source module."""
    users = [(use.owner, use.operand_number) for use in op.results[0].uses]
    with mlir.unknown_location(), ir.InsertionPoint(op):
        asked = partition_id()
        values = structural.constant(numbers.astype(np.uint32), (len(numbers),), np.uint32)
        known = structural.reshape(structural.dynamic_slice(values, [asked], (1,)), ())
    for user, position in users:
        user.operands[position] = known
