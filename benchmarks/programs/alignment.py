"""Dynamic programming over strings and series."""

import numpy as np

import workloads
from programs.registry import program


@program()
def smith_waterman(lib, size):
    """Local alignments of pairs of sequences, row by row: a `scan` with a running maximum."""
    jnp, lax = lib.numpy, lib.lax
    pairs, n = size(16, 2), size(200, 8)
    gap = 1.0

    def align(a, b, scores):
        place = gap * jnp.arange(n + 1, dtype=jnp.float32)

        def row(above, letter):
            match = above[:-1] + scores[letter, b]
            best = jnp.maximum(jnp.maximum(match, above[1:] - gap), 0.0)
            best = jnp.concatenate([jnp.zeros(1), best])
            # Gaps within the row: the best that stood anywhere before, less its distance.
            best = lax.cummax(best + place) - place
            return best, jnp.max(best)

        _, best = lax.scan(row, jnp.zeros(n + 1), a)
        return jnp.max(best)

    r = workloads.rng()
    scores = (3 * np.eye(20) - 1 + 0.2 * r.normal(size=(20, 20))).astype(np.float32)
    letters = r.integers(0, 20, (2, pairs, n)).astype(np.int32)
    return lib.vmap(align, (0, 0, None)), (*letters, scores)


@program()
def edit_distance(lib, size):
    """Edit distances between strings, along the antidiagonals."""
    jnp, lax = lib.numpy, lib.lax
    pairs, n = size(32, 2), size(128, 6)

    def distance(a, b):
        i = jnp.arange(n + 1)

        def diagonal(state, k):
            before, last = state
            j = k - i
            inside = (i > 0) & (j > 0) & (j <= n)
            cost = (a[i - 1] != b[jnp.clip(j - 1, 0, n - 1)]).astype(jnp.int32)
            up = jnp.roll(last, 1) + 1
            new = jnp.minimum(jnp.minimum(up, last + 1), jnp.roll(before, 1) + cost)
            new = jnp.where(inside, new, jnp.where((i == 0) | (j == 0), k, 10 * n))
            return (last, new), None

        first = jnp.where(i == 0, 0, 10 * n)
        second = jnp.where(i <= 1, 1, 10 * n)
        (_, last), _ = lax.scan(diagonal, (first, second), jnp.arange(2, 2 * n + 1))
        return last[n]

    letters = workloads.rng().integers(0, 4, (2, pairs, n)).astype(np.int32)
    return lib.vmap(distance), tuple(letters)


@program()
def time_warping_gradient(lib, size):
    """Soft dynamic time warping of series and its gradient, by antidiagonals."""
    jnp, lax = lib.numpy, lib.lax
    pairs, n = size(16, 2), size(64, 5)

    def distance(x, y):
        cost = (x[:, None] - y[None]) ** 2
        i = jnp.arange(n)

        def diagonal(state, k):
            before, last = state
            j = k - i
            here = cost[i, jnp.clip(j, 0, n - 1)]
            up = jnp.concatenate([jnp.full(1, 1e9), last[:-1]])
            across = jnp.concatenate([jnp.full(1, 1e9), before[:-1]])
            least = -jnp.logaddexp(jnp.logaddexp(-up, -last), -across)
            least = jnp.where(k == 0, 0.0, least)
            new = jnp.where((j >= 0) & (j < n), here + least, 1e9)
            return (last, new), None

        start = jnp.full(n, 1e9)
        (_, last), _ = lax.scan(diagonal, (start, start), jnp.arange(2 * n - 1))
        return last[n - 1]

    def step(x, y):
        return lib.value_and_grad(lambda x: jnp.mean(lib.vmap(distance)(x, y)))(x)

    return step, (workloads.f32(pairs, n), workloads.f32(pairs, n, seed=1))


@program()
def connectionist_classification(lib, size):
    """The CTC loss of labels that are not aligned, and its gradient by the logits."""
    jnp, lax = lib.numpy, lib.lax
    batch, steps, labels, letters = size(16, 2), size(100, 5), size(20, 2), size(30, 4)

    def loss_of(logits, label):
        log_p = lib.nn.log_softmax(logits)
        states = 2 * labels + 1
        letter = jnp.zeros(states, jnp.int32).at[1::2].set(label)
        skips = (jnp.arange(states) % 2 == 1) & (letter != jnp.roll(letter, 2))
        skips = skips.at[:2].set(False)

        def forward(a, p):
            one = jnp.concatenate([jnp.full(1, -1e30), a[:-1]])
            two = jnp.where(skips, jnp.concatenate([jnp.full(2, -1e30), a[:-2]]), -1e30)
            total = jnp.logaddexp(jnp.logaddexp(a, one), two)
            return total + p[letter], None

        start = jnp.where(jnp.arange(states) < 2, log_p[0][letter], -1e30)
        a, _ = lax.scan(forward, start, log_p[1:])
        return -jnp.logaddexp(a[-1], a[-2])

    def step(logits, label):
        mean = lambda logits: jnp.mean(lib.vmap(loss_of)(logits, label))
        return lib.value_and_grad(mean)(logits)

    label = workloads.rng().integers(1, letters, (batch, labels)).astype(np.int32)
    return step, (workloads.f32(batch, steps, letters), label)


@program()
def knapsacks(lib, size):
    """The best values of knapsacks of all sizes, item by item, for many of them."""
    jnp, lax = lib.numpy, lib.lax
    sacks, items, room = size(32, 2), size(100, 5), size(500, 12)

    def best(weights, values):
        capacity = jnp.arange(room + 1)

        def take(table, item):
            weight, value = item
            with_it = jnp.where(capacity >= weight, table[capacity - weight] + value, 0)
            return jnp.maximum(table, with_it), None

        table, _ = lax.scan(take, jnp.zeros(room + 1, jnp.int32), (weights, values))
        return table

    r = workloads.rng()
    weights = r.integers(1, max(2, room // 8), (sacks, items)).astype(np.int32)
    return lib.vmap(best), (weights, r.integers(1, 100, (sacks, items)).astype(np.int32))
