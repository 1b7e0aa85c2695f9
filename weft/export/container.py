"""The file format of an exported function: a header, and the sections that it lists.

    magic            8 bytes
    format version   4 bytes, little-endian
    header length    8 bytes, little-endian
    header           JSON in UTF-8
    SHA-256          32 bytes, of everything before it
    sections         one after the other, as the header lists them with length and SHA-256

A reader looks at the version first, since formats have only that in common, and uses nothing before
its checksum has been verified. A file is data: nothing in it is unpickled, evaluated or imported.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from weft.errors import Fix, WeftTypeError, WeftValueError

T = TypeVar("T")

# As in PNG: not text, and the line ends show where a transfer has changed them.
MAGIC = b"\x89weft\r\n\n"
FORMAT_VERSION = 1
_PREFIX = struct.Struct("<IQ")
_START = len(MAGIC) + _PREFIX.size
_DIGEST = 32


def invalid_bytes_error(
    message: str, got: Any, wanted: Any, fix: Fix | None = None
) -> WeftValueError:
    """The error for invalid bytes."""
    return WeftValueError(
        f"these bytes are refused: {message}",
        operation="export.deserialize",
        got=got,
        wanted=wanted,
        fix=fix or Fix("export_again", "export the program again, or copy the file again"),
    )


class Sections:
    """The sections of a file that is being written; equal ones are stored once."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self.contents: list[bytes] = []

    def add(self, content: bytes) -> int:
        """The number of the section with this content."""
        digest = hashlib.sha256(content).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self.contents)
            self.contents.append(content)
        return number


def pack(header: Mapping[str, Any], sections: Sequence[bytes]) -> bytes:
    """The bytes of a file."""
    listed = [
        {"length": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for content in sections
    ]
    text = json.dumps(
        {**header, "sections": listed}, separators=(",", ":"), sort_keys=True, allow_nan=False
    ).encode()
    start = MAGIC + _PREFIX.pack(FORMAT_VERSION, len(text)) + text
    return b"".join([start, hashlib.sha256(start).digest(), *sections])


def unpack(data: Any) -> tuple[Fields, list[bytes]]:
    """The header and the sections of a file. Raises WeftValueError for other bytes, damaged ones,
    and another version of the format."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        message = "an exported program is read from bytes"
        wanted = "bytes, as serialize() gives them"
        fix = Fix("read", "read the file first: open(path, 'rb').read()")
        raise WeftTypeError(message, got=type(data).__name__, wanted=wanted, fix=fix)
    data = bytes(data)
    start = len(MAGIC)
    if data[:start] != MAGIC:
        shown = f"{len(data)} bytes that begin with {data[:start]!r}"
        raise invalid_bytes_error(
            "they are no exported program", shown, f"bytes that begin with {MAGIC!r}"
        )
    if len(data) < _START:
        raise _truncated_error(len(data), f"at least {_START} bytes")
    version, length = _PREFIX.unpack_from(data, start)
    if version != FORMAT_VERSION:
        raise invalid_bytes_error(
            "their format is another one",
            f"format version {version}",
            f"format version {FORMAT_VERSION}",
            Fix(
                "upgrade",
                "upgrade weft here, or export with the version of weft that is here",
                {"version": version},
            ),
        )
    end = _START + length
    if len(data) < end + _DIGEST:
        raise _truncated_error(len(data), f"a header that ends at byte {end + _DIGEST}")
    if hashlib.sha256(data[:end]).digest() != data[end : end + _DIGEST]:
        raise invalid_bytes_error(
            "the header is damaged", "another SHA-256", "the SHA-256 that follows it"
        )
    header = _parse_header(data[_START:end])
    return header, _sections(header, data[end + _DIGEST :])


def _truncated_error(got: int, wanted: str) -> WeftValueError:
    return invalid_bytes_error("they end too early", f"{got} bytes", wanted)


def _parse_header(text: bytes) -> Fields:
    try:
        found = json.loads(
            text.decode(), object_pairs_hook=_without_repetitions, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise invalid_bytes_error(
            "the header is no JSON", str(error)[:200], "an object in UTF-8"
        ) from None
    return Fields(found, "the header")


def _without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is there twice")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _sections(header: Fields, data: bytes) -> list[bytes]:
    out, position = [], 0
    for i, entry in enumerate(header.objects("sections")):
        length, digest = entry.integer("length"), entry.text("sha256")
        entry.end()
        content = data[position : position + length]
        if len(content) < length:
            raise _truncated_error(len(content), f"{length} bytes in section {i}")
        if hashlib.sha256(content).hexdigest() != digest:
            raise invalid_bytes_error(
                f"section {i} is damaged", "another SHA-256", f"SHA-256 {digest}"
            )
        out.append(content)
        position += length
    if position != len(data):
        raise invalid_bytes_error(
            "they go on after the end", f"{len(data) - position} more bytes", "no more"
        )
    return out


class Fields:
    """An object of the header, read field by field. Every method raises WeftValueError for a field
    that is missing or of another kind."""

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            raise _ill_formed_error(what, value, "an object")
        self._left = dict(value)
        self.what = what

    def has(self, name: str) -> bool:
        """Whether the optional field is present."""
        return name in self._left

    def take(self, name: str) -> Any:
        """A field of any kind."""
        if name not in self._left:
            raise _ill_formed_error(self.what, f"no field {name!r}", f"a field {name!r}")
        return self._left.pop(name)

    def _of(self, name: str, kind: type[T], wanted: str) -> T:
        value: T = self.take(name)
        if type(value) is not kind:
            raise _ill_formed_error(f"{name} in {self.what}", value, wanted)
        return value

    def text(self, name: str) -> str:
        """A string, of characters that every encoding has."""
        out = self._of(name, str, "a string")
        if not _is_encodable(out):
            raise _ill_formed_error(f"{name} in {self.what}", out, "a string of characters")
        return out

    def integer(self, name: str, end: int | None = None) -> int:
        """A number 0, 1, 2, …, below `end` if that is given."""
        out = self._of(name, int, "a number")
        if out < 0 or (end is not None and out >= end):
            raise _ill_formed_error(f"{name} in {self.what}", out, f"a number from 0 to {end}")
        return out

    def boolean(self, name: str) -> bool:
        """True or false."""
        return self._of(name, bool, "true or false")

    def array(self, name: str) -> list[Any]:
        """An array of anything."""
        return self._of(name, list, "an array")

    def objects(self, name: str) -> list[Fields]:
        """An array of objects."""
        values = self.array(name)
        return [Fields(v, f"{name}[{i}] in {self.what}") for i, v in enumerate(values)]

    def texts(self, name: str) -> list[str]:
        """An array of strings."""
        values = self.array(name)
        if any(type(value) is not str or not _is_encodable(value) for value in values):
            raise _ill_formed_error(f"{name} in {self.what}", values, "strings")
        return values

    def integers(self, name: str) -> list[int]:
        """An array of numbers 0, 1, 2, …"""
        values = self.array(name)
        if any(type(value) is not int or value < 0 for value in values):
            raise _ill_formed_error(f"{name} in {self.what}", values, "numbers")
        return values

    def names(self) -> tuple[str, ...]:
        """The names of the fields that have not been read."""
        return tuple(self._left)

    def end(self) -> None:
        """Raises WeftValueError for unread fields: they would have a meaning."""
        if self._left:
            raise _ill_formed_error(self.what, f"fields {sorted(self._left)}", "none of these")


def _is_encodable(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which JSON can name and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _ill_formed_error(what: str, got: Any, wanted: str) -> WeftValueError:
    return invalid_bytes_error(f"{what} is ill-formed", f"{got!r:.200}", wanted)
