"""The names of `jax.interpreters.xla`, `pxla` and `partial_eval` that stand nowhere in weft."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from weft.base.program_caches import clear_caches as clear_caches
from weft.core.array_value import array_values
from weft.core.primitive import Primitive
from weft.core.types import type_of
from weft.errors import WeftNotImplementedError
from weft.sharding.context import mesh_in_force

__all__ = [
    "Backend", "apply_primitive", "canonicalize_dtype_handlers", "create_compile_options",
    "global_result_handlers", "thread_resources",
]  # fmt: skip

Backend = Any


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Evaluates a primitive at once, whichever trace is current."""
    return prim.impl(*args, **params)


class _Handlers(MutableMapping[type, Callable[[Any], Any]]):
    """By class, the function that brings a value to a dtype that arrays have.

    Values of classes with `__weft_array__` do that themselves; to set one here is an error.
    """

    def __getitem__(self, cls: type) -> Callable[[Any], Any]:
        if cls in array_values:
            return lambda value: value
        raise KeyError(cls)

    def __setitem__(self, cls: type, handler: Callable[[Any], Any]) -> None:
        self._refuse(cls)

    def __delitem__(self, cls: type) -> None:
        self._refuse(cls)

    def __iter__(self) -> Iterator[type]:
        return iter(array_values)

    def __len__(self) -> int:
        return len(array_values)

    def _refuse(self, cls: type) -> None:
        raise WeftNotImplementedError(
            f"values of class {cls.__name__} become operands in another way",
            operation="canonicalize_dtype_handlers",
            wanted="a class with __weft_array__, registered with register_array_value",
        )


canonicalize_dtype_handlers = _Handlers()
global_result_handlers: dict[Any, Any] = {}


class _NoMesh:
    """Stands for the mesh where none is in force."""

    empty = True
    size = 0
    axis_names: tuple[str, ...] = ()
    shape: dict[str, int] = {}  # noqa: RUF012


_NO_MESH = _NoMesh()


class _Environment:
    """The mesh in force, as `thread_resources.env` has it."""

    @property
    def physical_mesh(self) -> Any:
        """The mesh of devices in force; an empty one where there is none."""
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


def canonicalize_dtype(value: Any) -> Any:
    """The value itself: its dtype is settled where it becomes an operand."""
    type_of(value)
    return value
