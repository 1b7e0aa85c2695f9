"""Differentiation: jvp, linearize and transpose rules, and jaxprs made with them."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.define.derivative_rules import *

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
