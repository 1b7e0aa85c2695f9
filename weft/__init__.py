"""weft: composable transformations of array programs, compiled by XLA.

`jit`, `grad`, `vmap`, `jvp`, `linearize` and their relatives transform plain Python functions of
arrays; `weft.numpy` has the array functions, `weft.lax` the operations below them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from weft import config, dtypes, numpy, sharding, tree
from weft.api.autodiff import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from weft.api.jacobian import hessian, jacfwd, jacobian, jacrev
from weft.api.jit import block_until_ready, device_get, eval_shape, jit, make_jaxpr, typeof
from weft.api.meshes import make_mesh
from weft.api.vmap import vmap
from weft.arrays.array import Array
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
    from weft.custom_derivatives.custom_jvp import custom_jvp
    from weft.custom_derivatives.custom_vjp import custom_vjp
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

# Imported at first use, so that `import weft` stays cheap: modules, and the homes of names that
# many programs do not use.
_LAZY_MODULES = {
    "checkpoint_policies": "weft.control_flow.checkpoint_policies",
    "ad_checkpoint": "weft.ad_checkpoint",
    "debug": "weft.debug",
    "experimental": "weft.experimental",
    "export": "weft.export",
    "extend": "weft.extend",
    "ffi": "weft.ffi",
    "image": "weft.image",
    "lax": "weft.lax",
    "layout": "weft.layout",
    "nn": "weft.nn",
    "ops": "weft.ops",
    "profiler": "weft.profiler",
    "random": "weft.random",
    "scipy": "weft.scipy",
    "testing": "weft.testing",
    "tree_util": "weft.tree_util",
    "typing": "weft.typing",
}
_LAZY_NAMES = {
    "checkpoint": "weft.control_flow.checkpoint",
    "checkpoint_name": "weft.control_flow.checkpoint_policies",
    "clear_caches": "weft.base.program_caches",
    "closure_convert": "weft.api.custom_gradient",
    "custom_gradient": "weft.api.custom_gradient",
    "custom_jvp": "weft.custom_derivatives.custom_jvp",
    "custom_vjp": "weft.custom_derivatives.custom_vjp",
    "device_put": "weft.api.device_put",
    "effects_barrier": "weft.callbacks.primitives",
    "io_callback": "weft.callbacks.primitives",
    "make_array_from_callback": "weft.api.device_put",
    "make_array_from_single_device_arrays": "weft.api.device_put",
    "named_scope": "weft.profiler.session",
    "pmap": "weft.api.pmap",
    "pure_callback": "weft.callbacks.primitives",
    "shard_map": "weft.spmd.shard_map",
    "remat": "weft.ad_checkpoint",
}


# A type checker sees the names above, and that there are no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            return importlib.import_module(_LAZY_MODULES[name])
        if name in _LAZY_NAMES:
            found = getattr(importlib.import_module(_LAZY_NAMES[name]), name)
            globals()[name] = found
            return found
        raise AttributeError(f"module 'weft' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES, *_LAZY_NAMES})
