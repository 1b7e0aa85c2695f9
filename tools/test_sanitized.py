"""Runs the tests of calls with the compiled module under AddressSanitizer and
UndefinedBehaviorSanitizer: in a copy of the tree, so that what is installed stays as it is.

    python tools/test_sanitized.py [arguments of pytest]

WEFT_TREE_CALLS says how many calls with random trees of arguments are made (20,000).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "sanitized"
TESTS = [
    "tests/dispatch/test_known_calls.py",
    "tests/dispatch/test_hostile_arguments.py",
    "tests/tree/test_deep_trees.py",
]
FLAGS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all"]
# Freed memory is overwritten: Python itself, which is not instrumented, then trips over it as well.
ADDRESSES = "detect_leaks=0:max_free_fill_size=65536:free_fill_byte=221"


def compiler() -> str | None:
    """The C compiler that has the sanitizers."""
    return next(filter(None, map(shutil.which, ("gcc", "cc"))), None)


def library(cc: str, name: str) -> str:
    """The path of one of the compiler's libraries."""
    command = [cc, f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def build(cc: str) -> None:
    """Copies what the tests need, and builds the module there."""
    shutil.rmtree(COPY, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for folder in ("weft", "tests"):
        shutil.copytree(ROOT / folder, COPY / folder, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", COPY)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (module,) = settings["tool"]["setuptools"]["ext-modules"]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    out = COPY / (module["name"].replace(".", "/") + suffix)
    command = [cc, "-shared", "-fPIC", "-fsanitize=address,undefined", *FLAGS]
    command += ["-I", sysconfig.get_path("include"), "-o", str(out), *module["sources"]]
    subprocess.run(command, check=True, cwd=ROOT)


def environment(cc: str) -> dict[str, str]:
    """The environment in which Python loads the module; Python's own allocator would hide from the
    sanitizer what is freed."""
    libraries = [library(cc, name) for name in ("libasan.so", "libstdc++.so.6")]
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": ADDRESSES,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(COPY),
        "WEFT_TREE_CALLS": os.environ.get("WEFT_TREE_CALLS", "20000"),
    }


def main(arguments: list[str]) -> int:
    cc = compiler()
    if cc is None or not os.path.isabs(library(cc, "libasan.so")):
        print("there is no C compiler with AddressSanitizer; not run")
        return 0
    build(cc)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, *arguments]
    return subprocess.run(command, cwd=COPY, env=environment(cc)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
