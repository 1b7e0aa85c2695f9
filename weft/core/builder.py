"""The builder of jaxprs by hand: an equation for each operation, typed as it is added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.base import source as sources
from weft.core.check import check_jaxpr, result_types
from weft.core.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var
from weft.core.primitive import Primitive
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, JaxprError, WeftTypeError, api_boundary


class JaxprBuilder:
    """Builds a jaxpr by hand, without a function that is traced.

    `input` adds an argument, `apply` an equation, and `build` returns the jaxpr. Operands
    are the variables that `input` and `apply` returned, numbers (which become literals) and arrays
    (which become closed-over values). Types of results come from the primitives' type rules, which
    check the operands: a primitive takes operands of exactly the dtypes and shapes that its rule
    says, and nothing is promoted or broadcast.

    Args:
        name: The name of the jaxpr, for messages and modules.

    >>> from weft.extend.core import ArrayType, JaxprBuilder, primitives
    >>> builder = JaxprBuilder("square_and_shift")
    >>> x = builder.input(ArrayType((3,), "float32"))
    >>> square = builder.apply(primitives.mul_p, x, x)
    >>> program = builder.build([builder.apply(primitives.add_p, square, np.float32(1))])
    >>> program
    { lambda ; a:f32[3]. let
        b:f32[3] = mul a a
        c:f32[3] = add b 1.0:f32[]
      in (c,) }
    >>> program(np.arange(3.0, dtype="float32"))
    [Array([1., 2., 5.], dtype=float32)]
    """

    __slots__ = ("_bound", "_consts", "_eqns", "_inputs", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._inputs: list[Var] = []
        self._eqns: list[Equation] = []
        # By identity, with the value as given, which must live as long as its identity is in use.
        self._consts: dict[int, tuple[Var, Any, Any]] = {}
        self._bound: set[Var] = set()

    @api_boundary
    def input(self, type: ArrayType) -> Var:
        """Adds an argument and returns its variable. Raises WeftTypeError unless given a type."""
        if not isinstance(type, ArrayType):
            message, got = "JaxprBuilder.input takes the type of the argument", f"{type!r:.100}"
            fix = Fix("type", "pass type_of(x) for an array x like the argument")
            raise WeftTypeError(message, got=got, wanted="an ArrayType", fix=fix)
        var = Var(type)
        self._inputs.append(var)
        self._bound.add(var)
        return var

    @api_boundary
    def apply(self, primitive: Primitive, *operands: Any, **params: Any) -> Any:
        """Adds `primitive[params] operands` and returns the variable of its result, or a list of
        them for a primitive with several.

        Raises what the primitive's type rule raises, WeftTypeError for anything that is not a
        primitive and for an operand that is neither an array nor a number, and JaxprError for a
        variable of another jaxpr.
        """
        if not isinstance(primitive, Primitive):
            message, got = "JaxprBuilder.apply takes a primitive first", f"{primitive!r:.100}"
            fix = Fix("primitive", "pass weft.extend.core.primitives[name]")
            raise WeftTypeError(message, got=got, wanted="a Primitive", fix=fix)
        atoms = [self._atom(operand, primitive.name) for operand in operands]
        types = result_types(primitive, tuple(atom.type for atom in atoms), params)
        many = primitive.multiple_results
        outputs = [Var(type) for type in (types if many else [types])]
        self._eqns.append(Equation(primitive, atoms, params, outputs, sources.current()))
        self._bound.update(outputs)
        return outputs if many else outputs[0]

    @api_boundary
    def build(self, outputs: Sequence[Any]) -> ClosedJaxpr:
        """Returns the jaxpr with these results, checked, and the values that it closes over.

        More may be added and built afterwards: a built jaxpr does not change. Raises JaxprError as
        `apply` does, and for equations whose operands vary along different mesh axes.
        """
        results = [self._atom(output, "the results") for output in outputs]
        closed = list(self._consts.values())
        inputs = [var for var, _, _ in closed] + self._inputs
        jaxpr = Jaxpr(inputs, self._eqns, results, len(closed), self.name)
        out = ClosedJaxpr(jaxpr, [value for _, value, _ in closed])
        check_jaxpr(out)
        return out

    def _atom(self, operand: Any, where: str) -> Atom:
        if isinstance(operand, Literal):
            return operand
        if isinstance(operand, Var):
            if operand not in self._bound:
                raise JaxprError(
                    f"{where}: a variable of type {operand.type} that this program does not bind",
                    operation=where,
                    got=repr(operand),
                    wanted="a variable that input or apply of this builder returned",
                    fix=Fix("input", "add an argument with input(var.type)"),
                )
            return operand
        type = type_of(operand)
        if isinstance(operand, (bool, int, float, complex, np.generic)):
            return Literal(operand, type)
        found = self._consts.get(id(operand))
        if found is None:
            # A copy, so that changing the NumPy array afterwards changes no jaxpr.
            value = operand.copy() if isinstance(operand, np.ndarray) else operand
            found = self._consts[id(operand)] = (Var(type), value, operand)
            self._bound.add(found[0])
        return found[0]
