"""Registering rules, one module per interpretation."""

from weft.extend.interpreters import ad, batching, mlir, partial_eval

__all__ = ["ad", "batching", "mlir", "partial_eval"]
