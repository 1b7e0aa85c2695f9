"""`weft.scipy.spatial`: geometry."""

from weft.base.facades import public_names
from weft.scipy.spatial import transform

__all__ = ["transform"]

__dir__ = public_names(globals())
