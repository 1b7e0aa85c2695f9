"""Turns recorded programs that use references into pure ones, and puts references into calls.

A pure program takes the arrays of its references and returns those that it has written, behind its
results. It is made by evaluating the recorded one on references that hold the values of a new
recording: there is no second meaning of reading and writing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft import tree
from weft.base import source as sources
from weft.core.effects import RefType, is_reference
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.types import type_of
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, WeftValueError
from weft.interpreters.staging import function_name, leaf_paths, rebuild
from weft.refs.equations import addupdate_p, swap_p
from weft.refs.reference import Ref, contents, new_reference

_WRITES = (swap_p, addupdate_p)


@dataclasses.dataclass(frozen=True)
class Discharged:
    """A pure program. `refs` are the indices of its inputs that are arrays of references; the
    arrays of the `written` ones come after the recorded program's results."""

    jaxpr: Jaxpr
    refs: tuple[int, ...]
    written: tuple[int, ...]


def discharge(jaxpr: Jaxpr) -> Discharged:
    """The pure program of a recorded one, cached on it.

    >>> from weft.refs.discharge import discharge
    >>> def step(count, x):
    ...     count[...] += 1
    ...     return x * count[...]
    >>> recorded = weft.make_jaxpr(step)(weft.new_ref(1.0), 2.0)
    >>> recorded
    { lambda ; a:Ref{f32[]} b:f32[]. let
        c:f32[] = get[index=[...]] a
        d:f32[] = add c 1.0:f32[]
        e:f32[] = swap[index=[...]] a d
        f:f32[] = get[index=[...]] a
        g:f32[] = mul b f
      in (g,) }
    >>> discharge(recorded.jaxpr).jaxpr
    { lambda ; a:f32[] b:f32[]. let
        c:f32[] = add a 1.0:f32[]
        d:f32[] = mul b c
      in (d, c) }
    """
    refs = tuple(i for i, var in enumerate(jaxpr.inputs) if is_reference(var.type))
    if not refs:
        return Discharged(jaxpr, (), ())

    def make() -> Discharged:
        written = written_inputs(jaxpr)

        def function(*values: Any) -> list[Any]:
            given = list(values)
            for i in refs:
                given[i] = new_reference(values[i])
            return [*eval_jaxpr(jaxpr, (), *given), *(contents(given[i]) for i in written)]

        of: list[Any] = jaxpr.in_types
        types: list[Any] = [kind.inner if type(kind) is RefType else kind for kind in of]
        pure = rebuild(function, types, jaxpr.name, "discharge")
        consts = jaxpr.num_consts
        return Discharged(
            Jaxpr(pure.inputs, pure.eqns, pure.outputs, consts, jaxpr.name), refs, written
        )

    return jaxpr.memoize("discharged", make)


def written_inputs(jaxpr: Jaxpr) -> tuple[int, ...]:
    """The indices of a recorded program's inputs that are references it writes."""
    changed = {eqn.inputs[0] for eqn in jaxpr.eqns if eqn.primitive in _WRITES}
    return tuple(
        i for i, var in enumerate(jaxpr.inputs) if is_reference(var.type) and var in changed
    )


def has_references(values: Sequence[Any]) -> bool:
    """Whether one of the values is a reference."""
    return any(type(value) is Ref for value in values)


def array_in(value: Any) -> Any:
    """The array of a reference; any other value itself."""
    return contents(value) if type(value) is Ref else value


@dataclasses.dataclass(frozen=True)
class PureCall:
    """A pure program with the current values of its closed-over inputs, and what it writes."""

    jaxpr: Jaxpr
    consts: list[Any]
    written: list[Ref]

    def finish(self, outs: Sequence[Any]) -> list[Any]:
        """Writes the arrays after the results into their references, and returns the results."""
        count = len(outs) - len(self.written)
        for ref, value in zip(self.written, outs[count:], strict=True):
            ref[...] = value
        return list(outs[:count])


def pure_call(jaxpr: Jaxpr, consts: Sequence[Any]) -> PureCall:
    """The pure program for a recorded one that closes over these values."""
    if not has_references(consts):
        return PureCall(jaxpr, list(consts), [])
    found = discharge(jaxpr)
    values = [array_in(value) for value in consts]
    return PureCall(found.jaxpr, values, [consts[i] for i in found.written])


def check_distinct(what: str, refs: Sequence[Any], names: Callable[[], Sequence[str]]) -> None:
    """Raises WeftValueError for a reference passed twice: both would show each write."""
    found = [value for value in refs if type(value) is Ref]
    if len({id(ref) for ref in found}) == len(found):
        return
    seen: dict[int, int] = {}
    for i, value in enumerate(refs):
        if type(value) is not Ref:
            continue
        if id(value) in seen:
            which = names()
            message = f"{what}: one reference is passed twice"
            got = (
                f"a reference of type {value.type}, made at {sources.describe(value.created)}, "
                f"as {which[seen[id(value)]]} and as {which[i]}"
            )
            fix = Fix("once", "pass it once, and use that argument in both places")
            wanted = "each reference once"
            raise WeftValueError(message, operation=what, got=got, wanted=wanted, fix=fix)
        seen[id(value)] = i


def passed_and_closed_over(what: str, ref: Ref, name: str) -> WeftValueError:
    """The error for a reference that a function takes as an argument and also closes over."""
    message = f"{what}: a reference is passed as {name}, and the function closes over it"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("argument", f"use the argument {name} only, or do not pass the reference")
    return WeftValueError(message, operation=what, got=got, wanted="one of the two", fix=fix)


class unusable:
    """`with unusable(refs):` forbids the references, which a function has in another form."""

    __slots__ = ("_refs",)

    def __init__(self, refs: Sequence[Ref]) -> None:
        self._refs = refs

    def __enter__(self) -> None:
        for ref in self._refs:
            ref._gone = "passed"

    def __exit__(self, *_: object) -> None:
        for ref in self._refs:
            ref._gone = None


def as_closure(
    what: str, function: Callable[..., Any], args: Any
) -> tuple[Callable[..., Any], Any]:
    """A function that closes over the references among its arguments, and the arguments with None
    in their place.

    For functions that are recorded: their closed-over values become inputs of the jaxpr.
    """
    leaves, in_tree = tree.flatten(args)
    if not has_references(leaves):
        return function, args
    names = [tree.keystr(path) for path, _ in tree.leaves_with_path(args)]
    check_distinct(what, leaves, lambda: names)
    refs = tuple(leaf if type(leaf) is Ref else None for leaf in leaves)
    rest = in_tree.unflatten([None if type(leaf) is Ref else leaf for leaf in leaves])

    def closed(*given: Any) -> Any:
        values = iter(tree.leaves(given))
        full = [next(values) if ref is None else ref for ref in refs]
        return function(*in_tree.unflatten(full))

    closed.__name__ = function_name(function)
    return closed, rest


def inner_write_error(what: str, ref: Ref) -> WeftNotImplementedError:
    """The error for a function that writes a reference which it may only read."""
    message = f"{what}: the function writes a reference from outside while it is traced"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("return_value", "return the value, and write it after the call")
    wanted = "a function that reads references, or writes those that it made"
    return WeftNotImplementedError(message, operation=what, got=got, wanted=wanted, fix=fix)


@dataclasses.dataclass(frozen=True)
class BoxedCall:
    """A function of arrays in place of the references at `places`, with the arguments `leaves` of
    structure `in_tree`. After its result it returns the references' final arrays."""

    function: Callable[..., Any]
    leaves: list[Any]
    in_tree: Any
    places: list[int]

    def arrays(self) -> Any:
        """The arguments, with the arrays of references."""
        return self.in_tree.unflatten([array_in(x) for x in self.leaves])

    def write(self, arrays: Sequence[Any]) -> None:
        """Writes arrays into the references."""
        for i, value in zip(self.places, arrays, strict=True):
            self.leaves[i][...] = value


def boxed_call(
    what: str,
    function: Callable[..., Any],
    leaves: Sequence[Any],
    in_tree: Any,
    has_aux: bool = False,
    kept: Sequence[int] = (),
) -> BoxedCall:
    """A function that gets its own references in place of those among its arguments, for
    transformations that change the type of an argument. Those at `kept` are passed on."""
    names = leaf_paths(in_tree)
    check_distinct(f"{what} of {function_name(function)}", leaves, lambda: names)
    places = [i for i, leaf in enumerate(leaves) if type(leaf) is Ref and i not in kept]

    def with_boxes(*args: Any) -> Any:
        values = tree.leaves(args)
        for i in kept:
            values[i] = leaves[i]
        for i in places:
            values[i] = new_reference(values[i])
        with unusable([leaves[i] for i in places]):
            out = function(*in_tree.unflatten(values))
        last = [contents(values[i]) for i in places]
        return ((out[0], last), *out[1:]) if has_aux else (out, last)

    with_boxes.__name__ = function_name(function)
    return BoxedCall(with_boxes, list(leaves), in_tree, places)


def carried_reference_error(what: str, name: str, which: str, ref: Ref) -> WeftTypeError:
    """The error for a reference as a carried value."""
    message = f"{what} of {name}: a reference is no carried value: {which}"
    got = f"a reference of type {ref.type}, made at {sources.describe(ref.created)}"
    fix = Fix("close_over", "leave it out of the carry, and have the body close over it")
    return WeftTypeError(message, got=got, wanted="arrays", fix=fix)


def value_type(value: Any) -> Any:
    """The type of a value as an input of a recorded program: `Ref{…}` for a reference."""
    return value.type if type(value) is Ref else type_of(value)
