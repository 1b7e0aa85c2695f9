"""The seam to XLA: devices, buffers, building and compiling modules.

Only this package knows jaxlib. The modules that import it are lazy: see `runtime/jaxlib/lazy.py`.
The level of XLA's C++ log is set here, before any part of the package can import jaxlib: XLA reads
it from the environment while its libraries are loaded. A user's own choice goes first.
"""

import os
from typing import TYPE_CHECKING

from weft.runtime.jaxlib.lazy import LazyFunctions, LazyModule

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if TYPE_CHECKING:
    from weft.runtime import profiler, stablehlo
    from weft.runtime.backends import (
        coordination,
        cusolver,
        ffi_registry,
        lapack,
        op_sharding,
        pjrt,
        xla_layouts,
    )
    from weft.runtime.jaxlib import pytree
    from weft.runtime.stablehlo import attributes as stablehlo_attributes
    from weft.runtime.stablehlo import collectives as stablehlo_collectives
    from weft.runtime.stablehlo import ffi_operation, mlir
else:
    coordination = LazyModule("weft.runtime.backends.coordination")
    cusolver = LazyModule("weft.runtime.backends.cusolver")
    ffi_operation = LazyModule("weft.runtime.stablehlo.ffi_operation")
    ffi_registry = LazyModule("weft.runtime.backends.ffi_registry")
    lapack = LazyModule("weft.runtime.backends.lapack")
    mlir = LazyModule("weft.runtime.stablehlo.mlir")
    op_sharding = LazyModule("weft.runtime.backends.op_sharding")
    pjrt = LazyModule("weft.runtime.backends.pjrt")
    profiler = LazyModule("weft.runtime.profiler")
    pytree = LazyModule("weft.runtime.jaxlib.pytree")
    stablehlo = LazyFunctions("weft.runtime.stablehlo")
    stablehlo_attributes = LazyModule("weft.runtime.stablehlo.attributes")
    stablehlo_collectives = LazyFunctions("weft.runtime.stablehlo.collectives")
    xla_layouts = LazyModule("weft.runtime.backends.xla_layouts")
