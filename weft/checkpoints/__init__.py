"""Checkpoints: trees of arrays in files, written and read by all processes of a program."""

from weft.base.facades import public_names
from weft.checkpoints.restoring import restore as restore
from weft.checkpoints.saving import save as save
from weft.checkpoints.step_directory import Checkpoints as Checkpoints

__all__ = ["Checkpoints", "restore", "save"]

__dir__ = public_names(globals())
