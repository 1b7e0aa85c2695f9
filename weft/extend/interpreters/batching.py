"""Vectorization: vmap rules."""

from weft.core.rules import AxisData
from weft.ops.shape import move_dim
from weft.transforms.registration import register_vmap
from weft.transforms.vmap import vmap_jaxpr

__all__ = ["AxisData", "move_dim", "register_vmap", "vmap_jaxpr"]
