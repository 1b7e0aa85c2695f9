"""The MLIR dialects that weft emits: the compiled parts of jaxlib's bindings of them.

They have the types, the attributes and a dialect's registration. jaxlib also generates a Python
class for every operation; weft creates operations by name (see `runtime.mlir`). Those classes are
thousands of objects, slow to import, and every collection of the process walks over them, so they
are left to the bindings: these import them, dialect by dialect, when they first make an attribute
of one. A module without special functions uses none of CHLO, one for one device none of Shardy.

An import that compiled code asks for ends the process if it is interrupted. So the classes are
imported, on a thread that no signal reaches, just before the bindings would.
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir._mlir_libs import _chlo, _sdy, _stablehlo
from jaxlib.mlir.dialects import builtin  # noqa: F401  # every module needs it

from weft.runtime.jaxlib.lazy import imported


def import_operations(dialect: str) -> None:
    """Imports the classes of a dialect's operations, as the bindings are about to do.

    Args:
        dialect: The dialect's name in MLIR, such as "stablehlo".
    """
    if dialect in ("chlo", "sdy", "stablehlo"):
        imported(f"jaxlib.mlir.dialects.{dialect}")


class _Dialect:
    """The compiled part of one dialect."""

    def __init__(self, name: str, compiled: Any) -> None:
        self._name = name
        self.register_dialect = compiled.register_dialect
        self._compiled = compiled

    def __getattr__(self, name: str) -> Any:
        import_operations(self._name)
        value = self.__dict__[name] = getattr(self._compiled, name)
        return value


chlo: Any = _Dialect("chlo", _chlo)
sdy: Any = _Dialect("sdy", _sdy)
stablehlo: Any = _Dialect("stablehlo", _stablehlo)
