"""Reads a table of numbers with a column of labels from a text file.

The file has one row per line. Commas, semicolons, tabs, bars or spaces separate its columns, a
header is optional, and one column holds the label: a number or a name. No row is ever left out:
what cannot be used raises `BadData`, in one line that says where it stands, what it is and what is
wanted.
"""

from __future__ import annotations

import difflib
import itertools
import operator
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np

from demo.text import BadData, rows_of, separator_of, shown, text_of

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MISSING = {"", "?", "-", ".", "na", "n/a", "nan", "null", "none"}
MISSING_LABELS = {"", "?", "na", "n/a", "nan", "null"}
LARGEST = float(np.finfo(np.float32).max)
FEWEST_ROWS = 10
# One to train on, one to choose the epoch by, one held out.
FEWEST_OF_A_CLASS = 3
MOST_CLASSES = 1000
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}


class Table(NamedTuple):
    """Rows of features, and the class of each row as an index into `classes`."""

    features: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]
    names: tuple[str, ...]
    # The line of the file on which each row stands.
    lines: np.ndarray
    # What was found in the file, and what looks doubtful, in one line each.
    notes: tuple[str, ...]


class Columns(NamedTuple):
    """What the columns of a file are. Indices count from 0, in messages from 1."""

    path: Path
    names: tuple[str, ...]
    header: bool
    label: int
    features: tuple[int, ...]

    def named(self, column: int) -> str:
        """A column as messages name it."""
        name = f" ({shown(self.names[column])})" if self.header else ""
        return f"column {column + 1}{name}"

    def at(self, line: int, column: int) -> str:
        """The place of a cell as messages name it."""
        return f"{self.path}, line {line}, {self.named(column)}"


def read_table(path: Path, label: str = "last", drop: Sequence[str] = ()) -> Table:
    """The table in a file. `label` is a column's name, its number from 1, `first` or `last`;
    `drop` names columns to leave out."""
    text = text_of(path)
    separator = separator_of(text)
    decimal = decimal_of(text, separator)
    convert = conversion(text, decimal)
    rows = rows_of(text, separator, path)
    start = list(itertools.islice(rows, 2))
    if not start:
        raise BadData(f"{path} is empty; wanted: rows of numbers and a label")
    columns = columns_of(path, start, label, drop, convert)
    rows = itertools.chain(start[1 if columns.header else 0 :], rows)
    values, cells, lines = read_rows(rows, columns, start[0], convert, decimal)
    if len(lines) < FEWEST_ROWS:
        raise BadData(f"{path} has {len(lines)} rows of data; wanted: at least {FEWEST_ROWS}")
    features = np.frombuffer(values, np.float64).reshape(len(lines), len(columns.features))
    check_values(features, lines, columns, rows_of(text, separator, path))
    labels, classes = classes_of(cells, lines, columns)
    names = tuple(columns.names[i] for i in columns.features)
    found = (
        f"{path}: {len(lines)} rows, columns separated by {SEPARATORS[separator]}, "
        f"{'decimal commas, ' if decimal == ',' else ''}"
        f"{f'header in line {start[0][0]}' if columns.header else 'no header'}, "
        f"labels in {columns.named(columns.label)}"
    )
    notes = (found, *doubts(features, columns))
    return Table(features, labels, classes, names, np.asarray(lines), notes)


# ---- numbers -----------------------------------------------------------------------------------


def decimal_of(text: str, separator: str) -> str:
    """The decimal sign: a comma where one stands in a number that no comma separates."""
    if separator == ",":
        return "."
    edge = re.escape(separator) + r'"\r\n'
    comma = re.compile(rf"(?:^|[{edge}]) *[+-]?\d*,\d+(?:[eE][+-]?\d+)? *(?=[{edge}]|$)")
    return "," if comma.search(text) else "."


def conversion(text: str, decimal: str) -> Callable[[str], float]:
    """What makes a number of a cell, or raises `ValueError`."""
    if decimal == ",":

        def with_comma(cell: str) -> float:
            if "." in cell:
                raise ValueError(cell)
            return strict(cell.replace(",", "."))

        return with_comma
    # `float` alone is five times as fast. It also takes 1_000 and digits of other scripts.
    first_row_ends = max(text.find("\n"), 0)
    plain = text.find("_", first_row_ends) < 0 and text.isascii()
    return float if plain else strict


def strict(cell: str) -> float:
    """The number in a cell that is written with ASCII digits alone."""
    if NUMBER.fullmatch(cell.strip()) or cell.strip().lower().lstrip("+-") in ("nan", "inf"):
        return float(cell)
    raise ValueError(cell)


def is_number(cell: str, convert: Callable[[str], float]) -> bool:
    """Whether a cell holds a number."""
    try:
        convert(cell)
    except ValueError:
        return False
    return True


# ---- columns -----------------------------------------------------------------------------------


def columns_of(
    path: Path,
    start: list[tuple[int, list[str]]],
    label: str,
    drop: Sequence[str],
    convert: Callable[[str], float],
) -> Columns:
    """Which columns are features, and whether the first row of `start` names them."""
    line, first = start[0]
    width = len(first)
    if width < 2:
        raise BadData(
            f"{path}, line {line}: one column, {shown(first[0])}; wanted: at least two columns, "
            "separated by commas, semicolons, tabs, bars or spaces"
        )
    names = tuple(" ".join(cell.lstrip("#").split()) for cell in first)
    place = column_called(path, line, names, label, "--label", convert)
    dropped = {column_called(path, line, names, name, "--drop", convert) for name in drop}
    features = tuple(i for i in range(width) if i != place and i not in dropped)
    if place in dropped:
        raise BadData(f"{path}: column {place + 1} holds the labels; --drop cannot leave it out")
    if not features:
        raise BadData(f"{path}: --drop leaves no column but the label's; wanted: at least one more")
    header = has_header(path, start, features, place, convert)
    if not header:
        names = tuple(f"column {i + 1}" for i in range(width))
    repeated = {name for name, times in Counter(names).items() if times > 1 or not name}
    names = tuple(
        f"{name or 'unnamed'}, column {i + 1}" if name in repeated else name
        for i, name in enumerate(names)
    )
    return Columns(path, names, header, place, features)


def column_called(
    path: Path,
    line: int,
    names: tuple[str, ...],
    wanted: str,
    option: str,
    convert: Callable[[str], float],
) -> int:
    """The index of the column that an option names."""
    found = [i for i, name in enumerate(names) if name == wanted and not is_number(name, convert)]
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        places = " and ".join(str(i + 1) for i in found)
        raise BadData(
            f"{path}, line {line}: columns {places} are called {shown(wanted)}; "
            f"wanted: the number of one, such as {option} {found[0] + 1}"
        )
    if wanted in ("first", "last"):
        return 0 if wanted == "first" else len(names) - 1
    if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    close = difflib.get_close_matches(wanted, names, 1)
    meant = f" (did you mean {shown(close[0])}?)" if close else ""
    raise BadData(
        f"{path}, line {line}: no column is called {shown(wanted)}{meant}; wanted for {option}: "
        f"a name in the header or a number from 1 to {len(names)}"
    )


def has_header(
    path: Path,
    start: list[tuple[int, list[str]]],
    features: tuple[int, ...],
    label: int,
    convert: Callable[[str], float],
) -> bool:
    """Whether the first row names the columns: its features are text, or only its label is."""
    line, first = start[0]
    numbers = [i for i in features if is_number(first[i], convert)]
    if not numbers:
        return True
    if len(numbers) == len(features):
        # A header may count its columns; a label that is a number below shows that it is one.
        below = start[1][1][label : label + 1] if len(start) > 1 else []
        return not is_number(first[label], convert) and any(is_number(c, convert) for c in below)
    bad = next(i for i in features if i not in numbers)
    raise BadData(
        f"{path}, line {line}: {shown(first[numbers[0]])} in column {numbers[0] + 1} and "
        f"{shown(first[bad])} in column {bad + 1} are neither a header nor a row of numbers; "
        f"wanted: all names or all numbers ({other_uses(bad)})"
    )


def other_uses(column: int) -> str:
    """What can be said of a column that does not hold numbers."""
    return f"--label {column + 1} if it holds the labels, --drop {column + 1} to leave it out"


# ---- rows --------------------------------------------------------------------------------------


def read_rows(
    rows: Iterator[tuple[int, list[str]]],
    columns: Columns,
    first: tuple[int, list[str]],
    convert: Callable[[str], float],
    decimal: str,
) -> tuple[array[float], list[str], list[int]]:
    """The numbers of all rows one after the other, the cells of labels, and the rows' lines."""
    first_line, width = first[0], len(first[1])
    values, cells, lines = array("d"), [], []
    chosen = operator.itemgetter(*columns.features, columns.label)
    one_of_each: dict[str, str] = {}
    for line, row in rows:
        if len(row) != width:
            raise BadData(
                f"{columns.path}, line {line}: {len(row)} columns where line {first_line} has "
                f"{width}; wanted: the same number in every line"
            )
        *numbers, label = chosen(row)
        try:
            values.extend(map(convert, numbers))
        except ValueError:
            bad = next(i for i in columns.features if not is_number(row[i], convert))
            raise BadData(not_a_number(line, row[bad], bad, columns, decimal)) from None
        cells.append(one_of_each.setdefault(label, label))
        lines.append(line)
    return values, cells, lines


def not_a_number(line: int, cell: str, column: int, columns: Columns, decimal: str) -> str:
    """What is wrong with a cell that holds no number."""
    place = columns.at(line, column)
    if cell.strip().lower() in MISSING:
        return (
            f"{place}: {shown(cell)}, a missing value; wanted: a number "
            f"(fill it in, delete the line, or leave the column out with --drop {column + 1})"
        )
    with_comma = ", with a decimal comma as elsewhere in this file" if decimal == "," else ""
    return f"{place}: {shown(cell)}; wanted: a number{with_comma} ({other_uses(column)})"


def check_values(
    features: np.ndarray, lines: list[int], columns: Columns, rows: Iterator[tuple[int, list[str]]]
) -> None:
    """Raises `BadData` for the first value that is not finite or beyond the network's floats."""
    good = np.abs(features) <= LARGEST
    if good.all():
        return
    row, feature = np.argwhere(~good)[0]
    line, column = lines[row], columns.features[feature]
    cell = next(cells[column] for at, cells in rows if at == line)
    if np.isnan(features[row, feature]):
        raise BadData(not_a_number(line, cell, column, columns, "."))
    raise BadData(
        f"{columns.at(line, column)}: {shown(cell)}; wanted: a number between "
        f"-{LARGEST:.1e} and {LARGEST:.1e}, the largest 32-bit float"
    )


# ---- labels ------------------------------------------------------------------------------------


def classes_of(
    cells: list[str], lines: list[int], columns: Columns
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The class of each row and the names of the classes, in the order of numbers or of names."""
    rows_with: dict[str, int] = {}
    for row, cell in enumerate(cells):
        rows_with.setdefault(cell, row)
    for cell, row in rows_with.items():
        if cell.strip().lower() in MISSING_LABELS:
            raise BadData(
                f"{columns.at(lines[row], columns.label)}: {shown(cell)}, a missing label; "
                "wanted: a number or a name"
            )
    written = {cell: cell.strip().replace(",", ".") for cell in rows_with}
    numeric = all(NUMBER.fullmatch(text) for text in written.values())
    # 1 and 1.0 are one class, and so are a name and the same name between spaces.
    keys = {cell: Decimal(written[cell]) if numeric else cell.strip() for cell in rows_with}
    order = sorted(set(keys.values()))
    index = {key: i for i, key in enumerate(order)}
    labels = np.array([index[keys[cell]] for cell in cells], np.int32)
    names = {key: cell.strip() for cell, key in reversed(keys.items())}
    classes = tuple(re.sub(r"[.,]0*$", "", names[k]) if numeric else names[k] for k in order)
    check_classes(labels, classes, lines, columns)
    return labels, classes


def check_classes(
    labels: np.ndarray, classes: tuple[str, ...], lines: list[int], columns: Columns
) -> None:
    """Raises `BadData` for one class, for too many, and for one with fewer rows than parts."""
    place = f"{columns.path}, {columns.named(columns.label)}"
    other = "(--label says which column holds the labels)"
    if len(classes) < 2:
        raise BadData(
            f"{place}: every row has the label {shown(classes[0])}; "
            f"wanted: at least two different labels {other}"
        )
    if len(classes) > MOST_CLASSES:
        raise BadData(
            f"{place}: {len(classes)} different labels in {len(labels)} rows; "
            f"wanted: at most {MOST_CLASSES} {other}"
        )
    counts = np.bincount(labels, minlength=len(classes))
    if counts.min() >= FEWEST_OF_A_CLASS:
        return
    rare = int(counts.argmin())
    line = lines[int(np.argmax(labels == rare))]
    many = f"{len(classes)} different labels in {len(labels)} rows, and " * (len(classes) > 20)
    rows = "row has" if counts[rare] == 1 else "rows have"
    raise BadData(
        f"{place}: {many}{counts[rare]} {rows} the label {shown(classes[rare])} (line {line}); "
        f"wanted: at least {FEWEST_OF_A_CLASS} rows of each label {other}"
    )


# ---- doubts ------------------------------------------------------------------------------------


def doubts(features: np.ndarray, columns: Columns) -> Iterator[str]:
    """Notes on columns that say nothing of a class, or too much."""
    rows = len(features)
    for feature, column in enumerate(columns.features):
        values = features[:, feature]
        if np.array_equal(values - values[0], np.arange(rows)):
            yield (
                f"note: {columns.named(column)} only counts the rows; if it is no measurement, "
                f"leave it out with --drop {column + 1}"
            )
    constant = np.flatnonzero(np.ptp(features, axis=0) == 0)
    if len(constant):
        first = columns.named(columns.features[int(constant[0])])
        more = f" and {len(constant) - 1} more have" if len(constant) > 1 else " has"
        yield f"note: {first}{more} the same value in every row"
