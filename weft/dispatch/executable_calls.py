"""An executable and its calling convention: which leaves of a call's arguments it reads, what is
donated, what it closes over, and the tree of its results.

Many small arrays that a function closes over are handed to its executable in one buffer.

Every closed-over array is an operand of the executable, so that one executable serves functions
that differ in nothing but the arrays. XLA takes a time that is quadratic in the operands to compile
(a minute for 5,000), and a call a part of a microsecond for each. Where there are many small ones,
the compiler gets a program that cuts them out of one array per dtype.

That is safe since arrays do not change, and a closed-over array is never donated; and since only
the operands that the compiler sees are changed: the jaxpr that is traced, shown and differentiated
has its own. Packed are only arrays that are on the first device in row-major order and are not
committed to it, of a dtype that NumPy has. So all of them have one place, and the packed array has
it too. What the settings look at (transfers, results, the default device) is left as it is.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array, put
from weft.arrays.conversion import array_of, as_array, donatable
from weft.arrays.transfers import default_place
from weft.base import source as sources
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.types import ArrayType, user_value
from weft.dispatch.debug_nans import look_at_call
from weft.errors import Fix, WeftValueError
from weft.lowering.executables import Run, explain_failure, running
from weft.ops.indexing.slicing import slice_p
from weft.ops.structural.shape import reshape_p

Move = Callable[[Any], Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class DonatedLeaves:
    """The indices of the donated leaves of a call, with the types and names of all leaves. No
    result lies in the memory of the `discarded` ones: the runtime may leave them alive."""

    taken: Sequence[int]
    discarded: Sequence[int]
    names: Sequence[str]
    types: Sequence[ArrayType]

    def ready(self, leaves: Sequence[Any], consts: Sequence[Array]) -> list[Any]:
        """The leaves, with donated ones as arrays that nothing else in the call refers to."""
        out = list(leaves)
        for i in self.taken:
            x = out[i]
            # The others are what `donatable` returns as they are: a call for each would cost more.
            if type(x) is not Array or not x.type.shape:
                out[i] = donatable(x, self.types[i])
        self.check_given_once(out, consts)
        return out

    def note(self, leaves: Sequence[Any]) -> None:
        """Records the user's line on the donated arrays, and deletes the discarded ones."""
        source = sources.current()
        for i in self.taken:
            leaves[i]._donated_at = source
        for i in self.discarded:
            leaves[i].delete()

    def check_given_once(self, leaves: Sequence[Any], consts: Sequence[Array]) -> None:
        """Raises WeftValueError for a donated array that occurs twice in the call."""
        buffers = [id(x._buffer) for x in [*leaves, *consts] if type(x) is Array]
        if len(set(buffers)) == len(buffers):
            return
        for i in self.taken:
            x = leaves[i]
            # One that is cached for a number is copied before it is donated.
            given = type(x) is Array and not getattr(x, "_remembered", False)
            if given and buffers.count(id(x._buffer)) > 1:
                raise self._duplicate_error(i, leaves)

    def _duplicate_error(self, i: int, leaves: Sequence[Any]) -> WeftValueError:
        name, x = self.names[i], leaves[i]
        others = [
            other
            for k, (other, leaf) in enumerate(zip(self.names, leaves, strict=True))
            if k != i and type(leaf) is Array and leaf._buffer is x._buffer
        ]
        again = f"given again as {others[0]}" if others else "closed over by the function"
        message = f"{name} is donated and used twice in the same call"
        got = f"{name} of type {x.type}, which is {again}"
        wanted = "a donated array that is given once"
        fix = Fix("copy", f"pass a copy of it: {name}.copy()", {"leaf": i, "path": name})
        return WeftValueError(message, operation="jit", got=got, wanted=wanted, fix=fix)


class CompiledCall:
    """An executable with its calling convention. `run(leaves)` calls it with arrays or values that
    become arrays. `kept` has the indices of the leaves that it reads, None if it reads all and
    nothing else. `settled`: the leaves have its shardings. `run` refers to no CompiledCall, so that
    a dropped one frees its constants at once."""

    __slots__ = ("consts", "donated", "forms", "in_types", "kept", "program", "run", "start")

    run: Callable[[Sequence[Any]], Any]

    def __init__(
        self,
        program: Any,
        consts: list[Array],
        kept: list[int] | None,
        in_types: list[ArrayType],
        out_tree: Any,
        settled: bool = False,
        donated: DonatedLeaves | None = None,
    ) -> None:
        self.program = program
        self.consts, execute = program.bound(consts, settled)
        self.kept = kept
        self.in_types = in_types
        self.donated = donated
        # Patterns of arguments that it is known by: see known_calls.py.
        self.forms = 0
        form = 0 if tree.treedef_is_leaf(out_tree) else out_tree.unflatten
        start = running(program, form, execute, self.consts)
        # What a call with all buffers at hand may start; None where it has to do more.
        self.start = start if donated is None else None
        if donated is not None:
            start = _donating_call(start, donated, self.consts)
        self.run = _on_leaves(start, self.consts, kept, in_types, donated)

    def running_by(self, run: Callable[[Sequence[Any]], Any]) -> CompiledCall:
        """The same executable, called by another function of the leaves."""
        out = copy.copy(self)
        out.run, out.start = run, None
        return out


def _on_leaves(
    start: Run,
    consts: Sequence[Array],
    kept: Sequence[int] | None,
    types: Sequence[ArrayType],
    donated: DonatedLeaves | None,
) -> Callable[[Sequence[Any]], Any]:
    """A function that calls `start` with the buffers of the constants and leaves."""

    def run(leaves: Sequence[Any]) -> Any:
        if donated is not None:
            leaves = donated.ready(leaves, consts)
        try:
            buffers = [x._buffer for x in leaves]
        except AttributeError:  # NumPy arrays and numbers of the types that the arrays had
            buffers = [
                x._buffer if type(x) is Array else array_of(x, aval)._buffer
                for x, aval in zip(leaves, types, strict=True)
            ]
        if kept is not None:
            buffers = [x._buffer for x in consts] + [buffers[i] for i in kept]
        return start(buffers, leaves)

    return run


def _donating_call(start: Run, donated: DonatedLeaves, consts: Sequence[Array]) -> Run:
    """A call that marks the donated arrays as deleted, also where it fails half-way. If an array
    was deleted before, nothing is donated."""

    def run(buffers: Sequence[Any], leaves: Sequence[Any]) -> Any:
        try:
            out = start(buffers, ())
        except Exception as error:
            explain_failure((*leaves, *consts), error)
            donated.note(leaves)
            raise
        donated.note(leaves)
        return out

    return run


def checked_call(
    call: CompiledCall, jaxpr: Jaxpr, name: str, input_names: Sequence[str]
) -> CompiledCall:
    """A call that raises NonFiniteError for NaNs or infinities in its results, as settings ask.
    `input_names` has the names of the inputs of the jaxpr in messages."""
    names = dict(zip(jaxpr.inputs, input_names, strict=True))

    def run(leaves: Sequence[Any]) -> Any:
        out = call.run(leaves)
        inputs = [as_array(user_value(x)) for x in leaves]
        if call.kept is not None:
            inputs = [*call.consts, *(inputs[i] for i in call.kept)]
        look_at_call(name, jaxpr, inputs, tree.leaves(out), names)
        return out

    return call.running_by(run)


def placed_call(call: CompiledCall, before: Sequence[Move], after: Sequence[Move]) -> CompiledCall:
    """A call with functions that move its arguments and its results; by leaf, None for none."""
    moves = [(i, move) for i, move in enumerate(before) if move is not None]
    if not moves and not any(after):
        return call

    def run(leaves: Sequence[Any]) -> Any:
        if moves:
            if call.donated is not None:  # Before anything moves: a refused array is not lost.
                call.donated.check_given_once(leaves, call.consts)
            leaves = list(leaves)
            for i, move in moves:
                leaves[i] = move(leaves[i])
        out = call.run(leaves)
        if not any(after):
            return out
        outs, structure = tree.flatten(out)
        pairs = zip(outs, after, strict=True)
        return structure.unflatten([x if move is None else move(x) for x, move in pairs])

    return call.running_by(run)


# Below so many a program is compiled as well with an operand for each.
FEWEST = 64
# A larger array is worth its own operand: packing copies it.
MOST_BYTES = 4096


def pack_constants(jaxpr: Jaxpr, consts: list[Array]) -> tuple[Jaxpr, list[Array]]:
    """The jaxpr with its many small closed-over arrays sliced out of one per dtype, and its new
    closed-over arrays; unchanged if there are few."""
    if len(consts) < FEWEST or _settings_matter():
        return jaxpr, consts
    groups: dict[np.dtype, list[int]] = {}
    for i, const in enumerate(consts):
        if _is_small(const):
            groups.setdefault(const.dtype, []).append(i)
    if sum(map(len, groups.values())) < FEWEST:
        return jaxpr, consts
    numbers = {i for group in groups.values() for i in group}
    kept = [const for i, const in enumerate(consts) if i not in numbers]
    buffers = [
        np.concatenate([np.asarray(consts[i]).ravel() for i in group]) for group in groups.values()
    ]
    arrays = [put(x, ArrayType(x.shape, x.dtype), copy=False) for x in buffers]
    which = tuple(tuple(group) for group in groups.values())
    smaller = jaxpr.memoize(("packed", which), lambda: _slice_constants(jaxpr, which))
    return smaller, [*kept, *arrays]


def _settings_matter() -> bool:
    """Whether a setting inspects operands or copies, or places arrays."""
    return (
        config.settings().looks_at_results
        or config.host_settings().guards_transfers
        or default_place() is not None
    )


def _is_small(const: Array) -> bool:
    """Whether an array may be packed: only known safe kinds are."""
    of = const.type
    return (
        const.signature is of
        and of == ArrayType(of.shape, of.dtype)
        and (of.dtype.kind in "biufc" or of.dtype == dtypes.bfloat16)
        and 0 < const.nbytes <= MOST_BYTES
    )


def _slice_constants(jaxpr: Jaxpr, groups: Sequence[Sequence[int]]) -> Jaxpr:
    """The jaxpr with each group of constants sliced out of one array."""
    numbers = {i for group in groups for i in group}
    consts = jaxpr.inputs[: jaxpr.num_consts]
    inputs = [var for i, var in enumerate(consts) if i not in numbers]
    eqns = []
    for group in groups:
        ends = [0, *itertools.accumulate(consts[i].type.size for i in group)]
        whole = Var(ArrayType((ends[-1],), consts[group[0]].type.dtype))
        inputs.append(whole)
        for i, start, stop in zip(group, ends, ends[1:], strict=False):
            eqns += _part(whole, start, stop, consts[i])
    rest = jaxpr.inputs[jaxpr.num_consts :]
    outputs, count = jaxpr.outputs, len(inputs)
    return checked(Jaxpr([*inputs, *rest], [*eqns, *jaxpr.eqns], outputs, count, jaxpr.name))


def _part(whole: Var, start: int, stop: int, const: Var) -> list[Equation]:
    """The equations that slice a constant out of a packed array."""
    params = {"start_indices": (start,), "limit_indices": (stop,), "strides": (1,)}
    if const.type.ndim == 1:
        return [Equation(slice_p, [whole], params, [const])]
    flat = Var(ArrayType((stop - start,), const.type.dtype))
    shape = {"shape": const.type.shape}
    return [Equation(slice_p, [whole], params, [flat]), Equation(reshape_p, [flat], shape, [const])]
