"""Promotion and broadcasting of the operands of elementwise functions, by cached plans.

The operands' types alone decide their common dtype (see `weft.dtypes.promote`), the conversions and
broadcasts, and the operation for that dtype. The decision is made once per function and types and
cached as a *plan*, a function of the operands; without conversions and broadcasts the plan is the
primitive's own `bind`. A call is then one look-up and one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array, put
from weft.arrays.conversion import as_array, mark_rounded, scalar_array
from weft.core.array_value import array_values, as_operands
from weft.core.trace import current_variable
from weft.core.types import ArrayType, check_unmasked, type_of
from weft.errors import DTypeError, WeftOverflowError, WeftTypeError
from weft.kinds.arguments import Prepared
from weft.kinds.array_function import private_function
from weft.kinds.checks import check_arrays, check_ranks, inexact, no_common_shape
from weft.kinds.numbers import NUMBERS, RANK, WIDE, canonical_type, is_number
from weft.numpy.ufuncs import MISSING, signature_of, ufunc
from weft.ops.elementwise.convert import convert_element_type_p
from weft.ops.elementwise.families import refused_dtype
from weft.ops.structural.narrow import wide_dtype
from weft.ops.structural.shape import broadcast_in_dim
from weft.typing import ArrayLike

Unary = Callable[[ArrayLike], Array]
Binary = Callable[[ArrayLike, ArrayLike], Array]
Apply = Callable[..., Any]
Cases = Mapping[frozenset[np.dtype[Any]], Apply]

_trace = current_variable.get
_settings = config.settings
_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "V": float, "c": complex}
CONTAINERS = frozenset({list, tuple, set, dict})


def _number_converter(dtype: Any, operation: str) -> Callable[[Any], Any]:
    """`dtypes.number` for one dtype, with a fast path for numbers within its range."""
    make = dtype.type
    if dtype.kind == "b":
        return make
    if dtype.kind == "c":
        return lambda value: dtypes.number(value, dtype, operation=operation)
    cls: Any = int if dtypes.is_integer(dtype) else float
    limits = dtypes.iinfo(dtype) if cls is int else dtypes.finfo(dtype)
    low, high = cls(limits.min), cls(limits.max)

    def convert(value: Any) -> Any:
        if low <= value <= high:
            return make(value)
        return dtypes.number(value, dtype, operation=operation)

    return convert


# Among the cases of a function: the dtypes of random keys, which no set holds.
KEYS: frozenset[Any] = frozenset()


# What these give depends on the bits of a number, so a wider dtype does not do.
_OF_BITS = frozenset({"bitwise_count", "nextafter", "spacing"})
# What JAX computes of booleans in int32 (NumPy does in int8). weft leaves the choice to the user,
# but not with the setting `dtype_rule="jax"`.
_OF_INTEGERS = frozenset(
    {"divmod", "floor_divide", "fmod", "left_shift", "power", "remainder", "right_shift", "square"}
)


def _computed_in(apply: Apply, wide: Any, dtype: Any) -> Apply:
    """Computes a function of narrow numbers in a wider dtype, and rounds results of that dtype."""

    def rounded(x: Any) -> Any:
        if type_of(x).dtype != wide:
            return x
        return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=False)

    def operation(*values: Any) -> Any:
        wider = [convert_element_type_p.bind(x, new_dtype=wide, weak_type=False) for x in values]
        found = apply(*wider)
        several = isinstance(found, (tuple, list))
        return tuple(map(rounded, found)) if several else rounded(found)

    return operation


class Operation:
    """An elementwise function as data.

    cases: a primitive (or function of operands of one dtype) for each set of dtypes; it takes
    operands of one shape, and operands without dimensions beside them. inexact: whether integers
    become real numbers first.
    """

    __slots__ = ("cases", "inexact", "name")

    def __init__(self, name: str, cases: Cases, inexact: bool) -> None:
        self.name = name
        self.cases = cases
        self.inexact = inexact

    def choose(self, dtype: Any, types: list[ArrayType]) -> Apply:
        """The primitive or function for a dtype. Raises DTypeError if there is none."""
        wide = wide_dtype(dtype)
        for accepted, apply in self.cases.items():
            if dtype in accepted or (accepted is KEYS and dtypes.is_extended(dtype)):
                return apply
            if wide != dtype and wide in accepted and self.name not in _OF_BITS:
                return _computed_in(apply, wide, dtype)
        accepted = frozenset().union(*self.cases)
        raise refused_dtype(self.name, dtype, tuple(types), accepted)

    def plan(self, values: tuple[Any, ...]) -> Apply:
        """The plan for operands of the types of `values`."""
        types = [canonical_type(value) for value in values]
        try:
            dtype, weak = dtypes.promote(*[(of.dtype, of.weak_type) for of in types])
        except DTypeError as error:
            error.operation = self.name
            raise
        if self.inexact and dtype not in dtypes.NARROW_FLOATING and dtype.kind != "K":
            dtype = inexact(dtype)
        if self._is_of_booleans(dtype) and config.settings().dtype_rule == "jax":
            dtype, weak = dtypes.int32, False
        apply = self.choose(dtype, types)
        shapes = [of.shape for of in types]
        check_ranks(self.name, shapes)
        shape = broadcast_shape(self.name, types)
        pairs = list(zip(values, types, strict=True))
        hosts = [self.host_step(value, of, dtype, weak) for value, of in pairs]
        steps = [self.device_step(value, of, dtype, weak, shape) for value, of in pairs]
        if any(steps):
            apply = _after_steps(self.name, apply, steps)
        if any(hosts):
            apply = _after_host(apply, hosts)
        return _marking(apply) if _is_narrowed(values) else apply

    def _is_of_booleans(self, dtype: Any) -> bool:
        """Whether a setting decides the dtype of the computation."""
        return dtype == dtypes.bool_ and self.name in _OF_INTEGERS

    def host_step(
        self, value: Any, of: ArrayType, dtype: Any, weak: bool
    ) -> Callable[[Any], Any] | None:
        """The conversion of an operand that is not an array yet, or None."""
        if isinstance(value, np.ndarray) and of.shape:
            if dtype in WIDE and value.dtype != of.dtype:
                wide = ArrayType(of.shape, dtype)
                return lambda x: put(np.asarray(x, dtype), wide)
            if value.dtype == of.dtype:
                return lambda x: x if _trace(None) is not None else put(x, of)
            return lambda x: x if _trace(None) is not None else as_array(x)
        if is_number(value):
            cls = _PYTHON[dtype.kind]
            if weak and dtype == dtypes.of_scalar(cls(0)):
                return _number_step(cls, ArrayType((), dtype, True))
            return _number_step(_number_converter(dtype, self.name), ArrayType((), dtype))
        if isinstance(value, (np.ndarray, np.generic)):
            step = _number_step(_number_converter(dtype, self.name), ArrayType((), dtype))
            return lambda x: step(_item(x, of.dtype))
        return None

    def device_step(
        self, value: Any, of: ArrayType, dtype: Any, weak: bool, shape: tuple[int, ...]
    ) -> Unary | None:
        """The conversion and broadcast of an array before the operation, or None."""
        if not hasattr(value, "type") and not of.shape:
            return None
        wide = isinstance(value, np.ndarray) and dtype in WIDE and value.dtype != of.dtype
        converts = of.dtype != dtype and not wide
        spreads = of.shape not in ((), shape)
        if not converts and not spreads:
            return None
        dims = tuple(range(len(shape) - of.ndim, len(shape)))

        def step(x: Any) -> Any:
            if converts:
                x = convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak)
            return broadcast_in_dim(x, shape, dims) if spreads else x

        return step

    def stable(self, values: tuple[Any, ...]) -> bool:
        """Whether the plan is the same under all settings, which set the default widths."""
        types = [type_of(x) for x in values if not is_number(x)]
        if not types or any(isinstance(x, (np.generic, np.ndarray)) for x in values):
            return False
        if len({of.ndim for of in types if of.shape}) > 1:
            return False  # The setting of ranks decides whether there is a plan.
        dtype = types[0].dtype
        if any(of.dtype != dtype for of in types) or dtype not in dtypes.ANY:
            return False
        if self._is_of_booleans(dtype):
            return False
        numbers = [x for x in values if is_number(x)]
        if self.inexact and dtype not in dtypes.INEXACT:
            return not numbers and dtype.itemsize < 8
        if not numbers:
            return True
        top = max(RANK[dtypes.of_scalar(x).kind] for x in numbers)
        return top <= RANK[dtype.kind] and not all(of.weak_type for of in types)


def _item(value: Any, dtype: Any) -> Any:
    """The number of a NumPy scalar or array, reduced to the default width where settings say so."""
    if dtype != value.dtype and dtype.kind in "iu" and dtypes.keeps_low_bits():
        return dtypes.low_bits(value.item(), dtype).item()
    return value.item()


def broadcast_shape(name: str, types: list[ArrayType]) -> tuple[int, ...]:
    """The shape to which all operands broadcast. Raises ShapeError if there is none."""
    try:
        return np.broadcast_shapes(*[of.shape for of in types])
    except ValueError:
        got = ", ".join(map(str, types))
        raise no_common_shape(name, [of.shape for of in types], got) from None


def _after_steps(name: str, apply: Apply, steps: list[Unary | None]) -> Apply:
    """The operation after conversions and broadcasts, as one executable."""

    def operation(*values: Prepared) -> Any:
        return apply(
            *[x if step is None else step(x) for x, step in zip(values, steps, strict=True)]
        )

    operation.__name__ = name
    return private_function(operation)


def _is_narrowed(values: tuple[Any, ...]) -> bool:
    """Whether the result has 32 bits only by the default width: all operands are Python numbers, or
    64-bit values of NumPy."""
    if any(hasattr(x, "type") for x in values) or _settings().enable_x64:
        return False
    dtypes_of = [x.dtype for x in values if isinstance(x, (np.ndarray, np.generic))]
    return all(dtype in WIDE for dtype in dtypes_of)


def _marking(apply: Apply) -> Apply:
    def operation(*values: Any) -> Any:
        return mark_rounded(apply(*values))

    return operation


def _after_host(apply: Apply, hosts: list[Unary | None]) -> Apply:
    """The operation after conversions of operands that are not arrays yet."""
    first, *rest = hosts
    if not rest:
        assert first is not None
        return lambda x: apply(first(x))
    if len(rest) > 1:
        steps = [step or _itself for step in hosts]
        return lambda *values: apply(*[step(x) for step, x in zip(steps, values, strict=True)])
    second = rest[0]
    if first is None:
        assert second is not None
        return lambda x, y: apply(x, second(y))
    if second is None:
        return lambda x, y: apply(first(x), y)
    return lambda x, y: apply(first(x), second(y))


def _itself(x: Any) -> Any:
    return x


def _number_step(convert: Unary, scalar: ArrayType) -> Unary:
    """Makes a function that converts a number to a literal of a jaxpr, or in eager calls to a
    cached array."""
    checked = dtypes.is_integer(scalar.dtype)

    def step(value: Any) -> Any:
        if _trace(None) is not None or value.__class__ is complex:
            return convert(value)
        if checked:
            value = int(convert(value))  # raises where it does not fit
        try:
            return scalar_array(value, scalar)
        except WeftOverflowError:  # an integer beyond every float64
            return convert(value)  # raises, too, and names the operation

    return step


def _key(value: Any) -> Any:
    """The key of a plan: an array's type, or a number's class."""
    out = getattr(value, "type", None)
    if type(out) is ArrayType:
        return out
    if isinstance(value, np.ndarray):
        return np.ndarray, value.dtype, value.shape
    return value.__class__


class _Plans(dict[Any, Apply]):
    """The plans of one operation."""

    __slots__ = ("operation",)

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self.operation = operation

    def of_numpy(self, x1: Any, x2: Any) -> Apply | None:
        """The plan for two operands, one of them a NumPy array, if there is one."""
        if type(x1) is not np.ndarray and type(x2) is not np.ndarray:
            return None
        return self.get((_key(x1), _key(x2)))

    def make(self, *values: Any) -> Apply:
        """The plan for operands without a cached plan."""
        operation = self.operation
        for value in values:
            check_unmasked(value, operation.name)
        keys = tuple(map(_key, values))
        key = keys[0] if len(keys) == 1 else keys
        out = self.get(key)
        if out is None:
            check_arrays(*values, operation=operation.name)
            if self._stand_for_arrays(values):
                out = self._as_arrays
            else:
                stable = operation.stable(values)
                out = operation.plan(values) if stable else _by_settings(operation)
            self[key] = out
        return out

    def _stand_for_arrays(self, values: Sequence[Any]) -> bool:
        """Whether an operand's class does not tell its type, as its objects stand for arrays."""
        for value in values:
            if value.__class__ not in NUMBERS:
                type_of(value)  # Learns the class where it is new.
        classes = [value.__class__ for value in values if type(_key(value)) is not ArrayType]
        return not array_values.isdisjoint(classes)

    def _as_arrays(self, *values: Any) -> Any:
        """The plan for such operands: looks up that of their arrays."""
        arrays = as_operands(values)
        return self.make(*arrays)(*arrays)


def _by_settings(operation: Operation) -> Apply:
    """A plan that looks up another by the settings, which set the default widths."""
    plans: dict[Any, Apply] = {}

    def plan(*values: Any) -> Any:
        settings = _settings()
        found = plans.get(settings)
        if found is None:
            found = operation.plan(values)
            if settings.numpy_rank_promotion != "warn":  # A plan made anew warns anew.
                plans[settings] = found
        return found(*values)

    return plan


def _set_name(function: Any, name: str, doc: str, module: str = "weft.numpy") -> Any:
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = doc
    return function


def unary(
    name: str, cases: Cases, doc: str, *, inexact: bool = False, module: str = "weft.numpy"
) -> Unary:
    """Makes a function of one operand from the primitives for its dtypes.

    The module is the one that users know it from, and that has it under its name.
    """
    plans = _Plans(Operation(name, cases, inexact))

    def function(x: Any) -> Any:
        try:
            plan = plans[getattr(x, "type", x.__class__)]
        except (KeyError, TypeError):
            plan = plans.make(x)
        return plan(x)

    return _set_name(function, name, doc, module)


def _of_two(plans: _Plans, unknown: Any) -> Any:
    """The function that looks up its plan and runs it.

    For operands of other classes it returns `unknown`, or raises if that is MISSING.
    """

    def function(x1: Any, x2: Any) -> Any:
        try:
            plan = plans[getattr(x1, "type", x1.__class__), getattr(x2, "type", x2.__class__)]
        except (KeyError, TypeError):
            known = plans.of_numpy(x1, x2)
            if known is not None:
                return known(x1, x2)
            if unknown is not MISSING:
                try:
                    check_arrays(x1, x2, operation=plans.operation.name)
                except WeftTypeError:
                    # Left to a list's operators, a product would repeat it, and `==` be false.
                    if type(x1) in CONTAINERS or type(x2) in CONTAINERS:
                        raise
                    return unknown
            plan = plans.make(x1, x2)
        return plan(x1, x2)

    return function


def operator_of(function: BinaryUfunc) -> Binary:
    """The function as an operator: returns NotImplemented for operands of other classes, so that
    Python tries the other operand's operator."""
    operator = _of_two(function.plans, NotImplemented)
    return _set_name(operator, function.__name__, function.__doc__ or "")


class UnaryUfunc(ufunc):
    """A ufunc of one operand that looks up its plan by the operand's type."""

    if TYPE_CHECKING:

        def __call__(self, x: ArrayLike) -> Array: ...

    else:

        def __call__(self, x: Any = MISSING, *more: Any, **keywords: Any) -> Any:
            try:
                plan = self.plans[x.type if type(x) is Array else getattr(x, "type", x.__class__)]
            except (KeyError, TypeError):
                plan = self.plans_for(x)
            if more or keywords:
                self.refuse(1 + len(more), keywords)
            return plan(x)

    def __init__(self, plans: _Plans, identity: Any, reorderable: bool) -> None:
        super().__init__(plans.operation.name, 1, 1, identity, reorderable)
        self.plans = plans
        self.__signature__ = _ONE

    def plans_for(self, x: Any) -> Apply:
        """The plan for an operand without a cached plan."""
        if x is MISSING:
            self.refuse(0, {})
        return self.plans.make(x)


class BinaryUfunc(ufunc):
    """A ufunc of two operands that looks up its plan by the operands' types."""

    if TYPE_CHECKING:

        def __call__(self, x1: ArrayLike, x2: ArrayLike) -> Array: ...

    else:

        def __call__(
            self, x1: Any = MISSING, x2: Any = MISSING, *more: Any, **keywords: Any
        ) -> Any:
            try:
                # `x.type` for arrays: `getattr` would cost as much as the call of this object.
                plan = self.plans[
                    x1.type if type(x1) is Array else getattr(x1, "type", x1.__class__),
                    x2.type if type(x2) is Array else getattr(x2, "type", x2.__class__),
                ]
            except (KeyError, TypeError):
                plan = self.plans_for(x1, x2)
            if more or keywords:
                self.refuse(2 + len(more), keywords)
            return plan(x1, x2)

    def __init__(self, plans: _Plans, identity: Any, reorderable: bool) -> None:
        super().__init__(plans.operation.name, 2, 1, identity, reorderable)
        self.plans = plans
        self.__signature__ = _TWO

    def plans_for(self, x1: Any, x2: Any) -> Apply:
        """The plan for operands without a cached plan."""
        if x2 is MISSING:
            self.refuse(int(x1 is not MISSING), {})
        return self.plans.make(x1, x2)


_ONE, _TWO = signature_of("x"), signature_of("x1", "x2")


def unary_ufunc(name: str, cases: Cases, doc: str, *, inexact: bool = False) -> UnaryUfunc:
    """Makes a ufunc of one operand from the primitives for its dtypes."""
    made = UnaryUfunc(_Plans(Operation(name, cases, inexact)), None, False)
    return _set_name(made, name, doc)


def binary_ufunc(
    name: str,
    cases: Cases,
    doc: str,
    *,
    inexact: bool = False,
    identity: Any = None,
    reorderable: bool = False,
) -> BinaryUfunc:
    """Makes a ufunc of two operands from the primitives by dtype; see `ufunc` for the rest."""
    plans = _Plans(Operation(name, cases, inexact))
    return _set_name(BinaryUfunc(plans, identity, reorderable), name, doc)
