"""The small modules of `weft.experimental`: solving, networks, devices, files, refusals."""

import importlib

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import weft
import weft.numpy as jnp
from weft import test_util
from weft.experimental import mesh_utils, multihost_utils, rnn, shard_alike, topologies
from weft.experimental.array_serialization import serialization
from weft.experimental.compute_on import compute_on
from weft.experimental.ode import odeint
from weft.experimental.pjit import pjit
from weft.experimental.shard_map import shard_map


def swing(y, t, w, c):
    return {"x": y["v"], "v": -w * y["x"] - c * y["v"] * jnp.cos(t)}


def test_odeint_solves():
    with weft.enable_x64():
        y0, t = {"x": jnp.array(1.0), "v": jnp.array(0.5)}, jnp.linspace(0.0, 5.0, 6)
        found = weft.jit(lambda: odeint(swing, y0, t, 2.0, 0.1, rtol=1e-9, atol=1e-9))()

        def f(t, y):
            return [y[1], -2.0 * y[0] - 0.1 * y[1] * np.cos(t)]

        wanted = solve_ivp(f, (0, 5), [1.0, 0.5], t_eval=t, rtol=1e-11, atol=1e-11).y
        np.testing.assert_allclose([found["x"], found["v"]], wanted, atol=1e-7)
        wave = odeint(lambda y, t: 1j * y, jnp.array(1.0 + 0j), t)
        np.testing.assert_allclose(wave, np.exp(1j * np.asarray(t)), atol=1e-6)


def test_odeint_takes_the_steps_of_jax():
    """jax.experimental.ode.odeint(swing, {x: 1, v: .5}, linspace(0, 5, 6), 2., .1, rtol=1e-6,
    atol=1e-6) in single precision: the last digits depend on every step."""
    y0, t = {"x": jnp.float32(1.0), "v": jnp.float32(0.0)}, jnp.linspace(0.0, 5.0, 6)
    found = odeint(swing, y0, t, 2.0, 0.1, rtol=1e-6, atol=1e-6)
    wanted = [1.0, 0.17869094, -0.8998835, -0.45082933, 0.84074426, 0.76630217]
    np.testing.assert_allclose(found["x"], wanted, atol=2e-6)


def test_odeint_goes_back_in_time():
    """Of y0 exp(-k (t - t0)), with derivatives by all three."""

    def end(y0, k, t):
        return odeint(lambda y, s, k: -k * y, y0, t, k, rtol=1e-9, atol=1e-9)[-1]

    with weft.enable_x64():
        t = jnp.array([2.0, 1.0, 0.5])
        want = 1.3 * np.exp(0.7 * 1.5)
        np.testing.assert_allclose(end(1.3, 0.7, t), want, rtol=1e-7)
        by_start, by_rate, by_time = weft.grad(end, (0, 1, 2))(1.3, 0.7, t)
        np.testing.assert_allclose(by_start, want / 1.3, rtol=1e-6)
        np.testing.assert_allclose(by_rate, 1.5 * want, rtol=1e-6)
        np.testing.assert_allclose(by_time, [0.7 * want, 0, -0.7 * want], rtol=1e-6)
        both = weft.vmap(lambda t: end(1.3, 0.7, t))(jnp.stack([t, t[::-1]]))
        np.testing.assert_allclose(both, [want, 1.3 * np.exp(-0.7 * 1.5)], rtol=1e-7)


def test_odeint_has_derivatives_in_both_modes_and_of_both_orders():
    """Of y0 exp(-k (t - t0)), by its start, the rate and the times."""

    def solution(y0, k, t):
        return odeint(lambda y, s, k, n: -k * y * n, y0, t, k, jnp.array(1), rtol=1e-9, atol=1e-9)

    with weft.enable_x64():
        y0, k, t = jnp.array([1.0, 2.0]), jnp.array(0.5), jnp.array([0.3, 1.0, 2.0])
        y, past = np.asarray(y0), np.asarray(t) - 0.3
        decay = np.exp(-0.5 * past)
        by_time = -0.5 * decay[:, None, None] * y[:, None] * (np.eye(3) - np.eye(3)[0])[:, None]
        want = (decay[:, None, None] * np.eye(2), -past[:, None] * decay[:, None] * y, by_time)
        for mode in (weft.jacfwd, weft.jacrev):
            for found, expected in zip(mode(solution, (0, 1, 2))(y0, k, t), want, strict=True):
                np.testing.assert_allclose(found, expected, atol=1e-6)

        def end(k):
            return solution(y0, k, t)[-1, 0]

        curvature = past[-1] ** 2 * decay[-1]
        for outer in (weft.jacfwd, weft.grad):
            for inner in (weft.jacfwd, weft.grad):
                np.testing.assert_allclose(outer(inner(end))(k), curvature, rtol=1e-6)


def test_odeint_is_differentiated_by_the_adjoint():
    with weft.enable_x64():
        t = jnp.linspace(0.0, 2.0, 4)
        closed_over = jnp.array(0.3)

        def f(y0, t, w, c, extra):
            y0 = {"x": y0[0], "v": y0[1]}
            moved = lambda y, s, w, c: {"x": y["v"] * extra, "v": swing(y, s, w, c)["v"]}  # noqa: E731
            out = odeint(moved, y0, t, w, c, rtol=1e-10, atol=1e-10)
            return jnp.sum(out["x"] ** 2) + jnp.sum(out["v"])

        args = (jnp.array([1.0, 0.5]), t, jnp.array(2.0), jnp.array(0.1), closed_over)
        gradients = weft.jit(weft.grad(f, (0, 1, 2, 3, 4)))(*args)
        h, generator = 1e-5, np.random.default_rng(0)
        directions = [generator.standard_normal(x.shape) for x in args]
        ahead = f(*(x + h * d for x, d in zip(args, directions, strict=True)))
        behind = f(*(x - h * d for x, d in zip(args, directions, strict=True)))
        slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * h), rtol=1e-5)


def test_lstm():
    """As recorded from jax.experimental.rnn.lstm_ref with jax.random.key(0)."""
    x = jnp.sin(jnp.arange(2 * 5 * 3.0)).reshape(2, 5, 3)
    w = rnn.init_lstm_weight(weft.random.key(0), 3, 4, 2, True)
    h, c = jnp.full((4, 2, 4), 0.1), jnp.full((4, 2, 4), 0.2)
    y, h_n, c_n = weft.jit(rnn.lstm, static_argnums=(5, 6, 7, 8, 9))(
        x, h, c, w, jnp.array([3, 5]), 3, 4, 2, 0.0, True
    )
    np.testing.assert_allclose(y[0].sum(1), [0.81476, 0.7833, 0.73752, 0, 0], atol=1e-4)
    np.testing.assert_allclose(h_n.ravel()[:3], [0.20688, 0.04914, 0.13262], atol=1e-4)
    np.testing.assert_allclose(c_n.sum(), 6.6469, atol=1e-3)
    twice = rnn.swap_lstm_gates(rnn.swap_lstm_gates(w, 3, 4, 2, True), 3, 4, 2, True)
    np.testing.assert_array_equal(twice, w)
    with pytest.raises(NotImplementedError, match="dropout"):
        rnn.lstm(x, h, c, w, jnp.array([5, 5]), 3, 4, 2, 0.5, True)


def test_devices():
    grid = mesh_utils.create_device_mesh((4, 2))
    assert [[d.id for d in row] for row in grid] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    hybrid = mesh_utils.create_hybrid_device_mesh((4, 2), (1, 1), process_is_granule=True)
    assert hybrid.shape == (4, 2)
    with pytest.raises(ValueError, match="places"):
        mesh_utils.create_device_mesh((3,))
    mesh = topologies.make_mesh(topologies.get_attached_topology(), (8,), ("i",))
    assert mesh.shape["i"] == 8
    out = shard_map(lambda x: x * 2, mesh, weft.P("i"), weft.P("i"), check_rep=False)(jnp.arange(8))
    np.testing.assert_array_equal(out, 2 * np.arange(8))
    x, y = shard_alike.shard_alike(out, jnp.arange(8))
    assert y.sharding == x.sharding
    assert pjit is weft.jit
    with compute_on("device_host"):
        assert float(jnp.ones(2).sum()) == 2.0
    with pytest.raises(NotImplementedError), compute_on("tpu_sparsecore"):
        pass


def test_one_process():
    tree = {"a": jnp.ones(2)}
    assert multihost_utils.process_allgather(tree)["a"].shape == (1, 2)
    assert multihost_utils.process_allgather(tree, tiled=True)["a"].shape == (2,)
    assert type(multihost_utils.broadcast_one_to_all(tree)["a"]) is np.ndarray
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal(tree)
    assert not multihost_utils.reached_preemption_sync_point(0)
    mesh = weft.make_mesh((2,), ("i",))
    whole = multihost_utils.host_local_array_to_global_array(tree, mesh, weft.P("i"))
    assert whole["a"].sharding.spec == weft.P("i")
    back = multihost_utils.global_array_to_host_local_array(whole, mesh, weft.P("i"))
    np.testing.assert_array_equal(back["a"], tree["a"])


def test_arrays_in_files(tmp_path):
    spec = serialization.get_tensorstore_spec(tmp_path / "a", ocdbt=True)
    store = {"driver": "ocdbt", "base": {"driver": "file", "path": str(tmp_path)}, "path": "a"}
    assert spec == {"driver": "zarr", "kvstore": store}
    assert serialization.is_remote_storage("gs://bucket/a")
    assert not serialization.is_remote_storage(spec)
    manager = serialization.GlobalAsyncCheckpointManager()
    manager.serialize_with_paths([jnp.ones((2, 3))], [str(tmp_path / "b")])
    (found,) = manager.deserialize_with_paths([None], [str(tmp_path / "b")])
    np.testing.assert_array_equal(found, np.ones((2, 3)))


def test_checks_of_derivatives():
    with weft.enable_x64():
        x = np.array([0.3, -0.7])
        test_util.check_grads(lambda x, n: jnp.sin(x) ** 2 * n, (x, 3), 2)

        @weft.custom_jvp
        def wrong(x):
            return x**2

        wrong.defjvp(lambda primals, tangents: (wrong(*primals), 3 * primals[0] * tangents[0]))
        for modes in ("fwd", "rev"):
            with pytest.raises(AssertionError):
                test_util.check_grads(wrong, (x,), 1, modes)
        with pytest.raises(ValueError, match="modes"):
            test_util.check_grads(wrong, (x,), 1, ("sideways",))


REFUSED = """
pallas.core_map pallas.kernel pallas.tpu.emit_pipeline pallas.triton.approx_tanh
pallas.mosaic_gpu.wgmma pallas.tpu.async_remote_copy
pallas.ops.flash_attention jax2tf.convert
buffer_callback.buffer_callback
fused.fused control_deps.schedule transfer.start_transfer_server topologies.get_topology_desc
profiler.get_profiled_instructions_proto serialize_executable.serialize compute_on.compute_on2
"""


@pytest.mark.parametrize("path", REFUSED.split())
def test_what_cannot_run_says_so_at_the_call(path):
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(f"weft.experimental.{module}"), name)
    with pytest.raises(weft.errors.WeftNotImplementedError, match="is not available"):
        function()


def test_differences_are_taken_a_step_ahead_and_a_step_behind():
    seen, directions = [], []

    def f(x):
        seen.append(float(x))
        return x

    def f_jvp(primals, tangents):
        directions.append(float(tangents[0]))
        return primals[0], tangents[0]

    test_util.check_jvp(f, f_jvp, (np.float32(0.0),), eps=0.25)
    step = 0.25 * directions[0]
    np.testing.assert_allclose(seen, [0.0, step, -step], rtol=1e-6)
