"""Fixes of Python functions on hosts of devices, and of generators with state."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft.errors import WeftTypeError, WeftValueError
from weft.experimental.colocated_python import colocated_python
from weft.experimental.random import stateful_rng

THREE = np.arange(3, dtype=np.float32)


@colocated_python
def doubled(x):
    return x + x


@colocated_python
def two():
    return jnp.asarray(2.0)


of_two = doubled.specialize(in_specs=((weft.ShapeDtypeStruct((2,), np.float32),), {}))

FIXES = [
    Fixed(
        "put it on the devices first: weft.device_put(x, sharding)",
        wrong=lambda: doubled(THREE),
        fixed=lambda fix: doubled(weft.device_put(THREE, weft.devices()[0])),
        value=2 * THREE,
        error=WeftTypeError,
    ),
    Fixed(
        "use .specialize(devices=weft.devices('cpu'))",
        wrong=two,
        fixed=lambda fix: two.specialize(devices=weft.devices("cpu"))(),
        value=2.0,
        error=WeftValueError,
    ),
    Fixed(
        "specialize it for these types",
        wrong=lambda: of_two(jnp.asarray(THREE)),
        fixed=lambda fix: doubled.specialize(
            in_specs=((weft.ShapeDtypeStruct((3,), np.float32),), {})
        )(jnp.asarray(THREE)),
        value=2 * THREE,
        error=WeftValueError,
    ),
    Fixed(
        "pass a count of at least 0",
        wrong=lambda: stateful_rng(0).spawn(-1),
        fixed=lambda fix: len(stateful_rng(0).spawn(fix.data["count"])),
        value=0,
        error=WeftValueError,
    ),
    Fixed(
        "pass an integer, or an argument of the function",
        wrong=lambda: weft.jit(lambda x: x + stateful_rng().uniform())(1.0),
        fixed=lambda fix: weft.jit(lambda x: x + stateful_rng(fix.data["seed"]).uniform())(1.0),
        value=lambda out: 1.0 <= out < 2.0,
        error=WeftTypeError,
    ),
]
