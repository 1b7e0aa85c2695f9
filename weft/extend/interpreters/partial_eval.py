"""Transforming jaxprs: partial evaluation, dead code, staging, retyping; and their rules."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.define.partial_evaluation import *

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
