"""`python -m weft.as_jax program.py arguments`: runs a program for which jax is weft."""

from __future__ import annotations

import pathlib
import runpy
import sys

import weft.as_jax  # noqa: F401 - importing it is what makes jax weft

USAGE = """usage: python -m weft.as_jax program.py [arguments]
       python -m weft.as_jax -m module [arguments]
       python -m weft.as_jax -c command [arguments]

Runs a Python program with `import jax` answered by weft."""


def main(arguments: list[str]) -> int:
    """Runs the program that the arguments name, as `python` itself would.

    Returns 2 where they name none, or no file.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    first, *rest = arguments
    if first in ("-m", "-c"):
        if not rest:
            print(f"{USAGE}\n\nwhat follows {first} is missing", file=sys.stderr)
            return 2
        if first == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
            return 0
        # As Python does: the current folder comes first, and `runpy` puts the module's path here.
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    if not pathlib.Path(first).exists():
        print(f"python -m weft.as_jax: there is no file {first}", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path[0] = str(pathlib.Path(first).resolve().parent)
    runpy.run_path(first, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
