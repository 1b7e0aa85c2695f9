"""Fixes of `weft.numpy`: making, joining and indexing arrays, choosing elements, arguments."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import random
from weft.errors import (
    ConcretizationError,
    DTypeError,
    NonConcreteBooleanIndexError,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)

X = jnp.arange(4.0)
PLACES = jnp.array([3, 0])
ROWS = jnp.arange(6.0).reshape(2, 3)
BITS = jnp.array([True, False, True])
Z = jnp.array([1 + 2j, 3 - 4j])
KEYS = random.split(random.key(0), 2)
READ_ONLY = np.arange(3.0, dtype=np.float32)
READ_ONLY.flags.writeable = False


def on(device):
    return weft.sharding.SingleDeviceSharding(device)


def deletes(place):
    return weft.jit(lambda x: jnp.delete(x, place))


ARGUMENTS = [
    Fixed(
        "pass size=, how many elements to return, or no fill_value",
        wrong=lambda: jnp.unique(PLACES, fill_value=7),
        fixed=lambda fix: [jnp.unique(PLACES, fill_value=7, size=3), jnp.unique(PLACES)],
        value=[np.array([0, 3, 7]), np.array([0, 3])],
        error=WeftValueError,
    ),
    Fixed(
        "pass mode='fill'",
        wrong=lambda: jnp.take(X, 9, fill_value=7, mode="clip"),
        fixed=lambda fix: jnp.take(X, 9, fill_value=7, mode="fill"),
        value=7,
        error=WeftValueError,
    ),
    Fixed(
        "write y[:, None], where y is the second operand",
        wrong=lambda: ROWS + X[:2],
        fixed=lambda fix: ROWS + X[:2][:, None],
        value=np.array([[0, 1, 2], [4, 5, 6]]),
        error=ShapeError,
    ),
    Fixed(
        "pass mode='drop': an index out of bounds updates nothing",
        wrong=lambda: X.at[np.array([9, 1])].set(7, mode="wrap"),
        fixed=lambda fix: X.at[np.array([9, 1])].set(7, mode="drop"),
        value=np.array([0, 7, 2, 3]),
        error=WeftValueError,
    ),
    Fixed(
        "pass mode='clip', to read the nearest element, or 'fill'",
        wrong=lambda: X.at[9].get(mode="raise"),
        fixed=lambda fix: [X.at[9].get(mode=mode) for mode in ("clip", "fill")],
        value=[3, np.nan],
        error=WeftValueError,
    ),
]

MAKING = [
    Fixed(
        "leave order out: it says nothing of the values",
        wrong=lambda: jnp.array([[1, 2], [3, 4]], order="F"),
        fixed=lambda fix: jnp.array([[1, 2], [3, 4]]),
        value=np.array([[1, 2], [3, 4]], order="F"),
        error=WeftValueError,
    ),
    Fixed(
        "leave copy=False out: copies are then made where they are needed; "
        "or share the memory with weft.numpy.from_dlpack(x)",
        wrong=lambda: jnp.array(np.ones(3), copy=False),
        fixed=lambda fix: [jnp.array(np.ones(3)), weft.numpy.from_dlpack(np.ones(3))],
        value=[np.ones(3)] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "copy its values into an array: weft.numpy.asarray(x)",
        wrong=lambda: jnp.from_dlpack([1, 2]),
        fixed=lambda fix: weft.numpy.asarray([1, 2]),
        value=np.array([1, 2]),
        error=WeftTypeError,
    ),
    Fixed(
        "leave copy=False out",
        wrong=lambda: jnp.from_dlpack(READ_ONLY, copy=False),
        fixed=lambda fix: jnp.from_dlpack(READ_ONLY),
        value=np.arange(3),
        error=WeftValueError,
    ),
    Fixed(
        "make keys with weft.random.key and weft.random.split",
        wrong=lambda: jnp.zeros(2, KEYS.dtype),
        fixed=lambda fix: weft.random.split(weft.random.key(0), 2),
        value=lambda keys: keys.shape == (2,) and keys.dtype == KEYS.dtype,
        error=DTypeError,
    ),
    Fixed(
        "leave out_sharding out",
        wrong=lambda: jnp.ones(2, device=weft.devices()[0], out_sharding=on(weft.devices()[1])),
        fixed=lambda fix: jnp.ones(2, device=weft.devices()[0]),
        value=lambda x: x.devices() == {weft.devices()[0]},
        error=WeftValueError,
    ),
    Fixed(
        "use weft.numpy.linspace with a static number of points",
        wrong=lambda: weft.jit(lambda end: jnp.mgrid[0:end:3j])(4.0),
        fixed=lambda fix: weft.jit(lambda end: weft.numpy.linspace(0, end, 3))(4.0),
        value=np.array([0, 2, 4]),
        error=WeftTypeError,
    ),
    Fixed(
        "make it a static argument (jit's static_argnums or static_argnames)",
        wrong=lambda: weft.jit(lambda n: jnp.arange(n))(3),
        fixed=lambda fix: [
            weft.jit(lambda n: jnp.arange(n), static_argnums=0)(3),
            weft.jit(lambda n: jnp.arange(n), static_argnames="n")(n=3),
        ],
        value=[np.arange(3)] * 2,
        error=WeftTypeError,
    ),
    Fixed(
        "for a number of values use weft.numpy.linspace",
        wrong=lambda: jnp.arange(0.0, 1.0, np.nan),
        fixed=lambda fix: weft.numpy.linspace(0.0, 1.0, 3),
        value=np.array([0, 0.5, 1]),
        error=WeftValueError,
    ),
    Fixed(
        "repeat it as rows: weft.numpy.broadcast_to(m, (4, 4))",
        wrong=lambda: jnp.tril(X),
        fixed=lambda fix: jnp.tril(weft.numpy.broadcast_to(X, (4, 4))),
        value=np.tril(np.arange(4)),
        error=ShapeError,
    ),
]

JOINING = [
    Fixed(
        "compute obj outside of the traced function, or with NumPy inside it",
        wrong=lambda: weft.jit(lambda x: jnp.delete(x, x == 1))(X),
        fixed=lambda fix: [deletes(X == 1)(X), deletes(np.arange(4) == 1)(X)],
        value=[np.array([0, 2, 3])] * 2,
        error=ConcretizationError,
    ),
    Fixed(
        "put them in a list: concatenate([x, y])",
        wrong=lambda: jnp.concatenate(X, X),
        fixed=lambda fix: jnp.concatenate([X, X]),
        value=np.tile(np.arange(4), 2),
        error=ShapeError,
    ),
    Fixed(
        "use weft.numpy.stack, or pass arrays with dimensions",
        wrong=lambda: jnp.concatenate([X[0], X[1]]),
        fixed=lambda fix: [weft.numpy.stack([X[0], X[1]]), jnp.concatenate([X[:1], X[1:2]])],
        value=[np.array([0, 1])] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "broadcast them first: weft.numpy.stack(weft.numpy.broadcast_arrays(...))",
        wrong=lambda: jnp.stack([X, 7.0]),
        fixed=lambda fix: weft.numpy.stack(weft.numpy.broadcast_arrays(X, 7.0)),
        value=np.array([[0, 1, 2, 3], [7, 7, 7, 7]]),
        error=ShapeError,
    ),
    Fixed(
        "join them end to end with weft.numpy.concatenate, or pad them to one length first",
        wrong=lambda: jnp.stack([X, X[:2]]),
        fixed=lambda fix: [
            weft.numpy.concatenate([X, X[:2]]),
            jnp.stack([X, weft.numpy.pad(X[:2], (0, 2))]),
        ],
        value=[np.array([0, 1, 2, 3, 0, 1]), np.array([[0, 1, 2, 3], [0, 1, 0, 0]])],
        error=ShapeError,
    ),
    Fixed(
        "bring them to one shape first: x.reshape(...), or weft.numpy.pad",
        wrong=lambda: jnp.stack([ROWS, jnp.ones(6)]),
        fixed=lambda fix: jnp.stack([ROWS, jnp.ones(6).reshape(2, 3)]),
        value=np.stack([np.arange(6).reshape(2, 3), np.ones((2, 3))]),
        error=ShapeError,
    ),
    Fixed(
        "use array_split, whose parts may differ by one",
        wrong=lambda: jnp.split(X, 3),
        fixed=lambda fix: jnp.array_split(X, 3),
        value=np.array_split(np.arange(4), 3),
        error=WeftValueError,
    ),
    Fixed(
        "split along another dimension: weft.numpy.split(x, n, axis)",
        wrong=lambda: jnp.dsplit(ROWS, 3),
        fixed=lambda fix: weft.numpy.split(ROWS, 3, 1),
        value=np.split(np.arange(6).reshape(2, 3), 3, 1),
        error=ShapeError,
    ),
    Fixed(
        "leave copy=False out",
        wrong=lambda: jnp.reshape(X, (2, 2), copy=False),
        fixed=lambda fix: jnp.reshape(X, (2, 2)),
        value=np.array([[0, 1], [2, 3]]),
        error=WeftValueError,
    ),
    Fixed(
        "give a shape of the same size, such as (-1,)",
        wrong=lambda: ROWS.reshape(-1, 4),
        fixed=lambda fix: ROWS.reshape(-1),
        value=np.arange(6),
        error=ShapeError,
    ),
]

INDEXING = [
    Fixed(
        "index with one array: x[weft.numpy.stack([i, j])]",
        wrong=lambda: X[[PLACES[0], PLACES[1]]],
        fixed=lambda fix: X[weft.numpy.stack([PLACES[0], PLACES[1]])],
        value=np.array([3, 0]),
        error=WeftTypeError,
    ),
    Fixed(
        "use weft.lax.dynamic_slice_in_dim(x, start, length): only the length must be static",
        wrong=lambda: weft.jit(lambda x, i: x[i : i + 2])(X, 1),
        fixed=lambda fix: weft.jit(lambda x, i: weft.lax.dynamic_slice_in_dim(x, i, 2))(X, 1),
        value=np.array([1, 2]),
        error=WeftIndexError,
    ),
    Fixed(
        "convert it: i.astype(int)",
        wrong=lambda: X[X[1:3]],
        fixed=lambda fix: X[X[1:3].astype(int)],
        value=np.array([1, 2]),
        error=WeftTypeError,
    ),
    Fixed(
        "convert it: int(i)",
        wrong=lambda: X[3.0],
        fixed=lambda fix: X[int(3.0)],
        value=3,
        error=WeftTypeError,
    ),
    Fixed(
        "use x.at[i].get(mode='fill') or mode='clip'",
        wrong=lambda: X[9],
        fixed=lambda fix: [X.at[9].get(mode="fill"), X.at[9].get(mode="clip")],
        value=[np.nan, 3],
        error=WeftIndexError,
    ),
    Fixed(
        "an update with mode='drop' leaves out what an index has beyond the end",
        wrong=lambda: X.at[np.array([1, 9])].set(7),
        fixed=lambda fix: X.at[np.array([1, 9])].set(7, mode="drop"),
        value=np.array([0, 7, 2, 3]),
        error=WeftIndexError,
    ),
    Fixed(
        "write weft.numpy.where(mask, x, other), or where(mask, size=n) for n places",
        wrong=lambda: weft.jit(lambda x: x[x > 1])(X),
        fixed=lambda fix: weft.jit(
            lambda x: [weft.numpy.where(x > 1, x, 0), x[weft.numpy.where(x > 1, size=2)]]
        )(X),
        value=[np.array([0, 0, 2, 3]), np.array([2, 3])],
        error=NonConcreteBooleanIndexError,
    ),
]

CHOOSING = [
    Fixed(
        "pass size=, a bound on the number of elements",
        wrong=lambda: weft.jit(lambda x: jnp.nonzero(x)[0])(X),
        fixed=lambda fix: weft.jit(lambda x: jnp.nonzero(x, size=3)[0])(X),
        value=np.array([1, 2, 3]),
        error=ConcretizationError,
    ),
    Fixed(
        "use weft.numpy.atleast_1d(a)",
        wrong=lambda: jnp.nonzero(7.0),
        fixed=lambda fix: jnp.nonzero(weft.numpy.atleast_1d(7.0)),
        value=(np.array([0]),),
        error=WeftValueError,
    ),
    Fixed(
        "cut it off: condition[:2]",
        wrong=lambda: jnp.compress(BITS, X[:2]),
        fixed=lambda fix: jnp.compress(BITS[: fix.data["length"]], X[:2]),
        value=np.array([0]),
        error=WeftIndexError,
    ),
    Fixed(
        "clip the real and the imaginary part on their own",
        wrong=lambda: jnp.clip(Z, -2, 2),
        fixed=lambda fix: [jnp.clip(Z.real, -2, 2), jnp.clip(Z.imag, -2, 2)],
        value=[np.array([1, 2]), np.array([2, -2])],
        error=DTypeError,
    ),
    Fixed(
        "pass fill_value=, the value of those missing",
        wrong=lambda: jnp.unique(X[:0], size=2),
        fixed=lambda fix: jnp.unique(X[:0], size=2, fill_value=7),
        value=np.array([7, 7]),
        error=WeftValueError,
    ),
    Fixed(
        "say which elements are set: x != 0",
        wrong=lambda: jnp.packbits(jnp.array([0.5, 0, 2])),
        fixed=lambda fix: jnp.packbits(jnp.array([0.5, 0, 2]) != 0),
        value=np.array([160]),
        error=DTypeError,
    ),
    Fixed(
        "weft.random.key_data(key)",
        wrong=lambda: jnp.packbits(KEYS),
        fixed=lambda fix: jnp.packbits(weft.random.key_data(KEYS)).shape,
        value=(1,),
        error=DTypeError,
    ),
    Fixed(
        "convert it first: x.astype('uint8')",
        wrong=lambda: jnp.unpackbits(jnp.array([3, 200])),
        fixed=lambda fix: jnp.unpackbits(jnp.array([3, 200]).astype("uint8")),
        value=np.unpackbits(np.array([3, 200], np.uint8)),
        error=DTypeError,
    ),
    Fixed(
        "use bitorder='big' or bitorder='little'",
        wrong=lambda: jnp.packbits(BITS, bitorder="small"),
        fixed=lambda fix: [jnp.packbits(BITS, bitorder=order) for order in ("big", "little")],
        value=[np.array([160]), np.array([5])],
        error=WeftValueError,
    ),
]

FIXES = [*ARGUMENTS, *MAKING, *JOINING, *INDEXING, *CHOOSING]
