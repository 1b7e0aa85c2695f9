"""Fixes of arguments that another value is passed for, or that are not taken."""

from __future__ import annotations

import contextlib
import io

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, debug, image
from weft.errors import WeftNotImplementedError, WeftTypeError, WeftValueError

MATRIX = np.array([[2.0, 0.0], [0.0, 4.0]], np.float32)
UNSORTED = np.array([3, 1, 2])


def halves():
    return weft.NamedSharding(weft.make_mesh((2,), ("i",)), P("i"))


def shown(**options):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        debug.print("{}", 7, **options)
        weft.effects_barrier()
    return printed.getvalue()


FIXES = [
    Fixed(
        "constrain the result: weft.lax.with_sharding_constraint(x, sharding)",
        wrong=lambda: jnp.dot(MATRIX, MATRIX, out_sharding=halves()),
        fixed=lambda fix: weft.lax.with_sharding_constraint(jnp.dot(MATRIX, MATRIX), halves()),
        value=lambda x: x.sharding == halves() and np.array_equal(x, MATRIX**2),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave it out",
        wrong=lambda: jnp.sort(UNSORTED, order="name"),
        fixed=lambda fix: jnp.sort(UNSORTED),
        value=np.array([1, 2, 3]),
        error=WeftNotImplementedError,
    ),
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
    Fixed(
        "pass UPLO='L'",
        wrong=lambda: jnp.linalg.eigvalsh(MATRIX, UPLO="lower"),
        fixed=lambda fix: jnp.linalg.eigvalsh(MATRIX, **fix.data),
        value=np.array([2, 4]),
        error=WeftValueError,
    ),
    Fixed(
        "pass method='linear'",
        wrong=lambda: image.resize(MATRIX, (2, 4), "triangles"),
        fixed=lambda fix: image.resize(MATRIX, (2, 4), **fix.data),
        # Between the middles of two pixels the weights are 3/4 and 1/4.
        value=np.array([[2, 1.5, 0.5, 0], [0, 1, 3, 4]]),
        error=WeftValueError,
    ),
    Fixed(
        "pass ord='fro'",
        wrong=lambda: jnp.linalg.norm(MATRIX, ord="frobenius"),
        fixed=lambda fix: jnp.linalg.norm(MATRIX, **fix.data),
        value=np.sqrt(20),
        error=WeftValueError,
    ),
]
