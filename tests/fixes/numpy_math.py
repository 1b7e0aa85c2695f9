"""Fixes of `weft.numpy`: transforms, reductions, statistics, ufuncs and mapped functions."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import ops
from weft.errors import (
    ConcretizationError,
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.numpy import fft

X = jnp.arange(4.0)
N = jnp.arange(4)
IDS = jnp.array([0, 1, 0, 1])
ROWS = jnp.arange(6.0).reshape(2, 3)
Z = jnp.array([1 + 2j, 3 - 4j])
TRUE = jnp.array([True, True])
ZERO_FRONT = jnp.array([0.0, 1, -3, 2])


def mapped(signature="(n),(n)->(n)", excluded=(), function=lambda x, y, k=0: x + y + k):
    return jnp.vectorize(function, signature=signature, excluded=excluded)


def twice(x):
    return x, 2 * x


TRANSFORMS = [
    Fixed(
        "pass a length of 1 or more as n",
        wrong=lambda: fft.fft(X, n=0),
        fixed=lambda fix: fft.fft(X, n=1),
        value=np.array([0]),
        error=WeftValueError,
    ),
    Fixed(
        "use weft.numpy.fft.fftn, which takes any number",
        wrong=lambda: fft.fft2(ROWS, axes=(0,)),
        fixed=lambda fix: weft.numpy.fft.fftn(ROWS, axes=(0,)),
        value=np.array([[3, 5, 7], [-3, -3, -3]]),
        error=WeftValueError,
    ),
    Fixed(
        "pass the length: n=, or s= for several axes",
        wrong=lambda: fft.irfft(X[3:]),
        fixed=lambda fix: [fft.irfft(X[3:], n=1), fft.irfftn(X[3:], s=(1,))],
        value=[np.array([3])] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "pass axes=(-1,)",
        wrong=lambda: fft.rfftn(ROWS[:, :1], axes=()),
        fixed=lambda fix: fft.rfftn(ROWS[:, :1], axes=(-1,)),
        value=np.array([[0], [3]]),
        error=WeftValueError,
    ),
    Fixed(
        "give it a dimension: a.reshape(1)",
        wrong=lambda: fft.rfftn(X[3]),
        fixed=lambda fix: fft.rfftn(X[3].reshape(1)),
        value=np.array([3]),
        error=WeftValueError,
    ),
    Fixed(
        "convert the booleans: x.astype(int)",
        wrong=lambda: jnp.convolve(TRUE, TRUE),
        fixed=lambda fix: jnp.convolve(TRUE.astype(int), TRUE.astype(int)),
        value=np.array([1, 2, 1]),
        error=DTypeError,
    ),
    Fixed(
        "pass strip_zeros=False",
        wrong=lambda: weft.jit(jnp.roots)(ZERO_FRONT[1:]),
        fixed=lambda fix: np.sort(
            weft.jit(lambda p: jnp.roots(p, strip_zeros=False))(ZERO_FRONT[1:])
        ),
        value=np.array([1, 2]),
        error=ConcretizationError,
    ),
    Fixed(
        "pass trim_leading_zeros=False",
        wrong=lambda: weft.jit(lambda p: jnp.polymul(p, p, trim_leading_zeros=True))(X[:2]),
        fixed=lambda fix: weft.jit(lambda p: jnp.polymul(p, p, trim_leading_zeros=False))(X[:2]),
        value=np.array([0, 0, 1]),
        error=ConcretizationError,
    ),
    Fixed(
        "call trim_zeros outside of the traced function, and pass it the result",
        wrong=lambda: weft.jit(lambda x: 2 * jnp.trim_zeros(x))(ZERO_FRONT),
        fixed=lambda fix: weft.jit(lambda x: 2 * x)(jnp.trim_zeros(ZERO_FRONT)),
        value=np.array([2, -6, 4]),
        error=ConcretizationError,
    ),
]

REDUCTIONS = [
    Fixed(
        "combine the arrays after the reduction",
        wrong=lambda: jnp.sum(ROWS, 0, initial=jnp.ones(3)),
        fixed=lambda fix: jnp.sum(ROWS, 0, **fix.data) + jnp.ones(3),
        value=np.array([4, 6, 8]),
        error=ShapeError,
    ),
    Fixed(
        "pass initial=, the value of an empty reduction",
        wrong=lambda: jnp.max(X[:0]),
        fixed=lambda fix: jnp.max(X[:0], initial=-1.0),
        value=-1,
        error=WeftValueError,
    ),
    Fixed(
        "pass initial=, a value that stands for no elements",
        wrong=lambda: jnp.max(X, where=X < 2),
        fixed=lambda fix: jnp.max(X, where=X < 2, initial=-1.0),
        value=1,
        error=WeftValueError,
    ),
    Fixed(
        "pass method='inverted_cdf'",
        wrong=lambda: jnp.quantile(X, 0.5, weights=N),
        fixed=lambda fix: jnp.quantile(X, 0.5, weights=N, method="inverted_cdf"),
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        "for a q in percent call percentile",
        wrong=lambda: jnp.quantile(X, 50),
        fixed=lambda fix: jnp.percentile(X, 50),
        value=1.5,
        error=WeftValueError,
    ),
    Fixed(
        "convert it first: x.astype('int32')",
        wrong=lambda: jnp.bincount(X),
        fixed=lambda fix: jnp.bincount(X.astype("int32")),
        value=np.ones(4),
        error=DTypeError,
    ),
    Fixed(
        "flatten it: x.reshape(-1)",
        wrong=lambda: jnp.bincount(N.reshape(2, 2)),
        fixed=lambda fix: jnp.bincount(N.reshape(2, 2).reshape(-1)),
        value=np.ones(4),
        error=ShapeError,
    ),
    Fixed(
        "pass length=, the length of the result",
        wrong=lambda: weft.jit(lambda x: jnp.bincount(x))(IDS),
        fixed=lambda fix: weft.jit(lambda x: jnp.bincount(x, length=3))(IDS),
        value=np.array([2, 2, 0]),
        error=ConcretizationError,
    ),
    Fixed(
        "swap the ends",
        wrong=lambda: jnp.histogram_bin_edges(X, 2, range=(4, 0)),
        fixed=lambda fix: jnp.histogram_bin_edges(X, 2, range=(0, 4)),
        value=np.array([0, 2, 4]),
        error=WeftValueError,
    ),
    Fixed(
        "pass bins=10",
        wrong=lambda: weft.jit(lambda x: jnp.histogram_bin_edges(x, bins="auto"))(X),
        fixed=lambda fix: weft.jit(lambda x: jnp.histogram_bin_edges(x, bins=10))(X),
        value=np.linspace(0, 3, 11),
        error=ConcretizationError,
    ),
    Fixed(
        "convert it first: data.astype('int32')",
        wrong=lambda: ops.segment_sum(TRUE, IDS[:2]),
        fixed=lambda fix: ops.segment_sum(TRUE.astype("int32"), IDS[:2]),
        value=np.array([1, 1]),
        error=DTypeError,
    ),
    Fixed(
        "take real numbers of it first: data.real, data.imag or abs(data)",
        wrong=lambda: ops.segment_max(Z, IDS[:2]),
        fixed=lambda fix: [ops.segment_max(x, IDS[:2]) for x in (Z.real, Z.imag, abs(Z))],
        value=[np.array([1, 3]), np.array([2, -4]), np.array([np.sqrt(5), 5])],
        error=DTypeError,
    ),
    Fixed(
        "convert it first: segment_ids.astype('int32')",
        wrong=lambda: ops.segment_sum(X, IDS.astype("float32")),
        fixed=lambda fix: ops.segment_sum(X, IDS.astype("float32").astype("int32")),
        value=np.array([2, 4]),
        error=DTypeError,
    ),
    Fixed(
        "pass segment_ids of shape (4,)",
        wrong=lambda: ops.segment_sum(X, IDS[:2]),
        fixed=lambda fix: ops.segment_sum(X, IDS),
        value=np.array([2, 4]),
        error=ShapeError,
    ),
    Fixed(
        "pass num_segments=None",
        wrong=lambda: ops.segment_sum(X, IDS, num_segments=-1),
        fixed=lambda fix: ops.segment_sum(X, IDS, num_segments=None),
        value=np.array([2, 4]),
        error=WeftValueError,
    ),
]

UFUNCS = [
    Fixed(
        "use a real exponent: x ** -2.0",
        wrong=lambda: (N + 1) ** -2,
        fixed=lambda fix: (N + 1) ** -2.0,
        value=1 / np.array([1, 4, 9, 16]),
        error=WeftTypeError,
    ),
    Fixed(
        "use x1 * 2.0**x2 for exponents that are not whole",
        wrong=lambda: jnp.ldexp(X, 0.5),
        fixed=lambda fix: X * 2.0**0.5,
        value=np.arange(4) * np.sqrt(2),
        error=DTypeError,
    ),
    Fixed(
        "convert the operand first: x.astype('bool')",
        wrong=lambda: jnp.equal.reduce(X),
        fixed=lambda fix: jnp.equal.reduce(X.astype("bool")),
        # ((False == True) == True) == True
        value=False,
        error=DTypeError,
    ),
    Fixed(
        "pass initial=",
        wrong=lambda: jnp.arctan2.reduce(X[:0]),
        fixed=lambda fix: jnp.arctan2.reduce(X[:0], initial=7.0),
        value=7,
        error=WeftValueError,
    ),
    Fixed(
        "pass inplace=False and use the result",
        wrong=lambda: jnp.add.at(X, 1, 5.0),
        fixed=lambda fix: jnp.add.at(X, 1, 5.0, inplace=False),
        value=np.array([0, 6, 2, 3]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "convert the array first: a.astype('float32')",
        wrong=lambda: jnp.add.at(N, 1, 0.5, inplace=False),
        fixed=lambda fix: jnp.add.at(N.astype("float32"), 1, 0.5, inplace=False),
        value=np.array([0, 1.5, 2, 3]),
        error=DTypeError,
    ),
    Fixed(
        "choose among the results: weft.numpy.where(condition, result, other)",
        wrong=lambda: jnp.negative(X, where=X > 1),
        fixed=lambda fix: weft.numpy.where(X > 1, jnp.negative(X), X),
        value=np.array([0, 1, -2, -3]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "convert the operands first: x.astype(dtype)",
        wrong=lambda: jnp.add(X, X, dtype="int32"),
        fixed=lambda fix: jnp.add(*(x.astype("int32") for x in (X, X))),
        value=np.array([0, 2, 4, 6]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave it out",
        wrong=lambda: jnp.add(X, X, axis=0),
        fixed=lambda fix: jnp.add(X, X),
        value=np.array([0, 2, 4, 6]),
        error=WeftTypeError,
    ),
    Fixed(
        "pass them by position",
        wrong=lambda: mapped()(X, y=X),
        fixed=lambda fix: mapped()(X, X),
        value=np.array([0, 2, 4, 6]),
        error=WeftTypeError,
    ),
    Fixed(
        "if they are not mapped, excluded=['k']",
        wrong=lambda: mapped()(X, X, k=1),
        fixed=lambda fix: mapped(excluded=["k"])(X, X, k=1),
        value=np.array([1, 3, 5, 7]),
        error=WeftTypeError,
    ),
    Fixed(
        "pass 2, and the positions of others in excluded=",
        wrong=lambda: mapped()(X, X, 1),
        fixed=lambda fix: [mapped()(X, X), mapped(excluded=[2])(X, X, 1)],
        value=[np.array([0, 2, 4, 6]), np.array([1, 3, 5, 7])],
        error=WeftTypeError,
    ),
    Fixed(
        "write a signature with 2 results",
        wrong=lambda: mapped("(n)->(n)", function=twice)(X),
        fixed=lambda fix: mapped("(n)->(n),(n)", function=twice)(X),
        value=(np.arange(4), 2 * np.arange(4)),
        error=WeftTypeError,
    ),
]

FIXES = [*TRANSFORMS, *REDUCTIONS, *UFUNCS]
