"""weft: composable transformations of array programs, compiled by XLA.

`jit`, `grad`, `vmap`, `jvp`, `linearize` and their relatives transform plain Python functions of
arrays; `weft.numpy` has the array functions, `weft.lax` the operations below them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from weft import config, dtypes, numpy, sharding, tree
from weft.api import block_until_ready, device_get, eval_shape, jit, make_jaxpr, typeof
from weft.array import Array
from weft.autodiff import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from weft.batching import vmap
from weft.config import debug_infs, debug_key_reuse, debug_nans, enable_x64
from weft.control import stages
from weft.core.shape_struct import ShapeDtypeStruct
from weft.dtypes import float0
from weft.jacobian import hessian, jacfwd, jacobian, jacrev
from weft.meshes import make_mesh
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
    from weft.caches import clear_caches
    from weft.control import checkpoint_policies
    from weft.control.callbacks import effects_barrier, io_callback, pure_callback
    from weft.control.checkpoint_policies import checkpoint_name
    from weft.control.custom_jvp import custom_jvp
    from weft.control.custom_vjp import custom_vjp
    from weft.control.remat import checkpoint
    from weft.control.remat import checkpoint as remat
    from weft.custom_gradients import closure_convert, custom_gradient
    from weft.parallel_map import pmap
    from weft.placing import (
        device_put,
        make_array_from_callback,
        make_array_from_single_device_arrays,
    )
    from weft.profiling import named_scope
    from weft.shard_mapping import shard_map


__all__ = [
    "Array",
    "NamedSharding",
    "P",
    "ShapeDtypeStruct",
    "ad_checkpoint",
    "block_until_ready",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_key_reuse",
    "debug_nans",
    "default_backend",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "dtypes",
    "effects_barrier",
    "enable_x64",
    "eval_shape",
    "experimental",
    "export",
    "extend",
    "ffi",
    "float0",
    "grad",
    "hessian",
    "image",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "layout",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "make_mesh",
    "named_scope",
    "nn",
    "numpy",
    "ops",
    "pmap",
    "process_count",
    "process_index",
    "profiler",
    "pure_callback",
    "random",
    "remat",
    "scipy",
    "set_mesh",
    "shard_map",
    "sharding",
    "simulate",
    "stages",
    "tree",
    "tree_util",
    "typeof",
    "use_mesh",
    "value_and_grad",
    "vjp",
    "vmap",
]

# Imported when they are first used, so that `import weft` stays cheap: modules, and where the names
# stand that many programs do without.
_LAZY_MODULES = {
    "checkpoint_policies": "weft.control.checkpoint_policies",
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
    "checkpoint": "weft.control.remat",
    "checkpoint_name": "weft.control.checkpoint_policies",
    "clear_caches": "weft.caches",
    "closure_convert": "weft.custom_gradients",
    "custom_gradient": "weft.custom_gradients",
    "custom_jvp": "weft.control.custom_jvp",
    "custom_vjp": "weft.control.custom_vjp",
    "device_put": "weft.placing",
    "effects_barrier": "weft.control.callbacks",
    "io_callback": "weft.control.callbacks",
    "make_array_from_callback": "weft.placing",
    "make_array_from_single_device_arrays": "weft.placing",
    "named_scope": "weft.profiling",
    "pmap": "weft.parallel_map",
    "pure_callback": "weft.control.callbacks",
    "shard_map": "weft.shard_mapping",
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
