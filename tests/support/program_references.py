"""What programs of benchmarks/programs compute, once more by NumPy and SciPy in double precision.

A reference takes the arguments of the tiny program, and returns some of its results in order: None
stands for one that is not compared.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy.ndimage
import scipy.signal

REFERENCES = {}


def reference(function):
    REFERENCES[function.__name__] = function
    return function


def log_sum_exp(x, axis=None):
    return np.log(np.sum(np.exp(x), axis=axis))


# ---- simulations and fields -------------------------------------------------------------


@reference
def n_body(pos, vel, mass):
    def accelerate(pos):
        d = pos[None] - pos[:, None]
        return np.sum(d * (mass[None] / (np.sum(d * d, -1) + 1e-2) ** 1.5)[..., None], 1)

    for _ in range(10):
        vel = vel + 5e-4 * accelerate(pos)
        pos = pos + 1e-3 * vel
        vel = vel + 5e-4 * accelerate(pos)
    return pos, vel


@reference
def ewald_sum(x, q):
    """By another alpha, over which the sum does not depend, and more boxes."""
    alpha, cells = 3.0, np.array(list(itertools.product(range(-3, 4), repeat=3)))
    erfc = np.vectorize(math.erfc)
    d = x[:, None, None] - x[None, :, None] + cells
    r = np.linalg.norm(d, axis=-1)
    pairs = np.where(r > 0, erfc(alpha * r) / np.where(r > 0, r, 1), 0).sum(-1)
    waves = 2 * np.pi * cells[np.any(cells != 0, axis=1)]
    k2 = np.sum(waves**2, -1)
    structure = np.abs(np.exp(1j * x @ waves.T).T @ q) ** 2
    reciprocal = 2 * np.pi * np.sum(np.exp(-k2 / (4 * alpha**2)) / k2 * structure)
    return (0.5 * q @ pairs @ q + reciprocal - alpha / np.sqrt(np.pi) * q @ q,)


@reference
def double_pendulums(states):
    def derivative(s):
        a, b, u, v = s.T
        mass = np.empty((len(s), 2, 2))
        mass[:, 0] = np.stack([np.full_like(a, 2.0), np.cos(a - b)], 1)
        mass[:, 1] = np.stack([np.cos(a - b), np.ones_like(a)], 1)
        force = np.stack([-(v**2) * np.sin(a - b) - 2 * 9.8 * np.sin(a),
                          u**2 * np.sin(a - b) - 9.8 * np.sin(b)], 1)  # fmt: skip
        return np.concatenate([s[:, 2:], np.linalg.solve(mass, force[..., None])[..., 0]], 1)

    seen, h = [], 0.01
    for _ in range(10):
        k1 = derivative(states)
        k2 = derivative(states + h / 2 * k1)
        k3 = derivative(states + h / 2 * k2)
        k4 = derivative(states + h * k3)
        states = states + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        seen.append(states[:, 1])
    return states, np.stack(seen, 1)


LAPLACE = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])


@reference
def heat_by_scan(u):
    totals = []
    for _ in range(5):
        u = u + 0.2 * scipy.ndimage.convolve(u, LAPLACE, mode="constant")
        totals.append(u.sum())
    return u, totals


@reference
def heat_by_fori_loop(u):
    return heat_by_scan(u)[:1]


@reference
def wave_equation(u, v, speed):
    for _ in range(3):
        near = sum(np.roll(u, s, axis) for s in (-1, 1) for axis in range(3))
        v = v + 0.1 * speed * (near - 6 * u)
        u = u + 0.1 * v
    return u, v


@reference
def reaction_diffusion(u, v):
    means = []
    for _ in range(4):
        by = [scipy.ndimage.convolve(x, LAPLACE, mode="wrap") for x in (u, v)]
        reacted = u * v * v
        u = u + 0.16 * by[0] - reacted + 0.035 * (1 - u)
        v = v + 0.08 * by[1] + reacted - 0.1 * v
        means.append(v.mean())
    return u, v, means


@reference
def fft_poisson(density):
    """The potential by the matrix of each axis's second derivative, not by a transform of three."""
    n = len(density)
    k = np.fft.fftfreq(n)
    waves = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    spectrum = np.einsum("ai,bj,ck,ijk->abc", *[waves.conj()] * 3, density)
    k2 = 4 * np.pi**2 * (k[:, None, None] ** 2 + k[:, None] ** 2 + k**2)
    potential = np.where(k2 > 0, -spectrum / np.where(k2 > 0, k2, 1), 0)
    return (np.einsum("ai,bj,ck,ijk->abc", *[waves] * 3, potential).real / n**3,)


# ---- sequences --------------------------------------------------------------------------


@reference
def state_space_layer(p, u, y):
    x, total = np.zeros_like(p["b"]), 0.0
    for now, wanted in zip(u, y, strict=True):
        x = np.exp(-np.exp(p["log_rate"])) * x + p["b"] * now[:, None]
        total += np.sum((np.sum(p["c"] * x, -1) + p["d"] * now - wanted) ** 2)
    return (total / u.size,)


@reference
def kalman_filter(a, h, q, s, ys):
    mean, cov, means, total = np.zeros(len(a)), np.eye(len(a)), [], 0.0
    for y in ys:
        mean, cov = a @ mean, a @ cov @ a.T + q
        spread, away = h @ cov @ h.T + s, y - h @ mean
        inverse = np.linalg.inv(spread)
        total -= 0.5 * (away @ inverse @ away + np.log(np.linalg.det(2 * np.pi * spread)))
        mean, cov = mean + cov @ h.T @ inverse @ away, cov - cov @ h.T @ inverse @ h @ cov
        means.append(mean)
    return means, total


@reference
def kalman_likelihood_gradient(*model):
    return (-kalman_filter(*model)[1],)


def paths(start, transitions, seen):
    """Every path through a chain with its log probability."""
    steps, states = seen.shape
    for path in itertools.product(range(states), repeat=steps):
        score = start[path[0]] + sum(seen[t, s] for t, s in enumerate(path))
        yield score + sum(transitions[s, t] for s, t in itertools.pairwise(path)), path


@reference
def viterbi(start, transitions, seen):
    return max(paths(start, transitions, seen))


@reference
def hidden_markov_gradient(start, transitions, seen):
    return (log_sum_exp(np.array([score for score, _ in paths(start, transitions, seen)])),)


# ---- statistics -------------------------------------------------------------------------


def covariance(a, b, p):
    square = np.sum((a[:, None] - b[None]) ** 2, -1) / np.exp(2 * p["log_scale"][0])
    return np.exp(2 * p["log_height"] - 0.5 * square)


@reference
def gaussian_process_training(p, x, y):
    k = covariance(x, x, p) + np.exp(2 * p["log_noise"]) * np.eye(len(x))
    return (0.5 * y @ np.linalg.inv(k) @ y + 0.5 * np.log(np.linalg.det(k)),)


@reference
def gaussian_process_prediction(p, x, y, new):
    k = covariance(x, x, p) + np.exp(2 * p["log_noise"]) * np.eye(len(x))
    cross = covariance(new, x, p) @ np.linalg.inv(k)
    return cross @ y, 1.0 - np.sum(cross * covariance(new, x, p), 1)


@reference
def optimal_transport(x, y):
    c = np.sum((x[:, None] - y[None]) ** 2, -1)
    f, g, log_n = np.zeros(len(x)), np.zeros(len(x)), np.log(len(x))
    for _ in range(4):
        f = -0.1 * (log_sum_exp((g[None] - c) / 0.1, 1) - log_n)
        g = -0.1 * (log_sum_exp((f[:, None] - c) / 0.1, 0) - log_n)
    return (np.sum(np.exp((f[:, None] + g[None] - c) / 0.1) * c) / len(x) ** 2,)


# ---- numerics and solvers ---------------------------------------------------------------


@reference
def finite_elements(points, triangles, inside, source):
    matrix, load = np.zeros((len(points),) * 2), np.zeros(len(points))
    for nodes in triangles:
        corners = np.column_stack([np.ones(3), points[nodes]])
        area = abs(np.linalg.det(corners)) / 2
        slopes = np.linalg.inv(corners)[1:]
        matrix[np.ix_(nodes, nodes)] += area * slopes.T @ slopes
        load[nodes] += area / 3 * source[nodes].mean()
    u = np.zeros(len(points))
    u[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], load[inside])
    return (u,)


@reference
def sparse_conjugate_gradients(values, places, b):
    matrix = np.zeros((len(b),) * 2)
    matrix[tuple(places.T)] = values
    return (np.linalg.solve(matrix, b),)


@reference
def crank_nicolson(volatilities):
    found = []
    for volatility in volatilities:
        j, dt, rate, v = np.arange(8.0), 1 / 3, 0.03, np.maximum(100 - np.arange(8.0), 0)
        payoff = v
        below, above = (0.25 * dt * (volatility**2 * j**2 + s * rate * j) for s in (-1, 1))
        middle = -0.5 * dt * (volatility**2 * j**2 + rate)
        step = np.diag(below[1:], -1) + np.diag(middle) + np.diag(above[:-1], 1)
        step[[0, -1]] = 0.0
        for _ in range(3):
            right = v + step @ v
            right[[0, -1]] = payoff[[0, -1]]
            v = np.maximum(np.linalg.solve(np.eye(8) - step, right), payoff)
        found.append(v)
    return (found,)


@reference
def principal_components(x):
    x = (x - x.mean(0)) / x.std(0)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    scores = x @ vectors[:, ::-1][:, :2]
    return np.abs(scores / scores.std(0)), values[::-1] / values.sum()


@reference
def lanczos(a, start):
    return (np.linalg.eigvalsh(a)[-3:],)


@reference
def page_rank(source, target):
    count = 8
    links = np.zeros((count, count))
    np.add.at(links, (target, source), 1.0)
    out = links.sum(0)
    links = np.where(out > 0, links / np.maximum(out, 1), 1 / count)
    values, vectors = np.linalg.eig(0.85 * links + 0.15 / count)
    rank = vectors[:, np.argmax(values.real)].real
    return (rank / rank.sum(),)


@reference
def value_iteration(p, reward):
    v = np.zeros(len(reward))
    for _ in range(5):
        v = np.max(reward + 0.95 * np.stack([m @ v for m in p], 1), 1)
    return v, np.argmax(reward + 0.95 * np.stack([m @ v for m in p], 1), 1)


# ---- data and alignment -----------------------------------------------------------------


@reference
def histogram_equalization(pictures):
    below = [(p.ravel()[None] <= p.ravel()[:, None]).mean(1).reshape(p.shape) for p in pictures]
    return ((255 * np.array(below).astype(np.float32)).astype(np.uint8),)


@reference
def median_filter(picture):
    smooth = scipy.ndimage.median_filter(picture, 3, mode="mirror")
    edges = [scipy.ndimage.sobel(smooth, axis, mode="constant") for axis in (0, 1)]
    return smooth, np.hypot(*edges)


@reference
def image_registration(p, moving, fixed):
    line = np.linspace(-1, 1, len(moving))
    y, x = np.meshgrid(line, line, indexing="ij")
    cos, sin = np.cos(p[0]), np.sin(p[0])
    turned = [cos * y - sin * x + p[1], sin * y + cos * x + p[2]]
    places = [(c + 1) * (len(moving) - 1) / 2 for c in turned]
    moved = scipy.ndimage.map_coordinates(moving, places, order=1, mode="nearest")
    return (np.mean((moved - fixed) ** 2),)


@reference
def k_means(x, centers):
    costs = []
    for _ in range(2):
        distance = np.linalg.norm(x[:, None] - centers, axis=-1)
        nearest = distance.argmin(1)
        centers = np.stack([x[nearest == k].mean(0) for k in range(len(centers))])
        costs.append(np.mean(distance.min(1) ** 2))
    return centers, costs


@reference
def nearest_neighbours(x, labels, queries):
    votes = []
    for q in queries:
        square = np.sum((x - q) ** 2, 1)
        near = np.argsort(square)[:3]
        weights = np.exp(-square[near]) / np.exp(-square[near]).sum()
        votes.append(np.bincount(labels[near], weights, minlength=5))
    return np.argmax(votes, 1), votes


@reference
def group_statistics(keys, values):
    groups = [values[keys == k] for k in range(4)]
    rank = [np.sum(groups[k] < v) for k, v in zip(keys, values, strict=True)]
    return [g.mean() for g in groups], [g.std() for g in groups], [np.ptp(g) for g in groups], rank


@reference
def mel_spectrogram(sound, bank):
    frames = np.stack([sound[i : i + 32] for i in range(0, len(sound) - 31, 10)])
    power = np.abs(np.fft.fft(frames * np.hanning(32))[:, :17]) ** 2
    mel = np.log(power @ bank + 1e-6)
    return ((mel - mel.mean(0)) / (mel.std(0) + 1e-5),)


@reference
def echo_and_filter(sound, echo):
    wet = np.stack([np.convolve(x, echo)[: len(x)] for x in sound])
    return (np.tanh(0.05 * scipy.signal.lfilter([1.0], [1.0, -1.8, 0.9], wet)),)


@reference
def smith_waterman(firsts, seconds, scores):
    found = []
    for a, b in zip(firsts, seconds, strict=True):
        table = np.zeros((len(a) + 1, len(b) + 1))
        for i, j in np.ndindex(len(a), len(b)):
            table[i + 1, j + 1] = max(
                0, table[i, j] + scores[a[i], b[j]], table[i, j + 1] - 1, table[i + 1, j] - 1
            )
        found.append(table.max())
    return (found,)


@reference
def edit_distance(firsts, seconds):
    found = []
    for a, b in zip(firsts, seconds, strict=True):
        table = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
        for i, j in np.ndindex(len(a), len(b)):
            table[i + 1, j + 1] = min(
                table[i, j] + (a[i] != b[j]), table[i, j + 1] + 1, table[i + 1, j] + 1
            )
        found.append(table[-1, -1])
    return (found,)


@reference
def time_warping_gradient(firsts, seconds):
    found = []
    for a, b in zip(firsts, seconds, strict=True):
        table = np.full((len(a) + 1, len(b) + 1), 1e9)
        table[0, 0] = 0.0
        for i, j in np.ndindex(len(a), len(b)):
            before = np.array([table[i, j], table[i, j + 1], table[i + 1, j]])
            least = before.min()
            table[i + 1, j + 1] = (a[i] - b[j]) ** 2 + least - log_sum_exp(least - before)
        found.append(table[-1, -1])
    return (np.mean(found),)


@reference
def connectionist_classification(logits, labels):
    """Over every way of writing the labels down."""
    found = []
    for scores, label in zip(logits, labels, strict=True):
        log_p, total = scores - log_sum_exp(scores, 1)[:, None], []
        for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
            if [s for s, _ in itertools.groupby(path) if s] == list(label):
                total.append(sum(log_p[t, s] for t, s in enumerate(path)))
        found.append(-log_sum_exp(np.array(total)))
    return (np.mean(found),)


@reference
def knapsacks(all_weights, all_values):
    best = []
    for weights, values in zip(all_weights, all_values, strict=True):
        choices = [np.array(c) for c in itertools.product([0, 1], repeat=len(weights))]
        best.append([max(c @ values for c in choices if c @ weights <= k) for k in range(13)])
    return (best,)


@reference
def sharded_stencil(u):
    for _ in range(3):
        u = u + 0.2 * scipy.ndimage.convolve(u, LAPLACE, mode="constant")
    return (u,)
