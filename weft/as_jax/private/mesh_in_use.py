"""`jax._src.mesh`: the mesh in force."""

from weft.as_jax.interpreters import get_concrete_mesh, thread_resources

__all__ = ["get_concrete_mesh", "thread_resources"]
