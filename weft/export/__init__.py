"""`weft.export`: jitted functions as bytes that another process runs."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.export.container import FORMAT_VERSION
from weft.export.exported import Exported
from weft.export.portability import DisabledSafetyCheck
from weft.export.producing import export
from weft.export.reading import deserialize
from weft.export.serialized_trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

# fmt: off
__all__ = [
    "DisabledSafetyCheck", "Exported", "FORMAT_VERSION", "deserialize", "export",
    "register_namedtuple_serialization", "register_pytree_node_serialization",
]
# fmt: on

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals())
