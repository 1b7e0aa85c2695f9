"""Orbax: training that is saved step by step, by a manager that keeps the best, and taken up again
from what was saved.
"""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp

DISTRIBUTION = "orbax-checkpoint"


def main(timed):
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (32, 4))
    y = jnp.sin(x).sum(1)
    optimizer = optax.adam(1e-2)

    def fresh():
        params = {
            "hidden": {"w": 0.3 * jax.random.normal(keys[1], (4, 8)), "b": jnp.zeros(8)},
            "out": 0.3 * jax.random.normal(keys[2], (8,)),
        }
        return {
            "params": params,
            "state": optimizer.init(params),
            "step": jnp.int32(0),
            "half": jnp.ones(3, jnp.bfloat16),
        }

    def loss(params):
        hidden = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"])
        return jnp.mean((hidden @ params["out"] - y) ** 2)

    @timed
    @jax.jit
    def step(train):
        value, grads = jax.value_and_grad(loss)(train["params"])
        updates, state = optimizer.update(grads, train["state"])
        return value, {
            "params": optax.apply_updates(train["params"], updates),
            "state": state,
            "step": train["step"] + 1,
            "half": train["half"] * 0.5,
        }

    with tempfile.TemporaryDirectory() as folder:
        options = ocp.CheckpointManagerOptions(
            max_to_keep=2, best_fn=lambda metrics: metrics["loss"], best_mode="min"
        )
        with ocp.CheckpointManager(folder + "/managed", options=options) as manager:
            train = fresh()
            for number in range(6):
                value, train = step(train)
                manager.save(
                    number,
                    args=ocp.args.Composite(
                        train=ocp.args.StandardSave(train), notes=ocp.args.JsonSave({"n": number})
                    ),
                    metrics={"loss": float(value)},
                )
            manager.wait_until_finished()
            kept, best = manager.all_steps(), manager.best_step()
            abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, fresh())
            restored = manager.restore(
                best,
                args=ocp.args.Composite(
                    train=ocp.args.StandardRestore(abstract), notes=ocp.args.JsonRestore()
                ),
            )
        again = restored["train"]
        for _ in range(3):
            value, again = step(again)

        checkpointer = ocp.StandardCheckpointer()
        checkpointer.save(folder + "/alone", train)
        checkpointer.wait_until_finished()
        plain = checkpointer.restore(folder + "/alone")
        saved = ocp.PyTreeCheckpointer().restore(folder + "/alone")
    return {
        "kept": np.array(kept),
        "best": best,
        "note": restored["notes"]["n"],
        "value": value,
        "params": again["params"]["hidden"]["w"],
        "momentum": again["state"][0].mu["out"],
        "count": again["step"],
        "half": jnp.asarray(again["half"], jnp.float32),
        "plain": plain["params"]["out"],
        "leaves": len(jax.tree.leaves(saved)),
        "arrays": all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(plain)),
    }
