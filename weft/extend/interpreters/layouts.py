"""Layouts: the order in which memory is read, the layouts of results, and the rules for both."""

from weft.base.facades import public_names
from weft.core.access_pattern import *
from weft.core.rules import keep_layouts as keep_layouts_rules
from weft.core.rules import layout as layout_rules
from weft.core.rules import moves as moves_rules
from weft.core.rules import reads as reads_rules
from weft.define.registration import (
    register_keep_layouts,
    register_layout,
    register_moves,
    register_reads,
)
from weft.lowering.result_layouts import (
    keep_in_program,
    keep_layouts,
    operand_layouts,
    whole_sources,
)
from weft.ops.structural.layout_constraint import (
    constrain_layout,
    constraint_equation,
    row_major_entry,
)
from weft.sharding.layout import unless_row_major

# fmt: off
__all__ = [
    "Inner", "Read", "Reads", "Step", "constrain_layout", "constraint_equation",
    "elementwise_reads", "full_read", "keep_in_program", "keep_layouts", "keep_layouts_rules",
    "layout_rules", "moves_of_program", "moves_rules", "operand_layouts", "reads_of_program",
    "reads_rules", "register_keep_layouts", "register_layout", "register_moves",
    "register_reads", "regrouped", "row_major_entry", "same_dims", "same_moves",
    "unless_row_major", "whole_reads", "whole_sources",
]
# fmt: on

__dir__ = public_names(globals())
