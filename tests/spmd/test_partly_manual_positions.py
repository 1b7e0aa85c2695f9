"""Blocks and elements at positions inside and outside of arrays that an automatic axis splits, in a
computation that is manual along another axis."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.sharding import Mesh, NamedSharding, P

MESH = Mesh(np.array(weft.devices()[:8], object).reshape(4, 2), ("i", "j"))
N = 6
X = np.random.default_rng(0).integers(0, 99, (4, N)).astype(np.float32)
U = X[:, :3] + 100


def block(start):
    """The columns of a block of three that starts there, moved inside."""
    start = min(max(start + (N if start < 0 else 0), 0), N - 3)
    return slice(start, start + 3)


def written(x, u, start):
    x = x.copy()
    x[:, block(start)] = u
    return x


def added(x, places):
    x = x.copy()
    for place in places:
        if -N <= place < N:
            x[:, place] += 1
    return x


FORMS = {
    "update": (lambda x, u, i: lax.dynamic_update_slice(x, u, (jnp.int32(0), i)), written),
    "slice": (
        lambda x, u, i: lax.dynamic_slice(x, (jnp.int32(0), i), (1, 3)),
        lambda x, u, i: x[:, block(i)],
    ),
    "add": (lambda x, u, i: x.at[:, i].add(1.0), lambda x, u, i: added(x, [i])),
    "add several": (
        lambda x, u, i: x.at[:, jnp.stack([i, 0, 1])].add(1.0),
        lambda x, u, i: added(x, [i, 0, 1]),
    ),
    "take": (
        lambda x, u, i: jnp.take(x, jnp.stack([i, 0]), axis=1, mode="clip"),
        lambda x, u, i: np.take(x, [i, 0], axis=1, mode="clip"),
    ),
    "dropped after a roll": (
        lambda x, u, i: jnp.roll(x, 1, 1).at[:, i + 99].min(1.0),
        lambda x, u, i: np.roll(x, 1, 1),
    ),
    "part of a pad": (
        lambda x, u, i: jnp.pad(x, ((0, 0), (0, 3)))[:, -2:] + i,
        lambda x, u, i: np.pad(x, ((0, 0), (0, 3)))[:, -2:] + i,
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_positions_beside_automatic_axes(form):
    function, reference = form
    split = NamedSharding(MESH, P("i", "j"))
    specs = {"in_specs": (P("i"), P("i"), P()), "out_specs": P("i"), "axis_names": {"i"}}
    run = weft.jit(weft.shard_map(function, mesh=MESH, **specs))
    for start in (0, 2, N - 3, N - 1, N + 4, -1, -5):
        out = run(weft.device_put(X, split), jnp.asarray(U), jnp.int32(start))
        wanted = [reference(X[k : k + 1], U[k : k + 1], start) for k in range(4)]
        np.testing.assert_array_equal(out, np.concatenate(wanted))
