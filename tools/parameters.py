"""What a docstring says of each parameter, of the result and of errors.

A docstring states parameters in one of three ways, looked for in this order:

- a section that editors know too: a line `Args:`, and below it, indented, `name: meaning` or
  `name (type): meaning`;
- in running text, `name: meaning.`;
- in a sentence that has the name in backticks.

What is left is looked up among the parameters that many functions share (SHARED).

python tools/parameters.py                # the share of parameters with a meaning, per module
python tools/parameters.py weft.lax       # and the names of those without, of a module
"""

from __future__ import annotations

import argparse
import enum
import inspect
import itertools
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import api_reference

# Meanings of parameters that the functions of a module share, by a pattern of the module's name.
SHARED = pathlib.Path(__file__).resolve().parent / "data" / "shared_parameters.toml"
SECTION = re.compile(r"(Args|Returns|Raises):\s*$")
ENTRY = re.compile(r"\s*(?P<names>\w+(?:, \w+)*)(?: \((?P<type>[^)]+)\))?: (?P<text>.*)")


class Meaning(NamedTuple):
    """What a parameter means, its type where the docstring says one, and who says so."""

    text: str
    type: str = ""
    source: str = "docstring"


class Row(NamedTuple):
    """A row of a table of parameters; the meaning is "" where nothing says it."""

    name: str
    type: str
    default: str
    meaning: str
    source: str


class Sections(NamedTuple):
    """The parts of a docstring: paragraphs of text, and its sections."""

    text: list[str]
    parameters: dict[str, Meaning]
    returns: str
    errors: dict[str, str]


# ---- sections --------------------------------------------------------------------------------


def section_entries(block: str) -> Iterator[tuple[list[str], str, str]]:
    """(names, type, text) of the entries of a section, whose text may take several lines."""
    lines = block.splitlines()[1:]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    entry: list[str] = []
    for line in [*lines, " " * indent + "end: "]:
        if entry and len(line) - len(line.lstrip()) == indent:
            found = ENTRY.match(" ".join(part.strip() for part in entry))
            if found is None:
                raise ValueError(f"no `name: meaning` in {entry[0]!r}")
            yield found["names"].split(", "), found["type"] or "", found["text"].strip()
            entry = []
        entry.append(line)


def sections(docstring: str) -> Sections:
    """The parts of a docstring; examples are left in the text."""
    found = Sections([], {}, "", {})
    returns = ""
    for block in api_reference.paragraphs(docstring):
        opened = SECTION.match(block.splitlines()[0])
        if opened is None:
            found.text.append(block)
        elif opened[1] == "Args":
            for names, type_text, text in section_entries(block):
                found.parameters.update(dict.fromkeys(names, Meaning(text, type_text)))
        elif opened[1] == "Raises":
            for names, _, text in section_entries(block):
                found.errors.update(dict.fromkeys(names, text))
        else:
            returns = " ".join(line.strip() for line in block.splitlines()[1:])
    return found._replace(returns=returns)


# ---- running text ----------------------------------------------------------------------------


def is_example(block: str) -> bool:
    return block.lstrip().startswith(">>>")


def sentences(block: str) -> list[str]:
    """The sentences of a paragraph, each on one line."""
    line = " ".join(block.split())
    return re.split(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`\"_(])", line)


def listed(block: str, names: Iterable[str]) -> tuple[dict[str, str], str]:
    """What `name: meaning.` in running text says of names, and the text without it.

    A meaning ends where the next begins; the last is one sentence.
    """
    line = " ".join(block.split())
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    several = rf"(?:(?:{one})(?:, | and |, and )?)+"
    marks = list(re.finditer(rf"(?:^|(?<=[.;] ))`?({several})`?: ", line)) if one else []
    if not marks:
        return {}, block
    found, rest = {}, [line[: marks[0].start()].strip()]
    for mark, following in itertools.zip_longest(marks, marks[1:]):
        said = sentences(line[mark.end() : following.start() if following else len(line)])
        length = sum(not s.startswith(("Raises ", "Returns ")) for s in said)
        length = length if following else min(length, 1)
        found.update(dict.fromkeys(re.findall(one, mark[1]), " ".join(said[:length]).rstrip("; ")))
        rest += said[length:]
    return found, " ".join(filter(None, rest))


def naming(text: list[str], name: str) -> str:
    """The first sentences that have a name in backticks: of the text below the first line first."""
    code = re.compile(rf"`\*{{0,2}}{re.escape(name)}(?:=[^`]*)?`")
    said = [s for block in text[1:] for s in sentences(block) if code.search(s)]
    if not said and text:
        said = [s for s in sentences(text[0]) if code.search(s)]
    return " ".join(said[:2])


def meanings(docstring: str, names: list[str]) -> dict[str, Meaning]:
    """What a docstring says of parameters of these names."""
    parts = sections(docstring)
    text = [block for block in parts.text if not is_example(block)]
    result: dict[str, Meaning] = {}
    for number, block in enumerate(text):
        found, text[number] = listed(block, names)
        result = {**{name: Meaning(meaning) for name, meaning in found.items()}, **result}
    for name in names:
        if name not in result and name not in parts.parameters and (said := naming(text, name)):
            result[name] = Meaning(said)
    return {**result, **parts.parameters}


# ---- tables ----------------------------------------------------------------------------------


def shared_meanings(path: str, value: Any, shared: dict[str, dict[str, str]]) -> dict[str, str]:
    """The meanings that functions like this one share; those of a later pattern count more."""
    module = path.rpartition(".")[0]
    labels = module, path, f"{module}#{type(value).__name__}"
    found: dict[str, str] = {}
    for pattern, said in shared.items():
        if any(re.fullmatch(pattern, label) for label in labels):
            found.update(said)
    return found


def read_shared() -> dict[str, dict[str, str]]:
    return tomllib.loads(SHARED.read_text(encoding="utf-8"))


def signature_of(value: Any) -> list[inspect.Parameter]:
    """The parameters that a caller gives: nobody calls the classes of enums and errors."""
    if inspect.isclass(value) and issubclass(value, (enum.Enum, BaseException)):
        return []
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [parameter for parameter in found if parameter.name not in ("self", "cls")]


def table(value: Any, docstring: str, path: str, shared: dict[str, dict[str, str]]) -> list[Row]:
    """A row for each parameter of a function or class."""
    found = signature_of(value)
    said = meanings(docstring, [parameter.name for parameter in found])
    common = shared_meanings(path, value, shared)
    rows = []
    for parameter in found:
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        meaning = said.get(parameter.name)
        if meaning is None and parameter.name in common:
            meaning = Meaning(common[parameter.name], source="shared")
        meaning = meaning or Meaning("", source="")
        default = ""
        if parameter.default is not api_reference.NO_TEXT:
            default = api_reference.default_text(parameter.default)
            default = "" if default == "<object>" else default  # the mark of what is not given
        type_text = meaning.type or api_reference.annotation_text(parameter.annotation) or "Any"
        text = meaning.text[:1].upper() + meaning.text[1:]
        rows.append(Row(stars + parameter.name, type_text, default, text, meaning.source))
    return rows


def tables(module: str = "") -> Iterator[tuple[api_reference.Entry, list[Row]]]:
    """The table of each function and class that has a docstring, each once, where it is at home."""
    shared = read_shared()
    pages = api_reference.entries(api_reference.public_modules())
    homes = api_reference.home_of(pages)
    for content in pages.values():
        for entry in content:
            text = api_reference.own_docstring(entry.value)
            ours = api_reference.is_ours(entry.value) and homes.get(id(entry.value)) == entry
            if text and ours and module in ("", entry.module):
                yield entry, table(entry.value, text, entry.path, shared)


def share(rows: Iterable[Row]) -> str:
    """How many parameters have a meaning, and how many have it from their own docstring."""
    rows = list(rows)
    own = sum(row.source == "docstring" for row in rows)
    shared = sum(row.source == "shared" for row in rows)
    percent = 100 * (own + shared) / len(rows) if rows else 100
    return f"{own + shared:5} of {len(rows):5} ({percent:3.0f} %), {own} by their own docstring"


def main() -> int:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", nargs="?", default="", help="only this one, with what is missing")
    module = parser.parse_args().module
    per_module: dict[str, list[Row]] = {}
    for entry, rows in tables(module):
        per_module.setdefault(entry.module, []).extend(rows)
        bare = [row.name for row in rows if not row.meaning]
        if module and bare:
            print(f"{entry.name}: {', '.join(bare)}")
    for name, rows in per_module.items():
        print(f"{share(rows)}  {name}")
    print(f"{share(row for rows in per_module.values() for row in rows)}  all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
