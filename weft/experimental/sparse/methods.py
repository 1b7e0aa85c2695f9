"""The operations that the classes of sparse arrays call by name when one of their methods is."""

from weft.experimental.sparse.arithmetic import (
    absolute,
    add,
    astype,
    divide,
    elementwise,
    getitem,
    linear,
    matmul,
    multiply,
    negative,
    power,
    reduced_sum,
    reshape,
    subtract,
)

# fmt: off
__all__ = [
    "absolute", "add", "astype", "divide", "elementwise", "getitem", "linear", "matmul",
    "multiply", "negative", "power", "reduced_sum", "reshape", "subtract",
]
# fmt: on
