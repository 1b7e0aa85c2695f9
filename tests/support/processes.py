"""Python in a process of its own."""

from __future__ import annotations

import subprocess
import sys

__all__ = ["python_output"]


def python_output(*arguments, timeout=300, **options):
    """What a process prints that ends without an error; the options are those of `subprocess`."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    return done.stdout
