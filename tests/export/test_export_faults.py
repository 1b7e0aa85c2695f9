"""Bytes that are no exported program, or a damaged or a strange one, are refused with an error.

The container is read and written here by code of its own, from its description, so that what is
changed can be given the right checksums.
"""

from __future__ import annotations

import hashlib
import json
import struct

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from export_cases import MESH, F, Point, S, random
from source_files import ROOT
from weft import export
from weft.errors import WeftTypeError, WeftValueError
from weft.runtime.stablehlo import mlir, portable_artifact
from weft.sharding import NamedSharding, P

pytestmark = pytest.mark.fast

GOLDEN = ROOT / "tests" / "golden" / "export_v1.weft"
START = 8 + 4 + 8


def take_apart(data):
    """The header and the sections of a file."""
    (length,) = struct.unpack("<Q", data[12:START])
    header = json.loads(data[START : START + length])
    sections, position = [], START + length + 32
    for entry in header["sections"]:
        sections.append(data[position : position + entry["length"]])
        position += entry["length"]
    assert position == len(data)
    return header, sections


def put_together(header, sections, version=1, text=None):
    """The file with a header and sections, with right lengths and checksums."""
    header["sections"] = [
        {"length": len(x), "sha256": hashlib.sha256(x).hexdigest()} for x in sections
    ]
    text = json.dumps(header).encode() if text is None else text
    start = b"\x89weft\r\n\n" + struct.pack("<IQ", version, len(text)) + text
    return start + hashlib.sha256(start).digest() + b"".join(sections)


CONSTANT = wnp.asarray(random(3, seed=8))


def closing(x):
    return wnp.sin(x) * CONSTANT


@pytest.fixture(scope="module")
def data():
    made = export.export(weft.jit(closing))(S((3,), F))
    return made.serialize(vjp_order=1)


@pytest.fixture(scope="module")
def split_data():
    function = weft.jit(lambda p: p.x + p.y, in_shardings=NamedSharding(MESH, P("i", "j")))
    return export.export(function)(Point(S((8, 4), F), S((8, 4), F))).serialize()


def refused(data, match=None):
    with pytest.raises(WeftValueError, match=match) as caught:
        export.deserialize(data)
    assert caught.value.fix is not None
    return caught.value


# ---- accidents ---------------------------------------------------------------------------------


def test_every_bit_that_flips_is_noticed(data):
    export.deserialize(data)
    for i in range(len(data)):
        bad = bytearray(data)
        bad[i] ^= 1 << (i % 8)
        refused(bytes(bad))


def test_every_truncation_is_noticed(data):
    for end in range(len(data)):
        refused(data[:end])


@pytest.mark.parametrize("more", [b"\0", b"\n", b"more"])
def test_bytes_after_the_end_are_noticed(data, more):
    refused(data + more, "go on after the end")


def test_what_a_text_transfer_does_is_noticed(data):
    refused(data.replace(b"\r\n", b"\n"))
    refused(data.replace(b"\n", b"\r\n"))


@hypothesis.settings(max_examples=200)
@hypothesis.given(st.binary(max_size=200))
def test_noise_is_refused(noise):
    refused(noise)
    refused(b"\x89weft\r\n\n" + noise)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind_are_read(data, kind):
    x = random(3)
    want = np.sin(x.astype(float)) * np.asarray(CONSTANT)
    np.testing.assert_allclose(export.deserialize(kind(data)).call(x), want, rtol=1e-6)


def test_a_path_is_no_program(tmp_path):
    with pytest.raises(WeftTypeError, match="from bytes"):
        export.deserialize(str(tmp_path))


# ---- versions ----------------------------------------------------------------------------------


def test_this_file_s_container_is_the_one_that_is_written(data):
    header, sections = take_apart(data)
    export.deserialize(put_together(header, sections))
    assert export.FORMAT_VERSION == 1


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_format_is_refused(data, version):
    header, sections = take_apart(data)
    error = refused(put_together(header, sections, version), "format")
    assert error.fix.kind == "upgrade" and str(version) in error.got


def test_the_version_is_looked_at_before_anything_else():
    later = b"\x89weft\r\n\n" + struct.pack("<IQ", 2, 0) + b"whatever a later format has here"
    assert refused(later, "format").fix.kind == "upgrade"


@pytest.mark.parametrize(
    ("version", "match"), [("99.0.0", "later StableHLO"), ("one", "version of StableHLO")]
)
def test_a_later_stablehlo_is_refused(data, version, match):
    header, sections = take_apart(data)
    header["programs"][0]["stablehlo_version"] = version
    refused(put_together(header, sections), match)


def test_it_is_written_for_an_older_stablehlo(data):
    written = take_apart(data)[0]["programs"][0]["stablehlo_version"]
    numbers = [
        tuple(map(int, v.split("."))) for v in (written, portable_artifact.current_version())
    ]
    assert numbers[0] < numbers[1]
    assert f"StableHLO_v{written}".encode() in data


# ---- files that somebody wrote on purpose ------------------------------------------------------


def change(path, value):
    """A change of one field of the header."""

    def apply(header):
        *outer, last = path
        for step in outer:
            header = header[step]
        if value is REMOVED:
            del header[last]
        else:
            header[last] = value

    return apply


REMOVED = object()
LEAF = {"kind": "leaf"}
FIRST = ("programs", 0)
CONST = (*FIRST, "constants", 0)
STRANGE = {
    "no programs": change(("programs",), []),
    "programs of another kind": change(("programs",), {}),
    "a program of another kind": change(FIRST, 7),
    "a field more": change(("surprise",), 1),
    "a field of a program more": change((*FIRST, "surprise"), 1),
    "a field less": change(("writer",), REMOVED),
    "a field of a program less": change((*FIRST, "out_tree"), REMOVED),
    "a name that is none": change((*FIRST, "name"), 3),
    "an unknown dtype": change((*FIRST, "in_types", 0, "dtype"), "float13"),
    "a dtype that is none": change((*FIRST, "in_types", 0, "dtype"), ["float32"]),
    "an unknown generator": change(
        (*FIRST, "in_types", 0), {"shape": [3], "weak": False, "key": "dice"}
    ),
    "a negative length": change((*FIRST, "in_types", 0, "shape"), [-3]),
    "a length that is no number": change((*FIRST, "in_types", 0, "shape"), [True]),
    "a boolean that is a number": change((*FIRST, "in_types", 0, "weak"), 0),
    "an unknown node": change((*FIRST, "in_tree"), {"kind": "set", "children": [LEAF]}),
    "an unknown class": change(
        (*FIRST, "in_tree"), {"kind": "class", "name": "os.system", "data": "", "children": [LEAF]}
    ),
    "an unknown named tuple": change(
        (*FIRST, "in_tree"), {"kind": "namedtuple", "name": "nobody", "children": [LEAF]}
    ),
    "a named tuple too short": change(
        (*FIRST, "in_tree"), {"kind": "namedtuple", "name": "tests.Point", "children": [LEAF]}
    ),
    "a class as a named tuple": change(
        (*FIRST, "in_tree"), {"kind": "namedtuple", "name": "tests.Layer", "children": [LEAF]}
    ),
    "data of a class that is no base64": change(
        (*FIRST, "in_tree"),
        {"kind": "class", "name": "tests.Layer", "data": "*", "children": [LEAF]},
    ),
    "data of a class that it does not take": change(
        (*FIRST, "in_tree"),
        {"kind": "class", "name": "tests.Layer", "data": "YQ==", "children": [LEAF]},
    ),
    "keys of a dict twice": change(
        (*FIRST, "in_tree"),
        {"kind": "dict", "keys": [["text", "a"], ["text", "a"]], "children": [LEAF, LEAF]},
    ),
    "more keys than children": change(
        (*FIRST, "in_tree"), {"kind": "dict", "keys": [["text", "a"]], "children": []}
    ),
    "a strange key": change(
        (*FIRST, "in_tree"), {"kind": "dict", "keys": [["eval", "1"]], "children": [LEAF]}
    ),
    "a key that is no number": change(
        (*FIRST, "in_tree"), {"kind": "dict", "keys": [["integer", "x"]], "children": [LEAF]}
    ),
    "a strange factory": change(
        (*FIRST, "in_tree"),
        {"kind": "defaultdict", "factory": "exec", "keys": [["text", "a"]], "children": [LEAF]},
    ),
    "another number of leaves": change((*FIRST, "in_tree"), {"kind": "none"}),
    "another number of names": change((*FIRST, "arguments"), []),
    "another number of results": change((*FIRST, "out_types"), []),
    "no such section": change((*CONST, "section"), 99),
    "a section before the first": change((*CONST, "section"), -1),
    "a constant of another size": change((*CONST, "type", "shape"), [4]),
    "no platforms": change((*FIRST, "platforms"), []),
    "a program that is a constant": change(
        (*FIRST, "platforms"), [{"name": "cpu", "section": 0}]
    ),
    "a check that does not exist": change(
        (*FIRST, "disabled_checks"), [{"kind": "all", "target": ""}]
    ),
    "no devices": change((*FIRST, "devices"), 0),
    "splits that are too few": change((*FIRST, "in_splits"), []),
    "a derivative of something else": change(
        ("programs", 1, "in_types", 0, "shape"), [5]
    ),
    "a derivative with other results": change(("programs", 1, "out_types", 0, "dtype"), "float16"),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE)
def test_strange_headers_are_refused(data, what):
    header, sections = take_apart(data)
    STRANGE[what](header)
    error = refused(put_together(header, sections))
    assert str(error.got) and str(error.wanted)


SPLIT = (*FIRST, "in_splits", 0)
STRANGE_SPLITS = {
    "an axis that the mesh does not have": change((*SPLIT, "spec"), ["k"]),
    "too many dimensions": change((*SPLIT, "spec"), ["i", "j", None]),
    "axes that do not divide": change((*SPLIT, "sizes"), [8, 1]),
    "other sizes": change((*SPLIT, "sizes"), [4, 4]),
    "a partition twice": change((*SPLIT, "partitions"), [0, 0, 1, 2, 3, 4, 5, 6]),
    "a partition that is not there": change((*SPLIT, "partitions"), [0, 1, 2, 3, 4, 5, 6, 8]),
    "a spec of numbers": change((*SPLIT, "spec"), [1, 2]),
    "an axis twice": change((*SPLIT, "spec"), ["i", "i"]),
    "no spec": change((*SPLIT, "spec"), REMOVED),
    "a field more": change((*SPLIT, "memory"), "host"),
    "tiles of another rank": change(SPLIT, {"sizes": [8], "partitions": list(range(8)),
                                            "names": [], "spec": []}),
}  # fmt: skip


@pytest.mark.parametrize("what", STRANGE_SPLITS)
def test_strange_splits_are_refused(split_data, what):
    header, sections = take_apart(split_data)
    if what == "axes that do not divide":
        header["programs"][0]["in_types"][0]["shape"] = [4, 4]
    STRANGE_SPLITS[what](header)
    refused(put_together(header, sections))


TEXTS = {
    "no JSON": b"{",
    "no object": b"[]",
    "no UTF-8": b'{"writer": "\xff"}',
    "a key twice": b'{"writer": "a", "writer": "b", "programs": [], "sections": []}',
    "a number that is none": b'{"writer": NaN, "programs": [], "sections": []}',
    "deeply nested": b"[" * 100_000,
    "a deep tree": b'{"writer": "", "sections": [], "programs": [{"name": "f", "stablehlo_version":'
    b' "1.0.0", "in_tree": ' + b'{"kind": "list", "children": [' * 3000 + b"]}" * 3000 + b"}]}",
    "sections that are none": b'{"writer": "", "programs": [], "sections": [{"length": 1}]}',
    "a negative section": b'{"writer": "", "programs": [],'
    b' "sections": [{"length": -1, "sha256": ""}]}',
}


@pytest.mark.parametrize("what", TEXTS)
def test_strange_texts_are_refused(what):
    refused(put_together({}, [], text=TEXTS[what]))


def test_types_beside_another_program_are_noticed_before_it_runs(data):
    header, sections = take_apart(data)
    for key in ("in_types", "out_types"):
        header["programs"][0][key][0]["shape"] = [1]
    header["programs"] = header["programs"][:1]
    found = export.deserialize(put_together(header, sections))
    with pytest.raises(WeftValueError, match="types that are written beside it"):
        found.call(np.ones(1, F))


def test_stablehlo_without_an_entry_point_is_noticed_before_it_runs():
    header, _ = take_apart(export.export(weft.jit(lambda: 1.5))().serialize())
    module = mlir.parse("module { func.func public @other() { return } }")
    found = export.deserialize(
        put_together(header, [portable_artifact.portable_artifact(module)[0]])
    )
    with pytest.raises(WeftValueError, match="types that are written beside it"):
        found.call()


def test_classes_are_found_by_registered_names_only(split_data):
    """The fix of the error for an unknown name: registering it."""
    header, sections = take_apart(split_data)
    tree = header["programs"][0]["in_tree"]["children"][0]["children"][0]
    assert tree["name"] == "tests.Point"
    tree["name"] = "tests.Other"
    strange = put_together(header, sections)
    error = refused(strange, "no class is registered under that name")

    class Other(Point):
        pass

    getattr(export, error.fix.data["call"])(
        Other, serialized_name=error.fix.data["serialized_name"]
    )
    ones = np.ones((8, 4), F)
    np.testing.assert_array_equal(export.deserialize(strange).call(Other(ones, ones)), 2 * ones)


# ---- a file that every version reads -----------------------------------------------------------


def golden_function(p, x, key):
    """What `golden/export_v1.weft` was made of, with its first derivative, for the types below."""
    gain = wnp.asarray(np.array([1.5, -0.5], F)).astype("bfloat16")
    _, total = weft.lax.scan(lambda c, row: (c + row, c), 0.0, x)
    return {
        "y": (p["w"] @ x) * gain.astype("float32"),
        "n": (p["n"][0] + 1, None),
        "sums": total,
        "key": key,
    }


GOLDEN_TYPES = (
    ({"w": S((2, 3), F), "n": [S((), "int32")]}, S((3,), F), S((), weft.random.key(0).dtype)),
    {},
)


def test_the_first_format_is_read():
    found = export.deserialize(GOLDEN.read_bytes())
    w, x, key = random(2, 3), random(3, seed=1), weft.random.key(3)
    out = found.call({"w": w, "n": [4]}, x, key)
    gain = np.array([1.5, -0.5])
    np.testing.assert_allclose(out["y"], w.astype(float) @ x * gain, rtol=1e-5)
    assert out["n"] == (5, None)
    np.testing.assert_allclose(out["sums"], [0, x[0], x[0] + x[1]], rtol=1e-6)
    bits = weft.random.key_data
    np.testing.assert_array_equal(bits(out["key"]), bits(key))
    got = weft.grad(lambda x: found.call({"w": w, "n": [4]}, x, key)["y"].sum())(x)
    np.testing.assert_allclose(got, w.T.astype(float) @ gain, rtol=1e-5)


def test_the_function_of_the_golden_file_exports_to_the_same_interface():
    """The description of the golden file above is right."""
    found = export.deserialize(GOLDEN.read_bytes())
    args, kwargs = GOLDEN_TYPES
    made = export.export(weft.jit(golden_function))(*args, **kwargs)
    assert (made.in_tree, made.out_tree) == (found.in_tree, found.out_tree)
    assert (made.in_avals, made.out_avals) == (found.in_avals, found.out_avals)
    assert GOLDEN.stat().st_size < 20_000
