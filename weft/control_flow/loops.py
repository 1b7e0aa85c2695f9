"""The public loops `scan` and `map`, which is a scan without a carry."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array
from weft.control_flow.body_tracing import check_carry_structure, trace_loop_body
from weft.control_flow.in_python import in_python, run_scan
from weft.control_flow.loop_parts import Loop
from weft.control_flow.progress import ProgressArgument, Teller, teller_of
from weft.control_flow.scan import bind_scan
from weft.core.rules import AxisData
from weft.core.trace import Tracer
from weft.core.types import ArrayType, type_of, user_value
from weft.errors import (
    ConcretizationError,
    Fix,
    ShapeError,
    WeftTypeError,
    WeftValueError,
    api_boundary,
)
from weft.errors.argument_errors import invalid_type, invalid_value, not_an_array
from weft.interpreters.rounded_inputs import warn_of_rounding
from weft.interpreters.staging import check_function, check_results, function_name, leaf_paths
from weft.interpreters.vmap import vmap_flat
from weft.ops.elementwise.arithmetic import add, sub
from weft.ops.elementwise.convert import beside_float64
from weft.ops.indexing.creation import iota
from weft.ops.indexing.slicing import slice_in_dim
from weft.ops.structural.joining import concatenate
from weft.ops.structural.shape import move_dim, reshape
from weft.refs.discharge import (
    array_in,
    carried_reference_error,
    check_distinct,
    has_references,
    unusable,
)
from weft.refs.reference import Ref, contents, new_reference
from weft.typing import ArrayLike

Carry = TypeVar("Carry")
Y = TypeVar("Y")


@overload
def scan(
    f: Callable[[Array, Any], tuple[ArrayLike, Y]],
    init: ArrayLike,
    xs: Any = ...,
    length: int | None = ...,
    reverse: bool = ...,
    unroll: int | bool = ...,
    _split_transpose: bool = ...,
    *,
    progress: ProgressArgument = ...,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Callable[[Carry, Any], tuple[Carry, Y]],
    init: Any,
    xs: Any = ...,
    length: int | None = ...,
    reverse: bool = ...,
    unroll: int | bool = ...,
    _split_transpose: bool = ...,
    *,
    progress: ProgressArgument = ...,
) -> tuple[Carry, Y]: ...
@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
    *,
    progress: ProgressArgument = None,
) -> tuple[Any, Any]:
    """Runs `carry, y = f(carry, x)` along `xs`; returns the last carry and all `y`, stacked.

    The carry, each `x` and each `y` are any trees. `f` is traced once, and the loop can be
    differentiated in both modes.

    Args:
        f: The step, from the carry and an element of `xs` to the next carry and a result.
        init (tree of arrays): The first carry. The carry keeps its structure, shapes and dtypes;
            Python numbers in it take the dtype that comes out.
        xs (tree of arrays): Arrays with one leading length, along which the loop runs. None needs
            `length`, and `f` gets None.
        length: The number of steps; by default the leading length of `xs`.
        reverse: Whether it goes from the last element to the first, with each `y` at the index of
            its `x`.
        unroll: How many steps one round of the compiled loop takes (True or 0: all of them).
        _split_transpose: Changes nothing: it names a variant of JAX's backward loop, which computes
            the same.
        progress: Tells how far the loop is, in about a hundred updates: True writes lines to
            standard error, a text is their label, and a function is called as
            `progress(done, total)` instead. In derivatives it tells of the forward pass, and in a
            `shard_map` of the first device.

    Returns the last carry, and the results stacked along a new leading axis. Raises TreeError or
    WeftTypeError for a carry that changes (leaf by leaf), ShapeError for `xs` of different lengths,
    WeftValueError for a negative or missing length.

    >>> import weft, weft.numpy as jnp
    >>> weft.lax.scan(lambda total, x: (total + x, total), 0.0, jnp.arange(4.0))
    (Array(6., dtype=float32), Array([0., 0., 1., 3.], dtype=float32))
    """
    check_function("scan", f)
    return run_loop("scan", f, init, xs, length, reverse, unroll, teller_of("scan", f, progress))


def run_loop(
    what: str,
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
    teller: Teller | None = None,
) -> tuple[Any, Any]:
    """Runs `scan` under the name `what`, which error messages show."""
    name = check_function(what, f)
    if has_references(tree.leaves(xs)):
        return _scan_references(what, f, init, xs, length, reverse, unroll, teller)
    leaves, structure = tree.flatten((init, xs))
    init, xs = structure.unflatten(beside_float64(leaves))
    carry_leaves, carry_types, carry_tree = typed_leaves(what, name, "init", init)
    x_leaves, x_types, x_tree = typed_leaves(what, name, "xs", xs)
    length = _length(what, name, xs, x_types, length)
    if teller is not None and length:
        numbers = iota(dtypes.int32, length)
        f = _with_reports(teller, f, length, reverse)
        x_leaves, x_types = [numbers, *x_leaves], [type_of(numbers), *x_types]
        x_tree = tree.treedef_tuple((tree.structure(0), x_tree))
    if in_python() and length:
        return run_scan(what, f, init, x_tree.unflatten(x_leaves), length, bool(reverse))
    x_types = [t.update(shape=t.shape[1:]) for t in x_types]
    body = trace_loop_body(
        what,
        f,
        (carry_tree, x_tree),
        carry_types,
        x_types,
        lambda out_tree: _pair(what, name, out_tree, carry_tree),
    )
    n = len(carry_types)
    values = [*body.consts, *carry_leaves, *x_leaves]
    warn_of_rounding(f"{what} of {name}", body.jaxpr, values)
    pure = body.with_references()
    m = n + len(pure.refs)
    loop = Loop(length, bool(reverse), _unroll(what, unroll, length), len(pure.consts), m)
    carry = [*body.start(carry_leaves), *pure.arrays()]
    outs = bind_scan(pure.jaxpr, loop, pure.consts, carry, x_leaves)
    pure.write(outs[n:m])
    return carry_tree.unflatten(outs[:n]), body.out_tree.unflatten(outs[m:])


def _with_reports(
    teller: Teller, f: Callable[[Any, Any], tuple[Any, Any]], length: int, reverse: bool
) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A body that also gets the index of its step, and reports it when done."""
    total = np.int32(length)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        index, own = x
        result = f(carry, own)
        teller.step(sub(total, index) if reverse else add(index, np.int32(1)), total)
        return result

    step.__name__ = function_name(f)
    return step


def _scan_references(
    what: str, f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *how: Any
) -> tuple[Any, Any]:
    """Runs a loop over references: each step has references to its elements."""
    leaves, x_tree = tree.flatten(xs)
    names = [f"xs{path}" for path in leaf_paths(x_tree)]
    check_distinct(f"{what} of {function_name(f)}", leaves, lambda: names)
    places = [i for i, leaf in enumerate(leaves) if type(leaf) is Ref]
    refs = [leaves[i] for i in places]

    def step(carry: Any, values: Any) -> tuple[Any, Any]:
        elements = list(values)
        for i in places:
            elements[i] = new_reference(elements[i])
        with unusable(refs):
            out = f(carry, x_tree.unflatten(elements))
        if not isinstance(out, tuple) or len(out) != 2:
            return out  # which the loop refuses
        return out[0], (out[1], [contents(elements[i]) for i in places])

    step.__name__ = function_name(f)
    carry, (ys, last) = run_loop(what, step, init, [array_in(x) for x in leaves], *how)
    for ref, value in zip(refs, last, strict=True):
        ref[...] = value
    return carry, ys


def typed_leaves(
    what: str, name: str, which: str, value: Any
) -> tuple[list[Any], list[ArrayType], Any]:
    """The leaves, types and structure of a tree. Raises WeftTypeError naming a wrong leaf."""
    leaves, structure = tree.flatten(value)
    leaves = [user_value(x) for x in beside_float64(leaves)]
    types = []
    for i, leaf in enumerate(leaves):
        try:
            types.append(type_of(leaf))
        except WeftTypeError:
            path, _ = tree.leaves_with_path(value)[i]
            if type(leaf) is Ref:
                raise carried_reference_error(
                    what, name, f"{which}{tree.keystr(path)}", leaf
                ) from None
            title = f"{what} of {name}: {which}{tree.keystr(path)}"
            raise not_an_array(what, title, leaf) from None
    return leaves, types, structure


def no_axis(title: str, type: ArrayType) -> ShapeError:
    """The error for an array without the axis of a loop."""
    wanted = "an array with at least one dimension"
    fix = Fix("stack", "stack the values of all steps: weft.numpy.stack([x0, x1])")
    return ShapeError(f"{title} has no axis to go along", got=str(type), wanted=wanted, fix=fix)


def _length(what: str, name: str, xs: Any, types: Sequence[ArrayType], length: int | None) -> int:
    """The number of steps. Raises ShapeError or WeftValueError if it is not clear."""
    paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(xs)]
    for path, type in zip(paths, types, strict=True):
        if not type.shape:
            raise no_axis(f"{what} of {name}: xs{path}", type)
    lengths = {type.shape[0] for type in types}
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError as error:
            message = f"{what} of {name}: the length is a Python integer"
            wanted = "an int, known when the loop is traced"
            fix = Fix("static", "pass a Python int, or use weft.lax.while_loop")
            kind = ConcretizationError if isinstance(length, Tracer) else WeftTypeError
            got = f"length={length!r:.80}"
            raise kind(message, got=got, wanted=wanted, fix=fix) from error
        if length < 0:
            message, wanted = f"{what} of {name}: the length is negative", "a length of at least 0"
            fix = Fix("length", f"pass {wanted}", {"length": 0})
            raise invalid_value(message, what, "length", length, wanted, fix=fix)
        lengths.add(length)
    if len(lengths) > 1:
        lines = "".join(f"\n    xs{p}: {t}" for p, t in zip(paths, types, strict=True))
        given = f"\n    length: {length}" if length is not None else ""
        text = f"{what} of {name}: the lengths differ"
        got = f"leading lengths {sorted(lengths)}{lines}{given}"
        expected = "one length for all of xs" + (" and `length`" if length is not None else "")
        alike = len({type.shape[0] for type in types}) == 1
        advice = Fix("same_length", "cut or pad the arrays to one leading length")
        if alike:
            advice = Fix("length", f"leave length out, or cut the arrays to {length}")
        raise ShapeError(text, got=got, wanted=expected, fix=advice)
    if not lengths:
        scans = what == "scan"
        text = f"{what} of {name}: nothing says how many steps there are"
        got = "xs without arrays" + (", and no length" if scans else "")
        expected = "length=, or arrays in xs" if scans else "arrays in xs"
        advice = Fix("length", "pass length=…" if scans else "use weft.lax.scan with length=…")
        raise WeftValueError(text, got=got, wanted=expected, fix=advice)
    return lengths.pop()


def _unroll(what: str, unroll: int | bool, length: int) -> int:
    if unroll is True or (unroll is not False and unroll == 0):
        return max(1, length)
    steps = 1 if unroll is False else _positive(what, "unroll", unroll, "an int or a bool")
    return max(1, min(steps, length))


def _positive(what: str, name: str, value: Any, wanted: str) -> int:
    """A positive integer argument. Raises WeftTypeError or WeftValueError for another."""
    try:
        number = operator.index(value)
    except TypeError as error:
        known = "a number that is known when the loop is traced"
        raise invalid_type(f"{what}: {name} is {wanted}", what, name, value, known, 1) from error
    if number == 0 and config.lenient():
        return 1
    if number < 1:
        positive = f"{wanted}, positive where it is a number"
        raise invalid_value(f"{what}: {name} is at least 1", what, name, value, positive, 1)
    return number


def _pair(what: str, name: str, out_tree: Any, carry_tree: Any) -> Any:
    """The structure of the stacked results. Raises if the body returns no (carry, y)."""
    node = out_tree.node_data()
    children = out_tree.children()
    if node is None or node[0] is not tuple or len(children) != 2:
        message = f"{what} of {name}: the body has to return a pair (carry, y)"
        got = f"a result of structure {out_tree}"
        wanted = "a tuple of two: the carry, and what is stacked (None for nothing)"
        fix = Fix("pair", "return (carry, None) where nothing is stacked")
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    check_carry_structure(what, name, carry_tree, children[0])
    return children[1]


@api_boundary
def map(f: Callable[[Any], Y], xs: Any, *, batch_size: int | None = None) -> Y:
    """Applies `f` to each element along the leading axis of `xs` in turn, and stacks the results.

    As `weft.vmap(f)(xs)`, in the memory of one application. Errors are those of `scan`.

    Args:
        f: The function of one element.
        xs (tree of arrays): Arrays with one leading length.
        batch_size: How many elements are computed together, in the memory of that many
            applications; None for one at a time.

    >>> import weft, weft.numpy as jnp
    >>> weft.lax.map(lambda x: x * x, jnp.arange(4.0))
    Array([0., 1., 4., 9.], dtype=float32)
    """
    name = check_function("map", f)
    leaves, types, in_tree = typed_leaves("map", name, "xs", xs)
    length = _length("map", name, xs, types, None)
    if batch_size is None:
        return _map_elements(f, leaves, in_tree, length)
    size = _positive("map", "batch_size", batch_size, "an int or None")
    rounds, left = divmod(length, size)
    parts = []
    if rounds or not length:
        whole = [_rows(x, 0, rounds * size) for x in leaves]
        chunks = [reshape(x, (rounds, size, *type_of(x).shape[1:])) for x in whole]
        stacked = _map_elements(_vectorize(f, size), chunks, in_tree, rounds)
        parts.append(
            tree.map(lambda y: reshape(y, (rounds * size, *type_of(y).shape[2:])), stacked)
        )
    if left:
        rest = in_tree.unflatten([_rows(x, rounds * size, length) for x in leaves])
        parts.append(_vectorize(f, left)(rest))
    if len(parts) == 1:
        return parts[0]
    return tree.map(lambda *ys: concatenate(ys, 0), *parts)


def _rows(x: Any, start: int, stop: int) -> Any:
    return x if (start, stop) == (0, type_of(x).shape[0]) else slice_in_dim(x, start, stop)


def _map_elements(f: Callable[..., Any], leaves: Any, in_tree: Any, length: int) -> Any:
    name = function_name(f)

    def body(_: None, x: Any) -> tuple[None, Any]:
        out = f(x)
        check_results(out, tree.leaves(out), f"map of {name}")
        return None, out

    body.__name__ = name
    return run_loop("map", body, None, in_tree.unflatten(leaves), length, False, 1)[1]


def _vectorize(f: Callable[..., Any], size: int) -> Callable[..., Any]:
    """`f` vectorized over `size` elements."""
    name = function_name(f)

    def batched(xs: Any) -> Any:
        leaves, in_tree = tree.flatten(xs)
        trees: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            out = f(in_tree.unflatten(values))
            outs, out_tree = tree.flatten(out)
            trees.append(out_tree)
            return check_results(out, outs, f"map of {name}")

        outs, dims = vmap_flat(flat, AxisData(None, size), leaves, [0] * len(leaves), name)
        moved = [move_dim(x, d, 0, size) for x, d in zip(outs, dims, strict=True)]
        return trees[-1].unflatten(moved)

    batched.__name__ = name
    return batched
