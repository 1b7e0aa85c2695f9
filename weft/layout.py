"""`weft.layout`: the orders in which devices hold the elements of arrays."""

from weft.base.facades import public_names
from weft.ops.structural.layout_constraint import with_layout_constraint
from weft.sharding.layout import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]

__dir__ = public_names(globals())
