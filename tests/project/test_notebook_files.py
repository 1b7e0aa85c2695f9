"""The notebooks of the documentation run, and show what their files have.

They run in a kernel of Jupyter, as users run them. The newest Pythons are tested without it.
"""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
run_notebooks = importlib.import_module("tools.run_notebooks")


@pytest.mark.smoke
@pytest.mark.parametrize("path", run_notebooks.notebooks(), ids=lambda path: path.stem)
def test_notebooks_show_what_their_files_have(path):
    notebook = run_notebooks.executed(path)
    changed = list(run_notebooks.differences(path, notebook))
    assert not changed, f"run tools/run_notebooks.py and commit\n{changed}"


def test_errors_show_cells_and_no_frames_of_weft():
    path = run_notebooks.FOLDER / "first_tour.ipynb"
    cells = run_notebooks.nbformat.read(path, as_version=4).cells
    (error,) = (
        output
        for cell in cells
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    )
    shown = "\n".join(error.traceback)
    assert "Cell In[9], line 6" in shown and "Cell In[9], line 3, in scaled" in shown
    assert "at cell 9, line 3 in scaled" in error.evalue
    assert ".py" not in shown
