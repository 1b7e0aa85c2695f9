"""What the operations of `weft.lax` do to sparse operands.

A rule takes the operands and parameters of one application, of which at least one is sparse. Rules
are found by the name of a primitive of weft's; one defined outside has none. Operations that hold
jaxprs are evaluated by `inner_evaluators`, which are given the evaluator of jaxprs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft import tree
from weft.api.jit import eval_shape, jit
from weft.control_flow.checkpoint import checkpoint, remat_p
from weft.control_flow.cond import cond_p, switch
from weft.control_flow.jit_primitive import jit_p
from weft.control_flow.loops import scan
from weft.control_flow.scan import scan_p
from weft.control_flow.while_loop import while_loop, while_p
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.custom_derivatives.custom_jvp_rule import custom_jvp_p
from weft.custom_derivatives.custom_vjp_rules import custom_vjp_p
from weft.define.declared_primitive import DefinedPrimitive
from weft.experimental.sparse import sparse_arithmetic as arithmetic
from weft.experimental.sparse.base import JAXSparse, element_of, unsupported, whole_of
from weft.experimental.sparse.bcoo_array import BCOO
from weft.experimental.sparse.bcoo_convolution import bcoo_conv_general_dilated
from weft.experimental.sparse.bcoo_products import bcoo_dot_general
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
    bcoo_fromdense,
    bcoo_todense,
    bcoo_update_layout,
    stored_data,
    stored_indices,
)
from weft.experimental.sparse.bcsr_array import BCSR
from weft.experimental.sparse.tracing import todense_p

Rule = Callable[..., Any]

_rules: dict[str, Rule] = {}
# primitive -> (evaluator of jaxprs, operands, parameters) -> results
inner_evaluators: dict[Primitive, Rule] = {}


def rule_for(primitive: Primitive) -> Rule | None:
    """The rule for sparse operands of a primitive; None if there is none."""
    if isinstance(primitive, DefinedPrimitive) and primitive is not todense_p:
        return None
    facts = primitive.facts
    if facts.keeps_zero:
        how = arithmetic.linear if facts.keeps_sums else arithmetic.elementwise
        return functools.partial(_keep_zero, primitive, how)
    return _rules.get(primitive.name)


def _keep_zero(primitive: Primitive, how: Rule, x: Any, **params: Any) -> Any:
    if primitive.name == "integer_pow" and params["y"] < 1:
        what = "a power of zeros is dense unless its exponent is 1 or more"
        raise unsupported(what, params["y"], "pow")
    return how(x, lambda data: primitive.bind(data, **params))


def _by_bcoo(rule: Rule) -> Rule:
    """A rule for BCOOs, extended to BCSRs; a sparse result is a BCSR again."""

    @functools.wraps(rule)
    def converting(*args: Any, **params: Any) -> Any:
        given = [_as_bcoo(x) if isinstance(x, JAXSparse) else x for x in args]
        out = rule(*given, **params)
        if any(isinstance(x, BCSR) for x in args) and isinstance(out, BCOO) and out.n_sparse == 2:
            return BCSR.from_bcoo(out)
        return out

    return converting


def _as_bcoo(x: Any) -> BCOO:
    if isinstance(x, BCSR):
        return x.to_bcoo()
    if not isinstance(x, BCOO):
        raise unsupported("its arguments are BCOOs and BCSRs", repr(x), "sparsify")
    return x


def _define(name: str, rule: Rule) -> None:
    _rules[name] = _by_bcoo(rule)


def _reduce_sum(x: BCOO, *, axes: Sequence[int], **_: Any) -> Any:
    out = bcoo_reduce_sum(x, axes=axes)
    return out if out.ndim else bcoo_todense(out)


def _concatenate(*operands: Any, dimension: int) -> BCOO:
    parts = [x if isinstance(x, BCOO) else bcoo_fromdense(x) for x in operands]
    return bcoo_concatenate(parts, dimension=dimension)


def _gather(x: BCOO, start_indices: Any, **params: Any) -> BCOO:
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    return bcoo_gather(x, start_indices, numbers, sizes)


def _dense_result(name: str) -> Rule:
    def rule(*operands: Any, **_: Any) -> Any:
        what = "the result for zeros is not zero, so it would be dense"
        raise unsupported(what, ", ".join(map(repr, operands))[:100], name)

    return rule


for _name in "eq ne lt le gt ge exp cos cosh log acos is_finite not logistic".split():
    _define(_name, _dense_result(_name))
_define("mul", arithmetic.multiply)
_define("div", arithmetic.divide)
_define("add", arithmetic.add)
_define("add_any", arithmetic.add)
_define("sub", arithmetic.subtract)
_define("transpose", bcoo_transpose)
_define("reshape", lambda x, *, shape, **_: bcoo_reshape(x, new_sizes=shape))
_define("squeeze", lambda x, *, dimensions, **_: bcoo_squeeze(x, dimensions=dimensions))
_define("rev", lambda x, *, dimensions: bcoo_rev(x, dimensions))
_define("slice", bcoo_slice)
_define("dynamic_slice", lambda x, *at, slice_sizes, **_: bcoo_dynamic_slice(x, at, slice_sizes))
_define("gather", _gather)
_define("concatenate", _concatenate)
_define("reduce_sum", _reduce_sum)
_define("dot_general", lambda x, y, **params: bcoo_dot_general(x, y, **params))
_define("conv_general_dilated", bcoo_conv_general_dilated)
_define(
    "broadcast_in_dim",
    lambda x, *, shape, broadcast_dimensions, **_: bcoo_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    ),
)
_rules["todense"] = lambda x: x.todense()


# ---- operations that hold jaxprs -----------------------------------------------------------------


def _jit(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    def inner(*values: Any) -> list[Any]:
        return evaluate(params["jaxpr"], values)

    inner.__name__ = params["name"] or "inner"
    outs: list[Any] = jit(inner)(*args)
    return outs


def _one_jaxpr(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    outs: list[Any] = evaluate(params["jaxpr"], args)
    return outs


def _checkpoint(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    def inner(*values: Any) -> list[Any]:
        return evaluate(params["jaxpr"], values)

    run = checkpoint(inner, policy=params["policy"], prevent_cse=params["prevent_cse"])
    outs: list[Any] = run(*args)
    return outs


def _without_promises(x: Any) -> Any:
    """A sparse array without promises about its indices; other values as they are."""
    if not isinstance(x, (BCOO, BCSR)):
        return x
    children, info = x.tree_flatten()
    plain = info._replace(indices_sorted=False, unique_indices=False)
    return type(x).tree_unflatten(plain, children)


def _cond(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    index, *operands = args

    def branch(jaxpr: Jaxpr, plain: bool) -> Rule:
        def run(*values: Any) -> list[Any]:
            outs = evaluate(jaxpr, values)
            return [_without_promises(x) for x in outs] if plain else outs

        return run

    shapes = [eval_shape(branch(x, False), *operands) for x in params["branches"]]
    plain = len({tree.structure(x) for x in shapes}) > 1
    outs: list[Any] = switch(index, [branch(x, plain) for x in params["branches"]], *operands)
    return outs


def _drop_broken_promises(
    carry: list[Any], step: Callable[[list[Any]], list[Any]]
) -> tuple[list[Any], bool]:
    """A loop's carry without the promises about indices that its body breaks, and whether it has
    any."""
    out = eval_shape(step, carry)
    if tree.structure(out) == tree.structure(carry):
        return carry, False
    return [_without_promises(x) for x in carry], True


def _while(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    n_test, n_body = params["cond_nconsts"], params["body_nconsts"]
    test_consts, body_consts = list(args[:n_test]), list(args[n_test : n_test + n_body])

    def test(carry: list[Any]) -> Any:
        return evaluate(params["cond_jaxpr"], [*test_consts, *carry])[0]

    def body(carry: list[Any]) -> list[Any]:
        return list(evaluate(params["body_jaxpr"], [*body_consts, *carry]))

    carry, plain = _drop_broken_promises(list(args[n_test + n_body :]), body)
    step = (lambda c: [_without_promises(x) for x in body(c)]) if plain else body
    outs: list[Any] = while_loop(test, step, carry)
    return outs


def _scan(evaluate: Rule, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    n_consts, n_carry = params["num_consts"], params["num_carry"]
    consts, carry = list(args[:n_consts]), list(args[n_consts : n_consts + n_carry])
    xs = [
        _batch_first_axis(x) if isinstance(x, JAXSparse) else x for x in args[n_consts + n_carry :]
    ]

    def body(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        x = [element_of(v, 0) if isinstance(v, JAXSparse) else v for v in x]
        outs = evaluate(params["jaxpr"], [*consts, *carry, *x])
        return list(outs[:n_carry]), list(outs[n_carry:])

    first = [
        tree.map(lambda leaf: jnp.zeros(type_of(leaf).shape[1:], type_of(leaf).dtype), x)
        for x in xs
    ]
    carry, plain = _drop_broken_promises(carry, lambda c: body(c, first)[0])

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        carry, y = body(carry, x)
        return [_without_promises(v) for v in carry] if plain else carry, y

    length = params["length"]
    carry, ys = scan(
        step, carry, xs, length=length, reverse=params["reverse"], unroll=params["unroll"]
    )
    ys = [whole_of(y, length, 0) if isinstance(y, JAXSparse) else y for y in ys]
    return [*carry, *ys]


def _batch_first_axis(x: Any) -> BCOO:
    """A sparse array with the first axis as a batch axis, in full."""
    x = _as_bcoo(x)
    x = x if x.n_batch else bcoo_update_layout(x, n_batch=1, on_inefficient=None)
    return BCOO.tree_unflatten(x._info, (stored_data(x), stored_indices(x)))


inner_evaluators.update(
    {
        jit_p: _jit,
        cond_p: _cond,
        while_p: _while,
        scan_p: _scan,
        remat_p: _checkpoint,
        custom_jvp_p: _one_jaxpr,
        custom_vjp_p: _one_jaxpr,
    }
)
