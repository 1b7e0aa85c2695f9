"""weft: composable transformations of array programs, compiled by XLA.

`jit`, `grad`, `vmap`, `jvp`, `linearize` and their relatives transform plain Python functions of
arrays; `weft.numpy` has the array functions, `weft.lax` the operations below them.
"""

from typing import TYPE_CHECKING

from weft import config, dtypes, numpy, sharding, tree
from weft.analysis import notebook_pictures as _notebook_pictures  # noqa: F401
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
from weft.refs.index import dslice as ds
from weft.refs.reference import Ref, new_ref
from weft.runtime.client import (
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from weft.settings import setting_blocks as _setting_blocks
from weft.settings.setting_blocks import *
from weft.sharding import NamedSharding, P, set_mesh, simulate, use_mesh
from weft.version import __version__ as __version__

if TYPE_CHECKING:
    from weft import (
        ad,
        ad_checkpoint,
        checkpoints,
        debug,
        distributed,
        dlpack,
        example_libraries,
        experimental,
        export,
        extend,
        ffi,
        lax,
        layout,
        memory,
        monitoring,
        nn,
        profiler,
        random,
        ref,
        tree_util,
    )
    from weft import analysis as analysis
    from weft import api_util as api_util
    from weft import custom_batching as custom_batching
    from weft import custom_derivatives as custom_derivatives
    from weft import flatten_util as flatten_util
    from weft import image as image
    from weft import ops as ops
    from weft import scipy as scipy
    from weft import test_util as test_util
    from weft import testing as testing
    from weft import typing as typing
    from weft.analysis.comms import assert_comms, comms
    from weft.analysis.cost import cost
    from weft.analysis.decoder import Decoder
    from weft.analysis.hardware import ACCELERATORS, Hardware
    from weft.analysis.plan import plan, plans, scaling
    from weft.analysis.proposals import propose
    from weft.analysis.show import show
    from weft.api.compile_time import ensure_compile_time_eval
    from weft.api.custom_gradient import closure_convert, custom_gradient
    from weft.api.device_put import (
        device_put,
        make_array_from_callback,
        make_array_from_single_device_arrays,
        reshard,
    )
    from weft.api.environment import copy_to_host_async, live_arrays
    from weft.api.pmap import pmap
    from weft.api.process_local_data import make_array_from_process_local_data
    from weft.api.saved_residuals import fwd_and_bwd
    from weft.arrays.array import Shard
    from weft.base.program_caches import clear_caches
    from weft.callbacks.primitives import effects_barrier, io_callback, pure_callback
    from weft.control_flow import checkpoint_policies
    from weft.control_flow.checkpoint import checkpoint
    from weft.control_flow.checkpoint import checkpoint as remat
    from weft.control_flow.checkpoint_policies import checkpoint_name
    from weft.custom_derivatives.custom_jvp_rule import custom_jvp
    from weft.custom_derivatives.custom_vjp_rules import custom_vjp
    from weft.info import print_environment_info
    from weft.profiler.session import named_call, named_scope
    from weft.refs.ref_functions import empty_ref, free_ref, freeze
    from weft.runtime.client import host_count, host_id, host_ids, process_indices
    from weft.runtime.device_class import Device
    from weft.spmd.shard_map import shard_map
    from weft.spmd.smap import smap


# fmt: off
__all__ = [
    "ACCELERATORS", "Array", "Decoder", "Device", "Hardware", "NamedSharding", "P", "Ref",
    "ShapeDtypeStruct", "Shard", "ad", "ad_checkpoint", "analysis", "assert_comms",
    "block_until_ready", "checkpoint", "checkpoint_name", "checkpoint_policies", "checkpoints",
    "clear_caches", "closure_convert", "comms", "config", "copy_to_host_async", "cost",
    "custom_gradient", "custom_jvp", "custom_vjp", "debug", "debug_infs", "debug_key_reuse",
    "debug_nans", "default_backend", "device_count", "device_get", "device_put", "devices",
    "distributed", "dlpack", "ds", "dtypes", "effects_barrier", "empty_ref", "enable_x64",
    "ensure_compile_time_eval", "eval_shape", "example_libraries", "experimental", "export",
    "extend", "ffi", "float0", "free_ref", "freeze", "fwd_and_bwd", "grad", "hessian", "host_count",
    "host_id", "host_ids", "image", "io_callback", "jacfwd", "jacobian", "jacrev", "jit", "jvp",
    "lax", "layout", "linear_transpose", "linearize", "live_arrays", "local_device_count",
    "local_devices", "make_array_from_callback", "make_array_from_process_local_data",
    "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh", "memory", "monitoring",
    "named_call", "named_scope", "new_ref", "nn", "numpy", "ops", "plan", "plans", "pmap",
    "print_environment_info", "process_count", "process_index", "process_indices", "profiler",
    "propose", "pure_callback", "random", "ref", "remat", "reshard", "scaling", "scipy", "set_mesh",
    "shard_map", "sharding", "show", "simulate", "smap", "stages", "tree", "tree_util", "typeof",
    "use_mesh", "value_and_grad", "vjp", "vmap",
]
# fmt: on
__all__ += _setting_blocks.__all__

# Public modules that `from weft import *` leaves out: programs have names like these of their own.
_BESIDE_STAR = ("__version__", "api_util", "errors", "testing", "typing")

# Imported on first use, so that `import weft` stays cheap.
_LAZY_MODULES = (
    "weft.ad",
    "weft.ad_checkpoint",
    "weft.analysis",
    "weft.api_util",
    "weft.checkpoints",
    "weft.control_flow.checkpoint_policies",
    "weft.custom_batching",
    "weft.custom_derivatives",
    "weft.debug",
    "weft.distributed",
    "weft.dlpack",
    "weft.example_libraries",
    "weft.experimental",
    "weft.export",
    "weft.extend",
    "weft.ffi",
    "weft.flatten_util",
    "weft.image",
    "weft.lax",
    "weft.layout",
    "weft.memory",
    "weft.monitoring",
    "weft.nn",
    "weft.ops",
    "weft.profiler",
    "weft.random",
    "weft.ref",
    "weft.scipy",
    "weft.test_util",
    "weft.testing",
    "weft.tree_util",
    "weft.typing",
)
_LAZY_NAMES = {
    "weft.analysis.comms": "assert_comms comms",
    "weft.analysis.cost": "cost",
    "weft.analysis.decoder": "Decoder",
    "weft.analysis.hardware": "ACCELERATORS Hardware",
    "weft.analysis.plan": "plan plans scaling",
    "weft.analysis.proposals": "propose",
    "weft.ad_checkpoint": "remat",
    "weft.analysis.show": "show",
    "weft.api.custom_gradient": "closure_convert custom_gradient",
    "weft.api.compile_time": "ensure_compile_time_eval",
    "weft.api.device_put": (
        "device_put make_array_from_callback make_array_from_single_device_arrays reshard"
    ),
    "weft.api.process_local_data": "make_array_from_process_local_data",
    "weft.api.environment": "copy_to_host_async live_arrays",
    "weft.api.saved_residuals": "fwd_and_bwd",
    "weft.arrays.array": "Shard",
    "weft.runtime.client": "host_count host_id host_ids process_indices",
    "weft.runtime.device_class": "Device",
    "weft.spmd.smap": "smap",
    "weft.api.pmap": "pmap",
    "weft.base.program_caches": "clear_caches",
    "weft.callbacks.primitives": "effects_barrier io_callback pure_callback",
    "weft.control_flow.checkpoint": "checkpoint",
    "weft.control_flow.checkpoint_policies": "checkpoint_name",
    "weft.custom_derivatives.custom_jvp_rule": "custom_jvp",
    "weft.custom_derivatives.custom_vjp_rules": "custom_vjp",
    "weft.info": "print_environment_info",
    "weft.profiler.session": "named_call named_scope",
    "weft.refs.ref_functions": "empty_ref free_ref freeze",
    "weft.spmd.shard_map": "shard_map",
}

# Type checkers see the imports above, and that there are no other names.
if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
