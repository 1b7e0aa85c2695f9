"""One application of a primitive, as the properties of `check_primitive` look at it: its operands
as given, in double precision and in complex numbers, and derivatives that several of them need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import dtypes, testing
from weft.api.autodiff import jvp, vjp
from weft.arrays.conversion import as_array
from weft.core.jaxpr import Jaxpr
from weft.core.types import ArrayType, type_of, user_value
from weft.interpreters.staging import trace_to_jaxpr
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import reshape
from weft.testing.function_checks import random_direction, replace_parts
from weft.testing.report import Example

_DOUBLE = {True: dtypes.complex128, False: dtypes.float64}
# How far derivatives in two ways of computing may be apart, by the dtype of the numbers.
_BOUND = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-8}


class Skipped(Exception):
    """A property that cannot be checked here, and why."""


@dataclasses.dataclass(frozen=True)
class PrimitiveApplication:
    """A primitive with operands (arrays) and parameters; `double`: the same in double precision.
    `known` caches the values that several properties need."""

    primitive: Any
    args: tuple[Any, ...]
    params: Mapping[str, Any]
    double: tuple[Any, ...]
    example: Example
    known: dict[str, Any] = dataclasses.field(default_factory=dict)

    def call(self, *args: Any) -> list[Any]:
        """The results, as a list also where there is one."""
        found = self.primitive.bind(*args, **self.params)
        return list(found) if self.primitive.multiple_results else [found]

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """The cached result of `make`."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def program(self, args: Sequence[Any] | None = None) -> Jaxpr:
        """The jaxpr of one application, for operands or for types."""
        given = self.args if args is None else args
        types = [x if isinstance(x, ArrayType) else type_of(x) for x in given]
        out, _ = trace_to_jaxpr(
            self.call, types, transformation="check_primitive", name=self.primitive.name
        )
        return out

    def takes(self, args: Sequence[Any]) -> bool:
        """Whether the type rule accepts these operands."""
        try:
            self.program(args)
        except Exception:  # noqa: BLE001 (a type rule may refuse by any error)
            return False
        return True

    @property
    def inexact(self) -> list[int]:
        """The indices of operands that have tangents, and are not constant in the example."""
        constant = self.example.constant
        return [
            i
            for i, x in enumerate(self.double)
            if type_of(x).dtype in dtypes.INEXACT and i not in constant
        ]

    def smooth(self, *, order: int = 1, mode: str = "fwd") -> list[int]:
        """`inexact`. Raises Skipped if there is none, or this derivative is not to be taken."""
        if self.example.order < order:
            raise Skipped(f"the example has order={self.example.order}")
        if mode not in self.example.modes:
            raise Skipped(f"the example has modes={tuple(self.example.modes)}")
        if not self.inexact:
            raise Skipped("no operand has tangents")
        outs = self.once("double types", lambda: self.program(self.double).out_types)
        if not any(t.dtype in dtypes.INEXACT for t in outs):
            raise Skipped("no result has tangents")
        return self.inexact

    def numbers(self) -> None:
        """Raises Skipped where an operand or a result cannot be stacked in NumPy."""
        if any(dtypes.is_extended(type_of(x).dtype) for x in self.args):
            raise Skipped("an operand holds random keys, which NumPy cannot stack")
        if any(dtypes.is_extended(t.dtype) for t in self.program().out_types):
            raise Skipped("a result holds random keys, which NumPy cannot stack")

    def variants(self) -> list[PrimitiveApplication]:
        """The application in double precision, and in complex numbers where it takes them."""
        return self.once("variants", self._variants)

    def _variants(self) -> list[PrimitiveApplication]:
        if not self.inexact or any(type_of(x).dtype in dtypes.COMPLEX for x in self.double):
            return [self]
        complex_ = convert_operands(self.double, dtypes.complex128, imaginary=True)
        if not self.takes(complex_):
            return [self]
        outs = self.call(*complex_)
        if not all(np.isfinite(np.asarray(x)).all() for x in outs):
            return [self]
        return [self, dataclasses.replace(self, double=complex_, known={})]

    def restrict_to(
        self, places: Sequence[int], args: Sequence[Any] | None = None
    ) -> Callable[..., list[Any]]:
        """The results that have tangents, as a function of the operands at some indices."""
        given = self.double if args is None else args

        return lambda *xs: inexact_only(self.call(*replace_parts(given, places, xs)))


def application(primitive: Any, example: Example) -> PrimitiveApplication:
    """An application to an example's operands."""
    arrays = tuple(as_array(user_value(x)) for x in example.args)
    found = PrimitiveApplication(primitive, arrays, dict(example.params), arrays, example)
    wide = convert_operands(arrays, None)
    return dataclasses.replace(found, double=wide) if found.takes(wide) else found


def inexact_only(outs: Sequence[Any]) -> list[Any]:
    """The values that have tangents."""
    return [x for x in outs if type_of(x).dtype in dtypes.INEXACT]


def convert_operands(
    args: Sequence[Any], dtype: Any, *, imaginary: bool = False
) -> tuple[Any, ...]:
    """Operands with the inexact ones in another dtype (None: the double of their own), and with an
    imaginary part between 0.1 and 0.4 where one is asked for."""
    out = []
    for i, x in enumerate(args):
        of = type_of(x)
        if of.dtype in dtypes.INEXACT:
            wanted = _DOUBLE[of.dtype in dtypes.COMPLEX] if dtype is None else dtype
            host = np.asarray(x)
            if imaginary:
                host = host + 1j * np.random.default_rng(i).uniform(0.1, 0.4, of.shape)
            elif of.dtype in dtypes.COMPLEX and np.dtype(wanted) not in dtypes.COMPLEX:
                host = host.real
            with np.errstate(all="ignore"):
                x = testing.exact_array(host.astype(wanted), wanted)
        out.append(x)
    return tuple(out)


def random_like(x: Any, seed: int) -> Any:
    """Random normal numbers of the type of a value."""
    return random_direction(np.random.default_rng(seed), x)


def variation(host: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    """Other operands of which those of an example are the first: the elements rotated, or nearby
    numbers where that changes nothing (else a rule that mixes elements up would not be seen)."""
    moved = np.roll(host.reshape(-1), k).reshape(host.shape)
    if host.dtype in dtypes.INEXACT and k and (moved == host).all():
        return (host * (1 + k / 64)).astype(host.dtype)
    return moved


def stack_variations(args: Sequence[Any], size: int) -> list[Any]:
    """Operands stacked from variations."""
    hosts = [np.asarray(x) for x in args]
    rows = [np.stack([variation(x, k) for k in range(size)]) for x in hosts]
    return [testing.exact_array(row, x.dtype) for row, x in zip(rows, hosts, strict=True)]


def rows_of(case: PrimitiveApplication) -> list[Any]:
    """Three variations of the operands in double precision, stacked."""
    return case.once("rows", lambda: stack_variations(case.double, 3))


def loop(function: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The function of each row, in a Python loop."""

    def looped(*args: Any) -> list[Any]:
        size = type_of(args[0]).shape[0]
        rows = [function(*(x[k] for x in args)) for k in range(size)]
        return [stack(same) for same in zip(*rows, strict=True)]

    return looped


def stack(rows: Sequence[Any]) -> Any:
    """The rows along a new first dimension."""
    return concatenate([reshape(x, (1, *type_of(x).shape)) for x in rows], 0)


def derivatives(
    case: PrimitiveApplication, function: Callable[..., list[Any]], args: Sequence[Any]
) -> Any:
    """The values, the jvp and the vjp of a function with the operands of the application. They are
    computed by single operations, which are compiled once for all properties: XLA takes its time
    per loop."""
    places = [] if case.example.order < 1 else case.inexact

    def smooth(*xs: Any) -> list[Any]:
        return inexact_only(function(*replace_parts(args, places, xs)))

    outs = function(*args)
    out = {"value": outs}
    if not places or not inexact_only(outs):
        return out
    xs = tuple(args[i] for i in places)
    if "fwd" in case.example.modes:
        out["jvp"] = jvp(smooth, xs, tuple(random_like(x, 11 + i) for i, x in enumerate(xs)))[1]
    if "rev" in case.example.modes:
        cts = [random_like(x, 17) for x in inexact_only(outs)]
        out["vjp"] = list(vjp(smooth, *xs)[1](cts))
    return out


def assert_same(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises AssertionError unless two results of `derivatives` agree."""
    for what, values in wanted.items():
        for a, b in zip(got[what], values, strict=True):
            testing.assert_close(a, b, bound(b), bound(b), what=f"the {what}")


def bound(x: Any) -> float | None:
    """How far a value may be from one of the same arithmetic; None for what is exact."""
    dtype = type_of(x).dtype
    return _BOUND[str(dtypes.to_real(dtype).name)] if dtype in dtypes.INEXACT else None
