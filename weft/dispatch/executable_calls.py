"""Compiled programs with what a call of a jitted function needs besides to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft import tree
from weft.arrays.array import Array, array_of, as_array, donatable
from weft.base import source as sources
from weft.core.jaxpr import Jaxpr
from weft.core.types import ArrayType, user_value
from weft.dispatch.debug_nans import look_at_call
from weft.errors import Fix, WeftValueError
from weft.lowering.executables import explain_failure

__all__ = ["AnyEntry", "CheckedEntry", "Entry", "PlacedEntry", "bare_entry"]


class Entry:
    """A compiled program and what a call needs besides: closed-over buffers, kept inputs, trees."""

    __slots__ = (
        "consts",
        "discarded",
        "donated",
        "execute",
        "handlers",
        "in_types",
        "kept",
        "names",
        "out_signature",
        "out_signatures",
        "out_tree",
        "out_type",
        "out_types",
        "program",
        "single",
    )

    def __init__(
        self,
        program: Any,
        consts: list[Array],
        kept: list[int] | None,
        donated: list[int],
        in_types: list[ArrayType],
        out_tree: Any,
        settled: bool = False,
        discarded: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.in_types = in_types
        # What messages call the leaves, where some are donated.
        self.names = names
        self.program = program
        self.consts, self.execute = program.bound(consts, settled)
        self.handlers = program.handlers
        self.kept = kept
        self.donated = donated
        # The donated leaves in whose memory no result lies: the runtime may leave them alive.
        self.discarded = discarded
        self.out_tree = out_tree
        self.out_types = program.out_types
        self.out_signatures = program.out_signatures
        self.single = tree.treedef_is_leaf(out_tree)
        self.out_type = program.out_types[0] if program.out_types else None
        self.out_signature = program.out_signatures[0] if program.out_types else None

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the program on the leaves of a call's arguments: arrays, or what becomes one."""
        if self.donated:
            leaves = self.ready_to_donate(leaves)
        try:
            buffers = [x._buffer for x in leaves]
        except AttributeError:
            buffers = [
                x._buffer if type(x) is Array else array_of(x, of)._buffer
                for x, of in zip(leaves, self.in_types, strict=True)
            ]
        if self.kept is not None:
            buffers = [x._buffer for x in self.consts] + [buffers[i] for i in self.kept]
        try:
            outs = self.execute(buffers).consume_with_handlers(self.handlers)
        except Exception as error:
            explain_failure(leaves, error)
            explain_failure(self.consts, error)
            self.note_donation(leaves)
            raise
        if self.donated:
            self.note_donation(leaves)
        if self.single:
            return Array(outs[0], self.out_type, self.out_signature)  # type: ignore[arg-type]
        return self.out_tree.unflatten(
            [
                Array(buffer, type, signature)
                for buffer, type, signature in zip(
                    outs, self.out_types, self.out_signatures, strict=True
                )
            ]
        )

    def run_on_arrays(self) -> Callable[[Sequence[Any]], Any]:
        """What does the same as `run`, and decides less each time where all leaves are arrays."""
        if self.donated or self.kept is not None or not self.single:
            return self.run
        execute, handlers, general = self.execute, self.handlers, self.run
        out_type, out_signature = self.out_type, self.out_signature

        def run(leaves: Sequence[Any]) -> Any:
            try:
                buffers = [x._buffer for x in leaves]
            except AttributeError:  # NumPy arrays and numbers of the types that the arrays had
                return general(leaves)
            try:
                (out,) = execute(buffers).consume_with_handlers(handlers)
            except Exception as error:
                explain_failure(leaves, error)
                raise
            return Array(out, out_type, out_signature)  # type: ignore[arg-type]

        return run

    def note_donation(self, leaves: Sequence[Any]) -> None:
        """Notes on the donated arrays where that was."""
        source = sources.current()
        for i in self.donated:
            leaves[i]._donated_at = source
        for i in self.discarded:
            leaves[i].delete()

    def ready_to_donate(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves, the donated ones as arrays that nothing else in the call refers to."""
        found = list(leaves)
        for i in self.donated:
            found[i] = donatable(found[i], self.in_types[i])
        self.check_given_once(found)
        return found

    def check_given_once(self, leaves: Sequence[Any]) -> None:
        """Raises WeftValueError for a donated array that is among the leaves or constants twice."""
        buffers = [id(x._buffer) for x in [*leaves, *self.consts] if type(x) is Array]
        if len(set(buffers)) == len(buffers):
            return
        for i in self.donated:
            x = leaves[i]
            # One that stands for a number elsewhere too is copied before it is given away.
            given = type(x) is Array and not getattr(x, "_remembered", False)
            if given and buffers.count(id(x._buffer)) > 1:
                raise self._given_twice(i, leaves)

    def _given_twice(self, i: int, leaves: Sequence[Any]) -> WeftValueError:
        name, x = self.names[i], leaves[i]
        others = [
            other
            for k, (other, leaf) in enumerate(zip(self.names, leaves, strict=True))
            if k != i and type(leaf) is Array and leaf._buffer is x._buffer
        ]
        again = f"given again as {others[0]}" if others else "closed over by the function"
        return WeftValueError(
            f"{name} is donated and used twice in the same call",
            operation="jit",
            got=f"{name} of type {x.type}, which is {again}",
            wanted="a donated array that is given once",
            fix=Fix("copy", f"pass a copy of it: {name}.copy()", {"leaf": i, "path": name}),
        )


class CheckedEntry:
    """An entry whose results are searched for NaNs or infinities after each call."""

    __slots__ = ("entry", "jaxpr", "name", "names")

    def __init__(self, entry: Entry, jaxpr: Jaxpr, name: str, names: Sequence[str]) -> None:
        self.entry = entry
        self.jaxpr = jaxpr
        self.name = name
        # What messages call the inputs of the program.
        self.names = dict(zip(jaxpr.inputs, names, strict=True))

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the program. Raises NonFiniteError where a result is not as the settings ask for."""
        entry = self.entry
        out = entry.run(leaves)
        inputs = [as_array(user_value(x)) for x in leaves]
        if entry.kept is not None:
            inputs = [*entry.consts, *(inputs[i] for i in entry.kept)]
        look_at_call(self.name, self.jaxpr, inputs, tree.leaves(out), self.names)
        return out


class PlacedEntry:
    """An entry whose arguments are taken somewhere before each call, and some results after it."""

    __slots__ = ("after", "before", "entry", "inner")

    def __init__(
        self,
        entry: AnyEntry,
        before: Sequence[Callable[[Any], Any] | None],
        after: Sequence[Callable[[Any], Any] | None],
    ) -> None:
        self.entry = entry
        self.inner = bare_entry(entry)
        # By leaf; None for those that stay where they are.
        self.before = [(i, take) for i, take in enumerate(before) if take is not None]
        self.after = list(after) if any(after) else []

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the program."""
        if self.before:
            if self.inner.donated:  # Checked before anything is taken: a refused array is not lost.
                self.inner.check_given_once(leaves)
            leaves = list(leaves)
            for i, take in self.before:
                leaves[i] = take(leaves[i])
        out = self.entry.run(leaves)
        if not self.after:
            return out
        outs, structure = tree.flatten(out)
        return structure.unflatten(
            [x if take is None else take(x) for x, take in zip(outs, self.after, strict=True)]
        )


AnyEntry = Entry | CheckedEntry | PlacedEntry


def bare_entry(entry: AnyEntry) -> Entry:
    """The entry itself, without what is done around it."""
    while not isinstance(entry, Entry):
        entry = entry.entry
    return entry
