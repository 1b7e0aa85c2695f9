"""Samplers: functions of keys and arrays that run as one executable and trace as one equation.

A distribution is Python over primitives. It is traced once per operand types and static parameters
(shape, dtype …); called eagerly it runs as one executable, and under a trace it is recorded as
one `jit` equation, so that drawing a hundred parameters traces and lowers the
function once. The arguments are checked and brought into one form when a combination is first seen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from weft import config, dtypes
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base.program_caches import BoundedCache
from weft.control_flow.jit_primitive import eager_program, jit_p, jit_program
from weft.core.jaxpr import Jaxpr
from weft.core.trace import Tracer, bottom_trace, current_trace, current_variable, leaked
from weft.core.types import type_of
from weft.kinds.compiled_functions import CompiledFunction
from weft.lowering.executable_cache import ExecutableCache
from weft.lowering.executables import Program
from weft.ops.structural.extended_dtypes import KeyDType, use_key
from weft.ops.structural.sharding_constraint import constrain

__all__ = ["Sampler", "compile_exactly", "sampler"]

Arrays = tuple[Any, ...]
Static = tuple[Any, ...]
Check = Callable[[str, Arrays, Static], tuple[Arrays, Static]]

_trace = current_variable.get
_settings = config.settings
_NUMBERS = (bool, int, float)


class Sampler:
    """A function `draw(*arrays, *static)` with one result, called as `sampler(arrays, static)`.

    With an `out_sharding` the result is split like that.
    `uses_key` says that the first array is a key, which is not to be used again (see
    `debug_key_reuse`). `check(arrays, static)` returns both in the form that `draw` takes, or
    raises: the arrays as arrays or tracers, the static parameters hashable.
    """

    __slots__ = ("calls", "check", "draw", "function", "jaxprs", "name", "uses_key")

    def __init__(
        self, name: str, draw: Callable[..., Any], check: Check, uses_key: bool = True
    ) -> None:
        self.uses_key = uses_key
        self.name = name
        self.draw = draw
        self.check = check

        def sample(*values: Any, static: Static) -> Any:
            return self.draw(*self._marked(values), *static)

        sample.__name__ = name
        # `function` is keyed by checked arguments, the caches by arguments as users gave them.
        self.function = CompiledFunction(sample, compile_exactly)
        self.calls = ExecutableCache()
        self.jaxprs = BoundedCache()

    def __call__(self, arrays: Arrays, static: Static, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return constrain(self(arrays, static), out_sharding, self.name, "the result")
        if _trace(None) is None:
            found = self.calls.run(static, arrays)
            return self._evaluate(arrays, static) if found is None else found
        if current_trace() is bottom_trace():
            return self._evaluate(arrays, static)
        return self._bind(arrays, static)

    def _bind(self, arrays: Arrays, static: Static) -> Any:
        """The call under a transformation: one equation."""
        try:
            key = (_settings(), static, *[x.type for x in arrays])
            jaxpr = self.jaxprs[key]
        except (AttributeError, KeyError, TypeError):
            checked, settled = self.check(self.name, arrays, static)
            jaxpr = self.function.body([type_of(x) for x in checked], {"static": settled}).jaxpr
            if _unchanged(arrays, checked):
                try:
                    self.jaxprs[(_settings(), static, *[type_of(x) for x in arrays])] = jaxpr
                except TypeError:  # a parameter that cannot be hashed, such as a list
                    pass
            arrays = checked
        return jit_p.bind(*arrays, jaxpr=jaxpr, name=self.name, donated=())[0]

    def _marked(self, values: Arrays) -> Arrays:
        """The arrays, with the key marked as used under `debug_key_reuse`."""
        if not (self.uses_key and _settings().debug_key_reuse):
            return values
        key, *rest = values
        if not isinstance(key.type.dtype, KeyDType):
            return values  # Bits without a type may be used for anything.
        return use_key(key, self.name), *rest

    def _evaluate(self, arrays: Arrays, static: Static) -> Any:
        """The eager call, where `calls` has no executable for the arguments as given."""
        if _settings().looks_at_results:
            return self._bind(arrays, static)  # The results of an equation are checked.
        run = None
        if all(type(x) is Array or type(x) in _NUMBERS for x in arrays):
            values = [as_array(x) for x in arrays]
            run = self.calls.find(static, values)
        if run is None:
            for x in arrays:
                if isinstance(x, Tracer):
                    raise leaked(x)
            checked, settled = self.check(self.name, arrays, static)
            values = [as_array(x) for x in checked]
            run = self.function.prepared(values, {"static": settled})
            # Arguments that the check changes have to be checked again: they are not cached.
            if _unchanged(arrays, checked):
                self.calls.remember(static, values, run)
        return run([x._buffer for x in values], values)


def sampler(
    check: Check, name: str = "", uses_key: bool = True
) -> Callable[[Callable[..., Any]], Sampler]:
    """Makes a sampler of a `draw` function, called like it (without its underscore) or `name`."""
    return lambda draw: Sampler(name or draw.__name__.strip("_"), draw, check, uses_key)


def compile_exactly(jaxpr: Jaxpr, name: str, values: Sequence[Any]) -> Program:
    """Compiles a sampler, fast if it computes with integers alone.

    A fast compilation of floating-point arithmetic rounds twice where others fuse multiply and add,
    and a key must give the same numbers eagerly and under `jit`.
    """
    if _is_exact(jaxpr):
        return eager_program(jaxpr, name, values)
    return jit_program(jaxpr, name, (), values, name)


def _is_exact(jaxpr: Jaxpr) -> bool:
    return not any(dtypes.is_inexact(var.type.dtype) for eqn in jaxpr.eqns for var in eqn.outputs)


def _unchanged(arrays: Arrays, checked: Arrays) -> bool:
    return len(arrays) == len(checked) and all(map(operator.is_, arrays, checked))
