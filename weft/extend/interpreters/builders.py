"""StableHLO operations as functions from MLIR values to MLIR values, and their attributes.

They emit at the current insertion point, which a lowering rule finds set for its equation.
Meaning and attributes are those of the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md; an underscore follows a name that is a
keyword or builtin of Python.

The body of a region is a Python function of MLIR values, which is called once, for the operations
that it emits: `reduce([x], [zero], [0], body)` calls `body([a], [b])`, with lists because there may
be several arrays, and `body` returns a list as well. Operations without a function here are emitted
by `op`, with attributes from `boolean`, `integers` and `to_attribute`.
"""

from weft.base.facades import public_names
from weft.runtime.stablehlo import *
from weft.runtime.stablehlo import __all__ as __all__  # type: ignore[attr-defined]

__dir__ = public_names(globals())
