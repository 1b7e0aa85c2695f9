"""Records the public names of a library as data, with which tools/parity.py compares weft's.

It is run by hand with an interpreter that has the library, when a new release is to be compared
with; nothing else in the project needs that library. weft is not imported.

    python tools/record_names.py numpy
    python tools/record_names.py jax
    python tools/record_names.py array_api_strict
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import pathlib
import sys
from collections.abc import Iterable
from types import ModuleType

FOLDER = pathlib.Path(__file__).resolve().parent / "data"

# The modules that are compared; below jax.scipy, all that there are.
MODULES = {
    "numpy": ("numpy", "numpy.fft", "numpy.linalg"),
    "array_api_strict": ("array_api_strict", "array_api_strict.fft", "array_api_strict.linalg"),
    "jax": tuple(
        """
        jax jax.ad_checkpoint jax.api_util jax.core jax.custom_batching jax.custom_derivatives
        jax.debug jax.distributed jax.dlpack jax.dtypes jax.errors
        jax.example_libraries.optimizers jax.example_libraries.stax jax.experimental
        jax.experimental.buffer_callback jax.experimental.checkify
        jax.experimental.colocated_python
        jax.experimental.compilation_cache.compilation_cache jax.experimental.compute_on
        jax.experimental.custom_partitioning jax.experimental.hijax jax.experimental.jet
        jax.experimental.layout jax.experimental.mesh_utils jax.experimental.multihost_utils
        jax.experimental.ode jax.experimental.pjit jax.experimental.profiler
        jax.experimental.random jax.experimental.rnn jax.experimental.scheduling_groups
        jax.experimental.serialize_executable jax.experimental.shard_alike
        jax.experimental.shard_map jax.experimental.sparse jax.experimental.sparse.linalg
        jax.experimental.topologies jax.experimental.xla_metadata jax.export
        jax.extend.backend jax.extend.core jax.extend.core.primitives jax.extend.linear_util
        jax.extend.mlir jax.extend.random jax.extend.sharding jax.extend.source_info_util
        jax.ffi jax.flatten_util jax.image jax.interpreters.ad jax.interpreters.batching
        jax.interpreters.mlir jax.interpreters.partial_eval jax.interpreters.pxla
        jax.interpreters.xla jax.lax jax.lax.linalg jax.monitoring jax.nn
        jax.nn.initializers jax.numpy jax.numpy.fft jax.numpy.linalg jax.ops jax.profiler
        jax.random jax.ref jax.scipy jax.sharding jax.stages jax.test_util jax.tree
        jax.tree_util jax.typing
        """.split()
    ),
}

# Modules that have to be imported by name before their parents have them.
INNER = {
    "jax": (
        "scipy.cluster.vq",
        "scipy.fft",
        "scipy.integrate",
        "scipy.interpolate",
        "scipy.linalg",
        "scipy.ndimage",
        "scipy.optimize",
        "scipy.signal",
        "scipy.sparse.linalg",
        "scipy.spatial.transform",
        "scipy.special",
        "scipy.stats",
    )
}


def kind_of(value: object) -> str:
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else "value"


def inner_modules(module: ModuleType) -> list[str]:
    """The public modules below a package, by what it has as attributes."""
    names = [
        f"{module.__name__}.{name}"
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.ismodule(value)
        and value.__name__ == f"{module.__name__}.{name}"
    ]  # fmt: skip
    return sorted(names + [inner for n in names for inner in inner_modules(sys.modules[n])])


def names_of(module: ModuleType) -> dict[str, list[str]]:
    """The public names of a module by kind, in order; modules are left out."""
    found: dict[str, list[str]] = {}
    for name in sorted(public_names(module)):
        value = getattr(module, name, None)
        private = name.startswith("_") or is_of_the_library_alone(name)
        if not private and not inspect.ismodule(value) and not is_leftover(value):
            found.setdefault(kind_of(value), []).append(name)
    return found


def public_names(module: ModuleType) -> Iterable[str]:
    """What a module declares; without an `__all__`, what it does not merely import to use it.

    `from a import b as b` is how a module hands a name on.
    """
    if hasattr(module, "__all__"):
        return list(module.__all__)
    used = {
        alias.name
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is None
    }
    return vars(module).keys() - used


def is_leftover(value: object) -> bool:
    """Whether a module merely imported it for its annotations."""
    return type(value).__module__ in ("__future__", "typing") or value is None


def is_of_the_library_alone(name: str) -> bool:
    """Whether array_api_strict adds it to what the standard has."""
    return "array_api_strict" in name.lower() or "ArrayAPIStrict" in name or name == "Device"


def find(path: str) -> ModuleType:
    """A module by its path; array_api_strict has some under other names than it is imported by."""
    library, *inner = path.split(".")
    module = importlib.import_module(library)
    for name in inner:
        below = f"{module.__name__}.{name}"
        if not inspect.ismodule(getattr(module, name, None)):
            importlib.import_module(below)
        module = sys.modules.get(below) or getattr(module, name)
    return module


def record(library: str) -> dict[str, object]:
    """What is written for a library."""
    modules = list(MODULES[library])
    for name in INNER.get(library, ()):
        importlib.import_module(f"{library}.{name}")
    if library in INNER:
        modules += inner_modules(find(f"{library}.scipy"))
    return {
        "version": importlib.import_module(library).__version__,
        "modules": {name: names_of(find(name)) for name in sorted(modules)},
    }


def main() -> int:
    """Records one library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=sorted(MODULES))
    library = parser.parse_args().library
    text = json.dumps(record(library), indent=1, sort_keys=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"names_{library}.json").write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
