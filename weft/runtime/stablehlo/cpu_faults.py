"""Rewrites what the compiler gets wrong, mostly that for the CPU, in a copy of a module.

docs/compiler_faults.md lists the faults, each with its smallest program. The rules work on whole
modules, not in the lowerings of operations: most faults are of combinations, of a reduction with
what it is fused with or of a slice with an update. So they hold for every module, whoever made it,
and a module without such a combination stays as it is.

The library of fused loops (YNNPACK) starts a fusion at a reduction of floating-point numbers and
takes in what is around it, as long as it knows the operations. It knows none on integers: a value
that passes through the integer with its bits, which costs nothing, ends a fusion. Its maximum and
minimum drop NaN, so they must not be in one alone. Its sums do not drop NaN, nor do its signs, so
the sum of the signs, which it computes as fast as the maximum, says whether there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from weft.base.source import NAN_ELSEWHERE
from weft.runtime.jaxlib.native import version
from weft.runtime.stablehlo.cpu_products import (
    INTEGERS,
    divide_scaled,
    is_moved,
    isolate,
    multiplies_by_inverse,
    prevent_fusion,
)
from weft.runtime.stablehlo.elementwise import (
    add,
    and_,
    clamp,
    compare,
    or_,
    select,
    shift_right_arithmetic,
    sign,
    xor,
)
from weft.runtime.stablehlo.mlir import bytecode, dtype_of, ir, op, op1, parse, ranked
from weft.runtime.stablehlo.mlir import stablehlo as hlo
from weft.runtime.stablehlo.module_walks import (
    ELEMENTWISE,
    MOST_LOOKED_AT,
    WITH_BUFFER,
    above,
    attributes_of,
    is_constant,
    is_entry,
    is_float,
    may_be_anything,
    name_of,
    number_of_constant,
    shape_of,
)
from weft.runtime.stablehlo.regions import reduce
from weft.runtime.stablehlo.structural import (
    bitcast_convert,
    constant,
    convert,
    dynamic_update_slice,
    known_integer,
)

Repair = Callable[[ir.Operation], ir.Value]
"""Emits the value that takes the place of an operation's result."""

_EXTREMA = {"stablehlo.maximum": "GE", "stablehlo.minimum": "LE"}
_EXPONENTIALS = (
    "stablehlo.exponential",
    "stablehlo.exponential_minus_one",
    "stablehlo.logistic",
    "chlo.sinh",
    "chlo.cosh",
)
# What may become a change of the shape alone, which the compiler moves past other operations.
_RESHAPES = frozenset({"reshape", "broadcast_in_dim", "transpose", "bitcast_convert"})
# With changes of the shape, they become products of matrices.
_PRODUCTS = frozenset({"dot_general", "convolution"})
_SLICES = frozenset({"dynamic_slice", "gather"})
# Where one operand is NaN everywhere, so is the result.
_PASSING_NAN = (ELEMENTWISE - {"select"}) | _RESHAPES | {"slice", "reverse"}
# From this release on sums are fused rightly, and slices of slices merged rightly.
_REPAIRED = (0, 12)


def repair_faults(module: ir.Module, partitions: int, platform: str = "cpu") -> ir.Module:
    """The module, or a copy of it without what the compiler gets wrong.

    Args:
        module: A module that is to be compiled.
        partitions: On how many devices it runs. The partitioner has its faults on all platforms.
        platform: What it is compiled for. All other rules are for the CPU.
    """
    if platform != "cpu" and partitions == 1 or not _faults(module, partitions, platform):
        return module
    copy = parse(bytecode(module))
    for fault, repair in _faults(copy, partitions, platform):
        with fault.location, ir.InsertionPoint(fault):
            value = repair(fault)
        fault.results[0].replace_all_uses_with(value)
        fault.erase()
    return copy


def _faults(module: ir.Module, partitions: int, platform: str) -> list[tuple[ir.Operation, Repair]]:
    """The operations of a module that need a repair, each with the repair."""
    operations: dict[str, list[ir.Operation]] = {}

    def note(found: ir.Operation) -> ir.WalkResult:
        operations.setdefault(found.name, []).append(found)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)

    def named(*names: str) -> Iterator[ir.Operation]:
        return (found for name in names for found in operations.get(name, ()))

    faults = _cpu_faults(named, partitions) if platform == "cpu" else []
    # After the rules that look at what a value is computed from: these put barriers between.
    if partitions > 1:
        for found in named("stablehlo.pad"):
            again = sum(name_of(use.owner) == "pad" for use in found.operands[0].uses) > 1
            if again or _is_sliced(found):
                faults.append((found, _pad_separately if again else _pad_before_use))
        reshapes = named("stablehlo.reshape")
        faults += [
            (x, _with_operand_before) for x in reshapes if _misleads_partitioner(x, partitions)
        ]
    return faults


def _cpu_faults(
    named: Callable[..., Iterator[ir.Operation]], partitions: int
) -> list[tuple[ir.Operation, Repair]]:
    """The faults of the compiler for the CPU. `named`: finds operations by their names."""
    faults: list[tuple[ir.Operation, Repair]] = []
    faults += [
        (x, _subtract_from_rounded) for x in named("stablehlo.subtract") if _leaves_extremum(x)
    ]
    windows = named("stablehlo.reduce", "stablehlo.reduce_window")
    reductions = [r for r in windows if len(r.results) == 1 and is_float(r.operands[0])]
    if reductions:
        faults += [
            (x, _by_comparison) for x in named(*_EXTREMA) if prod(shape_of(x)) > 1 and _of_floats(x)
        ]
        faults += [(x, _truncate) for x in named("stablehlo.convert") if _is_to_8_bits(x)]
    for reduction in reductions:
        if _may_lose_nan(reduction):
            continue
        if _body(reduction) in _EXTREMA:
            alone = partitions == 1 and not _suits_library(reduction)
            faults.append((reduction, _as_bits if alone else _beside_signs))
        elif version < _REPAIRED and _is_sum_at_risk(reduction):
            faults.append((reduction, _with_unfused_operand))
    for found in named("stablehlo.all_reduce"):
        if len(found.results) == 1 and _of_floats(found) and _body(found) in _EXTREMA:
            faults.append((found, _as_ordered_integers))
    update = _by_selection if version < _REPAIRED else _with_block_before
    faults += [(x, update) for x in named("stablehlo.dynamic_update_slice") if _overwrites(x)]
    if version < _REPAIRED:
        slices = [*named("stablehlo.dynamic_slice"), *named("stablehlo.gather")]
        if any(map(_slices_a_slice, slices)):
            faults += [(x, _with_start_inside) for x in slices]
    faults += [(x, _select_nan) for x in named(*_EXPONENTIALS) if _sees_nan(x)]
    for found in named("stablehlo.divide", "stablehlo.multiply"):
        inverse = found.name == "stablehlo.divide" and multiplies_by_inverse(found)
        if is_moved(found):
            faults.append((found, _keep_scaled if inverse else isolate))
        elif inverse:
            faults.append((found, divide_scaled))
    return faults


# ---- looking at operations -----------------------------------------------------------------------


def _may_lose_nan(operation: ir.Operation) -> bool:
    """Whether the program says that it finds NaNs by another computation."""
    name = "mhlo.frontend_attributes"
    there = operation.attributes[name] if name in operation.attributes else ()
    return any(own.name == NAN_ELSEWHERE for own in there)


def _of_floats(operation: ir.Operation) -> bool:
    return is_float(operation.results[0])


def _body(reduction: ir.Operation) -> str | None:
    """The name of the operation that combines two elements, if it is a single one."""
    inner = list(reduction.regions[0].blocks[0].operations)
    return str(inner[0].operation.name) if len(inner) == 2 else None


# ---- maximum and minimum -------------------------------------------------------------------------


def _by_comparison(extremum: ir.Operation) -> ir.Value:
    """By a comparison and a selection, which the library does not know."""
    x, y = extremum.operands
    first = or_(compare(x, y, _EXTREMA[extremum.name]), compare(x, x, "NE"))
    return select(first, x, y)


def _suits_library(reduction: ir.Operation) -> bool:
    """Whether the library reduces this fast: it is slow for short runs of contiguous elements, and
    does not take small ones."""
    shape = reduction.operands[0].type.shape
    if reduction.name != "stablehlo.reduce" or prod(shape) < 4096:
        return False
    gone = set(reduction.attributes["dimensions"])
    run, last = 1, len(shape) - 1 in gone
    for axis in reversed(range(len(shape))):
        if (axis in gone) is not last:
            break
        run *= shape[axis]
    return run >= 64


def _beside_signs(reduction: ir.Operation) -> ir.Value:
    """The reduction with NaN where the sum of the signs is NaN."""
    found = reduction.clone()
    x, kind = reduction.operands[0], dtype_of(reduction.operands[0].type.element_type)
    if reduction.name == "stablehlo.reduce":
        wide = np.dtype(np.float32) if kind.itemsize < 4 else kind
        dimensions = list(reduction.attributes["dimensions"])
        signs, zero = convert(sign(x), wide), constant(0, (), wide)
        total = reduce([signs], [zero], dimensions, lambda a, b: [add(a[0], b[0])])[0]
    else:
        region = ([reduction.operands[1].type] * 2, lambda pair: [add(*pair)])
        operands = (sign(x), constant(0, (), kind))
        types = [result.type for result in reduction.results]
        attributes = attributes_of(reduction)
        total = op("stablehlo.reduce_window", operands, types, attributes, [region])[0]
    nan = constant(np.nan, shape_of(reduction), kind)
    return select(compare(total, total, "NE"), nan, found.results[0])


def _as_bits(reduction: ir.Operation) -> ir.Value:
    """Reduces the bits of the numbers, which the library does not know."""
    x, init = reduction.operands
    kind = dtype_of(x.type.element_type)
    bits = INTEGERS[kind.itemsize]
    name = _body(reduction)
    assert name is not None

    def combine(pair: list[ir.Value]) -> list[ir.Value]:
        a, b = (bitcast_convert(one, kind) for one in pair)
        return [bitcast_convert(op1(name, (a, b), a.type), bits)]

    operands = [bitcast_convert(x, bits), bitcast_convert(init, bits)]
    type = ranked(shape_of(reduction), operands[0].type.element_type)
    region = ([operands[1].type] * 2, combine)
    out = op(reduction.name, operands, [type], attributes_of(reduction), [region])[0]
    return bitcast_convert(out, kind)


def _as_ordered_integers(reduction: ir.Operation) -> ir.Value:
    """Reduces integers in the order of the numbers, NaN last, which devices exchange correctly."""
    x = reduction.operands[0]
    kind = dtype_of(x.type.element_type)
    wide = np.dtype(np.float32) if kind.itemsize < 4 else kind
    bits = INTEGERS[wide.itemsize]
    name = _body(reduction)
    assert name is not None
    limits = np.iinfo(bits)
    x = convert(x, wide)
    last = limits.max if name == "stablehlo.maximum" else limits.min
    nan = constant(last, x.type.shape, bits)
    keys = select(compare(x, x, "NE"), nan, _to_ordered_integers(bitcast_convert(x, bits)))
    scalar = constant(0, (), bits).type
    region = ([scalar] * 2, lambda pair: [op1(name, pair, scalar)])
    out = op("stablehlo.all_reduce", [keys], [keys.type], attributes_of(reduction), [region])[0]
    return convert(bitcast_convert(_to_ordered_integers(out), wide), kind)


def _to_ordered_integers(x: ir.Value) -> ir.Value:
    """Maps the bits of numbers to integers in their order, and back."""
    bits = dtype_of(x.type.element_type)
    sign_bit = constant(8 * bits.itemsize - 1, x.type.shape, bits)
    others = constant(np.iinfo(bits).max, x.type.shape, bits)
    return xor(x, and_(shift_right_arithmetic(x, sign_bit), others))


# ---- sums ----------------------------------------------------------------------------------------


def _is_sum_at_risk(reduction: ir.Operation) -> bool:
    """Whether a sum may be fused with broadcasts or products that the library gets wrong: products
    from the second 128 KiB of the result on, and anything of seven dimensions. Sums of broadcasts
    along several dimensions, or after a reshape as in a tile, race at smaller sizes too. Along one
    dimension, sums of plain broadcasts are right: 1,680 random sums of 200 to 900 rows were."""
    x = reduction.operands[0]
    window = reduction.name != "stablehlo.reduce"
    count = len(reduction.attributes["window_dimensions" if window else "dimensions"])
    size = prod(shape_of(reduction)) * dtype_of(x.type.element_type).itemsize
    if size < 32768 and len(x.type.shape) < 7:
        return size >= 4096 and _sums_repeated(x, count)
    # Up to there products are summed rightly, but for what is padded or sliced of them.
    product = {"dot_general"} if size > 131072 else set()
    for value in above(x, lambda name: name in ELEMENTWISE or name == "reshape"):
        if value is None or may_be_anything(value):
            return True
        owner = value.owner
        if isinstance(owner, ir.Block):
            continue
        name = name_of(owner)
        if name in ("broadcast_in_dim", "reshape"):
            if _sums_repeated(value, count):
                return True
        elif name not in ELEMENTWISE | WITH_BUFFER - product and name != "constant":
            return True
    return len(x.type.shape) >= 7


def _sums_repeated(x: ir.Value, count: int) -> bool:
    """Whether a value that is summed along `count` dimensions is computed from a broadcast (along
    several dimensions, or by a reshape), or from an unknown value."""
    for value in above(x, lambda name: name in ELEMENTWISE | _RESHAPES):
        if value is None or may_be_anything(value):
            return True
        owner = value.owner
        if isinstance(owner, ir.Block) or name_of(owner) != "broadcast_in_dim":
            continue
        number = prod(owner.operands[0].type.shape) == 1
        if not number and (count > 1 or any(name_of(use.owner) == "reshape" for use in value.uses)):
            return True
    return False


def _with_unfused_operand(reduction: ir.Operation) -> ir.Value:
    """The reduction with an operand that is not fused."""
    return _with_operands(reduction, {0: prevent_fusion(reduction.operands[0])})


def _keep_scaled(division: ir.Operation) -> ir.Value:
    return isolate(division, divide_scaled(division))


def _is_to_8_bits(convert: ir.Operation) -> bool:
    """Whether floats become integers of 8 bits. The library rounds them to the nearest, and does
    nothing if they become floats again."""
    return is_float(convert.operands[0]) and dtype_of(convert.results[0].type.element_type) in (
        np.dtype(np.int8),
        np.dtype(np.uint8),
    )


def _truncate(found: ir.Operation) -> ir.Value:
    """The conversion with an operand and a result that are not fused."""
    return prevent_fusion(_with_operands(found, {0: prevent_fusion(found.operands[0])}))


def _behind_barrier(x: ir.Value) -> ir.Value:
    return op1("stablehlo.optimization_barrier", (x,), x.type)


def _with_operands(operation: ir.Operation, operands: dict[int, ir.Value]) -> ir.Value:
    """The result of an operation with some operands replaced."""
    made = operation.clone()
    for position, value in operands.items():
        made.operands[position] = value
    return made.results[0]


# ---- updates and slices --------------------------------------------------------------------------


def _overwrites(update: ir.Operation) -> bool:
    """Whether an in-place update may read what it has written: its block is computed from the
    updated array, whose shape changes before or after."""
    operand, block = update.operands[:2]

    def over(name: str) -> bool:
        return name not in WITH_BUFFER and name not in ("constant", "iota")

    sources = set(above(operand, over))
    others = set(above(block, over))
    shared = {x for x in sources & others if x is not None and not is_constant(x)}
    if not shared and None not in sources | others:
        return False
    return _is_reshaped_before(operand) or _is_reshaped_after(update)


def _changes_shape(operation: ir.Operation) -> bool:
    name = name_of(operation)
    return name in _PRODUCTS or (name in _RESHAPES and bool(operation.operands[0].type.shape))


def _keeps_buffer(name: str) -> bool:
    """Whether the compiler moves changes of the shape past an operation."""
    return name in ELEMENTWISE or name == "dynamic_update_slice"


def _is_reshaped_before(value: ir.Value) -> bool:
    """Whether a value may be a reshape. It is not if it is computed, elementwise, from arguments of
    the program or of a loop, and from results with their own buffers: the compiler makes reshapes
    of many others, such as a maximum over one."""
    for x in above(value, _keeps_buffer):
        if x is None or may_be_anything(x):
            return True
        if not isinstance(x.owner, ir.Block) and not is_constant(x):
            name = name_of(x.owner)
            if not (_keeps_buffer(name) or name in WITH_BUFFER - _PRODUCTS):
                return True
    return False


def _is_reshaped_after(operation: ir.Operation) -> bool:
    waiting, seen = [operation.results[0]], 0
    while waiting:
        for use in waiting.pop().uses:
            user, seen = use.owner, seen + 1
            name = name_of(user)
            if seen > MOST_LOOKED_AT or _changes_shape(user) or name in ("call", "composite"):
                return True
            # A sum over one, or the only element of a dimension, is a change of the shape alone.
            if 1 in use.owner.operands[0].type.shape and not (
                _keeps_buffer(name) or name in WITH_BUFFER or name == "return"
            ):
                return True
            if name == "return":
                around = user.operation.parent
                if name_of(around) != "while" and not is_entry(around):
                    return True
            elif _keeps_buffer(name):
                waiting += user.results
    return False


def _by_selection(update: ir.Operation) -> ir.Value:
    """Selects between the operand and an array with the block in its place."""
    operand, block, *start = update.operands
    kind = dtype_of(operand.type.element_type)
    nothing = constant(np.zeros((), kind), operand.type.shape, kind)
    placed = dynamic_update_slice(nothing, block, start)
    inside = constant(True, block.type.shape, np.bool_)
    where = dynamic_update_slice(constant(False, operand.type.shape, np.bool_), inside, start)
    return select(where, placed, operand)


def _with_block_before(update: ir.Operation) -> ir.Value:
    """The update with a block that is computed before."""
    return _with_operands(update, {1: _behind_barrier(update.operands[1])})


def _is_sliced(pad: ir.Operation) -> bool:
    """Whether the result of a pad may be sliced. The compiler merges both into a pad with negative
    edges, for which its partitioner gives wrong numbers or ends the process."""
    users = (use.owner for use in pad.results[0].uses)
    return any(name_of(user) not in ELEMENTWISE | WITH_BUFFER | {"reduce"} for user in users)


def _pad_before_use(pad: ir.Operation) -> ir.Value:
    """The pad with a result that is computed before its use."""
    return _behind_barrier(_with_operands(pad, {}))


def _pad_separately(pad: ir.Operation) -> ir.Value:
    """The pad with its own operand and result: the partitioner confuses pads of one operand with
    different values."""
    return _behind_barrier(_with_operand_before(pad))


def _misleads_partitioner(reshape: ir.Operation, partitions: int) -> bool:
    """Whether a reshape may mislead the partitioner. It records the dimensions along which a
    broadcast repeats elements, and omits transfers along them. A reshape inherits the records of
    dimensions with the same lengths on a device, in order. With one row on each device, these
    lengths are ambiguous."""
    if not any(1 < n <= partitions for n in shape_of(reshape)):
        return False
    sources = above(reshape.operands[0], lambda name: name not in WITH_BUFFER)
    return any(may_be_anything(x) or _is_broadcast(x) for x in sources)


def _is_broadcast(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and name_of(value.owner) == "broadcast_in_dim"


def _with_operand_before(found: ir.Operation) -> ir.Value:
    """The operation with an operand that is computed before, of which nothing is noted."""
    return _with_operands(found, {0: _behind_barrier(found.operands[0])})


def _slices_a_slice(found: ir.Operation) -> bool:
    """Whether the operand of a slice may be a slice itself."""
    for value in above(found.operands[0], lambda name: name not in WITH_BUFFER):
        if value is None or may_be_anything(value):
            return True
        if not isinstance(value.owner, ir.Block) and name_of(value.owner) in _SLICES:
            return True
    return False


def _with_start_inside(found: ir.Operation) -> ir.Value:
    """The slice with a start that keeps it inside: the compiler adds starts before it clamps
    them."""
    lengths = found.operands[0].type.shape
    last = [n - size for n, size in zip(lengths, found.attributes["slice_sizes"], strict=True)]
    inside: dict[int, ir.Value] = {}
    if name_of(found) == "dynamic_slice":
        for axis, (start, limit) in enumerate(zip(list(found.operands)[1:], last, strict=True)):
            number = known_integer(start)
            if number is None or not 0 <= number <= limit:
                inside[axis + 1] = _clamp(start, [limit])
    else:
        numbers = hlo.GatherDimensionNumbers(found.attributes["dimension_numbers"])
        limits = [last[axis] for axis in numbers.start_index_map]
        inside[1] = _clamp(found.operands[1], limits, numbers.index_vector_dim)
    return _with_operands(found, inside)


def _clamp(index: ir.Value, limits: list[int], axis: int = 0) -> ir.Value:
    """Indices clipped to [0, limits] of their components along an axis."""
    kind, shape = dtype_of(index.type.element_type), tuple(index.type.shape)
    most = np.minimum(limits, np.iinfo(kind).max).astype(kind)
    if axis < len(shape):
        sides = [len(limits) if i == axis else 1 for i in range(len(shape))]
        high = constant(np.broadcast_to(most.reshape(sides), shape).copy())
    else:
        high = constant(most[0], shape, kind)
    return clamp(constant(0, shape, kind), index, high)


# ---- differences ---------------------------------------------------------------------------------


def _leaves_extremum(difference: ir.Operation) -> bool:
    """Whether an extremum is subtracted from products. A fused multiply-add does not round them, so
    the largest difference may be far from zero, and its exponential infinite or zero."""
    if not _of_floats(difference) or _extremum_below(difference) is None:
        return False
    for x in above(difference.operands[0], lambda name: name not in WITH_BUFFER):
        if x is None or may_be_anything(x):
            return True
        if not isinstance(x.owner, ir.Block) and name_of(x.owner) == "multiply":
            return True
    return False


def _extremum_below(difference: ir.Operation) -> tuple[ir.Operation, list[ir.Operation]] | None:
    """The reduction whose extremum of the first operand is the second (perhaps replaced where
    infinite), and its broadcasts."""
    x, value = difference.operands
    repeated: list[ir.Operation] = []
    chosen = False
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if name_of(owner) == "reduce":
            same = owner.operands[0] == x and _body(owner) in _EXTREMA
            return (owner, repeated) if same else None
        if name_of(owner) == "select" and not chosen:
            chosen, value = True, owner.operands[1 if _is_reduced(owner.operands[1]) else 2]
        elif name_of(owner) in ("broadcast_in_dim", "reshape"):
            repeated.append(owner)
            value = owner.operands[0]
        else:
            return None
    return None


def _is_reduced(value: ir.Value) -> bool:
    owner = value.owner
    while not isinstance(owner, ir.Block) and name_of(owner) in ("broadcast_in_dim", "reshape"):
        owner = owner.operands[0].owner
    return not isinstance(owner, ir.Block) and name_of(owner) == "reduce"


def _subtract_from_rounded(difference: ir.Operation) -> ir.Value:
    """Subtracts from the first operand as rounded for the extremum: no element is beyond it, so the
    selection changes nothing, but its result is no product."""
    below = _extremum_below(difference)
    assert below is not None
    reduction, repeated = below
    value = reduction.results[0]
    for one in reversed(repeated):
        value = op1(str(one.operation.name), (value,), one.results[0].type, attributes_of(one))
    x, y = difference.operands
    beyond = compare(x, y, "GT" if _body(reduction) == "stablehlo.maximum" else "LT")
    within = select(and_(beyond, compare(value, y, "EQ")), y, x)
    return op1("stablehlo.subtract", (within, y), x.type)


# ---- exponentials --------------------------------------------------------------------------------


def _sees_nan(exponential: ir.Operation) -> bool:
    """Whether the compiler may find that elements of an operand are NaN: they are computed with
    constants that are not finite or with a division by zero, or a constant NaN is inserted or
    selected; where one flag selects a row, it is found in a copy of the loop."""
    for value in above(exponential.operands[0], lambda name: name not in WITH_BUFFER):
        if value is None or (is_constant(value) and _has_nan(value.owner)):
            return True
    for value in above(exponential.operands[0], lambda name: name in _PASSING_NAN):
        if value is None or may_be_anything(value):
            return True
        if isinstance(value.owner, ir.Block):
            continue
        name = name_of(value.owner)
        if name == "constant" and is_float(value) and not _is_finite(value.owner):
            return True
        if name == "divide" and _is_zero(value.owner.operands[1]):
            return True
    return False


def _sources(value: ir.Value) -> Iterator[ir.Value]:
    """A value and the operands of its broadcasts, reshapes and casts."""
    walk = above(value, lambda name: name in ("broadcast_in_dim", "reshape", "convert"))
    return (x for x in walk if x is not None)


def _is_zero(value: ir.Value) -> bool:
    """Whether a value may be a constant zero."""
    for x in filter(is_constant, _sources(value)):
        numbers = np.array(ir.DenseElementsAttr(x.owner.attributes["value"]))
        return not numbers.all()
    return False


def _has_nan(made: ir.Operation) -> bool:
    """Whether a constant has a NaN; False for a range of integers."""
    if name_of(made) != "constant" or not is_float(made.results[0]):
        return False
    number = number_of_constant(made)
    return number is None or math.isnan(number)  # several would have to be read


def _is_finite(made: ir.Operation) -> bool:
    number = number_of_constant(made)
    return number is not None and math.isfinite(number)


def _select_nan(exponential: ir.Operation) -> ir.Value:
    """Selects NaN where the operand is NaN, instead of computing it."""
    x = exponential.operands[0]
    nan = constant(np.nan, shape_of(exponential), dtype_of(x.type.element_type))
    return select(compare(x, x, "NE"), nan, exponential.clone().results[0])
