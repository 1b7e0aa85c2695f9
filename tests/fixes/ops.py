"""Fixes of indexing, of the operations on structure, of reductions and of products."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax, random
from weft.errors import (
    DTypeError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

A = np.arange(12, dtype=np.float32).reshape(3, 4)
X = jnp.arange(6.0)
WHOLE = jnp.arange(6)
MASK = jnp.array([True, False, True])
KEYS = random.split(random.key(0), 3)
GATHER = lax.GatherDimensionNumbers((), (0,), (0,))
SCATTER = lax.ScatterDimensionNumbers((), (0,), (0,))
COLUMN = jnp.array([[4], [1]])


def bits(keys):
    return np.asarray(random.key_data(keys))


def rows_sorted(found):
    """Whether these are the keys, ordered by the first of their words."""
    given = bits(KEYS)
    return (bits(found) == given[np.argsort(given[:, 0])]).all()


INDEXING = [
    Fixed(
        "use weft.numpy.full, which broadcasts it",
        wrong=lambda: lax.full((2, 6), X),
        fixed=lambda fix: weft.numpy.full((2, 6), X),
        value=np.stack([np.arange(6)] * 2),
        error=ShapeError,
    ),
    Fixed(
        "weft.random.key and weft.random.split",
        wrong=lambda: lax.full((3,), 0, KEYS.dtype),
        fixed=lambda fix: weft.random.split(weft.random.key(0), 3),
        value=lambda found: found.shape == (3,) and len(np.unique(bits(found), axis=0)) == 3,
        error=DTypeError,
    ),
    Fixed(
        "start.astype('int32')",
        wrong=lambda: lax.dynamic_slice(X, (X[2],), (2,)),
        fixed=lambda fix: lax.dynamic_slice(X, (X[2].astype("int32"),), (2,)),
        value=np.array([2, 3]),
        error=DTypeError,
    ),
    Fixed(
        "update.astype('float32')",
        wrong=lambda: lax.dynamic_update_slice(X, WHOLE[4:], (1,)),
        fixed=lambda fix: lax.dynamic_update_slice(X, WHOLE[4:].astype(fix.data["dtype"]), (1,)),
        value=np.array([0, 4, 5, 3, 4, 5]),
        error=DTypeError,
    ),
    Fixed(
        "indices.astype('int32')",
        wrong=lambda: lax.gather(X, COLUMN.astype("float32"), GATHER, (1,)),
        fixed=lambda fix: lax.gather(X, COLUMN.astype("float32").astype("int32"), GATHER, (1,)),
        value=np.array([4, 1]),
        error=DTypeError,
    ),
    Fixed(
        "give them a last dimension: indices[..., None]",
        wrong=lambda: lax.gather(X, jnp.int32(4), GATHER, (1,)),
        fixed=lambda fix: lax.gather(X, jnp.int32(4)[..., None], GATHER, (1,)),
        value=4,
        error=ShapeError,
    ),
    Fixed(
        "updates.astype('float32')",
        wrong=lambda: lax.scatter_add(X, COLUMN, WHOLE[1:3], SCATTER),
        fixed=lambda fix: lax.scatter_add(X, COLUMN, WHOLE[1:3].astype("float32"), SCATTER),
        value=np.array([0, 3, 2, 3, 5, 5]),
        error=DTypeError,
    ),
    Fixed(
        "operand.astype('int32')",
        wrong=lambda: lax.scatter_add(MASK, COLUMN[1:], MASK[:1], SCATTER),
        fixed=lambda fix: lax.scatter_add(
            MASK.astype("int32"), COLUMN[1:], MASK[:1].astype("int32"), SCATTER
        ),
        value=np.array([1, 1, 1]),
        error=DTypeError,
    ),
    Fixed(
        "pass unique_indices=True if they are",
        wrong=lambda: weft.grad(scattered_product)(X[1:3]),
        fixed=lambda fix: weft.grad(lambda x: scattered_product(x, unique_indices=True))(X[1:3]),
        value=np.array([4, 1]),
        error=WeftNotImplementedError,
    ),
]


def scattered_product(updates, **options):
    return lax.scatter_mul(X, COLUMN, updates, SCATTER, **options).sum()


STRUCTURE = [
    Fixed(
        "use weft.numpy.concatenate, which promotes",
        wrong=lambda: lax.concatenate([X, WHOLE], 0),
        fixed=lambda fix: weft.numpy.concatenate([X, WHOLE], 0),
        value=np.tile(np.arange(6), 2),
        error=DTypeError,
    ),
    Fixed(
        "use weft.numpy.tile, which adds dimensions",
        wrong=lambda: lax.tile(X, (2, 2)),
        fixed=lambda fix: weft.numpy.tile(X, (2, 2)),
        value=np.tile(np.arange(6), (2, 2)),
        error=ShapeError,
    ),
    Fixed(
        "use a shape of 6 elements, such as (-1,)",
        wrong=lambda: X.reshape(2, 4),
        fixed=lambda fix: [X.reshape(-1), X.reshape(2, fix.data["size"] // 2)],
        value=[np.arange(6), np.arange(6).reshape(2, 3)],
        error=ShapeError,
    ),
    Fixed(
        "x.astype('int32')",
        wrong=lambda: lax.reduce_sum(MASK, (0,)),
        fixed=lambda fix: lax.reduce_sum(MASK.astype("int32"), (0,)),
        value=2,
        error=DTypeError,
    ),
]

REDUCTIONS = [
    Fixed(
        "pass index_dtype='int32'",
        wrong=lambda: lax.argmax(jnp.arange(200), 0, "int8"),
        fixed=lambda fix: lax.argmax(jnp.arange(200), 0, index_dtype="int32"),
        value=199,
        error=DTypeError,
    ),
    Fixed(
        "sort((weft.random.key_data(keys)[..., 0], keys))[1]",
        wrong=lambda: lax.sort(KEYS),
        fixed=lambda fix: lax.sort((weft.random.key_data(KEYS)[..., 0], KEYS))[1],
        value=rows_sorted,
        error=DTypeError,
    ),
]

PRODUCTS = [
    Fixed(
        "x @ y.T",
        wrong=lambda: jnp.asarray(A) @ jnp.asarray(A),
        fixed=lambda fix: jnp.asarray(A) @ jnp.asarray(A).T,
        value=A @ A.T,
        error=ShapeError,
    ),
    Fixed(
        "convert the product: product.astype('int8')",
        wrong=lambda: lax.dot(WHOLE, WHOLE, preferred_element_type="int8"),
        fixed=lambda fix: lax.dot(WHOLE, WHOLE).astype("int8"),
        value=np.int8(55),
        error=DTypeError,
    ),
    Fixed(
        "convert the product: product.real",
        wrong=lambda: lax.dot(X * 1j, X + 2j, preferred_element_type="float32"),
        fixed=lambda fix: lax.dot(X * 1j, X + 2j).real,
        value=-30,
        error=DTypeError,
    ),
    Fixed(
        "name equal lengths",
        wrong=lambda: lax.dot_general(A, A, (((1,), (0,)), ((), ()))),
        fixed=lambda fix: lax.dot_general(A, A, (((1,), (1,)), ((), ()))),
        value=A @ A.T,
        error=ShapeError,
    ),
    Fixed(
        "or swap them: y.swapaxes(-1, -2)",
        wrong=lambda: lax.dot(A, A),
        fixed=lambda fix: lax.dot(A, A.swapaxes(-1, -2)),
        value=A @ A.T,
        error=ShapeError,
    ),
    Fixed(
        "use weft.numpy.matmul, which takes stacks of matrices",
        wrong=lambda: lax.dot(A[None], A.T),
        fixed=lambda fix: weft.numpy.matmul(A[None], A.T),
        value=(A @ A.T)[None],
        error=ShapeError,
    ),
    Fixed(
        "use weft.numpy.matmul, which broadcasts",
        wrong=lambda: lax.batch_matmul(A[None], A.T),
        fixed=lambda fix: weft.numpy.matmul(A[None], A.T),
        value=(A @ A.T)[None],
        error=ShapeError,
    ),
]

TRANSFORMS = [
    Fixed(
        "pass fft_lengths=x.shape[-1:]",
        wrong=lambda: lax.fft(X, "RFFT", 6),
        fixed=lambda fix: lax.fft(X, "RFFT", fft_lengths=X.shape[-1:]),
        value=np.fft.rfft(np.arange(6)),
        error=WeftTypeError,
    ),
    Fixed(
        "pass fft_lengths=x.shape[-1:]",
        wrong=lambda: lax.fft(X, "RFFT", ()),
        fixed=lambda fix: lax.fft(X, "RFFT", fft_lengths=X.shape[-1:]),
        value=np.fft.rfft(np.arange(6)),
        error=WeftValueError,
    ),
    Fixed(
        "x.astype('complex64')",
        wrong=lambda: lax.fft(X, "FFT", (6,)),
        fixed=lambda fix: lax.fft(X.astype("complex64"), "FFT", (6,)),
        value=np.fft.fft(np.arange(6)),
        error=DTypeError,
    ),
    Fixed(
        "x.astype('float32')",
        wrong=lambda: lax.fft(WHOLE, "RFFT", (6,)),
        fixed=lambda fix: lax.fft(WHOLE.astype("float32"), "RFFT", (6,)),
        value=np.fft.rfft(np.arange(6)),
        error=DTypeError,
    ),
    Fixed(
        "pad or slice the operand to them",
        wrong=lambda: lax.fft(X, "RFFT", (8,)),
        fixed=lambda fix: lax.fft(jnp.pad(X, (0, 2)), "RFFT", (8,)),
        value=np.fft.rfft(np.arange(6), 8),
        error=ShapeError,
    ),
    Fixed(
        "or pass fft_lengths=(10,)",
        wrong=lambda: lax.fft(X + 0j, "IRFFT", (6,)),
        fixed=lambda fix: lax.fft(X + 0j, "IRFFT", fft_lengths=(10,)),
        value=np.fft.irfft(np.arange(6)),
        error=ShapeError,
    ),
]

FIXES = [*INDEXING, *STRUCTURE, *REDUCTIONS, *PRODUCTS, *TRANSFORMS]
