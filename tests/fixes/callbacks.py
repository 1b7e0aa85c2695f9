"""Fixes of calls to the host."""

from __future__ import annotations

import functools

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P
from weft.errors import (
    DTypeError,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)

THREE = np.array([1.0, 2.0, 3.0], np.float32)


SCALAR = weft.ShapeDtypeStruct((), jnp.float32)


def square(x):
    return np.square(x)


def called(function, x=THREE, promised=THREE, **options):
    return weft.pure_callback(function, promised, x, **options)


def squared(x, **options):
    return called(square, x, SCALAR, **options)


@weft.custom_jvp
def with_jvp(x):
    return squared(x)


with_jvp.defjvps(lambda t, out, x: 2 * x * t)


@weft.custom_vjp
def with_vjp(x):
    return squared(x)


with_vjp.defvjp(lambda x: (squared(x), x), lambda x, ct: (2 * x * ct,))


def lowered(platform):
    text = weft.jit(squared).trace(np.float32(3)).lower(lowering_platforms=(platform,)).as_text()
    return "custom_call" in text


def succeeded(done):
    return done is True


def over(function, x, **options):
    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    specs = {"in_specs": (P("i"), P()), "out_specs": P("i"), "auto_pbroadcast": False}
    return weft.shard_map(function, mesh=mesh, **specs)(x, np.float32(3))


FIXES = [
    Fixed(
        ["return the structure of result_shape_dtypes", "or change that"],
        wrong=lambda: called(lambda x: (square(x),)),
        fixed=lambda fix: [
            called(lambda x: square(x)),
            called(lambda x: (square(x),), promised=(THREE,)),
        ],
        value=[THREE**2, (THREE**2,)],
        error=TreeError,
    ),
    Fixed(
        "return an array of shape (3,) and dtype f32",
        wrong=lambda: called(lambda x: "nine"),
        fixed=lambda fix: called(lambda x: np.zeros(fix.data["shape"], fix.data["dtype"])),
        value=np.zeros(3),
        error=WeftTypeError,
    ),
    Fixed(
        "or promise what is returned in result_shape_dtypes",
        wrong=lambda: called(np.sum),
        fixed=lambda fix: called(np.sum, promised=weft.ShapeDtypeStruct((), "float32")),
        value=6.0,
        error=ShapeError,
    ),
    Fixed(
        "return an array of shape (3,) and dtype f32",
        wrong=lambda: called(lambda x: x.astype("int32")),
        fixed=lambda fix: called(lambda x: x.astype("int32").astype(fix.data["dtype"])),
        value=THREE,
        error=DTypeError,
    ),
    Fixed(
        "pass vmap_method='sequential'",
        wrong=lambda: squared(2.0, vmap_method="loop"),
        fixed=lambda fix: weft.vmap(functools.partial(squared, **fix.data))(THREE),
        value=THREE**2,
        error=WeftValueError,
    ),
    Fixed(
        [
            "pass vmap_method='sequential' to pure_callback",
            "or 'expand_dims' where the callback takes arrays with a leading axis",
        ],
        wrong=lambda: weft.vmap(squared)(THREE),
        fixed=lambda fix: [
            weft.vmap(functools.partial(squared, vmap_method="sequential"))(THREE),
            weft.vmap(functools.partial(squared, vmap_method="expand_dims"))(THREE),
        ],
        value=[THREE**2] * 2,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave sharding out",
        wrong=lambda: called(square, sharding=weft.devices()[0]),
        fixed=lambda fix: called(square),
        value=THREE**2,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "let the callback close over values that are no arrays (functools.partial)",
        wrong=lambda: weft.pure_callback(lambda x, how: getattr(np, how)(x), THREE, THREE, "exp"),
        fixed=lambda fix: weft.pure_callback(
            functools.partial(lambda x, how: getattr(np, how)(x), how="exp"), THREE, THREE
        ),
        value=np.exp(THREE),
        error=WeftTypeError,
    ),
    Fixed(
        "promise a type: weft.ShapeDtypeStruct((), weft.numpy.float32)",
        wrong=lambda: called(np.sum, promised="float32"),
        fixed=lambda fix: called(np.sum, promised=weft.ShapeDtypeStruct((), weft.numpy.float32)),
        value=6.0,
        error=WeftTypeError,
    ),
    Fixed(
        [
            "give the function that calls it a derivative of its own with weft.custom_jvp",
            "or weft.custom_vjp",
        ],
        wrong=lambda: weft.grad(squared)(3.0),
        fixed=lambda fix: [weft.grad(with_jvp)(3.0), weft.grad(with_vjp)(3.0)],
        value=[6.0] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "or pass weft.lax.stop_gradient(x)",
        wrong=lambda: weft.grad(lambda x: x * squared(x))(3.0),
        fixed=lambda fix: weft.grad(lambda x: x * squared(weft.lax.stop_gradient(x)))(3.0),
        value=9.0,
        error=WeftValueError,
    ),
    Fixed(
        "call the function outside of jit",
        wrong=lambda: lowered("rocm"),
        fixed=lambda fix: squared(np.float32(3)),
        value=9.0,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "or run on the CPU (WEFT_PLATFORMS=cpu)",
        wrong=lambda: lowered("rocm"),
        fixed=lambda fix: lowered(fix.data["platform"]),
        value=succeeded,
        error=WeftNotImplementedError,
    ),
]
