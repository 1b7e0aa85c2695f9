"""Marks for the cotangents of a `vjp` that adds to references. See `weft.vjp(…)[1].with_refs`."""

from weft.refs.gradients import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
