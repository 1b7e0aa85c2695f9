"""The operation that calls compiled code, which XLA finds by name and platform
(https://openxla.org/xla/custom_call). A handler that works on a batch can be split over devices
along leading dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import context, ir, sdy
from weft.runtime.stablehlo.numerical import custom_call


def call(
    target: str,
    operands: Sequence[ir.Value],
    result_types: Sequence[ir.Type],
    *,
    attributes: Mapping[str, Any] | str,
    operand_layouts: Sequence[Sequence[int]],
    result_layouts: Sequence[Sequence[int]],
    aliases: Mapping[int, int],
    has_side_effect: bool,
    num_batch_dims: int = 0,
    api_version: int = 4,
) -> tuple[ir.Operation, list[ir.Value]]:
    """Emits the operation that calls a handler, and returns it and its results.

    Layouts are major to minor; `aliases` maps operands to the results that lie in their memory. The
    first `num_batch_dims` dimensions are the same in all operands and results, and along those the
    compiler may split the call over devices. Below version 4 of the interface a text stands in
    place of the attributes.
    """
    results = custom_call(
        target,
        operands,
        result_types,
        backend_config=attributes if isinstance(attributes, str) else dict(attributes),
        api_version=api_version,
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


def columns(kind: ir.Type, num_batch_dims: int) -> tuple[int, ...]:
    """The major-to-minor layout of batches of column-major matrices."""
    front = min(num_batch_dims, kind.rank)
    return (*range(front), *reversed(range(front, kind.rank)))


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
