"""What JAX takes by position or by name, weft takes by the same position and name.

JAX's signatures are recorded in tools/data by tools/record_signatures.py; names that weft does not
have are the subject of docs/parity.md.
"""

from __future__ import annotations

import fnmatch
import inspect
import json

import pytest

from tools import parity, record_signatures

# What weft does not take: patterns of paths, parameters (of all of them: *), and why.
REASONS = (
    (
        "jax.P jax.P.update jax.sharding.PartitionSpec jax.sharding.PartitionSpec.update",
        "reduced unreduced",
        "sums still to be taken are said by sum=",
    ),
    ("jax.vjp linear_transpose", "reduce_axes", "JAX raises for anything but its default"),
    ("jax.checkpoint remat", "concrete", "JAX raises for anything but its default"),
    ("jax.checkpoint", "static_argnames", "static_argnums does it, or a closure"),
    ("jax.vmap", "sum_match", "vmap does not sum results"),
    ("jax.ShapeDtypeStruct", "is_ref manual_axis_type", "there are no references to arrays"),
    ("jax.lax.random_gamma_grad", "*", "JAX does not say that it takes two operands"),
    ("jax.debug.callback", "callback", "there is nothing to do without it"),
    ("jax.debug.log print", "fmt", "there is nothing to do without it"),
    ("jax.debug.visualize_sharding", "color_map scale", "the picture is text"),
    ("jax.export.Exported", "*", "made by export and deserialize only"),
    ("jax.Ref", "*", "made by new_ref only"),
    ("jax.Shard", "*", "made by arrays only, as addressable_shards and global_shards"),
    (
        "jax.array_garbage_collection_guard default_prng_impl legacy_prng_key "
        "jax.numpy_dtype_promotion numpy_rank_promotion transfer_guard_device_to_device "
        "jax.transfer_guard_device_to_host transfer_guard_host_to_device",
        "new_val",
        "JAX raises without it: the default is a mark for that",
    ),
    ("*.mlir_module", "serialized", "it returns text"),
    (
        "jax.export.register_pytree_node_serialization",
        "from_children",
        "containers are made as tree.unflatten makes them",
    ),
    (
        "jax.ffi.build_ffi_lowering_function ffi_lowering",
        "lowering_args skip_ffi_layout_processing",
        "arguments of JAX's lowering rules",
    ),
    ("jax.ffi.register_ffi_target", "kwargs", "states are registered by name, in fn"),
    ("*.lower(1.0).compile", "device_assignment", "the arguments' shardings say the devices"),
    ("jax.profiler.start_server", "requires_backend", "it needs no backend"),
    ("jax.sharding.AbstractMesh", "abstract_device", "an abstract mesh has no devices"),
    ("jax.*NamedSharding.update", "kwargs", "mesh and spec are all that there is"),
    ("jax.numpy.array", "args", "what they stand for is taken by name"),
    (
        "jax.numpy.fromfile fromiter load set_printoptions",
        "args kwargs",
        "what they stand for is taken by name",
    ),
    ("jax.numpy.clip", "arr", "an array is needed"),
    ("jax.numpy.isneginf isposinf modf", "out", "arrays do not change in place"),
    ("jax.numpy.ufunc", "*", "made by frompyfunc, whose arguments are JAX's"),
)

BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
BY_NAME = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parse(text):
    """The parameters of a recorded signature, by name."""
    return inspect.signature(eval(f"lambda {text}: None")).parameters


def refused(theirs, ours):
    """(parameter, why) for each argument that one signature takes and the other does not."""
    theirs, ours = parse(theirs), parse(ours)
    positions = [p.name for p in ours.values() if p.kind in BY_POSITION]
    kinds = {p.kind for p in ours.values()}
    any_position = inspect.Parameter.VAR_POSITIONAL in kinds
    any_name = inspect.Parameter.VAR_KEYWORD in kinds
    for index, (name, p) in enumerate(theirs.items()):
        own = ours.get(name)
        if p.kind in BY_POSITION and index >= len(positions) and not any_position:
            yield name, f"not taken at position {index}"
        elif p.kind in BY_NAME and not any_name and (own is None or own.kind not in BY_NAME):
            yield name, "not taken by name"
        elif p.kind in BY_POSITION and name in positions and positions.index(name) != index:
            yield name, f"taken at another position than {index}"
        elif p.kind is p.VAR_POSITIONAL and not any_position:
            yield name, "not taken in any number"
        elif p.kind is p.VAR_KEYWORD and not any_name:
            yield name, "not taken by any name"
    in_order = list(theirs.values())
    for own in ours.values():
        if own.default is own.empty and own.kind in (*BY_POSITION, *BY_NAME):
            place = positions.index(own.name) if own.name in positions else len(theirs)
            same = theirs.get(own.name) or (in_order[place] if place < len(in_order) else None)
            if same is None or same.default is not same.empty:
                yield own.name, "required"


def reasons():
    """(pattern of a path, pattern of a parameter), one for each that the table stands for."""
    for paths, parameters, _ in REASONS:
        start = ""
        for path in paths.split():
            if path.startswith(("jax.", "*")):
                start = path.rpartition(".")[0] + "."
            full = path if path.startswith(("jax.", "*")) else start + path
            yield from ((full, name) for name in parameters.split())


def matches(path, name, reason):
    return all(map(fnmatch.fnmatchcase, (path, name), reason))


RECORDED = json.loads((parity.DATA / "signatures_jax.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def found():
    """(path, parameter, why) for each argument that weft does not take."""
    ours = record_signatures.signatures("weft", parity.recorded("jax")["modules"])
    both = [path for path in RECORDED["signatures"] if path in ours]
    assert len(both) > 1200
    return [
        (path, *one) for path in both for one in refused(RECORDED["signatures"][path], ours[path])
    ]


def test_every_argument_of_jax_is_taken(found):
    problems = [
        f"{path}: {name} {why}"
        for path, name, why in found
        if not any(matches(path, name, reason) for reason in reasons())
    ]
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def test_every_reason_is_needed(found):
    for reason in reasons():
        assert any(matches(path, name, reason) for path, name, _ in found), reason


# ---- the check itself is able to fail --------------------------------------------------


@pytest.mark.fast
@pytest.mark.parametrize(
    ("theirs", "ours", "name", "why"),
    [
        ("x, axis=0", "x", "axis", "not taken at position 1"),
        ("x, axis=0", "x, *, axis=0", "axis", "not taken at position 1"),
        ("x, *, axis=0", "x, dim=0", "axis", "not taken by name"),
        ("x", "x, /", "x", "not taken by name"),
        ("a, b", "b, a", "a", "taken at another position than 0"),
        ("*xs", "x=0, y=0", "xs", "not taken in any number"),
        ("**options", "x=0", "options", "not taken by any name"),
        ("x=0", "x", "x", "required"),
        ("x", "x, y", "y", "required"),
        ("x, /, y=0", "a, y", "y", "required"),
    ],
)
def test_what_is_not_taken_is_found(theirs, ours, name, why):
    assert (name, why) in [*refused(theirs, ours)]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("x, /, axis=0", "a, axis=0, *, more=0"),
        ("x, *, key=0", "*xs, **options"),
        ("x, y=0", "x=0, y=0, z=0"),
    ],
)
def test_what_is_taken_is_not_reported(theirs, ours):
    assert not [*refused(theirs, ours)]
