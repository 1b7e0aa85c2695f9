"""The primitive of `check`: it is nothing where no check failed, and an error where one did.

Its operands are the values of a `Failure`. Evaluated at once it raises; in a jitted program it
cannot, so a program that holds one is not lowered: `checkify` turns it into a result first. A check
for debugging is left out there instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.core import rules
from weft.core.effects import DEBUG
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, WeftValueError
from weft.experimental.checkify.failures import Error, Failure, Form
from weft.ops.elementwise.arithmetic import ne
from weft.ops.indexing.dynamic_slicing import dynamic_index_in_dim
from weft.ops.reductions.argreduce import argmax
from weft.ops.structural.shape import move_dim

check_p = Primitive("check", multiple_results=True, memoise=False)


def bind_check(failure: Failure, debug: bool) -> None:
    """Applies the primitive to a failure, which may be one per element of mapped axes."""
    if not failure.form:
        return
    leaves = failure.leaves()
    while type_of(leaves[0]).shape:
        leaves = first_element(leaves)
    check_p.bind(*leaves, form=failure.form, debug=debug)


def first_element(leaves: Sequence[Any]) -> list[Any]:
    """The values of the first element along dimension 0 that failed, or of the first one."""
    failed = ne(leaves[0], np.int32(0))
    if not type_of(failed).shape[0]:
        return [np.zeros(t.shape[1:], t.dtype) for t in map(type_of, leaves)]
    of = failed
    for _ in type_of(failed).shape[1:]:
        of = dynamic_index_in_dim(of, 0, -1, keepdims=False)
    place = argmax(of, 0, dtypes.int32)
    return [dynamic_index_in_dim(x, place, keepdims=False) for x in leaves]


def check_impl(*leaves: Any, form: Form, debug: bool) -> list[Any]:
    if not debug:
        Error(form, leaves).throw()
    return []


def check_lower(context: Any, *values: Any, form: Form, debug: bool) -> list[Any]:
    if debug:
        return []
    message = (
        "Cannot abstractly evaluate a checkify.check which was not functionalized: a compiled "
        "program raises no exceptions"
    )
    wanted = "a program whose checks are among its results"
    fix = Fix(
        "checkify",
        "turn the checks into a result first: error, out = jit(checkify.checkify(f))(x), and then "
        "error.throw(); a debug_check is left out of other programs",
    )
    raise WeftValueError(message, operation="check", wanted=wanted, fix=fix)


def check_jvp(primals: Values, tangents: Values, *, form: Form, debug: bool) -> Derived:
    check_p.bind(*primals, form=form, debug=debug)
    return [], []


def check_vmap(axis: AxisData, args: Values, dims: Dims, *, form: Form, debug: bool) -> Mapped:
    pairs = zip(args, dims, strict=True)
    bind_check(form.failure([move_dim(x, dim, 0, axis.size) for x, dim in pairs]), debug)
    return [], []


def check_type(*types: ArrayType, form: Form, debug: bool) -> list[ArrayType]:
    return []


rules.impl.register(check_p, check_impl)
rules.type_rule.register(check_p, check_type)
rules.lower.register(check_p, check_lower)
rules.jvp.register(check_p, check_jvp)
rules.vmap.register(check_p, check_vmap)
# As of a print: derivatives that run a part again leave it out there.
rules.effects.register(check_p, lambda params: frozenset([DEBUG]))
