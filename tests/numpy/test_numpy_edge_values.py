"""`weft.numpy` against NumPy where dtypes, branches and arguments end: the greatest and the least
numbers, zeros with signs, exponents beyond the dtype, empty lists, edges that values lie on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp

INTEGERS = [np.dtype(f"{sign}int{n}") for sign in ("", "u") for n in (8, 16, 32, 64)]
FLOATS = [np.float16, np.float32, np.float64]


@pytest.fixture(autouse=True)
def _x64() -> Any:
    with weft.enable_x64():
        yield


def extremes(dtype: Any) -> np.ndarray[Any, Any]:
    """Numbers of an integer dtype: small ones, and those next to its ends."""
    limits = np.iinfo(dtype)
    found = {0, 1, 2, 3, 7, 100, limits.bits, limits.max // 2, limits.max - 1, limits.max}
    found |= {limits.min, limits.min + 1} | ({-1, -2, -3, -6, -7} if limits.min else set())
    return np.array(sorted(found), dtype)


def both_ways(function: Any, *args: Any) -> list[np.ndarray[Any, Any]]:
    """The result of a call, eagerly and compiled."""
    args = tuple(jnp.asarray(a, dtype=np.asarray(a).dtype) for a in args)
    return [np.asarray(function(*args)), np.asarray(weft.jit(function)(*args))]


# ---- integers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_powers_of_integers_wrap_around_like_products(dtype: Any) -> None:
    x = extremes(dtype)
    exponents = x[x >= 0]
    expected = np.power(x[:, None], exponents[None, :])
    for found in both_ways(lambda a, b: jnp.power(a[:, None], b[None, :]), x, exponents):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "i"], ids=str)
def test_negative_powers_of_integers_are_rounded_to_zero(dtype: Any) -> None:
    x = extremes(dtype)
    exponents = x[x < 0]
    exact = {1: lambda e: 1, -1: lambda e: -1 if e % 2 else 1}
    values = [[exact.get(int(b), lambda e: 0)(int(e)) for e in exponents] for b in x if b]
    for found in both_ways(lambda a, b: jnp.power(a[:, None], b[None, :]), x[x != 0], exponents):
        np.testing.assert_array_equal(found, np.array(values, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_of_the_greatest_and_the_least(name: str, dtype: Any) -> None:
    x = extremes(dtype)
    if name == "lcm":  # a product that leaves the dtype is not one number in NumPy's versions
        x = x[np.abs(x.astype(object)) < 12]
    expected = getattr(np, name)(x[:, None], x[None, :])
    for found in both_ways(lambda a: getattr(jnp, name)(a[:, None], a[None, :]), x):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int32", "uint64"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "nansum", "nanmax", "nanmin"])
def test_an_initial_integer_that_does_not_fit_is_an_error(name: str, dtype: str) -> None:
    x = np.array([1, 2], dtype)
    wanted = getattr(np, name)(x).dtype
    beyond = int(np.iinfo(wanted).max) + 1
    for initial in (beyond, int(np.iinfo(wanted).min) - 1):
        with pytest.raises(OverflowError):
            getattr(np, name)(x, initial=initial)
        with pytest.raises(OverflowError):
            getattr(jnp, name)(jnp.asarray(x, dtype=dtype), initial=initial)
    found = getattr(jnp, name)(jnp.asarray(x, dtype=dtype), initial=3)
    assert int(found) == getattr(np, name)(x, initial=3)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bincount_takes_every_integer_dtype(dtype: Any) -> None:
    for x in (np.array([3, 0, 3], dtype), np.array([], dtype)):
        for minlength in (0, 6):
            found = jnp.bincount(jnp.asarray(x, dtype=dtype), minlength=minlength)
            np.testing.assert_array_equal(found, np.bincount(x.astype(int), minlength=minlength))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_powers_of_integers_mapped_and_differentiated(dtype: str) -> None:
    x = extremes(np.int8)[:12].astype(dtype).reshape(4, 3)
    y = np.array([[0, 1, 2], [5, 63, 64], [255, 256, 257], [1000, 3, 2**40 + 1]], dtype)
    expected = np.power(x, y)
    for mapped in (weft.vmap(jnp.power), weft.jit(weft.vmap(jnp.power, in_axes=0))):
        np.testing.assert_array_equal(mapped(jnp.asarray(x), jnp.asarray(y)), expected)
    repeated = weft.vmap(jnp.power, in_axes=(None, 0))(jnp.asarray(x[0]), jnp.asarray(y))
    np.testing.assert_array_equal(repeated, np.power(x[0], y))
    assert jnp.power(jnp.zeros((0, 3), dtype), jnp.zeros((0, 3), dtype)).shape == (0, 3)

    def weighted(w: Any) -> Any:  # integers have no derivative, what stands beside them has
        return jnp.sum(w * jnp.power(w.astype(dtype), jnp.asarray(y[0])))

    w = np.array([1.0, 2.0, 3.0])
    for gradient in (weft.grad(weighted), weft.jit(weft.grad(weighted))):
        np.testing.assert_array_equal(gradient(jnp.asarray(w)), w ** np.arange(3))


# ---- floating-point numbers --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_of_whole_powers_of_the_base_are_whole(base: int, dtype: Any) -> None:
    limits = np.finfo(dtype)
    low = int(np.ceil(np.log(float(limits.tiny)) / np.log(base)))
    high = int(np.floor(np.log(float(limits.max)) / np.log(base) * (1 - 1e-12)))
    exponents = np.arange(low, high + 1)
    # Compared with the rounded logarithm of the number itself, which for 10 and 16 or 32 bits is
    # not a power of ten any more.
    x = np.array([float(f"1e{k}") if base == 10 else 2.0**k for k in exponents]).astype(dtype)
    exact = {2: np.log2, 10: np.log10}[base](x.astype(np.longdouble)).astype(dtype)
    for found in both_ways(getattr(jnp, f"log{base}"), x):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_to_a_base_elsewhere(name: str) -> None:
    x = np.array([0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 0.999999, 1.000001, 3.7, 1e-290, 5e300])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    for found in both_ways(getattr(jnp, name), x):
        np.testing.assert_allclose(found, expected, rtol=5e-16)
    scale = np.log(float(name[3:]))
    for value in (1e-3, 0.999, 1.0, 8.0, 1000.0, 12345.0):
        first = weft.grad(getattr(jnp, name))(value)
        np.testing.assert_allclose(first, 1 / (value * scale), rtol=1e-14)
        second = weft.grad(weft.grad(getattr(jnp, name)))(value)
        np.testing.assert_allclose(second, -1 / (value**2 * scale), rtol=1e-14)


@pytest.mark.parametrize("exponent_dtype", INTEGERS, ids=str)
def test_ldexp_takes_every_exponent(exponent_dtype: Any) -> None:
    exponents = extremes(exponent_dtype)
    if exponents.dtype == np.uint64:
        exponents = exponents[exponents < 2**63]  # NumPy takes int64 at most
    with np.errstate(over="ignore"):
        expected = np.ldexp(1.5, exponents.astype(np.int64).clip(-5000, 5000))
    for found in both_ways(lambda e: jnp.ldexp(jnp.float64(1.5), e), exponents):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, *FLOATS, np.complex64])
def test_what_is_not_complex_is_real(dtype: Any) -> None:
    values = [0, 1] if np.dtype(dtype).kind in "bi" else [0, -1, np.nan, np.inf, -np.inf]
    x = np.array(values, dtype)
    for name in ("isreal", "iscomplex"):
        for found in both_ways(getattr(jnp, name), x):
            np.testing.assert_array_equal(found, getattr(np, name)(x), err_msg=name)


@pytest.mark.parametrize("decimals", [-400, -309, -40, -3, 0, 3, 40, 309, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_to_any_number_of_decimals(dtype: Any, decimals: int) -> None:
    x = np.array([12345.678, -0.5, 0.0, 2.5], dtype)
    limit = {np.float32: 30, np.float64: 300}[dtype]
    if decimals > limit:
        expected = x
    else:
        expected = 0 * x if decimals < -limit else np.round(x, decimals)
    for found in both_ways(lambda a: jnp.round(a, decimals), x):
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == np.float32 else 1e-15)


@pytest.mark.parametrize("ddof", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("name", ["var", "std"])
def test_more_degrees_of_freedom_taken_than_there_are(name: str, ddof: int) -> None:
    x = np.array([1.0, 2.0, 4.0])
    expected = getattr(np, name)(x, ddof=ddof) if ddof < 3 else np.nan
    np.testing.assert_allclose(getattr(jnp, name)(jnp.asarray(x), ddof=ddof), expected)


# ---- complex numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["sqrt", "log", "arcsin", "arccos", "arccosh", "arcsinh"])
def test_the_sign_of_zero_chooses_the_side_of_a_cut(name: str, dtype: Any) -> None:
    parts = (-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0)
    z = np.array([complex(a, b) for a in parts for b in parts if a or b], dtype)
    expected = getattr(np, name)(z)
    for found in both_ways(getattr(jnp, name), z):
        assert found.dtype == dtype
        eps = 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(found.real, expected.real, rtol=eps, atol=eps)
        np.testing.assert_allclose(found.imag, expected.imag, rtol=eps, atol=eps)


@pytest.mark.parametrize(
    "name", ["sqrt", "arcsin", "arccos", "arccosh", "arcsinh", "log2", "log10"]
)
def test_derivatives_of_functions_with_cuts(name: str) -> None:
    function, reference = getattr(jnp, name), getattr(np, name)
    h = 1e-6
    for z in (2 + 0.3j, -0.7 - 0.4j, -2 + 0.1j, 1.5 - 0.2j, -3 - 2j):
        slope = (reference(z + h) - reference(z - h)) / (2 * h)
        for t in (1.0 + 0j, 1j, 0.3 - 2j):
            found = weft.jvp(function, (jnp.asarray(z),), (jnp.asarray(t),))[1]
            np.testing.assert_allclose(found, slope * t, rtol=1e-8)


CUTS = {
    "sqrt": "real", "log": "real", "log1p": "real", "arcsin": "real", "arccos": "real",
    "arccosh": "real", "arctanh": "real", "arcsinh": "imag", "arctan": "imag",
}  # fmt: skip


@pytest.mark.parametrize("name", CUTS)
def test_derivatives_on_a_cut_are_those_of_its_side(name: str) -> None:
    function, reference = getattr(jnp, name), getattr(np, name)
    h = 1e-6
    for along in (-5.0, -2.0, -0.5, 0.5, 2.0, 5.0):
        for zero in (0.0, -0.0):
            if CUTS[name] == "real":
                z, ends, t = (
                    complex(along, zero),
                    [complex(along + s * h, zero) for s in (1, -1)],
                    1,
                )
            else:
                z, ends = complex(zero, along), [complex(zero, along + s * h) for s in (1, -1)]
                t = 1j
            slope = (reference(ends[0]) - reference(ends[1])) / (2 * h)
            for f in (function, weft.jit(function)):
                found = weft.jvp(f, (jnp.asarray(z),), (jnp.asarray(t + 0j),))[1]
                np.testing.assert_allclose(found, slope, rtol=1e-8, atol=1e-9, err_msg=str(z))
                found = weft.grad(f, holomorphic=True)(jnp.asarray(z))
                np.testing.assert_allclose(found, slope / t, rtol=1e-8, atol=1e-9, err_msg=str(z))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["sqrt", "asin", "acos", "acosh", "asinh", "atan", "atanh"])
def test_infinities_and_zeros_with_signs_in_every_part(name: str, dtype: Any) -> None:
    parts = (-np.inf, -2.0, -0.0, 0.0, 0.5, np.inf)
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    for function in (getattr(jnp, name), getattr(weft.lax, name)):
        for found in both_ways(function, z):
            for part in ("real", "imag"):
                x, y = getattr(found, part), getattr(expected, part)
                np.testing.assert_allclose(x, y, rtol=4 * np.finfo(dtype).eps, atol=0)
                decided = ~np.isnan(y)
                np.testing.assert_array_equal(np.signbit(x)[decided], np.signbit(y)[decided])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_zero_to_a_power(dtype: Any) -> None:
    exponents = np.array([0, 1, 2.5, 3 + 2j, 0.5 - 1j, 1j, -1, -2 + 1j], dtype)
    for zero in (0j, complex(-0.0, 0.0), complex(0.0, -0.0)):
        with np.errstate(all="ignore"):
            expected = np.power(np.full(8, zero, dtype), exponents)
        for found in both_ways(jnp.power, np.full(8, zero, dtype), exponents):
            np.testing.assert_array_equal(found, expected)
    slope = weft.grad(lambda z: z ** jnp.asarray(2 + 0j), holomorphic=True)
    assert complex(slope(jnp.asarray(0j))) == 0


def test_complex_powers_of_two_of_infinities() -> None:
    z = np.array([complex(a, 0.0) for a in (-np.inf, np.inf, 3.0)] + [complex(-np.inf, 2.0)])
    expected = np.array([0, np.inf, 8, 0], complex)
    for found in both_ways(jnp.exp2, z):
        np.testing.assert_allclose(found.real, expected.real, rtol=1e-15)
        np.testing.assert_array_equal(found.imag, 0)


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_complex_logarithms_of_zero(name: str) -> None:
    z = np.array([0, complex(-0.0, 0), complex(0, -0.0), -4, 100j])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(z)
    for found in both_ways(getattr(jnp, name), z):
        np.testing.assert_allclose(found.real, expected.real, rtol=1e-15, atol=1e-15)
        np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["max", "min", "nanmax", "nanmin"])
def test_extremes_of_complex_numbers_with_an_initial_one(name: str, dtype: Any) -> None:
    x = np.array([[1 + 1j, 1 - 2j, -3], [0, 2j, 1 + 5j]], dtype)
    mask = np.array([[True, False, True], [False, False, True]])
    for axis in (None, 0, 1):
        for initial in (0, 1 + 2j, -9.0):
            expected = getattr(np, name)(x, axis=axis, initial=initial, where=mask)
            found = getattr(jnp, name)(
                jnp.asarray(x, dtype=dtype), axis, initial=initial, where=mask
            )
            np.testing.assert_array_equal(found, expected)


# ---- histograms --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.float32, np.float64])
def test_values_on_the_edges_of_bins(dtype: Any) -> None:
    generator = np.random.default_rng(0)
    for bins in range(1, 13):
        x = generator.integers(0, bins * 3 + 1, 50).astype(dtype)
        x[:2] = 0, 3 * bins
        counts, edges = jnp.histogram(jnp.asarray(x, dtype=dtype), bins)
        np.testing.assert_array_equal(edges, 3.0 * np.arange(bins + 1))
        np.testing.assert_array_equal(counts, np.histogram(x, bins)[0])


def test_histograms_without_bins_and_with_ranges_that_end_before_they_start() -> None:
    x = jnp.arange(3.0)
    assert (
        jnp.histogram(x, np.array([1.0]))[0].shape == np.histogram(np.arange(3.0), [1.0])[0].shape
    )
    assert jnp.histogram(x, np.array([1.0]), weights=x)[0].shape == (0,)
    for function in (jnp.histogram, jnp.histogram_bin_edges):
        with pytest.raises(ValueError, match="range"):
            function(x, 3, range=(2, 1))


# ---- printing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (), (3,), (1000,), (1001,), (26, 39)])
def test_repr_names_the_shape_where_numpy_does(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert ("shape=" in repr(jnp.asarray(x))) == ("shape=" in repr(x))
    with np.printoptions(threshold=2):
        assert (f"shape={shape}" in repr(jnp.asarray(x))) == (f"shape={shape}" in repr(x))


# ---- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.float64])
@pytest.mark.parametrize("width", [2, (1, 3), ((0, 0), (2, 4)), ((0, 5), (0, 0))])
@pytest.mark.parametrize("mode", ["linear_ramp", "maximum", "minimum", "mean"])
def test_pads_of_every_width(mode: str, width: Any, dtype: Any) -> None:
    x = np.array([[-5, 3, 0], [2, -4, -1]], dtype)
    found = jnp.pad(jnp.asarray(x, dtype=dtype), width, mode)
    np.testing.assert_allclose(found, np.pad(x, width, mode), rtol=1e-14)


@pytest.mark.parametrize("mode", ["linear_ramp", "maximum", "minimum", "constant", "edge"])
def test_no_pads_of_no_elements(mode: str) -> None:
    x = np.zeros((2, 0))
    for width in (0, ((0, 0), (0, 0))):
        assert jnp.pad(jnp.asarray(x), width, mode).shape == np.pad(x, width, mode).shape


def test_lists_of_positions() -> None:
    x = np.arange(12).reshape(3, 4)
    y = jnp.asarray(x)
    np.testing.assert_array_equal(jnp.delete(y, [], axis=1), np.delete(x, [], axis=1))
    np.testing.assert_array_equal(y[jnp.ix_([0, 2], [3, 1])], x[np.ix_([0, 2], [3, 1])])
    mask = [True, False, True]
    np.testing.assert_array_equal(y[jnp.ix_(mask, range(2))], x[np.ix_(mask, range(2))])
    with pytest.raises(ValueError, match="lexsort"):
        jnp.lexsort(np.array(3))


@pytest.mark.parametrize("order", [0, 1, 2, 3, np.inf])
def test_norms_of_no_elements(order: float) -> None:
    x = np.zeros((2, 0))
    for axis in (None, 1):
        found = jnp.linalg.vector_norm(jnp.asarray(x), ord=order, axis=axis)
        np.testing.assert_array_equal(found, np.linalg.vector_norm(x, ord=order, axis=axis))


# ---- what is not a number ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_slopes_at_nan_are_nan(name):
    f = getattr(jnp, name)
    for x, y in ((np.nan, 1.0), (1.0, np.nan), (np.nan, np.inf)):
        assert np.isnan(weft.grad(f, (0, 1))(x, y)).all()
    assert weft.grad(f)(np.inf, np.inf) == weft.grad(f)(-np.inf, -np.inf) == 0.5
    assert np.isnan(weft.grad(weft.nn.softplus)(np.nan))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cumulative_sum", "cumulative_prod"])
def test_cumulative_booleans(name):
    x = np.array([0.1, 0.0, -2.0, 0.0])
    function = np.logical_and if name.endswith("prod") else np.logical_or
    found = getattr(jnp, name)(x, dtype=bool)
    assert found.dtype == bool and getattr(jnp, name)(x != 0).dtype.kind == "i"
    np.testing.assert_array_equal(found, function.accumulate(x != 0))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_spacing_below_the_least_normal_number(dtype):
    info = np.finfo(dtype)
    powers = info.tiny * 2.0 ** np.arange(-3, info.nmant + 3)
    x = np.array([0, info.smallest_subnormal, 1, 3, info.max, *powers], dtype)
    with np.errstate(all="ignore"):
        wanted = np.spacing(x)
    np.testing.assert_array_equal(np.asarray(jnp.spacing(x)).view("V"), wanted.view("V"))


def test_one_point_has_no_distance():
    for num in (0, 1):
        assert jnp.linspace(jnp.zeros(2), jnp.ones(2), num, retstep=True)[1].shape == ()


def test_positions_keep_their_dtype():
    x = np.array([1, 5], np.int8)
    found = jnp.unravel_index(x, (2, 3))
    assert [a.dtype for a in found] == [x.dtype] * 2
    np.testing.assert_array_equal(found, np.unravel_index(x, (2, 3)))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("int8", "int32"), ("uint8", "uint32"), ("int16", "int32"), ("uint32", "uint32"),
     ("int64", "int64"), ("float16", "float16")],
)  # fmt: skip
def test_cumulative_functions_of_the_standard_widen_narrow_integers(name, dtype, wide):
    x = np.array([100, 100, 3], dtype)
    with weft.enable_x64(False):
        got = getattr(jnp, name)(jnp.asarray(x, dtype))
    assert got.dtype == wide
    want = getattr(np, name.replace("ulative_", ""))(x, dtype=wide)
    np.testing.assert_array_equal(got, want)


def test_modf_at_whole_numbers_and_infinities():
    x = np.array([-0.0, -2.0, 2.0, np.inf, -np.inf, -0.5], np.float32)
    for found, wanted in zip(jnp.modf(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    slopes = weft.vmap(weft.grad(lambda x: jnp.modf(x)[0]))(x)
    np.testing.assert_array_equal(slopes, [1, 1, 1, 0, 0, 1])


def test_a_trapezoid_with_infinite_ends():
    for y in ([np.inf, 1, 2], [1, 2, np.inf], [np.inf, 1, np.inf], [-np.inf, np.inf, 1]):
        y = np.array(y, np.float32)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(jnp.trapezoid(y, dx=0.5), np.trapezoid(y, dx=0.5))
        slopes = weft.grad(lambda y: jnp.trapezoid(y, dx=0.5))(y)
        np.testing.assert_array_equal(slopes, [0.25, 0.5, 0.25])


def test_a_ramp_beside_infinity_begins_with_its_end_value():
    found = jnp.pad(np.array([np.inf, 1.0], np.float32), 2, mode="linear_ramp", end_values=3)
    np.testing.assert_array_equal(found, [3, np.inf, np.inf, 1, 2, 3])


@pytest.mark.parametrize("most", [5, 40])
def test_the_derivative_of_apply_at_repeated_positions(most):
    """By the chain rule, position by position; 40 positions are more than one block of steps."""
    places = np.random.default_rng(most).integers(0, 4, most).astype(np.int32)
    x = np.array([0.3, 0.5, 0.7, 0.9], np.float32)
    want, slopes = x.astype(np.float64), np.ones(4)
    for place in places:
        slopes[place] *= np.cos(want[place])
        want[place] = np.sin(want[place])

    def applied(x, places):
        return x.at[places].apply(jnp.sin)

    np.testing.assert_allclose(weft.jit(applied)(x, places), want, rtol=1e-6)
    found = weft.jit(weft.grad(lambda x, i: applied(x, i).sum()))(x, places)
    np.testing.assert_allclose(found, slopes, rtol=1e-5)


def test_the_derivatives_of_updated_blocks():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def loss(x, v):
        return (x.at[1:3, 1].add(v).at[:2, 2:].multiply(v).at[0].multiply(3.0) ** 2).sum()

    def same(x, v):
        rows, columns = np.indices((3, 4))
        x = jnp.where((rows >= 1) & (columns == 1), x + v, x)
        x = jnp.where((rows < 2) & (columns >= 2), x * v, x)
        return (jnp.where(rows == 0, 3.0 * x, x) ** 2).sum()

    v = np.float32(0.5)
    for f in (weft.grad, weft.hessian):
        found, wanted = (f(g, (0, 1))(x, v) for g in (loss, same))
        weft.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, wanted)
