"""Primitives whose rules are taken as they are, for programs with rules written for JAX.

A primitive of `weft.extend.core.Primitive` has its rules checked, and one rule of a kind.
These follow JAX's protocol instead: a rule may be set again, results of Python functions are not
compared with the type rule, and the type rule may say which effects an application has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType
from weft.ops.declare import join_varying

Rule = Callable[..., Any]


class _EveryPrimitive(type):
    """`isinstance(p, UncheckedPrimitive)` is true of every primitive."""

    def __instancecheck__(cls, value: object) -> bool:
        of = Primitive if cls.__name__ == "UncheckedPrimitive" else cls
        return of in type(value).__mro__


class UncheckedPrimitive(Primitive, metaclass=_EveryPrimitive):
    """A primitive whose rules are taken as they are.

    Every primitive counts as an instance.

    Args:
        name: What the operation is called in jaxprs and messages.

    >>> from weft.extend.core import UncheckedPrimitive
    >>> cube_p = UncheckedPrimitive("cube")
    >>> _ = cube_p.def_impl(lambda x: x**3)
    >>> cube_p.bind(2.0), isinstance(lax.sin_p, UncheckedPrimitive)
    (Array(8., dtype=float32, weak_type=True), True)
    """

    __slots__ = ("_effects_of",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # The effects that the type rule gave, by parameters.
        self._effects_of: dict[Any, frozenset[Any]] = {}

    def def_impl(self, function: Rule) -> Rule:
        """Evaluates the primitive by a Python function instead of compiling it."""
        rules.impl[self] = function
        return function

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the type rule: from operand types and parameters to the result type (or types)."""
        self._set_type_rule(rule, with_effects=False)
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the type rule: from operand types and parameters to the result type (or types) and
        the effects of the application."""
        self.memoise = False
        self._set_type_rule(rule, with_effects=True)
        rules.effects[self] = self._known_effects
        return rule

    def_effectful_abstract_eval2 = def_effectful_abstract_eval

    def _set_type_rule(self, rule: Rule, with_effects: bool) -> None:
        def types_of(*types: ArrayType, **params: Any) -> Any:
            found = rule(*types, **params)
            if with_effects:
                found, effects = found
                self._note_effects(params, frozenset(effects))
            axes = join_varying(types)
            if not self.multiple_results:
                return _as_type(found, axes)
            return [_as_type(one, axes) for one in found]

        rules.type_rule[self] = types_of
        self.type_cache.clear()
        self.eager_cache.clear()

    def _note_effects(self, params: dict[str, Any], effects: frozenset[Any]) -> None:
        for key in (_key(params), None):
            self._effects_of[key] = self._effects_of.get(key, frozenset()) | effects

    def _known_effects(self, params: dict[str, Any]) -> frozenset[Any]:
        """The effects that the type rule has given for such parameters."""
        found = self._effects_of.get(_key(params))
        return self._effects_of.get(None, frozenset()) if found is None else found


def _key(params: dict[str, Any]) -> Any:
    key = tuple(sorted(params.items(), key=lambda item: item[0]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _as_type(found: Any, axes: frozenset[str]) -> Any:
    """A result type that varies along every axis of an operand."""
    if isinstance(found, ShapeDtypeStruct):
        found = found.type
    if axes and isinstance(found, ArrayType) and not found.varying:
        return found.update(varying=axes)
    return found
