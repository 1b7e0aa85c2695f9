"""Shapes with symbolic dimensions, read from text: "b, 2*n + 1, floordiv(n, 4), ..."."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weft import tree
from weft.core.shape_struct import ShapeDtypeStruct, described_type
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary
from weft.export.symbolic_dimensions import (
    OPERATIONS,
    SymbolicDimension,
    SymbolicScope,
    operation_of,
    read_constraints,
)

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|\.\.\.|>=|<=|==|[-+*^(),])")


class _ShapeReader:
    """Reads dimensions from text, by recursive descent."""

    def __init__(self, text: str, scope: SymbolicScope, what: str) -> None:
        self.text, self.scope, self.what = text, scope, what
        self.tokens: list[str] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None:
                raise self.error(f"{text[place:].strip()[0]!r} is no part of a dimension")
            self.tokens.append(found.group(1))
            place = found.end()
        self.tokens.append("")

    def error(self, why: str) -> WeftValueError:
        """The error for text that is not a shape."""
        message = f"syntax error in {self.what} {self.text!r}: {why}"
        wanted = "such as 'b, 2*n + 1, floordiv(n, 4), ...'"
        fix = Fix("syntax", "write products as 2*n, powers as n^2, and division as floordiv(n, 2)")
        return WeftValueError(message, got=self.text, wanted=wanted, fix=fix)

    def take(self, *wanted: str) -> str:
        """The next token, if it is one of these (or any, without arguments); empty otherwise."""
        if self.tokens[0] and (not wanted or self.tokens[0] in wanted):
            return self.tokens.pop(0)
        return ""

    def need(self, token: str) -> None:
        """Takes a required token."""
        if not self.take(token):
            raise self.error(f"{token!r} is missing before {self.tokens[0] or 'the end'!r}")

    def dimension(self) -> Any:
        """A sum."""
        sign = self.take("+", "-")
        total = self.product()
        total = -total if sign == "-" else total
        while sign := self.take("+", "-"):
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def product(self) -> Any:
        total = self.power()
        while self.take("*"):
            total = total * self.power()
        return total

    def power(self) -> Any:
        base = self.factor()
        if self.take("^"):
            exponent = self.take()
            if not exponent.isdigit() or len(exponent) > 2:
                raise self.error("an exponent is a whole number below 100")
            return base ** int(exponent)
        return base

    def factor(self) -> Any:
        token = self.take()
        if token.isdigit():
            if len(token) > 18:
                raise self.error("no dimension is as long")
            return int(token)
        if token == "(":
            out = self.dimension()
            self.need(")")
            return out
        if token in OPERATIONS and self.take("("):
            left = self.dimension()
            self.need(",")
            right = self.dimension()
            self.need(")")
            return operation_of(token, left, right)
        if not token or not (token[0].isalpha() or token[0] == "_"):
            raise self.error(f"a dimension is missing before {token or 'the end'!r}")
        if token in self.scope.replaced:
            return self.scope.replaced[token]
        return SymbolicDimension({((token, 1),): 1}, self.scope)


def _read_constraints(scope: SymbolicScope, constraints: Sequence[str]) -> None:
    for text in constraints:
        reader = _ShapeReader(text, scope, "the constraint")
        left = reader.dimension()
        how = reader.take(">=", "<=", "==")
        if not how:
            raise reader.error("a constraint compares by >=, <= or ==")
        right = reader.dimension()
        if reader.tokens[0]:
            raise reader.error(f"{reader.tokens[0]!r} is left over")
        scope.add(text, left, how, right)


read_constraints.append(_read_constraints)


@api_boundary
def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """The shape that a text describes: numbers, and symbolic dimensions if it names variables.

    Dimensions are divided by commas: sums and products of numbers and variables, powers `n^2`, and
    `floordiv(a, b)`, `mod(a, b)`, `max(a, b)`, `min(a, b)`. `_` means the length at its place in
    `like`, and `...` at the end means all lengths that follow there. `constraints` are comparisons
    of dimensions by `>=`, `<=` or `==`, for variables of a new scope; shapes that are used together
    are made with one `scope`. Raises WeftValueError for other text.

    shape_spec: the text; None means `...`.

    >>> from weft import export
    >>> export.symbolic_shape("b, 2*n + 1, 3", constraints=["n >= 2"])
    (b, 2*n + 1, 3)
    >>> export.symbolic_shape("b, ...", like=(8, 4, 4))
    (b, 4, 4)
    """
    if scope is not None and constraints:
        message = "symbolic_shape takes a scope or constraints for a new one"
        fix = Fix("scope", "make the scope with them: SymbolicScope(constraints)")
        raise WeftValueError(message, got="both", fix=fix)
    scope = SymbolicScope(constraints) if scope is None else scope
    text = "..." if shape_spec is None else shape_spec
    if not isinstance(text, str):
        message = "symbolic_shape takes the shape as text"
        got = f"{text!r:.100} of class {type(text).__name__}"
        fix = Fix("text", "write symbolic_shape('b, 3')")
        raise WeftTypeError(message, got=got, wanted="a str", fix=fix)
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and _closes_last(text):
        text = text[1:-1]
    return _shape(_ShapeReader(text, scope, "the symbolic shape"), like)


def _closes_last(text: str) -> bool:
    """Whether the last character closes the first parenthesis."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return i == len(text) - 1
    return False


def _shape(reader: _ShapeReader, like: Sequence[int | None] | None) -> tuple[Any, ...]:
    found: list[Any] = []
    while reader.tokens[0]:
        if reader.take("..."):
            found += [_from_like(reader, like, i) for i in range(len(found), len(like or ()))]
            if like is None:
                raise reader.error("... needs like=")
        elif reader.take("_"):
            found.append(_from_like(reader, like, len(found)))
        else:
            found.append(reader.dimension())
        if reader.tokens[0]:
            reader.need(",")
    if like is not None:
        _check_like(reader, found, like)
    return tuple(found)


def _from_like(reader: _ShapeReader, like: Sequence[int | None] | None, place: int) -> int:
    if like is None or place >= len(like) or like[place] is None:
        raise reader.error(f"the length of dimension {place} is not in like={like}")
    return int(like[place])  # type: ignore[arg-type]


def _check_like(reader: _ShapeReader, found: Sequence[Any], like: Sequence[int | None]) -> None:
    if len(found) != len(like):
        raise reader.error(f"it has {len(found)} dimensions, and like={like} has {len(like)}")
    for own, other in zip(found, like, strict=True):
        if not isinstance(own, SymbolicDimension) and other is not None and own != other:
            raise reader.error(f"it has the length {own} where like={like} has {other}")


@api_boundary
def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """The types of arguments with symbolic shapes, as `ShapeDtypeStruct`s for `export`.

    `shapes_specs` has a text as of `symbolic_shape` for each array, or for whole parts of the tree;
    None leaves shapes as they are. All are of one scope.

    Args:
        args: A tree of arrays or of their types.
        constraints: Comparisons of dimensions, for the variables of a new scope.
        scope: The scope of the variables; None makes a new one.

    >>> from weft import export
    >>> export.symbolic_args_specs((np.ones((8, 3)), np.ones(3)), ("b, ...", None))
    (ShapeDtypeStruct(shape=(b, 3), dtype=f32), ShapeDtypeStruct(shape=(3,), dtype=f32))
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        message = "symbolic_args_specs takes a scope or constraints for a new one"
        fix = Fix("scope", "make the scope with them: SymbolicScope(constraints)")
        raise WeftValueError(message, got="both", fix=fix)

    def spec(text: Any, part: Any) -> Any:
        def one(x: Any) -> ShapeDtypeStruct:
            shape = symbolic_shape(text, scope=scope, like=x.shape if hasattr(x, "shape") else ())
            return ShapeDtypeStruct(shape, described_type(x).dtype)

        return tree.map(one, part)

    return tree.map(spec, shapes_specs, args, is_leaf=lambda x: x is None)
