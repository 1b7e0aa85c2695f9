"""How a product is to be computed in detail: the dtypes in which factors are rounded and sums kept.

The parameters are those of StableHLO's `dot_general`,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md#dot_general.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from weft import dtypes
from weft.errors import Fix, WeftValueError


class DotAlgorithm(NamedTuple):
    """An algorithm for products, as the `precision` of `dot` and `dot_general`.

    lhs_precision_type, rhs_precision_type: the dtypes to which the factors are rounded;
    accumulation_type: the dtype in which products are summed. Factors may be taken apart in
    component_count parts each, which takes num_primitive_operations products;
    allow_imprecise_accumulation lets a device sum in fewer bits now and then.

    Devices have those of `DotAlgorithmPreset`. The dtype of the result is not changed.

    Args:
        lhs_component_count: Into how many parts each element of the left factor is taken apart, 1
            for none.
        rhs_component_count: The same of the right factor.
        num_primitive_operations: How many products of such parts are summed.
        allow_imprecise_accumulation: Whether a device may sum in fewer bits now and then.

    >>> single = lax.DotAlgorithm("float32", "float32", "float32")
    >>> lax.dot(np.ones(3), np.ones(3), precision=single)
    Array(3., dtype=float32)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms that devices have: dtype of lhs, of rhs, of the sum, and the number of products.

    CPUs have F16_F16_F16, BF16_BF16_F32 with 1, 3 and 6 products, F32_F32_F32 and F64_F64_F64.
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __str__(self) -> str:
        return self.name


# Not read from the builder of modules, which is loaded when something is compiled.
ALGORITHMS = frozenset(DotAlgorithmPreset.__members__) - {"DEFAULT"}

_SHORT = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64"}


def precision_by_name(precision: Any, operation: str) -> Any:
    """The name of an algorithm ("default" for DotAlgorithmPreset.DEFAULT); other values unchanged.
    Raises WeftValueError for one that no device has."""
    if isinstance(precision, DotAlgorithmPreset):
        return "default" if precision is DotAlgorithmPreset.DEFAULT else precision.name
    if not isinstance(precision, DotAlgorithm):
        return precision
    kinds = [dtypes.parse(of).name for of in precision[:3]]
    name = "_".join(_SHORT.get(kind, kind) for kind in kinds)
    if precision.num_primitive_operations > 1:
        name += f"_X{precision.num_primitive_operations}"
    plain = precision[3:5] == (1, 1) and not precision.allow_imprecise_accumulation
    if plain and name in ALGORITHMS:
        return name
    raise WeftValueError(
        f"{operation}: devices have no such algorithm",
        operation=operation,
        got=f"precision={precision}",
        wanted="one of lax.DotAlgorithmPreset",
        fix=Fix("precision", "pass precision=lax.DotAlgorithmPreset.F32_F32_F32, or leave it out"),
    )
