"""A Python number takes the dtype of the array that it meets, or raises: it is never cut off.

Each function is called with 8-bit integers and one Python integer that they do not hold. The answer
is an OverflowError, or that of a wide dtype.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from valid_calls import KEY, Valid, valid_calls
from weft import lax, tree
from weft.errors import WeftOverflowError

BEYOND = 300  # 44 in eight bits, which stands among the elements
SMALL = np.array([44, 1, 2, 3], np.int8)
MATRIX = np.array([[44, 1, 2], [3, 4, 5], [6, 7, 8]], np.int8)

# Random numbers of another dtype are other numbers.
CALLS = [c for c in valid_calls() if c.module != "weft.random"]
# A position: what stands for one that is out of bounds depends on the dtype.
POSITIONS = {("take", "indices")}


def narrowed(value: Any, dtype: Any) -> Any:
    """An array of numbers in a dtype of integers; what is no such array as it is."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value is KEY:
        return value
    return jnp.asarray(np.round(value * 3) if value.dtype.kind == "f" else value).astype(dtype)


def outcome(call: Valid, args: Any, kwargs: Any) -> Any:
    """The result as NumPy arrays, or the exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [np.asarray(x) for x in tree.leaves(call.function(*args, **kwargs))]
    except Exception as error:  # noqa: BLE001 (refused: that is what is asked)
        return error


@pytest.mark.parametrize(
    "call", CALLS, ids=[f"{c.module.removeprefix('weft.')}.{c.name}" for c in CALLS]
)
def test_an_integer_beyond_the_dtype_is_refused_or_counts_in_full(call: Valid) -> None:
    places = [i for i, x in enumerate(call.args) if narrowed(x, np.int8) is not x]
    for i in places:
        if (call.name, call.names()[i]) in POSITIONS:
            continue
        narrow = [narrowed(x, np.int8) for x in call.args]
        narrow[i] = BEYOND
        found = outcome(call, narrow, call.kwargs)
        if isinstance(found, Exception):
            continue
        wide = [narrowed(x, np.int32) for x in call.args]
        wide[i] = jnp.int32(BEYOND)
        expected = outcome(call, wide, call.kwargs)
        assert not isinstance(expected, Exception), (call.names()[i], found, expected)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                one, other, rtol=1e-4, atol=1e-4, err_msg=f"{call.names()[i]}={BEYOND}"
            )


WRITES = {
    "put": lambda x: jnp.put(x, np.array([0]), BEYOND, inplace=False),
    "place": lambda x: jnp.place(x, x > 1, BEYOND, inplace=False),
    "put_along_axis": lambda x: jnp.put_along_axis(x, np.array([0]), BEYOND, 0, inplace=False),
    "insert": lambda x: jnp.insert(x, 0, BEYOND),
    "append": lambda x: jnp.append(x, BEYOND),
    "pad": lambda x: jnp.pad(x, 1, constant_values=BEYOND),
    "diff": lambda x: jnp.diff(x, append=BEYOND),
    "ediff1d": lambda x: jnp.ediff1d(x, to_begin=BEYOND),
    "hstack": lambda x: jnp.hstack([x, BEYOND]),
    "stack": lambda x: jnp.stack([x[0], BEYOND]),
    "hstack in a dtype": lambda x: jnp.hstack([x, BEYOND], dtype=jnp.int8),
    "array": lambda x: jnp.array([x[0], BEYOND]),
    "select": lambda x: jnp.select([x > 1], [x], BEYOND),
    "choose": lambda x: jnp.choose(x % 2, [x, BEYOND], mode="clip"),
    "piecewise": lambda x: jnp.piecewise(x, [x > 1], [BEYOND, 0]),
    "take": lambda x: jnp.take(x, np.array([9]), fill_value=BEYOND),
    "compress": lambda x: jnp.compress(x > 1, x, size=4, fill_value=BEYOND),
    "unique": lambda x: jnp.unique(x, size=9, fill_value=BEYOND),
    "polyadd": lambda x: jnp.polyadd(x, BEYOND),
    "polyint": lambda x: jnp.polyint(x, k=BEYOND),
    "einsum": lambda x: jnp.einsum(",i", BEYOND, x),
    "at get": lambda x: x.at[jnp.array([9])].get(mode="fill", fill_value=BEYOND),
    "at mask": lambda x: x.at[x > 1].set(BEYOND),
    "at slice": lambda x: x.at[1:].set(BEYOND),
    "at array": lambda x: x.at[jnp.array([1, 1])].add(BEYOND),
    "full": lambda x: lax.full(x.shape, BEYOND, x.dtype),
    "full_like": lambda x: lax.full_like(x, BEYOND),
    "jnp.full": lambda x: jnp.full(x.shape, BEYOND, x.dtype),
    "array of a number": lambda x: jnp.array(BEYOND, x.dtype),
    "array of a list": lambda x: jnp.array([1, [BEYOND][0]], x.dtype),
    "arange": lambda x: jnp.arange(BEYOND, BEYOND + 2, dtype=x.dtype),
    "lax.pad": lambda x: lax.pad(x, BEYOND, [(1, 0, 0)]),
    "lax.reduce": lambda x: lax.reduce(x, BEYOND, lax.add, [0]),
    "reduce_window": lambda x: lax.reduce_window(x, BEYOND, lax.add, (2,), (1,), "VALID"),
    "ref[...] = value": lambda x: weft.new_ref(x).set(BEYOND),
    "swap": lambda x: weft.ref.swap(weft.new_ref(x), (0,), BEYOND),
    "addupdate": lambda x: weft.ref.addupdate(weft.new_ref(x), (0,), BEYOND),
    "operator +": lambda x: x + BEYOND,
} | {
    f"at {name}": lambda x, name=name: getattr(x.at[0], name)(BEYOND)
    for name in "set add subtract multiply power min max".split()
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_into_an_array_fits(name: str) -> None:
    x = jnp.asarray(SMALL)
    for function in (WRITES[name], weft.jit(WRITES[name])):
        with pytest.raises(WeftOverflowError, match="300 does not fit in int8") as caught:
            function(x)
        error = caught.value
        assert (error.operation or error.called) and error.fix


def test_fill_diagonal_refuses_what_does_not_fit() -> None:
    with pytest.raises(OverflowError, match="300 does not fit in int8"):
        jnp.fill_diagonal(jnp.asarray(MATRIX), BEYOND, inplace=False)


def test_where_refuses_what_does_not_fit_after_a_call_that_did() -> None:
    x = jnp.asarray(SMALL)
    np.testing.assert_array_equal(jnp.where(x > 1, 5, x), np.where(SMALL > 1, 5, SMALL))
    for call in (lambda: jnp.where(x > 1, BEYOND, x), lambda: jnp.where(x > 1, x, -BEYOND)):
        with pytest.raises(OverflowError, match="300 does not fit in int8"):
            call()


@pytest.mark.parametrize("value", [-128, 127])
def test_the_ends_of_a_dtype_fit(value: int) -> None:
    x = jnp.asarray(SMALL)
    for found, expected in (
        (jnp.where(x > 1, value, x), np.where(SMALL > 1, value, SMALL)),
        (x.at[1].set(value), np.array([44, value, 2, 3])),
        (jnp.append(x, value), np.append(SMALL, value)),
        (jnp.isin(x, value), np.isin(SMALL, value)),
        (jnp.stack([x[0], BEYOND], dtype=jnp.int32), np.array([44, BEYOND])),
    ):
        np.testing.assert_array_equal(found, expected)
    assert jnp.where(x > 1, value, x).dtype == np.int8


# Each puts a number beside elements of 64 bits, under the default width of 32.
WIDE = {
    "where": lambda x, n: jnp.where(x > 9, x, n)[0],
    "at set": lambda x, n: x.at[0].set(n)[0],
    "at add": lambda x, n: x.at[0].add(n)[0],
    "at mask": lambda x, n: x.at[x == 0].set(n)[0],
    "at subtract": lambda x, n: -x.at[0].subtract(n)[0],
    "append": lambda x, n: jnp.append(x, n)[-1],
    "hstack": lambda x, n: jnp.hstack([x, n])[-1],
    "array": lambda x, n: jnp.array([x[0], n])[1],
    "nested array": lambda x, n: jnp.array([x, [0, n]])[1, 1],
    "insert": lambda x, n: jnp.insert(x, 0, n)[0],
    "put": lambda x, n: jnp.put(x, np.array([0]), n, inplace=False)[0],
    "place": lambda x, n: jnp.place(x, x == 0, n, inplace=False)[0],
    "put_along_axis": lambda x, n: jnp.put_along_axis(x, np.array([0]), n, 0, inplace=False)[0],
    "fill_diagonal": lambda x, n: jnp.fill_diagonal(x[None], n, inplace=False)[0, 0],
    "pad": lambda x, n: jnp.pad(x, 1, constant_values=n)[0],
    "select": lambda x, n: jnp.select([x > 9], [x], n)[0],
    "choose": lambda x, n: jnp.choose(jnp.array([1, 1]), [x, n], mode="clip")[0],
    "piecewise": lambda x, n: jnp.piecewise(x, [x == 0], [n, 0])[0],
    "compress": lambda x, n: jnp.compress(x > 9, x, size=1, fill_value=n)[0],
    "take": lambda x, n: jnp.take(x, jnp.array([9]), fill_value=n)[0],
    "diff": lambda x, n: jnp.diff(x[:1], append=n)[0],
    "ediff1d": lambda x, n: jnp.ediff1d(x, to_begin=n)[0],
    "union1d": lambda x, n: jnp.union1d(x[:1], n, size=2)[1],
    "einsum": lambda x, n: jnp.einsum(",i", n, x)[1],
    "dot": lambda x, n: jnp.dot(n, x)[1],
    "polyadd": lambda x, n: jnp.polyadd(x, n)[-1] - 1,
    "sum": lambda x, n: jnp.sum(x[:1], initial=n),
    "clip": lambda x, n: jnp.clip(x + n, 0, n)[1],
    "block": lambda x, n: jnp.block([[x, n]])[0, 2],
    "r_": lambda x, n: jnp.r_[x, n][2],
    "c_": lambda x, n: jnp.c_[x[:1], n][0, 1],
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("number", [0.1, 2**40 + 1])
def test_a_number_beside_64_bits_is_not_rounded_to_32_first(name: str, number: Any) -> None:
    dtype = np.float64 if isinstance(number, float) else np.int64
    x = jnp.arange(2, dtype=dtype)
    for function in (WIDE[name], weft.jit(WIDE[name], static_argnums=1)):
        found = function(x, number)
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found), number, rtol=1e-15, atol=0)


def test_a_number_is_found_among_elements_of_64_bits() -> None:
    x = jnp.asarray([0.1, 0.2], jnp.float64)
    assert bool(jnp.isin(0.1, x)) and bool(jnp.isin(x, 0.1)[0])
    assert int(jnp.searchsorted(x, 0.1, side="right")) == 1
    assert int(jnp.searchsorted(x, 0.2)) == 1
    assert int(jnp.digitize(0.1, x)) == 1


# Parameters that are numbers beside samples x of 64 bits.
PARAMETERS = {
    "trapezoid dx": lambda x, n: jnp.trapezoid(x, dx=n),
    "trapezoid x": lambda x, n: jnp.trapezoid(x, n * np.arange(4)),
    "gradient": lambda x, n: jnp.gradient(x, n),
    "gradient at points": lambda x, n: jnp.gradient(x, n * np.arange(4.0)),
    "unwrap period": lambda x, n: jnp.unwrap(9 * x, period=n),
    "unwrap discont": lambda x, n: jnp.unwrap(x, discont=n, period=0.05),
    "interp period": lambda x, n: jnp.interp(x, jnp.sort(x), x, period=n),
    "interp ends": lambda x, n: jnp.interp(9 * x, jnp.sort(x), x, left=n, right=-n),
    "interp values": lambda x, n: jnp.interp(x, jnp.sort(x), n * np.arange(4)),
    "quantile": lambda x, n: jnp.quantile(x, n),
    "percentiles": lambda x, n: jnp.percentile(x, n * np.arange(1, 4)),
    "convolve": lambda x, n: jnp.convolve(x, n * np.arange(1, 4)),
    "correlate": lambda x, n: jnp.correlate(n * np.arange(1, 4), x),
    "polyfit": lambda x, n: jnp.polyfit(x, n * np.arange(4), 1),
    "put": lambda x, n: jnp.put(x, np.array([0, 1]), n * np.arange(1, 3), inplace=False),
    "place": lambda x, n: jnp.place(x, x > 0, n * np.arange(1, 3), inplace=False),
    "insert": lambda x, n: jnp.insert(x, 1, n * np.arange(1, 3)),
    "pad": lambda x, n: jnp.pad(x, 1, constant_values=n * np.ones(())),
    "ediff1d": lambda x, n: jnp.ediff1d(x, to_end=n * np.ones(2)),
    "diff": lambda x, n: jnp.diff(x, prepend=n * np.ones(2)),
    "fill_diagonal": lambda x, n: jnp.fill_diagonal(x[:, None] + x, n * np.ones(4), inplace=False),
    "solve": lambda x, n: jnp.linalg.solve(x[:, None] ** np.arange(4), n * np.arange(4)),
    "lstsq": lambda x, n: jnp.linalg.lstsq(x[:, None] ** np.arange(2), n * np.arange(4))[0],
}


@pytest.mark.parametrize("scalar", [float, np.float64])
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_beside_64_bits_are_not_rounded_to_32(name: str, scalar: Any) -> None:
    x, n = jnp.asarray([0.1, 0.7, 0.3, 1.3], jnp.float64), scalar(0.1)
    function = PARAMETERS[name]
    with weft.enable_x64():
        expected = tree.leaves(function(x, n))
    for call in (lambda: function(x, n), lambda: weft.jit(lambda y: function(y, n))(x)):
        for one, other in zip(tree.leaves(call()), expected, strict=True):
            assert one.dtype == other.dtype == np.float64
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(
    "call",
    [c for c in CALLS if c.module.startswith("weft.numpy")],
    ids=lambda c: f"{c.module.removeprefix('weft.')}.{c.name}",
)
def test_the_default_width_rounds_nothing_that_meets_64_bits(call: Valid) -> None:
    def widened(value: Any) -> Any:
        wide = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return jnp.asarray(value.astype(np.float64), np.float64) if wide else value

    for i, given in enumerate(call.args):
        if widened(given) is given:
            continue
        for instead in (0.1, np.float64(0.1), given * 1.1):
            args = [instead if i == j else widened(x) for j, x in enumerate(call.args)]
            found = outcome(call, args, call.kwargs)
            with weft.enable_x64():
                expected = outcome(call, args, call.kwargs)
            if isinstance(found, Exception) or isinstance(expected, Exception):
                assert type(found) is type(expected)
                continue
            for one, other in zip(found, expected, strict=True):
                if one.dtype == other.dtype == np.float64:
                    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
