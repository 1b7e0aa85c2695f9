"""The colours of pictures in light and in dark, and the CSS that is made of them.

Each picture paints its own ground, so that it is readable on a page of either kind. Names of
classes begin with `weft-`, and every rule is for elements of such a class, so that nothing else on
a page changes.
"""

from __future__ import annotations

from collections.abc import Mapping

# Grounds of blocks, light and dark: twelve hues of about equal lightness, in an order in which
# neighbours differ.
BLOCKS = (
    ("#bfdbfe", "#1e3a6e"), ("#fde68a", "#5b4306"), ("#bbf7d0", "#14532d"),
    ("#fecdd3", "#7a1f33"), ("#ddd6fe", "#45308a"), ("#fed7aa", "#703410"),
    ("#a5f3fc", "#0f4f5e"), ("#f5d0fe", "#6b1f75"), ("#d9f99d", "#3b5212"),
    ("#e2e8f0", "#3d4a5c"), ("#99f6e4", "#115048"), ("#fbcfe8", "#7a1d50"),
)  # fmt: skip

LIGHT: Mapping[str, str] = {
    "ground": "#ffffff",
    "text": "#1f2328",
    "quiet": "#57606a",
    "rule": "#d0d7de",
    "primitive": "#0550ae",
    "type": "#116329",
    "inner": "#f6f8fa",
    "bar": "#cfe3ff",
    "edge": "#ffffff",
}
DARK: Mapping[str, str] = {
    "ground": "#0d1117",
    "text": "#e6edf3",
    "quiet": "#9aa4af",
    "rule": "#3d444d",
    "primitive": "#79c0ff",
    "type": "#7ee787",
    "inner": "#161b22",
    "bar": "#173a63",
    "edge": "#0d1117",
}


def block_colors(rank: int) -> str:
    """The class of a block's ground, by the rank of its first device."""
    return f"weft-block-{rank % len(BLOCKS)}"


_MONOSPACE = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"


def _svg_css() -> str:
    """In light the attributes of the elements say the colours, for programs that know no CSS."""
    dark = [
        f".weft-ground{{fill:{DARK['ground']}}}",
        f".weft-text{{fill:{DARK['text']}}}",
        f".weft-quiet{{fill:{DARK['quiet']}}}",
        f".weft-left-out{{fill:{DARK['inner']}}}",
        f".weft-edge{{stroke:{DARK['edge']}}}",
        *(f".{block_colors(rank)}{{fill:{dark}}}" for rank, (_, dark) in enumerate(BLOCKS)),
    ]
    return f"@media(prefers-color-scheme:dark){{{''.join(dark)}}}"


def _variables(colors: Mapping[str, str]) -> str:
    return "".join(f"--weft-{name}:{color};" for name, color in colors.items())


_PAGE = f"""
.weft-picture{{%LIGHT%background:var(--weft-ground);color:var(--weft-text);padding:12px;
font:13px/1.5 system-ui,sans-serif;overflow-x:auto;border-radius:6px}}
@media(prefers-color-scheme:dark){{.weft-picture{{%DARK%}}}}
.weft-picture svg{{display:block;max-width:none}}
.weft-picture p{{margin:0 0 6px;color:var(--weft-text)}}
.weft-picture summary{{cursor:pointer;color:var(--weft-text)}}
.weft-picture table{{border-collapse:collapse;margin:6px 0;font:12px/1.5 {_MONOSPACE};
background:var(--weft-ground);color:var(--weft-text)}}
.weft-picture th,.weft-picture td{{padding:2px 12px 2px 0;text-align:left;background:none;
border-bottom:1px solid var(--weft-rule);color:var(--weft-text)}}
.weft-picture th{{color:var(--weft-quiet);font-weight:500}}
.weft-jaxpr{{font:12px/1.6 {_MONOSPACE};min-width:640px}}
.weft-jaxpr .weft-row{{display:grid;list-style:none;align-items:start;
grid-template-columns:minmax(0,1fr) 7.5em 7.5em 7.5em 13em;
border-bottom:1px solid var(--weft-rule)}}
.weft-jaxpr summary::-webkit-details-marker{{display:none}}
.weft-jaxpr .weft-row>span{{text-align:right;padding-left:8px;color:var(--weft-text);
overflow-wrap:anywhere}}
.weft-jaxpr .weft-heading>span,.weft-jaxpr .weft-heading>code,.weft-jaxpr .weft-part,
.weft-jaxpr .weft-quiet{{color:var(--weft-quiet)}}
.weft-jaxpr .weft-share{{background:linear-gradient(to left,var(--weft-bar) var(--weft-share),
transparent 0)}}
.weft-jaxpr code{{font:inherit;background:none;color:var(--weft-text);white-space:pre-wrap;
overflow-wrap:anywhere;padding:0 0 0 2ch;text-indent:-2ch;border:0}}
.weft-jaxpr code::before{{content:'\\00a0\\00a0'}}
.weft-jaxpr summary>code::before{{content:'\\25b8\\00a0'}}
.weft-jaxpr details[open]>summary>code::before{{content:'\\25be\\00a0'}}
.weft-jaxpr .weft-primitive{{color:var(--weft-primitive);font-weight:600}}
.weft-jaxpr .weft-type{{color:var(--weft-type)}}
.weft-jaxpr .weft-inner{{background:var(--weft-inner);margin-left:1ch;padding-left:1.5ch;
border-left:2px solid var(--weft-rule)}}
"""


def _page_css() -> str:
    lines = _PAGE.replace("%LIGHT%", _variables(LIGHT)).replace("%DARK%", _variables(DARK))
    return lines.replace("\n", "")


SVG_CSS = _svg_css()
PAGE_CSS = _page_css()
