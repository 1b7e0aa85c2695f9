"""A chart of lines over two logarithmic axes, as SVG that is readable in light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

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
