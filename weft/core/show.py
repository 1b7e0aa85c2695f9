"""The text of a program, stable from run to run.

Variables are named a, b, … z, aa, ab, … in the order in which they are bound; programs inside
equations are shown in place, indented, and continue the naming.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft import dtypes
from weft.base import source as sources
from weft.core import jaxpr as jaxprs
from weft.core.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Var

__all__ = ["show_jaxpr"]


def _names() -> Iterator[str]:
    for length in itertools.count(1):
        for letters in itertools.product(string.ascii_lowercase, repeat=length):
            yield "".join(letters)


class _Writer:
    def __init__(self, show_source: bool) -> None:
        self.names: dict[Var, str] = {}
        self.fresh = _names()
        self.show_source = show_source

    def binder(self, var: Var) -> str:
        name = self.names[var] = next(self.fresh)
        return f"{name}:{var.type}"

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            return self.names.get(atom, "?")
        value = atom.value
        text = str(value[()] if isinstance(value, np.ndarray) else value)
        return f"{text}:{dtypes.short_name(atom.type.dtype)}[]"

    def param(self, value: Any, indent: str) -> str:
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            return self.jaxpr(value, indent)
        if isinstance(value, (tuple, list)) and any(
            isinstance(item, (Jaxpr, ClosedJaxpr)) for item in value
        ):
            inner = indent + "  "
            items = [self.param(item, inner) for item in value]
            return "(\n" + "".join(f"{inner}{item}\n" for item in items) + indent + ")"
        if isinstance(value, np.dtype) or hasattr(value, "short_name"):
            return dtypes.short_name(value)
        if callable(value) and hasattr(value, "__name__"):
            return str(value.__name__)
        return str(value)

    def equation(self, eqn: Equation, indent: str) -> str:
        inputs = " ".join(self.atom(atom) for atom in eqn.inputs)
        outputs = " ".join(self.binder(var) for var in eqn.outputs)
        inner = indent + "  "
        shown = [(k, v) for k, v in sorted(eqn.params.items()) if v is not None and v != ()]
        has_program = bool(jaxprs.jaxprs_in(eqn.params))
        if has_program:
            lines = [f"{inner}{key}={self.param(value, inner)}\n" for key, value in shown]
            params = "[\n" + "".join(lines) + indent + "]"
        elif shown:
            params = (
                "[" + " ".join(f"{key}={self.param(value, inner)}" for key, value in shown) + "]"
            )
        else:
            params = ""
        text = f"{indent}{outputs} = {eqn.primitive.name}{params} {inputs}".rstrip()
        if self.show_source:
            text += f"  # {sources.describe(eqn.source)}"
        return text

    def jaxpr(self, jaxpr: Jaxpr, indent: str) -> str:
        consts = " ".join(self.binder(var) for var in jaxpr.inputs[: jaxpr.num_consts])
        inputs = " ".join(self.binder(var) for var in jaxpr.inputs[jaxpr.num_consts :])
        head = (
            "{ lambda " + consts + (" " if consts else "") + ";" + (" " if inputs else "") + inputs
        )
        body = indent + "    "
        eqns = [self.equation(eqn, body) for eqn in jaxpr.eqns]
        outs = ", ".join(self.atom(atom) for atom in jaxpr.outputs)
        outs = f"({outs},)" if len(jaxpr.outputs) == 1 else f"({outs})"
        if not eqns:
            return f"{head}. let  in {outs} }}"
        return f"{head}. let\n" + "\n".join(eqns) + f"\n{indent}  in {outs} }}"


def show_jaxpr(jaxpr: Jaxpr | ClosedJaxpr, source: bool = False) -> str:
    """The text of a program; with `source`, each equation followed by the user's line.

    >>> from weft.extend.core import show_jaxpr
    >>> print(show_jaxpr(weft.make_jaxpr(lambda x: lax.sin(x))(1.0)))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
      in (b,) }
    """
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    return _Writer(source).jaxpr(jaxpr, "")


jaxprs._show[0] = show_jaxpr
