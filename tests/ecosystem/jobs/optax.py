"""Optax: a classifier of two spirals, trained by several chains of gradient transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

DISTRIBUTION = "optax"
# Forty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


def spirals(count):
    rng = np.random.default_rng(0)
    turn = np.sqrt(rng.uniform(size=count)) * 3 * np.pi
    label = rng.integers(0, 2, count)
    sign = 2.0 * label - 1.0
    points = np.stack([sign * turn * np.cos(turn), sign * turn * np.sin(turn)], 1) / 6.0
    return jnp.asarray(points, jnp.float32), jnp.asarray(label)


def first_params(key):
    keys = jax.random.split(key, 3)
    sizes = [(2, 32), (32, 32), (32, 2)]
    return [
        {"w": jax.random.normal(k, s) / jnp.sqrt(s[0]), "b": jnp.zeros(s[1])}
        for k, s in zip(keys, sizes)
    ]


def logits(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y).mean()


def chains():
    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-2, 10, 40, 1e-3)
    weights = lambda params: jax.tree.map(lambda p: p.ndim > 1, params)
    return {
        "adamw": optax.chain(
            optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=1e-3, mask=weights)
        ),
        "lion": optax.lion(1e-3),
        "rmsprop": optax.rmsprop(3e-3, momentum=0.9),
        "multi": optax.multi_transform(
            {"first": optax.sgd(0.01, momentum=0.9, nesterov=True), "rest": optax.adam(3e-3)},
            ["first", "rest", "rest"],
        ),
        "lookahead": optax.MultiSteps(optax.nadam(3e-3), every_k_schedule=2),
    }


def main(timed):
    x, y = spirals(256)
    found = {}
    for name, chain in chains().items():
        params = first_params(jax.random.key(1))
        state = chain.init(params)

        @jax.jit
        def step(params, state, chain=chain):
            value, grads = jax.value_and_grad(loss)(params, x, y)
            updates, state = chain.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value

        timed_step = timed(step)
        losses = []
        for _ in range(40):
            params, state, value = timed_step(params, state)
            losses.append(value)
        found[f"{name}_losses"] = jnp.stack(losses)
        found[f"{name}_norm"] = optax.tree.norm(params)
    solver = optax.lbfgs()
    quadratic = lambda z: jnp.sum((z - jnp.arange(5.0)) ** 2 * jnp.array([1, 5, 2, 8, 3.0]))
    z = jnp.ones(5)
    state = solver.init(z)
    value_and_grad = optax.value_and_grad_from_state(quadratic)
    for _ in range(8):
        value, grad = value_and_grad(z, state=state)
        updates, state = solver.update(grad, state, z, value=value, grad=grad, value_fn=quadratic)
        z = optax.apply_updates(z, updates)
    return found | {"lbfgs": z, "accuracy": jnp.mean(jnp.argmax(logits(params, x), 1) == y)}
