"""Functions of flat lists with transformations around them."""

from weft.define.wrapped_functions import *
from weft.define.wrapped_functions import __all__ as __all__
