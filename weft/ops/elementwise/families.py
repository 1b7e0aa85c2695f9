"""Families of elementwise primitives: unary, n-ary, comparison.

An n-ary primitive takes operands of one shape and dtype; an operand without dimensions is repeated
for every element, so that `x * 2.0` is one equation. Type rule, vmap, lowering and the reduction of
a cotangent to such an operand's shape follow from the declaration.

How exact elementary functions are asked to be: what their keyword `accuracy` takes.

A request bounds an error that a compiler may make in return for speed. weft gives one result, that
of XLA's default, which is the most exact one that its compilers for CPUs and NVIDIA GPUs have.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft import dtypes
from weft.core.access_pattern import elementwise_reads
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, LinearOperand, Values, Zero, not_linear
from weft.core.types import ArrayType, type_of
from weft.errors import DTypeError, Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import unknown_option
from weft.ops.declare import primitive, result_type
from weft.ops.operand_errors import to_dtype, unfit, use_numpy
from weft.ops.structural.narrow import in_wide, with_narrow
from weft.ops.structural.shape import broadcast_in_dim, move_dim, reduce_sum
from weft.ops.structural.tangents import add_tangents
from weft.runtime import stablehlo

Rule = Callable[..., Any]
DTypes = frozenset[np.dtype[Any]]
_KINDS = {bool: "biufcV", int: "iufcV", float: "fcV", complex: "c"}
# Python numbers, and NumPy scalars of the default width, which was not chosen.
_WIDE = {np.int64: "i", np.float64: "f", np.complex128: "c"}
_NUMBERS = frozenset({*_KINDS, *_WIDE})


def operands(name: str, *values: Any) -> Sequence[Any]:
    """Gives Python numbers among the operands the dtype of the others.

    NumPy scalars of the default 64-bit dtypes yield to a narrower dtype of their kind, too. Raises
    DTypeError if that would lose the number's kind (1.5 among integers).

    Args:
        name: The operation's name in errors.
        values: The operands: arrays and Python numbers.
    """
    for value in values:
        if type(value) in _NUMBERS:
            break
    else:
        return values
    dtype = next((type_of(v).dtype for v in values if type(v) not in _NUMBERS), None)
    if dtype is None:
        dtype = next((v.dtype for v in values if type(v) in _WIDE), None)
        if dtype is None:
            return values
    weak = all(type_of(v).weak_type for v in values if type(v) not in _NUMBERS)
    return [_number(name, v, dtype, weak) if type(v) in _NUMBERS else v for v in values]


def apply(made: Primitive, *values: Any) -> Any:
    """Binds an elementwise primitive to a user's operands: numbers take the dtype of arrays (see
    `operands`), and dimensions of length 1 are repeated between operands of equal rank."""
    for value in values:
        if type(value) in _NUMBERS:
            values = tuple(operands(made.name, *values))
            break
    try:
        return made.bind(*values)
    except ShapeError:
        repeated = repeat_ones(values)
        if repeated is None:
            raise
    return made.bind(*repeated)


def repeat_ones(values: Sequence[Any]) -> list[Any] | None:
    """The values with dimensions of length 1 repeated to those of the others, or None if the shapes
    differ otherwise. Values without dimensions stay as they are."""
    shapes = {type_of(x).shape for x in values} - {()}
    if len({len(shape) for shape in shapes}) != 1:
        return None
    lengths = [set(sizes) - {1} for sizes in zip(*shapes, strict=True)]
    if len(shapes) == 1 or any(len(sizes) > 1 for sizes in lengths):
        return None
    whole = tuple([min(sizes, default=1) for sizes in lengths])
    return [
        x if type_of(x).shape in ((), whole) else broadcast_in_dim(x, whole, range(len(whole)))
        for x in values
    ]


def _number(name: str, value: Any, dtype: Any, weak: bool) -> Any:
    if type(value) is int and dtypes.keeps_low_bits():
        type_of(value)  # raises OverflowError
    kind = _WIDE.get(type(value))
    if kind is not None:
        narrower = dtype.kind == kind and dtype != value.dtype
        fits = narrower and (kind != "i" or dtypes.fits(int(value), dtype))
        return dtype.type(value) if fits else value
    if dtypes.is_extended(dtype):
        return value  # the type rule has the better message
    if dtype.kind not in _KINDS[type(value)] or (
        type(value) is int and dtype.kind in "iu" and not dtypes.fits(value, dtype)
    ):
        message = f"{name}: the Python number {value!r} does not fit among {dtype.name} operands"
        got, wanted = f"{value!r} beside {dtype.name}", f"a number that {dtype.name} can hold"
        fix = _for_number(value, dtype)
        raise DTypeError(message, operation=name, got=got, wanted=wanted, fix=fix)
    if weak and type_of(value).dtype == dtype:
        return value  # among weak operands alone the result is to be weak
    return dtype.type(value)


def _for_number(value: Any, dtype: Any) -> Fix:
    """The fix for a Python number that does not fit in a dtype."""
    if type(value) is int and dtype.kind in "iu":  # weft.numpy would not promote either
        wide = dtypes.int32 if dtypes.fits(value, dtypes.int32) else dtypes.float32
        return to_dtype("x", dtype, wide)
    return use_numpy("", "promotes")


def elementwise_type(
    name: str,
    accepts: DTypes,
    result_dtype: Rule | None = None,
    arity: int = 1,
    lower: str | Rule | None = None,
    narrow: bool = False,
) -> Rule:
    """The type rule of an elementwise primitive; `result_dtype` maps the operand dtype.

    With `lower`, only the parameters that the lowering rule names are accepted.

    Args:
        name: The operation's name in errors.
        accepts: The set of dtypes that operands may have.
        arity: How many operands there are.
        narrow: Whether narrow dtypes of the accepted kinds are accepted too.
        result_dtype: From the operands' dtype to the result's; None for the same.
        lower: The lowering rule, whose parameters are the ones accepted; None for none.
    """

    taken = with_narrow(accepts) if narrow else accepts

    def rule(*types: ArrayType, **params: Any) -> ArrayType:
        if params and lower is not None:
            _check_parameters(name, params, lower)
        if len(types) != arity:
            takes, wanted = f"{arity} operands, and got {len(types)}", f"{arity} operands"
            raise unfit(WeftTypeError, name, takes, types, wanted)
        dtype = types[0].dtype
        for type in types:
            if type.dtype not in taken:
                raise refused_dtype(name, type.dtype, types, accepts)
            if type.dtype != dtype:
                takes, fix = "operands of one dtype", use_numpy("", "promotes")
                raise unfit(DTypeError, name, takes, types, "equal dtypes", fix)
        shape = common_shape(name, types)
        out = result_dtype(dtype) if result_dtype else dtype
        weak = (out == dtype or out in dtypes.INEXACT) and all(t.weak_type for t in types)
        return result_type(types, shape, out, weak)

    return rule


def common_shape(name: str, types: Sequence[ArrayType], fix: Fix | None = None) -> tuple[int, ...]:
    """The shape of elementwise operands, of which some may have no dimensions. Raises ShapeError,
    with the given fix or one that uses weft.numpy, for two shapes."""
    shape: tuple[int, ...] = ()
    for type in types:
        if type.shape and type.shape != shape:
            if shape:
                takes = "operands of one shape (or without dimensions)"
                fix = fix or use_numpy("", "broadcasts")
                raise unfit(ShapeError, name, takes, types, "equal shapes", fix)
            shape = type.shape
    return shape


def refused_dtype(
    name: str, dtype: Any, types: tuple[ArrayType, ...], accepts: DTypes
) -> DTypeError:
    """The error for an operand of a dtype that a primitive does not take."""
    usual = [dtypes.float32, dtypes.int32, dtypes.complex64]
    if dtype in dtypes.INTEGER or dtype in dtypes.BOOLEAN:
        usual = [dtypes.int32, *usual]
    target = next((one for one in usual if one in accepts), dtypes.bool_)
    message = f"{name} does not take operands of dtype {dtypes.short_name(dtype)}"
    got = ", ".join(map(str, types))
    wanted = "a dtype among " + ", ".join(sorted(map(dtypes.short_name, accepts)))
    fix = to_dtype("x", dtype, target)
    return DTypeError(message, operation=name, got=got, wanted=wanted, fix=fix)


def _check_parameters(name: str, params: dict[str, Any], lower: str | Rule) -> None:
    found = {} if isinstance(lower, str) else inspect.signature(lower).parameters
    known = [key for key, value in found.items() if value.kind is value.KEYWORD_ONLY]
    any_name = any(value.kind is value.VAR_KEYWORD for value in found.values())
    wrong = [key for key in params if key not in known]
    if wrong and not any_name:
        message = f"{name} has no parameter {wrong[0]!r}"
        got, wanted = f"{wrong[0]}={params[wrong[0]]!r:.80}", ", ".join(known) or "no parameters"
        fix = Fix("parameter", f"leave out {wrong[0]}", {"parameter": wrong[0]})
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)


def align(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Brings the mapped dimensions of elementwise operands into line.

    Operands without dimensions and without a mapped axis stay as they are.

    Args:
        axis: The mapped axis.
        args: The operands; mapped ones are whole arrays.
        dims: The mapped dimension of each operand, or None.
    """
    types = [type_of(x) for x in args]
    ranks = [t.ndim - (d is not None) for t, d in zip(types, dims, strict=True)]
    rank = max(ranks)
    # The index of the mapped dimension in the first operand with all dimensions, if any has one.
    full = [i for i, r in enumerate(ranks) if r == rank]
    target = next((dim for dim in (dims[i] for i in full) if dim is not None), 0)
    shape, dim = types[full[0]].shape, dims[full[0]]
    if dim is not None:
        shape = shape[:dim] + shape[dim + 1 :]
    whole = shape[:target] + (axis.size,) + shape[target:]
    out = []
    for x, dim, r in zip(args, dims, ranks, strict=True):
        if r == rank and (dim is not None or r):
            x = move_dim(x, dim, target, axis.size)
        elif dim is not None:
            x = broadcast_in_dim(x, whole, (target,))
        out.append(x)
    return out, target


def elementwise_vmap(bind: Callable[..., Any]) -> Rule:
    """The vmap rule of an elementwise primitive.

    Args:
        bind: Applies the primitive: `bind(*operands, **params)`.
    """

    def vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> tuple[Any, int]:
        values, dim = align(axis, args, dims)
        return bind(*values, **params), dim

    return vmap


def elementwise_lower(name: str, **attributes: Any) -> Rule:
    """The lowering to one StableHLO operation, operands without dimensions repeated.

    Args:
        name: The full name of the StableHLO operation, such as "stablehlo.add".
        attributes: Attributes of the operation, by name.
    """

    def lower(context: Any, *values: Any, **params: Any) -> Any:
        out = context.out_types[0]
        shaped = repeat_scalars(context, values, out.shape)
        return stablehlo.op1(name, shaped, stablehlo.array_type_to_ir(out), attributes or None)

    return lower


def emit_with(emit: Callable[..., Any]) -> Rule:
    """The lowering by an emitting function, with operands without dimensions repeated."""

    def lower(context: Any, *values: Any) -> Any:
        return emit(*repeat_scalars(context, values, context.out_types[0].shape))

    return lower


def repeat_scalars(context: Any, values: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The operands, scalars broadcast to `shape`.

    Args:
        context: The lowering rule's context, which has the types of the operands.
        values: The MLIR values of the operands.
        shape: The lengths of the results.
    """
    return [
        value if type.shape == shape else stablehlo.broadcast_in_dim(value, shape, ())
        for value, type in zip(values, context.in_types, strict=True)
    ]


def broadcast_scalar(value: Any, shape: tuple[int, ...]) -> Any:
    """The value, broadcast to the shape if it has no dimensions."""
    return value if type_of(value).shape == shape else broadcast_in_dim(value, shape, ())


def unbroadcast(ct: Any, type: ArrayType) -> Any:
    """The cotangent of an operand that may have been repeated.

    Args:
        ct: The cotangent, of the shape of the result.
    """
    if ct is None or type_of(ct).shape == type.shape:
        return ct
    return reduce_sum(ct, tuple(range(type_of(ct).ndim)))


def nary_jvp(bind: Callable[..., Any], rules_of: Sequence[Rule | None]) -> Rule:
    """A jvp rule from one rule per operand, `rule(tangent, result, *primals, **params)`.

    None marks an operand in which the result does not vary smoothly. A rule may return a tangent
    without dimensions; it is repeated.

    Args:
        bind: Applies the primitive: `bind(*operands, **params)`.
        rules_of: A rule for each operand, or None.
    """

    def jvp(primals: Values, tangents: Values, **params: Any) -> tuple[Any, Any]:
        result = bind(*primals, **params)
        result_of = type_of(result)
        total: Any = None
        for tangent, rule in zip(tangents, rules_of, strict=True):
            if rule is None or type(tangent) is Zero:
                continue
            term = rule(tangent, result, *primals, **params)
            if type(term) is Zero:
                continue
            term = broadcast_scalar(term, result_of.shape)
            total = term if total is None else add_tangents(total, term)
        return result, Zero(result_of.tangent()) if total is None else total

    return jvp


def nary_transpose(rules_of: Sequence[Rule | None]) -> Rule:
    """A transpose rule from one rule per operand, `rule(cotangent, *operands, **params)`.

    Args:
        rules_of: A rule for each operand; None where it is not linear.
    """

    def transpose(ct: Any, *values: Any, **params: Any) -> list[Any]:
        out: list[Any] = []
        for value, rule in zip(values, rules_of, strict=True):
            if type(value) is not LinearOperand:
                out.append(None)
            elif rule is None:
                raise not_linear(value)
            else:
                out.append(unbroadcast(rule(ct, *values, **params), value.type))
        return out

    return transpose


def nary(
    name: str,
    *,
    arity: int,
    accepts: DTypes,
    lower: str | Rule,
    jvp: Sequence[Rule | None] | Rule | None = None,
    transpose: Sequence[Rule | None] | None = None,
    result_dtype: Rule | None = None,
    narrow: bool = True,
    **facts: Any,
) -> Primitive:
    """An elementwise primitive of several operands of one dtype.

    `accepts` is a set of dtypes (see `weft.dtypes`), to which belong the narrow ones of their kinds
    unless `narrow` is False, because a wider one would not do; `lower` the name of a StableHLO
    operation, or a lowering rule; `jvp` has a rule `(tangent, result, *operands, **params)` for
    each operand, or is one for all, `(primals, tangents, **params)`, and `transpose` has one
    `(cotangent, *operands, **params)`; `result_dtype` maps the operands' dtype to the result's.
    Type rule, vmap and how an operand without dimensions is repeated follow.

    Args:
        name: What the operation is called in jaxprs and messages.
        arity: How many operands there are.
        accepts: The set of dtypes that operands may have.
        lower: The name of a StableHLO operation, or a lowering rule.
        jvp: A rule for each operand, or one for all; None where the result does not vary smoothly.
        transpose: A rule for each operand; None for an operation that is not linear.
        result_dtype: From the operands' dtype to the result's; None for the same.
        narrow: Whether narrow dtypes of the accepted kinds are accepted too.
        facts: What is true of the primitive: keywords of `Facts`, such as `cheap=True`.

    >>> from weft import dtypes
    >>> from weft.extend import elementwise
    >>> larger_p = elementwise.nary(
    ...     "larger", arity=2, accepts=dtypes.REAL, lower="stablehlo.maximum"
    ... )
    >>> weft.vmap(larger_p.bind, (0, None))(jnp.array([1.0, 3.0]), jnp.array(2.0))
    Array([2., 3.], dtype=float32)
    """
    made = Primitive(name)
    bind = made.bind
    rule = elementwise_lower(lower) if isinstance(lower, str) else lower
    return primitive(
        made,
        type_rule=elementwise_type(name, accepts, result_dtype, arity, lower, narrow),
        jvp=jvp if callable(jvp) else nary_jvp(bind, jvp or (None,) * arity),
        transpose=nary_transpose(transpose) if transpose else None,
        vmap=elementwise_vmap(bind),
        reads=elementwise_reads,
        lower=in_wide(rule) if narrow else rule,
        **facts,
    )


def unary(
    name: str,
    *,
    accepts: DTypes,
    lower: str | Rule,
    jvp: Rule | None = None,
    transpose: Rule | None = None,
    result_dtype: Rule | None = None,
    narrow: bool = True,
    **facts: Any,
) -> Primitive:
    """An elementwise primitive of one operand; `jvp(tangent, result, x)`, `transpose(ct, x)`.

    The other parameters are those of `nary`.

    Args:
        name: What the operation is called in jaxprs and messages.
        accepts: The set of dtypes that the operand may have.
        lower: The name of a StableHLO operation, or a lowering rule.
        jvp: The tangent of the result from that of the operand; None where the result does not vary
            smoothly.
        transpose: The cotangent of the operand; None for an operation that is not linear.
        result_dtype: From the operand's dtype to the result's; None for the same.
        narrow: Whether narrow dtypes of the accepted kinds are accepted too.
        facts: What is true of the primitive: keywords of `Facts`, such as `cheap=True`.

    >>> from weft import dtypes
    >>> from weft.extend import elementwise
    >>> softening_p = elementwise.unary(
    ...     "softening",
    ...     accepts=dtypes.FLOATING,
    ...     lower="stablehlo.tanh",
    ...     jvp=lambda tangent, result, x: tangent * (1.0 - result * result),
    ... )
    >>> weft.grad(softening_p.bind)(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return nary(
        name,
        arity=1,
        accepts=accepts,
        lower=lower,
        jvp=(jvp,),
        transpose=(transpose,) if transpose else None,
        result_dtype=result_dtype,
        narrow=narrow,
        **facts,
    )


binary = functools.partial(nary, arity=2)
floating = functools.partial(unary, accepts=dtypes.FLOATING)
inexact = functools.partial(unary, accepts=dtypes.INEXACT)


def comparison(name: str, *, accepts: DTypes, direction: str) -> Primitive:
    """An elementwise comparison of two operands, giving booleans.

    Args:
        name: What the operation is called in jaxprs and messages.
        accepts: The set of dtypes that operands may have.
        direction: StableHLO's name of the comparison, such as "LT".
    """
    lower = emit_with(lambda x, y: stablehlo.compare(x, y, direction))
    return nary(
        name,
        arity=2,
        accepts=accepts,
        lower=lower,
        result_dtype=lambda _: dtypes.bool_,
        cheap=True,
        flops="none",
    )


class AccuracyMode(enum.Enum):
    """An accuracy by name: the best there is, or the compiler's default."""

    HIGHEST = 1
    DEFAULT = 2


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """A bound for errors: absolute, relative, and in units in the last place.

    Args:
        atol: The largest absolute error, 0 for no such bound.
        rtol: The largest error relative to the exact result, 0 for no such bound.
        ulps: The largest error in units in the last place of the result, 0 for no such bound.

    Raises WeftValueError for negative bounds, and where none is positive.

    >>> lax.exp(1.0, accuracy=lax.Tolerance(rtol=1e-5))
    Array(2.7182817, dtype=float32, weak_type=True)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    @api_boundary
    def __post_init__(self) -> None:
        bounds = (self.atol, self.rtol, self.ulps)
        if min(bounds) < 0 or not any(bounds):
            raise WeftValueError(
                "a Tolerance has bounds of at least 0, one of them positive",
                got=f"atol={self.atol}, rtol={self.rtol}, ulps={self.ulps}",
                wanted="atol, rtol or ulps > 0",
            )


Accuracy: TypeAlias = Tolerance | AccuracyMode | None


def check_accuracy(operation: str, accuracy: Any) -> None:
    """Raises WeftValueError for anything that is not an accuracy."""
    if not isinstance(accuracy, (Tolerance, AccuracyMode)):
        wanted = "None, a lax.Tolerance or a lax.AccuracyMode"
        raise unknown_option(operation, "accuracy", accuracy, wanted, use=None)
