"""Every division of a decoder computes the gradient of one device, and is planned as it runs."""

import itertools
import time

import numpy as np
import pytest

import weft
from weft.analysis.decoder import ROLES, Decoder, fits, gradient_program
from weft.sharding import AbstractMesh

MODEL = Decoder(4, 32, 8, 64, 64, dtype="float32")
EXPERTS = Decoder(2, 32, 4, 64, 64, experts=4, dtype="float32")
BATCH, LENGTH, MICROBATCHES = 16, 8, 2
CHIP = weft.Hardware(flops=1e15, memory_bandwidth=3e12, link_bandwidth=4e11, memory=80e9)


def weights(model):
    rng = np.random.default_rng(0)
    shapes = model.weights.items()
    return {n: (rng.normal(size=s) / np.sqrt(s[-2])).astype(np.float32) for n, s in shapes}


def tokens(model):
    rng = np.random.default_rng(1)
    return rng.integers(0, model.vocabulary, (BATCH, LENGTH)).astype(np.int32)


def divisions(model, mesh):
    for chosen in itertools.product(ROLES, repeat=2):
        roles = dict(zip(mesh.axis_names, chosen, strict=True))
        if fits(model, mesh, roles, BATCH, LENGTH, MICROBATCHES):
            yield roles


def of_one_device(model):
    mesh = weft.make_mesh((1,), ("i",), devices=weft.devices()[:1])
    function, *_ = gradient_program(model, mesh, {"i": "data"}, BATCH, LENGTH)
    return {n: np.asarray(g) for n, g in weft.jit(function)(weights(model), tokens(model)).items()}


def check(model, all_roles):
    wanted = of_one_device(model)
    mesh = weft.make_mesh((2, 4), ("i", "j"))
    for roles in all_roles:
        function, *_ = gradient_program(model, mesh, roles, BATCH, LENGTH, MICROBATCHES)
        found = weft.jit(function)(weights(model), tokens(model))
        for name, gradient in wanted.items():
            error = np.abs(np.asarray(found[name]) - gradient).max() / np.abs(gradient).max()
            assert error < 1e-4, (roles, name, error)


def test_a_few_divisions_compute_the_gradient_of_one_device():
    check(MODEL, [{"i": "fsdp", "j": "sequence"}, {"i": "pipeline", "j": "data"}])


@pytest.mark.slow
def test_every_division_computes_the_gradient_of_one_device():
    mesh = AbstractMesh((2, 4), ("i", "j"))
    found = list(divisions(MODEL, mesh))
    assert len(found) >= 20
    check(MODEL, found)


@pytest.mark.slow
def test_experts_that_are_divided_compute_their_own_tokens():
    """Which tokens an expert gets depends on how the batch is divided; the gradient by weights that
    all tokens meet alike does not: with equal experts every division computes the same."""
    shared = weights(EXPERTS)
    for name in ("up", "down"):
        shared[name] = np.repeat(shared[name][:, :1], EXPERTS.experts, 1)
    results = []
    for shape, roles in (((1, 1), ("data", "data")), ((2, 4), ("data", "expert")),
                         ((2, 4), ("expert", "tensor"))):  # fmt: skip
        count = shape[0] * shape[1]
        mesh = weft.make_mesh(shape, ("i", "j"), devices=weft.devices()[:count])
        roles = dict(zip("ij", roles, strict=True))
        function, *_ = gradient_program(EXPERTS, mesh, roles, BATCH, LENGTH)
        found = weft.jit(function)(shared, tokens(EXPERTS))
        found = {n: np.asarray(g) for n, g in found.items()}
        results.append({n: g.sum(1) if n in ("up", "down") else g for n, g in found.items()})
    for other in results[1:]:
        for name, gradient in results[0].items():
            error = np.abs(other[name] - gradient).max() / np.abs(gradient).max()
            assert error < 1e-4, (name, error)


def test_parameters_are_those_of_the_weights():
    model = Decoder(layers=32, width=4096, heads=32, hidden=16384, vocabulary=32768)
    attention, mlp, embeddings = 4 * 4096**2, 2 * 4096 * 16384, 2 * 32768 * 4096
    assert model.parameters == 32 * (attention + mlp) + embeddings


def test_the_flops_of_a_step_are_those_of_the_literature():
    """Six for each weight and token, and again the forward pass's two (Kaplan et al., 2020)."""
    model = Decoder(layers=24, width=2048, heads=16, hidden=8192, vocabulary=32000)
    batch, length, devices = 512, 1024, 64
    mesh = AbstractMesh((devices,), ("i",))
    function, *args = gradient_program(model, mesh, {"i": "fsdp"}, batch, length)
    each = batch * length / devices
    layers = model.parameters - 2 * 32000 * 2048
    wanted = each * (8 * layers + 6 * 32000 * 2048)
    # The products of attention, forward twice and backward.
    wanted += 8 * 2 * each * length * 2048 * 24
    # The last product of a layer is not computed again: nothing of the backward pass reads it.
    wanted -= each * 2 * 2048 * 8192 * 24
    assert weft.cost(function, *args).flops == pytest.approx(wanted, rel=0.01)


def test_proposals_fit_and_are_sorted():
    model = Decoder(layers=32, width=4096, heads=32, hidden=16384, vocabulary=32768)
    mesh = AbstractMesh((16, 8), ("nodes", "chips"))
    slow_between = weft.Hardware(
        1e15, 3e12, {"nodes": 5e10, "chips": 4.5e11}, memory=80e9, latency=1e-6
    )
    found = weft.propose(model, mesh, batch=1024, length=2048, hardware=slow_between)
    keys = [(not way.fits, way.seconds) for way in found]
    assert keys == sorted(keys)
    assert found[0].fits
    # Weights of 13 GB and their state do not fit on each device.
    alone = next(way for way in found if way.name == "nodes: data, chips: data")
    assert not alone.fits
    # What is sent for each token goes over the fast links.
    names = [way.name for way in found]
    assert names.index("nodes: data, chips: sequence") < names.index("nodes: sequence, chips: data")


def test_a_slow_axis_is_not_used_for_what_is_sent_often():
    model = Decoder(layers=8, width=2048, heads=16, hidden=8192, vocabulary=32768)
    mesh = AbstractMesh((8, 8), ("slow", "fast"))
    chip = weft.Hardware(1e15, 3e12, {"slow": 1e9, "fast": 1e12}, memory=80e9)
    roles = ("data", "tensor")
    found = weft.propose(model, mesh, batch=512, length=1024, hardware=chip, roles=roles)
    names = [way.name for way in found]
    assert names.index("slow: data, fast: tensor") < names.index("slow: tensor, fast: data")


def test_thousands_of_devices_are_planned_in_seconds():
    model = Decoder(layers=48, width=8192, heads=64, hidden=32768, vocabulary=65536)
    mesh = AbstractMesh((64, 64), ("i", "j"))
    start = time.process_time()
    found = weft.propose(model, mesh, batch=8192, length=2048, hardware=CHIP)
    assert len(found) >= 5
    assert time.process_time() - start < 60


def test_an_unknown_role_and_lengths_that_do_not_divide_are_named():
    mesh = AbstractMesh((3,), ("i",))
    given = {"batch": 16, "length": 8, "hardware": CHIP}
    with pytest.raises(weft.errors.WeftValueError, match="no role 'model'"):
        weft.propose(MODEL, mesh, roles=("model",), **given)
    with pytest.raises(weft.errors.WeftValueError, match="no way"):
        weft.propose(MODEL, mesh, roles=("data",), **given)
