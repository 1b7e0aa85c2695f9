"""The loss of a decoder, a transformer that predicts the next token, divided over a mesh.

Each axis of the mesh has a role of the literature: data parallel; fully sharded data parallel
(Rajbhandari et al., ZeRO, 2020); tensor parallel (Shoeybi et al., Megatron-LM, 2019), with
sequence parallel activations between (Korthikanti et al., Reducing activation recomputation in
large transformer models, 2022); expert parallel (Lepikhin et al., GShard, 2020); pipeline parallel
(Huang et al., GPipe, 2019). All of it stands in one `shard_map`, so that what is counted is what
runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from math import gcd, prod
from numbers import Integral
from typing import Any

from weft import nn
from weft import numpy as jnp
from weft.api.autodiff import grad
from weft.control_flow.checkpoint import checkpoint
from weft.control_flow.loops import scan
from weft.core.shape_struct import ShapeDtypeStruct
from weft.errors import Fix, WeftValueError, api_boundary
from weft.ops.collectives.all_reduce import axis_index, pmax, pmean, psum
from weft.ops.collectives.movement import all_gather, all_to_all, psum_scatter
from weft.ops.collectives.permutation import ppermute
from weft.ops.elementwise.convert import stop_gradient
from weft.ops.indexing.dynamic_slicing import dynamic_slice_in_dim
from weft.sharding import P
from weft.sharding.mesh import AnyMesh
from weft.spmd.shard_map import shard_map

ROLES = ("data", "fsdp", "tensor", "sequence", "expert", "pipeline")

Roles = Mapping[Any, str]


@dataclasses.dataclass(frozen=True)
class Decoder:
    """The sizes of a decoder.

    layers: how many there are; width: how many numbers stand for a token; heads: of attention, in
    each layer; hidden: the width inside of an MLP; vocabulary: how many tokens there are. experts:
    of every MLP; 0 for one without. Each token goes to one expert, and all experts get equally many
    tokens. dtype: of weights and activations. Raises WeftValueError for sizes that are not
    positive, and heads that do not divide the width."""

    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    experts: int = 0
    dtype: Any = "bfloat16"

    @api_boundary
    def __post_init__(self) -> None:
        for field in ("layers", "width", "heads", "hidden", "vocabulary", "experts"):
            size = getattr(self, field)
            if not isinstance(size, Integral) or size < (field != "experts"):
                raise _no_size(field, size)
        if self.width % self.heads:
            fix = Fix("heads", f"for example heads={gcd(self.width, self.heads)}")
            message = "Decoder takes heads of equal width"
            raise WeftValueError(
                message,
                got=f"width={self.width}, heads={self.heads}",
                wanted="a width that the number of heads divides",
                fix=fix,
            )

    @property
    def weights(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights; those of the layers are stacked."""
        size, count = self.width // self.heads, self.layers
        mlp = (count, self.experts) if self.experts else (count,)
        found = {
            "queries_keys_values": (count, self.width, 3, self.heads, size),
            "attended": (count, self.heads, size, self.width),
            "up": (*mlp, self.width, self.hidden),
            "down": (*mlp, self.hidden, self.width),
            "table": (self.vocabulary, self.width),
            "head": (self.width, self.vocabulary),
        }
        return found | ({"router": (count, self.width, self.experts)} if self.experts else {})

    @property
    def parameters(self) -> int:
        """How many numbers the weights have."""
        return sum(map(prod, self.weights.values()))


def _no_size(field: str, size: Any) -> WeftValueError:
    least = int(field != "experts")
    message = f"Decoder takes a whole number of at least {least} as {field}"
    fix = Fix("size", f"for example {field}={least or 8}")
    return WeftValueError(message, got=repr(size), wanted=f"an int from {least} on", fix=fix)


class _Division:
    """The axes of a mesh by their roles, and the specs of weights and tokens."""

    def __init__(self, model: Decoder, mesh: AnyMesh, roles: Roles) -> None:
        def of(*wanted: str) -> tuple[Any, ...]:
            return tuple(axis for axis in mesh.axis_names if roles[axis] in wanted)

        self.batch = of("data", "fsdp", "expert")
        self.fsdp, self.tensor = of("fsdp"), of("tensor", "sequence")
        self.sequence, self.expert, self.pipeline = of("sequence"), of("expert"), of("pipeline")
        self.mesh, self.model = mesh, model

    def length(self, axes: tuple[Any, ...]) -> int:
        return prod(self.mesh.axis_size(axis) for axis in axes)

    def specs(self) -> dict[str, P]:
        """The specs of the weights."""
        fsdp, tensor, pipeline = (axes or None for axes in (self.fsdp, self.tensor, self.pipeline))
        mlp = (pipeline, self.expert or None) if self.model.experts else (pipeline,)
        found = {
            "queries_keys_values": P(pipeline, fsdp, None, tensor),
            "attended": P(pipeline, tensor, None, fsdp),
            "up": P(*mlp, fsdp, tensor),
            "down": P(*mlp, tensor, fsdp),
            "table": P(None, fsdp),
            "head": P(fsdp, tensor),
        }
        return found | ({"router": P(pipeline, fsdp)} if self.model.experts else {})

    # ---- parts of a layer ------------------------------------------------------------------------

    def gathered(self, w: Any, dimension: int) -> Any:
        """A weight, gathered along the fully sharded axes that split its dimension."""
        return all_gather(w, self.fsdp, axis=dimension, tiled=True) if self.fsdp else w

    def entering(self, x: Any) -> Any:
        """Prepares activations for a product with weights that the tensor axes split."""
        return all_gather(x, self.sequence, axis=1, tiled=True) if self.sequence else x

    def leaving(self, x: Any) -> Any:
        """Sums terms over the tensor axes."""
        if self.sequence:
            return psum_scatter(x, self.sequence, scatter_dimension=1, tiled=True)
        return psum(x, self.tensor) if self.tensor else x

    def layer(self, x: Any, w: Mapping[str, Any]) -> Any:
        y = self.entering(_normalize(x))
        q, k, v = jnp.einsum("bse,ethd->tbshd", y, self.gathered(w["queries_keys_values"], 0))
        y = nn.dot_product_attention(q, k, v, is_causal=True)
        y = jnp.einsum("bshd,hde->bse", y, self.gathered(w["attended"], 2))
        x = x + self.leaving(y)
        y = self.entering(_normalize(x))
        return x + self.leaving(self.experts(y, w) if self.model.experts else self.mlp(y, w))

    def mlp(self, y: Any, w: Mapping[str, Any]) -> Any:
        hidden = nn.gelu(jnp.einsum("...se,ef->...sf", y, self.gathered(w["up"], 0)))
        return jnp.einsum("...sf,fe->...se", hidden, self.gathered(w["down"], 1))

    def experts(self, y: Any, w: Mapping[str, Any]) -> Any:
        """The MLPs of experts: tokens go to the devices of their experts, and back. Routing is
        assumed balanced: the k-th part of the tokens goes to expert k."""
        experts = self.model.experts
        b, s, e = y.shape
        chances = nn.softmax(jnp.einsum("bse,ex->bsx", y, self.gathered(w["router"], 0)))
        tokens = y.reshape(experts, b * s // experts, e)
        if self.expert:
            tokens = all_to_all(tokens, self.expert, 0, 1, tiled=True)
        up, down = self.gathered(w["up"], 1), self.gathered(w["down"], 2)
        found = jnp.einsum("xtf,xfe->xte", nn.gelu(jnp.einsum("xte,xef->xtf", tokens, up)), down)
        if self.expert:
            found = all_to_all(found, self.expert, 1, 0, tiled=True)
        return found.reshape(b, s, e) * chances.max(-1, keepdims=True)

    # ---- the whole -------------------------------------------------------------------------------

    def layers(self, x: Any, w: Mapping[str, Any]) -> Any:
        """The layers of this device, each computed again in the backward pass."""
        names = [n for n in w if n not in ("table", "head")]
        body = checkpoint(self.layer)
        return scan(lambda x, one: (body(x, one), None), x, {n: w[n] for n in names})[0]

    def pipelined(self, x: Any, w: Mapping[str, Any], microbatches: int) -> Any:
        """Passes microbatches through the stages; each device returns its part of the results."""
        stages = self.length(self.pipeline)
        axis = self.pipeline[0]
        parts = x.reshape(microbatches, x.shape[0] // microbatches, *x.shape[1:])
        first = axis_index(axis) == 0
        onward = [(i, (i + 1) % stages) for i in range(stages)]

        def tick(before: Any, t: Any) -> Any:
            own = parts[jnp.minimum(t, microbatches - 1)]
            after = self.layers(jnp.where(first, own, before), w)
            return ppermute(after, axis, onward), after

        _, found = scan(tick, jnp.zeros_like(parts[0]), jnp.arange(microbatches + stages - 1))
        last = axis_index(axis) == stages - 1
        results = jnp.where(last, found[stages - 1 :], 0.0).astype(x.dtype)
        results = results.reshape(x.shape)
        return psum_scatter(results, axis, scatter_dimension=0, tiled=True)

    def loss(self, w: Mapping[str, Any], tokens: Any, microbatches: int) -> Any:
        """The mean cross entropy of the next tokens, in float32."""
        x = self.gathered(w["table"], 1)[tokens]
        if self.sequence:
            part = x.shape[1] // self.length(self.sequence)
            x = dynamic_slice_in_dim(x, self.place(self.sequence) * part, part, 1)
        if self.pipeline:
            x = self.pipelined(x, w, microbatches)
            part = tokens.shape[0] // self.length(self.pipeline)
            tokens = dynamic_slice_in_dim(tokens, self.place(self.pipeline) * part, part, 0)
        else:
            x = self.layers(x, w)
        logits = self.entering(_normalize(x)) @ self.gathered(w["head"], 0)
        mean = jnp.mean(self.entropy(logits.astype("float32"), tokens))
        along = (*self.batch, *self.pipeline)
        return pmean(mean, along) if along else mean

    def entropy(self, logits: Any, tokens: Any) -> Any:
        """The cross entropy of logits that the tensor axes split along the last dimension."""
        most = stop_gradient(logits.max(-1))
        most = pmax(most, self.tensor) if self.tensor else most
        total = jnp.exp(logits - most[..., None]).sum(-1)
        wanted = jnp.roll(tokens, -1, 1) - self.place(self.tensor) * logits.shape[-1]
        chosen = jnp.sum(
            jnp.where(jnp.arange(logits.shape[-1]) == wanted[..., None], logits, 0), -1
        )
        if self.tensor:
            total, chosen = psum((total, chosen), self.tensor)
        return jnp.log(total) + most - chosen

    def place(self, axes: tuple[Any, ...]) -> Any:
        """The index of this device along axes."""
        out: Any = 0
        for axis in axes:
            out = out * self.mesh.axis_size(axis) + axis_index(axis)
        return out


def _normalize(x: Any) -> Any:
    return nn.standardize(x.astype("float32")).astype(x.dtype)


def fits(
    model: Decoder, mesh: AnyMesh, roles: Roles, batch: int, length: int, microbatches: int
) -> bool:
    """Whether lengths can be divided so: a sum of several rules, none of which the model breaks."""
    of = _Division(model, mesh, roles)
    size = of.length
    if of.expert and not model.experts or len(of.pipeline) > 1:
        return False
    if of.sequence and len(of.sequence) < len(of.tensor):
        return False
    local = batch // size(of.batch)
    rules = [
        (batch, size(of.batch)),
        (model.width, size(of.fsdp)),
        (math.gcd(model.heads, model.hidden, model.vocabulary), size(of.tensor)),
        (length, size(of.sequence)),
        (model.layers, size(of.pipeline)),
        (local, size(of.pipeline) * (microbatches if of.pipeline else 1)),
    ]
    if model.experts:
        tokens = local * length // (microbatches if of.pipeline else 1)
        rules += [(model.experts, size(of.expert)), (tokens, model.experts)]
    return all(whole >= part and whole % part == 0 for whole, part in rules)


def shards(model: Decoder, mesh: AnyMesh, roles: Roles) -> dict[str, int]:
    """Returns into how many parts each weight is divided."""
    of = _Division(model, mesh, roles)
    out = {}
    for name, spec in of.specs().items():
        axes = [
            axis for part in spec if part for axis in (part if type(part) is tuple else (part,))
        ]
        out[name] = of.length(tuple(axes))
    return out


def gradient_program(
    model: Decoder, mesh: AnyMesh, roles: Roles, batch: int, length: int, microbatches: int = 1
) -> tuple[Callable[..., Any], dict[str, ShapeDtypeStruct], ShapeDtypeStruct]:
    """Returns the gradient of the loss as a function of weights and tokens, and their types.

    Args:
        model: The sizes of the network.
        mesh: The mesh over which weights and tokens are split.
        roles: What each mesh axis is for, by its name: "data", "fsdp", "tensor", "sequence",
            "expert" or "pipeline".
        batch: The number of sequences of tokens.
        length: The number of tokens of each sequence.
        microbatches: Into how many parts the batch is cut for a pipeline.
    """
    of = _Division(model, mesh, roles)
    specs = of.specs()

    def loss(w: Any, tokens: Any) -> Any:
        return of.loss(w, tokens, microbatches)

    program = shard_map(
        grad(loss), mesh=mesh, in_specs=(specs, P(of.batch or None)), out_specs=specs
    )
    weights = {n: ShapeDtypeStruct(s, model.dtype) for n, s in model.weights.items()}
    return program, weights, ShapeDtypeStruct((batch, length), "int32")
