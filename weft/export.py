"""`weft.export`: jitted functions as bytes that another process runs."""

from weft.exporting.checks import DisabledSafetyCheck
from weft.exporting.container import FORMAT_VERSION
from weft.exporting.exported import Exported
from weft.exporting.producing import export
from weft.exporting.reading import deserialize
from weft.exporting.trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

__all__ = [
    "FORMAT_VERSION",
    "DisabledSafetyCheck",
    "Exported",
    "deserialize",
    "export",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
]
