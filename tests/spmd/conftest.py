"""The meshes of the tests of shard_map."""

from __future__ import annotations

import pytest

import weft


@pytest.fixture(scope="session")
def mesh():
    return weft.make_mesh((4, 2), ("i", "j"))


@pytest.fixture(scope="session")
def line():
    return weft.make_mesh((8,), ("i",))
