"""The text of jaxprs and StableHLO modules is what stands in tests/golden.

`python tools/update_golden.py` writes the files anew after a change that is meant.
"""

from __future__ import annotations

import pytest

from golden_programs import texts
from source_files import ROOT

GOLDEN = ROOT / "tests" / "golden"
TEXTS = texts()


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_golden_one(name):
    path = GOLDEN / name
    assert path.exists(), "run python tools/update_golden.py"
    wanted = path.read_text(encoding="utf-8")
    assert TEXTS[name] == wanted, "if the change is meant: python tools/update_golden.py"


def test_no_golden_file_is_left_over():
    kept = {path.name for kind in ("jaxpr", "stablehlo") for path in GOLDEN.glob(f"{kind}_*.txt")}
    assert kept == set(TEXTS)


def test_the_texts_do_not_change_from_run_to_run():
    assert texts() == TEXTS
