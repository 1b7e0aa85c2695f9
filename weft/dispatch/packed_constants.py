"""Many small arrays that a function closes over are handed to its executable in one buffer.

Every closed-over array is an operand of the executable, so that one executable serves functions
that differ in nothing but the arrays. XLA takes a time that is quadratic in the operands to compile
(a minute for 5,000), and a call a part of a microsecond for each. Where there are many small ones,
the compiler gets a program that cuts them out of one array per dtype.

That is safe since arrays do not change, and a closed-over array is never donated; and since only
the operands that the compiler sees are changed: the jaxpr that is traced, shown and differentiated
has its own. Packed are only arrays that are on the first device in row-major order and are not
committed to it, of a dtype that NumPy has. So all of them have one place, and the packed array has
it too. What the settings look at (transfers, results, the default device) is left as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put
from weft.arrays.uncommitted import default_place
from weft.core.check import checked
from weft.core.jaxpr import Equation, Jaxpr, Var
from weft.core.types import ArrayType
from weft.ops.indexing.slicing import slice_p
from weft.ops.structural.shape import reshape_p

# Below so many a program is compiled as well with an operand for each.
FEWEST = 64
# A larger array is worth its own operand: packing copies it.
MOST_BYTES = 4096


def packed(jaxpr: Jaxpr, consts: list[Array]) -> tuple[Jaxpr, list[Array]]:
    """The jaxpr with its many small closed-over arrays sliced out of one per dtype, and its new
    closed-over arrays; unchanged if there are few."""
    if len(consts) < FEWEST or _settings_matter():
        return jaxpr, consts
    groups: dict[np.dtype, list[int]] = {}
    for i, const in enumerate(consts):
        if _is_small(const):
            groups.setdefault(const.dtype, []).append(i)
    if sum(map(len, groups.values())) < FEWEST:
        return jaxpr, consts
    numbers = {i for group in groups.values() for i in group}
    kept = [const for i, const in enumerate(consts) if i not in numbers]
    buffers = [
        np.concatenate([np.asarray(consts[i]).ravel() for i in group]) for group in groups.values()
    ]
    arrays = [put(x, ArrayType(x.shape, x.dtype), copy=False) for x in buffers]
    which = tuple(tuple(group) for group in groups.values())
    smaller = jaxpr.memoize(("packed", which), lambda: _cut_out(jaxpr, which))
    return smaller, [*kept, *arrays]


def _settings_matter() -> bool:
    """Whether a setting inspects operands or copies, or places arrays."""
    return (
        config.settings().looks_at_results
        or config.host_settings().guards_transfers
        or default_place() is not None
    )


def _is_small(const: Array) -> bool:
    """Whether an array may be packed: only known safe kinds are."""
    of = const.type
    return (
        const.signature is of
        and of == ArrayType(of.shape, of.dtype)
        and (of.dtype.kind in "biufc" or of.dtype == dtypes.bfloat16)
        and 0 < const.nbytes <= MOST_BYTES
    )


def _cut_out(jaxpr: Jaxpr, groups: Sequence[Sequence[int]]) -> Jaxpr:
    """The jaxpr with each group of constants sliced out of one array."""
    numbers = {i for group in groups for i in group}
    consts = jaxpr.inputs[: jaxpr.num_consts]
    inputs = [var for i, var in enumerate(consts) if i not in numbers]
    eqns = []
    for group in groups:
        ends = [0, *itertools.accumulate(consts[i].type.size for i in group)]
        whole = Var(ArrayType((ends[-1],), consts[group[0]].type.dtype))
        inputs.append(whole)
        for i, start, stop in zip(group, ends, ends[1:], strict=False):
            eqns += _part(whole, start, stop, consts[i])
    rest = jaxpr.inputs[jaxpr.num_consts :]
    outputs, count = jaxpr.outputs, len(inputs)
    return checked(Jaxpr([*inputs, *rest], [*eqns, *jaxpr.eqns], outputs, count, jaxpr.name))


def _part(whole: Var, start: int, stop: int, const: Var) -> list[Equation]:
    """The equations that slice a constant out of a packed array."""
    params = {"start_indices": (start,), "limit_indices": (stop,), "strides": (1,)}
    if const.type.ndim == 1:
        return [Equation(slice_p, [whole], params, [const])]
    flat = Var(ArrayType((stop - start,), const.type.dtype))
    shape = {"shape": const.type.shape}
    return [Equation(slice_p, [whole], params, [flat]), Equation(reshape_p, [flat], shape, [const])]
