"""Imports point down: the layers of docs/architecture.md, held by reading the source.

Nothing of weft is imported here, so that these tests speak also about a tree that does not run.
"""

from __future__ import annotations

import ast
import functools
import sys
import textwrap

import pytest

import layers
from source_files import PACKAGE, module_name, parse, python_files, relative, report
from tools import architecture_map

pytestmark = pytest.mark.fast

FILES = python_files("weft")
STANDARD_LIBRARY = frozenset(sys.stdlib_module_names)
KNOWN = frozenset(module_name(path) for path in FILES)


HANDED = {
    module_name(path): layers.handed_out(parse(path))
    for path in FILES
    if path.name == "__init__.py" and module_name(path) in layers.HANDING_OUT
}


# Many checks ask for the same lists, and each takes a walk over the whole file to make.
@functools.cache
def imports(path):
    return list(layers.imports_of(parse(path), module_name(path), path.name == "__init__.py"))


@functools.cache
def weft_imports(path):
    """(line, module of weft) for every import of weft's own modules in a file."""
    return list(find_weft_imports(path))


def find_weft_imports(path):
    allowed = layers.FOR_TYPE_CHECKERS.get(module_name(path))
    unseen = layers.lines_for_type_checkers(parse(path)) if allowed else set()
    for found in imports(path):
        if found.module == "weft" or found.module.startswith("weft."):
            for target in layers.targets(found, KNOWN, HANDED):
                if not (target == allowed and found.line in unseen):
                    yield found.line, target


def test_there_is_a_package_to_look_at():
    assert PACKAGE.is_dir() and len(FILES) > 5


def test_every_module_has_a_layer():
    unknown = [name for name in sorted(KNOWN) if layers.layer_of(name) is None]
    report(f"{name}: give it a place in tests/support/layers.py" for name in unknown)


def test_the_map_is_up_to_date():
    page = architecture_map.PAGE.read_text(encoding="utf-8")
    assert list(layers.WHAT) == list(layers.HEIGHT)
    assert page == architecture_map.with_table(page), "run `make docs`"


def test_a_map_without_its_lines_is_noticed():
    with pytest.raises(ValueError, match="map: begin"):
        architecture_map.with_table("# How weft is built\n")


def test_every_layer_is_used_in_the_table():
    assert set(layers.LAYER_OF.values()) == set(layers.HEIGHT)


def test_imports_point_down():
    report(
        f"{relative(path)}:{line}: imports {needed}: {wrong}"
        for path in FILES
        for line, needed in weft_imports(path)
        if (wrong := layers.upward(module_name(path), needed))
    )


def test_imports_by_name_can_be_read():
    report(
        f"{relative(path)}:{line}: imports a module by a name that only running it tells"
        for path in FILES
        if module_name(path) not in layers.PASSED_NAMES
        for line in layers.hidden_imports(parse(path))
    )


def test_imports_name_modules_that_exist():
    report(
        f"{relative(path)}:{line}: there is no module {needed}"
        for path in FILES
        for line, needed in weft_imports(path)
        if needed not in KNOWN and not (needed == "weft" and (PACKAGE / "__init__.py").exists())
    )


def test_modules_import_nothing_from_themselves():
    # What a package imports from itself is a module of it; anything else is not there yet.
    report(
        f"{relative(path)}:{found.line}: there is no module "
        + " or ".join(f"{found.module}.{name}" for name in found.names)
        for path in FILES
        for found in imports(path)
        if found.module == module_name(path)
        and module_name(path) in layers.targets(found, KNOWN, HANDED)
    )


def test_no_cycle_of_imports():
    graph = {
        module_name(path): {needed for _, needed in weft_imports(path)} - {module_name(path)}
        for path in FILES
    }
    # A facade may show a module that shows it again (weft and weft.numpy): only names, no code.
    inside = {name: needed for name, needed in graph.items() if layers.layer_of(name) != "facade"}
    for asking, needed in layers.LAZY_CYCLES:
        inside[asking].remove(needed)
    found = layers.cycle(inside)
    assert found is None, " imports ".join(found)


def test_imports_stand_at_the_top():
    report(
        f"{relative(path)}:{line}: an import below the top of the file"
        for path in FILES
        for line in layers.misplaced_imports(
            parse(path), module_name(path).startswith("weft.runtime")
        )
    )


def test_only_the_runtime_imports_jaxlib():
    report(
        f"{relative(path)}:{found.line}: imports {found.module}"
        for path in (*FILES, *python_files("examples"))
        if not module_name(path).startswith("weft.runtime.")
        for found in imports(path)
        if found.module.split(".")[0] == "jaxlib"
    )


# Folders of tests in which `import jax` is answered by weft: their conftest.py sees to it.
SERVED_BY_WEFT = {"as_jax", "ecosystem"}


def test_nothing_imports_jax():
    report(
        f"{relative(path)}:{found.line}: imports {found.module}"
        for path in python_files("weft", "tests", "examples", "tools", "benchmarks", "docs")
        for found in imports(path)
        if found.module.split(".")[0] == "jax" and not SERVED_BY_WEFT & set(path.parts)
    )


# What a call imports where it is installed: (the file, the package), with the reason.
IMPORTED_BY_CALLS = {
    ("weft/checkpoints/chunks.py", "tensorstore"): (
        "the files of arrays are TensorStore's; without it the call says so"
    ),
    ("weft/experimental/sparse/linalg.py", "scipy"): (
        "sparse systems are factorized on the host by SciPy, which jaxlib depends on"
    ),
}


def test_the_package_imports_only_its_dependencies():
    allowed = {"weft", "jaxlib", "numpy", "ml_dtypes", "opt_einsum"}
    report(
        f"{relative(path)}:{found.line}: {found.module} is no dependency of weft"
        for path in FILES
        for found in imports(path)
        if found.module.split(".")[0] not in allowed | STANDARD_LIBRARY
        and (str(relative(path)), found.module.split(".")[0]) not in IMPORTED_BY_CALLS
    )


def test_facades_hold_names_only():
    report(
        f"{relative(path)}:{line}: a facade holds names only"
        for path in FILES
        if "facade" in (layers.layer_of(module_name(path)), facade_of(path))
        for line in layers.facade_code(parse(path))
    )


def test_the_core_names_no_operation():
    report(
        f"{relative(path)}:{line}: {what}"
        for path in FILES
        if layers.layer_of(module_name(path)) == "core"
        for line, what in layers.named_operations(parse(path))
    )


def facade_of(path):
    return layers.PACKAGE_FACADES.get(module_name(path)) if path.name == "__init__.py" else None


# ---- the checks themselves are able to fail --------------------------------------------


def tree(text):
    return ast.parse(textwrap.dedent(text))


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("weft.base.util", "weft.core.types"),
        ("weft.core.trace", "weft.runtime.client"),
        ("weft.core.trace", "weft.runtime.stablehlo.mlir"),
        ("weft.runtime.client", "weft.core.types"),
        ("weft.core.trace", "weft.ops.declare"),
        ("weft.sharding.mesh", "weft.core.types"),
        ("weft.ops.reductions.reduce", "weft.interpreters.jvp"),
        ("weft.interpreters.jvp", "weft.control_flow.jit_primitive"),
        ("weft.numpy.manipulation", "weft.numpy.linalg.norms"),
        ("weft.random.keys", "weft.nn.functions"),
        ("weft.api.jit", "weft.testing"),
        ("weft.control_flow.jit_primitive", "weft.lax"),
        ("weft.api.jit", "weft"),
    ],
)
def test_an_import_that_points_up_is_found(module, needed):
    assert layers.upward(module, needed)


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("weft.core.trace", "weft.core.types"),
        ("weft.core.trace", "weft.errors"),
        ("weft.runtime.client", "weft.sharding.mesh"),
        ("weft.tree", "weft.runtime.jaxlib.pytree"),
        ("weft.nn.functions", "weft.numpy"),
        ("weft.numpy", "weft.numpy.linalg"),
        ("weft", "weft.numpy"),
        ("weft", "weft.lax"),
    ],
)
def test_an_import_that_points_down_is_allowed(module, needed):
    assert layers.upward(module, needed) is None


def test_lines_for_type_checkers_are_found():
    text = (
        "import a\nif TYPE_CHECKING:\n    import b\n    from c import (\n        d)\nelse:\n    x"
    )
    assert layers.lines_for_type_checkers(tree(text)) == {3, 4, 5}


def test_a_new_top_level_module_is_unknown():
    assert layers.layer_of("weft.somewhere.else_") is None
    assert layers.layer_of("weft") == "facade"


def test_names_of_modules_that_are_loaded_later_are_imports_of_them():
    package = tree("pjrt = LazyModule('weft.runtime.backends.pjrt')\nx = 1")
    handed = {"weft.runtime": layers.handed_out(package)}
    assert handed == {"weft.runtime": {"pjrt": "weft.runtime.backends.pjrt"}}
    (found,) = layers.imports_of(tree("from weft.runtime import pjrt"), "weft.arrays.array")
    assert list(layers.targets(found, frozenset(), handed)) == ["weft.runtime.backends.pjrt"]


def test_relative_and_dynamic_imports_are_seen():
    found = layers.imports_of(
        tree("from . import types\nfrom ..errors import E\nimportlib.import_module('jaxlib')"),
        "weft.core.trace",
    )
    assert [f.module for f in found] == ["weft.core", "weft.errors", "jaxlib"]
    (inside,) = layers.imports_of(tree("from .mesh import Mesh"), "weft.sharding", is_package=True)
    assert inside.module == "weft.sharding.mesh"


def test_tables_of_lazy_names_are_imports():
    text = """
        _LAZY_MODULES = ("weft.random",)
        _LAZY_NAMES = {"weft.api.jit": "jit typeof", "weft.api.autodiff": "grad"}
        OTHER = {"a": "weft.nn"}
        """
    found = layers.imports_of(tree(text), "weft")
    assert [f.module for f in found] == ["weft.random", "weft.api.jit", "weft.api.autodiff"]


def test_a_composed_name_imports_every_module_of_the_package():
    text = "def __getattr__(name):\n    return importlib.import_module(f'weft.scipy.{name}')"
    known = frozenset({"weft.scipy", "weft.scipy.fft", "weft.scipy.stats.norm", "weft.scipy.stats"})
    (found,) = layers.imports_of(tree(text), "weft.scipy")
    assert set(layers.targets(found, known)) == {"weft.scipy.fft", "weft.scipy.stats"}


@pytest.mark.parametrize(
    "text",
    [
        "importlib.import_module(name)",
        "LazyModule('weft' + '.lax')",
        "__import__(f'{package}.lax')",
        "import_module(NAMES[name])",
    ],
)
def test_an_import_by_a_name_that_cannot_be_read_is_found(text):
    assert list(layers.hidden_imports(tree(text))) == [1]


@pytest.mark.parametrize(
    "text", ["importlib.import_module('weft.lax')", "import_module(f'weft.lax.{name}')", "f(name)"]
)
def test_an_import_by_a_name_that_can_be_read_is_allowed(text):
    assert not list(layers.hidden_imports(tree(text)))


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import os",
        "x = 1\nimport os",
        "class A:\n    import os",
        "if x:\n    def f():\n        import os",
        "try:\n    x = 1\nfinally:\n    class A:\n        import os",
        "import os\nos.environ.setdefault('A', 'B')\nimport sys",
    ],
)
def test_a_misplaced_import_is_found(text):
    assert list(layers.misplaced_imports(tree(text)))


@pytest.mark.parametrize(
    ("text", "in_runtime"),
    [
        ('"""Says what it is."""\nfrom __future__ import annotations\nimport os', False),
        ("import typing\nif typing.TYPE_CHECKING:\n    import os\nimport sys", False),
        ("import os\nos.environ.setdefault('A', 'B')\nimport sys", True),
    ],
)
def test_a_well_placed_import_is_allowed(text, in_runtime):
    assert not list(layers.misplaced_imports(tree(text), in_runtime))


def test_code_in_a_facade_is_found():
    text = "'''Doc.'''\nfrom a import b\n__all__ = ['b']\ndef f(): ...\nx = b()\nb()\n"
    text += "__all__ += b.__all__\n__all__ += b()\n"
    assert list(layers.facade_code(tree(text))) == [4, 5, 6, 8]


@pytest.mark.parametrize(
    "text",
    [
        "eqn.primitive.name == 'add'",
        "if prim is add_p: pass",
        "prim.name in ('add', 'mul')",
        "ops.sin_p",
        "match primitive.name:\n    case 'add': pass",
    ],
)
def test_a_named_operation_is_found(text):
    assert list(layers.named_operations(tree(text)))


def test_a_cycle_is_found():
    assert layers.cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert layers.cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None
