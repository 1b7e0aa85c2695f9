"""Tests here import every module of weft; weft.as_jax changes the settings of the process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from weft import config

_own = config.settings()

import weft.as_jax  # noqa: E402, F401

# Imported once, here: what it changes in the settings of this process is taken back.
for _field in dataclasses.fields(_own):
    config.update(_field.name, getattr(_own, _field.name))


@pytest.fixture(autouse=True)
def settings_stay() -> Iterator[None]:
    """What a test changes in the settings ends with it."""
    before = config.settings()
    yield
    if config.settings() is not before:
        for field in dataclasses.fields(before):
            config.update(field.name, getattr(before, field.name))
