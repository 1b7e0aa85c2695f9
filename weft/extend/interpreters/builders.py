"""StableHLO operations as functions from MLIR values to MLIR values, and their attributes.

They emit at the current insertion point, which inside a lowering rule is the place of the equation.
Meaning and attributes are those of the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md; an underscore follows a name that is a
keyword or builtin of Python.

The body of a region is a Python function of MLIR values, which is called once, for the operations
that it emits: `reduce([x], [zero], [0], body)` asks for `body([a], [b])`, lists because there may
be several arrays, and its answer is a list as well. What has no function here is emitted by `op`,
with attributes from `boolean`, `integers` and `to_attribute`.
"""

from weft.runtime.stablehlo import *  # noqa: F403  (the one list of these names is there)
from weft.runtime.stablehlo import __all__ as __all__  # type: ignore[attr-defined]
