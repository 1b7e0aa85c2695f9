"""Fixes of what `weft.lax` has above its primitives, of batching rules and of trees as vectors."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import lax
from weft.custom_batching import custom_vmap
from weft.errors import (
    DTypeError,
    MissingRuleError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.flatten_util import ravel_pytree

X = jnp.arange(3.0)
KEY = np.arange(4, dtype=np.uint32)
ROWS, PARTS = jnp.ones((3, 2)), jnp.ones((2, 2, 1))


def with_rule(function=lambda x: 2 * x, rule=lambda size, batched, x: (2 * x, True)):
    made = custom_vmap(function)
    made.def_vmap(rule)
    return made


def closing_over(y):
    return with_rule(lambda x: x * y, lambda size, batched, x: (x, True))


def unravel(value=None):
    flat, back = ravel_pytree({"a": X, "b": jnp.arange(2)})
    return back(flat if value is None else value)["a"]


FIXES = [
    Fixed(
        "set the rule with .def_vmap(...)",
        wrong=lambda: custom_vmap(lambda x: x)(X),
        fixed=lambda fix: with_rule()(X),
        value=np.array([0.0, 2.0, 4.0]),
        error=MissingRuleError,
    ),
    Fixed(
        "return (result, out_batched) from the rule",
        wrong=lambda: weft.vmap(with_rule(rule=lambda size, batched, x: x))(X),
        fixed=lambda fix: weft.vmap(with_rule())(X),
        value=np.array([0.0, 2.0, 4.0]),
        error=WeftTypeError,
    ),
    Fixed(
        "make the value an argument of the function",
        wrong=lambda: weft.vmap(lambda x: closing_over(x)(x))(X),
        fixed=lambda fix: weft.vmap(
            with_rule(lambda x, y: x * y, lambda n, b, x, y: (x * y, True))
        )(X, X),
        value=np.array([0.0, 1.0, 4.0]),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pass a vector of shape (5,)",
        wrong=lambda: unravel(jnp.ones(4)),
        fixed=lambda fix: unravel(jnp.ones(fix.data["shape"])),
        value=np.ones(3),
        error=ShapeError,
    ),
    Fixed(
        "convert it to float32",
        wrong=lambda: unravel(jnp.ones(5, "int32")),
        fixed=lambda fix: unravel(jnp.ones(5, "int32").astype(fix.data["dtype"])),
        value=np.ones(3),
        error=DTypeError,
    ),
    Fixed(
        "pass cpu= or default=",
        wrong=lambda: lax.platform_dependent(2.0, tpu=lambda x: x),
        fixed=lambda fix: lax.platform_dependent(2.0, tpu=lambda x: x, default=lambda x: 3 * x),
        value=np.float32(6),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "convert the key: key.astype('uint32')",
        wrong=lambda: lax.rng_bit_generator(KEY.astype("int32"), (2,)),
        fixed=lambda fix: lax.rng_bit_generator(KEY.astype("int32").astype("uint32"), (2,))[0][0],
        value=lambda found: found == 0,
        error=DTypeError,
    ),
    Fixed(
        "pass dtype='uint32' and convert the bits",
        wrong=lambda: lax.rng_bit_generator(KEY, (2,), "int32"),
        fixed=lambda fix: lax.rng_bit_generator(KEY, (2,), "uint32")[1].astype("int32"),
        value=lambda found: found.dtype == "int32",
        error=DTypeError,
    ),
    Fixed(
        "convert them to one dtype",
        wrong=lambda: lax.rng_uniform(jnp.int32(0), jnp.float32(1), (2,)),
        fixed=lambda fix: lax.rng_uniform(jnp.float32(0), jnp.float32(1), (2,)),
        value=lambda found: bool((found >= 0).all() and (found < 1).all()),
        error=DTypeError,
    ),
    Fixed(
        "map it over the bounds: weft.vmap",
        wrong=lambda: lax.rng_uniform(jnp.zeros(2), jnp.ones(2), (3,)),
        fixed=lambda fix: weft.vmap(lambda a, b: lax.rng_uniform(a, b, (3,)))(
            jnp.zeros(2), jnp.ones(2)
        ),
        value=lambda found: found.shape == (2, 3),
        error=ShapeError,
    ),
    Fixed(
        "pass a scale whose dimensions divide those of f32[3,2]",
        wrong=lambda: lax.scaled_dot(ROWS, ROWS.T, lhs_scale=jnp.ones((3, 3))),
        fixed=lambda fix: lax.scaled_dot(ROWS, ROWS.T, lhs_scale=jnp.ones((3, 1))),
        value=np.full((3, 3), 2.0),
        error=ShapeError,
    ),
    Fixed(
        "pass precision=lax.DotAlgorithmPreset.F32_F32_F32",
        wrong=lambda: lax.dot(X, X, precision=lax.DotAlgorithm("float32", "float32", "float64")),
        fixed=lambda fix: lax.dot(X, X, precision=lax.DotAlgorithmPreset.F32_F32_F32),
        value=np.float32(5),
        error=WeftValueError,
    ),
]
