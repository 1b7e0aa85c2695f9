"""`__array_namespace_info__`: the Array API standard's description of a namespace."""

from __future__ import annotations

from typing import Any

from weft import dtypes
from weft.errors.argument_errors import invalid_value
from weft.kinds.compiled_functions import is_eager
from weft.runtime import client

_KINDS = {
    "bool": dtypes.BOOLEAN,
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGER,
    "real floating": dtypes.FLOATING,
    "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.NUMERIC,
}
# The standard has no float16, no bfloat16 and no integers of 4 bits.
_STANDARD = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


class NamespaceInfo:
    """Describes `weft.numpy` to code that is written for any array library."""

    def capabilities(self) -> dict[str, Any]:
        """The features available now: while tracing, no shapes that depend on values.

        >>> jnp.__array_namespace_info__().capabilities()["boolean indexing"]
        True
        """
        eager = is_eager()
        return {"boolean indexing": eager, "data-dependent shapes": eager, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device on which arrays are made.

        >>> jnp.__array_namespace_info__().default_device() == jnp.ones(1).device
        True
        """
        return client.local_devices()[0]

    def devices(self) -> list[Any]:
        """All devices of the default platform.

        >>> info = jnp.__array_namespace_info__()
        >>> info.default_device() in info.devices()
        True
        """
        return list(client.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that Python numbers get, for each kind; `enable_x64` decides their width.

        Raises WeftValueError for something that is not a device.

        >>> jnp.__array_namespace_info__().default_dtypes()["integral"].name
        'int32'
        """
        self._check_device("default_dtypes", device)
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.to_complex(dtypes.default_float()),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Any]:
        """The dtypes of the standard by name, all of them or those of a kind or several.

        Raises WeftValueError for a kind that the standard does not have.

        >>> sorted(jnp.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        self._check_device("dtypes", device)
        kinds = (kind,) if isinstance(kind, str) else kind
        for name in kinds or ():
            if name not in _KINDS:
                message = f"dtypes: there is no kind of dtypes called {name!r}"
                raise invalid_value(message, "dtypes", "kind", kind, ", ".join(map(repr, _KINDS)))
        chosen = dtypes.ANY if kinds is None else frozenset().union(*[_KINDS[k] for k in kinds])
        standard = [dtypes.parse(name) for name in _STANDARD]
        return {dtype.name: dtype for dtype in standard if dtype in chosen}

    def _check_device(self, operation: str, device: Any) -> None:
        if device is not None and device not in client.devices():
            message = f"{operation}: device is one of the devices"
            raise invalid_value(
                message, operation, "device", device, "None or one of weft.devices()"
            )


def array_namespace_info() -> NamespaceInfo:
    """Returns the description of `weft.numpy` that the Array API standard (2024.12) asks for.

    >>> jnp.__array_namespace_info__().capabilities()["max dimensions"]
    64
    """
    return NamespaceInfo()
