"""Resizing, scaling and translation of images: `weft.image`.

Each dimension is resampled separately, as a product with a matrix: row by row, the weights of the
input samples in an output sample are a kernel's values at their distances, divided by their sum
(Turkowski, Filters for common resampling tasks, Graphics Gems I, 1990). Where an image becomes
smaller, antialiasing widens the kernel by the same factor.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.argument_errors import refusal, unknown_option
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError, api_boundary
from weft.kinds.checks import axes_of, check_arrays, convert, inexact, shape_of
from weft.kinds.compiled_functions import compiled
from weft.numpy.creation import asarray
from weft.numpy.taking import take
from weft.ops.elementwise.arithmetic import abs as abs_
from weft.ops.elementwise.arithmetic import add, div, gt, le, lt, max, mul, sin, sub
from weft.ops.elementwise.bits import bitwise_and
from weft.ops.elementwise.selection import select
from weft.ops.flags import check_flag
from weft.ops.indexing.creation import broadcasted_iota, full, iota, zeros_like_array
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.ops.operand_errors import to_dtype
from weft.ops.products.dot import canonical_precision, dot_general
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reduce_sum, reshape

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]

__dir__ = public_names(globals())


class ResizeMethod(enum.Enum):
    """Kernels that interpolate between the samples of an image.

    NEAREST: the nearest. LINEAR: a triangle kernel (bilinear in two dimensions). CUBIC: Keys' cubic
    kernel with a = -1/2. LANCZOS3, LANCZOS5: a windowed sinc of that radius.

    >>> weft.image.ResizeMethod.from_string("bilinear")
    <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name: "nearest", "linear" (also "bilinear", "trilinear", "triangle"),
        "cubic" (also "bicubic", "tricubic"), "lanczos3", "lanczos5".

        Raises WeftValueError for another name.
        """
        return _method("ResizeMethod.from_string", s)


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    "linear": ResizeMethod.LINEAR,
    "bilinear": ResizeMethod.LINEAR,
    "trilinear": ResizeMethod.LINEAR,
    "triangle": ResizeMethod.LINEAR,
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    "cubic": ResizeMethod.CUBIC,
    "bicubic": ResizeMethod.CUBIC,
    "tricubic": ResizeMethod.CUBIC,
}


def _method(operation: str, name: Any) -> ResizeMethod:
    if isinstance(name, ResizeMethod):
        return name
    found = _NAMES.get(name) if isinstance(name, str) else None
    if found is None:
        raise unknown_option(operation, "method", name, ", ".join(map(repr, _NAMES)), use="linear")
    return found


def _number(value: float, like: Any) -> Any:
    return type_of(like).dtype.type(value)


def _triangle(x: Any) -> Any:
    return max(sub(_number(1, x), x), _number(0, x))


def _polynomial(x: Any, *coefficients: float) -> Any:
    total = full(type_of(x).shape, coefficients[0], type_of(x).dtype)
    for coefficient in coefficients[1:]:
        total = add(mul(total, x), _number(coefficient, x))
    return total


def _keys_cubic(x: Any) -> Any:
    """Keys, IEEE Trans. Acoustics, Speech, and Signal Processing 29 (1981), with a = -1/2."""
    near = _polynomial(x, 1.5, -2.5, 0.0, 1.0)
    far = _polynomial(x, -0.5, 2.5, -4.0, 2.0)
    outer = select(lt(x, _number(2, x)), far, zeros_like_array(x))
    return select(lt(x, _number(1, x)), near, outer)


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        """sinc(x) sinc(x / radius) inside the radius."""
        angle = mul(x, _number(math.pi, x))
        small = le(x, _number(1e-3, x))
        safe = select(small, full(type_of(x).shape, 1, type_of(x).dtype), angle)
        product = mul(sin(safe), sin(div(safe, _number(radius, x))))
        value = div(mul(product, _number(radius, x)), mul(safe, safe))
        # The series to the second order, whose error is below 1e-11 there.
        square = mul(angle, angle)
        series = sub(_number(1, x), mul(square, _number((1 + 1 / radius**2) / 6, x)))
        inside = lt(x, _number(radius, x))
        return select(inside, select(small, series, value), zeros_like_array(x))

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.CUBIC: _keys_cubic,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _weights(
    length: int, out_length: int, scale: Any, shift: Any, kernel: Any, antialias: bool
) -> Any:
    """The matrix (out_length, length) that resamples one dimension.

    Output sample i is at (i + 1/2 - shift) / scale - 1/2 among those of the input; samples
    outside of the image are 0.
    """
    dtype = type_of(scale).dtype
    half, one = dtype.type(0.5), dtype.type(1)
    shape = (out_length, length)
    inverse = div(one, scale)
    width = max(inverse, one) if antialias else full((), 1, dtype)
    places = add(iota(dtype, out_length), half)
    places = sub(mul(sub(places, shift), inverse), half)
    distance = sub(broadcast_in_dim(places, shape, (0,)), broadcasted_iota(dtype, shape, 1))
    weights = kernel(div(abs_(distance), width))
    total = reduce_sum(weights, (1,))
    tiny = dtype.type(1000 * float(dtypes.finfo(dtype).eps))
    found = gt(abs_(total), tiny)
    safe = select(found, total, full((out_length,), 1, dtype))
    weights = div(weights, broadcast_in_dim(safe, shape, (0,)))
    inside = bitwise_and(le(dtype.type(-0.5), places), le(places, dtype.type(length - 0.5)))
    kept = broadcast_in_dim(bitwise_and(found, inside), shape, (0,))
    return select(kept, weights, zeros_like_array(weights))


def _along(x: Any, matrix: Any, dim: int, precision: Any) -> Any:
    """The product of a matrix with one dimension of an array."""
    out = dot_general(x, matrix, (((dim,), (1,)), ((), ())), precision)
    return move_dim(out, type_of(out).ndim - 1, dim, 0)


@compiled
def _resampled(
    x: Any,
    *numbers: Any,
    dims: tuple[int, ...],
    shape: tuple[int, ...],
    method: ResizeMethod,
    antialias: bool,
    precision: Any,
) -> Any:
    """An image resampled along some dimensions, by scales and shifts of them; without these numbers
    the old samples become the new ones, and dimensions of equal lengths share a matrix."""
    of = type_of(x)
    narrow = dtypes.itemsize_bits(of.dtype) < 32
    x = convert(x, dtypes.float32) if narrow else x
    dtype = type_of(x).dtype
    lengths = [(of.shape[dim], shape[dim]) for dim in dims]
    if numbers:
        scales, shifts = (_entries(v, len(dims)) for v in numbers)
        matrices = [
            _weights(*pair, scale, shift, _KERNELS[method], antialias)
            for pair, scale, shift in zip(lengths, scales, shifts, strict=True)
        ]
    else:
        shared = {
            (n, out): _weights(
                n, out, dtype.type(out / n), dtype.type(0), _KERNELS[method], antialias
            )
            for n, out in dict.fromkeys(lengths)
        }
        matrices = [shared[pair] for pair in lengths]
    for dim, matrix in zip(dims, matrices, strict=True):
        x = _along(x, convert(matrix, dtype), dim, precision)
    return convert(x, of.dtype)


def _entries(x: Any, count: int) -> list[Any]:
    """The elements of an array of one dimension."""
    return [reshape(take(x, i), ()) for i in range(count)]


@compiled
def _nearest(x: Any, *, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    for dim in dims:
        length, wanted = type_of(x).shape[dim], shape[dim]
        # Integers: the middle of sample i is at (2 i + 1) length / (2 wanted).
        places = (2 * np.arange(wanted, dtype=np.int64) + 1) * length // (2 * wanted)
        x = _taken(x, places.astype(np.int32), dim)
    return x


def _taken(x: Any, places: Any, dim: int) -> Any:
    """The samples at places of one dimension, none of which is outside of it."""
    shape = type_of(x).shape
    others = tuple(d for d in range(len(shape)) if d != dim)
    return gather(
        x,
        places[:, None],
        GatherDimensionNumbers(others, (dim,), (dim,)),
        tuple(1 if d == dim else n for d, n in enumerate(shape)),
        indices_are_sorted=True,
        mode="promise_in_bounds",
    )


def _out_shape(operation: str, image: Any, shape: Any) -> tuple[int, ...]:
    check_arrays(operation, image, argument="image")
    of, wanted = type_of(image), shape_of(shape, operation)
    if len(wanted) != of.ndim or min((*wanted, 0)) < 0:
        message = f"{operation}: shape has a length for each dimension of the image"
        got = f"image {of} and shape={wanted}"
        more = of.ndim - len(wanted)
        text = f"pass all lengths: (*image.shape[:{more}], *{wanted}) keeps those in front"
        fix = Fix("shape", text) if more > 0 else None
        raise refusal(ShapeError, message, operation, got, f"{of.ndim} lengths of 0 or more", fix)
    return wanted


@api_boundary
def resize(
    image: Any,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = "highest",
) -> Array:
    """Resamples an image to another shape of as many dimensions; unchanged ones are not touched.

    image: an array of any number of dimensions. method: a `ResizeMethod` or its name. `antialias`
    widens the kernel of dimensions that shrink, except for "nearest". The result has the dtype of
    the image; integers become floating-point numbers, except for "nearest". Complex images raise
    DTypeError, another number of dimensions ShapeError, another method WeftValueError.

    >>> weft.image.resize(jnp.array([0.0, 4.0]), (4,), "linear")
    Array([0., 1., 3., 4.], dtype=float32)
    """
    check_flag(antialias, "resize", "antialias")
    found = _method("resize", method)
    wanted = _out_shape("resize", image, shape)
    of = type_of(image)
    dims = tuple(d for d in range(of.ndim) if of.shape[d] != wanted[d])
    if any(not of.shape[d] for d in dims):
        message = "resize: an image without samples cannot be made larger"
        got = f"image {of} and shape={wanted}"
        need = "an image with one sample or more along each dimension that changes"
        raise refusal(ShapeError, message, "resize", got, need)
    if found is ResizeMethod.NEAREST:
        return _nearest(image, shape=wanted, dims=dims)
    how = {"dims": dims, "shape": wanted, "method": found, "antialias": bool(antialias)}
    return _scaled("resize", image, precision, **how)


@api_boundary
def scale_and_translate(
    image: Any,
    shape: Sequence[int],
    spatial_dims: int | Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = "highest",
) -> Array:
    """Scales, then translates an image, on a grid of another shape.

    image: an array of any number of dimensions. spatial_dims: the dimensions that are scaled.
    scale, translation: arrays with a number for each of these, in which derivatives are taken, too:
    position y of the image moves to scale * y + translation, where samples are at 1/2, 3/2, ….
    method: as in `resize`, but not "nearest". antialias: as in `resize`. Where the image does not
    reach, the result is 0.

    Raises as `resize` does, AxisError for dimensions that do not exist or are named twice, and
    ShapeError if the numbers are not as many as the dimensions.

    >>> x = jnp.array([1.0, 2.0, 3.0])
    >>> weft.image.scale_and_translate(x, (3,), 0, jnp.ones(1), jnp.ones(1), "linear")
    Array([0., 1., 2.], dtype=float32)
    """
    check_flag(antialias, "scale_and_translate", "antialias")
    operation = "scale_and_translate"
    found = _method(operation, method)
    if found is ResizeMethod.NEAREST:
        message = f"{operation}: the nearest sample does not move continuously"
        need = "'linear', 'cubic', 'lanczos3' or 'lanczos5'"
        fix = Fix("method", "pass method='linear'", {"method": "linear"})
        raise refusal(WeftValueError, message, operation, "method='nearest'", need, fix)
    wanted = _out_shape(operation, image, shape)
    of = type_of(image)
    dims = axes_of(spatial_dims, of.ndim, operation)
    _check_numbers("scale", scale, spatial_dims, len(dims))
    _check_numbers("translation", translation, spatial_dims, len(dims))
    kept = [d for d in range(of.ndim) if d not in dims and of.shape[d] != wanted[d]]
    if kept:
        message = f"{operation}: a dimension that is not in spatial_dims keeps its length"
        got = f"image {of}, shape={wanted}, spatial_dims={spatial_dims}"
        need = f"dimension {kept[0]} of length {of.shape[kept[0]]}"
        fix = Fix("spatial_dims", "add the dimension to spatial_dims, scale and translation", {})
        raise refusal(ShapeError, message, operation, got, need, fix)
    how = {"dims": dims, "shape": wanted, "method": found, "antialias": bool(antialias)}
    return _scaled(operation, image, precision, scale, translation, **how)


def _check_numbers(name: str, value: Any, spatial_dims: Any, count: int) -> None:
    """Raises unless there is a real number for each dimension that is moved."""
    operation = "scale_and_translate"
    check_arrays(operation, value, argument=name)
    if type_of(value).dtype not in dtypes.ORDERED:
        message = f"{operation}: {name} is real numbers"
        got = f"{name} {type_of(value)}"
        fix = to_dtype(name, type_of(value).dtype, dtypes.default_float())
        raise refusal(DTypeError, message, operation, got, "real numbers", fix)
    if type_of(value).shape != (count,):
        message = f"{operation}: {name} has a number for each of spatial_dims"
        got = f"{name} {type_of(value)} and spatial_dims={spatial_dims}"
        raise refusal(ShapeError, message, operation, got, f"shape {(count,)}")


def _scaled(operation: str, image: Any, precision: Any, *numbers: Any, **how: Any) -> Array:
    """The image resampled; `numbers` and `how` are as of `_resampled`."""
    of = type_of(image)
    if of.dtype in dtypes.COMPLEX:
        message = f"{operation} takes images of real numbers"
        got = f"image {of}"
        fix = Fix("parts", "resample x.real and x.imag by themselves", {})
        raise refusal(DTypeError, message, operation, got, "real numbers or booleans", fix)
    dtype = inexact(of.dtype)
    wide = dtype if dtypes.itemsize_bits(dtype) >= 32 else dtypes.float32
    numbers = tuple(convert(asarray(v, wide), wide) for v in numbers)
    precision = canonical_precision(precision, operation)
    return _resampled(convert(image, dtype), *numbers, precision=precision, **how)
