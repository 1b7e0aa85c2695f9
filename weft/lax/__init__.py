"""The basic operations, strict about types: `weft.lax`.

Operands have one shape and one dtype (Python numbers take the dtype of the others); `weft.numpy`
promotes and broadcasts on top of these. Control flow is here, too. All operations raise
WeftTypeError for operands that are not arrays, ShapeError for shapes that do not fit, DTypeError
for dtypes that differ or are not taken, and AxisError for a dimension that is out of range.

>>> import weft.numpy as jnp
>>> from weft import lax
>>> lax.add(jnp.ones(2, "float32"), jnp.ones(2, "int32"))
Traceback (most recent call last):
    ...
weft.errors.DTypeError: add takes operands of one dtype
  ...
"""

from typing import TYPE_CHECKING

from weft.api.custom_root import custom_root as custom_root
from weft.base.facades import handed_on, load_on_first_use
from weft.control_flow.associative_scan import associative_scan as associative_scan
from weft.control_flow.cond import cond as cond
from weft.control_flow.cond import switch as switch
from weft.control_flow.fori_loop import fori_loop as fori_loop
from weft.control_flow.linear_solve import custom_linear_solve as custom_linear_solve
from weft.control_flow.loops import map as map
from weft.control_flow.loops import scan as scan
from weft.control_flow.reduction import reduce as reduce
from weft.control_flow.reduction import reduce_window as reduce_window
from weft.control_flow.while_loop import while_loop as while_loop
from weft.ops.collectives.all_reduce import axis_index as axis_index
from weft.ops.collectives.all_reduce import pbroadcast as pbroadcast
from weft.ops.collectives.all_reduce import pbroadcast as pvary  # noqa: F401
from weft.ops.collectives.all_reduce import pcast as pcast
from weft.ops.collectives.all_reduce import pmax as pmax
from weft.ops.collectives.all_reduce import pmean as pmean
from weft.ops.collectives.all_reduce import pmin as pmin
from weft.ops.collectives.all_reduce import psum as psum
from weft.ops.collectives.invariant import all_gather_invariant as all_gather_invariant
from weft.ops.collectives.invariant import all_gather_to as all_gather  # noqa: F401
from weft.ops.collectives.invariant import pscatter as pscatter
from weft.ops.collectives.movement import *
from weft.ops.collectives.named_axes import axis_size as axis_size
from weft.ops.collectives.permutation import ppermute as ppermute
from weft.ops.collectives.permutation import pshuffle as pshuffle
from weft.ops.elementwise.arithmetic import *
from weft.ops.elementwise.bits import *
from weft.ops.elementwise.complex import *
from weft.ops.elementwise.convert import *
from weft.ops.elementwise.elementary import *
from weft.ops.elementwise.families import AccuracyMode as AccuracyMode
from weft.ops.elementwise.families import Tolerance as Tolerance
from weft.ops.elementwise.powers import *
from weft.ops.elementwise.regularized import *
from weft.ops.elementwise.rounding import *
from weft.ops.elementwise.selection import *
from weft.ops.elementwise.special import *
from weft.ops.indexing.creation import dtype as dtype
from weft.ops.indexing.creation import shape_as_value as shape_as_value
from weft.ops.indexing.creation import stage as stage
from weft.ops.indexing.creation import zeros_like_array as zeros_like_array
from weft.ops.indexing.dynamic_slicing import *
from weft.ops.indexing.gather import *
from weft.ops.indexing.requested_dtypes import *
from weft.ops.indexing.scatter import *
from weft.ops.indexing.slicing import *
from weft.ops.products.convolution import *
from weft.ops.products.convolution_forms import *
from weft.ops.products.dot import *
from weft.ops.products.dot import DotAlgorithm as DotAlgorithm
from weft.ops.products.dot import DotAlgorithmPreset as DotAlgorithmPreset
from weft.ops.products.fft import FftType as FftType
from weft.ops.products.fft import fft as fft
from weft.ops.reductions.argreduce import argmax as argmax
from weft.ops.reductions.argreduce import argmin as argmin
from weft.ops.reductions.cumulative import *
from weft.ops.reductions.reduce import *
from weft.ops.reductions.sorting import *
from weft.ops.reductions.window import reduce_window_shape_tuple as reduce_window_shape_tuple
from weft.ops.structural.barriers import dce_sink as dce_sink
from weft.ops.structural.barriers import optimization_barrier as optimization_barrier
from weft.ops.structural.joining import broadcast_like as broadcast_like
from weft.ops.structural.joining import broadcast_shapes as broadcast_shapes
from weft.ops.structural.joining import broadcast_to_rank as broadcast_to_rank
from weft.ops.structural.joining import collapse as collapse
from weft.ops.structural.joining import concatenate as concatenate
from weft.ops.structural.joining import rev as rev
from weft.ops.structural.joining import split as split
from weft.ops.structural.joining import stack as stack
from weft.ops.structural.joining import tile as tile
from weft.ops.structural.joining import unstack as unstack
from weft.ops.structural.padding_sizes import padtype_to_pads as padtype_to_pads
from weft.ops.structural.shape import broadcast as broadcast
from weft.ops.structural.shape import broadcast_in_dim as broadcast_in_dim
from weft.ops.structural.shape import expand_dims as expand_dims
from weft.ops.structural.shape import reduce_sum as reduce_sum
from weft.ops.structural.shape import reshape as reshape
from weft.ops.structural.shape import squeeze as squeeze
from weft.ops.structural.shape import transpose as transpose
from weft.ops.structural.sharding_constraint import (
    with_sharding_constraint as with_sharding_constraint,
)

if TYPE_CHECKING:
    from weft.api.composite import composite as composite
    from weft.control_flow.platforms import platform_dependent as platform_dependent
    from weft.control_flow.scatter_apply import scatter_apply as scatter_apply
    from weft.lax import linalg as linalg
    from weft.lax.named_primitives import *
    from weft.nn.ragged_products import RaggedDotDimensionNumbers as RaggedDotDimensionNumbers
    from weft.nn.ragged_products import ragged_dot as ragged_dot
    from weft.nn.ragged_products import ragged_dot_general as ragged_dot_general
    from weft.nn.scaled_products import scaled_dot as scaled_dot
    from weft.random.xla_generator import *

# Imported on first use, so that `import weft.lax` stays cheap.
_LAZY_MODULES = ("weft.lax.linalg",)
_LAZY_NAMES = {
    "weft.api.composite": "composite",
    "weft.define.builtin_primitives": (
        "after_all_p approx_top_k_p copy_p create_token_p device_put_p eq_to_p le_to_p lt_to_p "
        "ragged_all_to_all_p select_and_scatter_p select_n_p squeeze_p stack_p stage_p tile_p "
        "unstack_p"
    ),
    "weft.control_flow.platforms": "platform_dependent",
    "weft.control_flow.scatter_apply": "scatter_apply",
    "weft.lax.named_primitives": (
        "abs_p acos_p acosh_p add_p all_gather_p all_to_all_p and_p argmax_p argmin_p asin_p "
        "asinh_p atan2_p atan_p atanh_p axis_index_p bessel_i0e_p bessel_i1e_p "
        "bitcast_convert_type_p broadcast_in_dim_p cbrt_p ceil_p clamp_p clz_p complex_p "
        "concatenate_p cond_p conj_p conv_general_dilated_p convert_element_type_p cos_p cosh_p "
        "cumlogsumexp_p cummax_p cummin_p cumprod_p cumsum_p dce_sink_p digamma_p div_p "
        "dot_general_p dynamic_slice_p dynamic_update_slice_p eq_p erf_inv_p erf_p erfc_p exp2_p "
        "exp_p expm1_p fft_p floor_p gather_p ge_p gt_p igamma_grad_a_p igamma_p igammac_p imag_p "
        "integer_pow_p iota_p is_finite_p le_p lgamma_p linear_solve_p log1p_p log_p logistic_p "
        "lt_p max_p min_p mul_p mulhi_p ne_p neg_p nextafter_p not_p optimization_barrier_p or_p "
        "pad_p pmax_p pmin_p polygamma_p population_count_p pow_p ppermute_p psum_p real_p "
        "reduce_and_p reduce_max_p reduce_min_p reduce_or_p reduce_p reduce_precision_p "
        "reduce_prod_p reduce_sum_p reduce_window_max_p reduce_window_min_p reduce_window_p "
        "reduce_window_sum_p reduce_xor_p regularized_incomplete_beta_p rem_p reshape_p rev_p "
        "rng_bit_generator_p rng_uniform_p round_p rsqrt_p scan_p scatter_add_p scatter_max_p "
        "scatter_min_p scatter_mul_p scatter_p scatter_sub_p select_and_gather_add_p "
        "select_and_scatter_add_p sharding_constraint_p shift_left_p shift_right_arithmetic_p "
        "shift_right_logical_p sign_p sin_p sinh_p slice_p sort_p split_p sqrt_p square_p "
        "stop_gradient_p sub_p tan_p tanh_p top_k_p transpose_p while_p xor_p zeta_p"
    ),
    "weft.nn.ragged_products": "RaggedDotDimensionNumbers ragged_dot ragged_dot_general",
    "weft.nn.scaled_products": "scaled_dot",
    "weft.random.xla_generator": "RandomAlgorithm rng_bit_generator rng_uniform",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES, _LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
