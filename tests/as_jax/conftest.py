"""Tests in which `import jax` gives weft, under JAX's rules; other tests keep weft's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from weft import config

_own = (config.settings(), config.host_settings())

from weft.as_jax.settings import SETTINGS  # noqa: E402

# Importing it has changed the settings of this process, which runs other tests as well.
for _part in _own:
    for _field in dataclasses.fields(_part):
        config.update(_field.name, getattr(_part, _field.name))


@pytest.fixture(autouse=True)
def jax_rules() -> Iterator[None]:
    """JAX's rules for one test."""
    with config.override(**SETTINGS):
        yield
