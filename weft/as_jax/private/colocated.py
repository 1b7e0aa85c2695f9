"""`jax.experimental.colocated_python.serialization`: the names that say of which class lists of
devices are, and which backends there are; functions for other hosts are not run."""

from weft.as_jax.private import xla_bridge as xb
from weft.runtime.backends.device_placement import DeviceList

__all__ = ["DeviceList", "xb"]
