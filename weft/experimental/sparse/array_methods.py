"""The operations that the classes of sparse arrays call by name when one of their methods is."""

from weft.experimental.sparse.bcoo_shapes import bcoo_transpose
from weft.experimental.sparse.bcoo_storage import (
    bcoo_eliminate_zeros,
    bcoo_empty,
    bcoo_eye,
    bcoo_from_scipy,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_update_layout,
)
from weft.experimental.sparse.bcsr_operations import (
    bcsr_eliminate_zeros,
    bcsr_empty,
    bcsr_from_bcoo,
    bcsr_from_scipy,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_to_bcoo,
    bcsr_todense,
)
from weft.experimental.sparse.sparse_arithmetic import (
    absolute,
    add,
    astype,
    divide,
    elementwise,
    getitem,
    linear,
    matmul,
    multiply,
    negative,
    power,
    reduced_sum,
    reshape,
    subtract,
)

# fmt: off
__all__ = [
    "absolute", "add", "astype", "bcoo_eliminate_zeros", "bcoo_empty", "bcoo_eye",
    "bcoo_from_scipy", "bcoo_fromdense", "bcoo_sort_indices", "bcoo_sum_duplicates",
    "bcoo_todense", "bcoo_transpose", "bcoo_update_layout", "bcsr_eliminate_zeros",
    "bcsr_empty", "bcsr_from_bcoo", "bcsr_from_scipy", "bcsr_fromdense", "bcsr_sum_duplicates",
    "bcsr_to_bcoo", "bcsr_todense", "divide", "elementwise", "getitem", "linear", "matmul",
    "multiply", "negative", "power", "reduced_sum", "reshape", "subtract",
]
# fmt: on
