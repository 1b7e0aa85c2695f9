"""Describes where two trees differ: the part of pytrees that only errors need.

Trees and structures are walked side by side, one level at a time, and each step is named by its
key. A structure alone knows the keys of the builtin containers, namedtuples and dataclasses; for
other classes a tree is needed, or their children are numbered.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import Fix
from weft.runtime import pytree
from weft.tree import nodes

if TYPE_CHECKING:
    from weft.runtime.jaxlib.pytree import KeyPath, PyTreeDef


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """The keys of a path as text: as Python would index, or with `simple` the bare names.

    keys: a path, a tuple of keys as in `leaves_with_path`; separator: the text between the keys.

    >>> from weft.tree import DictKey, GetAttrKey, SequenceKey
    >>> path = (DictKey("w"), SequenceKey(0), GetAttrKey("x"))
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['w'][0].x", 'w/0/x')
    """
    return separator.join([_simple_key(key) if simple else str(key) for key in keys])


def _simple_key(key: Any) -> str:
    if isinstance(key, pytree.DictKey | pytree.FlattenedIndexKey):
        return str(key.key)
    if isinstance(key, pytree.SequenceKey):
        return str(key.idx)
    return key.name if isinstance(key, pytree.GetAttrKey) else str(key)


def place(path: KeyPath) -> str:
    """A key path as part of a sentence."""
    return keystr(path) or "the top"


class Difference(NamedTuple):
    """A difference of two trees: its path, what each has there, and how to fix the left one.

    `fix.data` always has the "path", and a "replacement" of the subtree there if it is plain.

    Args:
        path: The keys that lead to the difference.
        left: What the first tree has there, in words.
        right: What the second tree has there, in words.
        fix: How to make the first tree like the second.
    """

    path: KeyPath
    left: str
    right: str
    fix: Fix


class View(NamedTuple):
    """The outermost level of a tree or of a structure. `kind` is None for a leaf."""

    kind: type | None
    data: Any
    keys: list[Any]
    children: list[Callable[[], View]]
    tree: Any


_UNKNOWN: Any = object()  # The tree of a view that was made from a structure.


def view(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> View:
    """The outermost level of a tree, or of a structure."""
    if isinstance(tree, pytree.PyTreeDef):
        return _view_of_treedef(tree)
    return _view_of_tree(tree, is_leaf)


def _view_of_tree(tree: Any, is_leaf: Callable[[Any], bool] | None) -> View:
    level = None
    if is_leaf is None or not is_leaf(tree):
        level = pytree.flatten_one_level_with_keys(tree)
    if level is None:
        return View(None, None, [], [], tree)
    pairs = list(level[0])
    return View(
        type(tree),
        _comparable(type(tree), level[1]),
        [key for key, _ in pairs],
        [functools.partial(_view_of_tree, child, is_leaf) for _, child in pairs],
        tree,
    )


def _view_of_treedef(treedef: PyTreeDef) -> View:
    node = treedef.node_data()
    if node is None:
        return View(None, None, [], [], _UNKNOWN)
    kind, data = node
    children = treedef.children()
    return View(
        kind,
        _comparable(kind, data),
        _keys_of(kind, data, len(children)),
        [functools.partial(_view_of_treedef, child) for child in children],
        _UNKNOWN,
    )


def _comparable(kind: type, data: Any) -> Any:
    # The C++ side gives these data in one form for a tree and in another for a structure.
    if kind is dict:
        return list(data)
    return None if pytree.is_namedtuple(kind) else data


def _keys_of(kind: type, data: Any, count: int) -> list[Any]:
    """The keys of a container of which only the structure is known."""
    if kind in (list, tuple):
        return [pytree.SequenceKey(index) for index in range(count)]
    if kind in (dict, collections.OrderedDict):
        return [pytree.DictKey(key) for key in data]
    if kind is collections.defaultdict:
        return [pytree.DictKey(key) for key in data[1]]
    names = nodes.field_names(kind)
    if names is not None:
        return [pytree.GetAttrKey(name) for name in names]
    return [pytree.FlattenedIndexKey(index) for index in range(count)]


def same_data(left: Any, right: Any) -> bool:
    """Whether the data of two containers are equal."""
    if left is right:
        return True
    try:
        return bool(left == right)
    except (TypeError, ValueError):  # Such as arrays in the data, which should not be there.
        return False


def walk(left: View, right: View, path: KeyPath = (), *, prefix: bool) -> Iterator[Difference]:
    """The differences of two trees; with `prefix` a leaf on the left agrees with anything."""
    if left.kind is None and (prefix or right.kind is None):
        return
    if (
        left.kind is not right.kind
        or len(left.children) != len(right.children)
        or not same_data(left.data, right.data)
    ):
        yield Difference(path, *_describe_both(left, right), _fix(path, left, right))
        return
    # Only a tree knows the keys of every class.
    keys = right.keys if left.tree is _UNKNOWN else left.keys
    for key, child, other in zip(keys, left.children, right.children, strict=True):
        yield from walk(child(), other(), (*path, key), prefix=prefix)


_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _describe_both(left: View, right: View) -> tuple[str, str]:
    left_text, right_text = _describe(left), _describe(right)
    if left_text == right_text:  # What differs is then the data of a class, or its module.
        left_text += f", data {left.data!r}, class {left.kind!r}"
        right_text += f", data {right.data!r}, class {right.kind!r}"
    return left_text, right_text


def _describe(node: View) -> str:
    kind, count = node.kind, len(node.children)
    if kind is None:
        return _describe_leaf(node.tree)
    if kind is type(None):
        return "None"
    if kind in _DICTS:
        return f"a {kind.__name__} with keys {[key.key for key in node.keys]}"
    if kind in (list, tuple):
        return f"a {kind.__name__} of length {count}"
    children = "1 child" if count == 1 else f"{count} children"
    return f"a {kind.__name__} with {children}"


def _describe_leaf(leaf: Any) -> str:
    if leaf is _UNKNOWN:
        return "a leaf"
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"an array of shape {shape} and dtype {dtype}"
    if leaf is None or isinstance(leaf, bool | int | float | complex | str):
        return f"the leaf {leaf!r}"
    return f"a leaf of type {type(leaf).__name__}"


def _fix(path: KeyPath, left: View, right: View) -> Fix:
    """The change that gives the left tree the structure of the right one at this path."""
    at = f"at {keystr(path)} " if path else ""
    data: dict[str, Any] = {"path": path}
    if (
        left.kind in (list, tuple)
        and right.kind in (list, tuple)
        and left.kind is not right.kind
        and len(left.children) == len(right.children)
    ):
        text = f"{at}write a {right.kind.__name__} instead of a {left.kind.__name__}"
        if left.tree is not _UNKNOWN:
            data["replacement"] = right.kind(left.tree)
    elif right.kind is None:
        text = f"{at}write one leaf instead of {_describe(left)}"
    elif right.kind is type(None):
        text = f"{at}write None"
        data["replacement"] = None
    elif right.kind in _DICTS:
        keys = [key.key for key in right.keys]
        text = f"{at}write a {right.kind.__name__} with the keys {keys}"
        data["keys"] = keys
    else:
        text = f"{at}write {_describe(right)}"
        data["length"] = len(right.children)
        if left.kind is right.kind and len(left.children) == len(right.children):
            text += f" and the data {right.data!r:.100}"
    return Fix("restructure", text, data)


def differences(
    left: Any, right: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Difference]:
    """The differences of two trees (or structures): the outermost one of each branch.

    left: the first tree or structure; right: the second tree or structure.
    """
    return _list_differences(left, walk(view(left, is_leaf), view(right, is_leaf), prefix=False))


def _list_differences(tree: Any, found: Iterator[Difference]) -> list[Difference]:
    """The differences of a tree. Raises TreeError for one that is nested too deep."""
    try:
        return list(found)
    except RecursionError as error:
        pytree.explain_recursion(tree, error)
        raise


def equality_errors(
    left: Any, right: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[KeyPath, str]]:
    """The differences of two trees (or structures), as pairs (path, description).

    left: the first tree or structure; right: the second tree or structure.

    >>> [(keystr(path), text) for path, text in equality_errors({"a": (1, 2)}, {"a": [1, 2]})]
    [("['a']", 'a tuple of length 2 against a list of length 2')]
    """
    return [(x.path, f"{x.left} against {x.right}") for x in differences(left, right, is_leaf)]


def prefix_errors(
    prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Difference]:
    """The differences that keep `prefix` from being a prefix of `full` (a tree or a structure)."""
    return _list_differences(prefix, walk(view(prefix, is_leaf), view(full), prefix=True))
