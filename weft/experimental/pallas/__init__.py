"""Pallas: kernels, which weft interprets (see `pallas_call`); none is compiled for accelerators."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.experimental.pallas.accesses import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    load,
    store,
    swap,
)
from weft.experimental.pallas.calls import (
    core_map,
    delay,
    enable_debug_checks,
    enable_poison_buffers,
    estimate_cost,
    get_global,
    kernel,
    lower_as_mlir,
    pallas_export_experimental,
    select_ref,
)
from weft.experimental.pallas.grid import num_programs, program_id
from weft.experimental.pallas.helpers import (
    broadcast_to,
    debug_check,
    debug_print,
    dot,
    empty,
    empty_like,
    empty_ref_like,
    loop,
    max_contiguous,
    multiple_of,
    reciprocal,
    run_scoped,
    run_state,
    semaphore_read,
    semaphore_signal,
    semaphore_wait,
    when,
    with_scoped,
)
from weft.experimental.pallas.interpreted import pallas_call
from weft.experimental.pallas.kernels import (
    ANY,
    HOST,
    Blocked,
    BlockSpec,
    BoundedSlice,
    Buffered,
    CompilerParams,
    CostEstimate,
    DeviceIdType,
    Element,
    GridSpec,
    MemoryRef,
    MemorySpace,
    RevisitMode,
    Slice,
    Squeezed,
    align_to,
    cdiv,
    ds,
    dslice,
    next_power_of_2,
    no_block_spec,
    squeezed,
    strides_from_shape,
)

if TYPE_CHECKING:
    from weft.experimental.pallas import mosaic_gpu as mosaic_gpu
    from weft.experimental.pallas import ops as ops
    from weft.experimental.pallas import tpu as tpu
    from weft.experimental.pallas import triton as triton

# fmt: off
__all__ = [
    "ANY", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "CompilerParams", "CostEstimate",
    "DeviceIdType", "Element", "GridSpec", "HOST", "MemoryRef", "MemorySpace", "RevisitMode",
    "Slice", "Squeezed", "align_to", "atomic_add", "atomic_and", "atomic_cas", "atomic_max",
    "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor", "broadcast_to", "cdiv", "core_map",
    "debug_check", "debug_print", "delay", "dot", "ds", "dslice", "empty", "empty_like",
    "empty_ref_like", "enable_debug_checks", "enable_poison_buffers", "estimate_cost", "get_global",
    "kernel", "load", "loop", "lower_as_mlir", "max_contiguous", "mosaic_gpu", "multiple_of",
    "next_power_of_2", "no_block_spec", "num_programs", "ops", "pallas_call",
    "pallas_export_experimental", "program_id", "reciprocal", "run_scoped", "run_state",
    "select_ref", "semaphore_read", "semaphore_signal", "semaphore_wait", "squeezed", "store",
    "strides_from_shape", "swap", "tpu", "triton", "when", "with_scoped",
]
# fmt: on

_LAZY_MODULES = (
    "weft.experimental.pallas.mosaic_gpu",
    "weft.experimental.pallas.ops",
    "weft.experimental.pallas.tpu",
    "weft.experimental.pallas.triton",
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
