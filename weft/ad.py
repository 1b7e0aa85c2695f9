"""Marks for the cotangents of a `vjp` that adds to references. See `weft.vjp(…)[1].with_refs`."""

from weft.base.facades import public_names
from weft.refs.gradients import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]

__dir__ = public_names(globals())
