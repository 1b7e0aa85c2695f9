"""Functions with a batching rule of the user's: `custom_vmap` and `sequential_vmap`.

An application holds the traced function and the rule. `vmap` calls the rule; every other
transformation is one of the function, and transforms the rule along with it: what `vmap` makes of
a derivative is the derivative of the rule. The linear half of a derivative keeps the arguments and
computes what it needs again, since function and rule would keep different residuals.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from weft import tree
from weft.base.util import drop_marked, keep_marked, merge
from weft.control_flow.body_tracing import run_as_one, trace_body
from weft.control_flow.loops import map as loop_map
from weft.control_flow.loops import typed_leaves
from weft.core.jaxpr import Jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Values
from weft.core.shared_jaxprs import emits_jaxprs, with_rule
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_function import (
    P,
    PositionalFunction,
    R,
    check_rule,
    check_structure,
    class_and_length,
    fit_to_type,
)
from weft.errors import Fix, MissingRuleError, WeftNotImplementedError, WeftTypeError, api_boundary
from weft.interpreters.jvp import (
    jvp_flat,
    jvp_jaxpr,
    known_operands,
    merge_cotangents,
    merge_zeros,
    nonzero_tangents,
)
from weft.interpreters.linearize import record_linear
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.staging import check_results, function_name, rebuild
from weft.interpreters.transpose import backward_pass
from weft.ops.structural.shape import move_dim
from weft.ops.structural.tangents import instantiate
from weft.tracing.closure_lifting import register_closure
from weft.tracing.traces import forget_traces

F = TypeVar("F", bound=Callable[..., Any])


class custom_vmap(PositionalFunction[P, R]):
    """A function that `vmap` maps by a rule of the user's, set with `def_vmap`.

    `fun` takes and returns trees of arrays; keyword arguments and defaults are resolved by its
    signature. It is traced, and a value that it closes over must not be mapped: the rule does not
    get it. Derivatives are those of `fun` and, where they are mapped, those of the rule.

    Raises MissingRuleError when called without a rule.

    >>> from weft.custom_batching import custom_vmap
    >>> @custom_vmap
    ... def product(a, x):
    ...     return a @ x
    >>> @product.def_vmap
    ... def product_rule(axis_size, in_batched, a, x):
    ...     a_batched, x_batched = in_batched
    ...     if x_batched and not a_batched:
    ...         return x @ a.T, True
    ...     return weft.vmap(jnp.dot, [0 if b else None for b in in_batched])(a, x), True
    >>> weft.vmap(product, (None, 0))(jnp.eye(2), jnp.ones((3, 2))).shape
    (3, 2)
    """

    kind = "custom_vmap"
    _rule: Callable[..., Any] | None = None

    @api_boundary("def_vmap")
    def def_vmap(self, vmap_rule: F) -> F:
        """Sets the rule, `vmap_rule(axis_size, in_batched, *args) -> (result, out_batched)`.
        `in_batched` is a list with one entry per argument: a tree of booleans like it, True where
        the leaf has the mapped axis in front. The result is a tree like that of the function, and
        `out_batched` one of booleans like it. Returns the rule."""
        check_rule("def_vmap", vmap_rule)
        self._rule = vmap_rule
        forget_traces(self)
        return vmap_rule

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._rule is None:
            text = "set the rule with .def_vmap(...) before the first call"
            raise MissingRuleError(
                f"{self._what} is called, and has no rule for vmap yet",
                operation=self.kind,
                got="no rule",
                wanted="a rule, set with def_vmap",
                fix=Fix("def_vmap", text),
            )
        full = self._positional(args, kwargs)
        leaves, types, in_tree = typed_leaves("custom_vmap", self._name, "the arguments", full)
        traced = trace_body("custom_vmap", self._function, in_tree, types)
        rule = UsersRule(self._rule, self._what, in_tree, traced.out_tree, traced.jaxpr.out_types)
        captured = (*(True,) * len(traced.consts), *(False,) * len(leaves))
        outs = custom_vmap_p.bind(
            *traced.consts, *leaves, jaxpr=traced.jaxpr, rule=rule, captured=captured
        )
        return traced.out_tree.unflatten(outs)


register_closure(custom_vmap, ("_function", "_rule"), copy.copy)


def sequential_vmap(f: Callable[P, R]) -> custom_vmap[P, R]:
    """A function that `vmap` maps by a loop over the elements, one after the other.

    For functions that cannot take a further dimension; arguments that are not mapped are the same
    in every step.

    >>> from weft.custom_batching import sequential_vmap
    >>> @sequential_vmap
    ... def largest_step(x):
    ...     return jnp.max(jnp.diff(x))
    >>> weft.vmap(largest_step)(jnp.array([[0.0, 2.0, 3.0], [1.0, 1.5, 5.0]]))
    Array([2. , 3.5], dtype=float32)
    """
    made = custom_vmap(f)

    @made.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, in_tree = tree.flatten(list(args))
        flags = tree.leaves(in_batched)
        fixed = drop_marked(flags, leaves)

        def step(element: list[Any]) -> Any:
            called: Callable[..., Any] = f
            return called(*in_tree.unflatten(merge(flags, element, fixed)))

        out = loop_map(step, keep_marked(flags, leaves))
        return out, tree.map(lambda _: True, out)

    return made


class BatchRule:
    """What `vmap` makes of an application, on flat lists. Called with the size of the mapped axis,
    which operands have it (in front), and the operands; returns the results and which of these have
    it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self, size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        raise NotImplementedError(f"{type(self).__name__} does not define __call__")

    def __repr__(self) -> str:
        return self.name


class UsersRule(BatchRule):
    """Runs the user's rule on trees and checks its results."""

    def __init__(
        self,
        rule: Callable[..., Any],
        what: str,
        in_tree: Any,
        out_tree: Any,
        out_types: Sequence[ArrayType],
    ) -> None:
        super().__init__(function_name(rule))
        self.rule, self.what = rule, what
        self.in_tree, self.out_tree, self.out_types = in_tree, out_tree, out_types

    def __call__(
        self, size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        unflatten = self.in_tree.unflatten
        found = self.rule(size, list(unflatten(batched)), *unflatten(args))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise WeftTypeError(
                f"{self.what}: the rule {self.name} returns no pair (result, out_batched)",
                operation="custom_vmap",
                got=class_and_length(found),
                wanted="a tuple of two",
                fix=Fix("pair", "return (result, out_batched) from the rule"),
            )
        out, marks = found
        for which, value in (("a result", out), ("batching marks", marks)):
            if tree.structure(value) != self.out_tree:
                message = f"{self.what}: the rule returns {which} of another structure than the "
                raise check_structure(value, self.out_tree, message + "function", "custom_vmap")
        outs = check_results(out, tree.leaves(out), f"the rule {self.name} of {self.what}")
        flags = [bool(flag) for flag in tree.leaves(marks)]
        return [
            fit_to_type(x, whole(of, size) if flag else of, self.of(i), "custom_vmap")
            for i, (x, of, flag) in enumerate(zip(outs, self.out_types, flags, strict=True))
        ], flags

    def of(self, place: int) -> str:
        """Names a leaf of the result, for messages."""
        path, _ = tree.leaves_with_path(self.out_tree.unflatten(range(len(self.out_types))))[place]
        return f"{self.what}: the result{tree.keystr(path)} of the rule {self.name}"


def whole(of: ArrayType, size: int) -> ArrayType:
    """The type of all elements, given that of one."""
    return of.update(shape=(size, *of.shape))


def at_front(value: Any, batched: bool, size: int) -> Any:
    """The value with the mapped axis in front, repeated along it if it has none."""
    return move_dim(value, 0 if batched else None, 0, size)


class RuleWithTangents(BatchRule):
    """The derivative of a rule in the operands marked `nonzero`: of the operands and then of these
    tangents, to the results and then to all tangents that are not float0."""

    def __init__(self, rule: BatchRule, nonzero: Sequence[bool]) -> None:
        super().__init__(rule.name)
        self.rule, self.nonzero = rule, nonzero

    def __call__(
        self, size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        n = len(self.nonzero)
        moved = merge(self.nonzero, batched[n:], [False] * (n - sum(self.nonzero)))
        flags = [a or b for a, b in zip(batched[:n], moved, strict=True)]
        pairs = zip(args[:n], batched[:n], flags, strict=True)
        primals = [at_front(x, mine, size) if flag else x for x, mine, flag in pairs]
        rows = zip(args[n:], batched[n:], keep_marked(self.nonzero, flags), strict=True)
        given = [at_front(t, mine, size) if flag else t for t, mine, flag in rows]
        out_flags: list[bool] = []

        def function(*values: Any) -> list[Any]:
            outs, found = self.rule(size, flags, values)
            out_flags[:] = found
            return outs

        tangents = merge_zeros(self.nonzero, given, [type_of(x) for x in primals])
        outs, found = jvp_flat(function, primals, tangents, self.name)
        smooth = [has_tangent(type_of(x)) for x in outs]
        kept = [instantiate(t) for t in keep_marked(smooth, found)]
        return [*outs, *kept], [*out_flags, *keep_marked(smooth, out_flags)]


class TangentRule(BatchRule):
    """The last `count` results of a rule: the tangents among those of a derivative."""

    def __init__(self, rule: BatchRule, count: int) -> None:
        super().__init__(rule.name)
        self.rule, self.count = rule, count

    def __call__(
        self, size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        outs, flags = self.rule(size, batched, args)
        start = len(outs) - self.count
        return outs[start:], flags[start:]


class TransposedRule(BatchRule):
    """The transpose of a rule in the operands marked `linear`, whose elements all have cotangents
    of their own: of the other operands and of the cotangents marked `nonzero`."""

    def __init__(
        self, rule: BatchRule, linear: Sequence[bool], nonzero: Sequence[bool], jaxpr: Jaxpr
    ) -> None:
        super().__init__(rule.name)
        self.rule, self.linear, self.nonzero = rule, linear, nonzero
        self.in_types, self.out_types = keep_marked(linear, jaxpr.in_types), jaxpr.out_types

    def __call__(
        self, size: int, batched: Sequence[bool], args: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        n = len(self.linear) - sum(self.linear)
        known = args[:n]
        flags = merge(self.linear, [True] * len(self.in_types), batched[:n])

        def function(*values: Any) -> list[Any]:
            outs, found = self.rule(size, flags, merge(self.linear, values, known))
            return [at_front(x, flag, size) for x, flag in zip(outs, found, strict=True)]

        types = [whole(of, size) for of in self.in_types]
        found, linear = record_linear(function, types, "vmap", self.name)
        given = [at_front(x, b, size) for x, b in zip(args[n:], batched[n:], strict=True)]
        cotangents = merge_zeros(self.nonzero, given, [whole(of, size) for of in self.out_types])
        outputs = [linear.atom(x) for x in found]
        consts = dict(linear.consts.values())
        reached = backward_pass(linear.eqns, linear.inputs, consts, outputs, cotangents)
        return [instantiate(ct) for ct in reached], [True] * len(reached)


custom_vmap_p = Primitive("custom_vmap", multiple_results=True, memoise=False)
with_rule.add(custom_vmap_p)
emits_jaxprs.add(custom_vmap_p)


def has_tangent(of: ArrayType) -> bool:
    return of.tangent() is of or of.tangent().dtype == of.dtype


def derivative(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> tuple[Jaxpr, tuple[bool, ...]]:
    """The derivative of a jaxpr with all tangents, and which results have one."""
    smooth = tuple([has_tangent(of) for of in jaxpr.out_types])
    return jvp_jaxpr(jaxpr, nonzero, smooth)[0], smooth


def with_tangents(captured: Sequence[bool], nonzero: Sequence[bool]) -> tuple[bool, ...]:
    """Marks the operands of a derivative that are closed over, or tangents of these."""
    return (*captured, *keep_marked(nonzero, captured))


def custom_vmap_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr, rule = params["jaxpr"], params["rule"]
    nonzero, given = nonzero_tangents(tangents)
    program, smooth = derivative(jaxpr, nonzero)
    outs = custom_vmap_p.bind(
        *primals,
        *given,
        jaxpr=program,
        rule=RuleWithTangents(rule, nonzero),
        captured=with_tangents(params["captured"], nonzero),
    )
    n = len(jaxpr.outputs)
    return outs[:n], merge_zeros(smooth, outs[n:], jaxpr.out_types)


def custom_vmap_linearize(primals: Values, tangents: Values, **params: Any) -> Derived:
    jaxpr, rule = params["jaxpr"], params["rule"]
    nonzero, given = nonzero_tangents(tangents)
    program, smooth = derivative(jaxpr, nonzero)
    n = len(jaxpr.outputs)
    last = Jaxpr(program.inputs, program.eqns, program.outputs[n:], 0, program.name)
    outs = custom_vmap_p.bind(*primals, **params)
    moved = custom_vmap_p.bind(
        *primals,
        *given,
        jaxpr=jaxpr.memoize(("tangents", nonzero), lambda: last),
        rule=TangentRule(RuleWithTangents(rule, nonzero), sum(smooth)),
        captured=with_tangents(params["captured"], nonzero),
    )
    return outs, merge_zeros(smooth, moved, jaxpr.out_types)


def custom_vmap_transpose(cotangents: Values, *operands: Any, **params: Any) -> list[Any]:
    linear, known = known_operands(operands)
    nonzero, given = nonzero_tangents(cotangents)
    jaxpr, captured = params["jaxpr"], params["captured"]
    outs = custom_vmap_p.bind(
        *known,
        *given,
        jaxpr=transpose_linear(jaxpr, linear, nonzero),
        rule=TransposedRule(params["rule"], linear, nonzero, jaxpr),
        captured=(*drop_marked(linear, captured), *(False,) * len(given)),
    )
    return merge_cotangents(linear, (True,) * sum(linear), outs)


def transpose_linear(jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...]) -> Jaxpr:
    """The transpose of a jaxpr, with the cotangents of all linear inputs, zeros too."""

    def function(*values: Any) -> list[Any]:
        n = len(linear) - sum(linear)
        known = dict(zip(drop_marked(linear, jaxpr.inputs), values[:n], strict=True))
        cts = merge_zeros(nonzero, values[n:], jaxpr.out_types)
        inputs = keep_marked(linear, jaxpr.inputs)
        return [*map(instantiate, backward_pass(jaxpr.eqns, inputs, known, jaxpr.outputs, cts))]

    types = drop_marked(linear, jaxpr.in_types) + keep_marked(nonzero, jaxpr.out_types)
    return jaxpr.memoize(
        ("transpose with zeros", linear, nonzero),
        lambda: rebuild(function, types, jaxpr.name, "transpose"),
    )


def custom_vmap_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    captured, rule, jaxpr = params["captured"], params["rule"], params["jaxpr"]
    if any(dim is not None for dim in keep_marked(captured, dims)):
        of = next(t for t, dim, c in zip(jaxpr.in_types, dims, captured, strict=True)
                  if c and dim is not None)  # fmt: skip
        raise WeftNotImplementedError(
            f"custom_vmap of {jaxpr.name}: the function closes over a value that is mapped, which "
            "its rule does not get",
            operation="custom_vmap",
            got=f"a mapped value of type {of} that is no argument",
            wanted="mapped values as arguments",
            fix=Fix("pass_argument", "make the value an argument of the function"),
        )
    flags = [dim is not None for dim in drop_marked(captured, dims)]
    rows = zip(drop_marked(captured, args), drop_marked(captured, dims), strict=True)
    values = [x if dim is None else move_dim(x, dim, 0, axis.size) for x, dim in rows]
    outs, found = rule(axis.size, flags, values)
    return outs, [0 if flag else None for flag in found]


def custom_vmap_steps(
    *operands: Any, jaxpr: Jaxpr, **params: Any
) -> Iterator[tuple[str, Jaxpr, Sequence[Any]]]:
    yield f"the custom_vmap of {jaxpr.name}", jaxpr, operands


def custom_vmap_lower(context: Any, *values: Any, jaxpr: Jaxpr, **params: Any) -> list[Any]:
    return list(context.lower_jaxpr(jaxpr, values, jaxpr.name))


holds_one_jaxpr(
    OneJaxpr(custom_vmap_p, lambda params: f"custom_vmap of {params['jaxpr'].name}"),
    impl=functools.partial(run_as_one, custom_vmap_p, False),
    jvp=custom_vmap_jvp,
    linearize=custom_vmap_linearize,
    transpose=custom_vmap_transpose,
    vmap=custom_vmap_vmap,
    # An application is neither split nor cut: its rule is about the whole function.
    partial_eval=None,
    dce=None,
    lower=custom_vmap_lower,
    steps=custom_vmap_steps,
)
