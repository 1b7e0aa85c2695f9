"""Compiled handlers by name: what `weft.ffi` registers, and which of it can be split over devices.

XLA keeps handlers for the life of the process, and compiled programs call them by name. So a name
stands for one handler on a platform, and is given once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from typing import Any

from weft.errors import (
    Fix,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.runtime import foreign

__all__ = [
    "batch_partitionable",
    "check_registered",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
]

_FUNCTION: Any = ctypes.CFUNCTYPE(None).__base__  # of functions of libraries, too
_STAGES = ("instantiate", "prepare", "initialize", "execute")

# (name, platform) -> the addresses of its stages.
_targets: dict[tuple[str, str], dict[str, int]] = {}
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
    return str(foreign.include_dir())


@api_boundary
def pycapsule(funcptr: Any) -> Any:
    """A PyCapsule that holds the address of a function of a library loaded with ctypes.

    `register_ffi_target` takes such functions as they are; other libraries ask for capsules.

    Raises WeftTypeError for what is no function of ctypes and no address.

    >>> import ctypes
    >>> from weft import ffi
    >>> type(ffi.pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    return foreign.capsule(_address("pycapsule", "funcptr", funcptr))


@api_boundary
def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1) -> None:
    """Gives a compiled handler a name under which programs call it (`weft.ffi.ffi_call`).

    `fn` is a function of a library loaded with ctypes, a PyCapsule with its address, or a dict from
    the stages "instantiate", "prepare", "initialize" and "execute" to those; only "execute" is
    needed. Its signature is `XLA_FFI_Error* (XLA_FFI_CallFrame*)`, as XLA's typed foreign function
    interface has it (`api_version` 1, the only one there is). The platform is "cpu".

    Raises WeftTypeError for what is no function, WeftValueError for a name that is taken or a stage
    that does not exist, WeftNotImplementedError for another platform, and WeftError where XLA
    refuses the handler.

    >>> import ctypes
    >>> from weft import ffi
    >>> library = ctypes.CDLL("./kernels.so")  # doctest: +SKIP
    >>> ffi.register_ffi_target("rms_norm", library.RmsNorm)  # doctest: +SKIP
    """
    operation = "register_ffi_target"
    if not isinstance(name, str) or not name:
        raise WeftTypeError(
            f"{operation} takes a name first",
            operation=operation,
            got=f"{name!r:.100}",
            wanted="a text that is not empty",
            fix=Fix("name", "pass the name that ffi_call is to use", {}),
        )
    if api_version != 1:
        raise WeftNotImplementedError(
            f"{operation} of {name!r}: weft calls the typed foreign function interface only",
            operation=operation,
            got=f"api_version={api_version!r}",
            wanted="api_version=1",
            fix=Fix("api_version", "compile the handler against xla/ffi/api/ffi.h", {}),
        )
    platform = _platform(name, platform)
    given = fn if isinstance(fn, Mapping) else {"execute": fn}
    if "execute" not in given or not set(given) <= set(_STAGES):
        raise WeftValueError(
            f"{operation} of {name!r}: these are not the stages of a handler",
            operation=operation,
            got=", ".join(map(repr, given)) or "none",
            wanted=f"'execute', and any of {', '.join(map(repr, _STAGES[:-1]))}",
            fix=Fix("stages", "pass {'execute': function}", {"stages": ("execute",)}),
        )
    stages = {stage: _address(operation, repr(stage), own) for stage, own in given.items()}
    with _lock:
        if (name, platform) in _targets or foreign.registered(name, platform):
            raise _taken(name, platform, stages == _targets.get((name, platform)))
        foreign.register(name, platform, stages)
        _targets[name, platform] = stages
        _kept.append(list(given.values()))


@api_boundary
def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Says that a call of this name may be cut along its batch dimensions: handlers called on the
    parts give the parts of the results.

    Which dimensions these are is a matter of the call: the first `num_batch_dims` that `ffi_call`
    is given, and those that `vmap` adds where it calls the handler once for all elements. In a
    program over several devices, each device then calls the handler with what it holds; without
    this, every device gets the whole operands. Saying it twice changes nothing.

    Raises WeftValueError for a name that is not registered.

    >>> from weft import ffi
    >>> ffi.register_ffi_target_as_batch_partitionable("nobody")
    Traceback (most recent call last):
        ...
    weft.errors.WeftValueError: nothing is registered as 'nobody' on cpu
    ...
    """
    check_registered(name, "cpu", "register_ffi_target_as_batch_partitionable")
    with _lock:
        foreign.split_along_batch(name)
        _batch.add(name)


def batch_partitionable(name: str) -> bool:
    """Whether calls of this name may be split along their batch dimensions."""
    return name in _batch


def check_registered(name: str, platform: str, operation: str) -> None:
    """Raises WeftValueError where a program for the platform cannot call this name.

    Of other platforms than this process computes on it is not known what is registered there.
    """
    if platform != "cpu" or foreign.registered(name, platform):
        return
    raise WeftValueError(
        f"nothing is registered as {name!r} on {platform}",
        operation=operation,
        got=f"the name {name!r}",
        wanted=_known(platform),
        fix=Fix(
            "register",
            f"call weft.ffi.register_ffi_target({name!r}, function) before",
            {"target": name},
        ),
    )


def _known(platform: str) -> str:
    names = sorted(name for name, own in _targets if own == platform)
    return f"one of {', '.join(map(repr, names))}" if names else "a registered name (none is yet)"


def _platform(name: str, platform: Any) -> str:
    if platform in ("cpu", "Host"):
        return "cpu"
    # A GPU's plugin keeps a registry of its own, which jaxlib's registration does not reach.
    raise WeftNotImplementedError(
        f"register_ffi_target of {name!r}: handlers are called on CPUs only",
        operation="register_ffi_target",
        got=f"platform={platform!r}",
        wanted="platform='cpu'",
        fix=Fix("platform", "pass platform='cpu'", {"platform": "cpu"}),
    )


def _taken(name: str, platform: str, same: bool) -> WeftValueError:
    what = "this handler" if same else "another handler"
    text = "register it once, where its library is loaded" if same else "choose another name"
    return WeftValueError(
        f"{what} is registered as {name!r} on {platform} already",
        operation="register_ffi_target",
        got=f"the name {name!r} again",
        wanted="a name that nothing has: compiled programs call handlers by name",
        fix=Fix("once" if same else "name", text, {"target": name}),
    )


def _address(operation: str, what: str, given: Any) -> int:
    """The address of a function given in any of the forms for one."""
    found: int | None = None
    if isinstance(given, int) and not isinstance(given, bool):
        found = given
    elif isinstance(given, (_FUNCTION, ctypes.c_void_p)):
        found = ctypes.cast(given, ctypes.c_void_p).value
    elif type(given).__name__ == "PyCapsule":
        found = foreign.address(given)
    if found:
        return found
    raise WeftTypeError(
        f"{operation}: {what} is no compiled function",
        operation=operation,
        got=f"{given!r:.100} of class {type(given).__name__}",
        wanted="a function of a library loaded with ctypes.CDLL, or a PyCapsule with its address",
        fix=Fix("ctypes", "pass ctypes.CDLL(path).TheFunction", {}),
    )
