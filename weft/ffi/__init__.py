"""`weft.ffi`: kernels compiled from C or C++, called by XLA's typed foreign function interface."""

from weft.base.facades import public_names
from weft.ffi.call import ffi_call
from weft.ffi.lowering import build_ffi_lowering_function, ffi_lowering
from weft.ffi.targets import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)

# fmt: off
__all__ = [
    "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir", "pycapsule",
    "register_ffi_target", "register_ffi_target_as_batch_partitionable", "register_ffi_type",
    "register_ffi_type_id",
]
# fmt: on

__dir__ = public_names(globals())
