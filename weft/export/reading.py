"""Deserializes an exported function with its derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from weft.core.types import ArrayType
from weft.errors import Fix, api_boundary
from weft.export.call_exported import PortableProgram
from weft.export.calling_convention import maximum_supported_calling_convention_version
from weft.export.container import Fields, invalid_bytes_error, unpack
from weft.export.exported import Exported
from weft.export.portability import DisabledSafetyCheck, check_disabled
from weft.export.serialized_sizes import sizes_from_data
from weft.export.serialized_trees import tree_from_data
from weft.export.serialized_values import array_from_data, split_from_data, type_from_data
from weft.export.symbolic_export import SymbolicExported
from weft.runtime.stablehlo import portable_artifact


@api_boundary("export.deserialize")
def deserialize(blob: Any, *, disabled_checks: Sequence[DisabledSafetyCheck] = ()) -> Exported:
    """Reads an exported function from the bytes that `serialize` returned, in any process.

    Custom calls that were allowed at the export have to be allowed here too, by `disabled_checks`.
    Calling the result runs the code in the bytes: read only bytes from a source whose programs you
    would run. Reading them runs nothing, but StableHLO that was crafted can end the process.

    blob: the bytes, as bytes or a bytearray; disabled_checks: the checks that reading leaves out,
    such as custom calls that were allowed at the export.

    Raises WeftTypeError for anything that is not bytes, and WeftValueError for bytes that are
    damaged or no exported function, for a later format or StableHLO, and for containers, dtypes and
    random generators that are not known here.
    """
    checks = check_disabled(disabled_checks, "export.deserialize")
    header, sections = unpack(blob)
    header.text("writer")
    programs = header.objects("programs")
    header.end()
    if not programs:
        raise invalid_bytes_error(
            "they hold no program", "0 programs", "1, and one for each derivative"
        )
    out: Exported | None = None
    try:
        # The derivatives follow the function: each is the derivative of the one before.
        for fields in reversed(programs):
            out = _program_from_data(fields, sections, checks, out)
    except RecursionError:
        raise invalid_bytes_error(
            "they are nested too deeply", "nested trees", "shallower ones"
        ) from None
    assert out is not None
    return out


def _program_from_data(
    fields: Fields,
    sections: Sequence[bytes],
    checks: tuple[DisabledSafetyCheck, ...],
    derivative: Exported | None,
) -> Exported:
    name = fields.text("name")
    version = fields.text("stablehlo_version")
    _check_version(version)
    in_tree = tree_from_data(fields.take("in_tree"), f"in_tree of {name}")
    out_tree = tree_from_data(fields.take("out_tree"), f"out_tree of {name}")
    in_types = tuple(map(type_from_data, fields.objects("in_types")))
    out_types = tuple(map(type_from_data, fields.objects("out_types")))
    consts = tuple(array_from_data(x, sections) for x in fields.objects("constants"))
    devices = fields.integer("devices")
    operands = (*(x.type for x in consts), *in_types)
    ins = _splits(fields, "in_splits", operands, devices)
    outs = _splits(fields, "out_splits", out_types, devices)
    names = tuple(fields.texts("arguments"))
    artifacts = _artifacts(fields, sections)
    convention = maximum_supported_calling_convention_version
    if fields.has("calling_convention"):
        convention = fields.integer("calling_convention")
    written = _checks(fields)
    sizes = Fields(fields.take("sizes"), f"sizes of {name}") if fields.has("sizes") else None
    fields.end()
    counts = (in_tree.num_leaves, len(names), out_tree.num_leaves)
    if counts != (len(in_types), len(in_types), len(out_types)) or devices < 1:
        raise invalid_bytes_error(
            f"the parts of {name} do not belong together",
            f"trees with {counts[0]} and {counts[2]} leaves, {counts[1]} names",
            f"{len(in_types)} arguments and {len(out_types)} results",
        )
    anywhere = any(check.kind == "platform" for check in (*written, *checks))
    exported = Exported(
        fun_name=name,
        in_tree=in_tree,
        out_tree=out_tree,
        in_avals=in_types,
        out_avals=out_types,
        nr_devices=devices,
        stablehlo_version=version,
        calling_convention_version=convention,
        disabled_safety_checks=checks,
        _program=PortableProgram(name, artifacts, operands, out_types, devices, anywhere),
        _consts=consts,
        _in_splits=ins,
        _out_splits=outs,
        _names=names,
        _make_vjp=None if derivative is None else lambda: derivative,
    )
    exported.check_custom_calls()
    if sizes is not None:
        return _with_sizes(
            exported, sizes_from_data(sizes, sections, in_types, out_types), derivative
        )
    _check_derivative(exported, derivative)
    return exported


def _with_sizes(
    sample: Exported, more: dict[str, Any], derivative: Exported | None
) -> SymbolicExported:
    """The symbolic export, from the function for one choice of sizes."""
    fields = {field.name: getattr(sample, field.name) for field in dataclasses.fields(Exported)}
    made: Any = None if derivative is None else lambda _: derivative
    return SymbolicExported(**fields | more | {"_made": {}}, _derivative=made, _sample=sample)


def _check_version(version: str) -> None:
    here = portable_artifact.current_version()
    try:
        newer = portable_artifact.version_key(version) > portable_artifact.version_key(here)
    except ValueError:
        raise invalid_bytes_error(
            "the version of StableHLO is ill-formed", version, "1.2.3"
        ) from None
    if newer:
        raise invalid_bytes_error(
            "they are written for a later StableHLO than the one that is here",
            f"StableHLO {version}",
            f"StableHLO {here} or older",
            Fix(
                "upgrade", "upgrade jaxlib here, or export with an older one", {"version": version}
            ),
        )


def _splits(fields: Fields, key: str, types: Sequence[ArrayType], devices: int) -> tuple[Any, ...]:
    values = fields.array(key)
    if len(values) != len(types):
        raise invalid_bytes_error(
            f"{key} is ill-formed", f"{len(values)} entries", f"{len(types)} entries"
        )
    return tuple(
        split_from_data(value, f"{key}[{i}]", type, devices)
        for i, (value, type) in enumerate(zip(values, types, strict=True))
    )


def _artifacts(fields: Fields, sections: Sequence[bytes]) -> dict[str, bytes]:
    out = {}
    for entry in fields.objects("platforms"):
        out[entry.text("name")] = sections[entry.integer("section", len(sections))]
        entry.end()
    if not out:
        raise invalid_bytes_error(f"{fields.what} names no platform", "no platforms", "one or more")
    return out


def _checks(fields: Fields) -> list[DisabledSafetyCheck]:
    out = []
    for entry in fields.objects("disabled_checks"):
        check = DisabledSafetyCheck(entry.text("kind"), entry.text("target"))
        entry.end()
        if check.kind not in ("custom_call", "platform"):
            raise invalid_bytes_error(
                f"{entry.what} is unknown", check.kind, "'custom_call' or 'platform'"
            )
        out.append(check)
    return out


def _check_derivative(exported: Exported, derivative: Exported | None) -> None:
    """Raises WeftValueError for a derivative whose types do not fit the function."""
    if derivative is None:
        return
    tangents = [type.tangent() for type in (*exported.in_avals, *exported.out_avals)]
    n = len(exported.in_avals)
    ins = [*exported.in_avals, *(t for t in tangents[n:] if t.dtype.itemsize)]
    outs = [t for t in tangents[:n] if t.dtype.itemsize]
    wanted, got = (ins, outs), (derivative.in_avals, derivative.out_avals)
    shown = [[[(t.shape, t.dtype) for t in types] for types in pair] for pair in (wanted, got)]
    if shown[0] != shown[1]:
        raise invalid_bytes_error(
            f"the derivative of {exported.fun_name} is none",
            f"{list(map(str, got[0]))} -> {list(map(str, got[1]))}",
            f"{list(map(str, ins))} -> {list(map(str, outs))}",
        )
