"""A transformer for inference over eight devices: partitioned by the compiler, and by hand.

    python examples/transformer_inference.py                  # a mesh of 4 × 2 × 1 CPU devices
    python examples/transformer_inference.py --mesh 2,2,2 --layers 8

The layer is that of Pope et al., "Efficiently Scaling Transformer Inference" (2022), section 3.2.3,
partitioned in two dimensions: attention and MLP side by side on one layer norm, their projections
fused into two large products, one key and value for all heads, a cache of both, and rotary
embeddings (Su et al., 2021). Over a mesh with the axes x, y and z, the arrays are split like this:

    residual     [batch.z, time, embed.xy]         q_wi  [heads.yz, embed.x, per head]
    normalised   [batch, time, embed.x]            kv    [embed.x, key and value]
    projected    [batch, time, heads.yzx, …]       o_wo  [heads.yz, per head, embed.x]
    attention, cached keys and values              [batch.xyz, …]

The program is written once. In the automatic version, the compiler inserts the communication,
guided by constraints on the sharding of values. In the manual version, the two large products are
functions of one device's blocks, under `shard_map`: a product whose sum is scattered, and a product
with gathered rows. `weft.nn` cuts both into blocks that go round the ring of x in both directions
while the next block is multiplied. The program compares the results, communication and time of both
versions. The devices of a CPU share its cores, so the times say little about devices with links
between them.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax, nn
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

Array = weft.Array


class Sizes(NamedTuple):
    """How large the model is; `heads` queries of length `qkv` share one key and value."""

    layers: int = 4
    embed: int = 256
    ff: int = 1024
    heads: int = 16
    qkv: int = 32

    @property
    def expanded(self) -> int:
        """The output of the first product for each head: a query and two parts of the MLP."""
        return self.qkv + 2 * self.ff // self.heads

    @property
    def contracted(self) -> int:
        """The input of the second product from each head: the results of attention and MLP."""
        return self.qkv + self.ff // self.heads


class Weights(NamedTuple):
    """The weights of all layers, one after the other along the first dimension."""

    q_wi: Any  # [layers, heads, embed, expanded]
    kv: Any  # [layers, embed, 2 * qkv]
    o_wo: Any  # [layers, heads, contracted, embed]


class Cache(NamedTuple):
    """Keys and values of the tokens so far: [layers, batch, tokens, qkv]; the rest is not read."""

    keys: Any
    values: Any
    length: Any


WEIGHT_SPECS = Weights(
    q_wi=P(None, ("y", "z"), "x"), kv=P(None, "x"), o_wo=P(None, ("y", "z"), None, "x")
)
CACHE_SPECS = Cache(P(None, ("x", "y", "z")), P(None, ("x", "y", "z")), P())
RESIDUAL = P("z", None, ("x", "y"))
NORMALISED = P(None, None, "x")
PROJECTED = P(None, None, ("y", "z", "x"))
ATTENTION = P(("x", "y", "z"))


def init(sizes: Sizes, seed: int) -> Weights:
    """Normal weights, scaled so that products keep the size of numbers."""
    rng = np.random.default_rng(seed)
    n, e, h = sizes.layers, sizes.embed, sizes.heads

    def normal(fan_in: int, *shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / fan_in**0.5).astype(np.float32)

    return Weights(
        normal(e, n, h, e, sizes.expanded),
        normal(e, n, e, 2 * sizes.qkv),
        normal(h * sizes.contracted, n, h, sizes.contracted, e),
    )


def empty_cache(sizes: Sizes, batch: int, tokens: int) -> Cache:
    """A cache with room for some tokens."""
    shape = (sizes.layers, batch, tokens, sizes.qkv)
    return Cache(np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.int32(0))


# ---- the two large products ----------------------------------------------------------------------

EXPAND = "bte,hed->bthd"
CONTRACT = "bthd,hde->bte"


class Products(NamedTuple):
    """The products before and after attention and MLP, and the sharding of values (None: any)."""

    expand: Callable[[Array, Array], Array]
    contract: Callable[[Array, Array], Array]
    mesh: Mesh | None


def automatic(mesh: Mesh | None) -> Products:
    """The products as the compiler partitions them; without a mesh, on one device."""
    return Products(partial(jnp.einsum, EXPAND), partial(jnp.einsum, CONTRACT), mesh)


def manual(mesh: Mesh) -> Products:
    """The products written for one device of a mesh."""
    q_wi, o_wo = (P(*spec[1:]) for spec in (WEIGHT_SPECS.q_wi, WEIGHT_SPECS.o_wo))
    return Products(
        weft.shard_map(
            partial(nn.scattered_product, EXPAND, axis_name="x", scattered="h", bidirectional=True),
            mesh=mesh, in_specs=(NORMALISED, q_wi), out_specs=PROJECTED,
        ),
        weft.shard_map(
            contract_of_blocks, mesh=mesh, in_specs=(PROJECTED, o_wo), out_specs=RESIDUAL
        ),
        mesh,
    )  # fmt: skip


def contract_of_blocks(y: Array, w: Array) -> Array:
    """The second product: gathered along x; its sums over y and z are scattered."""
    out = nn.gathered_product(CONTRACT, y, w, "x", gathered="h", bidirectional=True)
    out = lax.psum_scatter(out, "y", scatter_dimension=2, tiled=True)
    return lax.psum_scatter(out, "z", scatter_dimension=0, tiled=True)


# ---- the layer -----------------------------------------------------------------------------------


def layer_norm(x: Array) -> Array:
    """Mean 0 and variance 1 along the last dimension; scales are part of the weights after it."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-6)


def rotations(start: Any, count: int, qkv: int) -> tuple[Array, Array]:
    """Sine and cosine of the angles of `count` positions: [count, qkv / 2]."""
    rates = 1e4 ** (-jnp.arange(qkv // 2) / (qkv // 2))
    angles = (start + jnp.arange(count))[:, None] * rates
    return jnp.sin(angles), jnp.cos(angles)


def rotate(x: Array, sin: Array, cos: Array) -> Array:
    """Turns pairs of numbers, one from each half of the last dimension, by angles."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def attend(q: Array, keys: Array, values: Array, start: Any) -> Array:
    """Attention of queries from position `start` on to the tokens up to their own.

    q: [batch, time, heads, qkv]; keys and values: [batch, tokens, qkv].
    """
    scores = jnp.einsum("bthd,bsd->bhts", q, keys) / q.shape[-1] ** 0.5
    own = start + jnp.arange(q.shape[1])
    seen = jnp.arange(keys.shape[1]) <= own[:, None]
    shares = nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return jnp.einsum("bhts,bsd->bthd", shares, values)


def layer(
    x: Array, weights: Weights, keys: Array, values: Array, start: Any, products: Products
) -> tuple[Array, Array, Array]:
    """One layer: x with its output added, and the cached keys and values with those of x."""

    def lies(x: Array, spec: P) -> Array:
        if products.mesh is None:
            return x
        return lax.with_sharding_constraint(x, NamedSharding(products.mesh, spec))

    qkv = keys.shape[-1]
    normalised = lies(layer_norm(lies(x, RESIDUAL)), NORMALISED)
    expanded = lies(products.expand(normalised, weights.q_wi), PROJECTED)
    q = expanded[..., :qkv]
    gate, linear = jnp.split(expanded[..., qkv:], 2, axis=-1)
    key, value = jnp.split(jnp.einsum("bte,ed->btd", normalised, weights.kv), 2, axis=-1)

    sin, cos = rotations(start, x.shape[1], qkv)
    q = rotate(q, sin[:, None], cos[:, None])
    key = rotate(key, sin, cos)
    keys = lies(lax.dynamic_update_slice_in_dim(keys, lies(key, ATTENTION), start, 1), ATTENTION)
    values = lax.dynamic_update_slice_in_dim(values, lies(value, ATTENTION), start, 1)
    values = lies(values, ATTENTION)

    attended = lies(attend(lies(q, ATTENTION), keys, values, start), ATTENTION)
    joined = jnp.concatenate([lies(attended, PROJECTED), nn.swish(gate) * linear], axis=-1)
    added = lies(products.contract(lies(joined, PROJECTED), weights.o_wo), RESIDUAL)
    return lies(x + added, RESIDUAL), keys, values


def step(products: Products, weights: Weights, cache: Cache, x: Array) -> tuple[Array, Cache]:
    """Some more tokens through all layers: a prompt at once, or one generated token.

    x: [batch, time, embed]. Returns the same after the last layer, and the longer cache.
    """

    def one(x: Array, given: tuple[Weights, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        x, keys, values = layer(x, *given, cache.length, products)
        return x, (keys, values)

    x, (keys, values) = lax.scan(one, x, (weights, cache.keys, cache.values))
    return x, Cache(keys, values, cache.length + x.shape[1])


# ---- what a program communicates -----------------------------------------------------------------

COLLECTIVE = re.compile(
    r"= (\(?[a-z]\w*\[.*?) "
    r"(all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
ARRAY = re.compile(r"([a-z]+)(\d*)\[([\d,]*)\]")


def communication(text: str) -> dict[str, tuple[int, int]]:
    """For each collective of a compiled program: its number of occurrences, and the size it yields.

    The second number is bytes per device. A collective in the loop over layers counts once.
    """
    count: Counter[str] = Counter()
    yielded: Counter[str] = Counter()
    for types, kind in COLLECTIVE.findall(text):
        count[kind] += 1
        for _, bits, dimensions in ARRAY.findall(types):
            elements = np.prod([int(n) for n in dimensions.split(",") if n], dtype=int)
            yielded[kind] += int(elements) * int(bits or 8) // 8
    return {kind: (count[kind], yielded[kind]) for kind in sorted(count)}


# ---- the program ---------------------------------------------------------------------------------


class Run(NamedTuple):
    """The results of a prompt and some steps, and the median seconds and the text of a step."""

    outs: list[np.ndarray]
    seconds: float
    text: str


def run(
    products: Products, weights: Weights, cache: Cache, prompt: np.ndarray, tokens: np.ndarray
) -> Run:
    """A prompt at once, then tokens one after the other."""
    if products.mesh is not None:
        there = partial(NamedSharding, products.mesh)
        weights = Weights(*map(weft.device_put, weights, map(there, WEIGHT_SPECS)))
        cache = Cache(*map(weft.device_put, cache, map(there, CACHE_SPECS)))
        prompt, tokens = weft.device_put((prompt, tokens), there(P()))
    compiled = weft.jit(partial(step, products))
    out, cache = compiled(weights, cache, prompt)
    outs, seconds = [np.asarray(out)], []
    text = compiled.lower(weights, cache, tokens[:, :1]).compile().as_text()
    for i in range(tokens.shape[1]):
        x = tokens[:, i : i + 1]
        start = time.perf_counter()
        out, cache = weft.block_until_ready(compiled(weights, cache, x))
        seconds.append(time.perf_counter() - start)
        outs.append(np.asarray(out))
    return Run(outs, statistics.median(seconds), text)


def report(name: str, found: Run, reference: Run) -> None:
    """Prints the time of a step, the difference from the reference, and the communication."""
    off = max(np.max(np.abs(a - b)) for a, b in zip(found.outs, reference.outs, strict=True))
    print(f"\n{name}: {1e3 * found.seconds:.2f} ms per step, at most {off:.1e} from one device")
    kinds = communication(found.text)
    kinds["in all"] = tuple(map(sum, zip(*kinds.values(), strict=True)))
    for kind, (count, size) in kinds.items():
        print(f"  {kind:20s} {count:3d} per layer and step, {size / 1024:8.1f} KiB on each device")


def _positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return value


def _shape(text: str) -> tuple[int, ...]:
    found = tuple(map(_positive, text.split(",")))
    if len(found) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers, as in 2,2,2")
    return found


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mesh", type=_shape, default=(4, 2, 1), help="x,y,z (4,2,1)")
    parser.add_argument("--batch", type=_positive, default=16, help="sequences at once (16)")
    parser.add_argument("--prompt", type=_positive, default=32, help="tokens before (32)")
    parser.add_argument("--steps", type=_positive, default=20, help="tokens generated (20)")
    for name, value in Sizes()._asdict().items():
        parser.add_argument(f"--{name}", type=_positive, default=value, help=f"({value})")
    options = parser.parse_args(argv)
    x, y, z = options.mesh
    divisors = {
        "batch": x * y * z,
        "heads": x * y * z,
        "embed": x * y,
        "ff": options.heads,
        "qkv": 2,
    }
    for name, divisor in divisors.items():
        if getattr(options, name) % divisor:
            parser.error(f"--{name} {getattr(options, name)} is no multiple of {divisor}")
    return options


def main(argv: list[str] | None = None) -> int:
    """Runs the program and returns the exit status."""
    options = arguments(argv)
    # weft reads this when the first array is made, so it is early enough here.
    os.environ.setdefault("WEFT_NUM_CPU_DEVICES", str(max(8, int(np.prod(options.mesh)))))
    try:
        mesh = weft.make_mesh(options.mesh, ("x", "y", "z"))
    except weft.errors.WeftValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sizes = Sizes(*(getattr(options, name) for name in Sizes._fields))
    weights = init(sizes, seed=0)
    rng = np.random.default_rng(1)
    shape = (options.batch, options.prompt + options.steps, sizes.embed)
    tokens = rng.standard_normal(shape).astype(np.float32)
    cache = empty_cache(sizes, options.batch, shape[1])
    given = (weights, cache, tokens[:, : options.prompt], tokens[:, options.prompt :])
    count = sum(x.size for x in weights)
    print(f"{sizes.layers} layers, {count:,} weights, {mesh}")
    alone = run(automatic(None), *given)
    print(f"\none device: {1e3 * alone.seconds:.2f} ms per step")
    report("automatic", run(automatic(mesh), *given), alone)
    report("manual", run(manual(mesh), *given), alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())
