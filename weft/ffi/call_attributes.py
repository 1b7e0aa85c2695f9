"""The attributes of an FFI call: values fixed when it is traced, as the compiled code reads them.

They are kept as bytes with their dtype, so that equal ones are equal as keys of caches, and only
those: 1, 1.0 and True are three attributes, and so are 0.0 and -0.0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.core.types import Typed
from weft.errors import DTypeError, Fix, WeftTypeError, WeftValueError

_SCALARS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)
_ELEMENTS = _SCALARS - {"bool"}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Numbers:
    """A number, or an array of them, by its bytes."""

    dtype: str
    shape: tuple[int, ...] | None
    data: bytes

    def values(self) -> Any:
        """The NumPy scalar (where `shape` is None) or array."""
        array = np.frombuffer(self.data, np.dtype(self.dtype))
        return array[0] if self.shape is None else array.reshape(self.shape)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ForeignAttributes:
    """Attributes by name, sorted: texts, numbers, arrays of numbers, and groups of attributes."""

    entries: tuple[tuple[str, str | Numbers | ForeignAttributes], ...] = ()

    def values(self) -> dict[str, Any]:
        """Texts, NumPy scalars and arrays, and dictionaries of those."""
        return {name: x if isinstance(x, str) else x.values() for name, x in self.entries}

    def __repr__(self) -> str:
        shown = (f"{name}={_value_text(value)}" for name, value in self.values().items())
        return f"{{{', '.join(shown)}}}"


def _value_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, threshold=8, separator=", ")
    return str(value.item()) if isinstance(value, np.generic) else repr(value)


def foreign_attributes(
    target: str, values: Mapping[Any, Any], path: str = "", *, untyped: bool = False
) -> ForeignAttributes:
    """The attributes of a call. Raises WeftTypeError, DTypeError and WeftValueError, naming the
    attribute, for values that the interface has no form for, and for all where it has none."""
    if untyped and values:
        message = f"the foreign call of {target!r} is by the interface that has no attributes"
        got, wanted = ", ".join(map(repr, values)), "a text, legacy_backend_config"
        fix = Fix("legacy_backend_config", "pass them in legacy_backend_config")
        raise WeftValueError(
            message, operation=f"ffi_call of {target}", got=got, wanted=wanted, fix=fix
        )
    entries: list[tuple[str, str | Numbers | ForeignAttributes]] = []
    for name, value in values.items():
        if not isinstance(name, str):
            raise _unsupported_error(target, f"{path}[{name!r}]", name, "names that are texts")
        own = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            entries.append((name, foreign_attributes(target, value, own)))
        elif isinstance(value, str):
            entries.append((name, str(value)))
        else:
            entries.append((name, _numbers(target, own, value)))
    return ForeignAttributes(tuple(sorted(entries, key=lambda entry: entry[0])))


def _numbers(target: str, path: str, value: Any) -> Numbers:
    if isinstance(value, Typed):
        raise _unsupported_error(
            target,
            path,
            value,
            "a value that is known when the call is traced",
            Fix(
                "operand",
                "pass the array as an operand, by position, or numpy.asarray(x) of it",
                {"attribute": path},
            ),
        )
    scalar = isinstance(value, (bool, int, float, np.generic))
    if not scalar and not isinstance(value, (np.ndarray, list, tuple)):
        raise _unsupported_error(target, path, value, _WANTED)
    try:
        # Python's numbers are those of C's int64_t and double on every machine.
        dtype = np.int64 if isinstance(value, int) and not isinstance(value, bool) else None
        array = np.asarray(value, dtype)
    except OverflowError:
        fits = 0 <= value < 2**64
        text = "pass numpy.uint64(x)" if fits else "pass it as a float or as a text"
        raise WeftValueError(
            f"the attribute {path!r} of the foreign call of {target!r} does not fit in 64 bits",
            operation=f"ffi_call of {target}",
            got=f"{value}",
            wanted="an integer from -2**63 to 2**63 - 1, or a numpy.uint64",
            fix=Fix("uint64" if fits else "other", text, {"attribute": path}),
        ) from None
    except ValueError:  # a list of lists of different lengths
        raise _unsupported_error(target, path, value, _WANTED) from None
    if array.dtype.kind in "OUS":
        raise _unsupported_error(target, path, value, _WANTED)
    if array.dtype.name not in (_SCALARS if scalar else _ELEMENTS):
        raise _no_such_dtype(target, path, array.dtype)
    array = array.astype(array.dtype.newbyteorder("="))
    return Numbers(array.dtype.name, None if scalar else array.shape, array.tobytes())


_WANTED = "a bool, int, float, str, NumPy scalar, an array of numbers, or a dict of those"


def _no_such_dtype(target: str, path: str, dtype: np.dtype[Any]) -> DTypeError:
    kind = {"b": "uint8", "c": "float64"}.get(dtype.kind, "float32")
    text = f"convert it: numpy.asarray(x, numpy.{kind})"
    if dtype.kind == "c":
        text = "pass the real and the imaginary part as two attributes"
    return DTypeError(
        f"the attribute {path!r} of the foreign call of {target!r} has a dtype that XLA's foreign "
        "function interface has no attributes of",
        operation=f"ffi_call of {target}",
        got=dtype.name,
        wanted="integers of 8 to 64 bits, float32 or float64 (and bool, where it is one value)",
        fix=Fix("cast", text, {"attribute": path, "dtype": kind}),
    )


def _unsupported_error(
    target: str, path: str, value: Any, wanted: str, fix: Fix | None = None
) -> WeftTypeError:
    return WeftTypeError(
        f"the attribute {path!r} of the foreign call of {target!r} is of a kind that compiled code "
        "cannot be given",
        operation=f"ffi_call of {target}",
        got=f"{value!r:.100} of class {type(value).__name__}",
        wanted=wanted,
        fix=fix or Fix("attribute", "pass numbers, texts, or a dict of them", {"attribute": path}),
    )
