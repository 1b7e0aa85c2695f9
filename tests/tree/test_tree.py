"""Pytrees: round trips, registered classes, key paths, functions over leaves."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import pickle
from typing import NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tree_samples import Box, Layer, Named, Options, Point, at_path, names, replaced, trees
from weft import tree, tree_util
from weft.errors import TreeError
from weft.runtime.jaxlib import pytree

pytestmark = pytest.mark.fast


# ---- round trips -----------------------------------------------------------------------


@hypothesis.given(trees)
def test_round_trip(value):
    leaves, treedef = tree.flatten(value)
    again = tree.unflatten(treedef, leaves)
    assert type(again) is type(value) and again == value
    assert treedef.num_leaves == len(leaves)
    assert tree.structure(value) == treedef
    assert hash(tree.structure(again)) == hash(treedef)
    assert tree.leaves(value) == leaves and tree.all_leaves(leaves)


@hypothesis.given(trees)
def test_paths_lead_to_the_leaves(value):
    leaves, treedef = tree.flatten(value)
    pairs, same_treedef = tree.flatten_with_path(value)
    assert same_treedef == treedef
    assert [leaf for _, leaf in pairs] == leaves
    assert [at_path(value, path) for path, _ in pairs] == leaves
    assert len({tree.keystr(path) for path, _ in pairs}) == len(pairs)


@hypothesis.given(trees)
def test_structures_can_be_pickled(value):
    treedef = tree.structure(value)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    assert pytree.make_treedef(treedef.node_data(), treedef.children()) == treedef


@hypothesis.given(trees)
def test_map_is_a_functor(value):
    tagged = tree.map(lambda x: ("tag", x), value)
    assert tree.leaves(tagged, is_leaf=lambda x: isinstance(x, tuple) and x[:1] == ("tag",)) == [
        ("tag", leaf) for leaf in tree.leaves(value)
    ]
    assert tree.map(lambda x: x, value) == value


# ---- containers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "leaves"),
    [
        (None, []),
        ([], []),
        (5, [5]),
        ([None, [None], 1], [1]),
        ({"b": 1, "a": 2}, [2, 1]),
        ({2: "x", 1.5: "y"}, ["y", "x"]),
        (collections.OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
        (collections.defaultdict(int, {"b": 1, "a": 2}), [2, 1]),
        (Point(1, (2, 3)), [1, 2, 3]),
        (Layer([1], 2, "tanh"), [1, 2]),
        (Box({"k": 1}), [1]),
        (Named(1, 2), [1, 2]),
        (Options(3), []),
        ("text", ["text"]),
    ],
)
def test_leaves(value, leaves):
    assert tree.leaves(value) == leaves


def test_arrays_are_leaves():
    array = np.arange(3)
    assert tree.leaves({"a": array})[0] is array


def test_subclasses_of_containers_are_leaves():
    class Special(dict):
        pass

    special = Special(a=1)
    assert tree.leaves([special]) == [special]


def test_containers_keep_what_is_not_a_leaf():
    factory = collections.defaultdict(set, {"a": 1})
    assert tree.map(str, factory).default_factory is set
    assert list(tree.map(str, collections.OrderedDict(b=1, a=2))) == ["b", "a"]
    assert tree.map(str, Layer(1, 2, "tanh")) == Layer("1", "2", "tanh")
    assert tree.map(str, Box(1, "label")).label == "label"
    assert tree.map(str, Options(3)) == Options(3)


def test_data_is_part_of_the_structure():
    assert tree.structure(Layer(1, 2, "tanh")) != tree.structure(Layer(1, 2, "relu"))
    assert tree.structure(Options(1)) != tree.structure(Options(2))
    assert tree.structure(Options(1)) == tree.structure(Options(1))
    assert tree.structure([1]) != tree.structure((1,))
    assert tree.structure(Point(1, 2)) != tree.structure((1, 2))


def test_keys_that_cannot_be_sorted():
    value = {"model": [0, {"a": 1, 2: 3}]}
    for flatten in (tree.flatten, tree.flatten_with_path, tree.leaves, tree.structure):
        with pytest.raises(TreeError, match=r"\['model'\]\[1\]") as caught:
            flatten(value)
        assert caught.value.got == "keys of type int, str"
    path = caught.value.fix.data["path"]
    mended = replaced(value, path, {str(k): v for k, v in at_path(value, path).items()})
    assert tree.leaves(mended) == [0, 3, 1]
    assert tree.leaves(value, is_leaf=lambda x: isinstance(x, dict) and 2 in x) == [
        0,
        {"a": 1, 2: 3},
    ]


def test_keys_of_a_defaultdict_that_cannot_be_sorted():
    with pytest.raises(TreeError, match="defaultdict"):
        tree.flatten([collections.defaultdict(int, {"a": 1, 2: 3})])


def test_errors_of_a_class_are_its_own():
    class Strict:
        def __init__(self, value):
            if not isinstance(value, int):
                raise ValueError("an int, please")
            self.value = value

    tree.register_node(Strict, lambda s: ((s.value,), None), lambda _, c: Strict(*c))
    with pytest.raises(ValueError, match="an int, please") as caught:
        tree.unflatten(tree.structure(Strict(1)), ["text"])
    assert not isinstance(caught.value, TreeError)


@pytest.mark.parametrize(
    ("leaves", "count"), [([1], "1"), ([1, 2, 3], "3"), (iter([1]), "another")]
)
def test_a_wrong_number_of_leaves(leaves, count):
    treedef = tree.structure((0, 0))
    with pytest.raises(TreeError, match="number of leaves") as caught:
        tree.unflatten(treedef, leaves)
    assert caught.value.got.startswith(count)
    assert tree.unflatten(treedef, range(caught.value.fix.data["num_leaves"])) == (0, 1)


# ---- registration ----------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Layer, Box, Options, list, dict, type(None), tree.Partial])
def test_registering_twice_is_an_error(cls):
    with pytest.raises(TreeError, match="registered already"):
        tree.register_node(cls, lambda x: ((), None), lambda data, children: None)
    with pytest.raises(TreeError, match="registered already"):
        tree.register_static(cls)
    with pytest.raises(TreeError, match="registered already"):
        tree.register_dataclass(cls, ["a"], [])


def test_only_classes_are_registered():
    with pytest.raises(TreeError, match="only classes"):
        tree.register_node(3, lambda x: ((), None), lambda data, children: None)


def test_methods_that_are_missing():
    class Half:
        def tree_flatten(self):
            return (), None

    with pytest.raises(TreeError, match="lacks tree_unflatten") as caught:
        tree.register_class(Half)
    for method in caught.value.fix.data["methods"]:
        setattr(Half, method, classmethod(lambda cls, data, children: cls()))
    assert tree.leaves(tree.register_class(Half)()) == []
    with pytest.raises(TreeError, match="tree_flatten_with_keys and tree_unflatten"):
        tree.register_class_with_keys(type("Empty", (), {}))


def test_is_node():
    assert tree.is_node(list) and tree.is_node(Point) and tree.is_node(Layer)
    assert not tree.is_node(int) and not tree.is_node(np.ndarray)


def test_a_dataclass_with_lists_of_fields():
    @dataclasses.dataclass
    class Model:
        name: str
        weight: object
        cache: object = None

    registered = tree.register_dataclass(
        Model, data_fields=["weight"], meta_fields=["name"], drop_fields=["cache"]
    )
    assert registered is Model
    assert tree.map(lambda x: x + 1, Model("m", 1, cache="full")) == Model("m", 2)
    ((path, _),) = tree.leaves_with_path(Model("m", 1))
    assert tree.keystr(path) == ".weight"


def test_the_dataclass_decorator_takes_arguments():
    @tree.register_dataclass(data_fields=("b",), meta_fields=("a",))
    @dataclasses.dataclass
    class Model:
        a: object
        b: object

    assert tree.leaves(Model(1, 2)) == [2]


def test_a_class_that_is_no_dataclass_needs_lists():
    class Plain:
        def __init__(self, a, b):
            self.a, self.b = a, b

    with pytest.raises(TreeError, match="not known") as caught:
        tree.register_dataclass(Plain)
    lists = dict(zip(caught.value.fix.data["arguments"], (["a"], ["b"]), strict=True))
    tree.register_dataclass(Plain, **lists)
    assert tree.map(lambda x: 10 * x, Plain(1, 2)).a == 10


def test_one_list_is_not_enough():
    @dataclasses.dataclass
    class Model:
        a: object

    with pytest.raises(TreeError, match="no meta_fields") as caught:
        tree.register_dataclass(Model, data_fields=["a"])
    tree.register_dataclass(
        Model, ["a"], **{name: [] for name in caught.value.fix.data["arguments"]}
    )
    assert tree.leaves(Model(1)) == [1]


@pytest.mark.parametrize(
    ("data", "meta", "what"),
    [
        (["a"], [], r"in no list: \['b'\]"),
        (["a", "b"], ["c"], r"unknown: \['c'\]"),
        (["a", "b"], ["b"], r"twice: \['b'\]"),
    ],
)
def test_lists_that_do_not_match_the_dataclass(data, meta, what):
    @dataclasses.dataclass
    class Model:
        a: object
        b: object

    with pytest.raises(TreeError, match=what) as caught:
        tree.register_dataclass(Model, data, meta)
    fix = caught.value.fix.data
    data = [name for name in data if name not in fix["twice"]] + fix["missing"]
    meta = [name for name in meta if name not in fix["unknown"]]
    tree.register_dataclass(Model, data, meta)
    assert sorted(tree.leaves(Model(1, 2)) + meta, key=str) in ([1, 2], [1, "b"])


# ---- Partial ---------------------------------------------------------------------------


def power(x, y, *, scale=1):
    return scale * x**y


def test_partial_has_its_arguments_as_leaves():
    f = tree.Partial(power, 2, scale=10)
    assert f(3) == 80
    assert tree.leaves(f) == [2, 10] and tree.map(lambda x: x + 1, f)(2) == 99
    paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(f)]
    assert paths == [".args[0]", ".keywords['scale']"]
    assert tree.structure(f) == tree.structure(tree.Partial(power, 3, scale=4))
    assert tree.structure(f) != tree.structure(tree.Partial(max, 3, scale=4))


def test_partial_of_a_partial():
    inner = functools.partial(power, scale=5)
    outer = tree.Partial(inner, 2)
    assert outer(3) == 40
    assert tree.leaves(outer) == [2]
    assert tree.structure(outer) == tree.structure(tree.Partial(inner, 7))
    assert hash(tree.structure(outer)) == hash(tree.structure(tree.Partial(inner, 7)))
    assert tree.map(lambda x: x, outer)(3) == 40
    assert outer.func == inner and inner == outer.func
    assert outer.func != functools.partial(power, scale=6)
    twice = tree.Partial(tree.Partial(power, 2), scale=3)
    assert twice(3) == 24
    assert tree.leaves(twice) == [2, 3]


# ---- functions over leaves -------------------------------------------------------------


def test_map_over_several_trees():
    assert tree.map(lambda *xs: sum(xs), (1, [2]), (10, [20]), (100, [200])) == (111, [222])
    assert tree.map(lambda x, y: (x, y), [1], [[2, 3]]) == [(1, [2, 3])]
    assert tree.map(lambda x: x, None) is None


def test_map_with_is_leaf():
    value = [(1, 2), None, 3]
    assert tree.map(repr, value, is_leaf=lambda x: isinstance(x, tuple)) == ["(1, 2)", None, "3"]
    assert tree.map(lambda x: x is None, value, is_leaf=lambda x: x is None) == [
        (False, False),
        True,
        False,
    ]


@pytest.mark.parametrize(
    "map_", [tree.map, lambda f, *ts: tree.map_with_path(lambda _, *x: f(*x), *ts)]
)
def test_map_over_trees_that_differ(map_):
    first = {"w": (1, 2), "b": [3]}
    second = {"w": [1, 2], "b": [3]}
    with pytest.raises(TreeError, match=r"differ at \['w'\]") as caught:
        map_(lambda x, y: x + y, first, second)
    error = caught.value
    assert error.got == "a list of length 2 in tree number 2"
    assert error.wanted == "a tuple of length 2, as in the first tree"
    fix = error.fix.data
    mended = replaced(first, fix["path"], fix["replacement"])
    assert map_(lambda x, y: x + y, mended, second) == {"w": [2, 4], "b": [6]}


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ({"a": 1}, {"b": 1}, "the top"),
        ([1, [None]], [1, [2]], r"\[1\]\[0\]"),
        ([1, 2], [1, 2, 3], "the top"),
        ([Layer(1, [2])], [Layer(1, (2,))], r"\[0\].bias"),
        ([Layer(1, 2, "a")], [Layer(1, 2, "b")], r"\[0\]"),
        ([Point(1, [2])], [Point(1, 2)], r"\[0\].y"),
        ([Named(1, [2])], [Named(1, 2)], r"\[0\].second"),
        ([Box([2])], [Box(2)], r"\[0\]\[<flat index 0>\]"),
        (collections.OrderedDict(a=1), {"a": 1}, "the top"),
    ],
)
def test_where_trees_differ(first, second, place):
    with pytest.raises(TreeError, match=f"differ at {place}\n"):
        tree.map(lambda x, y: None, first, second)


def test_an_error_at_a_leaf_names_the_path():
    value = {"a": [1, 0], "b": 0}
    with pytest.raises(ZeroDivisionError) as caught:
        tree.map(lambda x: 1 // x, value)
    assert caught.value.__notes__ == ["This happened at the leaf ['a'][1] of the tree."]
    with pytest.raises(ZeroDivisionError) as caught:
        tree.map_with_path(lambda _, x: 1 // x, value)
    assert caught.value.__notes__ == ["This happened at the leaf ['a'][1] of the tree."]
    with pytest.raises(ZeroDivisionError) as caught:
        tree.map(lambda x: 1 // x, 0)
    assert not hasattr(caught.value, "__notes__")


def test_map_with_path():
    value = {"w": [5, Point(6, None)]}
    found = tree.map_with_path(lambda path, x, y: (tree.keystr(path), x + y), value, value)
    assert found == {"w": [("['w'][0]", 10), Point(("['w'][1].x", 12), None)]}


def test_predicates_that_take_paths():
    value = {"a": [1, 2], "b": [3]}

    def below_a(path, _):
        return tree.keystr(path) == "['a']"

    pairs = tree.leaves_with_path(value, below_a, is_leaf_takes_path=True)
    assert [leaf for _, leaf in pairs] == [[1, 2], 3]
    doubled = tree.map_with_path(
        lambda _, x: 2 * x, value, is_leaf=below_a, is_leaf_takes_path=True
    )
    assert doubled == {"a": [1, 2, 1, 2], "b": [6]}
    assert [leaf for _, leaf in tree.leaves_with_path(value, lambda x: x == [3])] == [1, 2, [3]]


def test_keystr():
    (pair,) = tree.leaves_with_path({"w": [Box(Point(None, 5))]})
    path = pair[0]
    assert tree.keystr(path) == "['w'][0][<flat index 0>].y"
    assert tree.keystr(path, simple=True, separator="/") == "w/0/0/y"
    assert tree.keystr(path, simple=True) == "w00y" and tree.keystr(()) == ""
    assert tree.keystr(("own key",), simple=True) == "own key"


def test_keys_are_values():
    assert tree.DictKey("a") == tree.DictKey("a") and tree.SequenceKey(0) != tree.SequenceKey(1)
    assert len({tree.GetAttrKey("x"), tree.GetAttrKey("x")}) == 1


def test_all_and_reduce():
    assert tree.all({"a": True, "b": [1]}) and not tree.all([True, (0,)]) and tree.all(None)
    assert not tree.all([[], 1], is_leaf=lambda x: x == [])
    assert tree.reduce(lambda x, y: x + y, {"a": "1", "b": ["2", "3"]}) == "123"
    assert tree.reduce(lambda x, y: x + y, [1, 2], 10) == 13
    assert tree.reduce(lambda x, y: x + y, [], None) is None
    assert tree.reduce(
        lambda x, y: x + y, [(1,), (2,)], is_leaf=lambda x: isinstance(x, tuple)
    ) == (1, 2)


@hypothesis.given(strategies.lists(names))
def test_reduce_associative_keeps_the_order(values):
    assert tree.reduce_associative(lambda x, y: x + y, values, identity="") == "".join(values)


@pytest.mark.parametrize("reduce", [tree.reduce, tree.reduce_associative])
def test_reducing_nothing(reduce):
    with pytest.raises(TreeError, match="no leaves") as caught:
        reduce(lambda x, y: x + y, [None])
    assert reduce(lambda x, y: x + y, [None], **{caught.value.fix.data["argument"]: 5}) == 5


@hypothesis.given(trees, trees)
def test_transposing_twice_gives_the_tree_back(outer, inner):
    outer_def, inner_def = tree.structure(outer), tree.structure(inner)
    hypothesis.assume(outer_def.num_leaves and inner_def.num_leaves)
    counter = iter(range(outer_def.num_leaves * inner_def.num_leaves))
    nested = tree.map(lambda _: tree.map(lambda _: next(counter), inner), outer)
    turned = tree.transpose(outer_def, inner_def, nested)
    assert tree.structure(turned) == inner_def.compose(outer_def)
    assert tree.transpose(inner_def, outer_def, turned) == nested
    assert tree.transpose(outer_def, None, nested) == turned


@tree.register_class
class Flat:
    """Has the leaves of what it holds as its children, whatever that is."""

    def __init__(self, content):
        self.content = content

    def tree_flatten(self):
        return tree.flatten(self.content)

    @classmethod
    def tree_unflatten(cls, structure, leaves):
        return cls(tree.unflatten(structure, leaves))


@pytest.mark.parametrize("inner", [[0], (0, 0), {"x": [0, 0]}, 0], ids=str)
def test_transposing_a_class_that_takes_apart_more_than_its_children(inner):
    outer = Flat({"a": [1, 2]})
    inner_def = tree.structure(inner)
    nested = tree.map(lambda x: tree.map(lambda _: x, inner), outer)
    turned = tree.transpose(tree.structure(outer), inner_def, nested)
    columns = inner_def.flatten_up_to(turned)
    assert [x.content for x in columns] == [{"a": [1, 2]}] * inner_def.num_leaves
    with pytest.raises(TreeError, match="not made of the inner structure"):
        tree.transpose(tree.structure(outer), inner_def, Flat({"a": [inner]}))


def test_transpose_of_the_wrong_tree():
    outer, inner = tree.structure([0, 0]), tree.structure({"x": 0})
    with pytest.raises(TreeError, match=r"differ at \[1\]") as caught:
        tree.transpose(outer, inner, [{"x": 1}, {"y": 1}])
    assert caught.value.wanted == "a dict with keys ['x']"
    with pytest.raises(TreeError, match="outer structure; they differ at the top"):
        tree.transpose(outer, None, [{"x": 1}])
    with pytest.raises(TreeError, match=r"inner structure .* differ at \[1\]"):
        tree.transpose(outer, None, [{"x": 1}, (1,)])


def test_all_leaves():
    assert tree.all_leaves([1, "a", np.zeros(2)]) and not tree.all_leaves([1, (2,)])
    assert tree.all_leaves([1, (2,)], is_leaf=lambda x: isinstance(x, tuple))
    assert not tree.all_leaves([1, [2]], is_leaf=lambda x: isinstance(x, tuple))


def test_structures_of_structures():
    one, pair = tree.structure(0), tree.structure((0, 0))
    both = tree.treedef_tuple([one, pair])
    assert both == tree.structure((0, (0, 0)))
    assert tree.treedef_children(both) == [one, pair] and tree.treedef_is_leaf(one)
    assert not tree.treedef_is_leaf(tree.structure(None)) and not tree.treedef_is_leaf(both)


def test_one_level_of_a_namedtuple():
    (x, y), _ = tree.flatten_one_level_with_keys(Point(1, 2))
    assert (x, y) == ((tree.GetAttrKey("x"), 1), (tree.GetAttrKey("y"), 2))


def test_a_registered_namedtuple_is_what_was_registered():
    class Fraction(NamedTuple):
        numerator: object
        denominator: int

    tree.register_node(
        Fraction, lambda f: ((f.numerator,), f.denominator), lambda d, c: Fraction(*c, d)
    )
    assert tree.leaves(Fraction(1, 2)) == [1]
    assert len(tree.differences(Fraction(1, 2), Fraction(1, 3))) == 1
    assert tree.map(lambda x: 10 * x, [Fraction(1, 2)]) == [Fraction(10, 2)]


def test_one_level():
    children, data = tree.flatten_one_level({"b": [1], "a": 2})
    assert (list(children), list(data)) == ([2, [1]], ["a", "b"])
    assert tree.flatten_one_level(5) is None


# ---- the other names -------------------------------------------------------------------


def test_tree_util_has_the_same_functions():
    for name, other in (
        ("tree_map", "map"),
        ("tree_flatten", "flatten"),
        ("tree_unflatten", "unflatten"),
        ("tree_leaves", "leaves"),
        ("tree_structure", "structure"),
        ("tree_all", "all"),
        ("tree_reduce", "reduce"),
        ("tree_transpose", "transpose"),
        ("tree_map_with_path", "map_with_path"),
        ("tree_flatten_with_path", "flatten_with_path"),
        ("tree_leaves_with_path", "leaves_with_path"),
        ("register_pytree_node", "register_node"),
        ("register_pytree_node_class", "register_class"),
        ("register_pytree_with_keys", "register_with_keys"),
        ("register_pytree_with_keys_class", "register_class_with_keys"),
    ):
        assert getattr(tree_util, name) is getattr(tree, other)
    for name in tree_util.__all__:
        assert getattr(tree_util, name) is not None


def test_the_registry_is_our_own():
    assert pytree.registry is not pytree.PyTreeRegistry()
    assert tree.flatten_one_level(Layer(1, 2)) is not None
