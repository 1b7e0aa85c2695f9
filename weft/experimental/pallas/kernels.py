"""The names of Pallas that programs import: descriptions of kernels can be made, none can be run.

weft compiles with XLA alone. Pallas kernels are compiled by Mosaic and Triton, whose lowering is
part of the jax package; nor is there an interpreter of them here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

from weft.experimental.unavailable import refusing

__all__ = [
    "ANY", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "CompilerParams", "CostEstimate",
    "Description", "Element", "GridSpec", "MemorySpace", "PrefetchScalarGridSpec", "Slice",
    "Squeezed", "align_to", "cdiv", "ds", "dslice", "kernel_function", "next_power_of_2",
    "no_block_spec", "squeezed", "strides_from_shape",
]  # fmt: skip

WHY = "Pallas kernels need a compiler that is part of the jax package (interpret=True too)"

kernel_function: Callable[[str], Any] = functools.partial(refusing, why=WHY)


class MemorySpace(enum.Enum):
    """Where a block of a kernel lies."""

    ANY = "any"
    HOST = "host"
    CMEM = "cmem"
    GMEM = "gmem"
    HBM = "hbm"
    SEMAPHORE = "semaphore"
    SMEM = "smem"
    TMEM = "tmem"
    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"

    def __call__(self, shape: Any, dtype: Any) -> tuple[Any, ...]:
        """The description of a scratch buffer there."""
        return self, tuple(shape), dtype


ANY = MemorySpace.ANY


class Description:
    """A part of a kernel's description: it keeps what it is made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.__dict__.update(kwargs)

    def replace(self, **changes: Any) -> Description:
        """The description with some of its parts changed."""
        return type(self)(*self.args, **{**self.__dict__, **changes})


@dataclasses.dataclass
class BlockSpec:
    """How an operand of a kernel is divided into blocks."""

    block_shape: Any = None
    index_map: Callable[..., Any] | None = None
    memory_space: Any = None
    pipeline_mode: Any = None


class GridSpec(Description):
    """The grid of a kernel and the blocks of its operands."""


class PrefetchScalarGridSpec(GridSpec):
    """A grid whose first operands are read before blocks are."""


class CompilerParams(Description):
    """Settings of a kernel's compiler."""


class CostEstimate(Description):
    """What a kernel costs."""


class Blocked(Description):
    """A dimension of a block."""


class BoundedSlice(Description):
    """A dimension of a block of bounded size."""


class Buffered(Description):
    """How many buffers a block has."""


class Element(Description):
    """A dimension of a block that is indexed by elements."""


class Squeezed(Description):
    """A dimension that a block does not have."""


squeezed = Squeezed()
no_block_spec = BlockSpec()


@dataclasses.dataclass(frozen=True)
class BlockSlice:
    """A part of a dimension: `size` elements from `start` on, `stride` apart."""

    start: Any
    size: Any
    stride: int = 1


Slice = BlockSlice  # its name in Pallas


def dslice(start: Any, size: Any = None, stride: int | None = None) -> Any:
    """The slice of `size` elements from `start` on; of `start` elements where it is alone.

    >>> from weft.experimental.pallas import dslice
    >>> dslice(2, 3)
    BlockSlice(start=2, size=3, stride=1)
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    return BlockSlice(start, size, 1 if stride is None else stride)


ds = dslice


def cdiv(a: Any, b: Any) -> Any:
    """The quotient, rounded up.

    >>> from weft.experimental.pallas import cdiv
    >>> cdiv(7, 2)
    4
    """
    return -(-a // b)


def align_to(x: Any, a: Any) -> Any:
    """The next multiple of `a`."""
    return cdiv(x, a) * a


def next_power_of_2(x: int) -> int:
    """The smallest power of 2 that is at least x. Raises ValueError for a negative number.

    >>> from weft.experimental.pallas import next_power_of_2
    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise ValueError(f"next_power_of_2 takes a number of 0 or more, not {x}")
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: Any) -> tuple[int, ...]:
    """The steps from element to element of a row-major array, per dimension.

    >>> from weft.experimental.pallas import strides_from_shape
    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    found, step = [], 1
    for length in reversed(tuple(shape)):
        found.append(step)
        step *= int(length)
    return tuple(reversed(found))
