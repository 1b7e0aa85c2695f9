"""weft: composable transformations of array programs, compiled by XLA.

`jit`, `grad`, `vmap`, `jvp`, `linearize` and their relatives transform plain Python functions of
arrays; `weft.numpy` has the array functions, `weft.lax` the operations below them.
"""

from typing import TYPE_CHECKING

from weft import config, dtypes, numpy, sharding, tree
from weft.api.autodiff import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from weft.api.jacobian import hessian, jacfwd, jacobian, jacrev
from weft.api.jit import block_until_ready, device_get, eval_shape, jit, make_jaxpr, typeof
from weft.api.meshes import make_mesh
from weft.api.vmap import vmap
from weft.arrays.array import Array
from weft.base.facades import load_on_first_use
from weft.config import debug_infs, debug_key_reuse, debug_nans, enable_x64
from weft.core.shape_struct import ShapeDtypeStruct
from weft.dispatch import stages
from weft.dtypes import float0
from weft.runtime.client import (
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from weft.sharding import NamedSharding, P, set_mesh, simulate, use_mesh
from weft.version import __version__ as __version__

if TYPE_CHECKING:
    from weft import (
        ad_checkpoint,
        debug,
        experimental,
        export,
        extend,
        ffi,
        lax,
        layout,
        nn,
        profiler,
        random,
        tree_util,
    )
    from weft import image as image
    from weft import ops as ops
    from weft import scipy as scipy
    from weft import testing as testing
    from weft import typing as typing
    from weft.api.custom_gradient import closure_convert, custom_gradient
    from weft.api.device_put import (
        device_put,
        make_array_from_callback,
        make_array_from_single_device_arrays,
    )
    from weft.api.pmap import pmap
    from weft.base.program_caches import clear_caches
    from weft.callbacks.primitives import effects_barrier, io_callback, pure_callback
    from weft.control_flow import checkpoint_policies
    from weft.control_flow.checkpoint import checkpoint
    from weft.control_flow.checkpoint import checkpoint as remat
    from weft.control_flow.checkpoint_policies import checkpoint_name
    from weft.custom_derivatives.custom_jvp_rule import custom_jvp
    from weft.custom_derivatives.custom_vjp_rules import custom_vjp
    from weft.profiler.session import named_scope
    from weft.spmd.shard_map import shard_map


# fmt: off
__all__ = [
    "Array", "NamedSharding", "P", "ShapeDtypeStruct", "ad_checkpoint", "block_until_ready",
    "checkpoint", "checkpoint_name", "checkpoint_policies", "clear_caches", "closure_convert",
    "config", "custom_gradient", "custom_jvp", "custom_vjp", "debug", "debug_infs",
    "debug_key_reuse", "debug_nans", "default_backend", "device_count", "device_get",
    "device_put", "devices", "dtypes", "effects_barrier", "enable_x64", "eval_shape",
    "experimental", "export", "extend", "ffi", "float0", "grad", "hessian", "image",
    "io_callback", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "lax", "layout",
    "linear_transpose", "linearize", "local_device_count", "local_devices",
    "make_array_from_callback", "make_array_from_single_device_arrays", "make_jaxpr",
    "make_mesh", "named_scope", "nn", "numpy", "ops", "pmap", "process_count", "process_index",
    "profiler", "pure_callback", "random", "remat", "scipy", "set_mesh", "shard_map",
    "sharding", "simulate", "stages", "tree", "tree_util", "typeof", "use_mesh",
    "value_and_grad", "vjp", "vmap",
]
# fmt: on

# Imported on first use, so that `import weft` stays cheap.
_LAZY_MODULES = (
    "weft.ad_checkpoint",
    "weft.control_flow.checkpoint_policies",
    "weft.custom_batching",
    "weft.custom_derivatives",
    "weft.debug",
    "weft.experimental",
    "weft.export",
    "weft.extend",
    "weft.ffi",
    "weft.flatten_util",
    "weft.image",
    "weft.lax",
    "weft.layout",
    "weft.nn",
    "weft.ops",
    "weft.profiler",
    "weft.random",
    "weft.scipy",
    "weft.testing",
    "weft.tree_util",
    "weft.typing",
)
_LAZY_NAMES = {
    "weft.ad_checkpoint": "remat",
    "weft.api.custom_gradient": "closure_convert custom_gradient",
    "weft.api.device_put": (
        "device_put make_array_from_callback make_array_from_single_device_arrays"
    ),
    "weft.api.pmap": "pmap",
    "weft.base.program_caches": "clear_caches",
    "weft.callbacks.primitives": "effects_barrier io_callback pure_callback",
    "weft.control_flow.checkpoint": "checkpoint",
    "weft.control_flow.checkpoint_policies": "checkpoint_name",
    "weft.custom_derivatives.custom_jvp_rule": "custom_jvp",
    "weft.custom_derivatives.custom_vjp_rules": "custom_vjp",
    "weft.profiler.session": "named_scope",
    "weft.spmd.shard_map": "shard_map",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
