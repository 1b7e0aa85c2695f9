"""The seam to XLA: devices, buffers, building and compiling modules.

Only this package knows jaxlib. The modules that import it are lazy: see `runtime.lazy`. What has to
come before the first import of jaxlib stands here, because every import of a part of the package
passes this file: XLA's C++ log reads its level from the environment while the libraries are loaded,
and a user's own choice goes first.
"""

import os
from typing import TYPE_CHECKING

from weft.runtime.lazy import LazyFunctions, LazyModule

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

if TYPE_CHECKING:
    from weft.runtime import (
        foreign,
        foreign_registry,
        lapack,
        layouts,
        mlir,
        pjrt,
        profiler,
        pytree,
        stablehlo,
        stablehlo_attributes,
        stablehlo_collectives,
        xla_shardings,
    )
else:
    foreign = LazyModule("weft.runtime.foreign")
    foreign_registry = LazyModule("weft.runtime.foreign_registry")
    lapack = LazyModule("weft.runtime.lapack")
    layouts = LazyModule("weft.runtime.layouts")
    mlir = LazyModule("weft.runtime.mlir")
    pjrt = LazyModule("weft.runtime.pjrt")
    profiler = LazyModule("weft.runtime.profiler")
    pytree = LazyModule("weft.runtime.pytree")
    stablehlo = LazyFunctions("weft.runtime.stablehlo")
    stablehlo_attributes = LazyModule("weft.runtime.stablehlo_attributes")
    stablehlo_collectives = LazyFunctions("weft.runtime.stablehlo_collectives")
    xla_shardings = LazyModule("weft.runtime.xla_shardings")
