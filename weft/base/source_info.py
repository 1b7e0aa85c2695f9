"""Where an equation comes from, as an object: its line and the names around it.

`base.source` has the same as plain tuples, which cost less to take. These are the objects that
interpreters of jaxprs pass on, under the names of `jax.extend.source_info_util`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from weft.base import source as sources
from weft.base.notebooks import line_text


@dataclasses.dataclass(frozen=True)
class NameStack:
    """The names around an operation, outermost first.

    Args:
        stack: The names, outermost first.

    >>> from weft.extend.source_info_util import new_name_stack
    >>> str(new_name_stack("layer").extend("dense").transform("jvp"))
    'layer/dense/jvp'
    """

    stack: tuple[str, ...] = ()

    def extend(self, name: str) -> NameStack:
        """The stack with one more name inside."""
        return NameStack((*self.stack, name))

    def transform(self, transform_name: str) -> NameStack:
        """The stack with the name of a transformation inside."""
        return self.extend(transform_name)

    def __len__(self) -> int:
        return len(self.stack)

    def __getitem__(self, index: slice) -> NameStack:
        return NameStack(self.stack[index])

    def __add__(self, other: NameStack) -> NameStack:
        return NameStack(self.stack + other.stack)

    def __str__(self) -> str:
        return "/".join(self.stack)


@dataclasses.dataclass(frozen=True)
class SourceInfo:
    """The line that asked for an operation (`traceback`, a capture of `weft.extend.source` or None)
    and the names around it.

    Args:
        name_stack: The names around the operation.
        traceback: The capture of the line; None if it is not known.
    """

    traceback: sources.Source | None
    name_stack: NameStack = NameStack()

    def replace(self, **changes: Any) -> SourceInfo:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def of(cls, source: sources.Source | None) -> SourceInfo:
        """The object for a capture."""
        scope = sources.scope_of(source)
        path = scope.path if scope is not None else ""
        return cls(source, NameStack(tuple(path.split("/"))) if path else NameStack())

    def source(self) -> sources.Source | None:
        """The capture, with the names around it."""
        if self.traceback is None or not self.name_stack.stack:
            return self.traceback
        return self.traceback[0], self.traceback[1], sources.Scope(str(self.name_stack))


class DebugInfo(NamedTuple):
    """Describes the function from which a program was traced, for messages.

    traced_for: the transformation; func_src_info: the function's name, with its file and line where
    they are known; arg_names and result_paths: the names of inputs and results, or None.
    """

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None = None
    result_paths: Any = None

    @property
    def func_name(self) -> str:
        """The function's name."""
        return self.func_src_info.split(" at ")[0]

    @property
    def func_filename(self) -> str | None:
        """The file of the function, if it is known."""
        place = self.func_src_info.partition(" at ")[2]
        return place.rpartition(":")[0] or None

    @property
    def func_lineno(self) -> int | None:
        """The line of the function, if it is known."""
        line = self.func_src_info.partition(" at ")[2].rpartition(":")[2]
        return int(line) if line.isdigit() else None

    def safe_arg_names(self, expected: int) -> tuple[str, ...]:
        """The names of the inputs; empty ones unless there are `expected`."""
        names = self.arg_names
        return names if names is not None and len(names) == expected else ("",) * expected

    def safe_result_paths(self, expected: int) -> tuple[str, ...]:
        """The names of the results; empty ones unless there are `expected`."""
        paths = self.resolve_result_paths().result_paths
        return paths if paths is not None and len(paths) == expected else ("",) * expected

    def resolve_result_paths(self) -> DebugInfo:
        """The same with result names computed, if a function gives them."""
        paths = self.result_paths
        return self._replace(result_paths=paths()) if callable(paths) else self

    def set_result_paths(self, result_paths: Any) -> DebugInfo:
        """The same with other names of results."""
        return self._replace(result_paths=result_paths)

    def with_unknown_names(self) -> DebugInfo:
        """The same without names of inputs and results."""
        return self._replace(arg_names=None, result_paths=None)

    def replace_func_name(self, name: str) -> DebugInfo:
        """The same with another name of the function."""
        _, at, place = self.func_src_info.partition(" at ")
        return self._replace(func_src_info=f"{name}{at}{place}")


def current_source_info() -> SourceInfo:
    """The line that is running now, and the names around it."""
    return SourceInfo.of(sources.current())


def current_name_stack() -> NameStack:
    """The names around the operation that runs now.

    >>> from weft.extend.source_info_util import current_name_stack
    >>> with weft.named_scope("layer"):
    ...     print(current_name_stack())
    layer
    """
    return current_source_info().name_stack


def new_name_stack(name: str = "") -> NameStack:
    """A stack of one name, or of none.

    Args:
        name: The name; an empty one makes an empty stack.
    """
    return NameStack((name,) if name else ())


def new_source_info() -> SourceInfo:
    """A source of nothing: no line and no names."""
    return SourceInfo(None, NameStack())


def extend_name_stack(name: str) -> sources.entered_scope:
    """`with extend_name_stack(name):` operations inside carry one more name.

    Args:
        name: The name to add, innermost.
    """
    return sources.entered_scope(name)


def transform_name_stack(name: str) -> sources.entered_scope:
    """`with transform_name_stack(name):` operations inside carry a transformation's name.

    Args:
        name: The transformation's name, such as "jvp".
    """
    return sources.entered_scope(name)


@contextmanager
def set_name_stack(name_stack: NameStack) -> Iterator[None]:
    """`with set_name_stack(stack):` operations inside carry these names in place of those around.

    Args:
        name_stack: The names that operations inside carry.

    >>> from weft.extend.source_info_util import current_name_stack, new_name_stack, set_name_stack
    >>> with weft.named_scope("outer"), set_name_stack(new_name_stack("inner")):
    ...     print(current_name_stack())
    inner
    """
    with sources.without_scope():
        if not name_stack.stack:
            yield
            return
        with sources.entered_scope(str(name_stack)):
            yield


@contextmanager
def reset_name_stack() -> Iterator[None]:
    """`with reset_name_stack():` operations inside carry none of the names around."""
    with sources.without_scope():
        yield


@contextmanager
def user_context(traceback: Any, *, name_stack: NameStack | None = None) -> Iterator[None]:
    """`with user_context(info.traceback, name_stack=…):` operations inside belong to that line.

    Args:
        traceback: The capture of the line, as `SourceInfo.traceback` has it.
        name_stack: The names that operations inside carry; None for those around.
    """
    own = traceback if isinstance(traceback, tuple) else None
    with sources.override(own):
        if name_stack is None:
            yield
            return
        with set_name_stack(name_stack):
            yield


def summarize(source_info: SourceInfo, num_frames: int = 1) -> str:
    """One phrase for the line of an operation: file, line and function. One frame is known.

    Args:
        source_info: The line, and the names around the operation.
        num_frames: Has no meaning: one frame is known.
    """
    place = sources.locate(source_info.traceback)
    return "unknown" if place is None else f"{line_text(place.file, place.line)} ({place.function})"


def register_exclusion(path: str) -> None:
    """Makes frames of a file, or of the files below a directory, count as a library's.

    Lines of the user are found beside them: in errors and in the locations of modules.

    Args:
        path: The path of a file, which ends in .py, or of a directory.
    """
    register = sources.register_internal_file if path.endswith(".py") else sources.register_internal
    register(path)
