"""How a product is to be computed in detail: the dtypes in which factors are rounded and sums kept.

The parameters are those of StableHLO's `dot_general`,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md#dot_general.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.errors import Fix, WeftValueError
from weft.runtime import stablehlo

__all__ = ["DotAlgorithm", "DotAlgorithmPreset", "algorithm_of", "emit_with_algorithm"]


class DotAlgorithm(NamedTuple):
    """An algorithm for products, as the `precision` of `dot` and `dot_general`.

    lhs_precision_type, rhs_precision_type: the dtypes to which the factors are rounded;
    accumulation_type: the dtype in which products are summed. Factors may be taken apart in
    component_count parts each, which takes num_primitive_operations products;
    allow_imprecise_accumulation lets a device sum in fewer bits now and then.

    Devices have a few of them, see `DotAlgorithmPreset`. The dtype of the result is not changed.

    >>> lax.dot(np.ones(3), np.ones(3), precision=lax.DotAlgorithmPreset.F32_F32_F32)
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


_NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "TF32": "tf32"}
# What XLA's compiler for CPUs has.
_ON_CPU = frozenset(
    "F16_F16_F16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6 F32_F32_F32 F64_F64_F64".split()
)


def algorithm_of(precision: Any) -> DotAlgorithm | DotAlgorithmPreset | None:
    """The algorithm that a precision, or its name, stands for; None for any other precision."""
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        precision = DotAlgorithmPreset[precision]
    if isinstance(precision, DotAlgorithmPreset):
        return precision
    if isinstance(precision, DotAlgorithm):
        return precision._replace(
            **{key: np.dtype(getattr(precision, key)) for key in DotAlgorithm._fields[:3]}
        )
    return None


def emit_with_algorithm(
    context: Any, operands: list[Any], numbers: Any, algorithm: Any, out: Any
) -> Any:
    """The product of values by an algorithm, in the dtype of the result."""
    given = [of.dtype for of in context.in_types[:2]]
    spelled = parts(algorithm, given, out)
    _check_platform(context, algorithm)
    factors = [
        x if dtype in (own, spelled.accumulation_type) else stablehlo.convert(x, own)
        for x, dtype, own in zip(operands, given, _stored(spelled), strict=True)
    ]
    types = [stablehlo.dtype_of(x.type.element_type) for x in factors]
    if types[0] != types[1]:
        factors = [stablehlo.convert(x, spelled.accumulation_type) for x in factors]
    found = stablehlo.dot_general(
        *factors, *numbers, None, spelled.accumulation_type, tuple(_for_xla(spelled))
    )
    return stablehlo.convert(found, out)


def parts(algorithm: Any, given: list[Any], out: Any) -> DotAlgorithm:
    """The parameters of an algorithm for operands and a result of these dtypes."""
    if isinstance(algorithm, DotAlgorithm):
        return algorithm
    name = algorithm.name
    fast = name.endswith("_FAST_ACCUM")
    if name.startswith("ANY_F8"):
        summed = np.dtype(np.float32) if name.startswith("ANY_F8_ANY_F8_F32") else out
        return DotAlgorithm(*given, summed, allow_imprecise_accumulation=fast)
    left, right, summed, *count = name.split("_")
    first, second, third = (_NAMES[x] for x in (left, right, summed))
    times = int(count[0][1:]) if count else 1
    return DotAlgorithm(first, second, dtypes.parse(third), num_primitive_operations=times)


def _stored(algorithm: DotAlgorithm) -> list[Any]:
    """The dtypes in which factors are handed over: tf32 is none of them, and is held in float32."""
    own = (algorithm.lhs_precision_type, algorithm.rhs_precision_type)
    return [np.dtype(np.float32) if x == "tf32" else dtypes.parse(x) for x in own]


def _for_xla(algorithm: DotAlgorithm) -> DotAlgorithm:
    kinds = algorithm[:3]
    return DotAlgorithm(*[k if k == "tf32" else dtypes.parse(k) for k in kinds], *algorithm[3:])


def _check_platform(context: Any, algorithm: Any) -> None:
    if context.platform != "cpu" or getattr(algorithm, "name", None) in _ON_CPU:
        return
    raise WeftValueError(
        f"products on CPUs have no algorithm {algorithm}",
        operation="dot_general",
        got=f"precision={algorithm}",
        wanted=f"one of {', '.join(sorted(_ON_CPU))}",
        fix=Fix("precision", "leave precision out, or pass one of these", {"precision": None}),
    )
