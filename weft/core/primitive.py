"""A primitive: an operation that is atomic to every transformation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weft.base.exact_keys import is_plain
from weft.base.program_caches import holds_programs
from weft.base.util import Immutable
from weft.core import rules
from weft.core.array_value import array_values, as_operands
from weft.core.facts import Facts
from weft.core.parameter_keys import ParameterCache
from weft.core.trace import bottom_trace, current_variable
from weft.errors import Fix, WeftTypeError

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
