"""The operations that the classes of sparse arrays call by name when one of their methods is."""

from weft.experimental.sparse.arithmetic import *
