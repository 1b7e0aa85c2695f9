"""Networks that are trained or run: images, sets, graphs and experts."""

import numpy as np

import workloads
from programs.registry import program


def descend(lib, params, gradient, rate=0.01):
    """Parameters after a step of gradient descent."""
    return lib.tree_util.tree_map(lambda p, g: p - rate * g, params, gradient)


@program()
def mlp_training(lib, size):
    """A step of SGD with momentum of a classifier with two hidden layers."""
    width, batch, inputs = size(512, 8), size(128, 4), size(784, 6)
    params = workloads.mlp_params([inputs, width, width, 10])
    velocity = [{k: np.zeros_like(v) for k, v in layer.items()} for layer in params]
    labels = np.eye(10, dtype=np.float32)[np.arange(batch) % 10]
    step = workloads.sgd_momentum(lib, workloads.mlp_xent(lib))
    return step, (params, velocity, workloads.f32(batch, inputs), labels)


def residual_block(lib):
    """Two convolutions with batch normalization around a shortcut."""
    jnp, lax = lib.numpy, lib.lax

    def convolve(x, w):
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def normalize(x, scale, shift):
        mean = jnp.mean(x, axis=(0, 1, 2))
        variance = jnp.var(x, axis=(0, 1, 2))
        return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift

    def block(p, x):
        h = lib.nn.relu(normalize(convolve(x, p["w1"]), p["g1"], p["b1"]))
        h = normalize(convolve(h, p["w2"]), p["g2"], p["b2"])
        return lib.nn.relu(x + h)

    return block


def residual_arguments(size):
    c, n, batch = size(32, 3), size(28, 5), size(8, 2)
    r = workloads.rng()
    p = {f"w{i}": (r.normal(size=(3, 3, c, c)) / (3 * np.sqrt(c))).astype(np.float32) for i in "12"}
    for i in "12":
        p[f"g{i}"], p[f"b{i}"] = np.ones(c, np.float32), np.zeros(c, np.float32)
    return p, workloads.f32(batch, n, n, c)


@program()
def resnet_block(lib, size):
    """A residual block of convolutions with batch normalization, forward."""
    return residual_block(lib), residual_arguments(size)


@program()
def resnet_block_gradient(lib, size):
    """The gradient of a residual block by its parameters and inputs."""
    jnp = lib.numpy
    block = residual_block(lib)
    loss = lambda p, x: jnp.mean(block(p, x) ** 2)
    return lib.value_and_grad(loss, argnums=(0, 1)), residual_arguments(size)


@program()
def unet_training(lib, size):
    """A step of a small U-Net: strided convolutions, enlargement by `resize`, skip connections."""
    jnp, lax = lib.numpy, lib.lax
    n, batch, c = size(32, 8), size(4, 1), size(16, 2)
    r = workloads.rng()
    weight = lambda i, o: (r.normal(size=(3, 3, i, o)) / (3 * np.sqrt(i))).astype(np.float32)
    params = {"in": weight(1, c), "down1": weight(c, 2 * c), "down2": weight(2 * c, 4 * c)}
    params |= {"up1": weight(6 * c, 2 * c), "up2": weight(3 * c, c), "out": weight(c, 1)}

    def convolve(x, w, stride=1):
        return lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def enlarge(x):
        b, h, w, c = x.shape
        return lib.image.resize(x, (b, 2 * h, 2 * w, c), "bilinear")

    def loss(p, x, y):
        a = lib.nn.silu(convolve(x, p["in"]))
        b = lib.nn.silu(convolve(a, p["down1"], 2))
        c = lib.nn.silu(convolve(b, p["down2"], 2))
        b = lib.nn.silu(convolve(jnp.concatenate([enlarge(c), b], -1), p["up1"]))
        a = lib.nn.silu(convolve(jnp.concatenate([enlarge(b), a], -1), p["up2"]))
        return jnp.mean((convolve(a, p["out"]) - y) ** 2)

    def step(p, x, y):
        value, gradient = lib.value_and_grad(loss)(p, x, y)
        return descend(lib, p, gradient), value

    return step, (params, workloads.f32(batch, n, n, 1), workloads.f32(batch, n, n, 1, seed=1))


@program()
def mixture_of_experts(lib, size):
    """A layer of experts, two for each token, by gather and scatter, and its gradient."""
    jnp, lax = lib.numpy, lib.lax
    tokens, d, experts, capacity = size(1024, 10), size(64, 4), size(8, 3), size(320, 8)

    def layer(p, x):
        gates = lib.nn.softmax(x @ p["router"])
        gate, expert = lax.top_k(gates, 2)
        gate = gate / jnp.sum(gate, axis=-1, keepdims=True)
        flat = expert.reshape(-1)
        chosen = lib.nn.one_hot(flat, experts, dtype=jnp.int32)
        place = jnp.sum(jnp.cumsum(chosen, axis=0) * chosen, axis=-1) - 1
        # What an expert has no room for goes past the end, and is dropped.
        place = jnp.where(place < capacity, flat * capacity + place, experts * capacity)
        token = jnp.repeat(jnp.arange(tokens), 2)
        slots = jnp.zeros((experts * capacity, d)).at[place].add(x[token], mode="drop")
        h = lib.nn.gelu(jnp.einsum("ecd,edh->ech", slots.reshape(experts, capacity, d), p["w1"]))
        out = jnp.einsum("ech,ehd->ecd", h, p["w2"]).reshape(-1, d)
        back = out.at[place].get(mode="fill", fill_value=0.0)
        return jnp.zeros_like(x).at[token].add(back * gate.reshape(-1, 1))

    def step(p, x):
        return lib.value_and_grad(lambda p: jnp.mean((layer(p, x) - x) ** 2))(p)

    params = {
        "router": workloads.f32(d, experts),
        "w1": workloads.f32(experts, d, 2 * d, scale=d**-0.5),
        "w2": workloads.f32(experts, 2 * d, d, seed=1, scale=(2 * d) ** -0.5),
    }
    return step, (params, workloads.f32(tokens, d, seed=2))


@program()
def graph_network(lib, size):
    """Two rounds of messages along edges, summed per node, and a step of training."""
    jnp = lib.numpy
    nodes, edges, d = size(2000, 7), size(10000, 15), size(32, 3)
    r = workloads.rng()

    def forward(p, x, sender, receiver):
        for layer in p["layers"]:
            pair = jnp.concatenate([x[sender], x[receiver]], axis=-1)
            message = lib.nn.relu(pair @ layer["message"])
            total = lib.ops.segment_sum(message, receiver, num_segments=nodes)
            count = lib.ops.segment_sum(jnp.ones_like(receiver), receiver, num_segments=nodes)
            mean = total / jnp.maximum(count, 1)[:, None]
            x = x + jnp.tanh(jnp.concatenate([x, mean], axis=-1) @ layer["update"])
        return x @ p["out"]

    def step(p, x, sender, receiver, labels):
        def loss(p):
            log_p = lib.nn.log_softmax(forward(p, x, sender, receiver))
            return -jnp.mean(jnp.take_along_axis(log_p, labels[:, None], axis=1))

        value, gradient = lib.value_and_grad(loss)(p)
        return descend(lib, p, gradient), value

    weight = lambda i, o: (r.normal(size=(i, o)) / np.sqrt(i)).astype(np.float32)
    layers = [{"message": weight(2 * d, d), "update": weight(2 * d, d)} for _ in range(2)]
    ends = r.integers(0, nodes, (2, edges)).astype(np.int32)
    labels = r.integers(0, 5, nodes).astype(np.int32)
    params = {"layers": layers, "out": weight(d, 5)}
    return step, (params, workloads.f32(nodes, d), *ends, labels)


@program()
def variational_autoencoder(lib, size):
    """A step of Adam of a variational autoencoder, its noise drawn inside."""
    jnp = lib.numpy
    pixels, width, latent, batch = size(784, 10), size(256, 8), size(16, 2), size(64, 3)

    def loss(p, images, key):
        h = lib.nn.relu(images @ p["e1"])
        mean, log_var = jnp.split(h @ p["e2"], 2, axis=-1)
        z = mean + jnp.exp(0.5 * log_var) * lib.random.normal(key, mean.shape)
        logits = lib.nn.relu(z @ p["d1"]) @ p["d2"]
        likelihood = jnp.sum(logits * images - jnp.logaddexp(0.0, logits), axis=-1)
        divergence = 0.5 * jnp.sum(mean**2 + jnp.exp(log_var) - log_var - 1, axis=-1)
        return jnp.mean(divergence - likelihood)

    r = workloads.rng()
    weight = lambda i, o: (r.normal(size=(i, o)) / np.sqrt(i)).astype(np.float32)
    params = {"e1": weight(pixels, width), "e2": weight(width, 2 * latent),
              "d1": weight(latent, width), "d2": weight(width, pixels)}  # fmt: skip
    zeros = {k: np.zeros_like(v) for k, v in params.items()}
    images = (r.uniform(size=(batch, pixels)) < 0.3).astype(np.float32)
    step = workloads.adam(lib, loss)
    return step, (params, zeros, zeros, np.float32(0), images, lib.random.key(1))


@program()
def word_embeddings(lib, size):
    """Skip-gram with negative samples: a gradient that is a scatter into a large table."""
    jnp = lib.numpy
    words, d, batch = size(10000, 20), size(64, 4), size(512, 6)

    def loss(tables, center, context, key):
        noise = lib.random.randint(key, (batch, 8), 0, words)
        u = tables["in"][center]
        near = jnp.sum(u * tables["out"][context], axis=-1)
        far = jnp.einsum("bd,bkd->bk", u, tables["out"][noise])
        return -jnp.mean(lib.nn.log_sigmoid(near) + jnp.sum(lib.nn.log_sigmoid(-far), axis=-1))

    def step(tables, center, context, key):
        value, gradient = lib.value_and_grad(loss)(tables, center, context, key)
        return descend(lib, tables, gradient, 0.1), value

    tables = {k: workloads.f32(words, d, seed=i, scale=0.3) for i, k in enumerate(("in", "out"))}
    pairs = workloads.rng().integers(0, words, (2, batch)).astype(np.int32)
    return step, (tables, *pairs, lib.random.key(5))


@program()
def private_gradients(lib, size):
    """Gradients of single examples by `vmap`, clipped, averaged and noised."""
    jnp = lib.numpy
    batch, sizes = size(64, 3), size([256, 128, 10], [5, 4, 3])
    loss = workloads.mlp_loss(lib)

    def step(params, x, y, key):
        def clipped(x, y):
            gradient = lib.grad(loss)(params, x[None], y[None])
            leaves = lib.tree_util.tree_leaves(gradient)
            norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in leaves))
            factor = jnp.minimum(1.0, 1.0 / norm)
            return lib.tree_util.tree_map(lambda g: g * factor, gradient)

        gradients = lib.vmap(clipped)(x, y)
        leaves, tree = lib.tree_util.tree_flatten(gradients)
        keys = lib.random.split(key, len(leaves))
        noisy = [
            jnp.mean(leaf, axis=0) + 0.01 * lib.random.normal(k, leaf.shape[1:])
            for leaf, k in zip(leaves, keys, strict=True)
        ]
        return descend(lib, params, lib.tree_util.tree_unflatten(tree, noisy))

    data = workloads.f32(batch, sizes[0]), workloads.f32(batch, sizes[-1], seed=1)
    return step, (workloads.mlp_params(sizes), *data, lib.random.key(2))


@program()
def meta_learning(lib, size):
    """MAML: the gradient through a few steps of gradient descent, for several tasks at once."""
    jnp = lib.numpy
    tasks, shots, width, inner = size(32, 2), size(20, 3), size(64, 4), size(3, 2)
    loss = workloads.mlp_loss(lib)

    def step(params, x, y):
        def adapted(p, x, y):
            for _ in range(inner):
                p = descend(lib, p, lib.grad(loss)(p, x[:shots], y[:shots]))
            return loss(p, x[shots:], y[shots:])

        def outer(p):
            return jnp.mean(lib.vmap(adapted, (None, 0, 0))(p, x, y))

        value, gradient = lib.value_and_grad(outer)(params)
        return descend(lib, params, gradient), value

    x = workloads.f32(tasks, 2 * shots, 1)
    phase = workloads.f32(tasks, 1, 1, seed=1)
    return step, (workloads.mlp_params([1, width, width, 1]), x, np.sin(x + phase))


@program()
def point_cloud_network(lib, size):
    """PointNet: a network for each point, their greatest features, a classifier; its gradient."""
    jnp = lib.numpy
    clouds, points, width = size(8, 2), size(512, 6), size(64, 4)

    def loss(p, x, labels):
        h = lib.nn.relu(lib.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
        logits = jnp.max(h, axis=1) @ p["w3"]
        picked = lib.nn.one_hot(labels, logits.shape[-1]) * lib.nn.log_softmax(logits)
        return -jnp.sum(picked) / clouds

    r = workloads.rng()
    weight = lambda i, o: (r.normal(size=(i, o)) / np.sqrt(i)).astype(np.float32)
    params = {"w1": weight(3, width), "b1": np.zeros(width, np.float32),
              "w2": weight(width, 2 * width), "b2": np.zeros(2 * width, np.float32),
              "w3": weight(2 * width, 10)}  # fmt: skip
    labels = np.arange(clouds, dtype=np.int32) % 10
    return lib.value_and_grad(loss), (params, workloads.f32(clouds, points, 3), labels)
