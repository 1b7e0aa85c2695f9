"""Records what each public function of JAX takes, with which a test compares what weft's takes.

Run by hand with an interpreter that has JAX, as tools/record_names.py is:

    python tools/record_signatures.py

A signature is written as the parameters of a Python function, each default as `0`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import record_names

# Values whose methods users call, as expressions over the library.
VALUES = (
    "jax.numpy.ones(1)",
    "jax.numpy.ones(1).at[0]",
    "jax.jit(jax.numpy.sin)",
    "jax.jit(jax.numpy.sin).trace(1.0)",
    "jax.jit(jax.numpy.sin).lower(1.0)",
    "jax.jit(jax.numpy.sin).lower(1.0).compile()",
    "jax.export.export(jax.jit(jax.numpy.sin))(jax.numpy.ones(1))",
    "jax.tree.structure([1])",
)

# Compiled classes do not say what they take.
COMPILED = {"NamedSharding": "mesh, spec, memory_kind=0"}


def text_of(parameters: list[inspect.Parameter]) -> str:
    """Public parameters as they stand in a definition, with each default as `0`."""
    bare = [
        one.replace(annotation=one.empty, default=one.empty if one.default is one.empty else 0)
        for one in parameters
        if not one.name.startswith("_")
    ]
    return str(inspect.Signature(bare)).removeprefix("(").removesuffix(")")


def signature_of(value: Any, bound: bool = True) -> str | None:
    """What a callable takes, or None where it does not say."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    parameters = list(signature.parameters.values())[0 if bound else 1 :]
    operands = getattr(value, "nin", None)
    if isinstance(operands, int) and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        names = [f"x{i + 1}" for i in range(operands)]  # a ufunc, which takes this many
        only = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(name, only) for name in names] + parameters[1:]
    return text_of(parameters)


def methods_of(value: Any) -> Iterator[tuple[str, str | None]]:
    """The public methods of a class, or of a value, with their signatures."""
    is_class = inspect.isclass(value)
    for name in dir(value):
        held = inspect.getattr_static(value, name, None)
        if name.startswith("_") or held is None or isinstance(held, property):
            continue
        method = getattr(value, name)
        if callable(method) and not inspect.isclass(method):
            bound = not is_class or isinstance(held, (classmethod, staticmethod))
            yield name, signature_of(method, bound)


def has_methods(value: Any) -> bool:
    """Whether it is a class whose own methods users call: no dtype, error, tuple or number."""
    others = (BaseException, tuple, int)
    return inspect.isclass(value) and not hasattr(value, "dtype") and not issubclass(value, others)


def signatures(library: str, names: dict[str, Any]) -> dict[str, str]:
    """The signatures of what a library has of JAX's names, by JAX's path."""
    root = importlib.import_module(library)
    found: dict[str, str | None] = {}
    for module_name, kinds in names.items():
        try:
            module = record_names.find(library + module_name.removeprefix("jax"))
        except ModuleNotFoundError:
            continue
        for name in [*kinds.get("function", ()), *kinds.get("class", ())]:
            path, value = f"{module_name}.{name}", getattr(module, name, None)
            found[path] = signature_of(value) or COMPILED.get(name)
            if has_methods(value):
                found |= {f"{path}.{method}": text for method, text in methods_of(value)}
    for expression in VALUES:
        value = eval(expression, {"jax": root})
        found |= {f"{expression}.{method}": text for method, text in methods_of(value)}
    return {path: text for path, text in sorted(found.items()) if text is not None}


def main() -> int:
    """Records JAX's signatures."""
    recorded: dict[str, Any] = record_names.record("jax")
    found = {"version": recorded["version"], "signatures": signatures("jax", recorded["modules"])}
    path = record_names.FOLDER / "signatures_jax.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
