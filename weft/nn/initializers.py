"""Initializers of the parameters of neural networks.

An initializer maps `(key, shape, dtype)` to an array. Those that scale the variance by the
number of inputs and outputs are one function, `variance_scaling`, under the names of the papers
that chose its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from weft import dtypes, random
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.errors import AxisError, Fix, ShapeError, api_boundary
from weft.errors.argument_errors import invalid_value, refusal, refuse_sharding
from weft.kinds.checks import axis_of, check_arrays, check_number
from weft.numpy.creation import full
from weft.numpy.creation import ones as filled_with_ones
from weft.numpy.creation import zeros as filled_with_zeros
from weft.numpy.elementary import cos, log1p, sin, sqrt
from weft.numpy.manipulation import moveaxis, reshape
from weft.ops.elementwise.complex import complex as complex_
from weft.random.draw_arguments import check_dtype, check_shape

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip

__dir__ = public_names(globals())

Axes = int | Sequence[int]


class Initializer(Protocol):
    """The type of initializers: a function that draws an array of a shape from a key.

    The dtype is by default the one given to the initializer's factory, or float32 (float64 with
    `enable_x64`).
    """

    def __call__(
        self, key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        """Draws an array of the shape."""
        ...


Draw = Callable[[Any, tuple[int, ...], Any], Any]


def _initializer(
    name: str, draw: Draw, dtype: Any, accepts: frozenset[Any] = dtypes.INEXACT, **numbers: Any
) -> Initializer:
    """Makes an initializer that checks its arguments and draws.

    The dtype and the numbers are checked at once, so that an error points to the line with them.
    """
    default = dtype
    for argument, value in numbers.items():
        check_number(value, argument)
    if dtype is not None:
        check_dtype(dtype, accepts, dtypes.default_float, "parameters")

    @api_boundary(name)
    def init(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
        refuse_sharding(name, out_sharding)
        chosen = default if dtype is None else dtype
        out_dtype = check_dtype(chosen, accepts, dtypes.default_float, "parameters")
        return draw(key, check_shape(shape), out_dtype)

    init.__name__ = name
    return init


@api_boundary
def zeros(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """An initializer: zeros of any dtype; the key is not used.

    key: not used, may be None; shape: the lengths of the result; out_sharding: must be None,
    because places are asked for separately.

    >>> weft.nn.initializers.zeros(weft.random.key(0), (2,))
    Array([0., 0.], dtype=float32)
    """
    refuse_sharding("zeros", out_sharding)
    return filled_with_zeros(check_shape(shape), dtype)


@api_boundary
def ones(key: Any, shape: Sequence[int], dtype: Any = None, out_sharding: Any = None) -> Array:
    """An initializer: ones of any dtype; the key is not used.

    key: not used, may be None; shape: the lengths of the result; out_sharding: must be None,
    because places are asked for separately.

    >>> weft.nn.initializers.ones(None, (2,), "int32")
    Array([1, 1], dtype=int32)
    """
    refuse_sharding("ones", out_sharding)
    return filled_with_ones(check_shape(shape), dtype)


@api_boundary
def constant(value: Any, dtype: Any = None) -> Initializer:
    """An initializer that repeats a value, which broadcasts to the shape.

    value: a number, or an array that broadcasts to the shape.

    >>> weft.nn.initializers.constant(0.5)(None, (2,))
    Array([0.5, 0.5], dtype=float32)
    """
    check_arrays(value, argument="value")
    return _initializer(
        "constant", lambda key, shape, of: full(shape, value, of), dtype, dtypes.ANY | dtypes.NARROW
    )


@api_boundary
def uniform(scale: Any = 0.01, dtype: Any = None) -> Initializer:
    """An initializer: real numbers uniformly distributed in [0, scale).

    scale: the bound that is not reached.

    >>> weft.nn.initializers.uniform(2.0)(weft.random.key(0), (3,)).max() < 2
    Array(True, dtype=bool)
    """

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        return _scale(random.uniform(key, shape, of), scale)

    return _initializer("uniform", draw, dtype, scale=scale)


@api_boundary
def normal(stddev: Any = 0.01, dtype: Any = None) -> Initializer:
    """An initializer: normal numbers of mean 0 and the given standard deviation, also complex.

    stddev: the standard deviation, of complex numbers that of both parts together.

    >>> weft.nn.initializers.normal()(weft.random.key(0), (2, 3)).shape
    (2, 3)
    """

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        return _scale(random.normal(key, shape, of), stddev)

    return _initializer("normal", draw, dtype, stddev=stddev)


@api_boundary
def truncated_normal(
    stddev: Any = 0.01, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """An initializer: normal numbers between two bounds, multiplied by `stddev`.

    lower, upper: the bounds, in units of `stddev`. stddev: the standard deviation before
    truncation.

    >>> draw = weft.nn.initializers.truncated_normal(1.0)
    >>> abs(draw(weft.random.key(0), (100,))).max() <= 2
    Array(True, dtype=bool)
    """

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        return _scale(random.truncated_normal(key, lower, upper, shape, of), stddev)

    numbers = {"stddev": stddev, "lower": lower, "upper": upper}
    return _initializer("truncated_normal", draw, dtype, **numbers)


def _scale(x: Any, scale: Any) -> Any:
    return x * (scale if type(scale) is float else full((), scale, x.dtype))


_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}


@api_boundary
def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """An initializer of variance scale / n, where n counts inputs or outputs.

    scale: a number, not negative, that is n times the variance. mode: n is the number of inputs
    ("fan_in"), of outputs ("fan_out"), their mean ("fan_avg") or geometric mean ("fan_geo_avg").
    Inputs are those along `in_axis`, outputs those along `out_axis`, each times the elements along
    all axes that are in neither and not in `batch_axis` (of a convolution, those of its window).
    distribution: "normal", "uniform" (around zero), or "truncated_normal" (at two standard
    deviations; the variance is that after truncation). Complex numbers are distributed alike in all
    directions, and uniformly in a disk.

    Raises WeftValueError for another mode or distribution and a negative scale, and when called
    AxisError and ShapeError for a shape without these axes.

    >>> draw = weft.nn.initializers.variance_scaling(1.0, "fan_in", "uniform")
    >>> abs(draw(weft.random.key(0), (3, 100))).max() <= 1
    Array(True, dtype=bool)
    """
    axes = (in_axis, out_axis, batch_axis)
    return _by_variance("variance_scaling", scale, mode, distribution, axes, dtype)


def _by_variance(
    name: str, scale: Any, mode: str, distribution: str, axes: tuple[Axes, ...], dtype: Any
) -> Initializer:
    """`variance_scaling` with the name that errors say."""
    _check_choice("mode", mode, _MODES)
    _check_choice("distribution", distribution, _DRAWS)
    check_number(scale, "scale")
    if not scale >= 0:
        message = f"variance_scaling: a variance is not negative, and scale is {scale}"
        wanted = "a number of 0 or more"
        raise invalid_value(message, "variance_scaling", "scale", scale, wanted, use=1.0)

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        deviation = math.sqrt(scale / max(1.0, _MODES[mode](*_fans(shape, *axes))))
        kind = "complex " if of in dtypes.COMPLEX else ""
        return _DRAWS[kind + distribution](key, shape, of) * deviation

    return _initializer(name, draw, dtype)


def _check_choice(argument: str, value: Any, choices: Any) -> None:
    known = [name for name in choices if not name.startswith("complex ")]
    if value not in known:
        message = f"variance_scaling has no {argument} {value!r}"
        wanted = ", ".join(map(repr, known))
        fix = Fix("argument", f"pass {argument}={known[0]!r}", {argument: known[0]})
        raise invalid_value(message, "variance_scaling", argument, value, wanted, fix=fix)


def _fans(shape: tuple[int, ...], *axes: Axes) -> tuple[float, float]:
    """The numbers of inputs and of outputs."""
    operation = "variance_scaling"
    if len(shape) < 2 and axes[0] == -2:
        message = f"{operation}: a shape without two dimensions has no inputs and outputs"
        wanted = "two dimensions or more, inputs along the last but one and outputs the last"
        text = "draw another shape, or with a deviation that you choose: normal(0.01)"
        if shape:
            text = "say which axes are which: for inputs alone pass in_axis=0, out_axis=()"
        fix = Fix("in_axis", text)
        raise refusal(ShapeError, message, operation, f"shape {shape}", wanted, fix)
    groups = [
        tuple(axis_of(axis, len(shape), operation) for axis in _as_tuple(group)) for group in axes
    ]
    if any(len(set(group)) != len(group) for group in groups):
        message = f"{operation}: an axis is named twice"
        got = f"in_axis={axes[0]}, out_axis={axes[1]}, batch_axis={axes[2]} of shape {shape}"
        raise refusal(AxisError, message, operation, got, "each axis once")
    # An axis may be one of inputs and of outputs: a table of vectors has no axis of inputs alone.
    inputs, outputs, batch = (math.prod(shape[axis] for axis in group) for group in groups)
    size = math.prod(shape)
    return size / (outputs * batch or 1), size / (inputs * batch or 1)


def _as_tuple(axes: Axes) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else tuple(axes)


def _uniform(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return random.uniform(key, shape, dtype, -1.0, 1.0) * math.sqrt(3)


def _draw_truncated(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    # The variance between -b and b is 1 - 2 b phi(b) / (2 Phi(b) - 1).
    density = math.exp(-2.0) / math.sqrt(2 * math.pi)
    variance = 1 - 4 * density / math.erf(math.sqrt(2))
    return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * (1 / math.sqrt(variance))


def _uniform_in_disk(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform numbers in a disk: the square of the modulus is uniform in [0, 2)."""
    return _polar(key, shape, dtype, lambda u: 2 * u)


def _draw_complex_truncated(key: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal numbers in a disk of radius 2: the squared modulus is exponential, at most 4."""
    inside = 1 - math.exp(-4.0)
    variance = 1 - 4 * math.exp(-4.0) / inside
    return _polar(key, shape, dtype, lambda u: -log1p(-inside * u) * (1 / variance))


def _polar(key: Any, shape: tuple[int, ...], dtype: Any, square: Callable[[Any], Any]) -> Any:
    """Complex numbers of uniform angle; `square` maps uniform numbers to squares of the modulus."""
    part = dtypes.to_real(dtype)
    first, second = random.split(key)
    modulus = sqrt(square(random.uniform(first, shape, part)))
    angle = 2 * math.pi * random.uniform(second, shape, part)
    return complex_(modulus * cos(angle), modulus * sin(angle))


_DRAWS: dict[str, Draw] = {
    "normal": random.normal,
    "uniform": _uniform,
    "truncated_normal": _draw_truncated,
    "complex normal": random.normal,
    "complex uniform": _uniform_in_disk,
    "complex truncated_normal": _draw_complex_truncated,
}


def _make_initializer(
    name: str, scale: float, mode: str, distribution: str, doc: str
) -> Callable[..., Initializer]:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        return _by_variance(name, scale, mode, distribution, (in_axis, out_axis, batch_axis), dtype)

    # Before the function is wrapped: errors of calls that do not fit say this name.
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{doc}

    `variance_scaling` with scale={scale}, mode={mode!r}, distribution={distribution!r}, which says
    what the axes mean and what is raised.

    >>> weft.nn.initializers.{name}()(weft.random.key(0), (3, 2)).dtype
    dtype('float32')
    """
    return api_boundary(make)


_GLOROT = "By Glorot and Bengio, AISTATS 2010, https://proceedings.mlr.press/v9/glorot10a.html."
_HE = "By He, Zhang, Ren and Sun, ICCV 2015, https://arxiv.org/abs/1502.01852."
_LECUN = "By LeCun, Bottou, Orr and Müller, Efficient BackProp, 1998."

glorot_normal = _make_initializer("glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT)
glorot_uniform = _make_initializer("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
he_normal = _make_initializer("he_normal", 2.0, "fan_in", "truncated_normal", _HE)
he_uniform = _make_initializer("he_uniform", 2.0, "fan_in", "uniform", _HE)
lecun_normal = _make_initializer("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
lecun_uniform = _make_initializer("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
xavier_normal, xavier_uniform = glorot_normal, glorot_uniform
kaiming_normal, kaiming_uniform = he_normal, he_uniform


@api_boundary
def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer: orthonormal rows or columns, whichever are fewer, times `scale`.

    All axes but `column_axis` are taken together as one. The matrices are uniformly distributed
    (Mezzadri, How to generate random matrices from the classical compact groups, 2007,
    https://arxiv.org/abs/math-ph/0609050). Raises ShapeError when called for a shape of fewer than
    two dimensions, AxisError for an axis that it does not have.

    >>> q = weft.nn.initializers.orthogonal()(weft.random.key(0), (3, 3))
    >>> jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-6)
    Array(True, dtype=bool)
    """

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        _check_rank("orthogonal", shape, 2, math.inf)
        axis = axis_of(column_axis, len(shape), "orthogonal")
        others = tuple(n for i, n in enumerate(shape) if i != axis)
        columns = shape[axis]
        matrix = random.orthogonal(key, math.prod(others), (), of, columns)
        return _scale(moveaxis(reshape(matrix, (*others, columns)), -1, axis), scale)

    return _initializer("orthogonal", draw, dtype, scale=scale)


@api_boundary
def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """An initializer of convolutions: an orthogonal matrix in the middle of the window.

    scale: a number by which the matrix is multiplied; column_axis: as in `orthogonal`, -1 for
    outputs and -2 for inputs. Shapes have one to three dimensions of the window, then inputs, then
    at least as many outputs. By Xiao, Bahri, Sohl-Dickstein, Schoenholz and Pennington, ICML 2018,
    https://arxiv.org/abs/1806.05393. Raises ShapeError when called for another shape.

    >>> weft.nn.initializers.delta_orthogonal()(weft.random.key(0), (3, 2, 2))[0]
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    check_number(scale, "scale")
    inner = orthogonal(scale, column_axis)

    def draw(key: Any, shape: tuple[int, ...], of: Any) -> Any:
        _check_rank("delta_orthogonal", shape, 3, 5)
        if shape[-1] < shape[-2]:
            message = "delta_orthogonal has as many outputs as inputs, or more"
            got = f"shape {shape}: {shape[-2]} inputs and {shape[-1]} outputs"
            raise refusal(ShapeError, message, "delta_orthogonal", got, "shape[-1] >= shape[-2]")
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return filled_with_zeros(shape, of).at[middle].set(inner(key, shape[-2:], of))

    return _initializer("delta_orthogonal", draw, dtype)


def _check_rank(name: str, shape: tuple[int, ...], least: int, most: float) -> None:
    if not least <= len(shape) <= most:
        bound = f"{least} dimensions or more" if most == math.inf else f"{least} to {most}"
        message = f"{name} takes shapes of {bound}, not of {len(shape)}"
        raise refusal(ShapeError, message, name, f"shape {shape}", bound)
