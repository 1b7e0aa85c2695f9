"""Arrays in files, by way of TensorStore."""

from weft.base.facades import public_names
from weft.experimental.array_serialization import serialization as serialization

__all__ = ["serialization"]

__dir__ = public_names(globals())
