"""The names of `weft.layout`, where programs written for JAX look for them."""

from weft.base.facades import public_names
from weft.layout import Format, Layout, with_layout_constraint

__all__ = ["Format", "Layout", "with_layout_constraint"]

__dir__ = public_names(globals())
