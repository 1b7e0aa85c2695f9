"""The backends of the process."""

from weft.define.backends import *
from weft.define.backends import __all__ as __all__
