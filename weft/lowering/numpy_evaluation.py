"""Reshapes, slices and joins small arrays on the CPU with NumPy instead of XLA.

Compiling a module takes XLA ten milliseconds. Running one that moves a few elements takes six
microseconds; NumPy, which needs no module, takes eight, and cannot round otherwise. A script that
moves small arrays a few times, or a loop over `x[:i]` in which every shape is new, would spend all
its time on compiling. So a jaxpr that only applies primitives with an `on_host` rule to small
arrays is compiled only when it has run often enough to gain by that.

Nothing else is lost by it: operands are row-major in the memory of a CPU and not committed, and
where one is still being computed nothing waits for it: the jaxpr is compiled at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config
from weft.arrays.array import Array
from weft.arrays.transfers import default_place
from weft.core import rules
from weft.core.jaxpr import Jaxpr, Literal
from weft.lowering.executables import FAST_COMPILE_LIMIT, Finished, Program
from weft.runtime import client

# Two microseconds are lost each time, in all a fifth of the time that compiling takes.
OFTEN = 1000


@dataclasses.dataclass(eq=False, slots=True)
class MovingExecutable:
    """A jaxpr that only moves elements: NumPy runs it, until it is compiled. Callers keep `execute`
    and `handlers`, so these are never replaced."""

    jaxpr: Jaxpr
    device: Any
    make: Callable[[], Program]
    run: Callable[[Sequence[Any]], Any] | None = None
    count: int = 0
    handlers: list[Any] = dataclasses.field(default_factory=list)

    def execute(self, operands: Sequence[Any]) -> Any:
        """Runs the jaxpr on buffers; the result has the method `consume_with_handlers`."""
        if self.run is not None:
            return self.run(operands)
        self.count += 1
        backend = client.backend()
        if self.count > OFTEN or not all(map(backend.is_ready, operands)):
            program = self.make()
            self.handlers[:] = program.handlers
            self.run = program.execute
            return self.run(operands)
        outs = self.move([backend.to_numpy(x) for x in operands])
        pairs = zip(outs, self.jaxpr.out_types, strict=True)
        return Finished([backend.put(np.asarray(x), type, self.device) for x, type in pairs])

    def move(self, values: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
        known: dict[Any, Any] = dict(zip(self.jaxpr.inputs, values, strict=True))
        for eqn in self.jaxpr.eqns:
            operands = [_value(known, x) for x in eqn.inputs]
            out = rules.on_host[eqn.primitive](*operands, **eqn.params)
            outs = out if eqn.primitive.multiple_results else [out]
            known.update(zip(eqn.outputs, outs, strict=True))
        return [_value(known, x) for x in self.jaxpr.outputs]


def _value(known: dict[Any, Any], atom: Any) -> Any:
    if isinstance(atom, Literal):
        return np.asarray(atom.value, atom.type.dtype)
    return known[atom]


def program_on_host(
    jaxpr: Jaxpr,
    arrays: Sequence[Array],
    make: Callable[[], Program],
    multiple_results: bool = True,
) -> Program | None:
    """The jaxpr as a `Program` that NumPy runs until `make` compiles it; None if it must be
    compiled."""
    types = [*jaxpr.in_types, *jaxpr.out_types]
    backend = client.backend()
    if (
        not all(eqn.primitive in rules.on_host for eqn in jaxpr.eqns)
        or backend.platform != "cpu"
        or sum(type.size for type in types) > FAST_COMPILE_LIMIT
        or not all(isinstance(type.dtype, np.dtype) and type.dtype.itemsize for type in types)
        # The signature of an uncommitted row-major array is its type alone.
        or any(array.signature is not array.type for array in arrays)
        or (config.settings_in_keys and default_place() is not None)
    ):
        return None
    executable = MovingExecutable(jaxpr, backend.default_device, make)
    return Program(executable, jaxpr.out_types, None, multiple_results)
