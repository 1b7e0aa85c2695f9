"""The names for packages that extend weft. weft's own operations are made of them."""

from weft.base.facades import public_names
from weft.extend import (
    arrays,
    backend,
    core,
    elementwise,
    interpreters,
    linear_util,
    programs,
    random,
    sharding,
    source,
    source_info_util,
)
from weft.testing.check_primitive import check_primitive
from weft.testing.report import Example, Report

# fmt: off
__all__ = [
    "Example", "Report", "arrays", "backend", "check_primitive", "core", "elementwise",
    "interpreters", "linear_util", "programs", "random", "sharding", "source",
    "source_info_util",
]
# fmt: on

__dir__ = public_names(globals())
