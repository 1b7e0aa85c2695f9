"""The names of `jax.interpreters.xla` and `pxla`, and of `jax._src`, that weft has nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.base.program_caches import clear_caches as clear_caches
from weft.core.primitive import Primitive
from weft.errors import WeftNotImplementedError
from weft.lowering.eval_trace import run_lowered
from weft.sharding import Mesh
from weft.sharding.context import mesh_in_force

__all__ = [
    "Backend", "apply_primitive", "canonicalize_dtype_handlers", "create_compile_options",
    "global_result_handlers", "thread_resources",
]  # fmt: skip

Backend = Any


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Compiles a primitive from its lowering and runs it, whichever trace is current. So it may be
    what `def_impl` sets."""
    return run_lowered(prim, args, params)


def canonicalize_dtype(value: Any) -> Any:
    """The value itself: its dtype is settled where it becomes an operand."""
    return value


# By class, the function that brings a value to a dtype that arrays have. weft does that where it
# asks for the type, so what is set here is kept for programs that read it, and not asked.
canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = dict.fromkeys(
    (Array, np.ndarray, np.generic, bool, int, float, complex), canonicalize_dtype
)
global_result_handlers: dict[Any, Any] = {}


class _NoMesh:
    """Stands for a mesh if none is set."""

    empty = True
    size = 0
    axis_names: tuple[str, ...] = ()
    shape: dict[str, int] = {}


_NO_MESH = _NoMesh()


def get_concrete_mesh() -> Any:
    """The current mesh of devices, as `jax._src.mesh` has it; an empty one if there is none."""
    mesh = mesh_in_force()
    return mesh if isinstance(mesh, Mesh) else _NO_MESH


class _Environment:
    """The current mesh, as `thread_resources.env` has it."""

    @property
    def physical_mesh(self) -> Any:
        """The current mesh of devices; an empty one if there is none."""
        return mesh_in_force() or _NO_MESH


class _ThreadResources:
    env = _Environment()


thread_resources = _ThreadResources()


def create_compile_options(*args: Any, **kwargs: Any) -> Any:
    """Raises WeftNotImplementedError: options of the compiler are given to `jit(...).compile`."""
    raise WeftNotImplementedError(
        "the options of one compilation are made by weft",
        operation="create_compile_options",
        wanted="weft.jit(f).lower(x).compile(compiler_options)",
    )
