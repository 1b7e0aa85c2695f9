"""Holds compiled programs to their evaluation by NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import weft
from bounded_evaluation import NoRule, differences, evaluate
from bounded_values import Bounded, exact
from compiler_programs import Program
from weft import config

__all__ = ["Finding", "compare", "evaluated"]


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


def evaluated(program: Program) -> tuple[Any, list[Any], list[Bounded]]:
    """The function of a program, its arguments, and its results by NumPy with their bounds."""
    function, arguments = program.function(), program.arguments()
    jaxpr = weft.make_jaxpr(function)(*arguments)
    operands = [exact(np.asarray(x), x.dtype) for x in (*jaxpr.consts, *arguments)]
    return function, arguments, evaluate(jaxpr.jaxpr, operands)


def compare(program: Program) -> tuple[Finding | None, float]:
    """What is wrong with a program as users compile it, if anything is, and the share of its
    results' elements that have a bound. Raises NoRule for a program that cannot be evaluated."""
    doubles = any(x.dtype == "float64" for _, x in program.inputs)
    with weft.enable_x64(doubles), config.override(compile_effort="full"):
        function, arguments, wanted = evaluated(program)
        try:
            compiled = weft.jit(function).lower(*arguments).compile()
            outs = [np.asarray(x) for x in weft.tree.leaves(compiled(*arguments))]
        except Exception as error:
            return Finding(program, error=error), 1.0
    known = [float(x.known.mean()) for x in wanted if x.value.size]
    for number, (got, want) in enumerate(zip(outs, wanted, strict=True)):
        wrong = differences(got, want)
        if wrong is not None:
            return Finding(program, number, wrong, got, want), 1.0
    return None, sum(known) / max(1, len(known))
