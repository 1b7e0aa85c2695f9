"""The backends of the process, under the names of `jax.extend.backend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.program_caches import clear_caches
from weft.errors import WeftNotImplementedError, api_boundary
from weft.runtime import client

__all__ = [
    "backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache",
    "get_backend", "get_compile_options", "get_default_device", "register_backend_cache",
    "register_backend_factory",
]  # fmt: skip


def get_backend(platform: Any = None) -> Any:
    """The backend of a platform, or of the default one; it has `platform` and `devices()`.

    Args:
        platform: The name of the platform, such as "cpu"; None for the default one.

    >>> from weft.extend import backend
    >>> backend.get_backend().platform
    'cpu'
    """
    return platform if hasattr(platform, "compile") else client.backend_for(platform)


def backends() -> dict[str, Any]:
    """The backends by platform: the default one, and that of the CPU."""
    own = client.backend()
    return {own.platform: own}


def backend_xla_version(platform: str | None = None) -> int | None:
    """The version of XLA's interface behind a backend: None, where it is built in.

    Args:
        platform: The backend's platform, such as "cpu"; None for the default one.
    """
    return None


def get_default_device() -> Any:
    """The device that arrays are made on.

    >>> from weft.extend import backend
    >>> backend.get_default_device() == weft.devices()[0]
    True
    """
    return client.backend().default_device


def clear_in_memory_compilation_cache() -> None:
    """Drops every compiled program."""
    clear_caches()


def clear_backends(_crash: bool = False) -> None:
    """Drops every compiled program; the backends stay, since arrays are on their devices.

    Args:
        _crash: Has no meaning: it is there for programs that give it.
    """
    clear_caches()


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Does nothing: backends stay, so no cache has to be emptied with them.

    Args:
        cache: A cache, which is left alone.
        for_what: What the cache holds, in words.
    """


@api_boundary
def register_backend_factory(name: str, factory: Callable[[], Any], **_: Any) -> None:
    """Raises WeftNotImplementedError: backends are those of jaxlib and of its plug-ins.

    Args:
        name: The name of the platform that the backend would serve.
        factory: Would make the backend.
        _: Further arguments of JAX's function, which are not looked at.
    """
    raise WeftNotImplementedError(
        f"the backend {name!r} cannot be added",
        wanted="a plug-in of jaxlib, which is found when the runtime starts",
    )


def get_compile_options(num_replicas: int, num_partitions: int, *_: Any, **__: Any) -> Any:
    """Raises WeftNotImplementedError: options are given where a program is compiled.

    Args:
        num_replicas, num_partitions, _, __: Arguments of JAX's function, which are not looked at.
    """
    raise WeftNotImplementedError(
        "the options of one compilation are made by weft",
        operation="get_compile_options",
        wanted="weft.jit(f).lower(x).compile(compiler_options)",
    )
