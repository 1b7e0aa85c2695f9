"""Spectra of signals, from Fourier transforms of short overlapping parts.

Power spectra by P. D. Welch, The use of fast Fourier transform for the estimation of power spectra
(1967); the inverse of the short-time transform by D. W. Griffin and J. S. Lim, Signal estimation
from modified short-time Fourier transform (1984). The parts of a signal, the window and the
frequencies depend on sizes only; the rest is one executable.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import numpy as np

import weft.numpy as jnp
from weft import config, dtypes
from weft.arrays.array import Array
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.errors import Fix, WeftValueError
from weft.errors.argument_errors import close_name, unknown_option, wrong_shape, wrong_value
from weft.kinds.arguments import NEVER, Flag, Integer, OneAxis, choice, common, count_from, of_rank
from weft.kinds.array_function import array_function
from weft.kinds.checks import (
    broadcast_shape,
    check_choice,
    check_dimensions,
    computing_dtype,
    convert,
    inexact,
)
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy import fft
from weft.numpy.linalg.operands import widen_operand
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.scipy.signal.trends import remove_trend

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
_NAMES = (*_COSINES, "bartlett", "cosine")
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
_promote_freely = config.override(numpy_dtype_promotion="standard", numpy_rank_promotion="allow")


def _no_window(value: Any, call: Arguments) -> WeftValueError:
    """The error for an unknown name, with the nearest one."""
    near = close_name(value.lower(), _NAMES) if isinstance(value, str) else None
    n = call["nperseg"]
    if n is not None and "axis" in call:
        n = min(n, call.type.shape[call["axis"]])
    elements = f"scipy.signal.get_window({value!r:.60}, {'nperseg' if n is None else n})"
    other = f", or the numbers of another window as an array: {elements}" if not near else ""
    name = near or "hann"
    wanted = f"{', '.join(map(repr, _NAMES))}, or an array of nperseg elements"
    fix = Fix("window", f"pass window={name!r}{other}", {"window": name})
    return unknown_option(call.operation, "window", value, wanted, fix=fix)


def _window(value: Any, call: Arguments) -> Any:
    """The name of a window, or an array."""
    name = value
    if isinstance(value, tuple) and len(value) == 1:
        # SciPy's names with parameters; one without any is the name alone.
        [name] = value
    if not isinstance(name, str) and not isinstance(value, tuple):
        check_dimensions("window", value, 1, 1, dtypes.ORDERED)
        return value
    name = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    if name not in _NAMES:
        raise _no_window(value, call)
    return name


def _rate(value: Any, call: Arguments) -> Any:
    """A number in the precision of the signal."""
    check_dimensions(call.name, value, 0, 0, dtypes.ORDERED)
    return number_for(value, dtypes.to_real(inexact(call.type.dtype)))


def _trend(value: Any, call: Arguments) -> str:
    """The trend subtracted from each part: "", "constant" or "linear"."""
    if value is False or value is None:
        return ""
    check_choice(value, ("constant", "linear", "c", "l"), "detrend")
    return {"c": "constant", "l": "linear"}[value[0]]


_weights = "the name of a window, or its elements"
Signal = Annotated[Any, of_rank(1)]
Signals = Annotated[Any, of_rank(1, together=common)]
_rate_kind = Kind(_rate, "a number", ("text", [1.0], 1j), 1.0, False, plain=NEVER, by_class=True)
Rate = Annotated[Any, _rate_kind]
Window = Annotated[
    Any,
    Kind(_window, _weights, ("?", 0.5), "hann", static=False, fixed=True, plain=NEVER, late=True),
]
Count = Annotated[int, count_from(1)]
Trend = Annotated[Any, Kind(_trend, 'False, "constant" or "linear"', ("?", 0.5), plain=NEVER)]
Boundary = Annotated[str, choice("zeros", "even", "odd", "constant")]
Scaling = Annotated[str, choice("density", "spectrum")]
Average = Annotated[str, choice("mean", "median")]


def _named_window(name: str, n: int) -> Any:
    """A window by its name, in double precision."""
    place = np.arange(n)
    if n == 1:
        return np.ones(1)
    if name == "bartlett":
        return 1 - abs(2 * place / n - 1)
    if name == "cosine":
        return np.sin(np.pi * (place + 0.5) / (n + 1))
    terms = enumerate(_COSINES[name])
    return sum((-1) ** k * a * np.cos(2 * np.pi * k * place / n) for k, a in terms)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """The lengths and options of a transform of parts."""

    nperseg: int
    noverlap: int
    nfft: int
    onesided: bool
    scaling: str = "spectrum"
    detrend: str = ""
    around: str | None = None
    padded: bool = False

    @property
    def step(self) -> int:
        """How far the starts of two parts are apart."""
        return self.nperseg - self.noverlap


def _make_plan(
    length: int,
    window: Any,
    nperseg: int | None,
    noverlap: int | None,
    nfft: int | None,
    *options: Any,
) -> tuple[Any, _Plan]:
    """The window for a signal of a length, and the plan. Raises WeftValueError and ShapeError."""
    if isinstance(window, str):
        n = min(256 if nperseg is None else nperseg, length)
        window = _named_window(window, n)
    else:
        n = window.shape[0]
        if nperseg not in (None, n):
            got = f"a window of {n} elements and nperseg={nperseg}"
            raise wrong_value(got, f"nperseg=None, or nperseg={n}, beside this window")
        if n > length:
            got = f"a window of {n}, {length} samples"
            raise wrong_shape(got, "a window as long as x, or shorter")
    size = n if nfft is None else nfft
    if size < n:
        raise wrong_value(f"nfft={size}", f"an nfft of at least {n} (nperseg)")
    overlap = n // 2 if noverlap is None else noverlap
    if not 0 <= overlap < n:
        wanted = f"a noverlap from 0 to {n - 1}, below nperseg"
        raise wrong_value(f"noverlap={overlap}", wanted)
    return window, _Plan(n, overlap, size, *options)


def _extend(x: Any, plan: _Plan) -> Any:
    """Adds the boundary along the last dimension."""
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


def _sample_indices(plan: _Plan, count: int) -> Any:
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
        parts = remove_trend(parts, plan.detrend == "linear")
    parts = parts * window
    return (fft.rfft if plan.onesided else fft.fft)(parts, plan.nfft)


def _scale(window: Any, fs: Any, scaling: str) -> Any:
    if scaling == "density":
        return 1 / (fs * jnp.sum(window * window))
    return 1 / jnp.square(jnp.sum(window))


@_promote_freely
def _short_time(x: Any, window: Any, axis: int, plan: _Plan) -> Any:
    """The transforms, with frequencies at `axis` and times last."""
    x = jnp.moveaxis(widen_operand(x), axis, -1)
    window = convert(window, x.real.dtype)
    out = _transforms(_extend(x, plan), window, plan)
    out = out * jnp.sqrt(_scale(window, 1, "spectrum"))
    # Times stay last while the frequencies go to their index among the others.
    return jnp.moveaxis(jnp.swapaxes(out, -1, -2), -2, axis)


@custom_jvp
def _power(z: Any) -> Any:
    """The squared magnitude as a product, which XLA computes while it adds up the parts."""
    return (jnp.conj(z) * z).real


@_power.defjvp
def _power_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (z,), (t,) = primals, tangents
    return _power(z), 2 * (z.real * t.real + z.imag * t.imag)


@_promote_freely
def _densities(x: Any, y: Any, window: Any, fs: Any, axis: int, average: str, plan: _Plan) -> Any:
    """Averages products of transforms over all parts; for one signal (y is None) the real power."""
    x = jnp.moveaxis(widen_operand(x), axis, -1)
    window, fs = (convert(z, x.real.dtype) for z in (window, fs))
    out = _transforms(x, window, plan)
    if y is None:
        out = _power(out)
    else:
        y = jnp.moveaxis(widen_operand(y), axis, -1)
        out = jnp.conj(out) * _transforms(y, window, plan)
    out = jnp.mean(out, axis=-2) if average == "mean" else _median(out)
    out = out * _scale(window, fs, plan.scaling)
    if plan.onesided:
        # All frequencies but 0 and, for an even length, the last count twice.
        count = out.shape[-1]
        place = jnp.arange(count)
        single = (place == 0) | ((place == count - 1) if plan.nfft % 2 == 0 else False)
        out = jnp.where(single, out, 2 * out)
    return jnp.moveaxis(out, -1, axis)


def _median(x: Any) -> Any:
    """The median over the parts, divided by its bias for their number."""
    even = 2 * np.arange(1.0, (x.shape[-2] - 1) // 2 + 1)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    out = jnp.median(x.real, axis=-2)
    if jnp.iscomplexobj(x):
        out = out + 1j * jnp.median(x.imag, axis=-2)
    return out / bias


def _frequencies(plan: _Plan, fs: Any, dtype: Any) -> Any:
    """The frequencies of a transform, in cycles per unit of time."""
    real = dtypes.to_real(dtype)
    f = (fft.rfftfreq if plan.onesided else fft.fftfreq)(plan.nfft, dtype=real)
    return f * convert(fs, real)


@_promote_freely
def _times(count: int, first: float, step: int, fs: Any, dtype: Any) -> Any:
    """The times of samples or parts."""
    return convert((jnp.arange(count, dtype=dtype) * step + first) / fs, dtype)


@array_function
def stft(
    x: Signal,
    fs: Rate = 1.0,
    window: Window = "hann",
    nperseg: Count | None = 256,
    noverlap: Integer | None = None,
    nfft: Integer | None = None,
    detrend: Trend = False,
    return_onesided: Flag = True,
    boundary: Boundary | None = "zeros",
    padded: Flag = True,
    axis: OneAxis = -1,
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
    dtype = inexact(x.dtype)
    onesided = return_onesided and dtype not in dtypes.COMPLEX
    options = onesided, "spectrum", detrend, boundary, padded
    weights, plan = _make_plan(x.shape[axis], window, nperseg, noverlap, nfft, *options)
    out = _short_time(x, weights, axis, plan)
    f = _frequencies(plan, fs, dtype)
    middle = plan.nperseg / 2 if boundary is None else 0.0
    return f, _times(out.shape[-1], middle, plan.step, fs, f.dtype), out


@_promote_freely
def _inverse(z: Any, window: Any, axes: tuple[int, int], cut: bool, plan: _Plan) -> Any:
    z = jnp.moveaxis(z, axes, (-1, -2))
    parts = (fft.irfft if plan.onesided else fft.ifft)(z, plan.nfft)[..., : plan.nperseg]
    window = convert(window, parts.real.dtype)
    parts = parts * (window * jnp.sum(window))
    out = _overlap_add(parts, plan)
    weights = jnp.broadcast_to(window * window, (parts.shape[-2], plan.nperseg))
    norm = _overlap_add(weights, plan)
    if cut:
        half = plan.nperseg // 2
        stop = out.shape[-1] - half
        out, norm = out[..., half:stop], norm[half:stop]
    tiny = norm <= 1e-10
    return out / jnp.where(tiny, 1, norm)


def _overlap_add(parts: Any, plan: _Plan) -> Any:
    """The sum of overlapping parts."""
    count = parts.shape[-2]
    length = plan.nperseg + (count - 1) * plan.step
    out = jnp.zeros((*parts.shape[:-2], length), parts.dtype)
    return out.at[..., _sample_indices(plan, count)].add(parts)


@array_function
def istft(
    Zxx: Annotated[Any, of_rank(2)],
    fs: Rate = 1.0,
    window: Window = "hann",
    nperseg: Count | None = None,
    noverlap: Integer | None = None,
    nfft: Integer | None = None,
    input_onesided: Flag = True,
    boundary: Flag = True,
    time_axis: OneAxis = -1,
    freq_axis: OneAxis = -2,
) -> tuple[Array, Array]:
    """Times and the signal whose `stft` is, or comes nearest to, these transforms.

    Zxx: transforms along freq_axis, parts along time_axis. boundary: half a part was put on both
    sides. Where no window covers a sample, it is not divided by anything. fs: samples per unit of
    time. window, nperseg, noverlap, nfft: as in `stft`, nperseg by default from the number of
    frequencies. input_onesided: whether the transforms have frequencies from 0 only, as those of a
    real signal. time_axis: the axis of the parts; freq_axis: the axis of the frequencies.

    Raises WeftValueError for lengths and names that are not as described and equal axes,
    ShapeError, AxisError, DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> _, _, z = stft(jnp.arange(8.0), nperseg=4)
    >>> istft(z)[1].round(5)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """
    if freq_axis == time_axis:
        got = f"time_axis={time_axis}, freq_axis={freq_axis}"
        raise wrong_value(got, "two different axes")
    count = Zxx.shape[freq_axis]
    whole = 2 * (count - 1) if input_onesided else count
    n = whole if nperseg is None else nperseg
    if n < 1 or not Zxx.size:
        raise wrong_shape(f"Zxx: {Zxx.type}", "more than one frequency, and parts")
    if nfft is None:
        # The middle frequency of an even length and the last of an odd one look alike.
        nfft = n if input_onesided and n == whole + 1 else whole
    weights, plan = _make_plan(n, window, n, noverlap, nfft, input_onesided)
    if (plan.nfft // 2 + 1 if input_onesided else plan.nfft) != count:
        fits = f"nfft={whole}" + f" or {whole + 1}" * input_onesided
        raise wrong_value(f"nfft={plan.nfft} for {count} frequencies", fits)
    z = convert(Zxx, dtypes.to_complex(computing_dtype(Zxx.dtype)))
    out = _inverse(z, weights, (freq_axis, time_axis), boundary, plan)
    place = time_axis if time_axis < freq_axis else time_axis - 1
    return _times(out.shape[-1], 0.0, 1, fs, out.real.dtype), jnp.moveaxis(out, -1, place)


def _match_signals(x: Any, y: Any, axis: int) -> tuple[Any, Any, int]:
    """Pads and broadcasts two signals to one shape; also returns the axis in it."""
    after = x.ndim - axis
    if y.ndim < after:
        raise wrong_shape(f"x: {x.type}, y: {y.type}", "a y that has the axis")
    x, y = jnp.moveaxis(x, axis, -1), jnp.moveaxis(y, y.ndim - after, -1)
    batch = broadcast_shape(x.shape[:-1], y.shape[:-1])
    length = max(x.shape[-1], y.shape[-1])
    both = []
    for z in (x, y):
        z = jnp.pad(z, [(0, 0)] * (z.ndim - 1) + [(0, length - z.shape[-1])])
        both.append(jnp.broadcast_to(z, (*batch, length)))
    place = len(batch) + 1 - after
    first, second = (jnp.moveaxis(z, -1, place) for z in both)
    return first, second, place


def _density(
    x: Any,
    y: Any,
    fs: Any,
    axis: int,
    average: str,
    lengths: tuple[Any, ...],
    onesided: bool,
    *options: str,
) -> tuple[Any, Any]:
    """Frequencies and densities of one signal (y is None) or of a pair."""
    dtype = inexact(x.dtype)
    if y is not None:
        x, y, axis = _match_signals(x, y, axis)
    if not x.size:
        raise wrong_shape(f"x: {x.type}", "signals with samples")
    onesided = onesided and dtype not in dtypes.COMPLEX
    weights, plan = _make_plan(x.shape[axis], *lengths, onesided, *options)
    out = _densities(x, y, weights, fs, axis, average, plan)
    return _frequencies(plan, fs, dtype), out


@array_function
def csd(
    x: Signals,
    y: Signals | None,
    fs: Rate = 1.0,
    window: Window = "hann",
    nperseg: Count | None = None,
    noverlap: Integer | None = None,
    nfft: Integer | None = None,
    detrend: Trend = "constant",
    return_onesided: Flag = True,
    scaling: Scaling = "density",
    axis: OneAxis = -1,
    average: Average = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the cross power spectral density of two signals, by Welch's method.

    y: None for the power of x itself, real. fs, window, noverlap, nfft, detrend, return_onesided:
    as in `stft`. nperseg: by default 256, at most the length of x. scaling: "density", power per
    frequency, or "spectrum", power. average: over the parts, "mean" or "median". A shorter signal
    is padded with zeros; other dimensions broadcast. Raises WeftValueError, ShapeError, AxisError,
    DTypeError and WeftTypeError.

    >>> import weft.numpy as jnp
    >>> f, p = csd(jnp.array([1.0, -1.0, 1.0, -1.0]), None, window="boxcar", scaling="spectrum")
    >>> p
    Array([0., 0., 1.], dtype=float32)
    """
    lengths = window, nperseg, noverlap, nfft
    options = return_onesided, scaling, detrend
    return _density(x, y, fs, axis, average, lengths, *options)


@array_function
def welch(
    x: Signal,
    fs: Rate = 1.0,
    window: Window = "hann",
    nperseg: Count | None = None,
    noverlap: Integer | None = None,
    nfft: Integer | None = None,
    detrend: Trend = "constant",
    return_onesided: Flag = True,
    scaling: Scaling = "density",
    axis: OneAxis = -1,
    average: Average = "mean",
) -> tuple[Array, Array]:
    """Frequencies, and the power spectral density of a signal, real: `csd` of x with itself.

    fs, window, noverlap, nfft, detrend, return_onesided: as in `stft`. nperseg: the length of a
    part, by default 256, at most that of x. scaling: "density", power per frequency, or "spectrum",
    power. average: over the parts, "mean" or "median".

    >>> import weft.numpy as jnp
    >>> f, p = welch(jnp.array([1.0, -1.0, 1.0, -1.0]), window="boxcar", scaling="spectrum")
    >>> p
    Array([0., 0., 1.], dtype=float32)
    """
    lengths = window, nperseg, noverlap, nfft
    options = return_onesided, scaling, detrend
    return _density(x, None, fs, axis, average, lengths, *options)
