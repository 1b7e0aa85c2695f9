"""The basic operations, strict about types: `weft.lax`.

Operands have one shape and one dtype (Python numbers take the dtype of the others); `weft.numpy`
promotes and broadcasts on top of these. Control flow is here, too. All operations raise
WeftTypeError for operands that are no arrays, ShapeError for shapes that do not fit, DTypeError for
dtypes that differ or are not taken, and AxisError for a dimension that is out of range.

>>> import weft.numpy as jnp
>>> from weft import lax
>>> lax.add(jnp.ones(2, "float32"), jnp.ones(2, "int32"))
Traceback (most recent call last):
    ...
weft.errors.DTypeError: add takes operands of one dtype
  ...
"""

from typing import TYPE_CHECKING

from weft.api.custom_root import custom_root
from weft.base.facades import load_on_first_use
from weft.control_flow.associative_scan import associative_scan
from weft.control_flow.cond import cond, switch
from weft.control_flow.linear_solve import custom_linear_solve
from weft.control_flow.loops import map, scan
from weft.control_flow.reduction import reduce, reduce_window
from weft.control_flow.while_loop import fori_loop, while_loop
from weft.ops.collectives.all_reduce import axis_index, pbroadcast, pcast, pmax, pmean, pmin, psum
from weft.ops.collectives.all_reduce import pbroadcast as pvary
from weft.ops.collectives.invariant import all_gather_invariant, pscatter
from weft.ops.collectives.movement import *
from weft.ops.collectives.named_axes import axis_size
from weft.ops.collectives.permutation import ppermute, pshuffle
from weft.ops.elementwise.arithmetic import *
from weft.ops.elementwise.bits import *
from weft.ops.elementwise.complex import *
from weft.ops.elementwise.convert import *
from weft.ops.elementwise.elementary import *
from weft.ops.elementwise.powers import *
from weft.ops.elementwise.regularized import *
from weft.ops.elementwise.rounding import *
from weft.ops.elementwise.selection import *
from weft.ops.elementwise.special import *
from weft.ops.indexing.creation import (
    broadcasted_iota,
    empty,
    full,
    full_like,
    iota,
    zeros_like_array,
)
from weft.ops.indexing.dynamic_slicing import *
from weft.ops.indexing.gather import *
from weft.ops.indexing.scatter import *
from weft.ops.indexing.slicing import *
from weft.ops.products.convolution import *
from weft.ops.products.convolution_forms import *
from weft.ops.products.dot import *
from weft.ops.products.fft import FftType, fft
from weft.ops.reductions.argreduce import argmax, argmin
from weft.ops.reductions.cumulative import *
from weft.ops.reductions.reduce import *
from weft.ops.reductions.sorting import *
from weft.ops.structural.joining import (
    broadcast_shapes,
    broadcast_to_rank,
    collapse,
    concatenate,
    rev,
    split,
    tile,
)
from weft.ops.structural.padding_sizes import padtype_to_pads
from weft.ops.structural.shape import (
    broadcast,
    broadcast_in_dim,
    expand_dims,
    reduce_sum,
    reshape,
    squeeze,
    transpose,
)
from weft.ops.structural.sharding_constraint import with_sharding_constraint

if TYPE_CHECKING:
    from weft.lax import linalg

# fmt: off
__all__ = [
    "ConvDimensionNumbers", "DotDimensionNumbers", "FftType", "GatherDimensionNumbers",
    "GatherScatterMode", "Precision", "RoundingMethod", "ScatterDimensionNumbers", "abs",
    "acos", "acosh", "add", "all_gather", "all_gather_invariant", "all_to_all", "approx_max_k",
    "approx_min_k", "argmax", "argmin", "asin", "asinh", "associative_scan", "atan", "atan2",
    "atanh", "axis_index", "axis_size", "batch_matmul", "bessel_i0e", "bessel_i1e", "betainc",
    "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "cbrt", "ceil", "clamp", "clz", "collapse", "complex", "concatenate",
    "cond", "conj", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_local", "conv_general_dilated_patches", "conv_general_permutations",
    "conv_shape_tuple", "conv_transpose", "conv_with_general_padding", "convert_element_type",
    "cos", "cosh", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum",
    "custom_linear_solve", "custom_root", "digamma", "div", "dot", "dot_general",
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim",
    "empty", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1", "fft",
    "floor", "fori_loop", "full", "full_like", "gather", "ge", "gt", "igamma", "igamma_grad_a",
    "igammac", "imag", "index_in_dim", "index_take", "integer_pow", "iota", "is_finite", "le",
    "lgamma", "linalg", "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "ne",
    "neg", "nextafter", "pad", "padtype_to_pads", "pbroadcast", "pcast", "pmax", "pmean",
    "pmin", "polygamma", "population_count", "pow", "ppermute", "pscatter", "pshuffle", "psum",
    "psum_scatter", "pswapaxes", "pvary", "random_gamma_grad", "real", "reciprocal", "reduce",
    "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_precision", "reduce_prod",
    "reduce_sum", "reduce_window", "reduce_xor", "rem", "reshape", "rev", "round", "rsqrt",
    "scan", "scatter", "scatter_add", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_sub", "select", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "sinh", "slice", "slice_in_dim", "sort",
    "sort_key_val", "split", "sqrt", "square", "squeeze", "stop_gradient", "sub", "switch",
    "tan", "tanh", "tile", "top_k", "transpose", "while_loop", "with_sharding_constraint",
    "zeros_like_array", "zeta",
]
# fmt: on

# Imported on first use, so that `import weft.lax` stays cheap.
_LAZY_MODULES = ("weft.lax.linalg",)

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
