"""What the reference is made of: the public names, their signatures and docstrings as Markdown.

`tools/function_pages.py` makes the pages of it.
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from tools import update_surface

WIDTH = 100
# How docstrings and examples call the modules that they do not name in full.
SHORT_NAMES = {"jnp": "weft.numpy", "lax": "weft.lax", "random": "weft.random", "nn": "weft.nn"}
NO_TEXT = inspect.Parameter.empty


class Entry(NamedTuple):
    """A public name: its module, what it stands for, and where on which page it is."""

    module: str
    name: str
    value: Any
    anchor: str

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def link(self) -> str:
        return f"{self.module}.md#{self.anchor}"


# ---- what there is ---------------------------------------------------------------------------


def public_modules() -> list[str]:
    """The modules of the recorded surface, and those that a public module names."""
    found: list[str] = []
    waiting = [name for name in update_surface.MODULES if update_surface.exists(name)]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found.append(name)
        for inner in update_surface.public_names(importlib.import_module(name)):
            path = f"{name}.{inner}"
            if path not in update_surface.MODULES and is_module(path):
                waiting.append(path)
    return sorted(found)


def is_module(path: str) -> bool:
    """Whether a public name is a module of that path, and not a value of the same name."""
    if not update_surface.exists(path):
        return False
    parent, _, name = path.rpartition(".")
    return isinstance(getattr(importlib.import_module(parent), name), ModuleType)


def members_of(module: str) -> Iterator[tuple[str, Any]]:
    """The public names of a module that are no modules, with their values."""
    imported = importlib.import_module(module)
    for name in update_surface.public_names(imported):
        if is_module(f"{module}.{name}"):
            continue
        try:
            value = getattr(imported, name)
        except ModuleNotFoundError:  # a part that is promised before it is written
            continue
        if not inspect.ismodule(value):
            yield name, value


def slug(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown as web pages."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def entries(modules: list[str]) -> dict[str, list[Entry]]:
    """The public names of every module, in the order of its page."""
    result = {}
    for module in modules:
        seen = Counter([slug(module)])
        result[module] = page = []
        for name, value in members_of(module):
            anchor = slug(name)
            repeated = seen[anchor]
            seen[anchor] += 1
            page.append(Entry(module, name, value, f"{anchor}-{repeated}" if repeated else anchor))
            if has_members(value):
                seen.update(slug(f"{name}.{member}") for member, _ in class_members(value))
    return result


def home_of(pages: dict[str, list[Entry]]) -> dict[int, Entry]:
    """Where each function and class is described: by identity, since values need not be hashable.

    Under its own name if it has one among the public ones, in the module that comes first.
    """
    homes: dict[int, Entry] = {}
    for own_name in (True, False):
        for page in pages.values():
            for entry in page:
                if callable(entry.value) and own_name in (is_called(entry), False):
                    homes.setdefault(id(entry.value), entry)
    return homes


def is_called(entry: Entry) -> bool:
    return getattr(entry.value, "__name__", None) == entry.name


# ---- signatures ------------------------------------------------------------------------------


def default_text(value: Any) -> str:
    """A default value as one would write it; nothing in it depends on the process."""
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return name
    return re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"<\1>", repr(value))


def annotation_text(value: Any) -> str:
    """An annotation, or nothing where it says that everything is taken."""
    if value is NO_TEXT or value in ("Any", Any):
        return ""
    if isinstance(value, str):
        return value
    return value.__name__ if isinstance(value, type) else str(value)


def parameter_text(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    annotation = annotation_text(parameter.annotation)
    if annotation:
        text += f": {annotation}"
    if parameter.default is not NO_TEXT:
        text += (" = " if annotation else "=") + default_text(parameter.default)
    return text


def parameters(signature: inspect.Signature) -> Iterator[str]:
    """The parameters as they stand in a definition, with `/` and `*` between them."""
    before = None
    for parameter in signature.parameters.values():
        kind = parameter.kind
        if before is parameter.POSITIONAL_ONLY and kind is not before:
            yield "/"
        if kind is parameter.KEYWORD_ONLY and before not in (kind, parameter.VAR_POSITIONAL):
            yield "*"
        yield parameter_text(parameter)
        before = kind
    if before is inspect.Parameter.POSITIONAL_ONLY:
        yield "/"


def signature_text(path: str, value: Any) -> str:
    """`path(parameters) -> result`, broken into lines where it is long; "" where there is none."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    result = "" if inspect.isclass(value) else annotation_text(signature.return_annotation)
    ending = f" -> {result}" if result else ""
    shown = [text for text in parameters(signature) if text != "self"]
    line = f"{path}({', '.join(shown)}){ending}"
    if len(line) <= WIDTH:
        return line
    return f"{path}(\n" + "".join(f"    {text},\n" for text in shown) + f"){ending}"


# ---- docstrings ------------------------------------------------------------------------------


def own_docstring(value: Any) -> str:
    """The docstring that an object has for itself, not the one of its class."""
    text = getattr(value, "__doc__", None)
    if not isinstance(text, str) or (not inspect.isclass(value) and text == type(value).__doc__):
        return ""
    return inspect.cleandoc(text)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a docstring; an example is one, however many lines it is apart."""
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if block.strip():
            yield block.rstrip()


def prose(text: str, link: Callable[[str], str]) -> str:
    """Plain text as Markdown: code stays code, with links; what Markdown would read is escaped."""
    parts = re.split(r"(``?[^`]+``?)", text)
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = link(part)
            continue
        part = re.sub(r"([*<]|(?<=\])\()", r"\\\1", part)
        part = re.sub(r"(?<![\w\\])_|_(?!\w)", r"\\_", part)
        parts[index] = re.sub(r"^(\s*)([#>+])", r"\1\\\2", part, flags=re.MULTILINE)
    return "".join(parts)


def markdown(text: str, link: Callable[[str], str]) -> Iterator[str]:
    """A docstring in Markdown, paragraph by paragraph."""
    example: list[str] = []
    for block in paragraphs(text):
        if block.lstrip().startswith(">>>"):
            example.append(inspect.cleandoc(block))
            continue
        if example:
            yield "```pycon\n" + "\n\n".join(example) + "\n```"
            example = []
        if re.match(r"Args:\n", block):
            yield "Parameters:"
            yield "\n".join(listed_parameters(block, link))
            continue
        # Indented throughout: code, or a formula, that Markdown shows as it stands.
        indented = all(line.startswith("    ") for line in block.splitlines())
        yield block if indented else prose(block, link)
    if example:
        yield "```pycon\n" + "\n\n".join(example) + "\n```"


def listed_parameters(block: str, link: Callable[[str], str]) -> Iterator[str]:
    """The section `Args:` of a docstring, as the lines of a list."""
    for line in inspect.cleandoc(block.partition("\n")[2]).splitlines():
        if line.startswith(" "):
            yield f"  {prose(line.strip(), link)}"
        else:
            names, _, meaning = line.partition(": ")
            name, bracket, type_text = names.partition(" (")
            yield f"- `{name}`{bracket}{type_text}: {prose(meaning, link)}"


def first_sentence(text: str) -> str:
    """The sentence with which a docstring begins, on one line."""
    block = next(paragraphs(text), "")
    line = " ".join(block.split())
    found = re.match(r"(.+?[.:])(?= [A-Z`]|$)", line)
    return (found.group(1) if found else line).rstrip(".:")


class Links:
    """From names in backticks to their place in the reference."""

    def __init__(self, pages: dict[str, list[Entry]]) -> None:
        self.modules = set(pages)
        self.entries = {entry.path: entry for page in pages.values() for entry in page}

    def target(self, name: str, module: str, hidden: frozenset[str]) -> str:
        """Where `name` is described if it is used on the page of `module`, or ""."""
        head, _, rest = name.partition(".")
        full = f"{SHORT_NAMES[head]}.{rest}" if rest and head in SHORT_NAMES else name
        candidates = [full, f"weft.{name}"] if rest else [] if name in hidden else [
            f"{module}.{name}"
        ]  # fmt: skip
        for path in candidates:
            if path in self.modules:
                return "" if path == module else f"{path}.md"
            entry = self.entries.get(path)
            if entry is not None and (rest or callable(entry.value)):
                return f"#{entry.anchor}" if entry.module == module else entry.link
        return ""

    def on_page(self, module: str, hidden: frozenset[str]) -> Callable[[str], str]:
        """Makes a link of code that names something else; `hidden`: names that mean arguments."""

        def link(code: str) -> str:
            name = code.strip("`").removesuffix("()")
            found = self.target(name, module, hidden) if re.fullmatch(r"[\w.]+", name) else ""
            return f"[{code}]({found})" if found else code

        return link


# ---- pages -----------------------------------------------------------------------------------


def is_ours(value: Any) -> bool:
    """Whether the docstring was written for weft; others are not copied."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).startswith("weft")


def has_members(value: Any) -> bool:
    return inspect.isclass(value) and is_ours(value) and not issubclass(value, BaseException)


def class_members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public attributes that weft's own classes give to `cls` and that have a docstring."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("weft")]
    names = {name for base in ours for name in vars(base) if not name.startswith("_")}
    for name in sorted(names):
        value = inspect.getattr_static(cls, name)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if own_docstring(value) and (inspect.isroutine(value) or is_attribute(value)):
            yield name, value


def is_attribute(value: Any) -> bool:
    return isinstance(value, property) or hasattr(type(value), "__get__")


def argument_names(value: Any) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(value).parameters)
    except (TypeError, ValueError):
        return frozenset()


def value_text(entry: Entry) -> str:
    """What a name stands for that has no docstring of its own."""
    value = entry.value
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"`{value!r}`"
    if isinstance(value, np.dtype):
        return f"The dtype `{value}`."
    if isinstance(value, frozenset):
        return "The set of " + ", ".join(sorted(f"`{item}`" for item in value)) + "."
    if is_ours(value):
        sentence = first_sentence(own_docstring(type(value)))
        return f"{sentence}." if sentence else f"Of class `{type(value).__name__}`."
    # Where a library keeps such an object inside is its own affair, and changes.
    library = str(getattr(value, "__module__", None) or type(value).__module__).split(".")[0]
    return f"From `{library.lstrip('_')}`."
