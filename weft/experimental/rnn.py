"""A long short-term memory network of several layers, with weights in one vector as cuDNN has them.

The cell is that of S. Hochreiter and J. Schmidhuber, "Long Short-Term Memory", Neural Computation 9
(1997), with forget gates (F. Gers, J. Schmidhuber and F. Cummins, Neural Computation 12, 2000). In
the vector stand, for each layer and direction, the weights of the inputs, (4 * hidden, inputs), and
of the state, (4 * hidden, hidden), then for each layer and direction both biases; rows are those of
the gates i, f, g, o.
"""

from __future__ import annotations

from typing import Any

import weft.numpy as jnp
from weft import random
from weft.base.facades import public_names
from weft.control_flow.loops import scan
from weft.core.types import type_of
from weft.errors import ShapeError, WeftNotImplementedError
from weft.errors.argument_errors import refusal
from weft.nn.activations import sigmoid
from weft.typing import Array

__all__ = [
    "get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "swap_lstm_gates",
    "unpack_lstm_weights",
]  # fmt: skip

__dir__ = public_names(globals())

Weights = dict[int, Array]


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The shapes of the weights of inputs and of states, for each layer and direction."""
    directions = 2 if bidirectional else 1
    inputs, states = [], []
    for layer in range(num_layers):
        features = input_size if layer == 0 else hidden_size * directions
        inputs += [(4 * hidden_size, features)] * directions
        states += [(4 * hidden_size, hidden_size)] * directions
    return inputs, states


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """The length of the vector of weights.

    >>> from weft.experimental import rnn
    >>> rnn.get_num_params_in_lstm(2, 3, 1, False)
    84
    """
    inputs, states = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(a * b for a, b in (*inputs, *states)) + len(inputs) * 8 * hidden_size


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """A vector of random weights, uniform between -k and k for k = 1 / sqrt(hidden_size).

    Args:
        rng: A random key.
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = hidden_size**-0.5
    weights: Array = random.uniform(rng, (count,), "float32", -bound, bound)
    return weights


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Weights, Weights, Weights, Weights]:
    """The weights of inputs and states and their biases, each a dict by layer and direction. Raises
    ShapeError for a vector of another length."""
    inputs, states = _shapes(input_size, hidden_size, num_layers, bidirectional)
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    if type_of(weights).shape != (count,):
        message = "the vector of weights of an LSTM has another length"
        got = f"shape {type_of(weights).shape}"
        raise refusal(ShapeError, message, "unpack_lstm_weights", got, f"shape ({count},)")
    place = 0

    def taken(shape: tuple[int, ...]) -> Any:
        nonlocal place
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        part = weights[place : place + size].reshape(shape)
        place += size
        return part

    found: tuple[Weights, Weights, Weights, Weights] = ({}, {}, {}, {})
    for i, (of_inputs, of_states) in enumerate(zip(inputs, states, strict=True)):
        found[0][i], found[1][i] = taken(of_inputs), taken(of_states)
    for i in range(len(inputs)):
        found[2][i], found[3][i] = taken((4 * hidden_size,)), taken((4 * hidden_size,))
    return found


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """The vector of weights with the gates g and o of every part exchanged."""
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)

    def swapped(x: Any) -> Any:
        i, f, g, o = jnp.split(x, 4)
        return jnp.concatenate([i, f, o, g]).reshape(-1)

    rows = [swapped(part[i]) for i in parts[0] for part in parts[:2]]
    biases = [swapped(part[i]) for i in parts[2] for part in parts[2:]]
    vector: Array = jnp.concatenate([*rows, *biases])
    return vector


def lstm(
    x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int,
    num_layers: int, dropout: float, bidirectional: bool, precision: Any = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """The outputs of an LSTM over sequences, and its last states.

    x: (batch, length, input_size) of floats; h_0, c_0: (layers * directions, batch, hidden_size);
    weights: the vector described above; seq_lengths: (batch,) of integers, behind which outputs are
    zero. Returns y (batch, length, directions * hidden_size), and h_n and c_n, shaped as h_0. XLA
    compiles it as a scan for every device. Raises WeftNotImplementedError for a `dropout` other
    than 0, ShapeError if the weights do not fit.

    Args:
        precision: How exactly products are computed, as in `weft.lax.dot_general`.
        weights: All weights in one vector, of length `get_num_params_in_lstm(...)`.
        dropout: Must be 0.

    >>> from weft.experimental import rnn
    >>> w = rnn.init_lstm_weight(weft.random.key(0), 2, 3, 1, False)
    >>> state = jnp.zeros((1, 4, 3))
    >>> y, h, c = rnn.lstm(
    ...     jnp.ones((4, 5, 2)), state, state, w, jnp.full(4, 5), 2, 3, 1, 0.0, False
    ... )
    >>> y.shape, h.shape
    ((4, 5, 3), (1, 4, 3))
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return _run(x, h_0, c_0, parts, seq_lengths, num_layers, dropout, bidirectional, precision)


def lstm_ref(
    x: Any, h_0: Any, c_0: Any, W_ih: Weights, W_hh: Weights, b_ih: Weights, b_hh: Weights,
    seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """`lstm` of weights as `unpack_lstm_weights` returns them.

    Args:
        W_ih: The weights of inputs, by number of layer and direction.
        W_hh: The weights of states, by number of layer and direction.
        b_ih: The biases of inputs, by number of layer and direction.
        b_hh: The biases of states, by number of layer and direction.
    """
    parts = (W_ih, W_hh, b_ih, b_hh)
    return _run(x, h_0, c_0, parts, seq_lengths, num_layers, dropout, bidirectional, None)


def _run(
    x: Any, h_0: Any, c_0: Any, parts: tuple[Weights, ...], seq_lengths: Any, num_layers: int,
    dropout: float, bidirectional: bool, precision: Any,
) -> tuple[Array, Array, Array]:  # fmt: skip
    if dropout:
        message = "lstm: dropout between layers is not available"
        raise refusal(WeftNotImplementedError, message, "lstm", f"dropout={dropout}", "dropout=0")
    directions = 2 if bidirectional else 1
    inside = jnp.arange(type_of(x).shape[1])[:, None] < jnp.asarray(seq_lengths)
    layer_in, hidden, cells = jnp.swapaxes(jnp.asarray(x), 0, 1), [], []
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            i = layer * directions + direction
            w_in, w_state, b_in, b_state = (part[i] for part in parts)
            projected = jnp.matmul(layer_in, w_in.T, precision=precision) + b_in + b_state

            def cell(carry: Any, step: Any, w: Any = w_state) -> Any:
                (h, c), (row, here) = carry, step
                gates = row + jnp.matmul(h, w.T, precision=precision)
                entry, forget, value, exit = jnp.split(gates, 4, -1)
                new_c = sigmoid(forget) * c + sigmoid(entry) * jnp.tanh(value)
                new_h = sigmoid(exit) * jnp.tanh(new_c)
                here = here[:, None]
                kept = jnp.where(here, new_h, h), jnp.where(here, new_c, c)
                return kept, jnp.where(here, new_h, jnp.zeros_like(new_h))

            (h, c), y = scan(cell, (h_0[i], c_0[i]), (projected, inside), reverse=direction == 1)
            hidden.append(h)
            cells.append(c)
            outs.append(y)
        layer_in = jnp.concatenate(outs, -1)
    return jnp.swapaxes(layer_in, 0, 1), jnp.stack(hidden), jnp.stack(cells)
