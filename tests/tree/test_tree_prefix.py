"""Prefixes of pytrees, where two trees differ, and what the errors say about it."""

from __future__ import annotations

import collections

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from tree_samples import Box, Layer, Named, Point, replaced, trees
from weft import tree
from weft.errors import TreeError

pytestmark = pytest.mark.fast


@hypothesis.given(trees)
def test_a_tree_is_a_prefix_of_itself(value):
    leaves = tree.leaves(value)
    treedef = tree.structure(value)
    assert tree.broadcast_prefix(value, value) == leaves
    assert tree.prefix_leaves("it", value, treedef) == leaves
    assert tree.prefix_leaves("it", 7, treedef) == [7] * len(leaves)
    assert tree.prefix_errors(value, treedef) == []
    assert tree.equality_errors(value, treedef) == []


@hypothesis.given(trees, strategies.data())
def test_a_tree_with_subtrees_cut_off_is_a_prefix(value, data):
    cut = strategies.booleans()
    prefix = tree.map(lambda _: "leaf", value, is_leaf=lambda x: x is not None and data.draw(cut))
    marks = tree.broadcast(prefix, value)
    assert tree.structure(marks) == tree.structure(value)
    assert tree.leaves(marks) == ["leaf"] * len(tree.leaves(value))
    assert tree.prefix_errors(prefix, value) == []


@hypothesis.given(trees, trees)
def test_differences_are_found_exactly_where_structures_differ(left, right):
    same = tree.structure(left) == tree.structure(right)
    found = tree.differences(left, right)
    assert (found == []) == same
    assert [d.path for d in found] == [d.path for d in tree.differences(right, left)]
    for difference in found:
        assert difference.left != difference.right
    between_structures = tree.differences(tree.structure(left), tree.structure(right))
    assert len(between_structures) == len(found)


@hypothesis.given(trees, trees)
def test_prefix_errors_agree_with_the_flattening(prefix, full):
    try:
        tree.structure(prefix).flatten_up_to(full)
        fits = True
    except ValueError:
        fits = False
    found = tree.prefix_errors(prefix, full)
    assert (found == []) == fits
    if fits:
        assert len(tree.prefix_leaves("it", prefix, full)) == len(tree.leaves(full))
    else:
        with pytest.raises(TreeError) as caught:
            tree.prefix_leaves("it", prefix, tree.structure(full))
        assert tree.keystr(found[0].path) in str(caught.value)


def is_none(x):
    return x is None


@pytest.mark.parametrize(
    ("prefix", "full", "expected"),
    [
        (0, ({"w": 1, "b": 2}, 3), [0, 0, 0]),
        ((0, None), ({"w": 1, "b": 2}, 3), [0, 0, None]),
        (({"w": 0, "b": 1}, None), ({"w": (1, 1), "b": 2}, 3), [1, 0, 0, None]),
        (None, [1, 2], [None, None]),
        ([None], [None], []),
        ([Layer(0, 1)], [Layer((1, 2), 3)], [0, 0, 1]),
        ((0, 1), ((), [5]), [1]),
    ],
)
def test_prefix_leaves(prefix, full, expected):
    assert tree.prefix_leaves("in_axes", prefix, full, is_none) == expected
    assert tree.prefix_leaves("in_axes", prefix, tree.structure(full), is_none) == expected
    assert tree.broadcast_prefix(prefix, full, is_none) == expected


def test_broadcast():
    assert tree.broadcast([1, 2], [{"a": 0, "b": None}, (0, 0)]) == [{"a": 1, "b": None}, (2, 2)]
    with pytest.raises(TreeError, match="the prefix tree is not a prefix"):
        tree.broadcast([1], [1, 2])


def test_a_list_for_a_tuple():
    full = ({"w": (0, 0)}, 0)
    prefix = ({"w": [0, None]}, 1)
    with pytest.raises(
        TreeError, match=r"in_axes is not a prefix .* differ at \[0\]\['w'\]"
    ) as caught:
        tree.prefix_leaves("in_axes", prefix, tree.structure(full), is_none)
    error = caught.value
    assert error.got == "a list of length 2 in in_axes"
    assert error.wanted.startswith("a tuple of length 2")
    fix = error.fix
    assert fix.text == "at [0]['w'] write a tuple instead of a list"
    mended = replaced(prefix, fix.data["path"], fix.data["replacement"])
    assert tree.prefix_leaves("in_axes", mended, tree.structure(full), is_none) == [0, None, 1]


@pytest.mark.parametrize(
    ("prefix", "full", "path", "got", "wanted", "advice"),
    [
        ((0, 1), (5,), "", "a tuple of length 2", "a tuple of length 1", "a tuple of length 1"),
        (((0, 1),), (5,), "[0]", "a tuple of length 2", "the leaf 5", "one leaf"),
        (
            [{"a": 0}],
            [{"a": 0, "b": 0}],
            "[0]",
            "a dict with keys ['a']",
            "a dict with keys ['a', 'b']",
            "keys ['a', 'b']",
        ),
        ([1, None], [1, 2], "[1]", "None", "the leaf 2", "one leaf"),
        ([(1,)], [None], "[0]", "a tuple of length 1", "None", "write None"),
        (
            [(1, 2)],
            [Point(1, 2)],
            "[0]",
            "a tuple of length 2",
            "a Point with 2 children",
            "a Point",
        ),
        (
            ([1],),
            (np.zeros((2, 3), np.float32),),
            "[0]",
            "a list of length 1",
            "an array of shape (2, 3) and dtype float32",
            "one leaf",
        ),
        ([[1]], [object()], "[0]", "a list of length 1", "a leaf of type object", "one leaf"),
    ],
)
def test_prefix_errors(prefix, full, path, got, wanted, advice):
    (found,) = tree.prefix_errors(prefix, full)
    assert (tree.keystr(found.path), found.left, found.right) == (path, got, wanted)
    assert advice in found.fix.text
    with pytest.raises(TreeError) as caught:
        tree.prefix_leaves("specs", prefix, full)
    assert caught.value.got == f"{got} in specs" and caught.value.wanted.startswith(wanted)


def test_a_prefix_error_is_told_without_the_tree():
    with pytest.raises(TreeError, match=r"differ at \[0\]\.first") as caught:
        tree.prefix_leaves("specs", [Named([1], 2)], tree.structure([Named(0, 0)]))
    assert caught.value.wanted.startswith("a leaf")


def test_several_prefix_errors():
    found = tree.prefix_errors({"a": [1], "b": 2, "c": (3, 4)}, {"a": 1, "b": [2, 3], "c": [3, 4]})
    assert [tree.keystr(d.path) for d in found] == ["['a']", "['c']"]


def test_no_instance_is_built_while_prefixes_are_matched():
    class Picky:
        def __init__(self, value):
            assert isinstance(value, np.ndarray)
            self.value = value

    tree.register_node(Picky, lambda p: ((p.value,), None), lambda _, c: Picky(*c))
    full = tree.structure((Picky(np.zeros(3)), 1))
    assert tree.prefix_leaves("in_axes", (0, 1), full) == [0, 1]


# ---- differences -----------------------------------------------------------------------


def test_equality_errors():
    left = {"a": (1, 2), "b": [Layer(1, 2)], "c": 3}
    right = {"a": [1, 2], "b": [Layer(1, None)], "c": 4}
    expected = [
        ("['a']", "a tuple of length 2 against a list of length 2"),
        ("['b'][0].bias", "the leaf 2 against None"),
    ]
    found = tree.equality_errors(left, right)
    assert [(tree.keystr(path), text) for path, text in found] == expected
    found = tree.equality_errors(tree.structure(left), tree.structure(right))
    assert [(tree.keystr(path), text) for path, text in found] == [
        expected[0],
        ("['b'][0].bias", "a leaf against None"),
    ]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([1, [2]], "[1]"),
        ({"k": [1]}, "['k']"),
        (collections.OrderedDict(k=[1]), "['k']"),
        (collections.defaultdict(int, k=[1]), "['k']"),
        (Point(1, [2]), ".y"),
        (Layer(1, [2]), ".bias"),
        (Box([2]), "[<flat index 0>]"),
    ],
)
def test_structures_know_the_keys_of_known_classes(value, path):
    other = tree.map(lambda x: x, value, is_leaf=lambda x: x is not value)
    other = tree.map(
        lambda x: 0 if isinstance(x, list) else x, other, is_leaf=lambda x: x in ([1], [2])
    )
    (found,) = tree.differences(tree.structure(value), tree.structure(other))
    assert tree.keystr(found.path) == path


def test_data_that_differs_is_shown():
    (found,) = tree.differences(Layer(1, 2, "tanh"), Layer(1, 2, "relu"))
    assert "tanh" in found.left and "relu" in found.right
