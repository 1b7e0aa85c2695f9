"""`jax._src.tree_util`: which classes are nodes, and one level of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from weft import tree

__all__ = ["PyTree", "flatten_one_level"]

PyTree = Any


def flatten_one_level(value: Any) -> tuple[Iterable[Any], Any]:
    """The children and the data of a node. Raises ValueError for a leaf."""
    level = tree.flatten_one_level(value)
    if level is None:
        raise ValueError(f"a value of class {type(value).__name__} is a leaf of trees")
    return level


class _Nodes(Mapping[type, Any]):
    """The classes that are nodes; a look-up gives True, not how one is taken apart."""

    def __getitem__(self, cls: type) -> Any:
        if not self.__contains__(cls):
            raise KeyError(cls)
        return True

    def __contains__(self, cls: object) -> bool:
        return cls in (tuple, list, dict, type(None)) or (
            isinstance(cls, type) and tree.is_node(cls)
        )

    def __iter__(self) -> Iterator[type]:
        return iter((tuple, list, dict, type(None)))

    def __len__(self) -> int:
        return 4


_registry = _Nodes()
