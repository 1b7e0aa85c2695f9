"""checkify: the first check that fails, through every transformation and every order of them.

Which messages there are, and that of several checks the first one is told, was compared with
checkify of JAX 0.10.2; values are those of the function without checks.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.errors import WeftTypeError, WeftValueError
from weft.experimental import checkify
from weft.experimental.checkify import check

BAD = "bad -1.0 (`check` failed)"
BAD_2 = "bad -2.0 (`check` failed)"


def positive(x):
    check(x > 0, "bad {}", x)
    return jnp.sin(x)


@weft.custom_jvp
def with_jvp(x):
    return positive(x)


@with_jvp.defjvp
def with_jvp_rule(primals, tangents):
    return with_jvp(*primals), 100.0 * tangents[0]


@weft.custom_vjp
def with_vjp(x):
    return positive(x)


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda _, ct: (100.0 * ct,))

scanned = jnp.ones(3)
FUNCTIONS = {
    "plain": positive,
    "jit": weft.jit(positive),
    "checkpoint": weft.checkpoint(positive),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "cond": lambda x: lax.cond(x < 5, positive, lambda x: jnp.cos(x), x),
    "scan": lambda x: lax.scan(lambda c, s: (c, positive(c * s)), x, scanned)[1][2],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, s: s + positive(x + 0.0 * s), 0.0),
    "debug_check": lambda x: (checkify.debug_check(x > 0, "bad {}", x), jnp.sin(x))[1],
}


def text(pair):
    return pair[0].get()


def swapped(function):
    """A function with its error as the second result, for grad(has_aux=True)."""
    return lambda x: checkify.checkify(function)(x)[::-1]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("around", ["alone", "jit outside", "jit inside"])
def test_a_failed_check_is_a_result(name, around):
    function = FUNCTIONS[name]
    if around == "jit inside":
        function = weft.jit(function)
    checked = checkify.checkify(function)
    if around == "jit outside":
        checked = weft.jit(checked)
    x = np.float32(-1)
    assert text(checked(x)) == BAD
    error, out = checked(np.float32(2))
    assert error.get() is None
    error.throw()
    plain = 3 * np.sin(2.0) if name == "fori_loop" else np.sin(2.0)
    np.testing.assert_allclose(out, plain, rtol=1e-6)
    error, _ = checked(x)
    with pytest.raises(checkify.JaxRuntimeError) as info:
        error.throw()
    assert isinstance(info.value, ValueError) and str(info.value) == BAD


@pytest.mark.parametrize("name", FUNCTIONS)
def test_checks_and_derivatives_go_together_in_either_order(name):
    function = FUNCTIONS[name]
    x = np.float32(-1)
    slope = 100.0 if name.startswith("custom") else np.cos(-1.0)
    slope *= 3 if name == "fori_loop" else 1
    for outer in (lambda f: f, weft.jit):
        error, found = outer(checkify.checkify(weft.grad(function)))(x)
        assert error.get() == BAD
        np.testing.assert_allclose(found, slope, rtol=1e-6)
        found, error = outer(weft.grad(swapped(function), has_aux=True))(x)
        assert error.get() == BAD
        np.testing.assert_allclose(found, slope, rtol=1e-6)
    (out, error), (tangent, _) = weft.jvp(swapped(function), (x,), (x,))
    assert error.get() == BAD
    np.testing.assert_allclose(tangent, -slope, rtol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_checks_and_vmap_go_together_in_either_order(name):
    function = FUNCTIONS[name]
    x = np.float32([1, -1, -2])
    for outer in (lambda f: f, weft.jit):
        assert text(outer(checkify.checkify(weft.vmap(function)))(x)) == BAD
        error, _ = outer(weft.vmap(checkify.checkify(function)))(x)
        lines = f"at mapped index 1: {BAD}\nat mapped index 2: {BAD_2}"
        assert error.get() == lines
        with pytest.raises(ValueError, match="at mapped index 1"):
            error.throw()
        assert text(outer(checkify.checkify(weft.vmap(function)))(abs(x))) is None


def test_the_first_check_in_the_order_of_the_program_is_told():
    def loop(n):
        def goes_on(i):
            check(i < 10, "condition {}", i)
            return i < n

        def step(i):
            check(i != 4, "body {}", i)
            return i + 1

        check(n > 1, "before {}", n)
        return lax.while_loop(goes_on, step, jnp.int32(0))

    for checked in (checkify.checkify(loop), weft.jit(checkify.checkify(loop))):
        assert text(checked(jnp.int32(0))) == "before 0 (`check` failed)"
        assert text(checked(jnp.int32(3))) is None
        assert text(checked(jnp.int32(20))) == "body 4 (`check` failed)"

    def above(n):
        def goes_on(i):
            check(i < 2, "condition {}", i)
            return i < n

        return lax.while_loop(goes_on, lambda i: i + 1, jnp.int32(0))

    assert text(checkify.checkify(above)(jnp.int32(5))) == "condition 2 (`check` failed)"
    assert text(checkify.checkify(above)(jnp.int32(1))) is None


def test_elements_of_a_mapped_loop_fail_where_they_run():
    def count(n):
        def step(i):
            check(i != 4, "at {}", i)
            return i + 1

        return lax.while_loop(lambda i: i < n, step, 0)

    error, out = checkify.checkify(weft.vmap(count))(jnp.array([2, 7, 3]))
    assert error.get() == "at 4 (`check` failed)"
    assert out.tolist() == [2, 7, 3]
    assert text(checkify.checkify(weft.vmap(count))(jnp.array([2, 3]))) is None


def test_a_branch_that_is_not_taken_does_not_fail():
    branches = [positive, lambda x: jnp.log(x), lambda x: x]
    chosen = lambda i, x: lax.switch(i, branches, x)  # noqa: E731
    checked = weft.jit(checkify.checkify(chosen, errors=checkify.all_checks))
    x = np.float32(-1)
    assert text(checked(0, x)) == BAD
    assert text(checked(1, x)) == "nan generated by primitive: log."
    assert text(checked(2, x)) is None
    mapped = checkify.checkify(weft.vmap(chosen), errors=checkify.user_checks)
    assert text(mapped(jnp.array([0, 2]), jnp.array([1.0, -1.0]))) is None


def test_devices_of_a_shard_map_fail_alone():
    mesh = weft.make_mesh((4,), ("x",))

    @partial(weft.shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def blocks(x):
        check(x[0] < 2, "device with {}", x)
        return jnp.log(x)

    x = jnp.arange(4.0)
    for function in (blocks, weft.jit(blocks)):
        for outer in (lambda f: f, weft.jit):
            assert text(outer(checkify.checkify(function))(x)) == (
                "device with [2.] (`check` failed)"
            )
            assert text(outer(checkify.checkify(function))(0 * x)) is None
            nans = outer(checkify.checkify(function, errors=checkify.nan_checks))
            assert text(nans(-x)) == "nan generated by primitive: log."
    slope = weft.grad(lambda x: blocks(x).sum())
    error, out = checkify.checkify(slope, errors=checkify.all_checks)(x + 1)
    assert error.get() == "device with [2.] (`check` failed)"
    np.testing.assert_allclose(out, 1 / np.arange(1, 5), rtol=1e-6)


OUT_OF_BOUNDS = {
    "element": (lambda x, i: x[:, i], 5, (1, 5, 3)),
    "negative": (lambda x, i: x[i], -7, (0, -5, 2)),
    "gather": (lambda x, i: x[jnp.array([0, 1]), jnp.stack([i, i])], 4, (1, 4, 3)),
    "set": (lambda x, i: x.at[:, i].set(1.0), 3, (1, 3, 3)),
    "add": (lambda x, i: x.at[jnp.array([0, 1]), jnp.stack([i, i])].add(1.0), 9, (1, 9, 3)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (0, i), (2, 2)), 2, (1, 2, 3)),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones((1, 2), x.dtype), (0, i)),
        2,
        (1, 2, 3),
    ),
    "mapped": (lambda x, i: weft.vmap(lambda row, j: row[j])(x, jnp.stack([i, i])), 4, (1, 4, 3)),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_indices_out_of_bounds_are_found(name):
    function, index, (axis, shown, size) = OUT_OF_BOUNDS[name]
    x = jnp.zeros((2, 3))
    checked = checkify.checkify(function, errors=checkify.index_checks)
    wanted = (
        f"out-of-bounds indexing for array of shape (2, 3): index {shown} is out of bounds "
        f"for axis {axis} with size {size}. "
    )
    inside = checkify.checkify(weft.jit(function), errors=checkify.index_checks)
    for outer in (checked, weft.jit(checked), inside):
        found = outer(x, jnp.int32(index))[0].get()
        assert found == wanted
        assert outer(x, jnp.int32(1))[0].get() is None
    assert checkify.checkify(function)(x, jnp.int32(index))[0].get() is None


def test_divisors_and_nans_are_found():
    by = lambda x, y: x / y  # noqa: E731
    checked = weft.jit(checkify.checkify(by, errors=checkify.float_checks))
    zero, one = jnp.zeros(3), jnp.ones(3)
    assert text(checked(one, one)) is None and text(checked(zero, zero)) == "division by zero"
    nans = checkify.checkify(by, errors=checkify.nan_checks)
    assert text(nans(one, zero)) is None
    assert text(nans(zero, zero)) == "nan generated by primitive: div."
    whole = checkify.checkify(lambda x, y: x // y, errors=checkify.div_checks)
    assert text(whole(jnp.int32(1), jnp.int32(0))) == "division by zero"
    # Chosen, not made: the NaN was an argument.
    passed = checkify.checkify(lambda x: jnp.where(x > 0, x, 1.0)[::-1], errors=checkify.nan_checks)
    assert text(passed(jnp.array([np.nan, 1.0]))) is None
    inverse = checkify.checkify(jnp.linalg.inv, errors=checkify.nan_checks)
    assert "nan generated" in text(inverse(jnp.zeros((2, 2))))
    in_derivative = checkify.checkify(weft.grad(jnp.sqrt), errors=checkify.div_checks)
    assert text(in_derivative(np.float32(0))) == "division by zero"


def test_an_error_becomes_an_exception_and_an_error_again():
    def inner(x):
        error, out = weft.jit(checkify.checkify(positive))(x)
        checkify.check_error(error)
        return out

    x = np.float32(-1)
    with pytest.raises(ValueError, match="bad -1.0"):
        inner(x)
    for outer in (checkify.checkify(inner), weft.jit(checkify.checkify(inner))):
        assert text(outer(x)) == BAD
    # Categories that are not asked for are gone.
    assert text(checkify.checkify(inner, errors=checkify.nan_checks)(x)) is None
    mapped, _ = weft.vmap(checkify.checkify(positive))(np.float32([1, -1]))
    with pytest.raises(ValueError, match="bad -1.0"):
        checkify.check_error(mapped)
    checkify.check_error(checkify.init_error)


def test_errors_are_trees_of_equal_structure_when_traced_again():
    checked = checkify.checkify(lambda x, y: (check(x >= y, "{a} {b}", a=x, b={"c": y}), x)[1])
    first, _ = checked(jnp.float32(1), jnp.ones(()))
    second, _ = weft.jit(checked)(jnp.float32(1), jnp.full((), 2.0))
    assert weft.tree.structure(first) == weft.tree.structure(second)
    assert first.get() is None
    assert second.get() == "1.0 {'c': Array(2., dtype=float32)} (`check` failed)"
    assert weft.device_get(second).get() == second.get()


def test_random_keys_are_shown():
    key = weft.random.key(3)
    checked = weft.jit(checkify.checkify(lambda k: check(jnp.ones(()) < 0, "{}", k)))
    assert "key<fry>" in text(checked(key))
    both = checkify.checkify(lambda k: (check(jnp.ones(()) > 0, "{}", k), check(False, "{}", k)))
    assert "key<fry>" in text(both(key))


def test_nothing_leaks():
    with weft.config.override(check_tracer_leaks=True):
        for name in FUNCTIONS:
            checked = checkify.checkify(weft.jit(FUNCTIONS[name]))
            assert text(checked(np.float32(-1))) == BAD


def test_a_check_that_is_not_turned_into_a_result():
    x = np.float32(-1)
    with pytest.raises(checkify.JaxRuntimeError, match="bad -1.0") as info:
        positive(x)
    assert "test_checkify.py" in "".join(info.value.__notes__)
    for function in (weft.jit(positive), FUNCTIONS["scan"]):
        with pytest.raises(WeftValueError, match="not functionalized"):
            function(x)
    debugging = FUNCTIONS["debug_check"]
    np.testing.assert_allclose(weft.jit(debugging)(x), np.sin(-1.0), rtol=1e-6)
    np.testing.assert_allclose(weft.grad(debugging)(x), np.cos(-1.0), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check(1.0, "no"), "takes a scalar pred"),
        (lambda: check(np.ones(2, bool), "no"), "takes a scalar pred"),
        (lambda: checkify.debug_check(3, "no"), "debug_check takes a scalar pred"),
        (lambda: check(True, "{}", "text"), "Formatting arguments"),
        (lambda: checkify.check_error(ValueError()), "takes an Error"),
        (lambda: checkify.checkify(3), "checkify takes a function"),
        (lambda: checkify.checkify(positive, errors={3}), "categories of checks"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(WeftTypeError, match=message):
        call()
