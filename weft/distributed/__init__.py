"""Processes that work together: joining them, exchanging data, and leaving."""

from weft.base.facades import public_names
from weft.distributed.host_data import assert_equal as assert_equal
from weft.distributed.host_data import broadcast_one_to_all as broadcast_one_to_all
from weft.distributed.host_data import process_allgather as process_allgather
from weft.distributed.host_data import sync_global_devices as sync_global_devices
from weft.distributed.startup import initialize as initialize
from weft.distributed.startup import is_initialized as is_initialized
from weft.distributed.startup import shutdown as shutdown

__all__ = [
    "assert_equal", "broadcast_one_to_all", "initialize", "is_initialized", "process_allgather",
    "shutdown", "sync_global_devices",
]  # fmt: skip

__dir__ = public_names(globals())
