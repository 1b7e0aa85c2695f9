"""The inputs at which functions are compared: all of a dtype, every n-th, or a dense choice."""

from __future__ import annotations

import ml_dtypes
import numpy as np

__all__ = ["CHUNK", "dense", "dense_pairs", "all_halves", "strided", "strided_chunks"]

CHUNK = 1 << 22
"""How many inputs are evaluated at once."""
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan)


def _usable(x):
    """Without numbers below the smallest normal one: XLA's code for CPUs takes them for 0."""
    tiny = np.finfo(x.dtype).tiny if x.dtype.kind == "f" else 2.0**-126
    size = np.abs(x.astype(np.float64)) if x.dtype.itemsize < 8 else np.abs(x)
    return x[(size == 0) | ~(size < float(tiny))]


def all_halves(dtype):
    """All numbers of a dtype of 16 bits."""
    return _usable(np.arange(1 << 16, dtype=np.uint16).view(dtype))


def strided_chunks(stride):
    """The number of chunks of every `stride`-th number of float32."""
    return -(-((1 << 32) // stride) // CHUNK)


def strided(stride, chunk):
    """A chunk of every `stride`-th number of float32, by its bits."""
    first, count = chunk * CHUNK, (1 << 32) // stride
    bits = np.arange(first, min(first + CHUNK, count), dtype=np.uint64) * np.uint64(stride)
    return _usable(bits.astype(np.uint32).view(np.float32))


def _neighbours(centres, dtype, count):
    """The `count` numbers on either side of each of some numbers."""
    kind = _BITS[np.dtype(dtype).itemsize]
    bits = np.asarray(centres, dtype).view(kind)
    steps = np.arange(-count, count + 1).astype(kind)  # modulo: below 0 is above the sign bit
    return np.unique((bits[:, None] + steps[None]).ravel()).view(dtype)


def dense(dtype, near, each, random, seed=0):
    """Neighbours of powers of two, of 0 and of the points `near`, and random numbers."""
    info = ml_dtypes.finfo(dtype)
    powers = np.ldexp(1.0, np.arange(info.minexp, info.maxexp))
    centres = np.concatenate([powers, -powers, near, [0.0, -0.0]]).astype(dtype)
    draw = np.random.default_rng(seed)
    bits = (
        draw.integers(0, 1 << (8 * info.bits // 8), random, _BITS[info.bits // 8])
        if (info.bits < 64)
        else draw.integers(0, np.iinfo(np.uint64).max, random, np.uint64)
    )
    usual = draw.normal(size=random) * draw.choice([0.3, 3.0, 30.0, 300.0], random)
    parts = [_neighbours(centres, dtype, each), bits.view(dtype), usual.astype(dtype), _SPECIAL]
    return _usable(np.concatenate(parts, dtype=dtype))


def dense_pairs(dtype, count, seed=0):
    """Pairs of special numbers with one another, random ones, and ones that nearly cancel."""
    info = ml_dtypes.finfo(dtype)
    powers = np.ldexp(1.0, np.arange(info.minexp, info.maxexp, max(1, info.maxexp // 40)))
    small = np.concatenate([np.arange(0.5, 12, 0.5), [1 / 3, 0.1, np.e, np.pi, 20, 88, 100, 710]])
    centres = np.concatenate([powers, small, -powers, -small]).astype(dtype)
    special = _usable(np.concatenate([_neighbours(centres, dtype, 1), np.array(_SPECIAL, dtype)]))
    draw = np.random.default_rng(seed)
    if special.size**2 > count:
        special = draw.choice(special, int(count**0.5), replace=False)
    first, second = (grid.ravel() for grid in np.meshgrid(special, special))
    usual = draw.normal(size=(2, count)) * draw.choice([0.3, 3.0, 30.0], (2, count))
    near = usual[0] * (1 + draw.normal(size=count) * 1e-5)
    x = np.concatenate([part.astype(dtype) for part in (first, usual[0], usual[0])])
    y = np.concatenate([part.astype(dtype) for part in (second, usual[1], near)])
    return x, y
