"""Names of JAX's root that say something about the process, or wrap what is there."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.dlpack
import weft.numpy as jnp
from compilations import counted_compilations
from weft import distributed, lax, monitoring
from weft.errors import WeftNotImplementedError, WeftTypeError, WeftValueError
from weft.memory import Space
from weft.sharding import AbstractMesh, NamedSharding, P, SingleDeviceSharding

pytestmark = pytest.mark.fast

MESH = weft.make_mesh((2,), ("i",))


# ---- ensure_compile_time_eval --------------------------------------------------------------------


@pytest.mark.parametrize("transform", [weft.jit, weft.grad, weft.vmap, weft.make_jaxpr])
def test_known_values_are_computed_with(transform):
    found = []

    def f(x):
        with weft.ensure_compile_time_eval():
            n = jnp.sum(jnp.arange(4))
            slope = weft.grad(lambda y: y * y)(2.0)
            found.append((int(n), float(slope), float(weft.jit(jnp.exp)(0.0))))
            y = x * n
        return y + 1.0

    x = jnp.ones(2) if transform is weft.vmap else 1.0
    transform(f)(x)
    assert found == [(6, 4.0, 1.0)]


def test_only_traced_operations_are_recorded():
    def f(x):
        with weft.ensure_compile_time_eval():
            weights = jnp.cos(jnp.arange(3.0)) + 1
            return jnp.sin(x) * weights

    names = [eqn.primitive.name for eqn in weft.make_jaxpr(f)(jnp.ones(3)).eqns]
    assert names == ["sin", "mul"]
    np.testing.assert_allclose(weft.jit(f)(jnp.ones(3)), f(jnp.ones(3)))


def test_as_a_decorator_and_outside_of_traces():
    @weft.ensure_compile_time_eval()
    def table(n):
        return jnp.arange(n) ** 2

    assert table(3).tolist() == [0, 1, 4]
    assert weft.jit(lambda x: x + int(np.asarray(table(3))[2]))(1.0) == 5.0


def test_loops_and_custom_derivatives_in_the_block():
    @weft.jit
    def f(x):
        with weft.ensure_compile_time_eval():
            total = lax.fori_loop(0, 3, lambda i, c: c + i, jnp.int32(0))
            kept = weft.nn.relu(jnp.array([-1.0, 2.0]))
            mapped = lax.scan(lambda c, y: (c + y, c * x), 0.0, kept)[1]
        return mapped.sum() + int(total)

    assert f(2.0) == 3.0


# ---- the rest ------------------------------------------------------------------------------------


def test_the_two_passes():
    fwd, bwd = weft.fwd_and_bwd(lambda x, y: x * jnp.sin(y), argnums=(0, -1))
    out, residuals = fwd(2.0, 3.0)
    assert out == 2 * np.float32(np.sin(3.0))
    np.testing.assert_allclose(bwd(residuals, 1.0), [np.sin(3.0), 2 * np.cos(3.0)], rtol=1e-6)
    fwd, bwd = weft.fwd_and_bwd(lambda x, y: (x * y, {"a": x}), 0, has_aux=True, jitted=False)
    out, residuals, aux = fwd(2.0, 3.0)
    assert (float(out), float(aux["a"]), float(bwd(residuals, 1.0))) == (6.0, 2.0, 3.0)


def test_operations_of_a_named_call():
    halve = weft.named_call(lambda x: x / 2.0, name="halve")
    assert "halve/div" in weft.jit(halve).lower(1.0).as_text(debug_info=True)
    with pytest.raises(WeftTypeError, match="a name"):
        weft.named_call(halve, name=3)


def test_the_process():
    assert weft.process_indices() == weft.host_ids() == [0]
    assert (weft.host_id(), weft.host_count()) == (0, 1)
    assert isinstance(weft.devices()[0], weft.Device)
    assert weft.local_devices(host_id=0) == weft.local_devices()
    x = jnp.ones(3)
    assert any(found is x for found in weft.live_arrays())
    x.delete()
    assert not any(found is x for found in weft.live_arrays())
    assert isinstance(jnp.ones(1).addressable_shards[0], weft.Shard)


def test_a_report_of_the_environment(capsys):
    assert weft.print_environment_info() is None
    printed = capsys.readouterr().out
    assert printed.strip() == weft.print_environment_info(return_string=True)
    assert "jaxlib:" in printed and "8 × cpu (platform cpu)" in printed


def test_one_process_joins_itself():
    with pytest.raises(WeftValueError, match="coordinator_address"):
        distributed.initialize()
    weft.devices()
    with pytest.raises(RuntimeError, match="before anything"):
        distributed.initialize("localhost:1234", 2, 0)
    with pytest.raises(RuntimeError, match="before anything"):
        distributed.initialize("localhost:1234", 1, 0)
    assert not distributed.is_initialized()
    distributed.shutdown()


def test_events():
    heard = []
    listeners = {
        "event": monitoring.register_event_listener,
        "scalar": monitoring.register_scalar_listener,
        "span": monitoring.register_event_time_span_listener,
        "duration": monitoring.register_event_duration_secs_listener,
    }
    try:
        for kind, register in listeners.items():
            register(lambda *args, kind=kind, **more: heard.append((kind, *args, more)))
        monitoring.record_event("/a", x=1)
        monitoring.record_scalar("/b", 2.5)
        monitoring.record_event_time_span("/c", 1.0, 2.0)
        monitoring.record_event_duration_secs("/d", 0.5, y="z")
        assert heard == [
            ("event", "/a", {"x": 1}), ("scalar", "/b", 2.5, {}), ("span", "/c", 1.0, 2.0, {}),
            ("duration", "/d", 0.5, {"y": "z"}),
        ]  # fmt: skip
        heard.clear()
        weft.jit(lambda x: x * 17.25)(1.0)
        assert [name for _, name, _, _ in heard] == [
            "/jax/core/compile/jaxpr_trace_duration",
            "/jax/core/compile/jaxpr_to_mlir_module_duration",
            "/jax/core/compile/backend_compile_duration",
        ]
        assert all(seconds > 0 for _, _, seconds, _ in heard)
    finally:
        monitoring.clear_event_listeners()
    with pytest.raises(ValueError):
        monitoring.unregister_event_listener(print)
    monitoring.register_event_listener(print)
    monitoring.unregister_event_listener(print)


def test_kinds_of_memory():
    x = jnp.arange(4.0)
    where = NamedSharding(MESH, P("i"), memory_kind="pinned_host")
    put = weft.device_put(x, where)
    assert put.sharding is where and put.sharding.memory_kind == "pinned_host"
    assert where.with_memory_kind("device") is NamedSharding(MESH, P("i"))
    assert put.signature == weft.device_put(x, NamedSharding(MESH, P("i"))).signature
    single = SingleDeviceSharding(weft.devices()[1], memory_kind="unpinned_host")
    for value in (x, np.arange(4.0, dtype=np.float32)):
        there = weft.device_put(value, single)
        assert there.sharding is single and there.devices() == {weft.devices()[1]}
        assert (there * 2).sharding.memory_kind == "device"
    host = weft.device_put({"w": x}, Space.Host)["w"]
    assert host.sharding.memory_kind == "pinned_host"
    assert weft.device_put(host, Space.Device).sharding.memory_kind == "device"
    assert weft.jit(lambda y: weft.device_put(y, Space.Host) + 1)(x).tolist() == [1, 2, 3, 4]
    with pytest.raises(WeftValueError, match="no memory of the kind"):
        NamedSharding(MESH, P("i"), memory_kind="disk")


def test_a_kind_of_memory_compiles_nothing_again(monkeypatch):
    f = weft.jit(lambda x: x * 3 + 1)
    x = np.arange(4, dtype=np.float32)
    f(weft.device_put(x, NamedSharding(MESH, P("i"))))
    found = counted_compilations(monkeypatch)
    f(weft.device_put(x, NamedSharding(MESH, P("i"), memory_kind="pinned_host")))
    assert not found


def test_other_shardings():
    x = jnp.arange(4.0)
    split = NamedSharding(MESH, P("i"))
    assert weft.reshard(x, split).sharding == split
    assert weft.jit(lambda y: weft.reshard(y, split))(x).sharding == split
    with pytest.raises(WeftTypeError, match="NamedShardings"):
        weft.reshard(x, weft.devices()[0])
    local = weft.make_array_from_process_local_data(split, np.arange(4.0), (4,))
    assert local.addressable_data(1).tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="this process's part"):
        weft.make_array_from_process_local_data(split, np.arange(4.0), (8,))
    one = weft.sharding.make_single_device_sharding(weft.devices()[2])
    assert one == SingleDeviceSharding(weft.devices()[2])
    for name in ("auto_axes", "explicit_axes"):
        with pytest.raises(WeftNotImplementedError, match=name):
            getattr(weft.sharding, name)(jnp.sin)
    with weft.sharding.use_abstract_mesh(AbstractMesh((2,), ("i",))):
        assert weft.sharding.get_abstract_mesh() == AbstractMesh((2,), ("i",))
    with pytest.raises(WeftTypeError, match="AbstractMesh"):
        weft.sharding.use_abstract_mesh(MESH)


def test_a_function_over_one_mesh_axis():
    x = jnp.arange(8.0).reshape(4, 2)
    with weft.set_mesh(MESH):
        rows = weft.smap(lambda b, s: (b * s, b.sum()[None]), in_axes=(0, None), out_axes=0,
                         axis_name="i")  # fmt: skip
        doubled, sums = weft.jit(rows)(x, 2.0)
        columns = weft.smap(in_axes=1, out_axes=1, axis_name="i")(lambda b: b - b.max())(x)
    np.testing.assert_array_equal(doubled, np.asarray(x) * 2)
    assert sums.tolist() == [6.0, 22.0]
    assert columns.tolist() == [[-6, -6], [-4, -4], [-2, -2], [0, 0]]
    with pytest.raises(WeftNotImplementedError, match="in_axes"):
        weft.smap(jnp.sin, out_axes=0, axis_name="i")
    with pytest.raises(TypeError, match="number of a dimension"):
        weft.smap(jnp.sin, in_axes="i", out_axes=0, axis_name="i")


def test_bound_axes_of_make_jaxpr():
    jaxpr = weft.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 3)])(1.0)
    assert "psum" in str(jaxpr)


def test_dtypes_that_others_know():
    known = weft.dlpack.is_supported_dtype
    assert known("float32") and known("bfloat16") and not known("int4")
    assert weft.dlpack.from_dlpack(np.arange(3.0, dtype=np.float32)).tolist() == [0, 1, 2]
