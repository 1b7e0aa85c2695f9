"""The properties that `check_primitive` checks: each compares one rule with others that it must
agree with, and raises AssertionError where it does not.

Derivatives are checked in double precision where the type rule takes it, with the formulas of
`weft.testing`. Mapped values are compared with a Python loop.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, testing
from weft.api import jit, make_jaxpr
from weft.array import as_array
from weft.autodiff import jvp, linear_transpose, vjp
from weft.batching import vmap
from weft.control.cond import cond
from weft.control.loops import scan
from weft.control.remat import checkpoint
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.core.types import type_of, user_value
from weft.errors import MissingRuleError, WeftTypeError
from weft.meshes import make_mesh
from weft.ops.joining import concatenate
from weft.ops.shape import reshape
from weft.runtime.client import devices
from weft.shard_mapping import shard_map
from weft.sharding import PartitionSpec
from weft.transforms.dce import dce_jaxpr
from weft.transforms.partial import partial_eval_jaxpr
from weft.transforms.staging import trace_to_jaxpr

__all__ = ["Application", "Skipped", "application"]

_DOUBLE = {True: dtypes.complex128, False: dtypes.float64}
_SWEEP = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


class Skipped(Exception):
    """A property that cannot be checked here, and why."""


@dataclasses.dataclass(frozen=True)
class Application:
    """A primitive with operands (arrays) and parameters; `double`: the same in double precision."""

    primitive: Any
    args: tuple[Any, ...]
    params: Mapping[str, Any]
    double: tuple[Any, ...]

    def call(self, *args: Any) -> list[Any]:
        """The results, as a list also where there is one."""
        found = self.primitive.bind(*args, **self.params)
        return list(found) if self.primitive.multiple_results else [found]

    def program(self, args: Sequence[Any] | None = None) -> Jaxpr:
        """One application, recorded."""
        types = [type_of(x) for x in (self.args if args is None else args)]
        found, _ = trace_to_jaxpr(
            self.call, types, transformation="check_primitive", name=self.primitive.name
        )
        return found

    @property
    def inexact(self) -> list[int]:
        """The operands that have tangents."""
        return [i for i, x in enumerate(self.double) if type_of(x).dtype in dtypes.INEXACT]

    def smooth(self) -> list[int]:
        """The same. Raises Skipped where there is none."""
        if not self.inexact:
            raise Skipped("no operand has tangents")
        if not any(t.dtype in dtypes.INEXACT for t in self.program(self.double).out_types):
            raise Skipped("no result has tangents")
        return self.inexact

    def numbers(self) -> None:
        """Raises Skipped where an operand cannot be stacked in NumPy."""
        if any(dtypes.is_extended(type_of(x).dtype) for x in self.args):
            raise Skipped("an operand holds random keys, which NumPy cannot stack")


def application(primitive: Any, args: Sequence[Any], params: Mapping[str, Any]) -> Application:
    """An application to an example's operands."""
    arrays = tuple(as_array(user_value(x)) for x in args)
    found = Application(primitive, arrays, dict(params), arrays)
    wide = _converted(arrays, None)
    try:
        found.program(wide)
    except Exception:  # noqa: BLE001 (a type rule may refuse by any error)
        return found
    return dataclasses.replace(found, double=wide)


def _converted(args: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    """Operands with the inexact ones in another dtype (None: the double of their own)."""
    out = []
    for x in args:
        of = type_of(x)
        if of.dtype in dtypes.INEXACT:
            wanted = _DOUBLE[of.dtype in dtypes.COMPLEX] if dtype is None else dtype
            with np.errstate(all="ignore"):
                x = testing.exact_array(np.asarray(x).astype(wanted), wanted)
        out.append(x)
    return tuple(out)


# ---- values ------------------------------------------------------------------------------------


def parameters(case: Application) -> None:
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
            continue  # Functions and programs are parameters, too.
        assert pickle.loads(text) == value, f"the parameter {name} changes when it is pickled"


def result_types(case: Application) -> None:
    """What is computed has the types that the type rule says, each time it is asked."""
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


def settings(case: Application) -> None:
    """The types of results depend on operands and parameters, and not on a setting."""
    found = []
    for wide in (False, True):
        with config.override(enable_x64=wide):
            found.append([t.strong() for t in case.program().out_types])
    assert found[0] == found[1], f"{found[0]}, and with enable_x64 {found[1]}"
    for wide in (False, True):
        with config.override(enable_x64=wide):
            jit(case.call)(*case.args)


def deterministic(case: Application) -> None:
    """Two evaluations give the same bits."""
    case.numbers()
    for a, b in zip(case.call(*case.args), case.call(*case.args), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b), "two evaluations differ")


def jitted(case: Application) -> None:
    """A compiled program computes what the evaluation of one operation computes."""
    if any(dtypes.is_extended(t.dtype) for t in case.program().out_types):
        raise Skipped("a result holds random keys")
    testing.check_jit(case.call, case.args)
    inside = jit(lambda *xs: [[*case.call(*xs)], [*case.call(*xs)]])(*case.args)
    testing.assert_close(inside, [case.call(*case.args)] * 2, what="two applications in a program")


def body(case: Application) -> None:
    """The given lowering computes what the body computes."""
    function = getattr(case.primitive, "body", None)
    if function is None or "lowering" in case.primitive.derived:
        raise Skipped("there is no lowering beside a body")
    case.numbers()
    program = case.primitive.program([type_of(x) for x in case.args], dict(case.params))
    wanted = eval_jaxpr(program, (), *case.args)
    testing.assert_close(case.call(*case.args), wanted, what="the lowering and the body")


def sweep(case: Application) -> None:
    """In every dtype that the type rule takes, what is computed has the types that it says."""
    if not case.inexact:
        raise Skipped("no operand is inexact")
    for name in _SWEEP:
        args = _converted(case.args, getattr(dtypes, name))
        try:
            wanted = case.program(args).out_types
        except Exception:  # noqa: BLE001 (a type rule may refuse by any error)
            continue
        outs = jit(case.call)(*args)
        for x, of in zip(outs, wanted, strict=True):
            host = np.asarray(x)
            assert (host.shape, host.dtype) == (of.shape, of.dtype), (
                f"operands of {name}: computed {host.dtype}{host.shape}, typed {of}"
            )


# ---- derivatives -------------------------------------------------------------------------------


def finite_differences(case: Application) -> None:
    """The jvp gives the results, and tangents that agree with finite differences."""
    places = case.smooth()
    xs = tuple(case.double[i] for i in places)
    outs, _ = jvp(_in_some(case, places), xs, tuple(_random(x, 2) for x in xs))
    testing.assert_close(outs, case.call(*case.double), what="the value under jvp")
    testing.check_jvp(case.call, case.double)
    several = case.inexact
    if len(several) > 1:  # each operand alone: the others' tangents are symbolic zeros
        for i in several:
            testing.check_jvp(_in_one(case, i), [case.double[i]])


def linearized(case: Application) -> None:
    """linearize gives the results and the tangents that jvp gives."""
    case.smooth()
    testing.check_linearize(case.call, case.double)
    for i in case.inexact if len(case.inexact) > 1 else ():
        testing.check_linearize(_in_one(case, i), [case.double[i]])


def transposed(case: Application) -> None:
    """Reverse mode is the transpose of forward mode."""
    case.smooth()
    testing.check_vjp(case.call, case.double)
    for i in case.inexact if len(case.inexact) > 1 else ():
        testing.check_vjp(_in_one(case, i), [case.double[i]])


def second_derivatives(case: Application) -> None:
    """The derivatives of the derivatives, in every combination of modes."""
    case.smooth()
    testing.check_grads(case.call, case.double, order=2)


def _in_one(case: Application, i: int) -> Callable[..., list[Any]]:
    def function(x: Any) -> list[Any]:
        return case.call(*case.double[:i], x, *case.double[i + 1 :])

    return function


def _in_some(case: Application, places: Sequence[int]) -> Callable[..., list[Any]]:
    def function(*xs: Any) -> list[Any]:
        full = list(case.double)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return case.call(*full)

    return function


def declared_linear(case: Application) -> None:
    """The primitive is linear in the operands that are declared so."""
    groups = getattr(case.primitive, "linear", ())
    if not groups:
        raise Skipped("nothing is declared linear")
    for group in groups:
        assert max(group) < len(case.double), f"linear={group}, and {len(case.double)} operands"
        assert _is_linear(_in_some(case, group), [case.double[i] for i in group]), (
            f"it is not linear in the operands {group}"
        )


def _is_linear(function: Callable[..., list[Any]], args: Sequence[Any]) -> bool:
    """Whether f(a x + b y) = a f(x) + b f(y) at random numbers."""
    xs = [_random(x, 3) for x in args]
    ys = [_random(x, 4) for x in args]
    joined = [
        testing.exact_array(-1.5 * np.asarray(x) + 0.75 * np.asarray(y), type_of(x).dtype)
        for x, y in zip(xs, ys, strict=True)
    ]
    outs = [function(*xs), function(*ys), function(*joined)]
    for f_x, f_y, f_joined in zip(*outs, strict=True):
        if type_of(f_x).dtype not in dtypes.INEXACT:
            return False
        wanted = -1.5 * np.asarray(f_x) + 0.75 * np.asarray(f_y)
        if not np.allclose(np.asarray(f_joined), wanted, rtol=1e-5, atol=1e-5):
            return False
    return True


def _random(x: Any, seed: int) -> Any:
    of = type_of(x)
    generator = np.random.default_rng(seed)
    value = generator.normal(size=of.shape)
    if of.dtype in dtypes.COMPLEX:
        value = value + 1j * generator.normal(size=of.shape)
    return testing.exact_array(value, of.dtype)


def transpose_rule(case: Application) -> None:
    """Where the primitive is linear in operands, its own transpose rule is the adjoint map."""
    groups = [tuple(group) for group in getattr(case.primitive, "linear", ())]
    declared = set(groups)
    groups += [(i,) for i in case.inexact if (i,) not in declared]
    checked, without = 0, []
    for group in groups:
        function, xs = _in_some(case, group), [case.double[i] for i in group]
        if any(type_of(x).dtype not in dtypes.INEXACT for x in xs):
            continue
        if not _is_linear(function, xs):
            continue
        tangents = [_random(x, 5) for x in xs]
        outs = function(*tangents)
        cts = [_random(out, 6) for out in outs]
        try:
            found = linear_transpose(function, *xs)(cts)
        except WeftTypeError as error:
            if group in declared or (error.fix is not None and error.fix.kind == "rule_result"):
                raise
            continue  # The rule does not claim this operand.
        except MissingRuleError:
            if group in declared:
                raise
            without.append(group)
            continue
        checked += 1
        for x, ct in zip(xs, found, strict=True):
            got, want = type_of(ct), type_of(x)
            assert (got.shape, got.dtype) == (want.shape, want.dtype), (
                f"the cotangent of operands {group} has type {got}, not {want}"
            )
        adjoint, direct = _product(found, tangents), _product(cts, outs)
        assert abs(adjoint - direct) <= 1e-4 * (1.0 + abs(direct)), (
            f"in the operands {group}: <T ct, v> = {adjoint} and <ct, f(v)> = {direct}"
        )
    if without:
        raise Skipped(f"it is linear in the operands {without}, and has no transpose rule")
    if not checked:
        raise Skipped("it is linear in no operand")


def _product(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(
        sum(np.sum((np.asarray(x) * np.asarray(y)).real) for x, y in zip(xs, ys, strict=True))
    )


# ---- vmap --------------------------------------------------------------------------------------


def mapped(case: Application) -> None:
    """vmap over every choice of operands and axes gives what a loop gives."""
    case.numbers()
    testing.check_vmap(case.call, case.args, size=3, limit=10)
    testing.check_vmap(case.call, case.args, size=1, limit=2)


def mapped_over_nothing(case: Application) -> None:
    """vmap over an axis of length 0 gives results of length 0."""
    case.numbers()
    wanted = case.program().out_types
    if not case.args:
        raise Skipped("there is no operand to map")
    empty = [
        testing.exact_array(np.zeros((0, *type_of(x).shape), type_of(x).dtype)) for x in case.args
    ]
    outs = vmap(case.call)(*empty)
    got = [(type_of(x).shape, type_of(x).dtype) for x in outs]
    assert got == [((0, *t.shape), t.dtype) for t in wanted], f"{got} of elements {wanted}"


def _forward(case: Application) -> tuple[Callable[..., Any], list[Any]]:
    """The jvp as a function of operands and tangents, and such."""
    places = case.smooth()
    case.numbers()
    n = len(case.double)

    def function(*values: Any) -> Any:
        own, tangents = list(values[:n]), values[n:]

        def inner(*xs: Any) -> list[Any]:
            for i, x in zip(places, xs, strict=True):
                own[i] = x
            return [x for x in case.call(*own) if type_of(x).dtype in dtypes.INEXACT]

        return jvp(inner, tuple(own[i] for i in places), tuple(tangents))

    return function, [*case.double, *(_random(case.double[i], 7 + i) for i in places)]


def _reverse(case: Application) -> tuple[Callable[..., Any], list[Any]]:
    """The vjp as a function of operands and cotangents, and such."""
    places = case.smooth()
    case.numbers()
    n = len(case.double)
    outs = [x for x in case.call(*case.double) if type_of(x).dtype in dtypes.INEXACT]

    def function(*values: Any) -> Any:
        own, cts = list(values[:n]), values[n:]

        def inner(*xs: Any) -> list[Any]:
            full = list(own)
            for i, x in zip(places, xs, strict=True):
                full[i] = x
            return [x for x in case.call(*full) if type_of(x).dtype in dtypes.INEXACT]

        found, pullback = vjp(inner, *(own[i] for i in places))
        return found, pullback(list(cts))

    return function, [*case.double, *(_random(x, 9) for x in outs)]


def mapped_forward(case: Application) -> None:
    """vmap of the jvp gives what a loop gives."""
    function, values = _forward(case)
    testing.check_vmap(function, values, size=3, limit=5, rtol=1e-9)


def mapped_reverse(case: Application) -> None:
    """vmap of the vjp gives what a loop gives."""
    function, values = _reverse(case)
    testing.check_vmap(function, values, size=3, limit=5, rtol=1e-9)


def forward_of_mapped(case: Application) -> None:
    """The derivatives of the vmap, compiled and not, are those of a loop."""
    case.smooth()
    case.numbers()
    same_derivatives(vmap(case.call), _loop(case.call), _stacked(case.double, 3))
    same_derivatives(jit(vmap(case.call)), _loop(case.call), _stacked(case.double, 3))


def _stacked(args: Sequence[Any], size: int) -> list[Any]:
    """Operands stacked from rotations of their elements."""
    found = []
    for x in args:
        host = np.asarray(x)
        rows = [np.roll(host.reshape(-1), k).reshape(host.shape) for k in range(size)]
        found.append(testing.exact_array(np.stack(rows), host.dtype))
    return found


def _loop(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The function of each row, in a Python loop."""

    def loop(*args: Any) -> list[Any]:
        size = type_of(args[0]).shape[0]
        rows = [function(*(x[k] for x in args)) for k in range(size)]
        return [_stack(same) for same in zip(*rows, strict=True)]

    return loop


def _stack(rows: Sequence[Any]) -> Any:
    return concatenate([reshape(x, (1, *type_of(x).shape)) for x in rows], 0)


# ---- inside other operations -------------------------------------------------------------------


def same_derivatives(
    function: Callable[..., list[Any]], wanted: Callable[..., list[Any]], args: Sequence[Any]
) -> None:
    """Raises AssertionError unless two functions agree in values, jvp and vjp."""
    places = [i for i, x in enumerate(args) if type_of(x).dtype in dtypes.INEXACT]

    def restricted(inner: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def part(*xs: Any) -> list[Any]:
            full = list(args)
            for i, x in zip(places, xs, strict=True):
                full[i] = x
            return inner(*full)

        return part

    got, want = restricted(function), restricted(wanted)
    xs = [args[i] for i in places]
    outs = want(*xs)
    testing.assert_close(got(*xs), outs, what="the value")
    if not places:
        return

    def smooth(inner: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        return lambda *ys: [y for y in inner(*ys) if type_of(y).dtype in dtypes.INEXACT]

    tangents = tuple(_random(x, 11 + i) for i, x in enumerate(xs))
    found, expected = (jvp(smooth(f), tuple(xs), tangents)[1] for f in (got, want))
    testing.assert_close(found, expected, rtol=1e-8, atol=1e-8, what="the jvp")
    cts = [_random(y, 17) for y in outs if type_of(y).dtype in dtypes.INEXACT]
    found, expected = (vjp(smooth(f), *xs)[1](cts) for f in (got, want))
    testing.assert_close(found, expected, rtol=1e-8, atol=1e-8, what="the vjp")


def in_scan(case: Application) -> None:
    """In a loop, values and derivatives are those of a Python loop."""
    case.numbers()
    if not case.args:
        raise Skipped("there is no operand to go along")

    def looped(*rows: Any) -> list[Any]:
        return list(scan(lambda carry, xs: (carry, case.call(*xs)), 0, list(rows))[1])

    same_derivatives(looped, _loop(case.call), _stacked(case.double, 3))


def in_cond(case: Application) -> None:
    """In a branch of a conditional, values and derivatives are those outside of one."""

    def branch(*args: Any) -> list[Any]:
        return case.call(*args)

    def other(*args: Any) -> list[Any]:
        return [x * 0 if type_of(x).dtype in dtypes.NUMERIC else x for x in case.call(*args)]

    chosen = jit(lambda flag, *args: cond(flag, branch, other, *args))
    case.numbers()
    same_derivatives(lambda *args: chosen(np.True_, *args), case.call, case.double)


def in_checkpoint(case: Application) -> None:
    """Computed again in the backward pass, values and derivatives stay the same."""
    case.numbers()
    same_derivatives(checkpoint(case.call), case.call, case.double)


def in_shard_map(case: Application) -> None:
    """On several devices, with operands that vary and others that do not, values and derivatives
    are those of a loop over the devices."""
    case.numbers()
    count = min(8, len(devices()))
    if count < 2:
        raise Skipped("there is one device; set WEFT_NUM_CPU_DEVICES=8")
    if not case.args:
        raise Skipped("there is no operand")
    mesh = make_mesh((count,), ("devices",))
    n = len(case.double)
    choices = {(True,) * n, (True,) + (False,) * (n - 1), (False,) * (n - 1) + (True,)}
    for varying in sorted(choices):
        wide = _stacked(case.double, count)
        args = [w if v else x for w, v, x in zip(wide, varying, case.double, strict=True)]

        def block(*xs: Any, varying: tuple[bool, ...] = varying) -> list[Any]:
            own = [
                reshape(x, type_of(x).shape[1:]) if v else x
                for x, v in zip(xs, varying, strict=True)
            ]
            return [reshape(out, (1, *type_of(out).shape)) for out in case.call(*own)]

        def loop(*xs: Any, varying: tuple[bool, ...] = varying) -> list[Any]:
            rows = [
                case.call(*(x[k] if v else x for x, v in zip(xs, varying, strict=True)))
                for k in range(count)
            ]
            return [_stack(same) for same in zip(*rows, strict=True)]

        specs = tuple(PartitionSpec("devices") if v else PartitionSpec() for v in varying)
        spread = shard_map(block, mesh, specs, PartitionSpec("devices"))
        same_derivatives(jit(spread), loop, args)


# ---- programs ----------------------------------------------------------------------------------


def dead_code(case: Application) -> None:
    """An application whose results nobody reads is dropped, and each result alone stays right."""
    case.numbers()
    program = case.program()
    count = len(program.outputs)
    if not program.effects:
        nothing, _ = dce_jaxpr(program, (False,) * count)
        assert not nothing.eqns, "an application without readers is kept"
    outs = case.call(*case.args)
    for i in range(count):
        smaller, reads = dce_jaxpr(program, tuple(k == i for k in range(count)))
        values = [x for x, read in zip(case.args, reads, strict=True) if read]
        testing.assert_close(eval_jaxpr(smaller, (), *values), [outs[i]], what=f"result {i} alone")


def split(case: Application) -> None:
    """A program split by which operands are known computes what the whole program computes."""
    case.numbers()
    program = case.program()
    outs = case.call(*case.args)
    for unknown in _marks(len(case.args), 6):
        parts = partial_eval_jaxpr(program, unknown)
        known = [x for x, flag in zip(case.args, unknown, strict=True) if not flag]
        found = eval_jaxpr(parts.known, (), *known)
        first = len(found) - len(parts.residual_types)
        rest = [x for x, flag in zip(case.args, unknown, strict=True) if flag]
        later = iter(eval_jaxpr(parts.unknown, (), *found[first:], *rest))
        now = iter(found[:first])
        joined = [next(later) if flag else next(now) for flag in parts.unknown_out]
        testing.assert_close(joined, outs, what=f"split with unknown operands {unknown}")


def _marks(count: int, limit: int) -> Iterator[tuple[bool, ...]]:
    return itertools.islice(itertools.product((True, False), repeat=count), limit)


def printable(case: Application) -> None:
    """Two recordings of one application read the same."""
    first, second = (str(make_jaxpr(case.call)(*case.args)) for _ in range(2))
    assert first == second, f"recorded twice, it reads\n{first}\nand\n{second}"
