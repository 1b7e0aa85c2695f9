"""The cache of executables behind eager library calls, by the signatures of the arguments.

A function of the library depends on the types of its arguments and on its static arguments, and
runs one executable. The function that runs it is cached under both, so that a later call costs one
look-up and the executable.

A cached call is safe for these reasons. The key has the settings and each array's signature, which
is its type with the sharding and layout that it was committed to, so an executable only gets
operands that it was compiled for. Only arrays have a signature: numbers, NumPy arrays and tracers
have none and so find nothing. While results are checked (`debug_nans`) the settings are others, and
callers cache nothing under them. And a call that fails, since an operand was deleted or a static
argument has no hash, is made again in full, which raises the proper error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft import config
from weft.base.program_caches import BoundedCache
from weft.lowering.executables import Run

_settings = config.settings


class ExecutableCache(BoundedCache):
    """A cache of run functions (see `running`) by settings, static arguments and array
    signatures."""

    __slots__ = ()

    def run(self, static: Any, arrays: Sequence[Any]) -> Any:
        """The result of a cached call, None if none is cached or it fails. The caller makes sure
        that no transformation is active."""
        try:
            run = self[(_settings(), static, *[x.signature for x in arrays])]
            return run([x._buffer for x in arrays], arrays)
        except Exception:  # noqa: BLE001 - the whole call follows, and raises the error
            return None

    def find(self, static: Any, arrays: Sequence[Any]) -> Run | None:
        """The cached run function of a call, or None."""
        try:
            out: Run | None = self.get((_settings(), static, *[x.signature for x in arrays]))
        except TypeError:  # a static argument that has no hash
            return None
        return out

    def remember(self, static: Any, arrays: Sequence[Any], run: Run) -> Run:
        """Caches `run` for calls like this one, unless a static argument has no hash."""
        try:
            self[(_settings(), static, *[x.signature for x in arrays])] = run
        except TypeError:
            pass
        return run
