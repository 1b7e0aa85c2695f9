"""Properties of a primitive inside of loops, conditionals, `checkpoint` and `shard_map`: values and
derivatives are those that it has by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.jit import jit
from weft.api.meshes import make_mesh
from weft.control_flow.checkpoint import checkpoint
from weft.control_flow.cond import cond
from weft.control_flow.loops import scan
from weft.core.types import type_of
from weft.ops.structural.shape import reshape
from weft.runtime.client import devices
from weft.sharding import PartitionSpec
from weft.spmd.shard_map import shard_map
from weft.testing.primitive_application import (
    PrimitiveApplication,
    Skipped,
    assert_same,
    derivatives,
    loop,
    rows_of,
    stack,
    stack_variations,
)

_DEVICES = 2


def in_scan(case: PrimitiveApplication) -> None:
    """In a loop, values and derivatives are those of a Python loop."""
    case.numbers()
    if not case.args:
        raise Skipped("there is no operand to go along")

    def looped(*rows: Any) -> list[Any]:
        return list(scan(lambda carry, xs: (carry, case.call(*xs)), 0, list(rows))[1])

    wanted = case.once("rows alone", lambda: derivatives(case, loop(case.call), rows_of(case)))
    assert_same(derivatives(case, looped, rows_of(case)), wanted)


def _alone(case: PrimitiveApplication) -> Any:
    return case.once("alone", lambda: derivatives(case, case.call, case.double))


def in_cond(case: PrimitiveApplication) -> None:
    """In a branch of a conditional, values and derivatives are those outside of one."""

    def branch(*args: Any) -> list[Any]:
        return case.call(*args)

    def other(*args: Any) -> list[Any]:
        return [x * 0 if type_of(x).dtype in dtypes.NUMERIC else x for x in case.call(*args)]

    chosen = jit(lambda flag, *args: cond(flag, branch, other, *args))
    case.numbers()
    assert_same(derivatives(case, lambda *args: chosen(np.True_, *args), case.double), _alone(case))


def in_checkpoint(case: PrimitiveApplication) -> None:
    """Computed again in the backward pass, values and derivatives stay the same."""
    case.numbers()
    assert_same(derivatives(case, checkpoint(case.call), case.double), _alone(case))


def _mesh(case: PrimitiveApplication) -> Any:
    case.numbers()
    if len(devices()) < _DEVICES:
        raise Skipped("there is one device; set WEFT_NUM_CPU_DEVICES=8")
    if not case.args:
        raise Skipped("there is no operand")
    return make_mesh((_DEVICES,), ("devices",), devices=devices()[:_DEVICES])


def _own(xs: Sequence[Any], varying: Sequence[bool]) -> list[Any]:
    """The operands of one device; `varying` ones have a row per device."""
    return [
        reshape(x, type_of(x).shape[1:]) if flag else x for x, flag in zip(xs, varying, strict=True)
    ]


def varies(case: PrimitiveApplication) -> None:
    """If devices compute different results, the type rule says that they vary."""
    mesh = _mesh(case)
    rows = stack_variations(case.args, _DEVICES)
    every = [case.call(*(x[k] for x in rows)) for k in range(_DEVICES)]
    differ = [not np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(*every, strict=True)]

    def block(*xs: Any) -> list[Any]:
        outs = case.call(*_own(xs, [True] * len(xs)))
        for i, (out, flag) in enumerate(zip(outs, differ, strict=True)):
            assert not flag or "devices" in type_of(out).varying, (
                f"result {i} has type {type_of(out)} of operands that vary along devices, and "
                "devices compute different ones"
            )
        return [reshape(out, (1, *type_of(out).shape)) for out in outs]

    spec = PartitionSpec("devices")
    jit(shard_map(block, mesh=mesh, in_specs=spec, out_specs=spec)).lower(*rows)


def in_shard_map(case: PrimitiveApplication) -> None:
    """On several devices, with operands that vary and others that do not, values and derivatives
    are those of a loop over the devices."""
    mesh = _mesh(case)
    n = len(case.double)
    choices = {(True,) * n, (True,) + (False,) * (n - 1), (False,) * (n - 1) + (True,)}
    for varying in sorted(choices):
        wide = stack_variations(case.double, _DEVICES)
        args = [w if v else x for w, v, x in zip(wide, varying, case.double, strict=True)]

        def block(*xs: Any, varying: tuple[bool, ...] = varying) -> list[Any]:
            outs = case.call(*_own(xs, varying))
            return [reshape(out, (1, *type_of(out).shape)) for out in outs]

        def alone(*xs: Any, varying: tuple[bool, ...] = varying) -> list[Any]:
            rows = [
                case.call(*(x[k] if v else x for x, v in zip(xs, varying, strict=True)))
                for k in range(_DEVICES)
            ]
            return [stack(same) for same in zip(*rows, strict=True)]

        specs = tuple(PartitionSpec("devices") if v else PartitionSpec() for v in varying)
        spread = shard_map(block, mesh, specs, PartitionSpec("devices"))
        assert_same(derivatives(case, spread, args), derivatives(case, alone, args))
