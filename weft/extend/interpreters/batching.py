"""Vectorization: vmap rules, and jaxprs made with them."""

from weft.core.rules import AxisData
from weft.core.rules import vmap as vmap_rules
from weft.define.registration import register_vmap
from weft.interpreters.vmap import mapped_type, vmap_flat, vmap_jaxpr
from weft.ops.structural.shape import move_dim, reduce_vmap_axes

# fmt: off
__all__ = [
    "AxisData", "mapped_type", "move_dim", "reduce_vmap_axes", "register_vmap", "vmap_flat",
    "vmap_jaxpr", "vmap_rules",
]
# fmt: on
