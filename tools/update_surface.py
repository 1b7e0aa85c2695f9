"""Writes tests/golden/surface.txt: every public name of weft with its signature.

A change of the public surface then shows as a change of that file, where a reviewer sees it.

    python tools/update_surface.py            # write it
    python tools/update_surface.py --check    # only say whether it is up to date
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "surface.txt"

# What users import. A module of this list that does not exist yet is left out of the file, so one
# that comes to exist (or ceases to) shows as a change too.
MODULES = (
    "weft",
    "weft.analysis",
    "weft.api_util",
    "weft.checkpoints",
    "weft.config",
    "weft.debug",
    "weft.distributed",
    "weft.dtypes",
    "weft.errors",
    "weft.experimental",
    "weft.experimental.layout",
    "weft.export",
    "weft.extend",
    "weft.extend.arrays",
    "weft.extend.backend",
    "weft.extend.core",
    "weft.extend.elementwise",
    "weft.extend.functions",
    "weft.extend.interpreters",
    "weft.extend.interpreters.ad",
    "weft.extend.interpreters.batching",
    "weft.extend.interpreters.builders",
    "weft.extend.interpreters.layouts",
    "weft.extend.interpreters.mlir",
    "weft.extend.interpreters.partial_eval",
    "weft.extend.linear_util",
    "weft.extend.programs",
    "weft.extend.random",
    "weft.extend.sharding",
    "weft.extend.source",
    "weft.extend.source_info_util",
    "weft.ffi",
    "weft.image",
    "weft.lax",
    "weft.lax.linalg",
    "weft.layout",
    "weft.nn",
    "weft.nn.initializers",
    "weft.numpy",
    "weft.numpy.fft",
    "weft.numpy.linalg",
    "weft.ops",
    "weft.profiler",
    "weft.random",
    "weft.scipy",
    "weft.scipy.cluster",
    "weft.scipy.cluster.vq",
    "weft.scipy.fft",
    "weft.scipy.integrate",
    "weft.scipy.interpolate",
    "weft.scipy.linalg",
    "weft.scipy.ndimage",
    "weft.scipy.optimize",
    "weft.scipy.signal",
    "weft.scipy.sparse",
    "weft.scipy.sparse.linalg",
    "weft.scipy.spatial",
    "weft.scipy.spatial.transform",
    "weft.scipy.special",
    "weft.scipy.stats",
    "weft.scipy.stats.bernoulli",
    "weft.scipy.stats.beta",
    "weft.scipy.stats.betabinom",
    "weft.scipy.stats.binom",
    "weft.scipy.stats.cauchy",
    "weft.scipy.stats.chi2",
    "weft.scipy.stats.dirichlet",
    "weft.scipy.stats.expon",
    "weft.scipy.stats.gamma",
    "weft.scipy.stats.gennorm",
    "weft.scipy.stats.geom",
    "weft.scipy.stats.gumbel_l",
    "weft.scipy.stats.gumbel_r",
    "weft.scipy.stats.laplace",
    "weft.scipy.stats.logistic",
    "weft.scipy.stats.multinomial",
    "weft.scipy.stats.multivariate_normal",
    "weft.scipy.stats.nbinom",
    "weft.scipy.stats.norm",
    "weft.scipy.stats.pareto",
    "weft.scipy.stats.poisson",
    "weft.scipy.stats.t",
    "weft.scipy.stats.truncnorm",
    "weft.scipy.stats.uniform",
    "weft.scipy.stats.vonmises",
    "weft.scipy.stats.wrapcauchy",
    "weft.sharding",
    "weft.testing",
    "weft.tools",
    "weft.tree",
    "weft.tree_util",
    "weft.typing",
)


def exists(name: str) -> bool:
    """Whether there is such a module; an error inside an existing one is not hidden."""
    parent, _, _ = name.rpartition(".")
    if parent and not exists(parent):
        return False
    if parent and not hasattr(importlib.import_module(parent), "__path__"):
        return False
    found = importlib.util.find_spec(name)
    # A folder without __init__.py is no module of ours yet.
    return found is not None and found.origin is not None


def public_names(module: ModuleType) -> list[str]:
    """The names in `__all__`; without one, those that do not begin with an underscore."""
    stated = getattr(module, "__all__", None)
    if stated is not None:
        return sorted(stated)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    )


def signature(value: Any) -> str:
    """The signature as text; addresses in default values are left out."""
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(...)"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def members(cls: type) -> Iterator[str]:
    """The public methods and properties that weft's own classes give to `cls`."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("weft")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    for name in sorted(names):
        value = inspect.getattr_static(cls, name)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        is_function = inspect.isfunction(inspect.unwrap(value))
        yield f".{name}{signature(value)}" if is_function else f".{name}"


def describe(module: str, name: str, value: Any) -> Iterator[str]:
    """The lines for one public name."""
    full = f"{module}.{name}"
    if inspect.ismodule(value):
        yield f"{full}: module"
    elif inspect.isclass(value):
        yield f"{full}: class"
        if value.__module__.startswith("weft"):
            yield from (f"{full}{member}" for member in members(value))
    elif callable(value):
        yield f"{full}{signature(value)}"
    else:
        yield f"{full}: {type(value).__name__}"


def surface() -> str:
    """The whole public surface as text, a name a line."""
    lines: list[str] = []
    for module_name in MODULES:
        if not exists(module_name):
            continue
        module = importlib.import_module(module_name)
        for name in public_names(module):
            lines += describe(module_name, name, getattr(module, name))
    return "".join(line + "\n" for line in lines)


def difference(old: str, new: str) -> str:
    """What changed, in the form of `diff -u` without context."""
    return "\n".join(
        difflib.unified_diff(
            old.splitlines(), new.splitlines(), "recorded", "the package now", lineterm="", n=0
        )
    )


def main() -> int:
    """Writes the file, or compares with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it differs")
    arguments = parser.parse_args()
    old = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    new = surface()
    changed = difference(old, new)
    print(changed or f"{GOLDEN.relative_to(ROOT)} is up to date")
    if arguments.check:
        return 1 if changed else 0
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
