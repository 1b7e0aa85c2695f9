"""Checks the operations that a lowering rule from outside weft emits.

MLIR finds most mistakes when a whole module is verified, and then names neither the primitive nor
the rule. Here each operation of the rule is verified as soon as the rule has run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weft.core import rules
from weft.errors import JaxprError, MissingRuleError
from weft.runtime import stablehlo

Rule = Callable[..., Any]


def checked_lowering(primitive: Any, rule: Rule) -> Rule:
    """Wraps a lowering rule with checks of its operations and results."""
    named = rules.NamedRule(rules.lower, primitive, rule)

    def error(what: str, got: Any, wanted: str) -> JaxprError:
        verb = "emit" if what.startswith("emits") else "answer with"
        return named.error(what, got, wanted, verb)

    @functools.wraps(rule)
    def checked(context: Any, /, *values: Any, **params: Any) -> list[Any]:
        block = stablehlo.ir.InsertionPoint.current.block
        before = len(block.operations)
        try:
            found = named.run((context, *values), params)
        except (JaxprError, MissingRuleError):
            raise
        except Exception as failure:
            if not _of_mlir(failure):
                raise
            raise error(
                "emits an operation that MLIR does not take",
                f"{_builder(failure)}{type(failure).__name__}: {str(failure)[:400]}",
                "operations of registered dialects, with the operands that they take",
            ) from failure
        outs = _values(found, error)
        emitted = [block.operations[i] for i in range(before, len(block.operations))]
        _check_values(outs, context.result_ir_types(), {*values}, emitted, block, error)
        seen, near = {*values}, {*values, *_results(emitted)}
        for op in emitted:
            _verify(op, seen, near, block, error)
            seen.update(op.operation.results)
        return outs

    return checked


def _results(emitted: Sequence[Any]) -> set[Any]:
    return {value for op in emitted for value in op.operation.results}


def _check_values(
    outs: Sequence[Any],
    wanted: Sequence[Any],
    given: set[Any],
    emitted: Sequence[Any],
    block: Any,
    error: Callable[..., JaxprError],
) -> None:
    """Raises JaxprError unless a rule returns values of the types wanted, visible in its block."""
    if len(outs) != len(wanted):
        raise error("answers with the wrong number of values", len(outs), f"{len(wanted)}")
    near = given | _results(emitted)
    for i, (value, expected) in enumerate(zip(outs, wanted, strict=True)):
        if not isinstance(value, stablehlo.ir.Value):
            raise error(
                f"answers with no MLIR value as result {i}",
                f"{value!r:.80} of class {value.__class__.__name__}",
                "the values of the operations that it emits",
            )
        if value not in near and not _visible(value, block):
            raise error(
                f"answers with a value of another function or region as result {i}",
                "a value that no operation in front of it computes",
                "values that are computed from its operands, where it runs",
            )
        if value.type != expected:
            message = f"answers with a value of the wrong type as result {i}"
            raise error(message, f"{value.type}, of {_shown(value.owner)}", str(expected))


def _of_mlir(failure: Exception) -> bool:
    """Whether an exception came from building operations, not from the rule's code."""
    if isinstance(failure, stablehlo.ir.MLIRError):
        return True
    last = failure.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    name = last.tb_frame.f_code.co_filename.replace("\\", "/")
    return "/jaxlib/mlir/" in name or "unregistered" in str(failure)


def _builder(failure: Exception) -> str:
    """The operation that a class of the bindings failed to build."""
    last = failure.__traceback__
    name = ""
    while last is not None:
        name = getattr(last.tb_frame.f_locals.get("self"), "OPERATION_NAME", name)
        last = last.tb_next
    return f"{name}: " if isinstance(name, str) and name else ""


def _values(found: Any, error: Callable[..., JaxprError]) -> list[Any]:
    if isinstance(found, stablehlo.ir.Value):
        return [found]
    results = getattr(found, "results", found)
    # The lists of the bindings are sequences that have no `__iter__`.
    several = isinstance(results, Sequence) or hasattr(results, "__iter__")
    if not several or isinstance(results, (str, Mapping, stablehlo.ir.Block)):
        raise error(
            "answers with no MLIR value",
            f"{found!r:.80} of class {type(found).__name__}",
            "an MLIR value, a list of values, or an operation",
        )
    return list(results)


def _visible(value: Any, block: Any) -> bool:
    """Whether a value is computed in a block or around it.

    Values are compared by identity: one of a deleted module must not be inspected.
    """
    while True:
        if any(value == other for other in block.arguments):
            return True
        if any(value == other for op in block.operations for other in op.operation.results):
            return True
        owner = block.owner.operation
        if owner.name in ("func.func", "builtin.module"):  # nothing outside of these is seen inside
            return False
        block = owner.block


def _verify(
    op: Any, seen: set[Any], near: set[Any], block: Any, error: Callable[..., JaxprError]
) -> None:
    """Raises JaxprError unless an operation that a rule emitted is valid. `seen`: the values
    computed before it; `near`: the rule's own values and operands."""
    for i, operand in enumerate(op.operation.operands):
        if operand not in near and not _visible(operand, block):
            message = (
                f"emits an operation with a value of another function or region as operand {i}"
            )
            raise error(message, _shown(op), "operations on the values that it is given")
        if operand in near and operand not in seen:
            message = f"emits an operation in front of the one that computes its operand {i}"
            raise error(message, _shown(op), "operations in the order in which they compute")
    name = op.operation.name
    if name.endswith(".return"):
        message = "emits an operation that ends the function around it"
        raise error(
            message, _shown(op), "no such operation: the one that ends a function comes by itself"
        )
    try:
        op.operation.verify()
    except stablehlo.ir.MLIRError as failure:
        reasons = "; ".join(d.message for d in getattr(failure, "error_diagnostics", ()))
        raise error(
            "emits an operation that is not valid",
            f"{_shown(op)}\n{reasons or failure}",
            "operations that keep the rules of their dialect",
        ) from None
    if name == "func.call" and not _is_declared(op):
        message = "emits a call of a function that the module does not have"
        raise error(message, _shown(op), "a call that context.call_jaxpr emits, with the function")


def _is_declared(call: Any) -> bool:
    """Whether the function that an operation calls is in its module."""
    module = call.operation.parent
    while module.operation.name != "builtin.module":
        module = module.operation.parent
    return stablehlo.ir.FlatSymbolRefAttr(
        call.operation.attributes["callee"]
    ).value in stablehlo.ir.SymbolTable(module.operation)


def _shown(op: Any) -> str:
    if isinstance(op, stablehlo.ir.Block):
        return "an argument of another block"
    return str(op.operation.get_asm(print_generic_op_form=True, use_local_scope=True))[:400]
