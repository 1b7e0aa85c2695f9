"""Policies for `checkpoint`: which intermediate values to save instead of computing them again.

A policy is called as `policy(primitive, *operand_types, **params)` for each equation of a function
and returns whether to save its results. `checkpoint_name` gives names to values.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from weft import tree
from weft.control_flow.cond import cond_p
from weft.control_flow.scan import scan_p
from weft.core.access_pattern import elementwise_reads
from weft.core.jaxpr import Equation, Jaxpr
from weft.core.primitive import Primitive
from weft.core.rules import AxisData
from weft.core.types import user_value
from weft.errors import Fix, WeftTypeError, WeftValueError
from weft.ops.declare import primitive
from weft.ops.products.convolution import conv_p
from weft.ops.products.dot import dot_general_p
from weft.sharding.sharding import KINDS_OF_MEMORY

T = TypeVar("T")


class Answer:
    """A policy's answer instead of True (`Saveable`) or False (`Recompute`)."""

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
    """The answer of a policy that saves a value in memory of the kind `dst`, read in `src`.

    Args:
        src: The kind of memory that the value is computed and read in.
        dst: The kind of memory that it is kept in until the backward pass.
    """

    src: str
    dst: str


Policy = Callable[..., bool | Answer | Offloadable]


Saved = bool | Offloadable


def saveable(eqn: Equation, policy: Policy | None) -> list[Saved]:
    """Which results of an equation a policy saves (None: none), or where it moves them. Of a scan
    these are the stacked results saved in the body, of a conditional those saved in a branch."""
    if policy is None or policy is nothing_saveable:
        return [False] * len(eqn.outputs)
    if eqn.primitive is scan_p:
        body: Jaxpr = eqn.params["jaxpr"]
        n = eqn.params["num_carry"]
        return [False] * n + [saved_inside(body, atom, policy) for atom in body.outputs[n:]]
    if eqn.primitive is cond_p:
        branches = eqn.params["branches"]
        rows = [[saved_inside(b, atom, policy) for atom in b.outputs] for b in branches]
        return [next(filter(None, column), False) for column in zip(*rows, strict=True)]
    types = [x.type for x in eqn.inputs]
    answer = policy(eqn.primitive, *types, **eqn.params)
    if isinstance(answer, Answer):
        answer = bool(answer)
    if not isinstance(answer, bool | Offloadable):
        message = "a policy of checkpoint answers whether to save"
        got = f"{answer!r:.100} for {eqn.primitive.name}"
        wanted = "True or False, or Saveable, Recompute or an Offloadable"
        advice = "return a bool from the policy: bool(…) of what it returns"
        if callable(answer):
            advice = "it makes a policy: pass what it returns, policy=make(…) for policy=make"
        fix = Fix("call", advice)
        raise WeftTypeError(message, operation="checkpoint", got=got, wanted=wanted, fix=fix)
    return [answer] * len(eqn.outputs)


def saved_inside(body: Jaxpr, atom: Any, policy: Policy) -> Saved:
    for eqn in body.eqns:
        for var, flag in zip(eqn.outputs, saveable(eqn, policy), strict=True):
            if var is atom:
                return flag
    return False


# Policies that answer by the equation alone. One of the user's may read what changes.
_constant: weakref.WeakSet[Policy] = weakref.WeakSet()


def is_constant(policy: Policy | None) -> bool:
    """Whether a policy always answers the same for the same equation."""
    return policy is None or (type(policy) is FunctionType and policy in _constant)


def constant(policy: Policy) -> Policy:
    """Marks a policy that answers by the equation alone."""
    _constant.add(policy)
    return policy


@constant
def everything_saveable(*_: Any, **__: Any) -> bool:
    """Saves every intermediate value that the derivative reads, as if there were no checkpoint."""
    return True


@constant
def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Saves nothing but the arguments: the least memory, and the default of `checkpoint`."""
    return False


@constant
def dots_saveable(primitive: Primitive, *_: Any, **__: Any) -> bool:
    """Saves results of matrix products and convolutions, and computes the cheap rest again."""
    return primitive is dot_general_p or primitive is conv_p


@constant
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

    def policy(primitive: Primitive, *types: Any, **params: Any) -> bool | Answer | Offloadable:
        return first(primitive, *types, **params) or second(primitive, *types, **params)

    return constant(policy) if (is_constant(first) and is_constant(second)) else policy


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """A policy that saves the values given one of some names where they are, and those given one of
    other names in memory of the kind `offload_dst` until they are read, in `offload_src` again.

    On a CPU, which has one memory, they are saved. Raises WeftValueError for a name in both lists.

    >>> import weft
    >>> policy = weft.checkpoint_policies.save_and_offload_only_these_names(
    ...     names_which_can_be_saved=[],
    ...     names_which_can_be_offloaded=["a"],
    ...     offload_src="device",
    ...     offload_dst="pinned_host",
    ... )
    >>> def f(x):
    ...     return jnp.sin(weft.checkpoint_name(jnp.sin(x), "a"))
    >>> print(f"{weft.grad(weft.checkpoint(f, policy=policy))(1.0):.4f}")
    0.3600
    """
    operation = "save_and_offload_only_these_names"
    saved, moved = tuple(names_which_can_be_saved), tuple(names_which_can_be_offloaded)
    both = sorted(set(saved) & set(moved))
    if both:
        message = f"{operation}: a value is saved or offloaded, not both"
        got = f"{', '.join(map(repr, both))} in names_which_can_be_saved and the other list"
        fix = Fix("names", f"leave {both[0]!r} out of one of the lists", {"names": both})
        wanted = "lists without common names"
        raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    answer = _offloadable(operation, offload_src, offload_dst)

    def policy(primitive: Primitive, *_: Any, **params: Any) -> Answer | Offloadable:
        if primitive is name_p and params["name"] in saved:
            return Saveable
        return answer if primitive is name_p and params["name"] in moved else Recompute

    return constant(policy)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """A policy that saves what `dots_with_no_batch_dims_saveable` saves, in memory of the kind
    `offload_dst` until it is read, in `offload_src` again. On a CPU, which has one memory, it is
    saved.

    >>> import weft
    >>> policy = weft.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")
    >>> f = weft.checkpoint(lambda w, x: jnp.sin(w @ x).sum(), policy=policy)
    >>> weft.grad(f)(jnp.eye(2), jnp.zeros(2)).shape
    (2, 2)
    """
    answer = _offloadable("offload_dot_with_no_batch_dims", offload_src, offload_dst)

    def policy(primitive: Primitive, *types: Any, **params: Any) -> Answer | Offloadable:
        dots = dots_with_no_batch_dims_saveable(primitive, *types, **params)
        return answer if dots else Recompute

    return constant(policy)


def _offloadable(operation: str, src: Any, dst: Any) -> Offloadable:
    """The checked answer that moves values from one kind of memory to another."""
    for keyword, kind in (("offload_src", src), ("offload_dst", dst)):
        if kind not in KINDS_OF_MEMORY:
            message = f"{operation}: there is no memory of the kind {kind!r:.100}"
            names = ", ".join(map(repr, KINDS_OF_MEMORY))
            fix = Fix("kind", f"pass {keyword}='device' or 'pinned_host'", {"keyword": keyword})
            got = f"{keyword}={kind!r:.100}"
            wanted = f"one of {names}"
            raise WeftValueError(message, operation=operation, got=got, wanted=wanted, fix=fix)
    return Offloadable(src, dst)


def name_given(eqn: Equation) -> str | None:
    """The name that an equation gives to a value; None for other equations."""
    return eqn.params["name"] if eqn.primitive is name_p else None


def _by_name(what: str, names: tuple[Any, ...], listed: bool, nameless: bool) -> Policy:
    """A policy that saves the values with one of these names (with any other, unless `listed`), and
    those without a name if `nameless`."""
    for name in names:
        if not isinstance(name, str):
            message = f"{what} takes names"
            got = f"{name!r:.100}"
            fix = Fix("unpack", "pass the names one by one: f('a', 'b')")
            raise WeftTypeError(message, operation=what, got=got, wanted="strings", fix=fix)

    def policy(primitive: Primitive, *_: Any, **params: Any) -> bool:
        return (params["name"] in names) is listed if primitive is name_p else nameless

    return constant(policy)


def checkpoint_name(x: T, name: str) -> T:
    """Returns `x` with a name by which a policy can choose its values; trees leaf by leaf.

    name: a string that policies look for, such as those of
    `weft.checkpoint_policies.save_only_these_names`.

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
    linear=True,
    flops="none",
    moves_nothing=True,
)
