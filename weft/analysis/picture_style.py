"""The colours and CSS of pictures in light and dark, and a chart of lines.

Each picture paints its own ground, so that it is readable on a page of either kind. Names of
classes begin with `weft-`, and every rule is for elements of such a class, so that nothing else on
a page changes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

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


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 360, 70, 44, 34, 130
# Distinguishable with common colour blindness (Okabe and Ito, Color universal design, 2008), and
# dashed apart.
_STYLES = (("#0072b2", ""), ("#d55e00", "6 3"), ("#009e73", "2 3"), ("#cc79a7", "8 3 2 3"))
_CSS = (
    ".weft-chart text{font:12px sans-serif;fill:#1a1a1a}.weft-chart .grid{stroke:#8884}"
    "@media(prefers-color-scheme:dark){.weft-chart text{fill:#eee}}"
)


def line_chart(
    title: str, label: str, xs: Sequence[float], series: Mapping[str, Sequence[float]]
) -> str:
    """Returns a picture of several series of positive numbers over `xs`; zeros are left out."""
    numbers = [y for ys in series.values() for y in ys if y > 0]
    low, high = (min(numbers), max(numbers)) if numbers else (0.1, 1.0)
    low, high = 10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high) + 1e-9)
    first, last = (min(xs), max(xs)) if xs else (1, 2)

    def across(x: float) -> float:
        share = math.log(x / first) / math.log(last / first) if last > first else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(y: float) -> float:
        share = math.log(y / low) / math.log(high / low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-chart" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{html.escape(title)}</title><style>{_CSS}</style>",
        f'<text x="{_LEFT}" y="18">{html.escape(title)}</text>',
    ]
    power = low
    while power <= high * 1.001:
        y = down(power)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{power:.0e}</text>')
        power *= 10
    for x in xs:
        at = f'x="{across(x):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle"'
        parts.append(f"<text {at}>{x:g}</text>")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 8}" text-anchor="middle">{html.escape(label)}</text>'
    )
    for ys, (color, dashes) in zip(series.values(), _STYLES, strict=False):
        points = [(across(x), down(y)) for x, y in zip(xs, ys, strict=True) if y > 0]
        if not points:
            continue
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        style = f'fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts.append(f'<path d="M{line}" {style}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
    parts += _legend(series)
    return "".join([*parts, "</svg>"])


def _legend(series: Mapping[str, Sequence[float]]) -> list[str]:
    """The names next to their lines, in the free space on the right."""
    parts = []
    for place, (name, (color, dashes)) in enumerate(zip(series, _STYLES, strict=False)):
        y, x = _TOP + 10 + 20 * place, _WIDTH - _RIGHT + 10
        style = f'stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"'
        parts.append(f'<path d="M{x} {y}h22" {style}/>')
        parts.append(f'<text x="{x + 28}" y="{y + 4}">{html.escape(name)}</text>')
    return parts
