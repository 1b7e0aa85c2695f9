"""Haliax: a small transformer whose axes have names, its blocks stacked and scanned with
checkpoints, trained by optax, with shardings by axis.
"""

import equinox as eqx
import haliax as hax
import jax
import jax.numpy as jnp
import numpy as np
import optax

DISTRIBUTION = "haliax"

Vocab, Embed, Pos = hax.Axis("vocab", 11), hax.Axis("embed", 8), hax.Axis("position", 6)
Heads, Size, Mlp = hax.Axis("heads", 2), hax.Axis("head_size", 4), hax.Axis("mlp", 16)
Layers, Batch = hax.Axis("layers", 3), hax.Axis("batch", 4)


class Block(eqx.Module):
    mix: hax.nn.Linear
    out: hax.nn.Linear
    norm: hax.nn.LayerNorm
    mlp: hax.nn.MLP

    @staticmethod
    def init(*, key):
        keys = jax.random.split(key, 3)
        three = hax.Axis("three", 3)
        return Block(
            hax.nn.Linear.init(Embed, (three, Heads, Size), key=keys[0], use_bias=False),
            hax.nn.Linear.init((Heads, Size), Embed, key=keys[1]),
            hax.nn.LayerNorm.init(Embed),
            hax.nn.MLP.init(Embed, Embed, Mlp.size, 1, key=keys[2], activation=hax.nn.gelu),
        )

    def __call__(self, x):
        query, key, value = self.mix(self.norm(x)).unbind("three")
        key = key.rename({"position": "key_position"})
        value = value.rename({"position": "key_position"})
        mask = hax.arange(Pos) >= hax.arange(Pos.alias("key_position")).broadcast_axis(Pos)
        x = x + self.out(
            hax.nn.attention.dot_product_attention(
                "key_position", Size, query, key, value, mask=mask
            )
        )
        return x + self.mlp(self.norm(x))


class Model(eqx.Module):
    embedding: hax.nn.Embedding
    blocks: hax.nn.Stacked
    norm: hax.nn.LayerNorm

    @staticmethod
    def init(key):
        first, second = jax.random.split(key)
        blocks = hax.nn.Stacked.init(Layers, Block, gradient_checkpointing=True)(
            key=jax.random.split(second, Layers.size)
        )
        return Model(
            hax.nn.Embedding.init(Vocab, Embed, key=first), blocks, hax.nn.LayerNorm.init(Embed)
        )

    def __call__(self, tokens):
        x = self.blocks.fold(self.embedding(tokens))
        return self.embedding.unembed(self.norm(x))


def main(timed):
    model = Model.init(jax.random.PRNGKey(0))
    tokens = hax.random.randint(jax.random.PRNGKey(1), (Batch, Pos), 0, Vocab.size)
    optimizer = optax.sgd(0.1, momentum=0.9)

    def loss(model, tokens):
        targets = hax.nn.one_hot(hax.roll(tokens, -1, Pos), Vocab)
        weight = hax.arange(Pos) < Pos.size - 1
        found = hax.nn.cross_entropy_loss(model(tokens), Vocab, targets, where=weight)
        return found.scalar() if isinstance(found, hax.NamedArray) else found

    @timed
    @hax.named_jit
    def step(model, state, tokens):
        value, grads = eqx.filter_value_and_grad(loss)(model, tokens)
        updates, state = optimizer.update(grads, state)
        return value, eqx.apply_updates(model, updates), state

    state = optimizer.init(eqx.filter(model, eqx.is_array))
    values = []
    for _ in range(6):
        value, model, state = step(model, state, tokens)
        values.append(value)

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    with mesh, hax.axis_mapping({"batch": "data"}):
        logits = hax.named_jit(lambda model, tokens: hax.shard(model(tokens)))(model, tokens)
    mapped = hax.vmap(lambda row: hax.sum(hax.exp(row["vocab", 2:5])), Batch)(logits["position", 0])
    return {
        "values": np.array(values),
        "logits": logits.array,
        "axes": np.array([axis.size for axis in logits.axes]),
        "mapped": mapped.array,
        "best": hax.argmax(logits, Vocab).array,
        "contracted": hax.dot(logits, logits, axis=("batch", "vocab")).array,
        "scanned": hax.scan(lambda c, x: (c + x, c * 2.0), Pos)(hax.zeros(()), ramp())[1].array,
    }


def ramp():
    return hax.named(jnp.linspace(0.0, 1.0, Pos.size), Pos)
