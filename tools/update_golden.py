"""Writes the golden texts: the jaxprs and StableHLO modules of tests/support/golden_programs.py,
and the classes of the errors for wrong arguments (tests/support/wrong_arguments.py).

A change of meaning in tracing, a transformation or lowering then shows as a change of those files,
where a reviewer sees it.

    python tools/update_golden.py            # write them
    python tools/update_golden.py --check    # only say which differ
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")  # as for the tests
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support"), str(ROOT / "tests")]

import golden_programs  # noqa: E402  (the path to it has to be set first)
import wrong_arguments  # noqa: E402


def main() -> int:
    """Writes or compares the files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    wanted = golden_programs.texts() | {"refusals.txt": wrong_arguments.refusals()}
    existing = {
        path.name for kind in ("jaxpr", "stablehlo") for path in GOLDEN.glob(f"{kind}_*.txt")
    }
    differ = sorted(existing - set(wanted))
    for name, text in wanted.items():
        path = GOLDEN / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            differ.append(name)
    for name in differ:
        print(("differs: " if options.check else "updated: ") + name)
        if options.check:
            continue
        if name in wanted:
            (GOLDEN / name).write_text(wanted[name], encoding="utf-8")
        else:
            (GOLDEN / name).unlink()
    return int(bool(differ) and options.check)


if __name__ == "__main__":
    sys.exit(main())
