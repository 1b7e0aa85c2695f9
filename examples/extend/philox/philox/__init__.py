"""Philox-4x32 with 10 rounds as a generator of weft: `weft.random.key(0, impl="philox4x32")`.

Importing the package makes the generator known.
"""

from philox.cipher import philox_4x32
from philox.generator import PHILOX

__all__ = ["PHILOX", "philox_4x32"]
