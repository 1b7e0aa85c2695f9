"""Collectives that combine: sums and extrema along named axes, and the position along one.

The axis is that of a vmap (or of a mesh of devices). The vmap rule of the axis turns the operation
into a reduction of the mapped dimension; of several names it removes its own and leaves the others
to theirs.

A sum over an axis along which a value varies by type is equal on all devices, and so transposes to
`pbroadcast`, a mere change of type; along an axis of a vmap, which types do not show, it is a
linear map whose matrix is symmetric, and transposes to itself.

Sums of many values between devices in few all-reduces.

Reverse mode sums the cotangent of every replicated input. An all-reduce costs time before it sends
anything, so values of one dtype are joined and summed together, in buckets of a limited size: those
of Li et al. (2020), "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

An all-reduce of several operands would need no joining, and XLA has one; but inside of a manual
computation of Shardy it refuses it (jaxlib 0.10.2: "Sharding is tuple-shaped but validation shape
is not").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.base import source as sources
from weft.core import rules
from weft.core.access_pattern import same_dims, same_moves
from weft.core.axes import bound_axis, mesh_axes
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import AxisError, Fix
from weft.errors.argument_errors import invalid_value
from weft.ops.collectives.named_axes import (
    Groups,
    Names,
    along_axis,
    axes_and_groups,
    axis_names,
    axis_sizes_of,
    bind_checked,
    check_varies,
    collective_jvp,
    group_size,
    groups_and_channel,
    mesh_position,
    reduce_complex_parts,
    same_along,
    silent,
)
from weft.ops.declare import linear_primitive, primitive
from weft.ops.elementwise.arithmetic import add, div, eq, mul
from weft.ops.elementwise.convert import convert_element_type
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import full, iota
from weft.ops.reductions.reduce import check_dtype, reduce_max, reduce_min, restore_axes
from weft.ops.structural.extended_dtypes import view_lower
from weft.ops.structural.joining import concatenate, split
from weft.ops.structural.narrow import accumulator
from weft.ops.structural.shape import reduce_sum, reshape
from weft.ops.structural.tangents import zeros
from weft.runtime import stablehlo, stablehlo_collectives

T = TypeVar("T")

_STATIC = (bool, int, float, complex, np.generic)


def psum(x: T, axis_name: Any, *, axis_index_groups: Any = None) -> T:
    """Sums a value over a named axis, or several; trees of arrays are summed leaf by leaf.

    A Python number stands for that number everywhere, so that `psum(1, name)` is the length of the
    axis, as an int. Booleans count as integers. `axis_index_groups` splits the axis into groups of
    equal size that are summed apart. Raises UnboundAxisError for a name that is not bound, and
    AxisError for a value that is equal on all devices along a mesh axis: it may have been summed
    already.

    >>> weft.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([3., 3.], dtype=float32)
    """
    names, sizes, groups = axes_and_groups("psum", axis_name, axis_index_groups)
    return tree.map(lambda leaf: _psum("psum", leaf, names, sizes, groups), x)


def _psum(operation: str, x: Any, names: Names, sizes: tuple[int, ...], groups: Groups) -> Any:
    if isinstance(x, _STATIC):
        count = group_size(groups, sizes)
        if isinstance(x, np.generic) and not isinstance(x, np.bool_):
            return x.dtype.type(x.item() * count)
        return (x.item() if isinstance(x, np.bool_) else x) * count
    if type_of(x).dtype == dtypes.bool_:
        x = convert_element_type(x, dtypes.default_int())
    if not names:
        return x
    check_varies(operation, type_of(x), names)
    x = cast_operand(operation, x, names)
    total = bind_checked(psum_p, x, axis_name=names, axis_index_groups=groups)
    # The cotangents of what counts as varying are summed, as JAX sums them there.
    untyped = {axis.name for axis in mesh_axes() if axis.untyped}
    return vary(total, untyped.intersection(names)) if untyped else total


def pmean(x: T, axis_name: Any, *, axis_index_groups: Any = None) -> T:
    """Returns the mean of a value over a named axis, or several; integers are converted first.

    Arguments and errors are those of `psum`.

    >>> weft.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([1.5, 1.5], dtype=float32)
    """
    names, sizes, groups = axes_and_groups("pmean", axis_name, axis_index_groups)
    count = group_size(groups, sizes)

    def mean(leaf: Any) -> Any:
        if isinstance(leaf, (bool, int, float, complex)):
            return leaf * 1.0
        if type_of(leaf).dtype not in dtypes.INEXACT:
            dtype = dtypes.default_float()
            static = isinstance(leaf, np.generic)
            leaf = dtype.type(leaf) if static else convert_element_type(leaf, dtype)
        of = type_of(leaf)
        # The sum of float16 numbers may overflow. That of bfloat16 ones does not, and the devices
        # send half the bytes.
        if of.dtype == dtypes.float16:
            leaf = convert_element_type(leaf, dtypes.float32)
        total = _psum("pmean", leaf, names, sizes, groups)
        working = accumulator(type_of(total).dtype)
        out = div(convert_element_type(total, working), working.type(count))
        return convert_element_type(out, of.dtype, of.weak_type)

    return tree.map(mean, x)


def reducing_type(name: str, accepts: frozenset[Any]) -> Callable[..., ArrayType]:
    """The type rule of psum, pmax and pmin."""

    def rule(x: ArrayType, *, axis_name: Names, axis_index_groups: Groups) -> ArrayType:
        check_dtype(name, x, accepts)
        # With groups it still varies.
        return x if axis_index_groups is not None else x.update(varying=x.varying - set(axis_name))

    return rule


def reducing_lower(combine: str) -> Callable[..., Any]:
    """The lowering of psum, pmax and pmin along axes of a mesh: an all-reduce."""

    def lower(context: Any, x: Any, *, axis_name: Names, axis_index_groups: Groups) -> Any:
        groups, channel = groups_and_channel(context, axis_name, axis_index_groups)
        return reduce_complex_parts(
            context,
            x,
            lambda value, _: stablehlo_collectives.all_reduce(
                [value], groups, channel, lambda a, b: stablehlo.op1(combine, (a, b), a.type)
            )[0],
        )

    return lower


def psum_transpose(ct: Any, x: Any, *, axis_name: Names, axis_index_groups: Groups) -> list[Any]:
    if axis_index_groups is not None:
        return [psum_p.bind(ct, axis_name=axis_name, axis_index_groups=axis_index_groups)]
    mapped = tuple(name for name in axis_name if name not in x.type.varying)
    if mapped:
        ct = psum_p.bind(ct, axis_name=mapped, axis_index_groups=None)
    return [vary(ct, x.type.varying & set(axis_name))]


def reducing_vmap(
    kind: Primitive,
    reduce: Callable[[Any, Sequence[int]], Any],
    of_equal: Callable[[Any, int], Any] = lambda x, count: x,
) -> Callable[..., tuple[Any, int | None]]:
    """The vmap rule of psum, pmax and pmin; `of_equal` reduces so many copies of a value."""

    def vmap(
        axis: AxisData, args: Values, dims: Dims, *, axis_name: Names, axis_index_groups: Groups
    ) -> tuple[Any, int | None]:
        (x,), (dim,) = args, dims
        groups = axis_index_groups
        if axis.name in axis_name:
            if dim is None:
                x = of_equal(x, group_size(groups, (axis.size,)))
            elif groups is not None:
                return along_axis(axis, x, dim, groups, _repeat_result(reduce))
            else:
                x, dim = reduce(x, (dim,)), None
            axis_name, groups = _without(axis_name, axis.name), None
        if axis_name:
            x = kind.bind(x, axis_name=axis_name, axis_index_groups=groups)
        return x, dim

    return vmap


def _without(names: Names, name: Any) -> Names:
    return tuple(other for other in names if other != name)


def _repeat_result(reduce: Callable[[Any, Sequence[int]], Any]) -> Callable[[Any, int], Any]:
    """Makes a reduction of a dimension repeat its result along that dimension."""

    def core(whole: Any, lead: int) -> Any:
        return restore_axes(reduce(whole, (lead,)), type_of(whole).shape, (lead,))

    return core


psum_p = Primitive("psum")
primitive(
    psum_p,
    type_rule=reducing_type("psum", dtypes.NUMERIC),
    jvp=collective_jvp(psum_p),
    transpose=psum_transpose,
    vmap=reducing_vmap(psum_p, reduce_sum, lambda x, count: mul(x, type_of(x).dtype.type(count))),
    lower=reducing_lower("stablehlo.add"),
    linear=True,
    flops="none",
)


def pbroadcast(x: T, axis_name: Any, source: int | None = None) -> T:
    """Casts a value that is equal along axes of a mesh to a type that may vary along them.

    Nothing is communicated; the transpose is `psum`. Operations with several operands cast by
    themselves, unless `shard_map` has `auto_pbroadcast=False`. Trees are cast leaf by leaf. Along
    the axis of a vmap, which types do not show, this is the identity. With `source`, all elements
    get the value of the one at that index instead, which takes a `psum`. Raises UnboundAxisError
    for a name that is not bound, AxisError for a value that varies already.

    source: the index along the axis whose value all elements get; None for the cast alone.

    >>> from weft import P
    >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    >>> @weft.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def copies(x):
    ...     return lax.pbroadcast(x, "i")
    >>> print(copies(np.array([1.0, 2.0])))
    [1. 2. 1. 2.]
    """
    if source is not None:
        here = eq(axis_index(axis_name), np.int32(source))

        return psum(tree.map(lambda leaf: select(here, leaf, zeros(type_of(leaf))), x), axis_name)
    names = tuple(n for n in axis_names("pbroadcast", axis_name) if bound_axis(n).mesh is not None)
    if not names:
        return x
    return tree.map(lambda leaf: bind_checked(pbroadcast_p, leaf, axis_name=names), x)


def pcast(x: T, axis_name: Any, *, to: str) -> T:
    """Returns `pbroadcast(x, name)` for `to="varying"`. Raises WeftValueError for other casts.

    to: must be "varying".

    >>> from weft import P
    >>> mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    >>> @weft.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def copies(x):
    ...     return lax.pcast(x, "i", to="varying")
    >>> print(copies(np.array([1.0, 2.0])))
    [1. 2. 1. 2.]
    """
    if to != "varying":
        wanted = 'to="varying"; a value that varies becomes equal by a collective only'
        text = f"write lax.pmax(x, {axis_name!r}) if devices hold one value, lax.psum for a sum"
        fix = Fix("collective", text)
        raise invalid_value(f"pcast does not cast to {to!r}", "pcast", "to", to, wanted, fix=fix)
    return pbroadcast(x, axis_name)


def vary(x: Any, axes: Iterable[Any]) -> Any:
    """Casts a value to vary along these mesh axes, in addition to those along which it varies
    already.

    Args:
        x: An array, or a tracer, inside of a shard_map.
        axes: The names of the mesh axes.
    """
    names = set(axes) - type_of(x).varying
    return pbroadcast_p.bind(x, axis_name=tuple(sorted(names))) if names else x


def cast_operand(operation: str | None, x: Any, names: Names) -> Any:
    """Casts the operand of a collective to vary along the collective's axes. Raises AxisError where
    the user has to write the cast; bodies of array functions pass no name."""
    same = same_along(type_of(x), names)
    explicit = tuple(name for name in same if bound_axis(name).explicit)
    if explicit:
        raise AxisError(
            f"{operation or 'it'} takes a value that varies along its axes, and casts are explicit "
            "here (auto_pbroadcast=False)",
            operation=operation,
            got=f"{type_of(x)} and axis_name={names}",
            wanted=f"a value that varies along {list(explicit)}",
            fix=Fix("pbroadcast", f"pass lax.pbroadcast(x, {explicit!r})", {"axes": explicit}),
        )
    return vary(x, same)


def pbroadcast_type(x: ArrayType, *, axis_name: Names) -> ArrayType:
    known = x.varying & set(axis_name)
    if known:
        rest = tuple(name for name in axis_name if name not in known)
        drop = f"write lax.pbroadcast(x, {rest!r})" if rest else "write x: drop the pbroadcast"
        message = "pbroadcast takes a value that is equal along the named axes"
        got = f"{x} and axis_name={axis_name}"
        wanted = f"a value that does not vary along {sorted(map(str, known))}"
        fix = Fix("drop", drop, {"axes": tuple(sorted(known))})
        raise AxisError(message, got=got, wanted=wanted, fix=fix)
    return x.update(varying=x.varying | set(axis_name))


def pbroadcast_vmap(
    axis: AxisData, args: Values, dims: Dims, *, axis_name: Names
) -> tuple[Any, int | None]:
    return vary(args[0], _without(axis_name, axis.name)), dims[0]


pbroadcast_p = linear_primitive(
    "pbroadcast",
    type_rule=pbroadcast_type,
    transpose=lambda ct, x, **params: [psum_p.bind(ct, axis_index_groups=None, **params)],
    vmap=pbroadcast_vmap,
    reads=same_dims,
    moves=same_moves,
    lower=view_lower,
    cheap=True,
    linear=True,
    makes_no_nan=True,
    flops="none",
    fusible=True,
    moves_nothing=True,
)
rules.layout.register(pbroadcast_p, lambda params: (0,))
rules.rebind.register(pbroadcast_p, lambda x, *, axis_name: vary(x, axis_name))


def pmax(x: T, axis_name: Any, *, axis_index_groups: Any = None) -> T:
    """Returns the maximum of a value over a named axis, or several; trees are taken leaf by leaf.

    Its derivative is shared equally among the elements that attain the maximum. Arguments and
    errors are those of `psum`.

    >>> weft.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([2., 2.], dtype=float32)
    """
    return _extremum(pmax_p, x, axis_name, axis_index_groups)


def pmin(x: T, axis_name: Any, *, axis_index_groups: Any = None) -> T:
    """Returns the minimum of a value over a named axis, or several; see `pmax`.

    >>> weft.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(np.array([1.0, 2.0]))
    Array([1., 1.], dtype=float32)
    """
    return _extremum(pmin_p, x, axis_name, axis_index_groups)


def _extremum(kind: Primitive, x: Any, axis_name: Any, axis_index_groups: Any) -> Any:
    names, _, groups = axes_and_groups(kind.name, axis_name, axis_index_groups)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, _STATIC) or not names:
            return leaf
        leaf = cast_operand(kind.name, leaf, names)
        return bind_checked(kind, leaf, axis_name=names, axis_index_groups=groups)

    return tree.map(one, x)


def extremum_jvp(kind: Primitive) -> Callable[..., tuple[Any, Any]]:
    """The jvp rule of pmax and pmin: the elements that attain the extremum share equally."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        out, aval = kind.bind(x, **params), type_of(x)
        if type(t) is Zero:
            return out, Zero(type_of(out).tangent())
        one, zero = (full(aval.shape, number, aval.dtype) for number in (1, 0))
        attained = select(eq(x, vary(out, aval.varying)), one, zero)
        with sources.tangent_of(kind.name):
            count = psum_p.bind(attained, **params)
            return out, div(psum_p.bind(mul(t, attained), **params), count)

    return jvp


def _declare_extremum(
    name: str, reduce: Callable[[Any, Sequence[int]], Any], combine: str
) -> Primitive:
    made = Primitive(name)
    return primitive(
        made,
        type_rule=reducing_type(name, dtypes.ORDERED),
        jvp=extremum_jvp(made),
        vmap=reducing_vmap(made, reduce),
        lower=reducing_lower(combine),
        flops="none",
    )


pmax_p = _declare_extremum("pmax", reduce_max, "stablehlo.maximum")
pmin_p = _declare_extremum("pmin", reduce_min, "stablehlo.minimum")


def axis_index(axis_name: Any) -> Array:
    """Returns the position along a named axis, as an int32; several names count row-major.

    Raises UnboundAxisError for a name that is not bound.

    >>> weft.vmap(lambda x: lax.axis_index("i"), axis_name="i")(np.zeros(3))
    Array([0, 1, 2], dtype=int32)
    """
    names = axis_names("axis_index", axis_name)
    sizes = axis_sizes_of(names)
    places = [
        axis_index_p.bind(axis_name=n, axis_size=size, manual=bound_axis(n).mesh is not None)
        for n, size in zip(names, sizes, strict=True)
    ]
    return row_major(places, sizes) if places else full((), 0, np.int32)


def row_major(places: Sequence[Any], sizes: Sequence[int]) -> Any:
    """The row-major number of a position along several axes."""
    number, *rest = places
    for place, size in zip(rest, sizes[1:], strict=True):
        number = add(mul(number, np.int32(size)), place)
    return number


def axis_index_type(*, axis_name: Any, axis_size: int, manual: bool) -> ArrayType:
    return ArrayType((), np.int32, varying=(axis_name,) if manual else ())


axis_index_p = primitive(
    "axis_index",
    type_rule=axis_index_type,
    vmap=lambda axis, args, dims, **params: (iota(np.int32, axis.size), 0),
    lower=lambda context, axis_name, **params: mesh_position(context, axis_name),
    flops="none",
    fusible=True,
)
silent.update((pbroadcast_p, axis_index_p))


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
