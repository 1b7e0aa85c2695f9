"""Pictures of layouts: whole texts of small ones, and what every picture has to contain."""

from __future__ import annotations

import io
import itertools
import re
import sys
import textwrap

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.api.meshes import make_mesh
from weft.debug.pictures import sharding_picture, visualize_array_sharding, visualize_sharding
from weft.errors import ConcretizationError, ShapeError, WeftTypeError, WeftValueError
from weft.runtime.backends.fake import FakeDevice
from weft.sharding import AbstractMesh, Mesh, NamedSharding, P, SingleDeviceSharding, TiledSharding

pytestmark = pytest.mark.fast

MESH = make_mesh((4, 2), ("i", "j"))


def picture(text):
    return textwrap.dedent(text).strip("\n")


PICTURES = [
    (
        (),
        P(),
        """
        ┌─────────────────────┐
        │ CPU 0,1,2,3,4,5,6,7 │
        └─────────────────────┘
        """,
    ),
    (
        (12,),
        P("i"),
        """
            0:3       3:6       6:9       9:12
        ┌─────────┬─────────┬─────────┬─────────┐
        │ CPU 0,1 │ CPU 2,3 │ CPU 4,5 │ CPU 6,7 │
        └─────────┴─────────┴─────────┴─────────┘
        """,
    ),
    (
        (20, 6),
        P("j", None),
        """
                    0:6
              ┌─────────────┐
         0:10 │ CPU 0,2,4,6 │
              ├─────────────┤
        10:20 │ CPU 1,3,5,7 │
              └─────────────┘
        """,
    ),
    (
        (4, 0),
        P("j", "i"),
        """
                0:0       0:0       0:0       0:0
            ┌─────────┬─────────┬─────────┬─────────┐
        0:2 │  CPU 0  │  CPU 2  │  CPU 4  │  CPU 6  │
            ├─────────┼─────────┼─────────┼─────────┤
        2:4 │  CPU 1  │  CPU 3  │  CPU 5  │  CPU 7  │
            └─────────┴─────────┴─────────┴─────────┘
        """,
    ),
    (
        (2, 5, 4),
        P("j", None, "i"),
        """
        [0:1, :, :]
                0:1       1:2       2:3       3:4
            ┌─────────┬─────────┬─────────┬─────────┐
        0:5 │  CPU 0  │  CPU 2  │  CPU 4  │  CPU 6  │
            └─────────┴─────────┴─────────┴─────────┘
        [1:2, :, :]
                0:1       1:2       2:3       3:4
            ┌─────────┬─────────┬─────────┬─────────┐
        0:5 │  CPU 1  │  CPU 3  │  CPU 5  │  CPU 7  │
            └─────────┴─────────┴─────────┴─────────┘
        """,
    ),
]


@pytest.mark.parametrize(("shape", "spec", "text"), PICTURES)
def test_small_pictures(shape, spec, text):
    assert sharding_picture(shape, NamedSharding(MESH, spec)) == picture(text)


def test_blocks_of_leading_dimensions_have_a_table_each():
    text = sharding_picture((4, 6, 2, 3), NamedSharding(MESH, P("i", "j")))
    heads = re.findall(r"^\[.*\]$", text, re.MULTILINE)
    assert heads == [
        f"[{a}:{a + 1}, {b}:{b + 3}, :, :]" for a, b in itertools.product(range(4), (0, 3))
    ]
    assert re.findall(r"CPU (\d)", text) == list("01234567")


@pytest.mark.parametrize("shape", [(4,), (4, 8), (8, 4), (2, 4, 8), (4, 2, 2, 8)])
def test_every_cell_names_the_devices_of_its_block(shape):
    """The cells, read back from the text, against `devices_indices_map`."""
    names = iter(["i", "j"])
    entries = [next(names, None) if length >= 4 else None for length in shape]
    sharding = NamedSharding(MESH, P(*entries))
    held = sharding.devices_indices_map(shape)
    lines = sharding_picture(shape, sharding).splitlines()
    found = {}
    leading, columns = (), []
    for line in lines:
        if line.startswith("["):
            leading = tuple(line[1:-1].split(", ")[:-2])
        elif "│" in line:
            head, *cells, _ = line.split("│")
            rows = (head.strip(),) if len(shape) > 1 else ()
            for column, cell in zip(columns, cells, strict=True):
                for number in cell.strip().removeprefix("CPU ").split(","):
                    found[int(number)] = (*leading, *rows, column)
        elif ":" in line:
            columns = line.split()
    wanted = {
        device.id: tuple(
            f"{index.start or 0}:{length if index.stop is None else index.stop}"
            for index, length in zip(indices, shape, strict=True)
        )
        for device, indices in held.items()
    }
    assert found == wanted


def large(*sizes):
    there = [FakeDevice(number, platform="gpu") for number in range(int(np.prod(sizes)))]
    names = ("i", "j", "k")[: len(sizes)]
    return Mesh(np.array(there, object).reshape(sizes), names)


def test_a_large_mesh_fits_on_the_screen():
    mesh = large(64, 32)
    text = sharding_picture((6400, 3200), NamedSharding(mesh, P("i", "j")))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) <= 2 * 32 + 2
    assert "GPU 0 " in text and "GPU 2047" in text and "6300:6400" in text and "3100:3200" in text
    assert text.count("⋮") == 1 and "…" in lines[0]
    wide = sharding_picture((6400, 3200), NamedSharding(mesh, P("i", "j")), max_width=200)
    assert 100 < max(map(len, wide.splitlines())) <= 200


def test_many_copies_are_listed_in_short():
    mesh = large(2, 32)
    text = sharding_picture((4,), NamedSharding(mesh, P("i")))
    assert "GPU 0,1,…,31 (32)" in text and "GPU 32,33,…,63 (32)" in text


def test_many_tables_are_not_all_shown():
    mesh = large(40, 2)
    text = sharding_picture((40, 2, 2), NamedSharding(mesh, P("i", "j")))
    assert text.count("[") == 16 and text.endswith("… and 24 more")


def test_cells_become_narrow_before_any_is_left_out():
    sharding = NamedSharding(MESH, P(("i", "j")))
    text = sharding_picture((8,), sharding)
    assert re.findall(r"CPU (\d)", text) == list("01234567")
    assert max(map(len, text.splitlines())) <= 80
    narrow = sharding_picture((8,), sharding, max_width=30)
    assert re.findall(r"CPU (\d)|(…)  ", narrow.splitlines()[2]) == [
        ("0", ""), ("", "…"), ("7", "")
    ]  # fmt: skip
    wide = sharding_picture((8,), sharding, min_width=12, max_width=200).splitlines()[1]
    assert wide == "┌" + "┬".join(["─" * 12] * 8) + "┐"


def test_other_shardings():
    devices = weft.devices()
    assert "CPU 3" in sharding_picture((2, 2), SingleDeviceSharding(devices[3]))
    tiled = TiledSharding(devices[:4], [[[3, 1]], [[0, 2]]])
    assert re.findall(r"CPU (\S+)", sharding_picture((4, 2), tiled)) == ["1,3", "0,2"]


def test_colours():
    sharding = NamedSharding(MESH, P("i", "j"))
    plain = sharding_picture((4, 4), sharding)
    text = sharding_picture((4, 4), sharding, use_color=True)
    assert "\x1b" not in plain and re.sub(r"\x1b\[[\d;]*m", "", text) == plain
    colors = re.findall(r"\x1b\[48;5;(\d+)m\x1b\[30m +CPU \d +\x1b\[0m", text)
    assert len(colors) == len(set(colors)) == 8


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("terminal", "no_color", "asked", "coloured"),
    [
        (True, "", None, True),
        (True, "1", None, False),
        (False, "", None, False),
        (False, "", True, True),
        (True, "", False, False),
    ],
)
def test_colours_are_for_terminals(monkeypatch, terminal, no_color, asked, coloured):
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("NO_COLOR", no_color)
    visualize_sharding((4,), NamedSharding(MESH, P("i")), use_color=asked)
    assert ("\x1b[48" in out.getvalue()) == coloured


def test_an_array_is_shown_where_it_lies(capsys):
    x = weft.device_put(jnp.ones((2, 3)), weft.devices()[5])
    visualize_array_sharding(x)
    assert capsys.readouterr().out == sharding_picture((2, 3), x.sharding) + "\n"
    visualize_array_sharding(x, min_width=20)
    assert "─" * 20 in capsys.readouterr().out


def test_inside_a_derivative_the_array_is_known(capsys):
    def f(x):
        visualize_array_sharding(x)
        return (x * x).sum()

    weft.grad(f)(jnp.ones(3))
    assert "CPU 0" in capsys.readouterr().out


def test_a_traced_array_lies_nowhere_yet():
    def f(x):
        visualize_array_sharding(x)
        return x

    for transformed in (weft.jit(f), weft.vmap(f)):
        with pytest.raises(ConcretizationError, match="not known yet") as caught:
            transformed(jnp.ones(3))
        assert caught.value.fix.kind == "outside"


def test_what_has_no_picture():
    sharding = NamedSharding(MESH, P("i"))
    with pytest.raises(WeftTypeError, match="takes an array on devices"):
        visualize_array_sharding(np.ones(3))
    with pytest.raises(WeftTypeError, match="takes a shape and a sharding"):
        sharding_picture((4,), P("i"))
    with pytest.raises(WeftTypeError, match="a shape is a sequence"):
        sharding_picture(4, sharding)
    with pytest.raises(ShapeError, match="visualize_sharding: dimension 0") as caught:
        visualize_sharding((6,), sharding)
    assert "CPU 6,7" in sharding_picture(caught.value.fix.data["shape"], sharding)
    with pytest.raises(WeftValueError, match="no devices"):
        sharding_picture((4,), NamedSharding(AbstractMesh((4,), ("i",)), P("i")))
