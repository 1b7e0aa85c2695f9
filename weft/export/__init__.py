"""`weft.export`: jitted functions as bytes that another process runs."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.export.calling_convention import (
    default_export_platform,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from weft.export.container import FORMAT_VERSION
from weft.export.exported import Exported
from weft.export.portability import DisabledSafetyCheck
from weft.export.producing import export
from weft.export.reading import deserialize
from weft.export.serialized_trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)
from weft.export.symbolic_dimensions import SymbolicScope, is_symbolic_dim
from weft.export.symbolic_shapes import symbolic_args_specs, symbolic_shape

# fmt: off
__all__ = [
    "DisabledSafetyCheck", "Exported", "FORMAT_VERSION", "SymbolicScope",
    "default_export_platform", "deserialize", "export", "is_symbolic_dim",
    "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version", "register_namedtuple_serialization",
    "register_pytree_node_serialization", "symbolic_args_specs", "symbolic_shape",
]
# fmt: on

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
