"""`weft.show`: where an array lies, what a mesh is, and what a program does, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.analysis.array_html import array_html
from weft.analysis.comms_rows import size_in_bytes
from weft.analysis.picture_forms import JaxprPicture, LayoutPicture, Picture
from weft.arrays.array import Array
from weft.core.axes import mesh_axes
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.trace import Tracer, leaked
from weft.debug.block_layouts import Block, BlockLayout, layout_of, layout_over
from weft.errors import Fix, WeftTypeError, api_boundary
from weft.refs.reference import Ref
from weft.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from weft.sharding.context import mesh_in_force
from weft.sharding.mesh import AnyMesh
from weft.sharding.names import quote_names
from weft.sharding.sharding import checked_shape
from weft.spmd.block_tracers import BlockValue
from weft.spmd.simulated import SimulationTracer

# Values of blocks that are larger, or lie on more devices, are not shown.
_MOST_ELEMENTS = 6
_MOST_BLOCKS = 64


@api_boundary
def show(x: Any, shape: Sequence[int] | None = None, *, mesh: AnyMesh | None = None) -> Picture:
    """Returns a picture of an array on its devices, of a mesh, or of a program.

    `x` is one of these:

    - an array, of any rank: which device holds which block;
    - a value inside `shard_map`: along which mesh axes it differs, and small blocks with their
      values where the `shard_map` runs eagerly; any other traced value: what is known of it;
    - a sharding, or a PartitionSpec over `mesh` (the mesh in force by default), for arrays of
      `shape`; a ShapeDtypeStruct with a sharding. The mesh may be an AbstractMesh, whose devices
      are numbered by their places in it;
    - a mesh;
    - a jaxpr: `weft.show(weft.make_jaxpr(f)(*args))`.

    shape: the lengths of the arrays, for a sharding or a PartitionSpec; mesh: the mesh of a
    PartitionSpec, by default the one in force. If you print the result, it is text. A notebook
    shows a picture (SVG), or for a jaxpr a page whose inner programs open, with types, lines and
    costs. `save` writes it to a file; `text`, `svg` and `html` are the texts. If there are too many
    devices for a picture, the middle is left out.

    Raises WeftTypeError for anything that has no picture and if a shape or a mesh is missing, and
    ShapeError if the shape cannot be split like that.

    >>> from weft.sharding import AbstractMesh, P
    >>> weft.show(P("j", None), (8, 6), mesh=AbstractMesh((4, 2), ("i", "j")))
    (8, 6) over AbstractMesh('i': 4, 'j': 2) as P('j', None)
    ↓ dimension 0: 2 blocks of 4, over 'j'
    → dimension 1: 6, whole
    each block (4, 6), on 4 devices
                0:6
        ┌────────────────┐
    0:4 │ device 0,2,4,6 │
        ├────────────────┤
    4:8 │ device 1,3,5,7 │
        └────────────────┘
    """
    if isinstance(x, ClosedJaxpr | Jaxpr):
        return JaxprPicture(x.jaxpr if isinstance(x, ClosedJaxpr) else x)
    if isinstance(x, AnyMesh):
        return _of_mesh(x)
    if isinstance(x, Tracer):
        return _of_tracer(x)
    if type(x) is Array:
        return _of_sharding(x.sharding, x.shape, x.type)
    if isinstance(x, ShapeDtypeStruct) and x.sharding is not None:
        return _of_sharding(x.sharding, x.shape, x.type)
    if isinstance(x, PartitionSpec):
        over = mesh_in_force() if mesh is None else mesh
        if over is None or over.empty:
            raise _incomplete(x, "mesh", "pass mesh=weft.make_mesh(axis_shapes, axis_names)")
        x = NamedSharding(over, x)
    if isinstance(x, Sharding):
        if shape is None:
            raise _incomplete(x, "shape", "pass the shape of an array, such as (8, 8)")
        return _of_sharding(x, checked_shape("show", shape), None)
    raise _no_picture(x)


def in_notebook(x: Any) -> str | None:
    """A notebook's view of an array (values, and a picture of several devices), a mesh, a sharding
    or a jaxpr; None for a number."""
    if type(x) is not Array:
        return (_of_smallest(x) if isinstance(x, NamedSharding) else show(x)).html
    if x.is_deleted() or x.sharding.num_devices == 1:
        return array_html(x) if x.ndim else None
    return array_html(x, show(x).html)


def _of_smallest(sharding: NamedSharding) -> LayoutPicture:
    """A sharding without an array: shows an array with one element per block."""
    spec, mesh = sharding.spec, sharding.mesh
    lengths = [prod(map(mesh.axis_size, spec.entry_axes(d))) for d in range(len(spec))]
    layout = layout_of(lengths, sharding, abstract=True)
    notes = [_dimension(d, layout, lengths, sharding) for d in range(len(lengths))]
    notes.append("of an array with one element in each block")
    return LayoutPicture(f"{sharding!r}", notes, layout, mesh=mesh)


def _incomplete(x: Any, missing: str, text: str) -> WeftTypeError:
    return WeftTypeError(
        f"show: there is no {missing}",
        got=f"{x!r:.200} without a {missing}",
        wanted="a sharding and a shape, or a spec, a shape and a mesh",
        fix=Fix(missing, text, {"argument": missing}),
    )


def _no_picture(x: Any) -> WeftTypeError:
    fix: Fix | None
    if callable(x):
        fix = Fix("make_jaxpr", "record it first: weft.show(weft.make_jaxpr(f)(*args))")
    elif isinstance(x, ShapeDtypeStruct):
        fix = Fix("sharding", "say where it lies: ShapeDtypeStruct(shape, dtype, sharding=...)")
    elif isinstance(x, Ref):
        fix = Fix("read", "read it: weft.show(ref[...])")
    elif isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        fix = Fix("device_put", "put it on a device: weft.show(weft.device_put(x))")
    elif isinstance(x, list | tuple | dict):
        fix = Fix("leaves", "show its arrays one by one: weft.tree.map(weft.show, x)")
    else:
        fix = None
    return WeftTypeError(
        "show: there is no picture of this value",
        got=f"{x!r:.100} ({type(x).__name__})",
        wanted="a weft.Array, a sharding or a spec with a shape, a mesh, or a jaxpr",
        fix=fix,
    )


# ---- arrays and shardings ----------------------------------------------------------------------


def _of_sharding(sharding: Sharding, shape: tuple[int, ...], type: Any) -> LayoutPicture:
    sharding.check_shape("show", "an array", shape)
    layout = layout_of(shape, sharding, abstract=True)
    mesh = None
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        place = f"over {sharding.mesh!r} as {sharding.spec!r}"
    elif isinstance(sharding, SingleDeviceSharding):
        place = f"on {sharding.device}"
    else:
        place = f"as {sharding!r}"
    notes = [_dimension(d, layout, shape, sharding) for d in range(len(shape))]
    notes.append(_block(layout, type))
    what = repr(shape if type is None else type)
    return LayoutPicture(f"{what} {place}", notes, layout, mesh=mesh)


def _dimension(d: int, layout: BlockLayout, shape: Sequence[int], sharding: Sharding) -> str:
    """How one dimension is split, after a sign of its direction in the picture."""
    view, count = layout.split_two, layout.counts[d]
    sign = "↓" if d == view.rows else "→" if d == view.columns else "·"
    if count == 1:
        return f"{sign} dimension {d}: {shape[d]:,}, whole"
    axes = sharding.spec.entry_axes(d) if isinstance(sharding, NamedSharding) else ()
    over = f", over {quote_names(axes)}" if axes else ""
    each = ", a table for each" if sign == "·" else ""
    return f"{sign} dimension {d}: {count:,} blocks of {layout.lengths[d]:,}{over}{each}"


def _block(layout: BlockLayout, type: Any) -> str:
    """The shape of a block, and the number of devices that hold each."""
    copies = len(next(iter(layout.holders.values())))
    what = repr(layout.lengths)
    if type is not None:
        block = type.update(shape=layout.lengths)
        what = f"{block!r} of {size_in_bytes(block):,} bytes"
    whole = "the whole array," if len(layout.holders) == 1 else "each block"
    return f"{whole} {what}, on {copies:,} device{'s' * (copies > 1)}"


# ---- meshes and values inside shard_map --------------------------------------------------------


def _axis_notes(mesh: AnyMesh, axes: Sequence[str], layout: BlockLayout) -> list[str]:
    view = layout.split_two
    signs = {view.rows: "↓", view.columns: "→"}
    return [
        f"{signs.get(d, '·')} axis {axis!r}: {mesh.shape[axis]:,}"
        + ("" if d in signs else ", a table for each index")
        for d, axis in enumerate(axes)
    ]


def _of_mesh(mesh: AnyMesh) -> LayoutPicture:
    layout = layout_over(mesh, mesh.axis_names)
    notes = _axis_notes(mesh, mesh.axis_names, layout)
    devices = f"{mesh.size:,} device{'s' * (mesh.size > 1)}"
    return LayoutPicture(f"{mesh!r} of {devices}", notes, layout, mesh=mesh)


def _of_tracer(x: Tracer) -> Picture:
    if not x._trace.alive:
        raise leaked(x)
    if isinstance(x, BlockValue):
        return _of_blocks(x)
    known = x.concrete()
    if type(known) is Array:
        return show(known)
    bound = mesh_axes()
    if not bound:
        note = "which devices hold it is decided when the function is compiled"
        return LayoutPicture(x.describe(), [note])
    return _varying(bound[-1].mesh, x, x.describe(), [])


def _of_blocks(x: BlockValue) -> Picture:
    """Blocks of an eager shard_map."""
    mesh = x._trace.manual.mesh
    notes = []
    if isinstance(x, SimulationTracer):
        mesh = mesh.abstract_mesh
        notes = ["simulated on one device"]
    return _varying(mesh, x, f"a block {x.type!r} on each of {mesh.size:,} devices", notes)


def _varying(mesh: AnyMesh, x: Tracer, title: str, notes: list[str]) -> LayoutPicture:
    """The devices of a mesh, with equal blocks in one cell."""
    axes = [axis for axis in mesh.axis_names if axis in x.type.varying]
    layout = layout_over(mesh, axes)
    equal = [axis for axis in mesh.axis_names if axis not in axes]
    notes = [f"over {mesh!r}", *notes, *_axis_notes(mesh, axes, layout)]
    if equal:
        notes.append(f"equal along {quote_names(equal)}")
    return LayoutPicture(title, notes, layout, _values(x, axes), mesh)


def _values(x: Tracer, axes: Sequence[str]) -> dict[Block, str]:
    """The values of small blocks, by their indices along varying axes."""
    if not isinstance(x, BlockValue) or x.type.size > _MOST_ELEMENTS:
        return {}
    if x._trace.manual.mesh.size > _MOST_BLOCKS:
        return {}
    out: dict[Block, str] = {}
    for where, value in x.blocks() or ():
        text = np.array2string(np.asarray(value), separator=", ", precision=4)
        out.setdefault(tuple(where[axis] for axis in axes), " ".join(text.split()))
    return out
