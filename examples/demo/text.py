"""From the bytes of a file to rows of cells: encodings, separators, quotes, lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

LARGEST_FILE = 2**29
# What files begin with that are sometimes taken for text.
KINDS = {
    b"\x93NUMPY": "a NumPy array",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"PK\x03\x04": "a ZIP archive, as .xlsx and .npz files are",
    b"\xd0\xcf\x11\xe0": "a file of an older Excel",
    b"PAR1": "in the Parquet format",
    b"\x89HDF": "in the HDF5 format",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF",
}
ENCODINGS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
SAMPLE_LINES = 20


class BadData(ValueError):
    """Data or an option that cannot be used. The message is one line."""


def shown(cell: str) -> str:
    """A cell as messages show it: quoted, on one line, and not too long."""
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte-order mark."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except IsADirectoryError:
        raise BadData(f"{path} is a folder; wanted: a text file with one row per line") from None
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_FILE:
        raise BadData(
            f"{path} is larger than {LARGEST_FILE >> 20} MiB; wanted: a file that this demo can "
            "hold in memory"
        )
    for start, kind in KINDS.items():
        if data.startswith(start):
            raise BadData(f"{path} is {kind}; wanted: a text file with one row per line")
    encoding = next((name for mark, name in ENCODINGS.items() if data.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in data[:4096]:
        raise BadData(f"{path} is not text; wanted: a text file with one row per line")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadData(
            f"{path}, line {line}: the byte 0x{data[error.start]:02x}, which is not "
            f"{encoding.removesuffix('-sig').upper()}; wanted: text saved as UTF-8"
        ) from None
    return text if "\n" in text else text.replace("\r", "\n")


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text with their ends. Only line feeds end a line, as in an editor."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def separator_of(text: str) -> str:
    """The separator that makes the most cells of the first lines numbers."""
    sample = [line for line, _ in zip(lines_of(text[: 1 << 20]), range(SAMPLE_LINES), strict=False)]
    number = re.compile(r"\s*[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*")

    def numbers(separator: str) -> int:
        rows = csv.reader(spaced(sample, separator), delimiter=separator, skipinitialspace=True)
        try:
            return sum(bool(number.fullmatch(cell)) for row in rows for cell in row)
        except csv.Error:  # `rows_of` says which line it is
            return 0

    # The first of equals: a lone column is not made more by any of them.
    return max(",;\t| ", key=numbers)


def spaced(lines: Iterator[str] | list[str], separator: str) -> Iterator[str]:
    """The lines with one space where there are several, if spaces separate."""
    return (" ".join(line.split()) for line in lines) if separator == " " else iter(lines)


def rows_of(text: str, separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line on which it begins."""
    lines = spaced(lines_of(text), separator)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadData(
                f"{path}, line {line}: {error}; wanted: quotes that close, and doubled ones "
                "inside of quotes"
            ) from None
        if any(map(str.strip, row)):
            yield line, row
