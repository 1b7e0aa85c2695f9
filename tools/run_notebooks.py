"""Runs docs/notebooks/*.ipynb and writes what the cells show into them.

    python tools/run_notebooks.py            # run them and write the files
    python tools/run_notebooks.py --check    # only say where a cell shows something else

Each notebook runs in a kernel of its own, as `jupyter notebook` would run it, without the settings
of the environment. Pictures are kept in the files, so a page that shows a notebook needs no kernel.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import nbclient
import nbformat

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"
# What differs from one run to the next.
_VARIABLE = re.compile(r"0x[0-9a-f]+|/\S*/ipykernel_\d+/\d+\.py|\x1b\[[0-9;]*m")


def notebooks() -> list[pathlib.Path]:
    """The notebooks of the documentation."""
    return sorted(FOLDER.glob("*.ipynb"))


def executed(path: pathlib.Path) -> Any:
    """A notebook with the outputs of this run. Raises nbclient's error where a cell fails that is
    not marked with the tag `raises-exception`."""
    notebook = nbformat.read(path, as_version=4)
    own = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    # Pinned to this checkout, and to the processor: pictures name devices.
    own |= {"PYTHONPATH": str(ROOT), "WEFT_PLATFORMS": "cpu"}
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(env=own)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                output.traceback = [_without_variable(line) for line in output.traceback]
    notebook.metadata.pop("language_info", None)
    return notebook


def _is_setting(name: str) -> bool:
    return name.startswith(("WEFT_", "JAX_", "XLA_"))


def _without_variable(text: str) -> str:
    return _VARIABLE.sub("", text)


def shown(cell: Any) -> list[str]:
    """What a cell shows: printed text, results and errors."""
    found = []
    for output in cell.get("outputs", ()):
        if output.output_type == "error":
            found.append(_without_variable(f"{output.ename}: {output.evalue}"))
        elif output.output_type == "stream":
            found.append(_without_variable(output.text))
        else:
            found += [_without_variable(output.data[kind]) for kind in sorted(output.data)]
    return found


def differences(path: pathlib.Path, notebook: Any) -> Iterator[str]:
    """Where the cells of an executed notebook show something else than the file says."""
    recorded = nbformat.read(path, as_version=4)
    for number, (old, new) in enumerate(zip(recorded.cells, notebook.cells, strict=True)):
        if shown(old) != shown(new):
            texts = "\n".join(text for text in shown(new) if not text.startswith("<"))
            yield f"{path.name}, cell {number} shows something else than the file has:\n{texts}"


def main() -> int:
    """Runs all notebooks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if one differs")
    arguments = parser.parse_args()
    changed = []
    for path in notebooks():
        notebook = executed(path)
        changed += differences(path, notebook)
        if not arguments.check:
            nbformat.write(notebook, path)
    print("\n".join(changed) or "the notebooks are up to date")
    return int(arguments.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
