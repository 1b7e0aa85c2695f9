"""Layers of networks on several devices, written by hand, for what they communicate."""

from __future__ import annotations

from typing import Any

import weft
import weft.numpy as wnp
from comms_programs import RING, ROWS, line, plane, program, values
from weft import P, lax


@program("megatron_mlp")
def megatron_mlp() -> Any:
    """The columns of the first weights and the rows of the second are split: one sum per pass."""

    def mlp(x: Any, up: Any, down: Any) -> Any:
        return lax.psum(wnp.tanh(x @ up) @ down, "j")

    mapped = weft.shard_map(
        mlp, mesh=plane(), in_specs=(ROWS, P(None, "j"), P("j", None)), out_specs=ROWS
    )
    return mapped, (values(8, 16), values(16, 32), values(32, 16))


@program("fsdp_layers")
def fsdp_layers() -> Any:
    """Weights are gathered in front of each layer; their gradients are scattered sums."""

    def network(x: Any, weights: list[Any]) -> Any:
        for w in weights:
            x = wnp.tanh(x @ lax.all_gather(w, "i", tiled=True))
        return lax.pmean(wnp.sum(x**2), "i")

    mapped = weft.shard_map(network, mesh=line(), in_specs=(ROWS, ROWS), out_specs=P())
    return mapped, (values(8, 16), [values(16, 16), values(16, 16, seed=1)])


@program("fsdp_layers_in_a_scan")
def fsdp_scan() -> Any:
    def network(x: Any, stacked: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return wnp.tanh(x @ lax.all_gather(w, "i", tiled=True)), None

        return lax.pmean(wnp.sum(lax.scan(layer, x, stacked)[0]), "i")

    mapped = weft.shard_map(network, mesh=line(), in_specs=(ROWS, P(None, "i")), out_specs=P())
    return mapped, (values(8, 16), values(6, 16, 16))


@program("fsdp_with_checkpoint")
def fsdp_checkpoint() -> Any:
    def network(x: Any, stacked: Any) -> Any:
        @weft.checkpoint
        def layer(x: Any, w: Any) -> Any:
            return wnp.tanh(x @ lax.all_gather(w, "i", tiled=True))

        def step(x: Any, w: Any) -> Any:
            return layer(x, w), None

        return lax.pmean(wnp.sum(lax.scan(step, x, stacked)[0]), "i")

    mapped = weft.shard_map(network, mesh=line(), in_specs=(ROWS, P(None, "i")), out_specs=P())
    return mapped, (values(8, 16), values(6, 16, 16))


@program("data_parallel_loss")
def data_parallel() -> Any:
    def loss(weights: dict[str, Any], x: Any, y: Any) -> Any:
        hidden = wnp.tanh(x @ weights["a"] + weights["b"])
        return lax.pmean(wnp.mean((hidden @ weights["c"] - y) ** 2), "i")

    mapped = weft.shard_map(loss, mesh=line(), in_specs=(P(), ROWS, ROWS), out_specs=P())
    weights = {"a": values(8, 16), "b": values(16), "c": values(16)}
    return mapped, (weights, values(16, 8), values(16))


@program("pipeline")
def pipeline() -> Any:
    """Each device has one layer; what it computed goes on to the next device."""

    def run(x: Any, w: Any) -> Any:
        def tick(state: Any, block: Any) -> Any:
            first = lax.axis_index("i") == 0
            state = wnp.tanh(wnp.where(first, block, state) @ w[0])
            return lax.ppermute(state, "i", RING), state

        start = lax.pbroadcast(wnp.zeros((4, 8)), "i")
        _, outs = lax.scan(tick, start, x)
        last = lax.axis_index("i") == 3
        return lax.psum(wnp.where(last, outs, 0.0), "i")

    mapped = weft.shard_map(run, mesh=line(), in_specs=(P(), ROWS), out_specs=P())
    return mapped, (values(7, 4, 8), values(4, 8, 8))


@program("experts")
def experts() -> Any:
    """Tokens go to the device of their expert and back."""

    def layer(x: Any, w: Any) -> Any:
        sent = lax.all_to_all(x, "i", 0, 0, tiled=True)
        return lax.all_to_all(wnp.tanh(sent @ w[0]), "i", 0, 0, tiled=True)

    mapped = weft.shard_map(layer, mesh=line(), in_specs=(ROWS, ROWS), out_specs=ROWS)
    return mapped, (values(64, 8), values(4, 8, 8))


@program("ring_attention")
def ring_attention() -> Any:
    """Keys and values go round; each device keeps its queries and a running softmax."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            k, v, total, weight = carry
            scores = wnp.exp(q @ k.T / 4)
            carry = (
                lax.ppermute(k, "i", RING),
                lax.ppermute(v, "i", RING),
                total + scores @ v,
                weight + scores.sum(1, keepdims=True),
            )
            return carry, None

        start = (k, v, wnp.zeros_like(q), lax.pbroadcast(wnp.zeros((4, 1)), "i"))
        (_, _, total, weight), _ = lax.scan(step, start, None, length=4)
        return total / weight

    mapped = weft.shard_map(attend, mesh=line(), in_specs=(ROWS, ROWS, ROWS), out_specs=ROWS)
    return mapped, (values(16, 8), values(16, 8, seed=1), values(16, 8, seed=2))


@program("sharded_softmax")
def sharded_softmax() -> Any:
    """The logarithm of a softmax over a vocabulary that is split."""

    def loss(x: Any, w: Any) -> Any:
        logits = x @ w
        top = lax.pmax(lax.stop_gradient(logits.max(1)), "i")
        total = lax.psum(wnp.exp(logits - top[:, None]).sum(1), "i")
        return wnp.mean(wnp.log(total) + top)

    mapped = weft.shard_map(loss, mesh=line(), in_specs=(P(), P(None, "i")), out_specs=P())
    return mapped, (values(8, 16), values(16, 32))


@program("sequence_parallel_block")
def sequence_parallel() -> Any:
    """Between the layers the sequence is split: a gather in front and a scattered sum behind."""

    def block(x: Any, up: Any, down: Any) -> Any:
        normal = x / (1 + x.std(1, keepdims=True))
        whole = lax.all_gather(normal, "j", tiled=True)
        return x + lax.psum_scatter(wnp.tanh(whole @ up) @ down, "j", tiled=True)

    mapped = weft.shard_map(
        block, mesh=plane(), in_specs=(P(("i", "j")), P(None, "j"), P("j")), out_specs=P(("i", "j"))
    )
    return mapped, (values(32, 16), values(16, 32), values(32, 16))


@program("training_step", passes=(False,))
def training_step() -> Any:
    function, (weights, x, y) = data_parallel()

    def step(weights: Any, x: Any, y: Any) -> Any:
        loss, gradient = weft.value_and_grad(function)(weights, x, y)
        return loss, weft.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)

    return step, (weights, x, y)
