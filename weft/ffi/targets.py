"""The compiled handlers that are registered, and which of them can be split over devices.

XLA keeps handlers for the life of the process, and executables call them by name. So a name stands
for one handler on a platform, and is given once. A platform need not be there: registrations for it
count when modules are lowered for it, and its plugin gets them if it starts.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.runtime import ffi_registry

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__base__  # of functions of libraries, too
_DATA: Any = (ctypes.c_int.__base__, ctypes.Structure)  # variables of libraries
_STAGES = ("instantiate", "prepare", "initialize", "execute")

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_ALIASES = {"host": "cpu", "gpu": "cuda"}  # XLA's own names differ in case only, but for the CPU's

# (name, platform) -> the addresses of its stages, and the version of the interface.
_targets: dict[tuple[str, str], tuple[dict[str, int], int]] = {}
# (name, platform) -> the addresses of a type's number and of what destroys its values.
_types: dict[tuple[str, str], tuple[int, int | None]] = {}
# Python objects that handlers made with ctypes live as long as.
_kept: list[Any] = []
_batch: set[str] = set()
_lock = threading.Lock()


@api_boundary
def include_dir() -> str:
    """The folder that a compiler is told with `-I` to find XLA's headers: `xla/ffi/api/ffi.h` for
    C++17 and `xla/ffi/api/c_api.h` for C.

    >>> import os
    >>> from weft import ffi
    >>> os.path.exists(os.path.join(ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
    True
    """
    return str(ffi_registry.include_dir())


@api_boundary
def pycapsule(funcptr: Any) -> Any:
    """A PyCapsule that holds the address of a function of a library loaded with ctypes.

    `register_ffi_target` takes such functions as they are; other libraries ask for capsules.

    funcptr: a function of a library loaded with ctypes, or an address.

    Raises WeftTypeError for anything that is neither a function of ctypes nor an address.

    >>> import ctypes
    >>> from weft import ffi
    >>> type(ffi.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    return ffi_registry.capsule(_address("pycapsule", "funcptr", funcptr))


@api_boundary
def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1) -> None:
    """Registers a compiled handler under a name for calls of it (`weft.ffi.ffi_call`).

    `fn` is a function of a library loaded with ctypes, a PyCapsule with its address, or a dict from
    the stages "instantiate" (once per executable), "prepare", "initialize" and "execute" (in
    each run) to those; only "execute" is needed. The signature of each is
    `XLA_FFI_Error* (XLA_FFI_CallFrame*)`, as XLA's typed foreign function interface has it. With
    `api_version=0` it is a function of the interface before that one, and is called with
    `ffi_call(..., custom_call_api_version=)` below 4.

    The platform is "cpu", "cuda" (or "gpu"), "rocm" or "tpu"; one name may stand for a handler on
    each. The platform need not be there: modules can be lowered for it, and its handlers are given
    to XLA when its devices start.

    name: the name by which calls find the handler; platform: the platform on which the handler
    runs.

    Raises WeftTypeError for anything that is not a function, WeftValueError for a name that is
    taken, for a stage, platform or version that does not exist, and WeftError if XLA refuses the
    handler.

    >>> import ctypes
    >>> from weft import ffi
    >>> library = ctypes.CDLL("./kernels.so")  # doctest: +SKIP
    >>> ffi.register_ffi_target("rms_norm", library.RmsNorm)  # doctest: +SKIP
    """
    operation = "register_ffi_target"
    _check_name(operation, name)
    platform = _platform(operation, name, platform)
    if api_version not in (0, 1) or isinstance(api_version, bool):
        message = f"{operation} of {name!r}: there is no such version of the interface"
        got = f"api_version={api_version!r}"
        wanted = "1, the typed interface, or 0, the one before it"
        fix = Fix("api_version", "pass api_version=1", {"api_version": 1})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    given = fn if isinstance(fn, Mapping) else {"execute": fn}
    known = _STAGES if api_version else _STAGES[-1:]
    if "execute" not in given or not set(given) <= set(known):
        optional = f", and any of {', '.join(map(repr, _STAGES[:-1]))}" if api_version else ""
        message = f"{operation} of {name!r}: these are not the stages of a handler"
        got = ", ".join(map(repr, given)) or "none"
        wanted = f"'execute'{optional}"
        fix = Fix("stages", "pass {'execute': function}", {"stages": ("execute",)})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    stages = {stage: _address(operation, repr(stage), own, True) for stage, own in given.items()}
    new = (stages, int(api_version))
    with _lock:
        if (name, platform) in _targets or ffi_registry.is_registered(name, platform):
            raise _taken_error(operation, name, platform, new == _targets.get((name, platform)))
        ffi_registry.register(name, platform, stages, new[1])
        _targets[name, platform] = new
        _kept.append(list(given.values()))


@api_boundary
def register_ffi_type(
    name: str, type_registration: Mapping[str, Any], platform: str = "cpu"
) -> None:
    """Registers a type whose values handlers keep as their state; before those are registered.

    `type_registration` is a dict with "type_id", a pointer to the `XLA_FFI_TypeId` into which XLA
    writes the type's number, and "type_info", one to the `XLA_FFI_TypeInfo` that says how a value
    is destroyed, which types of states need. A pointer is a PyCapsule, an address, a variable of
    a library (`ctypes.c_int64.in_dll(library, name)`), or a function of a library that returns it.
    A library that registers its types itself (`XLA_FFI_REGISTER_TYPE` of `ffi.h`) does without.
    The platforms are those of `weft.ffi.register_ffi_target`.

    name: the name of the type; platform: the platform of the handlers that use it.

    Raises WeftTypeError for anything that is not a pointer, WeftValueError for a name that is
    taken, another key or an unknown platform, and WeftError if XLA refuses the type.

    >>> import ctypes
    >>> from weft import ffi
    >>> library = ctypes.CDLL("./kernels.so")  # doctest: +SKIP
    >>> ffi.register_ffi_type(  # doctest: +SKIP
    ...     "Plan", {"type_id": library.PlanTypeId, "type_info": library.PlanTypeInfo}
    ... )
    """
    operation = "register_ffi_type"
    _check_name(operation, name)
    platform = _platform(operation, name, platform)
    if not isinstance(type_registration, Mapping):
        message = f"{operation} of {name!r} takes a dict of pointers"
        got = f"{type_registration!r:.100} of class {type(type_registration).__name__}"
        wanted = "'type_id' and 'type_info'"
        fix = Fix("dict", "pass {'type_id': pointer, 'type_info': pointer}")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    if "type_id" not in type_registration or not set(type_registration) <= {"type_id", "type_info"}:
        message = f"{operation} of {name!r}: these are not the parts of a type"
        got = ", ".join(map(repr, type_registration)) or "none"
        wanted = "'type_id', and 'type_info' for the type of a state"
        fix = Fix("parts", "pass {'type_id': pointer, 'type_info': pointer}")
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    parts = {key: _pointer(operation, repr(key), own) for key, own in type_registration.items()}
    new = (parts["type_id"], parts.get("type_info"))
    with _lock:
        if (name, platform) in _types:
            raise _taken_error(operation, name, platform, new == _types[name, platform])
        ffi_registry.register_type(name, platform, *new)
        _types[name, platform] = new
        _kept.append(list(type_registration.values()))


@api_boundary
def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """`register_ffi_type` of a type with a number only, whose values XLA need not destroy.

    Args:
        name: The name of the type.
        obj: A pointer to the `XLA_FFI_TypeId` into which XLA writes the number.
        platform: The platform of the handlers that use it.

    Raises what that raises.

    >>> import ctypes
    >>> from weft import ffi
    >>> library = ctypes.CDLL("./kernels.so")  # doctest: +SKIP
    >>> ffi.register_ffi_type_id("Settings", library.SettingsTypeId)  # doctest: +SKIP
    """
    register_ffi_type(name, {"type_id": obj}, platform)


@api_boundary
def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Declares that a call of this name may be cut along its batch dimensions: handlers called on
    the parts give the parts of the results.

    The call determines these dimensions: the first `num_batch_dims` that `ffi_call` is given, and
    those that `vmap` adds where it calls the handler once for all elements. In a module for several
    devices, each device then calls the handler with its block; without this, every device gets the
    whole operands. Declaring it twice changes nothing.

    name: the name under which the handler is registered.

    Raises WeftValueError for a name that is registered on no platform.

    >>> from weft import ffi
    >>> ffi.register_ffi_target_as_batch_partitionable("nobody")
    Traceback (most recent call last):
        ...
    weft.errors.WeftValueError: nothing is registered as 'nobody' on cpu
    ...
    """
    if not any(ffi_registry.is_registered(name, platform) for platform in _PLATFORMS):
        check_registered(name, "cpu", "register_ffi_target_as_batch_partitionable")
    with _lock:
        ffi_registry.split_along_batch(name)
        _batch.add(name)


def batch_partitionable(name: str) -> bool:
    """Whether calls of this name may be split along their batch dimensions."""
    return name in _batch


def check_registered(
    name: str, platform: str, operation: str, api_version: int | None = None
) -> None:
    """Raises WeftValueError if a module for the platform cannot call this name, or not by this
    version of the interface. A call by the wrong one would end the process."""
    if not ffi_registry.is_registered(name, platform):
        own = "" if platform == "cpu" else f", platform={platform!r}"
        message = f"nothing is registered as {name!r} on {platform}"
        got = f"the name {name!r}"
        text = f"call weft.ffi.register_ffi_target({name!r}, function{own}) before"
        fix = Fix("register", text, {"target": name, "platform": platform})
        raise WeftValueError(
            message, operation=operation, got=got, wanted=_known_names(name, platform), fix=fix
        )
    registered = _targets.get((name, platform))
    typed = registered is not None and registered[1] == 1
    if registered is None or api_version is None or (api_version >= 4) == typed:
        return
    wanted = "the typed interface" if typed else "the interface before the typed one"
    version = 4 if typed else 2
    message = f"{name!r} is registered on {platform} as a handler of {wanted}"
    got = f"custom_call_api_version={api_version}"
    text = (
        f"pass custom_call_api_version={version} to ffi_call, or register the handler with "
        f"api_version={0 if typed else 1}"
    )
    fix = Fix("custom_call_api_version", text, {"custom_call_api_version": version})
    raise WeftValueError(
        message, operation=operation, got=got, wanted="4" if typed else "1, 2 or 3", fix=fix
    )


def _known_names(name: str, platform: str) -> str:
    names = sorted(known for known, own in _targets if own == platform)
    text = f"one of {', '.join(map(repr, names))}" if names else "a registered name (none is yet)"
    elsewhere = sorted(own for known, own in _targets if known == name)
    return f"{text}; {name!r} is registered on {', '.join(elsewhere)}" if elsewhere else text


def _check_name(operation: str, name: Any) -> None:
    if isinstance(name, str) and name:
        return
    message = f"{operation} takes a name first"
    fix = Fix("name", "pass the name that is to stand for it")
    raise WeftTypeError(message, got=f"{name!r:.100}", wanted="a text that is not empty", fix=fix)


def _platform(operation: str, name: str, platform: Any) -> str:
    if isinstance(platform, str):
        known = _ALIASES.get(platform.lower(), platform.lower())
        if known in _PLATFORMS:
            return known
    message = f"{operation} of {name!r}: no platform has this name"
    wanted = f"one of {', '.join(map(repr, _PLATFORMS))}"
    fix = Fix("platform", "pass platform='cpu'", {"platform": "cpu"})
    raise WeftValueError(message, got=f"platform={platform!r:.100}", wanted=wanted, fix=fix)


def _taken_error(operation: str, name: str, platform: str, same: bool) -> WeftValueError:
    kind = "type" if operation == "register_ffi_type" else "handler"
    text = "register it once, where its library is loaded" if same else "choose another name"
    return WeftValueError(
        f"{'this' if same else 'another'} {kind} is registered as {name!r} on {platform} already",
        got=f"the name {name!r} again",
        wanted="a name that nothing has: compiled programs call handlers by name"
        if kind == "handler"
        else "a name that no type has",
        fix=Fix("once" if same else "name", text, {"target": name}),
    )


def _pointer(operation: str, what: str, given: Any) -> int:
    """The address of data given in any of the forms for one, among them a function that returns it,
    as XLA's macros for the symbols of types declare them."""
    found: Any = None
    if isinstance(given, _FUNCTION):
        found = ctypes.cast(given, ctypes.CFUNCTYPE(ctypes.c_void_p))()
    elif isinstance(given, _DATA) and not isinstance(given, ctypes.c_void_p):
        found = ctypes.addressof(given)
    elif type(given).__name__ == "PyCapsule" or isinstance(given, (int, ctypes.c_void_p)):
        found = _address(operation, what, given)
    if found and _is_mapped(int(found), "r"):
        return int(found)
    raise WeftTypeError(
        f"{operation}: {what} is no pointer",
        got=f"{given!r:.100} of class {type(given).__name__}",
        wanted="a PyCapsule, a variable of a library loaded with ctypes, or a function of one that "
        "returns a pointer",
        fix=Fix("ctypes", "pass ctypes.c_int64.in_dll(ctypes.CDLL(path), name)"),
    )


def _address(operation: str, what: str, given: Any, code: bool = False) -> int:
    """The address of a function given in any of the forms for one; with `code`, of memory that can
    be run: XLA calls a handler while it is registered."""
    out: int | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        out = given
    elif isinstance(given, (_FUNCTION, ctypes.c_void_p)):
        out = ctypes.cast(given, ctypes.c_void_p).value
    elif type(given).__name__ == "PyCapsule":
        out = ffi_registry.address(given)
    if out and (not code or _is_mapped(out, "x")):
        return out
    message = f"{operation}: {what} is no compiled function"
    got = f"{given!r:.100} of class {type(given).__name__}"
    wanted = "a function of a library loaded with ctypes.CDLL, or a PyCapsule with its address"
    fix = Fix("ctypes", "pass ctypes.CDLL(path).TheFunction")
    raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)


def _is_mapped(address: int, permission: str) -> bool:
    """Whether memory at an address can be read ("r") or run ("x"); True where the system does not
    say."""
    try:
        rows = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return True
    for row in rows:
        span, permissions = row.split()[:2]
        low, high = (int(end, 16) for end in span.split("-"))
        if low <= address < high:
            return permission in permissions
    return False
