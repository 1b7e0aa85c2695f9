"""Keras with its JAX backend: a small image classifier with fit, evaluate and predict, a stateless
training step of one's own, and a recurrent network.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np

DISTRIBUTION = "keras"


def images(count):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, count)
    pictures = rng.normal(size=(count, 8, 8, 1)).astype(np.float32)
    pictures[np.arange(count), labels * 2, :, 0] += 2.0
    return pictures, labels


def classifier():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.1, seed=3),
            keras.layers.Dense(16, activation="gelu"),
            keras.layers.LayerNormalization(),
            keras.layers.Dense(3),
        ]
    )


def main(timed):
    assert keras.backend.backend() == "jax"
    keras.utils.set_random_seed(0)
    x, y = images(48)
    model = classifier()
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0)
    evaluated = model.evaluate(x, y, batch_size=16, verbose=0)
    predicted = model.predict(x[:4], verbose=0)

    tuned = classifier()
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(tuned.trainable_variables)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(trainable, fixed, x, y):
        logits, fixed = tuned.stateless_call(trainable, fixed, x, training=True)
        return criterion(y, logits), fixed

    @timed
    @jax.jit
    def step(trainable, fixed, state, x, y):
        (value, fixed), grads = jax.value_and_grad(loss, has_aux=True)(trainable, fixed, x, y)
        trainable, state = optimizer.stateless_apply(state, grads, trainable)
        return value, trainable, fixed, state

    trainable = [v.value for v in tuned.trainable_variables]
    fixed = [v.value for v in tuned.non_trainable_variables]
    state = [v.value for v in optimizer.variables]
    values = []
    for i in range(6):
        rows = slice(16 * (i % 3), 16 * (i % 3) + 16)
        value, trainable, fixed, state = step(trainable, fixed, state, x[rows], y[rows])
        values.append(value)

    recurrent = keras.Sequential([keras.Input((5, 3)), keras.layers.GRU(4), keras.layers.Dense(1)])
    return {
        "losses": np.array(history.history["loss"]),
        "accuracy": np.array(history.history["accuracy"]),
        "evaluated": np.array(evaluated),
        "predicted": predicted,
        "values": np.array(values),
        "kernel": trainable[0],
        "recurrent": recurrent(x[:2, :5, :3, 0]),
        "attention": keras.layers.MultiHeadAttention(2, 4, seed=1)(x[:2, :, :, 0], x[:2, :, :, 0]),
        "ops": keras.ops.segment_sum(x[:6, 0, 0, 0], np.array([0, 0, 1, 1, 2, 2]), 3),
    }
