"""Lists of which some entries are marked: taken apart, and put together again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.util import drop_marked, keep_marked, merge, one_each, partition, scatter_to_marked

pytestmark = pytest.mark.fast

FLAGS = [True, False, False, True]


def test_values_are_told_apart_by_their_flags():
    assert keep_marked(FLAGS, "abcd") == ["a", "d"]
    assert drop_marked(FLAGS, "abcd") == ["b", "c"]
    assert partition(FLAGS, "abcd") == (["a", "d"], ["b", "c"])


def test_values_are_put_together_in_the_order_of_the_flags():
    assert merge(FLAGS, [1, 2], ["x", "y"]) == [1, "x", "y", 2]
    assert scatter_to_marked(FLAGS, [1, 2]) == [1, None, None, 2]


@given(st.lists(st.tuples(st.booleans(), st.integers())))
def test_merging_undoes_partitioning(pairs):
    flags, values = [flag for flag, _ in pairs], [value for _, value in pairs]
    assert merge(flags, *partition(flags, values)) == values


@pytest.mark.parametrize("function", [keep_marked, drop_marked, partition])
def test_there_is_a_flag_for_each_value(function):
    with pytest.raises(ValueError, match="zip"):
        function([True], [1, 2])


def test_one_flag_stands_for_all():
    assert one_each(True, 3) == (True, True, True)
    assert one_each((True, False), 2) == (True, False)


def test_an_iterator_gives_only_as_many_values_as_are_marked():
    values = iter("abc")
    assert scatter_to_marked([True, False], values) == ["a", None]
    assert list(values) == ["b", "c"]
