"""Programs with sizes left open: the text of StableHLO modules in which numbers follow from sizes.

The same function is lowered for several sizes. Where the texts differ in numbers only, each number
that differs is fitted by a polynomial in the sizes with rational coefficients (or with floor
divisions of sizes, or it is the square, the root or the reciprocal of one), exactly, and has to fit
further sizes that were not used. Other differences raise InconclusiveDimensionOperation: there the
program itself depends on the sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from weft.errors import Fix, InconclusiveDimensionOperation
from weft.export.symbolic_dimensions import (
    SymbolicDimension,
    SymbolicScope,
    constant_or_dimension,
    operation_of,
)

Values = Mapping[str, int]

# Numbers as MLIR writes them; those inside of names and types too, which do not differ. A sign is
# part of a number among the elements of a constant.
_NUMBER = re.compile(r"(?:(?<=[<\[\s])-)?\d+(?:\.\d+(?:[eE][+-]?\d+)?)?")

# What a floating-point number may be of a polynomial: how it comes from one, and the way back.
FORMS: dict[str, tuple[Callable[[float], float], Callable[[float], float]]] = {
    "same": (lambda p: p, lambda x: x),
    "reciprocal": (lambda p: 1 / p, lambda x: 1 / x),
    "root": (math.sqrt, lambda x: x * x),
    "reciprocal of the root": (lambda p: 1 / math.sqrt(p), lambda x: 1 / (x * x)),
}

# A basis function: powers of the variables by name, or ("floordiv", variable, number).
Basis = tuple[Any, ...]


class Fit(NamedTuple):
    """A number as a function of sizes: coefficients of basis functions; `form` is empty for whole
    numbers, else how a floating-point number comes from the sum."""

    terms: tuple[tuple[Basis, Fraction], ...]
    form: str = ""

    def value(self, values: Values) -> Fraction:
        """The sum for certain sizes."""
        return sum(
            (number * _basis_value(basis, values) for basis, number in self.terms), Fraction(0)
        )

    def text(self, values: Values) -> str:
        """The number as MLIR reads it. Raises InconclusiveDimensionOperation where it is none."""
        found = self.value(values)
        if self.form:
            try:
                return f"{FORMS[self.form][0](float(found)):.17e}"
            except (ArithmeticError, ValueError) as error:  # such as the root of -1
                raise differing_programs(f"{error} for {dict(values)}") from None
        if found.denominator != 1:
            raise differing_programs(f"a number would be {found} for {dict(values)}")
        return str(found)

    def dimension(self, scope: SymbolicScope) -> Any:
        """The number as a symbolic dimension."""
        whole = math.lcm(*(number.denominator for _, number in self.terms)) if self.terms else 1
        total: Any = 0
        for basis, number in self.terms:
            term: Any = int(number * whole)
            for part in basis:
                if part[0] == "floordiv":
                    variable = SymbolicDimension({((part[1], 1),): 1}, scope)
                    term = operation_of("floordiv", variable, part[2]) * term
                else:
                    term = constant_or_dimension({((part[0], part[1]),): 1}, scope) * term
            total = term + total
        return operation_of("floordiv", total, whole) if whole > 1 else total


def _basis_value(basis: Basis, values: Values) -> int:
    product = 1
    for part in basis:
        product *= (
            values[part[1]] // part[2] if part[0] == "floordiv" else values[part[0]] ** part[1]
        )
    return product


class Fitter:
    """Fits numbers at sample sizes; the last sizes are for checking."""

    def __init__(self, variables: Sequence[str], samples: Sequence[Values], checks: int) -> None:
        self.samples, self.checks = list(samples), checks
        self.bases = [b for b in bases_of(variables) if len(b) + checks <= len(samples)]
        self.inverses: dict[int, list[list[Fraction]]] = {}

    def whole(self, numbers: Sequence[int | Fraction]) -> Fit | None:
        """The function that gives whole numbers at the samples, or None."""
        for i, basis in enumerate(self.bases):
            inverse = self.inverses.get(i)
            if inverse is None:
                rows = [[Fraction(_basis_value(b, s)) for b in basis] for s in self.samples]
                inverse = self.inverses[i] = invert(rows[: len(basis)])
            if not inverse:
                continue
            known = [Fraction(x) for x in numbers[: len(basis)]]
            found = [
                sum((a * x for a, x in zip(row, known, strict=True)), Fraction(0))
                for row in inverse
            ]
            fit = Fit(tuple((b, c) for b, c in zip(basis, found, strict=True) if c))
            if all(fit.value(s) == x for s, x in zip(self.samples, numbers, strict=True)):
                return fit
        return None

    def inexact(self, numbers: Sequence[float]) -> Fit | None:
        """The function that gives floating-point numbers at the samples, up to their rounding."""
        for form, (make, back) in FORMS.items():
            if any(x <= 0 for x in numbers) and form != "same":
                continue
            near = [round(back(x)) for x in numbers]
            fit = self.whole(near)
            if fit is None:
                continue
            pairs = zip(near, numbers, strict=True)
            if all(
                _equal_in_single(make(float(n)), x) for n, x in pairs if n > 0 or form == "same"
            ):
                return fit._replace(form=form)
        return None


def _equal_in_single(x: float, y: float) -> bool:
    """Whether numbers are equal to single precision."""
    return np.float32(x) == np.float32(y) or math.isclose(x, y, rel_tol=3e-7)


def bases_of(variables: Sequence[str]) -> list[list[Basis]]:
    """The bases to try, in order."""
    linear: list[Basis] = [(), *[((v, 1),) for v in variables]]
    products: list[Basis] = [
        tuple((v, 1) for v in chosen)
        for count in range(2, len(variables) + 1)
        for chosen in combinations(variables, count)
    ]
    squares: list[Basis] = [((v, 2),) for v in variables]
    out = [linear, linear + products, linear + products + squares]
    if len(variables) <= 2:
        cubes: list[Basis] = [((v, 3),) for v in variables]
        mixed: list[Basis] = [((v, 2), (w, 1)) for v in variables for w in variables if v != w]
        out.append(linear + products + squares + cubes + mixed)
    for divisor in (2, 3, 4, 8):
        parts: list[Basis] = [(("floordiv", v, divisor),) for v in variables]
        out.append(linear + parts)
    return out


def invert(rows: Sequence[Sequence[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a matrix, by elimination; empty for a singular one."""
    n = len(rows)
    work = [[*row, *(Fraction(i == j) for j in range(n))] for i, row in enumerate(rows)]
    for i in range(n):
        pivot = next((j for j in range(i, n) if work[j][i]), None)
        if pivot is None:
            return []
        work[i], work[pivot] = work[pivot], work[i]
        first = work[i][i]
        work[i] = [x / first for x in work[i]]
        for j in range(n):
            if j != i and work[j][i]:
                factor = work[j][i]
                work[j] = [x - factor * y for x, y in zip(work[j], work[i], strict=True)]
    return [row[n:] for row in work]


class Template(NamedTuple):
    """A text with gaps: the pieces between them, and the number for each gap."""

    pieces: tuple[str, ...]
    fits: tuple[Fit, ...]

    def fill_template(self, values: Values) -> str:
        """The text for certain sizes."""
        texts = [fit.text(values) for fit in self.fits]
        for piece, text in zip(self.pieces, texts, strict=False):
            if text.startswith("-") and ">" in piece[piece.rfind("dense<") :]:
                raise differing_programs(f"a number would be {text} for {dict(values)}")
        return "".join(
            part for pair in zip(self.pieces, [*texts, ""], strict=True) for part in pair
        )


def template_of(texts: Sequence[str], fitter: Fitter) -> Template:
    """The text of which those at the samples are instances. Raises InconclusiveDimensionOperation
    where they differ in more than numbers, or in numbers that do not fit."""
    split = [(_NUMBER.split(text), _NUMBER.findall(text)) for text in texts]
    pieces = split[0][0]
    for other, _ in split[1:]:
        if other != pieces:
            raise differing_programs(_first_difference(pieces, other))
    known: dict[tuple[str, ...], Fit] = {}
    merged, fits = [pieces[0]], []
    for place, column in enumerate(zip(*(numbers for _, numbers in split), strict=True)):
        after = pieces[place + 1]
        if all(number == column[0] for number in column):
            merged[-1] += column[0] + after
            continue
        fit = known.get(column)
        if fit is None:
            fit = known[column] = _fit_column(column, fitter, pieces[place])
        fits.append(fit)
        merged.append(after)
    return Template(tuple(merged), tuple(fits))


def _fit_column(column: tuple[str, ...], fitter: Fitter, before: str) -> Fit:
    whole = all(text.removeprefix("-").isdigit() for text in column)
    out = (
        fitter.whole([int(text) for text in column])
        if whole
        else fitter.inexact([float(text) for text in column])
    )
    if out is None:
        line = before.rpartition("\n")[2].strip()[-80:]
        raise differing_programs(f"a number after {line!r} is {', '.join(column)}")
    return out


def _first_difference(pieces: Sequence[str], other: Sequence[str]) -> str:
    for one, two in zip(pieces, other, strict=False):
        if one != two:
            return f"{one.strip()[:100]!r} for some sizes and {two.strip()[:100]!r} for others"
    return f"{len(pieces)} and {len(other)} numbers"


def differing_programs(why: str) -> InconclusiveDimensionOperation:
    """The error for a program that depends on sizes in more than numbers."""
    return InconclusiveDimensionOperation(
        "the program depends on the sizes of symbolic dimensions: no one program serves all",
        got=why,
        wanted="operations whose number and order is the same for all sizes",
        fix=Fix("sizes", "export it for the sizes themselves, or bound them by constraints"),
    )
