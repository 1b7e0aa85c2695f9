"""`weft.scipy.spatial.transform`: rotations in three dimensions, and interpolation between them."""

from weft.base.facades import public_names
from weft.scipy.spatial.rotation import Rotation, Slerp

__all__ = ["Rotation", "Slerp"]

__dir__ = public_names(globals())
