"""What libraries import of `jax._src`, JAX's own inside: no interface of weft's.

Each module here has the names that stand nowhere in weft; `weft.as_jax.modules` says which modules
of `jax._src` there are, and what else stands behind each.
"""
