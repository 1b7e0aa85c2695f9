"""Exported functions that somebody changed, with the digests that belong to the change: an error of
weft's own, or a program that does what its parts say. Never another error, a hang, or a crash.

A program in it is changed so that it is StableHLO again: its reader is jaxlib's, which bytes that
are none can crash (docs/export.md says so). Damage of any kind is noticed by the digests; see
test_export_faults.py.

`python tools/fuzz.py --family crafted-exports` draws more, in a process of its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import random
import struct

import hypothesis
import hypothesis.strategies as st
import numpy as np

import weft
import weft.numpy as wnp
from crafted_files import changed, changed_bytes
from export_cases import MESH, F, Layer, Point, S
from weft import export, tree
from weft.errors import WeftError
from weft.runtime.stablehlo import portable_artifact
from weft.sharding import NamedSharding, P

CONSTANT = np.float32([0.5, 1.5, 2.5])
START = 8 + 4 + 8


def take_apart(data):
    (length,) = struct.unpack("<Q", data[12:START])
    header = json.loads(data[START : START + length])
    sections, position = [], START + length + 32
    for entry in header.pop("sections"):
        sections.append(data[position : position + entry["length"]])
        position += entry["length"]
    return header, sections


def put_together(header, sections):
    listed = [{"length": len(x), "sha256": hashlib.sha256(x).hexdigest()} for x in sections]
    if isinstance(header, dict):
        header = {**header, "sections": listed}
    text = json.dumps(header).encode()
    start = b"\x89weft\r\n\n" + struct.pack("<IQ", 1, len(text)) + text
    return start + hashlib.sha256(start).digest() + b"".join(sections)


def simple():
    closed_over = wnp.asarray(CONSTANT)
    made = export.export(weft.jit(lambda x: wnp.sin(x) * closed_over))(S((3,), F))
    return made.serialize(vjp_order=1), (np.ones(3, F),)


def trees():
    def function(d, point, *, layer):
        return {"sum": d["a"] + point.x, "y": [point.y, None]}, layer.weight @ d["b"][0]

    args = {"a": S((2,), F), "b": [S((2, 2), "bfloat16")]}, Point(S((), F), S((4,), "int8"))
    made = export.export(weft.jit(function))(*args, layer=Layer(S((2, 2), "bfloat16")))
    bf16 = np.dtype(wnp.bfloat16)
    values = {"a": np.ones(2, F), "b": [np.ones((2, 2), bf16)]}, Point(F(1), np.ones(4, np.int8))
    return made.serialize(), (*values, Layer(np.ones((2, 2), bf16)))


def loops():
    def function(key, x):
        step = weft.lax.scan(lambda c, t: (c * t, weft.lax.cumsum(c)), x, x)[1]
        return weft.random.normal(key, (2,)), wnp.sort(step, axis=0)[x.astype(int) % 2], x[::-1]

    made = export.export(weft.jit(function))(weft.random.key(0), S((4,), F))
    return made.serialize(), (weft.random.key(1), np.ones(4, F))


def split():
    function = weft.jit(lambda x: wnp.sum(x * 2), in_shardings=NamedSharding(MESH, P("i", "j")))
    return export.export(function)(S((8, 4), F)).serialize(), (np.ones((8, 4), F),)


def sizes():
    scope = export.SymbolicScope(["n >= 4"])
    shape = export.symbolic_shape("b, n", scope=scope)
    function = weft.jit(lambda x: wnp.concatenate([x.mean(1), x[0, : x.shape[1] // 2]]))
    return export.export(function)(S(shape, F)).serialize(vjp_order=1), (np.ones((5, 8), F),)


MAKERS = [simple, trees, loops, split, sizes]


@functools.cache
def made(number):
    data, args = MAKERS[number]()
    return (*take_apart(data), args)


def is_json(section):
    return section[:1] == b"{"


def changed_section(content, draw):
    """A section with another content: a template, the elements of an array, or a program."""
    if is_json(content):
        return json.dumps(changed(json.loads(content), draw)).encode()
    if b"StableHLO" in content[:40]:
        return changed_program(content, draw)
    return changed_bytes(content, draw)


def changed_program(content, draw):
    """A program that is still one, with a number of its text changed."""
    text = str(portable_artifact.from_portable_artifact(content))
    spots = [i for i, c in enumerate(text) if c.isdigit()]
    spot = draw.choice(spots)
    digits = draw.choice(("0", "1", "2", "3", "9", "17", "-1", "4294967296"))
    try:
        return portable_artifact.portable_artifact(
            portable_artifact.parse_text(text[:spot] + digits + text[spot + 1 :])
        )[0]
    except WeftError:
        return content


def crafted(seed):
    """The bytes of an exported function that was changed in a way, and its former arguments."""
    draw = random.Random(seed)
    header, sections, args = made(draw.randrange(len(MAKERS)))
    sections = list(sections)
    if draw.random() < 0.75:
        header = changed(header, draw)
    else:
        number = draw.randrange(len(sections))
        sections[number] = changed_section(sections[number], draw)
    return put_together(header, sections), args


def use(data, args):
    """Reads, shows and calls an exported function, and its derivative. Raises what is wrong."""
    found = export.deserialize(data)
    repr(found), found.in_shardings, found.out_shardings, found.in_shardings_hlo, found.platforms
    found.mlir_module(), found.serialize()
    keywords = {"layer": args[-1]} if isinstance(args[-1], Layer) else {}
    args = args[:-1] if keywords else args
    out = found.call(*args, **keywords)
    leaves, structure = tree.flatten(out)
    assert structure == found.out_tree
    for leaf, wanted in zip(leaves, found.out_avals, strict=True):
        assert leaf.ndim == len(wanted.shape) and leaf.dtype == wanted.dtype
        if all(isinstance(n, int) for n in wanted.shape):
            assert leaf.shape == wanted.shape
        weft.block_until_ready(leaf)
    if found.has_vjp():
        repr(found.vjp())
        weft.grad(lambda x: found.call(x).sum())(*args)


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.integers(0, 2**32))
def test_a_changed_export_is_refused_or_does_what_it_says(seed):
    data, args = crafted(seed)
    try:
        use(data, args)
    except WeftError:
        pass
