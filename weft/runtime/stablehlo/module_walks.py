"""Looking at the operations of a module: what a value is computed from, and what is in sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.runtime.stablehlo.mlir import ir

_FLOATS = tuple(getattr(ir, name) for name in ("F16Type", "BF16Type", "F32Type", "F64Type"))
# What has a buffer of its own in any case.
WITH_BUFFER = frozenset({"dot_general", "convolution", "while", "sort", "fft", "custom_call"})
ELEMENTWISE = frozenset(
    "abs add and cbrt ceil compare convert cosine divide exponential exponential_minus_one floor "
    "is_finite log log_plus_one logistic multiply negate not or power round_nearest_afz "
    "round_nearest_even rsqrt select sign sine sqrt subtract tan tanh xor".split()
)
# How many values a walk looks at before it takes the answer that is safe.
MOST_LOOKED_AT = 64


def is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, _FLOATS)


def shape_of(operation: ir.Operation) -> tuple[int, ...]:
    return tuple(operation.results[0].type.shape)


def name_of(operation: ir.Operation) -> str:
    """An operation's name without its dialect."""
    return str(operation.operation.name).partition(".")[2]


def above(value: ir.Value, over: Callable[[str], bool]) -> Iterator[ir.Value | None]:
    """A value and the values it is computed from, through operations whose names satisfy `over`.
    After many, None, which stands for any value."""
    waiting, seen = [value], {value}
    while waiting:
        if len(seen) > MOST_LOOKED_AT:
            yield None
            return
        current = waiting.pop()
        yield current
        owner = current.owner
        if not isinstance(owner, ir.Block) and over(name_of(owner)):
            fresh = [x for x in owner.operands if x not in seen]
            seen.update(fresh)
            waiting += fresh


def may_be_anything(value: ir.Value | None) -> bool:
    """Whether a value is unknown: an argument or a result of a function."""
    if value is None:
        return True
    owner = value.owner
    if isinstance(owner, ir.Block):
        around = owner.owner
        return name_of(around) != "while" and not is_entry(around)
    return name_of(owner) in ("call", "case", "if", "composite", "optimization_barrier")


def is_entry(function: ir.Operation) -> bool:
    """Whether an operation is a function that nothing in the module calls."""
    hidden = "sym_visibility" in function.attributes and "public" not in str(
        function.attributes["sym_visibility"]
    )
    return name_of(function) == "func" and not hidden


def is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and name_of(value.owner) in ("constant", "iota")


def attributes_of(operation: ir.Operation) -> dict[str, ir.Attribute]:
    names = [getattr(entry, "name", entry) for entry in operation.attributes]
    return {name: operation.attributes[name] for name in names}


def number_of_constant(made: ir.Operation) -> float | None:
    """The number that a floating-point constant repeats; None for several numbers."""
    numbers = ir.DenseElementsAttr(made.attributes["value"])
    return ir.FloatAttr(numbers.get_splat_value()).value if numbers.is_splat else None
