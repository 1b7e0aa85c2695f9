"""LAPACK kernels, which jaxlib binds for XLA: registering and calling them.

A kernel takes any number of leading batch dimensions before matrices that lie column by column, and
has a name for each of four dtypes (https://netlib.org/lapack). The library itself is SciPy's, on
which jaxlib depends; it is loaded when the first module that needs it is lowered.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib import lapack

from weft.runtime import ffi_operation, ffi_registry
from weft.runtime.backends import batched_calls
from weft.runtime.jaxlib.native import extension
from weft.runtime.stablehlo.mlir import ir


@functools.cache
def load() -> None:
    """Registers all kernels with XLA, which executables find by name when they are loaded."""
    for platform, kernels in lapack.registrations().items():
        for name, handler, version in kernels:
            extension.register_custom_call_target(name, handler, platform, version, 0)
    for name in lapack.batch_partitionable_targets():
        ffi_registry.split_along_batch(name)
    # This call, for whatever routine, loads LAPACK from SciPy.
    lapack.prepare_lapack_call("potrf_ffi", np.dtype(np.float32))


# jaxlib's own kernels, each of which takes all dtypes.
_OF_ALL_DTYPES = frozenset({"tridiagonal_solve_perturbed"})


def target(routine: str, dtype: Any) -> str:
    """The name under which a routine is registered for a dtype, such as `lapack_dpotrf_ffi`."""
    load()
    if routine in _OF_ALL_DTYPES:
        return f"{routine}_ffi"
    return str(lapack.build_lapack_fn_target(f"{routine}_ffi", np.dtype(dtype)))


def call(
    routine: str,
    dtype: Any,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    num_batch_dims: int,
    attributes: Mapping[str, Any],
    aliases: Mapping[int, int],
    num_devices: int,
    split_rows: Callable[[ir.Value], ir.Value],
) -> list[ir.Value]:
    """The results of a routine, whose operands and results have batch dimensions in front.

    XLA may split the batch over `num_devices` devices, and does where `split_rows` is applied to
    operands. Characters among the attributes are passed as the bytes that LAPACK knows them by.
    """
    given = {
        name: np.uint8(ord(value)) if isinstance(value, str) else value
        for name, value in attributes.items()
    }

    def one_call(
        operands: Sequence[ir.Value], result_types: Sequence[ir.Type], num_batch_dims: int = 1
    ) -> list[ir.Value]:
        return ffi_operation.call(
            target(routine, dtype),
            operands,
            result_types,
            attributes=given,
            operand_layouts=[ffi_operation.columns(x.type, num_batch_dims) for x in operands],
            result_layouts=[ffi_operation.columns(type, num_batch_dims) for type in result_types],
            aliases=aliases,
            has_side_effect=False,
            num_batch_dims=num_batch_dims,
        )[1]

    batch = tuple(result_types[0].shape[:num_batch_dims])
    own = [tuple(x.type.shape[num_batch_dims:]) for x in operands]
    most = batched_calls.most_in_place(routine, dtype, own)
    if math.prod(batch) <= most:
        return one_call(operands, result_types, num_batch_dims)
    devices = num_devices, split_rows
    return batched_calls.in_parts(one_call, operands, result_types, num_batch_dims, most, devices)
