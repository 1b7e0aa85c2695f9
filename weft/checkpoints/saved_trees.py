"""The structure of a saved tree as JSON, and the trees that are made of it again.

A node is `{"kind": ...}`, with its children and, where it has names for them, their keys. Classes
are written by what their children are called: nothing of them is imported by name. A template
(`like`) gives them back; without one named tuples and classes become dicts, or lists where their
children have numbers only.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from weft import tree
from weft.errors import Fix, TreeError
from weft.export.serialized_trees import key_from_data, key_to_data
from weft.runtime import pytree

_SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple"}
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def structure_to_data(value: Any, operation: str, leaves: list[tuple[Any, Any]]) -> dict[str, Any]:
    """A tree's structure; its pairs (path, leaf) are appended to `leaves`, whose numbers it holds.
    Raises TreeError for keys of dicts that JSON has no form for."""
    return _to_data(value, (), operation, leaves)


def _to_data(
    value: Any, path: tuple[Any, ...], operation: str, leaves: list[tuple[Any, Any]]
) -> dict[str, Any]:
    level = pytree.flatten_one_level_with_keys(value)
    if level is None:
        leaves.append((path, value))
        return {"kind": "leaf", "leaf": len(leaves) - 1}
    kind, pairs = _kind_of(type(value)), list(level[0])
    if kind == "none":
        return {"kind": kind}
    node: dict[str, Any] = {"kind": kind}
    if kind not in ("list", "tuple"):
        node["keys"] = [_key(key, path, operation) for key, _ in pairs]
    if kind in ("namedtuple", "class"):
        node["name"] = f"{type(value).__module__}.{type(value).__qualname__}"
    node["children"] = [_to_data(child, (*path, key), operation, leaves) for key, child in pairs]
    return node


def _kind_of(cls: type) -> str:
    if cls is type(None):
        return "none"
    if cls in _SEQUENCES:
        return _SEQUENCES[cls]
    if cls in _DICTS:
        return "dict"
    return "namedtuple" if pytree.is_namedtuple(cls) else "class"


def _key(key: Any, path: tuple[Any, ...], operation: str) -> Any:
    """A key of a path, from its kind and contents."""
    if isinstance(key, pytree.DictKey):
        return key_to_data(key.key, f"the dict at {tree.keystr(path) or 'the top'}", operation)
    if isinstance(key, pytree.GetAttrKey):
        return ["attribute", key.name]
    if isinstance(key, (pytree.SequenceKey, pytree.FlattenedIndexKey)):
        return ["index", getattr(key, "idx", getattr(key, "key", None))]
    return ["other", str(key)]


def plain_tree(node: dict[str, Any], leaves: list[Any]) -> Any:
    """The tree of the containers that Python has itself, with these leaves."""
    kind = node["kind"]
    if kind == "leaf":
        return leaves[node["leaf"]]
    if kind == "none":
        return None
    children = [plain_tree(child, leaves) for child in node["children"]]
    if kind == "list":
        return children
    if kind == "tuple":
        return tuple(children)
    keys = node["keys"]
    if kind == "dict":
        names = [key_from_data(key, "the structure") for key in keys]
        return dict(zip(names, children, strict=True))
    if any(what == "index" for what, _ in keys):
        return children
    return {name: child for (_, name), child in zip(keys, children, strict=True)}


def matched_leaves(
    node: dict[str, Any], like: Any, operation: str, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], int, Any]]:
    """Triples (path, number of the saved leaf, leaf of `like`), in the order of like's leaves.
    Raises TreeError if the saved tree has another structure than `like`."""
    level = pytree.flatten_one_level_with_keys(like)
    if level is None:
        if node["kind"] != "leaf":
            raise _different(path, operation, "one leaf", node)
        yield path, node["leaf"], like
        return
    pairs = list(level[0])
    kind = _kind_of(type(like))
    keys = [_key(key, path, operation) for key, _ in pairs]
    children = node.get("children", [])
    numbers: list[int] = list(range(len(pairs)))
    fits = kind == node["kind"] and len(children) == len(pairs)
    if fits and "keys" in node:
        # An OrderedDict has its own order: children are found by their keys.
        saved = {str(key): number for number, key in enumerate(node["keys"])}
        fits = all(str(key) in saved for key in keys)
        numbers = [saved[str(key)] for key in keys] if fits else numbers
    if not fits:
        raise _different(path, operation, _describe(kind, keys, len(pairs)), node)
    for number, (key, child) in zip(numbers, pairs, strict=True):
        yield from matched_leaves(children[number], child, operation, (*path, key))


def _describe(kind: str, keys: list[Any], count: int) -> str:
    if kind in ("leaf", "none"):
        return "one leaf" if kind == "leaf" else "None"
    if kind in ("list", "tuple"):
        return f"a {kind} of length {count}"
    return f"a {kind} with the keys {', '.join(str(key[1]) for key in keys) or '(none)'}"


def _different(path: tuple[Any, ...], operation: str, got: str, node: dict[str, Any]) -> TreeError:
    where = tree.keystr(path) or "the top"
    saved = _describe(node["kind"], node.get("keys", []), len(node.get("children", [])))
    message = f"{operation}: `like` and the tree that was saved differ at {where}"
    text = f"at {where} of `like` write {saved}, or leave `like` out, and take the tree apart after"
    fix = Fix("like", text, {"path": path})
    return TreeError(message, got=f"{got} in `like`", wanted=f"{saved}, as it was saved", fix=fix)
