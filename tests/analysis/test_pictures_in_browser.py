"""Pictures in a real browser: text lies inside of its boxes, programs open, light is light and dark
is dark.

Pages run no scripts of their own; the tests add one that measures. The browser is the Debian
package `chromium`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.analysis.picture_style import BLOCKS, DARK, LIGHT
from weft.sharding import AbstractMesh, NamedSharding, P

# Reads the screenshots. The newest Pythons that continuous integration tries have it not.
images = pytest.importorskip("matplotlib.image")

BROWSER = shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium")

MESH = weft.make_mesh((4, 2), ("i", "j"))

# Writes what it found into the page, as JSON: texts of a picture that reach out of their cell, out
# of the picture, or over another text; and what the rows of a program are like.
MEASURE = """
<pre id="measured"></pre><script>
const found = {outside: [], overlapping: [], cells: 0, texts: 0, rows: [], wide: []};
const box = e => e.getBoundingClientRect();
const inside = (a, b) => a.left >= b.left && a.right <= b.right && a.top >= b.top
    && a.bottom <= b.bottom;
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom
    && b.top < a.bottom;
for (const svg of document.querySelectorAll('svg')) {
  const cells = [...svg.querySelectorAll('.weft-block')], texts = [...svg.querySelectorAll('text')];
  found.cells += cells.length; found.texts += texts.length;
  for (const text of texts) {
    const t = box(text), middle = {x: (t.left + t.right) / 2, y: (t.top + t.bottom) / 2};
    if (!inside(t, box(svg))) found.outside.push(text.textContent);
    for (const cell of cells) {
      const c = box(cell);
      const over = middle.x > c.left && middle.x < c.right && middle.y > c.top
          && middle.y < c.bottom;
      if (over ? !inside(t, c) : meet(t, c)) found.outside.push(text.textContent);
    }
    for (const other of texts)
      if (other !== text && meet(t, box(other)) && !cells.some(c => inside(t, box(c))))
        found.overlapping.push(text.textContent);
  }
}
document.querySelectorAll('details').forEach((details, n) => {
  const before = box(details).height, was = details.open;
  details.querySelector('summary').click();
  found.rows.push([was, details.open, before, box(details).height]);
  details.open = true;
});
for (const row of document.querySelectorAll('.weft-row')) {
  const code = box(row.querySelector('code'));
  for (const cell of row.querySelectorAll(':scope > span'))
    if (meet(code, box(cell)) || cell.scrollWidth > cell.clientWidth + 1)
      found.wide.push(row.textContent);
}
found.ground = getComputedStyle(document.querySelector('.weft-picture')).backgroundColor;
document.getElementById('measured').textContent = JSON.stringify(found);
</script>
"""


def browse(*options):
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    done = subprocess.run([*command, *options], capture_output=True, timeout=120, check=True)
    return done.stdout.decode("utf-8")


def scheme(dark):
    return f"--blink-settings=preferredColorScheme={0 if dark else 1}"


def measured(folder, pictures, dark=False):
    """What the script measures on a page of several pictures."""
    folder.mkdir(exist_ok=True)
    pictures[0].save(folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    more = "".join(picture.html for picture in pictures[1:])
    page = page.replace("</body>", more + MEASURE + "</body>")
    (folder / "page.html").write_text(page, encoding="utf-8")
    url = (folder / "page.html").as_uri()
    dom = browse(scheme(dark), "--window-size=1200,900", "--dump-dom", url)
    text = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.DOTALL).group(1)
    for written, meant in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(written, meant)
    return json.loads(text)


def pixels(folder, name, picture, dark):
    """The pixels of a picture in the browser, as integers."""
    path = folder / name
    picture.save(path)
    shot = folder / f"{path.stem}_{dark}.png"
    browse(scheme(dark), "--window-size=900,700", f"--screenshot={shot}", path.as_uri())
    return np.rint(images.imread(shot)[..., :3] * 255).astype(int)


def count(shot, color):
    """How many pixels have a colour."""
    wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return int((abs(shot - wanted).max(-1) <= 1).sum())


def layouts():
    mesh = AbstractMesh((2, 2, 2), ("a", "b", "c"))
    many = AbstractMesh((64, 64), ("x", "y"))
    shown = []
    weft.shard_map(
        lambda x: shown.append(weft.show(x)) or x, mesh=MESH, in_specs=P("i"), out_specs=P("i")
    )(1e4 * jnp.arange(8.0) / 7)
    return [
        weft.show(weft.device_put(jnp.zeros((8, 6)), NamedSharding(MESH, P("i", "j")))),
        weft.show(jnp.float32(1)),
        weft.show(P("j"), (8, 6), mesh=MESH),
        weft.show(P(), (8, 6), mesh=many),
        weft.show(P("a", None, "b", "c"), (1000000, 3, 200, 4000000), mesh=mesh),
        weft.show(mesh),
        weft.show(P("x", "y"), (64000000, 64), mesh=many),
        *shown,
    ]


def network(weights, x):
    def layer(x, w):
        return jnp.tanh(x @ w), None

    x, _ = weft.lax.scan(layer, x, weights)
    return weft.lax.cond(x.sum() > 0, jnp.exp, lambda x: x * 2, x).sum()


def program():
    shapes = jnp.ones((10, 64, 64)), jnp.ones((128, 64))
    return weft.show(weft.make_jaxpr(weft.value_and_grad(network))(*shapes))


@pytest.mark.parametrize("dark", [False, True])
def test_text_lies_inside_of_its_boxes(tmp_path, dark):
    pictures = layouts()
    found = measured(tmp_path, pictures, dark)
    assert not found["outside"] and not found["overlapping"]
    assert found["cells"] == 8 + 1 + 2 + 1 + 8 + 8 + 81 + 4 and found["texts"] > found["cells"]
    wanted = (DARK if dark else LIGHT)["ground"]
    channels = map(int, re.findall(r"\d+", found["ground"]))
    assert "#" + "".join(f"{c:02x}" for c in channels) == wanted


def test_the_measure_finds_text_that_is_too_wide(tmp_path):
    picture = layouts()[0]
    html = picture.html.replace("CPU 3", "CPU 3 and many others").replace("2:4", "2222222222:4")

    class Changed(type(picture)):
        def __init__(self):
            self.title = "changed"

        @property
        def html(self):
            return html

    found = measured(tmp_path, [Changed()])
    assert "CPU 3 and many others" in found["outside"] and "2222222222:4" in found["outside"]


def test_programs_open_and_close(tmp_path):
    found = measured(tmp_path, [program()])
    assert len(found["rows"]) == 4  # two scans and two conditionals
    for was, now, before, after in found["rows"]:
        assert was != now and (after < before / 2 if was else after > 2 * before)
    assert not found["wide"]


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_an_svg_in_the_browser(tmp_path, dark):
    shot = pixels(tmp_path, "picture.svg", layouts()[0], dark)
    colors = DARK if dark else LIGHT
    assert count(shot, colors["text"]) > 50
    for pair in BLOCKS[:8]:
        # The cell without its edge and its text: most of 64 by 38 pixels.
        assert 1000 < count(shot, pair[dark]) < 64 * 38 and count(shot, pair[not dark]) == 0


@pytest.mark.parametrize("dark", [False, True])
def test_colours_of_a_page_in_the_browser(tmp_path, dark):
    shot = pixels(tmp_path, "page.html", program(), dark)
    colors, others = (DARK, LIGHT) if dark else (LIGHT, DARK)
    # Most of the picture is its ground; words are there in their colours, and bars.
    assert count(shot, colors["ground"]) > 100_000 and count(shot, colors["inner"]) > 20_000
    assert count(shot, others["ground"]) == 0
    for name in ("text", "quiet", "primitive", "type"):
        assert count(shot, colors[name]) > 50, name
    assert count(shot, colors["bar"]) > 200
