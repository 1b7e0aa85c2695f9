"""XLA's shardings as plain data: from weft's shardings and back."""

from weft.base.facades import public_names
from weft.lowering.xla_shardings import XlaSharding, from_xla, to_xla

__all__ = ["XlaSharding", "from_xla", "to_xla"]

__dir__ = public_names(globals())
