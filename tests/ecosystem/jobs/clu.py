"""CLU: metrics gathered over batches, and an overview of parameters."""

import flax
import jax
import jax.numpy as jnp
from clu import metrics, parameter_overview

DISTRIBUTION = "clu"


@flax.struct.dataclass
class Scores(metrics.Collection):
    accuracy: metrics.Accuracy
    loss: metrics.Average.from_output("loss")
    last: metrics.LastValue.from_output("rate")


@jax.jit
def batch_scores(weights, x, labels):
    logits = x @ weights
    loss = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]
    return Scores.single_from_model_output(
        logits=logits, labels=labels, loss=loss, rate=jnp.array(0.1)
    )


def main(timed):
    keys = jax.random.split(jax.random.key(0), 3)
    weights = jax.random.normal(keys[0], (5, 3))
    x = jax.random.normal(keys[1], (10, 20, 5))
    labels = jax.random.randint(keys[2], (10, 20), 0, 3)
    step = timed(batch_scores)
    scores = Scores.empty()
    for one, label in zip(x, labels):
        scores = scores.merge(step(weights, one, label))
    rows = parameter_overview.count_parameters({"a": weights, "b": {"c": jnp.ones(4)}})
    return {**scores.compute(), "count": rows}
