"""Rematerialization under the names that programs written for JAX import."""

from weft.api.saved_residuals import print_saved_residuals, saved_residuals
from weft.base.facades import public_names
from weft.control_flow import checkpoint_policies
from weft.control_flow.checkpoint import checkpoint
from weft.control_flow.checkpoint import checkpoint as remat
from weft.control_flow.checkpoint_policies import Offloadable, Recompute, Saveable, checkpoint_name

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies",
    "print_saved_residuals", "remat", "saved_residuals",
]  # fmt: skip

__dir__ = public_names(globals())
