"""What lies in the memory of devices, as a profile that `pprof` reads.

Reference: https://github.com/google/pprof
"""

from __future__ import annotations

import gzip
import os

from weft.errors import api_boundary
from weft.runtime import profiler


@api_boundary
def device_memory_profile(backend: str | None = None) -> bytes:
    """Returns which arrays and programs take memory now, as a compressed protocol buffer of pprof.

    It names the lines that made them where the setting `allocation_tracebacks` is on when the first
    device is requested (`WEFT_ALLOCATION_TRACEBACKS=1`): that costs up to a third of a small call.

    `backend` names a platform, by default the one in use. Raises WeftValueError for one that is
    unknown or not installed.

    >>> import weft.profiler
    >>> weft.profiler.device_memory_profile()[:2] == bytes([0x1F, 0x8B])
    True
    """
    return gzip.compress(profiler.heap_profile(backend))


@api_boundary
def save_device_memory_profile(
    filename: str | os.PathLike[str], backend: str | None = None
) -> None:
    """Writes `device_memory_profile` to a file, for `pprof --web FILE`. Raises OSError if it
    cannot be written.

    filename: the path of the file, which is written anew; backend: the name of a platform, such as
    "cpu"; None for the one in use.
    """
    with open(filename, "wb") as file:
        file.write(device_memory_profile(backend))
