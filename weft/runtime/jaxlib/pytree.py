"""The registry of pytree nodes: jaxlib's C++ flattening behind names of our own.

The registry is weft's alone, so that a class may be registered here and in another library of the
same process. Everything else about pytrees is Python and lives in `weft.tree`; code that flattens
on every call of a compiled function takes `flatten` from here, which is the bound C++ method.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jaxlib import _jax

from weft.errors import Fix, TreeError
from weft.native.optional import calls
from weft.runtime.jaxlib.lazy import pending_nodes

# An entry of a path may be any object that can be hashed: registered nodes choose theirs.
KeyEntry: TypeAlias = Hashable
KeyPath: TypeAlias = tuple[Any, ...]

if TYPE_CHECKING:  # jaxlib ships no types; these are the methods that weft calls.

    class PyTreeDef:
        """The structure of a tree."""

        num_leaves: int
        num_nodes: int

        def __hash__(self) -> int: ...
        def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
        def flatten_up_to(self, tree: Any) -> list[Any]: ...
        def children(self) -> list[PyTreeDef]: ...
        def node_data(self) -> tuple[type, Any] | None: ...
        def compose(self, inner: PyTreeDef, /) -> PyTreeDef: ...

    class DictKey:
        """A step into a dict."""

        key: Hashable

        def __init__(self, key: Hashable) -> None: ...

    class SequenceKey:
        """A step into a list or tuple."""

        idx: int

        def __init__(self, idx: int) -> None: ...

    class GetAttrKey:
        """A step into an attribute."""

        name: str

        def __init__(self, name: str) -> None: ...

    class FlattenedIndexKey:
        """A step into a class that names no keys."""

        key: int

        def __init__(self, key: int) -> None: ...
else:
    PyTreeDef = _jax.pytree.PyTreeDef
    DictKey = _jax.pytree.DictKey
    SequenceKey = _jax.pytree.SequenceKey
    GetAttrKey = _jax.pytree.GetAttrKey
    FlattenedIndexKey = _jax.pytree.FlattenedIndexKey

PyTreeRegistry: Any = _jax.pytree.PyTreeRegistry

registry: Any = PyTreeRegistry()
# jaxlib pickles a registry, and with it every structure, as a reference to this name.
registry.__module__ = __name__
registry.__name__ = "registry"


def explain_recursion(tree: Any, error: BaseException) -> None:
    """Raises TreeError where a tree is nested too deep to be followed, or contains itself. `error`
    is what jaxlib raised: RecursionError, or SystemError or ValueError because of one."""
    if not isinstance(error, RecursionError) and not isinstance(error.__cause__, RecursionError):
        return
    operation, wanted = "tree.flatten", "containers that end in leaves"
    levels = _depth(tree)
    if levels is None:
        message = "the tree contains itself: a container in it is one of those around it"
        fix = Fix("cycle", "take the container out of itself")
        raise TreeError(message, operation=operation, wanted=wanted, fix=fix) from error
    if levels < 100:  # the recursion of a user's own function that takes a container apart
        return
    message = "the tree is nested deeper than Python's recursion goes"
    got, wanted = f"{levels} or more containers inside one another", "fewer"
    fix = Fix("flatter", "put what is nested side by side, in a list")
    raise TreeError(message, operation=operation, got=got, wanted=wanted, fix=fix) from error


def _depth(tree: Any) -> int | None:
    """The depth of a tree along its first containers that are nested too deep; None for a cycle."""
    level = flatten_one_level(tree)
    # The containers around the present place, with what is still to be looked at of each.
    around, path, most = {id(tree)}, [(tree, iter(level[0] if level else ()))], 0
    while path and len(path) < 100_000:
        most = max(most, len(path))
        for child in path[-1][1]:
            if id(child) in around:
                return None
            level = flatten_one_level(child)
            if level is not None:
                around.add(id(child))
                path.append((child, iter(level[0])))
                break
        else:
            if most > sys.getrecursionlimit():
                break
            around.discard(id(path.pop()[0]))
    return most


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a flattening function of jaxlib with `explain_recursion`."""
    if calls is not None:
        compiled: Callable[..., Any] = calls.guarded(function, explain_recursion)
        return compiled

    def flatten(tree: Any, *rest: Any) -> Any:
        try:
            return function(tree, *rest)
        except (RecursionError, SystemError, ValueError) as error:
            explain_recursion(tree, error)
            raise

    return flatten


# flatten(tree, is_leaf=None, /) -> (leaves, treedef); raises ValueError for unsortable keys, and
# TreeError for a tree that is nested too deep.
flatten: Callable[..., tuple[list[Any], PyTreeDef]] = _guard(registry.flatten)
# The predicate here takes (path, subtree).
flatten_with_path: Callable[..., tuple[list[tuple[KeyPath, Any]], PyTreeDef]] = _guard(
    registry.flatten_with_path
)
# (children, data) of a node, None for a leaf.
flatten_one_level: Callable[[Any], tuple[Iterable[Any], Any] | None] = registry.flatten_one_level
# True also for namedtuples, which are nodes without registration.
is_node: Callable[[type], bool] = registry.is_node
# Namedtuple classes that were registered, and so are no longer plain namedtuples.
_registered_namedtuples: set[type] = set()


def register_node(
    cls: type,
    flatten_func: Callable[[Any], Any],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], Any] | None = None,
) -> None:
    """Makes a class a node. Raises ValueError if it is registered already."""
    registry.register_node(cls, flatten_func, unflatten_func, flatten_with_keys_func)
    if is_namedtuple(cls):
        _registered_namedtuples.add(cls)


def register_dataclass_node(cls: type, data: Sequence[str], meta: Sequence[str]) -> None:
    """Makes a class a node; its children and its data are attributes and constructor keywords."""
    registry.register_dataclass_node(cls, data, meta)


def is_namedtuple(cls: type) -> bool:
    """Whether this is a class of named tuples that is not registered as another kind of node."""
    return (
        issubclass(cls, tuple)
        and cls is not tuple
        and hasattr(cls, "_fields")
        and cls not in _registered_namedtuples
    )


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any] | None:
    """The (key, child) pairs and the data of a node, None for a leaf."""
    if is_namedtuple(type(tree)):
        # jaxlib 0.10.2 gives every child of a named tuple the key of the first one.
        fields = type(tree)._fields
        return [(GetAttrKey(n), x) for n, x in zip(fields, tree, strict=True)], type(tree)
    level: tuple[Iterable[tuple[Any, Any]], Any] | None
    level = registry.flatten_one_level_with_keys(tree)
    return level


def all_leaves(values: Iterable[Any]) -> bool:
    """Whether none of the values is a node."""
    return bool(_jax.pytree.all_leaves(registry, values))


def treedef_tuple(treedefs: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees that have these structures."""
    out: PyTreeDef = _jax.pytree.treedef_tuple(registry, treedefs)
    return out


def make_treedef(node: tuple[type, Any] | None, children: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure that has this `node_data()` and these `children()`; a leaf for None."""
    out: PyTreeDef = _PyTreeDef.from_node_data_and_children(registry, node, children)
    return out


_PyTreeDef: Any = PyTreeDef

for _node in pending_nodes:
    register_node(*_node)
