"""Fixes of checks in programs."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import WeftTypeError, WeftValueError
from weft.experimental import checkify

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def positive(x):
    checkify.check(x.min() > 0, "{} is negative", x)
    return x**2


def error_of(pred, *values):
    def function(x):
        checkify.check(pred(x), "no", *values)
        return x

    return checkify.checkify(function)(THREE)[1]


FIXES = [
    Fixed(
        "turn the checks into a result first",
        wrong=lambda: weft.jit(positive)(THREE),
        fixed=lambda fix: weft.jit(checkify.checkify(positive))(THREE)[1],
        value=THREE**2,
        error=WeftValueError,
    ),
    Fixed(
        "pass errors=checkify.all_checks",
        wrong=lambda: checkify.checkify(positive, errors={ValueError}),
        fixed=lambda fix: checkify.checkify(positive, errors=checkify.all_checks)(THREE)[1],
        value=THREE**2,
        error=WeftTypeError,
    ),
    Fixed(
        "reduce it with .all()",
        wrong=lambda: error_of(lambda x: jnp.asarray(x) > 0),
        fixed=lambda fix: error_of(lambda x: (jnp.asarray(x) > 0).all()),
        value=THREE,
        error=WeftTypeError,
    ),
    Fixed(
        "compare numbers (x != 0)",
        wrong=lambda: error_of(lambda x: x[0]),
        fixed=lambda fix: error_of(lambda x: x[0] != 0),
        value=THREE,
        error=WeftTypeError,
    ),
    Fixed(
        "put values that are no arrays into the message",
        wrong=lambda: error_of(lambda x: True, "three"),
        fixed=lambda fix: error_of(lambda x: True),
        value=THREE,
        error=WeftTypeError,
    ),
    Fixed(
        "pass the first result of a checked function",
        wrong=lambda: checkify.check_error(checkify.checkify(positive)(THREE)),
        fixed=lambda fix: checkify.check_error(checkify.checkify(positive)(THREE)[0]),
        value=lambda out: out is None,
        error=WeftTypeError,
    ),
]
