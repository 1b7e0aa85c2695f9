"""Holds compiled programs to their evaluation by NumPy."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

import weft
from bounded_evaluation import differences, evaluate, in_steps
from bounded_values import Bounded, exact, is_float
from compiler_programs import Program
from weft import config

__all__ = ["Finding", "Reference", "compare", "evaluated", "settings_of"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A result that rounding does not explain: which of a program's results, the elements that are
    wrong, what the program gave and what it had to give. `error` is what it raised instead."""

    program: Program
    number: int = 0
    wrong: Any = None
    got: Any = None
    wanted: Any = None
    error: Exception | None = None

    def __str__(self) -> str:
        text = self.program.source()
        if self.error is not None:
            return f"{text}\n# raises {type(self.error).__name__}: {str(self.error)[:2000]}"
        places = np.argwhere(self.wrong)
        shown = [
            f"#   [{', '.join(map(str, p))}]: {self.got[tuple(p)]!r}, "
            f"want {self.wanted.value[tuple(p)]!r} ± {self.wanted.error[tuple(p)]:.3g}"
            for p in places[:5]
        ]
        head = f"# result {self.number} is wrong in {len(places)} of {self.wrong.size} elements:"
        return "\n".join([text, head, *shown])


@dataclasses.dataclass(frozen=True)
class Reference:
    """A program's function and arguments, and its results by NumPy with their bounds."""

    function: Any
    arguments: list[Any]
    jaxpr: Any
    operands: list[Bounded]
    results: list[Bounded]

    def wrong(self, number: int, got: Any) -> Any:
        """Which elements of a result are wrong; None if all are right.

        Where rounding has no bound, a NaN or an infinity is wrong if none comes out with operations
        that round step by step, however they do, and a number where there is always NaN.
        """
        wanted = self.results[number]
        wrong = differences(got, wanted)
        if wrong is not None or wanted.known.all() or not is_float(wanted.dtype):
            return wrong
        nan, infinite = (f(got) & ~wanted.known for f in (np.isnan, np.isinf))
        always = np.isnan(wanted.value) & ~np.isnan(got) & ~wanted.known
        for seed in (None, *range(STEPS)):
            if not (nan.any() or infinite.any() or always.any()):
                return None
            out = in_steps(self.jaxpr, self.operands, seed)[number]
            nan &= out.known & ~np.isnan(out.value)
            infinite &= out.known & np.isfinite(out.value)
            always &= out.known & np.isnan(out.value)
        wrong = nan | infinite | always
        return wrong if wrong.any() else None


# How often a program is evaluated step by step, with other roundings.
STEPS = 8


def evaluated(program: Program) -> Reference:
    """What the results of a program have to be."""
    function, arguments = program.function(), program.arguments()
    jaxpr = weft.make_jaxpr(function)(*arguments)
    operands = [exact(np.asarray(x), x.dtype) for x in (*jaxpr.consts, *arguments)]
    if program.mode == "sharded":
        operands = [added(x) for x in operands]
    results = evaluate(jaxpr.jaxpr, operands)
    if program.mode == "sharded":
        results = [added(x) for x in results]
    return Reference(function, arguments, jaxpr.jaxpr, operands, results)


def added(x: Bounded) -> Bounded:
    """What XLA's partitioner may make of an array when it moves elements: it adds the parts that
    devices hold, so that zeros lose their signs, and subnormal numbers may become 0."""
    return dataclasses.replace(x.as_operand(), signed=False)


def settings_of(program: Program) -> contextlib.ExitStack:
    """As users compile the program."""
    stack = contextlib.ExitStack()
    stack.enter_context(weft.enable_x64(any(x.dtype == "float64" for _, x in program.inputs)))
    stack.enter_context(config.override(compile_effort="full"))
    return stack


def compare(program: Program) -> tuple[Finding | None, float]:
    """What is wrong with a program as users compile it, if anything is, and the share of its
    results' elements that have a bound. Raises NoRule for a program that cannot be evaluated."""
    with settings_of(program):
        reference = evaluated(program)
        arguments = reference.arguments
        try:
            compiled = weft.jit(reference.function).lower(*arguments).compile()
            outs = [np.asarray(x) for x in weft.tree.leaves(compiled(*arguments))]
        except Exception as error:  # noqa: BLE001 (whatever the compiler does)
            return Finding(program, error=error), 1.0
        for number, got in enumerate(outs):
            wrong = reference.wrong(number, got)
            if wrong is not None:
                return Finding(program, number, wrong, got, reference.results[number]), 1.0
    known = [float(x.known.mean()) for x in reference.results if x.value.size]
    return None, sum(known) / max(1, len(known))
