"""The primitives of `weft.lax`, by the names that JAX has for them."""

from weft.control_flow.cond import cond_p
from weft.control_flow.linear_solve import linear_solve_p
from weft.control_flow.reduction import reduce_p, reduce_window_p
from weft.control_flow.scan import scan_p
from weft.control_flow.while_loop import while_p
from weft.ops.collectives.all_reduce import axis_index_p, pmax_p, pmin_p, psum_p
from weft.ops.collectives.movement import all_gather_p, all_to_all_p
from weft.ops.collectives.permutation import ppermute_p
from weft.ops.elementwise.arithmetic import (
    abs_p,
    add_p,
    cos_p,
    div_p,
    eq_p,
    exp_p,
    ge_p,
    gt_p,
    le_p,
    log_p,
    lt_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    rem_p,
    sign_p,
    sin_p,
    sqrt_p,
    square_p,
    sub_p,
    tanh_p,
)
from weft.ops.elementwise.bits import (
    and_p,
    clz_p,
    mulhi_p,
    not_p,
    or_p,
    population_count_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from weft.ops.elementwise.complex import complex_p, conj_p, imag_p, real_p
from weft.ops.elementwise.convert import (
    bitcast_convert_type_p,
    convert_element_type_p,
    reduce_precision_p,
    stop_gradient_p,
)
from weft.ops.elementwise.elementary import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cosh_p,
    exp2_p,
    expm1_p,
    log1p_p,
    logistic_p,
    sinh_p,
    tan_p,
)
from weft.ops.elementwise.powers import cbrt_p, integer_pow_p, pow_p, rsqrt_p
from weft.ops.elementwise.regularized import betainc_p as regularized_incomplete_beta_p
from weft.ops.elementwise.regularized import igamma_grad_a_p, igamma_p, igammac_p
from weft.ops.elementwise.rounding import ceil_p, floor_p, is_finite_p, nextafter_p, round_p
from weft.ops.elementwise.selection import clamp_p
from weft.ops.elementwise.special import (
    bessel_i0e_p,
    bessel_i1e_p,
    digamma_p,
    erf_inv_p,
    erf_p,
    erfc_p,
    lgamma_p,
    polygamma_p,
    zeta_p,
)
from weft.ops.indexing.creation import iota_p
from weft.ops.indexing.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from weft.ops.indexing.gather import gather_p
from weft.ops.indexing.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from weft.ops.indexing.slicing import pad_p, slice_p
from weft.ops.products.convolution import conv_p as conv_general_dilated_p
from weft.ops.products.dot import dot_general_p
from weft.ops.products.fft import fft_p
from weft.ops.reductions.argreduce import argmax_p, argmin_p
from weft.ops.reductions.cumulative import cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from weft.ops.reductions.reduce import (
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from weft.ops.reductions.sorting import sort_p, top_k_p
from weft.ops.reductions.window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from weft.ops.structural.barriers import dce_sink_p, optimization_barrier_p
from weft.ops.structural.joining import concatenate_p, rev_p, split_p
from weft.ops.structural.shape import broadcast_in_dim_p, reduce_sum_p, reshape_p, transpose_p
from weft.ops.structural.sharding_constraint import sharding_constraint_p
from weft.random.xla_generator import rng_bit_generator_p, rng_uniform_p

# fmt: off
__all__ = [
    "abs_p", "acos_p", "acosh_p", "add_p", "all_gather_p", "all_to_all_p", "and_p", "argmax_p",
    "argmin_p", "asin_p", "asinh_p", "atan2_p", "atan_p", "atanh_p", "axis_index_p",
    "bessel_i0e_p", "bessel_i1e_p", "bitcast_convert_type_p", "broadcast_in_dim_p", "cbrt_p",
    "ceil_p", "clamp_p", "clz_p", "complex_p", "concatenate_p", "cond_p", "conj_p",
    "conv_general_dilated_p", "convert_element_type_p", "cos_p", "cosh_p", "cumlogsumexp_p",
    "cummax_p", "cummin_p", "cumprod_p", "cumsum_p", "dce_sink_p", "digamma_p", "div_p",
    "dot_general_p", "dynamic_slice_p", "dynamic_update_slice_p", "eq_p", "erf_inv_p", "erf_p",
    "erfc_p", "exp2_p", "exp_p", "expm1_p", "fft_p", "floor_p", "gather_p", "ge_p", "gt_p",
    "igamma_grad_a_p", "igamma_p", "igammac_p", "imag_p", "integer_pow_p", "iota_p",
    "is_finite_p", "le_p", "lgamma_p", "linear_solve_p", "log1p_p", "log_p", "logistic_p",
    "lt_p", "max_p", "min_p", "mul_p", "mulhi_p", "ne_p", "neg_p", "nextafter_p", "not_p",
    "optimization_barrier_p", "or_p", "pad_p", "pmax_p", "pmin_p", "polygamma_p",
    "population_count_p", "pow_p", "ppermute_p", "psum_p", "real_p", "reduce_and_p",
    "reduce_max_p", "reduce_min_p", "reduce_or_p", "reduce_p", "reduce_precision_p",
    "reduce_prod_p", "reduce_sum_p", "reduce_window_max_p", "reduce_window_min_p",
    "reduce_window_p", "reduce_window_sum_p", "reduce_xor_p", "regularized_incomplete_beta_p",
    "rem_p", "reshape_p", "rev_p", "rng_bit_generator_p", "rng_uniform_p", "round_p", "rsqrt_p",
    "scan_p", "scatter_add_p", "scatter_max_p", "scatter_min_p", "scatter_mul_p", "scatter_p",
    "scatter_sub_p", "select_and_gather_add_p", "select_and_scatter_add_p",
    "sharding_constraint_p", "shift_left_p", "shift_right_arithmetic_p",
    "shift_right_logical_p", "sign_p", "sin_p", "sinh_p", "slice_p", "sort_p", "split_p",
    "sqrt_p", "square_p", "stop_gradient_p", "sub_p", "tan_p", "tanh_p", "top_k_p",
    "transpose_p", "while_p", "xor_p", "zeta_p",
]
# fmt: on
