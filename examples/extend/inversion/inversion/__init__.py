"""Inverses of functions, and densities of their results, by running programs backward."""

import os

from inversion.elimination import NotInvertibleError, Unknown
from inversion.rules import register_inverse
from inversion.transform import inverse, inverse_and_log_det, log_density
from weft.extend.source import register_internal

__all__ = [
    "NotInvertibleError",
    "Unknown",
    "inverse",
    "inverse_and_log_det",
    "log_density",
    "register_inverse",
]

# Errors name the line of the user's program, not of this package.
register_internal(os.path.dirname(__file__))
