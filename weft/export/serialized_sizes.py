"""Symbolic dimensions and programs with sizes left open, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from weft.errors import WeftError, WeftValueError
from weft.export.container import Fields, Sections, invalid_bytes_error
from weft.export.program_templates import FORMS, Fit, Template
from weft.export.symbolic_dimensions import SymbolicScope
from weft.export.symbolic_shapes import symbolic_shape
from weft.export.symbolic_types import SymbolicType, variables_of

# Coefficients and divisors are below this, and powers at most that: no writer has larger ones.
_LIMIT, _HIGHEST = 1 << 62, 3


def sizes_to_data(exported: Any, sections: Sections) -> dict[str, Any]:
    """The data of a symbolic export beside its program for one choice of sizes."""
    return {
        "constraints": list(exported._scope.constraints),
        "variables": list(exported._variables),
        "in_shapes": [_shape_text(of) for of in exported.in_avals],
        "out_shapes": [_shape_text(of) for of in exported.out_avals],
        "limits": [list(exported._limits[name]) for name in exported._variables],
        "templates": [
            {"name": name, "section": sections.add(_template_to_data(template))}
            for name, template in exported._templates.items()
        ],
    }


def _shape_text(of: SymbolicType) -> str:
    return ", ".join(map(str, of.shape))


def _template_to_data(template: Template) -> bytes:
    fits = [
        [fit.form, [[list(map(list, basis)), c.numerator, c.denominator] for basis, c in fit.terms]]
        for fit in template.fits
    ]
    data = {"pieces": list(template.pieces), "fits": fits}
    return json.dumps(data, separators=(",", ":"), sort_keys=True).encode()


def template_from_data(data: bytes, variables: Sequence[str]) -> Template:
    """A template from its section. Raises WeftValueError for invalid data."""
    try:
        found = Fields(json.loads(data.decode()), "a program with sizes")
        pieces = tuple(found.texts("pieces"))
        fits = tuple(_fit_from_data(fit, variables) for fit in found.array("fits"))
        found.end()
    except (TypeError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, WeftValueError):
            raise
        raise invalid_bytes_error(
            "a program with sizes is ill-formed", str(error)[:200], "a template"
        ) from None
    if len(pieces) != len(fits) + 1:
        got, wanted = f"{len(pieces)} pieces", f"{len(fits) + 1} pieces"
        raise invalid_bytes_error("a program with sizes is ill-formed", got, wanted)
    return Template(pieces, fits)


def _fit_from_data(data: Any, variables: Sequence[str]) -> Fit:
    """A number as a function of sizes. Raises ValueError or TypeError for invalid data."""
    form, terms = data
    if form not in ("", *FORMS):
        raise ValueError(f"there is no form {form!r:.100}")
    found = []
    for basis, over, under in terms:
        if not (_is_small(over) and _is_small(under)):
            raise ValueError(f"a coefficient is {over!r:.100} / {under!r:.100}")
        parts = tuple(tuple(part) for part in basis)
        for part in parts:
            match part:
                case ("floordiv", str(name), int(by)) if name in variables and 0 < by < _LIMIT:
                    pass
                case (str(name), int(power)) if name in variables and 0 < power <= _HIGHEST:
                    pass
                case _:
                    raise ValueError(f"{part!r:.100} is no function of sizes")
        found.append((parts, Fraction(over, under)))
    return Fit(tuple(found), form)


def _is_small(number: Any) -> bool:
    return type(number) is int and abs(number) < _LIMIT


def sizes_from_data(
    fields: Fields, sections: Sequence[bytes], ins: Any, outs: Any
) -> dict[str, Any]:
    """The further fields of a symbolic export, given the types for one choice of sizes."""
    constraints, variables = fields.texts("constraints"), tuple(fields.texts("variables"))
    in_shapes, out_shapes = fields.texts("in_shapes"), fields.texts("out_shapes")
    limits = fields.array("limits")
    templates = {}
    for entry in fields.objects("templates"):
        name, section = entry.text("name"), entry.integer("section", len(sections))
        entry.end()
        templates[name] = template_from_data(sections[section], variables)
    fields.end()
    if (len(in_shapes), len(out_shapes), len(limits)) != (len(ins), len(outs), len(variables)):
        raise invalid_bytes_error(
            "the sizes do not belong to the program", "other numbers of shapes", "as many"
        )

    scope, in_types, out_types = _types_of(constraints, in_shapes, ins, out_shapes, outs)
    named = variables_of([n for of in (*in_types, *out_types) for n in of.shape])
    if set(named) != set(variables) or len(set(variables)) != len(variables):
        got, wanted = f"variables {variables!r:.200}", f"each of {named!r:.200} once"
        raise invalid_bytes_error("the sizes do not belong to the program", got, wanted)
    for pair in limits:
        match pair:
            case [int(least), None | int()] if least >= 0:
                pass
            case _:
                wanted = "a smallest size, and a largest one or none"
                raise invalid_bytes_error(
                    "the limits of a size are ill-formed", f"{pair!r:.100}", wanted
                )
    return {
        "in_avals": in_types,
        "out_avals": out_types,
        "_scope": scope,
        "_variables": variables,
        "_templates": templates,
        "_limits": {name: tuple(pair) for name, pair in zip(variables, limits, strict=True)},
    }


def _types_of(
    constraints: Sequence[str],
    in_shapes: Sequence[str], ins: Any,
    out_shapes: Sequence[str], outs: Any,
) -> tuple[SymbolicScope, tuple[SymbolicType, ...], tuple[SymbolicType, ...]]:  # fmt: skip
    """The scope, and the types with the shapes that texts describe."""
    try:
        scope = SymbolicScope(constraints)

        def types(shapes: Sequence[str], of: Any) -> tuple[SymbolicType, ...]:
            pairs = zip(shapes, of, strict=True)
            return tuple(
                SymbolicType(symbolic_shape(text, scope=scope), t.dtype, t.weak_type)
                for text, t in pairs
            )

        return scope, types(in_shapes, ins), types(out_shapes, outs)
    except (WeftError, ArithmeticError) as error:
        got = str(getattr(error, "message", error))[:300]
        raise invalid_bytes_error("a shape or a constraint is ill-formed", got, "sizes") from None
