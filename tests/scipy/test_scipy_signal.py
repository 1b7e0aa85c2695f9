"""Convolutions and spectra: held to SciPy in double precision, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal as reference

import weft
import weft.numpy as jnp
from closeness import close_doubles
from weft.scipy import signal
from weft.scipy.signal import spectra
from weft.testing import check_grads, check_jit, check_vmap

RANDOM = np.random.default_rng(11)


def given(*shape, dtype="float64"):
    x = RANDOM.normal(size=shape)
    return x + 1j * RANDOM.normal(size=shape) if dtype[0] == "c" else x


@pytest.fixture(autouse=True)
def wide():
    with weft.enable_x64():
        yield


# ---- convolutions --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", [((7,), (3,)), ((3,), (6,)), ((4, 5), (2, 3)), ((2, 3), (4, 4))])
def test_convolutions(shapes, mode):
    for dtype in ("float64", "complex128"):
        a, b = (given(*shape, dtype=dtype) for shape in shapes)
        for method in ("auto", "direct", "fft"):
            close_doubles(signal.convolve(a, b, mode, method), reference.convolve(a, b, mode))
            close_doubles(signal.correlate(a, b, mode, method), reference.correlate(a, b, mode))
    a, b = (RANDOM.integers(-9, 9, size=shape) for shape in shapes)
    got = signal.convolve(a, b, mode)
    assert got.dtype.kind == "i"
    np.testing.assert_array_equal(got, reference.convolve(a, b, mode, "direct"))


@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_with_a_boundary(mode, boundary):
    fill = 0.5 if boundary == "fill" else 0
    for shapes in (((4, 5), (2, 3)), ((5, 4), (3, 2)), ((2, 3), (4, 4))):
        a, b = (given(*shape) for shape in shapes)
        for name in ("convolve2d", "correlate2d"):
            got = getattr(signal, name)(a, b, mode, boundary, fill)
            close_doubles(got, getattr(reference, name)(a, b, mode, boundary, fill))
    c, d = given(4, 5, dtype="complex128"), given(2, 2, dtype="complex128")
    close_doubles(signal.correlate2d(c, d, mode), reference.correlate2d(c, d, mode))


def test_fourier_convolution_along_axes():
    a = given(4, 5)
    for axes, b in ((1, a[:, :2]), ((0,), a[:3, :1]), (None, a[:2, :2])):
        for mode in ("full", "same", "valid"):
            close_doubles(
                signal.fftconvolve(a, b, mode, axes), reference.fftconvolve(a, b, mode, axes)
            )


def test_fourier_convolution_of_repeated_arrays():
    """The shape of "same" is that of the first array, along axes that are repeated too."""
    for first, second, axes in (
        ((3, 1, 5), (1, 2, 2), -1),
        ((1, 4), (3, 2), 1),
        ((3, 4), (1, 2), 1),
    ):
        a, b = given(*first), given(*second)
        for mode in ("full", "same", "valid"):
            close_doubles(
                signal.fftconvolve(a, b, mode, axes), reference.fftconvolve(a, b, mode, axes)
            )


def test_numbers_and_small_dtypes():
    close_doubles(signal.convolve(np.array(3.0), np.array(2.0)), 6.0)
    x = jnp.asarray(given(20)).astype("bfloat16")
    out = signal.convolve(x, x)
    assert out.dtype == jnp.bfloat16
    exact = np.convolve(*[np.asarray(x).astype(np.float64)] * 2)
    close_doubles(np.asarray(out).astype(np.float64), exact, 2**-7)
    assert signal.convolve(np.array([True]), np.array([True, False])).dtype == np.bool_


# ---- trends --------------------------------------------------------------------------------------


def test_detrend():
    for dtype in ("float64", "complex128"):
        x = given(3, 30, dtype=dtype)
        for type in ("linear", "constant"):
            close_doubles(signal.detrend(x, 1, type, [4, 9]), reference.detrend(x, 1, type, [4, 9]))
            close_doubles(signal.detrend(x, 0, type), reference.detrend(x, 0, type))
    assert signal.detrend(np.arange(4)).dtype == np.float64


# ---- spectra -------------------------------------------------------------------------------------


def test_windows():
    for n in (1, 8, 9):
        for name in (*spectra._COSINES, "bartlett", "cosine"):
            close_doubles(spectra._named_window(name, n), reference.get_window(name, n))


SPECTRA = [
    {"nperseg": 8},
    {"nperseg": 7, "noverlap": 2, "nfft": 9},
    {"window": "boxcar", "nperseg": 8, "return_onesided": False},
    {"nperseg": 8, "scaling": "spectrum", "average": "median", "detrend": "linear"},
    {"window": np.arange(1.0, 7.0), "detrend": False},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", SPECTRA, ids=str)
def test_powers(options):
    for dtype in ("float64", "complex128"):
        x, y = given(2, 30, dtype=dtype), given(2, 26, dtype=dtype)
        for got, want in (
            (signal.welch(x, 2.0, **options), reference.welch(x, 2.0, **options)),
            (signal.csd(x, y, 2.0, **options), reference.csd(x, y, 2.0, **options)),
            (
                signal.csd(x.T, y.T, 2.0, axis=0, **options),
                reference.csd(x.T, y.T, 2.0, axis=0, **options),
            ),
        ):
            close_doubles(got[0], want[0])
            close_doubles(got[1], want[1])


SHORT = [
    {"nperseg": 8},
    {"nperseg": 7, "noverlap": 2, "nfft": 9},
    {"window": "boxcar", "nperseg": 8, "return_onesided": False},
    {"nperseg": 8, "boundary": "even", "detrend": "linear"},
    {"nperseg": 8, "boundary": "odd"},
    {"nperseg": 8, "boundary": "constant"},
    {"nperseg": 8, "boundary": None, "padded": False, "window": "bartlett"},
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", SHORT, ids=str)
def test_short_time_transforms(options):
    x = given(2, 30)
    for got, want in zip(
        (*signal.stft(x, 2.0, **options), *signal.stft(x.T, axis=0, **options)),
        (*reference.stft(x, 2.0, **options), *reference.stft(x.T, axis=0, **options)),
        strict=True,
    ):
        close_doubles(got, want)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_inverse_short_time_transforms(dtype):
    x = given(2, 30, dtype=dtype)
    for options in ({"nperseg": 8}, {"nperseg": 8, "noverlap": 6}, {"nperseg": 6, "nfft": 9}):
        z = reference.stft(x, **options)[2]
        onesided = dtype[0] == "f"
        want = reference.istft(z, input_onesided=onesided, **options)[1]
        close_doubles(signal.istft(z, input_onesided=onesided, **options)[1], want)
        back = signal.istft(z.T, input_onesided=onesided, time_axis=0, freq_axis=1, **options)
        close_doubles(back[1], want.T)
        close_doubles(np.asarray(want)[:, :30], x)


# ---- transformations -----------------------------------------------------------------------------


def test_derivatives():
    a, b = given(3, 4), given(2, 2)
    check_grads(signal.convolve, (a, b), order=2)
    check_grads(lambda a, b: signal.correlate2d(a, b, "same", "wrap"), (a, b), order=1)
    check_grads(lambda a, b: signal.convolve2d(a, b, fillvalue=0.5), (a, b), order=1)
    check_grads(lambda a, b: signal.fftconvolve(a, b, "same"), (a, b), order=2)
    x = given(12)
    check_grads(signal.detrend, (x,), order=1)
    check_grads(lambda x: signal.welch(x, nperseg=4)[1], (x,), order=2)
    check_grads(lambda x: signal.stft(x, nperseg=4)[2], (x,), order=1)
    z = np.asarray(signal.stft(x, nperseg=4)[2])
    check_grads(lambda z: signal.istft(z)[1], (z,), order=1)


def test_jit_and_vmap():
    x = given(2, 12).astype(np.float32)
    for f in (
        signal.detrend,
        lambda x: signal.convolve(x, x[:3]),
        lambda x: signal.welch(x, nperseg=4)[1],
        lambda x: signal.stft(x, nperseg=4)[2],
    ):
        check_vmap(f, (x,))
        check_jit(f, (x[0],))


def test_in_shard_map():
    x = given(8, 12)
    mesh = weft.make_mesh((8,), ("i",))

    def both(x):
        return signal.detrend(x), signal.welch(x, nperseg=4)[1]

    f = weft.shard_map(both, mesh=mesh, in_specs=weft.P("i"), out_specs=weft.P("i"))
    straight, power = f(x)
    close_doubles(straight, reference.detrend(x))
    close_doubles(power, reference.welch(x, nperseg=4)[1])


@pytest.mark.parametrize(
    "window, said",
    [
        ("foo", "pass window='hann', or the numbers of another window"),
        ("Hamming", "pass window='hamming'"),
        ("blackmann", "pass window='blackman'"),
        (("tukey", 0.5), "scipy.signal.get_window(('tukey', 0.5), 9)"),
        (None, "argument window"),
    ],
)
def test_windows_that_are_not_there(window, said):
    for function in (signal.welch, signal.stft):
        with pytest.raises(weft.errors.WeftError) as info:
            function(np.ones(9), window=window, nperseg=256)
        assert said in str(info.value)


def test_a_name_of_a_window_in_a_tuple():
    options = {"window": ("hamming",), "nperseg": 8}
    x = given(20)
    close_doubles(signal.welch(x, **options)[1], reference.welch(x, **options)[1])
