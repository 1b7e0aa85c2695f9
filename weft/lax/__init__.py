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

from weft.api.custom_root import custom_root as custom_root
from weft.base.facades import handed_on, load_on_first_use
from weft.control_flow.associative_scan import associative_scan as associative_scan
from weft.control_flow.cond import cond as cond
from weft.control_flow.cond import switch as switch
from weft.control_flow.linear_solve import custom_linear_solve as custom_linear_solve
from weft.control_flow.loops import map as map
from weft.control_flow.loops import scan as scan
from weft.control_flow.reduction import reduce as reduce
from weft.control_flow.reduction import reduce_window as reduce_window
from weft.control_flow.while_loop import fori_loop as fori_loop
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
from weft.ops.elementwise.powers import *
from weft.ops.elementwise.regularized import *
from weft.ops.elementwise.rounding import *
from weft.ops.elementwise.selection import *
from weft.ops.elementwise.special import *
from weft.ops.indexing.creation import zeros_like_array as zeros_like_array
from weft.ops.indexing.dynamic_slicing import *
from weft.ops.indexing.gather import *
from weft.ops.indexing.requested_dtypes import *
from weft.ops.indexing.scatter import *
from weft.ops.indexing.slicing import *
from weft.ops.products.convolution import *
from weft.ops.products.convolution_forms import *
from weft.ops.products.dot import *
from weft.ops.products.fft import FftType as FftType
from weft.ops.products.fft import fft as fft
from weft.ops.reductions.argreduce import argmax as argmax
from weft.ops.reductions.argreduce import argmin as argmin
from weft.ops.reductions.cumulative import *
from weft.ops.reductions.reduce import *
from weft.ops.reductions.sorting import *
from weft.ops.structural.joining import broadcast_shapes as broadcast_shapes
from weft.ops.structural.joining import broadcast_to_rank as broadcast_to_rank
from weft.ops.structural.joining import collapse as collapse
from weft.ops.structural.joining import concatenate as concatenate
from weft.ops.structural.joining import rev as rev
from weft.ops.structural.joining import split as split
from weft.ops.structural.joining import tile as tile
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
    from weft.lax import linalg as linalg

# Imported on first use, so that `import weft.lax` stays cheap.
_LAZY_MODULES = ("weft.lax.linalg",)

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
