"""Foreign calls in programs over eight devices: what each device computes, and what is sent."""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np
import pytest

import ffi_cases
import weft
import weft.numpy as wnp
from collective_counts import COMPILED
from ffi_cases import Struct, call, kernels, note, noted, scaled_sum
from weft import errors, lax
from weft.sharding import Mesh, NamedSharding, P

pytestmark = pytest.mark.fast
ffi_cases.needs(".c")
kernels()

MESH = Mesh(np.array(weft.devices()).reshape(4, 2), ("i", "j"))
NUMBERS = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
SCALE = NUMBERS[::-1].copy()
WANTED = (NUMBERS.astype(np.float64) * SCALE).sum(axis=-1)
ROWS = P("i")
SPECS = [P("i"), P("i", "j"), P(None, "j"), P(("i", "j")), P()]
parts = partial(scaled_sum, target="Parts", num_batch_dims=1)


def put(x, spec):
    return weft.device_put(wnp.asarray(x), NamedSharding(MESH, spec))


def sent(f, *args):
    """The collectives of the compiled program."""
    text = weft.jit(f).lower(*args).compile().as_text()
    return Counter(COMPILED.findall(text))


def check(found, wanted=WANTED):
    weft.block_until_ready(found)  # on all devices, for what handlers note there
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", [pytest.param(lambda f: f, id="eager"), weft.jit])
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_device_gets_the_whole_operands(spec, way):
    x, scale = put(NUMBERS, spec), put(SCALE, P())
    with noted() as rows:
        check(way(scaled_sum)(x, scale))
    assert set(rows) == {8.0}
    gathered = sum(sent(scaled_sum, x, scale).values())
    assert gathered == len([axis for axis in spec if axis is not None])


@pytest.mark.parametrize("way", [pytest.param(lambda f: f, id="eager"), weft.jit])
@pytest.mark.parametrize(
    ("spec", "rows", "gathers"),
    [(P("i"), 2, 0), (P(("i", "j")), 1, 0), (P("i", "j"), 2, 2), (P(None, "j"), 8, 2), (P(), 8, 0)],
    ids=str,
)
def test_a_batch_is_cut_and_nothing_is_sent(spec, rows, gathers, way):
    x, scale = put(NUMBERS, spec), put(SCALE, spec)
    with noted() as found:
        y = way(parts)(x, scale)
        check(y)
    assert found == [rows] * 8
    assert y.sharding.is_equivalent_to(NamedSharding(MESH, P(*spec[:1])), 1)
    # What is not a batch dimension is brought together, for each operand.
    assert sum(sent(parts, x, scale).values()) == gathers


def test_what_comes_after_decides_how_a_batch_is_cut():
    def f(x, scale):
        y = parts(x * 1, scale * 1)
        return lax.with_sharding_constraint(y, NamedSharding(MESH, P("j")))

    with noted() as rows:
        check(weft.jit(f)(NUMBERS, SCALE))
    assert rows == [4] * 8


def test_vmap_makes_a_batch_that_is_cut():
    x, scale = put(NUMBERS, P("i")), put(SCALE, P("i"))
    one = partial(scaled_sum, target="Parts", vmap_method="broadcast_all")
    f = weft.jit(weft.vmap(one))
    with noted() as rows:
        check(f(x, scale))
    assert rows == [2] * 8 and not sent(f, x, scale)
    # An operand that is not mapped is repeated; with one element for all, nothing is cut.
    for method, rows_each in (("broadcast_all", 2), ("expand_dims", 8)):
        one = partial(scaled_sum, target="Parts", vmap_method=method)
        with noted() as rows:
            check(weft.jit(weft.vmap(one, (0, None)))(x, SCALE[0]), NUMBERS @ SCALE[0])
        assert set(rows) == {rows_each}


def test_calls_that_are_not_told_are_not_cut():
    """Registered as partitionable, without batch dimensions: the kernel may look at all rows."""
    x = put(NUMBERS, P("i"))
    with noted() as rows:
        check(weft.jit(partial(scaled_sum, target="Parts"))(x, put(SCALE, P("i"))))
    assert set(rows) == {8.0}


# ---- shard_map and simulate ----------------------------------------------------------------------


@weft.custom_vjp
def product(x, scale):
    return scaled_sum(x, scale)


product.defvjp(
    lambda x, s: (product(x, s), (x, s)),
    lambda kept, ct: (ct[..., None] * kept[1], ct[..., None] * kept[0]),
)


def over_rows(f, out_specs=ROWS):
    return weft.shard_map(f, mesh=MESH, in_specs=(P("i"), P("i")), out_specs=out_specs)


@pytest.mark.parametrize("way", [pytest.param(lambda f: f, id="eager"), weft.jit])
def test_in_a_shard_map_each_device_calls_it_on_its_block(way):
    f = way(over_rows(scaled_sum))
    with noted() as rows:
        check(f(NUMBERS, SCALE))
    assert rows == [2] * 8
    with weft.simulate(MESH):
        check(way(over_rows(scaled_sum))(NUMBERS, SCALE))

    def loss(x, s):
        return over_rows(lambda x, s: lax.psum(product(x, s).sum(), "i"), P())(x, s)

    for found, wanted in zip(
        way(weft.grad(loss, (0, 1)))(NUMBERS, SCALE), (SCALE, NUMBERS), strict=True
    ):
        check(found, wanted)
    assert not sent(over_rows(scaled_sum), put(NUMBERS, P("i")), put(SCALE, P("i")))


def test_a_call_varies_as_its_operands_do():
    with pytest.raises(errors.WeftError, match="var"):
        over_rows(scaled_sum, P())(NUMBERS, SCALE)
    whole = weft.shard_map(scaled_sum, mesh=MESH, in_specs=(P(), P()), out_specs=P())
    check(weft.jit(whole)(NUMBERS, SCALE))


# ---- effects -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [pytest.param(lambda f: f, id="eager"), weft.jit])
@pytest.mark.parametrize("spec", [P("i"), P()], ids=str)
def test_an_effect_happens_once_in_a_program_of_eight_devices(spec, way):
    x = put(np.arange(8, dtype=np.float32), spec)
    with noted() as found:
        assert way(lambda x: note(x * 1))(x) is None
    assert found == list(range(8))
    out = Struct((), np.int32)
    with noted() as found:
        n = way(lambda x: call("Note", out, x + 1, has_side_effect=True) * 2)(x)
        assert int(n) == 16
    assert found == list(range(1, 9))


@pytest.mark.parametrize("way", [pytest.param(lambda f: f, id="eager"), weft.jit])
def test_an_effect_in_a_shard_map_happens_on_every_device(way):
    def f(x):
        note(x)
        return x

    x = np.arange(8, dtype=np.float32)
    mapped = weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"))
    with noted() as found:
        way(mapped)(x)
    assert sorted(found) == sorted([*x, *x])  # both devices along j have each block
    with noted() as simulated, weft.simulate(MESH):
        way(mapped)(x)
    assert sorted(simulated) == sorted(found)


def test_an_effect_in_a_loop_and_in_a_branch_over_eight_devices():
    def step(c, _):
        n = call("Note", Struct((), np.int32), c, has_side_effect=True)
        c = lax.cond(c[0] > 1, lambda c: c * 1, lambda c: (note(-c), c)[1], c)
        return c + 1, n

    x = put(np.zeros(8, np.float32), P("i"))
    with noted() as found:
        end, counts = weft.jit(lambda x: lax.scan(step, x, None, length=3))(x)
        check(end, 3.0)
    zeros, ones, twos = [0.0] * 8, [1.0] * 8, [2.0] * 8
    assert found == [*zeros, *zeros, *ones, *[-1.0] * 8, *twos]
    assert counts.tolist() == [8, 24, 40]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.complex64, np.float64])
def test_results_of_an_effect_reach_all_devices(dtype):
    x = (np.arange(8) - 3).astype(dtype)

    def f(x):
        return call("Same", Struct(x.shape, x.dtype), x, has_side_effect=True)

    y = weft.jit(f)(put(x, P("i")))
    for shard in y.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), x[shard.index])


def test_values_where_some_axes_are_automatic():
    mapped = weft.shard_map(
        scaled_sum, mesh=MESH, in_specs=P("i"), out_specs=P("i"), axis_names={"i"}
    )
    with noted() as rows:
        check(weft.jit(mapped)(put(NUMBERS, P("i", "j")), SCALE))
    assert set(rows) == {2.0}
    mapped = weft.shard_map(parts, mesh=MESH, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    with noted() as rows:
        check(weft.jit(mapped)(put(NUMBERS, P(("i", "j"))), put(SCALE, P(("i", "j")))))
    assert set(rows) <= {1.0, 2.0}


def test_an_effect_where_some_axes_are_automatic():
    def f(x):
        note(x)
        return x * 2

    mapped = weft.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    x = np.arange(8, dtype=np.float32)
    with noted() as found:
        np.testing.assert_array_equal(weft.jit(mapped)(x), 2 * x)
    assert set(found) == set(x.tolist())
