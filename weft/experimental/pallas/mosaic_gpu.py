"""The names of Pallas for Mosaic on GPUs: functions raise at the call."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.pallas.kernels import BlockSpec, CompilerParams, MemorySpace, kernel_function

# fmt: off
__all__ = [
    "BlockSpec", "CompilerParams", "GMEM", "MemorySpace", "SMEM", "TMEM",
    "async_copy_scales_to_tmem", "async_copy_smem_to_tmem", "async_load_tmem", "async_prefetch",
    "async_store_tmem", "barrier_arrive", "barrier_wait", "commit_smem",
    "commit_smem_to_gmem_group", "copy_gmem_to_smem", "copy_smem_to_gmem", "emit_pipeline",
    "emit_pipeline_warp_specialized", "inline_mgpu", "kernel", "layout_cast", "load", "nd_loop",
    "set_max_registers", "tcgen05_commit_arrive", "tcgen05_mma", "wait_smem_to_gmem", "wgmma",
    "wgmma_wait",
]
# fmt: on

__dir__ = public_names(globals())

GMEM, SMEM, TMEM = MemorySpace.GMEM, MemorySpace.SMEM, MemorySpace.TMEM

async_copy_scales_to_tmem = kernel_function("pallas.mosaic_gpu.async_copy_scales_to_tmem")
async_copy_smem_to_tmem = kernel_function("pallas.mosaic_gpu.async_copy_smem_to_tmem")
async_load_tmem = kernel_function("pallas.mosaic_gpu.async_load_tmem")
async_prefetch = kernel_function("pallas.mosaic_gpu.async_prefetch")
async_store_tmem = kernel_function("pallas.mosaic_gpu.async_store_tmem")
barrier_arrive = kernel_function("pallas.mosaic_gpu.barrier_arrive")
barrier_wait = kernel_function("pallas.mosaic_gpu.barrier_wait")
commit_smem = kernel_function("pallas.mosaic_gpu.commit_smem")
commit_smem_to_gmem_group = kernel_function("pallas.mosaic_gpu.commit_smem_to_gmem_group")
copy_gmem_to_smem = kernel_function("pallas.mosaic_gpu.copy_gmem_to_smem")
copy_smem_to_gmem = kernel_function("pallas.mosaic_gpu.copy_smem_to_gmem")
emit_pipeline = kernel_function("pallas.mosaic_gpu.emit_pipeline")
emit_pipeline_warp_specialized = kernel_function("pallas.mosaic_gpu.emit_pipeline_warp_specialized")
inline_mgpu = kernel_function("pallas.mosaic_gpu.inline_mgpu")
kernel = kernel_function("pallas.mosaic_gpu.kernel")
layout_cast = kernel_function("pallas.mosaic_gpu.layout_cast")
load = kernel_function("pallas.mosaic_gpu.load")
nd_loop = kernel_function("pallas.mosaic_gpu.nd_loop")
set_max_registers = kernel_function("pallas.mosaic_gpu.set_max_registers")
tcgen05_commit_arrive = kernel_function("pallas.mosaic_gpu.tcgen05_commit_arrive")
tcgen05_mma = kernel_function("pallas.mosaic_gpu.tcgen05_mma")
wait_smem_to_gmem = kernel_function("pallas.mosaic_gpu.wait_smem_to_gmem")
wgmma = kernel_function("pallas.mosaic_gpu.wgmma")
wgmma_wait = kernel_function("pallas.mosaic_gpu.wgmma_wait")
