"""Records how long the test functions take, from runs of all tests:

    make test-quick ARGS="--junitxml=build/quick.xml"
    make test-rest ARGS="--junitxml=build/rest.xml"
    python tools/record_test_seconds.py build/quick.xml build/rest.xml

on a machine with nothing else to do.

`tests/support/tiers.py` reads the record.
"""

from __future__ import annotations

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).parent.parent
RECORD = ROOT / "tests" / "data" / "test_seconds.json"
# A function that takes less is quick.
LEAST = 1.0


def function_of(case: ET.Element) -> str:
    """The test function of a case as pytest names it: the file, a class if any, the function."""
    parts = case.attrib["classname"].split(".")
    classes: list[str] = []
    while not (ROOT / "/".join(parts)).with_suffix(".py").exists():
        classes.insert(0, parts.pop())
    function = case.attrib["name"].partition("[")[0]
    return "::".join(["/".join(parts) + ".py", *classes, function])


def main(*paths: str) -> None:
    """Adds up the seconds of each function and writes those of the longer ones."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for case in (case for path in paths for case in ET.parse(path).iter("testcase")):
        seconds[function_of(case)] += float(case.attrib["time"])
    longer = {name: round(s, 1) for name, s in sorted(seconds.items()) if s > LEAST}
    RECORD.write_text(json.dumps(longer, indent=0) + "\n", encoding="utf-8")
    print(f"{len(longer)} of {len(seconds)} functions, {sum(seconds.values()):.0f} s in all")


if __name__ == "__main__":
    main(*sys.argv[1:])
