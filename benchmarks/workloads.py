"""Programs that the cases measure, in plain use of the public surface.

Every builder takes the library's root package and returns functions; data is
made by numpy, so that no case depends on how a library draws random numbers.
"""

import numpy as np


def rng(seed=0):
    return np.random.default_rng(seed)


def f32(*shape, seed=0, scale=1.0):
    return (scale * rng(seed).standard_normal(shape)).astype(np.float32)


def tree_map(lib, f, *trees):
    return lib.tree_util.tree_map(f, *trees)


def to_lib(lib, tree):
    return tree_map(lib, lib.numpy.asarray, tree)


def to_shapes(lib, tree):
    return tree_map(lib, lambda a: lib.ShapeDtypeStruct(a.shape, a.dtype), tree)


# ---- straight-line chains ---------------------------------------------------


def chain_lax(lib, n):
    lax = lib.lax

    def f(x, a, b):
        for i in range(n):
            k = i % 3
            if k == 0:
                x = lax.sin(x)
            elif k == 1:
                x = lax.mul(x, a)
            else:
                x = lax.add(x, b)
        return x

    return f


def chain_ops(lib, n):
    """The same through numpy-level functions and operators."""
    jnp = lib.numpy

    def f(x, a, b):
        for i in range(n):
            k = i % 3
            if k == 0:
                x = jnp.sin(x)
            elif k == 1:
                x = x * a
            else:
                x = x + b
        return x

    return f


# ---- MLP --------------------------------------------------------------------


def mlp_params(sizes, seed=0):
    r = rng(seed)
    return [
        {
            "w": (r.standard_normal((i, o)) / np.sqrt(i)).astype(np.float32),
            "b": np.zeros((o,), np.float32),
        }
        for i, o in zip(sizes[:-1], sizes[1:], strict=True)
    ]


def mlp_loss(lib):
    jnp = lib.numpy

    def predict(params, x):
        for layer in params[:-1]:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def loss(params, x, y):
        d = predict(params, x) - y
        return jnp.mean(d * d)

    return loss


def mlp_xent(lib):
    """ReLU MLP classifier with log-softmax cross-entropy on one-hot labels."""
    jnp = lib.numpy

    def loss(params, x, onehot):
        for layer in params[:-1]:
            x = jnp.maximum(x @ layer["w"] + layer["b"], 0.0)
        z = x @ params[-1]["w"] + params[-1]["b"]
        z = z - jnp.max(z, axis=-1, keepdims=True)
        logp = z - jnp.log(jnp.sum(jnp.exp(z), axis=-1, keepdims=True))
        return -jnp.mean(jnp.sum(onehot * logp, axis=-1))

    return loss


def sgd_momentum(lib, loss, lr=0.01, mu=0.9):
    def step(params, vel, x, y):
        value, g = lib.value_and_grad(loss)(params, x, y)
        vel = tree_map(lib, lambda v, d: mu * v + d, vel, g)
        params = tree_map(lib, lambda p, v: p - lr * v, params, vel)
        return params, vel, value

    return step


# ---- GPT-like decoder -------------------------------------------------------


class GPT:
    def __init__(self, layers=12, d=768, heads=12, vocab=50257, seq=1024, batch=1):
        self.layers, self.d, self.heads = layers, d, heads
        self.vocab, self.seq, self.batch = vocab, seq, batch


GPT2_SMALL = dict(layers=12, d=768, heads=12, vocab=50257, seq=1024, batch=1)
GPT_TINY = dict(layers=12, d=64, heads=4, vocab=256, seq=32, batch=2)
GPT_CPU = dict(layers=4, d=128, heads=4, vocab=512, seq=64, batch=8)


class _Shape:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)


def gpt_param_shapes(c):
    d, s = c.d, lambda *sh: _Shape(sh, np.float32)
    block = lambda: {
        "ln1": {"g": s(d), "b": s(d)},
        "attn": {"wqkv": s(d, 3 * d), "bqkv": s(3 * d), "wo": s(d, d), "bo": s(d)},
        "ln2": {"g": s(d), "b": s(d)},
        "mlp": {"w1": s(d, 4 * d), "b1": s(4 * d), "w2": s(4 * d, d), "b2": s(d)},
    }
    return {
        "wte": s(c.vocab, d),
        "wpe": s(c.seq, d),
        "blocks": [block() for _ in range(c.layers)],
        "lnf": {"g": s(d), "b": s(d)},
    }


def _walk(tree, f):
    if isinstance(tree, dict):
        return {k: _walk(v, f) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_walk(v, f) for v in tree]
    return f(tree)


def gpt_abstract(lib, c):
    """(params, tokens, targets) as ShapeDtypeStructs: nothing is allocated."""
    sds = lambda a: lib.ShapeDtypeStruct(a.shape, a.dtype)
    tok = lib.ShapeDtypeStruct((c.batch, c.seq), np.dtype(np.int32))
    return _walk(gpt_param_shapes(c), sds), tok, tok


def gpt_numpy(c, seed=0):
    r = rng(seed)
    p = _walk(gpt_param_shapes(c), lambda a: (0.02 * r.standard_normal(a.shape)).astype(np.float32))
    for b in p["blocks"] + [{"ln1": p["lnf"]}]:
        for k in ("ln1", "ln2"):
            if k in b:
                b[k]["g"] = np.ones_like(b[k]["g"])
    tok = r.integers(0, c.vocab, (c.batch, c.seq)).astype(np.int32)
    tgt = r.integers(0, c.vocab, (c.batch, c.seq)).astype(np.int32)
    return p, tok, tgt


def gpt_loss(lib, c, use_nn=False, how="unrolled"):
    """The loss of a GPT. how: "unrolled" takes a list of blocks, "scan" and "checkpoint" take one
    tree of stacked ones."""
    jnp = lib.numpy
    B, T, D, H = c.batch, c.seq, c.d, c.heads
    hd = D // H

    def layer_norm(x, p):
        m = jnp.mean(x, axis=-1, keepdims=True)
        xc = x - m
        v = jnp.mean(xc * xc, axis=-1, keepdims=True)
        return xc / jnp.sqrt(v + 1e-5) * p["g"] + p["b"]

    if use_nn:
        gelu, softmax = lib.nn.gelu, lambda s: lib.nn.softmax(s, axis=-1)
    else:

        def gelu(x):
            return 0.5 * x * (1.0 + jnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

        def softmax(s):
            s = s - jnp.max(s, axis=-1, keepdims=True)
            e = jnp.exp(s)
            return e / jnp.sum(e, axis=-1, keepdims=True)

    def attention(x, p, mask):
        qkv = x @ p["wqkv"] + p["bqkv"]
        qkv = jnp.reshape(qkv, (B, T, 3, H, hd))
        qkv = jnp.transpose(qkv, (2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        s = (q @ jnp.swapaxes(k, -1, -2)) * (1.0 / float(np.sqrt(hd)))
        s = jnp.where(mask, s, -1e9)
        o = softmax(s) @ v
        o = jnp.reshape(jnp.transpose(o, (0, 2, 1, 3)), (B, T, D))
        return o @ p["wo"] + p["bo"]

    def loss(params, tokens, targets):
        i = jnp.arange(T)
        mask = i[:, None] >= i[None, :]
        x = params["wte"][tokens] + params["wpe"]

        def block(x, b):
            x = x + attention(layer_norm(x, b["ln1"]), b["attn"], mask)
            h = layer_norm(x, b["ln2"])
            h = gelu(h @ b["mlp"]["w1"] + b["mlp"]["b1"])
            return x + h @ b["mlp"]["w2"] + b["mlp"]["b2"]

        if how == "unrolled":
            for b in params["blocks"]:
                x = block(x, b)
        else:
            step = lib.checkpoint(block) if how == "checkpoint" else block
            x, _ = lib.lax.scan(lambda x, b: (step(x, b), None), x, params["blocks"])
        x = layer_norm(x, params["lnf"])
        z = x @ jnp.transpose(params["wte"])
        z = z - jnp.max(z, axis=-1, keepdims=True)
        lse = jnp.log(jnp.sum(jnp.exp(z), axis=-1))
        picked = jnp.take_along_axis(z, targets[..., None], axis=-1)[..., 0]
        return jnp.mean(lse - picked)

    return loss


def adam(lib, loss, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
    jnp = lib.numpy

    def step(params, m, v, t, *batch):
        value, g = lib.value_and_grad(loss)(params, *batch)
        t = t + 1.0
        m = tree_map(lib, lambda a, d: b1 * a + (1 - b1) * d, m, g)
        v = tree_map(lib, lambda a, d: b2 * a + (1 - b2) * d * d, v, g)
        s = lr * jnp.sqrt(1 - b2**t) / (1 - b1**t)
        params = tree_map(lib, lambda p, a, b: p - s * a / (jnp.sqrt(b) + eps), params, m, v)
        return params, m, v, t, value

    return step


# ---- simulations ------------------------------------------------------------


def nbody(lib, steps=10, dt=1e-3, eps=1e-2):
    jnp, lax = lib.numpy, lib.lax

    def accel(pos, mass):
        d = pos[None, :, :] - pos[:, None, :]
        r2 = jnp.sum(d * d, axis=-1) + eps
        w = mass[None, :] / (r2 * jnp.sqrt(r2))
        return jnp.sum(d * w[:, :, None], axis=1)

    def run(pos, vel, mass):
        def body(_, s):
            pos, vel = s
            vel = vel + 0.5 * dt * accel(pos, mass)
            pos = pos + dt * vel
            vel = vel + 0.5 * dt * accel(pos, mass)
            return pos, vel

        return lax.fori_loop(0, steps, body, (pos, vel))

    return run


def heat_fori(lib, steps=100, k=0.2):
    jnp, lax = lib.numpy, lib.lax

    def run(u):
        def body(_, u):
            p = jnp.pad(u, ((1, 1), (1, 1)))
            lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u
            return u + k * lap

        return lax.fori_loop(0, steps, body, u)

    return run


def heat_scan(lib, steps=100, k=0.2):
    jnp, lax = lib.numpy, lib.lax

    def run(u):
        def body(u, _):
            p = jnp.pad(u, ((1, 1), (1, 1)))
            lap = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u
            u = u + k * lap
            return u, jnp.sum(u)

        return lax.scan(body, u, None, length=steps)

    return run


def logreg_loss(lib):
    jnp = lib.numpy

    def loss(w, X, y):
        z = X @ w
        # log(1 + exp(-y z)), stable
        a = -y * z
        m = jnp.maximum(a, 0.0)
        return jnp.mean(m + jnp.log(jnp.exp(-m) + jnp.exp(a - m))) + 1e-3 * jnp.sum(w * w)

    return loss


def hvp(lib, loss):
    def f(w, v, X, y):
        g = lambda w: lib.grad(loss)(w, X, y)
        return lib.jvp(g, (w,), (v,))[1]

    return f


def rnn_loss(lib):
    """A tanh recurrence under scan; the loss is on the last state."""
    jnp, lax = lib.numpy, lib.lax

    def loss(p, h0, xs):
        def body(h, x):
            h = jnp.tanh(h @ p["w"] + x @ p["u"] + p["b"])
            return h, None

        h, _ = lax.scan(body, h0, xs)
        return jnp.sum(h * h)

    return loss


def deep_mlp_loss(lib, remat=False, scan=False):
    """Equal-width residual MLP; each layer checkpointed if `remat`."""
    jnp, lax = lib.numpy, lib.lax

    def layer(x, p):
        return x + jnp.tanh(jnp.tanh(x @ p["w1"]) @ p["w2"])

    g = lib.checkpoint(layer) if remat else layer

    def unrolled(params, x):
        for p in params:
            x = g(x, p)
        return jnp.sum(x * x)

    def scanned(stacked, x):
        x, _ = lax.scan(lambda x, p: (g(x, p), None), x, stacked)
        return jnp.sum(x * x)

    return scanned if scan else unrolled
