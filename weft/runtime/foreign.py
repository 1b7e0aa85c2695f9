"""Compiled code that programs call: registering it with XLA, and the operation that calls it.

XLA finds a handler by name and platform and calls it through its typed foreign function interface,
whose headers jaxlib ships (https://openxla.org/xla/custom_call). A handler that works on a batch
can be split over devices along leading dimensions; XLA is told once per name.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jaxlib

from weft.errors import WeftError
from weft.runtime import stablehlo_attributes as attrs
from weft.runtime.dialects import sdy
from weft.runtime.mlir import context, ir
from weft.runtime.native import extension
from weft.runtime.pjrt_buffers import RuntimeFault
from weft.runtime.stablehlo_numerical import custom_call

__all__ = [
    "address",
    "call",
    "capsule",
    "include_dir",
    "register",
    "registered",
    "split_along_batch",
]

_TYPED = 1  # the version of the registration; the operation counts from another number


def include_dir() -> str:
    """The folder with the headers of the foreign function interface, `xla/ffi/api/ffi.h` among
    them."""
    return os.path.join(list(jaxlib.__path__)[0], "include")


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype = ctypes.c_char_p
_capsule_name.argtypes = (ctypes.py_object,)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


def capsule(pointer: int) -> Any:
    """A PyCapsule without a name around an address."""
    return _new_capsule(pointer, None, None)


def address(of: Any) -> int:
    """The address in a PyCapsule. Raises ValueError for what is none."""
    return int(_capsule_pointer(of, _capsule_name(of)))


def register(name: str, platform: str, stages: Mapping[str, int]) -> None:
    """Registers the handler of each stage. Raises WeftError where XLA refuses one, such as one that
    was compiled against headers that this release no longer takes."""
    handlers = {stage: capsule(pointer) for stage, pointer in stages.items()}
    try:
        extension.register_custom_call_target(name, handlers, platform, _TYPED, 0)
    except RuntimeFault as error:
        raise WeftError(
            f"XLA refuses the handler of {name!r}: {error}",
            operation="register_ffi_target",
            wanted=f"a handler compiled against the headers in {include_dir()}",
        ) from None


def registered(name: str, platform: str) -> bool:
    """Whether there is a handler of this name, whoever registered it."""
    return name in extension.custom_call_targets(platform)


@functools.cache
def split_along_batch(name: str) -> None:
    """Tells XLA that calls of this name may be split along leading dimensions."""
    extension.register_custom_call_as_batch_partitionable(name)


def call(
    target: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    attributes: Mapping[str, Any],
    operand_layouts: Sequence[Sequence[int]],
    result_layouts: Sequence[Sequence[int]],
    aliases: Mapping[int, int],
    has_side_effect: bool,
    num_batch_dims: int = 0,
) -> tuple[ir.Operation, list[ir.Value]]:
    """The operation that calls a handler, and its results.

    Layouts are major to minor; `aliases` maps operands to the results that lie in their memory. The
    first `num_batch_dims` dimensions are the same in all operands and results, and along those the
    compiler may split the call over devices.
    """
    results = custom_call(
        target,
        operands,
        result_types,
        backend_config=dict(attributes),
        has_side_effect=has_side_effect,
        operand_layouts=[tuple(reversed(order)) for order in operand_layouts],
        result_layouts=[tuple(reversed(order)) for order in result_layouts],
        operand_output_aliases=dict(aliases),
    )
    block = ir.InsertionPoint.current.block
    made = results[0].owner if results else block.operations[len(block.operations) - 1]
    made = made.operation
    if num_batch_dims:
        made.attributes["mhlo.frontend_attributes"] = attrs.dictionary(
            {"num_batch_dims": str(num_batch_dims)}
        )
        shapes = [tuple(x.type.shape) for x in operands]
        made.attributes["sdy.sharding_rule"] = _batch_rule(
            shapes, [tuple(kind.shape) for kind in result_types], num_batch_dims
        )
    return made, results


def _batch_rule(
    operands: Sequence[tuple[int, ...]], results: Sequence[tuple[int, ...]], num_batch_dims: int
) -> ir.Attribute:
    """Shardy's rule for a call that may be split along leading dimensions and no others."""
    sizes = list(next(iter([*operands, *results]))[:num_batch_dims])

    def mapping(shape: tuple[int, ...]) -> ir.Attribute:
        dims = []
        for i, size in enumerate(shape):
            if i < num_batch_dims:
                factor = i
            else:
                factor = len(sizes)
                sizes.append(size)
            dims.append(sdy.DimMappingAttr.get([factor]))
        return sdy.TensorMappingAttr.get(dims)

    with context():
        ins, outs = [mapping(shape) for shape in operands], [mapping(shape) for shape in results]
        whole = list(range(num_batch_dims, len(sizes)))
        return sdy.OpShardingRuleAttr.get(
            sizes, ins, outs, need_replication_factors=whole, is_custom=True
        )
