"""Primitives declared as a whole, from a Python body or from a type rule and a lowering.

`DefinedPrimitive` holds the declaration and, for a body, its jaxprs for given operand types. The
rules that follow from it are in `derived_rules` (derivatives, lowering) and `derived_vmap` (vmap).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from typing import Any

from weft import config
from weft.arrays.array import Array
from weft.base import source as sources
from weft.base.exact_keys import ParameterCache, parameters_key
from weft.core import rules
from weft.core.array_value import array_values
from weft.core.axes import axis_environment, with_environment
from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.core.rule_results import fits
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.define.declaration_errors import (
    applies_itself,
    axis_in_body,
    check_arguments,
    closes_over,
    disagreement,
    has_effects,
    no_array,
    no_parameter,
    no_such_operand,
    wrong_result,
)
from weft.errors import Fix, UnboundAxisError, WeftTypeError
from weft.interpreters.staging import trace_to_jaxpr
from weft.ops.declare import join_varying
from weft.ops.elementwise.families import broadcast_scalar, common_shape
from weft.ops.structural.constants import inline_consts

Groups = tuple[tuple[int, ...], ...]
_LIMIT = 4096
# The classes of operands that need no further check.
_ARRAYS = (Array, Tracer, bool, int, float, complex)
# The bodies that are being traced: one that applies itself would never end.
_recorded_now: contextvars.ContextVar[frozenset[Any]] = contextvars.ContextVar(
    "weft_recorded_now", default=frozenset()
)


def _of_settings(caches: dict[Any, dict[Any, Any]]) -> dict[Any, Any]:
    """The cache for the settings in force."""
    settings = config.settings()
    found = caches.get(settings)
    return caches.setdefault(settings, ParameterCache()) if found is None else found


def unvarying(type: ArrayType) -> ArrayType:
    """The type of a value that is equal on all devices."""
    if type.varying or type.unreduced:
        return type.update(varying=frozenset(), unreduced=frozenset())
    return type


# The fix for elementwise operands whose shapes differ.
BROADCAST = Fix("broadcast", "broadcast them first: weft.numpy.broadcast_arrays")


class DefinedPrimitive(Primitive):
    """A primitive with the declaration from which its rules follow. It can be called like a
    function. `derived` names the kinds of derived rules, which registered ones replace. Caches are
    kept per settings, because the default width of numbers in a body depends on them."""

    __slots__ = (
        "_eager_caches",
        "_programs",
        "_type_caches",
        "body",
        "derived",
        "elementwise",
        "last_linear",
        "linear",
        "mapped",
    )

    def __init__(
        self,
        name: str,
        *,
        body: Callable[..., Any] | None = None,
        linear: Groups = (),
        multiple_results: bool = False,
        elementwise: bool = False,
    ) -> None:
        self._type_caches: dict[Any, dict[Any, Any]] = {}
        self._eager_caches: dict[Any, dict[Any, Any]] = {}
        self._programs: dict[Any, Jaxpr] = {}
        self.body = body
        self.linear = linear
        self.elementwise = elementwise
        self.derived: set[str] = set()
        # The primitive that applies this one to each element of a mapped axis, once it was needed.
        self.mapped: Any = None
        # The highest index of an operand that is declared to be linear.
        self.last_linear = max((i for group in linear for i in group), default=-1)
        super().__init__(name, multiple_results)

    @property
    def type_cache(self) -> dict[Any, Any]:
        """The results of the type rule under the settings in force."""
        return _of_settings(self._type_caches)

    @type_cache.setter
    def type_cache(self, value: dict[Any, Any]) -> None:
        self._type_caches = {config.settings(): ParameterCache(value)}

    @property
    def eager_cache(self) -> dict[Any, Any]:
        """The executables of one operation under the settings in force."""
        return _of_settings(self._eager_caches)

    @eager_cache.setter
    def eager_cache(self, value: dict[Any, Any]) -> None:
        self._eager_caches = {config.settings(): ParameterCache(value)}

    def forget_programs(self) -> None:
        """Drops the executables of one operation for all settings."""
        for cache in list(self._eager_caches.values()):
            cache.clear()

    def __call__(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        return self.bind(*args, **params)

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords.

        Raises WeftTypeError for an operand that is not an array and for a parameter without a hash.
        """
        for i, value in enumerate(args):
            if not isinstance(value, _ARRAYS) and type(value) not in array_values:
                try:
                    type_of(value)
                except WeftTypeError:
                    raise no_array(self.name, i, value) from None
        for key, value in params.items():
            try:
                hash(value)
            except TypeError:
                raise no_parameter(self.name, key, value) from None
        if self.last_linear >= len(args):
            raise no_such_operand(self.name, self.last_linear, len(args))
        return super().bind(*args, **params)

    def program(self, types: Sequence[ArrayType], params: dict[str, Any]) -> Jaxpr:
        """The body's jaxpr for operands of these types, traced once."""
        own = tuple(map(unvarying, types))
        key = (config.settings(), own, parameters_key(params))
        out = self._programs.get(key)
        if out is None:
            recorded = _recorded_now.get()
            if (self, key) in recorded:
                raise applies_itself(self.name, own, params)
            token = _recorded_now.set(recorded | {(self, key)})
            try:
                # The body sees no axis names from where it is first applied.
                with with_environment(()), sources.user_frames(), sources.new_program():
                    out = self.record(own, params)
            except Exception as error:
                self.explain(error, own, params)
                raise
            finally:
                _recorded_now.reset(token)
            if len(self._programs) >= _LIMIT:
                self._programs.clear()
            self._programs[key] = out
        return out

    def explain(self, error: Exception, types: Sequence[ArrayType], params: dict[str, Any]) -> None:
        """Adds to an error in the body, which has the line there, the body's primitive and its
        application. Raises another error for a mistake in the application."""
        if isinstance(error, TypeError):
            check_arguments(self.name, self.body, types, params)
        what = f"in the body of the primitive {self.name!r}"
        if not any(note.startswith(what) for note in getattr(error, "__notes__", ())):
            error.add_note(f"{what}, applied at {sources.describe(sources.here())}")
        if isinstance(error, UnboundAxisError) and error.fix is not None:
            axis = error.fix.data.get("axis_name")
            if any(bound.name == axis for bound in axis_environment()):
                raise axis_in_body(self.name, axis) from error

    def _check_types(
        self, program: Jaxpr, types: Sequence[ArrayType], params: dict[str, Any]
    ) -> None:
        """Raises JaxprError if a given type rule disagrees with the `program`."""
        rule = rules.type_rule.get(self)
        if rule is None or rules.type_rule.kind in self.derived:
            return
        out = rule(*types, **params)
        wanted = list(out) if self.multiple_results else [out]
        found = program.out_types
        if len(found) != len(wanted) or not all(map(fits, found, wanted)):
            raise disagreement(self, rule, found, wanted)

    def record(self, types: Sequence[ArrayType], params: dict[str, Any]) -> Jaxpr:
        """Traces the body to a jaxpr."""
        body = self.body
        assert body is not None
        shape = common_shape(self.name, types, BROADCAST) if self.elementwise else None

        def function(*values: Any) -> Sequence[Any]:
            if shape is not None:
                values = tuple(broadcast_scalar(x, shape) for x in values)
            return self._results(body(*values, **params), shape)

        jaxpr, consts = trace_to_jaxpr(
            function, types, transformation="define_primitive", name=self.name
        )
        for value in consts:
            if isinstance(value, Tracer):
                raise closes_over(self.name, value)
        if jaxpr.effects:
            raise has_effects(self.name, jaxpr.effects)
        self._check_types(jaxpr, types, params)
        if self._stands_in(jaxpr, (types, parameters_key(params))):
            raise applies_itself(self.name, types, params)
        return inline_consts(jaxpr, consts)

    def _stands_in(self, jaxpr: Jaxpr, application: Any) -> bool:
        """Whether a jaxpr applies the primitive to such types and parameters. (With a given type
        rule, `program` is not called while the body is being traced.)"""
        return any(
            (
                eqn.primitive is self
                and (tuple(x.type for x in eqn.inputs), parameters_key(eqn.params)) == application
            )
            or any(self._stands_in(inner, application) for inner in jaxprs_in(eqn.params))
            for eqn in jaxpr.eqns
        )

    def _results(self, out: Any, shape: tuple[int, ...] | None) -> Sequence[Any]:
        if self.multiple_results:
            if not isinstance(out, (tuple, list)):
                raise wrong_result(self.name, out, "a tuple or list of arrays", True)
            outs = list(out)
        else:
            if isinstance(out, (tuple, list, dict)) or out is None:
                raise wrong_result(self.name, out, "one array", False)
            outs = [out]
        for value in outs:
            try:
                type_of(value)
            except WeftTypeError:
                raise wrong_result(self.name, out, "arrays, not trees of them", True) from None
        return outs if shape is None else [broadcast_scalar(x, shape) for x in outs]

    def result_types(self, types: Sequence[ArrayType], params: dict[str, Any]) -> list[ArrayType]:
        """The types of the jaxpr's results, which vary along every operand's axes."""
        axes = join_varying(types)
        found = self.program(types, params).out_types
        return [t.update(varying=axes) for t in found] if axes else list(found)
