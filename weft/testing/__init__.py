"""Checks that a function agrees with its own transformations: derivatives, `vmap`, `jit`, types."""

from weft.base.facades import public_names
from weft.testing.function_checks import (
    assert_close,
    check_grads,
    check_jit,
    check_jvp,
    check_linearize,
    check_types,
    check_vjp,
    check_vmap,
    exact_array,
)

__all__ = [
    "assert_close", "check_grads", "check_jit", "check_jvp", "check_linearize", "check_types",
    "check_vjp", "check_vmap", "exact_array",
]  # fmt: skip

__dir__ = public_names(globals())
