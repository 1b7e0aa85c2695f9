"""Fixes of trees and of arrays."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import tree
from weft.errors import TreeError, WeftIndexError, WeftTypeError, WeftValueError

X = jnp.arange(4.0)
STRUCTURE = tree.structure({"a": 0, "b": (0, 0)})
INNER = tree.structure({"x": 0})


def spread():
    """An array over two devices."""
    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    return weft.device_put(X, weft.NamedSharding(mesh, weft.P("i")))


def pair(flatten=True, unflatten=True):
    """A class of two children, perhaps without one of the methods."""

    class Pair:
        def __init__(self, *children):
            self.children = children

    if flatten:
        Pair.tree_flatten = lambda self: (self.children, None)
    if unflatten:
        Pair.tree_unflatten = classmethod(lambda cls, data, children: cls(*children))
    return Pair


def doubled(registered):
    """The leaves of a tree whose class is registered, each times two."""
    return tree.leaves(tree.map(lambda x: 2 * x, registered(1, 2)))


def in_itself():
    """A list that contains itself."""
    found = [1]
    found.append(found)
    return found


def twice_registered(times=2):
    cls = pair()
    for _ in range(times):
        tree.register_class(cls)
    return doubled(cls)


def point(decorate=True, **fields):
    """A class of two fields that is registered with these lists."""

    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    if decorate:
        Point = dataclasses.make_dataclass("Point", ["x", "y"])
    return doubled(tree.register_dataclass(Point, **fields))


def added(first, second, **options):
    return tree.map(lambda a, b: a + b, first, second, **options)


def transposed(outer, value, inner=INNER):
    return tree.transpose(tree.structure(outer), inner, value)


TREES = [
    Fixed(
        "pass 3 leaves",
        wrong=lambda: tree.unflatten(STRUCTURE, [1, 2]),
        fixed=lambda fix: tree.unflatten(STRUCTURE, [1, 2, 3]) == {"a": 1, "b": (2, 3)},
        value=True,
        error=TreeError,
    ),
    Fixed(
        "use keys of one type, for example str",
        wrong=lambda: tree.leaves({"a": 1, 0: 2}),
        fixed=lambda fix: tree.leaves({"a": 1, "0": 2}),
        value=[2, 1],
        error=TreeError,
    ),
    Fixed(
        "take the container out of itself",
        wrong=lambda: tree.leaves(in_itself()),
        fixed=lambda fix: tree.leaves(in_itself()[:1]),
        value=[1],
        error=TreeError,
    ),
    Fixed(
        "put what is nested side by side, in a list",
        wrong=lambda: tree.leaves(functools.reduce(lambda t, x: (x, t), range(20_000))),
        fixed=lambda fix: len(tree.leaves([*range(20_000)])),
        value=20_000,
        error=TreeError,
    ),
    Fixed(
        "in the first tree: at ['a'] write one leaf instead of a tuple of length 2",
        wrong=lambda: added({"a": (1, 2)}, {"a": 3}),
        fixed=lambda fix: added({"a": 1}, {"a": 3}),
        value={"a": 4},
        error=TreeError,
    ),
    Fixed(
        "or keep a subtree whole with is_leaf",
        wrong=lambda: added({"a": np.ones(2), "b": [1, 2]}, {"a": 3, "b": np.array([3, 4])}),
        fixed=lambda fix: added(
            {"a": np.ones(2), "b": [1, 2]},
            {"a": 3, "b": np.array([3, 4])},
            is_leaf=lambda x: isinstance(x, list),
        ),
        value={"a": np.array([4, 4]), "b": np.array([4, 6])},
        error=TreeError,
    ),
    Fixed(
        "in the first tree: write a tuple of length 1",
        wrong=lambda: added([1, 2], (3,)),
        fixed=lambda fix: added((1,), (3,)),
        value=(4,),
        error=TreeError,
    ),
    Fixed(
        "pass initializer=",
        wrong=lambda: tree.reduce(lambda a, b: a + b, []),
        fixed=lambda fix: tree.reduce(lambda a, b: a + b, [], initializer=7),
        value=7,
        error=TreeError,
    ),
    Fixed(
        "pass identity=",
        wrong=lambda: tree.reduce_associative(lambda a, b: a + b, []),
        fixed=lambda fix: tree.reduce_associative(lambda a, b: a + b, [], identity=7),
        value=7,
        error=TreeError,
    ),
    Fixed(
        "in the outer structure: write a list instead of a tuple",
        wrong=lambda: transposed((0, 0), [{"x": 1}, {"x": 2}], None),
        fixed=lambda fix: transposed([0, 0], [{"x": 1}, {"x": 2}], None) == {"x": [1, 2]},
        value=True,
        error=TreeError,
    ),
    Fixed(
        "in the tree: at [1] write a dict with the keys ['x']",
        wrong=lambda: transposed([0, 0], [{"x": 1}, {"y": 2}]),
        fixed=lambda fix: transposed([0, 0], [{"x": 1}, {"x": 2}]) == {"x": [1, 2]},
        value=True,
        error=TreeError,
    ),
    Fixed(
        "remove one of the registrations",
        wrong=lambda: twice_registered(),
        fixed=lambda fix: twice_registered(1),
        value=[2, 4],
        error=TreeError,
    ),
    Fixed(
        "define tree_unflatten",
        wrong=lambda: tree.register_class(pair(unflatten=False)),
        fixed=lambda fix: doubled(tree.register_class(pair())),
        value=[2, 4],
        error=TreeError,
    ),
    Fixed(
        "pass data_fields and meta_fields, or decorate the class with @dataclasses.dataclass first",
        wrong=lambda: point(decorate=False),
        fixed=lambda fix: [
            point(decorate=False, data_fields=["x", "y"], meta_fields=[]),
            point(decorate=True),
        ],
        value=[[2, 4], [2, 4]],
        error=TreeError,
    ),
    Fixed(
        "put arrays of ['y'] in data_fields, and the rest in meta_fields (or drop_fields)",
        wrong=lambda: point(data_fields=["x"], meta_fields=[]),
        fixed=lambda fix: [
            point(data_fields=["x", "y"], meta_fields=[]),
            point(data_fields=["x"], meta_fields=["y"]),
        ],
        value=[[2, 4], [2]],
        error=TreeError,
    ),
    Fixed(
        "leave out ['z']; name ['y'] once",
        wrong=lambda: point(data_fields=["x", "y", "z"], meta_fields=["y"]),
        fixed=lambda fix: point(data_fields=["x"], meta_fields=["y"]),
        value=[2],
        error=TreeError,
    ),
]

ARRAYS = [
    Fixed(
        "use index 0",
        wrong=lambda: X.addressable_data(1),
        fixed=lambda fix: X.addressable_data(0),
        value=np.arange(4),
        error=WeftIndexError,
    ),
    Fixed(
        "take one part, such as x.addressable_data(0), or bring all of it to one device "
        "with weft.device_put",
        wrong=lambda: np.from_dlpack(spread()),
        fixed=lambda fix: [
            np.from_dlpack(spread().addressable_data(0)),
            np.from_dlpack(weft.device_put(spread(), weft.devices()[0])),
        ],
        value=[np.arange(2), np.arange(4)],
        error=WeftValueError,
    ),
    Fixed(
        "leave copy=False out",
        wrong=lambda: X.__array__("int32", copy=False),
        fixed=lambda fix: X.__array__("int32"),
        value=np.arange(4),
        error=WeftValueError,
    ),
    Fixed(
        "use int(x.item())",
        wrong=lambda: int(X[2:3]),
        fixed=lambda fix: int(X[2:3].item()),
        value=2,
        error=WeftTypeError,
    ),
    Fixed(
        "take one element, for example float(x[0, 0])",
        wrong=lambda: float(X.reshape(2, 2)),
        fixed=lambda fix: float(X.reshape(2, 2)[0, 0]),
        value=0,
        error=WeftTypeError,
    ),
    Fixed(
        "use x.any() or x.all()",
        wrong=lambda: bool(X),
        fixed=lambda fix: [X.any(), X.all()],
        value=[True, False],
        error=WeftValueError,
    ),
]


@tree.register_dataclass
@dataclasses.dataclass
class Scaled:
    """An array with a factor that is part of the program."""

    x: object
    scale: object = tree.static(default=1.0)


@tree.register_dataclass
@dataclasses.dataclass
class ScaledByData:
    """The same with the factor as data."""

    x: object
    scale: object = 1.0


def multiply(scaled):
    return scaled.x * scaled.scale


SCALED = weft.jit(multiply).lower(Scaled(X, 1.0)).compile()

STATIC = [
    Fixed(
        "make it a field with data (data_fields, without static=True)",
        wrong=lambda: weft.jit(multiply)(Scaled(X, np.ones(4))),
        fixed=lambda fix: weft.jit(multiply)(ScaledByData(X, np.ones(4))),
        value=np.arange(4.0),
        error=TreeError,
    ),
    Fixed(
        "call multiply itself, which compiles for all static data",
        wrong=lambda: SCALED(Scaled(X, True)),
        fixed=lambda fix: weft.jit(multiply)(Scaled(X, True)),
        value=np.arange(4.0),
        error=TreeError,
    ),
]

FIXES = [*TREES, *ARRAYS, *STATIC]
