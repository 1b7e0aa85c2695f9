"""Fixes of the elementwise operations, and of flags."""

from __future__ import annotations

import numpy as np
import scipy.special

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend.core import primitives

X = jnp.arange(4.0)
WHOLE = jnp.arange(4)
SMALL = jnp.arange(4, dtype="uint8")
COMPLEX = jnp.array([3 + 4j, 1 - 2j])
MASK = jnp.array([True, False, True, False])
KEY = weft.random.key(0)

DTYPES = [
    Fixed(
        "use weft.numpy, which promotes",
        wrong=lambda: lax.add(WHOLE, 1.5),
        fixed=lambda fix: jnp.add(WHOLE, 1.5),
        value=np.arange(4) + 1.5,
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy, which promotes",
        wrong=lambda: lax.mul(X, 2j),
        fixed=lambda fix: jnp.multiply(X, 2j),
        value=np.arange(4) * 2j,
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('int32')",
        wrong=lambda: lax.add(SMALL, 300),
        fixed=lambda fix: lax.add(SMALL.astype("int32"), 300),
        value=np.arange(300, 304),
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('float32')",
        wrong=lambda: lax.add(WHOLE, 3_000_000_000),
        fixed=lambda fix: lax.add(WHOLE.astype("float32"), 3_000_000_000),
        value=np.arange(4) + 3e9,
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy, which promotes",
        wrong=lambda: lax.add(X, WHOLE),
        fixed=lambda fix: jnp.add(X, WHOLE),
        value=2 * np.arange(4),
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy, which broadcasts",
        wrong=lambda: lax.sub(jnp.ones((2, 4)), X),
        fixed=lambda fix: jnp.subtract(jnp.ones((2, 4)), X),
        value=np.ones((2, 4)) - np.arange(4),
        error=ShapeError,
    ),
    Fixed(
        "convert it first: x.astype('float32')",
        wrong=lambda: lax.sin(WHOLE),
        fixed=lambda fix: lax.sin(WHOLE.astype(fix.data["dtype"])),
        value=np.sin(np.arange(4)),
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('int32')",
        wrong=lambda: lax.bitwise_and(X, X),
        fixed=lambda fix: lax.bitwise_and(X.astype("int32"), WHOLE),
        value=np.arange(4),
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('complex64')",
        wrong=lambda: lax.real(X),
        fixed=lambda fix: lax.real(X.astype("complex64")),
        value=np.arange(4),
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('int32')",
        wrong=lambda: lax.neg(MASK),
        fixed=lambda fix: lax.neg(MASK.astype("int32")),
        value=np.array([-1, 0, -1, 0]),
        error=DTypeError,
    ),
    Fixed(
        "x.real, x.imag or abs(x)",
        wrong=lambda: lax.floor(COMPLEX),
        fixed=lambda fix: [lax.floor(part) for part in (COMPLEX.real, COMPLEX.imag, abs(COMPLEX))],
        value=[np.array([3, 1]), np.array([4, -2]), np.array([5, 2])],
        error=DTypeError,
    ),
    Fixed(
        "weft.random.key_data(key)",
        wrong=lambda: lax.neg(KEY),
        fixed=lambda fix: lax.bitwise_not(weft.random.key_data(KEY)),
        value=np.uint32([0xFFFFFFFF, 0xFFFFFFFF]),
        error=DTypeError,
    ),
    Fixed(
        "weft.random.key_data gives the bits",
        wrong=lambda: lax.convert_element_type(weft.random.key(7), "uint32"),
        fixed=lambda fix: weft.random.key_data(weft.random.key(7)),
        value=np.uint32([0, 7]),
        error=DTypeError,
    ),
]

ARGUMENTS = [
    Fixed(
        "leave out accuracy",
        wrong=lambda: primitives.sin_p.bind(X, accuracy=1),
        fixed=lambda fix: primitives.sin_p.bind(X),
        value=np.sin(np.arange(4)),
        error=WeftTypeError,
    ),
    Fixed(
        "use weft.lax.pow for other powers",
        wrong=lambda: lax.integer_pow(X, 2.5),
        fixed=lambda fix: weft.lax.pow(X, 2.5),
        value=np.arange(4) ** 2.5,
        error=WeftTypeError,
    ),
    Fixed(
        "x.astype('float32')",
        wrong=lambda: lax.integer_pow(WHOLE + 1, -2),
        fixed=lambda fix: lax.integer_pow((WHOLE + 1).astype("float32"), -2),
        value=np.arange(1.0, 5.0) ** -2,
        error=DTypeError,
    ),
    Fixed(
        "use weft.lax.RoundingMethod.TO_NEAREST_EVEN or AWAY_FROM_ZERO",
        wrong=lambda: lax.round(X / 2, "even"),
        fixed=lambda fix: [
            lax.round(X / 2, weft.lax.RoundingMethod.TO_NEAREST_EVEN),
            lax.round(X / 2, weft.lax.RoundingMethod.AWAY_FROM_ZERO),
        ],
        value=[np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])],
        error=WeftValueError,
    ),
]

SELECTION = [
    Fixed(
        "compare the predicate with zero: pred != 0",
        wrong=lambda: lax.select(WHOLE, X, -X),
        fixed=lambda fix: lax.select(WHOLE != 0, X + 1, -X),
        value=np.array([0, 2, 3, 4]),
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy.where, which promotes",
        wrong=lambda: lax.select(MASK, X, WHOLE),
        fixed=lambda fix: weft.numpy.where(MASK, -X, WHOLE),
        value=np.array([0, 1, -2, 3]),
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy.where, which broadcasts",
        wrong=lambda: lax.select(MASK, X, jnp.float32(7)),
        fixed=lambda fix: weft.numpy.where(MASK, X, jnp.float32(7)),
        value=np.array([0, 7, 2, 7]),
        error=ShapeError,
    ),
    Fixed(
        "convert it first: which.astype('int32')",
        wrong=lambda: lax.select_n(SMALL, X, X + 10, X + 20, X + 30),
        fixed=lambda fix: lax.select_n(SMALL.astype("int32"), X, X + 10, X + 20, X + 30),
        value=np.array([0, 11, 22, 33]),
        error=DTypeError,
    ),
]

DERIVATIVES = [
    Fixed(
        "if a is to count as constant, pass lax.stop_gradient(a)",
        wrong=lambda: weft.grad(lambda a: lax.betainc(a, 2.0, a / 4))(2.0),
        fixed=lambda fix: weft.grad(lambda a: lax.betainc(lax.stop_gradient(a), 2.0, a / 4))(2.0),
        # The density of the beta distribution, over 4.
        value=0.5 * 0.5 / scipy.special.beta(2, 2) / 4,
        error=WeftNotImplementedError,
    )
]


FIXES = [*DTYPES, *ARGUMENTS, *SELECTION, *DERIVATIVES]
