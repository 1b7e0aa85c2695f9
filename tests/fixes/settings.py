"""Fixes of what settings forbid, and of names of the root that say something about the process."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import distributed, lax
from weft.errors import (
    GuardError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

A, B = jnp.ones((2, 3)), jnp.ones(3)
HOST = np.ones(3, np.float32)
X = jnp.asarray(HOST)
increment = weft.jit(lambda x: x + 1)
increment(X)


def under(block, function):
    """The function in a block of settings."""

    def run(*args):
        with block():
            return function(*args)

    return run


def raising():
    return weft.numpy_rank_promotion("raise")


def stacking(carry, x):
    return carry + x, None


def split():
    return weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))


def mapped(**how):
    with weft.set_mesh(weft.make_mesh((2,), ("i",))):
        return weft.smap(lambda b: b * 2, out_axes=0, axis_name="i", **how)(np.arange(4.0))


def product():
    with weft.default_matmul_precision("TF32_TF32_F32"):
        return X @ X


FIXES = [
    Fixed(
        "write the new axes: y[None]",
        wrong=under(raising, lambda: A + B),
        fixed=lambda fix: under(raising, lambda: A + B[None])(),
        value=np.full((2, 3), 2.0),
        error=ShapeError,
    ),
    Fixed(
        "make it by weft.random.key",
        wrong=under(
            lambda: weft.legacy_prng_key("error"), lambda: weft.random.bits(weft.random.PRNGKey(0))
        ),
        fixed=lambda fix: weft.random.bits(weft.random.key(fix.data["seed"])),
        value=weft.random.bits(weft.random.key(0)),
        error=WeftValueError,
    ),
    Fixed(
        "trace it before",
        wrong=under(weft.no_tracing, lambda: weft.jit(lambda x: x + 3)(X)),
        fixed=lambda fix: (increment(X), under(weft.no_tracing, lambda: increment(X))())[1],
        value=np.array([2.0, 2.0, 2.0]),
        error=GuardError,
    ),
    Fixed(
        "leave the block, or trace it",
        wrong=under(weft.no_execution, lambda: jnp.sin(X)),
        fixed=lambda fix: under(weft.no_execution, lambda: weft.eval_shape(jnp.sin, X))(),
        value=lambda out: out.shape == (3,),
        error=GuardError,
    ),
    Fixed(
        "move it by weft.device_put",
        wrong=under(lambda: weft.transfer_guard("disallow"), lambda: increment(HOST)),
        fixed=lambda fix: under(
            lambda: weft.transfer_guard("disallow"), lambda: increment(weft.device_put(HOST))
        )(),
        value=np.array([2.0, 2.0, 2.0]),
        error=GuardError,
    ),
    Fixed(
        "set it before anything that uses arrays",
        wrong=lambda: (weft.devices(), weft.config.update("num_cpu_devices", 77)),
        fixed=lambda fix: len(weft.devices()),
        value=8,
        error=GuardError,
    ),
    Fixed(
        "leave global_shape out",
        wrong=lambda: weft.make_array_from_process_local_data(split(), np.arange(4.0), (8,)),
        fixed=lambda fix: weft.make_array_from_process_local_data(split(), np.arange(4.0)),
        value=np.array([0.0, 1.0, 2.0, 3.0]),
        error=ShapeError,
    ),
    Fixed(
        "use weft.device_put(x, place)",
        wrong=lambda: weft.reshard(X, weft.devices()[1]),
        fixed=lambda fix: weft.device_put(X, fix.data["device"]),
        value=np.array([1.0, 1.0, 1.0]),
        error=WeftTypeError,
    ),
    Fixed(
        "pass in_axes=0",
        wrong=mapped,
        fixed=lambda fix: mapped(in_axes=0),
        value=np.array([0.0, 2.0, 4.0, 6.0]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "return (carry, None)",
        wrong=under(weft.disable_jit, lambda: lax.scan(lambda c, x: c + x, 0.0, X)),
        fixed=lambda fix: under(weft.disable_jit, lambda: lax.scan(stacking, 0.0, X))()[0],
        value=3.0,
        error=WeftTypeError,
    ),
    Fixed(
        "leave it out where the program runs on a CPU",
        wrong=product,
        fixed=lambda fix: X @ X,
        value=3.0,
        error=WeftValueError,
    ),
    Fixed(
        "leave auto_axes out",
        wrong=lambda: weft.sharding.auto_axes(jnp.sin),
        fixed=lambda fix: weft.jit(jnp.sin)(0.0),
        value=0.0,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "convert",
        wrong=under(
            lambda: weft.allow_f16_reductions(False),
            lambda: lax.reduce_sum(jnp.ones(3, "float16"), (0,)),
        ),
        fixed=lambda fix: lax.reduce_sum(jnp.ones(3, "float16").astype("float32"), (0,)),
        value=3.0,
        error=WeftValueError,
    ),
    Fixed(
        "leave memory_kind out",
        wrong=lambda: weft.NamedSharding(split().mesh, weft.P("i"), memory_kind="disk"),
        fixed=lambda fix: split().memory_kind == "device",
        value=True,
        error=WeftValueError,
    ),
    Fixed(
        "or start the program with `python -m weft.launch -n 4 script.py`",
        wrong=distributed.initialize,
        fixed=lambda fix: distributed.is_initialized(),
        value=False,
        error=WeftValueError,
    ),
    Fixed(
        "call it first in the program",
        wrong=lambda: (weft.devices(), distributed.initialize("localhost:1", 1, 0)),
        fixed=lambda fix: distributed.is_initialized(),
        value=False,
        error=GuardError,
    ),
]
