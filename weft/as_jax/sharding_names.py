"""The names of `jax.sharding` that weft keeps elsewhere."""

from weft.api.device_put import reshard

__all__ = ["reshard"]
