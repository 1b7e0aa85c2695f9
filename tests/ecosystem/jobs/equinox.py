"""Equinox: a recurrent classifier of noisy waves with dropout and normalization,
trained by Optax.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

DISTRIBUTION = "equinox"
# Forty steps of Adam amplify the rounding of the first.
TOLERANCE = 1e-5


class Waves(eqx.Module):
    cell: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm
    head: eqx.nn.MLP
    dropout: eqx.nn.Dropout
    width: int = eqx.field(static=True)

    def __init__(self, width, key):
        cell_key, head_key = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(1, width, key=cell_key)
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.MLP(width, 3, 16, 1, activation=jax.nn.gelu, key=head_key)
        self.dropout = eqx.nn.Dropout(0.1)
        self.width = width

    def __call__(self, wave, key, inference=False):
        def advance(state, value):
            return self.cell(value[None], state), None

        state, _ = jax.lax.scan(advance, jnp.zeros(self.width), wave)
        return self.head(self.dropout(self.norm(state), key=key, inference=inference))


class Counted(eqx.Module):
    """Counts its calls in a state that is handed on."""

    index: eqx.nn.StateIndex
    batch_norm: eqx.nn.BatchNorm

    def __init__(self):
        self.index = eqx.nn.StateIndex(jnp.array(0))
        self.batch_norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="ema")

    def __call__(self, x, state):
        state = state.set(self.index, state.get(self.index) + 1)
        return self.batch_norm(x, state)


def waves(count, length):
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 3, count)
    t = np.linspace(0, 2 * np.pi, length)[None]
    phase = rng.uniform(0, 2 * np.pi, (count, 1))
    forms = np.stack([np.sin(t + phase), np.sign(np.sin(t + phase)), (t + phase) / np.pi % 2 - 1])
    wave = forms[kind, np.arange(count)] + 0.1 * rng.normal(size=(count, length))
    return jnp.asarray(wave, jnp.float32), jnp.asarray(kind)


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss(model, x, y, key):
    keys = jax.random.split(key, x.shape[0])
    out = jax.vmap(model)(x, keys)
    return optax.softmax_cross_entropy_with_integer_labels(out, y).mean()


@eqx.filter_custom_vjp
def clipped(x, bound):
    return jnp.sum(x**2)


@clipped.def_fwd
def clipped_fwd(perturbed, x, bound):
    return jnp.sum(x**2), x


@clipped.def_bwd
def clipped_bwd(residual, grad, perturbed, x, bound):
    return jnp.clip(2 * residual * grad, -bound, bound)


def train(timed):
    x, y = waves(64, 24)
    model = Waves(16, jax.random.key(0))
    optimizer = optax.adam(3e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state, key):
        value, grads = loss(model, x, y, key)
        updates, state = optimizer.update(grads, state)
        return eqx.apply_updates(model, updates), state, value

    timed_step = timed(step)
    losses = []
    for key in jax.random.split(jax.random.key(1), 40):
        model, state, value = timed_step(model, state, key)
        losses.append(value)
    quiet = jax.vmap(lambda wave: model(wave, None, inference=True))(x)
    return jnp.stack(losses), quiet


def main(timed):
    losses, quiet = train(timed)
    counted, state = eqx.nn.make_with_state(Counted)()
    batch = jax.random.normal(jax.random.key(5), (8, 4))
    for _ in range(3):
        normed, state = jax.vmap(counted, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
            batch, state
        )
    shapes = eqx.filter_eval_shape(Waves, 8, jax.random.key(0))
    conv = eqx.nn.Conv2d(3, 4, 3, padding=1, key=jax.random.key(7))
    attention = eqx.nn.MultiheadAttention(2, 8, key=jax.random.key(8))
    tokens = jax.random.normal(jax.random.key(9), (5, 8))
    checked = eqx.error_if(jnp.arange(3.0), jnp.array(False), "never")
    loop = eqx.internal.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 1.5), (0, jnp.array(1.0)),
        kind="checkpointed", max_steps=8,
    )  # fmt: skip
    return {
        "losses": losses,
        "logits": quiet,
        "normed": normed,
        "calls": state.get(counted.index),
        "leaves": len(jax.tree.leaves(shapes)),
        "conv": conv(jax.random.normal(jax.random.key(2), (3, 6, 6))),
        "attention": attention(tokens, tokens, tokens),
        "clipped": eqx.filter_grad(clipped)(jnp.array([0.1, 2.0, -3.0]), 1.0),
        "checked": checked,
        "loop": loop[1],
    }
