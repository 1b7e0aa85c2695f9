"""The layers of the package as data, and the checks that hold a file to them.

Each check takes a syntax tree and answers with a list of what is wrong, so that `test_layers.py`
can also show, on small snippets, that the check is able to fail.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import types
from collections.abc import Iterator, Mapping

from source_files import nodes

# From the bottom up: the floors, each with its rooms. A module imports from floors below its own
# and from its own room; the graph of all imports has no cycle. Rooms on one floor do not import one
# another.
FLOORS = (
    ("base", "jaxlib"),
    ("config",),
    ("errors",),
    ("pytree",),
    ("dtypes", "sharding", "tree", "stablehlo"),
    ("backends",),
    ("core", "runtime"),
    ("ops", "arrays", "profiler"),
    ("ops.structural",),
    ("ops.elementwise", "lowering"),
    ("ops.indexing",),
    ("ops.products", "ops.reductions"),
    ("ops.collectives", "ops.linalg"),
    ("interpreters",),
    ("refs",),
    ("tracing", "callbacks"),
    ("control_flow", "custom_derivatives", "spmd"),
    ("dispatch", "define", "ffi"),
    ("define.for_jax",),
    ("kinds",),
    ("numpy",),
    ("numpy.linalg", "random", "image", "api"),
    ("nn", "export", "debug", "testing"),
    ("scipy",),
    ("solvers",),
    ("builtin",),
    ("analysis", "checkpoints"),
    # Libraries of JAX's that are written with everything below.
    ("experimental",),
    ("facade",),
    ("as_jax",),
)
# What each room is, for the table in docs/architecture.md, which `make docs` writes.
WHAT = {
    "base": (
        "`source` (the user's line, with its scope), `timing` (what a thread spends on tracing, "
        "lowering and compiling), `program_caches` (who holds executables, and when they are "
        "dropped), `exact_keys` (the keys of static values, by class and bits), `util`; "
        "`native` is the compiled module for repeated calls, in C, and optional"
    ),
    "jaxlib": (
        "modules of jaxlib that are loaded when they are first used, and the threads on which "
        "they are loaded and compile"
    ),
    "config": "the settings, one immutable object, and the table that says all about each",
    "errors": "errors with fixes, and errors about one argument by kind",
    "pytree": "what pytrees need of jaxlib",
    "dtypes": "dtypes and promotion",
    "sharding": (
        "the place of an array, as frozen data without jaxlib or tracers: meshes, specs, "
        "shardings, layouts, the mesh in force"
    ),
    "tree": "pytrees: flattening, which classes are nodes, where two trees differ",
    "stablehlo": "building modules with the MLIR bindings",
    "backends": (
        "what weft asks of a runtime (`backend`), implemented with jaxlib (`pjrt*`) and without "
        "(`fake`); kernels of LAPACK and of the CUDA plugin, compiled handlers, executables on "
        "disk"
    ),
    "core": (
        "what a jaxpr is: types, primitives, traces, the tables of rules, the checker, the "
        "printer. Names no operation, and knows nothing of the runtime"
    ),
    "runtime": (
        "what weft calls of all this: `client`, whose `backend()` is the seam, and `profiler`"
    ),
    "ops": "how primitives are declared",
    "arrays": "`weft.Array`, its shards and layouts",
    "profiler": "profiles; the group of processes: meeting, faults, agreement",
    "ops.structural": "shapes; users know the primitives of `ops/…/` as `weft.lax`",
    "ops.elementwise": "primitives that treat each element by itself",
    "lowering": (
        "from a jaxpr to an executable: the module, devices and shardings, layouts, evaluation "
        "of single operations"
    ),
    "ops.indexing": "`gather`, `scatter`, slices",
    "ops.products": "products of arrays",
    "ops.reductions": "sums, extrema, cumulative forms",
    "ops.collectives": "operations over the axes of meshes and of `vmap`",
    "ops.linalg": "factorizations and solvers",
    "interpreters": (
        "the transformations, on flat lists of arrays: `staging`, `jvp`, `linearize`, "
        "`transpose`, `vmap`, `partial_eval`, `hoist`"
    ),
    "refs": "references: the box, its recorded equations, their discharge",
    "tracing": "the traces of a function object, explained misses, closures over traced values",
    "callbacks": "Python functions called by executables",
    "control_flow": (
        "operations with functions inside: `jit`'s primitive, `cond`, `scan`, `while_loop`, "
        "`checkpoint`, reductions, `linear_solve`"
    ),
    "custom_derivatives": "`custom_jvp`, `custom_vjp`, their primitives and closures",
    "spmd": (
        "`shard_map`: the primitive, its types, eager evaluation on blocks, simulation on one "
        "device, the user's function"
    ),
    "dispatch": (
        "jitted callables: signatures, executables, shardings of arguments, donation, the "
        "stages of compiling by hand, the search for a NaN"
    ),
    "define": "primitives from outside, checked",
    "ffi": "compiled code of others as an operation",
    "define.for_jax": "rules, traces and names of programs written for JAX",
    "kinds": "functions of arrays that are declared by the kinds of their arguments",
    "numpy": (
        "`weft.numpy`, files named after the chapters of NumPy and of the Array API standard; "
        "rarely used chapters are loaded on demand"
    ),
    "numpy.linalg": "linear algebra with NumPy's names",
    "random": "random numbers as functions of keys",
    "image": "resizing of pictures",
    "api": (
        "`jit`, `grad`, `vmap`, `hessian`, `pmap`, `device_put` … for users: pytrees on the "
        "flat core"
    ),
    "nn": (
        "networks; data that processes send each other, the launcher, the report of `python -m "
        "weft.info`"
    ),
    "export": "jitted functions as bytes",
    "debug": "looking into jaxprs",
    "testing": "checks of functions and of primitives",
    "scipy": "SciPy's chapters",
    "solvers": "chapters of SciPy that use derivatives of the user's functions",
    "builtin": "a list of all primitives, and functions that are composed of them",
    "analysis": "reports of whole programs",
    "checkpoints": (
        "trees of arrays in files: the structure as JSON, chunks by TensorStore, the commit; "
        "steps in a directory"
    ),
    "experimental": "libraries of JAX's that are written with everything below",
    "facade": "names only. So are the `__init__` files that `PACKAGE_FACADES` lists",
    "as_jax": "programs and libraries written for JAX, run on weft as they are",
}

HEIGHT = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

# Rooms that know nothing of one another though one stands below: what a jaxpr is, and what runs
# one.
STRANGERS = frozenset({("core", "stablehlo"), ("core", "backends")})

# The longest matching name decides. A new top-level module has to be given its place here first.
LAYER_OF = {
    "weft.base": "base",
    "weft.version": "base",
    "weft.config": "config",
    "weft.native": "base",
    "weft.monitoring": "base",
    "weft.memory": "base",
    "weft.distributed": "profiler",
    "weft.distributed.host_data": "nn",
    "weft.info": "nn",
    "weft.launch": "nn",
    "weft.dlpack": "api",
    "weft.settings": "config",
    "weft.errors": "errors",
    "weft.dtypes": "dtypes",
    "weft.tree": "tree",
    "weft.sharding": "sharding",
    "weft.core": "core",
    # The pytree registry is jaxlib's, so it lives behind the seam and needs nothing else of it.
    "weft.runtime.jaxlib.pytree": "pytree",
    "weft.runtime.jaxlib": "jaxlib",
    "weft.runtime.stablehlo": "stablehlo",
    "weft.runtime.backends": "backends",
    "weft.runtime": "runtime",
    "weft.arrays": "arrays",
    "weft.typing": "arrays",
    "weft.ops": "ops",
    "weft.ops.structural": "ops.structural",
    "weft.ops.elementwise": "ops.elementwise",
    "weft.ops.indexing": "ops.indexing",
    "weft.ops.products": "ops.products",
    "weft.ops.reductions": "ops.reductions",
    "weft.ops.collectives": "ops.collectives",
    "weft.ops.linalg": "ops.linalg",
    "weft.lowering": "lowering",
    "weft.interpreters": "interpreters",
    "weft.refs": "refs",
    "weft.tracing": "tracing",
    "weft.callbacks": "callbacks",
    "weft.control_flow": "control_flow",
    "weft.custom_derivatives": "custom_derivatives",
    "weft.spmd": "spmd",
    "weft.dispatch": "dispatch",
    "weft.define": "define",
    "weft.define.for_jax": "define.for_jax",
    "weft.kinds": "kinds",
    "weft.numpy": "numpy",
    "weft.numpy.linalg": "numpy.linalg",
    "weft.random": "random",
    "weft.image": "image",
    "weft.api": "api",
    "weft.custom_batching": "api",
    "weft.flatten_util": "api",
    "weft.nn": "nn",
    "weft.scipy": "scipy",
    # Written with derivatives of the user's functions.
    "weft.scipy.optimize": "solvers",
    "weft.scipy.sparse": "solvers",
    # What users import of these is shown by their `__init__`: see PACKAGE_FACADES.
    "weft.checkpoints": "checkpoints",
    "weft.debug": "debug",
    "weft.analysis": "analysis",
    "weft.export": "export",
    "weft.ffi": "ffi",
    "weft.profiler": "profiler",
    "weft.testing": "testing",
    "weft.define.builtin_primitives": "builtin",
    "weft.define.for_jax.composed_primitives": "builtin",
    "weft.define.for_jax.jax_names": "builtin",
    "weft.experimental": "experimental",
    "weft.example_libraries": "experimental",
    "weft.test_util": "experimental",
    "weft.experimental.layout": "facade",
    "weft.api_util": "facade",
    "weft.as_jax": "as_jax",
    # Facades: what users import; names only.
    "weft": "facade",
    "weft.lax": "facade",
    "weft.extend": "facade",
    "weft.ad_checkpoint": "facade",
    "weft.tree_util": "facade",
    "weft.layout": "facade",
    "weft.ad": "facade",
    "weft.ref": "facade",
}

# What only a type checker imports, in `if TYPE_CHECKING`: `weft.tree` says in annotations that a
# tree of arrays stays one, and knows nothing of arrays when it runs.
FOR_TYPE_CHECKERS = {"weft.tree": "weft.typing"}

# The `__init__` of these shows names of modules beside and below it, and of layers above: it is a
# facade over its own package, and holds names only.
PACKAGE_FACADES = dict.fromkeys(
    (
        "weft.analysis",
        "weft.checkpoints",
        "weft.custom_derivatives",
        "weft.debug",
        "weft.distributed",
        "weft.experimental",
        "weft.example_libraries",
        "weft.experimental.array_serialization",
        "weft.experimental.checkify",
        "weft.experimental.compilation_cache",
        "weft.experimental.pallas",
        "weft.experimental.sparse",
        "weft.experimental.jet",
        "weft.export",
        "weft.ffi",
        "weft.numpy",
        "weft.numpy.linalg",
        "weft.ops",
        "weft.profiler",
        "weft.scipy",
        "weft.testing",
    ),
    "facade",
)

# Imports by name that close a cycle: (who asks, for what), with the reason.
LAZY_CYCLES = {
    ("weft.experimental.sparse.base", "weft.experimental.sparse.array_methods"): (
        "methods of sparse arrays are made of functions that make sparse arrays"
    ),
    ("weft.numpy.ufuncs", "weft.numpy.ufunc_methods"): (
        "methods such as `reduce` are made of functions that are ufuncs themselves"
    ),
}

# What imports a module by its name, and the modules that facades hand to
# `load_on_first_use`: whole ones, and those of names.
DYNAMIC_IMPORTS = frozenset({"import_module", "__import__", "LazyModule", "LazyFunctions"})
LAZY_TABLES = frozenset({"_LAZY_MODULES", "_LAZY_NAMES"})

# Modules that import by names which others pass, with the reason.
PASSED_NAMES = {
    "weft.as_jax.overlay": "imports the modules of weft that its table names for those of JAX",
    "weft.base.facades": "imports the chapters that a facade names in its _LAZY_MODULES",
    "weft.define.builtin_primitives": "imports every module that makes primitives, above all",
    "weft.runtime.backends.cuda_handlers": "imports modules of the plugin for a CUDA release",
    "weft.runtime.jaxlib.lazy": "makes the lazy modules themselves",
    "weft.runtime.jaxlib.native": "runs the imports of a module of jaxlib, all but that of jax",
}

# Packages whose `__init__` hands out stand-ins for modules that are loaded on first use,
# `name = LazyModule("weft.…")`: an import of such a name is an import of its module.
HANDING_OUT = ("weft.runtime",)


NOTHING: Mapping[str, Mapping[str, str]] = types.MappingProxyType({})


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
    for node in nodes(tree):
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
        elif isinstance(node, ast.Assign):
            for module in lazy_table(node):
                yield Import(module, node.lineno)


def lazy_table(node: ast.Assign) -> dict[str, list[str]]:
    """For each module that a facade loads on first use the names that it hands on."""
    if _name_of(node.targets[0]) not in LAZY_TABLES:
        return {}
    table = ast.literal_eval(node.value)
    if isinstance(table, dict):
        return {module: names.split() for module, names in table.items()}
    return {module: [module.rpartition(".")[2]] for module in table}


def _name_of(node: ast.AST) -> str:
    """The last name of `a.b.c`; nothing for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _dynamic_import(node: ast.Call) -> Iterator[Import]:
    """The imports of `import_module("a.b")`; `import_module(f"a.{name}")` is `from a import *`."""
    if _name_of(node.func) not in DYNAMIC_IMPORTS or not node.args:
        return
    match node.args[0]:
        case ast.Constant(value=str(module)):
            yield Import(module, node.lineno)
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), _]) if start.endswith("."):
            yield Import(start[:-1], node.lineno, ("*",))


def hidden_imports(tree: ast.AST) -> Iterator[int]:
    """Lines that import a module by a name that this file cannot tell: see `_dynamic_import`
    for those that it can."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and _name_of(node.func) in DYNAMIC_IMPORTS:
            if not list(_dynamic_import(node)):
                yield node.lineno


def handed_out(tree: ast.Module) -> dict[str, str]:
    """The names that an `__init__` gives to modules which are loaded when they are first used."""
    return {
        node.targets[0].id: found.module
        for node in nodes(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if isinstance(node.value, ast.Call)
        for found in _dynamic_import(node.value)
    }


def targets(
    found: Import, known: frozenset[str], handed: Mapping[str, Mapping[str, str]] = NOTHING
) -> Iterator[str]:
    """The modules an import needs: `from weft.core import types` needs weft.core.types.

    `handed` has, per package that hands out modules, their names: of an import of such a name the
    module behind it is needed.
    """
    if found.names == ("*",):
        inside = [name for name in known if name.rpartition(".")[0] == found.module]
        yield from inside or [found.module]
        return
    names = handed.get(found.module, {})
    lazily = [names[name] for name in found.names if name in names]
    inner = [f"{found.module}.{name}" for name in found.names if name not in names]
    submodules = [name for name in inner if name in known]
    yield from lazily
    yield from submodules
    if not found.names or len(submodules) < len(inner):
        yield found.module


def upward(module: str, needed: str) -> str | None:
    """What is wrong with `module` importing `needed`, or None."""
    mine = PACKAGE_FACADES.get(module) or layer_of(module)
    theirs = layer_of(needed)
    if mine is None or theirs is None:
        return None  # the test of unknown modules speaks of these
    if mine == "facade" or mine == theirs:
        return None
    if theirs == "facade" and HEIGHT[mine] < HEIGHT[theirs]:
        return f"{needed} is a facade, which nothing inside imports"
    if (mine, theirs) in STRANGERS:
        return f"{mine} knows nothing of {theirs}"
    if HEIGHT[mine] == HEIGHT[theirs]:
        return f"{mine} and {theirs} are siblings"
    if HEIGHT[mine] < HEIGHT[theirs]:
        return f"{theirs} lies above {mine}"
    return None


def misplaced_imports(tree: ast.Module, in_runtime: bool = False) -> Iterator[int]:
    """Lines of imports inside functions, and of those that come after other code."""
    outside = set(_imports_outside(tree.body))
    for node in nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and node not in outside:
            yield node.lineno
    code_seen = False
    for statement in tree.body:
        if _is_import(statement, in_runtime):
            if code_seen:
                yield statement.lineno
        elif not _may_precede_imports(statement, in_runtime):
            code_seen = True


def _imports_outside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The imports among statements, and in blocks that run with them: in no function or class."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            yield from _imports_outside(statement.body)
            yield from _imports_outside(getattr(statement, "orelse", []))
            yield from _imports_outside(getattr(statement, "finalbody", []))
            for handler in getattr(statement, "handlers", []):
                yield from _imports_outside(handler.body)


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


# What `dir` shows of a public module, and the names of a chapter in `__all__`.
_NAMES_SHOWN = re.compile(r"__dir__ = public_names\(globals\(\)\)|__all__ \+= (\w+)\.__all__")


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
        if _is_hidden(statement) or _NAMES_SHOWN.fullmatch(ast.unparse(statement)):
            continue
        yield statement.lineno


def _is_hidden(statement: ast.stmt) -> bool:
    """Whether it is what a type checker does not see: `__all__` (it would hide star imports) and
    `__getattr__` (it would allow any name)."""
    return (
        isinstance(statement, ast.If)
        and ast.unparse(statement.test) == "not TYPE_CHECKING"
        and not statement.orelse
        and all(
            isinstance(x, ast.FunctionDef)
            and x.name == "__getattr__"
            or isinstance(x, ast.Assign)
            and isinstance(x.value, ast.Call)
            and _name_of(x.value.func) in ("handed_on", "load_on_first_use")
            for x in statement.body
        )
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
    for node in nodes(tree):
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
