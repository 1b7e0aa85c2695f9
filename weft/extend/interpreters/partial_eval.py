"""Partial evaluation and dead-code elimination of programs, and their rules."""

from weft.transforms.dce import dce_jaxpr
from weft.transforms.partial import SplitEquation, partial_eval_jaxpr
from weft.transforms.registration import register_dce
from weft.transforms.registration import register_partial_eval as register

__all__ = ["SplitEquation", "dce_jaxpr", "partial_eval_jaxpr", "register", "register_dce"]
