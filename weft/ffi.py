"""`weft.ffi`: kernels compiled from C or C++, called through XLA's typed foreign function
interface."""

from weft.control.foreign_calls import ffi_call, ffi_lowering
from weft.control.foreign_targets import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
)

__all__ = [
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
]
