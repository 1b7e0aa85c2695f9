"""What a notebook shows of values by itself: it asks for `_repr_html_`, and keeps the text where
that is None."""

from __future__ import annotations

import html
import html.parser
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft.arrays.array import Array
from weft.sharding import AbstractMesh, NamedSharding, P

MESH = weft.make_mesh((4, 2), ("i", "j"))


class Texts(html.parser.HTMLParser):
    """The texts of a page, without its style."""

    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.inside.append(tag)

    def handle_endtag(self, tag):
        assert self.inside.pop() == tag

    def handle_data(self, data):
        if "style" not in self.inside:
            self.found.append(data)


def shown(value):
    return " ".join(Texts(value._repr_html_()).found)


@pytest.mark.parametrize("mesh", [MESH, AbstractMesh((4, 1024), ("i", "j"))], ids=repr)
def test_meshes(mesh):
    assert mesh._repr_html_() == weft.show(mesh).html


def test_jaxprs():
    closed = weft.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    page = weft.show(closed).html
    assert closed._repr_html_() == closed.jaxpr._repr_html_() == page


@pytest.mark.parametrize(
    "spec, shape",
    [(P(), ()), (P("i"), (4,)), (P("j", None, "i"), (2, 1, 4)), (P(None, ("j", "i")), (1, 8))],
    ids=str,
)
def test_a_sharding_is_that_of_the_smallest_array_that_it_divides(spec, shape):
    sharding = NamedSharding(MESH, spec)
    assert f"{sharding!r}" in shown(sharding)
    drawn = weft.show(sharding, shape).html
    cells = [text for text in Texts(drawn).found if text.startswith("CPU")]
    assert cells and cells == [
        text for text in Texts(sharding._repr_html_()).found if text.startswith("CPU")
    ]


def cells(value):
    """The rows of the first table, each with the texts of its cells."""
    table = re.search("<table>(.*?)</table>", value._repr_html_())[1]
    rows = re.findall("<tr>(.*?)</tr>", table)
    return [
        [html.unescape(text) for text in re.findall("<t[hd]>(.*?)</t[hd]>", row)] for row in rows
    ]


def test_an_array_is_what_it_is_and_its_values():
    x = jnp.array([[1.5, -2.0], [1e-8, jnp.nan]])
    assert shown(x).startswith("Array  shape (2, 2), float32, 16 bytes, on cpu:0")
    assert cells(x) == [["", "0", "1"], ["0", "1.5", "-2"], ["1", "1e-08", "nan"]]
    assert cells(jnp.arange(3)) == [["", "0", "1", "2"], ["", "0", "1", "2"]]
    assert cells(jnp.array([True, False]))[1] == ["", "True", "False"]
    assert cells(jnp.array([1 + 2j]))[1] == ["", "1+2j"]
    assert cells(jnp.array([1.5], jnp.bfloat16))[1] == ["", "1.5"]
    assert "weak type" in shown(jnp.full(2, 1.0)) and "weak type" not in shown(x)
    assert cells(jnp.array([[[3]], [[4]]])) == [["", "0"], ["0", "3"]]
    assert "The values at [0, :, :]:" in shown(jnp.ones((2, 1, 1)))


def test_the_middle_of_a_long_dimension_is_left_out():
    x = jnp.arange(30 * 9).reshape(30, 9)
    found = cells(x)
    assert found[0] == ["", "0", "1", "2", "3", "…", "5", "6", "7", "8"]
    assert [row[0] for row in found[1:]] == ["0", "1", "2", "3", "⋮", "26", "27", "28", "29"]
    assert found[5] == ["⋮", "⋮", "⋮", "⋮", "⋮", "⋱", "⋮", "⋮", "⋮", "⋮"]
    assert found[9] == ["29", "261", "262", "263", "264", "…", "266", "267", "268", "269"]


@pytest.mark.parametrize("spec", [None, P("i", "j"), P(None, ("i", "j")), P("j")], ids=str)
def test_no_more_is_read_of_a_large_array_than_is_shown(monkeypatch, spec):
    values = np.arange(1200 * 1200, dtype=np.float32).reshape(1200, 1200)
    x = jnp.asarray(values) if spec is None else weft.device_put(values, NamedSharding(MESH, spec))
    monkeypatch.setattr("weft.arrays.array.gather_blocks", None)
    assert cells(x)[-1][-1] == f"{1200 * 1200 - 1:.5g}"
    assert repr(x).startswith(f"Array({np.array2string(values, separator=', ', prefix='Array(')}")
    assert str(x) == str(values) and not hasattr(x, "_host")


def test_a_device_whose_memory_is_not_the_hosts_picks_the_values(monkeypatch):
    """As on a GPU: only what is shown is copied, also where a function is being traced."""
    values = np.arange(1200 * 1200, dtype=np.float32).reshape(1200, 1200)
    arrays = [jnp.asarray(values), weft.device_put(values, NamedSharding(MESH, P("i", "j")))]
    copied = []
    own = Array._stored
    monkeypatch.setattr("weft.arrays.texts._on_host", lambda block: False)
    monkeypatch.setattr(Array, "_stored", lambda x: (copied.append(x.size), own(x))[1])
    wanted = f"Array({np.array2string(values, separator=', ', prefix='Array(')}"
    seen = []
    weft.jit(lambda _: seen.extend(repr(x) for x in arrays))(0)
    assert all(text.startswith(wanted) for text in seen) and len(seen) == 2
    assert max(copied) <= 49
    with weft.transfer_guard("disallow"):
        assert "cannot be read: a copy from a device to the host" in shown(arrays[0])


def test_an_array_on_several_devices_has_a_picture():
    x = weft.device_put(jnp.arange(8.0), NamedSharding(MESH, P("i")))
    assert x._repr_html_().endswith(weft.show(x).html)
    assert cells(x)[1] == ["", *map(str, range(8))]
    keys = weft.device_put(
        weft.random.split(weft.random.key(0), 8), NamedSharding(MESH, P(("i", "j")))
    )
    assert "key<fry>" in shown(keys) and "random keys" in shown(keys)


def test_values_that_are_not_there_fail_nothing(monkeypatch):
    y = weft.device_put(np.ones(8), NamedSharding(MESH, P("i")))
    z = weft.device_put(np.ones(8), NamedSharding(MESH, P("i")))
    y.delete()
    assert "deleted" in shown(y) and "<table>" not in y._repr_html_()
    assert "shape (0, 3)" in shown(jnp.ones((0, 3)))
    # What a process of several sees of an array that it does not hold whole.
    monkeypatch.setattr(type(z), "_is_whole", lambda self: False)
    assert "on other processes" in shown(z) and "CPU 0,1" in shown(z)


def test_values_that_cannot_be_read_say_why(monkeypatch):
    def fail(*_):
        raise RuntimeError("the step failed: <nan>\nmore")

    monkeypatch.setattr("weft.analysis.array_html.values_at", fail)
    assert "cannot be read: the step failed: <nan>" in shown(jnp.ones(3))


def test_traced_values_and_numbers_stay_text():
    assert jnp.float32(1.0)._repr_html_() is None
    seen = []
    weft.jit(lambda x: seen.append((hasattr(x, "_repr_html_"), repr(x))))(jnp.ones(3))
    assert seen == [(False, "Traced<f32[3]>(jit)")]


def test_nothing_is_drawn_or_loaded_before():
    code = (
        "import sys, weft; x = weft.make_mesh((1,), ('i',)); f = hasattr(x, '_repr_html_')\n"
        "drawing = lambda: 'weft.analysis.show' in sys.modules\n"
        "print(f, drawing(), len(x._repr_html_()) > 0, drawing())"
    )
    assert python_output("-c", code).split() == ["True", "False", "True", "True"]
