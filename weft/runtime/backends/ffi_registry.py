"""Registers FFI handlers, and the types of their states, with XLA.

XLA finds a handler by name and platform (https://openxla.org/xla/custom_call). The CPU's part of it
is in jaxlib and takes handlers at once. A GPU's comes with a plugin, which has a registry of its
own: registrations for it are kept, and handed over when its client starts.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import jaxlib

from weft.errors import Fix, WeftError
from weft.runtime.backends import pjrt_extensions
from weft.runtime.backends.pjrt_buffers import RuntimeFault
from weft.runtime.jaxlib.native import extension

_lock = threading.RLock()
# The registrations for each platform, in order, and the C interfaces of the plugins that are there.
_kept: dict[str, list[Callable[[Any], None]]] = {}
_plugins: dict[str, Any] = {}
_names: set[tuple[str, str]] = set()
_split: set[str] = set()
_API = b"pjrt_c_api"


def include_dir() -> str:
    """The folder with the headers of the foreign function interface (`xla/ffi/api/ffi.h`)."""
    return os.path.join(list(jaxlib.__path__)[0], "include")


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = (ctypes.py_object,)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def capsule(pointer: int, name: bytes | None = None) -> Any:
    """A PyCapsule around an address."""
    return _new_capsule(pointer, name, None)


def address(of: Any) -> int:
    """The address in a PyCapsule. Raises ValueError for another object."""
    return int(_capsule_pointer(of, _capsule_name(of)))


def register(name: str, platform: str, stages: Mapping[str, int], api_version: int) -> None:
    """Registers a handler by the addresses of its stages; `api_version` is 1 for the typed
    interface, 0 for the one before it. Raises WeftError if XLA refuses one, such as one that was
    compiled against headers that this release no longer takes."""

    def hand_over(api: Any) -> None:
        try:
            if api is not None:
                pjrt_extensions.register_handler(address(api), name, stages, api_version)
                return
            handlers: Any = {stage: capsule(pointer) for stage, pointer in stages.items()}
            if api_version == 0:
                handlers = handlers["execute"]
            # The table of the older interface knows the CPU by this name only.
            extension.register_custom_call_target(name, handlers, "Host", api_version, 0)
        except (RuntimeFault, pjrt_extensions.PluginFault) as error:
            raise _registration_error(
                f"the handler of {name!r}", "register_ffi_target", error
            ) from None

    with _lock:
        _hand_over(platform, hand_over)
        _names.add((name, platform))


def register_type(name: str, platform: str, type_id: int, type_info: int | None) -> None:
    """Registers a type of states or of user data by the addresses of its number, which XLA writes,
    and of its `XLA_FFI_TypeInfo`. Raises WeftError if XLA refuses it."""

    def hand_over(api: Any) -> None:
        try:
            if api is not None:
                pjrt_extensions.register_type(address(api), name, type_id, type_info)
                return
            given = {"type_id": capsule(type_id)}
            if type_info is not None:
                given["type_info"] = capsule(type_info)
            extension.register_custom_type(name, given)
        except (RuntimeFault, pjrt_extensions.PluginFault) as error:
            raise _registration_error(f"the type {name!r}", "register_ffi_type", error) from None

    with _lock:
        _hand_over(platform, hand_over)


def _hand_over(platform: str, hand_over: Callable[[Any], None]) -> None:
    if platform == "cpu":
        hand_over(None)
        return
    if platform in _plugins:
        hand_over(_plugins[platform])
    _kept.setdefault(platform, []).append(hand_over)


def attach(platform: str, library: str) -> None:
    """Gives a plugin its registrations, once, after weft or another front end has loaded it from a
    library. Raises WeftError if it refuses one."""
    with _lock:
        if platform in _plugins:
            return
        # A capsule's name is not copied, and has to live as long.
        api = capsule(pjrt_extensions.table(library), _API)
        for hand_over in _kept.get(platform, ()):
            hand_over(api)
        for name in sorted(_split):
            extension.register_custom_call_as_batch_partitionable(name, api)
        _plugins[platform] = api


def is_registered(name: str, platform: str) -> bool:
    """Whether a handler of this name is registered; on the CPU by anyone."""
    if (name, platform) in _names:
        return True
    return platform == "cpu" and name in extension.custom_call_targets(platform)


def split_along_batch(name: str) -> None:
    """Tells XLA, once, that calls of this name may be split along leading dimensions."""
    with _lock:
        if name in _split:
            return
        _split.add(name)
        extension.register_custom_call_as_batch_partitionable(name)
        for api in _plugins.values():
            extension.register_custom_call_as_batch_partitionable(name, api)


def _registration_error(what: str, operation: str, error: Exception) -> WeftError:
    if "Types used by FFI handlers" in str(error):
        fix = Fix(
            "register_type",
            "call weft.ffi.register_ffi_type with the state's type before the handler's "
            "registration",
        )
        message = f"XLA refuses {what}: nobody registered the type of its state"
        wanted = "weft.ffi.register_ffi_type first"
        return WeftError(message, got=f"{error}", wanted=wanted, fix=fix)
    wanted = f"something compiled against the headers in {include_dir()}"
    return WeftError(f"XLA refuses {what}: {error}", operation=operation, wanted=wanted)
