"""The names for packages that extend weft: those that weft's own operations are made of."""

from weft.extend import (
    arrays,
    core,
    elementwise,
    functions,
    interpreters,
    programs,
    random,
    sharding,
    source,
)
from weft.testing.check_primitive import check_primitive
from weft.testing.report import Example, Report

# fmt: off
__all__ = [
    "Example", "Report", "arrays", "check_primitive", "core", "elementwise", "functions",
    "interpreters", "programs", "random", "sharding", "source",
]
# fmt: on
