"""`weft.ffi`: kernels compiled from C or C++, called through XLA's typed foreign function
interface."""

from weft.control.foreign_calls import ffi_call
from weft.control.foreign_lowering import build_ffi_lowering_function, ffi_lowering
from weft.control.foreign_targets import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)

__all__ = [
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]
