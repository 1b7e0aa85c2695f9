"""Sums of many values between devices in few all-reduces.

Reverse mode sums the cotangent of every replicated input. An all-reduce costs time before it sends
anything, so values of one dtype are joined and summed together, in buckets of a limited size: those
of Li et al. (2020), "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

An all-reduce of several operands would need no joining, and XLA has one; but inside of a manual
computation of Shardy it refuses it (jaxlib 0.10.2: "Sharding is tuple-shaped but validation shape
is not").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base import source as sources
from weft.core.axes import bound_axis
from weft.core.types import type_of
from weft.ops.collectives.all_reduce import psum_p
from weft.ops.collectives.named_axes import Names
from weft.ops.structural.joining import concatenate, split
from weft.ops.structural.shape import reshape


def sum_in_buckets(
    values: Sequence[Any], names: Sequence[Names], lines: Sequence[sources.Source | None]
) -> list[Any]:
    """Sums each value over its own mesh axes, in the backward pass of its line. Values of one dtype
    that vary alike and are summed over the same axes share all-reduces of at most `bucket_bytes`
    (or of one value), in this order. A shared sum has its first value's line."""
    sums: list[Any] = [None] * len(values)
    buckets: dict[Any, list[list[int]]] = {}
    for i, (x, axes) in enumerate(zip(values, names, strict=True)):
        of, limit = type_of(x), bound_axis(axes[0]).bucket_bytes
        full = buckets.setdefault((of.dtype, of.varying, axes), [[]])
        size = sum(map(_bytes, (x, *(values[k] for k in full[-1]))))
        if full[-1] and (limit is None or size > limit):
            full.append([])
        full[-1].append(i)
    for (_, _, axes), found in buckets.items():
        for bucket in found:
            with sources.backward(lines[bucket[0]]):
                totals = _sum([values[i] for i in bucket], axes)
            for i, total in zip(bucket, totals, strict=True):
                sums[i] = total
    return sums


def _bytes(value: Any) -> int:
    of = type_of(value)
    return int(of.size * of.dtype.itemsize)


def _sum(values: Sequence[Any], axes: Names) -> list[Any]:
    """Sums values of one dtype in one all-reduce."""
    how = {"axis_name": axes, "axis_index_groups": None}
    if len(values) == 1:
        return [psum_p.bind(*values, **how)]
    shapes = [type_of(x).shape for x in values]
    sizes = [type_of(x).size for x in values]
    joined = concatenate([reshape(x, (n,)) for x, n in zip(values, sizes, strict=True)], 0)
    parts = split(psum_p.bind(joined, **how), sizes)
    return [reshape(x, shape) for x, shape in zip(parts, shapes, strict=True)]
