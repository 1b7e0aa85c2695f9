"""Functions for neural networks: `weft.nn`.

Activations are elementwise: they take real arrays of any shape, or numbers, and the result has the
shape and dtype of the argument (integers become real numbers if the formula needs it). All
functions raise WeftTypeError for anything that is not an array, DTypeError for a dtype that they do
not take, AxisError for an axis that is out of range, and ShapeError for shapes that do not fit.

>>> import weft, weft.numpy as jnp
>>> weft.nn.softmax(jnp.ones(2), axis=1)
Traceback (most recent call last):
    ...
weft.errors.AxisError: softmax: axis 1 is out of range for an array of 1 dimension
  ...
"""

from typing import TYPE_CHECKING

from weft.base.facades import handed_on, load_on_first_use
from weft.nn.activations import *
from weft.nn.attention import *
from weft.nn.normalization import *

if TYPE_CHECKING:
    from weft.nn import initializers as initializers
    from weft.nn.collective_products import gathered_product as gathered_product
    from weft.nn.collective_products import scattered_product as scattered_product
    from weft.nn.scaled_products import scaled_matmul as scaled_matmul

# Imported on first use: they need random numbers and derivatives, which activations do not.
_LAZY_MODULES = ("weft.nn.initializers",)
_LAZY_NAMES = {
    "weft.nn.collective_products": "gathered_product scattered_product",
    "weft.nn.scaled_products": "scaled_matmul",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __all__ = handed_on(globals(), _LAZY_MODULES, _LAZY_NAMES)
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
