"""`vmap` for users: mapping a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ParamSpec, TypeVar

from weft import tree
from weft.base.util import like
from weft.core.rules import AxisData
from weft.core.types import type_of, user_value
from weft.errors import (
    AxisError,
    Fix,
    ShapeError,
    WeftError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.errors.argument_errors import invalid_value, not_a_function, not_an_array
from weft.interpreters.staging import check_results, function_name
from weft.interpreters.vmap import vmap_flat
from weft.interpreters.vmappable import (
    VmappableValue,
    closed,
    element,
    spec_types,
    vmappables,
    whole,
)
from weft.ops.elementwise.convert import beside_float64
from weft.ops.structural.shape import move_dim
from weft.refs.discharge import array_in, boxed_call, has_references
from weft.refs.reference import Ref, new_ref
from weft.tracing.argument_names import argument_path

# Classes of tree nodes that keep a shape beside their arrays, as sparse arrays do: for each what
# makes of a node, mapped along an axis, one element, and of an element the whole of a length.
mapped_classes: dict[type, tuple[Callable[[Any, int], Any], Callable[[Any, int, int], Any]]] = {}

P = ParamSpec("P")
R = TypeVar("R")


def _change_nodes(values: Any, dims: Sequence[int | None], change: Callable[..., Any]) -> Any:
    """A tree with `change(node, axis)` for each node of a class in `mapped_classes` that is mapped,
    given the axis of every leaf of the tree."""
    nodes, structure = tree.flatten(values, is_leaf=lambda x: type(x) in mapped_classes)
    changed, place = [], 0
    for node in nodes:
        axis = None
        if type(node) in mapped_classes:
            count = len(tree.leaves(node))
            axis = next((d for d in dims[place : place + count] if d is not None), None)
            place += count
        else:
            place += 1
        changed.append(node if axis is None else change(node, axis))
    return structure.unflatten(changed)


def _structure_of_all(out: Any, out_tree: Any, out_axes: Any, name: str, size: int) -> Any:
    """The structure of the stacked results, given one element's."""
    if not mapped_classes:
        return out_tree
    dims = result_axes("vmap", name, out_axes, out_tree)
    return tree.structure(
        _change_nodes(out, dims, lambda node, axis: mapped_classes[type(node)][1](node, size, axis))
    )


def _wholes(outs: Sequence[Any], out_axes: Any, out_tree: Any, name: str) -> dict[int, Any]:
    """The results of classes of `register_vmappable`, for all elements, by position."""
    places = [i for i, x in enumerate(outs) if type(x) is VmappableValue]
    specs = result_axes("vmap", name, out_axes, out_tree) if places else []

    def move(out: Any, old: int | None, new: Any, size: int) -> Any:
        return _move_result(out, old, new, size, name, False)

    return {i: whole(outs[i], specs[i], move) for i in places}


class _MappedResults:
    """The results of a mapped function for one element, and how they are stacked."""

    out_tree: Any
    made: set[int]
    wholes: dict[int, Any]

    def __init__(self, out_axes: Any, name: str, size: int) -> None:
        self.out_axes, self.name, self.size = out_axes, name, size
        self.wholes = {}

    def of_element(self, out: Any) -> list[Any]:
        """The arrays among the results for one element, in the trace that maps."""
        outs, out_tree = tree.flatten(closed(out))
        self.out_tree = _structure_of_all(out, out_tree, self.out_axes, self.name, self.size)
        self.made = {i for i, x in enumerate(outs) if type(x) is Ref}
        if vmappables:
            self.wholes = _wholes(outs, self.out_axes, out_tree, self.name)
        arrays = [0 if i in self.wholes else array_in(x) for i, x in enumerate(outs)]
        return check_results(out, arrays, f"vmap of {self.name}")

    def of_all(self, outs: Sequence[Any], dims: Sequence[int | None]) -> Any:
        """The tree of results for all elements, of arrays and of their mapped dimensions."""
        wanted = result_axes("vmap", self.name, self.out_axes, self.out_tree)
        rows = enumerate(zip(outs, dims, wanted, strict=True))
        return self.out_tree.unflatten(
            [
                self.wholes[i]
                if i in self.wholes
                else _move_result(*row, self.size, self.name, i in self.made)
                for i, row in rows
            ]
        )


def _is_axis(value: Any) -> bool:
    return value is None or isinstance(value, int) or type(value) in spec_types


@api_boundary
def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[P, R]:
    """A function that maps `fun` over an axis of its arguments.

    Keyword arguments are mapped along axis 0.

    Args:
        fun: The function of one element.
        in_axes: The axis of each argument that is mapped: an int, None (not mapped), or a tuple
            with one entry per positional argument, each a tree prefix of ints and None. A negative
            axis counts from the end.
        out_axes: The axis of each result along which the elements are stacked: a tree prefix of
            ints and None (one value, equal for all elements).
        axis_name: A name of the axis, for collectives in `fun`.
        axis_size: The length of the axis; needed where no argument is mapped.
        spmd_axis_name: The mesh axis, or axes, over which the mapped axis is split inside of
            sharding constraints in `fun`.

    Raises ShapeError where mapped axes differ in length, TreeError where a prefix does not fit.

    >>> import weft, weft.numpy as jnp
    >>> weft.vmap(lambda x, y: x @ y, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2))
    Array([2., 2., 2.], dtype=float32)
    """
    if not callable(fun):
        raise not_a_function("vmap", fun)
    in_axes = checked_axes("vmap", in_axes)
    check_axes("vmap", "out_axes", out_axes)
    name = function_name(fun)

    @api_boundary("vmap")
    def mapped(*args: P.args, **kwargs: P.kwargs) -> R:
        given = closed((args, kwargs))
        leaves, in_tree = tree.flatten(given)
        if has_references(leaves):
            how = (axis_name, axis_size, spmd_axis_name)
            return _over_references(fun, in_axes, out_axes, how, leaves, in_tree)
        leaves = [user_value(x) for x in beside_float64(leaves)]
        dims, size = mapped_axes("vmap", fun, in_axes, given, leaves, axis_size)
        specs = {i: dims[i] for i, x in enumerate(leaves) if type(x) is VmappableValue}
        dims = [None if i in specs else dim for i, dim in enumerate(dims)] if specs else dims
        results = _MappedResults(out_axes, name, size)

        def flat(*values: Any) -> list[Any]:
            if specs:
                elements = enumerate(values)
                values = tuple(element(x, specs[i]) if i in specs else x for i, x in elements)
            inner_args, inner_kwargs = in_tree.unflatten(values)
            if mapped_classes:
                inner_args, inner_kwargs = _change_nodes(
                    (inner_args, inner_kwargs),
                    dims,
                    lambda node, axis: mapped_classes[type(node)][0](node, axis),
                )
            return results.of_element(_call_for_element(fun, inner_args, inner_kwargs))

        axis = AxisData(axis_name, size, spmd_axis_name)
        result: R = results.of_all(*vmap_flat(flat, axis, leaves, dims, name))
        return result

    return like(fun, mapped)


def _call_for_element(fun: Callable[..., R], args: Any, kwargs: Any) -> R:
    """The result of the function for one element; errors name their argument."""
    try:
        return fun(*args, **kwargs)
    except WeftError as error:
        for path, value in tree.leaves_with_path((args, kwargs)):
            if error._tracer is not None and value is error._tracer:
                error.got = value.origin(argument_path(fun, path))
        raise


def _over_references(
    fun: Callable[..., R],
    in_axes: Any,
    out_axes: Any,
    how: tuple[Any, ...],
    leaves: Sequence[Any],
    in_tree: Any,
) -> R:
    """`vmap` where references are among the arguments: a mapped one is a reference to an element,
    and one that is not mapped is handed on."""
    arrays = in_tree.unflatten([array_in(x) for x in leaves])
    values = tree.leaves(arrays)
    dims, _ = mapped_axes("vmap", fun, in_axes, arrays, values, how[1])
    kept = [i for i, dim in enumerate(dims) if dim is None and type(leaves[i]) is Ref]

    def called(args: Any, kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    called.__name__ = function_name(fun)
    call = boxed_call("vmap", called, leaves, in_tree, kept=kept)
    results = (out_axes, [dims[i] for i in call.places])
    function = vmap(lambda *given: call.function(given), tuple(dims), results, *how)
    out, last = function(*values)
    call.write(last)
    result: R = out
    return result


def checked_axes(transformation: str, in_axes: Any) -> Any:
    """Checks in_axes as `check_axes` does; a list is one entry per argument, as a tuple is."""
    in_axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    check_axes(transformation, "in_axes", in_axes)
    return in_axes


def check_axes(transformation: str, what: str, spec: Any) -> None:
    """Raises WeftTypeError for in_axes or out_axes that are no trees of ints and None."""
    for leaf in tree.leaves(spec, is_leaf=_is_axis):
        if not _is_axis(leaf) or isinstance(leaf, bool):
            message = f"{transformation} takes ints and None in {what}"
            got = f"{leaf!r} in {what}={spec!r}"
            raise WeftTypeError(message, got=got, wanted="ints and None")


def mapped_axes(
    transformation: str,
    fun: Any,
    in_axes: Any,
    inputs: tuple[Any, dict[str, Any]],
    leaves: Sequence[Any],
    axis_size: int | None,
) -> tuple[list[int | None], int]:
    """The mapped dimension of every leaf of the inputs (args, kwargs), counted from the front, and
    the common length of the mapped axes."""
    operation, count = f"{transformation} of {function_name(fun)}", len(inputs[0])
    if isinstance(in_axes, tuple) and len(in_axes) != count:
        entries = f"in_axes has {len(in_axes)} entries"
        message = f"{operation}: {entries} and the call has {count} positional arguments"
        fix = Fix("in_axes", f"give in_axes {count} entries", {"count": count})
        wanted = "one entry per positional argument, or one int for all"
        raise invalid_value(message, transformation, "in_axes", in_axes, wanted, fix=fix)
    dims = tree.prefix_leaves(f"{operation}: in_axes", in_axes, inputs[0], is_leaf=_is_axis)
    dims = [*dims, *[0] * (len(leaves) - len(dims))]

    def named(i: int) -> str:
        return argument_path(fun, tree.leaves_with_path(inputs)[i][0])

    sizes: list[tuple[int, int]] = []
    found: list[int | None] = []
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            found.append(None)
            continue
        if type(leaf) is VmappableValue:
            found.append(dim)
            sizes += [(i, length) for length in leaf.lengths(dim)]
            continue
        try:
            shape = type_of(leaf).shape
        except WeftTypeError as error:
            wanted = "an array (or None as its entry of in_axes)"
            what = f"{operation}: {named(i)}"
            raise not_an_array(transformation, what, leaf, wanted) from error
        if not -len(shape) <= dim < len(shape):
            message = f"{operation}: {named(i)} has no axis {dim}"
            got = f"an array of shape {shape} and in_axes entry {dim}"
            wanted = "an axis of the array, or None for an argument that is not mapped"
            others = any(d is not None for d in (*dims[:i], *dims[i + 1 :]))
            fix = _other_axis(i, len(shape), others)
            raise AxisError(message, got=got, wanted=wanted, fix=fix)
        found.append(dim % len(shape))
        sizes.append((i, shape[dim]))
    if axis_size is not None:
        sizes.append((-1, axis_size))
    if not sizes:
        raise _no_mapped_error(operation)
    if len({size for _, size in sizes}) > 1:
        lines = [f"\n    {named(i) if i >= 0 else 'axis_size'}: {size}" for i, size in sizes]
        message = f"{operation}: the mapped axes have different lengths"
        got = f"lengths{''.join(lines)}"
        raise ShapeError(message, got=got, wanted="one length")
    return found, sizes[0][1]


def _no_mapped_error(operation: str) -> WeftValueError:
    got = "in_axes without an int (or no arrays)"
    wanted = "at least one mapped argument, or axis_size"
    fix = Fix("axis_size", "pass axis_size=…, or an int in in_axes")
    return WeftValueError(f"{operation}: no argument is mapped", got=got, wanted=wanted, fix=fix)


def _other_axis(argument: int, ndim: int, others: bool) -> Fix:
    """The fix for an array without its axis; `others`: whether others are mapped, which decides the
    meaning of None."""
    if ndim:
        axis = "0" if ndim == 1 else f"an axis from 0 to {ndim - 1}"
        return Fix("in_axes", f"pass {axis} for it in in_axes", {"argument": argument, "axis": 0})
    how = "pass None for it in in_axes" + ("" if others else ", and axis_size=…")
    return Fix("in_axes", how, {"argument": argument, "axis": None})


def result_axes(transformation: str, name: str, out_axes: Any, out_tree: Any) -> list[int | None]:
    """The dimension of every leaf of the results in which they are stacked."""
    operation = f"{transformation} of {name}"
    example = out_tree.unflatten([0] * out_tree.num_leaves)
    return list(tree.prefix_leaves(f"{operation}: out_axes", out_axes, example, is_leaf=_is_axis))


def _move_result(
    out: Any, old: int | None, new: int | None, size: int, name: str, is_reference: bool
) -> Any:
    if new is None:
        if old is not None:
            message = (
                f"vmap of {name}: a result that out_axes calls None depends on a mapped argument"
            )
            got, wanted = f"a mapped result of type {type_of(out)}", "an int in out_axes for it"
            fix = Fix("out_axes", "give the result an axis in out_axes")
            raise WeftValueError(message, operation="vmap", got=got, wanted=wanted, fix=fix)
        return new_ref(out) if is_reference else out
    ndim = type_of(out).ndim + (old is None)
    if not -ndim <= new < ndim:
        message = f"vmap of {name}: out_axes={new} and the result has {ndim} axes"
        got = f"out_axes entry {new}"
        raise AxisError(message, got=got, wanted=f"{-ndim} to {ndim - 1}")
    moved = move_dim(out, old, new % ndim, size)
    return new_ref(moved) if is_reference else moved
