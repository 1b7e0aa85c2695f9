"""Reads the text of an HLO module: its computations, their instructions, and the user's lines.

Only what looking at whole programs needs is read: names, types, operands, attributes as text. The
format is that of `HloModule::ToString` (https://openxla.org/xla/operation_semantics).
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, NamedTuple

import numpy as np

from weft import dtypes
from weft.errors import WeftValueError


class Shape(NamedTuple):
    """The dtype and lengths of an array in HLO."""

    dtype: np.dtype[Any]
    lengths: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The size of an array on one device."""
        return prod(self.lengths) * dtypes.itemsize_bits(self.dtype) // 8


class Instruction(NamedTuple):
    """`name = shapes opcode(operands), attributes`; a tuple has the shapes of its elements."""

    name: str
    shapes: tuple[Shape, ...]
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    def attribute(self, name: str) -> str:
        """The text of an attribute, with its brackets; empty without such an attribute."""
        found = re.search(rf"(?:^|, ){name}=", self.attributes)
        return "" if found is None else _value(self.attributes[found.end() :])

    def computations(self, *names: str) -> list[str]:
        """The computations that attributes name, in the order of `names`."""
        found = [self.attribute(name) for name in names]
        return [name.strip(" %") for text in found for name in text.strip("{}").split(",") if name]


class Computation(NamedTuple):
    """The instructions of a computation, in the order of the text."""

    name: str
    instructions: list[Instruction]
    shapes: dict[str, tuple[Shape, ...]]

    def operand_shapes(self, instruction: Instruction) -> list[Shape]:
        """The shapes of an instruction's operands."""
        return [shape for name in instruction.operands for shape in self.shapes[name]]


class HloModule(NamedTuple):
    """A module: its computations, the entry, how many devices run it, and its stack frames."""

    entry: str
    computations: dict[str, Computation]
    devices: int
    frames: dict[int, str]

    def line(self, instruction: Instruction) -> str:
        """The user's line of an instruction, as `file.py:12 in function`."""
        metadata = instruction.attribute("metadata")
        frame = re.search(r"stack_frame_id=(\d+)", metadata)
        if frame is not None:
            return self.frames.get(int(frame[1]), "an unknown line")
        file = re.search(r'source_file="([^"]*)"', metadata)
        number = re.search(r"source_line=(\d+)", metadata)
        return f"{file[1]}:{number[1]}" if file and number else "an unknown line"


def parse(text: str) -> HloModule:
    """Reads the text of a compiled module. Raises WeftValueError for text that is none.

    >>> module = parse('''HloModule m, num_partitions=2
    ...
    ... ENTRY %main (x: f32[4]) -> f32[4] {
    ...   %x = f32[4]{0} parameter(0)
    ...   ROOT %y = f32[4]{0} add(%x, %x)
    ... }''')
    >>> module.devices, [one.opcode for one in module.computations["main"].instructions]
    (2, ['parameter', 'add'])
    """
    entry, computations = "", {}
    current: Computation | None = None
    for line in text.splitlines():
        if current is None:
            head = re.match(r"(ENTRY )?%?([\w.\-]+) .*\{$", line)
            if head is not None and not line.startswith("HloModule"):
                current = Computation(head[2], [], {})
                computations[head[2]] = current
                entry = head[2] if head[1] else entry
        elif line.startswith("}"):
            current = None
        else:
            found = _instruction(line)
            if found is not None:
                current.instructions.append(found)
                current.shapes[found.name] = found.shapes
    if not entry:
        message = "this is no text of a compiled HLO module: it has no ENTRY computation"
        raise WeftValueError(message, operation="comms", got=f"{text[:60]!r}")
    counts = re.findall(r"(?:num_partitions|replica_count)=(\d+)", text.split("\n", 1)[0])
    return HloModule(entry, computations, prod(map(int, counts)), _frames(text))


def _instruction(line: str) -> Instruction | None:
    line = re.sub(r"/\*.*?\*/", "", line)
    head = re.match(r"\s*(?:ROOT )?%?([\w.\-]+) = ", line)
    if head is None:
        return None
    type = _value(line[head.end() :], " ")
    rest = line[head.end() + len(type) + 1 :]
    opcode, _, rest = rest.partition("(")
    operands = _value(f"({rest}", "")
    attributes = rest[len(operands) - 1 :].removeprefix(", ")
    # An operand may be written with its type.
    names = tuple(part.split()[-1].lstrip("%") for part in _split(operands[1:-1]) if part.strip())
    return Instruction(head[1], _shapes(type), opcode, names, attributes)


def _value(text: str, ends: str = ", ") -> str:
    """The first value of a text, with balanced brackets and quotes."""
    depth, quoted, position = 0, False, 0
    while position < len(text):
        letter = text[position]
        if quoted:
            if letter == "\\":
                position += 1
            quoted = letter != '"'
        elif letter == '"':
            quoted = True
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if not depth and not ends:
                return text[: position + 1]
        elif not depth and ends and letter in ends:
            break
        position += 1
    return text[:position]


def _split(text: str) -> list[str]:
    """The parts of a list, divided by commas outside of brackets."""
    parts = []
    while text:
        part = _value(text, ",")
        parts.append(part)
        text = text[len(part) + 1 :]
    return parts


_ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,<= ]*)\]")
_WORDS = {"s": "int", "u": "uint", "f": "float", "c": "complex"}


def _shapes(type: str) -> tuple[Shape, ...]:
    return tuple(
        Shape(_dtype(name), tuple(int(n.strip("<= ")) for n in lengths.split(",") if n))
        for name, lengths in _ARRAY.findall(type)
        if name not in ("token", "opaque")
    )


def _dtype(name: str) -> np.dtype[Any]:
    """The dtype that HLO calls `s32`, `bf16`, `f8e4m3fn`, …"""
    if name in ("pred", "bf16"):
        return dtypes.parse({"pred": "bool", "bf16": "bfloat16"}[name])
    kind, bits, rest = re.fullmatch(r"([a-z])(\d+)(\w*)", name).groups()  # type: ignore[union-attr]
    return dtypes.parse(f"{_WORDS[kind]}{bits}{'_' if rest else ''}{rest}")


def _frames(text: str) -> dict[int, str]:
    """The user's line of each stack frame, from the tables in front of the computations."""
    tables: dict[str, dict[int, str]] = {}
    table: dict[int, str] | None = None
    for line in text.splitlines():
        if line in ("FileNames", "FunctionNames", "FileLocations", "StackFrames"):
            table = tables[line] = {}
        elif table is not None:
            row = re.match(r"(\d+) (.*)", line)
            if row is None:
                table = None
            else:
                table[int(row[1])] = row[2]
    files, functions = (
        {number: name.strip('"') for number, name in tables.get(title, {}).items()}
        for title in ("FileNames", "FunctionNames")
    )

    def numbers(row: str) -> dict[str, int]:
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", row)}

    places = {}
    for number, location in tables.get("FileLocations", {}).items():
        at = numbers(location)
        where = f"{files.get(at['file_name_id'], '?')}:{at['line']}"
        function = functions.get(at.get("function_name_id", 0))
        places[number] = f"{where} in {function}" if function else where
    unknown = "an unknown line"
    return {
        number: places.get(numbers(frame).get("file_location_id", 0), unknown)
        for number, frame in tables.get("StackFrames", {}).items()
    }
