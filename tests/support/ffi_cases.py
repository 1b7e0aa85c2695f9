"""The handlers of ffi_kernels.c, compiled and registered once per process, and calls of them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import sys

import numpy as np
import pytest

import weft
from source_files import ROOT
from weft import ffi

EXAMPLES = ROOT / "examples" / "ffi"
HANDLERS = ("Describe", "Same", "Twice", "Memory", "Counting", "ScaledSum", "Note", "Root")
Struct = weft.ShapeDtypeStruct


def example(name):
    """A module of examples/ffi, which stand beside one another."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module(name)


def needs(suffix):
    """Skips where no compiler for such files is there."""
    if example("build").compiler(suffix) is None:
        pytest.skip(f"no compiler for {suffix} files on this machine", allow_module_level=True)


@functools.cache
def kernels():
    """The library with the handlers, each registered under its own name."""
    library = example("build").load(ROOT / "tests" / "support" / "ffi_kernels.c")
    library.note_at.restype = ctypes.c_double
    for name in HANDLERS:
        ffi.register_ffi_target(name, getattr(library, name))
    ffi.register_ffi_target("Parts", library.ScaledSum)
    ffi.register_ffi_target_as_batch_partitionable("Parts")
    return library


@contextlib.contextmanager
def noted():
    """What handlers note meanwhile, in a list that is there at the end."""
    library, found = kernels(), []
    library.forget_notes()
    yield found
    weft.effects_barrier()
    found += [library.note_at(i) for i in range(library.notes_taken())]


def call(target, out, *args, **how):
    """A call with these operands; `attributes` among the options are its attributes."""
    attributes = how.pop("attributes", {})
    return ffi.ffi_call(target, out, **how)(*args, **attributes)


def same(*args, **how):
    """The operands again."""
    return call("Same", tuple(Struct(np.shape(x), x.dtype) for x in args), *args, **how)


def scaled_sum(x, scale, target="ScaledSum", **how):
    """x times scale, summed along the last axis."""
    return call(target, Struct(x.shape[:-1], x.dtype), x, scale, **how)


def root(x, **how):
    """The square root; an error for negative numbers."""
    return call("Root", Struct(x.shape, x.dtype), x, **how)


def note(x, **how):
    """Notes the elements of x; no result."""
    return call("Note", None, x, has_side_effect=True, **how)
