"""Registering rules, one module per interpretation."""

from weft.base.facades import public_names
from weft.extend.interpreters import ad, batching, builders, layouts, mlir, partial_eval

__all__ = ["ad", "batching", "builders", "layouts", "mlir", "partial_eval"]

__dir__ = public_names(globals())
