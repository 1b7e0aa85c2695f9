"""Text is readable on its ground in light and in dark: contrast from the CSS that pictures carry.

The ratio is that of the Web Content Accessibility Guidelines 2.1 (relative luminance, contrast
ratio), which ask for 4.5.
"""

from __future__ import annotations

import re

import pytest

from weft.analysis.picture_style import BLOCKS, DARK, LIGHT, PAGE_CSS, SVG_CSS

ENOUGH = 4.5
# What is written, and what on.
TEXTS = ("text", "quiet", "primitive", "type")
GROUNDS = ("ground", "inner", "bar")


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    # Two greys whose ratios on white are published as 4.54 and 4.48.
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def variables(css):
    return dict(re.findall(r"--weft-([a-z]+):(#[0-9a-f]{6});", css))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_pages(scheme):
    """The colours are read from the CSS: those of dark stand in its media query."""
    light, dark = PAGE_CSS.split("@media(prefers-color-scheme:dark)")
    found = variables(light if scheme == "light" else dark)
    assert found == dict(LIGHT if scheme == "light" else DARK)
    for text in TEXTS:
        for ground in GROUNDS:
            if ground == "bar" and text != "text":
                continue  # only numbers stand on bars
            assert contrast(found[text], found[ground]) >= ENOUGH, (text, ground)


def test_every_colour_of_a_page_is_one_that_was_compared():
    used = set(re.findall(r"(?<![-a-z])color:([^;}]+)", PAGE_CSS))
    assert used == {f"var(--weft-{text})" for text in TEXTS}
    grounds = set(re.findall(r"background:([^;}]+)", PAGE_CSS))
    names = set(re.findall(r"var\(--weft-(\w+)\)", " ".join(grounds)))
    assert names == {*GROUNDS, "share"} and "#" not in "".join(grounds)


@pytest.mark.parametrize("rank", range(len(BLOCKS)))
def test_text_in_blocks(rank):
    light, dark = BLOCKS[rank]
    assert contrast(LIGHT["text"], light) >= ENOUGH and contrast(DARK["text"], dark) >= ENOUGH
    assert f".weft-block-{rank}{{fill:{dark}}}" in SVG_CSS
    # A block is seen on the ground beside it.
    assert contrast(DARK["ground"], dark) >= 1.2 and contrast(LIGHT["ground"], light) >= 1.1


def test_text_beside_blocks():
    for colors in (LIGHT, DARK):
        for text in ("text", "quiet"):
            for ground in ("ground", "inner"):
                assert contrast(colors[text], colors[ground]) >= ENOUGH
    for style in ("ground", "text", "quiet"):
        assert f".weft-{style}{{fill:{DARK[style]}}}" in SVG_CSS


def test_the_style_is_for_pictures_only():
    """No rule is for elements outside of pictures, whatever page they stand on."""
    for css in (PAGE_CSS, SVG_CSS):
        rules = re.sub(r"@media\([^)]*\)", "", css)
        selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{", rules)
                     for one in rule.split(",")]  # fmt: skip
        assert selectors and all(one.startswith(".weft-") for one in selectors), selectors
