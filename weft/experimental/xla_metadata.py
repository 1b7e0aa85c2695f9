"""`set_xla_metadata`: operations that carry names and values for passes of XLA."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Self

from weft import config, tree
from weft.base import source
from weft.base.facades import public_names
from weft.core.types import user_value
from weft.ops.structural.barriers import metadata_value_p

__all__ = ["set_xla_metadata"]

__dir__ = public_names(globals())


class _Block:
    """A context manager and decorator that adds the pairs to operations."""

    def __init__(self, changes: dict[str, str | None]) -> None:
        self._changes = changes
        # One object may be entered again before it is left.
        self._entered: list[contextlib.ExitStack] = []

    def __enter__(self) -> Self:
        found = dict(config.settings().operation_metadata) | self._changes
        pairs = tuple(sorted((key, text) for key, text in found.items() if text is not None))
        with contextlib.ExitStack() as stack:
            # The setting tells programs with other metadata apart, in all caches.
            stack.enter_context(config.override(operation_metadata=pairs))
            stack.enter_context(source.with_metadata(pairs))
            self._entered.append(stack.pop_all())
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.pop().close()

    def __call__(self, function: Callable[..., Any]) -> Any:
        return _Decorated(function, self)


class _Decorated:
    """A function that runs, as do methods such as `lower`, within a block."""

    def __init__(self, function: Callable[..., Any], block: _Block) -> None:
        functools.update_wrapper(self, function)
        self._function, self._block = function, block

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._block:
            return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._function, name)
        return _Decorated(found, self._block) if callable(found) else found


def set_xla_metadata(x: Any = None, **metadata: Any) -> Any:
    """A `with` block, or a decorator, whose operations carry names and values that passes of XLA
    may read; given a tree of arrays, the tree, whose arrays are computed by such operations.

    Values are shown as texts, booleans in small letters; None takes a name away that a block around
    this one gave. In the program's text they are its `frontend_attributes`; what a program computes
    does not depend on them. Raises WeftTypeError for a leaf that is not an array.

    Args:
        x: A tree of arrays; without one the result is a `with` block and a decorator.
        metadata: The names and values that operations carry.

    >>> from weft.experimental.xla_metadata import set_xla_metadata
    >>> def f(x):
    ...     with set_xla_metadata(pass_config="fast"):
    ...         return jnp.sin(x) + 1.0
    >>> weft.jit(f).lower(1.0).as_text().count('{pass_config = "fast"}')
    2
    """
    texts = {name: _text(value) for name, value in metadata.items()}
    if x is None:
        return _Block(texts)
    pairs = tuple(sorted((key, str(value)) for key, value in texts.items()))
    return tree.map(lambda leaf: metadata_value_p.bind(user_value(leaf), pairs=pairs), x)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
