"""Rematerialization under the names that JAX's programs import."""

from weft.control import checkpoint_policies
from weft.control.checkpoint_policies import checkpoint_name
from weft.control.remat import checkpoint
from weft.control.remat import checkpoint as remat

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
