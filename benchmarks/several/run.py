"""A cached step over several processes, weft beside JAX in turns: writes results.md.

python benchmarks/several/run.py --python .venv/bin/python --beside JAX/bin/python [--reps 5]
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIVISIONS = ((2, 1), (2, 4), (4, 2))


def once(lib, python, count, devices):
    """The figures of one group."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    environment = os.environ | {
        "WEFT_NUM_CPU_DEVICES": str(devices),
        "JAX_NUM_CPU_DEVICES": str(devices),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT) if lib == "weft" else "",
    }
    running = [
        subprocess.Popen(
            [python, str(HERE / "step.py"), lib, address, str(count), str(n)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for n in range(count)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=300) for process in running]
    line = next((row for row in outputs[0][0].splitlines() if row.startswith("FOUND")), None)
    if line is None:
        sys.exit(f"{lib}: {outputs[0][1][-2000:]}")
    return json.loads(line.removeprefix("FOUND"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--beside", required=True)
    parser.add_argument("--reps", type=int, default=5)
    args = parser.parse_args()
    pythons = {"weft": os.path.abspath(args.python), "jax": os.path.abspath(args.beside)}
    lines = [
        "# A step over several processes beside JAX",
        "",
        f"Medians of {args.reps} groups of each library, in turns, on one machine, by "
        "`make several-bench`. A step adds the mean over all devices to a float32 array.",
        "",
        "| processes x devices | figure | weft | JAX | weft / JAX |",
        "|---|---|--:|--:|--:|",
    ]
    for count, devices in DIVISIONS:
        found = {lib: [] for lib in pythons}
        for repetition in range(args.reps):
            for lib in ("weft", "jax") if repetition % 2 == 0 else ("jax", "weft"):
                found[lib].append(once(lib, pythons[lib], count, devices))
        for figure in found["weft"][0]:
            ours, theirs = (statistics.median(row[figure] for row in found[lib]) for lib in pythons)
            lines.append(
                f"| {count} x {devices} | {figure} | {ours:.3g} | {theirs:.3g} | "
                f"{ours / theirs:.2f} |"
            )
            print(lines[-1], flush=True)
    (HERE / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
