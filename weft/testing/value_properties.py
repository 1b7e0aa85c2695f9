"""Properties of types, lowerings and jaxprs: each raises AssertionError if a rule of a
primitive does not agree with the others."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, testing
from weft.api.jit import jit, make_jaxpr
from weft.core.jaxpr import eval_jaxpr
from weft.core.types import type_of
from weft.interpreters.partial_eval import dce_jaxpr, partial_eval_jaxpr
from weft.testing.primitive_application import PrimitiveApplication, Skipped, convert_operands

_SWEEP = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def parameters(case: PrimitiveApplication) -> None:
    """Parameters can be hashed, equal themselves, and survive pickling."""
    for name, value in case.params.items():
        try:
            assert hash(value) == hash(value), f"the hash of {name} changes"
        except TypeError as error:
            raise AssertionError(f"the parameter {name} cannot be hashed: {error}") from None
        assert value == value, f"the parameter {name} does not equal itself"
        if "__eq__" not in {name for cls in type(value).__mro__[:-1] for name in vars(cls)}:
            continue  # Compared by identity, which pickling does not keep.
        try:
            text = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError):
            continue  # Functions and jaxprs are parameters, too.
        assert pickle.loads(text) == value, f"the parameter {name} changes when it is pickled"


def result_types(case: PrimitiveApplication) -> None:
    """Results have the types that the type rule gives, and the rule gives the same each time."""
    first = [t.strong() for t in case.program().out_types]
    again = [t.strong() for t in case.program().out_types]
    assert first == again, f"the type rule says {first}, then {again}"
    outs = case.call(*case.args)
    got = [type_of(x).strong() for x in outs]
    assert got == first, f"computed {got}, and the type rule says {first}"
    for x, type in zip(outs, first, strict=True):
        if not dtypes.is_extended(type.dtype):
            host = np.asarray(x)
            assert (host.shape, host.dtype) == (type.shape, type.dtype), (
                f"the buffer holds {host.dtype}{host.shape}, and the type rule says {type}"
            )


def weak_types(case: PrimitiveApplication) -> None:
    """Shapes and dtypes of results are the same where operands come from Python numbers."""
    wanted = [t.strong() for t in case.program().out_types]
    types = [type_of(x).strong() for x in case.args]
    numeric = [i for i, t in enumerate(types) if t.dtype in dtypes.NUMERIC]
    if not numeric:
        raise Skipped("no operand holds numbers")
    for places in ([i] for i in numeric):
        given = [t.update(weak_type=True) if i in places else t for i, t in enumerate(types)]
        got = [t.strong() for t in case.program(given).out_types]
        assert got == wanted, f"{got} of operands {given}, and {wanted} where none is weak"


def settings(case: PrimitiveApplication) -> None:
    """The types of results depend on operands and parameters, and not on a setting."""
    found = []
    for wide in (False, True):
        with config.override(enable_x64=wide):
            found.append([t.strong() for t in case.program().out_types])
    assert found[0] == found[1], f"{found[0]}, and with enable_x64 {found[1]}"
    with config.override(enable_x64=not config.settings().enable_x64):
        jit(lambda *xs: case.call(*xs))(*case.args)


def printable(case: PrimitiveApplication) -> None:
    """Two recordings of one application read the same."""
    first, second = (str(make_jaxpr(case.call)(*case.args)) for _ in range(2))
    assert first == second, f"recorded twice, it reads\n{first}\nand\n{second}"


def deterministic(case: PrimitiveApplication) -> None:
    """Lowered twice, it is the same program; evaluated twice, it gives the same bits."""
    first, second = (jit(lambda *xs: case.call(*xs)).lower(*case.args).as_text() for _ in range(2))
    assert first == second, f"lowered twice, it is\n{first}\nand\n{second}"
    case.numbers()
    for a, b in zip(case.call(*case.args), case.call(*case.args), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), "two evaluations differ")


def expected(case: PrimitiveApplication) -> None:
    """The results are those that the example gives."""
    wanted = case.example.wanted
    if wanted is None:
        raise Skipped("no example says what is wanted")
    outs = case.call(*case.args)
    given = list(wanted) if case.primitive.multiple_results else [wanted]
    assert len(given) == len(outs), f"{len(outs)} results, and {len(given)} are wanted"
    for out, value in zip(outs, given, strict=True):
        of = type_of(out)
        host = np.asarray(value)
        assert host.shape == of.shape, f"a result of shape {of.shape}, and {host.shape} is wanted"
        testing.assert_close(out, testing.exact_array(host.astype(of.dtype)), what="the result")


def jitted(case: PrimitiveApplication) -> None:
    """A compiled program computes what the evaluation of one operation computes."""
    if any(dtypes.is_extended(t.dtype) for t in case.program().out_types):
        raise Skipped("a result holds random keys")
    testing.check_jit(case.call, case.args)
    inside = jit(lambda *xs: [[*case.call(*xs)], [*case.call(*xs)]])(*case.args)
    testing.assert_close(inside, [case.call(*case.args)] * 2, what="two applications in a program")


def body(case: PrimitiveApplication) -> None:
    """The given lowering computes what the body computes."""
    function = getattr(case.primitive, "body", None)
    if function is None or "lowering" in case.primitive.derived:
        raise Skipped("there is no lowering beside a body")
    case.numbers()
    program = case.primitive.program([type_of(x) for x in case.args], dict(case.params))
    wanted = eval_jaxpr(program, (), *case.args)
    testing.assert_close(case.call(*case.args), wanted, what="the lowering and the body")


def sweep(case: PrimitiveApplication) -> None:
    """In every dtype that the type rule accepts, results have the types that it gives."""
    if not any(type_of(x).dtype in dtypes.INEXACT for x in case.args):
        raise Skipped("no operand is inexact")
    given = {name: convert_operands(case.args, getattr(dtypes, name)) for name in _SWEEP}
    given = {name: args for name, args in given.items() if case.takes(args)}
    try:
        _compute(case, given)
    except Exception:
        for name, args in given.items():
            _compute(case, {name: args})  # Which dtype it is.
        raise


def _compute(case: PrimitiveApplication, given: Mapping[str, Sequence[Any]]) -> None:
    """Raises AssertionError if the results for operands of some dtype have other types."""
    found = jit(lambda every: {name: case.call(*args) for name, args in every.items()})(given)
    for name, outs in found.items():
        for x, of in zip(outs, case.program(given[name]).out_types, strict=True):
            if dtypes.is_extended(of.dtype):
                continue
            host = np.asarray(x)
            assert (host.shape, host.dtype) == (of.shape, of.dtype), (
                f"operands of {name}: computed {host.dtype}{host.shape}, typed {of}"
            )


def dead_code(case: PrimitiveApplication) -> None:
    """Unused equations without effects are dropped, and used ones stay right."""
    case.numbers()
    program = case.program()
    count = len(program.outputs)
    nothing, _ = dce_jaxpr(program, (False,) * count)
    if program.effects:
        assert nothing.effects == program.effects, "an application with effects is dropped"
    else:
        assert not nothing.eqns, "an application without readers is kept"
    outs = case.call(*case.args)
    for used in _marks(count):
        smaller, reads = dce_jaxpr(program, used)
        values = [x for x, read in zip(case.args, reads, strict=True) if read]
        wanted = [x for x, flag in zip(outs, used, strict=True) if flag]
        testing.assert_close(eval_jaxpr(smaller, (), *values), wanted, what=f"results {used}")


def split(case: PrimitiveApplication) -> None:
    """A program split by which operands are known computes what the whole program computes."""
    case.numbers()
    program = case.program()
    outs = case.call(*case.args)
    for unknown in _marks(len(case.args)):
        parts = partial_eval_jaxpr(program, unknown)
        assert parts.known.effects | parts.unknown.effects == program.effects, (
            f"split with unknown operands {unknown}, effects are lost"
        )
        known = [x for x, flag in zip(case.args, unknown, strict=True) if not flag]
        found = eval_jaxpr(parts.known, (), *known)
        first = len(found) - len(parts.residual_types)
        rest = [x for x, flag in zip(case.args, unknown, strict=True) if flag]
        later = iter(eval_jaxpr(parts.unknown, (), *found[first:], *rest))
        now = iter(found[:first])
        joined = [next(later) if flag else next(now) for flag in parts.unknown_out]
        testing.assert_close(joined, outs, what=f"split with unknown operands {unknown}")


def _marks(count: int) -> Iterator[tuple[bool, ...]]:
    """All choices of a few positions; of many the choices of all, of one and of all but one."""
    if count <= 4:
        yield from itertools.product((True, False), repeat=count)
        return
    yield (True,) * count
    for i in range(count):
        yield tuple(k == i for k in range(count))
        yield tuple(k != i for k in range(count))
