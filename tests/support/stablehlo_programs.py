"""Small programs for the tests of the runtime: emitted, compiled, run and compared with NumPy."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np

from weft.runtime import client, stablehlo
from weft.runtime.backends.backend import CompileOptions
from weft.runtime.stablehlo import Module

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("f2", "f4", "f8", BF16)]
COMPLEX = [np.dtype(t) for t in ("c8", "c16")]
INTEGERS = [np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
BOOL = np.dtype(bool)
# How far a correctly rounded function of a few operations may be off, in relative terms.
TOLERANCE = {"f2": 4e-3, "f4": 3e-6, "f8": 1e-14, "c8": 3e-6, "c16": 1e-14, BF16.str: 2e-2}


@dataclasses.dataclass(frozen=True)
class Type:
    shape: tuple
    dtype: np.dtype
    weak_type: bool = False


def type_of(array):
    return Type(array.shape, array.dtype)


def module_of(build, arguments, results, **options):
    module = Module("test", **options)
    ins = [stablehlo.array_type_to_ir(type_of(x)) for x in arguments]
    outs = [stablehlo.array_type_to_ir(type_of(y)) for y in results]
    with module.function("main", ins, outs, public=True) as function:
        values = build(*function.arguments)
        function.return_(values if isinstance(values, (list, tuple)) else [values])
    return module


def run(build, arguments, expected):
    """The results of the program that `build` emits; `expected` gives their shapes and dtypes."""
    several = isinstance(expected, (list, tuple))
    results = [np.asarray(y) for y in (expected if several else [expected])]
    arguments = [np.asarray(x) for x in arguments]
    module = module_of(build, arguments, results)
    types = [type_of(y) for y in results]
    options = CompileOptions(fast_compile=True)
    executable = client.backend().compile(module.ir, options, types)
    outs = executable.run([client.backend().put(x, type_of(x)) for x in arguments])
    found = [client.backend().to_numpy(out) for out in outs]
    for have, want in zip(found, results, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
    return found if several else found[0]


def put(array, **options):
    array = np.asarray(array)
    return client.backend().put(array, type_of(array), **options)


def program(build, arguments, results, options=None, **attributes):
    module = module_of(build, [np.asarray(x) for x in arguments], results)
    types = [type_of(y) for y in results]
    return client.backend().compile(module.ir, options or CompileOptions(**attributes), types)


def doubling(x, **options):
    return program(lambda v: stablehlo.add(v, v), [x], [x], **options)


def tolerance(dtype):
    key = dtype.str if dtype == BF16 else f"{dtype.kind}{dtype.itemsize}"
    return TOLERANCE.get(key, 0)


def check(build, arguments, expected, rtol=None):
    several = isinstance(expected, (list, tuple))
    found = run(build, arguments, expected)
    pairs = zip(found, expected, strict=True) if several else [(found, expected)]
    for have, want in pairs:
        want = np.asarray(want)
        limit = tolerance(want.dtype) if rtol is None else rtol
        kind = np.complex128 if want.dtype.kind == "c" else np.float64
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(have, want)
        else:
            np.testing.assert_allclose(have.astype(kind), want.astype(kind), rtol=limit, atol=limit)


def sample(dtype, shape=(2, 3), low=-2.0, high=2.0, seed=0):
    """Numbers in [low, high] that the dtype represents."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else int(low)
        return rng.integers(low, int(high) + 1, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(low, high, shape)
    return values.astype(dtype)


def double(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
