"""Finds random keys that are used twice, for `debug_key_reuse`.

A key is used by drawing from it or by splitting it, and by nothing else. Every key that comes into
being gets a number, and numbers are followed through the operations that only move elements. So a
jaxpr is read once, each loop in it as two of its iterations, and an eager operation is read in the
same way, with the numbers that its operands have. Where an operation cannot be followed (an index
that is only known at run time), its keys count as new: each key that is reported is reused, and not
every key that is reused is reported.

The `steps` rules would not do: they take values, so a compiled call would have to be evaluated
once more, every iteration of its loops, and of a `cond` they follow the branch that is taken only.
"""

from __future__ import annotations

import itertools
import weakref
from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.arrays.array import Array
from weft.base import source as sources
from weft.control_flow.checkpoint import remat_p
from weft.control_flow.cond import cond_p
from weft.control_flow.loop_parts import Loop
from weft.control_flow.scan import scan_p
from weft.control_flow.while_loop import parts, while_p
from weft.core import rules
from weft.core.jaxpr import Jaxpr, Literal, Var, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rules import Params, Values
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, KeyReuseError
from weft.ops.structural.extended_dtypes import (
    KeyDType,
    clone_key_p,
    key_bits_p,
    use_key_p,
    wrap_key_bits_p,
)
from weft.spmd.shard_map_primitive import shard_map_p

# The numbers of the keys in an array, in its shape; of bits, each word's number. None: not known.
Numbers = np.ndarray[Any, Any] | None
Operands = Sequence[Numbers]
Results = list[Numbers]
Rule = Callable[..., Results]


# ---- numbers -------------------------------------------------------------------------------------

_next = itertools.count()


def _new(shape: Sequence[int]) -> np.ndarray[Any, Any]:
    n = prod(shape)
    first = next(_next)
    # A block of numbers of which only the first is drawn from the counter: blocks do not overlap.
    return (np.int64(first) << 32) + np.arange(n, dtype=np.int64).reshape(tuple(shape))


def _words(keys: np.ndarray[Any, Any], row: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Numbers the words of keys by pairs of the key's number and the word's index."""
    n = prod(row)
    table = np.empty((*keys.shape, n), dtype=[("key", np.int64), ("word", np.int32)])
    table["key"] = keys[..., None]
    table["word"] = np.arange(n)
    return table.reshape(keys.shape + row)


def _keys_of(words: Numbers, row: tuple[int, ...]) -> Numbers:
    """The numbers of the keys that words make up; None if they are not whole keys."""
    if words is None:
        return None
    n = prod(row)
    flat = words.reshape((*words.shape[: words.ndim - len(row)], n))
    keys = flat["key"]
    whole = (flat["word"] == np.arange(n)).all() and (keys == keys[..., :1]).all()
    return keys[..., 0] if whole else None


def _is_key(type: ArrayType) -> bool:
    return isinstance(type.dtype, KeyDType)


def _move_numbers(moving: Primitive, params: Params, numbers: Operands) -> Numbers:
    """The numbers of a result of moved elements: the operation on the operands' numbers."""
    if moving in rules.layout:  # the value of an operand, unchanged
        source = rules.layout[moving](params)[0]
        return numbers[source] if type(source) is int else None
    if moving not in rules.on_host or any(x is None for x in numbers):
        return None
    return np.asarray(rules.on_host[moving](*numbers, **params))


# ---- reading jaxprs ------------------------------------------------------------------------------


class Reader:
    """Follows keys through jaxprs; `used` maps each number to the operation and the place that used
    it."""

    __slots__ = ("used",)

    def __init__(self, used: MutableMapping[int, tuple[str, str]]) -> None:
        self.used = used

    def jaxpr(self, jaxpr: Jaxpr, inputs: Operands, source: Any = None) -> Results:
        """The numbers of a jaxpr's results. `source` is where it is applied, for jaxprs of weft's
        own, whose lines tell a user nothing."""
        known: dict[Var, Numbers] = {}
        for var, numbers in zip(jaxpr.inputs, inputs, strict=True):
            if numbers is None and _is_key(var.type):
                numbers = _new(var.type.shape)
            known[var] = numbers
        for eqn in jaxpr.eqns:
            operands = [None if isinstance(x, Literal) else known.get(x) for x in eqn.inputs]
            types = [out.type for out in eqn.outputs]
            where = source if eqn.primitive is use_key_p else eqn.source
            found = self.application(eqn.primitive, eqn.params, operands, types, where)
            for var, numbers in zip(eqn.outputs, found, strict=True):
                known[var] = numbers
        return [None if isinstance(x, Literal) else known.get(x) for x in jaxpr.outputs]

    def application(
        self,
        applied: Primitive,
        params: Params,
        operands: Operands,
        types: Sequence[ArrayType],
        source: Any,
    ) -> Results:
        if applied is use_key_p:
            self.use(operands[0], params["operation"], source)
            return [operands[0]]
        rule = _RULES.get(applied)
        if applied is key_bits_p:
            keys = operands[0]
            found = [None if keys is None else _words(keys, types[0].shape[keys.ndim :])]
        elif applied is wrap_key_bits_p:
            found = [_keys_of(operands[0], params["dtype"].key_shape)]
        elif rule is not None:
            found = rule(self, operands, source, **params)
        elif jaxprs_in(params):
            found = self.other(params, operands, source) or [None] * len(types)
        elif len(types) == 1 and not applied.multiple_results and operands:
            found = [_move_numbers(applied, params, operands)]
        else:
            found = [None] * len(types)
        return [
            _new(type.shape)
            if _is_key(type) and (numbers is None or numbers.shape != type.shape)
            else numbers
            for numbers, type in zip(found, types, strict=True)
        ]

    def use(self, keys: Numbers, operation: str, source: Any) -> None:
        """Marks keys as used. Raises KeyReuseError for a used one."""
        if keys is None or sources.in_backward_pass(source):
            return  # A backward pass computes again what was computed before.
        where = sources.describe(source)
        for number in keys.ravel().tolist():
            before = self.used.get(number)
            if before is not None:
                raise _reuse_error(operation, where, before)
            self.used[number] = (operation, where)

    def other(self, params: Params, operands: Operands, source: Any) -> Results | None:
        """Reads the jaxprs of an application; the numbers of the results of a single one, if its
        inputs are the operands."""
        jaxprs = jaxprs_in(params)
        if len(jaxprs) == 1 and len(jaxprs[0].inputs) == len(operands):
            return self.blocks(jaxprs[0], operands, source)
        for jaxpr in jaxprs:
            self.jaxpr(jaxpr, [None] * len(jaxpr.inputs), source)
        return None

    def blocks(self, jaxpr: Jaxpr, operands: Operands, source: Any) -> Results:
        """Reads a jaxpr whose inputs are parts of the operands, such as that of shard_map. It gets
        the first part, whose use counts as a use of all."""
        cuts: Results = []
        for numbers, var in zip(operands, jaxpr.inputs, strict=True):
            cut = numbers
            if numbers is not None and _is_key(var.type) and numbers.shape != var.type.shape:
                cut = numbers[tuple(slice(n) for n in var.type.shape)]
            cuts.append(cut)
        outs = self.jaxpr(jaxpr, cuts, source)
        for numbers, cut in zip(operands, cuts, strict=True):
            if numbers is not None and cut is not None and numbers.shape != cut.shape and cut.size:
                self.spread(cut, numbers)
        return outs

    def spread(self, part: np.ndarray[Any, Any], whole: np.ndarray[Any, Any]) -> None:
        """Marks the whole of an array as used by the operation that used a part of it."""
        if part.dtype.names is not None:
            return
        use = next((self.used[i] for i in part.ravel().tolist() if i in self.used), None)
        if use is not None:
            own = set(part.ravel().tolist())
            for number in whole.ravel().tolist():
                if number not in own:
                    self.used.setdefault(number, use)


def _reuse_error(operation: str, where: str, before: tuple[str, str]) -> KeyReuseError:
    first, line = before
    message = f"{operation} uses a random key that {first} has used before"
    got = f"a key that was used by {first} at {line}, and by {operation} at {where}"
    wanted = "a new key for each draw and each split"
    fix = Fix(
        "split",
        "split the key first: first, second = weft.random.split(key); where the same numbers "
        "are wanted again, use weft.random.clone(key)",
    )
    return KeyReuseError(message, operation=operation, got=got, wanted=wanted, fix=fix)


# ---- operations that hold jaxprs -----------------------------------------------------------------


def _read_checkpoint(reader: Reader, operands: Operands, source: Any, **params: Any) -> Results:
    jaxpr = params["jaxpr"]
    if params["again"]:  # computed before
        return [None] * len(jaxpr.outputs)
    return reader.jaxpr(jaxpr, operands, source)


def _read_branches(
    reader: Reader, operands: Operands, source: Any, *, branches: Sequence[Jaxpr], **_: Any
) -> Results:
    """Reads a conditional: a key is used if one of the branches uses it."""
    found, used = [], []
    for branch in branches:
        own: ChainMap[int, tuple[str, str]] = ChainMap({}, reader.used)
        found.append(Reader(own).jaxpr(branch, operands[1:], source))
        used.append(own.maps[0])
    for some in used:
        reader.used.update(some)
    return [
        one[0] if all(x is not None and np.array_equal(x, one[0]) for x in one) else None
        for one in zip(*found, strict=True)
    ]


def _read_scan(reader: Reader, operands: Operands, source: Any, **params: Any) -> Results:
    jaxpr, loop = Loop.of(params)
    consts, carry, xs = loop.split(operands)
    rest = [None] * (len(jaxpr.outputs) - loop.num_carry)
    for i in range(min(loop.length, 2)):
        rows = [None if x is None else x[i] for x in xs]
        carry = reader.jaxpr(jaxpr, [*consts, *carry, *rows], source)[: loop.num_carry]
        for x, row in zip(xs, rows, strict=True):
            if i and x is not None and row is not None:
                reader.spread(row, x)
    return [*carry, *rest]


def _read_while(reader: Reader, operands: Operands, source: Any, **params: Any) -> Results:
    tests, consts, carry = parts(operands, params)
    for _ in range(2):
        reader.jaxpr(params["cond_jaxpr"], [*tests, *carry], source)
        carry = reader.jaxpr(params["body_jaxpr"], [*consts, *carry], source)
    return carry


_RULES: dict[Primitive, Rule] = {
    clone_key_p: lambda reader, operands, source: [None],
    remat_p: _read_checkpoint,
    cond_p: _read_branches,
    scan_p: _read_scan,
    while_p: _read_while,
    shard_map_p: lambda reader, operands, source, **params: (
        [None] * len(reader.blocks(jaxprs_in(params)[0], operands, source))
    ),
}


# ---- values of this process ----------------------------------------------------------------------

# Which operation used each key of this process; the keys of arrays by `id`, while they live.
_used: dict[int, tuple[str, str]] = {}
_numbers: dict[int, tuple[weakref.ref[Array], np.ndarray[Any, Any]]] = {}


def _numbers_of(value: Any) -> Numbers:
    if type(value) is not Array:
        return None
    found = _numbers.get(id(value))
    if found is not None and found[0]() is value:
        return found[1]
    if not _is_key(value.type):
        return None
    out = _new(value.type.shape)
    _remember(value, out)
    return out


def _remember(value: Array, numbers: np.ndarray[Any, Any]) -> None:
    key = id(value)
    _numbers[key] = (weakref.ref(value, lambda _: _numbers.pop(key, None)), numbers)


def follow_application(applied: Primitive, args: Values, params: Params, outs: Values) -> None:
    """Follows keys through an application that was evaluated. Raises KeyReuseError."""
    operands = [_numbers_of(x) for x in args]
    types = [type_of(x) for x in outs]
    holds = bool(jaxprs_in(params))
    if not holds and all(x is None for x in operands) and not any(map(_is_key, types)):
        return
    found = Reader(_used).application(applied, params, operands, types, sources.current())
    _remember_all(outs, found)


def follow_call(jaxpr: Jaxpr, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
    """Follows keys through a compiled call. Raises KeyReuseError."""
    found = Reader(_used).jaxpr(jaxpr, [_numbers_of(x) for x in inputs])
    if len(found) == len(outs):
        _remember_all(outs, found)


def _remember_all(outs: Sequence[Any], found: Operands) -> None:
    for out, numbers in zip(outs, found, strict=True):
        if numbers is not None and type(out) is Array:
            _remember(out, numbers)
