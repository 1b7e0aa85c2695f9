"""weft.ffi: what is registered where: platforms, stages, states, the older interface, plugins."""

from __future__ import annotations

import ctypes
import gc
import sys
import time

import numpy as np
import pytest

import ffi_cases
import weft
import weft.numpy as wnp
from ffi_cases import Struct, call, kernels, noted
from source_files import ROOT
from ways import WAYS
from weft import errors, export, ffi
from weft.runtime.backends import ffi_registry

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]
ffi_cases.needs(".c")
LIBRARY = kernels()
PLAN = {"type_id": LIBRARY.PlanTypeId, "type_info": LIBRARY.PlanTypeInfo}


# ---- states --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan():
    """The handler with a state; its type is registered first."""
    stages = {"instantiate": LIBRARY.PlanInstantiate, "execute": LIBRARY.PlanExecute}
    ffi.register_ffi_type("Plan", PLAN)
    ffi.register_ffi_target("planned", stages)
    assert ctypes.c_int64.in_dll(LIBRARY, "plan_type_id").value > 0


def planned(x, factor):
    out = (Struct(x.shape, x.dtype), Struct((), np.int32))
    return call("planned", out, x, attributes={"factor": np.float32(factor)})


def test_a_state_is_made_once_for_each_program_and_dropped_with_it(plan):
    made, alive = LIBRARY.plans(1), LIBRARY.plans(0)
    programs = [weft.jit(lambda x, by=by: planned(x, by)) for by in (3.0, 5.0)]
    for run in range(1, 4):
        for f, by in zip(programs, (3.0, 5.0), strict=True):
            y, used = f(wnp.arange(4.0))
            np.testing.assert_array_equal(y, by * np.arange(4))
            assert int(used) == run
    assert (LIBRARY.plans(1) - made, LIBRARY.plans(0) - alive) == (2, 2)
    for f in programs:
        f.clear_cache()
    # An execution may be noted as running until a later one asks.
    for _ in range(100):
        gc.collect()
        (wnp.arange(4.0) + 1).block_until_ready()
        if LIBRARY.plans(0) <= alive:
            break
        time.sleep(0.05)
    assert LIBRARY.plans(1) - made == 2 and LIBRARY.plans(0) <= alive


def test_each_call_of_a_program_has_a_state_of_its_own(plan):
    made = LIBRARY.plans(1)
    f = weft.jit(lambda x: planned(x, 2.0)[0] + planned(x, 7.0)[0])
    np.testing.assert_array_equal(f(wnp.ones(2)), [9, 9])
    assert LIBRARY.plans(1) - made == 2
    looped = weft.jit(lambda x: weft.lax.scan(lambda c, _: planned(c, 2.0), x, None, length=4))
    y, used = looped(wnp.ones(2))
    np.testing.assert_array_equal(y, [16, 16])
    assert used.tolist() == [1, 2, 3, 4]
    assert LIBRARY.plans(1) - made == 3


@pytest.mark.parametrize("way", WAYS)
def test_an_error_while_a_state_is_made(plan, way):
    with pytest.raises(errors.WeftError, match="Plan: no factor") as caught:
        way(lambda x: planned(x, -1.0)[0])(wnp.ones(2))
    assert "test_ffi_registry.py" in caught.value.location or "ffi_cases" in caught.value.location


def test_stages_that_the_cpu_does_not_run_can_be_registered():
    """XLA's CPU client has nothing to request before a run: it makes states and runs."""
    ffi.register_ffi_target("noting stages", {
        "prepare": LIBRARY.NotePrepare, "initialize": LIBRARY.NoteInitialize,
        "execute": LIBRARY.Note})  # fmt: skip
    f = weft.jit(lambda x: call("noting stages", Struct((), np.int32), x))
    with noted() as found:
        for value in (3.0, 4.0):
            weft.block_until_ready(f(wnp.full(1, value)))
    assert found == [3, 4]


def test_a_handler_in_cpp_with_a_state():
    ffi_cases.needs(".cc")
    library = ffi_cases.example("build").load(ROOT / "tests" / "support" / "ffi_states.cc")
    stages = {
        "instantiate": library.PowersInstantiate,
        "prepare": library.PowersPrepare,
        "initialize": library.PowersInitialize,
        "execute": library.PowersExecute,
    }
    with pytest.raises(errors.WeftError, match="nobody registered the type of its state") as caught:
        ffi.register_ffi_target("powers", stages)
    assert "register_ffi_type" in caught.value.fix.text
    ffi.register_ffi_type("Powers", {"type_id": library.PowersTypeId,
                                     "type_info": library.PowersTypeInfo})  # fmt: skip
    ffi.register_ffi_target("powers", stages)

    def powers(x, base):
        return call("powers", Struct(x.shape, np.float32), x,
                    attributes={"base": np.float32(base)})  # fmt: skip

    f = weft.jit(lambda x: powers(x, 3.0))
    for _ in range(3):
        np.testing.assert_array_equal(f(wnp.arange(5, dtype=wnp.int32)), 3.0 ** np.arange(5))
    assert library.counted(0) == 1 and library.counted(1) == 1
    with pytest.raises(errors.WeftError, match="exponent"):
        np.asarray(f(wnp.full(2, 99, wnp.int32)))
    with pytest.raises(errors.WeftError, match="powers of zero"):
        powers(wnp.arange(2), 0.0)
    f.clear_cache()
    gc.collect()
    assert library.counted(1) == 0


def test_forms_of_pointers_to_a_type(plan):
    address = ctypes.cast(LIBRARY.PlanTypeId, ctypes.CFUNCTYPE(ctypes.c_void_p))()
    info = ctypes.cast(LIBRARY.PlanTypeInfo, ctypes.CFUNCTYPE(ctypes.c_void_p))()
    number = ctypes.c_int64.in_dll(LIBRARY, "plan_type_id")
    for i, form in enumerate(
        [ffi.pycapsule(address), address, ctypes.c_void_p(address), number, LIBRARY.PlanTypeId]
    ):
        # For a platform that is not here, so that one type can be given five times.
        ffi.register_ffi_type(f"Plan{i}", {"type_id": form, "type_info": info}, "tpu")
    ffi.register_ffi_type_id("PlanId", number, "tpu")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ffi.register_ffi_type("", PLAN), errors.WeftTypeError),
        (lambda: ffi.register_ffi_type("New", LIBRARY.PlanTypeId), errors.WeftTypeError),
        (lambda: ffi.register_ffi_type("New", {"type_info": LIBRARY.PlanTypeInfo}),
         errors.WeftValueError),
        (lambda: ffi.register_ffi_type("New", PLAN | {"size": 4}), errors.WeftValueError),
        (lambda: ffi.register_ffi_type("New", {"type_id": "Plan"}), errors.WeftTypeError),
        (lambda: ffi.register_ffi_type("New", {"type_id": 0}), errors.WeftTypeError),
        (lambda: ffi.register_ffi_type("New", PLAN, "abacus"), errors.WeftValueError),
        (lambda: ffi.register_ffi_type("Plan", PLAN), errors.WeftValueError),
        (lambda: ffi.register_ffi_type_id("New", None), errors.WeftTypeError),
    ],
)  # fmt: skip
def test_types_that_cannot_be_registered(plan, wrong, error):
    with pytest.raises(error) as caught:
        wrong()
    assert caught.value.fix is not None


# ---- platforms -----------------------------------------------------------------------------------


def same_on(name):
    return lambda x: ffi.ffi_call(name, Struct(x.shape, x.dtype))(x)


def test_lowering_for_a_platform_without_a_handler_says_how_to_register_one():
    x = wnp.ones(3)
    ffi.register_ffi_target("on the cpu", LIBRARY.Same)
    traced = weft.jit(same_on("on the cpu")).trace(x)
    assert '@"on the cpu"' in traced.lower().as_text()
    for platform in ("cuda", "rocm", "tpu"):
        with pytest.raises(errors.WeftValueError, match=f"'on the cpu' on {platform}") as caught:
            traced.lower(lowering_platforms=(platform,))
        assert f"platform='{platform}'" in caught.value.fix.text
        assert "is registered on cpu" in str(caught.value)
        assert "test_ffi_registry.py" in caught.value.location
        ffi.register_ffi_target(caught.value.fix.data["target"], LIBRARY.Same,
                                platform=caught.value.fix.data["platform"])  # fmt: skip
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert '@"on the cpu"' in text


@pytest.mark.parametrize("name", ["cuda", "CUDA", "gpu"])
def test_names_of_a_platform(name):
    ffi.register_ffi_target(f"by {name}", LIBRARY.Same, name)
    with pytest.raises(errors.WeftValueError, match=f"this handler is registered as 'by {name}'"):
        ffi.register_ffi_target(f"by {name}", LIBRARY.Same, "cuda")
    traced = weft.jit(same_on(f"by {name}")).trace(wnp.ones(3))
    assert f"by {name}" in traced.lower(lowering_platforms="gpu").as_text()
    with pytest.raises(errors.WeftValueError, match="on cpu") as caught:
        traced.lower()
    assert "is registered on cuda" in str(caught.value)
    ffi.register_ffi_target(f"by {name}", LIBRARY.Same, "Host")
    assert f"by {name}" in traced.lower(lowering_platforms="cpu").as_text()


def test_an_exported_program_needs_its_handler_on_each_platform():
    x = np.ones(3, np.float32)
    ffi.register_ffi_target("two platforms", LIBRARY.Same)
    f = weft.jit(same_on("two platforms"))
    checks = [export.DisabledSafetyCheck.custom_call("two platforms")]
    make = export.export(f, platforms=("cpu", "cuda"), disabled_checks=checks)
    with pytest.raises(errors.WeftValueError, match="on cuda"):
        make(x)
    ffi.register_ffi_target("two platforms", LIBRARY.Root, platform="cuda")
    made = make(x)
    assert made.platforms == ("cpu", "cuda")
    np.testing.assert_array_equal(made.call(x), x)


def test_batches_are_for_all_platforms():
    ffi.register_ffi_target("batches elsewhere", LIBRARY.Same, "cuda")
    ffi.register_ffi_target_as_batch_partitionable("batches elsewhere")
    ffi.register_ffi_target_as_batch_partitionable("batches elsewhere")


# ---- the interface before the typed one ----------------------------------------------------------


@pytest.fixture(scope="module")
def old():
    for name in ("OldTwice", "OldTwiceWithStatus", "OldScaled"):
        ffi.register_ffi_target(name, getattr(LIBRARY, name), api_version=0)


@pytest.mark.parametrize("way", WAYS)
def test_handlers_of_the_older_interface(old, way):
    x = wnp.arange(3.0)
    out = Struct((3,), np.float32)
    cases = {
        ("OldTwice", 1, None): 2,
        ("OldTwiceWithStatus", 2, None): 2,
        ("OldScaled", 3, "2.5"): 2.5,
    }
    for (name, version, text), factor in cases.items():
        f = ffi.ffi_call(name, out, custom_call_api_version=version, legacy_backend_config=text,
                         vmap_method="sequential")  # fmt: skip
        np.testing.assert_array_equal(way(f)(x), factor * np.arange(3))
        both = np.stack([np.arange(3), np.arange(3) + 1]).astype(np.float32)
        np.testing.assert_array_equal(way(weft.vmap(f))(both), factor * both)


def test_versions_that_do_not_fit(old):
    x = wnp.arange(3.0)
    out = Struct((3,), np.float32)
    with pytest.raises(errors.WeftValueError, match="interface before the typed one") as caught:
        ffi.ffi_call("OldTwice", out)(x)
    with pytest.raises(errors.WeftValueError, match="handler of the typed interface"):
        ffi.ffi_call("Same", out, custom_call_api_version=2)(x)
    fixed = caught.value.fix.data | {"custom_call_api_version": 1}
    np.testing.assert_array_equal(ffi.ffi_call("OldTwice", out, **fixed)(x), [0, 2, 4])
    with pytest.raises(errors.WeftValueError, match="no attributes"):
        ffi.ffi_call("OldTwice", out, custom_call_api_version=1)(x, scale=1)
    with pytest.raises(errors.WeftValueError, match="legacy_backend_config"):
        ffi.ffi_call("Same", out, legacy_backend_config="2")
    with pytest.raises(errors.WeftTypeError, match="legacy_backend_config is a text"):
        ffi.ffi_call("OldScaled", out, custom_call_api_version=3, legacy_backend_config=2)
    for version in (0, 5, True, "4"):
        with pytest.raises(errors.WeftValueError, match="no such version"):
            ffi.ffi_call("Same", out, custom_call_api_version=version)
    for version in (2, True, None):
        with pytest.raises(errors.WeftValueError, match="no such version"):
            ffi.register_ffi_target("other", LIBRARY.Same, api_version=version)
    with pytest.raises(errors.WeftValueError, match="stages"):
        ffi.register_ffi_target("other", {"prepare": LIBRARY.Same, "execute": LIBRARY.Same},
                                api_version=0)  # fmt: skip


# ---- plugins -------------------------------------------------------------------------------------


@pytest.fixture
def plugin(request):
    """A library that takes handlers and types as the plugin of a platform does, and its path."""
    build = ffi_cases.example("build")
    path = str(build.build(ROOT / "tests" / "support" / "ffi_plugin.c"))
    library = ctypes.CDLL(path)
    library.last_type_id.restype = ctypes.c_int64
    library.stage_given.restype = library.deleter_given.restype = ctypes.c_void_p
    return library, path, f"platform of {request.node.name}"


def code(function):
    return ctypes.cast(function, ctypes.c_void_p).value


def test_a_plugin_gets_what_was_registered_before_and_after_it_is_loaded(plugin):
    library, path, platform = plugin
    before = library.handlers_given()
    stages = {"instantiate": code(LIBRARY.PlanInstantiate), "execute": code(LIBRARY.PlanExecute)}
    ffi_registry.register("planned", platform, stages, 1)
    number, info = ctypes.c_int64(0), code(LIBRARY.PlanTypeInfo)
    info = ctypes.cast(LIBRARY.PlanTypeInfo, ctypes.CFUNCTYPE(ctypes.c_void_p))()
    ffi_registry.register_type("Plan", platform, ctypes.addressof(number), info)
    assert library.handlers_given() == before and number.value == 0
    ffi_registry.attach(platform, path)
    assert library.handlers_given() == before + 1 and number.value == 41
    given = [library.stage_given(i) for i in range(4)]
    assert given == [stages["instantiate"], None, None, stages["execute"]]
    assert library.last_version() == 1
    # The third word of XLA_FFI_TypeInfo is what destroys a value.
    assert library.deleter_given() == ctypes.c_void_p.from_address(info + 16).value
    ffi_registry.attach(platform, path)  # another client of the same plugin
    assert library.handlers_given() == before + 1
    ffi_registry.register("old", platform, {"execute": code(LIBRARY.OldTwice)}, 0)
    assert library.last_version() == 0
    ffi_registry.register_type("Again", platform, ctypes.addressof(number), None)
    assert library.last_type_id() == 41 and library.deleter_given() is None


def test_what_a_plugin_refuses(plugin):
    library, path, platform = plugin
    ffi_registry.attach(platform, path)
    number = ctypes.c_int64(0)
    with pytest.raises(errors.WeftError, match="handler of 'bad': this plugin takes nothing bad"):
        ffi_registry.register("bad", platform, {"execute": code(LIBRARY.Same)}, 1)
    assert not ffi_registry.is_registered("bad", platform)
    with pytest.raises(errors.WeftError, match="type 'bad': this plugin takes nothing bad"):
        ffi_registry.register_type("bad", platform, ctypes.addressof(number), None)
    assert number.value == 0 and library.errors_left() == 0


def test_a_plugin_that_is_too_old(plugin, monkeypatch):
    library, path, platform = plugin
    ffi_registry.register("early", platform, {"execute": code(LIBRARY.Same)}, 1)
    library.without_extensions()
    try:
        with pytest.raises(errors.WeftError, match="has no way to register"):
            ffi_registry.attach(platform, path)
        library.with_old_extensions()
        with pytest.raises(errors.WeftError, match="older than this way"):
            ffi_registry.attach(platform, path)
    finally:
        library.with_extensions()
    ffi_registry.attach(platform, path)
    assert library.stage_given(3) == code(LIBRARY.Same)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what memory is code")
@pytest.mark.parametrize("wrap", [int, ctypes.c_void_p, ffi.pycapsule])
@pytest.mark.parametrize("where", ["nowhere", "data", "below zero"])
def test_an_address_that_is_no_code_is_refused(wrap, where):
    data = ctypes.create_string_buffer(64)
    address = {"nowhere": 5, "data": ctypes.addressof(data), "below zero": -1}[where]
    with pytest.raises(errors.WeftTypeError, match="is no compiled function"):
        ffi.register_ffi_target("no code", wrap(address))
    if where == "nowhere":
        with pytest.raises(errors.WeftTypeError, match="is no pointer"):
            ffi.register_ffi_type("no pointer", {"type_id": wrap(address)})
