"""The release of JAX whose documented names weft has; what `jax.version` says."""

__all__ = ["__version__", "__version_info__"]

__version__ = "0.10.2"
__version_info__ = tuple(int(part) for part in __version__.split("."))
