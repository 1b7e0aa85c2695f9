"""Sparse arrays: batched coordinates (`BCOO`) and compressed rows (`BCSR`), and their operations,
under every transformation."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.experimental.sparse.api import empty, eye, todense
from weft.experimental.sparse.base import (
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_convolution import bcoo_conv_general_dilated
from weft.experimental.sparse.bcoo_pairs import bcoo_multiply_sparse
from weft.experimental.sparse.bcoo_products import (
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
)
from weft.experimental.sparse.bcoo_shapes import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
)
from weft.experimental.sparse.bcoo_storage import (
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_update_layout,
)
from weft.experimental.sparse.bcsr_array import BCSR
from weft.experimental.sparse.bcsr_operations import (
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
)
from weft.experimental.sparse.data_derivatives import grad, jacfwd, jacobian, jacrev, value_and_grad
from weft.experimental.sparse.random_arrays import random_bcoo
from weft.experimental.sparse.single_matrices import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from weft.experimental.sparse.sparse_transform import SparseTracer, sparsify
from weft.experimental.sparse.tracing import todense_p

if TYPE_CHECKING:
    from weft.experimental.sparse import linalg as linalg
# fmt: off
__all__ = [
    "BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse",
    "SparseEfficiencyError", "SparseEfficiencyWarning", "SparseTracer", "bcoo_broadcast_in_dim",
    "bcoo_concatenate", "bcoo_conv_general_dilated", "bcoo_dot_general",
    "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract", "bcoo_fromdense",
    "bcoo_gather", "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum",
    "bcoo_reshape", "bcoo_rev", "bcoo_slice", "bcoo_sort_indices", "bcoo_squeeze",
    "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose", "bcoo_update_layout",
    "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract",
    "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense", "coo_fromdense", "coo_matmat",
    "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense",
    "empty", "eye", "grad", "jacfwd", "jacobian", "jacrev", "linalg", "random_bcoo", "sparsify",
    "todense", "todense_p", "value_and_grad",
]
# fmt: on

_LAZY_MODULES = ("weft.experimental.sparse.linalg",)

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES)
