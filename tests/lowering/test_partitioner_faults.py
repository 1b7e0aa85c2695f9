"""What XLA's partitioner gets wrong, or ends the process at: what weft computes there."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.lax import with_sharding_constraint
from weft.sharding import Mesh, NamedSharding, P

DEVICES = np.array(weft.devices()[:8], object)
MESH = Mesh(DEVICES.reshape(4, 2), ("i", "j"))
LINE = Mesh(DEVICES, ("k",))

RNG = np.random.default_rng(0)


def on(place, value):
    return weft.device_put(value, place)


@pytest.mark.parametrize("interior", [0, 1, 2])
@pytest.mark.parametrize("size", [8, 16])
def test_pads_that_cut_off_elements_of_a_split_dimension(size, interior):
    """Every edge from -3 to 2 on both sides, one element a device and two."""
    x = np.arange(1, size + 1, dtype=np.float32)
    edges = [(low, high) for low in range(-3, 3) for high in range(-3, 3)]
    length = size + (size - 1) * interior
    wide = np.zeros(length + 8, np.float32)
    wide[4 : 4 + length : interior + 1] = x

    def pads(x):
        return [lax.pad(x, np.float32(0), [(low, high, interior)]) for low, high in edges]

    outs = weft.jit(pads)(on(NamedSharding(LINE, P("k")), x))
    for (low, high), out in zip(edges, outs, strict=True):
        np.testing.assert_array_equal(out, wide[4 - low : 4 + length + high])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "bool"])
def test_extrema_between_devices_keep_nan_infinities_and_zeros(dtype):
    """An all-reduce of floating-point numbers on CPUs takes the number of a number and NaN."""
    rng = np.random.default_rng(3)
    host = rng.choice([0.0, -0.0, 1, -1, 7, np.inf, -np.inf], (8, 64))
    host[np.arange(8), np.arange(8)] = np.nan
    host[np.arange(8), np.arange(8, 16)] = -np.nan
    with weft.enable_x64(dtype == "float64"):
        x = wnp.array(np.abs(host) > 1 if dtype in ("int8", "bool") else host, dtype)
        both = weft.shard_map(
            lambda x: (lax.pmax(x, "k"), lax.pmin(x, "k")),
            mesh=LINE,
            in_specs=P("k"),
            out_specs=(P(), P()),
        )
        outs = weft.jit(both)(x)
    wide = np.asarray(x).astype(np.float64)
    for out, want in zip(outs, (wide.max(0), wide.min(0)), strict=True):
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(out)[0].astype(np.float64), want)


@pytest.mark.parametrize("verb", ["set", "add", "max", "min", "multiply"])
@pytest.mark.parametrize("place", [5, -1, 2**40 + 3, -(2**40) - 3])
def test_updates_of_one_row_by_an_index_of_64_bits(verb, place):
    """XLA's partitioner ends the process at them; an index out of bounds stays one."""
    with weft.enable_x64():
        x = np.arange(1.0, 65.0).reshape(8, 8)

        def updated(x):
            return getattr(x.at[wnp.array([place])], verb)(x[0], mode="drop")

        out = weft.jit(updated)(on(NamedSharding(LINE, P("k")), x))
    want = x.copy()
    if abs(place) < 8:
        ufuncs = {"add": np.add, "max": np.maximum, "min": np.minimum, "multiply": np.multiply}
        want[place] = x[0] if verb == "set" else ufuncs[verb](x[place], x[0])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("count", [1, 3, 5, 6])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "min"])
@pytest.mark.parametrize("axis", ["i", "j"])
def test_updates_whose_number_the_devices_do_not_divide(axis, kind, count):
    combine = {"add": np.add, "multiply": np.multiply, "min": np.minimum}.get(kind)
    x = np.round(RNG.normal(size=(16, 8)) * 9).astype(np.float32)
    rows, columns = (RNG.permutation(size)[:count] for size in (16, 8))
    if combine is not None:
        rows[-1] = rows[0]
    v = on(NamedSharding(MESH, P(axis)), x)

    def update(v, update):
        first, point = (rows,), (rows, columns)
        return update(v[:, 0], first, v[:count, 1]), update(v, point, v[:count, 0])

    def in_place(x, where, updates):
        x = x.copy()
        if combine is None:
            x[where] = updates
        else:
            combine.at(x, where, updates)
        return x

    found = weft.jit(lambda v: update(v, lambda x, i, u: getattr(x.at[i], kind)(u)))(v)
    for out, wanted in zip(found, update(x, in_place), strict=True):
        np.testing.assert_array_equal(np.asarray(out), wanted)


BLOCKS = [(first, size) for first in (-20, -1, 0, 5, 9) for size in ((1, 1), (3, 2))]


@pytest.mark.parametrize("spec", [P("i"), P("j"), P("i", "j")])
def test_blocks_are_moved_inside_of_an_array_that_is_split(spec):
    x = np.arange(1, 17, dtype=np.float32).reshape(8, 2)
    v = on(NamedSharding(MESH, spec), x)

    def every(v):
        return [
            (
                lax.dynamic_update_slice(v, 10 * v[: size[0], : size[1]], (first, 5)),
                lax.dynamic_slice(v, (first, 5), size),
            )
            for first, size in BLOCKS
        ]

    for (first, size), (updated, block) in zip(BLOCKS, weft.jit(every)(v), strict=True):
        start = min(max(first + 8 if first < 0 else first, 0), 8 - size[0])
        where = slice(start, start + size[0]), slice(2 - size[1], 2)
        want = x.copy()
        want[where] = 10 * x[: size[0], : size[1]]
        np.testing.assert_array_equal(np.asarray(updated), want)
        np.testing.assert_array_equal(np.asarray(block), x[where])


@pytest.mark.parametrize("count", [1, 3, 7])
def test_an_array_that_is_split_is_shifted_by_an_update(count):
    x = np.arange(1, 9, dtype=np.float32)
    v = on(NamedSharding(MESH, P("i")), x)
    shifts = weft.jit(lambda v: (v.at[count:].set(v[:-count]), v.at[:-count].set(v[count:])))(v)
    np.testing.assert_array_equal(np.asarray(shifts[0]), np.r_[x[:count], x[:-count]])
    np.testing.assert_array_equal(np.asarray(shifts[1]), np.r_[x[count:], x[-count:]])


CUT = {
    "an element": lambda x: lax.pad(x, 1.0, [(0, 3, 0)])[-1],
    "the end": lambda x: lax.pad(x, 1.0, [(-2, 3, 0)])[-2:],
    "over the edge": lambda x: lax.pad(x, 1.0, [(3, 3, 0)])[2:4],
    "rolled": lambda x: wnp.roll(lax.pad(x, 1.0, [(0, 3, 0)]), 1)[0],
    "at a position": lambda x: lax.dynamic_slice(lax.pad(x, 1.0, [(0, 3, 0)]), (34,), (1,)),
    "of numpy's pad": lambda x: wnp.pad(x[2:], (0, 3))[-1],
}


@pytest.mark.parametrize("name", CUT)
def test_parts_of_what_is_padded(name):
    """XLA's partitioner ends the process at most of them, and gives wrong numbers at the second."""
    x = np.arange(1, 33, dtype=np.float32)
    want = {
        "an element": 1.0, "the end": [1.0, 1.0], "over the edge": [1.0, 1.0], "rolled": 1.0,
        "at a position": [1.0], "of numpy's pad": 0.0,
    }[name]  # fmt: skip
    found = weft.jit(CUT[name])(on(NamedSharding(MESH, P("i")), x))
    np.testing.assert_array_equal(np.asarray(found), want)


# Each is a program of NumPy, of 8 or of 2 and 4 rows, one on each device: a broadcast, a change of
# the shape after it, and elements that move between devices.
REPEATED = {
    "tile": lambda np, x: np.tile(x[:, None], (1, 2, 1))[::-1],
    "tile, part": lambda np, x: np.tile(x[1:, None], (1, 2, 1))[::-1],
    "of one before": lambda np, x: np.broadcast_to(x[:, :1], (8, 3))[None][:, ::-1],
    "of one added": lambda np, x: np.flip(np.broadcast_to(x[:, :1], (8, 3)).reshape(1, 8, 3), 1),
    "of one dropped": lambda np, x: np.broadcast_to(x[None, :, :1], (1, 8, 3)).reshape(8, 3)[::-1],
    "elementwise": lambda np, x: (np.broadcast_to(-x[None], (4, 8, 2)) * 2).reshape(1, 4, 8, 2)[
        :, :, ::-1
    ],
    "transposed": lambda np, x: (
        np.broadcast_to(x[:, None], (8, 4, 2)).transpose(1, 0, 2).reshape(4, 1, 8, 2)[:, :, ::-1]
    ),
    "elementwise after": lambda np, x: (-np.broadcast_to(x[None, :, :1], (1, 8, 3))[0])[::-1],
    "repeat": lambda np, x: np.repeat(x[None, :, :1], 3, 2).reshape(8, 1, 3)[::-1],
    "padded": lambda np, x: np.tile(x[:5, None], (1, 3, 1))[::-1],
    "rolled": lambda np, x: np.roll(np.broadcast_to(x[None, :, :1], (1, 8, 3)).reshape(8, 3), 3, 0),
    "two to one": lambda np, x: np.tile(x.reshape(2, 4, 2)[:, :, None], (1, 1, 3, 1)).reshape(
        8, 3, 2
    )[::-1],
}


@pytest.mark.parametrize(
    "place",
    [NamedSharding(LINE, P("k")), NamedSharding(MESH, P(("j", "i"))), NamedSharding(MESH, P("i"))],
    ids=str,
)
def test_what_is_repeated_and_reshaped_moves_between_devices(place):
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    found = weft.jit(lambda v: [f(wnp, v) for f in REPEATED.values()])(on(place, x))
    for (name, program), out in zip(REPEATED.items(), found, strict=True):
        np.testing.assert_array_equal(np.asarray(out), program(np, x), err_msg=name)


def test_the_same_rows_split_over_another_order_of_axes():
    """The transfer is that of a constraint, not of a reversal."""
    x = np.arange(8, dtype=np.float32)
    first, second = NamedSharding(MESH, P(("i", "j"))), NamedSharding(MESH, P(("j", "i")))

    def program(v):
        rows = lax.broadcast_in_dim(v, (1, 8, 3), (1,)).reshape(8, 3)
        return with_sharding_constraint(with_sharding_constraint(rows, first), second)

    out = weft.jit(program)(on(first, x))
    np.testing.assert_array_equal(np.asarray(out), np.repeat(x[:, None], 3, 1))


def test_a_row_less_its_maximum_with_as_many_rows_as_devices():
    """Two rules of what the compiler gets wrong meet: that of the maximum comes first."""
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    out = weft.jit(lambda v: -v - wnp.max(-v, axis=1, keepdims=True))(
        on(NamedSharding(LINE, P("k")), x)
    )
    np.testing.assert_array_equal(np.asarray(out), np.tile(np.float32([0, -1]), (8, 1)))


@pytest.mark.parametrize("interior", [0, 1])
def test_pads_of_one_array_with_other_values(interior):
    x = np.arange(1, 9, dtype=np.float32)
    pads = [(value, edges) for value in (1.0, 0.0, 5.0) for edges in ((1, 2), (0, 2))]

    def every(v):
        return [lax.pad(v, value, [(*edges, interior)]) for value, edges in pads]

    outs = weft.jit(every)(on(NamedSharding(LINE, P("k")), x))
    for (value, (low, high)), out in zip(pads, outs, strict=True):
        want = np.full(low + 8 + 7 * interior + high, value, np.float32)
        want[low : len(want) - high : 1 + interior] = x
        np.testing.assert_array_equal(np.asarray(out), want)
