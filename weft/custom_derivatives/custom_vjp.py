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

from weft import dtypes, tree
from weft.base.marked_lists import marked, merge, unmarked
from weft.core.rules import AxisData, Derived, Dims, Values, Zero
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
    fitted,
    is_float0,
    vector,
    without_rule,
)
from weft.custom_derivatives.custom_primitive import Rule, custom_primitive, mapped_at_front
from weft.custom_derivatives.pullback import Pullback, custom_vjp_tangents_p, pushed_forward
from weft.errors import DTypeError, Fix, TreeError, api_boundary, trim
from weft.function_keys import register_parts
from weft.interpreters.function_results import check_results
from weft.interpreters.staging import function_name
from weft.interpreters.symbolic_zeros import merge_zeros, nonzero_tangents
from weft.interpreters.vmap import vmap_flat
from weft.ops.collectives.all_reduce import psum_p, vary
from weft.ops.structural.tangents import zeros
from weft.runtime import pytree
from weft.tracing.closure_lifting import register_closure

__all__ = ["CustomVJPPrimal", "custom_vjp", "custom_vjp_p"]

custom_vjp_p = custom_primitive("custom_vjp")


# ---- for users ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class CustomVJPPrimal:
    """A leaf of the arguments as a forward rule with `symbolic_zeros` gets it.

    `perturbed` says whether the derivative with respect to `value` is asked for.
    """

    value: Any
    perturbed: bool


class custom_vjp(CustomFunction[P, R]):
    """A function whose derivative is computed by the user's pair of rules, set with `defvjp`.

    `fun` takes and returns trees of arrays; keyword arguments and defaults are resolved by its
    signature. Arguments in `nondiff_argnums` or `nondiff_argnames` may be any Python objects.
    Traced values that the function closes over are differentiated through the function by ordinary
    rules; the pair is for the arguments. Forward mode transposes the backward rule.

    Raises WeftTypeError when called without rules, and for arguments that are no arrays;
    WeftValueError for argument numbers and names that do not exist.

    >>> import weft, weft.numpy as wnp
    >>> @weft.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, ct: (wnp.clip(ct, -1.0, 1.0),))
    >>> weft.grad(lambda x: 5.0 * clipped(x))(2.0)
    Array(1., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None

    @api_boundary
    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False
    ) -> None:
        """Sets the rules, `fwd(*args) -> (result, residuals)` and
        `bwd(*nondiff_args, residuals, cotangent) -> cotangents`.

        `fwd` gets the arguments of the function. Residuals are any tree; leaves that are no arrays
        stay as they are. `bwd` returns a tuple, one entry per argument (without those in
        nondiff_argnums); None stands for zeros, for a whole entry or for a part of it. With
        `symbolic_zeros`, `fwd` gets each leaf as a `CustomVJPPrimal`, and cotangents that are known
        to be zero come as `SymbolicZero`.
        """
        check_rule("defvjp", fwd)
        check_rule("defvjp", bwd)
        self._fwd, self._bwd, self._symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if self._fwd is None or self._bwd is None:
                raise without_rule(self._what, "custom_vjp", "defvjp")
            return self._apply(args, kwargs, (self._fwd, self._bwd), custom_vjp_p, UsersVJPRule)
        except Exception as error:
            trim(error)
            raise


register_closure(custom_vjp, ("_function", "_fwd", "_bwd"), copy.copy)
register_parts(custom_vjp, lambda f: (f._function, f._places, f._fwd, f._bwd, f._symbolic_zeros))


# ---- rules -------------------------------------------------------------------------------------


class VJPRule(Rule):
    """A rule built on `start`, which computes results, residuals and the pullback."""

    def start(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Pullback]:
        """Returns results, residuals, and the pullback from residuals and cotangents."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def jvp(self, primals: Values, tangents: Values) -> Derived:
        active, given, outs, residuals, pullback = self.started(primals, tangents)
        types = tangent_types(outs)
        return outs, with_zeros(outs, pushed_forward(pullback, active, residuals, given, types))

    def linearize(self, primals: Values, tangents: Values) -> Derived:
        active, given, outs, residuals, pullback = self.started(primals, tangents)
        types = tangent_types(outs)
        found: Sequence[Any] = ()
        if types:
            found = custom_vjp_tangents_p.bind(
                *residuals, *given, pullback=pullback, active=active, out_types=types
            )
        return outs, with_zeros(outs, found)

    def started(self, primals: Values, tangents: Values) -> tuple[Any, ...]:
        active, given = nonzero_tangents(tangents)
        return active, given, *self.start(primals, active)

    def mapped(self, axis: AxisData, dims: Dims) -> Rule:
        return MappedVJPRule(self, axis, dims)


def differentiable(value: Any) -> bool:
    return type_of(value).tangent().dtype != dtypes.float0


def tangent_types(outs: Sequence[Any]) -> tuple[ArrayType, ...]:
    """Returns the tangent types of the differentiable results."""
    return tuple(type_of(x).tangent() for x in outs if differentiable(x))


def with_zeros(outs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Merges the tangents of differentiable results with zeros for the others."""
    types = [type_of(x) for x in outs]
    return merge_zeros([differentiable(x) for x in outs], tangents, types)


class UsersVJPRule(VJPRule):
    """The rules of one application: runs the user's rules and checks their results."""

    def __init__(self, application: Application, symbolic_zeros: bool) -> None:
        super().__init__(function_name(application.functions[1]))
        self.application = application
        self.symbolic_zeros = symbolic_zeros

    def start(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Pullback]:
        application = self.application
        functions, nondiff, leaves = application.opened(primals)
        in_types = [type_of(x) for x in leaves]
        if self.symbolic_zeros:
            leaves = [CustomVJPPrimal(x, p) for x, p in zip(leaves, perturbed, strict=True)]
        args = application.arguments(nondiff, application.in_tree.unflatten(leaves))
        found = application.called("its fwd rule", functions[1], args)
        out, residuals = application.pair(found, "fwd", "residuals")
        outs = application.results(out, "the fwd rule")
        captured = list(primals[: application.num_captured])
        pullback = UsersPullback(self, residuals, in_types, [type_of(x) for x in outs])
        return outs, captured + pullback.arrays(residuals), pullback


class MappedVJPRule(VJPRule):
    """The rule of a mapped application, whose results are all mapped along dimension 0."""

    def __init__(self, rule: VJPRule, axis: AxisData, dims: Dims) -> None:
        super().__init__(rule.name)
        self.rule = rule
        self.axis = axis
        self.dims = dims

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


# ---- the backward rule -------------------------------------------------------------------------


def _is_array(value: Any) -> bool:
    """Returns whether a leaf of the residuals is an operand; other leaves stay as they are."""
    if isinstance(value, Tracer):
        return True
    return hasattr(value, "dtype") and hasattr(value, "shape") and not is_float0(value)


class UsersPullback(Pullback):
    """The backward rule of one application, for the residuals of one run of `fwd`."""

    def __init__(
        self,
        rule: UsersVJPRule,
        residuals: Any,
        in_types: list[ArrayType],
        out_types: list[ArrayType],
    ) -> None:
        super().__init__(function_name(rule.application.functions[2]), rule.application.name)
        self.application = rule.application
        self.symbolic_zeros = rule.symbolic_zeros
        self.in_types = in_types
        self.out_types = out_types
        leaves, self.residual_tree = tree.flatten(residuals)
        self.is_array = [_is_array(x) for x in leaves]
        self.fixed = unmarked(self.is_array, leaves)

    def arrays(self, residuals: Any) -> list[Any]:
        """Returns the leaves of the residuals that are operands."""
        return marked(self.is_array, tree.leaves(residuals))

    def __call__(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        application = self.application
        functions, nondiff, arrays = application.opened(residuals)
        leaves = merge(self.is_array, arrays, self.fixed)
        has_tangent = [t.tangent().dtype != dtypes.float0 for t in self.out_types]
        cts = map(self.cotangent, merge_zeros(has_tangent, cotangents, self.out_types))
        found = application.called(
            "its bwd rule",
            functions[2],
            [
                *nondiff,
                self.residual_tree.unflatten(leaves),
                application.out_tree.unflatten(list(cts)),
            ],
        )
        return self.checked(found)

    def cotangent(self, ct: Any) -> Any:
        if type(ct) is not Zero:
            return vector(ct)
        return SymbolicZero(ct.type) if self.symbolic_zeros else zeros(ct.type)

    def checked(self, found: Any) -> list[Any]:
        """Returns the rule's cotangents of the arguments' leaves (None: zero), checked."""
        application, what = self.application, self.application.what
        in_tree = application.in_tree
        count = len(in_tree.children())
        if not isinstance(found, (tuple, list)) or len(found) != count:
            length = f" of length {len(found)}" if isinstance(found, (tuple, list)) else ""
            raise TreeError(
                f"{what}: the bwd rule returns no tuple with one cotangent per argument",
                operation="custom_vjp",
                got=f"{type(found).__name__}{length}",
                wanted=f"a tuple of length {count}",
                fix=Fix("tuple", "return (cotangent,) for one argument"
                        if count == 1 else f"return {count} cotangents", {"length": count}),
            )  # fmt: skip
        dummy = in_tree.unflatten(range(in_tree.num_leaves))
        leaves: list[Any] = []
        if not _spread(tuple(found), dummy, leaves):
            error = check_structure(
                tuple(found),
                in_tree,
                f"{what}: the bwd rule returns cotangents of another structure than the arguments",
                "custom_vjp",
            )
            raise error
        paths = tree.leaves_with_path(dummy)
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
            raise DTypeError(
                f"{what} is for an argument of dtype {primal.dtype}, which has none",
                operation="custom_vjp",
                got=str(type_of(leaf)),
                wanted="None, or zeros of dtype float0",
                fix=Fix("none", "return None for this argument", {}),
            )
        if is_float0(leaf):
            raise DTypeError(
                f"{what} has dtype float0 instead of {wanted.dtype}",
                operation="custom_vjp",
                got="float0",
                wanted=str(wanted),
                fix=Fix("none", "return None where the cotangent is zero", {}),
            )
        (leaf,) = check_results(leaf, [leaf], what)
        return with_axes_of(fitted(leaf, wanted, what, "custom_vjp"), wanted)


def with_axes_of(cotangent: Any, wanted: ArrayType) -> Any:
    """Sums a cotangent over the mesh axes along which it varies and its argument does not: the bwd
    rule computed it from one device's values, and all devices use the argument."""
    extra = type_of(cotangent).varying - wanted.varying
    if extra:
        names = tuple(sorted(extra))
        cotangent = psum_p.bind(cotangent, axis_name=names, axis_index_groups=None)
    return vary(cotangent, wanted.varying)


def _spread(value: Any, wanted: Any, leaves: list[Any]) -> bool:
    """Appends the leaves of a tree to `leaves`, None for each leaf of a subtree of `wanted` where
    it has None; returns False where the two differ in structure."""
    if value is None or type(value) is SymbolicZero:
        leaves.extend([None] * len(tree.leaves(wanted)))
        return True
    children, structure = pytree.flatten(value, lambda x: x is not value)
    others, other = pytree.flatten(wanted, lambda x: x is not wanted)
    if structure != other:
        return False
    if tree.treedef_is_leaf(structure):
        leaves.append(value)
        return True
    return all(_spread(x, y, leaves) for x, y in zip(children, others, strict=True))
