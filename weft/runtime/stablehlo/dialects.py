"""The MLIR dialects that weft emits: the compiled parts of jaxlib's bindings of them.

They have the types, the attributes and a dialect's registration. jaxlib also generates a Python
class for every operation; weft creates operations by name (see `runtime.mlir`). Those classes are
thousands of objects, slow to import, and every collection of the process walks over them, so they
are left to the bindings: these import them, dialect by dialect, when they first make an attribute
of one. A module without special functions uses none of CHLO, one for one device none of Shardy.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir._mlir_libs import _chlo, _sdy, _stablehlo

__all__ = ["chlo", "sdy", "stablehlo"]

chlo: Any = _chlo
sdy: Any = _sdy
stablehlo: Any = _stablehlo
