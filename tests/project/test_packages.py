"""What the package says of itself: metadata, versions, notes, and what its archives hold."""

from __future__ import annotations

import re
import tomllib

import pytest

import weft
from source_files import ROOT
from tools import check_dist, release_notes

pytestmark = pytest.mark.fast
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_all_places_agree_on_the_version():
    assert set(release_notes.versions().values()) == {weft.__version__}
    assert release_notes.main(["--check"]) == 0


def test_places_that_disagree_are_found(tmp_path, monkeypatch, capsys):
    (tmp_path / "weft").mkdir()
    for name in release_notes.PLACES:
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "weft/version.py").write_text('__version__ = "9.9.9"\n', encoding="utf-8")
    found = release_notes.versions(tmp_path)
    assert found["weft/version.py"] == "9.9.9"
    monkeypatch.setattr(release_notes, "versions", lambda: found)
    assert release_notes.main([]) == 1
    assert "weft/version.py 9.9.9" in capsys.readouterr().err


CHANGELOG = """# Changes

## 0.2.0 (unreleased)

- New.

## 0.1.0 (2026-12-01)

The first version.

- Old.
"""


def test_the_notes_of_a_version_are_its_section():
    assert release_notes.notes(CHANGELOG, "0.2.0") == "- New."
    assert release_notes.notes(CHANGELOG, "0.1.0") == "The first version.\n\n- Old."
    with pytest.raises(KeyError):
        release_notes.notes(CHANGELOG, "0.3.0")


def test_notes_are_printed(capsys):
    assert release_notes.main([]) == 0
    assert capsys.readouterr().out.startswith(f"weft {weft.__version__}\n\n")
    assert release_notes.main(["0.0.1"]) == 1


def test_the_citation_has_what_its_format_asks_for():
    """The required keys of the Citation File Format, version 1.2.0: cff-version, message, title and
    authors, each of whom has a name."""
    keys = dict(re.findall(r"^([a-z-]+): ?(.*)$", CITATION, re.MULTILINE))
    assert keys["cff-version"] == "1.2.0" and keys["message"] and keys["title"] == "weft"
    authors = re.search(r"^authors:\n((?:  .*\n)+)", CITATION, re.MULTILINE)[1]
    names = re.findall(r"^  - name: (.+)$", authors, re.MULTILINE)
    assert names == [author["name"] for author in PROJECT["authors"]]
    assert keys["license"] == PROJECT["license"]
    # The keys that its schema knows and that are used here; it allows no others.
    assert keys.keys() <= {
        "abstract", "authors", "cff-version", "keywords", "license", "message", "title", "type",
        "version",
    }  # fmt: skip
    assert keys["type"] in ("software", "dataset")


def test_the_metadata_is_complete():
    # No addresses: there is no public repository.
    wanted = {"authors", "classifiers", "description", "keywords", "license", "license-files",
              "readme", "requires-python"}  # fmt: skip
    assert wanted <= PROJECT.keys()
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}
    assert versions <= set(PROJECT["classifiers"])
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert {"checkpoint", "cuda12", "cuda13"} <= PROJECT["optional-dependencies"].keys()


def test_a_report_of_a_bug_asks_what_weft_runs_on():
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    templates = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert "python -m weft.info" in templates["bug_report.md"]
    for text in templates.values():
        assert re.match(r"---\nname: .+\nabout: .+\n---\n", text)


def test_archives_with_a_wrong_content_are_found():
    wheel = ["weft/__init__.py", "weft/py.typed", "weft/numpy/__init__.py", "weft/info.py",
             "weft-1.dist-info/METADATA", "weft-1.dist-info/licenses/LICENSE"]  # fmt: skip
    assert check_dist.faults_of_wheel(wheel) == []
    assert check_dist.faults_of_wheel(wheel[1:]) == ["the wheel lacks weft/__init__.py"]
    assert check_dist.faults_of_wheel([*wheel, "tests/conftest.py"]) == [
        "the wheel has tests/conftest.py"
    ]
    assert check_dist.faults_of_wheel([*wheel, "weft/native/calls.c"]) == [
        "the wheel has weft/native/calls.c"
    ]
    assert check_dist.faults_of_source(check_dist.NEEDED) == []
    assert check_dist.faults_of_source([*check_dist.NEEDED[1:], "weft/a.so"]) == [
        "the source distribution lacks CHANGELOG.md", "the source distribution has weft/a.so",
    ]  # fmt: skip


def test_what_a_source_distribution_needs_is_there():
    assert [name for name in check_dist.NEEDED if not (ROOT / name).exists()] == []
