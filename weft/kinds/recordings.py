"""Equations that a function of arrays has recorded once, and that are copied from then on.

While a jaxpr is recorded, a function of arrays would run its Python again at each call: convert its
arguments, choose dtypes, bind primitives. What it records depends on the types of its operands and
on its other arguments alone. So the first call with these leaves its equations behind, and each
later one copies them with new variables.

Safety: a body is pure, and an operand here is a tracer, of which it can read nothing but the type.
The key of a recording has the settings, the mesh in force, how the arguments are passed, the types
of operands, and other arguments by class and bits; those are of classes whose objects never change,
so no function of the user's runs inside. There is no recording where axes have names (of a mesh,
where a cast depends on what an operand was computed from), where an operand is passed twice or is a
literal, which would be taken for one of the body's, where an equation reads anything but operands
and results of the same recording, or holds jaxprs, whose equations have lines of the user's, and
where the call has warned, so that it warns again. Functions that are one equation keep its jaxpr,
so that is recorded, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft import config, tree
from weft.base import source as sources
from weft.base.exact_keys import ConstantClass, exact_key
from weft.core.axes import axes_variable
from weft.core.jaxpr import Equation, Literal, Var
from weft.interpreters.staging import StagingTrace, StagingTracer
from weft.sharding.current import mesh_variable

_settings = config.settings
_axes = axes_variable.get
_mesh = mesh_variable.get
# Classes whose objects never change and have no parts: the key has their class and the object.
_CONSTANTS = frozenset({bool, int, str, bytes, type(None)})
# Others whose objects never change.
_IMMUTABLE = (float, complex, np.dtype, np.generic)


class _NoKeyError(Exception):
    """An argument whose use does not follow from its type or bits."""


def recording_key(
    trace: StagingTrace, args: Sequence[Any], kwargs: dict[str, Any], operands: list[StagingTracer]
) -> Any:
    """The key of the recording of a call, or None if there is none; appends its operands."""
    if _axes():
        return None
    parts: list[Any] = [_settings(), _mesh(), len(args), *kwargs]
    for value in (*args, *kwargs.values()) if kwargs else args:
        cls = type(value)
        if cls is StagingTracer and value._trace is trace:
            operands.append(value)
            parts.append(value.type)
        elif cls in _CONSTANTS:
            parts.append((cls, value))
        else:
            try:
                parts.append(_part(value, trace, operands))
            except _NoKeyError:
                return None
    return tuple(parts)


def _part(value: Any, trace: StagingTrace, operands: list[StagingTracer]) -> Any:
    cls = type(value)
    if cls is StagingTracer and value._trace is trace:
        operands.append(value)
        return value.type
    if cls in _CONSTANTS:
        return cls, value
    if cls is tuple or cls is list:
        return cls, *[_part(x, trace, operands) for x in value]
    if isinstance(value, _IMMUTABLE) and not isinstance(value, np.void):
        return exact_key(value)
    if isinstance(value, type) and issubclass(value, (np.generic, bool, int, float, complex)):
        return value
    if isinstance(value, ConstantClass):
        return value
    raise _NoKeyError


class Recording(NamedTuple):
    """The equations of one call. Its values are numbered: the operands, the literals, then the
    results.

    steps: for each equation the primitive, the numbers of its operands, the parameters, and the
    types of its results; outputs: the numbers of the result's leaves; structure: of the result, or
    None for one array alone.
    """

    steps: list[tuple[Any, list[int], dict[str, Any], tuple[Any, ...]]]
    literals: list[Literal]
    outputs: list[int]
    structure: Any

    @staticmethod
    def of(
        trace: StagingTrace,
        start: int,
        operands: Sequence[StagingTracer],
        out: Any,
        jaxprs: bool = False,
    ) -> Recording | None:
        """The recording of the equations from position `start`; None if they depend on more than
        the operands. jaxprs: whether equations may hold some."""
        if any(type(x._var) is Literal for x in operands):
            return None
        eqns = trace.eqns[start:]
        literals = [x for eqn in eqns for x in eqn.inputs if type(x) is Literal]
        single = type(out) is StagingTracer
        leaves, structure = ([out], None) if single else tree.flatten(out)
        known = all(type(x) is StagingTracer and x._trace is trace for x in leaves)
        if not known or not (jaxprs or all(eqn.primitive.memoise for eqn in eqns)):
            return None
        values = [*(x._var for x in operands), *literals]
        values += [var for eqn in eqns for var in eqn.outputs]
        numbers = {id(value): i for i, value in enumerate(values)}
        steps = []
        try:
            for eqn in eqns:
                inputs = [numbers[id(x)] for x in eqn.inputs]
                types = tuple([var.type for var in eqn.outputs])
                steps.append((eqn.primitive, inputs, eqn.params, types))
            outputs = [numbers[id(x._var)] for x in leaves]
        except KeyError:
            return None
        repeated = len({id(x._var) for x in operands}) < len(operands)
        return None if repeated else Recording(steps, literals, outputs, structure)

    def copy(self, trace: StagingTrace, operands: Sequence[StagingTracer]) -> Any:
        """Records the equations again on other operands of the same types; returns the result."""
        source = sources.current()
        values: list[Any] = []
        for x in operands:
            values.append(x._var)
        values += self.literals
        value = values.__getitem__
        record = trace.eqns.append
        for primitive, inputs, params, types in self.steps:
            outs = [Var(types[0])] if len(types) == 1 else [*map(Var, types)]
            record(Equation(primitive, [*map(value, inputs)], params, outs, source))
            values += outs
        out: list[Any] = []
        for i in self.outputs:
            out.append(
                operands[i] if i < len(operands) else StagingTracer(trace, values[i], source)
            )
        return out[0] if self.structure is None else tree.unflatten(self.structure, out)
