"""`jax.lib`: the release of jaxlib."""

from weft.as_jax.release import __version__ as __version__
from weft.as_jax.release import __version_info__ as __version_info__

__all__ = ["__version__", "__version_info__"]
