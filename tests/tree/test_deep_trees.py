"""Trees of many levels, trees that contain themselves, and what their errors leave behind."""

from __future__ import annotations

import collections
import dataclasses

import pytest

import weft
import weft.numpy as jnp
from weft import tree
from weft.errors import TreeError
from weft.native import optional
from weft.runtime import pytree

compiled_only = pytest.mark.skipif(
    optional.calls is None,
    reason="jaxlib loses count of recursion; the compiled module puts it back",
)
X = jnp.ones(2)


@tree.register_dataclass
@dataclasses.dataclass
class Box:
    """A dataclass with one child."""

    child: object


class Node:
    """A container with a function of its own that takes it apart."""

    def __init__(self, child):
        self.child = child


tree.register_node(Node, lambda node: ((node.child,), None), lambda _, given: Node(*given))

WRAPPERS = {
    "list": lambda t: [t],
    "tuple": lambda t: (t,),
    "dict": lambda t: {"a": t},
    "OrderedDict": lambda t: collections.OrderedDict(a=t),
    "dataclass": Box,
    "node": Node,
    "mixed": lambda t: [Node({"a": Box((t,))})],
}
USES = {
    "leaves": tree.leaves,
    "structure": tree.structure,
    "map": lambda t: tree.map(lambda x: x, t),
    "map of two": lambda t: tree.map(lambda x, y: x, t, t),
    "paths": tree.leaves_with_path,
    "map_with_path": lambda t: tree.map_with_path(lambda path, x: x, t),
    "unflatten": lambda t: tree.unflatten(tree.structure(t), tree.leaves(t)),
    "broadcast": lambda t: tree.broadcast(0, t),
    "prefix of a tree": lambda t: tree.broadcast_prefix(t, tree.map(lambda x: (x, x), t)),
    "differences": lambda t: tree.differences(t, t),
    "transpose": lambda t: tree.transpose(
        tree.structure(t), tree.structure((0, 0)), tree.map(lambda x: (x, x), t)
    ),
    "jit": lambda t: [weft.jit(lambda t: t)(t) for _ in range(2)],
    "jit, called again": lambda t: same(same(t)),
    "grad": lambda t: weft.grad(lambda t: sum(jnp.sum(x) for x in tree.leaves(t)))(t),
    "vmap": lambda t: weft.vmap(lambda t: t, in_axes=(0,))(t),
    "jvp": lambda t: weft.jvp(lambda t: t, (t,), (t,)),
    "scan": lambda t: weft.lax.scan(lambda c, _: (c, None), t, None, length=2),
    "checkpoint": lambda t: weft.checkpoint(lambda t: t)(t),
    "device_put": weft.device_put,
    "block_until_ready": weft.block_until_ready,
    "eval_shape": lambda t: weft.eval_shape(lambda t: t, t),
}
same = weft.jit(lambda t: t)


def nested(levels, wrap):
    found = X
    for _ in range(levels):
        found = wrap(found)
    return found


def cycle(kind):
    """A container that contains itself."""
    if kind == "list":
        found = [1.0]
        found.append([found])
    elif kind == "dict":
        found = {"a": 1.0}
        found["b"] = (found,)
    else:
        found = Node(None)
        found.child = [1.0, found]
    return found


def recursion_left():
    """How many nested calls of Python are allowed here."""

    def count(n):
        try:
            return count(n + 1)
        except RecursionError:
            return n

    return count(0)


@pytest.mark.parametrize("wrap", ["list", "dict", "node"])
def test_hundreds_of_levels_are_a_tree_like_any_other(wrap):
    given = nested(500, WRAPPERS[wrap])
    for use in USES.values():
        use(given)


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_hundreds_of_levels_keep_their_leaves(wrap):
    given = nested(150 if wrap == "mixed" else 500, WRAPPERS[wrap])
    for function in (same, weft.jit(lambda t: tree.map(lambda x: x, t))):
        for _ in range(3):
            (leaf,) = tree.leaves(function(given))
            assert leaf.shape == (2,)


@compiled_only
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_too_many_levels_are_named(wrap):
    given = nested(20_000, WRAPPERS[wrap])
    for use in USES.values():
        with pytest.raises(TreeError, match="nested deeper") as caught:
            use(given)
        cause = caught.value.__cause__
        assert isinstance(cause, RecursionError) or isinstance(cause.__cause__, RecursionError)


@compiled_only
@pytest.mark.parametrize("kind", ["list", "dict", "node"])
def test_a_tree_that_contains_itself_is_named(kind):
    given = cycle(kind)
    for use in USES.values():
        with pytest.raises(TreeError, match="contains itself"):
            use(given)


def test_a_container_twice_in_a_tree_is_no_cycle():
    shared = [X]
    assert len(tree.leaves([shared, {"a": shared, "b": (shared, shared)}])) == 4
    with pytest.raises(TreeError, match="nested deeper"):
        tree.leaves([shared, shared, nested(20_000, WRAPPERS["list"])])


def test_the_recursion_of_a_users_function_is_his_own():
    class Endless:
        pass

    def take_apart(value):
        return take_apart(value)

    tree.register_node(Endless, take_apart, lambda _, given: Endless())
    with pytest.raises(RecursionError):
        tree.leaves([Endless()])


class Refused:
    """A container that cannot be taken apart."""


def refuse(_):
    raise ValueError("refused")


tree.register_node(Refused, refuse, lambda _, given: Refused())


@compiled_only
@pytest.mark.parametrize(
    "given, is_leaf",
    [
        ([[[[Refused()]]]], None),
        ([[[[{1: 1, "a": 2}]]]], None),
        ([[[[1]]]], lambda x: 1 / 0 if x == 1 else False),
        (nested(20_000, Node), None),
        (cycle("node"), None),
    ],
    ids=["its own error", "unsortable keys", "is_leaf", "deep", "cycle"],
)
@pytest.mark.parametrize("function", [pytree.flatten, tree.leaves, tree.leaves_with_path])
def test_an_error_of_a_tree_uses_up_no_recursion(function, given, is_leaf):
    before = recursion_left()
    for _ in range(60):
        with pytest.raises((ValueError, ZeroDivisionError)):
            function(given, is_leaf)
    assert recursion_left() == before
    repr(eval("[" * 80 + "]" * 80))  # C functions count for themselves since Python 3.12
