"""What kernels for TPUs are written with, in interpreted ones: copies, rolls, casts of bits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import weft.numpy as jnp
from weft import dtypes
from weft.errors import Fix, WeftValueError, api_boundary
from weft.errors.argument_errors import refusal
from weft.experimental.pallas.accesses import copy
from weft.experimental.pallas.kernels import InterpretParams, forced_interpretation
from weft.ops.elementwise.convert import bitcast_convert_type


class AsyncCopy:
    """A copy between references: it is done where it is started, and nobody waits for it."""

    def __init__(self, src: Any, dst: Any) -> None:
        self._src, self._dst = src, dst

    def start(self, priority: int = 0, *, add: bool = False) -> None:
        """Copies, or adds to what is there."""
        copy(self._src, self._dst, add)

    def wait(self) -> None:
        """Nothing: the copy is done."""

    wait_recv = wait_send = wait


def make_async_copy(src_ref: Any, dst_ref: Any, sem: Any) -> AsyncCopy:
    """A copy from one reference to another; `.start()` does it."""
    return AsyncCopy(src_ref, dst_ref)


def async_copy(
    src_ref: Any, dst_ref: Any, sem: Any, *, priority: int = 0, add: bool = False
) -> AsyncCopy:
    """Copies from one reference to another.

    Args:
        priority: Has no meaning in an interpreted kernel.
        add: Whether values are added to what is there.
    """
    out = AsyncCopy(src_ref, dst_ref)
    out.start(priority, add=add)
    return out


def sync_copy(src_ref: Any, dst_ref: Any, *, add: bool = False) -> None:
    """Copies from a tree of references to another, or adds to what is there.

    Args:
        add: Whether values are added to what is there.
    """
    copy(src_ref, dst_ref, add)


@api_boundary
def roll(
    x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    """An array with its elements moved along an axis, around the end; with `stride` each slice
    along `stride_axis` is moved by that much more than the one before.

    Args:
        x: The array.
        shift: How far elements are moved, an integer.
        axis: The axis along which they are moved.
        stride: How much further each slice is moved than the one before; None for not at all.
        stride_axis: The axis whose slices are moved differently.

    >>> from weft.experimental.pallas import tpu
    >>> tpu.roll(jnp.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if stride is None or stride_axis is None:
        return jnp.roll(x, shift, axis)
    parts = jnp.split(x, x.shape[stride_axis], stride_axis)
    moved = [jnp.roll(part, shift + i * stride, axis) for i, part in enumerate(parts)]
    return jnp.concatenate(moved, stride_axis)


@api_boundary
def bitcast(x: Any, ty: Any) -> Any:
    """The bits of an array as another dtype; where that is wider or narrower, the last dimension
    but one changes. Raises WeftValueError if its length does not allow it.

    Args:
        x: An array of two dimensions or more.
        ty: The dtype as which the bits are read.

    >>> from weft.experimental.pallas import tpu
    >>> tpu.bitcast(jnp.ones((2, 3), "float32"), "uint16").shape
    (4, 3)
    """
    here, there = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(dtypes.canonicalize_dtype(ty))
    if x.ndim < 2 or x.shape[-2] * here % there:
        message = "bitcast: the last dimension but one cannot be packed"
        fix = Fix("shape", f"pass an array with a multiple of {there // here or 1} rows")
        got = f"shape {x.shape}, {here} bits to {there}"
        raise refusal(WeftValueError, message, "bitcast", got, "rows that fit", fix)
    *leading, rows, columns = x.shape
    if here < there:
        packing = there // here
        x = jnp.reshape(x, (*leading, rows // packing, packing, columns))
        return bitcast_convert_type(jnp.swapaxes(x, -1, -2), ty)
    out = bitcast_convert_type(x, ty)
    if here == there:
        return out
    return jnp.reshape(jnp.swapaxes(out, -1, -2), (*leading, rows * (here // there), columns))


def touch(ref: Any) -> None:
    """Nothing: no interpreted kernel drops a reference.

    Args:
        ref: The reference, which stays as it is.
    """


def with_memory_space_constraint(x: Any, memory_space: Any) -> Any:
    """`x`: an interpreted kernel has one memory.

    Args:
        memory_space: Has no meaning in an interpreted kernel.
        x: The array that is returned.
    """
    return x


def is_tpu_device() -> bool:
    """False: weft runs on CPUs and on NVIDIA's GPUs."""
    return False


@contextlib.contextmanager
def force_tpu_interpret_mode(params: InterpretParams | None = None) -> Iterator[None]:
    """A block in which `pallas_call` makes interpreted kernels.

    Args:
        params: How a TPU is imitated; None for the defaults.

    >>> from weft.experimental import pallas as pl
    >>> def double(x_ref, y_ref):
    ...     y_ref[...] = 2 * x_ref[...]
    >>> with pl.tpu.force_tpu_interpret_mode():
    ...     f = pl.pallas_call(double, weft.ShapeDtypeStruct((2,), "float32"))
    >>> f(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    token = forced_interpretation.set(InterpretParams() if params is None else params)
    try:
        yield
    finally:
        forced_interpretation.reset(token)


def set_tpu_interpret_mode(params: InterpretParams | None = None) -> None:
    """From here on `pallas_call` makes interpreted kernels, in this thread or task.

    Args:
        params: How a TPU is imitated; None for the defaults.
    """
    forced_interpretation.set(InterpretParams() if params is None else params)


def reset_tpu_interpret_mode_state() -> None:
    """Nothing: an interpreted kernel leaves nothing behind."""
