"""Where arrays lie: for now, on one device.

Meshes and specs come with arrays over several devices.
"""

from weft.sharding.sharding import Sharding, SingleDeviceSharding

__all__ = ["Sharding", "SingleDeviceSharding"]
