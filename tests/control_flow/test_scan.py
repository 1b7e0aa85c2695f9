"""`scan`: values, types, trees, errors. Its derivatives are in test_scan_derivatives."""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import unrolled_scan
from weft import lax
from weft.errors import LeakedTracerError, ShapeError, TreeError, WeftTypeError, WeftValueError

pytestmark = pytest.mark.fast

Pair = collections.namedtuple("Pair", ["left", "right"])


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    position: object
    steps: object


XS = np.linspace(-1.0, 1.5, 7).astype(np.float32)


def decay(c, x):
    return c * 0.5 + x, jnp.sin(c) * x


def decay_reference(c, xs, reverse=False):
    ys = np.zeros(len(xs))
    for i in range(len(xs))[:: -1 if reverse else 1]:
        ys[i] = np.sin(c) * xs[i]
        c = c * 0.5 + xs[i]
    return c, ys


# ---- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 7, 100, True, False])
def test_values_for_every_unrolling(reverse, unroll):
    wanted = decay_reference(0.25, XS.astype(np.float64), reverse)

    def run(c, xs):
        return lax.scan(decay, c, xs, reverse=reverse, unroll=unroll)

    close(run(0.25, XS), wanted)
    close(weft.jit(run)(0.25, XS), wanted)


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("unroll", [1, 2, True])
def test_short_loops(length, unroll):
    xs = XS[:length]
    wanted = decay_reference(0.25, xs.astype(np.float64))
    close(lax.scan(decay, 0.25, xs, unroll=unroll), wanted)
    close(lax.scan(decay, 0.25, xs, length, unroll=unroll), wanted)


def test_length_alone_carry_alone_stacked_alone_and_nothing():
    assert lax.scan(lambda c, x: (c * 2, None), 1, None, 5)[1] is None
    assert int(lax.scan(lambda c, x: (c * 2, None), 1, None, length=5)[0]) == 32
    carry, ys = lax.scan(lambda c, x: (c, x * 2), None, jnp.arange(3))
    assert carry is None and ys.tolist() == [0, 2, 4]
    carry, ys = lax.scan(lambda c, _: (c, 7), (), None, length=3)
    assert carry == () and ys.tolist() == [7, 7, 7]
    assert lax.scan(lambda c, x: (c, None), None, jnp.arange(3)) == (None, None)
    for length in (np.int64(3), np.array(3), jnp.array(3), True + 2):
        assert int(lax.scan(lambda c, x: (c + 1, None), 0, None, length)[0]) == 3


def test_trees_of_every_kind():
    def body(carry, x):
        state, (pair, nothing) = carry
        assert type(state) is State and type(pair) is Pair and nothing is None
        assert set(x) == {"a", "b"} and x["b"][1] is None
        moved = State(state.position + x["a"], state.steps + 1)
        turned = Pair(pair.right, pair.left * x["b"][0])
        y = {"sum": moved.position + turned.left, "pair": turned, "none": None, "both": [x["a"]]}
        return (moved, (turned, None)), y

    xs = {"a": np.arange(8.0, dtype=np.float32).reshape(4, 2), "b": [XS[:4], None]}
    init = (State(np.zeros(2, np.float32), 0), (Pair(np.float32(1.5), np.float32(-2.0)), None))
    for run in (lax.scan, weft.jit(lax.scan, static_argnums=0)):
        got = run(body, init, xs)
        close(got, unrolled_scan(body, init, xs))
        assert type(got[0][0]) is State and type(got[1]["pair"]) is Pair
    assert int(got[0][0].steps) == 4 and got[1]["sum"].shape == (4, 2)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
    + ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"],
)
def test_every_dtype_is_carried_scanned_and_stacked(dtype):
    dtype = weft.dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    host = np.array([1, 0, 1, 1]).astype(dtype)
    xs, init = jnp.array(host, dtype), jnp.array(1, dtype)
    carry, (before, same) = lax.scan(lambda c, x: (x, (c, x)), init, xs)
    assert carry.dtype == before.dtype == same.dtype == dtype
    np.testing.assert_array_equal(np.asarray(before), np.asarray([1, 1, 0, 1], dtype))
    np.testing.assert_array_equal(np.asarray(same), host)
    empty = lax.scan(lambda c, x: (x, (c, x)), init, xs[:0])
    assert empty[1][0].shape == (0,) and empty[1][1].dtype == dtype and empty[0] == init


def test_random_keys_are_carried_scanned_and_stacked():
    key = weft.random.key(3)

    def body(key, other):
        key, use = weft.random.split(key)
        return key, (key, weft.random.uniform(use) + weft.random.uniform(other))

    others = weft.random.split(weft.random.key(4), 3)
    last, (keys, values) = lax.scan(body, key, others)
    wanted = []
    for other in others:
        key, use = weft.random.split(key)
        wanted.append(float(weft.random.uniform(use)) + float(weft.random.uniform(other)))
    close(values, np.array(wanted))
    assert keys.shape == (3,) and last.dtype == key.dtype
    np.testing.assert_array_equal(weft.random.key_data(keys[-1]), weft.random.key_data(key))
    np.testing.assert_array_equal(weft.random.key_data(last), weft.random.key_data(key))
    stacked = weft.random.split(weft.random.key(5), 2)
    mapped = weft.vmap(lambda k: lax.scan(body, k, others)[1][1])(stacked)
    for k, row in zip(stacked, mapped, strict=True):
        close(row, lax.scan(body, k, others)[1][1])


# ---- types of carried values -------------------------------------------------------------------


def counted(body):
    calls = []

    def counting(c, x):
        calls.append(c.dtype)
        return body(c, x)

    return counting, calls


def test_the_body_is_traced_once_a_loop():
    body, calls = counted(decay)
    lax.scan(body, np.float32(0.25), XS)
    assert len(calls) == 1
    f = weft.jit(lambda xs: lax.scan(body, np.float32(0.5), xs))
    f(XS)
    f(XS + 1)
    assert len(calls) == 2
    weft.grad(lambda c: lax.scan(body, c, XS)[0])(np.float32(0.5))
    assert len(calls) == 3


def test_the_body_is_traced_once_where_a_number_only_becomes_strong():
    body, calls = counted(decay)
    carry, ys = lax.scan(body, 0.25, XS)
    assert len(calls) == 1
    assert not carry.weak_type and carry.dtype == np.float32
    close((carry, ys), decay_reference(0.25, XS.astype(np.float64)))


@pytest.mark.parametrize(
    ("init", "xs", "wanted"),
    [
        (0.0, jnp.ones(3, "bfloat16"), "bfloat16"),
        (0.0, jnp.ones(3, np.float16), "float16"),
        (0, jnp.ones(3, np.float32), "float32"),
        (0, jnp.ones(3, np.int8), "int8"),
        (0, jnp.ones(3, np.complex64), "complex64"),
        (0.0, jnp.ones(3, np.complex64), "complex64"),
        (False, jnp.ones(3, np.bool_), "bool"),
    ],
    ids=str,
)
def test_python_numbers_in_the_carry_take_on_what_comes_out(init, xs, wanted):
    body, calls = counted(lambda c, x: (c | x if wanted == "bool" else c + x, c))
    carry, ys = lax.scan(body, init, xs)
    assert str(carry.dtype) == str(ys.dtype) == wanted
    assert complex(carry) == (1 if wanted == "bool" else 3)
    assert len(calls) <= 2  # once more for another dtype: the body may ask for it


def test_weak_types_survive_where_nothing_is_strong():
    carry, ys = lax.scan(lambda c, _: (c * 2.0, c), 1.0, None, 3)
    assert carry.weak_type and carry.dtype == np.float32
    assert (carry * jnp.ones((), np.float16)).dtype == np.float16
    close(ys, np.array([1.0, 2.0, 4.0]))
    carry, _ = lax.scan(lambda c, _: (c + 1, None), 0, None, 3)
    assert carry.weak_type and int(carry) == 3


def test_a_swap_of_a_number_and_an_array_settles():
    def body(c, x):
        a, b = c
        return (b, a), a + b

    one = np.float32(2.0)
    (a, b), ys = lax.scan(body, (1.0, one), None, 3)
    assert (float(a), float(b)) == (2.0, 1.0) and a.dtype == b.dtype == np.float32
    close(ys, np.full(3, 3.0))
    (a, b), _ = lax.scan(body, (1, jnp.array(2.0, "bfloat16")), None, 2)
    assert a.dtype == b.dtype == weft.dtypes.bfloat16 and (float(a), float(b)) == (1.0, 2.0)


# ---- closures ----------------------------------------------------------------------------------


def test_closing_over_arrays_and_numpy_arrays():
    table, host = jnp.arange(3.0), np.array([1.0, 2.0, 3.0], np.float32)

    def run(x):
        return lax.scan(lambda c, y: (c + table * y, c + host), x, XS)

    wanted = unrolled_scan(lambda c, y: (c + table * y, c + host), host, XS)
    close(run(host), wanted)
    close(weft.jit(run)(host), wanted)


def test_a_numpy_array_that_changes_after_tracing_is_read_anew():
    host = np.ones(3, np.float32)

    def run():
        return lax.scan(lambda c, _: (c + host, None), np.zeros(3, np.float32), None, 2)[0]

    close(run(), np.full(3, 2.0))
    host[:] = 5.0
    close(run(), np.full(3, 10.0))


def test_closing_over_values_that_are_staged_mapped_and_differentiated():
    def f(a, b, c):
        def under_grad(u):
            def under_vmap(v):
                return lax.scan(lambda s, x: (s * u + v * x, s), a, XS)[0]

            return jnp.sum(weft.vmap(under_vmap)(c))

        return weft.grad(under_grad)(b)

    def reference(a, b, c):
        def last(u, v):
            return unrolled_scan(lambda s, x: (s * u + v * x, s), a, XS)[0]

        return weft.grad(lambda u: sum(last(u, v) for v in c))(b)

    c = np.array([0.5, -2.0], np.float32)
    close(f(1.5, 0.8, c), reference(1.5, 0.8, c))
    close(weft.jit(f)(1.5, 0.8, c), reference(1.5, 0.8, c))


# ---- errors ------------------------------------------------------------------------------------


def test_a_carry_of_another_structure():
    def body(c, x):
        return {"a": c["a"], "c": x}, None

    with pytest.raises(TreeError, match="another structure") as info:
        lax.scan(body, {"a": 1.0, "b": 2.0}, XS)
    assert "['a', 'b'] goes in" in str(info.value) and "['a', 'c'] comes out" in str(info.value)
    assert info.value.fix.kind == "same_structure" and "body" in str(info.value)
    carry, _ = lax.scan(lambda c, x: ({"a": c["a"], "b": x}, None), {"a": 1.0, "b": 2.0}, XS)
    close(carry, {"a": 1.0, "b": 1.5})


def test_carried_values_of_other_types_are_all_listed_and_the_fixes_work():
    def body(c, x):
        return {"a": c["a"][:2], "b": [c["b"][0] * 1.5, c["b"][1]], "n": c["n"] * 1.0}, None

    init = {"a": jnp.zeros(3), "b": [jnp.int32(2), jnp.ones(2)], "n": 3}
    with pytest.raises(WeftTypeError, match="other types") as info:
        lax.scan(body, init, XS)
    text = str(info.value)
    assert "carry['a']: f32[3] goes in, f32[2] comes out" in text
    assert "carry['b'][0]: i32[] goes in, f32[] comes out" in text
    assert "carry['b'][1]" not in text and "carry['n']" not in text
    data = info.value.fix.data
    assert info.value.fix.kind == "shape" and data["path"] == "['a']"
    init["a"] = jnp.zeros(data["shape"])
    with pytest.raises(WeftTypeError, match="other types") as info:
        lax.scan(body, init, XS)
    assert info.value.fix.kind == "convert" and info.value.fix.data["path"] == "['b'][0]"
    init["b"][0] = init["b"][0].astype(info.value.fix.data["dtype"])
    carry, _ = lax.scan(body, init, XS)
    assert float(carry["b"][0]) == 2.0 * 1.5**7 and float(carry["n"]) == 3.0


@pytest.mark.parametrize(
    "body", [lambda c, x: c, lambda c, x: [c, x], lambda c, x: (c, x, x), lambda c, x: None]
)
def test_a_body_that_returns_no_pair(body):
    with pytest.raises(WeftTypeError, match="has to return a pair") as info:
        lax.scan(body, 0.0, XS)
    assert info.value.fix.kind == "pair"
    close(lax.scan(lambda c, x: (c, None), 0.0, XS), (0.0, None))


def test_scanned_arrays_without_an_axis_or_of_different_lengths():
    with pytest.raises(ShapeError, match=r"xs\['q'\]\[0\] has no axis") as info:
        lax.scan(lambda c, x: (c, None), 0.0, {"q": [1.0]})
    assert info.value.fix.kind == "stack"
    with pytest.raises(ShapeError, match="lengths differ") as info:
        lax.scan(lambda c, x: (c, None), 0.0, {"a": XS, "b": XS[:3]})
    assert "xs['a']: f32[7]" in str(info.value) and "xs['b']: f32[3]" in str(info.value)
    with pytest.raises(ShapeError, match="length: 4"):
        lax.scan(lambda c, x: (c, None), 0.0, XS, length=4)
    assert info.value.fix.kind == "same_length"
    lax.scan(lambda c, x: (c, None), 0.0, {"a": XS[:3], "b": XS[:3]}, length=3)


def test_lengths_that_are_negative_missing_traced_or_no_integers():
    def run(length):
        return lax.scan(lambda c, x: (c + 1, None), 0, None, length)[0]

    with pytest.raises(WeftValueError, match="negative") as info:
        run(-4)
    assert int(run(info.value.fix.data["length"])) == 0
    with pytest.raises(WeftValueError, match="nothing says how many") as info:
        run(None)
    assert info.value.fix.kind == "length"
    with pytest.raises(WeftTypeError, match="Python integer") as info:
        weft.jit(run)(3)
    assert info.value.fix.kind == "static"
    assert int(weft.jit(run, static_argnums=0)(3)) == 3
    for length in (2.5, "3", [3]):
        with pytest.raises(WeftTypeError, match="Python integer"):
            run(length)


@pytest.mark.parametrize("unroll", [-3, 1.5, "2"])
def test_bad_unrolling(unroll):
    with pytest.raises((WeftValueError, WeftTypeError), match="unroll") as info:
        lax.scan(decay, 0.0, XS, unroll=unroll)
    lax.scan(decay, 0.0, XS, **info.value.fix.data)


def test_what_is_no_function_or_no_array():
    with pytest.raises(WeftTypeError, match="takes a function first, not int"):
        lax.scan(3, 0.0, XS)
    with pytest.raises(WeftTypeError, match=r"init\['q'\] is no array"):
        lax.scan(decay, {"q": "text"}, XS)
    with pytest.raises(WeftTypeError, match=r"xs\[1\] is no array"):
        lax.scan(decay, 0.0, (XS, "text"))
    with pytest.raises(WeftTypeError, match=r"no array at \[1\]\['y'\]"):
        lax.scan(lambda c, x: (c, {"y": "text"}), 0.0, XS)


def test_a_value_that_escapes_from_the_body():
    kept = []

    def leaky(c, x):
        kept.append(c * 2.0)
        return c, x

    lax.scan(leaky, 0.5, XS)
    with pytest.raises(LeakedTracerError, match="escaped from scan of leaky") as info:
        kept[0] + 1.0
    assert "test_scan.py" in str(info.value) and info.value.fix.kind == "return_value"
    _, doubled = lax.scan(lambda c, x: (c, c * 2.0), 0.5, XS)  # returned instead
    close(doubled + 1.0, np.full(7, 2.0))


def test_an_error_of_the_body_leaves_nothing_behind():
    def body(c, x):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        lax.scan(body, 0.0, XS)
    assert float(jnp.sum(jnp.ones(2) + 1.0)) == 4.0
