"""Fixes of meshes, of placing arrays and of pmap."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.api import meshes
from weft.errors import AxisError, DTypeError, ShapeError, WeftTypeError, WeftValueError

FOUR = np.arange(4, dtype=np.float32)
SIXTEEN = np.arange(16, dtype=np.float32)
DEVICES = weft.devices()
SHARES = FOUR / 6


def elsewhere(fix, program):
    """What a program says that starts with the environment of the fix."""
    environment = os.environ | fix.data["environment"]
    command = [sys.executable, "-c", f"import weft, weft.numpy as jnp; {program}"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class FarMesh:
    """Pickled as a mesh over a device that this process does not have."""

    def __reduce__(self):
        return meshes._find_devices, ("mesh", DEVICES[0].platform, (0, 11))


FAR_MESH = pickle.dumps(FarMesh())


def halves():
    return weft.NamedSharding(weft.make_mesh((2,), ("i",)), P("i"))


def joined(blocks, **options):
    return weft.make_array_from_single_device_arrays((4,), halves(), blocks, **options)


def split(*devices):
    return [weft.device_put(FOUR[2 * i : 2 * i + 2], device) for i, device in enumerate(devices)]


def mapped(function, x=FOUR, **options):
    return weft.pmap(function, "i", **options)(x)


def share(x):
    return x / lax.psum(x, "i")


def scaled(x, n):
    return x * n


def is_double_size(x):
    return x == "16"


PLACED = [
    Fixed(
        "leave may_alias out",
        wrong=lambda: weft.device_put(jnp.ones(2), DEVICES[0], donate=True, may_alias=True),
        fixed=lambda fix: weft.device_put(jnp.ones(2), DEVICES[0], donate=True),
        value=np.ones(2),
        error=WeftValueError,
    ),
    Fixed(
        [
            "pass weft.devices()[0]",
            "or weft.NamedSharding(mesh, weft.P()) for copies on all devices of a mesh",
        ],
        wrong=lambda: weft.make_array_from_callback((4,), None, lambda index: FOUR[index]),
        fixed=lambda fix: [
            weft.make_array_from_callback((4,), weft.devices()[0], lambda index: FOUR[index]),
            [
                shard.data
                for shard in weft.make_array_from_callback(
                    (4,),
                    weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P()),
                    lambda index: FOUR[index],
                ).addressable_shards
            ],
        ],
        value=[FOUR, [FOUR, FOUR]],
        error=WeftTypeError,
    ),
    Fixed(
        "convert it: part.astype(float32)",
        wrong=lambda: weft.make_array_from_callback(
            (4,), halves(), lambda index: FOUR[index].astype("int32" if index[0].start else "f4")
        ),
        fixed=lambda fix: weft.make_array_from_callback(
            (4,),
            halves(),
            lambda index: (
                FOUR[index].astype("int32" if index[0].start else "f4").astype(**fix.data)
            ),
        ),
        value=FOUR,
        error=DTypeError,
    ),
    Fixed(
        "put the block that a device is to hold there: weft.device_put(block, device)",
        wrong=lambda: joined(split(DEVICES[0], DEVICES[2])),
        fixed=lambda fix: joined(
            [
                weft.device_put(block, device)
                for block, device in zip(
                    split(DEVICES[0], DEVICES[2]), fix.data["devices"], strict=True
                )
            ]
        ),
        value=FOUR,
        error=WeftValueError,
    ),
    Fixed(
        "put the block that a device is to hold there: weft.device_put(block, device)",
        wrong=lambda: joined([]),
        fixed=lambda fix: joined(split(*fix.data["devices"])),
        value=FOUR,
        error=WeftValueError,
    ),
]
MESHES = [
    Fixed(
        "or use weft.make_mesh((8,), ('i',))",
        wrong=lambda: weft.make_mesh((16,), ("i",)),
        fixed=lambda fix: np.array(weft.make_mesh((8,), ("i",)).devices.size),
        value=8,
        error=WeftValueError,
    ),
    Fixed(
        "set the environment variable WEFT_NUM_CPU_DEVICES=16 before the program starts",
        wrong=lambda: weft.make_mesh((16,), ("i",)),
        fixed=lambda fix: elsewhere(fix, "print(weft.make_mesh((16,), ('i',)).devices.size)"),
        value=is_double_size,
        error=WeftValueError,
    ),
    Fixed(
        "pass devices[:2]",
        wrong=lambda: weft.make_mesh((2,), ("i",), devices=DEVICES[:3]),
        fixed=lambda fix: np.array(
            weft.make_mesh((2,), ("i",), devices=DEVICES[:3][:2]).devices.size
        ),
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        ["pass 4 devices", "or use axis_shapes=(3,)"],
        wrong=lambda: weft.make_mesh((4,), ("i",), devices=DEVICES[:3]),
        fixed=lambda fix: [
            np.array(weft.make_mesh((4,), ("i",), devices=DEVICES[:4]).devices.size),
            np.array(weft.make_mesh((3,), ("i",), devices=DEVICES[:3]).devices.size),
        ],
        value=[4, 3],
        error=WeftValueError,
    ),
    Fixed(
        "or use axis_shapes=(2, 1) and devices[:2]",
        wrong=lambda: weft.make_mesh((2, 2), ("i", "j"), devices=DEVICES[:3]),
        fixed=lambda fix: np.array(
            weft.make_mesh((2, 1), ("i", "j"), devices=DEVICES[:3][:2]).devices.shape
        ),
        value=np.array([2, 1]),
        error=WeftValueError,
    ),
    Fixed(
        "set the environment variable WEFT_NUM_CPU_DEVICES=12",
        wrong=lambda: pickle.loads(FAR_MESH),
        fixed=lambda fix: elsewhere(
            fix, f"import pickle; print(*(d.id for d in pickle.loads({FAR_MESH!r})))"
        ),
        value=lambda said: said == "0 11",
        error=WeftValueError,
    ),
]
PMAP = [
    Fixed(
        "write pmap(f, axis_name='i')",
        wrong=lambda: weft.pmap("i", share),
        fixed=lambda fix: weft.pmap(share, axis_name="i")(FOUR),
        value=SHARES,
        error=WeftTypeError,
    ),
    Fixed(
        "pass axis_name='i'",
        wrong=lambda: weft.pmap(share, ("i",))(FOUR),
        fixed=lambda fix: weft.pmap(share, **fix.data)(FOUR),
        value=SHARES,
        error=WeftTypeError,
    ),
    Fixed(
        ["use weft.vmap inside", "or one weft.shard_map over a mesh with both axes"],
        wrong=lambda: mapped(lambda row: weft.pmap(jnp.sin)(row), FOUR.reshape(2, 2)),
        fixed=lambda fix: [
            mapped(lambda row: weft.vmap(jnp.sin)(row), FOUR.reshape(2, 2)),
            weft.shard_map(
                jnp.sin,
                mesh=weft.make_mesh((2, 2), ("i", "j")),
                in_specs=P("i", "j"),
                out_specs=P("i", "j"),
            )(FOUR.reshape(2, 2)),
        ],
        value=[np.sin(FOUR).reshape(2, 2)] * 2,
        error=WeftValueError,
    ),
    Fixed(
        "pass out_axes=0",
        wrong=lambda: mapped(share, out_axes=1),
        fixed=lambda fix: mapped(share, **fix.data),
        value=SHARES,
        error=AxisError,
    ),
    Fixed(
        "give the result an axis in out_axes",
        wrong=lambda: mapped(share, out_axes=None),
        fixed=lambda fix: mapped(share, **fix.data),
        value=SHARES,
        error=AxisError,
    ),
    Fixed(
        ["or reduce it with lax.psum", "or lax.pmean over axis_name"],
        wrong=lambda: mapped(lambda x: 2 * x, out_axes=None),
        fixed=lambda fix: [
            mapped(lambda x: lax.psum(2 * x, "i"), out_axes=None),
            mapped(lambda x: lax.pmean(2 * x, "i"), out_axes=None),
        ],
        value=[12.0, 3.0],
        error=AxisError,
    ),
    Fixed(
        "use weft.vmap, which takes an empty axis",
        wrong=lambda: weft.pmap(jnp.sin)(FOUR[:0]),
        fixed=lambda fix: weft.vmap(jnp.sin)(FOUR[:0]),
        value=np.zeros(0),
        error=ShapeError,
    ),
    Fixed(
        "or map 8 slices at most",
        wrong=lambda: mapped(share, SIXTEEN),
        fixed=lambda fix: mapped(share, SIXTEEN[: fix.data["size"]]),
        value=SIXTEEN[:8] / 28,
        error=WeftValueError,
    ),
    Fixed(
        "map 2 slices at most",
        wrong=lambda: mapped(share, devices=DEVICES[:2]),
        fixed=lambda fix: mapped(share, FOUR[: fix.data["size"]], devices=DEVICES[:2]),
        value=np.array([0, 1]),
        error=WeftValueError,
    ),
    Fixed(
        "set the environment variable WEFT_NUM_CPU_DEVICES=16 before the program starts",
        wrong=lambda: mapped(share, SIXTEEN),
        fixed=lambda fix: elsewhere(fix, "print(weft.pmap(lambda x: x)(jnp.zeros(16)).size)"),
        value=is_double_size,
        error=WeftValueError,
    ),
    Fixed(
        "leave axis_size out where an argument is mapped",
        wrong=lambda: mapped(share, axis_size=4.0),
        fixed=lambda fix: mapped(share),
        value=SHARES,
        error=WeftTypeError,
    ),
    Fixed(
        "pass static_broadcasted_argnums=(0,) for the first argument",
        wrong=lambda: weft.pmap(scaled, static_broadcasted_argnums="n")(FOUR, 2),
        fixed=lambda fix: weft.pmap(lambda n, x: scaled(x, n), static_broadcasted_argnums=(0,))(
            2, FOUR
        ),
        value=2 * FOUR,
        error=WeftTypeError,
    ),
]
FIXES = PLACED + MESHES + PMAP
