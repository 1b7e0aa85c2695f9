"""From functions of trees to functions of flat lists, for packages that write transformations."""

from weft.define.flat_functions import *
from weft.define.flat_functions import __all__ as __all__
