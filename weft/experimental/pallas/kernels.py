"""Descriptions of Pallas kernels: grids, blocks, buffers, and settings of how they run."""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

from weft.errors.argument_errors import negative_value
from weft.experimental.unavailable import refusing
from weft.refs.index import Slice, dslice

__all__ = [
    "ANY", "HOST", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "CompilerParams",
    "CostEstimate", "Description", "DeviceIdType", "Element", "GridDimensionSemantics", "GridSpec",
    "InterpretParams", "MemoryRef", "MemorySpace", "PrefetchScalarGridSpec", "RevisitMode",
    "SemaphoreType", "Slice", "Squeezed", "align_to", "cdiv", "ds", "dslice",
    "forced_interpretation", "kernel_function", "next_power_of_2", "no_block_spec", "squeezed",
    "strides_from_shape",
]  # fmt: skip

WHY = (
    "weft interprets kernels of pallas_call(..., interpret=True); what compiles kernels for "
    "accelerators is part of the jax package"
)

kernel_function: Callable[[str], Any] = functools.partial(refusing, why=WHY)

ds = dslice  # its other name in Pallas


@dataclasses.dataclass(frozen=True)
class MemoryRef:
    """A buffer of a kernel: what it holds, and where it is.

    Args:
        shape: The lengths of the buffer.
        dtype: The dtype of its elements.
        memory_space: The memory that it is in; an interpreted kernel has one.
    """

    shape: tuple[int, ...]
    dtype: Any
    memory_space: Any = None


class MemorySpace(enum.Enum):
    """Where a block of a kernel is. An interpreted kernel has one memory for all of them."""

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

    def __call__(self, shape: Any, dtype: Any) -> MemoryRef:
        """The description of a scratch buffer there."""
        return MemoryRef(tuple(shape), dtype, self)


ANY, HOST = MemorySpace.ANY, MemorySpace.HOST


class SemaphoreType(enum.Enum):
    """The kinds of semaphores; each describes one as a scratch buffer, which holds its count."""

    REGULAR = "regular"
    DMA = "dma"
    BARRIER = "barrier"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a single semaphore."""
        return ()

    @property
    def dtype(self) -> Any:
        """Of the counts of semaphores in interpreted kernels."""
        return "int16"

    @property
    def memory_space(self) -> MemorySpace:
        """Where semaphores are."""
        return MemorySpace.SEMAPHORE

    def __call__(self, shape: Any) -> MemoryRef:
        """The description of an array of semaphores."""
        return MemoryRef(tuple(shape), self.dtype, MemorySpace.SEMAPHORE)


class GridDimensionSemantics(enum.Enum):
    """In which order a compiler may run an axis of the grid; interpreted, it is run in order."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


class DeviceIdType(enum.Enum):
    """How the device of a semaphore is named."""

    MESH = "mesh"
    LOGICAL = "logical"


class RevisitMode(enum.Enum):
    """Whether a block of a result is visited again at once or later; interpreted, both work."""

    IMMEDIATE = "immediate"
    ANY = "any"


class Description:
    """A part of a kernel's description: it keeps what it is made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.__dict__.update(kwargs)

    def replace(self, **changes: Any) -> Description:
        """The description with some of its parts changed."""
        parts = {name: value for name, value in self.__dict__.items() if name != "args"}
        return type(self)(*self.args, **{**parts, **changes})


class CompilerParams(Description):
    """Settings of a kernel's compiler, which an interpreted kernel does without."""


class CostEstimate(Description):
    """What a kernel costs, which an interpreted kernel does not need."""


@dataclasses.dataclass(frozen=True)
class Blocked:
    """A dimension that is divided into blocks: an index map says which, by its number.

    Args:
        block_size: The length of a block.
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Element:
    """A dimension in which a block has `block_size` elements: an index map gives the first one.

    The array is thought to have `padding` more elements before and behind it.

    Args:
        block_size: How many elements a block has in this dimension.
        padding: How many elements the array is thought to have (before, behind) its own.
    """

    block_size: int
    padding: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Squeezed:
    """A dimension in which a block has one element, and which the kernel does not see."""


@dataclasses.dataclass(frozen=True)
class BoundedSlice:
    """A dimension in which a block has at most `block_size` elements; it cannot be interpreted.

    Args:
        block_size: The most elements that a block has in this dimension.
    """

    block_size: int


@dataclasses.dataclass(frozen=True)
class Buffered:
    """How many buffers a block has, which makes no difference to an interpreted kernel.

    Args:
        buffer_count: The number of buffers.
        use_lookahead: Whether blocks are fetched as early as a buffer is free.
        revisit: When a block of a result is visited again, a `RevisitMode`.
    """

    buffer_count: int
    use_lookahead: bool = False
    revisit: Any = None


squeezed = Squeezed()


@dataclasses.dataclass
class BlockSpec:
    """How an operand of a kernel is divided into blocks.

    `block_shape` has an entry per dimension: the length of a block, None for a dimension in which
    the kernel sees one element, `Element(length)` for blocks that begin anywhere. `index_map` gets
    the indices of the grid and returns the index of the block, per dimension. Without a shape a
    block is the whole array; without an index map it is the first block.

    Args:
        pipeline_mode: How many buffers a block has, a `Buffered`; interpreted kernels do not look
            at it.
        memory_space: Where a block is, a `MemorySpace`; an interpreted kernel has one memory.
    """

    block_shape: Any = None
    index_map: Callable[..., Any] | None = None
    memory_space: Any = dataclasses.field(kw_only=True, default=None)
    pipeline_mode: Any = None

    def replace(self, **changes: Any) -> BlockSpec:
        """The description with some of its parts changed."""
        return dataclasses.replace(self, **changes)


class NoBlockSpec(BlockSpec):
    """Stands for the description of blocks that was left out: each is a whole array."""


no_block_spec = NoBlockSpec()


def _no_blocks() -> BlockSpec:
    return no_block_spec


@dataclasses.dataclass
class GridSpec:
    """The grid of a kernel, the blocks of its operands, and its scratch buffers.

    Args:
        grid: The lengths of the grid's axes: an int or a tuple.
        in_specs: A tree of `BlockSpec` like that of the operands.
        out_specs: A tree of `BlockSpec` like that of the results.
        scratch_shapes: Descriptions of buffers that the kernel gets behind operands and results.
    """

    grid: Any = ()
    in_specs: Any = dataclasses.field(default_factory=_no_blocks)
    out_specs: Any = dataclasses.field(default_factory=_no_blocks)
    scratch_shapes: Any = ()


@dataclasses.dataclass(init=False)
class PrefetchScalarGridSpec(GridSpec):
    """A grid whose first operands are known before blocks are cut: kernel and index maps get
    references to the whole of them, behind the grid's indices.

    Args:
        num_scalar_prefetch: How many of the first operands are known before blocks are cut.
        grid: The lengths of the grid's axes: an int or a tuple.
        in_specs: A tree of `BlockSpec` like that of the other operands.
        out_specs: A tree of `BlockSpec` like that of the results.
        scratch_shapes: Descriptions of buffers that the kernel gets behind operands and results.
    """

    num_scalar_prefetch: int = 0

    def __init__(
        self,
        num_scalar_prefetch: int,
        grid: Any = (),
        in_specs: Any = no_block_spec,
        out_specs: Any = no_block_spec,
        scratch_shapes: Any = (),
    ) -> None:
        super().__init__(grid, in_specs, out_specs, scratch_shapes)
        self.num_scalar_prefetch = num_scalar_prefetch


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams:
    """How a TPU is imitated. weft runs the grid in order, with these parameters' values for
    unwritten memory; the options that watch the threads of a TPU are not available.

    Args:
        uninitialized_memory: What unwritten memory holds: "zero", or "nan" for NaN and the greatest
            integer.
        dma_execution_mode: Has no meaning: copies are made where they are started.
        out_of_bounds_reads: Has no meaning: a slice past the end reads unwritten memory.
        random_seed, vector_clock_size: Has no meaning: one thread runs the grid in order.
        allow_hbm_allocation_in_run_scoped: Has no meaning: there is one memory.
        buffer_bounds: Has no meaning: buffers have the shapes of their blocks.
        detect_races: Must be False: one thread has no races.
        skip_floating_point_ops: Must be False: everything is computed.
        grid_point_recorder: Must be None: nothing is recorded.
        num_cores_or_threads: Must be 1.
        logging_mode: Must be None: nothing is logged.
    """

    dma_execution_mode: str = "on_wait"
    detect_races: bool = False
    out_of_bounds_reads: str = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: str = "nan"
    random_seed: int | None = None
    grid_point_recorder: Any = None
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: Any = None
    allow_hbm_allocation_in_run_scoped: bool = False
    buffer_bounds: str = "logical"


# What `interpret` is where a program says it for all of its kernels.
forced_interpretation: contextvars.ContextVar[Any] = contextvars.ContextVar(
    "forced_interpretation", default=None
)


def cdiv(a: Any, b: Any) -> Any:
    """The quotient, rounded up.

    Args:
        a: The dividend, an integer.
        b: The divisor, an integer.

    >>> from weft.experimental.pallas import cdiv
    >>> cdiv(7, 2)
    4
    """
    return -(-a // b)


def align_to(x: Any, a: Any) -> Any:
    """The next multiple of `a`.

    Args:
        x: An integer.
        a: The divisor of the result, an integer.
    """
    return cdiv(x, a) * a


def next_power_of_2(x: int) -> int:
    """The smallest power of 2 that is at least x. Raises WeftValueError for a negative number.

    Args:
        x: An int that is not negative.

    >>> from weft.experimental.pallas import next_power_of_2
    >>> next_power_of_2(5)
    8
    """
    if x < 0:
        raise negative_value("next_power_of_2", "x", x)
    return 1 if x == 0 else 1 << (x - 1).bit_length()


def strides_from_shape(shape: Any) -> tuple[int, ...]:
    """The steps from element to element of a row-major array, per dimension.

    Args:
        shape: The lengths of the array.

    >>> from weft.experimental.pallas import strides_from_shape
    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    found, step = [], 1
    for length in reversed(tuple(shape)):
        found.append(step)
        step *= int(length)
    return tuple(reversed(found))
