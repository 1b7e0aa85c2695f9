"""Serializes an exported function with its derivatives."""

from __future__ import annotations

from typing import Any

from weft.errors import Fix
from weft.errors.argument_errors import invalid_type
from weft.export.calling_convention import maximum_supported_calling_convention_version
from weft.export.container import Sections, pack
from weft.export.serialized_trees import tree_to_data
from weft.export.serialized_values import array_to_data, split_to_data, type_to_data
from weft.version import __version__


def serialize_exported(exported: Any, vjp_order: int) -> bytes:
    """The bytes that `Exported.serialize` returns."""
    if type(vjp_order) is not int or vjp_order < 0:
        message = "vjp_order counts derivatives"
        wanted = "0, 1, 2, ..."
        fix = Fix("vjp_order", "pass vjp_order=1", {"vjp_order": 1})
        raise invalid_type(message, "export.serialize", "vjp_order", vjp_order, wanted, fix=fix)
    sections, programs = Sections(), []
    for order in range(vjp_order + 1):
        programs.append(_program_to_data(exported, sections))
        if order < vjp_order:
            exported = exported.vjp()
    header = {"programs": programs, "writer": f"weft {__version__}"}
    return pack(header, sections.contents)


def _program_to_data(exported: Any, sections: Sections) -> dict[str, Any]:
    sizes = exported._sizes_to_data(sections)
    if sizes is not None:
        return _program_to_data(exported._for_one_size(), sections) | {"sizes": sizes}
    program, name = exported._program, exported.fun_name
    convention = exported.calling_convention_version
    other = convention != maximum_supported_calling_convention_version
    return ({"calling_convention": convention} if other else {}) | {
        "name": name,
        "arguments": list(exported._names),
        "in_tree": tree_to_data(exported.in_tree, f"the structure of the arguments of {name}"),
        "out_tree": tree_to_data(exported.out_tree, f"the structure of the result of {name}"),
        "in_types": [type_to_data(type) for type in exported.in_avals],
        "out_types": [type_to_data(type) for type in exported.out_avals],
        "constants": [array_to_data(x, sections) for x in exported._consts],
        "in_splits": [split_to_data(split) for split in exported._in_splits],
        "out_splits": [split_to_data(split) for split in exported._out_splits],
        "devices": exported.nr_devices,
        "stablehlo_version": exported.stablehlo_version,
        "platforms": [
            {"name": platform, "section": sections.add(data)}
            for platform, data in program.artifacts.items()
        ],
        "disabled_checks": [
            {"kind": check.kind, "target": check.target}
            for check in exported.disabled_safety_checks
        ],
    }
