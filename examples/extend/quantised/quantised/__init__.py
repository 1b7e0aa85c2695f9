"""Arrays of 8-bit integers with a scale, usable wherever weft takes an array."""

from quantised.array import Quantised, quantise

__all__ = ["Quantised", "quantise"]
