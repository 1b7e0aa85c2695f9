"""`jax._src.tree_util`: which classes are nodes, and how one is taken apart and put together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weft import tree
from weft.errors import WeftValueError
from weft.runtime.jaxlib import pytree

__all__ = ["PyTree", "flatten_one_level"]

PyTree = Any


def flatten_one_level(value: Any) -> tuple[Iterable[Any], Any]:
    """The children and the data of a node. Raises WeftValueError for a leaf."""
    level = tree.flatten_one_level(value)
    if level is None:
        message = f"a value of class {type(value).__name__} is a leaf of trees"
        raise WeftValueError(message, operation="flatten_one_level", wanted="a node")
    return level


@dataclasses.dataclass(frozen=True)
class _Node:
    """How values of a class are flattened one level deep, and rebuilt."""

    cls: type

    def to_iter(self, value: Any) -> tuple[tuple[Any, ...], Any]:
        """The children of a value and its data; of a dict, the keys in order."""
        level = tree.flatten_one_level(value)
        assert level is not None, "a value of a registered class is a node"
        children, data = level
        return tuple(children), tuple(data) if self.cls is dict else data

    def from_iter(self, data: Any, children: Iterable[Any]) -> Any:
        """The value of some data and children."""
        given = list(children)
        leaf = tree.structure(0)
        node = (self.cls, list(data) if self.cls is dict else data)
        return pytree.make_treedef(node, [leaf] * len(given)).unflatten(given)


class _Nodes(Mapping[type, Any]):
    """The classes that are nodes, and how each is flattened."""

    def __getitem__(self, cls: type) -> _Node:
        if not self.__contains__(cls):
            raise KeyError(cls)
        return _Node(cls)

    def __contains__(self, cls: object) -> bool:
        return cls in (tuple, list, dict, type(None)) or (
            isinstance(cls, type) and tree.is_node(cls)
        )

    def __iter__(self) -> Iterator[type]:
        return iter((tuple, list, dict, type(None)))

    def __len__(self) -> int:
        return 4


_registry = _Nodes()
