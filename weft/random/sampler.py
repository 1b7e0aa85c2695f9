"""Samplers: functions of keys and arrays that run as one program and trace as one equation.

A distribution is Python over primitives. It is traced once per operand types and static parameters
(shape, dtype …); called eagerly it runs as one program, and while something is traced it stands in
the program as one `jit` equation, so that drawing a hundred parameters traces and lowers the
function once. The arguments are checked and brought into one form when a combination is first seen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from weft import config, dtypes
from weft.arrays.array import Array, as_array
from weft.base.program_caches import holds_programs
from weft.control_flow.jit_primitive import eager_program, jit_p, jit_program
from weft.core.jaxpr import Jaxpr
from weft.core.trace import Tracer, bottom_trace, current_trace, current_variable, leaked
from weft.core.types import ArrayType, type_of
from weft.interpreters.staging import trace_to_jaxpr
from weft.lowering.executables import explain_failure
from weft.ops.structural.constants import inline_consts
from weft.ops.structural.extended_dtypes import KeyDType
from weft.random.key_reuse import use_key

__all__ = ["Sampler"]

Arrays = tuple[Any, ...]
Static = tuple[Any, ...]

_trace = current_variable.get
_settings = config.settings
_NUMBERS = (bool, int, float)
# A program that loops over many shapes shall not fill the memory.
_MOST = 4096


class Sampler:
    """A function `draw(*arrays, *static)` with one result, called as `sampler(arrays, static)`.

    `uses_key` says that the first array is a key, which is not to be used again (see
    `debug_key_reuse`). `check(arrays, static)` answers with both in the form that `draw` takes, or
    raises: the arrays as arrays or tracers, the static parameters hashable.
    """

    __slots__ = (
        "__weakref__",
        "check",
        "draw",
        "jaxprs",
        "name",
        "programs",
        "seen_jaxprs",
        "seen_programs",
        "uses_key",
    )

    def __init__(
        self,
        name: str,
        draw: Callable[..., Any],
        check: Callable[[str, Arrays, Static], tuple[Arrays, Static]],
        uses_key: bool = True,
    ) -> None:
        self.uses_key = uses_key
        self.name = name
        self.draw = draw
        self.check = check
        # By checked arguments, and by the arguments as users gave them.
        self.programs: dict[Any, Any] = {}
        self.jaxprs: dict[Any, Jaxpr] = {}
        self.seen_programs: dict[Any, Any] = {}
        self.seen_jaxprs: dict[Any, Jaxpr] = {}
        holds_programs(self)

    def forget_programs(self) -> None:
        """Drops all programs, compiled and traced."""
        for cache in (self.programs, self.jaxprs, self.seen_programs, self.seen_jaxprs):
            cache.clear()

    def __call__(self, arrays: Arrays, static: Static) -> Any:
        if _trace(None) is None:
            try:
                program = self.seen_programs[(_settings(), static, *[x.signature for x in arrays])]
                outs = program.execute([x._buffer for x in arrays]).consume_with_handlers(
                    program.handlers
                )
            except (AttributeError, KeyError, TypeError):
                return self._evaluate(arrays, static)
            except Exception:
                explain_failure(arrays)
                raise
            return Array(outs[0], program.out_types[0], program.out_signatures[0])
        if current_trace() is bottom_trace():
            return self._evaluate(arrays, static)
        return self._bind(arrays, static)

    def _bind(self, arrays: Arrays, static: Static) -> Any:
        """The call under a transformation: one equation."""
        try:
            jaxpr = self.seen_jaxprs[(_settings(), static, *[x.type for x in arrays])]
        except (AttributeError, KeyError, TypeError):
            checked, settled = self.check(self.name, arrays, static)
            jaxpr = self._jaxpr([type_of(x) for x in checked], settled)
            if _unchanged(arrays, checked):
                self._remember(self.seen_jaxprs, static, [type_of(x) for x in arrays], jaxpr)
            arrays = checked
        return jit_p.bind(*arrays, jaxpr=jaxpr, name=self.name, donated=())[0]

    def _jaxpr(self, types: Sequence[ArrayType], static: Static) -> Jaxpr:
        key = (_settings(), static, *types)
        found = self.jaxprs.get(key)
        if found is None:
            found, consts = trace_to_jaxpr(
                lambda *values: [self.draw(*self._marked(values), *static)],
                types,
                transformation="jit",
                name=self.name,
            )
            # A generator from outside may hold tables; programs of samplers have no other inputs.
            found = inline_consts(found, consts)
            self._remember(self.jaxprs, static, types, found)
        return found

    def _marked(self, values: Arrays) -> Arrays:
        """The arrays, of which the key is marked as used where that is looked at."""
        if not (self.uses_key and _settings().debug_key_reuse):
            return values
        key, *rest = values
        if not isinstance(key.type.dtype, KeyDType):
            return values  # Bits without a type may be used for anything.
        return use_key(key, self.name), *rest

    def _evaluate(self, arrays: Arrays, static: Static) -> Any:
        """The call outside of transformations, where no program was found by the arguments."""
        if _settings().looks_at_results:
            return self._bind(arrays, static)  # As an equation it is looked at.
        program = None
        if all(type(x) is Array or type(x) in _NUMBERS for x in arrays):
            values = [as_array(x) for x in arrays]
            key = (_settings(), static, *[x.signature for x in values])
            try:
                program = self.seen_programs.get(key)
            except TypeError:  # a parameter that cannot be hashed, such as a shape that is a list
                pass
        if program is None:
            for x in arrays:
                if isinstance(x, Tracer):
                    raise leaked(x)
            checked, settled = self.check(self.name, arrays, static)
            values = [as_array(x) for x in checked]
            program = self._program(values, settled)
            # What the check changed it has to change again; only what it left alone is remembered.
            if _unchanged(arrays, checked):
                self._remember(self.seen_programs, static, [x.signature for x in values], program)
        try:
            outs = program.execute([x._buffer for x in values]).consume_with_handlers(
                program.handlers
            )
        except Exception:
            explain_failure(values)
            raise
        return Array(outs[0], program.out_types[0], program.out_signatures[0])

    def _program(self, values: Sequence[Array], static: Static) -> Any:
        key = (_settings(), static, *[x.signature for x in values])
        found = self.programs.get(key)
        if found is None:
            jaxpr = self._jaxpr([x.type for x in values], static)
            if _is_exact(jaxpr):
                found = eager_program(jaxpr, self.name, values)
            else:
                found = jit_program(jaxpr, self.name, (), values, self.name)
            self._remember(self.programs, static, [x.signature for x in values], found)
        return found

    def _remember(
        self, table: dict[Any, Any], static: Static, types: Sequence[Any], value: Any
    ) -> None:
        if len(table) >= _MOST:
            table.clear()
        try:
            table[(_settings(), static, *types)] = value
        except TypeError:
            pass


def _is_exact(jaxpr: Any) -> bool:
    """Whether a program computes with integers alone, so that its results are the same however it
    is compiled. What is compiled fast rounds twice where other programs multiply and add at once,
    and a key must give the same numbers eagerly and in a program."""
    return not any(dtypes.is_inexact(var.type.dtype) for eqn in jaxpr.eqns for var in eqn.outputs)


def _unchanged(arrays: Arrays, checked: Arrays) -> bool:
    return len(arrays) == len(checked) and all(map(operator.is_, arrays, checked))
