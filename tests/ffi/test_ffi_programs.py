"""Programs with foreign calls that are compiled ahead of time, kept on disk, or exported."""

from __future__ import annotations

import os

import numpy as np
import pytest

import ffi_cases
import weft
import weft.numpy as wnp
from ffi_cases import Struct, call, kernels, note, noted, root, scaled_sum
from processes import python_output
from source_files import ROOT
from weft import errors, export, lax

pytestmark = pytest.mark.fast
ffi_cases.needs(".c")
kernels()
X = np.array([4.0, 9.0], np.float32)
ALLOWED = [export.DisabledSafetyCheck.custom_call("Root")]


# ---- ahead of time -------------------------------------------------------------------------------


def test_a_program_compiled_ahead_of_time():
    compiled = weft.jit(lambda x: root(root(x))).lower(Struct((2,), np.float32)).compile()
    np.testing.assert_allclose(compiled(X), np.sqrt(np.sqrt(X)), rtol=1e-6)
    assert compiled.as_text().count('custom_call_target="Root"') == 2
    for _ in range(2):
        with pytest.raises(errors.WeftError, match="Root: a negative number has no root"):
            np.asarray(compiled(-X))
    np.testing.assert_allclose(compiled(X), np.sqrt(np.sqrt(X)), rtol=1e-6)


def test_effects_of_a_program_compiled_ahead_of_time():
    compiled = weft.jit(lambda x: note(x)).lower(Struct((), np.float32)).compile()
    with noted() as found:
        for i in range(5):
            compiled(np.float32(i))
    assert found == [0, 1, 2, 3, 4]


def test_a_donated_operand_of_a_program_compiled_ahead_of_time():
    def twice(x):
        out = (Struct(x.shape, x.dtype), Struct((), np.int32))
        return call("Twice", out, x, input_output_aliases={0: 0})

    compiled = weft.jit(twice, donate_argnums=0).lower(Struct((4000,), np.float32)).compile()
    x = wnp.ones(4000)
    place = x.unsafe_buffer_pointer()
    y, shared = compiled(x)
    assert x.is_deleted() and int(shared) == 1 and y.unsafe_buffer_pointer() == place


# ---- other processes -----------------------------------------------------------------------------

BEGINNING = """
import sys
sys.path[:0] = {paths!r}
import numpy as np, weft
import ffi_cases
from weft import errors, export, ffi
library = ffi_cases.example("build").load({source!r})
x = np.array([4, 9], np.float32)
"""


def in_another_process(code, *arguments, cache=None):
    beginning = BEGINNING.format(
        paths=[str(ROOT / "tests" / "support"), str(ROOT)],
        source=str(ROOT / "tests" / "support" / "ffi_kernels.c"),
    )
    environment = dict(os.environ) | ({} if cache is None else {"WEFT_CACHE_DIR": str(cache)})
    return python_output("-c", beginning + code, *arguments, env=environment).splitlines()


STATEFUL = """
ffi.register_ffi_type("Plan", {"type_id": library.PlanTypeId, "type_info": library.PlanTypeInfo})
ffi.register_ffi_target(
    "planned", {"instantiate": library.PlanInstantiate, "execute": library.PlanExecute})
out = (weft.ShapeDtypeStruct((2,), np.float32), weft.ShapeDtypeStruct((), np.int32))
f = weft.jit(lambda x: ffi.ffi_call("planned", out)(x, factor=np.float32(3)))
for _ in range(2):
    y, used = f(x)
    print(np.asarray(y).tolist(), int(used))
print(library.plans(1))
"""


def test_a_program_from_the_cache_makes_its_state_again(tmp_path):
    for _ in range(2):
        lines = in_another_process(STATEFUL, cache=tmp_path)
        assert lines == ["[12.0, 27.0] 1", "[12.0, 27.0] 2", "1"]
    assert list(tmp_path.rglob("*.program"))


NAMELESS = """
f = weft.jit(lambda x: ffi.ffi_call("kept", weft.ShapeDtypeStruct(x.shape, x.dtype))(x + 1))
if sys.argv[1] == "registered":
    ffi.register_ffi_target("kept", library.Same)
try:
    print(np.asarray(f(x)).tolist())
except errors.WeftValueError as problem:
    print(problem.fix.text)
    ffi.register_ffi_target(problem.fix.data["target"], library.Same)
    print(np.asarray(f(x)).tolist())
"""


def test_a_program_from_the_cache_whose_handler_is_not_registered(tmp_path):
    assert in_another_process(NAMELESS, "registered", cache=tmp_path) == ["[5.0, 10.0]"]
    kept = {path.name for path in tmp_path.rglob("*.program")}
    lines = in_another_process(NAMELESS, "not", cache=tmp_path)
    assert lines == ["call weft.ffi.register_ffi_target('kept', function) before", "[5.0, 10.0]"]
    assert {path.name for path in tmp_path.rglob("*.program")} == kept


READING = """
data = open(sys.argv[1], "rb").read()
try:
    export.deserialize(data)
except errors.WeftValueError as problem:
    target = problem.fix.data["target"]
    print(target)
checks = [export.DisabledSafetyCheck.custom_call(target)]
again = export.deserialize(data, disabled_checks=checks)
print(again.disabled_safety_checks)
try:
    again.call(x)
except errors.WeftValueError as missing:
    print(missing.fix.text)
    ffi.register_ffi_target(missing.fix.data["target"], library.Root)
print(np.asarray(again.call(x)).tolist())
"""


def test_an_exported_program_says_in_another_process_what_it_needs(tmp_path):
    file = tmp_path / "root.exported"
    made = export.export(weft.jit(root), disabled_checks=ALLOWED)(X)
    assert made.disabled_safety_checks == tuple(ALLOWED)
    file.write_bytes(made.serialize())
    assert in_another_process(READING, file) == [
        "Root",
        "(DisabledSafetyCheck.custom_call('Root'),)",
        "call weft.ffi.register_ffi_target('Root', function) before",
        "[2.0, 3.0]",
    ]


# ---- exported programs among other operations ----------------------------------------------------


@weft.custom_jvp
def square_root(x):
    return root(x, vmap_method="sequential")


square_root.defjvp(lambda x, t: (square_root(x[0]), t[0] / (2 * square_root(x[0]))))


def test_derivatives_of_an_exported_program():
    made = export.export(weft.jit(square_root), disabled_checks=ALLOWED)(X)
    again = export.deserialize(made.serialize(vjp_order=1), disabled_checks=ALLOWED)
    for way in (lambda f: f, weft.jit):
        slope = way(weft.grad(lambda x: (again.call(x) * 3).sum()))(X)
        np.testing.assert_allclose(slope, 1.5 / np.sqrt(X), rtol=1e-6)
        y, _ = way(lambda x: lax.scan(lambda c, _: (again.call(c), None), x, None, length=2))(X)
        np.testing.assert_allclose(y, np.sqrt(np.sqrt(X)), rtol=1e-6)


def test_attributes_and_layouts_are_exported():
    def described(x):
        out = (Struct((300,), np.uint8), Struct((6,), np.float32))
        return (
            call("Describe", out[0], x, attributes={"a": "text", "b": np.float32(2)}),
            call("Memory", out[1], x, input_layouts=[(1, 0)]),
        )

    checks = [export.DisabledSafetyCheck.custom_call(name) for name in ("Describe", "Memory")]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = export.export(weft.jit(described), disabled_checks=checks)(x)
    again = export.deserialize(made.serialize(), disabled_checks=checks)
    for found, wanted in zip(again.call(x), weft.jit(described)(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(again.call(x)[1], x.T.ravel())


def test_an_exported_program_over_eight_devices():
    mesh = weft.make_mesh((8,), ("i",))
    spread = weft.NamedSharding(mesh, weft.P("i"))
    x = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    checks = [export.DisabledSafetyCheck.custom_call("ScaledSum")]
    f = weft.jit(
        weft.shard_map(
            scaled_sum, mesh=mesh, in_specs=(weft.P("i"), weft.P("i")), out_specs=weft.P("i")
        ),
        in_shardings=(spread, spread),
    )
    made = export.export(f, disabled_checks=checks)(x, x)
    again = export.deserialize(made.serialize(), disabled_checks=checks)
    placed = weft.device_put(x, spread)
    np.testing.assert_allclose(again.call(placed, placed), (x**2).sum(-1), rtol=1e-5)
