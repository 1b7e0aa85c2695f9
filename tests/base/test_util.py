"""The helpers that belong to no other module."""

from __future__ import annotations

import gc
import threading
import tomllib
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from at_once import together
from source_files import ROOT
from weft.base.util import collection_paused, like

pytestmark = pytest.mark.fast


def test_collection_is_paused_within_nested_blocks_and_on_again_afterwards():
    assert gc.isenabled()
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_the_user_turned_off_stays_off():
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_collection_is_on_again_after_an_error_while_tracing():
    def fails(x):
        assert not gc.isenabled()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        weft.make_jaxpr(fails)(jnp.ones(3))
    assert gc.isenabled()


def test_overlapping_blocks_in_two_threads_end_with_collection_on():
    first_inside, second_inside, first_left = (threading.Event() for _ in range(3))

    def first():
        with collection_paused():
            first_inside.set()
            second_inside.wait(10)
        first_left.set()

    def second():
        first_inside.wait(10)
        with collection_paused():
            second_inside.set()
            first_left.wait(10)
            assert not gc.isenabled()

    together(lambda number: (first, second)[number](), 2)
    assert gc.isenabled()


def test_the_version_is_that_of_the_distribution():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert weft.__version__ == declared["project"]["version"]


def test_functions_made_of_callable_objects_keep_a_name_that_is_text() -> None:
    class Callable:
        def __call__(self, x: float) -> float:
            return 2 * x

    def made(x: float) -> float:
        return x

    def named(x: float) -> float:
        """Twice."""
        return 2 * x

    unnamed, marked = Callable(), Callable()
    marked.__name__ = object()
    assert like(unnamed, made).__name__ == like(marked, made).__name__ == "made"
    assert like(named, made).__name__ == "named" and made.__doc__ == "Twice."


@pytest.mark.parametrize("transformation", [weft.vmap, weft.grad, weft.jit, weft.checkpoint])
def test_transformations_of_objects_whose_name_is_no_text(transformation: Any) -> None:
    class Twice:
        def __init__(self) -> None:
            self.__name__ = self.__qualname__ = object()

        def __call__(self, x: Any) -> Any:
            return 2 * x

    x = np.ones(3) if transformation is weft.vmap else 1.0
    assert (np.asarray(transformation(Twice())(x)) == 2).all()
