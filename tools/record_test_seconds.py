"""Records how long the test functions take, from a run of all tests:

    make test-all ARGS="--junitxml=build/tests.xml" JOBS=2
    python tools/record_test_seconds.py build/tests.xml

`tests/support/tiers.py` reads the record.
"""

from __future__ import annotations

import collections
import json
import pathlib
import sys
import xml.etree.ElementTree as ET

RECORD = pathlib.Path(__file__).parent.parent / "tests" / "data" / "test_seconds.json"
# A function that takes less is quick.
LEAST = 1.0


def main(path: str) -> None:
    """Adds up the seconds of each function and writes those of the longer ones."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for case in ET.parse(path).iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        function = case.attrib["name"].partition("[")[0]
        seconds[f"{file}::{function}"] += float(case.attrib["time"])
    longer = {name: round(s, 1) for name, s in sorted(seconds.items()) if s > LEAST}
    RECORD.write_text(json.dumps(longer, indent=0) + "\n", encoding="utf-8")
    print(f"{len(longer)} of {len(seconds)} functions, {sum(seconds.values()):.0f} s in all")


if __name__ == "__main__":
    main(sys.argv[1])
