"""Registers FFI handlers and types with a plugin of the runtime, through its C interface.

A plugin is one table of functions with a list of extensions behind it, each a struct that begins
with its size, its kind and the next one (`pjrt_c_api.h`, `pjrt_c_api_gpu_extension.h` and
`pjrt_c_api_ffi_extension.h` in https://github.com/openxla/xla/tree/main/xla/pjrt/c). jaxlib wraps
the table and not these two extensions, which register FFI handlers and their types.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

_GPU_CUSTOM_CALL, _FFI = 0, 5  # of the enumeration PJRT_Extension_Type
_STAGES = ("instantiate", "prepare", "initialize", "execute")


class PluginFault(Exception):
    """A plugin's refusal, with its message."""


class _Extension(ctypes.Structure):
    """The common beginning of all extensions."""


_Extension._fields_ = [
    ("struct_size", ctypes.c_size_t),
    ("kind", ctypes.c_int),
    ("next", ctypes.POINTER(_Extension)),
]
_Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class _Api(ctypes.Structure):
    """The beginning of a plugin's table, up to the three functions that read an error."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.POINTER(_Extension)),
        ("version_size", ctypes.c_size_t),
        ("version_extensions", ctypes.c_void_p),
        ("major_version", ctypes.c_int),
        ("minor_version", ctypes.c_int),
        ("destroy_error", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("error_message", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
    ]


class _GpuCustomCall(ctypes.Structure):
    _fields_ = [("base", _Extension), ("register", _Function)]


class _Ffi(ctypes.Structure):
    _fields_ = [
        ("base", _Extension),
        ("register_type", _Function),
        ("add_user_data", ctypes.c_void_p),
        ("register_handler", _Function),
    ]


class _CustomCallArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("api_version", ctypes.c_int),
        *((stage, ctypes.c_void_p) for stage in _STAGES),
    ]


class _TypeInfo(ctypes.Structure):
    """How values of a type are destroyed, written and read; handlers' headers lack the last two."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("deleter", "serialize", "deserialize")]


class _TypeArgs(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_size_t),
        ("type_id", ctypes.c_int64),
        ("type_info", ctypes.POINTER(_TypeInfo)),
    ]


class _HandlersTypeInfo(ctypes.Structure):
    """XLA_FFI_TypeInfo of `xla/ffi/api/c_api.h`."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _ErrorArgs(ctypes.Structure):
    """Arguments of the functions that read and destroy an error; to destroy needs no message."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extensions", ctypes.c_void_p),
        ("error", ctypes.c_void_p),
        ("message", ctypes.c_void_p),
        ("message_size", ctypes.c_size_t),
    ]


def table(library: str) -> int:
    """The address of the table of a plugin that has been loaded from this library."""
    function = ctypes.CDLL(library).GetPjrtApi
    function.restype = ctypes.c_void_p
    return int(function())


def register_handler(api: int, name: str, stages: Mapping[str, int], api_version: int) -> None:
    """Gives a plugin the addresses of a handler's stages; `api` is the address of its table. Raises
    PluginFault where the plugin refuses them, or has no way to take them."""
    found = _extension(api, _GPU_CUSTOM_CALL, _GpuCustomCall)
    text = name.encode()
    args = _CustomCallArgs(
        ctypes.sizeof(_CustomCallArgs), text, len(text), api_version, *map(stages.get, _STAGES)
    )
    _check(api, found.register(ctypes.addressof(args)))


def register_type(api: int, name: str, type_id: int, type_info: int | None) -> None:
    """Registers a type of states or of user data with a plugin, by the addresses of its number
    (chosen if it is 0) and of its `XLA_FFI_TypeInfo`. Raises PluginFault if the plugin refuses it
    or cannot take it."""
    found = _extension(api, _FFI, _Ffi)
    number, text, info = ctypes.c_int64.from_address(type_id), name.encode(), _TypeInfo()
    if type_info is not None:
        info.deleter = _HandlersTypeInfo.from_address(type_info).deleter
    args = _TypeArgs(
        ctypes.sizeof(_TypeArgs), None, text, len(text), number.value, ctypes.pointer(info)
    )
    _check(api, found.register_type(ctypes.addressof(args)))
    number.value = args.type_id


def _extension(api: int, kind: int, form: Any) -> Any:
    pointer = _Api.from_address(api).extensions
    while pointer:
        found = pointer.contents
        if found.kind == kind:
            if found.struct_size < ctypes.sizeof(form):
                raise PluginFault("the plugin is older than this way to register")
            return ctypes.cast(pointer, ctypes.POINTER(form)).contents
        pointer = found.next
    raise PluginFault("the plugin has no way to register foreign functions")


def _check(api: int, error: int | None) -> None:
    if not error:
        return
    table = _Api.from_address(api)
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, error)
    table.error_message(ctypes.addressof(args))
    text = ctypes.string_at(args.message, args.message_size).decode(errors="replace")
    args.struct_size = _ErrorArgs.message.offset
    table.destroy_error(ctypes.addressof(args))
    raise PluginFault(text)
