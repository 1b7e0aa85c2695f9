"""What a notebook shows of values by itself: it asks for `_repr_html_`, and keeps the text where
that is None."""

from __future__ import annotations

import html
import html.parser
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as jnp
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


def test_an_array_on_several_devices_is_its_numbers_and_a_picture():
    x = weft.device_put(jnp.arange(8.0), NamedSharding(MESH, P("i")))
    found = x._repr_html_()
    assert found == f"<pre>{html.escape(repr(x))}</pre>{weft.show(x).html}"
    keys = weft.device_put(
        weft.random.split(weft.random.key(0), 8), NamedSharding(MESH, P(("i", "j")))
    )
    assert "key<fry>" in shown(keys)


def test_where_text_says_as_much_there_is_none():
    x = jnp.arange(3.0)
    assert x._repr_html_() is None
    y = weft.device_put(np.ones(8), NamedSharding(MESH, P("i")))
    y.delete()
    assert y._repr_html_() is None


def test_nothing_is_drawn_or_loaded_before():
    code = (
        "import sys, weft; x = weft.make_mesh((1,), ('i',)); f = hasattr(x, '_repr_html_')\n"
        "drawing = lambda: 'weft.analysis.show' in sys.modules\n"
        "print(f, drawing(), len(x._repr_html_()) > 0, drawing())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False", "True", "True"]
