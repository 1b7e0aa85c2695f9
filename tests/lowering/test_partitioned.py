"""Programs on arrays over several devices: what they compute, where it lies, what they send."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_to_rounding as close
from compilations import counted_compilations
from weft import lax, random
from weft.errors import WeftValueError
from weft.lax import with_sharding_constraint
from weft.lowering import executables
from weft.sharding import Mesh, NamedSharding, P, TiledSharding

DEVICES = np.array(weft.devices()[:8], object)
MESH = Mesh(DEVICES.reshape(4, 2), ("i", "j"))
# The same devices in another order, and in another shape.
TURNED = Mesh(DEVICES[[3, 1, 0, 2, 7, 6, 5, 4]].reshape(2, 4), ("i", "j"))
LINE = Mesh(DEVICES, ("k",))
HALF = Mesh(DEVICES[:4], ("i",))
ONE = Mesh(DEVICES[2:3], ("i",))

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 8)).astype(np.float32)
Y = RNG.normal(size=(8, 8)).astype(np.float32)

PLACES = {
    "rows": NamedSharding(MESH, P("i")),
    "columns": NamedSharding(MESH, P(None, "j")),
    "both": NamedSharding(MESH, P("j", "i")),
    "one dimension over two axes": NamedSharding(MESH, P(("j", "i"))),
    "copies": NamedSharding(MESH, P()),
    "turned": NamedSharding(TURNED, P("i", "j")),
    "line": NamedSharding(LINE, P(None, "k")),
    "one device": NamedSharding(ONE, P("i")),
    "tiles": TiledSharding(DEVICES, [[[3], [1], [0], [2]], [[7], [6], [5], [4]]]),
}
places = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
ways = pytest.mark.parametrize("way", [lambda f: f, weft.jit], ids=["eagerly", "jitted"])


def on(place, value=X):
    return weft.device_put(value, place)


def devices_of(x):
    return set(x.sharding.device_list)


def communication(text):
    """The collective operations in the text of a compiled program."""
    return re.findall(
        r"= \S+ (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)\(", text
    )


# ---- numbers -----------------------------------------------------------------------------------


def sorted_rows(x):
    return wnp.sort(x, axis=0), wnp.argmax(x, axis=1)


def moved(x):
    return wnp.concatenate([x[2:5].T, wnp.roll(x, 3, axis=1)[:, :3]], axis=1)


def loops(x):
    total, rows = lax.scan(lambda c, row: (c + row.sum(), wnp.cumsum(row) + c), 0.0, x)
    return total, rows


def loops_in_numpy(x):
    before = np.concatenate([[0], np.cumsum(x.sum(1))])
    return before[-1], np.cumsum(x, axis=1) + before[:-1, None]


def branches(x):
    return lax.cond(x.sum() > 1e6, lambda v: v, lambda v: v @ v, x)


def counted(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (0, x))


@weft.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))


@weft.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, None), lambda _, ct: (ct / 2,))


PROGRAMS = {
    "elementwise": (lambda x: wnp.where(x > 0, wnp.exp(x), x * 2.0), None),
    "numbers": (lambda x: 3 * x + 1, None),
    "matmul": (lambda x: x @ x, None),
    "sums": (lambda x: (x.sum(), x.mean(axis=0), x.max(axis=1)), None),
    "sorting": (sorted_rows, lambda x: (np.sort(x, axis=0), np.argmax(x, axis=1))),
    "movement": (moved, None),
    "indexing": (lambda x: (x[3], x[1:7:2, 4], x[wnp.array([5, 0])]), None),
    "update": (
        lambda x: x.at[1:3].set(7.0),
        lambda x: np.r_[x[:1], np.full_like(x[1:3], 7), x[3:]],
    ),
    "reshape": (lambda x: x.reshape(4, 16).T, None),
    "scan": (loops, loops_in_numpy),
    "cond": (branches, lambda x: x @ x),
    "while": (counted, lambda x: (3, 8 * x)),
    "jit in jit": (lambda x: weft.jit(lambda v: v * v)(x) + 1, lambda x: x * x + 1),
    "vmap": (weft.vmap(lambda row: row / wnp.sum(row**2)), lambda x: x / (x**2).sum(1)[:, None]),
    "grad": (weft.grad(lambda x: (x @ x).sum()), lambda x: x.sum(0)[:, None] + x.sum(1)),
    "hessian": (lambda x: weft.hessian(lambda r: (r**3).sum())(x[0]), lambda x: np.diag(6 * x[0])),
    "jvp": (lambda x: weft.jvp(wnp.sin, (x,), (x,))[1], lambda x: np.cos(x) * x),
    "checkpoint": (weft.grad(lambda x: weft.checkpoint(wnp.sin)(x).sum()), np.cos),
    "custom_jvp": (weft.grad(lambda x: cubed(x).sum()), lambda x: 3 * x**2),
    "custom_vjp": (weft.grad(lambda x: (halved(x) * x).sum()), lambda x: x),
    "grad of scan": (
        weft.grad(lambda x: lax.scan(lambda c, r: (c * r[0], r[1] * c), 2.0, x)[1].sum()),
        None,
    ),
}


def in_numpy(name, x):
    _, reference = PROGRAMS[name]
    if name == "grad of scan":
        return finite_difference(x)
    if reference is not None:
        return reference(x)
    if name == "elementwise":
        return np.where(x > 0, np.exp(x), x * 2)
    if name == "movement":
        return np.concatenate([x[2:5].T, np.roll(x, 3, axis=1)[:, :3]], axis=1)
    if name == "indexing":
        return x[3], x[1:7:2, 4], x[[5, 0]]
    return PROGRAMS[name][0](x)


def finite_difference(x):
    """The gradient of the scan, in float64, by central differences."""

    def value(x):
        carry, total = 2.0, 0.0
        for row in x:
            total, carry = total + row[1] * carry, carry * row[0]
        return total

    x = x.astype(np.float64)
    found = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = 1e-6
        found[index] = (value(x + step) - value(x - step)) / 2e-6
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@ways
def test_programs_compute_what_they_do_on_one_device(name, way):
    function, _ = PROGRAMS[name]
    outs = way(function)(on(PLACES["both"]))
    wanted = in_numpy(name, X)
    pairs = zip(outs, wanted, strict=True) if isinstance(wanted, tuple) else [(outs, wanted)]
    for got, want in pairs:
        close(got, want, 1e-4)


@places
@ways
def test_arrays_may_be_split_in_any_way(place, way):
    x = on(place)
    got = way(lambda a: (a @ a + 2.0 * a, a.sum(axis=0)))(x)
    close(got[0], X @ X + 2 * X, 1e-5)
    close(got[1], X.sum(axis=0), 1e-5)
    assert all(devices_of(out) == devices_of(x) and out.committed for out in got)


@pytest.mark.parametrize("name", [name for name in PLACES if name not in ("one device", "turned")])
def test_operands_may_be_split_differently(name):
    place = PLACES[name]
    got = on(PLACES["both"]) - on(place, Y)
    close(got, X - Y)
    close(on(place, Y) - on(PLACES["both"]), Y - X)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "bfloat16", "float16", "float64", "complex64", "complex128"]
)
def test_dtypes(dtype):
    values = np.arange(16).reshape(8, 2).astype(wnp.dtype(dtype))
    x = on(NamedSharding(MESH, P("i", "j")), wnp.asarray(values, dtype=dtype))
    got = weft.jit(lambda a: wnp.flip(a, 0))(x)
    assert got.dtype == x.dtype == values.dtype
    np.testing.assert_array_equal(np.asarray(got), values[::-1])
    np.testing.assert_array_equal(np.asarray(x == x[::-1]), values == values[::-1])


@pytest.mark.parametrize("shape", [(), (0,), (8, 0), (1, 1, 1), (8, 1, 2, 1)])
def test_shapes_without_elements_or_dimensions(shape):
    values = np.ones(shape, np.float32)
    place = NamedSharding(MESH, P("i") if shape[:1] == (8,) else P())
    got = on(place, values) * 3 + values
    np.testing.assert_array_equal(got, 4 * values)
    assert devices_of(got) == set(MESH.device_list)


def test_a_mask_has_as_many_elements_as_it_says():
    x = on(PLACES["both"])
    got = x[x > 0]
    close(got, X[X > 0])
    assert devices_of(got) == set(MESH.device_list)


# ---- random numbers ----------------------------------------------------------------------------


def test_random_keys_over_devices_draw_the_same_numbers():
    keys = random.split(random.key(7), 8)
    split = weft.device_put(keys, NamedSharding(MESH, P("i")))
    draw = weft.vmap(lambda key: random.normal(key, (3,)))
    for way in (draw, weft.jit(draw)):
        np.testing.assert_array_equal(np.asarray(way(split)), np.asarray(draw(keys)))
    again = weft.jit(weft.vmap(random.split))(split)
    want = random.key_data(weft.vmap(random.split)(keys))
    np.testing.assert_array_equal(np.asarray(random.key_data(again)), np.asarray(want))
    assert devices_of(again) == set(MESH.device_list)


def test_key_data_and_back():
    keys = random.split(random.key(1), 8)
    split = weft.device_put(keys, NamedSharding(MESH, P("i")))
    bits = random.key_data(split)
    np.testing.assert_array_equal(np.asarray(bits), np.asarray(random.key_data(keys)))
    back = random.wrap_key_data(weft.device_put(bits, NamedSharding(MESH, P("i", "j"))))
    np.testing.assert_array_equal(np.asarray(random.key_data(back)), np.asarray(bits))
    assert random.uniform(split[3]) == random.uniform(keys[3])


# ---- calling Python ----------------------------------------------------------------------------


@ways
def test_callbacks_see_whole_arrays_once(way):
    seen = []

    def double(values):
        seen.append(values)
        return np.asarray(values) * 2

    struct = weft.ShapeDtypeStruct((8, 8), np.float32)
    got = way(lambda x: weft.pure_callback(double, struct, x + 1) - 1)(on(PLACES["both"]))
    close(got, 2 * X + 1)
    assert len(seen) == 1
    close(seen[0], X + 1)
    assert devices_of(got) == set(MESH.device_list)


@ways
def test_what_is_printed_is_printed_once(way, capfd):
    def function(x):
        weft.debug.print("sum {:.1f}", x.sum())
        return lax.fori_loop(0, 3, lambda i, v: weft.debug.print("{}", i) or v + 1, x)

    close(way(function)(on(PLACES["rows"])), X + 3)
    assert sorted(capfd.readouterr().out.split()) == sorted(["sum", f"{X.sum():.1f}", *"012"])


# ---- where results lie, and what is sent -------------------------------------------------------


def test_elementwise_operations_send_nothing_and_stay_split():
    x = on(PLACES["both"])
    f = weft.jit(lambda a, b: wnp.tanh(a) * b + 1.0)
    got = f(x, on(PLACES["both"], Y))
    assert got.sharding is PLACES["both"] and (x + x).sharding is PLACES["both"]
    assert communication(f.lower(x, x).compile().as_text()) == []


def test_sums_and_products_send_what_they_need():
    rows = on(PLACES["rows"])
    total = weft.jit(wnp.sum).lower(rows).compile().as_text()
    assert set(communication(total)) == {"all-reduce"}
    inner = weft.jit(lambda a: a.sum(axis=1)).lower(rows).compile().as_text()
    assert communication(inner) == []
    columns = on(PLACES["columns"])
    product = weft.jit(lambda a, b: a @ b).lower(columns, on(NamedSharding(MESH, P("j")), Y))
    assert communication(product.compile().as_text()) == ["all-reduce"]


def test_a_result_that_no_spec_describes_is_tiled():
    got = on(PLACES["tiles"]) * 2
    assert isinstance(got.sharding, TiledSharding)
    close(got, 2 * X)
    assert got.sharding.is_equivalent_to(PLACES["tiles"], 2)
    close(with_sharding_constraint(got, PLACES["turned"]), 2 * X)


def test_results_on_a_mesh_of_one_device_keep_the_mesh():
    x = on(PLACES["one device"])
    got = weft.jit(lambda a: a + weft.device_put(Y, ONE.device_list[0]))(x)
    assert isinstance(got.sharding, NamedSharding) and got.sharding.mesh is ONE
    close(got, X + Y)


# ---- operands that come along ------------------------------------------------------------------


def test_arrays_put_nowhere_come_along():
    x = on(PLACES["both"])
    for other in (Y, wnp.array(Y), Y.tolist()[0][0]):
        close(x + other, X + np.asarray(other, np.float32))
        close(weft.jit(lambda a, b: a @ (a * b))(x, other), X @ (X * np.asarray(other)), 1e-5)


def test_what_is_closed_over_is_brought_once(monkeypatch):
    weights, moves = wnp.array(Y), []
    split = on(PLACES["rows"])
    monkeypatch.setattr(
        executables, "to_place", lambda x, place: moves.append(place) or original(x, place)
    )
    f = weft.jit(lambda a: a @ weights + split)
    for _ in range(3):
        close(f(on(PLACES["both"])), X @ Y + X, 1e-5)
    assert len(moves) == 1
    close(weft.jit(lambda a: a + split)(Y), Y + X)


original = executables.to_place


def test_numbers_are_brought_once(monkeypatch):
    x, moves = on(PLACES["both"]), []
    monkeypatch.setattr(
        executables, "to_place", lambda x, place: moves.append(place) or original(x, place)
    )
    for _ in range(3):
        close(x * 1.625, X * np.float32(1.625))
    assert len(moves) <= 1


def test_a_second_call_compiles_nothing(monkeypatch):
    x = on(PLACES["both"])
    f = weft.jit(lambda a: wnp.sin(a) @ a)

    def run():
        return f(x), x + x, x * 2.0, x[1], x.sum(), random.normal(random.key(0), (8, 8)) + x

    run()
    compiled = counted_compilations(monkeypatch)
    run()
    assert not compiled
    on(PLACES["rows"]) + x
    assert compiled  # The counter counts.


# ---- donation ----------------------------------------------------------------------------------


def test_donated_arrays_are_gone_and_errors_say_where():
    f = weft.jit(lambda a, b: a + b, donate_argnums=0)
    x, y = on(PLACES["both"]), on(PLACES["both"], Y)
    close(f(x, y), X + Y)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(weft.errors.DeletedArrayError, match=r"donated at .*test_partitioned"):
        x + 1
    with pytest.raises(weft.errors.DeletedArrayError, match="donated at"):
        f(x, y)
    with pytest.raises(WeftValueError, match="donated and used twice"):
        f(y, y)


def test_donating_an_array_that_comes_along():
    loose = wnp.array(Y)
    close(weft.jit(lambda a, b: a + b, donate_argnums=1)(on(PLACES["both"]), loose), X + Y)
    assert loose.is_deleted()
    number = wnp.float32(3)
    f = weft.jit(lambda a, b: a * b, donate_argnums=1)
    with pytest.warns(UserWarning, match="no result takes 4 B on each device"):
        close(f(on(PLACES["rows"]), 3.0), 3 * X)
        close(f(on(PLACES["rows"]), number), 3 * X)
    close(f(on(PLACES["rows"]), 3.0), 3 * X)


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("other", [weft.devices()[3], NamedSharding(HALF, P("i"))], ids=str)
@ways
def test_arrays_on_other_devices_are_refused_and_the_fix_works(other, way):
    f = way(lambda a, b: a + b)
    x, y = on(PLACES["both"]), on(other, Y)
    with pytest.raises(WeftValueError, match="different devices") as caught:
        f(x, y)
    assert str(PLACES["both"]) in str(caught.value) and str(other) in str(caught.value)
    close(f(x, weft.device_put(y, caught.value.fix.data["device"])), X + Y)


def test_a_mesh_of_other_devices_inside_a_program_is_refused_and_the_fix_works():
    f = weft.jit(lambda a: with_sharding_constraint(a + 1, NamedSharding(HALF, P("i"))))
    x = on(PLACES["both"])
    with pytest.raises(WeftValueError, match="other devices") as caught:
        f(x)
    close(f(weft.device_put(x, caught.value.fix.data["device"])), X + 1)
    close(f(X), X + 1)  # Put nowhere on purpose: it comes along.


def test_meshes_over_different_devices_in_one_program_are_refused():
    half, whole = NamedSharding(HALF, P("i")), NamedSharding(MESH, P("i"))

    @weft.jit
    def f(a):
        return with_sharding_constraint(with_sharding_constraint(a, half) + 1, whole)

    with pytest.raises(WeftValueError, match="meshes over different devices"):
        f(X)


def test_meshes_of_another_shape_or_order_in_one_program_are_fine():
    shardings = [NamedSharding(m, s) for m in (MESH, TURNED) for s in (P("i"), P("j", "i"))]
    shardings += [NamedSharding(LINE, P("k")), PLACES["tiles"]]

    @weft.jit
    def f(a):
        for how in shardings:
            a = with_sharding_constraint(a + 1, how)
        return weft.jit(lambda v: with_sharding_constraint(v, PLACES["turned"]))(a)

    close(f(on(PLACES["both"])), X + len(shardings))
    close(weft.grad(lambda a: (f(a) ** 2).sum())(on(PLACES["turned"])), 2 * (X + 6), 1e-5)


# ---- what ends the process or goes wrong in XLA if it gets there -------------------------------


def test_an_array_of_which_one_part_is_gone_is_a_deleted_array():
    x = on(PLACES["both"])
    copy = weft.device_put(x, PLACES["turned"])
    x.addressable_shards[5].data.delete()
    for operation in (lambda: x + 1, lambda: weft.jit(wnp.sum)(x), lambda: x @ Y, lambda: x[0]):
        with pytest.raises(weft.errors.DeletedArrayError):
            operation()
    assert x.is_deleted()
    close(on(PLACES["both"]) + 1, X + 1)
    assert copy.is_deleted() or np.asarray(copy).shape == (8, 8)


def test_a_part_that_was_donated_is_gone():
    x = on(PLACES["rows"])
    part = x.addressable_data(3)
    close(weft.jit(lambda a: a + 1, donate_argnums=0)(part), X[2:4] + 1)
    with pytest.raises(weft.errors.DeletedArrayError):
        weft.jit(lambda a: a * 2)(x)


CONVOLUTIONS = {
    "kernel gradient, split along space": ((None, None, "i"), (), 1),
    "all in space": ((None, "j", "i"), (None, None, "j"), 1),
    "features and space": ((None, "i", "j"), ("j", "i"), 1),
    "groups": (("j",), (("i",),), 4),
    "groups, split along features": ((None, "i"), ("j",), 4),
}


@pytest.mark.parametrize("image_axes, kernel_axes, groups", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_and_their_gradients_however_they_are_split(image_axes, kernel_axes, groups):
    image = RNG.normal(size=(4, 4, 8, 4)).astype(np.float32)
    kernel = RNG.normal(size=(8, 4 // groups, 4, 2)).astype(np.float32)
    weights = RNG.normal(size=(4, 8, 5, 3)).astype(np.float32)

    def loss(x, w):
        out = lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=groups)
        return (out * weights).sum()

    got = weft.jit(weft.grad(loss, (0, 1)))(
        on(NamedSharding(MESH, P(*image_axes)), image),
        on(NamedSharding(MESH, P(*kernel_axes)), kernel),
    )
    want = [np.zeros(image.shape), np.zeros(kernel.shape)]
    features = 8 // groups
    for o, row, column in np.ndindex(8, 5, 3):
        ins = slice(o // features * (4 // groups), (o // features + 1) * (4 // groups))
        window = (slice(None), ins, slice(row, row + 4), slice(column, column + 2))
        factor = weights[:, o, row, column].astype(np.float64)
        want[0][window] += factor[:, None, None, None] * kernel[o]
        want[1][o] += np.tensordot(factor, image[window], 1)
    for a, b in zip(got, want, strict=True):
        close(a, b, 1e-4)


def test_splitting_batches_of_a_convolution_sends_the_gradient_only():
    image, kernel = np.ones((8, 4, 8, 8), np.float32), np.ones((4, 4, 3, 3), np.float32)
    f = weft.jit(lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"))
    x = on(NamedSharding(MESH, P("i")), image)
    assert communication(f.lower(x, kernel).compile().as_text()) == []
    slope = weft.jit(weft.grad(lambda x, w: f(x, w).sum(), 1))
    assert set(communication(slope.lower(x, kernel).compile().as_text())) == {"all-reduce"}
