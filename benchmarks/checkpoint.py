"""How fast checkpoints are written and read, beside `cp` of as many bytes in the same run.

    python benchmarks/checkpoint.py         # 1 GiB, into benchmarks/checkpoint.md and .json
    python benchmarks/checkpoint.py --mib 64 --directory <folder> --no-report

A round measures each way once, in turn; the figures are the best of all rounds, with the median and
the least: what else runs on a machine makes a round slower, and nothing makes one faster. `cp`
leaves its bytes in the page cache, as it does for its users; a checkpoint is on the disk when
`save` returns, so that `cp` followed by `sync` is the copy that does the same. Everything that is
read was just written, and comes from the page cache.

A virtual machine gets memory that it has not used for long from its host page by page, which takes
longer than any of the copies. So as much memory as a round needs is touched before each.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("WEFT_NUM_CPU_DEVICES", "8")

import numpy as np

import weft
from recorded import write_rows
from weft import checkpoints

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20
WAYS = {
    "cp": "`cp`",
    "cp_sync": "`cp` and `sync`",
    "save": "`save`, on the disk when it returns",
    "blocked": "`Checkpoints.save` in the background: until the program goes on",
    "background": "the same: until it is on the disk",
    "restore": "`restore` into the same shardings",
    "elsewhere": "`restore` into shardings that cut every chunk",
}


PAGE = """# Checkpoints beside plain copies

{mib} MiB in eight arrays over eight CPU devices, {rounds} rounds. `make checkpoint-bench` writes
this page, and `benchmarks/checkpoint.py` says what a round is. {machine}

| | GB/s, best | median | least | to `cp` | to `cp` and `sync` |
| --- | --: | --: | --: | --: | --: |
{lines}

The last two columns: how many times as fast as the best copy of the same run.
"""


def state(mib):
    """Eight matrices over eight devices: together so many bytes."""
    rng = np.random.default_rng(0)
    mesh = weft.make_mesh((8,), ("x",))
    rows = mib * MIB // 8 // 4 // 1024
    where = weft.NamedSharding(mesh, weft.P("x"))
    return {
        f"w{number}": weft.device_put(rng.random((rows, 1024), np.float32), where)
        for number in range(8)
    }


def touched(mib):
    """Memory of the machine is used, and given back."""
    np.empty(3 * mib * MIB, np.uint8).fill(1)


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def one_round(tree, folder, mib):
    """Way -> seconds."""
    source, copy = folder / "source", folder / "copy"
    with open(source, "wb") as file:
        for x in tree.values():
            file.write(np.asarray(x))
        os.fsync(file.fileno())
    found = {}
    touched(mib)
    found["cp"] = seconds(lambda: subprocess.run(["cp", source, copy], check=True))
    found["cp_sync"] = found["cp"] + seconds(lambda: subprocess.run(["sync", copy], check=True))
    copy.unlink()
    source.unlink()

    touched(mib)
    found["save"] = seconds(lambda: checkpoints.save(folder / "model", tree))
    mesh = weft.make_mesh((2, 4), ("x", "y"))
    across = weft.NamedSharding(mesh, weft.P("x", "y"))
    for way, how in (("restore", {"like": tree}), ("elsewhere", {"shardings": across})):
        touched(mib)
        kept = []
        found[way] = seconds(
            lambda how=how, kept=kept: kept.append(
                weft.block_until_ready(checkpoints.restore(folder / "model", **how))
            )
        )
        for name, x in tree.items():
            assert (np.asarray(kept[0][name]) == np.asarray(x)).all()
        kept.clear()
    shutil.rmtree(folder / "model")

    touched(mib)
    steps = checkpoints.Checkpoints(folder / "steps")
    found["blocked"] = seconds(lambda: steps.save(1, tree))
    found["background"] = found["blocked"] + seconds(steps.wait)
    shutil.rmtree(folder / "steps")
    return found


def report(rounds, mib, machine):
    """Writes the figures: GB/s, and how they are to the copies of the same run."""
    size = mib * MIB / 1e9
    best = {way: size / min(one[way] for one in rounds) for way in WAYS}
    rows, lines = {}, []
    for way, text in WAYS.items():
        speeds = [size / one[way] for one in rounds]
        ratios = {copy: best[way] / best[copy] for copy in ("cp", "cp_sync")}
        median, least = statistics.median(speeds), min(speeds)
        rows[way] = {"weft": {"GB/s": best[way], "median": median, "least": least, **ratios}}
        shown = f"| {text} | {best[way]:.2f} | {median:.2f} | {least:.2f} "
        lines.append(shown + f"| {ratios['cp']:.2f} | {ratios['cp_sync']:.2f} |")
    page = PAGE.format(mib=mib, rounds=len(rounds), machine=machine, lines="\n".join(lines))
    (HERE / "checkpoint.md").write_text(page, encoding="utf-8")
    versions = {"weft": weft.__version__, "MiB": mib, "rounds": len(rounds)}
    write_rows(HERE / "checkpoint.json", versions, rows)


def machine_text():
    names = [
        line.partition(":")[2].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{len(names)} cores of an {names[0].replace('(R)', '')}." if names else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    # That of the system, unless it lies in memory there.
    parser.add_argument("--directory", default=None)
    parser.add_argument("--no-report", action="store_true")
    options = parser.parse_args()
    tree = state(options.mib)
    rounds = []
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        for _ in range(options.rounds):
            rounds.append(one_round(tree, pathlib.Path(folder), options.mib))
            speeds = {way: options.mib * MIB / 1e9 / s for way, s in rounds[-1].items()}
            print(json.dumps({way: round(speed, 2) for way, speed in speeds.items()}), flush=True)
    if not options.no_report:
        report(rounds, options.mib, machine_text())


if __name__ == "__main__":
    main()
