"""Ten of the programs in PyTorch, on the same numbers; a step returns what the others' steps do.

`compiled` wraps what a user would wrap in `torch.compile`: a step, or the body of a long loop, as
loops are unrolled. It needs a C++ compiler on the path.
"""

from unittest import mock

import numpy as np
import torch

from programs import registry

F = torch.nn.functional


def arguments_of(name):
    """A program's arguments as tensors: they are made by NumPy, whatever the library."""
    return to_torch(registry.load()[name].make(mock.MagicMock(), registry.full)[1])


def to_torch(tree):
    if isinstance(tree, dict):
        return {k: to_torch(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [to_torch(v) for v in tree]
    return torch.from_numpy(np.array(tree))


def leaves(tree):
    """The arrays of a result, in the order in which the other libraries flatten it."""
    if isinstance(tree, dict):
        return [leaf for k in sorted(tree) for leaf in leaves(tree[k])]
    if isinstance(tree, (list, tuple)):
        return [leaf for v in tree for leaf in leaves(v)]
    return [tree.detach().numpy()]


def build(name, compiled):
    """A step of a program, without arguments."""
    torch.manual_seed(0)
    return STEPS[name](arguments_of(name), torch.compile if compiled else lambda f: f)


def gradient(loss, params):
    """(value, gradient in the form of `params`) of a loss."""
    flat = flat_leaves(params)
    for leaf in flat:
        leaf.requires_grad_()
    value = loss()
    found = iter(torch.autograd.grad(value, flat))
    return value, refill(params, found)


def flat_leaves(tree):
    if isinstance(tree, dict):
        return [leaf for v in tree.values() for leaf in flat_leaves(v)]
    if isinstance(tree, (list, tuple)):
        return [leaf for v in tree for leaf in flat_leaves(v)]
    return [tree]


def refill(tree, values):
    if isinstance(tree, dict):
        return {k: refill(v, values) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [refill(v, values) for v in tree]
    return next(values)


def n_body(arguments, wrap):
    pos, vel, mass = arguments

    def accelerate(pos):
        d = pos[None] - pos[:, None]
        r2 = (d * d).sum(-1) + 1e-2
        return (d * (mass[None] / (r2 * r2.sqrt()))[:, :, None]).sum(1)

    def move(pos, vel):
        vel = vel + 5e-4 * accelerate(pos)
        pos = pos + 1e-3 * vel
        return pos, vel + 5e-4 * accelerate(pos)

    move = wrap(move)

    def step():
        a, b = pos, vel
        for _ in range(10):
            a, b = move(a, b)
        return a, b

    return step


def heat_by_fori_loop(arguments, wrap):
    (start,) = arguments

    def move(u):
        p = F.pad(u, (1, 1, 1, 1))
        return u + 0.2 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u)

    move = wrap(move)

    def step():
        u = start
        for _ in range(100):
            u = move(u)
        return u

    return step


def fft_poisson(arguments, wrap):
    (density,) = arguments

    def solve(density):
        k = 2 * np.pi * torch.fft.fftfreq(len(density))
        waves = k[:, None, None], k[None, :, None], k[None, None]
        k2 = waves[0] ** 2 + waves[1] ** 2 + waves[2] ** 2
        spectrum = torch.fft.fftn(density)
        potential = torch.where(k2 > 0, -spectrum / torch.where(k2 > 0, k2, 1.0), 0)
        field = [torch.fft.ifftn(-1j * wave * potential).real for wave in waves]
        return torch.fft.ifftn(potential).real, torch.stack(field)

    solve = wrap(solve)
    return lambda: solve(density)


def kalman_filter(arguments, wrap):
    a, h, q, s, ys = arguments
    d = len(a)

    def update(mean, cov, y):
        mean, cov = a @ mean, a @ cov @ a.T + q
        innovation, spread = y - h @ mean, h @ cov @ h.T + s
        gain = torch.linalg.solve(spread, h @ cov).T
        log_p = -0.5 * (
            innovation @ torch.linalg.solve(spread, innovation)
            + torch.linalg.slogdet(2 * np.pi * spread)[1]
        )
        return mean + gain @ innovation, (torch.eye(d) - gain @ h) @ cov, log_p

    update = wrap(update)

    def step():
        mean, cov, total, means = torch.zeros(d), torch.eye(d), 0.0, []
        for y in ys:
            mean, cov, log_p = update(mean, cov, y)
            total = total + log_p
            means.append(mean)
        return torch.stack(means), total

    return step


def lstm_training(arguments, wrap):
    p, xs, y = arguments
    d = len(p["wh"])

    def cell(h, c, x):
        i, f, g, o = (x @ p["wx"] + h @ p["wh"] + p["b"]).chunk(4, -1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    cell = wrap(cell)

    def loss():
        h = c = torch.zeros(xs.shape[1], d)
        hs = []
        for x in xs:
            h, c = cell(h, c, x)
            hs.append(h)
        return ((torch.stack(hs) @ p["out"] - y) ** 2).mean()

    return lambda: gradient(loss, p)


def decoder(p, tokens, targets, heads):
    batch, t = tokens.shape
    d = p["wte"].shape[1]
    norm = lambda x, w: F.layer_norm(x, (d,), w["g"], w["b"])
    x = p["wte"][tokens] + p["wpe"]
    for b in p["blocks"]:
        qkv = norm(x, b["ln1"]) @ b["attn"]["wqkv"] + b["attn"]["bqkv"]
        q, k, v = qkv.reshape(batch, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        o = o.permute(0, 2, 1, 3).reshape(batch, t, d)
        x = x + o @ b["attn"]["wo"] + b["attn"]["bo"]
        h = F.gelu(norm(x, b["ln2"]) @ b["mlp"]["w1"] + b["mlp"]["b1"], approximate="tanh")
        x = x + h @ b["mlp"]["w2"] + b["mlp"]["b2"]
    logits = norm(x, p["lnf"]) @ p["wte"].T
    return F.cross_entropy(logits.reshape(batch * t, -1), targets.reshape(-1))


def transformer_forward(arguments, wrap):
    p, tokens, targets = arguments
    tokens, targets = tokens.long(), targets.long()
    run = wrap(lambda: decoder(p, tokens, targets, 4))

    def step():
        with torch.no_grad():
            return run()

    return step


def transformer_training(arguments, wrap):
    p, m, v, t, tokens, targets = arguments
    tokens, targets = tokens.long(), targets.long()
    run = wrap(lambda: decoder(p, tokens, targets, 4))
    flat, ms, vs = (flat_leaves(tree) for tree in (p, m, v))

    def step():
        value, found = gradient(run, p)
        found = flat_leaves(found)
        with torch.no_grad():
            # Adam over all leaves at once, as PyTorch's own does.
            new_m = torch._foreach_add(torch._foreach_mul(ms, 0.9), found, alpha=1 - 0.9)
            squares = torch._foreach_mul(found, found)
            new_v = torch._foreach_add(torch._foreach_mul(vs, 0.999), squares, alpha=1 - 0.999)
            now = t + 1.0
            rate = 1e-3 * torch.sqrt(1 - 0.999**now) / (1 - 0.9**now)
            roots = torch._foreach_add(torch._foreach_sqrt(new_v), 1e-8)
            moves = torch._foreach_mul(torch._foreach_div(new_m, roots), float(rate))
            new_p = torch._foreach_sub(flat, moves)
        trees = (refill(p, iter(new)) for new in (new_p, new_m, new_v))
        return *trees, now, value

    return step


def resnet_block_gradient(arguments, wrap):
    p, x = arguments
    # PyTorch's convolutions take channels first; strides keep them last in memory.
    weights = {w: p[w].permute(3, 2, 0, 1).contiguous() for w in ("w1", "w2")}
    scales = {k: v for k, v in p.items() if k not in weights}
    x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)

    def loss():
        h = F.conv2d(x, weights["w1"], padding=1)
        h = F.relu(F.batch_norm(h, None, None, scales["g1"], scales["b1"], training=True))
        h = F.conv2d(h, weights["w2"], padding=1)
        h = F.batch_norm(h, None, None, scales["g2"], scales["b2"], training=True)
        return (F.relu(x + h) ** 2).mean()

    loss = wrap(loss)

    def step():
        value, (by_weights, by_scales, by_x) = gradient(loss, (weights, scales, x))
        by_weights = {k: w.permute(2, 3, 1, 0) for k, w in by_weights.items()}
        return value, (by_weights | by_scales, by_x.permute(0, 2, 3, 1))

    return step


def k_means(arguments, wrap):
    x, start = arguments
    k = len(start)

    def improve(centers):
        distance = (x**2).sum(1)[:, None] - 2 * x @ centers.T + (centers**2).sum(1)
        nearest = distance.argmin(1)
        totals = torch.zeros_like(centers).index_add(0, nearest, x)
        counts = torch.zeros(k).index_add(0, nearest, torch.ones(len(x)))
        new = torch.where(counts[:, None] > 0, totals / counts.clamp(min=1)[:, None], centers)
        return new, distance.min(1)[0].mean()

    improve = wrap(improve)

    def step():
        centers, costs = start, []
        for _ in range(10):
            centers, cost = improve(centers)
            costs.append(cost)
        return centers, torch.stack(costs)

    return step


def gaussian_process_training(arguments, wrap):
    p, x, y = arguments

    def loss():
        square = ((x[:, None] - x[None]) ** 2 / torch.exp(2 * p["log_scale"])).sum(-1)
        k = torch.exp(2 * p["log_height"] - 0.5 * square)
        root = torch.linalg.cholesky(k + torch.exp(2 * p["log_noise"]) * torch.eye(len(x)))
        z = torch.linalg.solve_triangular(root, y[:, None], upper=False)[:, 0]
        return 0.5 * z @ z + torch.diagonal(root).log().sum()

    loss = wrap(loss)
    return lambda: gradient(loss, p)


def optimal_transport(arguments, wrap):
    x, y = arguments
    n = len(x)

    def cost(x):
        c = ((x[:, None] - y[None]) ** 2).sum(-1)
        f = g = torch.zeros(n)
        for _ in range(20):
            f = -0.1 * (torch.logsumexp((g[None] - c) / 0.1, 1) - np.log(n))
            g = -0.1 * (torch.logsumexp((f[:, None] - c) / 0.1, 0) - np.log(n))
        return (torch.exp((f[:, None] + g[None] - c) / 0.1) / n**2 * c).sum()

    cost = wrap(cost)
    return lambda: gradient(lambda: cost(x), x)


STEPS = {
    make.__name__: make
    for make in (
        n_body, heat_by_fori_loop, fft_poisson, kalman_filter, lstm_training, transformer_forward,
        transformer_training, resnet_block_gradient, k_means, gaussian_process_training,
        optimal_transport,
    )
}  # fmt: skip
