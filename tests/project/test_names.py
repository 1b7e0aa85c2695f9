"""No name of a file or class of the package stands for two things.

Nothing of weft is imported here, so that these tests speak also about a tree that does not run.
"""

from __future__ import annotations

import ast
import textwrap

import pytest

from source_files import module_name, nodes, parse, python_files, report

pytestmark = pytest.mark.fast

FILES = [path for path in python_files("weft") if path.name != "__init__.py"]

PUBLIC = "the path is public: users import it, and it shows what the other makes"
CHAPTER = "a chapter of the library, and the operations that it is made of"
LIBRARIES = "the same chapter of two public libraries"

# Files that may share a name, with the reason.
SHARED_FILE_NAMES = {
    "ad": ({"weft.ad", "weft.extend.interpreters.ad"}, "both paths are public"),
    "backend": ({"weft.extend.backend", "weft.runtime.backends.backend"}, PUBLIC),
    "creation": ({"weft.numpy.creation", "weft.ops.indexing.creation"}, CHAPTER),
    "eigenvalues": ({"weft.numpy.linalg.eigenvalues", "weft.scipy.linalg.eigenvalues"}, LIBRARIES),
    "elementary": ({"weft.numpy.elementary", "weft.ops.elementwise.elementary"}, CHAPTER),
    "elementwise": (
        {"weft.extend.elementwise", "weft.numpy.elementwise", "weft.runtime.stablehlo.elementwise"},
        "the first is a public path; a chapter, and the StableHLO operations that it comes down to",
    ),
    "factorizations": (
        {"weft.numpy.linalg.factorizations", "weft.scipy.linalg.factorizations"},
        LIBRARIES,
    ),
    "fft": ({"weft.numpy.fft", "weft.scipy.fft", "weft.ops.products.fft"}, PUBLIC),
    "gamma": (
        {"weft.random.gamma", "weft.scipy.stats.gamma"},
        "one distribution: how it is drawn from, and the public path of its density",
    ),
    "joining": ({"weft.numpy.joining", "weft.ops.structural.joining"}, CHAPTER),
    "layout": ({"weft.layout", "weft.experimental.layout", "weft.sharding.layout"}, PUBLIC),
    "linalg": (
        {"weft.experimental.sparse.linalg", "weft.lax.linalg", "weft.scipy.sparse.linalg"},
        "all paths are public",
    ),
    "profiler": ({"weft.experimental.profiler", "weft.runtime.profiler"}, PUBLIC),
    "shard_map": ({"weft.experimental.shard_map", "weft.spmd.shard_map"}, PUBLIC),
    "mlir": ({"weft.extend.interpreters.mlir", "weft.runtime.stablehlo.mlir"}, PUBLIC),
    "partial_eval": (
        {"weft.extend.interpreters.partial_eval", "weft.interpreters.partial_eval"},
        PUBLIC,
    ),
    "schur": ({"weft.ops.linalg.schur", "weft.scipy.linalg.schur"}, CHAPTER),
    "sharding": ({"weft.extend.sharding", "weft.sharding.sharding"}, PUBLIC),
    "solving": ({"weft.numpy.linalg.solving", "weft.scipy.linalg.solving"}, LIBRARIES),
    "random": ({"weft.experimental.random", "weft.extend.random"}, PUBLIC),
    "sorting": ({"weft.numpy.sorting", "weft.ops.reductions.sorting"}, CHAPTER),
    "source": ({"weft.base.source", "weft.extend.source"}, PUBLIC),
    "vmap": (
        {"weft.api.vmap", "weft.interpreters.vmap"},
        "the function that users call, and its transformation of jaxprs",
    ),
}


def repeated(named):
    """The names of (name, where it stands) that stand in several places."""
    places = {}
    for name, place in named:
        places.setdefault(name, set()).add(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def file_names():
    return ((path.stem, module_name(path)) for path in FILES)


def classes_of(tree, module):
    """(name, module) of every class, in functions and classes too."""
    return ((node.name, module) for node in nodes(tree) if isinstance(node, ast.ClassDef))


def not_allowed(found, allowed):
    """What is wrong with repeated names: those without a reason, and reasons without a name."""
    for name, places in sorted(found.items()):
        if not places <= allowed.get(name, (set(), ""))[0]:
            yield f"{name} stands for several things: {', '.join(sorted(places))}"
    for name, (places, _) in sorted(allowed.items()):
        if found.get(name) != places:
            yield f"{name}: no longer repeated as the table says"


def test_file_names_stand_for_one_thing():
    report(list(not_allowed(repeated(file_names()), SHARED_FILE_NAMES)))


def test_class_names_stand_for_one_thing():
    named = [pair for path in FILES for pair in classes_of(parse(path), module_name(path))]
    report(list(not_allowed(repeated(named), {})))


# ---- the checks themselves are able to fail --------------------------------------------


def test_a_repeated_name_is_found():
    found = repeated([("jit", "weft.a.jit"), ("jit", "weft.b.jit"), ("grad", "weft.a.grad")])
    assert found == {"jit": {"weft.a.jit", "weft.b.jit"}}
    assert list(not_allowed(found, {})) == ["jit stands for several things: weft.a.jit, weft.b.jit"]
    assert not list(not_allowed(found, {"jit": (found["jit"], "a reason")}))


def test_a_third_file_of_an_allowed_name_is_found():
    found = {"jit": {"weft.a.jit", "weft.b.jit", "weft.c.jit"}}
    assert list(not_allowed(found, {"jit": ({"weft.a.jit", "weft.b.jit"}, "a reason")}))


def test_a_reason_for_nothing_is_found():
    assert list(not_allowed({}, {"jit": ({"weft.a.jit", "weft.b.jit"}, "a reason")}))


def test_classes_are_found_wherever_they_stand():
    text = "class A: ...\ndef f():\n    class B: ...\nif x:\n    class A: ..."
    found = classes_of(ast.parse(textwrap.dedent(text)), "weft.a")
    assert sorted(set(found)) == [("A", "weft.a"), ("B", "weft.a")]
