"""StableHLO operations as Python functions from MLIR values to MLIR values.

Each function emits one operation at the current insertion point and location and returns its result
(or the list of its results); result types are computed here or passed in, never inferred by MLIR,
and operands are taken as they are: types are checked when the module is verified. The functions
of the modules `elementwise`, `structural`, `numerical`, `regions` and `collectives` are exported
here. Meaning and attributes are those of the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md; where a StableHLO name is a Python
keyword or builtin, an underscore follows it.

Of the client operations (CHLO), these compile on the CPU and are given here as functions: acos
acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf
is_pos_inf lgamma next_after polygamma sinh square tan top_k zeta. `hlo` is jaxlib's own module of
operation classes, for rules written outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.runtime.jaxlib.lazy import LazyModule
from weft.runtime.stablehlo import collectives, elementwise, numerical, regions, structural
from weft.runtime.stablehlo.attributes import boolean, integers, to_attribute
from weft.runtime.stablehlo.collectives import *  # noqa: F403
from weft.runtime.stablehlo.elementwise import *  # noqa: F403
from weft.runtime.stablehlo.mlir import (
    Function,
    Module,
    array_type_to_ir,
    context,
    dtype_of,
    element_type,
    ir,
    location,
    op,
    op1,
    parse,
    ranked,
    tensor_type,
    unknown_location,
    verify,
)
from weft.runtime.stablehlo.numerical import *  # noqa: F403
from weft.runtime.stablehlo.regions import *  # noqa: F403
from weft.runtime.stablehlo.structural import *  # noqa: F403

chlo: Any = LazyModule("jaxlib.mlir.dialects.chlo")
hlo: Any = LazyModule("jaxlib.mlir.dialects.stablehlo")

_MODULES = (collectives, elementwise, numerical, regions, structural)

if not TYPE_CHECKING:  # A type checker takes a list that is computed for an empty one.
    __all__ = [
        "Function",
        "Module",
        "array_type_to_ir",
        "boolean",
        "chlo",
        "context",
        "dtype_of",
        "element_type",
        "hlo",
        "integers",
        "ir",
        "location",
        "op",
        "op1",
        "parse",
        "ranked",
        "tensor_type",
        "to_attribute",
        "unknown_location",
        "verify",
        *(
            name
            for module in _MODULES
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ),
    ]
