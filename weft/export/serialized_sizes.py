"""Symbolic dimensions and programs with sizes left open, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from weft.export.container import Fields, Sections, refused
from weft.export.program_templates import Fit, Template
from weft.export.symbolic_dimensions import SymbolicScope
from weft.export.symbolic_shapes import symbolic_shape
from weft.export.symbolic_types import SymbolicType

__all__ = ["sizes_from_data", "sizes_to_data", "template_from_data"]


def sizes_to_data(exported: Any, sections: Sections) -> dict[str, Any]:
    """What a symbolic export has besides its program for one choice of sizes."""
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


def template_from_data(data: bytes) -> Template:
    """A template from its section. Raises WeftValueError for what is none."""
    try:
        found = json.loads(data.decode())
        fits = tuple(
            Fit(
                tuple(
                    (tuple(map(tuple, basis)), Fraction(int(over), int(under)))
                    for basis, over, under in terms
                ),
                str(form),
            )
            for form, terms in found["fits"]
        )
        pieces = tuple(map(str, found["pieces"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise refused(
            "a program with sizes is ill-formed", str(error)[:200], "a template"
        ) from None
    if len(pieces) != len(fits) + 1:
        got, wanted = f"{len(pieces)} pieces", f"{len(fits) + 1} pieces"
        raise refused("a program with sizes is ill-formed", got, wanted)
    return Template(pieces, fits)


def sizes_from_data(
    fields: Fields, sections: Sequence[bytes], ins: Any, outs: Any
) -> dict[str, Any]:
    """The further fields of a symbolic export, given the types for one choice of sizes."""
    scope = SymbolicScope(fields.texts("constraints"))
    variables = tuple(fields.texts("variables"))
    in_shapes, out_shapes = fields.texts("in_shapes"), fields.texts("out_shapes")
    limits = fields.array("limits")
    templates = {}
    for entry in fields.objects("templates"):
        name, section = entry.text("name"), entry.integer("section", len(sections))
        entry.end()
        templates[name] = template_from_data(sections[section])
    fields.end()
    if (len(in_shapes), len(out_shapes), len(limits)) != (len(ins), len(outs), len(variables)):
        raise refused(
            "the sizes do not belong to the program", "other numbers of shapes", "as many"
        )

    def types(shapes: list[str], of: Any) -> tuple[SymbolicType, ...]:
        pairs = zip(shapes, of, strict=True)
        return tuple(
            SymbolicType(symbolic_shape(text, scope=scope), t.dtype, t.weak_type)
            for text, t in pairs
        )

    return {
        "in_avals": types(in_shapes, ins),
        "out_avals": types(out_shapes, outs),
        "_scope": scope,
        "_variables": variables,
        "_templates": templates,
        "_limits": {
            name: (int(least), None if most is None else int(most))
            for name, (least, most) in zip(variables, limits, strict=True)
        },
    }
