"""Common layers, for counting the bytes that their gradients keep: weft's beside JAX's.

Each layer is a function of a carried array and of its parameters, written for any of the two
libraries. tools/record_residuals.py records what JAX keeps for a scan over such layers; the test in
tests/interpreters/test_residuals.py compares.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

__all__ = ["LENGTH", "Layer", "all_layers", "layers", "loss_of"]

# Steps of the scan.
LENGTH = 3


class Layer(NamedTuple):
    """A layer with the shapes of what it carries and of its parameters."""

    apply: Callable[..., Any]
    shape: tuple[int, ...]
    parameters: dict[str, tuple[int, ...]]


def _elementwise_names() -> dict[str, list[str]]:
    """The functions of one array that are tried as layers, by module."""
    return {
        "nn": """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu
            log_sigmoid log_softmax mish relu relu6 selu sigmoid silu soft_sign softmax softplus
            sparse_plus sparse_sigmoid squareplus standardize swish tanh""".split(),
        "jnp": """abs arccos arccosh arcsin arcsinh arctan arctanh cbrt cos cosh cumprod cumsum
            deg2rad exp exp2 expm1 fabs flip log log10 log1p log2 mean nan_to_num negative positive
            prod rad2deg ravel reciprocal sin sinc sinh sort sqrt square std sum tan tanh var
            max min median""".split(),
        "lax": """abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt cos cosh
            cumlogsumexp cummax cummin digamma erf erf_inv erfc exp exp2 expm1 is_finite
            lgamma log log1p logistic neg reciprocal rsqrt sin sinh sqrt square tan tanh""".split(),
        "special": """dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit gamma gammaln i0 i0e
            i1 i1e log_ndtr log_softmax logit ndtr ndtri softmax spence""".split(),
    }


def loss_of(layer: Layer, np: SimpleNamespace, weights: Any = 1.0) -> Callable[[Any, Any], Any]:
    """The sum of what a scan over layers gives, weighted, of (parameters of all steps, carried
    array)."""

    def loss(parameters: Any, x: Any) -> Any:
        def body(carry: Any, own: Any) -> Any:
            out = layer.apply(np, carry, **own)
            return np.jnp.broadcast_to(out, carry.shape), None

        return np.jnp.sum(weights * np.lax.scan(body, x, parameters, length=LENGTH)[0])

    return loss


def _rms(np: Any, x: Any) -> Any:
    return x * np.lax.rsqrt(np.jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def _normal(np: Any, x: Any, axis: Any = -1) -> Any:
    mean = np.jnp.mean(x, axis=axis, keepdims=True)
    variance = np.jnp.var(x, axis=axis, keepdims=True)
    return (x - mean) / np.jnp.sqrt(variance + 1e-5)


def _heads(np: Any, x: Any, w: Any) -> Any:
    """Queries, keys and values of (batch, time, width), each (batch, head, time, width / 4)."""
    b, t, d = x.shape
    parts = np.jnp.split(x @ w, 3, axis=-1)
    return [np.jnp.swapaxes(p.reshape(b, t, 4, d // 4), 1, 2) for p in parts]


def _attention(np: Any, x: Any, w: Any, causal: bool = True) -> Any:
    q, k, v = _heads(np, x, w)
    scores = q @ np.jnp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if causal:
        t = x.shape[1]
        scores = np.jnp.where(np.jnp.tril(np.jnp.ones((t, t), bool)), scores, -1e9)
    out = np.nn.softmax(scores, axis=-1) @ v
    return np.jnp.swapaxes(out, 1, 2).reshape(x.shape)


def _block(np: Any, x: Any, w: Any, o: Any, up: Any, down: Any) -> Any:
    x = x + _attention(np, _rms(np, x), w) @ o
    return x + np.nn.gelu(_rms(np, x) @ up) @ down


def _lstm(np: Any, c: Any, w: Any, u: Any) -> Any:
    i, f, g, o = np.jnp.split(c @ w + np.jnp.tanh(c) @ u, 4, axis=-1)
    new = np.nn.sigmoid(f) * c + np.nn.sigmoid(i) * np.jnp.tanh(g)
    return np.nn.sigmoid(o) * np.jnp.tanh(new)


def _gru(np: Any, h: Any, w: Any, u: Any) -> Any:
    z, r = np.jnp.split(np.nn.sigmoid(h @ w), 2, axis=-1)
    return (1 - z) * h + z * np.jnp.tanh((r * h) @ u)


def _conv(np: Any, x: Any, k: Any, groups: int = 1) -> Any:
    return np.lax.conv_general_dilated(
        x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def _rotary(np: Any, x: Any) -> Any:
    t, d = x.shape[-2:]
    angle = np.jnp.arange(t)[:, None] / 10_000.0 ** (np.jnp.arange(d // 2) / (d // 2))
    a, b = np.jnp.split(x, 2, axis=-1)
    c, s = np.jnp.cos(angle), np.jnp.sin(angle)
    return np.jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def _pool(np: Any, x: Any, start: float, operation: Any) -> Any:
    return np.lax.reduce_window(x, start, operation, (1, 2, 2, 1), (1, 1, 1, 1), "SAME")


def layers() -> dict[str, Layer]:
    """The layers, by name."""
    flat, long, image = (8, 64), (2, 16, 64), (2, 8, 8, 16)
    square, up, down = (64, 64), (64, 256), (256, 64)
    return {
        "rms norm": Layer(lambda np, x, s: _rms(np, x) * s, flat, {"s": (64,)}),
        "layer norm": Layer(
            lambda np, x, s, b: _normal(np, x) * s + b, flat, {"s": (64,), "b": (64,)}
        ),
        "group norm": Layer(
            lambda np, x, s: _normal(np, x.reshape(8, 4, 16)).reshape(8, 64) * s, flat, {"s": (64,)}
        ),
        "batch norm": Layer(lambda np, x, s: _normal(np, x, 0) * s, flat, {"s": (64,)}),
        "instance norm": Layer(lambda np, x, s: _normal(np, x, (1, 2)) * s, image, {"s": (16,)}),
        "unit length": Layer(
            lambda np, x: x / np.jnp.linalg.norm(x, axis=-1, keepdims=True), flat, {}
        ),
        "dense": Layer(lambda np, x, w, b: x @ w + b, flat, {"w": square, "b": (64,)}),
        "relu MLP": Layer(lambda np, x, u, d: np.nn.relu(x @ u) @ d, flat, {"u": up, "d": down}),
        "gelu MLP": Layer(lambda np, x, u, d: np.nn.gelu(x @ u) @ d, flat, {"u": up, "d": down}),
        "exact gelu MLP": Layer(
            lambda np, x, u, d: np.nn.gelu(x @ u, approximate=False) @ d, flat, {"u": up, "d": down}
        ),
        "gated silu MLP": Layer(
            lambda np, x, u, g, d: (np.nn.silu(x @ g) * (x @ u)) @ d,
            flat,
            {"u": up, "g": up, "d": down},
        ),
        "gated gelu MLP": Layer(
            lambda np, x, u, g, d: (np.nn.gelu(x @ g) * (x @ u)) @ d,
            flat,
            {"u": up, "g": up, "d": down},
        ),
        "gated linear unit": Layer(lambda np, x, w: np.nn.glu(x @ w), flat, {"w": (64, 128)}),
        "residual": Layer(lambda np, x, w: x + np.jnp.tanh(x @ w), flat, {"w": square}),
        "residual with norm": Layer(
            lambda np, x, w: x + np.nn.relu(_normal(np, x) @ w), flat, {"w": square}
        ),
        "highway": Layer(
            lambda np, x, w, u: (lambda g: g * np.jnp.tanh(x @ w) + (1 - g) * x)(
                np.nn.sigmoid(x @ u)
            ),
            flat,
            {"w": square, "u": square},
        ),
        "tanh RNN": Layer(
            lambda np, x, w, b: np.jnp.tanh(x @ w + b), flat, {"w": square, "b": (64,)}
        ),
        "LSTM": Layer(_lstm, flat, {"w": (64, 256), "u": (64, 256)}),
        "GRU": Layer(_gru, flat, {"w": (64, 128), "u": square}),
        "attention": Layer(lambda np, x, w: _attention(np, x, w, False), long, {"w": (64, 192)}),
        "causal attention": Layer(_attention, long, {"w": (64, 192)}),
        "linear attention": Layer(
            lambda np, x, w: (
                lambda q, k, v: (
                    x
                    + np.jnp.swapaxes(
                        (np.nn.elu(q) + 1) @ (np.jnp.swapaxes(np.nn.elu(k) + 1, -1, -2) @ v), 1, 2
                    ).reshape(x.shape)
                )
            )(*_heads(np, x, w)),
            long,
            {"w": (64, 192)},
        ),
        "transformer block": Layer(
            _block, long, {"w": (64, 192), "o": square, "up": up, "down": down}
        ),
        "rotary positions": Layer(_rotary, long, {}),
        "rotary attention": Layer(
            lambda np, x, w: _attention(np, _rotary(np, x), w), long, {"w": (64, 192)}
        ),
        "dropout": Layer(
            lambda np, x: np.jnp.where(
                np.random.bernoulli(np.random.key(0), 0.9, x.shape), x / 0.9, 0.0
            ),
            flat,
            {},
        ),
        "conv": Layer(lambda np, x, k: np.nn.relu(_conv(np, x, k)), image, {"k": (3, 3, 16, 16)}),
        "conv with norm": Layer(
            lambda np, x, k, s: np.nn.relu(_normal(np, _conv(np, x, k), (0, 1, 2)) * s),
            image,
            {"k": (3, 3, 16, 16), "s": (16,)},
        ),
        "residual conv": Layer(
            lambda np, x, k, m: x + _conv(np, np.nn.silu(_conv(np, x, k)), m),
            image,
            {"k": (3, 3, 16, 16), "m": (3, 3, 16, 16)},
        ),
        "depthwise conv": Layer(
            lambda np, x, k: np.nn.hard_swish(_conv(np, x, k, 16)), image, {"k": (3, 3, 1, 16)}
        ),
        "max pool": Layer(lambda np, x: _pool(np, x, -float("inf"), np.lax.max), image, {}),
        "mean pool": Layer(lambda np, x: _pool(np, x, 0.0, np.lax.add) / 4, image, {}),
        "squeeze and excite": Layer(
            lambda np, x, w: x * np.nn.sigmoid(np.jnp.mean(x, axis=(1, 2)) @ w)[:, None, None, :],
            image,
            {"w": (16, 16)},
        ),
        "prelu": Layer(lambda np, x, a: np.jnp.where(x > 0, x, a * x), flat, {"a": (64,)}),
        "maxout": Layer(
            lambda np, x, w: np.jnp.max((x @ w).reshape(8, 64, 2), axis=-1), flat, {"w": (64, 128)}
        ),
        "sine layer": Layer(lambda np, x, w: np.jnp.sin(30 * (x @ w)), flat, {"w": square}),
        "RBF kernel": Layer(
            lambda np, x, c: np.jnp.exp(-np.jnp.sum((x[:, None, :] - c[None]) ** 2, axis=-1)),
            flat,
            {"c": square},
        ),
        "mixture of experts": Layer(
            lambda np, x, g, w: np.jnp.einsum(
                "be,bed->bd", np.nn.softmax(x @ g), np.jnp.einsum("bi,eid->bed", x, w)
            ),
            flat,
            {"g": (64, 4), "w": (4, 64, 64)},
        ),
        "weight norm": Layer(
            lambda np, x, w, s: x @ (w * (s / np.jnp.sqrt(np.jnp.sum(w * w, axis=0)))),
            flat,
            {"w": square, "s": (64,)},
        ),
        "cosine": Layer(
            lambda np, x, w: (x / np.jnp.sqrt(np.jnp.sum(x * x, -1, keepdims=True) + 1e-6)) @ w,
            flat,
            {"w": square},
        ),
        "temperature": Layer(lambda np, x, t: np.nn.softmax(x / t, axis=-1), flat, {"t": ()}),
        "cross entropy": Layer(
            lambda np, x: x - np.nn.logsumexp(x, axis=-1, keepdims=True), flat, {}
        ),
        "cubic": Layer(lambda np, x: 0.5 * x**3 - 1.5 * x**2 + x, flat, {}),
    }


def all_layers() -> dict[str, Layer]:
    """The layers, and the elementwise functions as layers, by name."""
    found = layers()
    for module, names in _elementwise_names().items():
        for name in names:
            found[f"{module}.{name}"] = Layer(partial(_applied, module, name), (8, 64), {})
    return found


def _applied(module: str, name: str, names: Any, x: Any) -> Any:
    return getattr(getattr(names, module), name)(x)
