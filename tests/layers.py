"""The layers of the package as data, and the checks that hold a file to them.

Each check takes a syntax tree and answers with a list of what is wrong, so that `test_layers.py`
can also show, on small snippets, that the check is able to fail.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

# From the bottom up. A module imports from layers below its own and from its own; the graph of all
# imports has no cycle. Modules of layers with the same height do not import one another.
HEIGHT = {
    "leaves": 0,
    "sharding": 1,
    "core": 2,
    "runtime": 2,
    "array": 3,
    "ops": 4,
    "transforms": 5,
    "control": 6,
    "numpy": 7,
    "linalg": 8,
    "fft": 8,
    "random": 9,
    "nn": 10,
    "scipy": 11,
    "api": 12,
    "tools": 13,
    "testing": 13,
    "facade": 14,
}

# The longest matching name decides. A new top-level module has to be given its place here first.
LAYER_OF = {
    "weft.util": "leaves",
    "weft.version": "leaves",
    "weft.errors": "leaves",
    "weft.config": "leaves",
    "weft.caches": "leaves",
    "weft.source": "leaves",
    "weft.time_spent": "leaves",
    "weft.dtypes": "leaves",
    "weft.tree": "leaves",
    "weft.tree_nodes": "leaves",
    "weft.tree_difference": "leaves",
    "weft.function_keys": "leaves",
    "weft.pretty": "leaves",
    # The pytree registry is jaxlib's, so it lives behind the seam and needs nothing else of it.
    "weft.runtime.pytree": "leaves",
    "weft.runtime.lazy": "leaves",
    "weft.runtime.pending": "leaves",
    "weft.sharding": "sharding",
    "weft.core": "core",
    "weft.runtime": "runtime",
    "weft.array": "array",
    "weft.typing": "array",
    "weft.array_shards": "array",
    "weft.array_layouts": "array",
    "weft.ops": "ops",
    "weft.transforms": "transforms",
    "weft.control": "control",
    "weft.numpy": "numpy",
    "weft.linalg": "linalg",
    "weft.numpy.linalg": "linalg",
    "weft.fft": "fft",
    "weft.numpy.fft": "fft",
    "weft.nn": "nn",
    "weft.random": "random",
    "weft.image": "nn",
    "weft.scipy": "scipy",
    # Written with derivatives of the user's functions.
    "weft.scipy.optimize": "api",
    "weft.scipy.sparse": "api",
    "weft.api": "api",
    "weft.autodiff": "api",
    "weft.gradient_arguments": "api",
    "weft.batching": "api",
    "weft.shard_mapping": "api",
    "weft.casts": "api",
    "weft.exporting": "api",
    "weft.parallel_map": "api",
    "weft.jacobian": "api",
    "weft.custom_gradients": "api",
    "weft.implicit": "api",
    "weft.profiling": "api",
    "weft.debugging": "api",
    "weft.meshes": "api",
    "weft.primitives": "api",
    "weft.placing": "api",
    "weft.pictures": "api",
    "weft.tools": "tools",
    "weft.launch": "tools",
    "weft.testing": "testing",
    "weft.extending": "testing",
    # Facades: what users import; names only.
    "weft": "facade",
    "weft.lax": "facade",
    "weft.extend": "facade",
    "weft.ad_checkpoint": "facade",
    "weft.experimental": "facade",
    "weft.tree_util": "facade",
    "weft.layout": "facade",
    "weft.debug": "facade",
    "weft.distributed": "facade",
    "weft.export": "facade",
    "weft.ffi": "facade",
    "weft.profiler": "facade",
}

# What only a type checker imports, in `if TYPE_CHECKING`: `weft.tree` says in annotations that a
# tree of arrays stays one, and knows nothing of arrays when it runs.
FOR_TYPE_CHECKERS = {"weft.tree": "weft.typing"}

# Modules of weft.numpy that are layers of their own (linalg, fft) are shown by its `__init__`, so
# that file alone looks up instead of down: it is a facade over the chapters beside it.
PACKAGE_FACADES = {"weft.numpy": "facade", "weft.ops": "facade", "weft.scipy": "facade"}


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported module and the line that asks for it."""

    module: str
    line: int
    names: tuple[str, ...] = ()


def layer_of(module: str) -> str | None:
    """The layer of a module of weft; None where nobody has given it one."""
    parts = module.split(".")
    for end in range(len(parts), 1, -1):
        found = LAYER_OF.get(".".join(parts[:end]))
        if found is not None:
            return found
    return LAYER_OF["weft"] if module == "weft" else None


def lines_for_type_checkers(tree: ast.Module) -> set[int]:
    """The lines of a file that stand in `if TYPE_CHECKING`."""
    return {
        line
        for statement in tree.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        for inner in statement.body
        for line in range(inner.lineno, (inner.end_lineno or inner.lineno) + 1)
    }


def imports_of(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[Import]:
    """Every import in a file, wherever it stands, with relative names resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                keep = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join([*parts[:keep], *([base] if base else [])])
            yield Import(base, node.lineno, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call):
            yield from _dynamic_import(node)


def _dynamic_import(node: ast.Call) -> Iterator[Import]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("import_module", "__import__") and node.args:
        target = node.args[0]
        if isinstance(target, ast.Constant) and isinstance(target.value, str):
            yield Import(target.value, node.lineno)


def targets(found: Import, known: frozenset[str]) -> Iterator[str]:
    """The modules an import needs: `from weft.core import types` needs weft.core.types."""
    inner = [f"{found.module}.{name}" for name in found.names]
    submodules = [name for name in inner if name in known]
    yield from submodules
    if not found.names or len(submodules) < len(found.names):
        yield found.module


def upward(module: str, needed: str) -> str | None:
    """What is wrong with `module` importing `needed`, or None."""
    mine = PACKAGE_FACADES.get(module) or layer_of(module)
    theirs = layer_of(needed)
    if mine is None or theirs is None:
        return None  # the test of unknown modules speaks of these
    if mine == "facade" or mine == theirs:
        return None
    if theirs == "facade":
        return f"{needed} is a facade, which nothing inside imports"
    if HEIGHT[mine] == HEIGHT[theirs]:
        return f"{mine} and {theirs} are siblings"
    if HEIGHT[mine] < HEIGHT[theirs]:
        return f"{theirs} lies above {mine}"
    return None


def misplaced_imports(tree: ast.Module, in_runtime: bool = False) -> Iterator[int]:
    """Lines of imports inside functions, and of those that come after other code."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.Import, ast.ImportFrom)):
                    yield inner.lineno
    code_seen = False
    for statement in tree.body:
        if _is_import(statement, in_runtime):
            if code_seen:
                yield statement.lineno
        elif not _may_precede_imports(statement, in_runtime):
            code_seen = True


def _is_import(statement: ast.stmt, in_runtime: bool) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, ast.If):
        test = statement.test
        name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
        return name == "TYPE_CHECKING" and bool(list(_inner_imports(statement)))
    # jaxlib's modules move between releases, and only the seam knows of it.
    return in_runtime and isinstance(statement, ast.Try) and bool(list(_inner_imports(statement)))


def _inner_imports(node: ast.AST) -> Iterator[ast.AST]:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Import, ast.ImportFrom)):
            yield inner


def _may_precede_imports(statement: ast.stmt, in_runtime: bool) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    if isinstance(statement.value, ast.Constant):  # the docstring
        return True
    # A native library reads its environment while it is loaded.
    return in_runtime and ast.unparse(statement).startswith("os.environ.setdefault(")


def facade_code(tree: ast.Module) -> Iterator[int]:
    """Lines of a facade that are more than names: imports, literals, __getattr__, __dir__."""
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.FunctionDef) and statement.name in ("__getattr__", "__dir__"):
            continue
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _is_literal(statement.value):
            continue
        if _is_import(statement, in_runtime=False):  # imports for the type checker
            continue
        if _is_hidden_getattr(statement):
            continue
        yield statement.lineno


def _is_hidden_getattr(statement: ast.stmt) -> bool:
    """Whether it is a `__getattr__` that a type checker does not see: it would allow any name."""
    return (
        isinstance(statement, ast.If)
        and ast.unparse(statement.test) == "not TYPE_CHECKING"
        and not statement.orelse
        and all(isinstance(x, ast.FunctionDef) and x.name == "__getattr__" for x in statement.body)
    )


def _is_literal(value: ast.expr | None) -> bool:
    if value is None:
        return True
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def named_operations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where code decides by which primitive it has: by its name or by the primitive itself."""
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if isinstance(node, (ast.Name, ast.Attribute)) and name.endswith("_p") and len(name) > 2:
            yield node.lineno, f"mentions the primitive {name}"
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(_is_primitive_name(side) for side in sides) and any(map(_has_string, sides)):
                yield node.lineno, "compares the name of a primitive"
        if isinstance(node, ast.Match) and _is_primitive_name(node.subject):
            yield node.lineno, "matches on the name of a primitive"


def _is_primitive_name(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return False
    owner = node.value
    text = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return "prim" in text.lower()


def _has_string(node: ast.expr) -> bool:
    return any(
        isinstance(inner, ast.Constant) and isinstance(inner.value, str) for inner in ast.walk(node)
    )


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """One cycle of a graph of imports, or None."""
    state: dict[str, int] = {}  # 1: being visited, 2: done
    path: list[str] = []

    def visit(node: str) -> list[str] | None:
        state[node] = 1
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if state.get(other) == 1:
                return [*path[path.index(other) :], other]
            if other not in state:
                found = visit(other)
                if found:
                    return found
        path.pop()
        state[node] = 2
        return None

    for start in sorted(graph):
        if start not in state:
            found = visit(start)
            if found:
                return found
    return None
