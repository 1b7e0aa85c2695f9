"""Installs what `make dist` made into an empty environment, without an index, and uses it.

    python tools/check_dist.py dist .venv-dist/wheelhouse

First the archives are looked at: the source distribution has all that a build and the tests need,
and the wheel has the package alone. Then the wheel and what it needs are installed from the folder
of wheels, then the source distribution, and each time a small program runs in a folder elsewhere.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable

# What a source distribution needs to be built, installed and tested.
NEEDED = (
    "CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "Makefile", "README.md",
    "pyproject.toml", "docs/guide.md", "requirements/test.txt", "tests/conftest.py",
    "tools/update_surface.py", "weft/__init__.py", "weft/py.typed", "weft/native/calls.c",
    "weft/native/native.h",
)  # fmt: skip
# The program is run from a folder in which there is no weft.
PROGRAM = """
import weft, weft.numpy as jnp
from weft.native.optional import calls
f = weft.jit(weft.grad(lambda x: jnp.sum(jnp.sin(x) ** 2)))
x = jnp.arange(3.0)
assert jnp.allclose(f(x), jnp.sin(2 * x)) and jnp.allclose(f(x), jnp.sin(2 * x))
assert weft.lax.scan(lambda c, x: (c + x, c), 0.0, x)[0] == 3.0
assert weft.vmap(weft.scipy.special.gamma)(x + 1).shape == (3,)
assert "site-packages" in weft.__file__, weft.__file__
print(weft.__version__, "calls run", "in the compiled module" if calls else "in Python")
"""


def faults_of_source(names: Iterable[str]) -> list[str]:
    """What is wrong with the files of a source distribution, named below its folder."""
    found = set(names)
    missing = [f"the source distribution lacks {name}" for name in NEEDED if name not in found]
    left = [name for name in sorted(found) if name.endswith((".pyc", ".so")) or ".venv" in name]
    return missing + [f"the source distribution has {name}" for name in left]


def faults_of_wheel(names: Iterable[str]) -> list[str]:
    """What is wrong with the files of a wheel."""
    found = set(names)
    wanted = ("weft/__init__.py", "weft/py.typed", "weft/numpy/__init__.py", "weft/info.py")
    faults = [f"the wheel lacks {name}" for name in wanted if name not in found]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in found):
        faults.append("the wheel lacks the licence")
    for name in sorted(found):
        first, *rest = name.split("/")
        package = first == "weft" and name.endswith((".py", ".so", ".pyd", "/py.typed"))
        if not (package or first.endswith(".dist-info")):
            faults.append(f"the wheel has {name}")
        if "tests" in rest:
            faults.append(f"the wheel has {name}, a test")
    return faults


def run(*command: str | os.PathLike[str], folder: str, **variables: str) -> str:
    """Runs a program in a folder, with no index of packages; returns what it prints. Raises
    SystemExit where it fails."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WEFT_", "PIP_"))}
    variables = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables
    done = subprocess.run(command, cwd=folder, env=kept | variables, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def install_and_use(wheel: pathlib.Path, source: pathlib.Path, wheels: pathlib.Path) -> None:
    """Installs both into an environment that is empty before, and runs the program with each."""
    with tempfile.TemporaryDirectory() as folder:
        environment = pathlib.Path(folder, "empty")
        venv.create(environment, with_pip=True)
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        folder_of_wheels = {"PIP_FIND_LINKS": str(wheels)}
        pip = (python, "-m", "pip", "install", "--quiet", "--no-compile")
        variables = {"WEFT_CACHE_DIR": ""}
        for archive, more in ((wheel, ()), (source, ("--force-reinstall", "--no-deps"))):
            run(*pip, *more, archive, folder=folder, **folder_of_wheels)
            print(f"{archive.name}: {run(python, '-c', PROGRAM, folder=folder, **variables)}")
        run(python, "-m", "pip", "check", folder=folder)
        print(run(python, "-m", "weft.info", folder=folder, **variables))


def main() -> int:
    """Checks the archives; returns 1 where their files are not what they should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=pathlib.Path, help="the folder with the archives")
    parser.add_argument(
        "wheels", type=pathlib.Path, help="the folder of what weft needs, as wheels"
    )
    arguments = parser.parse_args()
    (wheel,) = arguments.dist.glob("weft-*.whl")
    (source,) = arguments.dist.glob("weft-*.tar.gz")
    with tarfile.open(source) as archive:
        files = [name.partition("/")[2] for name in archive.getnames()]
    faults = faults_of_source(files) + faults_of_wheel(zipfile.ZipFile(wheel).namelist())
    print("\n".join(faults) or f"{len(files)} files in the source distribution, as they should be")
    if not faults:
        install_and_use(wheel.resolve(), source.resolve(), arguments.wheels.resolve())
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
