"""Interval arithmetic as a transformation: bounds that hold for every input in a box."""

import os

from intervals import arrays, control, elementwise  # noqa: F401  (these register the rules)
from intervals.newton import Root, roots
from intervals.trace import Interval, NoIntervalRuleError, enclose, register_interval
from weft.extend.source import register_internal

__all__ = ["Interval", "NoIntervalRuleError", "Root", "enclose", "register_interval", "roots"]

# Errors name the line of the user's program, not of this package.
register_internal(os.path.dirname(__file__))
