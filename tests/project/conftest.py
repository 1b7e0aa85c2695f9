"""Tests here import every module of weft; weft.as_jax changes the settings of the process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from weft import config


@pytest.fixture(autouse=True)
def settings_stay() -> Iterator[None]:
    """What a test changes in the settings ends with it."""
    before = config.settings()
    yield
    if config.settings() is not before:
        for field in dataclasses.fields(before):
            config.update(field.name, getattr(before, field.name))
