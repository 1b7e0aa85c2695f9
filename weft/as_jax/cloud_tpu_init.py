"""`jax.cloud_tpu_init`: what readies a machine with TPUs, of which weft has none."""

__all__ = ["cloud_tpu_init"]


def cloud_tpu_init() -> None:
    """Does nothing: there are no TPUs."""
