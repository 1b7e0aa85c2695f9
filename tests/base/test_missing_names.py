"""What is said of names of JAX, NumPy and PyTorch that weft does not have."""

from __future__ import annotations

import importlib.util
import re

import pytest

import weft
from tools import parity
from weft.base import facades
from weft.base.missing_names import OF_PYTORCH, RENAMED

pytestmark = pytest.mark.fast

MISSING = [
    (one.ours, name, parity.reason(one.module, name))
    for library in ("jax", "numpy")
    for one in parity.compare(library)
    for name in one.missing
]


def module(path):
    return importlib.import_module(path)


def is_facade(path):
    """Whether a module of weft is there and looks names up that it does not define: a module that
    is no facade says nothing more than Python does; under `jax`, `weft.as_jax` speaks for it."""
    if importlib.util.find_spec(path) is None:
        return False
    return getattr(vars(module(path)).get("__getattr__"), "__module__", None) == facades.__name__


def test_every_missing_name_says_what_the_page_of_names_says():
    said = [row for row in MISSING if is_facade(row[0])]
    assert len(said) > 100
    for path, name, why in said:
        with pytest.raises(AttributeError) as caught:
            getattr(module(path), name)
        assert str(caught.value) == f"module {path!r} has no attribute {name!r}: {why}"


@pytest.mark.parametrize("other", RENAMED)
def test_names_of_earlier_releases(other):
    ours = re.sub("^(jax|numpy)", lambda m: {"jax": "weft", "numpy": "weft.numpy"}[m[0]], other)
    for name, new in RENAMED[other].items():
        assert not hasattr(module(ours), name)
        with pytest.raises(AttributeError, match=re.escape(f": use `{new}`")):
            getattr(module(ours), name)
        found = eval(new, {"weft": weft, "x": weft.numpy.ones(()), "f": abs})
        assert callable(found) or name in ("Inf", "NaN")


@pytest.mark.parametrize("ours", OF_PYTORCH)
def test_names_of_pytorch(ours):
    for name, new in OF_PYTORCH[ours].items():
        said = f"module '{ours}' has no attribute '{name}': it is a name of PyTorch; use `{new}`"
        with pytest.raises(AttributeError, match=f"^{re.escape(said)}$"):
            getattr(module(ours), name)
        assert callable(eval(new, {"weft": weft}))


def test_other_names_say_no_more_than_before():
    for path in ("weft", "weft.numpy", "weft.random", "weft.scipy.stats"):
        for name in ("nothing_like_this", "__wrapped__"):
            with pytest.raises(AttributeError) as caught:
                getattr(module(path), name)
            assert str(caught.value) == f"module {path!r} has no attribute {name!r}"
