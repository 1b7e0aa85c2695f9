"""Lengths of dimensions that are not known yet: polynomials in variables, with constraints.

A `SymbolicScope` has the variables and the constraints on them; every variable is at least 1. A
`SymbolicDimension` is a polynomial with integer coefficients, whose factors are variables, floor
divisions, remainders, maxima and minima. A comparison is decided from lower and upper bounds, by
interval arithmetic and the constraints; where that does not suffice it raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from weft.errors import Fix, InconclusiveDimensionOperation, WeftTypeError, WeftValueError

# A monomial: its factors with exponents, in order. A factor is the name of a variable, or an
# operation: (name, operand, operand).
Monomial = tuple[tuple[Any, int], ...]
Terms = tuple[tuple[Monomial, int], ...]
Bounds = tuple[float, float]

# The most terms that a product is multiplied out to: more would take minutes.
_MOST_TERMS = 1 << 14

# The function that reads constraints from text; `symbolic_shapes` sets it.
read_constraints: list[Callable[[Any, Sequence[str]], None]] = []

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}


class SymbolicScope:
    """Variables that belong together, with the constraints on them, such as "a >= 2" or "a == 2*b".

    Dimensions of different scopes are not combined. Raises WeftValueError for a constraint that is
    not a comparison (by `>=`, `<=` or `==`) of two dimensions.

    constraints_str: the constraints, each a text.

    >>> from weft import export
    >>> scope = export.SymbolicScope(["a >= 2"])
    >>> (a,) = export.symbolic_shape("a", scope=scope)
    >>> a >= 2
    True
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        self.constraints: tuple[str, ...] = ()
        # Dimensions that are 0 or more; those that are 0 stand in with both signs.
        self.known: list[SymbolicDimension] = []
        # Variables that equal a dimension, which is put in their place.
        self.replaced: dict[str, Any] = {}
        self.bounds: dict[str, Bounds] = {}
        if constraints_str:
            read_constraints[0](self, constraints_str)

    def add(self, text: str, left: Any, how: str, right: Any) -> None:
        """Adds a constraint, given its text and both sides."""
        self.constraints += (text,)
        if how == "==":
            name = left.variable() if isinstance(left, SymbolicDimension) else None
            if name is not None:
                self.replaced[name] = right
                return
        above = {">=": [left - right], "<=": [right - left], "==": [left - right, right - left]}[
            how
        ]
        for dimension in above:
            if isinstance(dimension, SymbolicDimension):
                self.known.append(dimension)
                self._bound(dimension)
            elif dimension < 0:
                message = f"the constraint {text!r} cannot hold"
                raise WeftValueError(message, operation="SymbolicScope", got=text)

    def _bound(self, dimension: SymbolicDimension) -> None:
        """Records the bound of a variable from `c * v + d >= 0`."""
        terms = dict(dimension.terms)
        constant = terms.pop((), 0)
        if len(terms) != 1:
            return
        (monomial, factor), = terms.items()  # fmt: skip
        if len(monomial) != 1 or monomial[0][1] != 1 or not isinstance(monomial[0][0], str):
            return
        name = monomial[0][0]
        low, high = self.bounds.get(name, (1.0, math.inf))
        limit = Fraction(-constant, factor)
        if factor > 0:
            low = max(low, math.ceil(limit))
        else:
            high = min(high, math.floor(limit))
        self.bounds[name] = (low, high)

    def __repr__(self) -> str:
        return f"SymbolicScope({list(self.constraints)})"


def _product(terms: Mapping[Monomial, int], other: Mapping[Monomial, int]) -> dict[Monomial, int]:
    if len(terms) * len(other) > _MOST_TERMS:
        message = "a symbolic dimension has too many terms"
        got = f"a product of {len(terms)} and {len(other)} terms"
        wanted = f"{_MOST_TERMS} terms or fewer"
        raise WeftValueError(message, operation="*", got=got, wanted=wanted)
    out: dict[Monomial, int] = {}
    for left, a in terms.items():
        for right, b in other.items():
            powers: dict[Any, int] = dict(left)
            for factor, power in right:
                powers[factor] = powers.get(factor, 0) + power
            key = tuple(sorted(powers.items(), key=str))
            out[key] = out.get(key, 0) + a * b
    return out


class SymbolicDimension:
    """The length of a dimension as a polynomial; made by `symbolic_shape` and by arithmetic. `+`,
    `-`, `*`, `//`, `%` and `**` with whole numbers and other dimensions of the scope give
    dimensions. Two are equal where they are the same polynomial. Comparisons, and the conversion to
    an integer, raise InconclusiveDimensionOperation where the result depends on the values."""

    __slots__ = ("scope", "terms")

    terms: Terms
    scope: SymbolicScope

    def __init__(self, terms: Mapping[Monomial, int], scope: SymbolicScope) -> None:
        kept = {key: number for key, number in terms.items() if number}
        self.terms = tuple(sorted(kept.items(), key=_rank))
        self.scope = scope

    def variable(self) -> str | None:
        """The name of the variable that this dimension is, or None."""
        if len(self.terms) == 1:
            (monomial, number) = self.terms[0]
            if number == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                return monomial[0][0] if isinstance(monomial[0][0], str) else None
        return None

    def _terms_of(self, other: Any, operation: str) -> dict[Monomial, int] | None:
        if isinstance(other, SymbolicDimension):
            if other.scope is not self.scope:
                message = f"dimensions of two scopes meet in {operation}"
                got = f"{self} of {self.scope} and {other} of {other.scope}"
                fix = Fix(
                    "scope", "make all shapes with one scope: symbolic_shape(..., scope=scope)"
                )
                raise WeftValueError(message, operation=operation, got=got, fix=fix)
            return dict(other.terms)
        if isinstance(other, bool) or not hasattr(other, "__index__"):
            return None
        return {(): int(other)}

    def __add__(self, other: Any) -> Any:
        terms = self._terms_of(other, "+")
        if terms is None:
            return NotImplemented
        total = dict(self.terms)
        for key, number in terms.items():
            total[key] = total.get(key, 0) + number
        return constant_or_dimension(total, self.scope)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if self._terms_of(other, "-") is None else self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if self._terms_of(other, "-") is None else (-self) + other

    def __mul__(self, other: Any) -> Any:
        terms = self._terms_of(other, "*")
        if terms is None:
            return NotImplemented
        return constant_or_dimension(_product(dict(self.terms), terms), self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        total: Any = 1
        for _ in range(power):
            total = self * total
        return total

    def __floordiv__(self, other: Any) -> Any:
        return operation_of("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return operation_of("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return operation_of("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return operation_of("mod", other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __hash__(self) -> int:
        return hash((self.terms, id(self.scope)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicDimension):
            return self.scope is other.scope and self.terms == other.terms
        return False

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, ">=", 0)

    def __gt__(self, other: Any) -> bool:
        return self._compare(other, ">", 1)

    def __le__(self, other: Any) -> bool:
        return not self._compare(other, "<=", 1)

    def __lt__(self, other: Any) -> bool:
        return not self._compare(other, "<", 0)

    def _compare(self, other: Any, sign: str, least: int) -> bool:
        """Whether `self - other` is at least a number."""
        if self._terms_of(other, sign) is None:
            message = f"a symbolic dimension is compared with a {type(other).__name__}"
            raise WeftTypeError(message, operation=sign, got=f"{self} {sign} {other!r:.100}")
        low, high = bounds_of(self - other)
        if low >= least:
            return True
        if high < least:
            return False
        raise self._inconclusive(f"comparison '{self}' {sign} '{other}' is inconclusive")

    def _inconclusive(self, what: str) -> InconclusiveDimensionOperation:
        known = f" with the constraints {', '.join(self.scope.constraints)}"
        return InconclusiveDimensionOperation(
            f"Symbolic dimension {what}{known if self.scope.constraints else ''}",
            operation="symbolic dimensions",
            wanted="an operation whose result is the same for all values",
            fix=Fix("constraint", "add a constraint that decides it: constraints=['n >= 8']"),
        )

    def __bool__(self) -> bool:
        low, high = bounds_of(self)
        if low > 0 or high < 0:
            return True
        raise self._inconclusive(f"'{self}' is compared with 0, which is inconclusive")

    def _no_number(self) -> InconclusiveDimensionOperation:
        return self._inconclusive(f"'{self}' is used where a known number is needed")

    def __int__(self) -> int:
        raise self._no_number()

    def __index__(self) -> int:
        raise self._no_number()

    def __float__(self) -> float:
        raise self._no_number()

    def __str__(self) -> str:
        text = ""
        for monomial, number in self.terms:
            factors = [_factor(factor, power) for factor, power in monomial]
            if abs(number) != 1 or not factors:
                factors.insert(0, str(abs(number)))
            sign = "-" if number < 0 else "+"
            text += (
                f" {sign} {'*'.join(factors)}"
                if text
                else f"{'- ' * (number < 0)}{'*'.join(factors)}"
            )
        return text

    __repr__ = __str__


def _rank(term: tuple[Monomial, int]) -> tuple[int, str]:
    """The order in which terms are shown: high powers first."""
    return -sum(power for _, power in term[0]), str(term[0])


def _factor(factor: Any, power: int) -> str:
    text = factor if isinstance(factor, str) else f"{factor[0]}({factor[1]}, {factor[2]})"
    return text if power == 1 else f"{text}^{power}"


def constant_or_dimension(terms: Mapping[Monomial, int], scope: SymbolicScope) -> Any:
    """The dimension with these terms, or the number that they are."""
    out = SymbolicDimension(terms, scope)
    if not out.terms:
        return 0
    if len(out.terms) == 1 and out.terms[0][0] == ():
        return out.terms[0][1]
    return out


def operation_of(name: str, left: Any, right: Any) -> Any:
    """A floor division, a remainder, a maximum or a minimum of two dimensions."""
    symbolic = [x for x in (left, right) if isinstance(x, SymbolicDimension)]
    if not symbolic:
        if name in ("floordiv", "mod") and not right:
            raise ZeroDivisionError("a symbolic dimension is divided by zero")
        return OPERATIONS[name](int(left), int(right))
    scope = symbolic[0].scope
    parts = [symbolic[0]._terms_of(x, name) for x in (left, right)]
    if None in parts:
        return NotImplemented
    if name in ("floordiv", "mod") and not isinstance(right, SymbolicDimension):
        if right == 0:
            raise ZeroDivisionError("a symbolic dimension is divided by zero")
        if all(number % right == 0 for _, number in left.terms):
            whole = {key: number // right for key, number in left.terms}
            return constant_or_dimension(whole, scope) if name == "floordiv" else 0
    if name == "floordiv" and left == right:
        return 1
    if name in ("max", "min"):
        low, high = bounds_of(left - right)
        if low >= 0:
            return left if name == "max" else right
        if high <= 0:
            return right if name == "max" else left
    return SymbolicDimension({(((name, left, right), 1),): 1}, scope)


def is_symbolic_dim(p: Any) -> bool:
    """Whether the length of a dimension is symbolic.

    p: the length of a dimension.

    >>> from weft import export
    >>> [export.is_symbolic_dim(n) for n in export.symbolic_shape("n, 3")]
    [True, False]
    """
    return isinstance(p, SymbolicDimension)


def value_of(dimension: Any, values: Mapping[str, int]) -> int:
    """The number that a dimension is for certain values of the variables."""
    if not isinstance(dimension, SymbolicDimension):
        return int(dimension)
    total = 0
    for monomial, number in dimension.terms:
        product = number
        for factor, power in monomial:
            if isinstance(factor, str):
                product *= values[factor] ** power
            else:
                name, left, right = factor
                first, second = value_of(left, values), value_of(right, values)
                if not second and name in ("floordiv", "mod"):
                    message = f"a symbolic dimension is divided by {right}, which is 0"
                    fix = Fix("sizes", "pass arrays of other sizes")
                    got = f"{dict(values)}"
                    raise WeftValueError(message, operation=name, got=got, fix=fix)
                product *= OPERATIONS[name](first, second) ** power
        total += product
    return total


# ---- bounds --------------------------------------------------------------------------------------


def bounds_of(dimension: Any) -> Bounds:
    """The known lower and upper bounds of a dimension."""
    if not isinstance(dimension, SymbolicDimension):
        return float(dimension), float(dimension)
    low, high = _interval(dimension)
    for known in dimension.scope.known:
        # dimension = known + rest, and known is 0 or more; so for the other sign.
        rest = dimension - known
        low = max(low, _interval(rest)[0] if isinstance(rest, SymbolicDimension) else rest)
        rest = dimension + known
        high = min(high, _interval(rest)[1] if isinstance(rest, SymbolicDimension) else rest)
    return low, high


def _interval(dimension: SymbolicDimension) -> Bounds:
    low = high = 0.0
    for monomial, number in dimension.terms:
        least, most = 1.0, 1.0
        for factor, power in monomial:
            a, b = _factor_bounds(factor, dimension.scope)
            ends = [_times(x, y) for x in (least, most) for y in (a**power, b**power)]
            least, most = min(ends), max(ends)
        ends = [_times(number, least), _times(number, most)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _factor_bounds(factor: Any, scope: SymbolicScope) -> Bounds:
    if isinstance(factor, str):
        return scope.bounds.get(factor, (1.0, math.inf))
    name, left, right = factor
    (a, b), (c, d) = bounds_of(left), bounds_of(right)
    if name == "max":
        return max(a, c), max(b, d)
    if name == "min":
        return min(a, c), min(b, d)
    if c <= 0:
        return -math.inf, math.inf
    if name == "mod":
        return 0.0, d - 1
    if a >= 0:
        return (0.0 if d == math.inf else float(a // d)), (b if b == math.inf else float(b // c))
    return -math.inf, (b if b == math.inf or b < 0 else float(b // c))
