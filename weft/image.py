"""Resizing, scaling and translation of images: `weft.image`.

Each dimension is resampled separately, as a product with a matrix: row by row, the weights of the
input samples in an output sample are a kernel's values at their distances, divided by their sum
(Turkowski, Filters for common resampling tasks, Graphics Gems I, 1990). Where an image becomes
smaller, antialiasing widens the kernel by the same factor.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from weft import dtypes
from weft.arrays.array import Array
from weft.base.facades import public_names
from weft.core.types import type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftValueError
from weft.errors.argument_errors import unknown_option
from weft.kinds.arguments import NEVER, Axes, Flag, Operand, Precision, of_dtypes
from weft.kinds.array_function import array_function
from weft.kinds.checks import convert, inexact, shape_of
from weft.kinds.kind import Arguments, Kind
from weft.kinds.numbers import number_for
from weft.numpy.choosing import where
from weft.numpy.elementwise import maximum
from weft.ops.elementwise.arithmetic import sin
from weft.ops.indexing.creation import full, iota
from weft.ops.indexing.gather import GatherDimensionNumbers, gather
from weft.ops.products.dot import dot_general
from weft.ops.structural.shape import move_dim, reduce_sum
from weft.typing import ArrayLike

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
    method = _NAMES.get(name) if isinstance(name, str) else None
    if method is None:
        raise unknown_option(operation, "method", name, ", ".join(map(repr, _NAMES)), use="linear")
    return method


# ---- arguments ---------------------------------------------------------------------------------


def _take_kernel(value: Any, call: Arguments) -> ResizeMethod:
    method = _method(call.operation, value)
    if method is ResizeMethod.NEAREST:
        message = "the nearest sample does not move continuously"
        wanted = "'linear', 'cubic', 'lanczos3' or 'lanczos5'"
        fix = Fix("method", "pass method='linear'", {"method": "linear"})
        raise WeftValueError(message, got="method='nearest'", wanted=wanted, fix=fix)
    return method


def _take_lengths(value: Any, call: Arguments) -> tuple[int, ...]:
    of, lengths = call.type, shape_of(value)
    if len(lengths) != of.ndim or min((*lengths, 0)) < 0:
        missing = of.ndim - len(lengths)
        text = f"pass all lengths: (*image.shape[:{missing}], *{lengths}) keeps those in front"
        raise ShapeError(
            "shape has a length for each dimension of the image",
            got=f"image {of} and shape={lengths}",
            wanted=f"{of.ndim} lengths of 0 or more",
            fix=Fix("shape", text) if missing > 0 else None,
        )
    return lengths


_real_kind = of_dtypes(dtypes.ORDERED, dtypes.float32, "real numbers, one for each of spatial_dims")


def _take_numbers(value: Any, call: Arguments) -> Any:
    value = _real_kind.take(value, call)
    shape = (len(call["spatial_dims"]),)
    if type_of(value).shape != shape:
        message = f"{call.name} has a number for each of spatial_dims"
        got = f"{call.name} {type_of(value)} and spatial_dims={call['spatial_dims']}"
        raise ShapeError(message, got=got, wanted=f"shape {shape}")
    return number_for(value, _computing_dtype(call.type.dtype))


_method_kind = Kind(
    lambda value, call: _method(call.operation, value),
    "a `ResizeMethod` or its name",
    ("sharp", 1, None),
    "linear",
    plain=NEVER,
)
Method = Annotated[str | ResizeMethod, _method_kind]
_kernel_kind = dataclasses.replace(_method_kind, take=_take_kernel)
Kernel = Annotated[str | ResizeMethod, _kernel_kind]
_lengths_kind = Kind(
    _take_lengths, "a length for each dimension", (5, (3, 0.5), (3, -1)), (3, 4), plain=NEVER
)
Lengths = Annotated[Sequence[int], _lengths_kind]
_numbers_kind = dataclasses.replace(_real_kind, take=_take_numbers, right=np.ones(1, np.float32))
Numbers = Annotated[ArrayLike, _numbers_kind]


# ---- kernels -----------------------------------------------------------------------------------


def _keys_cubic(x: Any) -> Any:
    """Keys, IEEE Trans. Acoustics, Speech, and Signal Processing 29 (1981), with a = -1/2."""
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return where(x < 1, near, where(x < 2, far, 0))


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        """sinc(x) sinc(x / radius) inside the radius."""
        angle = math.pi * x
        small = x <= 1e-3
        safe = where(small, 1, angle)
        value = sin(safe) * sin(safe / radius) * radius / (safe * safe)
        # The series to the second order, whose error is below 1e-11 there.
        series = 1 - angle * angle * ((1 + 1 / radius**2) / 6)
        return where(x < radius, where(small, series, value), 0)

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: lambda x: maximum(1 - x, 0),
    ResizeMethod.CUBIC: _keys_cubic,
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
}


def _weights(
    length: int, out_length: int, scale: Any, shift: Any, kernel: Any, antialias: bool
) -> Any:
    """The matrix (out_length, length) that resamples one dimension. Output sample i is at (i + 1/2
    - shift) / scale - 1/2 among those of the input; samples outside of the image are 0."""
    inverse = 1 / scale
    places = (iota(scale.dtype, out_length) + 0.5 - shift) * inverse - 0.5
    distance = places[:, None] - iota(scale.dtype, length)[None]
    weights = kernel(abs(distance) / (maximum(inverse, 1) if antialias else 1))
    total = reduce_sum(weights, (1,))
    nonzero = abs(total) > 1000 * float(dtypes.finfo(scale.dtype).eps)
    weights = weights / where(nonzero, total, 1)[:, None]
    inside = (places >= -0.5) & (places <= length - 0.5)
    return where((nonzero & inside)[:, None], weights, 0)


def _resample(x: Any, matrix: Any, dim: int, precision: Any) -> Any:
    """Multiplies one dimension of an array by a matrix."""
    out = dot_general(x, matrix, (((dim,), (1,)), ((), ())), precision)
    return move_dim(out, out.ndim - 1, dim, 0)


def _computing_dtype(dtype: Any) -> Any:
    """The dtype of the computation. Raises DTypeError for complex images."""
    if dtype in dtypes.COMPLEX:
        got, wanted = f"an image of dtype {dtype}", "real numbers or booleans"
        fix = Fix("parts", "resample x.real and x.imag by themselves", {})
        raise DTypeError("images are real numbers", got=got, wanted=wanted, fix=fix)
    dtype = inexact(dtype)
    return dtype if dtypes.itemsize_bits(dtype) >= 32 else dtypes.float32


def _nearest(x: Any, out_length: int, dim: int) -> Any:
    # Integers: the middle of sample i is at (2 i + 1) length / (2 out_length).
    indices = (2 * np.arange(out_length, dtype=np.int64) + 1) * x.shape[dim] // (2 * out_length)
    return gather(
        x,
        indices.astype(np.int32)[:, None],
        GatherDimensionNumbers(tuple(d for d in range(x.ndim) if d != dim), (dim,), (dim,)),
        tuple(1 if d == dim else n for d, n in enumerate(x.shape)),
        indices_are_sorted=True,
        mode="promise_in_bounds",
    )


@array_function
def resize(
    image: Operand,
    shape: Lengths,
    method: Method,
    antialias: Flag = True,
    precision: Precision = "highest",
) -> Array:
    """Resamples an image to another shape of as many dimensions; unchanged ones are not touched.

    image: an array of any number of dimensions. method: a `ResizeMethod` or its name. `antialias`
    widens the kernel of dimensions that shrink, except for "nearest". The result has the dtype of
    the image; integers become floating-point numbers, except for "nearest". Complex images raise
    DTypeError, another number of dimensions ShapeError, another method WeftValueError.

    >>> weft.image.resize(jnp.array([0.0, 4.0]), (4,), "linear")
    Array([0., 1., 3., 4.], dtype=float32)
    """
    dims = tuple(d for d in range(image.ndim) if image.shape[d] != shape[d])
    if any(not image.shape[d] for d in dims):
        message, got = "an image without samples cannot be made larger", f"image {image.type}"
        wanted = "an image with one sample or more along each dimension that changes"
        raise ShapeError(message, got=f"{got} and shape={shape}", wanted=wanted)
    x: Any = image
    if method is ResizeMethod.NEAREST:
        for dim in dims:
            x = _nearest(x, shape[dim], dim)
        return x
    x = convert(x, _computing_dtype(x.dtype))
    # Dimensions of equal lengths share a matrix.
    matrices: dict[tuple[int, int], Any] = {}
    for dim in dims:
        n, out = image.shape[dim], shape[dim]
        if (n, out) not in matrices:
            scale = full((), out / n, x.dtype)
            matrices[n, out] = _weights(n, out, scale, 0, _KERNELS[method], antialias)
        x = _resample(x, matrices[n, out], dim, precision)
    return convert(x, inexact(image.dtype))


@array_function
def scale_and_translate(
    image: Operand,
    shape: Lengths,
    spatial_dims: Axes,
    scale: Numbers,
    translation: Numbers,
    method: Kernel,
    antialias: Flag = True,
    precision: Precision = "highest",
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
    wrong = [d for d in range(image.ndim) if d not in spatial_dims and image.shape[d] != shape[d]]
    if wrong:
        raise ShapeError(
            "a dimension that is not in spatial_dims keeps its length",
            got=f"image {image.type}, shape={shape}, spatial_dims={spatial_dims}",
            wanted=f"dimension {wrong[0]} of length {image.shape[wrong[0]]}",
            fix=Fix("spatial_dims", "add the dimension to spatial_dims, scale and translation", {}),
        )
    x = convert(image, _computing_dtype(image.dtype))
    scale, translation = (convert(v, x.dtype) for v in (scale, translation))
    for i, dim in enumerate(spatial_dims):
        sampling = (scale[i], translation[i], _KERNELS[method], antialias)
        x = _resample(x, _weights(image.shape[dim], shape[dim], *sampling), dim, precision)
    return convert(x, inexact(image.dtype))
