"""Functions of flat lists with transformations around them."""

from weft.base.facades import public_names
from weft.define.for_jax.wrapped_functions import *
from weft.define.for_jax.wrapped_functions import __all__ as __all__

__dir__ = public_names(globals())
