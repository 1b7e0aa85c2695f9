"""Products that communicate while they compute: `gathered_product`, `scattered_product`.

An all-gather beside a product, or a product beside a reduce-scatter, is taken apart into as many
steps as there are devices along the mesh axis. In each, a device multiplies the block that it has
while blocks travel on to a neighbour, so that a transfer runs beside a product that does not need
it. This is the collective matmul of S. Wang et al., "Overlap Communication with Dependent
Computation via Decomposition in Large Deep Learning Models", ASPLOS 2023
(https://doi.org/10.1145/3567955.3567959); R. Pope et al., "Efficiently Scaling Transformer
Inference", 2022 (https://arxiv.org/abs/2211.05102), build the layers of a transformer from it.
"""

from __future__ import annotations

import dataclasses
import re
from math import prod
from typing import Annotated, Any

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.axes import bound_axis
from weft.core.types import type_of
from weft.dtypes.dtype_kinds import is_boolean
from weft.errors import AxisError, DTypeError, Fix, ShapeError, WeftValueError
from weft.kinds.arguments import NEVER, Flag, Precision, promoted_kind
from weft.kinds.array_function import python_function
from weft.kinds.checks import convert
from weft.kinds.kind import Arguments, Kind
from weft.nn.collective_product_steps import ProductTerm, Ring, gathering, lengths_of, scattering
from weft.numpy.einsum import parse, sum_out, without_repeats
from weft.numpy.linear_algebra import Preferred
from weft.ops.collectives.all_reduce import cast_operand
from weft.ops.collectives.named_axes import Names, axis_names, axis_sizes_of, same_along
from weft.typing import ArrayLike


def _wrong_spec(message: str, spec: Any, fix: Fix) -> WeftValueError:
    wanted = "labels of two operands and of the result, as in 'sd,df->sf'"
    return WeftValueError(message, got=f"spec={spec!r}", wanted=wanted, fix=fix)


def _take_spec(value: Any, call: Arguments) -> str:
    text = value.replace(" ", "") if isinstance(value, str) else ""
    if not re.fullmatch(r"[a-zA-Z]*,[a-zA-Z]*->[a-zA-Z]*", text):
        message = "the spec has the labels of two operands and, behind '->', of the result"
        fix = Fix("spec", "write, for example, 'sd,df->sf'", {"spec": "sd,df->sf"})
        raise _wrong_spec(message, value, fix)
    return text


def _take_label(value: Any, call: Arguments) -> str:
    spec, argument = call["spec"], call.name
    left, right, out = re.split(",|->", spec)
    where, labels = ("the first operand", left) if argument == "gathered" else ("the result", out)
    if not isinstance(value, str) or len(value) != 1 or labels.count(value) != 1:
        message = f"{argument}={value!r} is no label that {where} has once"
        once = next((label for label in labels if labels.count(label) == 1), None)
        text = f"pass the label of a dimension of {where}"
        use = {} if once is None else {argument: once}
        fix = Fix(argument, text + (f", for example {argument}={once!r}" if use else ""), use)
        raise _wrong_spec(message, spec, fix)
    if value not in right + out:
        message = f"neither the second operand nor the result has the gathered label {value!r}"
        fix = Fix("psum", "sum over it first, and then over the axis: lax.psum(x.sum(...), ...)")
        raise _wrong_spec(message, spec, fix)
    return value


_spec_kind = Kind(_take_spec, "labels, as in 'sd,df->sf'", (3, "text"), "sd,df->sf", plain=NEVER)
Spec = Annotated[str, _spec_kind]
_label_kind = Kind(_take_label, "the label of a dimension", (3, "z"), "s", plain=NEVER)
Label = Annotated[str, _label_kind]
_names_kind = Kind(
    lambda value, call: axis_names(call.operation, value),
    "an axis of a mesh or of `vmap`, or several",
    (("i", "i"),),
    "i",
    plain=NEVER,
)
AxisNames = Annotated[Any, _names_kind]
# Arrays keep their dtypes.
_factor_kind = dataclasses.replace(promoted_kind, together=lambda operation, values: values)
Factor = Annotated[ArrayLike, _factor_kind]


@python_function
def gathered_product(
    spec: Spec,
    x: Factor,
    w: Factor,
    axis_name: AxisNames,
    *,
    gathered: Label,
    bidirectional: Flag = False,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
) -> Array:
    """`einsum(spec, all_gather(x), w)`, where each transfer may run beside a product.

    spec: as in "bsd,df->bsf", the labels of two operands and of the result. axis_name: a mesh axis
    of n devices, or several. gathered: the label of the dimension of x that is gathered along it; x
    has a block of this dimension. w: the second operand, which has the whole dimension where it has
    this label. So has the result. The product is computed in n steps. In each, a device multiplies
    the block that it has while `ppermute` brings the next one: n - 1 transfers, and no all-gather.
    `bidirectional` sends one half of a block in either direction, for links that work both ways at
    once.

    The dtype is that of `einsum`, or `preferred_element_type`; products that are added up are
    added in float32 at least. The result varies along `axis_name`, as that of `all_gather` does.
    The derivative by x is a `scattered_product`. That by w gathers x once more, so that no gathered
    array is kept.

    Raises WeftValueError for a spec that cannot be read or does not fit, ShapeError for lengths,
    DTypeError for booleans, UnboundAxisError for a name that is not bound.

    >>> from weft import P
    >>> mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])
    >>> @weft.shard_map(mesh=mesh, in_specs=(P("i"), P(None, "i")), out_specs=P(None, "i"))
    ... def product(x, w):
    ...     return weft.nn.gathered_product("sd,df->sf", x, w, "i", gathered="s")
    >>> x, w = np.arange(16.0).reshape(8, 2), np.arange(8.0).reshape(2, 4)
    >>> np.array_equal(product(x, w), x @ w)
    True
    """
    ring = Ring(gathered, axis_name, prod(axis_sizes_of(axis_name)), bidirectional, precision)
    return _product(ring, spec, x, w, preferred_element_type)


@python_function
def scattered_product(
    spec: Spec,
    x: Factor,
    w: Factor,
    axis_name: AxisNames,
    *,
    scattered: Label,
    bidirectional: Flag = False,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
) -> Array:
    """`psum_scatter(einsum(spec, x, w))`, where each transfer may run beside a product.

    spec: as in "bsf,fd->bsd", the labels of two operands and of the result. x, w: the operands of
    this device. axis_name: one mesh axis of n devices, or several, over which the products are
    summed. scattered: the label of the dimension of the sum of which each device keeps its own
    block. The product is computed in n steps, one block of the dimension at a time. What is on its
    way to a device is added to at each one that it passes: n - 1 transfers by `ppermute`, and no
    reduce-scatter. `bidirectional` sends one half of a block in either direction, for links that
    work both ways at once.

    The dtype is that of `einsum`, or `preferred_element_type`. Sums travel in that dtype, and are
    added in float32 at least. Both derivatives are products with the gathered cotangent, computed
    as in `gathered_product` and in one ring.

    Raises WeftValueError for a spec that cannot be read or does not fit, ShapeError for lengths,
    among them one that n does not divide, AxisError for a sum of values that are equal on all
    devices, DTypeError for booleans, UnboundAxisError for a name that is not bound.

    >>> from weft import P
    >>> mesh = weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])
    >>> @weft.shard_map(mesh=mesh, in_specs=(P(None, "i"), P("i")), out_specs=P("i"))
    ... def product(x, w):
    ...     return weft.nn.scattered_product("sf,fd->sd", x, w, "i", scattered="s")
    >>> x, w = np.arange(32.0).reshape(8, 4), np.arange(8.0).reshape(4, 2)
    >>> np.array_equal(product(x, w), x @ w)
    True
    """
    ring = Ring(scattered, axis_name, prod(axis_sizes_of(axis_name)), bidirectional, precision)
    return _product(ring, spec, x, w, preferred_element_type, scatters=True)


def _product(
    ring: Ring, spec: str, x: Any, w: Any, preferred: Any, *, scatters: bool = False
) -> Any:
    """Multiplies in steps around a ring, after labels and mesh axes are made to match."""
    names, count = ring.names, ring.size
    values, dtype = _promote_kinds((x, w), preferred)
    left, right, out = _labels(spec, ring.letter, values, 1 if scatters else count)
    if scatters:
        _check_sum(values, names)
        length = lengths_of([(ProductTerm(left, right, out, dtype), *values)])[ring.letter]
        _check_divides(ring.letter, length, count)
    everywhere = frozenset(names).union(*(type_of(value).varying for value in values))
    axes = tuple(sorted((n for n in everywhere if bound_axis(n).mesh is not None), key=str))
    x, w = (cast_operand(None, value, axes) for value in values)
    x, left = sum_out(*without_repeats(x, left), set(right + out))
    w, right = sum_out(*without_repeats(w, right), set(left + out))
    term = ProductTerm(left, right, out, dtype)
    if count == 1:
        return term.product(x, w, ring.precision, dtype)
    return scattering(ring, (term,), x, w) if scatters else gathering(ring, (term,), x, w)[0]


def _promote_kinds(values: tuple[Any, ...], preferred: Any) -> tuple[tuple[Any, ...], Any]:
    """Makes operands all real, all complex or all integers; also returns the product's dtype.

    So a cotangent can be converted to the dtype of its primal. Each real operand keeps its own
    dtype: a block of bfloat16 is not sent as float32.
    """
    dtype, _ = dtypes.promote(*((type_of(v).dtype, type_of(v).weak_type) for v in values))
    if is_boolean(dtype):
        fix = Fix("convert", "convert the operands: x.astype('int32')", {"dtype": "int32"})
        got = f"an operand of type {type_of(values[0])}"
        raise DTypeError("booleans have no sums", got=got, wanted="numbers", fix=fix)
    result = preferred or dtype
    if len({dtypes.common_kind(d) for d in (result, *(type_of(v).dtype for v in values))}) > 1:
        common = dtypes.promote_types(dtype, result)
        values = tuple(convert(v, common) for v in values)
    return values, result


def _labels(spec: str, letter: str, values: tuple[Any, ...], count: int) -> tuple[str, str, str]:
    """The labels of operands and result. Raises ShapeError if lengths differ, 1 included."""
    x, w = (type_of(value) for value in values)
    first, second, _ = re.split(",|->", spec)
    whole = tuple(
        n * count if label == letter else n for n, label in zip(x.shape, first, strict=False)
    )
    lengths = dict(zip(first, whole, strict=False))
    for label, length in zip(second, w.shape, strict=False):
        if lengths.setdefault(label, length) != length:
            gathered = f", gathered from {count} devices" if count > 1 and label == letter else ""
            message = f"the label {label!r} stands for two lengths"
            got = f"{lengths[label]} in the first operand{gathered}, and {length} in the second"
            text = f"pass operands that have one length for {label!r}; none is repeated"
            wanted = "one length per label"
            raise ShapeError(message, got=got, wanted=wanted, fix=Fix("shapes", text))
    (left, right), out = parse(spec, (whole + x.shape[len(first) :], w.shape))
    return left, right, out


def _check_sum(values: tuple[Any, ...], names: Names) -> None:
    """Raises AxisError if all devices along an axis have the same product."""
    same = set(names).intersection(*(same_along(type_of(value), names) for value in values))
    if not same or config.lenient():
        return
    repeated = tuple(name for name in names if name in same)
    axes = repr(repeated[0]) if len(repeated) == 1 else repr(repeated)
    message = f"the sum is over {axes}, of operands that are equal on all devices along {axes}"
    got = f"{type_of(values[0])} and {type_of(values[1])}, which do not vary along {axes}"
    text = f"if a sum of equal copies is meant, pass lax.pbroadcast(x, {axes})"
    fix = Fix("pbroadcast", text, {"axes": repeated})
    raise AxisError(message, got=got, wanted="operands of which one varies", fix=fix)


def _check_divides(letter: str, length: int, count: int) -> None:
    if length % count:
        message = f"the dimension {letter!r} does not split into {count} equal parts"
        got, wanted = f"length {length} for {count} devices", f"a multiple of {count}"
        fix = Fix("pad", f"pad the dimension to a multiple of {count}", {"multiple": count})
        raise ShapeError(message, got=got, wanted=wanted, fix=fix)
