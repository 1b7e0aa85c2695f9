"""Functions for neural networks: `weft.nn`.

Activations are elementwise: they take real arrays of any shape, or numbers, and the result has the
shape and dtype of the argument (integers become real numbers where the formula makes them so). All
functions raise WeftTypeError for what is no array, DTypeError for a dtype that they do not take,
AxisError for an axis that is out of range, and ShapeError for shapes that do not fit.

>>> import weft, weft.numpy as jnp
>>> weft.nn.softmax(jnp.ones(2), axis=1)
Traceback (most recent call last):
    ...
weft.errors.AxisError: softmax: axis 1 is out of range for an array of 1 dimensions
  ...
"""

import importlib
from typing import TYPE_CHECKING, Any

from weft.nn.activations import *
from weft.nn.attention import dot_product_attention
from weft.nn.normalization import *

if TYPE_CHECKING:
    from weft.nn import initializers

# fmt: off
__all__ = [
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh", "identity", "initializers", "leaky_relu", "log1mexp",
    "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish", "one_hot", "relu", "relu6",
    "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "sparse_plus",
    "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh",
]
# fmt: on


# A type checker sees the names above, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Loaded on first use: it needs the random numbers, which activations do not.
        if name == "initializers":
            return importlib.import_module("weft.nn.initializers")
        raise AttributeError(f"module 'weft.nn' has no attribute {name!r}")
