"""Fixes of where programs run, and of shardings as XLA writes them."""

from __future__ import annotations

import numpy as np

import weft
from fixes import Fixed
from weft import NamedSharding, P
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.extend.sharding import XlaSharding, from_xla, to_xla
from weft.sharding import AbstractMesh

X = np.arange(4, dtype=np.float32)


def mesh(first=0, count=2):
    """A mesh of a few devices, from one of them on."""
    return weft.make_mesh((count,), ("i",), devices=weft.devices()[first : first + count])


def split(first=0, count=2):
    return NamedSharding(mesh(first, count), P("i"))


def doubled(mesh, **options):
    mapped = weft.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return weft.jit(mapped, **options)


def twice_doubled(first, second):
    return weft.jit(lambda x: doubled(second)(doubled(first)(x)))(X)


def added(x, y, **options):
    return weft.jit(lambda x, y: x + y, **options)(x, y)


def closing(y):
    return weft.jit(lambda x: doubled(mesh())(x) + y)(X)


def blocks(sharding):
    """Which elements of eight each device holds."""
    found = sharding.devices_indices_map((8,))
    return [list(range(8))[index[0]] for index in found.values()]


PLACES = [
    Fixed(
        [
            "use weft.make_mesh((2,), ('i',)), or trace only",
            "or trace only (weft.make_jaxpr, weft.eval_shape)",
        ],
        wrong=lambda: doubled(AbstractMesh((2,), ("i",)))(X),
        fixed=lambda fix: [
            doubled(weft.make_mesh((2,), ("i",)))(X),
            [
                weft.eval_shape(doubled(AbstractMesh((2,), ("i",))), X).shape,
                weft.make_jaxpr(doubled(AbstractMesh((2,), ("i",))))(X).out_avals[0].shape,
            ],
        ],
        value=[2 * X, [(4,), (4,)]],
        error=WeftValueError,
    ),
    Fixed(
        "use one mesh for all of it",
        wrong=lambda: twice_doubled(mesh(), mesh(2)),
        fixed=lambda fix: twice_doubled(mesh(), mesh()),
        value=4 * X,
        error=WeftValueError,
    ),
    Fixed(
        "move one of them: weft.device_put(y, x.sharding)",
        wrong=lambda: added(*apart()),
        fixed=lambda fix: (lambda x, y: added(x, weft.device_put(y, x.sharding)))(*apart()),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "move it there: weft.device_put(x, ",
        wrong=lambda: doubled(mesh())(weft.device_put(X, split(2))),
        fixed=lambda fix: doubled(mesh())(
            weft.device_put(weft.device_put(X, split(2)), fix.data["device"])
        ),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "move it there: weft.device_put(x, ",
        wrong=lambda: closing(weft.device_put(X, split(2))),
        fixed=lambda fix: closing(
            weft.device_put(weft.device_put(X, split(2)), fix.data["device"])
        ),
        value=3 * X,
        error=WeftValueError,
    ),
    Fixed(
        "weft.device_put(y, x.sharding), and say so in in_shardings",
        wrong=lambda: added(X, X, in_shardings=tuple(weft.devices()[:2])),
        fixed=lambda fix: (
            lambda x, y: added(
                x, weft.device_put(y, x.sharding), in_shardings=(x.sharding, x.sharding)
            )
        )(weft.device_put(X, weft.devices()[0]), X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "NamedSharding(Mesh('i': 2), P())), and say so in in_shardings",
        wrong=lambda: doubled(mesh(2), in_shardings=weft.devices()[0])(X),
        fixed=lambda fix: doubled(mesh(2), in_shardings=fix.data["device"])(
            weft.device_put(X, fix.data["device"])
        ),
        value=2 * X,
        error=WeftValueError,
    ),
]


def apart():
    return weft.device_put(X, split()), weft.device_put(X, split(2))


XLA = [
    Fixed(
        'XlaSharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}")',
        wrong=lambda: XlaSharding("tiled", (2, 1, 2), (0, 1, 2), ("replicated",)),
        fixed=lambda fix: (
            XlaSharding.parse("{devices=[2,1,2]<=[4] last_tile_dim_replicate}").assignment
        ),
        value=np.arange(4).reshape(2, 1, 2),
        error=WeftValueError,
    ),
    Fixed(
        "write it as in the HLO of a program",
        wrong=lambda: XlaSharding.parse("replicated"),
        fixed=lambda fix: XlaSharding.parse(fix.data["text"]).kind == "replicated",
        value=True,
        error=WeftValueError,
    ),
    Fixed(
        "leave ndim out",
        wrong=lambda: to_xla(weft.device_put(X, split()), ndim=2),
        fixed=lambda fix: to_xla(weft.device_put(X, split())).assignment,
        value=np.arange(2),
        error=WeftTypeError,
    ),
    Fixed(
        "pass the sharding that it is to have, and x.ndim",
        wrong=lambda: to_xla(X),
        fixed=lambda fix: to_xla(split(), X.ndim).assignment,
        value=np.arange(2),
        error=WeftTypeError,
    ),
    Fixed(
        "pass ndim=x.ndim",
        wrong=lambda: to_xla(split()),
        fixed=lambda fix: to_xla(split(), ndim=X.ndim).assignment,
        value=np.arange(2),
        error=WeftTypeError,
    ),
    Fixed(
        "leave devices out",
        wrong=lambda: to_xla(split(), 1, devices=weft.devices()[2:4]),
        fixed=lambda fix: to_xla(split(), 1).assignment,
        value=np.arange(2),
        error=WeftValueError,
    ),
    Fixed(
        "read the parts instead: source.assignment, source.subgroups",
        wrong=lambda: from_xla(in_part_manual(), weft.devices()),
        fixed=lambda fix: [in_part_manual().assignment, in_part_manual().subgroups == ("manual",)],
        value=[np.arange(8).reshape(2, 4), True],
        error=WeftValueError,
    ),
    Fixed(
        "use weft.devices()",
        wrong=lambda: from_xla("{devices=[8]<=[8]}", []),
        fixed=lambda fix: blocks(from_xla("{devices=[8]<=[8]}", weft.devices())),
        value=[[i] for i in range(8)],
        error=WeftTypeError,
    ),
    Fixed(
        "pass a mesh or devices of that number",
        wrong=lambda: from_xla("{devices=[4]<=[4]}", weft.devices()),
        fixed=lambda fix: [
            blocks(from_xla("{devices=[4]<=[4]}", mesh(count=fix.data["number"]))),
            blocks(from_xla("{devices=[4]<=[4]}", weft.devices()[: fix.data["number"]])),
        ],
        value=[[[0, 1], [2, 3], [4, 5], [6, 7]]] * 2,
        error=ShapeError,
    ),
]


def in_part_manual():
    return XlaSharding.parse("{devices=[2,4]<=[8] last_tile_dims={manual}}")


FIXES = PLACES + XLA
