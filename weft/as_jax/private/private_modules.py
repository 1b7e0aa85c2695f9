"""Which modules of `jax._src` libraries import, and the modules of weft that stand behind each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["DEAD_CODE", "MISSING", "PRIVATE"]

_HERE = "weft.as_jax.private"
DEAD_CODE = (
    "weft.define.for_jax.partial_evaluation:dce_jaxpr=with_instantiated_inputs",
    "weft.define.for_jax.rule_mappings:dce_rules",
)
_CORE = ("weft.as_jax.core_classes", "weft.extend.core", "weft")

_RULES = (
    "a rule of JAX's primitive; those of weft stand in the tables of `weft.extend.interpreters`"
)
_INTERNAL = "a part of JAX's implementation"

# Why names that libraries use beside the documented ones are missing, by patterns of full names.
MISSING: Mapping[str, str] = MappingProxyType(
    {
        "jax.tools": "programs that write files of TensorFlow and XLA; see `weft.export`",
        "jax._src.clusters": "`weft.distributed.initialize` reads variables of the environment",
        "jax._src.cudnn": _INTERNAL,
        "jax._src.flattree": _INTERNAL,
        "jax._src.lax.convolution._conv_general_dilated_*": _RULES,
        "jax._src.lax.lax._dot_general_*": _RULES,
        "jax._src.lax.lax.standard_primitive": _RULES,
        "jax._src.lib.gpu_triton": "weft runs no Triton kernels",
    }
)

PRIVATE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "jax._src": (_HERE, "weft"),
        "jax._src.ad_util": ("weft.extend.interpreters.ad", "weft.define.builtin_primitives"),
        "jax._src.api": ("weft",),
        "jax._src.api_util": ("weft.api_util",),
        "jax._src.checkify": (
            "weft.experimental.checkify.failures:BatchedError,DivisionByZeroError,Error,"
            "ErrorCategory,FailedCheckError,JaxException=CheckFailure,JaxRuntimeError,NaNError,"
            "OOBError,Out",
            "weft.experimental.checkify",
        ),
        "jax._src.compiler": (f"{_HERE}.compiler",),
        "jax._src.ad_checkpoint": ("weft.ad_checkpoint",),
        "jax._src.config": (f"{_HERE}.setting_states", "weft.config", "weft"),
        "jax._src.core": _CORE,
        "jax._src.custom_derivatives": ("weft.custom_derivatives", "weft"),
        "jax._src.dispatch": (
            "weft.as_jax.interpreters:apply_primitive",
            "weft.callbacks.primitives:wait_for_tokens=effects_barrier",
        ),
        "jax._src.distributed": (f"{_HERE}.process_group",),
        "jax._src.dtypes": ("weft.dtypes", f"{_HERE}.dtype_names"),
        "jax._src.earray": (f"{_HERE}.earray",),
        "jax._src.flatten_util": ("weft.flatten_util",),
        "jax._src.hijax": ("weft.experimental.hijax",),
        "jax._src.interpreters": ("weft.extend.interpreters",),
        "jax._src.interpreters.ad": ("weft.extend.interpreters.ad",),
        "jax._src.interpreters.batching": ("weft.extend.interpreters.batching",),
        "jax._src.interpreters.mlir": (
            "weft.as_jax.lowering_names",
            "weft.extend.interpreters.mlir",
        ),
        "jax._src.interpreters.partial_eval": (*DEAD_CODE, "weft.extend.interpreters.partial_eval"),
        "jax._src.interpreters.pxla": ("weft.as_jax.interpreters",),
        "jax._src.interpreters.xla": ("weft.as_jax.interpreters",),
        "jax._src.lax": ("weft.lax",),
        "jax._src.lax.control_flow": ("weft.lax",),
        "jax._src.lax.convolution": ("weft.lax", "weft.define.builtin_primitives"),
        "jax._src.lax.lax": ("weft.lax", "weft.define.builtin_primitives"),
        "jax._src.lax.slicing": ("weft.lax", "weft.define.builtin_primitives"),
        "jax._src.lib": (_HERE,),
        "jax._src.lib.mlir": ("jaxlib.mlir",),
        "jax._src.lib.mlir.dialects": ("jaxlib.mlir.dialects", "weft.extend.interpreters.mlir"),
        "jax._src.lib.mlir.ir": ("jaxlib.mlir.ir",),
        "jax._src.lib.xla_client": ("weft.errors:XlaRuntimeError=JaxRuntimeError",),
        "jax._src.linear_util": ("weft.extend.linear_util",),
        "jax._src.literals": (f"{_HERE}.literals",),
        "jax._src.mesh": (
            "weft.as_jax.interpreters:get_concrete_mesh,thread_resources",
            "weft.sharding",
        ),
        "jax._src.numpy": ("weft.numpy",),
        "jax._src.numpy.einsum": (f"{_HERE}.ordered_contractions",),
        "jax._src.numpy.lax_numpy": ("weft.numpy",),
        "jax._src.numpy.ufuncs": ("weft.numpy",),
        "jax._src.numpy.util": (f"{_HERE}.numpy_util", "weft.numpy"),
        "jax._src.partition_spec": ("weft.sharding",),
        "jax._src.pjit": ("weft.define.builtin_primitives", "weft.sharding", "weft"),
        "jax._src.pretty_printer": (f"{_HERE}.pretty_printer",),
        "jax._src.prng": ("weft.extend.random", "weft.define.builtin_primitives"),
        "jax._src.public_test_util": (f"{_HERE}.public_test_util", "weft.test_util"),
        "jax._src.random": ("weft.random", f"{_HERE}.dtype_names"),
        "jax._src.random.threefry2x32": ("weft.random.threefry", "weft.as_jax.extend_random"),
        "jax._src.scipy": ("weft.scipy",),
        "jax._src.scipy.special": ("weft.scipy.special",),
        "jax._src.sharding_impls": (f"{_HERE}.out_shardings", "weft.sharding"),
        "jax._src.source_info_util": ("weft.extend.source_info_util",),
        "jax._src.state": ("weft.ref", "weft"),
        "jax._src.state.indexing": ("weft.refs.index", "weft.ref"),
        "jax._src.state.types": ("weft.ref", "weft"),
        "jax._src.traceback_util": (f"{_HERE}.traceback_util",),
        "jax._src.tree_util": (f"{_HERE}.tree_nodes", "weft.tree_util"),
        "jax._src.typing": (f"{_HERE}.dtype_names", "weft.typing"),
        "jax._src.util": (f"{_HERE}.list_functions",),
        "jax._src.xla_bridge": (f"{_HERE}.xla_bridge", "weft"),
    }
)
