"""Fixes of shard_map: its mesh, its specs, its results and its function."""

from __future__ import annotations

import functools

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import (
    AxisError,
    ConcretizationError,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import AbstractMesh

X = np.arange(8, dtype=np.float32)
ABSTRACT = AbstractMesh((2, 2), ("i", "j"))


def grid():
    return weft.make_mesh((2, 2), ("i", "j"), devices=weft.devices()[:4])


ROWS = P("i")


def over(function, *args, in_specs=ROWS, out_specs=ROWS, mesh=None, kwargs=None, **options):
    """Calls a function's shard_map; over a mesh with the axes i and j, if no other is given."""
    mesh = mesh or grid()
    mapped = weft.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)
    return mapped(*args, **(kwargs or {}))


def double(x):
    return 2 * x


def add(x, y):
    return x + y


def scaled(x, by):
    """A function of which one argument is no array."""
    return x * {"two": 2}[by]


def nested(outer=None, **inner):
    """A shard_map inside another one."""
    inner = {"in_specs": P("j"), "out_specs": P("j"), **inner}
    return over(lambda x: weft.shard_map(double, **inner)(x), X, axis_names=outer)


def mapped(size=4, axis_names=("i",), **options):
    """The vmap of a shard_map over the rows of a matrix."""
    over_j = weft.shard_map(
        double, mesh=grid(), in_specs=P("j"), out_specs=P("j"), axis_names={"i", "j"}
    )
    return weft.vmap(over_j, **options)(np.ones((size, 4), np.float32))


def simulated(mesh):
    with weft.simulate(mesh):
        return over(double, X, mesh=mesh)


def chosen(x):
    return x if x.sum() > 6 else -x


CALLS = [
    Fixed(
        "write shard_map(f, mesh=mesh, in_specs=...)",
        wrong=lambda: weft.shard_map(grid(), double, in_specs=P("i"), out_specs=P("i")),
        fixed=lambda fix: weft.shard_map(double, mesh=grid(), in_specs=P("i"), out_specs=P("i"))(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass out_specs=P() where nothing is split",
        wrong=lambda: weft.shard_map(double, mesh=grid(), in_specs=P()),
        fixed=lambda fix: weft.shard_map(double, mesh=grid(), in_specs=P(), out_specs=P())(X),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "make one: weft.make_mesh((8,), ('i',))",
        wrong=lambda: over(double, X, mesh=weft.devices()),
        fixed=lambda fix: over(double, X, mesh=weft.make_mesh((8,), ("i",))),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "pass bucket_bytes=2**25, or None to join no sums",
        wrong=lambda: over(double, X, bucket_bytes=0),
        fixed=lambda fix: [over(double, X, bucket_bytes=n) for n in (2**25, None)],
        value=[2 * X, 2 * X],
        error=WeftValueError,
    ),
    Fixed(
        "leave axis_names out, or pass some of {'i', 'j'}",
        wrong=lambda: over(double, X, axis_names=0),
        fixed=lambda fix: [over(double, X), over(double, X, axis_names={"i"})],
        value=[2 * X, 2 * X],
        error=WeftTypeError,
    ),
    Fixed(
        "pass mesh=..., or call it inside weft.use_mesh(mesh)",
        wrong=lambda: without_mesh(),
        fixed=lambda fix: [without_mesh(mesh=grid()), in_force()],
        value=[2 * X, 2 * X],
        error=WeftValueError,
    ),
    Fixed(
        "leave out mesh=..., or pass the same",
        wrong=lambda: nested({"i"}, mesh=weft.make_mesh((2, 2), ("j", "i"))),
        fixed=lambda fix: [nested({"i"}), nested({"i"}, mesh=fix.data["mesh"])],
        value=[2 * X, 2 * X],
        error=WeftValueError,
    ),
    Fixed(
        "pass axis_names={'j'}",
        wrong=lambda: nested({"i"}, axis_names={"i", "j"}),
        fixed=lambda fix: nested({"i"}, axis_names={"j"}),
        value=2 * X,
        error=AxisError,
    ),
    Fixed(
        [
            "call the function itself, whose collectives may name all axes here",
            "or give the outer shard_map axis_names that leave some over",
        ],
        wrong=lambda: nested(),
        fixed=lambda fix: [over(double, X), nested({"i"})],
        value=[2 * X] * 2,
        error=AxisError,
    ),
    Fixed(
        [
            "make a mesh of devices with weft.make_mesh",
            "run it on one device inside weft.simulate(mesh)",
        ],
        wrong=lambda: over(double, X, mesh=ABSTRACT),
        fixed=lambda fix: [over(double, X, mesh=weft.make_mesh(**fix.data)), simulated(ABSTRACT)],
        value=[2 * X] * 2,
        error=WeftValueError,
    ),
]


def without_mesh(**options):
    return weft.shard_map(double, in_specs=P("i"), out_specs=P("i"), **options)(X)


def in_force():
    with weft.use_mesh(grid()):
        return without_mesh()


SPECS = [
    Fixed(
        "wrap the axis names: P('i')",
        wrong=lambda: over(double, X, in_specs="i"),
        fixed=lambda fix: over(double, X, in_specs=P("i")),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "use P(None, 'i')",
        wrong=lambda: over(double, X.reshape(4, 2), in_specs=P(P.UNCONSTRAINED, "i")),
        fixed=lambda fix: over(
            double, X.reshape(4, 2), in_specs=P(None, "i"), out_specs=P(None, "i")
        ),
        value=2 * X.reshape(4, 2),
        error=AxisError,
    ),
    Fixed(
        "leave out sum=",
        wrong=lambda: over(double, X, in_specs=P("i", sum="j")),
        fixed=lambda fix: over(double, X, in_specs=P("i")),
        value=2 * X,
        error=AxisError,
    ),
    Fixed(
        "name one of ['i', 'j']",
        wrong=lambda: over(double, X, in_specs=P("k")),
        fixed=lambda fix: over(double, X, in_specs=P("i")),
        value=2 * X,
        error=AxisError,
    ),
    Fixed(
        "add 'j' to axis_names, or leave it out of the spec",
        wrong=lambda: over(double, X, in_specs=P(("i", "j")), out_specs=P("i"), axis_names={"i"}),
        fixed=lambda fix: [
            over(double, X, in_specs=P(("i", "j")), out_specs=P(("i", "j")), axis_names={"i", "j"}),
            over(double, X, in_specs=P("i"), axis_names={"i"}),
        ],
        value=[2 * X, 2 * X],
        error=AxisError,
    ),
    Fixed(
        "write in_specs={'name': P(...), ...}",
        wrong=lambda: over(lambda **given: given["x"], in_specs=(P("i"),), kwargs={"x": X}),
        fixed=lambda fix: over(lambda **given: given["x"], in_specs={"x": P("i")}, kwargs={"x": X}),
        value=X,
        error=TreeError,
    ),
    Fixed(
        "give in_specs 2 entries",
        wrong=lambda: over(add, X, X[:4], in_specs=(P("i"),)),
        fixed=lambda fix: over(add, X, X[:4], in_specs=(P("i"), P())),
        value=X + np.tile(X[:4], 2),
        error=TreeError,
    ),
    Fixed(
        "leave 'z' out of in_specs",
        wrong=lambda: over(double, X, in_specs={"x": P("i"), "z": P()}),
        fixed=lambda fix: over(double, X, in_specs={"x": P("i")}),
        value=2 * X,
        error=TreeError,
    ),
    Fixed(
        "add 'y': P() to in_specs",
        wrong=lambda: over(add, X, X[:4], in_specs={"x": P("i")}),
        fixed=lambda fix: over(add, X, X[:4], in_specs={"x": P("i"), "y": P()}),
        value=X + np.tile(X[:4], 2),
        error=TreeError,
    ),
    Fixed(
        "give it the spec None, or bind it with functools.partial",
        wrong=lambda: over(scaled, X, "two", in_specs=(P("i"), P())),
        fixed=lambda fix: [
            over(scaled, X, "two", in_specs=(P("i"), None)),
            over(functools.partial(scaled, by="two"), X),
        ],
        value=[2 * X, 2 * X],
        error=WeftTypeError,
    ),
]

RESULTS = [
    Fixed(
        "if it has been summed already, use P()",
        wrong=lambda: over(lambda x: lax.psum(x, "i"), X, out_specs=P(sum="i")),
        fixed=lambda fix: over(lambda x: lax.psum(x, "i"), X, out_specs=P()),
        value=X[:4] + X[4:],
        error=AxisError,
    ),
    Fixed(
        "if a sum of equal copies is meant, return lax.pbroadcast(x, 'j')",
        wrong=lambda: over(double, X, out_specs=P("i", sum="j")),
        fixed=lambda fix: over(lambda x: lax.pbroadcast(2 * x, "j"), X, out_specs=P("i", sum="j")),
        value=4 * X,
        error=AxisError,
    ),
    Fixed(
        [
            "return x[None], to keep the blocks of all devices",
            "or lax.psum(x, ('i',)), and leave ('i',) out of the spec",
        ],
        wrong=lambda: over(lambda x: x.sum(), X),
        fixed=lambda fix: [
            over(lambda x: x.sum()[None], X),
            over(lambda x: lax.psum(x.sum(), ("i",)), X, out_specs=P()),
        ],
        value=[np.array([6, 22]), 28],
        error=ShapeError,
    ),
    Fixed(
        [
            "reduce it with lax.psum or lax.pmean over 'i'",
            "gather it with lax.all_gather_invariant(x, 'i')",
        ],
        wrong=lambda: over(double, X, out_specs=P()),
        fixed=lambda fix: [
            [
                over(lambda x: lax.psum(2 * x, "i"), X, out_specs=P()),
                over(lambda x: lax.pmean(2 * x, "i"), X, out_specs=P()),
            ],
            over(lambda x: lax.all_gather_invariant(2 * x, "i"), X, out_specs=P()),
        ],
        value=[[2 * (X[:4] + X[4:]), X[:4] + X[4:]], 2 * X.reshape(2, 4)],
        error=AxisError,
    ),
    Fixed(
        "or return x[None] and mention the axis in the spec to keep all blocks",
        wrong=lambda: over(lambda x: x.sum(), X, out_specs=P()),
        fixed=lambda fix: over(lambda x: x.sum()[None], X, out_specs=P("i")),
        value=np.array([6, 22]),
        error=AxisError,
    ),
    Fixed(
        [
            "for example lax.pmax(x, ('i',))",
            "or write the choice with weft.numpy.where or weft.lax.cond",
        ],
        wrong=lambda: over(chosen, X),
        fixed=lambda fix: [
            over(lambda x: x if lax.pmax(x.sum() > 6, ("i",)) else -x, X),
            [
                over(lambda x: jnp.where(x.sum() > 6, x, -x), X),
                over(lambda x: lax.cond(x.sum() > 6, lambda x: x, lambda x: -x, x), X),
            ],
        ],
        value=[X, [np.r_[-X[:4], X[4:]]] * 2],
        error=ConcretizationError,
    ),
]

MAPPED = [
    Fixed(
        "name another mesh axis, or leave spmd_axis_name out",
        wrong=lambda: mapped(spmd_axis_name="j"),
        fixed=lambda fix: [mapped(spmd_axis_name="i"), mapped()],
        value=[np.full((4, 4), 2)] * 2,
        error=AxisError,
    ),
    Fixed(
        "leave axis_name out",
        wrong=lambda: mapped(spmd_axis_name="i", axis_name="rows"),
        fixed=lambda fix: mapped(spmd_axis_name="i"),
        value=np.full((4, 4), 2),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "pad the axis to a multiple of 2",
        wrong=lambda: mapped(3, spmd_axis_name="i"),
        fixed=lambda fix: mapped(4, spmd_axis_name="i")[:3],
        value=np.full((3, 4), 2),
        error=WeftValueError,
    ),
]

FIXES = CALLS + SPECS + RESULTS + MAPPED
