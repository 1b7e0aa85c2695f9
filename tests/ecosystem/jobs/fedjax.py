"""FedJAX: averaging of what clients learn from data of their own, with a Haiku model, and an
evaluation of it. The averaging is written out: the library's own asks for jax.tree_map, which
JAX 0.10.2 does not have.
"""

import fedjax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

DISTRIBUTION = "fedjax"


def clients(count):
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(6, 3))
    found = {}
    for name in range(count):
        x = (rng.normal(size=(10 + name, 6)) + 0.2 * rng.normal(size=6)).astype(np.float32)
        noise = 0.1 * rng.normal(size=(len(x), 3))
        found[f"client {name}".encode()] = {"x": x, "y": np.argmax(x @ weights + noise, 1)}
    return fedjax.InMemoryFederatedData(found)


def model():
    def forward(batch):
        return hk.Sequential([hk.Linear(8), jax.nn.tanh, hk.Linear(3)])(batch["x"])

    def loss(batch, scores):
        chosen = jax.nn.one_hot(batch["y"], 3)
        return -jnp.sum(jax.nn.log_softmax(scores) * chosen, -1)

    return fedjax.create_model_from_haiku(
        hk.transform(forward),
        sample_batch={"x": np.zeros((1, 6), np.float32), "y": np.zeros(1, np.int32)},
        train_loss=loss,
        eval_metrics={
            "loss": fedjax.metrics.CrossEntropyLoss(),
            "accuracy": fedjax.metrics.Accuracy(),
        },
    )


def main(timed):
    data, net = clients(8), model()
    grad, inner, outer = (
        fedjax.model_grad(net),
        fedjax.optimizers.sgd(0.1),
        fedjax.optimizers.adam(0.05),
    )

    def begin(params, key):
        return {"params": params, "state": inner.init(params), "key": key}

    def learn(own, batch):
        key, use = jax.random.split(own["key"])
        state, params = inner.apply(grad(own["params"], batch, use), own["state"], own["params"])
        return {"params": params, "state": state, "key": key}, {
            "largest": jnp.abs(batch["x"]).max()
        }

    def finish(params, own):
        return jax.tree.map(jnp.subtract, params, own["params"])

    each = fedjax.for_each_client(begin, learn, finish, with_step_result=True)
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, num_clients=4, seed=0)
    batches = fedjax.ShuffleRepeatBatchHParams(batch_size=5, num_epochs=2, seed=0)

    @timed
    def round_of(params, state):
        sampled = [
            (name, part.shuffle_repeat_batch(batches), key) for name, part, key in sampler.sample()
        ]
        moves, largest = [], []
        for _, moved, seen in each(params, sampled):
            moves.append(moved)
            largest.append(seen[-1]["largest"])
        mean = jax.tree.map(lambda *parts: sum(parts) / len(parts), *moves)
        state, params = outer.apply(mean, state, params)
        return params, state, fedjax.tree_util.tree_l2_norm(mean), jnp.stack(largest)

    params = net.init(jax.random.PRNGKey(0))
    state, norms = outer.init(params), []
    for number in range(4):
        sampler.set_round_num(number)
        params, state, norm, largest = round_of(params, state)
        norms.append(norm)
    padded = fedjax.padded_batch_federated_data(data, batch_size=32)
    measured = fedjax.evaluate_model(net, params, padded)
    return {
        "norms": jnp.stack(norms),
        "largest": largest,
        "loss": measured["loss"],
        "accuracy": measured["accuracy"],
        "weights": params["linear"]["w"],
    }
