"""Policies for `checkpoint`: which intermediate values to save instead of computing them again.

A policy is called as `policy(primitive, *operand_types, **params)` for each equation of a function
and returns whether to save its results. `checkpoint_name` gives names to values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from weft import tree
from weft.control_flow.cond import cond_p
from weft.control_flow.scan import scan_p
from weft.core.access_pattern import elementwise_reads
from weft.core.jaxpr import Equation, Jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData
from weft.core.types import user_value
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError
from weft.ops.declare import primitive
from weft.ops.products.convolution import conv_p
from weft.ops.products.dot import dot_general_p

__all__ = [
    "checkpoint_dots", "checkpoint_dots_with_no_batch_dims", "checkpoint_name", "dots_saveable",
    "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
    "offload_dot_with_no_batch_dims", "save_and_offload_only_these_names",
    "save_any_names_but_these", "save_anything_except_these_names", "save_from_both_policies",
    "save_only_these_names",
]  # fmt: skip

T = TypeVar("T")


class Answer:
    """What a policy may answer instead of True (`Saveable`) or False (`Recompute`)."""

    __slots__ = ("name", "saves")

    def __init__(self, name: str, saves: bool) -> None:
        self.name, self.saves = name, saves

    def __bool__(self) -> bool:
        return self.saves

    def __repr__(self) -> str:
        return self.name


Saveable = Answer("Saveable", True)
Recompute = Answer("Recompute", False)


class Offloadable(NamedTuple):
    """The answer of a policy that saves a value in another kind of memory than it was made in."""

    src: str
    dst: str


Policy = Callable[..., bool | Answer | Offloadable]


def saveable(eqn: Equation, policy: Policy | None) -> list[bool]:
    """Returns which results of an equation a policy saves (None: none); of a scan, the stacked
    results that the policy saves inside the body, of a conditional those that it saves in a branch.
    """
    if policy is None or policy is nothing_saveable:
        return [False] * len(eqn.outputs)
    if eqn.primitive is scan_p:
        body: Jaxpr = eqn.params["jaxpr"]
        n = eqn.params["num_carry"]
        return [False] * n + [saved_inside(body, atom, policy) for atom in body.outputs[n:]]
    if eqn.primitive is cond_p:
        branches = eqn.params["branches"]
        rows = [[saved_inside(b, atom, policy) for atom in b.outputs] for b in branches]
        return [any(column) for column in zip(*rows, strict=True)]
    types = [x.type for x in eqn.inputs]
    answer = policy(eqn.primitive, *types, **eqn.params)
    if isinstance(answer, Offloadable):
        raise _no_offloading(f"checkpoint: {answer}", "Saveable")
    if isinstance(answer, Answer):
        answer = bool(answer)
    if not isinstance(answer, bool):
        message = "a policy of checkpoint answers whether to save"
        got = f"{answer!r:.100} for {eqn.primitive.name}"
        wanted = "True or False, or Saveable or Recompute"
        advice = "return a bool from the policy: bool(…) of what it returns"
        if callable(answer):
            advice = "it makes a policy: pass what it returns, policy=make(…) for policy=make"
        fix = Fix("call", advice)
        raise WeftTypeError(message, operation="checkpoint", got=got, wanted=wanted, fix=fix)
    return [answer] * len(eqn.outputs)


def saved_inside(body: Jaxpr, atom: Any, policy: Policy) -> bool:
    for eqn in body.eqns:
        for var, flag in zip(eqn.outputs, saveable(eqn, policy), strict=True):
            if var is atom:
                return flag
    return False


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Saves every intermediate value that the derivative reads, as if there were no checkpoint."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Saves nothing but the arguments: the least memory, and the default of `checkpoint`."""
    return False


def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Saves results of matrix products and convolutions, and computes the cheap rest again."""
    return primitive is dot_general_p or primitive is conv_p


def dots_with_no_batch_dims_saveable(primitive: Primitive, *_: Any, **params: Any) -> bool:
    """Saves results of matrix products without batch dimensions: of weights with activations."""
    if primitive is not dot_general_p:
        return False
    _, (left, right) = params["dimension_numbers"]
    return not left and not right


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names: str) -> Policy:
    """A policy that saves the values given one of these names, and no others."""
    return _by_name("save_only_these_names", names, True, False)


def save_any_names_but_these(*names: str) -> Policy:
    """A policy that saves the values given any name but these, and no others."""
    return _by_name("save_any_names_but_these", names, False, False)


def save_anything_except_these_names(*names: str) -> Policy:
    """A policy that saves everything but the values given one of these names."""
    return _by_name("save_anything_except_these_names", names, False, True)


MAKERS_BY_NAME = (
    save_only_these_names, save_any_names_but_these, save_anything_except_these_names,
)  # fmt: skip


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """A policy that saves the values that at least one of two policies saves."""

    def policy(
        primitive: Primitive, *types: Any, **params: Any
    ) -> bool | Answer | Offloadable:
        return first(primitive, *types, **params) or second(primitive, *types, **params)

    return policy


def save_and_offload_only_these_names(**_: Any) -> Policy:
    """Raises WeftNotImplementedError: values cannot be moved to the host's memory yet."""
    raise _no_offloading("save_and_offload_only_these_names", "save_only_these_names(…)")


def offload_dot_with_no_batch_dims(*_: Any, **__: Any) -> Policy:
    """Raises WeftNotImplementedError: values cannot be moved to the host's memory yet."""
    raise _no_offloading("offload_dot_with_no_batch_dims", "dots_with_no_batch_dims_saveable")


def _no_offloading(what: str, instead: str) -> WeftNotImplementedError:
    return WeftNotImplementedError(
        f"{what}: saved values stay in the memory of the device; moving them to the host's is not "
        "there yet",
        operation=what,
        wanted="a policy that saves on the device",
        fix=Fix("policy", f"use {instead}", {"policy": instead}),
    )


def name_given(eqn: Equation) -> str | None:
    """The name that an equation gives to a value; None for other equations."""
    return eqn.params["name"] if eqn.primitive is name_p else None


def _by_name(what: str, names: tuple[Any, ...], listed: bool, nameless: bool) -> Policy:
    """A policy that saves the values with one of these names (with any other, unless `listed`), and
    those without a name where `nameless` says so."""
    for name in names:
        if not isinstance(name, str):
            message = f"{what} takes names"
            got = f"{name!r:.100}"
            fix = Fix("unpack", "pass the names one by one: f('a', 'b')")
            raise WeftTypeError(message, operation=what, got=got, wanted="strings", fix=fix)

    def policy(primitive: Primitive, *_: Any, **params: Any) -> bool:
        return (params["name"] in names) is listed if primitive is name_p else nameless

    return policy


def checkpoint_name(x: T, name: str) -> T:
    """Returns `x` with a name by which a policy can choose its values; trees leaf by leaf.

    >>> import weft
    >>> weft.checkpoint_name(2.0, "activation")
    Array(2., dtype=float32, weak_type=True)
    """
    if not isinstance(name, str):
        message = "checkpoint_name takes names that are strings"
        fix = Fix("string", f"pass a string: {str(name)!r}", {"name": str(name)})
        raise WeftTypeError(
            message, operation="checkpoint_name", got=f"{name!r:.100}", wanted="a string", fix=fix
        )
    return tree.map(lambda leaf: name_p.bind(user_value(leaf), name=name), x)


def name_vmap(axis: AxisData, args: Any, dims: Any, *, name: str) -> tuple[Any, int | None]:
    return name_p.bind(args[0], name=name), dims[0]


def name_jvp(primals: Any, tangents: Any, *, name: str) -> tuple[Any, Any]:
    return name_p.bind(primals[0], name=name), tangents[0]


name_p = primitive(
    "name",
    type_rule=lambda x, name: x,
    jvp=name_jvp,
    transpose=lambda ct, x, name: [ct],
    vmap=name_vmap,
    reads=elementwise_reads,
    lower=lambda context, x, name: x,
)
