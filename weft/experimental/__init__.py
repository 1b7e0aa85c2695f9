"""Names where programs written for JAX look for them."""

from typing import TYPE_CHECKING

from weft.base.facades import load_on_first_use
from weft.callbacks.primitives import io_callback
from weft.experimental import layout

if TYPE_CHECKING:
    from weft.experimental import array_serialization as array_serialization
    from weft.experimental import buffer_callback as buffer_callback
    from weft.experimental import checkify as checkify
    from weft.experimental import colocated_python as colocated_python
    from weft.experimental import compilation_cache as compilation_cache
    from weft.experimental import compute_on as compute_on
    from weft.experimental import control_deps as control_deps
    from weft.experimental import custom_partitioning as custom_partitioning
    from weft.experimental import fused as fused
    from weft.experimental import hijax as hijax
    from weft.experimental import jax2tf as jax2tf
    from weft.experimental import jet as jet
    from weft.experimental import mesh_utils as mesh_utils
    from weft.experimental import multihost_utils as multihost_utils
    from weft.experimental import ode as ode
    from weft.experimental import pallas as pallas
    from weft.experimental import pjit as pjit
    from weft.experimental import profiler as profiler
    from weft.experimental import random as random
    from weft.experimental import rnn as rnn
    from weft.experimental import scheduling_groups as scheduling_groups
    from weft.experimental import serialize_executable as serialize_executable
    from weft.experimental import shard_alike as shard_alike
    from weft.experimental import shard_map as shard_map
    from weft.experimental import sparse as sparse
    from weft.experimental import topologies as topologies
    from weft.experimental import transfer as transfer
    from weft.experimental import xla_metadata as xla_metadata
    from weft.experimental.hijax import cur_qdd

# fmt: off
__all__ = [
    "array_serialization", "buffer_callback", "checkify", "colocated_python",
    "compilation_cache", "compute_on", "control_deps", "cur_qdd", "custom_partitioning",
    "fused", "hijax", "io_callback", "jax2tf", "jet", "layout", "mesh_utils", "multihost_utils",
    "ode", "pallas", "pjit", "profiler", "random", "rnn", "scheduling_groups",
    "serialize_executable", "shard_alike", "shard_map", "sparse", "topologies", "transfer",
    "xla_metadata",
]
# fmt: on

# Imported on first use.
_LAZY_MODULES = (
    "weft.experimental.array_serialization",
    "weft.experimental.buffer_callback",
    "weft.experimental.checkify",
    "weft.experimental.colocated_python",
    "weft.experimental.compilation_cache",
    "weft.experimental.compute_on",
    "weft.experimental.control_deps",
    "weft.experimental.custom_partitioning",
    "weft.experimental.fused",
    "weft.experimental.hijax",
    "weft.experimental.jax2tf",
    "weft.experimental.jet",
    "weft.experimental.mesh_utils",
    "weft.experimental.multihost_utils",
    "weft.experimental.ode",
    "weft.experimental.pallas",
    "weft.experimental.pjit",
    "weft.experimental.profiler",
    "weft.experimental.random",
    "weft.experimental.rnn",
    "weft.experimental.scheduling_groups",
    "weft.experimental.serialize_executable",
    "weft.experimental.shard_alike",
    "weft.experimental.shard_map",
    "weft.experimental.sparse",
    "weft.experimental.topologies",
    "weft.experimental.transfer",
    "weft.experimental.xla_metadata",
)
_LAZY_NAMES = {"weft.experimental.hijax": "cur_qdd"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = load_on_first_use(__name__, globals(), _LAZY_MODULES, _LAZY_NAMES)
