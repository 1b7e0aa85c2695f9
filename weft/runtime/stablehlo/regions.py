"""StableHLO operations that have a body: reductions, sorting, scattering, control flow.

A body is a Python callable that gets the region's arguments and returns its results, emitting
operations in between; it is called once, immediately. See the StableHLO specification,
https://github.com/openxla/stablehlo/blob/main/docs/spec.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from weft.runtime.stablehlo import attributes as attrs
from weft.runtime.stablehlo.mlir import context, ir, op, ranked
from weft.runtime.stablehlo.mlir import stablehlo as hlo

Values = Sequence[ir.Value]
Combine = Callable[[list[ir.Value], list[ir.Value]], Values]
"""From the accumulated values and the new ones to the accumulated values (all scalars)."""


def _pairwise(count: int, body: Combine) -> Callable[[list[ir.Value]], Values]:
    return lambda arguments: body(arguments[:count], arguments[count:])


def _scalars(values: Values) -> list[ir.Type]:
    return [ranked((), value.type.element_type) for value in values]


# ---- reductions ----------------------------------------------------------------------------------


def reduce(
    operands: Values, inits: Values, dimensions: Sequence[int], body: Combine
) -> list[ir.Value]:
    """Combines the elements along dimensions, which disappear; all operands have one shape.

    `body(accumulated, new)` is given two lists of scalars, one of each operand, and returns the
    list of combined ones. It has to be associative, with `inits` (scalars) neutral.

    Args:
        dimensions: The dimensions that disappear.
        body: Emits the combination of two elements.
        inits: A scalar per operand, neutral for the body.
    """
    gone = set(dimensions)
    shape = [n for axis, n in enumerate(operands[0].type.shape) if axis not in gone]
    types = [ranked(shape, init.type.element_type) for init in inits]
    scalars = _scalars(inits)
    return op(
        "stablehlo.reduce",
        (*operands, *inits),
        types,
        {"dimensions": attrs.integers(sorted(gone))},
        [(scalars * 2, _pairwise(len(inits), body))],
    )


def reduce_window(
    operands: Values,
    inits: Values,
    body: Combine,
    *,
    window: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> list[ir.Value]:
    """Combines the elements of each window; padding adds the initial value around the operands.

    The body is that of `reduce`.

    Args:
        inits: A scalar per operand, neutral for the body.
        body: Emits the combination of two elements, as for `reduce`.
        window: The lengths of the window, per dimension.
        strides: How far the window moves, per dimension; None for 1.
        padding: How many elements are added (before, after), per dimension; None for none.
        base_dilation: The distance between elements of the operands, which is filled with the
            initial value; None for 1.
        window_dilation: The distance between elements of the window; None for 1.
    """
    ones = (1,) * len(window)
    steps = tuple(strides) if strides is not None else ones
    pads = tuple((p[0], p[1]) for p in padding) if padding is not None else ((0, 0),) * len(window)
    base = tuple(base_dilation) if base_dilation is not None else ones
    spread = tuple(window_dilation) if window_dilation is not None else ones
    shape = []
    rows = zip(operands[0].type.shape, window, steps, pads, base, spread, strict=True)
    for size, width, step, (low, high), between, apart in rows:
        extent = low + (0 if size == 0 else (size - 1) * between + 1) + high
        reach = (width - 1) * apart + 1
        shape.append(0 if extent < reach else (extent - reach) // step + 1)
    config = {
        "window_dimensions": attrs.integers(window),
        "window_strides": attrs.integers(steps),
        "base_dilations": attrs.integers(base),
        "window_dilations": attrs.integers(spread),
        "padding": attrs.table(pads, 2),
    }
    types = [ranked(shape, init.type.element_type) for init in inits]
    regions = [(_scalars(inits) * 2, _pairwise(len(inits), body))]
    return op("stablehlo.reduce_window", (*operands, *inits), types, config, regions)


def select_and_scatter(
    operand: ir.Value,
    source: ir.Value,
    init: ir.Value,
    select: Callable[[ir.Value, ir.Value], ir.Value],
    combine: Callable[[ir.Value, ir.Value], ir.Value],
    *,
    window: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
) -> ir.Value:
    """Combines each source element into the result where `select` picks from the window.

    Args:
        operand: The array in whose windows positions are picked.
        source: One element per window.
        init: The scalar with which every element of the result begins.
        combine: Emits the combination of two scalars that fall on one position.
        window: The lengths of the window, per dimension.
        strides: How far the window moves, per dimension.
        padding: How many elements are added to the operand (before, after), per dimension.
        select: Emits a boolean for two elements of a window: whether the first is picked.
    """
    config = {
        "window_dimensions": attrs.integers(window),
        "window_strides": attrs.integers(strides),
        "padding": attrs.table(tuple((low, high) for low, high in padding), 2),
    }
    regions = [
        (_scalars((operand, operand)), lambda pair: [select(*pair)]),
        (_scalars((source, source)), lambda pair: [combine(*pair)]),
    ]
    operands = (operand, source, init)
    return op("stablehlo.select_and_scatter", operands, (operand.type,), config, regions)[0]


# ---- sorting and scattering ----------------------------------------------------------------------


def sort(operands: Values, dimension: int, stable: bool, comparator: Combine) -> list[ir.Value]:
    """Sorts along a dimension, all operands alike.

    The comparator gets the elements of the left and of the right position (one of each operand) and
    returns a list of one boolean: whether left goes before right.

    Args:
        dimension: The dimension along which elements are sorted.
        stable: Whether equal elements keep their order.
        comparator: Emits the comparison of two positions.
    """
    types = [kind for kind in _scalars(operands) for _ in range(2)]
    config = {"dimension": attrs.integer(dimension), "is_stable": attrs.boolean(stable)}
    # The region's arguments alternate: left and right of the first operand, then of the second, …
    region = (types, lambda pairs: comparator(pairs[::2], pairs[1::2]))
    return op("stablehlo.sort", operands, [value.type for value in operands], config, [region])


class ScatterDimensions(NamedTuple):
    """The dimension numbers of a scatter, named as in the StableHLO specification.

    Args:
        update_window_dims: The dimensions of the updates that run through a block.
        inserted_window_dims: The dimensions of the operand in which blocks have length 1 and which
            the updates do not have.
        input_batching_dims: The dimensions of the operand that are paired with those of the
            indices.
        scatter_indices_batching_dims: The dimensions of the indices that are paired with
            `input_batching_dims`.
        scatter_dims_to_operand_dims: The dimension of the operand that each component of an index
            belongs to.
        index_vector_dim: The dimension of the indices that holds the components; the rank where an
            index is one number.
    """

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


@functools.lru_cache(maxsize=4096)
def _scatter_numbers(dimensions: ScatterDimensions) -> ir.Attribute:
    return hlo.ScatterDimensionNumbers.get(*dimensions, context=context())


def scatter(
    operands: Values,
    indices: ir.Value,
    updates: Values,
    dimensions: ScatterDimensions,
    body: Combine,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> list[ir.Value]:
    """Combines updates into the operands at the listed positions; those out of bounds are dropped.
    `body(elements, updates)` is given two lists of scalars and returns one.

    Args:
        indices: The positions of blocks, integers along the dimension `index_vector_dim`.
        updates: The blocks that are combined into each operand.
        dimensions: Which dimensions of operands, indices and updates belong together.
        body: Emits the combination of an element with its update.
        indices_are_sorted: Whether the caller promises that the positions are in order.
        unique_indices: Whether the caller promises that no position occurs twice.
    """
    config = {
        "scatter_dimension_numbers": _scatter_numbers(dimensions),
        "indices_are_sorted": attrs.boolean(indices_are_sorted),
        "unique_indices": attrs.boolean(unique_indices),
    }
    types = [value.type for value in operands]
    regions = [(_scalars(operands) * 2, _pairwise(len(operands), body))]
    return op("stablehlo.scatter", (*operands, indices, *updates), types, config, regions)


# ---- control flow --------------------------------------------------------------------------------


def _without_arguments(branch: Callable[[], Values]) -> Callable[[list[ir.Value]], Values]:
    return lambda _: branch()


def case(
    index: ir.Value, branches: Sequence[Callable[[], Values]], result_types: Sequence[ir.Type]
) -> list[ir.Value]:
    """Runs branch number `index` (an int32 scalar); out of range, the last one.

    Branches take no arguments: they use the values around them, and return lists of values.

    Args:
        branches: What emits each branch; the result types of all are the same.
        index: The number of the branch, an int32 scalar.
    """
    regions = [((), _without_arguments(branch)) for branch in branches]
    return op("stablehlo.case", (index,), result_types, None, regions)


def if_(
    predicate: ir.Value,
    on_true: Callable[[], Values],
    on_false: Callable[[], Values],
    result_types: Sequence[ir.Type],
) -> list[ir.Value]:
    """Runs one of two branches, which take no arguments and return lists of values.

    Args:
        predicate: A boolean scalar.
        on_true: Emits the branch that runs where the predicate is true.
        on_false: Emits the other branch, with results of the same types.
    """
    regions = [((), _without_arguments(branch)) for branch in (on_true, on_false)]
    return op("stablehlo.if", (predicate,), result_types, None, regions)


def while_(
    operands: Values,
    condition: Callable[[list[ir.Value]], ir.Value],
    body: Callable[[list[ir.Value]], Values],
) -> list[ir.Value]:
    """Runs the body while the condition (a boolean scalar) holds; types stay the same.

    Both are given the list of values; the body returns the list of the next ones.

    Args:
        condition: Emits the condition from the list of values.
        body: Emits one step from the list of values.
    """
    types = [value.type for value in operands]
    regions = [(types, lambda state: [condition(state)]), (types, body)]
    return op("stablehlo.while", operands, types, None, regions)
