"""A primitive: an operation that is atomic to every transformation; and the facts about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from weft.base.exact_keys import ParameterCache, is_plain
from weft.base.program_caches import holds_programs
from weft.base.util import Immutable
from weft.core import rules
from weft.core.array_value import array_values, as_operands
from weft.core.trace import bottom_trace, current_variable
from weft.errors import Fix, WeftTypeError


class Work(NamedTuple):
    """Flops and functions of one operation; `known` is False for one that says nothing.

    Args:
        flops: Arithmetic operations on real numbers.
        functions: Functions of numbers, such as exponentials.
        known: Whether the primitive says what it computes.
    """

    flops: float = 0.0
    functions: float = 0.0
    known: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What is true of a primitive. Its declaration says so: `primitive` and the families of `ops/`
    take these as keywords.

    Args:
        cheap: It costs little more than reading its operands, or only says where elements come
            from: the linear half of a linearized jaxpr may compute it again. Roots, powers and
            transcendental functions are not cheap.
        again_from_operand: It is a function of one operand that the linear half computes again
            where the operand is kept anyway, or where that takes the place of two of its functions:
            a layer of a network wants a function and its derivative.
        view: It only reshapes, permutes or repeats the elements of its operand.
        linear: Up to a constant it is linear in the operands that can have tangents, all together:
            its jvp rule maps Taylor coefficients of each order to those of the result.
        bilinear: It is linear in each of two operands.
        keeps_zero: It is elementwise, and 0 of 0, unless an exponent is not positive.
        keeps_sums: It keeps zero, and of a sum it is the sum, up to rounding.
        makes_no_nan: Each element of its results is one of an operand, converted or with another
            sign at most, or a part of one.
        flops: "none", or one "addition" or "product" of real numbers for each element of the
            result; or a function from an equation to its `Work` (see `ops/flops.py`); "" if the
            primitive does not say. Additions count subtractions and extrema, products divisions.
        fusible: A compiler computes it within the operation that reads its result, as it does
            elementwise operations.
        fuses_operands: A compiler computes within it what makes its operands, and stores its
            result: a reduction.
        moves_nothing: Its result is its operand under another type.
        reads_part: It reads of its first operand only as much as it returns.
        updates: The index of the operand that it writes into the first one, in place.
        wide_cotangents: Its transpose rule holds in any floating dtype, one result at a time or
            through a jaxpr: cotangents of 16-bit results may be given to it in float32.
        product: It is a product of matrices. A compiler fuses little into these, so a function
            that holds some loses little by being called instead of inlined.
        never_called: XLA has it for CPUs in the entry function alone: derivatives of convolutions
            take six times as long in a function that is called.
        calls_python: It calls a Python function of the process.
        fused_products: Its last digits depend on products that the compiler fuses with sums, which
            a fast compilation does not: a program that holds some is not compiled so.
    """

    cheap: bool = False
    again_from_operand: bool = False
    view: bool = False
    linear: bool = False
    bilinear: bool = False
    keeps_zero: bool = False
    keeps_sums: bool = False
    makes_no_nan: bool = False
    flops: Literal["", "none", "addition", "product"] | Callable[[Any], Work] = ""
    fusible: bool = False
    fuses_operands: bool = False
    moves_nothing: bool = False
    reads_part: bool = False
    updates: int | None = None
    wide_cotangents: bool = False
    product: bool = False
    never_called: bool = False
    calls_python: bool = False
    fused_products: bool = False


Rule = Callable[..., Any]
_get = current_variable.get
_NO_FACTS = Facts()


class Primitive(Immutable):
    """An operation that traces interpret. The tables of `core.rules` hold its rules.

    `type_cache` has the results of the type rule, `eager_cache` the executables of one operation:
    both are keyed by operand types and parameters, which are each of one class for weft's own
    primitives. Equal parameters of one class are the same unless they are numbers with bits that
    equality does not see: from the first such parameter on, the keys of executables are exact. A
    primitive that holds jaxprs turns `memoise` off, since the cache would keep them alive.
    `facts` has what is true of the operation beside its rules.

    Args:
        name: What the operation is called in jaxprs and messages.
        multiple_results: Whether `bind` returns a list of results, and not one.
        memoise: Whether results of rules are cached by types and parameters; False for a primitive
            that holds jaxprs.

    >>> from weft.extend.core import Primitive
    >>> half_p = Primitive("half")
    >>> _ = half_p.def_impl(lambda x: x / 2)
    >>> half_p.bind(np.array([2.0, 4.0]))
    Array([1., 2.], dtype=float32)
    """

    __slots__ = (
        "__weakref__", "eager_cache", "facts", "memoise", "multiple_results", "name",
        "type_cache",
    )  # fmt: skip

    def __init__(self, name: str, multiple_results: bool = False, memoise: bool = True) -> None:
        if not isinstance(name, str):
            message = "a primitive is made with its name"
            got = f"{name!r:.100} of class {type(name).__name__}"
            fix = Fix("name", 'write Primitive("name")')
            raise WeftTypeError(message, operation="Primitive", got=got, wanted="a str", fix=fix)
        self.name = name
        self.multiple_results = multiple_results
        self.memoise = memoise
        self.facts = _NO_FACTS
        self.type_cache: dict[Any, Any] = {}
        self.eager_cache: dict[Any, Any] = {}
        holds_programs(self)

    def forget_programs(self) -> None:
        """Drops the executables of this operation alone."""
        self.eager_cache.clear()

    def executables(self, params: Mapping[str, Any]) -> dict[Any, Any]:
        """The cache to keep an executable for these parameters in, or to look for it."""
        if type(self.eager_cache) is dict and not all(map(is_plain, params.values())):
            exact = ParameterCache()
            for key, program in self.eager_cache.items():
                exact[key] = program
            self.eager_cache = exact
        return self.eager_cache

    # `self` is positional only: a parameter may have any name.
    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Applies the primitive: arrays are positional, parameters are keywords."""
        if array_values:
            args = as_operands(args)
        return (_get(None) or bottom_trace()).process_primitive(self, args, params)

    def call(self, /, function: Callable[..., Any], *args: Any, **params: Any) -> Any:
        """Applies the primitive to a Python function of flat values and to arrays.

        The trace's `process_call` decides which values the function gets. weft's own traces make it
        the parameter `function` of the primitive's rules; where an application is recorded, the
        primitive's `stage` rule traces it; a trace without a `process_call` of its own runs it
        under itself. The function takes values and returns a list of them.
        """
        if array_values:
            args = as_operands(args)
        trace = _get(None) or bottom_trace()
        return trace.process_call(self, function, args, params)

    def impl(self, /, *args: Any, **params: Any) -> Any:
        """Evaluates the primitive at once, whichever trace is current."""
        own = rules.impl.get(self)
        if own is not None:
            return own(*args, **params)
        return bottom_trace().process_primitive(self, args, params)

    def def_impl(self, function: Rule) -> Rule:
        """Evaluates the primitive by a Python function instead of compiling it."""
        return rules.register_from_outside(rules.impl, self, function)

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the type rule: from operand types and parameters to the result type (or types)."""
        rules.register_from_outside(rules.type_rule, self, rule)
        self.type_cache, self.eager_cache = ParameterCache(), ParameterCache()
        return rule

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        message = f"the primitive {self.name!r} cannot be pickled: its rules stay in this process"
        wanted = "a function of a module, which the other process imports"
        text = "pickle a function that applies it, or its name; a program goes as weft.export"
        fix = Fix("name_it", text, {"primitive": self.name})
        raise WeftTypeError(message, operation=self.name, wanted=wanted, fix=fix)
