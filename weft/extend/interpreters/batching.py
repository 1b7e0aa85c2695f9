"""Vectorization: vmap rules, and jaxprs made with them."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.core.rules import AxisData
from weft.core.rules import vmap as vmap_rules
from weft.define.batching_rules import *
from weft.define.registration import register_vmap
from weft.define.rule_mappings import (
    axis_primitive_batchers,
    fancy_primitive_batchers,
    primitive_batchers,
)
from weft.interpreters.vmap import BatchTrace, BatchTracer, mapped_type, vmap_flat, vmap_jaxpr
from weft.ops.structural.shape import move_dim, reduce_vmap_axes

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
