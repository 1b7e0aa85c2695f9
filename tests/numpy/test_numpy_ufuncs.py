"""The ufunc objects of weft.numpy: NumPy's attributes and methods, held to NumPy and to loops."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_to_numpy
from weft.errors import DTypeError, WeftTypeError
from weft.testing import check_grads

RANDOM = np.random.default_rng(7)
T = RANDOM.uniform(0.5, 2.0, size=(3, 5, 2))
WHOLE = RANDOM.integers(1, 9, size=(3, 5, 2))
MASK = RANDOM.uniform(size=(3, 5, 2)) > 0.4
PLACES = np.array([0, 3, 1, 4, 4])
NUMPYS = sorted(
    name for name in dir(np) if isinstance(getattr(np, name), np.ufunc) and name != "isnat"
)
# Functions of the last dimensions, which are no elementwise functions: plain functions here.
CORE = {"matmul", "matvec", "vecdot", "vecmat"}
# Of functions whose results are no operands of theirs NumPy has no reduction either.
FOLDED = [
    *("add", "multiply", "subtract", "divide", "maximum", "fmin", "logaddexp", "arctan2", "power"),
    "logical_xor",
]
OF_INTEGERS = ["bitwise_and", "gcd", "left_shift", "add"]
ROWS = [(name, T) for name in FOLDED] + [(name, WHOLE) for name in OF_INTEGERS]


def loop(name, parts):
    """A fold with NumPy's function, call by call.

    NumPy's own reduction of some functions differs from that (numpy.arctan2.reduce does).
    """
    return functools.reduce(getattr(np, name), parts)


@pytest.mark.parametrize("name", [n for n in NUMPYS if n not in CORE])
def test_attributes_are_those_of_numpy(name):
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert isinstance(ours, jnp.ufunc) and isinstance(type(ours), type)
    assert (ours.nin, ours.nout, ours.nargs) == (theirs.nin, theirs.nout, theirs.nargs)
    assert ours.identity == theirs.identity and type(ours.identity) is type(theirs.identity)
    assert ours.__doc__ and ours.__doc__ != jnp.ufunc.__doc__
    kinds = [p.kind for p in inspect.signature(ours).parameters.values()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    assert keyword not in kinds[: ours.nin] and {*kinds[ours.nin :]} <= {keyword}
    assert pickle.loads(pickle.dumps(ours)) is ours and copy.deepcopy(ours) is ours
    assert ours.__name__ in repr(ours)


def test_operands_by_name_and_keywords_that_say_nothing():
    x, y = np.array([6.0, 4.0]), np.array([3.0, 5.0])
    for name in ("subtract", "fmax", "maximum", "arctan2"):
        wanted = np.asarray(getattr(jnp, name)(x, y))
        got = getattr(jnp, name)(x2=y, x1=x, out=None, where=None)
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(jnp.trunc(x=x, out=None), x)
    np.testing.assert_array_equal(jnp.gcd(x1=12, x2=8), 4)
    for wrong in ({"out": x}, {"where": x > 4}, {"dtype": None}):
        with pytest.raises(NotImplementedError, match=next(iter(wrong))):
            jnp.add(x, y, **wrong)
    with pytest.raises(TypeError, match="two operands, and got 3"):
        jnp.add(x, y, None, out=None)


@pytest.mark.parametrize(("name", "x"), ROWS, ids=[f"{n}-{x.dtype}" for n, x in ROWS])
def test_reductions(name, x):
    with weft.enable_x64():
        ours = getattr(jnp, name)
        lines = list(np.moveaxis(x, 1, 0))
        close_to_numpy(ours.reduce(x, 1, keepdims=True), loop(name, lines)[:, None])
        start = x.dtype.type(2)
        close_to_numpy(
            ours.reduce(x, 1, initial=start), loop(name, [np.full((3, 2), start), *lines])
        )
        masked = np.full((3, 2), start, dtype=np.asarray(ours.reduce(x, 1)).dtype)
        for line, mask in zip(lines, np.moveaxis(MASK, 1, 0), strict=True):
            masked = np.where(mask, getattr(np, name)(masked, line), masked)
        close_to_numpy(ours.reduce(x, 1, initial=start, where=MASK), masked)
        running = np.stack([loop(name, lines[: i + 1]) for i in range(1, 5)], 1)
        got = np.asarray(ours.accumulate(x, 1))
        close_to_numpy(got[:, 1:], running)
        first = x[:, :1].astype(got.dtype)
        np.testing.assert_array_equal(got[:, :1], first)
        ends = [*PLACES[1:], 5]
        parts = [
            loop(name, lines[a:b]) if a < b else lines[a] for a, b in zip(PLACES, ends, strict=True)
        ]
        found = np.asarray(ours.reduceat(x, PLACES, axis=1))
        np.testing.assert_allclose(found, np.stack(parts, 1).astype(found.dtype), rtol=1e-11)
        close_to_numpy(ours.outer(x[0], x[1, :, 0]), getattr(np, name).outer(x[0], x[1, :, 0]))


def test_reduceat_takes_traced_places():
    found = weft.jit(lambda i: jnp.add.reduceat(T, i, axis=1))(PLACES)
    np.testing.assert_allclose(found, np.add.reduceat(T, PLACES, axis=1), rtol=1e-6)


@pytest.mark.parametrize("name", ["add", "maximum", "bitwise_and", "gcd"])
def test_several_axes_at_once(name):
    with weft.enable_x64():
        ours, theirs = getattr(jnp, name), getattr(np, name)
        for axis in (None, (0, 2), (-1, 1)):
            close_to_numpy(ours.reduce(WHOLE, axis), theirs.reduce(WHOLE, axis))


def test_an_order_that_matters_takes_one_axis():
    with pytest.raises(ValueError, match=r"subtract\.reduce"):
        jnp.subtract.reduce(T, axis=(0, 1))
    with pytest.raises(ValueError, match=r"subtract\.reduce"):
        jnp.subtract.reduce(T, axis=None)


def test_nothing_to_reduce():
    empty = np.zeros((0, 3))
    for name in ("add", "multiply", "logical_and", "hypot", "logaddexp"):
        np.testing.assert_array_equal(
            getattr(jnp, name).reduce(empty), getattr(np, name).reduce(empty)
        )
    for name in ("maximum", "subtract", "fmax"):
        with pytest.raises(ValueError, match="identity|empty|no elements|initial"):
            getattr(jnp, name).reduce(empty)
    assert float(jnp.fmax.reduce(empty, initial=2.0)[0]) == 2


def test_narrow_integers_widen_in_sums_and_products_only():
    small = np.array([100, 100, 100], np.int8)
    assert int(jnp.add.reduce(small)) == 300
    assert jnp.multiply.accumulate(small).dtype == jnp.int32
    assert jnp.bitwise_or.reduce(small).dtype == jnp.int8
    assert jnp.add.reduce(small, dtype="int8").dtype == jnp.int8


@pytest.mark.parametrize("name", ["add", "maximum", "power"])
def test_at_updates_an_element_as_often_as_it_is_listed(name):
    x, index = RANDOM.uniform(1, 2, size=6), np.array([0, 2, 2, 5, 0])
    b = RANDOM.uniform(1, 2, size=5)
    wanted = x.copy()
    for place, value in zip(index, b, strict=True):
        wanted[place] = getattr(np, name)(wanted[place], value)
    with weft.enable_x64():
        ours = getattr(jnp, name)
        close_to_numpy(ours.at(x, index, b, inplace=False), wanted)
        close_to_numpy(weft.jit(lambda x, i: ours.at(x, i, b, inplace=False))(x, index), wanted)


def test_at_with_slices_and_one_operand():
    x = RANDOM.normal(size=(3, 4))
    wanted = x.copy()
    np.subtract.at(wanted, (slice(None), [1, 1, 3]), 2.0)
    with weft.enable_x64():
        close_to_numpy(
            jnp.subtract.at(x, (slice(None), np.array([1, 1, 3])), 2.0, inplace=False), wanted
        )
        flipped = jnp.negative.at(x, (np.array([0, 0, 1]),), inplace=False)
    close_to_numpy(flipped, np.stack([x[0], -x[1], x[2]]))


def test_methods_are_differentiable_and_mapped():
    with weft.enable_x64():
        x = T[0]
        check_grads(lambda a: jnp.divide.reduce(a), (x,), order=2)
        check_grads(lambda a: jnp.hypot.reduce(a, axis=1), (x,), order=2)
        check_grads(lambda a: jnp.arctan2.accumulate(a), (x,), order=1)
        check_grads(lambda a: jnp.multiply.reduceat(a, np.array([0, 2, 1])), (x,), order=1)
        check_grads(
            lambda a, b: jnp.power.at(a, np.array([1, 1]), b, inplace=False), (x, x[:2]), order=1
        )
        for method in ("reduce", "accumulate"):
            f = functools.partial(getattr(jnp.subtract, method), axis=0)
            close_to_numpy(weft.vmap(f)(T), np.stack([f(t) for t in T]))


def test_a_ufunc_of_a_python_function():
    f = jnp.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    theirs = np.frompyfunc(lambda x, y: x * y + 1, 2, 1)
    with weft.enable_x64():
        close_to_numpy(f(T, T[0]), T * T[0] + 1)
        for method in ("reduce", "accumulate"):
            close_to_numpy(getattr(f, method)(T, 1), getattr(theirs, method)(T, 1).astype(float))
        close_to_numpy(f.outer(T[0, 0], T[1, 0]), theirs.outer(T[0, 0], T[1, 0]).astype(float))
        check_grads(lambda a: f.reduce(a), (T[0],), order=2)
    two = jnp.frompyfunc(lambda x: (x + 1, x > 0), 1, 2)
    assert (two.nin, two.nout, two.nargs, two.identity) == (1, 2, 3, None)
    assert [str(x.dtype) for x in two(np.float32(1))] == ["float32", "bool"]
    assert (
        int(jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0).reduce(jnp.zeros((0,), int))) == 0
    )


def test_a_python_function_that_reads_what_changes_is_read_again():
    factor = [2.0]
    f = jnp.frompyfunc(lambda x, y: x + factor[0] * y, 2, 1)
    first = float(f.reduce(jnp.ones(3)))
    factor[0] = 10.0
    assert (first, float(f.reduce(jnp.ones(3)))) == (5.0, 21.0)
    compiled = weft.jit(lambda x: f.reduce(x))
    assert float(compiled(jnp.ones(3))) == 21


def test_a_python_function_may_close_over_traced_values():
    def total(a):
        return jnp.frompyfunc(lambda x, y: x + a * y, 2, 1).reduce(jnp.arange(3.0))

    assert float(weft.grad(total)(2.0)) == 3.0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: jnp.add(1.0), "add takes two operands, and got 1"),
        (lambda: jnp.sin(), "sin takes one operand, and got 0"),
        (lambda: jnp.power(1.0), "power takes two operands"),
        (lambda: jnp.add(1.0, 2.0, None), "out="),
    ],
)
def test_wrong_numbers_of_operands_name_the_function(call, text):
    with pytest.raises(WeftTypeError, match=text):
        call()


def test_comparisons_of_numbers_do_not_reduce():
    with pytest.raises(DTypeError, match=r"less\.reduce"):
        jnp.less.reduce(T)
    assert bool(jnp.equal.reduce(np.array([True, False, False])))
