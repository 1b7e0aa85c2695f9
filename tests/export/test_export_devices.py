"""Exported programs on several devices, in any order of them, and on several platforms."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from export_cases import MESH, ON_MESH, F, S, exported, partitioned, random, ring_reference
from source_files import ROOT
from weft import export
from weft.errors import WeftNotImplementedError, WeftValueError
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir
from weft.runtime import stablehlo
from weft.sharding import Mesh, NamedSharding, P


@pytest.fixture(scope="module")
def partitioned_program():
    results = NamedSharding(MESH, P("i"))
    function = weft.jit(partitioned, in_shardings=ON_MESH, out_shardings=results)
    return export.deserialize(export.export(function)(S((8, 4), F)).serialize(vjp_order=1))


Y = random(8, 4, seed=9)


def partitioned_reference(x):
    return np.sin(x) @ x.T + ring_reference(x).sum()


def grid(order):
    return Mesh(np.array(weft.devices())[list(order)], "d")


ORDERS_OF_DEVICES = {
    "the same": list(range(8)),
    "backwards": list(range(8))[::-1],
    "mixed": [3, 1, 0, 2, 7, 5, 4, 6],
}


@pytest.mark.parametrize("order", ORDERS_OF_DEVICES.values(), ids=ORDERS_OF_DEVICES)
@pytest.mark.parametrize("jitted", [False, True])
def test_devices_in_any_order(partitioned_program, order, jitted):
    place = NamedSharding(grid(order), P("d"))
    x = weft.device_put(Y, place)
    call = weft.jit(partitioned_program.call) if jitted else partitioned_program.call
    want = partitioned_reference(Y.astype(float))
    np.testing.assert_allclose(call(x), want, rtol=1e-4)
    if not jitted:
        assert call(x).sharding.spec == P("i")
        assert call(x).sharding.mesh.device_list == place.device_list


@pytest.mark.parametrize("order", ["the same", "mixed"])
def test_the_gradient_of_a_partitioned_program(partitioned_program, order):
    x = weft.device_put(Y, NamedSharding(grid(ORDERS_OF_DEVICES[order]), P("d")))
    got = weft.jit(weft.grad(lambda x: (partitioned_program.call(x) ** 2).sum()))(x)
    want = weft.grad(lambda x: (partitioned(x) ** 2).sum())(Y)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_the_mesh_in_force_says_which_devices():
    made = export.export(weft.jit(wnp.sin, in_shardings=NamedSharding(grid(range(4)), P("d"))))(
        S((8,), F)
    )
    found = export.deserialize(made.serialize())
    mesh = grid([7, 6, 5, 4])
    with weft.use_mesh(mesh):
        out = weft.jit(found.call)(Y[:, 0])
    assert out.devices() == set(mesh.device_list)
    np.testing.assert_allclose(out, np.sin(Y[:, 0].astype(float)), rtol=1e-6)
    assert found.call(Y[:, 0]).devices() == set(weft.devices()[:4])


def test_layouts_that_are_no_spec_over_a_mesh():
    tiles = weft.sharding.TiledSharding(weft.devices(), np.arange(8)[::-1].reshape(8, 1))
    x = weft.device_put(Y[:, 0], tiles)
    found = export.deserialize(export.export(weft.jit(wnp.cos))(x).serialize())
    assert found.in_shardings == (None,)
    np.testing.assert_allclose(found.call(Y[:, 0]), np.cos(Y[:, 0].astype(float)), rtol=1e-6)


def test_a_program_for_one_device_inside_of_shard_map():
    made = export.deserialize(
        export.export(weft.jit(lambda a: wnp.sin(a) * 2))(S((2, 2), F)).serialize(1)
    )
    mapped = weft.shard_map(made.call, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"))
    want = 2 * np.sin(Y.astype(float))
    np.testing.assert_allclose(mapped(Y), want, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(mapped)(Y), want, rtol=1e-6)
    got = weft.grad(lambda x: mapped(x).sum())(Y)
    np.testing.assert_allclose(got, 2 * np.cos(Y.astype(float)), rtol=1e-5, atol=1e-6)


def test_a_program_for_one_device_among_eight():
    made = exported(lambda x: x @ x.T, S((8, 4), F))
    x = weft.device_put(Y, ON_MESH)
    np.testing.assert_allclose(made.call(x), Y.astype(float) @ Y.T.astype(float), rtol=1e-5)


def test_several_devices_where_they_cannot_be(partitioned_program):
    inside = weft.shard_map(partitioned_program.call, mesh=MESH, in_specs=P(), out_specs=P())
    with pytest.raises(WeftNotImplementedError, match="inside of a shard_map") as caught:
        inside(Y)
    assert caught.value.fix.kind == "outside"
    with pytest.raises(WeftValueError, match=r"x was put on other devices") as caught:
        partitioned_program.call(weft.device_put(Y, weft.devices()[1]))
    assert caught.value.fix.kind == "device_put"
    mesh = Mesh(np.array(caught.value.fix.data["devices"]), "d")
    x = weft.device_put(Y, NamedSharding(mesh, P()))
    np.testing.assert_allclose(
        partitioned_program.call(x), partitioned_reference(Y.astype(float)), rtol=1e-4
    )


def test_too_few_devices_and_the_fix(tmp_path):
    made = export.export(weft.jit(wnp.sin, in_shardings=ON_MESH))(S((8, 4), F))
    (tmp_path / "sin.weft").write_bytes(made.serialize())
    (tmp_path / "sin.how").write_text("call")
    (tmp_path / "sin.in").write_bytes(Y.tobytes())
    runner = ROOT / "tests" / "support" / "export_runner.py"

    def run(count):
        environment = os.environ | {"WEFT_NUM_CPU_DEVICES": str(count)}
        command = [sys.executable, runner, tmp_path]
        return subprocess.run(command, env=environment, capture_output=True, text=True).stderr

    failed = run(2)
    assert "WeftValueError: the exported sin runs on 8 devices together" in failed
    (count,) = re.findall(r"Fix: .*WEFT_NUM_CPU_DEVICES=(\d+)", failed)
    assert run(count) == ""
    got = np.frombuffer((tmp_path / "sin.out").read_bytes(), F).reshape(8, 4)
    np.testing.assert_allclose(got, np.sin(Y.astype(float)), rtol=1e-6)


# ---- platforms ---------------------------------------------------------------------------------

twice_p = Primitive("twice_for_export")
twice_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(twice_p, lambda ctx, x: stablehlo.add(x, x))
mlir.register_lowering(
    twice_p, lambda ctx, x: stablehlo.add(x, stablehlo.add(x, x)), platform="cuda"
)


def test_each_platform_has_its_own_lowering():
    function = weft.jit(lambda x: twice_p.bind(x))
    made = export.export(function, platforms=("cpu", "cuda"))(S((3,), F))
    found = export.deserialize(made.serialize())
    assert found.mlir_module("cpu").count("stablehlo.add") == 1
    assert found.mlir_module("cuda").count("stablehlo.add") == 2
    np.testing.assert_array_equal(found.call(np.ones(3, F)), [2, 2, 2])


def test_another_platform_is_refused_and_the_fix_works():
    function = weft.jit(lambda x: x + 1)
    made = export.export(function, platforms=("cuda",))(S((3,), F))
    for call in (made.call, weft.jit(made.call)):
        with pytest.raises(WeftValueError, match="other platforms") as caught:
            call(np.ones(3, F))
    again = export.export(function, platforms=caught.value.fix.data["platforms"])(S((3,), F))
    np.testing.assert_array_equal(again.call(np.ones(3, F)), [2, 2, 2])
    checks = [export.DisabledSafetyCheck.platform()]
    anyhow = export.export(function, platforms=("cuda",), disabled_checks=checks)(S((3,), F))
    found = export.deserialize(anyhow.serialize())
    np.testing.assert_array_equal(found.call(np.ones(3, F)), [2, 2, 2])


def test_a_struct_over_an_abstract_mesh():
    f = weft.jit(lambda x: 2 * x)
    abstract = weft.sharding.AbstractMesh((4,), ("a",))
    concrete = weft.make_mesh((4,), ("a",))
    made = [
        export.export(f)(
            weft.ShapeDtypeStruct((32,), np.int32, sharding=weft.NamedSharding(mesh, weft.P("a")))
        )
        for mesh in (abstract, concrete)
    ]
    assert [e.nr_devices for e in made] == [4, 4]
    assert made[0].in_shardings_hlo == made[1].in_shardings_hlo
    (how,) = made[0].in_shardings_hlo
    assert str(how) == "{devices=[4]<=[4]}"
    found = made[0].call(np.arange(32, dtype=np.int32))
    np.testing.assert_array_equal(found, 2 * np.arange(32))


def test_shardings_of_the_compiler():
    mesh = weft.make_mesh((2, 4), ("a", "b"))

    def of(spec):
        struct = weft.ShapeDtypeStruct((8, 8), np.int32, sharding=weft.NamedSharding(mesh, spec))
        (how,) = export.export(weft.jit(lambda x: x + 1))(struct).in_shardings_hlo
        return how

    whole = np.arange(8).reshape(2, 4)
    assert of(weft.P()).is_replicated()
    assert of(weft.P("a")).tile_assignment_dimensions() == [2, 1, 4]
    assert of(weft.P("b", "a")).tile_assignment_devices() == whole.T.ravel().tolist()
    assert str(of(weft.P(("a", "b")))) == "{devices=[8,1]<=[8]}"
