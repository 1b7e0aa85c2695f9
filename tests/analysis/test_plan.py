"""`weft.plan` beside closed forms of the literature, and over meshes that do not exist."""

import time
import xml.etree.ElementTree as ET

import pytest

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.sharding import AbstractMesh

CHIP = weft.Hardware(flops=1e14, memory_bandwidth=1e12, link_bandwidth=1e11)


def shape(*lengths, dtype="bfloat16"):
    return weft.ShapeDtypeStruct(lengths, dtype)


def sent(function, *args):
    """The bytes that one device sends in rings: its share of each gathered or scattered array."""
    found = 0.0
    for (kind, _, group, size), times in weft.cost(function, *args).collectives.items():
        found += times * size * (group - 1) / group * (2 if kind == "all_reduce" else 1)
    return found


# ---- the layers of Pope et al., Efficiently Scaling Transformer Inference (2022), section 3.2 ----

B_L, E, F = 512, 2048, 8192  # tokens, width, hidden width


def feedforward(mesh, in_specs, out_specs, body):
    layer = weft.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
    return layer, shape(B_L, E), shape(E, F), shape(F, E)


def test_one_dimensional_weight_stationary():
    """Activations are gathered and scattered: 2 BLE elements, whatever the number of devices."""
    n = 64
    mesh = AbstractMesh((n,), ("xyz",))

    def body(x, up, down):
        whole = lax.all_gather(x, "xyz", axis=1, tiled=True)
        return lax.psum_scatter(
            weft.nn.gelu(whole @ up) @ down, "xyz", scatter_dimension=1, tiled=True
        )

    specs = (P(None, "xyz"), P(None, "xyz"), P("xyz"))
    layer = feedforward(mesh, specs, P(None, "xyz"), body)
    assert sent(*layer) == 2 * 2 * B_L * E * (n - 1) / n


def two_dimensional(sides):
    """Each side gathers and scatters its part of the activations."""
    mesh = AbstractMesh(sides, ("x", "yz"))

    def body(x, up, down):
        whole = lax.all_gather(x, "yz", axis=1, tiled=True)
        hidden = lax.psum_scatter(whole @ up, "x", scatter_dimension=1, tiled=True)
        hidden = lax.all_gather(weft.nn.gelu(hidden), "x", axis=1, tiled=True)
        return lax.psum_scatter(hidden @ down, "yz", scatter_dimension=1, tiled=True)

    specs = (P(None, ("x", "yz")), P("x", "yz"), P("yz", "x"))
    return feedforward(mesh, specs, P(None, ("x", "yz")), body)


@pytest.mark.parametrize("sides", [(4, 16), (8, 8), (16, 4), (32, 32)])
def test_two_dimensional_weight_stationary(sides):
    """Each side gathers and scatters its part: 2 BL (E / X + F / YZ)."""
    x_size, yz_size = sides
    wanted = (
        2 * 2 * B_L * (E / x_size * (yz_size - 1) / yz_size + F / yz_size * (x_size - 1) / x_size)
    )
    assert sent(*two_dimensional(sides)) == pytest.approx(wanted)


def test_the_best_shape_is_that_of_the_paper():
    def time_of(x_size):
        function, *args = two_dimensional((x_size, 64 // x_size))
        return sum(weft.plan(function, *args, hardware=CHIP).communication.values())

    assert min((1, 2, 4, 8, 16, 32), key=time_of) == round((64 * E / F) ** 0.5)


def test_weight_gathered():
    """Weights are gathered over all devices: 2 E F elements, and no activations."""
    n = 16
    mesh = AbstractMesh((n,), ("xyz",))

    def body(x, up, down):
        up = lax.all_gather(up, "xyz", axis=0, tiled=True)
        down = lax.all_gather(down, "xyz", axis=1, tiled=True)
        return weft.nn.gelu(x @ up) @ down

    layer = feedforward(mesh, (P("xyz"), P("xyz"), P(None, "xyz")), P("xyz"), body)
    assert sent(*layer) == 2 * 2 * E * F * (n - 1) / n


# ---- meshes that are not here ------------------------------------------------------------------


def data_parallel(mesh, per_device=16):
    def loss(w, x):
        return lax.pmean(jnp.mean(jnp.square(weft.nn.gelu(x @ w) @ w.T)), "i")

    step = weft.shard_map(weft.grad(loss), mesh=mesh, in_specs=(P(), P("i")), out_specs=P())
    return step, shape(512, 2048), shape(per_device * mesh.size, 512)


def test_weak_scaling_computes_the_same_and_sends_the_same():
    meshes = [AbstractMesh((n,), ("i",)) for n in (2, 64, 4096, 65_536)]
    curve = weft.scaling(data_parallel, meshes, hardware=CHIP)
    assert curve.devices == (2, 64, 4096, 65_536)
    assert len({way.compute for way in curve.plans}) == 1
    assert len({way.device_memory for way in curve.plans}) == 1
    sending = [way.communication["i",] for way in curve.plans]
    assert sending == sorted(sending) and sending[-1] == pytest.approx(2 * sending[0], rel=1e-3)


def test_strong_scaling_divides_the_work():
    x, w = shape(1 << 16, 512), shape(512, 512)

    def make(mesh):
        def product(x, w):
            return x @ w

        return (
            weft.shard_map(product, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")), x, w,
        )  # fmt: skip

    meshes = [AbstractMesh((n,), ("i",)) for n in (1, 16, 4096)]
    curve = weft.scaling(make, meshes, hardware=CHIP)
    first, *others = curve.plans
    for n, way in zip((16, 4096), others, strict=True):
        assert way.compute == pytest.approx(first.compute / n)
        assert way.device_memory == pytest.approx(
            2 * (2 * 512 * (1 << 16) // n + 512 * 512), rel=1e-9
        )


def test_the_number_of_devices_costs_nothing():
    def seconds(n):
        start = time.perf_counter()
        function, *args = data_parallel(AbstractMesh((n,), ("i",)))
        weft.plan(function, *args, hardware=CHIP)
        return time.perf_counter() - start

    seconds(2)
    few, many = (min(seconds(n) for _ in range(3)) for n in (8, 1 << 20))
    assert many < 3 * few + 0.05


def test_the_picture_is_svg_with_every_series():
    meshes = [AbstractMesh((n,), ("i",)) for n in (2, 8, 32)]
    curve = weft.scaling(data_parallel, meshes, hardware=CHIP)
    root = ET.fromstring(curve.svg)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"in all", "computing", "communication", "devices", "2", "8", "32"} <= set(texts)
    assert curve._repr_html_() == curve.svg


# ---- choosing ----------------------------------------------------------------------------------


def test_what_does_not_fit_comes_last_and_says_so():
    chip = weft.Hardware(flops=1e14, memory_bandwidth=1e12, link_bandwidth=1e11, memory=4e6)
    x, w = shape(64, 1024), shape(1024, 1024)
    mesh = AbstractMesh((8,), ("i",))
    whole = weft.shard_map(lambda x, w: x @ w, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))
    by_columns = weft.shard_map(
        lambda x, w: lax.all_gather(x @ w, "i", axis=1, tiled=True), mesh=mesh,
        in_specs=(P(), P(None, "i")), out_specs=P(None), check_vma=False,
    )  # fmt: skip
    small = weft.Hardware(flops=1e14, memory_bandwidth=1e12, link_bandwidth=1e11, memory=1e6)
    programs = {"replicated": (whole, x, w), "columns": (by_columns, x, w)}
    roomy = weft.plans(programs, hardware=chip)
    assert [way.name for way in roomy] == ["columns", "replicated"] or roomy[0].fits
    tight = weft.plans(programs, hardware=small)
    assert [way.name for way in tight] == ["columns", "replicated"]
    assert [way.fits for way in tight] == [True, False]
    assert "does not fit" in repr(tight)


def test_transfers_that_hide_cost_what_is_longest():
    function, *args = data_parallel(AbstractMesh((64,), ("i",)))
    way = weft.plan(function, *args, hardware=CHIP)
    assert way.overlapped <= way.seconds
    assert way.overlapped >= max(way.compute, *way.communication.values())
    assert 0 < way.utilization <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: weft.plan(jnp.sum, shape(8), hardware="H100"),
        lambda: weft.plans({"sum": (jnp.sum, shape(8))}, hardware=1e12),
        lambda: weft.cost(jnp.sum, shape(8)).roofline(None),
        lambda: weft.cost(jnp.sum, shape(8)).seconds({}),
        lambda: weft.propose(
            weft.Decoder(1, 8, 2, 8, 8), AbstractMesh((2,), ("i",)),
            batch=2, length=2, hardware="TPU v4",
        ),
    ],
)  # fmt: skip
def test_hardware_is_asked_for(wrong):
    with pytest.raises(weft.errors.WeftTypeError, match="hardware") as info:
        wrong()
    assert __file__ in info.value.location


@pytest.mark.parametrize(
    "wrong",
    [lambda: weft.Decoder(1, 9, 2, 8, 8), lambda: weft.Decoder(1, 8, 2, 8, -8),
     lambda: weft.Hardware(flops=1e12, memory_bandwidth=0)],
)  # fmt: skip
def test_an_error_of_a_dataclass_stands_at_the_users_line(wrong):
    """The `__init__` that Python writes for it has no file."""
    with pytest.raises(weft.errors.WeftValueError) as info:
        wrong()
    assert f"{__file__}:" in info.value.location
