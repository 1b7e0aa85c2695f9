"""`associative_scan`: all prefixes of an associative combination, in logarithmically many steps.

Neighbours are combined in pairs, the pairs are scanned in the same way, and each result in between
takes one more combination: Ladner and Fischer, "Parallel prefix computation" (JACM 1980). It
consists of slices and calls of the user's function, so every transformation applies to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft import config, tree
from weft.arrays.conversion import as_array
from weft.control_flow.loops import no_axis, typed_leaves
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, ShapeError, TreeError, WeftTypeError, api_boundary
from weft.interpreters.staging import check_function, check_results
from weft.ops.indexing.slicing import slice
from weft.ops.structural.joining import concatenate, rev
from weft.ops.structural.shape import canonical_axis, reshape

T = TypeVar("T")

Elements = list[Any]


@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: T, reverse: bool = False, axis: int = 0
) -> T:
    """Returns `fn(… fn(fn(e0, e1), e2) …, ei)` for each i along an axis of `elems`.

    `fn` is called once per level of the tree of combinations, 2 log2(n) times.

    Args:
        fn: An associative function. It takes two trees like `elems`, with any number of elements
            along the axis, and combines them element by element.
        elems: A tree of arrays that have one length along the axis.
        reverse: Whether the combinations begin at the end.
        axis: The axis of all arrays.

    Raises ShapeError for lengths that differ, TreeError or WeftTypeError for a function that
    changes structure, shapes or dtypes; under `argument_rule="jax"` results of another structure
    with as many leaves are taken leaf by leaf.

    >>> import weft, weft.numpy as jnp
    >>> weft.lax.associative_scan(jnp.add, jnp.arange(5))
    Array([ 0,  1,  3,  6, 10], dtype=int32)
    """
    name = check_function("associative_scan", fn, wanted="a function of two trees")
    leaves, types, structure = typed_leaves("associative_scan", name, "elems", elems)
    leaves = [x if isinstance(x, Tracer) else as_array(x) for x in leaves]
    axes = [_axis(elems, i, t, axis) for i, t in enumerate(types)]
    if not leaves:
        return elems
    lengths = {t.shape[a] for t, a in zip(types, axes, strict=True)}
    if len(lengths) > 1:
        paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(elems)]
        message = f"associative_scan of {name}: the arrays have different lengths along axis {axis}"
        got = "".join(f"\n    elems{p}: {t}" for p, t in zip(paths, types, strict=True))
        fix = Fix("same_length", "cut or pad the arrays to one length")
        raise ShapeError(message, got=got, wanted="one length along the axis", fix=fix)
    length = lengths.pop()

    def combine(left: Elements, right: Elements) -> Elements:
        return _combine(fn, name, structure, left, right)

    def turned(values: Elements) -> Elements:
        return [rev(x, (a,)) for x, a in zip(values, axes, strict=True)] if reverse else values

    return structure.unflatten(turned(_prefixes(combine, turned(leaves), axes, length)))


def _axis(elems: Any, i: int, type: ArrayType, axis: int) -> int:
    if not type.shape:
        path, _ = tree.leaves_with_path(elems)[i]
        raise no_axis(f"associative_scan: elems{tree.keystr(path)}", type)
    return canonical_axis(axis, type.ndim, "associative_scan")


def _combine(
    fn: Callable[[Any, Any], Any], name: str, structure: Any, left: Elements, right: Elements
) -> Elements:
    """Calls the user's function and checks that its results have the arguments' types."""
    out = fn(structure.unflatten(left), structure.unflatten(right))
    outs, out_tree = tree.flatten(out)
    if out_tree != structure and not (config.lenient() and len(outs) == structure.num_leaves):
        message = f"associative_scan: {name} returns another structure than it takes"
        fix = Fix("same_structure", "return the structure of one argument")
        raise TreeError(message, got=str(out_tree), wanted=str(structure), fix=fix)
    outs = check_results(out, outs, f"associative_scan of {name}")
    for (path, x), given in zip(tree.leaves_with_path(out), right, strict=True):
        got, wanted = type_of(x), type_of(given)
        if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
            raise WeftTypeError(
                f"associative_scan: {name} returns another type than it takes at "
                f"result{tree.keystr(path)}",
                got=str(got),
                wanted=str(wanted),
                fix=Fix("convert", "combine element by element, in the dtype of elems"),
            )
    return outs


def _prefixes(
    combine: Callable[[Elements, Elements], Elements],
    elems: Elements,
    axes: Sequence[int],
    length: int,
) -> Elements:
    if length < 2:
        return elems
    pairs = combine(_part(elems, axes, 0, length - 1, 2), _part(elems, axes, 1, length, 2))
    odd = _prefixes(combine, pairs, axes, length // 2)
    even = _part(elems, axes, 2, length, 2)
    if length > 2:
        before = odd if length % 2 else _part(odd, axes, 0, length // 2 - 1)
        even = combine(before, even)
    first = _part(elems, axes, 0, 1)
    even = [concatenate([x, y], a) for x, y, a in zip(first, even, axes, strict=True)]
    return [_interleave(x, y, a) for x, y, a in zip(even, odd, axes, strict=True)]


def _part(elems: Elements, axes: Sequence[int], start: int, stop: int, step: int = 1) -> Elements:
    return [_slice_along(x, a, start, stop, step) for x, a in zip(elems, axes, strict=True)]


def _slice_along(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    shape = type_of(x).shape
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = min(start, stop), stop, step
    return slice(x, starts, stops, steps)


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """Puts `even` at even indices and `odd` (as many, or one fewer) at odd ones."""
    a, b = type_of(even), type_of(odd)
    if a.shape[axis] > b.shape[axis]:
        odd = concatenate([odd, _slice_along(even, axis, 0, 1)], axis)
    shape = [*a.shape[: axis + 1], 1, *a.shape[axis + 1 :]]
    both = concatenate([reshape(even, shape), reshape(odd, shape)], axis + 1)
    joined = reshape(both, [*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :]])
    return _slice_along(joined, axis, 0, a.shape[axis] + b.shape[axis])
