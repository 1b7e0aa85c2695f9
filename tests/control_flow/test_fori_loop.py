"""`fori_loop`: ranges, dtypes of the index, derivatives, traced and mapped bounds, errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_trees as close
from loop_cases import names, unrolled_fori
from weft import lax
from weft.errors import LeakedTracerError, TreeError, WeftTypeError, WeftValueError
from weft.testing import check_grads

pytestmark = pytest.mark.fast

X = np.array([0.5, -1.25, 2.0], np.float32)


@pytest.mark.parametrize(
    ("lower", "upper"), [(0, 5), (3, 7), (-4, 3), (-7, -2), (5, 5), (5, -3), (0, 1)]
)
@pytest.mark.parametrize("unroll", [None, 1, 2, 3, True])
def test_ranges(lower, upper, unroll):
    def run(lower, upper, x, **options):
        return lax.fori_loop(lower, upper, lambda i, c: c * 0.5 + i, x, **options)

    wanted = unrolled_fori(lower, upper, lambda i, c: c * 0.5 + i, 8.0)
    close(run(lower, upper, 8.0, unroll=unroll), np.float32(wanted))
    if unroll is None:
        close(weft.jit(run)(lower, upper, 8.0), np.float32(wanted))
        close(weft.jit(run, static_argnums=1)(lower, upper, 8.0), np.float32(wanted))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_bounds_of_other_dtypes_up_to_their_limits(dtype):
    def indices(lower, upper, n):
        def body(i, c):
            assert i.dtype == dtype
            return c[0].at[c[1]].set(i), c[1] + 1

        return lax.fori_loop(lower, upper, body, (jnp.zeros(n, dtype), 0))[0]

    limits = np.iinfo(dtype)
    for first, last in ((limits.max - 3, limits.max), (limits.min, limits.min + 2)):
        bounds = jnp.array(first, dtype), jnp.array(last, dtype)
        wanted = np.arange(first, last, dtype=dtype)
        for run in (indices, weft.jit(indices, static_argnums=2)):
            np.testing.assert_array_equal(np.asarray(run(*bounds, len(wanted))), wanted)


def test_the_dtype_of_the_index():
    def dtypes_of(lower, upper):
        seen = []
        lax.fori_loop(lower, upper, lambda i, c: seen.append((str(i.dtype), i.weak_type)) or c, 0.0)
        weft.jit(
            lambda a, b: lax.fori_loop(
                a, b, lambda i, c: seen.append((str(i.dtype), i.weak_type)) or c, 0.0
            )
        )(lower, upper)
        assert seen[0] == seen[1]
        return seen[0]

    assert dtypes_of(0, 3) == ("int32", True) and dtypes_of(0, jnp.uint8(3)) == ("uint8", False)
    assert dtypes_of(np.int8(0), 3) == ("int8", False)
    assert dtypes_of(np.int8(0), np.int16(3)) == ("int16", False)
    assert dtypes_of(np.int8(0), np.uint8(3)) == ("int16", False)


def test_known_bounds_give_both_modes_and_traced_bounds_a_while():
    def f(x, upper):
        return lax.fori_loop(0, upper, lambda i, c: jnp.sin(c) * x + i, x)

    def plain(x, upper):
        return unrolled_fori(0, upper, lambda i, c: jnp.sin(c) * x + i, x)

    assert names(weft.make_jaxpr(lambda x: f(x, 5))(1.0).jaxpr).count("scan") == 1
    assert names(weft.make_jaxpr(f)(1.0, 5).jaxpr).count("while") == 1
    for bound in (5, np.int8(5), np.array(5), jnp.array(5), jnp.array(5, np.uint32)):
        close(weft.grad(f)(0.7, bound), weft.grad(plain)(0.7, 5))
        inside = weft.jit(lambda x, bound=bound: weft.grad(f)(x, bound))
        close(inside(0.7), weft.grad(plain)(0.7, 5))
    close(weft.jit(weft.grad(f), static_argnums=1)(0.7, 5), weft.grad(plain)(0.7, 5))
    close(
        weft.jit(lambda x, n: weft.jvp(lambda x: f(x, n), (x,), (1.0,))[1])(0.7, 5),
        weft.grad(plain)(0.7, 5),
    )
    check_grads(lambda x: f(x, 3), (jnp.array(0.7, np.float64),), 2)
    # Outside of jit a value being differentiated is known, and so is a bound made from it.
    close(weft.grad(lambda x: f(x, (x * 5.0).astype(np.int32)))(0.7), weft.grad(plain)(0.7, 3))


def test_mapped_bounds():
    def f(lower, upper, x):
        return lax.fori_loop(lower, upper, lambda i, c: c + i * x, 1.0)

    lowers, uppers = np.array([0, 2, 5]), np.array([4, 2, 9])
    got = weft.vmap(f)(lowers, uppers, X)
    wanted = [
        unrolled_fori(a, b, lambda i, c, x=x: c + i * x, 1.0)
        for a, b, x in zip(lowers, uppers, X, strict=True)
    ]
    close(got, np.array(wanted, np.float32))
    close(weft.vmap(f, in_axes=(None, 0, None))(0, uppers, 1.0), np.array([7.0, 2.0, 37.0]))


# ---- errors ------------------------------------------------------------------------------------


def test_bad_bounds():
    for bounds, which in (((0j, 3), "lower"), ((0, True), "upper"), ((0, X), "upper")):
        with pytest.raises(WeftTypeError, match=f"{which} bound") as info:
            lax.fori_loop(*bounds, lambda i, c: c, 0)
        assert info.value.fix.data == {"bound": which}
    for bounds in ((-1, jnp.uint8(3)), (jnp.uint8(0), 256)):
        with pytest.raises(WeftValueError, match="does not fit in uint8") as info:
            lax.fori_loop(*bounds, lambda i, c: c + 1, 0)
        assert info.value.fix.kind == "convert"
        lower, upper = (jnp.asarray(b).astype(np.int32) for b in bounds)
        assert int(lax.fori_loop(lower, upper, lambda i, c: c + 1, 0)) == int(upper) - int(lower)
    with pytest.raises(WeftValueError, match="does not fit in int8"):
        weft.jit(lambda n: lax.fori_loop(n, 128, lambda i, c: c, 0))(jnp.int8(0))
    with pytest.raises(WeftValueError, match="only a loop with known bounds") as info:
        weft.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0, unroll=2))(3)
    assert info.value.fix.kind == "unroll"
    fixed = weft.jit(
        lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0, unroll=2), static_argnums=0
    )
    assert int(fixed(3)) == 3


def test_carries_that_change():
    with pytest.raises(TreeError, match="another structure"):
        lax.fori_loop(0, 3, lambda i, c: (c, c), 1.0)
    with pytest.raises(WeftTypeError, match="other types") as info:
        lax.fori_loop(0, 3, lambda i, c: {"a": c["a"] + X}, {"a": 1.0})
    assert "['a']: f32[] goes in, f32[3] comes out" in str(info.value)
    init = {"a": jnp.ones(info.value.fix.data["shape"])}
    close(lax.fori_loop(0, 3, lambda i, c: {"a": c["a"] + X}, init), {"a": 1 + 3 * X})


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit])
def test_errors_name_the_users_part_of_the_carry(transform):
    """Not the index, nor the end, which are carried too."""

    def run(body, init):
        transform(lambda n: lax.fori_loop(0, n, body, init))(3)

    with pytest.raises(WeftTypeError, match="^fori_loop of") as info:
        run(lambda i, c: c[:1], X)
    assert f"carry: f32[{len(X)}] goes in, f32[1]" in str(info.value)
    with pytest.raises(TreeError, match="^fori_loop of") as info:
        run(lambda i, c: {"a": None}, {"a": 1.0})
    assert info.value.got.split("\n")[0] == "PyTreeDef({'a': None})"
    assert "carry['a']: a leaf goes in" in str(info.value)
    with pytest.raises(WeftTypeError, match=r"^fori_loop of .*: init_val\['a'\] is no array"):
        run(lambda i, c: c, {"a": "text"})


def test_what_is_no_function_or_no_array():
    with pytest.raises(WeftTypeError, match="takes a function as its body, not int"):
        lax.fori_loop(0, 3, 3, 1.0)
    with pytest.raises(WeftTypeError, match="is no array"):
        lax.fori_loop(0, 3, lambda i, c: c, "text")


def test_a_value_that_escapes_from_the_body():
    kept = []

    def leaky(i, c):
        kept.append(c * 2.0)
        return c

    lax.fori_loop(0, 3, leaky, 1.0)
    with pytest.raises(LeakedTracerError, match="leaky") as info:
        kept[0] + 1.0
    assert "test_fori_loop.py" in str(info.value) and info.value.fix.kind == "return_value"


@pytest.mark.parametrize(
    "bounds", [(0.0, 2.0), (0.5, 3.0), (0, 2.5), (np.float32(-1.5), 1), (2.0, 1.0), (1.0, 1.0)]
)
def test_bounds_that_are_no_integers(bounds):
    wanted, i = 0.0, float(bounds[0])
    while i < bounds[1]:
        wanted, i = wanted + 2 * i, i + 1

    def total(lower, upper):
        return lax.fori_loop(lower, upper, lambda i, c: c + 2 * i, 0.0)

    for run in (total, weft.jit(total)):
        np.testing.assert_allclose(run(*bounds), wanted)
    if isinstance(bounds[0], float):
        steps = max(0, int(np.ceil(bounds[1] - bounds[0])))
        slope = weft.grad(lambda x: total(x, x + (bounds[1] - bounds[0])))(bounds[0])
        np.testing.assert_allclose(slope, 2.0 * steps)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("lower", [0, 0.0, np.float32(0), np.int32(0)], ids=repr)
@pytest.mark.parametrize("init", [0, 0.0, np.float32(0)], ids=repr)
def test_weak_types_are_those_of_the_loop_written_out(lower, init, traced):
    wanted = init
    for i in range(3):
        wanted = wanted + (jnp.asarray(lower) + i)
    of = weft.typeof(jnp.asarray(lower))

    def run(upper):
        return lax.fori_loop(lower, upper, lambda i, c: c + i, init)

    got = weft.jit(run)(jnp.asarray(lower) + 3) if traced else run(type(lower)(3))
    assert (got.dtype, got.weak_type) == (wanted.dtype, wanted.weak_type), of
    assert float(got) == 3.0
