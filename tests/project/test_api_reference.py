"""docs/parity.md shows the package as it is; every public function is described."""

from __future__ import annotations

import importlib
import re
from collections import Counter

import pytest

from source_files import ROOT
from tools import api_reference, parity, settings_table, update_surface
from weft.core.primitive import Primitive
from weft.numpy.dtypes import ScalarType

pytestmark = pytest.mark.fast

# Modules whose every function has an example.
WITH_EXAMPLES = (
    "weft", "weft.image", "weft.lax", "weft.lax.linalg", "weft.nn", "weft.nn.initializers",
    "weft.numpy", "weft.numpy.fft", "weft.numpy.linalg", "weft.ops", "weft.random", "weft.scipy.*",
)  # fmt: skip
PAGES = sorted([*(ROOT / "docs").glob("**/*.md"), ROOT / "README.md"])


def described_functions():
    """(path, docstring) of the public functions of the libraries, each function once."""
    seen = set()
    for module in api_reference.public_modules():
        if not any(re.fullmatch(pattern, module) for pattern in WITH_EXAMPLES):
            continue
        for name, value in api_reference.members_of(module):
            # A dtype says what its class says, and a primitive is described by the function.
            function = callable(value) and not isinstance(value, (type, ScalarType, Primitive))
            if function and api_reference.is_ours(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module}.{name}", api_reference.own_docstring(value)


def test_the_table_of_names_is_up_to_date():
    assert parity.PAGE.read_text(encoding="utf-8") == parity.text(), "run `make docs`"


def test_the_tables_of_settings_are_up_to_date():
    page = settings_table.PAGE.read_text(encoding="utf-8")
    assert page == settings_table.text(), "run `make docs`"
    assert "| `numpy_rank_promotion` | `'allow'` | `weft.numpy_rank_promotion` | same |" in page


def test_every_missing_name_has_a_reason():
    comparisons = [one for library in parity.LIBRARIES for one in parity.compare(library)]
    assert not parity.unexplained(comparisons)


def test_nearly_all_functions_of_the_array_library_are_there():
    (one,) = (one for one in parity.compare("jax") if one.module == "jax.numpy")
    assert one.functions_present >= 0.95 * len(one.functions)
    for one in parity.compare("array_api_strict"):
        assert not one.missing


def test_every_public_function_has_a_docstring():
    bare = [path for path, text in described_functions() if not text]
    assert not bare


def test_functions_have_examples():
    without = [path for path, text in described_functions() if ">>> " not in text]
    assert not without, f"public functions whose docstrings show no example: {without}"


# ---- links ---------------------------------------------------------------------------------


def anchors(text):
    """The anchors of a page's headings; repeated ones are numbered, as on the web."""
    seen = Counter()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ +(.*?)\s*$", outside, flags=re.MULTILINE):
        anchor = api_reference.slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        yield f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
        seen[anchor] += 1


def broken_links(path, text, known):
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"`[^`\n]+`", "code", outside)
    for target in re.findall(r"\]\(([^)\s]+)\)", outside):
        file, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        found = (path.parent / file).resolve() if file else path
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in known(found)):
            yield f"{path.relative_to(ROOT)}: {target}"


def test_links_between_pages_lead_somewhere():
    cache = {}

    def known(path):
        if path not in cache:
            cache[path] = set(anchors(path.read_text(encoding="utf-8")))
        return cache[path]

    broken = [link for path in PAGES for link in broken_links(path, path.read_text("utf-8"), known)]
    assert not broken, "\n".join(broken)


# ---- the generator -------------------------------------------------------------------------


def no_link(code):
    return code


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x**2 + y**2", r"x\*\*2 + y\*\*2"),
        ("`x**2` and a_b", "`x**2` and a_b"),
        ("_x_ < 3", r"\_x\_ \< 3"),
        ("# no heading", r"\# no heading"),
        ("f[a](b)", r"f[a]\(b)"),
    ],
)
def test_text_is_shown_as_it_is_written(text, wanted):
    assert api_reference.prose(text, no_link) == wanted


def test_an_example_is_one_block():
    text = "Does it.\n\n>>> x = 1\n\n>>> x\n1\n\nMore."
    blocks = list(api_reference.markdown(text, no_link))
    assert blocks == ["Does it.", "```pycon\n>>> x = 1\n\n>>> x\n1\n```", "More."]


def test_first_sentences():
    assert api_reference.first_sentence("The sum, e.g. of x.\n\nMore.") == "The sum, e.g. of x"
    assert api_reference.first_sentence("What it\nis. And more.") == "What it is"


def test_signatures_are_text_alone():
    marker = object()

    def function(x, /, y: int = 1, *args, z: str | None = None, f=len, g=marker, **others) -> int:
        """Does nothing."""

    assert api_reference.signature_text("m.function", function) == (
        "m.function(x, /, y: int = 1, *args, z: str | None = None, f=len, g=<object>, **others) "
        "-> int"
    )
    assert api_reference.signature_text("m." + 9 * "long_name.", function) == (
        f"m.{9 * 'long_name.'}(\n    x,\n    /,\n    y: int = 1,\n    *args,\n"
        "    z: str | None = None,\n    f=len,\n    g=<object>,\n    **others,\n) -> int"
    )
    assert api_reference.signature_text("f", lambda x, *, y: None) == "f(x, *, y)"


def test_names_in_code_become_links():
    pages = api_reference.entries(["weft.numpy", "weft.lax"])
    link = api_reference.Links(pages).on_page("weft.numpy", frozenset({"sort"}))
    assert link("`mean`") == "[`mean`](#mean)"
    assert link("`lax.sort()`") == "[`lax.sort()`](weft.lax.md#sort)"
    assert link("`weft.numpy.sort`") == "[`weft.numpy.sort`](#sort)"
    assert link("`sort`") == "`sort`", "an argument of this name"
    assert link("`no_such_name`") == "`no_such_name`"


def test_a_missing_name_without_a_reason_is_noticed():
    one = parity.Comparison("jax", "jax.numpy", "weft.numpy", ("no_such",), (), frozenset())
    assert "jax.numpy.no_such: missing, without a reason" in parity.unexplained([one])
    assert any(
        "int1 uint1" in problem or "int1" in problem for problem in parity.unexplained([one])
    )


def test_every_public_module_can_be_imported():
    modules = api_reference.public_modules()
    assert set(filter(update_surface.exists, update_surface.MODULES)) <= set(modules)
    for name in modules:
        assert importlib.import_module(name).__doc__, f"{name} says nothing of itself"
