"""`custom_jvp`: functions whose derivative is given by a rule for forward mode.

The rule maps primals and tangents to results and tangents. It is an ordinary jvp rule, so it also
serves reverse mode: it has to be linear in the tangents, and is transposed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft import dtypes, tree
from weft.base.util import keep_marked
from weft.core.rules import AxisData, Derived, Dims, Values, Zero
from weft.core.shared_jaxprs import register_content
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_function import (
    Application,
    CustomFunction,
    P,
    R,
    SymbolicZero,
    array_of_zero,
    check_rule,
    check_structure,
    fit_to_type,
    is_float0,
    vector,
)
from weft.custom_derivatives.custom_primitive import (
    MappedRule,
    Rule,
    custom_primitive,
    mapped_at_front,
)
from weft.errors import DTypeError, Fix, WeftTypeError, api_boundary
from weft.interpreters.jvp import merge_zeros, nonzero_tangents
from weft.interpreters.staging import check_results, function_name
from weft.interpreters.vmap import vmap_flat
from weft.ops.structural.tangents import add_tangents, instantiate
from weft.tracing.closure_lifting import register_closure
from weft.tracing.traces import forget_traces

F = TypeVar("F", bound=Callable[..., Any])

custom_jvp_p = custom_primitive("custom_jvp")


class custom_jvp(CustomFunction[P, R]):
    """A function whose derivative is computed by the user's rule, set with `defjvp`.

    Traced values that the function closes over are differentiated through the function by ordinary
    rules; the rule is for the arguments.

    Args:
        fun: The function, of trees of arrays. Keyword arguments and defaults are resolved by its
            signature.
        nondiff_argnums: The positions of arguments that have no derivative. They may be any Python
            objects; the rule gets them first.
        nondiff_argnames: The names of such arguments.

    Raises WeftTypeError when called without a rule, and for arguments that are no arrays;
    WeftValueError for argument numbers and names that do not exist.

    >>> import weft, weft.numpy as jnp
    >>> @weft.custom_jvp
    ... def log1pexp(x):
    ...     return jnp.log(1.0 + jnp.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1.0 - 1.0 / (1.0 + jnp.exp(x)))
    >>> weft.grad(log1pexp)(100.0)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"
    _define = "defjvp"
    _primitive = custom_jvp_p

    @api_boundary("defjvp")
    def defjvp(self, jvp: F, symbolic_zeros: bool = False) -> F:
        """Sets the rule, `jvp(*nondiff_args, primals, tangents) -> (result, tangent)`.

        Primals and tangents are tuples, one entry per argument. Tangents of integers are zeros of
        dtype float0. With `symbolic_zeros` a tangent that is known to be zero comes as a
        `SymbolicZero`, and may be returned as one. Returns `jvp`.
        """
        check_rule("defjvp", jvp)
        self._rules, self._symbolic_zeros = (jvp,), symbolic_zeros
        forget_traces(self)
        return jvp

    @api_boundary("defjvps")
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets one rule per argument, `jvp(tangent, result, *primals) -> tangent`; the tangent of
        the result is their sum. None stands for a derivative that is zero.

        Raises WeftTypeError where the function has arguments without derivatives.

        >>> import weft, weft.numpy as jnp
        >>> f = weft.custom_jvp(lambda x, y: x * y)
        >>> f.defjvps(lambda t, out, x, y: t * y, None)
        >>> weft.grad(f, (0, 1))(2.0, 3.0)[0]
        Array(3., dtype=float32, weak_type=True)
        """
        if self._places:
            raise WeftTypeError(
                f"{self._what}: defjvps does not take rules for functions with nondiff_argnums",
                got=f"nondiff_argnums={self._places}",
                wanted="a function without them",
                fix=Fix("defjvp", "use defjvp, whose rule gets these arguments first"),
            )
        for jvp in jvps:
            if jvp is not None:
                check_rule("defjvps", jvp)
        if self._count is not None and len(jvps) != self._count:
            wanted = f"{self._count} rules"
            text = f"give {wanted}, None where the derivative is zero"
            message = f"{self._what}: defjvps takes one rule per argument"
            fix = Fix("count", text, {"count": self._count})
            raise WeftTypeError(message, got=f"{len(jvps)} rules", wanted=wanted, fix=fix)
        function: Callable[..., Any] = self

        def jvp_of_sum(primals: Values, tangents: Values) -> tuple[Any, Any]:
            result = function(*primals)
            parts = [
                jvp(tree.map(array_of_zero, t), result, *primals)
                for jvp, t in zip(jvps, tangents, strict=True)
                if jvp is not None and not all(type(x) is SymbolicZero for x in tree.leaves(t))
            ]
            if not parts:
                return result, tree.map(lambda x: SymbolicZero(type_of(x).tangent()), result)
            return result, tree.map(_sum, *parts)

        self._rules, self._symbolic_zeros = (jvp_of_sum,), True
        forget_traces(self)

    def _rule(self, application: Application) -> Rule:
        return JVPRule(application)

    def _rules_with(self, given: Any, by_position: Any) -> list[Callable[..., Any]]:
        (rule,) = self._rules

        def arguments(args: Sequence[Any]) -> list[Any]:
            *nondiff, primals, tangents = args
            return [*nondiff, given(primals), tangents]

        return [self._function_with(rule, arguments)]


register_closure(custom_jvp, ("_function", "_rules"), copy.copy)


def _sum(*parts: Any) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total if is_float0(total) else add_tangents(total, part)
    return total


class JVPRule(Rule):
    """The rule of one application: runs the user's rule and checks its result."""

    def __init__(self, application: Application) -> None:
        super().__init__(function_name(application.functions[1]))
        self.application = application

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        application = self.application
        functions, nondiff, leaves = application.open_arguments(primals)
        given = [
            (SymbolicZero(t.type) if application.symbolic_zeros else instantiate(t))
            if type(t) is Zero
            else vector(t)
            for t in tangents
        ]
        unflatten = application.in_tree.unflatten
        found = application.called(
            "its jvp rule", functions[1], [*nondiff, unflatten(leaves), unflatten(given)]
        )
        out, tangent = application.pair(found, "jvp", "tangent")
        outs = application.results(out, "the jvp rule")
        return outs, self.tangents(tangent, outs)

    def tangents(self, found: Any, outs: Sequence[Any]) -> list[Any]:
        """Returns the leaves of the rule's tangent, checked against the results."""
        application = self.application
        out_tree, what = application.out_tree, application.what
        leaves, structure = tree.flatten(found)
        if structure != out_tree:
            raise check_structure(
                found,
                out_tree,
                f"{what}: the jvp rule returns a tangent of another structure than the result",
                "custom_jvp",
            )
        paths = tree.leaves_with_path(found)
        return [
            self.tangent(leaf, type_of(out).tangent(), f"{what}: the tangent{tree.keystr(path)}")
            for leaf, out, (path, _) in zip(leaves, outs, paths, strict=True)
        ]

    def tangent(self, leaf: Any, wanted: ArrayType, what: str) -> Any:
        what = f"{what} that its jvp rule returns"
        zero = type(leaf) is SymbolicZero or is_float0(leaf)
        if zero and leaf.shape == wanted.shape and leaf.dtype == wanted.dtype:
            return Zero(wanted)
        if wanted.dtype == dtypes.float0 or zero:
            kind, text = "zeros", f"return zeros of shape {wanted.shape} and dtype {wanted.dtype}"
            if wanted.dtype == dtypes.float0:
                kind = "float0"
                text = f"return np.zeros({wanted.shape}, weft.float0), the tangent of integers"
            message = f"{what} does not fit its result"
            got = f"{type(leaf).__name__} of dtype {getattr(leaf, 'dtype', None)}"
            fix = Fix(kind, text, {"shape": wanted.shape, "dtype": wanted.dtype})
            raise DTypeError(message, operation="custom_jvp", got=got, wanted=str(wanted), fix=fix)
        (leaf,) = check_results(leaf, [leaf], what)
        return fit_to_type(leaf, wanted, what, "custom_jvp")

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return MappedJVPRule(self, axis, dims)


register_content(JVPRule, lambda rule: rule.application.content())


class MappedJVPRule(MappedRule):
    """The rule of a mapped application."""

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        n, own = len(primals), self.dims[len(primals) - len(tangents) :]
        nonzero, given = nonzero_tangents(tangents)
        nonzero_out: tuple[bool, ...] = ()

        def function(*values: Any) -> list[Any]:
            nonlocal nonzero_out
            types = [type_of(x) for x in values[n - len(nonzero) : n]]
            outs, found = self.rule.jvp(values[:n], merge_zeros(nonzero, values[n:], types))
            nonzero_out, found = nonzero_tangents(found)
            return [*outs, *found]

        dims = [*self.dims, *keep_marked(nonzero, own)]
        values, found = vmap_flat(function, self.axis, [*primals, *given], dims, self.name)
        whole = mapped_at_front(values, found, self.axis)
        outs, rest = whole[: len(nonzero_out)], whole[len(nonzero_out) :]
        return outs, merge_zeros(nonzero_out, rest, [type_of(x) for x in outs])

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return MappedJVPRule(self, axis, dims)


register_content(MappedJVPRule, lambda rule: (rule.rule, rule.axis, tuple(rule.dims)))
