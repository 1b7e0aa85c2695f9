"""FFI calls as lowering rules of primitives that are defined outside weft."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core.types import ArrayType
from weft.errors import api_boundary
from weft.ffi.call import ffi_call_lower, foreign_operation
from weft.ffi.call_arguments import Order, checked_aliases, orders, untyped_config
from weft.ffi.call_attributes import foreign_attributes
from weft.sharding import Layout


@api_boundary
def ffi_lowering(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    operand_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    api_version: int = 4,
) -> Callable[..., list[Any]]:
    """A lowering rule that calls a compiled handler, for a primitive of your own.

    The primitive's operands and results are those of the handler, and its parameters the
    attributes, together with those of `backend_config`. Layouts are row-major, or as the two
    sequences say: a `Layout`, None, or the dimensions from minor to major as XLA writes them, the
    other way round than in `weft.ffi.ffi_call`. With `has_side_effect` the call happens as often as
    the program says; that equations of the primitive are kept is a matter of its `effects` rule. On
    several devices every one gets the whole operands.

    api_version: 4 is the typed interface; for handlers registered with `api_version=0` it is 1, 2
    or 3, and `backend_config` a text in place of all attributes.

    Args:
        call_target_name: The name under which the handler is registered.
        operand_layouts: The order in which the handler has the elements of each operand.
        result_layouts: The same for each result.
        operand_output_aliases: From the numbers of operands to those of the results that the
            handler writes into their memory.

    Raises what `ffi_call` raises, when the primitive is lowered.

    >>> from weft import ffi
    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import mlir
    >>> rms_norm_p = Primitive("rms_norm")
    >>> rule = mlir.register_lowering(rms_norm_p, ffi.ffi_lowering("rms_norm"))
    """
    prepared = _Prepared("ffi_lowering", locals())

    def lower(context: Any, *values: Any, **params: Any) -> list[Any]:
        return ffi_call_lower(context, *values, **prepared.params(context, params))

    return lower


@api_boundary
def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    operand_output_aliases: Mapping[int, int] | None = None,
    has_side_effect: bool = False,
    api_version: int = 4,
) -> Callable[..., Any]:
    """A function that emits the operation which calls a handler, for a part of a lowering rule.

    It takes the rule's context, values and the attributes, and returns the operation, whose
    `results` the rule goes on with. The arguments are those of `weft.ffi.ffi_lowering`; a call with
    side effects happens on every device that runs the module.

    Args:
        call_target_name: The name under which the handler is registered.
        operand_layouts: The order in which the handler has the elements of each operand: a
            `Layout`, None, or the dimensions from minor to major.
        result_layouts: The same for each result.
        backend_config: Attributes for all calls; a text for handlers of the older interface.
        operand_output_aliases: From the numbers of operands to those of the results that the
            handler writes into their memory.
        has_side_effect: Whether the call happens as often as the program says, even if nothing uses
            its results.
        api_version: 4 for the typed interface; 1, 2 or 3 for handlers registered with
            `api_version=0`.

    Raises what `ffi_call` raises, when the primitive is lowered.

    >>> from weft import ffi
    >>> from weft.extend.core import Primitive
    >>> from weft.extend.interpreters import mlir
    >>> normalize = ffi.build_ffi_lowering_function("rms_norm")
    >>> twice_normalized_p = Primitive("twice_normalized")
    >>> def twice_normalized_lower(context, x):
    ...     return normalize(context, *normalize(context, x).results).results
    >>> rule = mlir.register_lowering(twice_normalized_p, twice_normalized_lower)
    """
    prepared = _Prepared("build_ffi_lowering_function", locals())

    def emit(context: Any, *values: Any, **params: Any) -> Any:
        types = context.result_ir_types()
        return foreign_operation(context, values, types, **prepared.params(context, params))[0]

    return emit


class _Prepared:
    """The arguments of the two functions, converted to the parameters of `ffi_call`'s primitive."""

    def __init__(self, caller: str, given: Mapping[str, Any]) -> None:
        self.given, self.target = given, given["call_target_name"]
        self.operation = f"{caller} of {self.target}"
        config = given["backend_config"]
        text = config if isinstance(config, str) else None
        self.untyped = untyped_config(self.operation, given["api_version"], text, "backend_config")
        self.attributes = {} if text is not None else dict(config or {})

    def params(self, context: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        types = (tuple(context.in_types), tuple(context.out_types))
        ins = self._orders("operand_layouts", types[0])
        outs = self._orders("result_layouts", types[1])
        aliases = self.given["operand_output_aliases"]
        attributes = self.attributes | dict(params)
        untyped = self.untyped is not None
        found = {
            "target": self.target,
            "has_side_effect": bool(self.given["has_side_effect"]),
            "in_orders": ins,
            "out_orders": outs,
            "aliases": checked_aliases(self.operation, aliases, types, (ins, outs)),
            "num_batch_dims": 0,
            "attributes": foreign_attributes(self.target, attributes, untyped=untyped),
        }
        return found | ({} if self.untyped is None else {"untyped": self.untyped})

    def _orders(self, name: str, types: Sequence[ArrayType]) -> tuple[Order, ...]:
        given = self.given[name]
        if isinstance(given, Sequence):
            given = [
                x if x is None or isinstance(x, Layout) else tuple(reversed(tuple(x)))
                for x in given
            ]
        return orders(self.operation, name, given, types)
