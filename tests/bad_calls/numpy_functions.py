"""Bad calls of ufuncs, polynomials, windows, packed bits and functions of functions."""

from __future__ import annotations

import io

import numpy as np

import weft.numpy as jnp
from bad_calls import BadCall
from weft.errors import (
    AxisError,
    DTypeError,
    ShapeError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)

V = np.arange(4, dtype=np.float32)
M = np.ones((2, 3), np.float32)
BYTES = np.zeros(2, np.uint8)

CALLS = [
    BadCall("add", lambda: jnp.add(V), WeftTypeError, ("two operands", "got 1")),
    BadCall("add", lambda: jnp.add(V, V, V), WeftTypeError, ("got 3", "out=")),
    BadCall("multiply", lambda: jnp.multiply(V, V, where=V > 0), NotImplementedError, ("where=",)),
    BadCall("sin", lambda: jnp.sin(V, dtype="float64"), NotImplementedError, ("dtype=", "astype")),
    BadCall("sin", lambda: jnp.sin(V, casting="no"), NotImplementedError, ("casting=",)),
    BadCall("power", lambda: jnp.power(V), WeftTypeError, ("two operands",)),
    BadCall("sin.reduce", lambda: jnp.sin.reduce(V), WeftTypeError, ("two operands",)),
    BadCall("divmod.reduce", lambda: jnp.divmod.reduce(V), WeftTypeError, ("2 results",)),
    BadCall("add.reduce", lambda: jnp.add.reduce(M, axis=2), AxisError, ("2",)),
    BadCall("add.reduce", lambda: jnp.add.reduce(M, axis=(0, 0)), AxisError, ()),
    BadCall("add.reduce", lambda: jnp.add.reduce(M, out=V), NotImplementedError, ("out",)),
    BadCall("subtract.reduce", lambda: jnp.subtract.reduce(M, None), WeftValueError, ("one axis",)),
    BadCall("fmax.reduce", lambda: jnp.fmax.reduce(V[:0]), WeftValueError, ("initial=",)),
    BadCall("cross", lambda: jnp.cross(V[:3], V[:3], axis=1), AxisError, ("1",)),
    BadCall("cross", lambda: jnp.cross(V[:3], V[:3], -2), AxisError, ("-2",)),
    BadCall("lexsort", lambda: jnp.lexsort((V, V), axis=-2), AxisError, ("-2",)),
    BadCall("less.reduce", lambda: jnp.less.reduce(V), DTypeError, ("bool", "astype")),
    BadCall("add.accumulate", lambda: jnp.add.accumulate(1.0), ShapeError, ("dimensions",)),
    BadCall("add.accumulate", lambda: jnp.add.accumulate(M, 3), AxisError, ("3",)),
    BadCall("add.reduceat", lambda: jnp.add.reduceat(V, [0, 4]), WeftIndexError, ("index 4",)),
    BadCall("add.reduceat", lambda: jnp.add.reduceat(V, [0.5]), WeftIndexError, ()),
    BadCall("add.reduceat", lambda: jnp.add.reduceat(V, BYTES[None]), WeftIndexError, ("[1,2]",)),
    BadCall("sin.outer", lambda: jnp.sin.outer(V, V), WeftTypeError, ("two operands",)),
    BadCall("add.at", lambda: jnp.add.at(V, [0], inplace=False), WeftTypeError, ("b=None",)),
    BadCall("frompyfunc", lambda: jnp.frompyfunc(3, 1, 1), WeftTypeError, ("a function", "3")),
    BadCall("frompyfunc", lambda: jnp.frompyfunc(abs, 1, 0), WeftValueError, ("nout=0",)),
    BadCall("frompyfunc", lambda: jnp.frompyfunc(abs, 1.5, 1), WeftTypeError, ("nin=1.5",)),
    BadCall(
        "frompyfunc", lambda: jnp.frompyfunc(lambda x: (x, x), 1, 1)(V), WeftTypeError, ("nout=1",)
    ),
    BadCall("vectorize", lambda: jnp.vectorize(jnp.add)(V, M), ShapeError, ("(4,)", "broadcast")),
    BadCall("vectorize", lambda: jnp.vectorize(jnp.sin)("x"), WeftTypeError, ("str",)),
    BadCall(
        "apply_over_axes",
        lambda: jnp.apply_over_axes(lambda x, axis: x[None], M, 0),
        ShapeError,
        ("3 dimensions", "2 or 1"),
    ),
    BadCall("kaiser", lambda: jnp.kaiser(4, V), ShapeError, ("f32[4]",)),
    BadCall("kaiser", lambda: jnp.kaiser(4, 1j), DTypeError, ("real",)),
    BadCall("unpackbits", lambda: jnp.unpackbits(BYTES, count=-20), WeftValueError, ("-20",)),
    BadCall("polymul", lambda: jnp.polymul(V, V[:0]), WeftValueError, ("coefficients",)),
    BadCall("polyint", lambda: jnp.polyint(V, 2, k=[1, 2, 3]), ShapeError, ("3 constants",)),
    BadCall("polyval", lambda: jnp.polyval(1.0, V), ShapeError, ("p has one dimension",)),
    BadCall("polyval", lambda: jnp.polyval(V, V, unroll=0), WeftValueError, ("unroll=0",)),
    BadCall("polyfit", lambda: jnp.polyfit(V, V, -1), WeftValueError, ("deg=-1",)),
    BadCall("polyfit", lambda: jnp.polyfit(V, V[:2], 1), ShapeError, ("f32[2]", "(4,)")),
    BadCall("polyfit", lambda: jnp.polyfit(V, V, 1, w=V[:2]), ShapeError, ("w of type f32[2]",)),
    BadCall("polyfit", lambda: jnp.polyfit(V, V, 3, cov=True), WeftValueError, ("'unscaled'",)),
    BadCall("poly", lambda: jnp.poly(M), ShapeError, ("f32[2,3]", "(n, n)")),
    BadCall("vander", lambda: jnp.vander(M), ShapeError, ("f32[2,3]",)),
    BadCall("mgrid", lambda: jnp.mgrid[3], WeftTypeError, ("slices", "3")),
    BadCall("ogrid", lambda: jnp.ogrid[1:], WeftValueError, ("a slice has an end",)),
    BadCall("r_", lambda: jnp.r_["rc", V], WeftValueError, ("'r'", "alone")),
    BadCall("c_", lambda: jnp.c_[V, "0"], WeftTypeError, ("in front",)),
    BadCall("save", lambda: jnp.save(io.BytesIO(), object()), WeftTypeError, ()),
    BadCall(
        "save",
        lambda: jnp.save(io.BytesIO(), jnp.ones(2, jnp.bfloat16)),
        WeftValueError,
        ("bfloat16",),
    ),
    BadCall("savez", lambda: jnp.savez(io.BytesIO(), V, arr_0=V), WeftValueError, ("'arr_0'",)),
    BadCall("load", lambda: jnp.load(io.BytesIO(b"text")), WeftValueError, ("format",)),
    BadCall("load", lambda: jnp.load("x", mmap_mode="r"), NotImplementedError, ("mmap_mode=",)),
    BadCall(
        "to_device",
        lambda: jnp.ones(2).to_device(jnp.ones(2).device, stream=1),
        NotImplementedError,
        ("stream=",),
    ),
    BadCall(
        "dtypes",
        lambda: jnp.__array_namespace_info__().dtypes(kind="whole"),
        WeftValueError,
        ("'whole'", "'integral'"),
    ),
    BadCall("pad", lambda: jnp.pad(V, 1, "other"), WeftValueError, ("'other'", "'constant'")),
    BadCall("insert", lambda: jnp.insert(V, 9, 1.0), WeftIndexError, ("obj=9", "-4 and 4")),
    BadCall(
        "get", lambda: jnp.asarray(V).at[9].get(fill_value=1), WeftValueError, ("mode='fill'",)
    ),
    BadCall("size", lambda: jnp.size(V, (0, 0)), AxisError, ("twice",)),
    BadCall("asarray", lambda: jnp.asarray(1.0, copy=False), WeftValueError, ("copy=False",)),
    BadCall(
        "asarray",
        lambda: jnp.asarray(jnp.ones(2), dtype="int32", copy=False),
        WeftValueError,
        ("f32[2]", "leave copy=False out"),
    ),
    BadCall("array", lambda: jnp.array(V, copy="no"), WeftTypeError, ("copy='no'", "None")),
]
