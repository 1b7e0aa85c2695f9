"""`weft.scipy.cluster`: groups of observations."""

from weft.base.facades import public_names
from weft.scipy.cluster import vq

__all__ = ["vq"]

__dir__ = public_names(globals())
