"""From functions of trees to functions of flat lists, for packages that write transformations."""

from weft.base.facades import public_names
from weft.define.for_jax.flat_functions import (
    argnums_partial,
    debug_info,
    donation_vector,
    flatten_axes,
    flatten_fun,
    flatten_fun_nokwargs,
    fun_signature,
    fun_sourceinfo,
    infer_argnums_and_argnames,
    rebase_donate_argnums,
    safe_map,
    safe_zip,
    shaped_abstractify,
)

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "fun_signature", "fun_sourceinfo", "infer_argnums_and_argnames",
    "rebase_donate_argnums", "safe_map", "safe_zip", "shaped_abstractify",
]  # fmt: skip

__dir__ = public_names(globals())
