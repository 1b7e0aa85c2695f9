"""Compiles a kernel into a shared library that `weft.ffi` can register.

C files need a C compiler, C++ files one for C++17. `CC` and `CXX` choose them, as for make. A
library is built once per text and compiler and kept in a temporary directory of the user's.
"""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from weft import ffi

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {".c": ("CC", ("cc", "gcc", "clang"), "-std=gnu11"),
         ".cc": ("CXX", ("c++", "g++", "clang++"), "-std=c++17")}  # fmt: skip


def compiler(suffix: str) -> list[str] | None:
    """The command of the compiler for files of this kind, or None where the machine has none."""
    variable, usual, _ = KINDS[suffix]
    asked = shlex.split(os.environ.get(variable, ""))
    for command in [asked] if asked else [[name] for name in usual]:
        if shutil.which(command[0]):
            return command
    return None


def build(source: pathlib.Path | str) -> pathlib.Path:
    """The shared library of a C or C++ file; compiles it where that has not been done."""
    source = pathlib.Path(source)
    command = compiler(source.suffix)
    if command is None:
        raise FileNotFoundError(f"no compiler for {source.name}: set {KINDS[source.suffix][0]}")
    command += [KINDS[source.suffix][2], "-O2", "-fPIC", "-shared", "-Wall", "-Wextra",
                "-isystem", ffi.include_dir(), f"-I{HERE}"]  # fmt: skip
    digest = hashlib.sha256(repr(command).encode())
    for file in (source, HERE / "handler.h", *sorted(pathlib.Path(ffi.include_dir()).rglob("*.h"))):
        digest.update(file.read_bytes())
    folder = pathlib.Path(tempfile.gettempdir()) / f"weft-ffi-{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    library = folder / f"{source.stem}-{digest.hexdigest()[:16]}.so"
    if not library.exists():
        # Under a name of its own first: another process may build the same.
        unfinished = library.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, str(source), "-o", str(unfinished)], check=True)
        unfinished.replace(library)
    return library


def load(source: pathlib.Path | str) -> ctypes.CDLL:
    """The library of a C or C++ file, loaded into this process."""
    return ctypes.CDLL(str(build(source)))
