"""The tables of rules as mappings in JAX's protocol, for rules that were written for it.

A rule that is set is adapted to weft's protocol and put into the table of `core.rules`, in place of
one that was there; a rule that is read is adapted the other way. So primitives from either side
work with interpreters of either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from weft import tree
from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, LinearOperand, Zero
from weft.core.types import type_of
from weft.errors import WeftNotImplementedError
from weft.interpreters.linearize import user_rule

# Rules may hand these to functions of trees: they hold no arrays.
tree.register_node(Zero, lambda zero: ((), zero.type), lambda type, _: Zero(type))
tree.register_node(
    LinearOperand, lambda x: ((), (x.type, x.operation)), lambda data, _: LinearOperand(*data)
)

Rule = Callable[..., Any]
Adapter = Callable[[Primitive, Rule], Rule]


class RuleMapping(MutableMapping[Primitive, Rule]):
    """The rules of one kind: a mapping from primitives to rules in JAX's protocol.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> from weft.extend.interpreters import ad
    >>> twice_p = UncheckedPrimitive("twice")
    >>> _ = twice_p.def_impl(lambda x: x * 2.0)
    >>> ad.primitive_jvps[twice_p] = lambda xs, ts: (twice_p.bind(*xs), ts[0] * 2.0)
    >>> weft.jvp(twice_p.bind, (1.0,), (3.0,))
    (Array(2., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """

    def __init__(self, table: rules.Table, adapted: Adapter, shown: Adapter) -> None:
        self.table = table
        self._adapted, self._shown = adapted, shown

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        own = self._adapted(primitive, rule)
        # Read again, it is the rule that was set.
        own.outer_rule = rule, self  # type: ignore[attr-defined]
        self.table[primitive] = own

    def __getitem__(self, primitive: Primitive) -> Rule:
        found = self.table.get(primitive)
        if found is None:
            raise KeyError(primitive)
        rule: Any
        rule, mapping = getattr(found, "outer_rule", (None, None))
        own: Rule = rule if mapping is self else self._shown(primitive, found)
        return own

    def __delitem__(self, primitive: Primitive) -> None:
        if primitive not in self.table:
            raise KeyError(primitive)
        del self.table[primitive]

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, primitive: object) -> bool:
        return primitive in self.table

    def __repr__(self) -> str:
        return f"<the {self.table.kind} rules of {len(self)} primitives>"


def _as_it_is(primitive: Primitive, rule: Rule) -> Rule:
    return rule


# ---- derivatives -------------------------------------------------------------------------------


def _own_jvp(primitive: Primitive, rule: Rule) -> Rule:
    """From `rule(primals, tangents, **params)`, which may return more than weft's protocol allows,
    and may apply programs to primals and tangents at once."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        with user_rule():
            outs, found = rule(tuple(primals), tuple(tangents), **params)
        if primitive.multiple_results:
            outs = list(outs)
            return outs, [_tangent(t, out) for t, out in zip(found, outs, strict=True)]
        return outs, _tangent(found, outs)

    return jvp


def _tangent(tangent: Any, out: Any) -> Any:
    """A tangent; any `Zero` becomes one of the right type."""
    absent = tangent is None or tangent is Zero or type(tangent) is Zero
    return Zero(type_of(out).tangent()) if absent else tangent


def _own_transpose(primitive: Primitive, rule: Rule) -> Rule:
    """From `rule(cotangent, *operands, **params)`, which may return None for any operand."""

    def transpose(cotangent: Any, /, *operands: Any, **params: Any) -> list[Any]:
        found = rule(cotangent, *operands, **params)
        several = found if isinstance(found, (tuple, list)) else [found] * len(operands)
        return [_cotangent(ct, x) for ct, x in zip(several, operands, strict=True)]

    return transpose


def _cotangent(cotangent: Any, operand: Any) -> Any:
    if type(operand) is not LinearOperand:
        return None
    if cotangent is None or cotangent is Zero or type(cotangent) is Zero:
        return Zero(operand.type.tangent())
    return cotangent


primitive_jvps = RuleMapping(rules.jvp, _own_jvp, _as_it_is)
primitive_linearizations = RuleMapping(rules.linearize, _own_jvp, _as_it_is)
primitive_transposes = RuleMapping(rules.transpose, _own_transpose, _as_it_is)


# ---- vectorization -----------------------------------------------------------------------------


def _mapped(primitive: Primitive, found: Any) -> Any:
    """Results and their dimensions, which may be one number for all results."""
    outs, dims = found
    if not primitive.multiple_results:
        return outs, _counted(dims, outs)
    outs = list(outs)
    if dims is None or not isinstance(dims, (tuple, list)):
        dims = [dims] * len(outs)
    return outs, [_counted(dim, out) for dim, out in zip(dims, outs, strict=True)]


def _counted(dim: Any, out: Any) -> int | None:
    """A dimension counted from 0."""
    if dim is None:
        return None
    return int(dim) % (type_of(out).ndim or 1)


def mapped_size(args: Sequence[Any], dims: Sequence[int | None]) -> int:
    """The length of the mapped axis of operands, one of which is mapped."""
    pairs = zip(args, dims, strict=True)
    return next(type_of(x).shape[dim] for x, dim in pairs if dim is not None)


def _own_vmap(primitive: Primitive, rule: Rule) -> Rule:
    def vmap(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], /, **params: Any) -> Any:
        return _mapped(primitive, rule(tuple(args), tuple(dims), **params))

    return vmap


def _vmap_without_axis(primitive: Primitive, rule: Rule) -> Rule:
    def batcher(args: Sequence[Any], dims: Sequence[Any], /, **params: Any) -> Any:
        return rule(AxisData(None, mapped_size(args, dims)), list(args), list(dims), **params)

    return batcher


def _own_vmap_of_axis(primitive: Primitive, rule: Rule) -> Rule:
    def vmap(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], /, **params: Any) -> Any:
        return _mapped(
            primitive, rule(axis.size, axis.name, None, tuple(args), tuple(dims), **params)
        )

    return vmap


def _vmap_of_axis(primitive: Primitive, rule: Rule) -> Rule:
    def batcher(
        size: int, name: Any, trace: Any, args: Sequence[Any], dims: Sequence[Any], /, **params: Any
    ) -> Any:
        return rule(AxisData(name, size), list(args), list(dims), **params)

    return batcher


def _own_fancy_vmap(primitive: Primitive, rule: Rule) -> Rule:
    def vmap(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], /, **params: Any) -> Any:
        return _mapped(primitive, rule(axis, tuple(args), tuple(dims), **params))

    return vmap


# Three protocols of one table: without the axis, with its size and name, and with its `AxisData`.
primitive_batchers = RuleMapping(rules.vmap, _own_vmap, _vmap_without_axis)
axis_primitive_batchers = RuleMapping(rules.vmap, _own_vmap_of_axis, _vmap_of_axis)
fancy_primitive_batchers = RuleMapping(rules.vmap, _own_fancy_vmap, _as_it_is)


# ---- programs ----------------------------------------------------------------------------------


def _own_dce(primitive: Primitive, rule: Rule) -> Rule:
    def dce(equation: Any, used: Sequence[bool], /) -> Any:
        reads, left = rule(list(used), equation)
        return list(reads), left

    return dce


def _dce(primitive: Primitive, rule: Rule) -> Rule:
    return lambda used, equation: rule(equation, list(used))


class _Unreadable(RuleMapping):
    """A mapping of rules without a use in weft: setting one is an error."""

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        raise WeftNotImplementedError(
            f"a partial evaluation rule of {primitive} in JAX's protocol cannot be used: weft "
            "splits an equation without tracers",
            operation=primitive.name,
            wanted="a rule for weft.extend.interpreters.partial_eval.register",
        )


dce_rules = RuleMapping(rules.dce, _own_dce, _dce)
custom_partial_eval_rules = _Unreadable(rules.partial_eval, _as_it_is, _as_it_is)
partial_eval_jaxpr_custom_rules = _Unreadable(rules.partial_eval, _as_it_is, _as_it_is)
