"""Functions that are called in the compiled program with names and values for passes of XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft.base.facades import public_names
from weft.control_flow.body_tracing import ProgramPrimitive, run_as_one, trace_body
from weft.control_flow.loops import typed_leaves
from weft.core.jaxpr import Jaxpr
from weft.errors import WeftTypeError, api_boundary
from weft.errors.argument_errors import refusal
from weft.interpreters.hoist import hoist_program
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr
from weft.interpreters.staging import check_function
from weft.runtime import stablehlo

__all__ = ["scheduling_group", "xla_metadata_call"]

__dir__ = public_names(globals())


def scheduling_group(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the operations of the function form a group for XLA's schedulers that read
    `scheduling_group`. It is `xla_metadata_call(scheduling_group=name)`.

    Args:
        name: The name of the group.

    >>> from weft.experimental.scheduling_groups import scheduling_group
    >>> f = scheduling_group("first")(lambda x: x * 2.0)
    >>> 'scheduling_group = "first"' in weft.jit(f).lower(1.0).as_text()
    True
    """
    out: Callable[..., Any] = xla_metadata_call(scheduling_group=name)
    return out


def xla_metadata_call(f: Callable[..., Any] | None = None, **meta: str) -> Any:
    """The function, called in compiled programs by an operation that carries names and values;
    without `f` a decorator.

    It computes what `f` does; derivatives and mapped forms are called in the same way. Raises
    WeftTypeError for a value that is not text, and for anything that is not a function.

    Args:
        meta: The names and values that the operation carries.

    >>> from weft.experimental.scheduling_groups import xla_metadata_call
    >>> weft.grad(xla_metadata_call(lambda x: x * x, inlineable="false"))(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    if f is None:
        return lambda function: xla_metadata_call(function, **meta)
    name = check_function("xla_metadata_call", f)
    for key, text in meta.items():
        if not isinstance(text, str):
            message = "xla_metadata_call takes texts as values"
            got = f"{key}={text!r:.100}"
            raise refusal(WeftTypeError, message, "xla_metadata_call", got, f"{key}={str(text)!r}")
    pairs = tuple(sorted(meta.items()))

    @functools.wraps(f)
    @api_boundary("xla_metadata_call")
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, types, in_tree = typed_leaves(
            "xla_metadata_call", name, "the arguments", (args, kwargs)
        )

        def apply(function: Callable[..., Any], given: Any, keywords: Any) -> Any:
            return function(*given, **keywords)

        traced = trace_body("xla_metadata_call", f, in_tree, types, call=apply)
        outs = metadata_call_p.bind(*traced.consts, *leaves, jaxpr=traced.jaxpr, pairs=pairs)
        return traced.out_tree.unflatten(outs)

    return call


metadata_call_p = ProgramPrimitive("xla_metadata_call")


def metadata_call_lower(
    context: Any, *values: Any, jaxpr: Jaxpr, pairs: tuple[tuple[str, str], ...]
) -> list[Any]:
    outs = list(context.call_jaxpr(jaxpr, "xla_metadata_call", values))
    for out in outs[:1]:
        stablehlo.add_metadata(out, dict(pairs))
    return outs


holds_one_jaxpr(
    OneJaxpr(metadata_call_p, lambda params: f"xla_metadata_call of {params['jaxpr'].name}"),
    hoist=hoist_program,
    impl=functools.partial(run_as_one, metadata_call_p, False),
    lower=metadata_call_lower,
)
