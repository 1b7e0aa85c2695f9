"""Fixes of `weft.show` and of the pictures that it returns."""

from __future__ import annotations

import pathlib
import tempfile

import numpy as np

import weft
from fixes import Fixed
from weft.errors import WeftTypeError, WeftValueError
from weft.sharding import NamedSharding, P

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def has(text):
    return lambda found: text in str(found)


def mesh():
    return weft.make_mesh((3,), ("i",))


def double(x):
    return 2 * x


def saved(suffix):
    """The name of the file that a picture is saved as; it stands in a folder for a while."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, f"picture{suffix}")
        weft.show(mesh()).save(path)
        return path.name


FIXES = [
    Fixed(
        "pass mesh=weft.make_mesh(axis_shapes, axis_names)",
        wrong=lambda: weft.show(P("i"), (3,)),
        fixed=lambda fix: weft.show(P("i"), (3,), **{fix.data["argument"]: mesh()}),
        value=has("CPU 2"),
        error=WeftTypeError,
    ),
    Fixed(
        "pass the shape of an array, such as (8, 8)",
        wrong=lambda: weft.show(NamedSharding(mesh(), P("i"))),
        fixed=lambda fix: weft.show(NamedSharding(mesh(), P("i")), **{fix.data["argument"]: (3,)}),
        value=has("CPU 2"),
        error=WeftTypeError,
    ),
    Fixed(
        "record it first: weft.show(weft.make_jaxpr(f)(*args))",
        wrong=lambda: weft.show(double),
        fixed=lambda fix: weft.show(weft.make_jaxpr(double)(THREE)),
        value=has("mul"),
        error=WeftTypeError,
    ),
    Fixed(
        "put it on a device: weft.show(weft.device_put(x))",
        wrong=lambda: weft.show(THREE),
        fixed=lambda fix: weft.show(weft.device_put(THREE)),
        value=has("CPU 0"),
        error=WeftTypeError,
    ),
    Fixed(
        "say where it lies: ShapeDtypeStruct(shape, dtype, sharding=...)",
        wrong=lambda: weft.show(weft.ShapeDtypeStruct((3,), "float32")),
        fixed=lambda fix: weft.show(
            weft.ShapeDtypeStruct((3,), "float32", sharding=NamedSharding(mesh(), P("i")))
        ),
        value=has("CPU 2"),
        error=WeftTypeError,
    ),
    Fixed(
        "read it: weft.show(ref[...])",
        wrong=lambda: weft.show(weft.new_ref(weft.device_put(THREE))),
        fixed=lambda fix: weft.show(weft.new_ref(weft.device_put(THREE))[...]),
        value=has("CPU 0"),
        error=WeftTypeError,
    ),
    Fixed(
        "one by one: weft.tree.map(weft.show, x)",
        wrong=lambda: weft.show([weft.device_put(THREE)]),
        fixed=lambda fix: weft.tree.map(weft.show, [weft.device_put(THREE)])[0],
        value=has("CPU 0"),
        error=WeftTypeError,
    ),
    Fixed(
        "picture.html'",
        wrong=lambda: saved(".png"),
        fixed=lambda fix: saved(pathlib.Path(fix.data["path"]).suffix),
        value=lambda found: found == "picture.html",
        error=WeftValueError,
    ),
    Fixed(
        "use the attribute html",
        wrong=lambda: weft.show(weft.make_jaxpr(double)(THREE)).svg,
        fixed=lambda fix: getattr(weft.show(weft.make_jaxpr(double)(THREE)), fix.data["attribute"]),
        value=has("weft-jaxpr"),
        error=WeftValueError,
    ),
]
