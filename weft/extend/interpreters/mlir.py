"""Lowering: rules that emit StableHLO, and the builders of its operations.

`builders` has functions from MLIR values to MLIR values, with which weft's own rules are written;
`hlo` is jaxlib's module of operation classes and builders; `ir` are the MLIR bindings.
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.define.lowering_functions import *

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
