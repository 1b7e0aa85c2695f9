"""Which modules of weft stand behind the names `jax` and `jax.*`.

A JAX module with one module of weft is that module itself: `jax.numpy is weft.numpy`. One with
several is an overlay, which looks a name up in each in turn; so is one that has modules below it
which weft keeps elsewhere, because the import system writes these into their parent. Of
"module:a,b=c" it has the names `a` and `b` alone; the module calls the second `c`.
"""

from __future__ import annotations

from weft.as_jax.private.private_modules import DEAD_CODE, PRIVATE

__all__ = ["MODULES", "anchor", "is_overlay"]

# Modules of JAX that are modules of weft, at the same place.
_SAME = """
ad_checkpoint
custom_batching
custom_derivatives
distributed
dlpack
dtypes
errors
example_libraries
example_libraries.optimizers
example_libraries.stax
experimental
experimental.checkify
experimental.hijax
experimental.jet
experimental.layout
experimental.array_serialization
experimental.array_serialization.serialization
experimental.buffer_callback
experimental.colocated_python
experimental.compilation_cache
experimental.compilation_cache.compilation_cache
experimental.compute_on
experimental.control_deps
experimental.custom_partitioning
experimental.fused
experimental.jax2tf
experimental.mesh_utils
experimental.multihost_utils
experimental.pallas
experimental.pallas.mosaic_gpu
experimental.pallas.ops
experimental.pallas.tpu
experimental.pallas.triton
experimental.pjit
experimental.profiler
experimental.random
experimental.rnn
experimental.scheduling_groups
experimental.serialize_executable
experimental.shard_alike
experimental.shard_map
experimental.sparse
experimental.sparse.linalg
experimental.topologies
experimental.transfer
experimental.xla_metadata
export
api_util
extend
extend.backend
extend.linear_util
extend.source_info_util
ffi
flatten_util
image
lax
lax.linalg
monitoring
nn
nn.initializers
numpy
numpy.fft
numpy.linalg
ops
profiler
random
ref
scipy
scipy.cluster
scipy.cluster.vq
scipy.fft
scipy.integrate
scipy.interpolate
scipy.linalg
scipy.ndimage
scipy.optimize
scipy.signal
scipy.sparse
scipy.sparse.linalg
scipy.spatial
scipy.spatial.transform
scipy.stats
scipy.stats.bernoulli
scipy.stats.beta
scipy.stats.betabinom
scipy.stats.binom
scipy.stats.cauchy
scipy.stats.chi2
scipy.stats.dirichlet
scipy.stats.expon
scipy.stats.gamma
scipy.stats.gennorm
scipy.stats.geom
scipy.stats.gumbel_l
scipy.stats.gumbel_r
scipy.stats.laplace
scipy.stats.logistic
scipy.stats.multinomial
scipy.stats.multivariate_normal
scipy.stats.nbinom
scipy.stats.norm
scipy.stats.pareto
scipy.stats.poisson
scipy.stats.t
scipy.stats.truncnorm
scipy.stats.uniform
scipy.stats.vonmises
scipy.stats.wrapcauchy
test_util
tree
tree_util
typing
"""

_DIALECTS = "arith builtin chlo func math memref mpmd scf sdy sparse_tensor stablehlo vector"

# Where JAX keeps the kernels that come with Pallas.
_KERNELS = """
tpu
tpu.splash_attention
tpu.splash_attention.splash_attention_kernel
tpu.splash_attention.splash_attention_mask
tpu.flash_attention
tpu.megablox
tpu.paged_attention
tpu.ragged_paged_attention
gpu
gpu.attention
"""

_PRIVATE = "weft.as_jax.private"

MODULES: dict[str, tuple[str, ...]] = {
    **{f"jax.{path}": (f"weft.{path}",) for path in _SAME.split()},
    "jax": ("weft.as_jax.release", "weft"),
    "jax.experimental.ode": ("weft.experimental.ode", f"{_PRIVATE}.raveled_arguments"),
    "jax.version": ("weft.as_jax.release",),
    "jax.experimental.sparse.ad": ("weft.experimental.sparse.data_derivatives",),
    "jax.experimental.sparse.api": ("weft.experimental.sparse.api",),
    "jax.experimental.sparse.bcoo": (
        "weft.experimental.sparse.bcoo_array",
        "weft.experimental.sparse.bcoo_storage",
        "weft.experimental.sparse.bcoo_shapes",
        "weft.experimental.sparse.bcoo_products",
        "weft.experimental.sparse.bcoo_pairs",
        "weft.experimental.sparse.bcoo_convolution",
    ),
    "jax.experimental.sparse.bcsr": (
        "weft.experimental.sparse.bcsr_array",
        "weft.experimental.sparse.bcsr_operations",
    ),
    "jax.experimental.sparse.coo": ("weft.experimental.sparse.single_matrices",),
    "jax.experimental.sparse.csr": ("weft.experimental.sparse.single_matrices",),
    "jax.experimental.sparse.random": ("weft.experimental.sparse.random_arrays",),
    "jax.experimental.sparse.transform": ("weft.experimental.sparse.sparse_transform",),
    "jax.experimental.sparse.util": ("weft.experimental.sparse.base",),
    **{
        f"jax.experimental.pallas.ops.{path}": ("weft.experimental.pallas.ops",)
        for path in _KERNELS.split()
    },
    "jax.experimental.colocated_python.func": ("weft.experimental.colocated_python",),
    "jax.experimental.colocated_python.serialization": (f"{_PRIVATE}.colocated",),
    "jax.core": ("weft.as_jax.core_classes", "weft.extend.core", "weft"),
    "jax.debug": ("weft.as_jax.debugging", "weft.debug"),
    "jax.extend.core": ("weft.as_jax.core_classes", "weft.extend.core", "weft.errors"),
    "jax.extend.core.primitives": ("weft.define.builtin_primitives",),
    "jax.extend.ifrt_programs": ("weft.as_jax.extend_xla",),
    "jax.extend.lowering": ("weft.as_jax.extend_xla",),
    "jax.extend.mlir": ("weft.as_jax.extend_mlir",),
    "jax.extend.mlir.ir": ("jaxlib.mlir.ir",),
    "jax.extend.mlir.passmanager": ("jaxlib.mlir.passmanager",),
    "jax.extend.mlir.dialects": ("jaxlib.mlir.dialects",),
    **{
        f"jax.extend.mlir.dialects.{name}": (f"jaxlib.mlir.dialects.{name}",)
        for name in _DIALECTS.split()
    },
    "jax.extend.sharding": ("weft.as_jax.extend_sharding", "weft.extend.sharding"),
    "jax.extend.xla": ("weft.as_jax.extend_xla",),
    "jax.extend.random": ("weft.as_jax.extend_random", "weft.extend.random"),
    "jax.interpreters": ("weft.extend.interpreters",),
    "jax.interpreters.ad": ("weft.extend.interpreters.ad",),
    "jax.interpreters.batching": ("weft.extend.interpreters.batching",),
    "jax.interpreters.mlir": ("weft.as_jax.lowering_names", "weft.extend.interpreters.mlir"),
    "jax.interpreters.partial_eval": (*DEAD_CODE, "weft.extend.interpreters.partial_eval"),
    "jax.interpreters.pxla": ("weft.as_jax.interpreters",),
    "jax.interpreters.xla": ("weft.as_jax.interpreters",),
    **PRIVATE,
    "jax.cloud_tpu_init": ("weft.as_jax.cloud_tpu_init",),
    "jax.lib": ("weft.as_jax.release",),
    "jax.scipy.special": ("weft.scipy.special", "weft.as_jax.legendre"),
    "jax.sharding": ("weft.api.device_put:reshard", "weft.sharding"),
    "jax.stages": ("weft.dispatch.stages",),
}


def is_overlay(name: str) -> bool:
    """Whether a JAX module needs an object of its own."""
    sources = MODULES[name]
    (first,) = sources if len(sources) == 1 else (None,)
    below = [other for other in MODULES if other.rpartition(".")[0] == name]
    return (
        first is None
        or ":" in first
        or any(
            MODULES[other] != (f"{first}.{other.rpartition('.')[2]}",) or is_overlay(other)
            for other in below
        )
    )


def anchor(name: str) -> str:
    """The section of docs/parity.md that speaks of a JAX module."""
    return "docs/parity.md#" + name.replace(".", "")
