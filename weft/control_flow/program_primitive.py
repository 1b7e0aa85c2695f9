"""Primitives that hold jaxprs as parameters, and take a program with its closed-over values too."""

from __future__ import annotations

from typing import Any

from weft.core.jaxpr import ClosedJaxpr
from weft.core.primitive import Primitive
from weft.ops.structural.constants import inline_consts


def _open(value: Any) -> Any:
    """The jaxpr of a program, with its closed-over values as constants."""
    if type(value) is ClosedJaxpr:
        return inline_consts(value.jaxpr, value.consts)
    return tuple(map(_open, value)) if type(value) in (tuple, list) else value


class ProgramPrimitive(Primitive):
    """A primitive with several results whose parameters hold jaxprs. Interpreters from outside may
    pass a `ClosedJaxpr`, as `make_jaxpr` returns it."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, multiple_results=True, memoise=False)

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        for name, value in params.items():
            kind = type(value)
            if kind is ClosedJaxpr or kind is tuple and value and type(value[0]) is ClosedJaxpr:
                params[name] = _open(value)
        return super().bind(*args, **params)
