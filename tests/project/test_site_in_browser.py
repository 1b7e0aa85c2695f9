"""The site in a real browser: no page writes errors, the search finds, links lead somewhere, text
has contrast in light and in dark, and nothing is wider than a phone.

`make test-site` builds the pages and says where they are (WEFT_SITE); otherwise these tests are
skipped. The browser is the Debian package `chromium`. One page, which the tests add, opens the
others one by one in a frame, and measures.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

import pytest

from source_files import ROOT

BROWSER = shutil.which("chromium")
SITE = os.environ.get("WEFT_SITE")
pytestmark = [
    pytest.mark.skipif(SITE is None, reason="needs the built site: make test-site"),
    pytest.mark.skipif(BROWSER is None, reason="needs the browser chromium"),
]

# All pages but those of the reference; of these, some of each kind.
REFERENCE = [
    "README", "weft", "weft.numpy", "weft.lax", "weft.random", "weft.config",
    "weft.scipy.stats.norm", "weft.jit", "weft.grad", "weft.shard_map", "weft.Array",
    "weft.Ref-class", "weft.numpy.einsum", "weft.numpy.sin", "weft.lax.scan",
    "weft.lax.GatherScatterMode", "weft.random.normal", "weft.checkpoints.Checkpoints",
    "weft.errors.ShapeError", "weft.export.Exported", "weft.nn.dot_product_attention",
    "weft.scipy.linalg.svd", "weft.extend.core.Primitive",
]  # fmt: skip

# A page with everything that is looked for: it shows that the checks are able to fail.
WRONG = """<!doctype html><title></title><body style="background: white"><article>
<p style="color: #ccc; width: 900px">too faint, and too wide</p></article>
<script>no_such_function();</script></body>"""

DRIVER = """<!doctype html><meta charset="utf-8"><title>driver</title>
<iframe id="frame" style="border: 0; height: 900px"></iframe><pre id="found"></pre><script>
const frame = document.getElementById('frame'), pages = PAGES, found = [];
const numbers = color => (color.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const over = (top, below) => {
  const alpha = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map(i => alpha * top[i] + (1 - alpha) * below[i]);
};
const light = color => {
  const [r, g, b] = color.map(c => c / 255).map(
      c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
const background = (view, element) => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const color = numbers(view.getComputedStyle(e).backgroundColor);
    layers.push(color);
    if (color.length === 3 || color[3] === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
};
// The worst contrast per kind of element whose own text can be seen.
const faint = view => {
  const worst = {};
  for (const e of view.document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (e.closest('svg, script, style, .headerlink')) continue;
    const style = view.getComputedStyle(e), box = e.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const back = background(view, e), ratio = contrast(over(numbers(style.color), back), back);
    const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 600;
    const needed = size >= 24 || (bold && size >= 18.6) ? 3 : 4.5;
    const kind = `${e.tagName.toLowerCase()}.${e.className} on ${back.map(Math.round)}`;
    if (ratio < needed && !(worst[kind]?.ratio < ratio))
      worst[kind] = {ratio, text: e.textContent.trim().slice(0, 30), color: style.color};
  }
  return worst;
};
const settle = () => new Promise(done => setTimeout(done, 60));
(async () => {
  for (const page of pages) {
    const one = {page};
    frame.style.width = '1300px';
    await new Promise(done => { frame.onload = done; frame.src = page; });
    const view = frame.contentWindow, body = view.document.body;
    await settle();
    one.title = view.document.title;
    one.text = body.querySelector('article')?.textContent.trim().length;
    for (const theme of ['light', 'dark']) {
      body.dataset.theme = theme;
      await settle();
      one[theme] = faint(view);
    }
    frame.style.width = '390px';
    await settle();
    one.wide = view.document.scrollingElement.scrollWidth;
    found.push(one);
  }
  document.getElementById('found').textContent = JSON.stringify(found);
})();
</script>"""


@functools.cache
def root() -> pathlib.Path:
    """The folder of the version that was built."""
    return next(page.parent for page in (ROOT / SITE).glob("*/index.html"))


@pytest.fixture(scope="module")
def address():
    """Where the site is served; /driver.html is the page that opens the others."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path not in ("/driver.html", "/wrong.html"):
                super().do_GET()
                return
            listed = json.dumps([*pages(), "/wrong.html"])
            text = WRONG if self.path == "/wrong.html" else DRIVER.replace("PAGES", listed)
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    handler = functools.partial(Handler, directory=str(ROOT / SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def pages():
    """The pages that are opened, as paths on the server."""
    guides = [p for p in sorted(root().rglob("*.html")) if p.parent.name not in ("api", "_static")]
    assert len(guides) > 40
    chosen = [root() / "api" / f"{name}.html" for name in REFERENCE]
    assert [page for page in chosen if not page.exists()] == []
    return [f"/{page.relative_to(ROOT / SITE).as_posix()}" for page in [*guides, *chosen]]


def visited(url, milliseconds):
    """(the page as it is after its scripts, what was written to the console)."""
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--dump-dom", "--window-size=1400,1000", f"--virtual-time-budget={milliseconds}", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


@pytest.fixture(scope="module")
def found(address):
    """What the driver measured on each page, and all that was written to the console."""
    text, console = visited(f"{address}/driver.html", 1000 * len(pages()))
    measured = re.search(r'<pre id="found">(.*?)</pre>', text, re.DOTALL)[1]
    assert measured, f"the driver did not end: {console}"
    *shown, wrong = json.loads(html.unescape(measured))
    errors = [line for line in console if "wrong.html" in line]
    assert wrong["wide"] > 390 and wrong["light"] and wrong["dark"] and not wrong["title"]
    assert errors, "an error of a page is not noticed"
    return shown, [line for line in console if line not in errors]


def test_pages_are_shown_without_errors(found):
    shown, console = found
    assert len(shown) == len(pages())
    assert console == []
    assert [one["page"] for one in shown if not one["title"]] == []
    assert [one["page"] for one in shown if (one["text"] or 0) < 20] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(found, theme):
    faint = {}
    for one in found[0]:
        for kind, worst in one[theme].items():
            faint.setdefault(kind, (round(worst["ratio"], 2), worst, one["page"]))
    assert not faint, "\n".join(f"{kind}: {said}" for kind, said in faint.items())


def test_no_page_is_wider_than_a_phone(found):
    assert {one["page"]: one["wide"] for one in found[0] if one["wide"] > 390} == {}


@pytest.mark.parametrize(
    ("query", "page", "first"),
    [
        ("shard_map", "api/weft.shard_map.html", 1),
        ("einsum", "api/weft.numpy.einsum.html", 1),
        ("fori_loop", "api/weft.lax.fori_loop.html", 1),
        ("donation", "compiling.html", 3),
    ],
)
def test_the_search_finds(address, query, page, first):
    text, console = visited(f"{address}/{root().name}/search.html?q={query}", 20_000)
    results = re.search(r'<ul[^>]*class="search".*?</ul>', text, re.DOTALL)
    # Sphinx looks for the anchor `weft.shard_map` by a selector, where the dot means a class, and
    # then shows the beginning of the page.
    assert results and [line for line in console if "Anchored content block" not in line] == []
    places = re.findall(r'href="([^"#?]+)', results[0])
    assert any(place.endswith(page) for place in places[:first]), places[:10]


# ---- all pages, without a browser ------------------------------------------------------------


@pytest.fixture(scope="module")
def built():
    """The text of every page, by its path."""
    return {path: path.read_text(encoding="utf-8") for path in sorted(root().rglob("*.html"))}


def test_no_link_is_dead(built):
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in built.items()}
    dead = set()
    for path, text in built.items():
        for target in set(re.findall(r'\b(?:href|src)="([^"]+)"', text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = html.unescape(target).partition("#")
            file = path.parent / name.partition("?")[0] if name else path
            if not file.exists():
                file = pathlib.Path(os.path.normpath(file))
            there = pathlib.Path(os.path.normpath(file))
            if not there.exists() or (anchor and there in anchors and anchor not in anchors[there]):
                dead.add(f"{path.relative_to(root())}: {target}")
    assert not dead, "\n".join(sorted(dead)[:50])


def test_nothing_comes_from_another_host(built):
    loaded = re.compile(
        r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]+"
    )
    assert [found for text in built.values() for found in loaded.findall(text)] == []
    styles = [path.read_text(encoding="utf-8") for path in root().rglob("*.css")]
    assert styles
    fetched = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])(?:https?:)?//[^)'\"]+")
    assert [found for text in styles for found in fetched.findall(text)] == []
