"""Classes and trees that the tests of pytrees share."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import NamedTuple

from hypothesis import strategies

from weft import tree


class Point(NamedTuple):
    x: object
    y: object


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    activation: str = tree.static(default="relu")


@tree.register_class
class Box:
    def __init__(self, content, label=None):
        self.content, self.label = content, label

    def tree_flatten(self):
        return (self.content,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)

    def __eq__(self, other):
        return isinstance(other, Box) and (self.content, self.label) == (other.content, other.label)


@tree.register_class_with_keys
class Named:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def tree_flatten_with_keys(self):
        keys = tree.GetAttrKey("first"), tree.GetAttrKey("second")
        return tuple(zip(keys, (self.first, self.second), strict=True)), None

    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(*children)

    def __eq__(self, other):
        return isinstance(other, Named) and (self.first, self.second) == (other.first, other.second)


@tree.register_static
@dataclasses.dataclass(frozen=True)
class Options:
    depth: int


names = strategies.text("abc", min_size=1, max_size=2)
leaf = strategies.one_of(strategies.integers(), strategies.floats(allow_nan=False), names)


def containers(inner):
    items = strategies.lists(inner, max_size=3)
    dicts = strategies.dictionaries(names, inner, max_size=3)
    return strategies.one_of(
        items,
        items.map(tuple),
        dicts,
        dicts.map(collections.OrderedDict),
        dicts.map(lambda d: collections.defaultdict(list, d)),
        strategies.builds(Point, inner, inner),
        strategies.builds(Layer, inner, inner, names),
        strategies.builds(Box, inner, names),
        strategies.builds(Named, inner, inner),
        strategies.builds(Options, strategies.integers()),
        strategies.none(),
    )


trees = strategies.recursive(leaf | strategies.none(), containers, max_leaves=12)


def step(value, key):
    """The child of `value` that `key` names, found without the registry."""
    if isinstance(key, tree.DictKey):
        return value[key.key]
    if isinstance(key, tree.SequenceKey):
        return value[key.idx]
    if isinstance(key, tree.GetAttrKey):
        return getattr(value, key.name)
    assert isinstance(value, Box)
    assert key.key == 0
    return value.content


def at_path(value, path):
    return functools.reduce(step, path, value)


def replaced(value, path, new):
    """A copy of lists, tuples and dicts with `new` at `path`."""
    if not path:
        return new
    key, *rest = path
    index = key.key if isinstance(key, tree.DictKey) else key.idx
    made = dict(value) if isinstance(value, dict) else list(value)
    made[index] = replaced(made[index], rest, new)
    return tuple(made) if isinstance(value, tuple) else made
