"""Pictures of layouts, meshes and values in `shard_map`: whole texts of small ones, and what each
form has to contain."""

from __future__ import annotations

import re
import textwrap
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import LeakedTracerError, ShapeError, WeftTypeError, WeftValueError
from weft.sharding import AbstractMesh, Mesh, NamedSharding, P, SingleDeviceSharding, TiledSharding

MESH = weft.make_mesh((4, 2), ("i", "j"))
CUBE = AbstractMesh((2, 2, 2), ("a", "b", "c"))


def picture(text):
    return textwrap.dedent(text).strip("\n")


def placed(shape, spec):
    return weft.device_put(jnp.zeros(shape), NamedSharding(MESH, spec))


def elements(svg, name):
    return ElementTree.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{name}")


def blocks_of(svg):
    """The cells of a picture that stand for a block, by what their titles say."""
    return [
        rect[0].text
        for rect in elements(svg, "rect")
        if "weft-block" in (rect.get("class") or "").split()
    ]


def labels_of(svg):
    return [text.text for text in elements(svg, "text")]


# ---- whole texts -------------------------------------------------------------------------------


def test_a_number_on_one_device():
    found = weft.show(weft.device_put(jnp.float32(1), weft.devices()[3]))
    assert str(found) == picture("""
        f32[] on cpu:3
        the whole array, f32[] of 4 bytes, on 1 device
        ┌─────────┐
        │  CPU 3  │
        └─────────┘
    """)


def test_a_vector_over_two_axes():
    assert str(weft.show(placed((16,), P(("j", "i"))))) == picture("""
        f32[16] over Mesh('i': 4, 'j': 2) as P(('j', 'i'))
        → dimension 0: 8 blocks of 2, over 'j', 'i'
        each block f32[2] of 8 bytes, on 1 device
           0:2      2:4      4:6      6:8      8:10    10:12    12:14    14:16
        ┌────────┬────────┬────────┬────────┬────────┬────────┬────────┬────────┐
        │ CPU 0  │ CPU 2  │ CPU 4  │ CPU 6  │ CPU 1  │ CPU 3  │ CPU 5  │ CPU 7  │
        └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
    """)


def test_a_matrix_with_copies():
    assert str(weft.show(placed((8, 6), P("j")))) == picture("""
        f32[8,6] over Mesh('i': 4, 'j': 2) as P('j')
        ↓ dimension 0: 2 blocks of 4, over 'j'
        → dimension 1: 6, whole
        each block f32[4,6] of 96 bytes, on 4 devices
                  0:6
            ┌─────────────┐
        0:4 │ CPU 0,2,4,6 │
            ├─────────────┤
        4:8 │ CPU 1,3,5,7 │
            └─────────────┘
    """)


def test_of_three_dimensions_the_split_ones_are_drawn():
    assert str(weft.show(placed((4, 5, 2), P("i", None, "j")))) == picture("""
        f32[4,5,2] over Mesh('i': 4, 'j': 2) as P('i', None, 'j')
        ↓ dimension 0: 4 blocks of 1, over 'i'
        · dimension 1: 5, whole
        → dimension 2: 2 blocks of 1, over 'j'
        each block f32[1,5,1] of 20 bytes, on 1 device
        [:, 0:5, :]
                0:1       1:2
            ┌─────────┬─────────┐
        0:1 │  CPU 0  │  CPU 1  │
            ├─────────┼─────────┤
        1:2 │  CPU 2  │  CPU 3  │
            ├─────────┼─────────┤
        2:3 │  CPU 4  │  CPU 5  │
            ├─────────┼─────────┤
        3:4 │  CPU 6  │  CPU 7  │
            └─────────┴─────────┘
    """)


def test_three_split_dimensions_are_a_table_for_each_block_of_the_first():
    found = weft.show(P("a", None, "b", "c"), (8, 3, 4, 2), mesh=CUBE)
    assert str(found) == picture("""
        (8, 3, 4, 2) over AbstractMesh('a': 2, 'b': 2, 'c': 2) as P('a', None, 'b', 'c')
        · dimension 0: 2 blocks of 4, over 'a', a table for each
        · dimension 1: 3, whole
        ↓ dimension 2: 2 blocks of 2, over 'b'
        → dimension 3: 2 blocks of 1, over 'c'
        each block (4, 3, 2, 1), on 1 device
        [0:4, 0:3, :, :]
                0:1        1:2
            ┌──────────┬──────────┐
        0:2 │ device 0 │ device 1 │
            ├──────────┼──────────┤
        2:4 │ device 2 │ device 3 │
            └──────────┴──────────┘
        [4:8, 0:3, :, :]
                0:1        1:2
            ┌──────────┬──────────┐
        0:2 │ device 4 │ device 5 │
            ├──────────┼──────────┤
        2:4 │ device 6 │ device 7 │
            └──────────┴──────────┘
    """)


def test_a_mesh():
    assert str(weft.show(MESH)) == picture("""
        Mesh('i': 4, 'j': 2) of 8 devices
        ↓ axis 'i': 4
        → axis 'j': 2
                j=0       j=1
            ┌─────────┬─────────┐
        i=0 │  CPU 0  │  CPU 1  │
            ├─────────┼─────────┤
        i=1 │  CPU 2  │  CPU 3  │
            ├─────────┼─────────┤
        i=2 │  CPU 4  │  CPU 5  │
            ├─────────┼─────────┤
        i=3 │  CPU 6  │  CPU 7  │
            └─────────┴─────────┘
    """)


def test_a_dimension_of_length_zero():
    text = str(weft.show(placed((0, 2), P("i", "j"))))
    assert "↓ dimension 0: 4 blocks of 0, over 'i'" in text
    assert "each block f32[0,1] of 0 bytes, on 1 device" in text
    assert re.findall(r"CPU (\d)", text) == list("01234567")


def test_other_shardings_and_types():
    tiled = TiledSharding(weft.devices()[:4], [[[3, 1]], [[0, 2]]])
    assert re.findall(r"CPU (\S+)", str(weft.show(tiled, (4, 2)))) == ["1,3", "0,2"]
    single = SingleDeviceSharding(weft.devices()[5])
    assert "CPU 5" in str(weft.show(single, (2, 2)))
    struct = weft.ShapeDtypeStruct((4, 2), "bfloat16", sharding=NamedSharding(MESH, P("j")))
    assert "each block bf16[2,2] of 8 bytes, on 4 devices" in str(weft.show(struct))
    assert "key" in str(weft.show(weft.random.key(0)))
    # Numbers of few bits are packed, as communication and memory count them.
    narrow = weft.ShapeDtypeStruct((16,), "int4", sharding=NamedSharding(MESH, P("i")))
    assert "each block i4[4] of 2 bytes" in str(weft.show(narrow))


def test_a_spec_is_over_the_mesh_in_force():
    with weft.use_mesh(MESH):
        assert str(weft.show(P("i"), (4,))) == str(weft.show(NamedSharding(MESH, P("i")), (4,)))


# ---- SVG ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "spec", "blocks"),
    [((), P(), 1), ((8,), P("i"), 4), ((8, 4), P("i", "j"), 8), ((4, 3, 2), P("j", None, "i"), 8),
     ((0, 2), P("i", "j"), 8), ((2, 2, 2, 4), P(None, "j", None, "i"), 8)],
)  # fmt: skip
def test_the_svg_has_a_cell_for_each_block(shape, spec, blocks):
    """The titles of the cells, against `devices_indices_map`."""
    shape = tuple(n if n != 2 or spec[d : d + 1] != P("i") else 4 for d, n in enumerate(shape))
    sharding = NamedSharding(MESH, spec)
    svg = weft.show(sharding, shape).svg
    found = {}
    for title in blocks_of(svg):
        index, _, numbers = title.partition(" on CPU ")
        found |= dict.fromkeys(map(int, numbers.split(", ")), index)
    wanted = {}
    for device, index in sharding.devices_indices_map(shape).items():
        bounds = [part.indices(n) for part, n in zip(index, shape, strict=True)]
        wanted[device.id] = f"[{', '.join(f'{a}:{b}' for a, b, _ in bounds)}]"
    assert found == wanted and len(blocks_of(svg)) == blocks
    assert sum(label.startswith("CPU ") for label in labels_of(svg)) == blocks


def test_names_are_escaped():
    mesh = AbstractMesh((2,), ("<b>&\"'",))
    found = weft.show(P("<b>&\"'"), (4,), mesh=mesh)
    for form in (found.svg, found.html, weft.show(mesh).html):
        assert "<b>" not in form and "&lt;b&gt;&amp;" in form
    assert any("<b>&" in label for label in labels_of(found.svg))


def test_nothing_runs_and_nothing_is_loaded():
    program = weft.make_jaxpr(jnp.sin)(1.0)
    for form in (weft.show(MESH).html, weft.show(placed((8,), P("i"))).html,
                 weft.show(program).html):  # fmt: skip
        assert "<script" not in form and "url(" not in form and "@import" not in form
        assert not re.search(r"\s(on\w+|src|href)=", form)
        # The name of a namespace is no address that is loaded.
        assert set(re.findall(r"https?://[^\"]*", form)) <= {"http://www.w3.org/2000/svg"}


def test_the_page_says_what_each_device_holds():
    html = weft.show(placed((8, 6), P("j"))).html
    assert "<th>axis i</th><th>axis j</th><th>dimension 0</th><th>dimension 1</th>" in html
    assert "<td>CPU 5</td><td>2</td><td>1</td><td>4:8</td><td>0:6</td>" in html
    assert html.count("<tr><td>CPU") == 8


# ---- many devices ------------------------------------------------------------------------------


def test_4096_devices_are_summarised():
    mesh = AbstractMesh((64, 64), ("x", "y"))
    start = time.perf_counter()
    found = weft.show(P("x", "y"), (6400, 640), mesh=mesh)
    text, svg, html = str(found), found.svg, found.html
    assert time.perf_counter() - start < 5
    assert "↓ dimension 0: 64 blocks of 100, over 'x'" in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) < 40
    assert "device 0 " in text and "device 4095" in text
    assert len(blocks_of(svg)) == 9 * 9 and len(svg) < 100_000
    assert "… and 4,032 more" in html


def test_4096_copies_are_listed_in_short():
    mesh = AbstractMesh((4096,), ("x",))
    found = weft.show(P(), (3,), mesh=mesh)
    assert "device 0,1,…,4095 (4096)" in str(found) and "on 4,096 devices" in str(found)
    assert len(blocks_of(found.svg)) == 1


def test_many_slices_are_not_all_drawn():
    mesh = AbstractMesh((40, 2, 2), ("x", "y", "z"))
    found = weft.show(P("x", "y", "z"), (40, 2, 2), mesh=mesh)
    assert str(found).endswith("… and 24 more")
    assert len(blocks_of(found.svg)) == 12 * 4 and labels_of(found.svg)[-1] == "… and 28 more"


# ---- traced values -----------------------------------------------------------------------------


def in_shard_map(look, x=None):
    """Runs `look` on the block of a `shard_map` that is split along 'i'."""
    seen = []

    def body(block):
        seen.append(str(look(block)))
        return block

    split = weft.shard_map(body, mesh=MESH, in_specs=P("i"), out_specs=P("i"))
    return split, seen, jnp.arange(8.0) if x is None else x


BLOCKS = """
    a block f32[2]{i} on each of 8 devices
    over Mesh('i': 4, 'j': 2)
    → axis 'i': 4
    equal along 'j'
        i=0       i=1       i=2       i=3
    ┌─────────┬─────────┬─────────┬─────────┐
    │ CPU 0,1 │ CPU 2,3 │ CPU 4,5 │ CPU 6,7 │
    └─────────┴─────────┴─────────┴─────────┘
    i=0: [0., 1.]
    i=1: [2., 3.]
    i=2: [4., 5.]
    i=3: [6., 7.]
"""


def test_an_eager_shard_map_shows_the_block_of_each_device():
    split, seen, x = in_shard_map(weft.show)
    split(x)
    assert seen == [picture(BLOCKS)]


def test_a_sum_over_an_axis_is_equal_along_it():
    split, seen, x = in_shard_map(lambda block: weft.show(weft.lax.psum(block.sum(), "i")))
    split(x)
    assert "equal along 'i', 'j'" in seen[0] and seen[0].endswith("on all devices: 28.")
    assert "CPU 0,1,2,3,4,5,6,7" in seen[0]


def test_values_stand_in_the_cells():
    svgs = []
    split, _, x = in_shard_map(lambda block: svgs.append(weft.show(block).svg))
    split(x)
    labels = labels_of(svgs[0])
    place = labels.index("CPU 2,3")
    assert labels[place + 1] == "[2., 3.]" and len(blocks_of(svgs[0])) == 4


def test_large_blocks_are_shown_without_values():
    split, seen, _ = in_shard_map(weft.show)
    split(jnp.arange(80.0))
    assert "f32[20]{i}" in seen[0] and seen[0].endswith("┘")


def test_a_simulated_shard_map():
    split, seen, x = in_shard_map(weft.show)
    with weft.simulate(MESH):
        split(x)
    assert "simulated on one device" in seen[0] and "i=2: [4., 5.]" in seen[0]
    assert "device 4,5" in seen[0]


def test_inside_jit_the_axes_are_known_and_the_values_are_not():
    split, seen, x = in_shard_map(weft.show)
    weft.jit(split)(x)
    assert seen[0] == picture(BLOCKS).partition("\ni=0: ")[0].replace(
        "a block f32[2]{i} on each of 8 devices", "a traced f32[2]{i} under shard_map of body"
    )


def test_inside_derivatives_and_vmap():
    split, seen, x = in_shard_map(weft.show)
    weft.grad(lambda x: split(x).sum())(x)
    assert "axis 'i': 4" in seen[-1] and "CPU 6,7" in seen[-1]
    weft.vmap(split)(jnp.zeros((3, 8)))
    assert "f32[2]{i}" in seen[-1]
    shown = []
    weft.grad(lambda x: (shown.append(str(weft.show(x))), x)[1])(1.0)
    assert "CPU 0" in shown[0]


def test_what_is_compiled_has_no_place_yet():
    shown = []
    weft.jit(lambda x: (shown.append(weft.show(x)), x)[1])(jnp.ones((2, 3)))
    assert str(shown[0]) == (
        "a traced f32[2,3] under jit of <lambda>\n"
        "which devices hold it is decided when the function is compiled"
    )
    assert "which devices hold it" in shown[0].svg and "<details>" not in shown[0].html


def test_an_escaped_value():
    kept = []
    split, _, x = in_shard_map(kept.append)
    split(x)
    with pytest.raises(LeakedTracerError):
        weft.show(kept[0])


# ---- files and errors --------------------------------------------------------------------------


def test_pictures_are_saved_by_suffix(tmp_path):
    found = weft.show(MESH)
    for name, start in (("a.svg", "<svg"), ("a.html", "<!doctype html>"), ("a.txt", "Mesh(")):
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    found.save(str(tmp_path / "b.SVG"))
    ElementTree.parse(tmp_path / "b.SVG")
    with pytest.raises(WeftValueError, match="by the suffix") as caught:
        found.save(tmp_path / "a.png")
    assert caught.value.fix.data["path"] == str(tmp_path / "a.html")
    assert not (tmp_path / "a.png").exists()


def test_what_cannot_be_shown():
    with pytest.raises(WeftTypeError, match="no picture of this value") as caught:
        weft.show(np.ones(3))
    assert caught.value.fix.kind == "device_put"
    with pytest.raises(WeftTypeError, match="no picture of this value") as caught:
        weft.show(jnp.sin)
    assert caught.value.fix.kind == "make_jaxpr"
    with pytest.raises(WeftTypeError, match="there is no mesh"):
        weft.show(P("i"), (4,))
    with pytest.raises(WeftTypeError, match="there is no shape"):
        weft.show(NamedSharding(MESH, P("i")))
    with pytest.raises(WeftTypeError, match="a shape is a sequence"):
        weft.show(NamedSharding(MESH, P("i")), "wide")
    with pytest.raises(ShapeError, match="show: dimension 0 of an array, of length 6"):
        weft.show(NamedSharding(MESH, P("i")), (6,))


def test_a_mesh_of_other_order():
    mesh = Mesh(np.array(weft.devices()[:4])[::-1], ("i",))
    assert re.findall(r"CPU (\d)", str(weft.show(P("i"), (4,), mesh=mesh))) == list("3210")
