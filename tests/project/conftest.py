"""Tests here import every module of weft; weft.as_jax changes the settings of the process."""

from __future__ import annotations

import dataclasses

from weft import config

_own = (config.settings(), config.host_settings())

import weft.as_jax  # noqa: E402, F401

# Imported once, here: what it changes in the settings of this process is taken back.
for _part in _own:
    for _field in dataclasses.fields(_part):
        config.update(_field.name, getattr(_part, _field.name))
