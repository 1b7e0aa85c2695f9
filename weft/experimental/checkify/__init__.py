"""Checks of values in programs: the user's own (`check`), and checks of NaNs, divisors and
indices."""

from weft.base.facades import public_names
from weft.experimental.checkify.failures import Error, ErrorCategory, JaxRuntimeError, init_error
from weft.experimental.checkify.transformation import (
    all_checks,
    automatic_checks,
    check,
    check_error,
    checkify,
    debug_check,
    div_checks,
    float_checks,
    index_checks,
    nan_checks,
    user_checks,
)

# fmt: off
__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks", "check",
    "check_error", "checkify", "debug_check", "div_checks", "float_checks", "index_checks",
    "init_error", "nan_checks", "user_checks",
]
# fmt: on

__dir__ = public_names(globals())
