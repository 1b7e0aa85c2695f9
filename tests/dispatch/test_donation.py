"""Donated arguments: whose memory is reused, what is said of the others, and that what was given
away is gone."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import warnings
import weakref

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax
from weft.errors import DeletedArrayError, WeftValueError
from weft.layout import Format, Layout
from weft.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]

DEVICES = weft.devices()
MESH = weft.make_mesh((8,), ("i",))
ROWS = NamedSharding(MESH, PartitionSpec("i"))
PLACES = {"one device": None, "another device": DEVICES[3], "eight devices": ROWS}


def array(*shape, place=None, dtype=np.float32):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    return wnp.array(values) if place is None else weft.device_put(values, place)


def quietly(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def pointers(x):
    return [part.data.unsafe_buffer_pointer() for part in x.addressable_shards]


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("by_hand", [False, True])
def test_a_result_lies_in_the_memory_of_a_donated_argument(place, by_hand):
    x = array(64, 64, place=PLACES[place])
    f = weft.jit(lambda x: x * 2 + 1, donate_argnums=0)
    call = f.lower(x).compile() if by_hand else f
    before = pointers(x)
    out = call(x)
    assert pointers(out) == before
    np.testing.assert_array_equal(out, np.arange(64 * 64).reshape(64, 64) * 2 + 1)
    assert x.is_deleted()


def test_what_is_aliased_counts_in_the_memory_of_the_program():
    def compiled(**options):
        return weft.jit(lambda x: x + 1, **options).lower(array(32, 32)).compile()

    assert compiled(donate_argnums=0).memory_analysis().alias_size_in_bytes == 4 * 32 * 32
    assert compiled().memory_analysis().alias_size_in_bytes == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.T,
        lambda x: x.reshape(-1),
        lambda x: x.astype(np.int32),
        lambda x: x[::-1],
        lambda x: x,
        lambda x: x @ x,
    ],
)
def test_memory_is_reused_for_other_shapes_dtypes_and_orders(change):
    x = array(16, 16)
    expected = np.asarray(change(np.asarray(x).copy()))
    compiled = weft.jit(change, donate_argnums=0).lower(x).compile()
    assert compiled.donation["x"].reused_for == "result"
    np.testing.assert_array_equal(compiled(x), expected)


def test_a_view_of_a_donated_array_keeps_its_values():
    x = array(64)
    view = np.asarray(x)
    kept = view.copy()
    weft.jit(lambda x: x * 7, donate_argnums=0)(x).block_until_ready()
    np.testing.assert_array_equal(view, kept)


# ---- the report ----------------------------------------------------------------------------------


def step(state, grads, unread, empty):
    return {"w": state["w"] - grads["w"], "loss": wnp.sum(state["b"])}


def test_the_report_has_a_row_for_each_donated_array():
    state = {"w": array(4, 5), "b": array(5)}
    f = weft.jit(step, donate_argnums=(0, 1, 2, 3))
    args = (state, {"w": array(4, 5)}, array(7), array(0))
    donation = quietly(lambda: f.lower(*args).compile()).donation
    assert [row.path for row in donation] == [
        "state['b']",
        "state['w']",
        "grads['w']",
        "unread",
        "empty",
    ]
    rows = {row.path: row for row in donation}
    (reused,) = donation.reused
    assert reused.path in ("state['w']", "grads['w']")
    assert reused.reused_for == "result['w']" and reused.reason is None and reused.taken
    (other,) = {"state['w']", "grads['w']"} - {reused.path}
    assert rows[other].reason == (
        f"every result that takes 80 B lies in other memory: result['w'] in that of {reused.path}"
    )
    assert rows["state['b']"].reason == "no result takes 20 B"
    assert "does not read it" in rows["unread"].reason and not rows["unread"].taken
    assert {row.path for row in donation.unused} == {other, "state['b']"}
    assert donation["unread"] is rows["unread"] and donation[0] is rows["state['b']"]
    assert len(donation) == 5
    with pytest.raises(KeyError):
        donation["nothing of that name"]
    assert (
        repr(donation).splitlines()[1] == "  state['b'] (f32[5]): not reused: no result takes 20 B"
    )
    quietly(f, *args)
    gone = {"state['b']": state["b"], "state['w']": state["w"], "grads['w']": args[1]["w"]}
    assert all(x.is_deleted() for x in gone.values())
    assert not args[2].is_deleted() and not args[3].is_deleted()


def test_reasons_that_are_no_matter_of_size():
    empty = weft.jit(lambda x: (x, x + 1), donate_argnums=0).lower(array(0)).compile().donation
    assert empty["x"].reason is None or "no elements" in empty["x"].reason
    with weft.debug_nans():
        x = array(3)
        compiled = weft.jit(lambda x: x + 1, donate_argnums=0).lower(x).compile()
        assert "debug_nans" in compiled.donation["x"].reason
        compiled(x)
        assert not x.is_deleted()
    nothing = weft.jit(lambda x: x).lower(array(3)).compile().donation
    assert len(nothing) == 0 and "nothing is donated" in repr(nothing)


def test_sizes_are_those_of_the_blocks_on_each_device():
    f = weft.jit(lambda x, y: (x + 1, wnp.sum(y)), donate_argnums=(0, 1))
    args = array(8, 8, place=ROWS), array(8, 2, place=ROWS)
    donation = quietly(lambda: f.lower(*args).compile()).donation
    assert donation["x"].reused_for == "result[0]"
    assert donation["y"].reason == "no result takes 8 B on each device"


def test_keys_and_arguments_by_name():
    def f(*, keys, x):
        return keys[::-1], x + 1

    keys = weft.random.split(weft.random.key(0), 4)
    compiled = weft.jit(f, donate_argnames=("keys", "x")).lower(keys=keys, x=array(5)).compile()
    assert {row.path: row.reused_for for row in compiled.donation} == {
        "keys": "result[0]",
        "x": "result[1]",
    }


def test_closed_over_and_static_arguments_do_not_shift_the_report():
    table = array(3, 3)
    f = weft.jit(lambda n, x, y: x * n + wnp.sum(table), static_argnums=0, donate_argnums=2)
    donation = f.lower(2, array(4), array(4)).compile().donation
    assert [row.path for row in donation] == ["y"] and "not read" in donation["y"].reason
    g = weft.jit(lambda n, x: x * n + wnp.sum(table), static_argnums=0, donate_argnums=1)
    assert g.lower(2, array(4)).compile().donation["x"].reused_for == "result"


# ---- the warning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_hand", [False, True])
def test_arrays_given_away_for_nothing_are_warned_of_once_at_the_users_line(by_hand):
    # Equal functions share their programs, and so one warning.
    f = weft.jit(lambda x, y: x + wnp.sum(y) + by_hand, donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match="Some donated buffers were not usable") as caught:
        f.lower(array(4), array(9)).compile() if by_hand else f(array(4), array(9))
    (warning,) = caught
    assert warning.filename == __file__
    assert "y (f32[9]): no result takes 36 B" in str(warning.message)
    assert "x (f32" not in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(array(4), array(9))
        f.lower(array(4), array(9)).compile()


def test_what_is_not_read_or_kept_for_a_search_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.jit(lambda x, y: x * 1, donate_argnums=1)(array(3), array(9))
        with weft.debug_nans():
            weft.jit(lambda x: wnp.sum(x), donate_argnums=0)(array(3))


# ---- what was given away is gone -----------------------------------------------------------------


def given_away(place, reused):
    x = array(8, place=place)
    f = (lambda x: x * 2) if reused else (lambda x: wnp.sum(x))
    quietly(weft.jit(f, donate_argnums=0), x)
    return x


ON_MESH = {"mesh": MESH, "in_specs": PartitionSpec("i"), "out_specs": PartitionSpec("i")}
USES = {
    "an operation": lambda x: x + 1,
    "an index": lambda x: x[0],
    "an update": lambda x: x.at[0].set(1),
    "iteration": list,
    "jit": lambda x: weft.jit(lambda x: x + 1)(x),
    "jit of a closure": lambda x: weft.jit(lambda y: x + y)(1.0),
    "donation again": lambda x: weft.jit(lambda x: x * 2, donate_argnums=0)(x),
    "grad": lambda x: weft.grad(lambda x: wnp.sum(x * x))(x),
    "vmap": lambda x: weft.vmap(lambda x: x + 1)(x),
    "scan": lambda x: lax.scan(lambda c, x: (c + x, x), 0.0, x),
    "shard_map": lambda x: weft.shard_map(lambda x: x + 1, **ON_MESH)(x),
    "jit of shard_map": lambda x: weft.jit(weft.shard_map(lambda x: x + 1, **ON_MESH))(x),
    "conversion": np.asarray,
    "an element": lambda x: x.item(0),
    "a list": lambda x: x.tolist(),
    "text": str,
    "dlpack": np.from_dlpack,
    "a deep copy": copy.deepcopy,
    "pickle": pickle.dumps,
    "device_put": lambda x: weft.device_put(x, DEVICES[5]),
    "device_get": weft.device_get,
    "waiting": weft.block_until_ready,
    "asking whether it is ready": lambda x: x.is_ready(),
    "a part": lambda x: x.addressable_data(0),
    "an address": lambda x: x.unsafe_buffer_pointer(),
}


@pytest.mark.parametrize("reused", [True, False], ids=["reused", "unused"])
@pytest.mark.parametrize("place", ["one device", "eight devices"])
@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_donated_array_says_where_it_was_donated(use, place, reused):
    x = given_away(PLACES[place], reused)
    with pytest.raises(DeletedArrayError, match=r"donated at .*test_donation.py:\d+"):
        USES[use](x)


def test_the_line_of_the_donation_is_the_one_that_called():
    x = array(3)
    f = weft.jit(lambda x: x * 2, donate_argnums=0)
    f(x)
    line = test_the_line_of_the_donation_is_the_one_that_called.__code__.co_firstlineno + 3
    with pytest.raises(DeletedArrayError, match=re.escape(f"test_donation.py:{line}")):
        x + 1


def test_a_compiled_program_names_the_argument_that_is_gone():
    compiled = weft.jit(lambda p: p["w"] * 2, donate_argnums=0).lower({"w": array(3)}).compile()
    p = {"w": array(3)}
    compiled(p)
    with pytest.raises(DeletedArrayError, match=r"p\['w'\] \(gone\)") as caught:
        compiled(p)
    assert "donated at" in str(caught.value)
    compiled({"w": array(3)})


def test_what_can_be_said_of_a_donated_array_is_said():
    x = given_away(None, reused=True)
    assert repr(x) == "Array(deleted, shape=(8,), dtype=float32)"
    assert x.shape == (8,) and x.dtype == np.float32 and x.is_deleted()
    assert weft.make_jaxpr(lambda x: x + 1)(x).in_avals[0].shape == (8,)
    assert weft.jit(lambda x: x + 1).lower(x).out_info.shape == (8,)


def test_arrays_that_share_the_memory_are_gone_too():
    x = array(8, place=ROWS)
    part = x.addressable_data(0)
    weft.jit(lambda x: x * 2, donate_argnums=0)(x)
    with pytest.raises(DeletedArrayError, match="shared the memory"):
        part + 1
    x = array(8, place=ROWS)
    weft.jit(lambda x: x * 2, donate_argnums=0)(x.addressable_data(0))
    with pytest.raises(DeletedArrayError):
        x + 1


def test_one_array_cannot_be_donated_and_given_again():
    f = weft.jit(lambda x, y: (x + y, x - y), donate_argnums=0)
    compiled = f.lower(array(3), array(3)).compile()
    for call in (f, compiled):
        x = array(3)
        with pytest.raises(WeftValueError, match="used twice") as caught:
            call(x, x)
        assert "x is donated" in str(caught.value) and "given again as y" in str(caught.value)
        assert caught.value.fix.kind == "copy"
        np.testing.assert_array_equal(call(x.copy(), x)[0], [0, 2, 4])


COLUMNS = Format(Layout((1, 0)), SingleDeviceSharding(DEVICES[0]))


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("to", [COLUMNS, DEVICES[1], ROWS], ids=["columns", "device", "rows"])
def test_an_array_that_is_refused_is_not_lost_on_the_way(to, by_hand):
    x = array(8, 4)
    f = weft.jit(lambda a, b: a + b, donate_argnums=0, in_shardings=(to, to))
    call = f.lower(x, x).compile() if by_hand else f
    with pytest.raises(WeftValueError, match="donated and used twice"):
        call(x, x)
    closing_over = weft.jit(lambda a: a + x, donate_argnums=0, in_shardings=(COLUMNS,))
    with pytest.raises(WeftValueError, match="donated and used twice") as caught:
        closing_over(x)
    assert "closed over" in str(caught.value)
    np.testing.assert_array_equal(x, np.arange(32).reshape(8, 4))


@pytest.mark.parametrize("by_hand", [False, True])
def test_what_is_not_taken_stays_where_arguments_are_brought_elsewhere(by_hand):
    def called(f, *args):
        return f.lower(*args).compile()(*args) if by_hand else f(*args)

    x, y = array(8, 4), array(8, 4)
    here = (DEVICES[1], DEVICES[1])
    unread = weft.jit(lambda a, b: b * 2, donate_argnums=0, in_shardings=here)
    np.testing.assert_array_equal(called(unread, x, y), 2 * np.arange(32).reshape(8, 4))
    with weft.debug_nans(True):
        called(weft.jit(lambda a: a * 2, donate_argnums=0, in_shardings=(COLUMNS,)), x)
    np.testing.assert_array_equal(x, np.arange(32).reshape(8, 4))


# ---- transformations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: weft.vmap(f)(x),
        lambda f, x: weft.grad(lambda x: wnp.sum(f(x)))(x),
        lambda f, x: weft.jvp(f, (x,), (x,)),
        lambda f, x: weft.vjp(f, x)[1](x),
        lambda f, x: weft.jit(f)(x),
        lambda f, x: lax.scan(lambda c, x: (f(c), x), x, None, length=2),
    ],
    ids=["vmap", "grad", "jvp", "vjp", "jit around it", "scan"],
)
def test_donation_inside_of_a_transformation_takes_nothing(call):
    x = array(3)
    call(weft.jit(lambda x: x * x, donate_argnums=0), x)
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_a_training_loop_runs_in_the_memory_of_its_state():
    @weft.jit(donate_argnums=0)
    def update(state, x):
        return {"w": state["w"] - 0.5 * x, "count": state["count"] + 1}

    state = {"w": array(128), "count": wnp.array(0)}
    first, expected = state["w"].unsafe_buffer_pointer(), np.arange(128, dtype=np.float64)
    for i in range(5):
        x = np.full(128, i, np.float32)
        state, expected = update(state, x), expected - 0.5 * x
    np.testing.assert_allclose(state["w"], expected)
    assert int(state["count"]) == 5 and state["w"].unsafe_buffer_pointer() == first


@pytest.mark.parametrize(
    "make", [wnp.asarray, wnp.array, weft.device_put], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("value", [1.5, 2, True, 0j, np.float32(1.5)], ids=repr)
def test_arrays_of_equal_numbers_are_each_their_users_own(make, value):
    first, second = make(value), make(value)
    first.delete()
    assert first.is_deleted() and not second.is_deleted() and second == value
    weft.jit(lambda x: ~x if x.dtype == bool else -x, donate_argnums=0)(second)
    assert second.is_deleted() and make(value) == value
    gone = weakref.ref(third := make(value))
    del third
    gc.collect()
    assert gone() is None


def test_an_argument_given_by_name_donates_no_other():
    f = weft.jit(lambda a, b: a + b, donate_argnames="b")
    a, b = wnp.arange(3.0), wnp.arange(3.0)
    f(a, b=b)
    assert b.is_deleted() and not a.is_deleted()
    b = wnp.arange(3.0)
    f(a, b)
    assert b.is_deleted() and not a.is_deleted()
