"""Fixes of shardings and layouts that programs ask for."""

from __future__ import annotations

import numpy as np

import weft
from fixes import Fixed
from weft import NamedSharding, P, lax
from weft.errors import AxisError, WeftTypeError, WeftValueError
from weft.layout import Format, Layout

A = np.arange(16, dtype=np.float32).reshape(4, 4)
COLUMNS = Layout((1, 0))


def mesh():
    return weft.make_mesh((2, 2), ("i", "j"), devices=weft.devices()[:4])


def one():
    return weft.devices()[0]


def sharding(*entries):
    return NamedSharding(mesh(), P(*entries))


def placed(found):
    return found.sharding == NamedSharding(mesh(), P()) and (np.asarray(found) == A).all()


def constrained(spec):
    return lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh(), spec))


def in_shard_map(spec):
    mapped = weft.shard_map(
        lambda x: lax.with_sharding_constraint(2 * x, NamedSharding(mesh(), spec)),
        mesh=mesh(),
        in_specs=P("i"),
        out_specs=P("i"),
        axis_names={"i"},
    )
    return weft.jit(mapped)(A)


def under_vmap(axis):
    rows = weft.vmap(constrained(P("i")), spmd_axis_name=axis)
    return weft.jit(rows)(A)


def by_columns(found):
    return found.format.layout == COLUMNS and (np.asarray(found) == A).all()


def laid_out(layout):
    return weft.jit(lambda x: weft.layout.with_layout_constraint(x + 1, layout))(A)


def read_by_columns():
    reads = weft.jit(lambda x: x + 0, in_shardings=Format(Layout.AUTO))
    [chosen], _ = reads.lower(A).compile().input_formats
    return weft.device_put(A, chosen)


FIXES = [
    Fixed(
        "pass weft.layout.Format(layout, sharding)",
        wrong=lambda: weft.device_put(A, COLUMNS),
        fixed=lambda fix: weft.device_put(A, Format(fix.data["layout"], sharding())),
        value=by_columns,
        error=WeftTypeError,
    ),
    Fixed(
        "in_shardings=Format(Layout.AUTO), and take the format from its input_formats",
        wrong=lambda: weft.device_put(A, Format(Layout.AUTO)),
        fixed=lambda fix: read_by_columns(),
        value=A,
        error=WeftValueError,
    ),
    Fixed(
        "pass weft.devices()[0]",
        wrong=lambda: weft.device_put(A, "cpu:0"),
        fixed=lambda fix: weft.device_put(A, weft.devices()[0]),
        value=A,
        error=WeftTypeError,
    ),
    Fixed(
        "or weft.NamedSharding(mesh, weft.P()) for copies",
        wrong=lambda: weft.device_put(A, mesh()),
        fixed=lambda fix: weft.device_put(A, weft.NamedSharding(mesh(), weft.P())),
        value=placed,
        error=WeftTypeError,
    ),
    Fixed(
        "use weft.device_put(x, device)",
        wrong=lambda: lax.with_sharding_constraint(A, one()),
        fixed=lambda fix: weft.device_put(A, fix.data["device"]),
        value=A,
        error=WeftTypeError,
    ),
    Fixed(
        "leave out 'i'",
        wrong=lambda: in_shard_map(P("i", "j")),
        fixed=lambda fix: in_shard_map(fix.data["spec"]),
        value=2 * A,
        error=AxisError,
    ),
    Fixed(
        "use another mesh axis for the vmap",
        wrong=lambda: under_vmap("i"),
        fixed=lambda fix: under_vmap("j"),
        value=A,
        error=AxisError,
    ),
    Fixed(
        "pass weft.layout.Layout(major_to_minor=(0, 1))",
        wrong=lambda: weft.device_put(A, Format(Layout((0, 1), tiling=((8, 128),)), sharding())),
        fixed=lambda fix: weft.device_put(A, Format(fix.data["layout"], sharding())),
        value=A,
        error=WeftValueError,
    ),
    Fixed(
        "pass weft.layout.Layout(major_to_minor=(1, 0))",
        wrong=lambda: laid_out(Format(COLUMNS, sharding())),
        fixed=lambda fix: laid_out(fix.data["layouts"]),
        value=A + 1,
        error=WeftTypeError,
    ),
]
