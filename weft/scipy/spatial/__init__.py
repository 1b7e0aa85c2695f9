"""`weft.scipy.spatial`: geometry."""

from weft.scipy.spatial import transform

__all__ = ["transform"]
