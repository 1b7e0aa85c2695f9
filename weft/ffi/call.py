"""Calls of compiled code: XLA's typed foreign function interface as a primitive.

weft cannot look into the code. So the caller says which types come out, what `vmap` is to do, and
gives it a derivative with `custom_vjp` or `custom_jvp`; everything else (compiling, loops,
branches, several devices) follows from its being one more primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft import dtypes, tree
from weft.callbacks.primitives import check_vmap_method, no_vmap_method, promised_type, run_once
from weft.control_flow.branches import map_in_order
from weft.core import rules
from weft.core.access_pattern import Inner, Reads, full_read
from weft.core.effects import IO
from weft.core.jaxpr import Equation
from weft.core.primitive import Primitive
from weft.core.rules import AxisData, Dims, Mapped, Values, Zero
from weft.core.types import ArrayType, type_of
from weft.errors import Fix, MissingRuleError, WeftTypeError, api_boundary
from weft.ffi.call_arguments import (
    Order,
    check_type,
    checked_aliases,
    checked_batch_dims,
    is_layout,
    operands,
    orders,
    untyped_config,
)
from weft.ffi.call_attributes import ForeignAttributes, foreign_attributes
from weft.ffi.targets import batch_partitionable, check_registered
from weft.ops.declare import join_varying
from weft.ops.structural.shape import broadcast_in_dim, move_dim
from weft.runtime import ffi_operation, stablehlo


@api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    num_batch_dims: int = 0,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """A function that calls a compiled handler (see `weft.ffi.register_ffi_target`).

    It takes arrays by position and attributes by keyword, and returns the structure of
    `result_shape_dtypes`, whose leaves have a `shape` and a `dtype` (such as
    `weft.ShapeDtypeStruct`); None stands for no result. Attributes are bools, ints (`int64_t`),
    floats (`double`), texts, NumPy scalars and arrays of numbers (of their own type), and dicts of
    those; they are fixed when the call is traced. The handler may be called any number of times, or
    not at all where its result is not used. Differentiating it is a MissingRuleError:
    `weft.custom_vjp` and `weft.custom_jvp` give the caller a derivative.

    has_side_effect: it is called as often as the program says, even if nothing uses its results,
    and the executable has ended when the jitted function returns. Calls in one executable that do
    not use one another's results may come in any order.
    vmap_method: what `vmap` does: "sequential" calls it for one element after the other, in a loop,
    and "sequential_unrolled" without one; "expand_dims" and "broadcast_all" call it once, all
    operands with one more leading axis, of length one where they are not mapped or repeated along
    it; "legacy_vectorized" leaves operands that are not mapped alone.
    input_layouts, output_layouts: for each operand and result in which order the handler has its
    elements: a Layout, the dimensions from major to minor, or None (row-major). The layout of a
    single result may stand alone. input_output_aliases: from the numbers of operands to those
    of results of the same type that the handler writes into the operand's memory; an operand that
    is used later is copied first. num_batch_dims: how many leading dimensions, the same in all
    operands and results, a call may be cut along on several devices (see
    `weft.ffi.register_ffi_target_as_batch_partitionable`); otherwise each gets all of the operands.
    custom_call_api_version, legacy_backend_config: 1, 2 or 3 for a handler that was registered with
    `api_version=0`, and the text that it takes in place of attributes.

    target_name: the name under which the handler is registered.

    Raises WeftTypeError, DTypeError, ShapeError and WeftValueError for arguments that do not fit,
    or an unregistered name; WeftError with the handler's own message where it returns an error.

    >>> import weft, weft.numpy as jnp
    >>> from weft import ffi
    >>> def rms_norm(x, eps=1e-6):
    ...     out = weft.ShapeDtypeStruct(x.shape, x.dtype)
    ...     return ffi.ffi_call("rms_norm", out, vmap_method="broadcast_all")(x, eps=eps)
    >>> weft.make_jaxpr(rms_norm)(jnp.ones(3)).out_avals
    [f32[3]]
    """
    version = (custom_call_api_version, legacy_backend_config)
    return ForeignCall(
        target_name,
        result_shape_dtypes,
        _check_options(target_name, has_side_effect, vmap_method, version),
        layouts=(input_layouts, output_layouts),
        aliases=input_output_aliases,
        num_batch_dims=num_batch_dims,
    )


def _check_options(
    target: Any, has_side_effect: Any, vmap_method: Any, version: tuple[Any, Any]
) -> dict[str, Any]:
    """The parameters of the primitive that operands and results do not decide."""
    check_vmap_method("ffi_call", vmap_method)
    params = {"has_side_effect": bool(has_side_effect), "vmap_method": vmap_method}
    untyped = untyped_config(f"ffi_call of {target!r:.100}", *version)
    return params if untyped is None else {**params, "untyped": untyped}


class ForeignCall:
    """The function that `ffi_call` returns: of arrays by position and attributes by keyword."""

    def __init__(
        self,
        target: str,
        result_shape_dtypes: Any,
        params: dict[str, Any],
        *,
        layouts: tuple[Any, Any],
        aliases: Mapping[int, int] | None,
        num_batch_dims: int,
    ) -> None:
        if not isinstance(target, str):
            message = "ffi_call takes the name of a target first"
            got = f"{target!r:.100} of class {type(target).__name__}"
            wanted = "the name that register_ffi_target was given"
            fix = Fix("name", "register the function, and pass its name")
            raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
        self.target = self.__name__ = target
        self.operation = f"ffi_call of {target}"
        found = tree.leaves_with_path(result_shape_dtypes)
        self.out_tree = tree.flatten(result_shape_dtypes)[1]
        self.out_types = tuple(promised_type(self.operation, leaf, path) for path, leaf in found)
        for i, out_type in enumerate(self.out_types):
            check_type(self.operation, f"result {i}", out_type)
        self.in_layouts, out_layouts = layouts
        if len(self.out_types) == 1 and is_layout(out_layouts):
            out_layouts = [out_layouts]
        self.out_orders = orders(self.operation, "output_layouts", out_layouts, self.out_types)
        self.aliases = aliases
        self.num_batch_dims = num_batch_dims
        self.params = params

    @api_boundary("ffi_call")
    def __call__(self, *args: Any, **attributes: Any) -> Any:
        """Calls the handler, or records the call."""
        values, in_types = operands(self.operation, args)
        in_orders = orders(self.operation, "input_layouts", self.in_layouts, in_types)
        types, how = (in_types, self.out_types), (in_orders, self.out_orders)
        outs = ffi_call_p.bind(
            *values,
            target=self.target,
            result_types=self.out_types,
            in_orders=in_orders,
            out_orders=self.out_orders,
            aliases=checked_aliases(self.operation, self.aliases, types, how),
            num_batch_dims=checked_batch_dims(
                self.target, self.num_batch_dims, (*in_types, *self.out_types)
            ),
            attributes=foreign_attributes(
                self.target, attributes, untyped="untyped" in self.params
            ),
            **self.params,
        )
        return self.out_tree.unflatten(outs)

    def __repr__(self) -> str:
        return f"ffi_call({self.target!r})"


# ---- the primitive -----------------------------------------------------------------------------

ffi_call_p = Primitive("ffi_call", multiple_results=True, memoise=False)


def ffi_call_type(
    *types: ArrayType, result_types: Sequence[ArrayType], **params: Any
) -> list[ArrayType]:
    varying = join_varying(types)
    return [t.update(varying=t.varying | varying) for t in result_types]


def ffi_call_jvp(primals: Values, tangents: Values, **params: Any) -> tuple[list[Any], list[Any]]:
    """Only zero tangents can go in, or come out (of results that are integers)."""
    moving = any(type(t) is not Zero and type_of(t).dtype != dtypes.float0 for t in tangents)
    out_types = params["result_types"]
    if moving and any(type.tangent().dtype != dtypes.float0 for type in out_types):
        raise _no_derivative(params["target"])
    outs = ffi_call_p.bind(*primals, **params)
    return outs, [Zero(type_of(out).tangent()) for out in outs]


def ffi_call_transpose(cotangents: Sequence[Any], *operands: Any, target: str, **_: Any) -> Any:
    raise _no_derivative(target)


def _no_derivative(target: str) -> MissingRuleError:
    return MissingRuleError(
        f"the foreign call of {target!r} is differentiated, and what compiled code computes has no "
        "derivative here",
        operation=f"ffi_call of {target}",
        got="an operand that depends on what is differentiated",
        wanted="a derivative of the function that calls it",
        fix=Fix(
            "custom_derivative",
            "decorate the function that calls it with weft.custom_vjp or weft.custom_jvp, or pass "
            "weft.lax.stop_gradient(x)",
            {"target": target},
        ),
    )


def ffi_call_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    method, target = params["vmap_method"], params["target"]
    if axis.devices or (method or "").startswith("sequential"):
        unroll = method == "sequential_unrolled"
        apply = partial(ffi_call_p.bind, **params)
        return map_in_order(axis, args, dims, apply, target, unroll)
    if method is None:
        raise no_vmap_method(
            f"the foreign call of {target!r}",
            f"ffi_call of {target}",
            "pass vmap_method='sequential' to ffi_call, or 'broadcast_all' where the handler takes "
            "arrays with further leading dimensions",
        )
    orders, aliased = list(params["in_orders"]), {i for i, _ in params["aliases"]}
    size = {"expand_dims": 1, "broadcast_all": axis.size}.get(method)
    moved, whole = [], True
    for i, (x, d) in enumerate(zip(args, dims, strict=True)):
        length = axis.size if i in aliased else size  # what shares memory has one shape
        if d is not None:
            x = move_dim(x, d, 0, axis.size)
        elif length is not None:
            shape = type_of(x).shape
            x = broadcast_in_dim(x, (length, *shape), tuple(range(1, len(shape) + 1)))
        if d is not None or length is not None:
            orders[i] = _with_leading(orders[i])
        whole = whole and (d is not None or length == axis.size)
        moved.append(x)
    batched = {
        "result_types": tuple(
            t.update(shape=(axis.size, *t.shape)) for t in params["result_types"]
        ),
        "in_orders": tuple(orders),
        "out_orders": tuple(map(_with_leading, params["out_orders"])),
        # Of leading dimensions the new one is the first: without it, the others are not leading.
        "num_batch_dims": params["num_batch_dims"] + 1 if whole else 0,
    }
    outs = ffi_call_p.bind(*moved, **(params | batched))
    return outs, [0] * len(outs)


def _with_leading(order: Order) -> Order:
    return None if order is None else (0, *(dim + 1 for dim in order))


def ffi_call_lower(context: Any, *values: Any, has_side_effect: bool, **params: Any) -> list[Any]:
    module = context.module

    def emit(blocks: Sequence[Any], types: Sequence[Any]) -> tuple[Any, list[Any]]:
        return foreign_operation(context, blocks, types, has_side_effect=has_side_effect, **params)

    types = context.result_ir_types()
    if not has_side_effect:
        return emit(values, types)[1]
    if module.manual is None and len(module.devices) > 1:
        return _on_first_device(module, emit, values, types)
    return run_once(context, emit, values, types)


def foreign_operation(
    context: Any,
    values: Sequence[Any],
    types: Sequence[Any],
    *,
    target: str,
    has_side_effect: bool,
    in_orders: Sequence[Order],
    out_orders: Sequence[Order],
    aliases: Sequence[tuple[int, int]],
    num_batch_dims: int,
    attributes: ForeignAttributes,
    untyped: tuple[int, str] | None = None,
    **_: Any,
) -> tuple[Any, list[Any]]:
    """Emits the operation that calls a handler; returns it and its results. Raises WeftValueError
    if there is no handler of this name for the platform that is lowered for."""
    version, config = untyped or (4, attributes.values())
    check_registered(target, context.platform, f"ffi_call of {target}", version)
    module = context.module
    module.foreign_calls = bool(module.foreign_calls) or has_side_effect
    module.foreign_places.setdefault(target, context.source)
    split = 0 if has_side_effect or not batch_partitionable(target) else num_batch_dims
    return ffi_operation.call(
        target,
        values,
        types,
        attributes=config,
        api_version=version,
        operand_layouts=_full(in_orders, [x.type for x in values]),
        result_layouts=_full(out_orders, types),
        aliases=dict(aliases),
        has_side_effect=has_side_effect,
        num_batch_dims=split,
    )


def _on_first_device(
    module: Any, emit: Callable[..., Any], values: Sequence[Any], types: Sequence[Any]
) -> list[Any]:
    """Emits a call with side effects in a module for several devices. Only XLA may assign such a
    call to a device; so all devices reach a branch that only the first one takes, and get the
    results from there."""
    count = len(module.devices)
    symbol = module.meshes.declare((("device", count),), tuple(range(count)))
    rows = [stablehlo.ranked((1, *type.shape), type.element_type) for type in types]
    whole = [stablehlo.ranked((count, *type.shape), type.element_type) for type in types]

    def body(blocks: Sequence[Any]) -> list[Any]:
        here = stablehlo.convert(stablehlo.partition_id(), np.int32)

        def first() -> list[Any]:
            return list(emit(blocks, types)[1])

        def others() -> list[Any]:
            return [
                stablehlo.constant(0, type.shape, stablehlo.dtype_of(type.element_type))
                for type in types
            ]

        found = stablehlo.case(here, [first, others], types)
        return [stablehlo.reshape(x, row.shape) for x, row in zip(found, rows, strict=True)]

    found = stablehlo.manual_computation(
        values,
        [stablehlo.sharding(symbol, ((),) * x.type.rank) for x in values],
        [stablehlo.sharding(symbol, (("device",), *((),) * type.rank)) for type in types],
        ["device"],
        [x.type for x in values],
        whole,
        body,
    )
    return [
        stablehlo.reshape(stablehlo.slice_(x, (0,) * x.type.rank, (1, *type.shape)), type.shape)
        for x, type in zip(found, types, strict=True)
    ]


def _full(orders: Sequence[Order], types: Sequence[Any]) -> list[tuple[int, ...]]:
    return [
        tuple(range(type.rank)) if order is None else order
        for order, type in zip(orders, types, strict=True)
    ]


def ffi_call_reads(eqn: Equation, demands: Sequence[Reads], inner: Inner) -> list[Reads]:
    """Each operand is read as a whole, in the order that the handler takes it in."""
    out: list[Reads] = []
    for atom, order in zip(eqn.inputs, eqn.params["in_orders"], strict=True):
        read = full_read(atom.type)
        if order is not None:
            place = {dim: i for i, dim in enumerate(order)}
            steps = {place[step.dim]: step for step in read.walk}
            read = read._replace(walk=tuple(steps[i] for i in sorted(steps)))
        out.append((read,))
    return out


def ffi_call_effects(params: dict[str, Any]) -> frozenset[Any]:
    return frozenset([IO] if params["has_side_effect"] else [])


rules.type_rule.register(ffi_call_p, ffi_call_type)
rules.jvp.register(ffi_call_p, ffi_call_jvp)
rules.transpose.register(ffi_call_p, ffi_call_transpose)
rules.vmap.register(ffi_call_p, ffi_call_vmap)
rules.lower.register(ffi_call_p, ffi_call_lower)
rules.reads.register(ffi_call_p, ffi_call_reads)
rules.effects.register(ffi_call_p, ffi_call_effects)
