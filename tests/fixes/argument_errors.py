"""Fixes of arguments that another value is passed for, or that are not taken."""

from __future__ import annotations

import contextlib
import io

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import debug
from weft.errors import WeftNotImplementedError, WeftTypeError, WeftValueError


def shown(**options):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        debug.print("{}", 7, **options)
        weft.effects_barrier()
    return printed.getvalue()


FIXES = [
    Fixed(
        "leave it out",
        wrong=lambda: shown(partitioned=True),
        fixed=lambda fix: shown(),
        value=lambda text: text == "7\n",
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass argnums=0",
        wrong=lambda: weft.jacrev(jnp.square, "x")(3.0),
        fixed=lambda fix: weft.jacrev(jnp.square, **fix.data)(3.0),
        value=6.0,
        error=WeftTypeError,
    ),
    Fixed(
        "pass unroll=1",
        wrong=lambda: weft.lax.fori_loop(0, 3, lambda i, x: 2 * x, 1, unroll="all"),
        fixed=lambda fix: weft.lax.fori_loop(0, 3, lambda i, x: 2 * x, 1, **fix.data),
        value=8,
        error=WeftTypeError,
    ),
    Fixed(
        "pass unroll=1",
        wrong=lambda: weft.lax.scan(lambda x, _: (2 * x, None), 1, length=3, unroll=-2),
        fixed=lambda fix: weft.lax.scan(lambda x, _: (2 * x, None), 1, length=3, **fix.data)[0],
        value=8,
        error=WeftValueError,
    ),
]
