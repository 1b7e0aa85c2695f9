"""The settings under which weft follows JAX's rules where its own differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weft import config
from weft.settings.jax_settings import environment_changes

__all__ = ["SETTINGS", "follow_jax"]

# By name, as `weft.config.update` takes them; docs/ecosystem.md says what each changes.
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {"dtype_rule": "jax", "argument_rule": "jax", "check_static_indices": False}
)


def follow_jax() -> None:
    """Makes JAX's rules those of this process."""
    for name, value in SETTINGS.items():
        config.update(name, value)
    for name, value in environment_changes(os.environ).items():
        config.update(name, value)
