"""`weft.scipy.cluster`: groups of observations."""

from weft.scipy.cluster import vq

__all__ = ["vq"]
