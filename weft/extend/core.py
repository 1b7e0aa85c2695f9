"""Primitives, types, jaxprs and traces, for packages that extend weft."""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on
from weft.core.axes import *
from weft.define.foreign_traces import *

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = handed_on(globals())
