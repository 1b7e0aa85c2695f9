"""Parameters that JAX's primitives have and weft's have not, with the values that ask for nothing.

Loaded with the names of the primitives: programs written for JAX pass these parameters on.
"""

from __future__ import annotations

from weft.ops.elementwise.arithmetic import cos_p, exp_p, log_p, mul_p, sin_p, sqrt_p, tanh_p
from weft.ops.elementwise.convert import convert_element_type_p
from weft.ops.elementwise.elementary import exp2_p, expm1_p, log1p_p, logistic_p, tan_p
from weft.ops.elementwise.powers import cbrt_p, rsqrt_p
from weft.ops.indexing.creation import iota_p
from weft.ops.products.convolution import conv_p
from weft.ops.products.dot import dot_general_p
from weft.ops.structural.shape import broadcast_in_dim_p, reduce_sum_p, reshape_p

__all__: list[str] = []

_WITH_ACCURACY = (
    cbrt_p, cos_p, exp2_p, exp_p, expm1_p, log1p_p, log_p, logistic_p, rsqrt_p, sin_p, sqrt_p,
    tan_p, tanh_p,
)  # fmt: skip
_WITH_SHARDING = (broadcast_in_dim_p, convert_element_type_p, iota_p)
_WITH_OUT_SHARDING = (conv_p, dot_general_p, reduce_sum_p)

mul_p.neutral = {"out_dtype": None}
reshape_p.neutral = {"dimensions": None, "sharding": None}
for _made in _WITH_ACCURACY:
    _made.neutral = {"accuracy": None}
for _made in _WITH_SHARDING:
    _made.neutral = {"sharding": None}
for _made in _WITH_OUT_SHARDING:
    _made.neutral = {"out_sharding": None}
