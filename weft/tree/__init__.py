"""Pytrees: nested containers of arrays, taken apart into leaves and put together again.

A tree is a leaf or a registered container of trees: list, tuple, namedtuple, dict (keys in sorted
order), OrderedDict (in its own order), defaultdict, `None` (which has no leaves), dataclasses and
other classes that users register. The structure of a tree is a hashable `PyTreeDef`. All functions
here are Python over the C++ flattening of `weft/runtime/jaxlib/pytree.py`; they add key paths, so
that an error can say which leaf of a model it is about.

A *prefix* of a tree is a tree with leaves where the other has subtrees: `in_axes`, shardings
and specs are given as prefixes, and each of their leaves holds for the whole subtree.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeAlias, TypeVar, overload

from weft.base.facades import public_names
from weft.errors import Fix, TreeError
from weft.runtime import pytree
from weft.tree import static_data  # noqa: F401  # it explains errors
from weft.tree.difference import (
    Difference,
    differences,
    equality_errors,
    keystr,
    place,
    prefix_errors,
    same_data,
    view,
    walk,
)
from weft.tree.nodes import (
    Partial,
    is_node,
    register_class,
    register_class_with_keys,
    register_dataclass,
    register_node,
    register_static,
    register_with_keys,
    static,
)

if TYPE_CHECKING:
    from weft.runtime.jaxlib.pytree import (
        DictKey,
        FlattenedIndexKey,
        GetAttrKey,
        KeyEntry,
        KeyPath,
        PyTreeDef,
        SequenceKey,
        flatten_one_level,
        flatten_one_level_with_keys,
        registry,
    )
    from weft.typing import Array, TreeOfAny, TreeOfArrays

# fmt: off
__all__ = [
    "DictKey", "Difference", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial",
    "PyTreeDef", "SequenceKey", "all", "all_leaves", "broadcast", "broadcast_prefix",
    "differences", "equality_errors", "flatten", "flatten_one_level",
    "flatten_one_level_with_keys", "flatten_with_path", "is_node", "keystr", "leaves",
    "leaves_with_path", "map", "map_with_path", "prefix_errors", "prefix_leaves", "reduce",
    "reduce_associative", "register_class", "register_class_with_keys", "register_dataclass",
    "register_node", "register_static", "register_with_keys", "registry", "static", "structure",
    "transpose", "treedef_children", "treedef_is_leaf", "treedef_tuple", "unflatten",
]
# fmt: on

__dir__ = public_names(globals())

IsLeaf: TypeAlias = Callable[[Any], bool] | None

R = TypeVar("R")
Tree = TypeVar("Tree", bound="TreeOfArrays")

_MISSING: Any = object()

# Names that come from the registry's module and are looked up there when they are needed.
_FROM_REGISTRY = frozenset(
    "DictKey FlattenedIndexKey GetAttrKey KeyEntry KeyPath PyTreeDef SequenceKey "
    "flatten_one_level flatten_one_level_with_keys registry".split()
)


def __getattr__(name: str) -> Any:
    if name in _FROM_REGISTRY:
        return getattr(pytree, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Taking apart and putting together


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, from left to right, and its structure.

    `is_leaf(subtree)` says whether to keep it whole. Raises TreeError for a dict whose keys cannot
    be sorted, for a tree that contains itself, and for one that is nested too deep for Python's
    recursion (some 950 levels).

    >>> flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    try:
        return pytree.flatten(tree, is_leaf)
    except TreeError:
        raise
    except ValueError:
        _explain_unsortable(tree, is_leaf)
        raise


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with this structure and these leaves. Raises TreeError for a wrong number of them.

    leaves: the leaves, from left to right.

    >>> unflatten(structure({"a": 0, "b": (0, 0)}), [1, 2, 3])
    {'a': 1, 'b': (2, 3)}
    """
    try:
        return treedef.unflatten(leaves)
    except ValueError as error:
        # Other errors come from the constructor of a class in the tree.
        if not str(error).startswith(("Too few leaves", "Too many leaves")):
            raise
        count = len(leaves) if isinstance(leaves, Sequence) else "another number of"
        message = "the number of leaves does not fit the structure"
        wanted = f"{treedef.num_leaves} leaves for {treedef}"
        fix = Fix("count", f"pass {treedef.num_leaves} leaves", {"num_leaves": treedef.num_leaves})
        raise TreeError(
            message, operation="tree.unflatten", got=f"{count} leaves", wanted=wanted, fix=fix
        ) from None


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, from left to right."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree."""
    return flatten(tree, is_leaf)[1]


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves with the path of keys that leads to each, and the structure.

    With `is_leaf_takes_path` the predicate is called with the path and the subtree.

    >>> flatten_with_path({"w": [5]})[0]
    [((DictKey(key='w'), SequenceKey(idx=0)), 5)]
    """
    try:
        if is_leaf is None or is_leaf_takes_path:
            return pytree.flatten_with_path(tree, is_leaf)
        return pytree.flatten_with_path(tree, lambda _path, subtree: is_leaf(subtree))
    except TreeError:
        raise
    except ValueError:
        _explain_unsortable(tree, None if is_leaf_takes_path else is_leaf)
        raise


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The pairs (path, leaf) of a tree, from left to right.

    is_leaf_takes_path: whether `is_leaf` is called with the path and the subtree, not with the
    subtree alone.
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def _explain_unsortable(tree: Any, is_leaf: IsLeaf, path: KeyPath = ()) -> None:
    """Raises TreeError if the tree holds a dict whose keys cannot be sorted."""
    if is_leaf is not None and is_leaf(tree):
        return
    if isinstance(tree, dict) and pytree.is_node(type(tree)):
        try:
            sorted(tree)
        except Exception as cause:
            kinds = sorted({type(key).__name__ for key in tree})
            raise TreeError(
                f"the keys of the {type(tree).__name__} at {place(path)} of the tree cannot be "
                "sorted, and the order of leaves must not depend on the order of insertion",
                operation="tree.flatten",
                got=f"keys of type {', '.join(kinds)}",
                wanted="keys that can be compared with <",
                fix=Fix("keys", "use keys of one type, for example str", {"path": path}),
            ) from cause
    level = pytree.flatten_one_level_with_keys(tree)
    if level is not None:
        for key, child in level[0]:
            _explain_unsortable(child, is_leaf, (*path, key))


# Functions over all leaves


# A type checker takes the result for a tree of the same type where arrays become arrays. It knows
# nothing of the result where it knows nothing of a leaf, or of what the function returns: only a
# function that returns `Any` passes for one that never returns.
@overload
def map(f: Callable[..., Any], tree: TreeOfAny, *rest: Any, is_leaf: IsLeaf = None) -> Any: ...
@overload
def map(f: Callable[[Array], Never], tree: TreeOfArrays, *, is_leaf: None = None) -> Any: ...
@overload
def map(f: Callable[[Array], Array], tree: Tree, *, is_leaf: None = None) -> Tree: ...
@overload
def map(
    f: Callable[..., Any], tree: Any, other: TreeOfAny, /, *, is_leaf: IsLeaf = None
) -> Any: ...
@overload
def map(
    f: Callable[[Array, Array], Never], tree: TreeOfArrays, other: TreeOfArrays, /, *,
    is_leaf: None = None,
) -> Any: ...  # fmt: skip
@overload
def map(
    f: Callable[[Array, Array], Array], tree: Tree, other: TreeOfArrays, /, *, is_leaf: None = None
) -> Tree: ...
@overload
def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any: ...
def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Calls `f` on each leaf and returns the tree of the results.

    The trees in `rest` have `tree` as a prefix; `f` also gets their subtrees at the path of the
    leaf. Raises TreeError if they do not match. An error that `f` raises carries a note with the
    path of the leaf.

    f: a function of a leaf, and of a subtree of each of `rest`; rest: further trees, of which
    `tree` is a prefix.

    >>> map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    values, treedef = flatten(tree, is_leaf)
    others = [
        _flatten_up_to("tree.map", tree, treedef, other, is_leaf, position)
        for position, other in enumerate(rest, 2)
    ]
    results: list[Any] = []
    append = results.append
    try:
        for column in zip(values, *others, strict=True):
            append(f(*column))
    except Exception as error:
        _note_path(error, leaves_with_path(tree, is_leaf)[len(results)][0])
        raise
    return treedef.unflatten(results)


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `map`, with the key path of the leaf as the first argument of `f`.

    Args:
        f: A function of the key path, of the leaf, and of a part of each of `rest`.
        rest: Further trees, of which `tree` is a prefix; their parts are the further arguments of
            `f`.
        is_leaf_takes_path: Whether `is_leaf` is called with the path and the subtree, not with the
            subtree alone.

    >>> map_with_path(lambda path, x: keystr(path) + "=" + str(x), {"a": [1, 2]})
    {'a': ["['a'][0]=1", "['a'][1]=2"]}
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    # Only the explanation of a mismatch needs the predicate, and it has no paths to give it.
    explain = None if is_leaf_takes_path else is_leaf
    others = [
        _flatten_up_to("tree.map_with_path", tree, treedef, other, explain, position)
        for position, other in enumerate(rest, 2)
    ]
    results = []
    for (path, leaf), *column in zip(pairs, *others, strict=True):
        try:
            results.append(f(path, leaf, *column))
        except Exception as error:
            _note_path(error, path)
            raise
    return treedef.unflatten(results)


def _note_path(error: Exception, path: KeyPath) -> None:
    if path:
        error.add_note(f"This happened at the leaf {keystr(path)} of the tree.")


def _flatten_up_to(
    operation: str, tree: Any, treedef: PyTreeDef, other: Any, is_leaf: IsLeaf, position: int
) -> list[Any]:
    """The subtrees of `other` at the leaves of `treedef`, which is the structure of `tree`."""
    try:
        return treedef.flatten_up_to(other)
    except ValueError as error:
        # The views the other way round: the remedy is for `other`, which must match the first tree.
        for found in walk(view(tree, is_leaf), view(other), prefix=True):
            message = f"the trees differ at {place(found.path)}"
            got = f"{found.right} in tree number {position}"
            wanted = f"{found.left}, as in the first tree"
            fix = Fix(
                "restructure",
                f"in the first tree: {found.fix.text}; or keep a subtree whole with is_leaf",
                found.fix.data,
            )
            raise TreeError(message, operation=operation, got=got, wanted=wanted, fix=fix) from None
        raise TreeError(f"the trees differ: {error}", operation=operation) from error


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true (True for a tree without leaves)."""
    return builtins.all(leaves(tree, is_leaf))


@overload
def reduce(
    function: Callable[[R, Any], R], tree: Any, initializer: R, is_leaf: IsLeaf = None
) -> R: ...
@overload
def reduce(function: Callable[[R, R], R], tree: Any, *, is_leaf: IsLeaf = None) -> R: ...
def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combines the leaves from left to right, starting with `initializer` if there is one.

    function: takes the result so far and a leaf, and returns the next result; initializer: the
    first result; without it the first leaf is.

    Raises TreeError for a tree without leaves and no `initializer`.

    >>> reduce(lambda total, x: total + x, {"a": 1, "b": [2, 3]})
    6
    """
    values = leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, values, initializer)
    _require_leaves("tree.reduce", "initializer", values)
    return functools.reduce(function, values)


def reduce_associative(
    operation: Callable[[R, R], R], tree: Any, *, identity: R = _MISSING, is_leaf: IsLeaf = None
) -> R:
    """Combines the leaves in pairs, round by round, so that few steps depend on each other.

    operation: takes two leaves or results and returns one; it has to be associative; identity: the
    result for a tree without leaves.

    Raises TreeError for a tree without leaves and no `identity`.

    >>> reduce_associative(lambda x, y: f"({x}{y})", ["a", "b", "c", "d"])
    '((ab)(cd))'
    """
    values = leaves(tree, is_leaf)
    if not values and identity is not _MISSING:
        return identity
    _require_leaves("tree.reduce_associative", "identity", values)
    while len(values) > 1:
        last = values[-1:] if len(values) % 2 else []
        pairs = zip(values[0::2], values[1::2], strict=False)
        values = [operation(x, y) for x, y in pairs] + last
    combined: R = values[0]
    return combined


def _require_leaves(operation: str, argument: str, values: list[Any]) -> None:
    if not values:
        message = "the tree has no leaves to combine"
        wanted = f"a leaf, or the argument {argument}"
        fix = Fix("argument", f"pass {argument}=", {"argument": argument})
        raise TreeError(message, operation=operation, got="0 leaves", wanted=wanted, fix=fix)


def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turns a tree of trees inside out: from outer of inner to inner of outer.

    `inner_treedef=None` means that of the first subtree. Raises TreeError if the tree has
    another structure.

    outer_treedef: the structure of the outer tree; pytree_to_transpose: a tree of the outer
    structure, each of whose leaves is a tree of the inner one.

    >>> transpose(structure([0, 0]), structure({"x": 0}), [{"x": 1}, {"x": 2}])
    {'x': [1, 2]}
    """
    values, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        found = prefix_errors(outer_treedef, pytree_to_transpose)
        if found:
            text = f"in the outer structure: {found[0].fix.text}"
            raise _transpose_error("the outer structure", found[0], text)
        subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
        inner_treedef = structure(subtrees[0] if subtrees else None)
    expected = outer_treedef.compose(inner_treedef)
    if treedef != expected:
        # A class may take apart more than its children: then what it is made of again decides.
        inner = [
            unflatten(inner_treedef, [0] * inner_treedef.num_leaves)
        ] * outer_treedef.num_leaves
        expected = structure(unflatten(outer_treedef, inner))
    if treedef != expected:
        found = differences(expected, treedef)
        # A structure has one inner structure for all places: the tree is what can be changed.
        text = f"in the tree: {differences(treedef, expected)[0].fix.text}"
        raise _transpose_error("the inner structure within the outer one", found[0], text)
    size = inner_treedef.num_leaves
    columns = [values[start::size] for start in range(size)]
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def _transpose_error(what: str, found: Difference, text: str) -> TreeError:
    message = f"the tree is not made of {what}; they differ at {place(found.path)}"
    got = f"{found.right} in the tree"
    fix = Fix("restructure", text, {"path": found.path})
    return TreeError(message, operation="tree.transpose", got=got, wanted=found.left, fix=fix)


# Structures


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether none of the values is a container.

    iterable: the values that are looked at.
    """
    if is_leaf is None:
        return pytree.all_leaves(iterable)
    values = list(iterable)
    found = leaves(values, lambda x: x is not values and is_leaf(x))
    return len(found) == len(values) and builtins.all(
        x is y for x, y in zip(found, values, strict=True)
    )


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees that have these structures.

    treedefs: the structures of the elements.
    """
    return pytree.treedef_tuple(list(treedefs))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children of the outermost container."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether this is the structure of a leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


# Prefixes


def prefix_leaves(name: str, prefix: Any, full: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """For each leaf of `full` (a tree or a structure) the leaf of `prefix` that holds for it.

    `name` is the name of the prefix in errors, such as "in_axes". Raises TreeError if it is not
    a prefix of `full`.

    full: a tree or a structure.

    >>> prefix_leaves("in_axes", (0, 1), structure(({"w": 0, "b": 0}, 0)))
    [0, 0, 1]
    """
    values, prefix_def = flatten(prefix, is_leaf)
    full_def = full if isinstance(full, pytree.PyTreeDef) else structure(full)
    if treedef_is_leaf(prefix_def):
        return values * full_def.num_leaves
    if prefix_def == full_def:
        return values
    counts: list[int] = []
    if not _count_leaves(prefix_def, full_def, counts):
        found = prefix_errors(prefix, full, is_leaf)[0]
        at = place(found.path)
        message = f"{name} is not a prefix of the tree it is for; they differ at {at}"
        wanted = f"{found.right} as in the tree, or one value for all of it"
        raise TreeError(
            message, operation=None, got=f"{found.left} in {name}", wanted=wanted, fix=found.fix
        )
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def _count_leaves(prefix: PyTreeDef, full: PyTreeDef, counts: list[int]) -> bool:
    """Appends the number of leaves of `full` under each leaf of `prefix`; False if they differ."""
    rest = [(prefix, full)]  # not by recursion: trees may be as deep as that goes
    while rest:
        prefix, full = rest.pop()
        prefix_node, full_node = prefix.node_data(), full.node_data()
        if prefix_node is None:
            counts.append(full.num_leaves)
            continue
        if full_node is None or prefix_node[0] is not full_node[0]:
            return False
        children, others = prefix.children(), full.children()
        if len(children) != len(others) or not same_data(prefix_node[1], full_node[1]):
            return False
        rest += zip(reversed(children), reversed(others), strict=True)
    return True


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """For each leaf of `full_tree` the leaf of `prefix_tree` that holds for it.

    prefix_tree: a tree whose leaves each stand for a part of the other; full_tree: the tree whose
    leaves are counted.

    Raises TreeError if `prefix_tree` is not a prefix of `full_tree`.

    >>> broadcast_prefix([1, 2], [{"a": 0, "b": 0}, 0])
    [1, 1, 2]
    """
    return prefix_leaves("the prefix tree", prefix_tree, full_tree, is_leaf)


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with the structure of `full_tree` and the values of `prefix_tree`.

    prefix_tree: a tree whose leaves each stand for a part of the other; full_tree: the tree whose
    structure the result has.

    >>> broadcast([1, 2], [{"a": 0, "b": 0}, 0])
    [{'a': 1, 'b': 1}, 2]
    """
    values = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return structure(full_tree).unflatten(values)
