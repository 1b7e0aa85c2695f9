"""What Sphinx makes of the pages that `tools/build_site.py` writes."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc

project = "weft"
author = "The weft authors"
project_copyright = "The weft authors"
# The release is given by tools/build_site.py, from pyproject.toml.
release = ""

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_block", "attrs_inline"]
# Headings have the anchors that they have where Markdown is shown elsewhere.
myst_heading_anchors = 4
nitpicky = False
python_maximum_signature_line_length = 72
add_function_parentheses = False
toc_object_entries = False
highlight_language = "text"
pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = "weft"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["weft.css"]
html_copy_source = False
html_search_scorer = str(pathlib.Path(__file__).parent / "_static" / "search_order.js")
html_show_sphinx = False
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_theme_options = {
    "source_repository": "",
    "light_css_variables": {
        "color-brand-primary": "#0b5c8f",
        "color-brand-content": "#0b5c8f",
        "color-brand-visited": "#5b4a8a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7cc4f2",
        "color-brand-content": "#7cc4f2",
        "color-brand-visited": "#b9a7ec",
    },
}
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "versions.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


@functools.cache
def module_sidebar(builder: StandaloneHTMLBuilder, page: str) -> str:
    """The sidebar of a module of the reference, with only its own branch unfolded."""
    tree = global_toctree_for_doc(
        builder.env, page, builder, tags=builder.tags, collapse=True, titles_only=True,
        maxdepth=-1, includehidden=True,
    )  # fmt: skip
    return builder.render_partial(tree)["fragment"]


def set_sidebar(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Gives the pages of functions the sidebar of their module.

    Two thousand pages with all of the two thousand in each sidebar would be a gigabyte.
    """
    if pagename.startswith("api/") and isinstance(app.builder, StandaloneHTMLBuilder):
        module = app.builder.env.metadata[pagename].get("module")
        page = f"api/{module}" if module else pagename
        builder = app.builder
        context["toctree"] = lambda **_: module_sidebar(builder, page)


def leave_annotations(app: Sphinx, doctree: Any) -> None:
    """Makes plain text of names in signatures: `bool` would become a link to `weft.numpy.bool`."""
    for node in list(doctree.findall(pending_xref)):
        if node.get("refdomain") == "py":
            node.replace_self(node.children)


def setup(app: Sphinx) -> None:
    """Runs before Furo makes the sidebar."""
    app.connect("html-page-context", set_sidebar, priority=400)
    app.connect("doctree-read", leave_annotations)
