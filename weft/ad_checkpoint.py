"""Rematerialization under the names that programs written for JAX import."""

from weft.control_flow import checkpoint_policies
from weft.control_flow.checkpoint import checkpoint
from weft.control_flow.checkpoint import checkpoint as remat
from weft.control_flow.checkpoint_policies import checkpoint_name

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
