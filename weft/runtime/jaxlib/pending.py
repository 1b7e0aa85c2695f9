"""Pytree nodes that weft itself defines, kept until the registry exists.

The registry is jaxlib's and is made when the first tree is flattened (see `runtime.lazy`); what
registers nodes at import writes them down here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["nodes"]

nodes: list[tuple[type, Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]] = []
"""Arguments of `pytree.register_node`, in order."""
