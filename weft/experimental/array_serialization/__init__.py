"""Arrays in files, by way of TensorStore."""

from weft.experimental.array_serialization import serialization as serialization

__all__ = ["serialization"]
