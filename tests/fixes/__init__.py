"""Programs that raise an error with a fix, and the same programs with the fix applied, as data: a
module for each part of the package with a list `FIXES`, run by `composition/test_fixes.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from weft.errors import Fix, WeftError

__all__ = ["NOT_REACHED", "Fixed"]

SEVERAL = "needs several processes; tests/distributed has them"
# Where a fix is made that no program on a machine with CPU devices gets: "file:function" and why.
NOT_REACHED: dict[str, str] = {
    "weft/arrays/shards.py:_elsewhere": "one process holds all devices of this machine",
    "weft/api/device_put.py:_dtype": "asked by a process that has none of a sharding's devices",
    "weft/checkpoints/saving.py:_unfit": (
        "what processes do not have alike or together; tests/checkpoints/test_processes.py does"
    ),
    "weft/export/exported.py:Exported._devices": (
        "needs a process with fewer devices; tests/export/test_export_devices.py has one"
    ),
    "weft/runtime/backends/pjrt.py:_cuda_client": "needs an NVIDIA GPU",
    "weft/runtime/backends/pjrt.py:_check_release": (
        "needs the plugin of another release; tests/runtime/test_cuda_plugin.py has a stand-in"
    ),
    "weft/runtime/backends/pjrt.py:_parse_positive": (
        "the number of devices is read when they start, which tests/runtime has processes for"
    ),
    "weft/runtime/backends/pjrt_executable.py:deserialize": (
        "no public function reads the bytes of an executable; tests/runtime/test_runtime.py does"
    ),
    "weft/runtime/backends/process_end.py:_refuse": (
        "needs a forked process; tests/runtime/test_process_end.py forks some"
    ),
    "weft/export/symbolic_dimensions.py:value_of": (
        "of an export that was changed; tests/export/test_crafted_exports.py changes some"
    ),
    "weft/distributed/group.py:Group.agree": SEVERAL,
    "weft/distributed/host_data.py:_whole": SEVERAL,
    "weft/distributed/startup.py:_connect": SEVERAL,
    "weft/distributed/startup.py:_service_port": SEVERAL,
    "weft/distributed/startup.py:_start_coordinator": SEVERAL,
    "weft/runtime/client.py:set_distributed": "`distributed.initialize` looks before it",
    "weft/spmd/escaped_tracers.py:HiddenValues.__init__": (
        "the function runs again with the values as operands; no program is known where that fails"
    ),
}


@dataclasses.dataclass(frozen=True)
class Fixed:
    """`wrong()` raises `error` (or warns, where it is a warning) with a fix whose text has `says`:
    one part of it, or a list of those that suggest several changes.

    `fixed(fix)` is the program with that fix, written as its text says; it gives `value`: arrays
    or a tree of them, compared to float32's precision, or a function that says whether a result is
    right.
    """

    says: str | list[str]
    wrong: Callable[[], Any]
    fixed: Callable[[Fix], Any]
    value: Any
    error: type[Exception] = WeftError
