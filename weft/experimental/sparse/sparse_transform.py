"""`sparsify`: a function of dense arrays as one of sparse arrays.

The function is traced with the types of dense arrays. Its jaxpr is then evaluated with sparse ones:
an operation with a sparse operand has a rule here, every other one is applied as it is. With
`use_tracer=True` a trace applies the same rules while the function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft import tree
from weft.base import source as sources
from weft.core.jaxpr import Jaxpr, Literal, eval_jaxpr
from weft.core.primitive import Primitive
from weft.core.trace import Trace, Tracer, current_trace, reset_current, running, set_current
from weft.core.types import ArrayType, type_of, user_value
from weft.experimental.sparse.base import JAXSparse, unsupported
from weft.experimental.sparse.sparse_rules import inner_evaluators, rule_for
from weft.interpreters.staging import function_name, trace_to_jaxpr


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse array."""
    return isinstance(value, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function that does to sparse arrays what `f` does to dense ones, and keeps them sparse.

    Arguments are trees with BCOOs and BCSRs in places of arrays; keyword arguments are passed on as
    they are. What stays sparse in `f` is sparse in the results. `jit`, `cond`, loops, `checkpoint`
    and custom derivatives (without their rules) inside `f` are followed. `f` itself sees dense
    tracers, or with `use_tracer` tracers that show the sparse array.

    Raises WeftNotImplementedError for operations whose result would be dense, or that have no
    sparse form; `weft.experimental.sparse.todense` inside `f` makes an operand dense.

    Args:
        f: A function of trees with sparse arrays.
        use_tracer: Whether `f` sees tracers that show the sparse array, and not dense ones.

    >>> from weft.experimental import sparse
    >>> x = sparse.eye(3)
    >>> sparse.sparsify(lambda x, v: (2 * x) ** 2 @ v)(x, jnp.ones(3))
    Array([4., 4., 4.], dtype=float32)
    >>> sparse.sparsify(jnp.transpose)(x)
    BCOO(float32[3, 3], nse=3)
    """
    evaluate = _with_trace if use_tracer else _by_jaxpr

    def sparsified(*args: Any, **params: Any) -> Any:
        leaves, in_tree = tree.flatten(args, is_leaf=is_sparse)
        values = [x if is_sparse(x) else user_value(x) for x in leaves]
        out_trees: list[Any] = []

        def flat(*inner: Any) -> list[Any]:
            outs, out_tree = tree.flatten(f(*in_tree.unflatten(inner), **params), is_leaf=is_sparse)
            out_trees.append(out_tree)
            return outs

        outs = evaluate(flat, values, function_name(f))
        return out_trees[0].unflatten(outs)

    return sparsified


def dense_type(value: Any) -> ArrayType:
    """The type of an array, or the dense type of a sparse one."""
    return ArrayType(value.shape, value.dtype) if is_sparse(value) else type_of(value)


def _by_jaxpr(flat: Callable[..., Any], values: Sequence[Any], name: str) -> list[Any]:
    # A sparse array that the function makes itself goes out as its buffers.
    made: list[Any] = []

    def arrays(*inner: Any) -> list[Any]:
        leaves, structure = tree.flatten(flat(*inner))
        made.append(structure)
        return leaves

    types = [dense_type(x) for x in values]
    jaxpr, consts = trace_to_jaxpr(arrays, types, transformation="sparsify", name=name)
    out: list[Any] = made[0].unflatten(eval_sparse(jaxpr, [*consts, *values]))
    return out


def eval_sparse(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
    """Evaluates a jaxpr with sparse arrays among its inputs and results."""
    if not any(map(is_sparse, values)):
        return eval_jaxpr(jaxpr, (), *values)
    env: dict[Any, Any] = dict(zip(jaxpr.inputs, values, strict=True))
    for eqn in jaxpr.eqns:
        args = [x.value if isinstance(x, Literal) else env[x] for x in eqn.inputs]
        with sources.override(eqn.source):
            outs = apply_sparse(eqn.primitive, args, eqn.params)
        if not eqn.primitive.multiple_results:
            outs = [outs]
        env.update(zip(eqn.outputs, outs, strict=True))
    return [x.value if isinstance(x, Literal) else env[x] for x in jaxpr.outputs]


def apply_sparse(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """The application of a primitive to operands of which some may be sparse."""
    if not any(map(is_sparse, args)):
        return primitive.bind(*args, **params)
    inner = inner_evaluators.get(primitive)
    if inner is not None:
        return inner(eval_sparse, args, params)
    rule = rule_for(primitive)
    if rule is None:
        what = "there is no rule for sparse operands"
        raise unsupported(what, ", ".join(map(repr, filter(is_sparse, args))), primitive.name)
    return rule(*args, **params)


# ---- with tracers --------------------------------------------------------------------------------


class SparseTracer(Tracer):
    """A tracer that stands for a sparse array, `spvalue`.

    Args:
        trace: The trace that made it.
        spvalue: The sparse array that it stands for.
    """

    __slots__ = ("spvalue",)

    def __init__(self, trace: Trace, *, spvalue: Any) -> None:
        super().__init__(trace, dense_type(spvalue))
        self.spvalue = spvalue

    def __repr__(self) -> str:
        return f"SparseTracer<{self.type!r}> of {self.spvalue!r}"


class SparseTrace(Trace):
    """Applies the rules for sparse operands, under the parent trace."""

    __slots__ = ()

    parent: Trace

    def process_primitive(
        self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        values = [self.unbox(x) for x in args]
        if not any(map(is_sparse, values)):
            return self.parent.process_primitive(primitive, values, params)
        token = set_current(self.parent)
        try:
            outs = apply_sparse(primitive, values, params)
        finally:
            reset_current(token)
        if primitive.multiple_results:
            return [self.box(x) for x in outs]
        return self.box(outs)

    def box(self, value: Any) -> Any:
        """A tracer for a sparse array, any other value as it is."""
        return SparseTracer(self, spvalue=value) if is_sparse(value) else value

    def unbox(self, value: Any) -> Any:
        """The sparse array behind a tracer, any other value as it is."""
        if isinstance(value, SparseTracer) and value._trace is self:
            return value.spvalue
        return value


def _with_trace(flat: Callable[..., Any], values: Sequence[Any], name: str) -> list[Any]:
    trace = SparseTrace(current_trace(), "sparsify", name)
    boxed = [trace.box(x) for x in values]
    with running(trace):
        outs = flat(*boxed)
    return [
        x
        if is_sparse(x)
        else trace.unbox(jnp.asarray(x) if isinstance(x, (bool, int, float, complex)) else x)
        for x in outs
    ]
