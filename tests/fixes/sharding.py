"""Fixes of meshes, specs, shardings and layouts."""

from __future__ import annotations

import numpy as np

import weft
from fixes import Fixed
from weft import sharding
from weft.errors import (
    AxisError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import (
    AbstractMesh,
    Format,
    Layout,
    Mesh,
    NamedSharding,
    PartitionSpec,
    SingleDeviceSharding,
    TiledSharding,
)

MESH = AbstractMesh((2, 3), ("i", "j"))
A = np.arange(6, dtype=np.float32).reshape(2, 3)
COLUMNS = Layout((1, 0))


def pair():
    return weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])


def split(*entries, **options):
    return NamedSharding(pair(), PartitionSpec(*entries, **options))


def entered(mesh):
    with sharding.use_mesh(mesh):
        return sharding.get_mesh().axis_sizes


def tiled(assignment):
    return TiledSharding(weft.devices()[:2], assignment)


def ids(mesh):
    return mesh.device_ids


MESHES = [
    Fixed(
        "make one with weft.make_mesh(axis_shapes, axis_names)",
        wrong=lambda: entered("i"),
        fixed=lambda fix: entered(weft.make_mesh((2,), "i")),
        value=[2],
        error=WeftTypeError,
    ),
    Fixed(
        "or use weft.make_mesh((8, 1), ('i', 'j'))",
        wrong=lambda: weft.make_mesh((9, 2), ("i", "j")),
        fixed=lambda fix: ids(weft.make_mesh((8, 1), ("i", "j"))),
        value=np.arange(8).reshape(8, 1),
        error=WeftValueError,
    ),
    Fixed(
        "use weft.devices()",
        wrong=lambda: Mesh([], "i"),
        fixed=lambda fix: ids(Mesh(weft.devices(), "i")),
        value=np.arange(8),
        error=WeftValueError,
    ),
    Fixed(
        "leave the repetitions out: that makes 2",
        wrong=lambda: Mesh(weft.devices()[:2] * 2, "i"),
        fixed=lambda fix: ids(Mesh(fix.data["devices"], "i")),
        value=np.arange(2),
        error=WeftValueError,
    ),
    Fixed(
        "np.array(weft.devices()[:4]).reshape(2, 2)",
        wrong=lambda: Mesh([weft.devices()[:2], weft.devices()[2:3]], ("i", "j")),
        fixed=lambda fix: ids(Mesh(np.array(weft.devices()[:4]).reshape(2, 2), ("i", "j"))),
        value=np.arange(4).reshape(2, 2),
        error=ShapeError,
    ),
    Fixed(
        "use Mesh([device], ('i',))",
        wrong=lambda: Mesh(weft.devices()[1], ()),
        fixed=lambda fix: ids(Mesh([weft.devices()[1]], ("i",))),
        value=[1],
        error=WeftValueError,
    ),
    Fixed(
        "write the lengths as integers, such as (4, 2)",
        wrong=lambda: weft.make_mesh((4.0, 2.0), ("i", "j")),
        fixed=lambda fix: ids(weft.make_mesh((4, 2), ("i", "j"))),
        value=np.arange(8).reshape(4, 2),
        error=WeftTypeError,
    ),
    Fixed(
        "use axis_names=('i', 'axis_1')",
        wrong=lambda: weft.make_mesh((4, 2), "i"),
        fixed=lambda fix: weft.make_mesh((4, 2), axis_names=("i", "axis_1")).shape["axis_1"],
        value=2,
        error=ShapeError,
    ),
    Fixed(
        "use axis_names=('axis_1', 'axis_1_1')",
        wrong=lambda: AbstractMesh((4, 2), "axis_1"),
        fixed=lambda fix: AbstractMesh((4, 2), axis_names=("axis_1", "axis_1_1")).axis_sizes,
        value=[4, 2],
        error=ShapeError,
    ),
    Fixed(
        "use lengths such as (1, 2)",
        wrong=lambda: AbstractMesh((0, 2), ("i", "j")),
        fixed=lambda fix: AbstractMesh((1, 2), ("i", "j")).size,
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        "leave axis_types out",
        wrong=lambda: weft.make_mesh((8,), "i", (sharding.AxisType.Explicit,)),
        fixed=lambda fix: ids(weft.make_mesh((8,), "i")),
        value=np.arange(8),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "use ('i',)",
        wrong=lambda: MESH.axis_size(("i", "k")),
        fixed=lambda fix: MESH.axis_size(("i",)),
        value=2,
        error=AxisError,
    ),
    Fixed(
        "use weft.make_mesh((2, 3), ('i', 'j'))",
        wrong=lambda: MESH.device_ids,
        fixed=lambda fix: weft.make_mesh((2, 3), ("i", "j")).device_ids,
        value=np.arange(6).reshape(2, 3),
        error=WeftValueError,
    ),
    Fixed(
        "use axis_names=('axis_0', 'axis_0_1')",
        wrong=lambda: AbstractMesh((2, 3), (0, "axis_0")),
        fixed=lambda fix: AbstractMesh((2, 3), axis_names=("axis_0", "axis_0_1")).axis_sizes,
        value=[2, 3],
        error=WeftTypeError,
    ),
    Fixed(
        "use axis_names=('i', 'i_1')",
        wrong=lambda: AbstractMesh((2, 3), ("i", "i")),
        fixed=lambda fix: AbstractMesh((2, 3), axis_names=("i", "i_1")).shape["i_1"],
        value=3,
        error=AxisError,
    ),
]

LAYOUTS = [
    Fixed(
        "row-major is (0, 1)",
        wrong=lambda: Layout((0, 0)),
        fixed=lambda fix: Layout((0, 1)).is_row_major,
        value=True,
        error=WeftValueError,
    ),
    Fixed(
        "pass major_to_minor=(0, 1) for row-major",
        wrong=lambda: Layout("C"),
        fixed=lambda fix: Layout(major_to_minor=(0, 1)).is_row_major,
        value=True,
        error=WeftTypeError,
    ),
    Fixed(
        "pass tiling=((8, 128),), or leave tiling out",
        wrong=lambda: Layout((0, 1), tiling=(8, 128)),
        fixed=lambda fix: [Layout((0, 1), tiling=((8, 128),)).tiling, Layout((0, 1)).tiling],
        value=[((8, 128),), ()],
        error=WeftTypeError,
    ),
    Fixed(
        "such as Layout((0, 1))",
        wrong=lambda: weft.device_put(A, Format(Layout((0,)), weft.devices()[0])),
        fixed=lambda fix: weft.device_put(A, Format(Layout((0, 1)), weft.devices()[0])),
        value=A,
        error=ShapeError,
    ),
    Fixed(
        "pass Layout(major_to_minor=(1, 0))",
        wrong=lambda: Format((1, 0), weft.devices()[0]),
        fixed=lambda fix: (
            Format(Layout(major_to_minor=(1, 0)), weft.devices()[0]).layout is COLUMNS
        ),
        value=True,
        error=WeftTypeError,
    ),
    Fixed(
        "pass NamedSharding(mesh, spec), or x.sharding of an array",
        wrong=lambda: Format(COLUMNS, PartitionSpec("i")),
        fixed=lambda fix: weft.device_put(
            A, Format(COLUMNS, NamedSharding(pair(), PartitionSpec("i")))
        ),
        value=A,
        error=WeftTypeError,
    ),
    Fixed(
        "pass Format(layout, SingleDeviceSharding(weft.devices()[0]))",
        wrong=lambda: weft.device_put(A, Format(COLUMNS)),
        fixed=lambda fix: weft.device_put(
            A, Format(fix.data["layout"], SingleDeviceSharding(weft.devices()[0]))
        ),
        value=A,
        error=WeftValueError,
    ),
]

SHARDINGS = [
    Fixed(
        "make one with weft.make_mesh(axis_shapes, axis_names)",
        wrong=lambda: NamedSharding(weft.devices()[:2], PartitionSpec("i")),
        fixed=lambda fix: NamedSharding(
            weft.make_mesh((2,), ("i",)), PartitionSpec("i")
        ).shard_shape((4,)),
        value=[2],
        error=WeftTypeError,
    ),
    Fixed(
        "use P('i', None)",
        wrong=lambda: NamedSharding(pair(), ("i", None)),
        fixed=lambda fix: split("i", None).shard_shape((4, 3)),
        value=[2, 3],
        error=WeftTypeError,
    ),
    Fixed(
        "use P()",
        wrong=lambda: NamedSharding(pair(), 0),
        fixed=lambda fix: split().shard_shape((4, 3)),
        value=[4, 3],
        error=WeftTypeError,
    ),
    Fixed(
        "use spec.update(sum=())",
        wrong=lambda: split(None, sum="i"),
        fixed=lambda fix: NamedSharding(
            pair(), PartitionSpec(None, sum="i").update(sum=())
        ).shard_shape((4,)),
        value=[4],
        error=WeftValueError,
    ),
    Fixed(
        "use P('i')",
        wrong=lambda: weft.device_put(A[:, 0], split("i", None)),
        fixed=lambda fix: weft.device_put(A[:, 0], NamedSharding(pair(), fix.data["spec"])),
        value=A[:, 0],
        error=ShapeError,
    ),
    Fixed(
        "pad dimension 1 to 4, or use P(None, None)",
        wrong=lambda: weft.device_put(A, split(None, "i")),
        fixed=lambda fix: [
            weft.device_put(np.pad(A, ((0, 0), (0, 1))), split(None, "i"))[:, :3],
            weft.device_put(A, split(None, None)),
        ],
        value=[A, A],
        error=ShapeError,
    ),
    Fixed(
        "use P(None, 'i')",
        wrong=lambda: weft.device_put(A.T, split(PartitionSpec.UNCONSTRAINED, "i")),
        fixed=lambda fix: weft.device_put(A.T, split(None, "i")),
        value=A.T,
        error=WeftValueError,
    ),
    Fixed(
        "use 'j' instead of 'k'",
        wrong=lambda: NamedSharding(MESH, PartitionSpec("i", "k")),
        fixed=lambda fix: NamedSharding(MESH, PartitionSpec("i", "j")).shard_shape((2, 3)),
        value=[1, 1],
        error=AxisError,
    ),
    Fixed(
        "leave 'ii' out",
        wrong=lambda: split("i", "ii"),
        fixed=lambda fix: split("i").shard_shape((2, 3)),
        value=[1, 3],
        error=AxisError,
    ),
    Fixed(
        "use P('i', 'j')",
        wrong=lambda: PartitionSpec("i", ("i", "j")),
        fixed=lambda fix: NamedSharding(MESH, PartitionSpec("i", "j")).shard_shape((2, 3)),
        value=[1, 1],
        error=AxisError,
    ),
    Fixed(
        "write the name of a mesh axis, or None, for dimension 0",
        wrong=lambda: split(0, "i"),
        fixed=lambda fix: split(None, "i").shard_shape((4, 2)),
        value=[4, 1],
        error=WeftTypeError,
    ),
    Fixed(
        "leave sum out",
        wrong=lambda: PartitionSpec("i", sum=1),
        fixed=lambda fix: PartitionSpec("i").sum,
        value=(),
        error=WeftTypeError,
    ),
    Fixed(
        "use x.shape",
        wrong=lambda: split("i").shard_shape(A),
        fixed=lambda fix: split("i").shard_shape(A.shape),
        value=[1, 3],
        error=WeftTypeError,
    ),
    Fixed(
        "pad dimension 0 to 4, or do not split it",
        wrong=lambda: weft.device_put(A.T, tiled([[[0]], [[1]]])),
        fixed=lambda fix: weft.device_put(np.pad(A.T, ((0, 1), (0, 0))), tiled([[[0]], [[1]]]))[:3],
        value=A.T,
        error=ShapeError,
    ),
    Fixed(
        "use it for arrays of rank 1",
        wrong=lambda: weft.device_put(A, tiled([[0], [1]])),
        fixed=lambda fix: weft.device_put(A.reshape(-1), tiled([[0], [1]])),
        value=A.reshape(-1),
        error=ShapeError,
    ),
    Fixed(
        "use None for a copy on each device",
        wrong=lambda: tiled("01"),
        fixed=lambda fix: weft.device_put(A, tiled(None)),
        value=A,
        error=WeftTypeError,
    ),
    Fixed(
        "use None for a copy on each device",
        wrong=lambda: tiled([[0], [0]]),
        fixed=lambda fix: weft.device_put(A, tiled(None)),
        value=A,
        error=WeftValueError,
    ),
]

FIXES = MESHES + LAYOUTS + SHARDINGS
