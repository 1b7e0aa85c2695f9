"""The names of Pallas for Triton: what kernels are written with runs in interpreted ones."""

from __future__ import annotations

from weft.base.facades import public_names
from weft.experimental.pallas.accesses import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
)
from weft.experimental.pallas.accesses import load_all as load
from weft.experimental.pallas.accesses import store_all as store
from weft.experimental.pallas.helpers import dot, max_contiguous
from weft.experimental.pallas.kernels import CompilerParams, kernel_function

# fmt: off
__all__ = [
    "CompilerParams", "TritonCompilerParams", "approx_tanh", "atomic_add", "atomic_and",
    "atomic_cas", "atomic_max", "atomic_min", "atomic_or", "atomic_xchg", "atomic_xor",
    "debug_barrier", "dot", "elementwise_inline_asm", "load", "max_contiguous", "store",
]
# fmt: on

__dir__ = public_names(globals())

TritonCompilerParams = CompilerParams

approx_tanh = kernel_function("pallas.triton.approx_tanh")
elementwise_inline_asm = kernel_function("pallas.triton.elementwise_inline_asm")


def debug_barrier() -> None:
    """Nothing: interpreted kernels run one after the other."""
