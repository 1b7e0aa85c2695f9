"""Collectives read from the HLO of compiled programs: forms, notations, loops, shardings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from comms_programs import line, plane, values
from weft import P, lax
from weft.analysis.hlo_collectives import compiled_rows, device_groups
from weft.errors import WeftValueError
from weft.runtime.hlo_text import parse
from weft.sharding import AbstractMesh, NamedSharding


def module(*lines, others="", devices=8):
    body = "\n".join(f"  {text}" for text in lines)
    return f"""HloModule jit_f, is_scheduled=true, num_partitions={devices}

{others}

ENTRY %main (x: f32[8,4]) -> f32[] {{
  %x = f32[8,4]{{1,0}} parameter(0)
  %y = bf16[16]{{0:T(256)(128)(2,1)}} parameter(1)
{body}
}}
"""


def facts(text, mesh=None):
    return [(r.kind, r.dtype.name, r.bytes, r.group, r.trips) for r in compiled_rows(text, mesh)]


# What each form of an instruction says: 128 bytes are those of f32[8,4], 32 those of bf16[16].
FORMS = {
    "plain": (
        "%r = f32[8,4]{1,0} all-reduce(%x), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}, "
        "use_global_device_ids=true, to_apply=%add",
        [("all_reduce", "float32", 128, 4, 1)],
    ),
    "several operands": (
        "%r = (f32[8,4]{1,0}, bf16[16]{0}) all-reduce(%x, /*index=1*/%y), "
        "replica_groups=[2,4]<=[8], to_apply=%add",
        [("all_reduce", "float32", 128, 4, 1), ("all_reduce", "bfloat16", 32, 4, 1)],
    ),
    "operands with types": (
        "%r = f32[8,4]{1,0} all-reduce(f32[8,4]{1,0} %x), replica_groups={}, to_apply=%add",
        [("all_reduce", "float32", 128, 8, 1)],
    ),
    "begun and done": (
        "%s = f32[8,4]{1,0} all-reduce-start(%x), replica_groups=[4,2]<=[8], to_apply=%add\n"
        "  %r = f32[8,4]{1,0} all-reduce-done(%s)",
        [("all_reduce", "float32", 128, 2, 1)],
    ),
    "gather": (
        "%r = bf16[64]{0} all-gather(%y), replica_groups=[2,4]<=[8], dimensions={0}",
        [("all_gather", "bfloat16", 128, 4, 1)],
    ),
    "gather begun and done": (
        "%s = (bf16[16]{0}, bf16[64]{0}) all-gather-start(%y), replica_groups=[2,4]<=[8], "
        "dimensions={0}\n  %r = bf16[64]{0} all-gather-done(%s)",
        [("all_gather", "bfloat16", 128, 4, 1)],
    ),
    "gather of several": (
        "%r = (bf16[32]{0}, f32[16,4]{1,0}) all-gather(%y, %x), replica_groups=[4,2]<=[8], "
        "dimensions={0}",
        [("all_gather", "bfloat16", 64, 2, 1), ("all_gather", "float32", 256, 2, 1)],
    ),
    "scatter": (
        "%r = f32[2,4]{1,0} reduce-scatter(%x), replica_groups={{0,2,4,6},{1,3,5,7}}, "
        "dimensions={0}, to_apply=%add",
        [("reduce_scatter", "float32", 128, 4, 1)],
    ),
    "scatter begun": (
        "%s = ((f32[8,4]{1,0}), f32[2,4]{1,0}) reduce-scatter-start(%x), "
        "replica_groups=[2,4]<=[8], dimensions={0}, to_apply=%add\n"
        "  %r = f32[2,4]{1,0} reduce-scatter-done(%s)",
        [("reduce_scatter", "float32", 128, 4, 1)],
    ),
    "permute": (
        "%r = f32[8,4]{1,0} collective-permute(%x), source_target_pairs={{0,1},{1,0},{2,3}}",
        [("collective_permute", "float32", 128, 2, 1)],
    ),
    "permute begun": (
        "%s = (f32[8,4]{1,0}, f32[8,4]{1,0}, u32[], u32[]) collective-permute-start(%x), "
        "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n"
        "  %r = f32[8,4]{1,0} collective-permute-done(%s)",
        [("collective_permute", "float32", 128, 4, 1)],
    ),
    "all to all of an array": (
        "%r = f32[8,4]{1,0} all-to-all(%x), replica_groups=[2,4]<=[8], dimensions={0}",
        [("all_to_all", "float32", 128, 4, 1)],
    ),
    "all to all of parts": (
        "%r = (bf16[16]{0}, bf16[16]{0}) all-to-all(%y, %y), replica_groups=[4,2]<=[8]",
        [("all_to_all", "bfloat16", 64, 2, 1)],
    ),
    "groups of one": ("%r = f32[8,4] all-reduce(%x), replica_groups=[8,1]<=[8]", []),
    "no collective": ('%r = f32[8,4] add(%x, %x), metadata={op_name="all-reduce(%x)"}', []),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_a_collective_is_read(form):
    text, wanted = FORMS[form]
    assert facts(module(text)) == wanted


BODY = """%body (p: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %p = (s32[], /*index=1*/f32[8,4]{1,0}) parameter(0)
  %v = f32[8,4]{1,0} get-tuple-element(%p), index=1
  ROOT %r = f32[8,4]{1,0} all-reduce(%v), replica_groups=[2,4]<=[8], to_apply=%add
}

%never (p: (s32[], f32[8,4])) -> pred[] {
  %p = (s32[], f32[8,4]{1,0}) parameter(0)
  ROOT %c = pred[] constant(false)
}

%outer (p: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %p = (s32[], f32[8,4]{1,0}) parameter(0)
  ROOT %w = (s32[], f32[8,4]{1,0}) while(%p), condition=%never, body=%body, \
backend_config={"known_trip_count":{"n":"3"},"note":"a }, b"}
}
"""
AROUND = {
    "a loop": (
        "%w = (s32[], f32[8,4]) while(%x), condition=%never, body=%body, "
        'backend_config={"known_trip_count":{"n":"7"}}',
        (7, False),
    ),
    "a loop in a loop": (
        "%w = (s32[], f32[8,4]) while(%x), condition=%never, body=%outer, "
        'backend_config={"known_trip_count":{"n":"5"}}',
        (15, False),
    ),
    "a loop of unknown length": (
        "%w = (s32[], f32[8,4]) while(%x), condition=%never, body=%outer",
        (None, False),
    ),
    "a call": ("%w = (s32[], f32[8,4]) call(%x), to_apply=%body", (1, False)),
    "a fusion": ("%w = f32[8,4] fusion(%x), kind=kLoop, calls=%body", (1, False)),
    "an asynchronous computation": (
        "%w = ((f32[8,4]), f32[8,4], u32[]) async-start(%x), calls=%body\n"
        "  %d = f32[8,4] async-done(%w), calls=%body",
        (1, False),
    ),
    "branches by number": (
        "%w = f32[8,4] conditional(%i, %x, %x), branch_computations={%body, %never}",
        (1, True),
    ),
    "branches by truth": (
        "%w = f32[8,4] conditional(%i, %x, %x), true_computation=%never, false_computation=%body",
        (1, True),
    ),
}


@pytest.mark.parametrize("form", AROUND)
def test_what_runs_a_computation_is_followed(form):
    text, wanted = AROUND[form]
    (row,) = compiled_rows(module(text, others=BODY))
    assert (row.trips, row.branch) == wanted


@given(st.permutations([0, 1, 2]), st.permutations([2, 3, 4]), st.integers(1, 3))
def test_groups_in_numbers_and_listed_are_the_same(order, sizes, kept):
    """The notation by a permuted array of numbers, against NumPy and against the list."""
    numbers = np.arange(24).reshape(sizes).transpose(order)
    length = int(np.prod([sizes[i] for i in order[-kept:]]))
    rows = numbers.reshape(-1, length).tolist()
    letters = ",".join(map(str, sizes))
    iota = f"[{24 // length},{length}]<=[{letters}]T({','.join(map(str, order))})"
    listed = "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"
    wanted = tuple(map(tuple, rows))
    assert device_groups(iota, 24) == device_groups(listed, 24) == wanted


MESHES = {
    "mesh['a'=2,'b'=4] {'b'}": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "mesh['a'=2,'b'=4] {'a'}": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "mesh[a=2,b=2,c=2] {c,a}": ((0, 4, 1, 5), (2, 6, 3, 7)),
    "mesh['a'=8] {'a':(2)4}": ((0, 1, 2, 3), (4, 5, 6, 7)),
    "mesh['a'=8] {'a':(1)2}": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "mesh['a'=8] {'a':(1)2,'a':(4)2}": ((0, 1, 4, 5), (2, 3, 6, 7)),
    "mesh['a'=8] {'a':(2)2}": ((0, 2), (1, 3), (4, 6), (5, 7)),
    "mesh['a'=1,'b'=2,'c'=4], device_ids=([4,2]T(1,0)) {'b'}": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "mesh['a'=2,'b'=2], device_ids=(3,1,2,0) {'a'}": ((3, 2), (1, 0)),
}


@pytest.mark.parametrize("text", MESHES)
def test_groups_are_read_from_axes_of_a_mesh(text):
    assert device_groups(text, 8) == MESHES[text]
    # An attribute goes on after it.
    line = f"%r = f32[8,4] all-reduce(%x), channel_id=2, replica_groups={text}, to_apply=%add"
    (row,) = compiled_rows(module(line))
    assert row.group == len(MESHES[text][0])


def test_an_unknown_notation_is_an_error():
    with pytest.raises(WeftValueError, match="notation") as caught:
        compiled_rows(module("%r = f32[8,4] all-reduce(%x), replica_groups=@mesh{a}"))
    assert "replica_groups=@mesh{a}" in caught.value.got
    with pytest.raises(WeftValueError, match="ENTRY"):
        parse("module @jit_f { }")


def test_axes_are_named_by_the_groups_of_a_mesh():
    mesh = AbstractMesh((2, 2, 2), ("a", "b", "c"))
    forms = {
        "{{0,4},{1,5},{2,6},{3,7}}": ("a",),
        "[4,2]<=[8]": ("c",),
        "[2,4]<=[2,2,2]T(1,0,2)": ("a", "c"),
        "{}": ("a", "b", "c"),
        "{{0,3},{1,2},{4,7},{5,6}}": ("b", "c"),
    }
    for groups, axes in forms.items():
        text = module(f"%r = f32[8,4] all-reduce(%x), replica_groups={groups}, to_apply=%add")
        (row,) = compiled_rows(text, mesh)
        assert row.axes == axes, groups


def test_lines_come_from_either_table():
    tables = """FileNames
1 "model.py"

FunctionNames
1 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
"""
    reduce = "%r = f32[8,4] all-reduce(%x), replica_groups={}, to_apply=%add, metadata={"
    found = module(reduce + 'op_name="jit(f)/transpose()/psum" stack_frame_id=1}', others=tables)
    (row,) = compiled_rows(found)
    assert (row.line, row.operation, row.backward) == ("model.py:12 in layer", "psum", True)
    found = module(reduce + 'op_name="jit(f)/dot" source_file="model.py" source_line=7}')
    (row,) = compiled_rows(found)
    assert (row.line, row.operation, row.backward) == ("model.py:7", "dot", False)


# ---- programs that the compiler divides ----------------------------------------------------------


def put(x, mesh, *spec):
    return weft.device_put(x, NamedSharding(mesh, P(*spec)))


def test_a_product_over_a_split_dimension_is_summed():
    """x is split over i and j, w over j: each device has partial sums of its 4x16 rows."""
    mesh = plane()
    x, w = put(values(16, 32), mesh, "i", "j"), put(values(32, 16), mesh, "j")
    report = weft.comms(weft.jit(lambda x, w: x @ w), x, w, gradient=False)
    assert report.rows == () and "compiled()" in report.notes[0]
    (row,) = report.compiled().rows
    assert (row.kind, row.axes, row.bytes, row.group) == ("all_reduce", ("j",), 4 * 16 * 4, 2)
    assert "test_hlo_collectives.py" in row.line and row.origin == "?" and not row.implied
    assert weft.comms(lambda x, w: x @ w, x, w, gradient=False, compiled=True).rows[0].bytes == 256
    weft.assert_comms(lambda x, w: x @ w, x, w, all_reduce=1, gradient=False, compiled=True)


def test_a_loop_over_gathered_weights_multiplies():
    """Weights are split and activations are not: each of six steps gathers a 16x16 matrix."""
    mesh = line()
    x, stacked = put(values(16, 16), mesh), put(values(6, 16, 16), mesh, None, "i")

    def network(x, stacked):
        def layer(x, w):
            whole = weft.lax.with_sharding_constraint(w, NamedSharding(mesh, P()))
            return wnp.tanh(x @ whole), None

        return lax.scan(layer, x, stacked)[0]

    report = weft.comms(network, x, stacked, gradient=False, compiled=True)
    assert (report.count("all_gather"), report.count()) == (6, 6)
    assert report.total_bytes == 6 * 16 * 16 * 4


def test_a_resharding_moves_blocks():
    mesh = line()
    f = weft.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, P(None, "i")))
    report = weft.comms(f, put(values(16, 16), mesh, "i"), gradient=False, compiled=True)
    (row,) = report.rows
    assert (row.kind, row.axes, row.bytes) == ("all_to_all", ("i",), 4 * 16 * 4)


@pytest.mark.parametrize("axes", ["i", "j", "ij"])
def test_a_gathering_names_its_axes(axes):
    """Whatever notation XLA chose, a replicated result is gathered along the axes of the spec."""
    mesh = plane()
    for place in 0, 1:
        spec = [None] * place + [tuple(axes)]
        f = weft.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, P()))
        report = weft.comms(f, put(values(16, 16), mesh, *spec), gradient=False, compiled=True)
        (row,) = report.rows
        assert (row.kind, row.axes, row.bytes) == ("all_gather", tuple(axes), 16 * 16 * 4)
