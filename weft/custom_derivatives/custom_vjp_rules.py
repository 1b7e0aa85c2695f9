"""`custom_vjp`: functions whose derivative is given by a pair of rules for reverse mode.

The forward rule computes the results and residuals, the backward rule cotangents of the arguments
from residuals and cotangents of the results. The backward rule is linear in the cotangents, so its
transpose gives tangents, and forward mode works as well.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft import dtypes
from weft import tree as trees
from weft.base.util import drop_marked, keep_marked, merge
from weft.core.rules import AxisData, Derived, Dims, Values, Zero
from weft.core.shared_jaxprs import register_content
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.custom_derivatives.custom_function import (
    Application,
    CustomFunction,
    P,
    R,
    SymbolicZero,
    check_rule,
    check_structure,
    class_and_length,
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
from weft.custom_derivatives.pullback import Pullback, push_forward, push_forward_later
from weft.errors import DTypeError, Fix, TreeError, api_boundary
from weft.interpreters.jvp import merge_zeros, nonzero_tangents
from weft.interpreters.staging import check_results, function_name
from weft.interpreters.vmap import vmap_flat
from weft.ops.collectives.all_reduce import vary
from weft.ops.structural.tangents import zeros
from weft.refs.reference import Ref
from weft.runtime import pytree
from weft.tracing.closure_lifting import register_closure
from weft.tracing.traces import forget_traces

custom_vjp_p = custom_primitive("custom_vjp")


@dataclasses.dataclass(frozen=True)
class CustomVJPPrimal:
    """A leaf of the arguments as a forward rule with `symbolic_zeros` gets it. `perturbed` says
    whether the derivative with respect to `value` is asked for."""

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The tree with the value of each `CustomVJPPrimal` in its place: the arguments of a forward
    rule with `symbolic_zeros` as those of a rule without. Other leaves stay.

    >>> from weft.custom_derivatives import CustomVJPPrimal, custom_vjp_primal_tree_values
    >>> custom_vjp_primal_tree_values({"a": CustomVJPPrimal(1.0, True)})
    {'a': 1.0}
    """
    return trees.map(lambda x: x.value if type(x) is CustomVJPPrimal else x, tree)


class custom_vjp(CustomFunction[P, R]):
    """A function whose derivative is computed by the user's pair of rules, set with `defvjp`.

    Traced values that the function closes over are differentiated through the function by ordinary
    rules; the pair is for the arguments. Forward mode transposes the backward rule.

    Args:
        fun: The function, of trees of arrays. Keyword arguments and defaults are resolved by its
            signature.
        nondiff_argnums: The positions of arguments that have no derivative. They may be any Python
            objects; the backward rule gets them first.
        nondiff_argnames: The names of such arguments.

    Raises WeftTypeError when called without rules, and for arguments that are no arrays;
    WeftValueError for argument numbers and names that do not exist.

    >>> import weft, weft.numpy as jnp
    >>> @weft.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -1.0, 1.0),))
    >>> weft.grad(lambda x: 5.0 * clipped(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"
    _define = "defvjp"
    _primitive = custom_vjp_p

    @api_boundary("defvjp")
    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rules, `fwd(*args) -> (result, residuals)` and
        `bwd(*nondiff_args, residuals, cotangent) -> cotangents`.

        `fwd` gets the arguments of the function. Residuals are any tree; leaves that are no arrays
        stay as they are. `bwd` returns a tuple, one entry per argument (without those in
        nondiff_argnums); None stands for zeros, for a whole entry or for a part of it. With
        `symbolic_zeros`, `fwd` gets each leaf as a `CustomVJPPrimal`, and cotangents that are known
        to be zero come as `SymbolicZero`. `optimize_remat` changes nothing: under `checkpoint` only
        what the derivative needs is computed again.
        """
        check_rule("defvjp", fwd)
        check_rule("defvjp", bwd)
        self._rules, self._symbolic_zeros = (fwd, bwd), symbolic_zeros
        forget_traces(self)

    def _rule(self, application: Application) -> Rule:
        return UsersVJPRule(application)

    def _rules_with(self, given: Any, by_position: Any) -> list[Callable[..., Any]]:
        fwd, bwd = self._rules
        return [self._function_with(fwd, by_position), bwd]


register_closure(custom_vjp, ("_function", "_rules"), copy.copy)


class VJPRule(Rule):
    """A rule built on `start`, which computes results, residuals and the pullback."""

    own_tangents = False

    def start(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Pullback]:
        """Results, residuals, and the pullback from residuals and cotangents."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        return self.derived(primals, tangents, push_forward)

    def linearize(self, primals: Values, tangents: Values) -> Derived:
        return self.derived(primals, tangents, push_forward_later)

    def derived(
        self, primals: Values, tangents: Values, push: Callable[..., Sequence[Any]]
    ) -> Derived:
        """Results and tangents; `push` gives those of the differentiable results."""
        active, given = nonzero_tangents(tangents)
        outs, residuals, pullback = self.start(primals, active)
        types = [type_of(x) for x in outs]
        differentiable = [has_tangent(type) for type in types]
        out_types = tuple(type.tangent() for type in keep_marked(differentiable, types))
        found = push(pullback, active, residuals, given, out_types)
        return outs, merge_zeros(differentiable, found, types)

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return MappedVJPRule(self, axis, dims)


def has_tangent(type: ArrayType) -> bool:
    return bool(type.tangent().dtype != dtypes.float0)


class UsersVJPRule(VJPRule):
    """The rules of one application: runs the user's rules and checks their results."""

    def __init__(self, application: Application) -> None:
        super().__init__(function_name(application.functions[1]))
        self.application = application

    def start(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Pullback]:
        application = self.application
        functions, nondiff, leaves = application.open_arguments(primals)
        in_types = [type_of(x) for x in leaves]
        if application.symbolic_zeros:
            leaves = [CustomVJPPrimal(x, p) for x, p in zip(leaves, perturbed, strict=True)]
        args = application.arguments(nondiff, application.in_tree.unflatten(leaves))
        found = application.called("its fwd rule", functions[1], args)
        out, residuals = application.pair(found, "fwd", "residuals")
        outs = application.results(out, "the fwd rule")
        captured = list(primals[: len(application.tracers)])
        pullback = UsersPullback(application, residuals, in_types, [type_of(x) for x in outs])
        return outs, captured + pullback.arrays(residuals), pullback


class MappedVJPRule(MappedRule, VJPRule):
    """The rule of a mapped application."""

    def start(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Pullback]:
        store: list[Any] = []

        def function(*values: Any) -> list[Any]:
            outs, residuals, pullback = self.rule.start(values, perturbed)
            store[:] = [len(outs), pullback]
            return [*outs, *residuals]

        values, dims = vmap_flat(function, self.axis, primals, self.dims, self.name)
        n, pullback = store
        outs = mapped_at_front(values[:n], dims[:n], self.axis)
        own = self.dims[len(primals) - len(perturbed) :]
        return outs, values[n:], pullback.mapped(self.axis, dims[n:], own)


register_content(UsersVJPRule, lambda rule: rule.application.content())
register_content(MappedVJPRule, lambda rule: (rule.rule, rule.axis, tuple(rule.dims)))


def _is_array(value: Any) -> bool:
    """Whether a leaf of the residuals is an operand; other leaves stay as they are."""
    if isinstance(value, Tracer):
        return True
    if type(value) is Ref:
        return False
    return hasattr(value, "dtype") and hasattr(value, "shape") and not is_float0(value)


class UsersPullback(Pullback):
    """The backward rule of one application, for the residuals of one run of `fwd`."""

    def __init__(
        self,
        application: Application,
        residuals: Any,
        in_types: list[ArrayType],
        out_types: list[ArrayType],
    ) -> None:
        super().__init__(function_name(application.functions[2]), application.name)
        self.application, self.in_types, self.out_types = application, in_types, out_types
        leaves, self.residual_tree = trees.flatten(residuals)
        self.is_array = [_is_array(x) for x in leaves]
        self.fixed = drop_marked(self.is_array, leaves)

    def arrays(self, residuals: Any) -> list[Any]:
        return keep_marked(self.is_array, trees.leaves(residuals))

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        application = self.application
        functions, nondiff, arrays = application.open_arguments(residuals)
        leaves = merge(self.is_array, arrays, self.fixed)
        flags = [has_tangent(t) for t in self.out_types]
        given = merge_zeros(flags, cotangents, self.out_types)
        cts = application.out_tree.unflatten([self.cotangent(ct) for ct in given])
        args = [*nondiff, self.residual_tree.unflatten(leaves), cts]
        return self.checked(application.called("its bwd rule", functions[2], args))

    def cotangent(self, ct: Any) -> Any:
        if type(ct) is not Zero:
            return vector(ct)
        return SymbolicZero(ct.type) if self.application.symbolic_zeros else zeros(ct.type)

    def checked(self, found: Any) -> list[Any]:
        """The rule's cotangents of the arguments' leaves (None: zero), checked."""
        application, what = self.application, self.application.what
        in_tree = application.in_tree
        count = len(in_tree.children())
        if not isinstance(found, (tuple, list)) or len(found) != count:
            returned = "(cotangent,) for one argument" if count == 1 else f"{count} cotangents"
            message = f"{what}: the bwd rule returns no tuple with one cotangent per argument"
            got = class_and_length(found)
            wanted = f"a tuple of length {count}"
            fix = Fix("tuple", f"return {returned}", {"length": count})
            raise TreeError(message, operation="custom_vjp", got=got, wanted=wanted, fix=fix)
        dummy = in_tree.unflatten(range(in_tree.num_leaves))
        leaves: list[Any] = []
        if not _append_leaves(tuple(found), dummy, leaves):
            fault = "the bwd rule returns cotangents of another structure than the arguments"
            raise check_structure(tuple(found), in_tree, f"{what}: {fault}", "custom_vjp")
        paths = trees.leaves_with_path(dummy)
        return [
            self.checked_leaf(leaf, of, f"{what}: the cotangent of {application.place(path)}")
            for leaf, of, (path, _) in zip(leaves, self.in_types, paths, strict=True)
        ]

    def checked_leaf(self, leaf: Any, primal: ArrayType, what: str) -> Any:
        wanted = primal.tangent()
        if leaf is None or type(leaf) is SymbolicZero:
            return None
        what = f"{what} that its bwd rule returns"
        if wanted.dtype == dtypes.float0:
            # `zeros_like` gives zeros of the argument's own dtype.
            if is_float0(leaf) or type_of(leaf).dtype == primal.dtype:
                return None
            message = f"{what} is for an argument of dtype {primal.dtype}, which has none"
            got = str(type_of(leaf))
            expected = "None, or zeros of dtype float0"
            fix = Fix("none", "return None for this argument")
            raise DTypeError(message, operation="custom_vjp", got=got, wanted=expected, fix=fix)
        if is_float0(leaf):
            message = f"{what} has dtype float0 instead of {wanted.dtype}"
            got = "float0"
            fix = Fix("none", "return None where the cotangent is zero")
            raise DTypeError(message, operation="custom_vjp", got=got, wanted=str(wanted), fix=fix)
        (leaf,) = check_results(leaf, [leaf], what)
        # It may vary more: then it is one device's share of the cotangent, see `Pullback`.
        return vary(fit_to_type(leaf, wanted, what, "custom_vjp"), wanted.varying)


def _append_leaves(value: Any, wanted: Any, leaves: list[Any]) -> bool:
    """Appends the leaves of a tree to `leaves`, None for each leaf of a `wanted` subtree whose
    place has None. Returns False if the structures differ."""
    if value is None or type(value) is SymbolicZero:
        leaves.extend([None] * len(trees.leaves(wanted)))
        return True
    children, structure = pytree.flatten(value, lambda x: x is not value)
    others, other = pytree.flatten(wanted, lambda x: x is not wanted)
    if structure != other:
        return False
    if trees.treedef_is_leaf(structure):
        leaves.append(value)
        return True
    return all(_append_leaves(x, y, leaves) for x, y in zip(children, others, strict=True))
