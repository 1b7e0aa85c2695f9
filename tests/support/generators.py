"""The random generators that tests draw with: the default, and one that is defined outside weft."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from source_files import ROOT


def philox() -> ModuleType:
    """The package examples/extend/philox, whose import makes its generator known."""
    folder = str(ROOT / "examples" / "extend" / "philox")
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("philox")
    finally:
        sys.path.remove(folder)


IMPLEMENTATIONS = ("threefry2x32", philox().PHILOX.name)
