"""What runs on an NVIDIA GPU, held to NumPy in double precision and to the CPU.

The CUDA client comes with `pip install 'weft[cuda13]'`; on a machine without a GPU these tests are
skipped. `python -m pytest -m gpu tests/gpu` runs them alone.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.sharding import Mesh, NamedSharding, P

pytestmark = pytest.mark.gpu

SOURCE = np.random.default_rng(0)
A, B = (SOURCE.normal(size=(64, 64)).astype(np.float32) for _ in range(2))


@pytest.fixture(scope="module")
def gpu():
    return weft.devices("gpu")[0]


def on(device, *values):
    return [weft.device_put(value, device) for value in values]


def test_the_device_is_there(gpu):
    assert gpu.platform == "gpu" and weft.local_devices(backend="gpu")[0] == gpu
    assert weft.devices("cuda") == weft.devices("gpu")
    assert gpu.memory_stats()["bytes_limit"] > 1 << 30


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b * 2, lambda a, b: jnp.tanh(a) / (1 + b * b),
        lambda a, b: jnp.sort(a, axis=1),
        lambda a, b: jnp.cumsum(a, axis=0), lambda a, b: jnp.argmax(a + b, axis=1),
        lambda a, b: jnp.where(a > b, a, -b).sum(axis=0), lambda a, b: a[::-1, 3:9].T,
        lambda a, b: a.at[jnp.arange(5)].add(1.5), lambda a, b: jnp.einsum("ij,kj->ik", a, b),
        lambda a, b: jnp.fft.fft2(a).real, lambda a, b: lax.top_k(a, 3)[0],
        lambda a, b: lax.conv(a[None, None], b[None, None, :3, :3], (1, 1), "SAME"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_cpu(gpu, function):
    with weft.default_matmul_precision("highest"):
        here = weft.jit(function)(*on(gpu, A, B))
        there = weft.jit(function)(*on(weft.devices("cpu")[0], A, B))
    assert here.device == gpu
    np.testing.assert_allclose(np.asarray(here), np.asarray(there), rtol=2e-4, atol=2e-4)


def test_products_against_double_precision(gpu):
    exact = A.astype(np.float64) @ B
    with weft.default_matmul_precision("highest"):
        found = np.asarray(weft.jit(jnp.matmul)(*on(gpu, A, B)))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)


def test_derivatives_and_loops(gpu):
    def loss(w, x):
        y, _ = lax.scan(lambda h, row: (jnp.tanh(h @ w + row), None), jnp.zeros(64), x)
        return jnp.sum(y**2)

    slope = weft.jit(weft.grad(loss))
    with weft.default_matmul_precision("highest"):
        here, there = (
            np.asarray(slope(*on(device, A / 16, B))) for device in (gpu, weft.devices("cpu")[0])
        )
    np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-4)


def test_random_bits_are_those_of_the_cpu(gpu):
    key = random.key(3)
    here = weft.jit(lambda k: random.bits(k, (1000,)))(weft.device_put(key, gpu))
    np.testing.assert_array_equal(np.asarray(here), np.asarray(random.bits(key, (1000,))))


def test_transfers_there_and_back(gpu):
    for dtype in ("float32", "bfloat16", "int8", "bool", "complex64", "uint32"):
        x = jnp.asarray(A * 3).astype(dtype)
        there = weft.device_put(x, gpu)
        assert there.device == gpu
        np.testing.assert_array_equal(np.asarray(there), np.asarray(x))
        back = weft.device_put(there, weft.devices("cpu")[0])
        np.testing.assert_array_equal(np.asarray(back), np.asarray(x))


def test_eager_operations_and_donation(gpu):
    x = weft.device_put(jnp.arange(8.0), gpu)
    assert (x + 1).device == gpu and float(x.sum()) == 28.0
    step = weft.jit(lambda x: x + 1, donate_argnums=0)
    y = step(x)
    assert x.is_deleted() and y.tolist() == list(np.arange(8.0) + 1)


def test_printing_and_callbacks_in_order(gpu, capsys):
    seen = []

    def step(total, x):
        weft.debug.callback(lambda x: seen.append(int(x)), x, ordered=True)
        return total + x, None

    @weft.jit
    def program(x):
        weft.debug.print("sum {}", x.sum(), ordered=True)
        return lax.scan(step, jnp.float32(0), x)[0]

    total = program(weft.device_put(jnp.arange(5.0), gpu))
    weft.effects_barrier()
    assert float(total) == 10.0 and seen == [0, 1, 2, 3, 4]
    assert capsys.readouterr().out == "sum 10.0\n"


def test_errors_of_callbacks(gpu):
    def refuse(x):
        raise ValueError("bad row")

    shape = weft.ShapeDtypeStruct((), np.float32)
    program = weft.jit(lambda x: weft.pure_callback(refuse, shape, x))
    with pytest.raises(Exception, match="bad row"):
        program(weft.device_put(jnp.float32(1), gpu)).block_until_ready()


def test_callbacks(gpu):
    shape = weft.ShapeDtypeStruct((), np.float32)
    double = weft.jit(lambda x: weft.pure_callback(lambda v: np.asarray(v) * 2, shape, x.sum()))
    assert float(double(weft.device_put(jnp.arange(4.0), gpu))) == 12.0


def test_a_mesh_of_gpus(gpu):
    gpus = weft.devices("gpu")
    mesh = Mesh(np.asarray(gpus), ("i",))
    x = weft.device_put(np.arange(4.0 * len(gpus), dtype=np.float32), NamedSharding(mesh, P("i")))
    summed = weft.jit(
        weft.shard_map(lambda v: lax.psum(v.sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    )
    assert float(summed(x)) == np.arange(4.0 * len(gpus)).sum()
