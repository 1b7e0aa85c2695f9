"""The examples beside digits.py: what they compute is compared with SciPy, with exact solutions,
with finite differences and with loops in Python, and each runs as a program."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import weft
import weft.numpy as jnp
from source_files import ROOT
from weft import random

EXAMPLES = ROOT / "examples"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


def fixture(name):
    return pytest.fixture(scope="module", name=name)(lambda: (yield from loaded(name)))


ode, recurrent, fixed_point, hmc = map(fixture, ("ode_adjoint", "recurrent", "fixed_point", "hmc"))
several, train_lm = fixture("several_processes"), fixture("train_lm")


def central_difference(f, x, step):
    """The gradient of a function of a float64 vector, with errors of order step⁴."""
    x = np.asarray(x, np.float64)
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = step
        found[i] = (8 * (f(x + e) - f(x - e)) - f(x + 2 * e) + f(x - 2 * e)) / (12 * step)
    return found


def wide(tree):
    """float64 arrays of weft."""
    return weft.tree.map(lambda x: jnp.asarray(np.asarray(x, np.float64), dtype=jnp.float64), tree)


# ---- the ODE solver ----------------------------------------------------------------------------


def test_a_step_has_the_orders_of_the_tableau(ode_adjoint):
    def exact(t):
        return np.exp(np.sin(t))

    def rates(t, y, _):
        return y * jnp.cos(t)

    def one_step(h):
        t, y = wide((0.5, exact(0.5)))
        end, rate, error = ode_adjoint.runge_kutta_step(rates, t, y, rates(t, y, None), h, None)
        np.testing.assert_allclose(rate, rates(t + h, end, None), rtol=1e-14)
        return float(end) - exact(0.5 + h), float(error)

    (wrong, estimated), (wrong_of_half, estimated_of_half) = one_step(0.04), one_step(0.02)
    assert wrong / wrong_of_half == pytest.approx(2**6, rel=0.1)
    assert estimated / estimated_of_half == pytest.approx(2**5, rel=0.1)


MATRIX = np.array([[-0.5, 2.0], [-1.5, -0.2]])
LINEAR_START = np.array([1.0, -0.5])
LINEAR_TIMES = np.array([0.3, 0.7, 1.0, 2.5])
EXACT = 1e-9


def linear_solution(matrix, start, times):
    return np.stack([scipy.linalg.expm(matrix * (t - times[0])) @ start for t in times])


def linear_rates(t, y, matrix):
    return matrix @ y


def test_a_linear_system_and_all_its_derivatives(ode_adjoint):
    weights = np.random.default_rng(0).normal(size=(4, 2))
    tolerance = ode_adjoint.Tolerance(EXACT, EXACT)

    def solve(matrix, start, times):
        return ode_adjoint.solve(linear_rates, start, times, matrix, tolerance)

    def loss(matrix, start, times):
        return jnp.sum(weights * solve(matrix, start, times))

    given = wide((MATRIX, LINEAR_START, LINEAR_TIMES))
    expected = linear_solution(MATRIX, LINEAR_START, LINEAR_TIMES)
    np.testing.assert_allclose(weft.jit(solve)(*given), expected, rtol=1e-7, atol=1e-8)

    of_matrix, of_start, of_times = weft.jit(weft.grad(loss, argnums=(0, 1, 2)))(*given)

    def reference(matrix, start, times):
        return np.sum(weights * linear_solution(matrix, start, times))

    np.testing.assert_allclose(
        of_matrix,
        central_difference(lambda m: reference(m, LINEAR_START, LINEAR_TIMES), MATRIX, 1e-3),
        rtol=1e-6,
        atol=1e-7,
    )
    propagators = [scipy.linalg.expm(MATRIX * (t - LINEAR_TIMES[0])) for t in LINEAR_TIMES]
    pulled_back = sum(p.T @ w for p, w in zip(propagators, weights, strict=True))
    np.testing.assert_allclose(of_start, pulled_back, rtol=1e-6)
    exact_times = np.einsum("ti,ij,tj->t", weights, MATRIX, expected)
    exact_times[0] = -(pulled_back - weights[0]) @ MATRIX @ LINEAR_START
    np.testing.assert_allclose(of_times, exact_times, rtol=1e-6, atol=1e-7)


def test_tighter_tolerances_give_smaller_errors(ode_adjoint):
    given = wide((LINEAR_START, LINEAR_TIMES, MATRIX))
    exact = linear_solution(MATRIX, LINEAR_START, LINEAR_TIMES)
    errors = [
        np.abs(ode_adjoint.solve(linear_rates, *given, ode_adjoint.Tolerance(t, t)) - exact).max()
        for t in (1e-3, 1e-6, 1e-9)
    ]
    for error, tolerance in zip(errors, (1e-3, 1e-6, 1e-9), strict=True):
        assert error < 10 * tolerance
    assert errors[2] < errors[1] / 100 < errors[0] / 10_000


def test_falling_times_lead_back_and_many_starts_are_one_batch(ode_adjoint):
    start, times, matrix = wide((LINEAR_START, LINEAR_TIMES, MATRIX))
    solve = partial(ode_adjoint.solve, linear_rates, tolerance=ode_adjoint.Tolerance(EXACT, EXACT))
    there = solve(start, times, matrix)
    back = solve(there[-1], times[::-1], matrix)
    np.testing.assert_allclose(back, there[::-1], rtol=1e-6, atol=1e-7)

    def loss(start):
        return jnp.sum(solve(start, times, matrix) ** 2)

    starts = wide(np.array([[1.0, -0.5], [0.0, 3.0], [100.0, -20.0]]))
    found = weft.jit(weft.vmap(weft.grad(loss)))(starts)
    expected = np.stack([weft.grad(loss)(x) for x in starts])
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_solution_that_is_not_reached_is_nan(ode_adjoint):
    few = ode_adjoint.Tolerance(1e-9, 1e-9, max_steps=3)
    given = wide((LINEAR_START, np.array([0.0, 1e-3, 50.0]), MATRIX))
    found = np.asarray(ode_adjoint.solve(linear_rates, *given, few))
    assert np.isfinite(found[:2]).all() and np.isnan(found[2]).all()


LV_TIMES = np.array([0.0, 0.8, 2.0, 3.0])
LV_START = np.array([2.0, 1.0])
LV_PARAMS = np.array([1.5, 1.0, 0.6, 2.0])


def lotka_volterra_by_scipy(start, times, params):
    birth, predation, growth, death = params

    def rates(t, y):
        return [birth * y[0] - predation * y[0] * y[1], growth * y[0] * y[1] - death * y[1]]

    found = scipy.integrate.solve_ivp(
        rates, (times[0], times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-12
    )
    return found.y.T


@pytest.mark.smoke
def test_predators_and_prey_against_scipy(ode_adjoint):
    def solve(start, times, params):
        named = dict(zip(ode_adjoint.NAMES, params, strict=True))
        tolerance = ode_adjoint.Tolerance(EXACT, EXACT)
        return ode_adjoint.solve(ode_adjoint.lotka_volterra, start, times, named, tolerance)

    def loss(start, times, params):
        return jnp.sum(jnp.log(solve(start, times, params))[1:] ** 2)

    def reference(start, times, params):
        return np.sum(np.log(lotka_volterra_by_scipy(start, times, params))[1:] ** 2)

    given = (LV_START, LV_TIMES, LV_PARAMS)
    found = weft.jit(solve)(*wide(given))
    np.testing.assert_allclose(found, lotka_volterra_by_scipy(*given), rtol=1e-7)
    gradients = weft.jit(weft.grad(loss, argnums=(0, 1, 2)))(*wide(given))
    for i, gradient in enumerate(gradients):
        expected = central_difference(
            lambda x, i=i: reference(*given[:i], x, *given[i + 1 :]), given[i], 1e-3
        )
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


TIMES = np.array([0.0, 1.0, 2.0])


def test_second_derivatives_through_the_adjoint(ode_adjoint):
    tolerance = ode_adjoint.Tolerance(EXACT, EXACT)

    def rates(t, y, k):
        return -k[0] * y * y + k[1] * jnp.sin(t)

    def loss(k):
        return jnp.sum(ode_adjoint.solve(rates, *wide((1.0, TIMES)), k, tolerance) ** 2)

    def gradient_by_scipy(k):
        def value(k):
            found = scipy.integrate.solve_ivp(
                lambda t, y: -k[0] * y * y + k[1] * np.sin(t),
                (0.0, 2.0), [1.0], "DOP853", TIMES, rtol=1e-13, atol=1e-13,
            )  # fmt: skip
            return np.sum(found.y**2)

        return central_difference(value, k, 1e-2)

    k = np.array([0.8, 0.5])
    found = weft.jit(weft.jacrev(weft.grad(loss)))(wide(k))
    expected = np.stack(
        [central_difference(lambda x, i=i: gradient_by_scipy(x)[i], k, 1e-2) for i in range(2)]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_model_is_found_from_noisy_counts(ode_adjoint, capsys):
    assert ode_adjoint.main(["--steps", "120", "--points", "25", "--noise", "0.03"]) == 0
    shown = capsys.readouterr().out
    rows = re.findall(r"^(\w+) +([\d.]+) +1\.000 +([\d.]+)$", shown, re.MULTILINE)
    assert [name for name, _, _ in rows] == list(ode_adjoint.NAMES)
    for _, true, found in rows:
        assert float(found) == pytest.approx(float(true), rel=0.05)


# ---- the recurrent network ---------------------------------------------------------------------


def network_in_numpy(params, xs):
    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    hidden = len(params["readout"])
    state = np.zeros((xs.shape[1], hidden))
    for x in xs:
        gates = sigmoid(np.concatenate([x, state], 1) @ params["gates"] + params["gates_bias"])
        update, reset = gates[:, :hidden], gates[:, hidden:]
        seen = np.concatenate([x, reset * state], 1)
        candidate = np.tanh(seen @ params["candidate"] + params["candidate_bias"])
        state = (1 - update) * state + update * candidate
    return state @ params["readout"] + params["readout_bias"]


@pytest.mark.smoke
def test_segments_change_no_value_and_no_gradient(recurrent):
    params = wide(recurrent.init(random.key(0), 2, 5, 60))
    xs, targets = wide(recurrent.sequences(random.key(1), 60, 3))
    arrays = weft.tree.map(np.asarray, params)
    said = network_in_numpy(arrays, np.asarray(xs))
    expected = np.mean((said - np.asarray(targets)) ** 2)
    gradients = []
    for segments in (None, 1, 6, 60):
        value, gradient = weft.value_and_grad(recurrent.loss)(params, xs, targets, segments)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        gradients.append(gradient)
    for gradient in gradients[1:]:
        weft.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), gradient, gradients[0])

    direction = weft.tree.map(np.random.default_rng(0).normal, arrays)

    def along(t):
        moved = weft.tree.map(lambda p, d: p + t * d, arrays, direction)
        return np.mean((network_in_numpy(moved, np.asarray(xs)) - np.asarray(targets)) ** 2)

    products = weft.tree.map(lambda g, d: np.sum(g * d), gradients[2], direction)
    slope = central_difference(along, np.zeros(()), 1e-3)
    np.testing.assert_allclose(sum(weft.tree.leaves(products)), slope, rtol=1e-6)


@pytest.mark.parametrize(("length", "segments"), [(1000, 25), (400, 20)])
def test_segments_take_the_memory_of_a_root_of_the_steps(recurrent, length, segments):
    params = recurrent.init(random.key(0), 2, 8, length)
    plain = recurrent.temporary_memory(params, length, 8, None)
    saved = recurrent.temporary_memory(params, length, 8, segments)
    # A step keeps some times the memory of a state: the gates, the candidate, the state. Kept are
    # n steps; with s segments, s states and the n / s steps of one segment.
    assert plain / saved > length / (segments + length // segments)


def test_every_sequence_has_an_early_and_a_late_mark(recurrent):
    xs, targets = (np.asarray(x) for x in recurrent.sequences(random.key(3), 50, 40))
    assert xs.shape == (50, 40, 2)
    numbers, marks = xs[..., 0], xs[..., 1]
    assert (marks[:5].sum(axis=0) == 1).all() and (marks[5:].sum(axis=0) == 1).all()
    np.testing.assert_allclose((numbers * marks).sum(axis=0), targets, rtol=1e-6)


def test_the_network_learns_to_remember(recurrent, capsys):
    assert recurrent.main(["--steps", "200", "--batch", "24"]) == 0
    shown = capsys.readouterr().out
    assert "25 segments" in shown
    assert float(re.search(r"([\d.]+) times less", shown)[1]) > 1000 / (25 + 40)
    # What can be said without memory has the variance of the sum, 2/3.
    assert float(re.search(r"last ten steps: ([\d.]+)", shown)[1]) < 0.2


def test_segments_that_do_not_divide_the_length(recurrent, capsys):
    with pytest.raises(SystemExit):
        recurrent.main(["--length", "1000", "--segments", "30"])
    assert "30 segments do not divide 1000 steps" in capsys.readouterr().err
    params = recurrent.init(random.key(0), 2, 4, 10)
    with pytest.raises(ValueError, match="10 steps cannot be cut into 3 equal segments"):
        recurrent.loss(params, jnp.zeros((10, 1, 2)), jnp.zeros(1), 3)


# ---- the fixed-point layer ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def layer(fixed_point):
    """A layer that is solved nearly exactly, with float64 parameters and inputs."""
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(6, 6)), "u": rng.normal(size=(6, 3)), "b": rng.normal(size=6)}
    return partial(fixed_point.fixed_point_layer, tolerance=1e-13), params, rng.normal(size=(4, 3))


def layer_in_numpy(params, x, steps=400):
    sums = np.abs(params["w"]).sum(axis=1, keepdims=True)
    w = params["w"] * np.minimum(1.0, 0.9 / sums)
    z = np.zeros(len(w))
    for _ in range(steps):
        z = np.tanh(w @ z + params["u"] @ x + params["b"])
    return z


def test_the_fixed_point_and_its_gradient(layer, fixed_point):
    solve, params, xs = layer
    np.testing.assert_allclose(
        solve(wide(params), wide(xs[0])), layer_in_numpy(params, xs[0]), rtol=1e-11
    )

    def loss(params, x):
        return jnp.sum(solve(params, x) ** 3)

    def unrolled(params, x):
        w, drive = fixed_point.contracting(params["w"]), params["u"] @ x + params["b"]
        z = jnp.zeros_like(drive)
        for _ in range(150):  # 0.9 ** 150 is 1e-7, and tanh contracts further
            z = jnp.tanh(w @ z + drive)
        return jnp.sum(z**3)

    gradients = [weft.grad(f, argnums=(0, 1))(wide(params), wide(xs[0])) for f in (loss, unrolled)]
    weft.tree.map(partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10), *gradients)
    for name, value in params.items():
        expected = central_difference(
            lambda v, name=name: np.sum(layer_in_numpy({**params, name: v}, xs[0]) ** 3),
            value,
            1e-4,
        )
        np.testing.assert_allclose(gradients[0][0][name], expected, rtol=1e-7, atol=1e-9)


def test_the_layer_under_vmap_jit_jvp_and_twice_differentiated(layer):
    solve, params, xs = layer
    params_64, xs_64 = wide((params, xs))

    def loss(params, x):
        return jnp.sum(solve(params, x) ** 3)

    one_by_one = [weft.grad(loss)(params_64, x) for x in xs_64]
    stacked = weft.tree.map(lambda *gs: np.stack(gs), *one_by_one)
    mapped = weft.vmap(weft.grad(loss), in_axes=(None, 0))
    check = partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10)
    weft.tree.map(check, mapped(params_64, xs_64), stacked)
    weft.tree.map(check, weft.jit(mapped)(params_64, xs_64), stacked)

    def value(x):
        return np.sum(layer_in_numpy(params, x) ** 3)

    slope = central_difference(value, xs[0], 1e-3)
    along = np.array([0.3, -1.0, 0.5])
    _, tangent = weft.jvp(partial(loss, params_64), (xs_64[0],), (wide(along),))
    np.testing.assert_allclose(tangent, slope @ along, rtol=1e-8)

    curvature = np.stack(
        [
            central_difference(lambda x, i=i: central_difference(value, x, 1e-2)[i], xs[0], 1e-2)
            for i in range(3)
        ]
    )
    for second in (weft.hessian, lambda f: weft.jacrev(weft.grad(f))):
        found = second(partial(loss, params_64))(xs_64[0])
        np.testing.assert_allclose(found, curvature, rtol=1e-5, atol=1e-6)


def test_no_more_iterations_than_the_contraction_allows(fixed_point):
    rng = np.random.default_rng(1)
    params = {"w": 10 * rng.normal(size=(8, 8)), "u": np.zeros((8, 2)), "b": rng.normal(size=8)}
    _, count = fixed_point.fixed_point_layer(wide(params), wide(np.zeros(2)), 1e-6, has_count=True)
    assert 3 < int(count) <= np.log(1e-6) / np.log(0.9) + 1


@pytest.mark.smoke
def test_the_network_learns_the_spirals(fixed_point, capsys):
    assert fixed_point.main(["--steps", "150", "--hidden", "16"]) == 0
    shown = capsys.readouterr().out
    assert float(re.search(r"right on points seen: ([\d.]+) %", shown)[1]) >= 98
    assert float(re.search(r"right on new points: ([\d.]+) %", shown)[1]) >= 95
    assert re.search(r"iterations to the fixed point: \d+ to \d+", shown)


# ---- several processes; tests/distributed starts them ------------------------------------------


@pytest.mark.smoke
def test_one_process_trains_on_all_devices(several_processes, capsys):
    assert several_processes.main(steps=30, rows=512) < 0.6
    first, *_ = re.findall(r"loss ([\d.]+)", capsys.readouterr().out)
    assert float(first) > 1.5


@pytest.mark.smoke
def test_the_language_model_learns(train_lm, capsys):
    small = "--layers 1 --embed 16 --heads 4 --context 16 --batch 8 --text 20000 --steps 30"
    assert train_lm.main(small.split()) == 0
    first, last = re.findall(r"[\d.]+", capsys.readouterr().out)[1:]
    assert float(last) < float(first) - 0.8


# ---- the sampler -------------------------------------------------------------------------------


def test_leapfrog_is_reversible_keeps_volume_and_nearly_the_energy(hmc):
    x, momentum = wide((np.array([0.7, -0.4]), np.array([0.5, 1.2])))
    move = weft.jit(partial(hmc.leapfrog, hmc.banana), static_argnums=3)
    end, speed = move(x, momentum, 0.1, 20)
    back, slowed = move(end, -speed, 0.1, 20)
    np.testing.assert_allclose(back, x, rtol=1e-12)
    np.testing.assert_allclose(slowed, -momentum, rtol=1e-12)

    def flat(state):
        return jnp.concatenate(hmc.leapfrog(hmc.banana, state[:2], state[2:], 0.1, 20))

    volume = np.linalg.det(weft.jacfwd(flat)(jnp.concatenate([x, momentum])))
    assert volume == pytest.approx(1.0, rel=1e-10)

    def drift(count):
        x_end, speed = move(x, momentum, 1.0 / count, count)
        return hmc.energy(hmc.banana, x_end, speed) - hmc.energy(hmc.banana, x, momentum)

    assert float(drift(40) / drift(80)) == pytest.approx(4.0, rel=0.05)


def test_a_path_that_runs_away_is_rejected(hmc):
    # The density exp(-x) x is that of positive x; the logarithm of a negative one is NaN.
    def gamma(x):
        return jnp.sum(jnp.log(x) - x)

    start = wide(np.array([0.05]))
    for i in range(20):
        point, accepting = hmc.transition(gamma, random.key(i), start, 20.0, 3)
        assert 0 <= float(accepting) <= 1
        assert float(point[0]) > 0


@pytest.mark.parametrize("memory", [0.0, 0.9, -0.5])
def test_the_effective_sample_size_of_a_process_that_is_known(hmc, memory):
    chains, samples = 16, 4000
    noise = np.random.default_rng(0).normal(size=(chains, samples))
    values = np.zeros_like(noise)
    values[:, 0] = noise[:, 0] / np.sqrt(1 - memory**2)
    for i in range(1, samples):
        values[:, i] = memory * values[:, i - 1] + noise[:, i]
    found = hmc.estimate(3.0 + values)
    exact = chains * samples * (1 - memory) / (1 + memory)
    assert found.effective == pytest.approx(exact, rel=0.15)
    error = np.sqrt(1 / (1 - memory**2) / exact)
    assert found.error == pytest.approx(error, rel=0.1)
    assert abs(found.mean - 3.0) < 4 * error
    assert found.disagreement < 1.01
    values[0] += 5.0
    assert hmc.estimate(values).disagreement > 1.05


@pytest.mark.parametrize("name", ["correlated Gaussian", "banana"])
def test_the_moments_of_the_targets(hmc, name):
    target = hmc.TARGETS[name]
    options = argparse.Namespace(chains=16, samples=4000, warmup=400, path=12)
    found = hmc.sample(target, random.key(0), options)
    assert found.points.shape == (16, 4000, target.dimensions)
    assert 0.85 < float(jnp.mean(found.acceptance)) < 0.99
    for label, (quantity, true) in target.quantities.items():
        e = hmc.estimate(quantity(np.asarray(found.points)))
        assert e.effective > 8000, label
        assert e.disagreement < 1.01, label
        # Four standard errors: one of 16,000 right estimates is farther off.
        assert abs(e.mean - true) < 4 * e.error, label


@pytest.mark.smoke
def test_a_chain_alone_is_the_chain_among_others(hmc):
    starts = jnp.zeros((3, 2))
    together = hmc.chains(hmc.banana, random.key(0), starts, 20, 20, 5)
    alone = hmc.chain(hmc.banana, random.split(random.key(0), 3)[1], starts[1], 20, 20, 5)
    np.testing.assert_allclose(together.points[1], alone.points, rtol=1e-3, atol=1e-4)


def test_the_sampler_prints_a_row_for_each_moment(hmc, capsys):
    assert hmc.main(["--samples", "100", "--warmup", "50", "--chains", "4"]) == 0
    shown = capsys.readouterr().out
    for target in hmc.TARGETS.values():
        for label in target.quantities:
            assert re.search(rf"^  {label} +-?[\d.]+ +-?[\d.]+ +[\d.]+", shown, re.MULTILINE)
    with pytest.raises(SystemExit):
        hmc.main(["--samples", "3"])
    assert "'3' is not a whole number from 4 up" in capsys.readouterr().err
