"""Vectorization: vmap rules, and jaxprs made with them."""

from weft.base.facades import public_names
from weft.core.rules import AxisData
from weft.core.rules import vmap as vmap_rules
from weft.define.for_jax.batching_rules import *
from weft.define.for_jax.rule_mappings import (
    axis_primitive_batchers,
    fancy_primitive_batchers,
    primitive_batchers,
)
from weft.define.registration import register_vmap
from weft.interpreters.vmap import BatchTrace, BatchTracer, mapped_type, vmap_flat, vmap_jaxpr
from weft.ops.structural.shape import move_dim, reduce_vmap_axes

# fmt: off
__all__ = [
    "AxisData", "BatchTrace", "BatchTracer", "axis_primitive_batchers", "bdim_at_front",
    "broadcast", "defbroadcasting", "defreducer", "defvectorized", "fancy_primitive_batchers",
    "is_vmappable", "mapped_type", "move_dim", "moveaxis", "not_mapped", "primitive_batchers",
    "reduce_vmap_axes", "register_vmap", "register_vmappable", "unregister_vmappable",
    "vmap_flat", "vmap_jaxpr", "vmap_rules",
]
# fmt: on

__dir__ = public_names(globals())
