"""Many small closed-over arrays are one operand of the executable, and no value is ever stale."""

import random
import re

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.core.jaxpr import eval_jaxpr
from weft.dispatch.executable_calls import FEWEST, MOST_BYTES, pack_constants

N = FEWEST + 16
DTYPES = ("float32", "float16", "bfloat16", "int8", "uint32", "bool", "complex64")


def closing_over(arrays):
    """A jitted function of a scalar and the arrays that it closes over."""

    def function(x):
        return [x.astype(a.dtype) + a if a.dtype != bool else a ^ (x > 0) for a in arrays]

    return weft.jit(function)


def expected(arrays, x):
    return [
        np.asarray(a) ^ (x > 0) if a.dtype == bool else a.dtype.type(x) + np.asarray(a)
        for a in arrays
    ]


def operands(function, *args):
    """How many operands the main function of the module has."""
    text = function.lower(*args).as_text()
    head = re.search(r"func.func public @main\((.*?)\) ->", text, re.DOTALL)
    return len(re.findall(r"%arg\d+:", head.group(1)))


def check(arrays, x=3.0):
    found = closing_over(arrays)(jnp.float32(x))
    for ours, wanted in zip(found, expected(arrays, x), strict=True):
        assert ours.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(ours), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_every_dtype(dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    arrays = [jnp.asarray(np.arange(k % 5 + 1).astype(kind) + kind.type(k % 2)) for k in range(N)]
    check(arrays)


def test_one_operand_per_dtype():
    shapes = [(), (3,), (2, 2), (1, 0, 2), (4, 1, 2)]
    arrays = [jnp.full(shapes[k % 5], k, ("float32", "int32")[k % 2]) for k in range(2 * N)]
    check(arrays)
    empty = sum(a.size == 0 for a in arrays)
    assert operands(closing_over(arrays), jnp.float32(1.0)) == 1 + 2 + empty


def test_few_arrays_have_operands_of_their_own():
    arrays = [jnp.full(3, k) for k in range(FEWEST - 1)]
    assert operands(closing_over(arrays), jnp.float32(1.0)) == FEWEST


def test_what_is_not_known_to_be_safe_has_an_operand_of_its_own():
    device = weft.devices()[0]
    committed = weft.device_put(jnp.full(3, 7.0), device)
    large = jnp.full(MOST_BYTES, 2, dtype=float)
    weak = jnp.asarray(1.5)
    assert weak.weak_type
    arrays = [committed, large, weak, *(jnp.full(3, k, dtype=float) for k in range(N))]
    found = closing_over(arrays)
    assert operands(found, jnp.float32(1.0)) == 1 + 3 + 1
    check(arrays)
    assert found(jnp.float32(1.0))[0].devices() == {device}


def test_arrays_elsewhere_are_not_packed():
    mesh = weft.make_mesh((8,), ("i",))
    sharding = weft.NamedSharding(mesh, weft.P("i"))
    arrays = [weft.device_put(jnp.arange(8.0) + k, sharding) for k in range(N)]
    found = closing_over(arrays)(jnp.float32(1.0))
    assert all(x.sharding.is_equivalent_to(sharding, 1) for x in found)
    np.testing.assert_array_equal(np.asarray(found[5]), np.arange(8.0) + 6)


def test_functions_made_anew_with_other_values_see_their_own():
    """Equal code over other arrays runs the same executable, on its own packed array."""
    draw = random.Random(0)
    x = jnp.float32(2.0)

    def made(values):
        arrays = [jnp.full(2, v, "float32") for v in values]
        # What is committed is not packed: the same jaxpr is cut out in several ways.
        for k in draw.sample(range(N), draw.randrange(3)):
            arrays[k] = weft.device_put(arrays[k], weft.devices()[0])
        return weft.jit(lambda x: sum(k * (x + a) for k, a in enumerate(arrays)))

    values = [draw.randrange(9) for _ in range(N)]
    for _ in range(30):
        # One value changes at a time: a stale buffer or a wrong order shows.
        values[draw.randrange(N)] = draw.randrange(100)
        wanted = sum(k * (2.0 + v) for k, v in enumerate(values))
        np.testing.assert_array_equal(np.asarray(made(values)(x)), np.full(2, wanted, "float32"))


def test_one_jaxpr_is_cut_out_in_as_many_ways_as_its_arrays_lie():
    arrays = [jnp.full(2, k, "float32") for k in range(N)]
    jaxpr = weft.make_jaxpr(lambda x: x + sum(k * a for k, a in enumerate(arrays)))(1.0).jaxpr
    assert jaxpr.num_consts == N
    draw = random.Random(1)
    for _ in range(5):
        given = [jnp.full(2, draw.randrange(9), "float32") for _ in range(N)]
        for k in draw.sample(range(N), 3):
            given[k] = weft.device_put(given[k], weft.devices()[0])
        smaller, consts = pack_constants(jaxpr, given)
        assert len(consts) == smaller.num_consts == 4
        (found,) = eval_jaxpr(smaller, consts, 1.0)
        wanted = 1 + sum(k * np.asarray(a) for k, a in enumerate(given))
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_gradients_and_maps_over_packed_arrays():
    arrays = [jnp.full((2, 2), k / N) for k in range(N)]

    def loss(x):
        for a in arrays:
            x = jnp.sin(x @ a)
        return x.sum()

    x = jnp.ones((3, 2))
    outside = weft.grad(loss)(x)
    np.testing.assert_allclose(weft.jit(weft.grad(loss))(x), outside, rtol=1e-5, atol=1e-30)
    mapped = weft.jit(weft.vmap(lambda row: loss(row[None])))(x)
    np.testing.assert_allclose(mapped.sum(), loss(x), rtol=1e-5)


def test_compiled_by_hand_and_exported_programs():
    arrays = [jnp.full(2, k, dtype=float) for k in range(N)]
    function = closing_over(arrays)
    x = jnp.float32(1.0)
    compiled = function.lower(x).compile()
    exported = weft.export.export(function)(x)
    for found in (compiled(x), exported.call(x)):
        np.testing.assert_array_equal(np.asarray(found[-1]), np.full(2, N))


def test_a_nan_is_still_found_where_it_is_made():
    arrays = [jnp.full(2, k, dtype=float) for k in range(N)]
    function = weft.jit(lambda x: sum(arrays) * jnp.log(x))
    with weft.debug_nans(True), pytest.raises(weft.errors.WeftError, match="log"):
        function(jnp.float32(-1.0))


def test_transfers_that_a_guard_forbids_are_not_made():
    arrays = [jnp.full(2, k, dtype=float) for k in range(N)]
    x = jnp.float32(1.0)
    with weft.transfer_guard("disallow"):
        found = closing_over(arrays)(x)
    np.testing.assert_array_equal(np.asarray(found[-1]), np.full(2, N))


def test_a_program_over_ten_thousand_arrays():
    arrays = [jnp.full(4, k % 7, "float32") for k in range(10_000)]

    def total(x):
        # Groups keep the compiler's time short; what is tested is the number of operands.
        for start in range(0, len(arrays), 100):
            x = x + jnp.stack(arrays[start : start + 100]).sum(0)
        return x

    function = weft.jit(total)
    assert operands(function, jnp.zeros(4)) == 2
    wanted = np.full(4, sum(k % 7 for k in range(10_000)), "float32")
    np.testing.assert_array_equal(np.asarray(function(jnp.zeros(4))), wanted)
