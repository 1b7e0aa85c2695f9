"""Random programs as users compile them, beside NumPy: what the compiler makes of slices, updates,
pads, reshapes, reductions, products and the rest, at sizes around those where it changes its ways.

A program is text (`compiler_programs`), its jaxpr is evaluated by rules of NumPy's alone, with a
bound of what rounding may do to each element (`bounded_evaluation`), and a program that leaves its
bound is made smaller (`smaller_programs`). `make fuzz ARGS="--family compiler"` draws new ones.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from bounded_evaluation import NoRule, differences
from bounded_values import Bounded, bounded, exact, limits, rounded
from compiled_beside_numpy import Finding, compare, evaluated
from compiler_programs import Input, Program, draw
from smaller_programs import smaller

# Programs that every run of the tests compiles; the corpus has more.
SAMPLE = 40


def check(seed: int) -> bool:
    """Raises AssertionError if the program of a seed gives what rounding does not explain, with a
    smaller one; False for a program that cannot be judged."""
    program = draw(seed)
    try:
        finding, _ = compare(program)
    except NoRule:
        return False
    if finding is not None:
        raise AssertionError(str(smallest(finding)))
    return True


def smallest(finding: Finding) -> Finding:
    """The finding of the smallest program that fails in the same way."""
    last = finding

    def fails(program: Program) -> bool:
        nonlocal last
        try:
            found, _ = compare(program)
        except Exception:
            return False
        if found is None or type(found.error) is not type(finding.error):
            return False
        last = found
        return True

    smaller(finding.program, fails)
    return last


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_a_compiled_program_gives_what_numpy_gives(seed):
    check(seed)


test_a_compiled_program_gives_what_numpy_gives.from_seed = check
