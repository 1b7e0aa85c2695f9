"""`jax._src.pretty_printer`: documents of one text, joined as they come."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Doc", "brk", "concat", "group", "nest", "nil", "text"]


class Doc(str):
    """A text that is a document."""

    __slots__ = ()

    def format(self, *_: object, **__: object) -> str:
        """The text."""
        return str(self)

    def __add__(self, other: str) -> Doc:
        return Doc(str(self) + str(other))


def text(s: str, **_: object) -> Doc:
    """A document of a text."""
    return Doc(s)


def concat(docs: Sequence[str]) -> Doc:
    """Documents one after the other."""
    return Doc("".join(docs))


def group(doc: str) -> Doc:
    """The document itself, on one line."""
    return Doc(doc)


def nest(n: int, doc: str) -> Doc:
    """The document itself: nothing is broken into lines."""
    return Doc(doc)


def brk(s: str = " ") -> Doc:
    """A place where a line may end: the text in it."""
    return Doc(s)


def nil() -> Doc:
    """The empty document."""
    return Doc("")
