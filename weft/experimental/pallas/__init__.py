"""Pallas: kernels can be described; none can be run (see `weft.experimental.pallas.kernels`)."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.experimental.pallas.calls import *
from weft.experimental.pallas.kernels import (
    ANY,
    BlockSpec,
    Blocked,
    BoundedSlice,
    Buffered,
    CompilerParams,
    CostEstimate,
    Element,
    GridSpec,
    MemorySpace,
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

_LAZY_MODULES = (
    "weft.experimental.pallas.mosaic_gpu",
    "weft.experimental.pallas.ops",
    "weft.experimental.pallas.tpu",
    "weft.experimental.pallas.triton",
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
