"""The names of Pallas for TPUs: what interpreted kernels use runs, the rest raises at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.pallas.accesses import load_all as load
from weft.experimental.pallas.accesses import store_all as store
from weft.experimental.pallas.helpers import semaphore_read, semaphore_signal, semaphore_wait
from weft.experimental.pallas.kernels import (
    BlockSpec,
    CompilerParams,
    GridDimensionSemantics,
    GridSpec,
    InterpretParams,
    MemorySpace,
    PrefetchScalarGridSpec,
    SemaphoreType,
    kernel_function,
)
from weft.experimental.pallas.tpu_kernels import (
    async_copy,
    bitcast,
    force_tpu_interpret_mode,
    is_tpu_device,
    make_async_copy,
    reset_tpu_interpret_mode_state,
    roll,
    set_tpu_interpret_mode,
    sync_copy,
    touch,
    with_memory_space_constraint,
)

# fmt: off
__all__ = [
    "ANY", "ARBITRARY", "BlockSpec", "CMEM", "CORE_PARALLEL", "CompilerParams",
    "GridDimensionSemantics", "GridSpec", "HBM", "InterpretParams", "MemorySpace", "PARALLEL",
    "PrefetchScalarGridSpec", "SEMAPHORE", "SMEM", "SemaphoreType", "SUBCORE_PARALLEL",
    "TPUCompilerParams", "VMEM", "VMEM_SHARED", "async_copy", "async_remote_copy", "bitcast",
    "core_barrier", "create_tensorcore_mesh", "dma_semaphore", "einshape", "emit_pipeline",
    "emit_pipeline_with_allocations", "force_tpu_interpret_mode", "get_barrier_semaphore",
    "get_tpu_info", "get_tpu_info_for_chip", "is_tpu_device", "load", "make_async_copy",
    "make_async_remote_copy", "matmul_acc_lhs", "matmul_pop", "matmul_push_rhs", "pack_elementwise",
    "prng_random_bits", "prng_seed", "reset_tpu_interpret_mode_state", "roll", "run_on_first_core",
    "sample_block", "semaphore_read", "semaphore_signal", "semaphore_wait",
    "set_tpu_interpret_mode", "stateful_bernoulli", "stateful_bits", "stateful_normal",
    "stateful_uniform", "stochastic_round", "store", "sync_copy", "to_pallas_key", "touch",
    "trace_value", "unpack_elementwise", "with_memory_space_constraint",
]
# fmt: on

__dir__ = public_names(globals())

TPUCompilerParams = CompilerParams
ANY, CMEM, HBM = MemorySpace.ANY, MemorySpace.CMEM, MemorySpace.HBM
SEMAPHORE, SMEM = MemorySpace.SEMAPHORE, MemorySpace.SMEM
VMEM, VMEM_SHARED = MemorySpace.VMEM, MemorySpace.VMEM_SHARED
ARBITRARY, PARALLEL = GridDimensionSemantics.ARBITRARY, GridDimensionSemantics.PARALLEL
CORE_PARALLEL = GridDimensionSemantics.CORE_PARALLEL
SUBCORE_PARALLEL = GridDimensionSemantics.SUBCORE_PARALLEL

async_remote_copy = kernel_function("pallas.tpu.async_remote_copy")
core_barrier = kernel_function("pallas.tpu.core_barrier")
create_tensorcore_mesh = kernel_function("pallas.tpu.create_tensorcore_mesh")
dma_semaphore = kernel_function("pallas.tpu.dma_semaphore")
einshape = kernel_function("pallas.tpu.einshape")
emit_pipeline = kernel_function("pallas.tpu.emit_pipeline")
emit_pipeline_with_allocations = kernel_function("pallas.tpu.emit_pipeline_with_allocations")
get_barrier_semaphore = kernel_function("pallas.tpu.get_barrier_semaphore")
get_tpu_info = kernel_function("pallas.tpu.get_tpu_info")
get_tpu_info_for_chip = kernel_function("pallas.tpu.get_tpu_info_for_chip")
make_async_remote_copy = kernel_function("pallas.tpu.make_async_remote_copy")
matmul_acc_lhs = kernel_function("pallas.tpu.matmul_acc_lhs")
matmul_pop = kernel_function("pallas.tpu.matmul_pop")
matmul_push_rhs = kernel_function("pallas.tpu.matmul_push_rhs")
pack_elementwise = kernel_function("pallas.tpu.pack_elementwise")
prng_random_bits = kernel_function("pallas.tpu.prng_random_bits")
prng_seed = kernel_function("pallas.tpu.prng_seed")
run_on_first_core = kernel_function("pallas.tpu.run_on_first_core")
sample_block = kernel_function("pallas.tpu.sample_block")
stateful_bernoulli = kernel_function("pallas.tpu.stateful_bernoulli")
stateful_bits = kernel_function("pallas.tpu.stateful_bits")
stateful_normal = kernel_function("pallas.tpu.stateful_normal")
stateful_uniform = kernel_function("pallas.tpu.stateful_uniform")
stochastic_round = kernel_function("pallas.tpu.stochastic_round")
to_pallas_key = kernel_function("pallas.tpu.to_pallas_key")
trace_value = kernel_function("pallas.tpu.trace_value")
unpack_elementwise = kernel_function("pallas.tpu.unpack_elementwise")
