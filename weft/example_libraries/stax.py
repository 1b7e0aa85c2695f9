"""Networks as pairs of functions: (init_fun, apply_fun).

`init_fun(key, input_shape)` returns the shape of the outputs and the parameters, a tree;
`apply_fun(params, inputs, **kwargs)` the outputs. In a shape, -1 means the number of examples.
Layers that draw random numbers take `rng=` in `apply_fun`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import weft.numpy as jnp
from weft import random
from weft.api.jit import eval_shape
from weft.base.facades import public_names
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import type_of
from weft.errors import WeftValueError
from weft.errors.argument_errors import refusal
from weft.nn.activations import elu, gelu, leaky_relu, relu, selu, sigmoid, softplus
from weft.nn.initializers import glorot_normal, normal, ones, zeros
from weft.nn.normalization import log_softmax, softmax, standardize
from weft.ops.products.convolution import conv_general_dilated
from weft.ops.products.convolution_forms import conv_transpose
from weft.ops.reductions.window import reduce_window_max, reduce_window_sum

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout",
    "Elu", "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv",
    "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "glorot", "logsoftmax",
    "parallel", "randn", "serial", "shape_dependent",
]  # fmt: skip

__dir__ = public_names(globals())

InitFun = Callable[..., tuple[Any, Any]]
ApplyFun = Callable[..., Any]
Layer = tuple[InitFun, ApplyFun]
Initializer = Callable[..., Any]
Shape = tuple[int, ...]

# Shorter names of three functions.
glorot, randn, logsoftmax = glorot_normal, normal, log_softmax

_GLOROT, _NORMAL, _SMALL = glorot_normal(), normal(), normal(1e-6)


def Dense(out_dim: int, W_init: Initializer = _GLOROT, b_init: Initializer = _NORMAL) -> Layer:
    """A dense layer: `inputs @ W + b`, of `out_dim` features.

    Args:
        out_dim: How many features the outputs have.

    >>> from weft.example_libraries import stax
    >>> init, apply = stax.serial(stax.Dense(8), stax.Relu, stax.Dense(2))
    >>> shape, params = init(weft.random.key(0), (-1, 3))
    >>> shape, apply(params, jnp.ones((5, 3))).shape
    ((-1, 2), (5, 2))
    """

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        k1, k2 = random.split(rng)
        weights = W_init(k1, (input_shape[-1], out_dim)), b_init(k2, (out_dim,))
        return (*input_shape[:-1], out_dim), weights

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return jnp.dot(inputs, W) + b

    return init_fun, apply_fun


def _shape_of(function: Callable[..., Any], *shapes: Shape) -> Shape:
    """The shape of a result, with -1 for the number of examples where the inputs have it."""
    # Two lengths tell which dimension of the result is that of the examples.
    outs = []
    for length in (2 * 3 * 5, 2 * 3 * 7):
        given = [ShapeDtypeStruct(tuple(length if n == -1 else n for n in s), "float32")
                 for s in shapes]  # fmt: skip
        outs.append(eval_shape(function, *given).shape)
    return tuple(a if a == b else -1 for a, b in zip(*outs, strict=True))


def GeneralConv(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID",
    W_init: Initializer | None = None, b_init: Initializer = _SMALL,
) -> Layer:  # fmt: skip
    """A convolution with dimensions named as in `weft.lax.conv_general_dilated`, and a bias."""
    _, rhs_spec, out_spec = dimension_numbers
    strides = tuple(strides or (1,) * len(filter_shape))
    return _convolution(
        dimension_numbers, rhs_spec, out_spec, out_chan, filter_shape, W_init, b_init,
        lambda x, W: conv_general_dilated(
            x, W, strides, padding, dimension_numbers=dimension_numbers
        ),
    )  # fmt: skip


def _convolution(
    dimension_numbers: tuple[str, str, str], rhs_spec: str, out_spec: str, out_chan: int,
    filter_shape: Sequence[int], W_init: Initializer | None, b_init: Initializer,
    convolve: Callable[[Any, Any], Any],
) -> Layer:  # fmt: skip
    features = dimension_numbers[0].index("C")
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        lengths = iter(filter_shape)
        sizes = {"O": out_chan, "I": input_shape[features]}
        kernel = tuple(sizes[c] if c in sizes else next(lengths) for c in rhs_spec)
        bias = tuple(out_chan if c == "C" else 1 for c in out_spec)
        output_shape = _shape_of(convolve, input_shape, kernel)
        k1, k2 = random.split(rng)
        return output_shape, (W_init(k1, kernel), b_init(k2, bias))

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def GeneralConvTranspose(
    dimension_numbers: tuple[str, str, str], out_chan: int, filter_shape: Sequence[int],
    strides: Sequence[int] | None = None, padding: Any = "VALID",
    W_init: Initializer | None = None, b_init: Initializer = _SMALL,
) -> Layer:  # fmt: skip
    """The transpose of a strided convolution, as `weft.lax.conv_transpose`, and a bias."""
    _, rhs_spec, out_spec = dimension_numbers
    strides = tuple(strides or (1,) * len(filter_shape))
    return _convolution(
        dimension_numbers, rhs_spec, out_spec, out_chan, filter_shape, W_init, b_init,
        lambda x, W: conv_transpose(x, W, strides, padding, dimension_numbers=dimension_numbers),
    )  # fmt: skip


Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True,
    scale: bool = True, beta_init: Initializer = zeros, gamma_init: Initializer = ones,
) -> Layer:  # fmt: skip
    """Values with mean 0 and variance 1 along `axis`, then scaled and moved as is learned.

    Args:
        epsilon: A small number that is added to the variance.
        center: Whether the learned offset is added.
        scale: Whether values are multiplied by the learned factor.
        beta_init: Makes the first offset, `beta_init(rng, shape)`.
        gamma_init: Makes the first factor, `gamma_init(rng, shape)`.
        axis: The axis, or axes, along which mean and variance are taken.
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        shape = tuple(n for i, n in enumerate(input_shape) if i not in axes)
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        gamma = gamma_init(k2, shape) if scale else ()
        return input_shape, (beta, gamma)

    def apply_fun(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        index = tuple(None if i in axes else slice(None) for i in range(type_of(x).ndim))
        z = standardize(x, axes, epsilon=epsilon)
        z = gamma[index] * z if scale else z
        return z + beta[index] if center else z

    return init_fun, apply_fun


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer without parameters that applies a function to its inputs.

    Args:
        fun: The function; it is called as `fun(inputs, **fun_kwargs)`.
        fun_kwargs: Keyword arguments of the function.
    """

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        return input_shape, ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh = elementwise(jnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)


def _pooling(
    pool: Callable[..., Any], window_shape: Sequence[int], strides: Sequence[int] | None,
    padding: Any, spec: str | None, after: Callable[..., Any] | None = None,
) -> Layer:  # fmt: skip
    """A layer that reduces windows over the dimensions that `spec` does not call N or C."""
    strides = tuple(strides or (1,) * len(window_shape))
    window = tuple(window_shape)
    if spec is not None:
        places = [i for i, c in enumerate(spec) if c not in "NC"]
        at = dict(zip(places, zip(window, strides, strict=True), strict=True))
        window, strides = zip(*(at.get(i, (1, 1)) for i in range(len(spec))), strict=True)
    else:
        window, strides = (1, *window, 1), (1, *strides, 1)

    def reduced(x: Any) -> Any:
        out = pool(x, window, strides, padding)
        return out if after is None else after(out, x, window, strides, padding)

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        return _shape_of(reduced, input_shape), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return reduced(inputs)

    return init_fun, apply_fun


def MaxPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:  # fmt: skip
    """The largest value of each window. `spec` names the dimensions, by default "NHWC"."""
    return _pooling(reduce_window_max, window_shape, strides, padding, spec)


def SumPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:  # fmt: skip
    """The sum of each window."""
    return _pooling(reduce_window_sum, window_shape, strides, padding, spec)


def AvgPool(
    window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
    spec: str | None = None,
) -> Layer:  # fmt: skip
    """The mean of each window, padding not counted."""

    def mean(sums: Any, x: Any, *window: Any) -> Any:
        return sums / reduce_window_sum(jnp.ones_like(x), *window)

    return _pooling(reduce_window_sum, window_shape, strides, padding, spec, mean)


def _flatten() -> Layer:
    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return jnp.reshape(inputs, (type_of(inputs).shape[0], -1))

    return init_fun, apply_fun


Flatten = _flatten()
Identity = elementwise(lambda x: x)


def FanOut(num: int) -> Layer:
    """The inputs `num` times, as a list.

    Args:
        num: How many copies of the inputs the list has.
    """

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Any, Any]:
        return [input_shape] * num, ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return [inputs] * num

    return init_fun, apply_fun


def _fan_in_sum() -> Layer:
    def init_fun(rng: Any, input_shape: Any) -> tuple[Shape, Any]:
        return input_shape[0], ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return functools.reduce(operator.add, inputs)

    return init_fun, apply_fun


FanInSum = _fan_in_sum()


def FanInConcat(axis: int = -1) -> Layer:
    """A list of inputs, one after the other along an axis.

    Args:
        axis: The axis along which the inputs are joined.
    """

    def init_fun(rng: Any, input_shape: Any) -> tuple[Shape, Any]:
        ax = axis % len(input_shape[0])
        total = sum(shape[ax] for shape in input_shape)
        return (*input_shape[0][:ax], total, *input_shape[0][ax + 1 :]), ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return jnp.concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Inputs that are kept with probability `rate` and divided by it, the others zero; in another
    mode than "train" all as they are. Raises WeftValueError without `rng=` in training.

    Args:
        mode: "train" drops inputs; any other text leaves them as they are.
        rate: The probability with which an input is kept.
    """

    def init_fun(rng: Any, input_shape: Shape) -> tuple[Shape, Any]:
        return input_shape, ()

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            message = "Dropout draws random numbers: apply_fun takes rng="
            wanted = "apply_fun(params, inputs, rng=key)"
            raise refusal(WeftValueError, message, "Dropout", "no rng", wanted)
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, type_of(inputs).shape), inputs / rate, 0)

    return init_fun, apply_fun


# ---- combining -----------------------------------------------------------------------------------


def serial(*layers: Layer) -> Layer:
    """Layers one after the other; the parameters are a list of theirs.

    Args:
        layers: Layers, or pairs (initializer, function), in the order in which they are applied.
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> tuple[Any, Any]:
        params = []
        for init in inits:
            rng, layer_rng = random.split(rng)
            input_shape, param = init(layer_rng, input_shape)
            params.append(param)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        for apply, param, rng in zip(applies, params, _keys(kwargs, len(layers)), strict=True):
            inputs = apply(param, inputs, rng=rng, **kwargs)
        return inputs

    return init_fun, apply_fun


def _keys(kwargs: dict[str, Any], count: int) -> Any:
    """Takes `rng` out of keyword arguments: a key for each layer, or None for each."""
    rng = kwargs.pop("rng", None)
    return (None,) * count if rng is None else random.split(rng, count)


def parallel(*layers: Layer) -> Layer:
    """Parallel layers: a list of inputs goes to a list of outputs.

    Args:
        layers: Layers, or pairs (initializer, function), one per input.
    """
    inits, applies = zip(*layers, strict=True) if layers else ((), ())

    def init_fun(rng: Any, input_shape: Any) -> tuple[Any, Any]:
        keys = random.split(rng, len(layers))
        pairs = [f(k, s) for f, k, s in zip(inits, keys, input_shape, strict=True)]
        return [shape for shape, _ in pairs], [param for _, param in pairs]

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        each = zip(applies, params, inputs, _keys(kwargs, len(layers)), strict=True)
        return [f(p, x, rng=r, **kwargs) for f, p, x, r in each]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """The layer that `make_layer` makes for the shape of its inputs.

    Args:
        make_layer: Makes a layer, a pair (initializer, function), from the shape of the inputs.
    """

    def init_fun(rng: Any, input_shape: Any) -> tuple[Any, Any]:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(type_of(inputs).shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
