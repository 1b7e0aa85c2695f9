"""Jaxprs as pages: the same equations and names as their text, costs counted by hand, lines."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import weft
import weft.numpy as jnp
from golden_programs import JAXPRS
from weft.analysis import jaxpr_html as pages
from weft.core.jaxpr import show_jaxpr
from weft.errors import WeftValueError
from weft.sharding import P


class Rows(HTMLParser):
    """Reads a page: for each row its code and its cells, and the words above inner jaxprs."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.parts, self.depth, self.titles = [], [], [], []
        self.feed(html)
        assert not self.depth, self.depth

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in ("meta", "br"):
            return
        style = attrs.get("class", "").split()
        self.depth.append((tag, style))
        if "weft-row" in style:
            self.rows.append([])
        elif "weft-part" in style:
            self.parts.append("")
        elif tag == "code" or (tag == "span" and self.inside() in ("div", "summary")):
            self.rows[-1].append("")
            self.titles.append(attrs.get("title", ""))

    def inside(self):
        return self.depth[-2][0] if len(self.depth) > 1 else ""

    def handle_endtag(self, tag):
        assert self.depth.pop()[0] == tag

    def handle_data(self, data):
        if any(tag == "style" for tag, _ in self.depth):
            return
        if self.depth and "weft-part" in self.depth[-1][1]:
            self.parts[-1] += data
        else:
            self.rows[-1][-1] += data


def read(f, *args):
    html = weft.show(weft.make_jaxpr(f)(*args)).html
    return Rows(html)


def costs_of(rows, primitive):
    """The cells for the only equation of a primitive."""
    [found] = [row for row in rows.rows if re.search(rf"= {primitive}\b", row[0])]
    return found[1:4]


def test_costs_of_equations_counted_by_hand():
    rows = read(lambda x, y: jnp.exp(x @ y), jnp.ones((2, 3)), jnp.ones((3, 4)))
    # 2 * 2 * 3 * 4 flops; 6 + 12 numbers read, 8 written, of four bytes.
    assert costs_of(rows, "dot_general") == ["48", "", "104"]
    assert costs_of(rows, "exp") == ["", "8", "64"]
    assert rows.rows[-1][1:4] == ["48", "8", "168"]


def test_loops_are_multiplied_and_of_branches_the_dearest_counts():
    def f(x):
        x, _ = weft.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=5)
        return weft.lax.cond(x[0] > 0, lambda x: x * 2, lambda x: x * 2 + 1, x)

    rows = read(f, jnp.ones(10))
    assert costs_of(rows, "scan")[1] == "50" and costs_of(rows, "sin")[1] == "10"
    assert costs_of(rows, "cond")[0] == "20"
    assert "jaxpr, 5 times; costs are those of one run" in rows.parts
    assert {"branches[0], if it is chosen", "branches[1], if it is chosen"} <= set(rows.parts)
    assert "of branches the dearest is counted" in rows.titles


def test_what_is_not_known_is_said():
    rows = read(lambda x: weft.lax.while_loop(lambda c: c[0] < 5, lambda c: c * 2, x), jnp.ones(3))
    assert costs_of(rows, "while")[0] == "≥ 3"
    assert "a while loop is counted once" in rows.titles

    def called(x):
        return weft.pure_callback(lambda x: x, x, x)

    rows = read(called, jnp.ones(3))
    assert costs_of(rows, "pure_callback")[0] == "?"
    assert "no cost is known of pure_callback" in rows.titles


def test_a_shard_map_counts_for_one_device():
    mesh = weft.make_mesh((4,), ("i",))
    f = weft.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    assert costs_of(read(f, jnp.ones(8)), "shard_map")[0] == "2"


def test_lines_are_those_of_the_user():
    def f(x):
        return jnp.sin(x)  # here

    rows = read(f, 1.0)
    [row] = [row for row in rows.rows if "= sin" in row[0]]
    assert re.fullmatch(r"test_jaxpr_pages\.py:\d+", row[4])
    assert any(t.endswith(".f\nreturn jnp.sin(x)  # here") for t in rows.titles)


@pytest.mark.parametrize("name", sorted(JAXPRS))
def test_names_and_equations_are_those_of_the_text(name):
    """Equations of the text, without parameters, stand in the page in the same order."""
    f, args = JAXPRS[name]
    jaxpr = weft.make_jaxpr(f)(*args)
    pattern = r"((?:[a-z]+:\S+ )+)= ([a-z_0-9]+)"
    text = re.findall(pattern, show_jaxpr(jaxpr))
    rows = Rows(weft.show(jaxpr).html)
    assert re.findall(pattern, "\n".join(row[0] for row in rows.rows)) == text and text
    heads = re.findall(r"\{ lambda.*?\. let", show_jaxpr(jaxpr))
    assert [row[0] for row in rows.rows if row[0].startswith("{ lambda")] == heads


def test_text_is_escaped():
    def f(x):
        return x + 1

    f.__name__ = "<i>f</i>"
    html = weft.show(weft.make_jaxpr(weft.jit(f))(1.0)).html
    assert "<i>" not in html and "&lt;i&gt;f&lt;/i&gt;" in html


def test_long_programs(monkeypatch):
    def f(x):
        for _ in range(60):
            x = jnp.sin(x)
        return weft.lax.cond(x > 0, jnp.sin, jnp.cos, x)

    html = weft.show(weft.make_jaxpr(f)(1.0)).html
    assert "<details>" in html and "<details open>" not in html
    assert "<details open>" in weft.show(weft.make_jaxpr(weft.jit(jnp.sin))(1.0)).html
    monkeypatch.setattr(pages, "MOST_ROWS", 10)
    rows = Rows(weft.show(weft.make_jaxpr(f)(1.0)).html)
    assert sum("= sin" in row[0] for row in rows.rows) == 10
    assert any(re.match(r"… 5\d more equations", row[0]) for row in rows.rows)


def test_text_and_files(tmp_path):
    jaxpr = weft.make_jaxpr(jnp.sin)(1.0)
    found = weft.show(jaxpr)
    assert str(found) == str(jaxpr) and str(weft.show(jaxpr.jaxpr)) == str(jaxpr)
    assert found._repr_html_() == found.html
    found.save(tmp_path / "a.html")
    assert "<title>jaxpr of sin</title>" in (tmp_path / "a.html").read_text(encoding="utf-8")
    with pytest.raises(WeftValueError, match="not as SVG"):
        _ = found.svg
