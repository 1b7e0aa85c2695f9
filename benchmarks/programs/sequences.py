"""Models of sequences: transformers, recurrent networks, state spaces."""

import numpy as np

import workloads
from programs.registry import program


def gpt(size):
    return workloads.GPT(
        layers=size(4, 2), d=size(128, 8), heads=size(4, 2), vocab=size(512, 11), seq=size(64, 5),
        batch=size(4, 2),
    )  # fmt: skip


@program()
def transformer_forward(lib, size):
    """The loss of a decoder of four layers."""
    c = gpt(size)
    return workloads.gpt_loss(lib, c, use_nn=True), workloads.gpt_numpy(c)


@program()
def transformer_training(lib, size):
    """A step of Adam of a decoder of four layers."""
    c = gpt(size)
    params, *batch = workloads.gpt_numpy(c)
    zeros = workloads._walk(params, np.zeros_like)
    step = workloads.adam(lib, workloads.gpt_loss(lib, c, use_nn=True))
    return step, (params, zeros, zeros, np.float32(0), *batch)


@program()
def transformer_checkpointed(lib, size):
    """The gradient of a decoder whose layers are scanned and computed again in reverse."""
    c = gpt(size)
    params, *batch = workloads.gpt_numpy(c)
    stack = lambda *leaves: np.stack(leaves)
    blocks = {
        part: {name: stack(*[b[part][name] for b in params["blocks"]]) for name in leaves}
        for part, leaves in params["blocks"][0].items()
    }
    loss = workloads.gpt_loss(lib, c, use_nn=True, how="checkpoint")
    return lib.value_and_grad(loss), (params | {"blocks": blocks}, *batch)


@program()
def transformer_decoding(lib, size):
    """Greedy decoding, token by token, with a cache of keys and values that is updated in place."""
    jnp, lax = lib.numpy, lib.lax
    c = gpt(size)
    heads, width, steps = c.heads, c.d // c.heads, size(32, 3)

    def layer_norm(x, p):
        x = x - jnp.mean(x, axis=-1, keepdims=True)
        return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * p["g"] + p["b"]

    def block(x, p, keys, values, t):
        h = layer_norm(x, p["ln1"]) @ p["attn"]["wqkv"] + p["attn"]["bqkv"]
        q, k, v = jnp.split(h.reshape(c.batch, 3 * heads, width), 3, axis=1)
        keys = lax.dynamic_update_slice_in_dim(keys, k[:, :, None], t, axis=2)
        values = lax.dynamic_update_slice_in_dim(values, v[:, :, None], t, axis=2)
        score = jnp.einsum("bhd,bhtd->bht", q, keys) / np.sqrt(width)
        score = jnp.where(jnp.arange(c.seq) <= t, score, -1e9)
        out = jnp.einsum("bht,bhtd->bhd", lib.nn.softmax(score), values).reshape(c.batch, c.d)
        x = x + out @ p["attn"]["wo"] + p["attn"]["bo"]
        h = lib.nn.gelu(layer_norm(x, p["ln2"]) @ p["mlp"]["w1"] + p["mlp"]["b1"])
        return x + h @ p["mlp"]["w2"] + p["mlp"]["b2"], keys, values

    def step(params, first, cache):
        def decode(state, t):
            token, cache = state
            x = params["wte"][token] + params["wpe"][t]
            kept = []
            for p, (keys, values) in zip(params["blocks"], cache, strict=True):
                x, keys, values = block(x, p, keys, values, t)
                kept.append((keys, values))
            logits = layer_norm(x, params["lnf"]) @ params["wte"].T
            token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
            return (token, kept), jnp.max(logits, axis=-1)

        (token, _), best = lax.scan(decode, (first, cache), jnp.arange(steps))
        return token, best

    params, tokens, _ = workloads.gpt_numpy(c)
    empty = np.zeros((c.batch, heads, c.seq, width), np.float32)
    return step, (params, tokens[:, 0], [(empty, empty)] * c.layers)


@program()
def beam_search(lib, size):
    """Beam search over a recurrent model: `top_k`, and the states of the beams that stay."""
    jnp, lax = lib.numpy, lib.lax
    batch, beams, words, d, steps = size(8, 2), 4, size(1000, 9), size(128, 5), size(20, 3)

    def step(p, state):
        def extend(carry, _):
            h, token, score = carry
            h = jnp.tanh(p["embed"][token] + h @ p["w"])
            log_p = lib.nn.log_softmax(h @ p["out"])
            total = (score[..., None] + log_p).reshape(batch, -1)
            score, index = lax.top_k(total, beams)
            beam, token = index // words, index % words
            h = jnp.take_along_axis(h, beam[..., None], axis=1)
            return (h, token, score), (beam, token)

        h = jnp.broadcast_to(state[:, None], (batch, beams, d))
        start = jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf)
        carry = h, jnp.zeros((batch, beams), jnp.int32), jnp.broadcast_to(start, (batch, beams))
        (_, _, score), (parents, tokens) = lax.scan(extend, carry, None, length=steps)

        def back(beam, step):
            parent, token = step
            best = jnp.take_along_axis(token, beam, axis=1)
            return jnp.take_along_axis(parent, beam, axis=1), best

        last = jnp.broadcast_to(jnp.arange(beams), (batch, beams))
        return score, lax.scan(back, last, (parents, tokens), reverse=True)[1]

    p = {"embed": workloads.f32(words, d), "w": workloads.f32(d, d, seed=1, scale=d**-0.5),
         "out": workloads.f32(d, words, seed=2, scale=2 * d**-0.5)}  # fmt: skip
    return step, (p, workloads.f32(batch, d, seed=3))


@program()
def lstm_training(lib, size):
    """The gradient of an LSTM over a batch of sequences, by `scan`."""
    jnp, lax = lib.numpy, lib.lax
    steps, batch, inputs, d = size(64, 4), size(32, 2), size(32, 3), size(96, 4)

    def loss(p, xs, y):
        def cell(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ p["wx"] + h @ p["wh"] + p["b"], 4, axis=-1)
            c = lib.nn.sigmoid(f + 1.0) * c + lib.nn.sigmoid(i) * jnp.tanh(g)
            h = lib.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((batch, d))
        _, hs = lax.scan(cell, (zero, zero), xs)
        return jnp.mean((hs @ p["out"] - y) ** 2)

    p = {"wx": workloads.f32(inputs, 4 * d, scale=inputs**-0.5),
         "wh": workloads.f32(d, 4 * d, seed=1, scale=d**-0.5),
         "b": np.zeros(4 * d, np.float32),
         "out": workloads.f32(d, 1, seed=2, scale=d**-0.5)}  # fmt: skip
    data = workloads.f32(steps, batch, inputs, seed=3), workloads.f32(steps, batch, 1, seed=4)
    return lib.value_and_grad(loss), (p, *data)


@program()
def bidirectional_gru(lib, size):
    """A GRU in both directions, forward: one model under `vmap` over examples."""
    jnp, lax = lib.numpy, lib.lax
    steps, batch, inputs, d = size(100, 5), size(32, 2), size(32, 3), size(64, 4)

    def gru(p, xs, reverse):
        def cell(h, x):
            r, z = jnp.split(lib.nn.sigmoid(x @ p["wx"] + h @ p["wh"]), 2)
            n = jnp.tanh(x @ p["nx"] + r * (h @ p["nh"]))
            h = (1 - z) * n + z * h
            return h, h

        return lax.scan(cell, jnp.zeros(d), xs, reverse=reverse)[1]

    def step(p, xs):
        both = lambda xs: jnp.concatenate([gru(p[0], xs, False), gru(p[1], xs, True)], axis=-1)
        return lib.vmap(both)(xs)

    def weights(seed):
        return {"wx": workloads.f32(inputs, 2 * d, seed=seed, scale=0.2),
                "wh": workloads.f32(d, 2 * d, seed=seed + 1, scale=0.1),
                "nx": workloads.f32(inputs, d, seed=seed + 2, scale=0.2),
                "nh": workloads.f32(d, d, seed=seed + 3, scale=0.1)}  # fmt: skip

    return step, ((weights(0), weights(4)), workloads.f32(batch, steps, inputs, seed=9))


@program()
def state_space_layer(lib, size):
    """A diagonal state-space layer by `associative_scan`, and its gradient."""
    jnp, lax = lib.numpy, lib.lax
    steps, d, states = size(512, 6), size(32, 3), size(8, 2)

    def layer(p, u):
        decay = jnp.exp(-jnp.exp(p["log_rate"]))
        drive = p["b"] * u[:, :, None]

        def combine(first, second):
            return first[0] * second[0], second[0] * first[1] + second[1]

        decays = jnp.broadcast_to(decay, drive.shape)
        _, x = lax.associative_scan(combine, (decays, drive))
        return jnp.sum(p["c"] * x, axis=-1) + p["d"] * u

    def step(p, u, y):
        return lib.value_and_grad(lambda p: jnp.mean((layer(p, u) - y) ** 2))(p)

    p = {"log_rate": workloads.f32(d, states, scale=0.5) - 2.0, "b": workloads.f32(d, states),
         "c": workloads.f32(d, states, seed=1), "d": np.ones(d, np.float32)}  # fmt: skip
    p["log_rate"] = p["log_rate"].astype(np.float32)
    return step, (p, workloads.f32(steps, d, seed=2), workloads.f32(steps, d, seed=3))
