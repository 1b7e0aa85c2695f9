"""What weft's own operations and transformations are made of, packages outside it can import too.

The names are collected from the source: everything that `ops/`, `interpreters/`, `control_flow/` …
import from layers below theirs has to be an attribute of a public module. The other way round,
everything in `weft.extend` is either such a name or stands in `FOR_OUTSIDE` with what it is for.
"""

from __future__ import annotations

import ast
import copy
import functools
import gc
import importlib
import inspect
import pickle
import pkgutil

import numpy as np
import pytest

import layers
import weft
import weft.numpy as jnp
from source_files import module_name, nodes, parse, python_files
from tools import update_surface
from weft import lax
from weft.core import rules
from weft.define import builtin_primitives
from weft.define.for_jax.composed_primitives import COMPOSED
from weft.errors import JaxprError, MissingRuleError, WeftTypeError
from weft.extend import core
from weft.extend.core import ArrayType, JaxprBuilder, Primitive, primitives
from weft.extend.interpreters import ad, batching, builders, mlir, partial_eval
from weft.extend.interpreters import layouts as layout_rules
from weft.runtime import stablehlo
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

# The packages that make primitives and transform them, by what they have in common: what one of a
# group takes from another is no building block for others.
MAKERS = {
    **dict.fromkeys(("ops",), "operations"),
    **dict.fromkeys(("interpreters", "lowering"), "transformations"),
    **dict.fromkeys(
        ("tracing", "control_flow", "custom_derivatives", "callbacks", "ffi", "spmd", "define",
         "dispatch"),
        "operations with functions inside",
    ),
}  # fmt: skip
# Names or modules that stay inside, with the reason. A module stands for all of its names.
INSIDE = {
    "weft.native.optional.calls": "the compiled path of weft's own calls",
    "weft.config.settings_variable": "the settings as that path reads them",
    "weft.arrays.conversion.check_same": "what several processes put on their devices",
    "weft.arrays.array.host_values": "what a number is on the host, for that path",
    "weft.errors.argument_errors": "how weft words its errors for arguments",
    "weft.errors.with_operation": "how weft words the names of its operations",
    "weft.arrays.array.array_at": "an array that shows its sharding as it was spelled",
    "weft.core.axes.on_devices_in_force": "a sharding over the mesh in force, where one is given",
    "weft.lowering.called_bodies.bodies_are_called": "whether `jit` does the next one",
    "weft.interpreters.repeated_bodies.with_called_bodies": "what `jit` does before it compiles",
    "weft.core.shape_struct.described_type": "what weft's transformations take for an argument",
    "weft.interpreters.vmap.element_type": "`mapped_type` backwards, for functions still to trace",
    "weft.arrays.conversion.pass_through": "the result of operations that have nothing to do",
    "weft.base.facades": "how weft's facades take their chapters",
    "weft.dtypes.KEYS_FIX": "what weft says where a random key is no number",
    "weft.base.source.inserted_cast": "marks the casts that weft's own operations insert",
    "weft.base.source.join_scopes": "how lowering writes the names around a line",
    "weft.sharding.sharding.KINDS_OF_MEMORY": "what policies of checkpoint check against",
    "weft.config.looking": "the debugger's own pass through the settings",
    "weft.core.jaxpr.Cut": "a name for the type of what rules return",
    "weft.core.jaxpr.Steps": "a name for the type of what rules return",
    "weft.core.jaxpr.check_marks": "how transformations of programs refuse marks that do not fit",
    "weft.interpreters.staging.leaf_paths": "what a transformed function returned",
    "weft.interpreters.staging.check_function": "what a transformed function returned",
    "weft.interpreters.staging.check_results": "what a transformed function returned",
    "weft.interpreters.jvp.nonzero_tangents": "lists of tangents of which some are zero",
    "weft.interpreters.jvp.known_operands": "lists of tangents of which some are zero",
    "weft.interpreters.jvp.merge_zeros": "lists of tangents of which some are zero",
    "weft.interpreters.jvp.merge_cotangents": "lists of tangents of which some are zero",
    "weft.ops.collectives.all_reduce.sum_in_buckets": "how transposition joins its sums",
    "weft.ops.collectives.invariant.assume_invariant": "what `check_vma=False` does to results",
    "weft.core.rules.NamedRule": "what messages of registered rules say of them",
    "weft.core.rules.register_from_outside": "what registering does; a function per kind is public",
    "weft.ops.elementwise.families.common_shape": "shared by families and declarations",
    "weft.ops.elementwise.families.broadcast_scalar": "shared by families and declarations",
    "weft.base.program_caches.BoundedCache": "how caches of executables are bounded and dropped",
    "weft.lowering.executables.Run": "the type of what `running` returns",
    "weft.lowering.executables.running": "how a cached executable is called",
    "weft.core.rules.Derived": "a name for the type of what rules return",
    "weft.core.rules.Dims": "a name for the type of what rules take",
    "weft.core.rules.Hoisted": "a name for the type of what rules return",
    "weft.core.rules.Mapped": "a name for the type of what rules return",
    "weft.core.rules.Params": "a name for the type of what rules take",
    "weft.core.rules.Retyped": "a name for the type of what rules return",
    "weft.core.rules.Types": "a name for the type of what rules take",
    "weft.core.rules.Values": "a name for the type of what rules take",
    "weft.core.rules.Rule": "a name for the type of rules",
    "weft.core.check.check_operands_fit": "how weft's own type rules refuse operands",
    "weft.core.check.operands_do_not_fit": "how weft's own type rules refuse operands",
    "weft.interpreters.one_jaxpr": "the family of weft's own primitives that hold one jaxpr",
    "weft.interpreters.partial_eval.all_unknown": "short for a SplitEquation",
    "weft.interpreters.hoist.varying_along": "short for `ArrayType.update` of several types",
    "weft.interpreters.staging.rebuild": "trace_to_jaxpr and embedded, one after the other",
    "weft.lowering.eval_trace.operation_key": "what the executables of operations are kept by",
    "weft.lowering.eval_trace.operation_program": "one_operation, for loops too",
    "weft.lowering.executables.FAST_COMPILE_LIMIT": "up to how many elements is_brief holds",
    "weft.lowering.result_layouts.operand_formats": "three arguments of compile_program at once",
    "weft.lowering.numpy_evaluation.program_on_host": "what NumPy runs before it is compiled",
    "weft.lowering.executables.is_brief": "which programs compile without optimization",
    "weft.core.rule_results": "the checks that registering a rule puts around it, and `fits`",
    "weft.arrays.conversion.scalar_array": "what `as_array` makes of a number",
    "weft.arrays.host_values.cast_values": "how NumPy's arrays are cast as arrays are",
    "weft.arrays.conversion.HALVED": "marks of what the default width has rounded",
    "weft.arrays.conversion.WIDE": "marks of what the default width has rounded",
    "weft.errors.name_error": "how weft's boundaries and type rules name their errors",
    "weft.arrays.conversion.mark_rounded": "marks of what the default width has rounded",
    "weft.arrays.conversion.lost_digits": "marks of what the default width has rounded",
    "weft.arrays.conversion.warn_once": "marks of what the default width has rounded",
    "weft.interpreters.rounded_inputs": "warnings about what those marks lead to",
    "weft.ops.elementwise.convert.beside_float64": "how `jit` and others take 64-bit values",
    "weft.core.types.check_unmasked": "`type_of` refuses masked arrays, also where it is not asked",
    "weft.base.exact_keys": "how weft's own caches tell static values apart",
    "weft.base.source.NAN_ELSEWHERE": "what weft's softmax tells the compiler",
    "weft.base.source.is_internal": "`is_library_file` is public",
    "weft.base.source.with_metadata": "`set_xla_metadata` is public",
    "weft.ops.structural.narrow": "how weft's own sums of 16-bit numbers are in float32",
    "weft.core.types.types_by_class": "`register_type_of`, read by a mapping of JAX's name",
    "weft.interpreters.linearize.UserRuleTrace": "how rules of users run; `user_rule` enters it",
    "weft.interpreters.linearize.share_captured": "one copy of a NumPy array for nested programs",
    "weft.core.trace.running": "using_trace and finish, one after the other",
    "weft.core.trace.set_bottom": "called by the modules of the traces that evaluate",
    "weft.core.array_value": "how `bind` takes values of registered classes; registering is public",
    "weft.core.shared_jaxprs": "how weft's own loops and `jit` find the programs of equal jaxprs",
    "weft.runtime": "the seam to jaxlib: what is behind `weft.extend.programs` and `arrays`",
    "weft.sharding.context": "the state behind `weft.use_mesh` and `weft.simulate`",
    "weft.sharding.current": "the state behind `weft.use_mesh`",
    "weft.sharding.mesh.AnyMesh": "what Mesh and AbstractMesh share",
    "weft.base.notebooks": "how weft's messages name the cell of a notebook",
    "weft.base.terminal": "where weft's messages to a user who waits are written",
    "weft.base.timing": "weft's own account of the time that compiling takes",
    "weft.tree.static_data.exact_structure": "how programs are found by static data in arguments",
    "weft.tree.difference": "what messages say of two trees",
    "weft.arrays.transfers.guard": "how copies of operands are refused under `transfer_guard`",
    "weft.arrays.transfers.Uncommitted": "the state behind the setting `default_device`",
    "weft.arrays.transfers.default_place": "the state behind the setting `default_device`",
    "weft.arrays.transfers.first_place": "the state behind the setting `default_device`",
    "weft.config.using": "how a callback runs under the settings of its caller",
    "weft.core.effects.RefType": "the type of references, which no rule meets",
    "weft.core.effects.is_reference": "the type of references, which no rule meets",
    "weft.core.trace.check_leaks": "how weft's own transformations look for leaked tracers",
    "weft.lowering.executables.device_for": "the device of one of the executables' own places",
    "weft.ops.elementwise.convert.convert_element_type": "that of weft.lax, under weft's dtypes",
    "weft.ops.indexing.creation.full": "that of weft.lax, under weft's own dtypes",
    "weft.ops.indexing.creation.iota": "that of weft.lax, under weft's own dtypes",
    "weft.ops.indexing.scatter.gather_at": "a part of the rules of scatters",
    "weft.refs": "how weft's own functions take references out of what they record",
    "weft.base.util": "helpers that have nothing to do with arrays",
}
# What belongs to one operation of weft's own, and is imported by the modules that emit it or give
# it another face (`control_flow/reduction.py` emits windows, `jit` constrains its results).
INSIDE |= dict.fromkeys(
    ("weft.ops.reductions.reduce", "weft.ops.structural.sharding_constraint",
     "weft.ops.reductions.window"),
    "a part of one of weft's own operations",
)  # fmt: skip
# What weft itself does not import from below, with what it is for.
FOR_OUTSIDE = {
    "weft.extend.source_info_util": "lines and names of equations under the names of JAX",
    "weft.extend.Example": "an example for check_primitive",
    "weft.extend.Report": "what check_primitive answers with",
    "weft.extend.check_primitive": "runs the rules of a primitive against one another",
    "weft.extend.arrays.Shard": "what `Array.addressable_shards` holds",
    "weft.extend.core.ArrayValue": "what a value type of one's own follows",
    "weft.extend.core.BoundAxis": "what axis_environment holds",
    "weft.extend.core.check_jaxpr": "checking a program; weft checks by `checked`",
    "weft.extend.core.inner_programs": "what a program runs, for reports of one's own",
    "weft.extend.core.register_type_of": "the types of values without a `type`",
    "weft.extend.interpreters.mlir.custom_call": "kernels that are not StableHLO",
    "weft.extend.source.Scope": "what a source holds beside file and line",
    "weft.extend.source.register_internal": "frames of a package that messages leave out",
    "weft.extend.core.BuiltinPrimitives": "the class of `primitives`",
    "weft.extend.core.Effect": "effects of one's own",
    "weft.extend.core.JaxprBuilder": "programs by hand",
    "weft.extend.core.define_primitive": "a primitive from one declaration",
    "weft.extend.core.primitives": "weft's own primitives by name",
    "weft.extend.core.register_array_value": "value types of one's own",
    "weft.extend.core.show_jaxpr": "printing a program",
    "weft.extend.core.DebugInfo": "what programs written for JAX ask of a jaxpr",
    "weft.extend.core.DropVar": "results that interpreters written for JAX leave out",
    "weft.extend.core.jaxpr_as_fun": "programs as functions",
    "weft.extend.core.no_effects": "equations by hand",
    "weft.extend.core.new_jaxpr_eqn": "equations by hand, as programs written for JAX make them",
    "weft.extend.core.subjaxprs": "walking through programs",
    "weft.extend.core.trace_of": "which tracers are a trace's own",
    "weft.extend.random": "generators from outside; weft's own are above its operations",
    "weft.extend.sharding": "XLA's words for shardings; weft's own compiler speaks Shardy",
}
# Used by weft's own modules of the same layer, and so by none from below: what `ops/` make their
# primitives with, and the registration that they do through the tables.
FOR_OUTSIDE |= dict.fromkeys(
    ("weft.extend.elementwise", "weft.extend.interpreters.builders"),
    "families and builders are whole, whether weft uses each of them or not",
)


def public_modules():
    found = [name for name in update_surface.MODULES if update_surface.exists(name)]
    return {name: importlib.import_module(name) for name in found}


@functools.cache
def public_values():
    """The identities of everything that a public module names."""
    found = {id(primitive): primitive for primitive in primitives.values()}
    for module in public_modules().values():
        for name in update_surface.public_names(module):
            value = getattr(module, name)
            found[id(value)] = value
    return found


def package_of(module):
    return module.split(".")[1] if "." in module else ""


def used_names():
    """(module, name) of everything that the makers import from below."""
    known = frozenset(module_name(path) for path in python_files("weft"))
    found = set()
    for path in python_files("weft"):
        module = module_name(path)
        if package_of(module) in MAKERS:
            found |= set(names_from_below(parse(path), module, known))
    return found


def names_from_below(tree, module, known):
    aliases = {
        alias.name: alias.asname or alias.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for imported in layers.imports_of(tree, module):
        if not imported.module.startswith("weft"):
            continue
        for name in imported.names:
            inner = f"{imported.module}.{name}"
            source = inner if inner in known else imported.module
            if layers.HEIGHT[layers.layer_of(source)] >= layers.HEIGHT[layers.layer_of(module)]:
                continue
            if MAKERS.get(package_of(source)) == MAKERS[package_of(module)]:
                continue
            if inner not in known:
                yield imported.module, name
                continue
            for node in nodes(tree):  # a module: the attributes that are asked of it
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id == aliases[name]:
                        yield inner, node.attr


def is_inside(module, name):
    full = f"{module}.{name}"
    return any(full == inside or full.startswith(inside + ".") for inside in INSIDE)


def is_reachable(module, name):
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, (bool, int, str, type(None))):
        # Equal constants are one object: reachable where a public module has the name.
        return any(hasattr(public, name) for public in public_modules().values())
    return id(value) in public_values()


def test_what_weft_builds_on_others_can():
    names = used_names()
    assert ("weft.core.types", "ArrayType") in names and ("weft.core.rules", "jvp") in names
    missing = [
        f"{module}.{name}"
        for module, name in sorted(names)
        if not is_inside(module, name) and not is_reachable(module, name)
    ]
    if missing:
        pytest.fail(
            "imported from below by weft's own operations or transformations, and in no public "
            "module: give each a place in weft.extend, or a reason in INSIDE\n"
            + "\n".join(missing),
            pytrace=False,
        )


def test_each_reason_is_still_needed():
    names = {f"{module}.{name}" for module, name in used_names()}
    for inside in INSIDE:
        assert any(full == inside or full.startswith(inside + ".") for full in names), inside
    assert all(INSIDE.values()) and all(FOR_OUTSIDE.values())


def defined_by_makers():
    """The names that weft's operations and transformations define, by the value."""
    found = set()
    for path in python_files("weft"):
        module = module_name(path)
        if package_of(module) in MAKERS:
            found |= {id(value) for value in vars(importlib.import_module(module)).values()}
    return found


def test_what_others_can_import_is_what_weft_is_made_of():
    used = {id(getattr(importlib.import_module(m), n)) for m, n in used_names()}
    own = defined_by_makers()
    for module_text, module in public_modules().items():
        if not module_text.startswith("weft.extend") or module_text in FOR_OUTSIDE:
            continue
        for name in update_surface.public_names(module):
            value = getattr(module, name)
            if f"{module_text}.{name}" in FOR_OUTSIDE or inspect.ismodule(value):
                continue
            full = f"{module_text}.{name}"
            assert id(value) in used | own, f"{full}: say in FOR_OUTSIDE what it is for"
    for full in FOR_OUTSIDE:
        module_text, _, name = full.rpartition(".")
        assert full in public_modules() or hasattr(importlib.import_module(module_text), name)


def test_a_name_that_is_missing_is_found():
    tree = ast.parse("from weft.core import rules\nfrom weft.core.check import _bind\nrules.jvp\n")
    known = frozenset(module_name(path) for path in python_files("weft"))
    found = set(names_from_below(tree, "weft.ops.made_up", known))
    assert found == {("weft.core.rules", "jvp"), ("weft.core.check", "_bind")}
    assert is_reachable("weft.core.rules", "jvp")
    assert not is_reachable("weft.core.check", "_bind")


def test_no_underscore_leaks():
    for name, module in public_modules().items():
        if name.startswith("weft.extend"):
            stated = update_surface.public_names(module)
            assert not [n for n in stated if n.startswith("_")]
            assert set(stated) <= set(dir(module))
    for module, name in used_names():
        assert not name.startswith("_") or name in ("__all__", "__name__"), f"{module}.{name}"


# ---- functions are typed and say what they do ---------------------------------------------------


def functions_of_the_surface():
    for module_text, module in public_modules().items():
        if module_text.startswith("weft.extend") and not module_text.endswith("builders"):
            for name in update_surface.public_names(module):
                value = getattr(module, name)
                if inspect.isfunction(value) or inspect.isclass(value):
                    yield f"{module_text}.{name}", value


@pytest.mark.parametrize("full", [full for full, _ in functions_of_the_surface()])
def test_everything_is_typed_and_documented(full):
    value = dict(functions_of_the_surface())[full]
    assert value.__doc__, f"{full} has no docstring"
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        untyped = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        assert not untyped, f"{full}: {untyped} have no types"
        assert signature.return_annotation is not signature.empty, full


def test_the_snapshot_has_the_whole_surface():
    recorded = update_surface.GOLDEN.read_text(encoding="utf-8")
    below = [found.name for found in pkgutil.walk_packages(weft.extend.__path__, "weft.extend.")]
    assert below and set(below) <= set(update_surface.MODULES)
    for name in below:
        assert f"\n{name}." in recorded, f"{name} is not in the snapshot"


# ---- weft's own primitives by name ---------------------------------------------------------------


def test_every_primitive_of_weft_is_there_by_name():
    found = {}
    names_of_jax = {id(value) for value in builtin_primitives._never_applied.values()}
    names_of_jax |= {id(value) for value in COMPOSED.values()}
    for module in pkgutil.walk_packages(weft.__path__, "weft."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Primitive) and id(value) not in names_of_jax:
                found[value.name] = value
    assert dict(primitives) == dict(sorted(found.items()))
    assert len(primitives) == len({id(p) for p in found.values()}) > 100
    for name, primitive in primitives.items():
        assert primitive is primitives[name] is getattr(primitives, f"{name}_p")
        assert f"{name}_p" in dir(primitives)
    for name in ("add", "sin", "jit", "scan", "while", "cond", "psum", "shard_map", "custom_jvp"):
        assert name in primitives


def test_no_other_primitive_is_made_in_weft():
    # Primitives that tests declare are in no module of weft's.
    known = set(map(id, primitives.values()))
    rows = [table for table in vars(rules).values() if isinstance(table, rules.Table)]
    assert known <= {id(p) for table in rows for p in table}
    held = [p for p in gc.get_objects() if isinstance(p, Primitive) and id(p) in known]
    assert len(held) == len(primitives)


def test_a_primitive_that_there_is_not():
    with pytest.raises(KeyError, match="no primitive named 'sinn'; there are sin"):
        primitives["sinn"]
    with pytest.raises(AttributeError, match="no primitive named 'addd'"):
        primitives.addd_p  # noqa: B018
    with pytest.raises(AttributeError):
        primitives.add  # noqa: B018
    assert primitives.get("no such thing") is None and "add" in primitives
    assert not hasattr(copy.copy(primitives), "no_such_thing_p")
    with pytest.raises(TypeError):
        primitives["mine"] = primitives["add"]
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        pickle.dumps(primitives)


def test_primitives_by_name_are_those_of_programs():
    program = weft.make_jaxpr(lambda x: lax.sin(x) + x)(1.0)
    assert [eqn.primitive for eqn in program.eqns] == [primitives.sin_p, primitives.add_p]
    np.testing.assert_allclose(primitives["mul"].bind(jnp.array(2.0), 3.0), 6.0)


# ---- every table has its function ----------------------------------------------------------------

TABLES = {name: t for name, t in vars(rules).items() if isinstance(t, rules.Table)}
REGISTERED_BY = {
    "impl": lambda p, rule: p.def_impl(rule),
    "type_rule": lambda p, rule: p.def_abstract_eval(rule),
    "jvp": ad.register_jvp,
    "linearize": ad.register_linearize,
    "transpose": ad.register_transpose,
    "vmap": batching.register_vmap,
    "partial_eval": partial_eval.register,
    "dce": partial_eval.register_dce,
    "stage": partial_eval.register_stage,
    "steps": partial_eval.register_steps,
    "retype": partial_eval.register_retype,
    "runs": partial_eval.register_runs,
    "hoist": partial_eval.register_hoist,
    "rebind": partial_eval.register_rebind,
    "effects": partial_eval.register_effects,
    "layout": layout_rules.register_layout,
    "reads": layout_rules.register_reads,
    "moves": layout_rules.register_moves,
    "keep_layouts": layout_rules.register_keep_layouts,
    "lower": mlir.register_lowering,
    "on_host": mlir.register_on_host,
}


def test_there_is_a_function_for_every_table():
    assert REGISTERED_BY.keys() == TABLES.keys()


@pytest.mark.parametrize("name", TABLES)
def test_registering(name):
    table = TABLES[name]
    p = Primitive(f"registered_{name}", memoise=False)

    def rule(*args, **params):
        raise AssertionError("never called")

    with pytest.raises(MissingRuleError) as info:
        table[p]
    call = info.value.fix.text.split(": ", 1)[1].split(", where")[0]
    answered = eval(call, {"weft": weft, "primitive": p, "rule": rule, "function": rule})
    assert answered is rule and p in table
    with pytest.raises(weft.errors.WeftValueError, match="already"):
        REGISTERED_BY[name](p, rule)


# ---- programs by hand ----------------------------------------------------------------------------

F32 = ArrayType((3,), np.float32)


def test_a_program_by_hand_is_the_one_that_tracing_gives():
    builder = JaxprBuilder("f")
    x = builder.input(F32)
    y = builder.input(F32)
    product = builder.apply(primitives.mul_p, x, y)
    total = builder.apply(primitives.add_p, builder.apply(primitives.sin_p, product), 2.0)
    program = builder.build([total, x])
    traced = weft.make_jaxpr(lambda x, y: (lax.sin(x * y) + 2.0, x))(np.ones(3), np.ones(3))
    assert str(program) == str(traced)
    core.check_jaxpr(program)
    a, b = np.array([0.1, 0.2, 0.3], "float32"), np.array([1.0, 2.0, 3.0], "float32")
    wanted = np.sin(a.astype("float64") * b) + 2.0
    f = lambda a: core.eval_jaxpr(program, program.consts, a, b)[0]  # noqa: E731
    np.testing.assert_allclose(f(a), wanted, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(f)(a), wanted, rtol=1e-6)
    gradient = weft.grad(lambda a: f(a).sum())(a)
    np.testing.assert_allclose(gradient, np.cos(a.astype("float64") * b) * b, rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(f)(np.stack([a, a]))[1], wanted, rtol=1e-6)


def test_arrays_become_closed_over_values():
    table = np.arange(3, dtype="float32")
    builder = JaxprBuilder()
    x = builder.input(F32)
    once = builder.apply(primitives.add_p, x, table)
    twice = builder.apply(primitives.add_p, once, table)
    program = builder.build([twice])
    assert program.jaxpr.num_consts == 1 and program.in_avals == [F32]
    table[:] = 100  # changes no program
    np.testing.assert_array_equal(program(np.ones(3, "float32"))[0], [1, 3, 5])
    held = builder.apply(primitives.mul_p, twice, jnp.ones(3))
    assert builder.build([held]).jaxpr.num_consts == 2
    assert program.jaxpr.num_consts == 1 and len(program.eqns) == 2


def test_programs_inside_programs_and_several_results():
    inner = JaxprBuilder("double")
    x = inner.input(F32)
    double = inner.build([inner.apply(primitives.add_p, x, x), x]).jaxpr
    outer = JaxprBuilder()
    y = outer.input(F32)
    twice, same = outer.apply(primitives.jit_p, y, jaxpr=double, name="double", donated=())
    program = outer.build([twice, same])
    found = program(np.ones(3, "float32"))
    np.testing.assert_array_equal(found, [[2, 2, 2], [1, 1, 1]])
    assert core.jaxprs_in(program.eqns[0].params) == [double]


def test_mistakes_in_programs_by_hand():
    builder, other = JaxprBuilder(), JaxprBuilder()
    x, foreign = builder.input(F32), other.input(F32)
    with pytest.raises(JaxprError, match="add: a variable of type .* does not bind"):
        builder.apply(primitives.add_p, x, foreign)
    with pytest.raises(JaxprError, match="the results: a variable"):
        builder.build([foreign])
    with pytest.raises(WeftTypeError, match="the type of the argument"):
        builder.input(np.ones(3))
    with pytest.raises(WeftTypeError, match="one shape"):
        builder.apply(primitives.add_p, x, builder.input(ArrayType((2,), np.float32)))
    with pytest.raises(WeftTypeError, match="one dtype"):
        builder.apply(primitives.add_p, x, 1)
    with pytest.raises(WeftTypeError, match="not an array or a number"):
        builder.apply(primitives.add_p, x, "1")
    with pytest.raises(MissingRuleError, match="no type rule"):
        builder.apply(Primitive("bare_by_hand"), x)
    with pytest.raises(WeftTypeError, match="takes a primitive first") as info:
        builder.apply("add", x, x)
    assert "primitives[name]" in info.value.fix.text
    # What failed left nothing behind.
    assert builder.build([x]).eqns == []


@pytest.mark.parametrize(
    "function, primitive",
    [
        (weft.jit(lambda x: lax.sin(x)), "jit"),
        (lambda x: lax.cond(x > 0, lax.sin, lax.cos, x), "cond"),
        (lambda x: lax.while_loop(lambda y: y < 1, lambda y: lax.exp(y), x), "while"),
        (lambda x: lax.scan(lambda c, _: (lax.sin(c), None), x, None, length=3)[0], "scan"),
        (weft.checkpoint(lambda x: lax.sin(x)), "checkpoint"),
    ],
)
def test_programs_in_parameters_are_replaced_where_they_stand(function, primitive):
    [eqn] = [e for e in weft.make_jaxpr(function)(0.5).eqns if e.primitive.name == primitive]
    found = []

    def renamed(inner):
        found.append(inner)
        return core.Jaxpr(inner.inputs, inner.eqns, inner.outputs, inner.num_consts, "renamed")

    params = core.map_jaxprs(renamed, eqn.params)
    assert found == core.jaxprs_in(eqn.params) and found
    assert [inner.name for inner in core.jaxprs_in(params)] == ["renamed"] * len(found)
    assert list(params) == list(eqn.params)
    for name, value in eqn.params.items():
        if not core.jaxprs_in({name: value}):
            assert params[name] is value
    values = [np.full(atom.type.shape, 0.5).astype(atom.type.dtype) for atom in eqn.inputs]
    outs, wanted = (eqn.primitive.bind(*values, **p) for p in (params, eqn.params))
    np.testing.assert_array_equal(outs, wanted)


def test_programs_are_replaced_in_lists_and_with_their_values():
    closed = weft.make_jaxpr(lambda x: x + np.ones(3, np.float32))(1.0)
    other = weft.make_jaxpr(lambda x: x)(1.0).jaxpr
    params = core.map_jaxprs(lambda _: other, {"a": [closed.jaxpr, 1], "b": ((closed,), P(None))})
    assert params["a"] == [other, 1] and params["b"][1] == P(None)
    assert params["b"][0][0].jaxpr is other and params["b"][0][0].consts == closed.consts


def test_a_program_with_its_values_is_not_the_program():
    closed = weft.make_jaxpr(lambda x: x + 1.0)(1.0)
    with pytest.raises(AttributeError, match=r"no attribute 'memoize'; .* has one: closed.jaxpr"):
        ad.jvp_jaxpr(closed, (True,))
    with pytest.raises(AttributeError, match="'no_such_thing'$"):
        closed.no_such_thing  # noqa: B018
    assert not hasattr(copy.copy(closed), "inputs")


# ---- lowering ------------------------------------------------------------------------------------


def test_the_lowering_of_the_note_runs_as_it_is_written():
    mul_add_p = Primitive("mul_add_of_the_note")
    mul_add_p.def_impl(lambda x, y, z: x * y + z)

    @mul_add_p.def_abstract_eval
    def mul_add_abstract(x_sa, y_sa, z_sa):
        return core.ShapedArray(x_sa.shape, x_sa.dtype)

    def mul_add_mlir(ctx, xc, yc, zc):
        add = mlir.hlo.AddOp
        mul = mlir.hlo.MulOp
        return add(mul(xc, yc), zc).results

    mlir.register_lowering(mul_add_p, mul_add_mlir)
    assert mul_add_p.bind(2, 3, 4) == 10
    out = weft.jit(mul_add_p.bind)(2, 3, 4)
    assert out == 10 and out.dtype == np.int32


def test_what_a_lowering_rule_is_told():
    told = {}
    helper = weft.make_jaxpr(lambda x: (lax.sin(x), x))(np.ones(3)).jaxpr
    p = Primitive("asks_its_context", multiple_results=True)
    p.def_abstract_eval(lambda x, *, scale: [x, x])

    def lower(context, x, *, scale):
        told.update(
            platform=context.platform, types=(*context.in_types, *context.out_types), scale=scale,
            primitive=context.primitive, module=context.module,
        )  # fmt: skip
        assert context.result_ir_types() == mlir.ir_types(context.out_types)
        assert x.type == mlir.array_type_to_ir(context.in_types[0])
        factor = mlir.constant(scale, (3,), np.dtype(np.float32))
        sine, _ = context.lower_jaxpr(helper, [x], "inline")
        called, same = context.call_jaxpr(helper, "helper", [builders.multiply(x, factor)])
        return [builders.add(sine, called), same]

    mlir.register_lowering(p, lower)
    x = np.array([0.1, 0.2, 0.3], "float32")
    found = weft.jit(lambda x: p.bind(x, scale=2.0))(x)
    wide = x.astype("float64")
    np.testing.assert_allclose(found[0], np.sin(wide) + np.sin(wide * 2), rtol=1e-6)
    np.testing.assert_allclose(found[1], wide * 2, rtol=1e-6)
    assert told["platform"] == weft.default_backend() and told["scale"] == 2.0
    assert told["types"] == (F32, F32, F32) and told["primitive"] is p
    assert isinstance(told["module"], mlir.ModuleContext)


def test_builders_are_those_that_weft_uses():
    assert builders.__all__ is stablehlo.__all__ and len(builders.__all__) > 100
    for name in builders.__all__:
        assert getattr(builders, name) is getattr(stablehlo, name)


def test_a_trace_knows_its_own_tracers():
    seen = []

    def f(x):
        seen.append((core.trace_of(x) is core.current_trace(), core.trace_of(1.0)))
        return x

    weft.jit(f)(1.0)
    assert seen == [(True, None)]
    assert core.trace_of(jnp.ones(2)) is None
