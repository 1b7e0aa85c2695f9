"""The reference of the site: a page per module, and one per public function and class.

They are Markdown for Sphinx with MyST, made when the site is built from the signatures and
docstrings that `tools/api_reference.py` finds. `tools/build_site.py` writes them.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tools import api_reference, parameters
from tools.api_reference import Entry
from tools.parameters import Row

ROOT = api_reference.update_surface.ROOT
INDEX = "README.md"
# What stands above the parts of a page. Those of a class's members are not in the page's contents.
PART = "## {}"
PART_OF_MEMBER = "**{}**"
KINDS = ("Functions", "Classes", "Values")


class Reference(NamedTuple):
    """What the pages are made of: modules, where each value is described, names of files."""

    modules: dict[str, list[Entry]]
    homes: dict[int, Entry]
    # From the place on a module's page to its own: "weft.lax.md#sort": "weft.lax.sort.md".
    moved: dict[str, str]
    shared: dict[str, dict[str, str]]


class SiteLinks(api_reference.Links):
    """Links of the reference that lead to the pages of the site."""

    def __init__(self, reference: Reference) -> None:
        super().__init__(reference.modules)
        self.moved = reference.moved

    def target(self, name: str, module: str, hidden: frozenset[str]) -> str:
        found = super().target(name, module, hidden)
        if found.startswith("#"):
            found = f"{module}.md{found}"
        return self.moved.get(found, found)


# ---- what has a page -------------------------------------------------------------------------


def has_page(entry: Entry) -> bool:
    """Whether the name is a function or class of weft's; values stand on their module's page."""
    return callable(entry.value) and api_reference.is_ours(entry.value) and bool(
        api_reference.own_docstring(entry.value)
    )  # fmt: skip


def file_names(modules: Mapping[str, list[Entry]], homes: Mapping[int, Entry]) -> dict[str, str]:
    """The file of each name that has a page; no two differ in the case of letters only."""
    described = [
        entry
        for content in modules.values()
        for entry in content
        if has_page(entry) and homes[id(entry.value)] == entry
    ]
    lower = Counter([entry.path.lower() for entry in described] + [m.lower() for m in modules])
    files = {}
    for entry in described:
        kind = "-class" if inspect.isclass(entry.value) else "-function"
        files[entry.path] = f"{entry.path}{kind if lower[entry.path.lower()] > 1 else ''}.md"
    return files


def read() -> Reference:
    """All that there is to describe."""
    modules = api_reference.entries(api_reference.public_modules())
    homes = api_reference.home_of(modules)
    files = file_names(modules, homes)
    moved = {}
    for module, content in modules.items():
        # The headings of a module's page: those of its parts, and the values, which have no page.
        headings = Counter(api_reference.slug(name) for name in (module, *KINDS, "Modules"))
        for entry in content:
            home = homes.get(id(entry.value), entry)
            if home.path in files:
                moved[entry.link] = files[home.path]
            else:
                slug = api_reference.slug(entry.name)
                number = f"-{headings[slug]}" if headings[slug] else ""
                moved[entry.link] = f"{module}.md#{slug}{number}"
                headings[slug] += 1
            if entry.path in files and api_reference.has_members(entry.value):
                for name, _ in api_reference.class_members(entry.value):
                    anchor = api_reference.slug(f"{entry.name}.{name}")
                    moved[f"{entry.module}.md#{anchor}"] = f"{files[entry.path]}#{anchor}"
    return Reference(modules, homes, moved, parameters.read_shared())


# ---- parts of a page -------------------------------------------------------------------------


def cell(text: str) -> str:
    """A text as a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def parameter_table(rows: list[Row], link: Callable[[str], str]) -> str:
    """The parameters as a table."""
    lines = ["{.parameters}", "| name | type | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        meaning = api_reference.prose(row.meaning, link)
        shown = (code(row.name), code(row.type), code(row.default), meaning)
        lines.append("| " + " | ".join(map(cell, shown)) + " |")
    return "\n".join(lines)


def signature_line(path: str, value: Any) -> str:
    """The signature on one line, as Sphinx reads it."""
    text = api_reference.signature_text(path, value)
    joined = re.sub(r",\s*\)", ")", re.sub(r"\(\s+", "(", " ".join(text.split()), count=1))
    # What is no expression of Python, Sphinx cannot read.
    return re.sub(r"=( ?)<([\w. ]+)[^>,]*>", r"=\1...", joined) or f"{path}()"


def without_sentences(block: str, start: str) -> tuple[str, list[str]]:
    """A paragraph without the sentences that begin so, and those sentences."""
    if block.startswith(("    ", "- ", "|", "```")):
        return block, []
    said = parameters.sentences(block)
    taken = [sentence for sentence in said if sentence.startswith(start)]
    if not taken:
        return block, []
    return " ".join(sentence for sentence in said if sentence not in taken), taken


class Body(NamedTuple):
    """A docstring by what a page shows: text, what is returned and raised, examples."""

    text: list[str]
    returns: list[str]
    errors: list[str]
    examples: list[str]


def body_of(docstring: str, names: list[str]) -> Body:
    """The parts of a docstring, without what the table says of the parameters.

    Sentences that begin with "Raises" or "Returns" go into their parts; the first line stays.
    """
    found = parameters.sections(docstring)
    body = Body([], [found.returns] if found.returns else [], [], [])
    for number, block in enumerate(found.text):
        if parameters.is_example(block):
            body.examples.append(inspect.cleandoc(block))
            continue
        if body.examples:  # text after an example belongs to it
            body.examples.append(block)
            continue
        kept = block
        if number:
            _, kept = parameters.listed(kept, names)
            kept, returned = without_sentences(kept, "Returns ")
            body.returns.extend(returned)
            kept, raised = without_sentences(kept, "Raises ")
            body.errors.extend(sentence.removeprefix("Raises ") for sentence in raised)
        if kept:
            body.text.append(kept)
    body.errors.extend(f"`{name}`: {text}" for name, text in found.errors.items())
    return body


def example_blocks(examples: list[str], link: Callable[[str], str]) -> Iterator[str]:
    """The examples of a docstring, with the text that stands between them."""
    for is_session, group in itertools.groupby(examples, parameters.is_example):
        if is_session:
            yield "```pycon\n" + "\n\n".join(group) + "\n```"
        else:
            yield from (api_reference.prose(block, link) for block in group)


def described(
    value: Any, docstring: str, entry: Entry, reference: Reference, links: SiteLinks, heading: str
) -> Iterator[str]:
    """All below the signature: text, parameters, result, errors and examples."""
    hidden = api_reference.argument_names(value) | {entry.name.rpartition(".")[2]}
    link = links.on_page(entry.module, hidden)
    body = body_of(docstring, [p.name for p in parameters.signature_of(value)])
    for block in body.text:
        indented = all(line.startswith("    ") for line in block.splitlines())
        yield block if indented else api_reference.prose(block, link)
    rows = parameters.table(value, docstring, entry.path, reference.shared)
    if rows:
        yield heading.format("Parameters")
        yield parameter_table(rows, link)
    result = "" if inspect.isclass(value) else result_type(value)
    returns = api_reference.prose(" ".join(body.returns), link)
    if returns or (result not in ("", "None") and heading == PART):
        yield heading.format("Returns")
        yield ": ".join(filter(None, (code(result), returns)))
    if body.errors:
        yield heading.format("Errors")
        yield "\n".join(f"- {api_reference.prose(error, link)}" for error in body.errors)
    if body.examples:
        yield heading.format("Example")
        yield from example_blocks(body.examples, link)


def result_type(value: Any) -> str:
    try:
        return api_reference.annotation_text(inspect.signature(value).return_annotation)
    except (TypeError, ValueError):
        return ""


def directive(kind: str, signature: str) -> str:
    """The signature as an object of Python that Sphinx knows: for the search and the index."""
    return f"```{{py:{kind}}} {signature}\n```"


def source_line(value: Any) -> str:
    """Where the source of a function or class is."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(value))
    except TypeError:
        return ""
    if path is None or not pathlib.Path(path).is_relative_to(ROOT):
        return ""
    return f"Source: `{pathlib.Path(path).relative_to(ROOT).as_posix()}`"


# ---- pages -----------------------------------------------------------------------------------


def function_page(entry: Entry, reference: Reference, links: SiteLinks) -> str:
    """The page of one function or class."""
    value, is_class = entry.value, inspect.isclass(entry.value)
    docstring = api_reference.own_docstring(value)
    # The sidebar of such a page is that of its module: docs/conf.py.
    parts = [f"---\norphan: true\nmodule: {entry.module}\n---", f"# {entry.path}"]
    parts.append(f"[Reference]({INDEX}) › [{entry.module}]({entry.module}.md)")
    parts.append(directive("class" if is_class else "function", signature_line(entry.path, value)))
    parts += described(value, docstring, entry, reference, links, PART)
    if api_reference.has_members(value):
        for name, member in api_reference.class_members(value):
            parts.append(f"## {entry.name}.{name}")
            path = f"{entry.path}.{name}"
            if inspect.isfunction(inspect.unwrap(member)):
                parts.append(directive("method", signature_line(path, member)))
            else:
                parts.append(directive("attribute", path))
            inner = entry._replace(name=f"{entry.name}.{name}")
            text = api_reference.own_docstring(member)
            parts += described(member, text, inner, reference, links, PART_OF_MEMBER)
    others = [
        other.path
        for content in reference.modules.values()
        for other in content
        if other.value is value and other.path != entry.path
    ]
    if others:
        parts.append("Also called " + ", ".join(map(code, others)) + ".")
    parts.append(source_line(value))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(entry: Entry, home: Entry, links: SiteLinks) -> str:
    """What a name is, in a sentence, for the list on its module's page."""
    if home != entry and has_page(entry):
        return f"The same as [`{home.path}`]({links.moved[home.link]})."
    text = api_reference.own_docstring(entry.value) if has_page(entry) else ""
    if not text:
        return api_reference.value_text(entry)
    sentence = api_reference.first_sentence(text)
    return api_reference.prose(sentence, lambda inner: inner) + "."


def kind_of(entry: Entry) -> str:
    if not has_page(entry):
        return "Values"
    return "Classes" if inspect.isclass(entry.value) else "Functions"


def module_page(module: str, reference: Reference, links: SiteLinks, children: list[str]) -> str:
    """The page of a module: what it is, and a line for each name."""
    link = links.on_page(module, frozenset())
    parts = [f"# {module}", f"[Reference]({INDEX})"]
    docstring = api_reference.own_docstring(importlib.import_module(module))
    parts += api_reference.markdown(docstring, link)
    if children:
        parts.append("```{toctree}\n:hidden:\n\n" + "\n".join(children) + "\n```")
        parts.append("## Modules")
        parts.append("\n".join(f"- [`{child}`]({child}.md)" for child in children))
    content = reference.modules[module]
    for kind in KINDS:
        of_kind = [entry for entry in content if kind_of(entry) == kind]
        if not of_kind:
            continue
        parts.append(f"## {kind}")
        if kind == "Values":
            for entry in of_kind:
                home = reference.homes.get(id(entry.value), entry)
                parts += [f"### {entry.name}", summary(entry, home, links)]
            continue
        lines = ["| name | what it is |", "|---|---|"]
        for entry in of_kind:
            home = reference.homes.get(id(entry.value), entry)
            name = f"[`{entry.name}`]({links.moved[entry.link]})"
            lines.append(f"| {name} | {cell(summary(entry, home, links))} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def tree_of(modules: list[str]) -> dict[str, list[str]]:
    """The modules below each module; those that are below none but `weft` are below ""."""
    tree: dict[str, list[str]] = {"": []}
    for module in modules:
        parent = module.rpartition(".")[0]
        while parent not in modules and parent:
            parent = parent.rpartition(".")[0]
        tree.setdefault("" if parent == "weft" else parent, []).append(module)
    return tree


def index_page(reference: Reference, top: list[str]) -> str:
    """The list of all modules, each with what it is."""
    lines = ["| module | what it is |", "|---|---|"]
    for module in reference.modules:
        text = api_reference.own_docstring(importlib.import_module(module))
        said = api_reference.prose(api_reference.first_sentence(text), lambda inner: inner)
        lines.append(f"| [`{module}`]({module}.md) | {cell(said)} |")
    return "\n\n".join(
        (
            "# Reference",
            "Every public function and class has a page, with its parameters, result, errors and "
            "an example. The search finds them by name, and the {ref}`index <genindex>` lists all. "
            "[Names of NumPy and JAX](../parity.md) says which names of these libraries are there.",
            "```{toctree}\n:hidden:\n\n" + "\n".join(top) + "\n```",
            "\n".join(lines),
        )
    ) + "\n"  # fmt: skip


def pages(reference: Reference) -> Iterator[tuple[str, str]]:
    """(name of the file, text) of all pages of the reference."""
    links = SiteLinks(reference)
    tree = tree_of(list(reference.modules))
    yield INDEX, index_page(reference, tree[""])
    for module, content in reference.modules.items():
        yield f"{module}.md", module_page(module, reference, links, tree.get(module, []))
        for entry in content:
            if has_page(entry) and reference.homes[id(entry.value)] == entry:
                yield reference.moved[entry.link], function_page(entry, reference, links)
