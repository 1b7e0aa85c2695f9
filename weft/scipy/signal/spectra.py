"""Spectra of signals, from Fourier transforms of short overlapping parts.

Power spectra by P. D. Welch, The use of fast Fourier transform for the estimation of power spectra
(1967); the inverse of the short-time transform by D. W. Griffin and J. S. Lim, Signal estimation
from modified short-time Fourier transform (1984). The parts of a signal, the window and the
frequencies depend on sizes only; the rest is one executable.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import weft.numpy as jnp
from weft import config, dtypes
from weft.argument_errors import close_name, integer_of, unknown_option
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, WeftValueError, api_boundary
from weft.kinds.checks import (
    axis_of,
    broadcast_shape,
    check_flag,
    computing_dtype,
    convert,
    inexact,
    promoted,
)
from weft.kinds.compiled_functions import compiled
from weft.numpy import fft
from weft.numpy.linalg.operands import widened
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.scipy.argument_checks import at_least, check_dimensions, one_of, wrong_shape, wrong_value
from weft.scipy.signal.trends import without_trend

# Sums of cosines, periodic: the window repeats, so its last element is left out.
_COSINES = {
    "hann": (0.5, 0.5),
    "boxcar": (1.0,),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}
_OTHER_NAMES = {
    "hanning": "hann",
    "rectangular": "boxcar",
    "rect": "boxcar",
    "ones": "boxcar",
    "black": "blackman",
    "ham": "hamming",
    "han": "hann",
}


# The operands of these functions have met under the rules of promotion in force; inside, numbers of
# any dtype and rank meet.
_rules_of_its_own = config.override(numpy_dtype_promotion="standard", numpy_rank_promotion="allow")


def _named_window(operation: str, name: Any, n: int) -> Any:
    """A window by its name, in double precision."""
    found = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    place = np.arange(n)
    if found == "bartlett":
        return 1 - abs(2 * place / n - 1) if n > 1 else np.ones(n)
    if found == "cosine":
        return np.sin(np.pi * (place + 0.5) / (n + 1)) if n > 1 else np.ones(n)
    if found not in _COSINES:
        raise _no_window(operation, name, n)
    if n == 1:
        return np.ones(1)
    terms = enumerate(_COSINES[found])
    return sum((-1) ** k * a * np.cos(2 * np.pi * k * place / n) for k, a in terms)


def _no_window(operation: str, given: Any, n: int | None = None) -> WeftValueError:
    """The error for an unknown name, with the one nearest to it."""
    names = (*_COSINES, "bartlett", "cosine")
    near = close_name(given.lower(), names) if isinstance(given, str) else None
    made = f"scipy.signal.get_window({given!r:.60}, {'nperseg' if n is None else n})"
    other = f", or the numbers of another window as an array: {made}" if not near else ""
    name = near or "hann"
    wanted = f"{', '.join(map(repr, names))}, or an array of nperseg elements"
    fix = Fix("window", f"pass window={name!r}{other}", {"window": name})
    return unknown_option(operation, "window", given, wanted, fix=fix)


def _window(operation: str, given: Any, nperseg: Any, length: int) -> tuple[Any, int]:
    """The window, and the length of the parts."""
    if isinstance(given, tuple):
        # SciPy's names with parameters; one without any is the name alone.
        if len(given) != 1 or not isinstance(given[0], str):
            raise _no_window(operation, given)
        [given] = given
    if isinstance(given, str):
        n = (
            min(256, length)
            if nperseg is None
            else min(at_least(operation, "nperseg", nperseg, 1), length)
        )
        return _named_window(operation, given, n), n
    check_dimensions(operation, "window", given, 1, 1, dtypes.ORDERED)
    n = type_of(given).shape[0]
    if nperseg is not None and at_least(operation, "nperseg", nperseg, 1) != n:
        got = f"a window of {n} elements and nperseg={nperseg}"
        raise wrong_value(operation, got, f"nperseg=None, or nperseg={n}, beside this window")
    if n > length:
        got = f"a window of {n}, {length} samples"
        raise wrong_shape(operation, got, "a window as long as x, or shorter")
    return given, n


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Lengths and options of a transform of parts; equal plans share an executable."""

    nperseg: int
    noverlap: int
    nfft: int
    onesided: bool
    scaling: str
    detrend: str
    around: str | None
    padded: bool

    @property
    def step(self) -> int:
        """How far the starts of two parts are apart."""
        return self.nperseg - self.noverlap


def _lengths(operation: str, nperseg: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    """The overlap and the length of the transforms."""
    size = nperseg if nfft is None else integer_of(nfft, operation, "nfft")
    if size < nperseg:
        raise wrong_value(operation, f"nfft={size}", f"an nfft of at least {nperseg} (nperseg)")
    overlap = nperseg // 2 if noverlap is None else integer_of(noverlap, operation, "noverlap")
    if not 0 <= overlap < nperseg:
        wanted = f"a noverlap from 0 to {nperseg - 1}, below nperseg"
        raise wrong_value(operation, f"noverlap={overlap}", wanted)
    return overlap, size


def _trend(operation: str, detrend: Any) -> str:
    """The trend subtracted from each part: "", "constant" or "linear"."""
    if detrend is False or detrend is None:
        return ""
    one_of(operation, "detrend", detrend, ("constant", "linear", "c", "l"))
    return {"c": "constant", "l": "linear"}[detrend[0]]


_BOUNDARIES = ("zeros", "even", "odd", "constant")


def _extended(x: Any, plan: _Plan) -> Any:
    """x with its boundary added along the last dimension."""
    half = plan.nperseg // 2
    if plan.around == "even":
        x = jnp.concatenate([x[..., half:0:-1], x, x[..., -2 : -half - 2 : -1]], axis=-1)
    elif plan.around == "odd":
        low = 2 * x[..., :1] - x[..., half:0:-1]
        high = 2 * x[..., -1:] - x[..., -2 : -half - 2 : -1]
        x = jnp.concatenate([low, x, high], axis=-1)
    elif plan.around is not None:
        mode = {"zeros": "constant", "constant": "edge"}[plan.around]
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(half, half)], mode=mode)
    if plan.padded:
        missing = -(x.shape[-1] - plan.nperseg) % plan.step % plan.nperseg
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)])
    return x


def _places(plan: _Plan, count: int) -> Any:
    """The indices of the samples of each part."""
    start = jnp.arange(count, dtype=jnp.int32)[:, None] * plan.step
    return start + jnp.arange(plan.nperseg, dtype=jnp.int32)


def _transforms(x: Any, window: Any, plan: _Plan) -> Any:
    """The Fourier transforms of all parts: (..., parts, frequencies)."""
    count = (x.shape[-1] - plan.noverlap) // plan.step
    last = x.ndim - 1
    parts = gather(
        x,
        jnp.arange(count, dtype=jnp.int32)[:, None] * plan.step,
        GatherDimensionNumbers((*range(last), last + 1), (), (last,)),
        (*x.shape[:-1], plan.nperseg),
        indices_are_sorted=True,
        mode="promise_in_bounds",
    )
    if plan.detrend:
        parts = without_trend(parts, plan.detrend == "linear")
    parts = parts * window
    return (fft.rfft if plan.onesided else fft.fft)(parts, plan.nfft)


def _scale(window: Any, fs: Any, scaling: str) -> Any:
    if scaling == "density":
        return 1 / (fs * jnp.sum(window * window))
    return 1 / jnp.square(jnp.sum(window))


@compiled
@_rules_of_its_own
def _short_time(x: Any, window: Any, *, axis: int, plan: _Plan) -> Any:
    """The transforms, with frequencies at `axis` and times last."""
    x = jnp.moveaxis(widened(x), axis, -1)
    window = convert(window, x.real.dtype)
    found = _transforms(_extended(x, plan), window, plan)
    found = found * jnp.sqrt(_scale(window, 1, "spectrum"))
    # Times stay last while the frequencies go to their index among the others.
    return jnp.moveaxis(jnp.swapaxes(found, -1, -2), -2, axis)


@custom_jvp
def _power(z: Any) -> Any:
    """The square of the magnitude, as a product, which XLA computes where it adds up the parts."""
    return (jnp.conj(z) * z).real


@_power.defjvp
def _power_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (z,), (t,) = primals, tangents
    return _power(z), 2 * (z.real * t.real + z.imag * t.imag)


@compiled
@_rules_of_its_own
def _densities(
    x: Any, y: Any, window: Any, fs: Any, *, axis: int, average: str, plan: _Plan
) -> Any:
    """Averages over all parts of products of transforms; of one signal (`y` is `x`) the power,
    which is real."""
    same = x is y
    x, y = (jnp.moveaxis(widened(z), axis, -1) for z in (x, y))
    window, fs = (convert(z, x.real.dtype) for z in (window, fs))
    first = _transforms(x, window, plan)
    found = _power(first) if same else jnp.conj(first) * _transforms(y, window, plan)
    found = jnp.mean(found, axis=-2) if average == "mean" else _median(found)
    found = found * _scale(window, fs, plan.scaling)
    if plan.onesided:
        # All frequencies but 0 and, for an even length, the last count twice.
        count = found.shape[-1]
        place = jnp.arange(count)
        single = (place == 0) | ((place == count - 1) if plan.nfft % 2 == 0 else False)
        found = jnp.where(single, found, 2 * found)
    return jnp.moveaxis(found, -1, axis)


def _median(x: Any) -> Any:
    """The median over the parts, divided by its bias for that many."""
    n = x.shape[-2]
    even = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    found = jnp.median(x.real, axis=-2)
    if jnp.iscomplexobj(x):
        found = found + 1j * jnp.median(x.imag, axis=-2)
    return found / bias


def _frequencies(plan: _Plan, fs: Any, dtype: Any) -> Any:
    """The frequencies of a transform, in cycles per unit of time."""
    real = dtypes.to_real(dtype) if dtype in dtypes.COMPLEX else dtype
    f = (fft.rfftfreq if plan.onesided else fft.fftfreq)(plan.nfft, dtype=real)
    return f * convert(fs, real)


@api_boundary
def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Frequencies, times, and the Fourier transforms of overlapping parts of a signal.

    fs: samples per unit of time. window: a name ("hann", "hamming", "blackman", "boxcar",
    "bartlett", "cosine", "nuttall", "blackmanharris", "flattop") or an array of nperseg elements.
    nperseg: the length of a part, at most that of x; noverlap: the overlap of parts, by default
    half; nfft: the length of the transforms, by default nperseg. detrend: False, "constant" or
    "linear". return_onesided: for a real x, frequencies from 0 only. boundary: the extension of
    x by half a part on both sides: "zeros", "even", "odd", "constant" or None. padded: zeros are
    added so that the parts reach the end. Frequencies are along the axis, the parts last;
    transforms are divided by the sum of the window.

    Raises WeftValueError for lengths and names that are not as described, ShapeError, AxisError,
    DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> f, t, z = stft(jnp.arange(8.0), nperseg=4)
    >>> f, t, z.shape
    (Array([0.  , 0.25, 0.5 ], dtype=float32), Array([0., 2., 4., 6., 8.], dtype=float32), (3, 5))
    """
    check_flag(return_onesided, "signal.stft", "return_onesided")
    check_flag(padded, "signal.stft", "padded")
    name = "signal.stft"
    check_dimensions(name, "x", x, 1)
    of = type_of(x)
    place = axis_of(axis, of.ndim, name)
    check_dimensions(name, "fs", fs, 0, 0, dtypes.ORDERED)
    weights, n = _window(name, window, nperseg, of.shape[place])
    overlap, size = _lengths(name, n, noverlap, nfft)
    if boundary is not None:
        one_of(name, "boundary", boundary, _BOUNDARIES)
    dtype = inexact(of.dtype)
    onesided = bool(return_onesided) and dtype not in dtypes.COMPLEX
    plan = _Plan(
        n, overlap, size, onesided, "spectrum", _trend(name, detrend), boundary, bool(padded)
    )
    found = _short_time(x, weights, axis=place, plan=plan)
    f = _frequencies(plan, fs, dtype)
    middle = n / 2 if boundary is None else 0.0
    times = (jnp.arange(found.shape[-1], dtype=f.dtype) * (n - overlap) + middle) / fs
    return f, convert(times, f.dtype), found


@compiled
@_rules_of_its_own
def _inverse(z: Any, window: Any, *, axes: tuple[int, int], cut: bool, plan: _Plan) -> Any:
    z = jnp.moveaxis(z, axes, (-1, -2))
    parts = (fft.irfft if plan.onesided else fft.ifft)(z, plan.nfft)[..., : plan.nperseg]
    window = convert(window, parts.real.dtype)
    parts = parts * (window * jnp.sum(window))
    out = _added(parts, plan)
    weights = jnp.broadcast_to(window * window, (parts.shape[-2], plan.nperseg))
    norm = _added(weights, plan)
    if cut:
        half = plan.nperseg // 2
        stop = out.shape[-1] - half
        out, norm = out[..., half:stop], norm[half:stop]
    tiny = norm <= 1e-10
    return out / jnp.where(tiny, 1, norm)


def _added(parts: Any, plan: _Plan) -> Any:
    """The sum of overlapping parts, each at its position."""
    count = parts.shape[-2]
    length = plan.nperseg + (count - 1) * plan.step
    out = jnp.zeros((*parts.shape[:-2], length), parts.dtype)
    return out.at[..., _places(plan, count)].add(parts)


@api_boundary
def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Times and the signal whose `stft` is, or comes nearest to, these transforms.

    Zxx: transforms along freq_axis, parts along time_axis. boundary: half a part was put on both
    sides. Where no window covers a sample, it is not divided by anything. The other arguments are
    those of `stft`, nperseg by default from the number of frequencies.

    Args:
        fs: Samples per unit of time.
        window: The window of the transforms: a name or an array of nperseg elements.
        nperseg: The length of a part.
        noverlap: The overlap of parts, by default half of a part.
        nfft: The length of the transforms, by default nperseg.
        input_onesided: Whether the transforms have frequencies from 0 only, as those of a real
            signal.
        time_axis: The axis of the parts.
        freq_axis: The axis of the frequencies.

    Raises WeftValueError for lengths and names that are not as described and equal axes,
    ShapeError, AxisError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> _, _, z = stft(jnp.arange(8.0), nperseg=4)
    >>> istft(z)[1].round(5)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    check_flag(boundary, "signal.istft", "boundary")
    check_flag(input_onesided, "signal.istft", "input_onesided")
    name = "signal.istft"
    check_dimensions(name, "Zxx", Zxx, 2)
    of = type_of(Zxx)
    check_dimensions(name, "fs", fs, 0, 0, dtypes.ORDERED)
    frequencies, times = (axis_of(a, of.ndim, name) for a in (freq_axis, time_axis))
    if frequencies == times:
        got = f"time_axis={time_axis}, freq_axis={freq_axis}"
        raise wrong_value(name, got, "two different axes")
    count = of.shape[frequencies]
    whole = 2 * (count - 1) if input_onesided else count
    n = whole if nperseg is None else at_least(name, "nperseg", nperseg, 1)
    if n < 1 or not of.size:
        raise wrong_shape(name, f"Zxx: {of}", "more than one frequency, and parts")
    if nfft is None:
        # The middle frequency of an even length and the last of an odd one look alike.
        nfft = n if input_onesided and n == whole + 1 else whole
    weights, n = _window(name, window, n, n)
    overlap, size = _lengths(name, n, noverlap, nfft)
    if (size // 2 + 1 if input_onesided else size) != count:
        fits = f"nfft={whole}" + f" or {whole + 1}" * bool(input_onesided)
        raise wrong_value(name, f"nfft={size} for {count} frequencies", fits)
    plan = _Plan(n, overlap, size, bool(input_onesided), "spectrum", "", None, False)
    z = convert(Zxx, dtypes.to_complex(computing_dtype(of.dtype)))
    out = _inverse(z, weights, axes=(frequencies, times), cut=bool(boundary), plan=plan)
    place = times if times < frequencies else times - 1
    t = jnp.arange(out.shape[-1], dtype=out.real.dtype) / fs
    return convert(t, out.real.dtype), jnp.moveaxis(out, -1, place)


def _spectrum(operation: str, x: Any, y: Any, fs: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Frequencies and densities of one signal (y is None) or a pair."""
    check_flag(options["return_onesided"], operation, "return_onesided")
    check_dimensions(operation, "x", x, 1)
    of = type_of(x)
    place = axis_of(options["axis"], of.ndim, operation)
    check_dimensions(operation, "fs", fs, 0, 0, dtypes.ORDERED)
    one_of(operation, "scaling", options["scaling"], ("density", "spectrum"))
    one_of(operation, "average", options["average"], ("mean", "median"))
    trend = _trend(operation, options["detrend"])
    dtype = inexact(of.dtype)
    if y is not None:
        check_dimensions(operation, "y", y, 1)
        x, y, place, dtype = _paired(operation, x, y, place)
    length = type_of(x).shape[place]
    if not type_of(x).size:
        raise wrong_shape(operation, f"x: {of}", "signals with samples")
    weights, n = _window(operation, options["window"], options["nperseg"], length)
    overlap, size = _lengths(operation, n, options["noverlap"], options["nfft"])
    onesided = bool(options["return_onesided"]) and dtype not in dtypes.COMPLEX
    plan = _Plan(n, overlap, size, onesided, options["scaling"], trend, None, False)
    settings = {"axis": place, "average": options["average"], "plan": plan}
    if y is None:
        found = _powers(x, weights, fs, **settings)
    else:
        found = _densities(x, y, weights, fs, **settings)
    return _frequencies(plan, fs, dtype), found


def _paired(operation: str, x: Any, y: Any, axis: int) -> tuple[Any, Any, int, Any]:
    """Brings two signals to one dtype and shape, the shorter one padded with zeros."""
    a, b = type_of(x), type_of(y)
    x, y = promoted(operation, x, y)
    dtype = inexact(type_of(x).dtype)
    after = a.ndim - axis
    if b.ndim < after:
        raise wrong_shape(operation, f"x: {a}, y: {b}", "a y that has the axis")
    x, y = jnp.moveaxis(x, axis, -1), jnp.moveaxis(y, b.ndim - after, -1)
    batch = broadcast_shape(operation, x.shape[:-1], y.shape[:-1])
    length = max(x.shape[-1], y.shape[-1])
    both = []
    for z in (x, y):
        z = jnp.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, length - z.shape[-1])])
        both.append(jnp.broadcast_to(z, (*batch, length)))
    place = len(batch) + 1 - after
    first, second = (jnp.moveaxis(z, -1, place) for z in both)
    return first, second, place, dtype


@compiled
@_rules_of_its_own
def _powers(x: Any, window: Any, fs: Any, *, axis: int, average: str, plan: _Plan) -> Any:
    return _densities.function(x, x, window, fs, axis=axis, average=average, plan=plan)


@api_boundary
def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the cross power spectral density of two signals, by Welch's method.

    y: None for the power of x itself, real. nperseg: by default 256, at most the length of x.
    scaling: "density", power per frequency, or "spectrum", power. average: over the parts, "mean"
    or "median". A shorter signal is padded with zeros; other dimensions broadcast. The rest is
    as for `stft`. Raises WeftValueError, ShapeError, AxisError, DTypeError and WeftTypeError.

    Args:
        fs: Samples per unit of time.
        window: A name or an array of nperseg elements, as in `stft`.
        noverlap: The overlap of parts, by default half of a part.
        nfft: The length of the transforms, by default nperseg.
        detrend: What is subtracted from each part: False for nothing, "constant" or "linear".
        return_onesided: Whether real signals get frequencies from 0 only.

    >>> import weft.numpy as jnp
    >>> f, p = csd(jnp.array([1.0, -1.0, 1.0, -1.0]), None, window="boxcar", scaling="spectrum")
    >>> p
    Array([0., 0., 1.], dtype=float32)
    """
    options = {
        "window": window, "nperseg": nperseg, "noverlap": noverlap, "nfft": nfft,
        "detrend": detrend, "return_onesided": return_onesided, "scaling": scaling, "axis": axis,
        "average": average,
    }  # fmt: skip
    return _spectrum("signal.csd", x, y, fs, options)


@api_boundary
def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the power spectral density of a signal, real: `csd` of x with itself.

    Args:
        fs: Samples per unit of time.
        window: A name or an array of nperseg elements, as in `stft`.
        nperseg: The length of a part, by default 256, at most that of x.
        noverlap: The overlap of parts, by default half of a part.
        nfft: The length of the transforms, by default nperseg.
        detrend: What is subtracted from each part: False for nothing, "constant" or "linear".
        return_onesided: Whether a real signal gets frequencies from 0 only.
        scaling: "density", power per frequency, or "spectrum", power.
        average: How the parts are averaged, "mean" or "median".

    >>> import weft.numpy as jnp
    >>> f, p = welch(jnp.array([1.0, -1.0, 1.0, -1.0]), window="boxcar", scaling="spectrum")
    >>> p
    Array([0., 0., 1.], dtype=float32)
    """
    options = {
        "window": window, "nperseg": nperseg, "noverlap": noverlap, "nfft": nfft,
        "detrend": detrend, "return_onesided": return_onesided, "scaling": scaling, "axis": axis,
        "average": average,
    }  # fmt: skip
    return _spectrum("signal.welch", x, None, fs, options)
