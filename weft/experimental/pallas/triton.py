"""The names of Pallas for Triton: descriptions can be made, functions raise at the call."""

from __future__ import annotations

from weft.experimental.pallas.kernels import CompilerParams, kernel_function

# fmt: off
__all__ = [
    "CompilerParams", "TritonCompilerParams", "approx_tanh", "atomic_add", "atomic_and",
    "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor",
    "debug_barrier", "dot", "elementwise_inline_asm", "load", "max_contiguous", "store",
]
# fmt: on

TritonCompilerParams = CompilerParams

approx_tanh = kernel_function("pallas.triton.approx_tanh")
atomic_add = kernel_function("pallas.triton.atomic_add")
atomic_and = kernel_function("pallas.triton.atomic_and")
atomic_cas = kernel_function("pallas.triton.atomic_cas")
atomic_max = kernel_function("pallas.triton.atomic_max")
atomic_min = kernel_function("pallas.triton.atomic_min")
atomic_or = kernel_function("pallas.triton.atomic_or")
atomic_xchg = kernel_function("pallas.triton.atomic_xchg")
atomic_xor = kernel_function("pallas.triton.atomic_xor")
debug_barrier = kernel_function("pallas.triton.debug_barrier")
dot = kernel_function("pallas.triton.dot")
elementwise_inline_asm = kernel_function("pallas.triton.elementwise_inline_asm")
load = kernel_function("pallas.triton.load")
max_contiguous = kernel_function("pallas.triton.max_contiguous")
store = kernel_function("pallas.triton.store")
