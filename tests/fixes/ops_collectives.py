"""Fixes of the collectives and of the casts along named axes."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import AxisError, ShapeError, WeftValueError

X = np.arange(8, dtype=np.float32)
ROWS = P("i")
PAIRS = np.arange(6, dtype=np.float32).reshape(2, 3)


def over(function, x, in_specs=ROWS, out_specs=ROWS, shape=(2,), **options):
    """Applies a function on a mesh with axes i, or i and j, of two devices each."""
    names = ("i", "j")[: len(shape)]
    devices = weft.devices()[: 2 ** len(shape)]
    mesh = weft.make_mesh(shape, names, devices=devices)
    mapped = weft.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)
    return mapped(x)


def mapped(function, x):
    return weft.vmap(function, axis_name="i")(x)


def deciding(condition):
    """A branch that communicates, where a condition of the devices' first elements holds."""

    def body(x):
        return lax.cond(condition(x[0] > 2), lambda x: lax.psum(x, "i"), lambda x: x + 0, x)

    return lambda: over(body, X, out_specs=P("i"))


CASTS = [
    Fixed(
        "write lax.pmax(x, 'i') if devices hold one value",
        wrong=lambda: over(lambda x: lax.pcast(x, "i", to="invariant"), np.float32([3, 3])),
        fixed=lambda fix: over(lambda x: lax.pmax(x, "i"), np.float32([3, 3]), out_specs=P()),
        value=np.array([3]),
        error=WeftValueError,
    ),
    Fixed(
        "lax.psum for a sum",
        wrong=lambda: over(lambda x: lax.pcast(x, "i", to="unreduced"), X),
        fixed=lambda fix: over(lambda x: lax.psum(x, "i"), X, out_specs=P()),
        value=np.array([4, 6, 8, 10]),
        error=WeftValueError,
    ),
    Fixed(
        "pass lax.pbroadcast(x, ('i',))",
        wrong=lambda: over(lambda x: lax.all_gather(x, "i"), X, P(), P("i"), auto_pbroadcast=False),
        fixed=lambda fix: over(
            lambda x: lax.all_gather(lax.pbroadcast(x, ("i",)), "i"),
            X,
            P(),
            P("i"),
            auto_pbroadcast=False,
        ),
        value=np.array([X] * 4),
        error=AxisError,
    ),
    Fixed(
        "write lax.pbroadcast(x, ('j',))",
        wrong=lambda: over(
            lambda x: lax.pbroadcast(x, ("i", "j")), X, out_specs=P(("i", "j")), shape=(2, 2)
        ),
        fixed=lambda fix: over(
            lambda x: lax.pbroadcast(x, ("j",)), X, out_specs=P(("i", "j")), shape=(2, 2)
        ),
        value=np.array([0, 1, 2, 3] * 2 + [4, 5, 6, 7] * 2),
        error=AxisError,
    ),
    Fixed(
        "write x: drop the pbroadcast",
        wrong=lambda: over(lambda x: lax.pbroadcast(x, "i") + 1, X),
        fixed=lambda fix: over(lambda x: x + 1, X),
        value=X + 1,
        error=AxisError,
    ),
    Fixed(
        "if it has been reduced already, drop the psum",
        wrong=lambda: over(lambda x: lax.psum(lax.psum(x, "i"), "i"), X, out_specs=P()),
        fixed=lambda fix: over(lambda x: lax.psum(x, "i"), X, out_specs=P()),
        value=X[:4] + X[4:],
        error=AxisError,
    ),
    Fixed(
        "write psum(lax.pbroadcast(x, 'i'), ...)",
        wrong=lambda: over(lambda x: lax.psum(x, "i"), X, P(), P()),
        fixed=lambda fix: over(lambda x: lax.psum(lax.pbroadcast(x, "i"), "i"), X, P(), P()),
        value=2 * X,
        error=AxisError,
    ),
    Fixed(
        "call psum over ('i',) only",
        wrong=lambda: over(lambda x: lax.psum(x, ("i", "j")), X, out_specs=P(), shape=(2, 2)),
        fixed=lambda fix: over(lambda x: lax.psum(x, ("i",)), X, out_specs=P(), shape=(2, 2)),
        value=X[:4] + X[4:],
        error=AxisError,
    ),
    Fixed(
        ["lax.pmax(condition, 'i')", "or communicate outside"],
        wrong=deciding(lambda condition: condition),
        fixed=lambda fix: [
            deciding(lambda condition: lax.pmax(condition, "i"))(),
            over(lambda x: jnp.where(x[0] > 2, lax.psum(x, "i"), x), X, out_specs=P("i")),
        ],
        value=[np.array([4, 6, 8, 10] * 2), np.array([0, 1, 2, 3, 4, 6, 8, 10])],
        error=AxisError,
    ),
]

NAMES = [
    Fixed(
        "pass axis_name=('i',)",
        wrong=lambda: mapped(lambda x: lax.psum(x, ("i", "i")), X),
        fixed=lambda fix: mapped(lambda x: lax.psum(x, fix.data["names"]), X),
        value=np.array([28] * 8),
        error=AxisError,
    ),
    Fixed(
        "for example axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]",
        wrong=lambda: mapped(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2, 3]]), X),
        fixed=lambda fix: mapped(
            lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]), X
        ),
        value=np.array([6] * 4 + [22] * 4),
        error=WeftValueError,
    ),
    Fixed(
        "name one axis",
        wrong=lambda: over(
            lambda x: lax.psum(x, ("i", "j"), axis_index_groups=[[0], [1]]),
            X,
            P(("i", "j")),
            P(("i", "j")),
            shape=(2, 2),
        ),
        fixed=lambda fix: over(
            lambda x: lax.psum(x, "j", axis_index_groups=[[0], [1]]),
            X,
            P(("i", "j")),
            P(("i", "j")),
            shape=(2, 2),
        ),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "call all_gather_invariant over ['i'] and over ['b']",
        wrong=lambda: over(
            lambda x: weft.vmap(lambda y: lax.all_gather_invariant(y, ("i", "b")), axis_name="b")(
                x
            ),
            X,
            out_specs=P(),
        ),
        fixed=lambda fix: over(
            lambda x: weft.vmap(
                lambda y: lax.all_gather_invariant(lax.all_gather_invariant(y, ["i"]), ["b"]),
                axis_name="b",
            )(x),
            X,
            out_specs=P(),
        ),
        value=np.array([X.reshape(2, 4).T] * 4),
        error=AxisError,
    ),
    Fixed(
        ["use psum_scatter where the devices hold terms of a sum", "all_to_all to exchange parts"],
        wrong=lambda: over(lambda x: lax.pscatter(x, "i", tiled=True), X),
        fixed=lambda fix: [
            over(lambda x: lax.psum_scatter(x, "i", tiled=True), X),
            over(lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), X),
        ],
        value=[X[:4] + X[4:], np.array([0, 1, 4, 5, 2, 3, 6, 7])],
        error=AxisError,
    ),
]

MOVES = [
    Fixed(
        "pad the dimension to a multiple of 2",
        wrong=lambda: mapped(lambda x: lax.psum_scatter(x, "i", tiled=True), PAIRS),
        fixed=lambda fix: mapped(
            lambda x: lax.psum_scatter(jnp.pad(x, (0, 1)), "i", tiled=True), PAIRS
        ),
        value=np.array([[3, 5], [7, 0]]),
        error=ShapeError,
    ),
    Fixed(
        "pass tiled=True",
        wrong=lambda: mapped(lambda x: lax.psum_scatter(x, "i"), X.reshape(2, 4)),
        fixed=lambda fix: mapped(lambda x: lax.psum_scatter(x, "i", tiled=True), X.reshape(2, 4)),
        value=np.array([[4, 6], [8, 10]]),
        error=ShapeError,
    ),
    Fixed(
        "for example perm=[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 0)]",
        wrong=lambda: mapped(lambda x: lax.ppermute(x, "i", range(8)), X),
        fixed=lambda fix: mapped(lambda x: lax.ppermute(x, "i", fix.data["perm"]), X),
        value=np.roll(X, 1),
        error=WeftValueError,
    ),
    Fixed(
        "for example perm=[(0, 1)]",
        wrong=lambda: mapped(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), PAIRS),
        fixed=lambda fix: mapped(lambda x: lax.ppermute(x, "i", [(0, 1)]), PAIRS),
        value=np.array([[0, 0, 0], [0, 1, 2]]),
        error=WeftValueError,
    ),
    Fixed(
        "list each position once",
        wrong=lambda: mapped(lambda x: lax.pshuffle(x, "i", [1, 2]), PAIRS),
        fixed=lambda fix: mapped(lambda x: lax.pshuffle(x, "i", [1, 0]), PAIRS),
        value=PAIRS[::-1],
        error=WeftValueError,
    ),
    Fixed(
        "or give lax.ppermute pairs of some",
        wrong=lambda: mapped(lambda x: lax.pshuffle(x, "i", [1]), PAIRS),
        fixed=lambda fix: mapped(lambda x: lax.ppermute(x, "i", [(1, 0)]), PAIRS),
        value=np.array([[3, 4, 5], [0, 0, 0]]),
        error=WeftValueError,
    ),
]

FIXES = [*CASTS, *NAMES, *MOVES]
