"""weft's largest errors over all normal numbers of float32: the rows of one argument.

    all_inputs.py                 # recorded rows that are not yet compared at all inputs
    all_inputs.py --part 0/2      # every second of them, for a process on each core
    all_inputs.py --only sinc

A row that is done is recorded in results.json, where `largest_errors` has put it first. One that is
interrupted goes on where it was: the place is kept in build/accuracy.

Each row has four thousand million inputs, so an error is computed where it may be the largest
alone. Between a result and the correctly rounded reference lie `steps` numbers of float32. Next to
a number they are twice as far apart as an ulp of the reference at most, and the reference lies half
a step from its rounded value: the error is at most `2 * steps + 1`, up to where the distance of
numbers doubles again.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import time

import evaluate
import largest_errors as recorded
import numpy as np
from elementwise_table import UNARY
from float_references import Double

BUILD = recorded.HERE.parents[1] / "build" / "accuracy"
# Some arrays of as many numbers fit into the cache of a core.
CHUNK = 1 << 16
# Bits of the smallest normal number, and of the first number that is not finite.
NORMAL, INFINITE = 0x00800000, 0x7F800000
# A second doubling of the distance is not nearer than this.
FAR = 1 << 22
SECONDS = 20.0


def all_numbers():
    """First bits of the chunks: normal numbers of either sign."""
    for sign in (0, 1 << 31):
        yield from range(sign + NORMAL, sign + INFINITE, CHUNK)


def chunk_at(first):
    """The numbers of a chunk."""
    return np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)


def order(x):
    """Positions of numbers of float32 in their order, as uint32."""
    bits = x.view(np.uint32)
    return bits ^ ((bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31))


def steps_between(got, want):
    """How many numbers of float32 lie between two: 0 between NaNs, the most beside one NaN."""
    a, b = order(got), order(want)
    steps = np.maximum(a, b) - np.minimum(a, b)
    first, second = got != got, want != want
    if first.any() or second.any():
        steps[first & second] = 0
        steps[first ^ second] = 2**32 - 1
    return steps


class Row:
    """A function or its derivative, with the largest error that was found."""

    def __init__(self, row, by):
        self.key = recorded.key_of(row, by, "float32")
        self.by = by
        self.expression = row.value if by is None else row.derivative
        self.function = evaluate.compiled("weft", row.name, by)
        self.worst = [0.0, [], 0.0, 0.0]

    def look(self, x):
        """Compares a chunk."""
        got, wide = np.asarray(self.function(x)), x.astype(np.float64)
        want = np.asarray(self.expression(Double, wide))
        steps = steps_between(got, want.astype(np.float32))
        bound = min(max((self.worst[0] - 1) / 2, 0.0), float(FAR))
        places = np.flatnonzero(steps > bound)
        if not places.size:
            return
        x, got, want = x[places], got[places].astype(np.float64), want[places]
        compared = recorded.is_compared([x], want, self.by)
        found = np.where(compared, recorded.errors(got, want, "float32"), 0.0)
        place = int(np.argmax(found))
        if found[place] > self.worst[0]:
            self.worst = [float(v) for v in (found[place], got[place], want[place])]
            self.worst.insert(1, [float(x[place])])

    def run(self):
        """Compares all inputs, from where an earlier run ended."""
        file = BUILD / f"{self.key}.json"
        done = 0
        if file.exists():
            done, self.worst = json.loads(file.read_text())
        chunks, saved = list(all_numbers()), time.monotonic()
        self.look(SPECIAL)
        for number in range(done, len(chunks)):
            self.look(chunk_at(chunks[number]))
            if time.monotonic() - saved > SECONDS:
                saved = time.monotonic()
                file.write_text(json.dumps([number + 1, self.worst]))
        file.write_text(json.dumps([len(chunks), self.worst]))

    def record(self):
        """Writes the row into the results, which another process may write, too."""
        with (BUILD / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            results = json.loads(recorded.RESULTS.read_text())
            row = results[self.key]
            # Results that are rounded correctly are not looked at: what is known of them stays.
            if self.worst[0] > 0.5 or row["worst"]["weft"][0] > 0.5:
                row["worst"]["weft"] = self.worst
            row["weft"] = "all"
            text = json.dumps(results, indent=0, sort_keys=True) + "\n"
            recorded.RESULTS.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="functions whose names have this text")
    parser.add_argument("--part", default="0/1", help="which part of how many")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    BUILD.mkdir(parents=True, exist_ok=True)
    np.seterr(all="ignore")
    results = json.loads(recorded.RESULTS.read_text())
    todo = [
        (row, by) for row, by, dtype in recorded.rows(options.only, ["float32"])
        if results.get(recorded.key_of(row, by, dtype), {"weft": "all"}).get("weft") != "all"
        and row in UNARY
    ]  # fmt: skip
    for row, by in todo[part::parts]:
        began, one = time.monotonic(), Row(row, by)
        one.run()
        one.record()
        print(f"{one.key}: {one.worst[0]:.3g} {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
