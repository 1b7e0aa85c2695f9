"""Calls of Python functions on the host from inside jitted functions.

`pure_callback` computes something with NumPy or another library, `io_callback` acts on the world
outside, a debug callback watches. They are three primitives, which differ in their effects, in
their rules for `vmap`, and in whether differentiating them is an error. Executables that hold one
are run to their end before the call returns, so their effects stay in the order of the calls, and
an exception that the function raises leaves the call as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import config, dtypes, tree
from weft.arrays.array import Array
from weft.arrays.conversion import as_array
from weft.base import source as sources
from weft.callbacks.host_functions import (
    HostFunction,
    MappedHostFunction,
    ProgramCallback,
    from_stored_values,
    stored_values,
)
from weft.core import rules
from weft.core.effects import DEBUG, IO, ORDERED_DEBUG, ORDERED_IO
from weft.core.primitive import Facts, Primitive
from weft.core.rules import AxisData, Derived, Dims, Mapped, Params, Types, Values, Zero
from weft.core.types import ArrayType, Typed, type_of, user_value
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import describe_value, not_an_array
from weft.interpreters.staging import check_function
from weft.lowering.placement import joint_place
from weft.ops.structural.shape import broadcast_in_dim, move_dim
from weft.runtime import stablehlo, stablehlo_collectives
from weft.runtime.backends.host_callbacks import wait_for_others

_BATCHED = ("expand_dims", "broadcast_all", "legacy_vectorized")
VMAP_METHODS: tuple[str, ...] = ("sequential", "sequential_unrolled", *_BATCHED)


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function without side effects on the host, also from inside jitted functions.

    args, kwargs: the arguments, arrays and trees of these; sharding: must be None.

    `callback` gets the arguments (any trees) with NumPy arrays as leaves, and returns the structure
    of `result_shape_dtypes`, whose leaves have a `shape` and a `dtype` (such as
    `weft.ShapeDtypeStruct`). It may be called any number of times, or not at all where its result
    is not used. Python numbers, and NumPy's 64-bit results in the default width, are converted to
    the promised dtype.

    `vmap_method` says what `vmap` does: "sequential" calls it for one element after the other;
    "expand_dims" and "broadcast_all" call it once, all arguments with one more leading axis, of
    length one where they are not mapped or repeated along it; "legacy_vectorized" leaves arguments
    that are not mapped alone. It has no derivative: give the function that calls it one with
    `weft.custom_jvp` or `weft.custom_vjp`.

    The callback may use weft itself. It may run in a thread of the runtime. It must not wait for an
    executable with callbacks in another thread, because these take turns if there are few threads.

    Raises what the callback raises, and TreeError, ShapeError or DTypeError, naming the leaf, for a
    result that breaks the promise.

    >>> import math
    >>> import numpy as np
    >>> import weft
    >>> @weft.jit
    ... def gamma(x):
    ...     out = weft.ShapeDtypeStruct(x.shape, x.dtype)
    ...     return weft.pure_callback(lambda x: np.vectorize(math.gamma)(x), out, x)
    >>> gamma(weft.numpy.array([4.0, 5.0]))
    Array([ 6., 24.], dtype=float32)
    """
    check_vmap_method("pure_callback", vmap_method)
    call = HostCall("pure_callback", callback, result_shape_dtypes, sharding)
    return call.bind(pure_callback_p, args, kwargs, vmap_method=vmap_method)


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls a Python function that may have side effects, from inside jitted functions too.

    callback, args, kwargs: as in `pure_callback`. result_shape_dtypes: as in `pure_callback`, or
    None for no result. sharding: must be None. ordered: whether calls come one after the other in
    the order of the program. The function is called exactly as often as the program says, in
    branches taken only, and for each element under `vmap`, in their order. It has no derivative;
    where nothing that depends on its arguments is differentiated, none is needed.

    Raises what the callback raises, and TreeError, ShapeError or DTypeError, naming the leaf, for a
    result that breaks the promise.

    >>> import weft
    >>> stream = iter([1.5, 2.5])
    >>> @weft.jit
    ... def f(x):
    ...     return x + weft.io_callback(lambda: next(stream), weft.ShapeDtypeStruct((), x.dtype))
    >>> f(1.0), f(1.0)
    (Array(2.5, dtype=float32), Array(3.5, dtype=float32))
    """
    call = HostCall("io_callback", callback, result_shape_dtypes, sharding)
    return call.bind(io_callback_p, args, kwargs, ordered=bool(ordered))


def debug_callback(
    what: str, callback: Callable[..., Any], args: tuple[Any, ...], kwargs: Params, ordered: bool
) -> None:
    """Calls a function for debugging, and ignores its result. Leaves that are not arrays are passed
    on as they are. `what` is how messages call it."""
    call = HostCall(what, callback, None, None)
    call.out_tree = None
    call.bind(debug_callback_p, args, kwargs, ordered=bool(ordered))


def effects_barrier() -> None:
    """Waits for the effects of all executables that have been started.

    weft runs executables that have effects to their end before the call returns, so this waits for
    other threads only. Inside a callback it returns at once.

    >>> import weft
    >>> weft.effects_barrier()
    """
    wait_for_others()


def check_vmap_method(operation: str, method: Any) -> None:
    """Raises WeftValueError for an unknown `vmap_method`."""
    if method is not None and method not in VMAP_METHODS:
        message = f"{operation} has no vmap_method {method!r}"
        wanted = f"None, or one of {', '.join(map(repr, VMAP_METHODS))}"
        fix = Fix("vmap_method", "pass vmap_method='sequential'", {"vmap_method": "sequential"})
        raise WeftValueError(message, got=f"vmap_method={method!r}", wanted=wanted, fix=fix)


def no_vmap_method(call: str, operation: str, fix: str) -> WeftNotImplementedError:
    """The error for a call under `vmap` that does not say how it can be batched."""
    message = f"vmap of {call}, which does not say how it can be batched"
    got = "vmap_method=None"
    wanted = f"one of {', '.join(map(repr, VMAP_METHODS))}"
    advice = Fix("vmap_method", fix, {"vmap_method": "sequential"})
    return WeftNotImplementedError(message, operation=operation, got=got, wanted=wanted, fix=advice)


class HostCall:
    """One use of a callback: the function, its result types, and its name in messages."""

    def __init__(
        self, kind: str, function: Callable[..., Any], result_shape_dtypes: Any, sharding: Any
    ) -> None:
        name = check_function(kind, function, wanted="a function of arrays")
        if sharding is not None:
            message = f"{kind} on a chosen device"
            got = f"sharding={sharding!r:.100}"
            fix = Fix("remove", "leave sharding out", {"argument": "sharding"})
            raise WeftNotImplementedError(message, got=got, wanted="sharding=None", fix=fix)
        self.function = function
        self.what = f"{kind} of {name}"
        self.out_tree: Any
        leaves, self.out_tree = tree.flatten(result_shape_dtypes)
        paths = [path for path, _ in tree.leaves_with_path(result_shape_dtypes)]
        pairs = zip(leaves, paths, strict=True)
        self.out_types = [promised_type(self.what, leaf, path) for leaf, path in pairs]

    def bind(self, primitive: Primitive, args: Any, kwargs: Any, **params: Any) -> Any:
        """Applies the primitive and returns the tree of results."""
        leaves, in_tree = tree.flatten((args, kwargs))
        operands, static = [], []
        for i, leaf in enumerate(leaves):
            try:
                of = type_of(user_value(leaf))
            except (WeftTypeError, OverflowError) as error:
                if primitive is debug_callback_p:  # It may show anything.
                    static.append((i, leaf))
                    continue
                if isinstance(error, OverflowError):
                    raise
                raise self.no_array(leaf, tree.leaves_with_path((args, kwargs))[i][0]) from None
            if of.dtype == dtypes.float0:  # There is nothing to hand over but the shape.
                static.append((i, np.zeros(of.shape, dtypes.float0)))
            else:
                operands.append(user_value(leaf))
        empty = [i for i, t in enumerate(self.out_types) if t.dtype == dtypes.float0]
        given = in_tree, static, self.out_tree, empty, sources.current(), config.settings()
        function = HostFunction(self.what, self.function, *given)
        types = tuple(t for t in self.out_types if t.dtype != dtypes.float0)
        outs = primitive.bind(*operands, callback=function, result_types=types, **params)
        if self.out_tree is None:
            return None
        for i in empty:
            outs.insert(i, np.zeros(self.out_types[i].shape, dtypes.float0))
        return self.out_tree.unflatten(outs)

    def no_array(self, leaf: Any, path: Any) -> WeftTypeError:
        kind, key, *rest = path
        name = getattr(key, "key", None) or f"argument {getattr(key, 'idx', key)}"
        which = f"{self.what}: {name}{tree.keystr(tuple(rest))}"
        text = "let the callback close over values that are no arrays (functools.partial)"
        fix = Fix("close_over", text, {"path": tree.keystr(path)})
        return not_an_array(self.what, which, leaf, fix=fix)


def promised_type(what: str, leaf: Any, path: Any) -> ArrayType:
    """The type that a leaf of `result_shape_dtypes` promises."""
    if isinstance(leaf, Typed):
        of = leaf.type.strong()
        return of.update(dtype=dtypes.allowed(of.dtype))
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return ArrayType(leaf.shape, dtypes.allowed(leaf.dtype))
    message = f"{what}: result_shape_dtypes{tree.keystr(path)} has no shape and dtype"
    wanted = "weft.ShapeDtypeStruct(shape, dtype), or an array of the type"
    fix = Fix(
        "struct",
        "promise a type: weft.ShapeDtypeStruct((), weft.numpy.float32)",
        {"path": tree.keystr(path)},
    )
    raise WeftTypeError(message, operation=what, got=describe_value(leaf), wanted=wanted, fix=fix)


pure_callback_p = Primitive("pure_callback", multiple_results=True, memoise=False)
io_callback_p = Primitive("io_callback", multiple_results=True, memoise=False)
debug_callback_p = Primitive("debug_callback", multiple_results=True, memoise=False)


def callback_impl(*args: Any, callback: Any, result_types: Types, **params: Any) -> list[Array]:
    arrays = [as_array(x) for x in args]
    place = joint_place(arrays, callback.what)
    outs = callback([stored_values(x) for x in arrays], [x.type for x in arrays], result_types)
    return [from_stored_values(x, type, place) for x, type in zip(outs, result_types, strict=True)]


def callback_type(
    *types: ArrayType, callback: Any, result_types: Sequence[ArrayType], **params: Any
) -> list[ArrayType]:
    varying = frozenset[str]().union(*(t.varying for t in types))
    return [t.update(varying=t.varying | varying) for t in result_types]


def no_derivative(what: str) -> WeftValueError:
    message = f"{what} is differentiated: what a Python function computes has no derivative here"
    got = "an argument that depends on what is differentiated"
    wanted = "arguments and results that do not"
    fix = Fix(
        "custom_derivative",
        "give the function that calls it a derivative of its own with weft.custom_jvp or "
        "weft.custom_vjp, or pass weft.lax.stop_gradient(x)",
    )
    return WeftValueError(message, operation=what, got=got, wanted=wanted, fix=fix)


def callback_jvp(primitive: Primitive) -> Callable[..., Derived]:
    """The rule of a callback that computes something: only zero tangents can go in, or come out
    (of results that are integers)."""

    def jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
        out = [type.tangent() for type in params["result_types"]]
        moving = any(type(t) is not Zero and type_of(t).dtype != dtypes.float0 for t in tangents)
        if moving and any(type.dtype != dtypes.float0 for type in out):
            raise no_derivative(params["callback"].what)
        return primitive.bind(*primals, **params), [Zero(type) for type in out]

    return jvp


def callback_transpose(cotangents: Values, *operands: Any, callback: Any, **_: Any) -> Any:
    raise no_derivative(callback.what)


def debug_callback_jvp(primals: Values, tangents: Values, **params: Any) -> Derived:
    debug_callback_p.bind(*primals, **params)
    return [], []


def callback_vmap(primitive: Primitive) -> Callable[..., Mapped]:
    """The rule of a callback that is called for one element after the other."""

    def vmap(axis: AxisData, args: Values, dims: Dims, *, callback: Any, **params: Any) -> Mapped:
        pairs = zip(args, dims, strict=True)
        moved = [x if d is None else move_dim(x, d, 0, axis.size) for x, d in pairs]
        mapped = MappedHostFunction(callback, [d is not None for d in dims], axis.size)
        return _bind_mapped(primitive, axis, moved, params | {"callback": mapped})

    return vmap


def _bind_mapped(primitive: Primitive, axis: AxisData, moved: Values, params: Params) -> Mapped:
    """Applies a primitive to operands mapped along dimension 0, given an element's parameters."""
    types = tuple(t.update(shape=(axis.size, *t.shape)) for t in params["result_types"])
    outs = primitive.bind(*moved, **(params | {"result_types": types}))
    return outs, [0] * len(outs)


_one_by_one = callback_vmap(pure_callback_p)


def pure_callback_vmap(axis: AxisData, args: Values, dims: Dims, **params: Any) -> Mapped:
    method = params["vmap_method"]
    if axis.devices:  # As on devices: each calls it with its own block.
        return _one_by_one(axis, args, dims, **params)
    if method is None:
        what = params["callback"].what
        raise no_vmap_method(
            what,
            what,
            "pass vmap_method='sequential' to pure_callback, or 'expand_dims' where the "
            "callback takes arrays with a leading axis, as functions of NumPy do",
        )
    if method.startswith("sequential"):
        return _one_by_one(axis, args, dims, **params)
    size = {"expand_dims": 1, "broadcast_all": axis.size}.get(method)
    moved = []
    for x, d in zip(args, dims, strict=True):
        if d is not None:
            x = move_dim(x, d, 0, axis.size)
        elif size is not None:
            shape = type_of(x).shape
            x = broadcast_in_dim(x, (size, *shape), tuple(range(1, len(shape) + 1)))
        moved.append(x)
    return _bind_mapped(pure_callback_p, axis, moved, params)


def callback_lower(
    context: Any, *values: Any, callback: Any, result_types: Sequence[ArrayType], **params: Any
) -> list[Any]:
    if context.platform not in ("cpu", "cuda"):
        message = f"{callback.what} in a program for {context.platform!r}"
        got = f"the platform {context.platform!r}"
        fix = Fix(
            "platform",
            "call the function outside of jit, or run on the CPU (WEFT_PLATFORMS=cpu)",
            {"platform": "cpu"},
        )
        raise WeftNotImplementedError(
            message, operation=callback.what, got=got, wanted="one for the CPU or CUDA", fix=fix
        )
    types = context.result_ir_types()
    ordered = bool(context.effects)
    index = context.add_callback(ProgramCallback(callback, context.in_types, result_types, ordered))
    if not ordered:
        return _on_devices(context, index, values, types)
    order = context.order()
    *outs, last = _on_devices(context, index, [*values, order], [*types, order.type])
    context.set_order(last)
    return outs


def _on_devices(context: Any, index: int, operands: Values, types: Values) -> list[Any]:
    def emit(values: Sequence[Any], types: Sequence[Any]) -> tuple[Any, list[Any]]:
        outs = list(stablehlo.callback(index, values, types, context.platform))
        return (outs[0].owner if outs else None), outs

    return run_once(context, emit, operands, types)


def run_once(
    context: Any,
    emit: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, list[Any]]],
    operands: Sequence[Any],
    types: Sequence[Any],
) -> list[Any]:
    """Emits an operation that runs once on the first device, or on every device in a manual
    computation. `emit` returns it and its results, given operands and result types. If some mesh
    axes are automatic, a fully manual region is made: XLA cannot otherwise run side effects on
    several devices."""
    manual = context.module.manual
    rest = []
    if manual is not None:
        rest = [axis for axis in manual.mesh.axis_names if axis not in manual.axes]
    if not rest:
        operation, outs = emit(operands, types)
        context.module.run_on_first(operation)
        return outs
    symbol = context.module.mesh_symbol(manual.mesh)

    def whole(type: Any) -> Any:
        return stablehlo_collectives.sharding(symbol, ((),) * len(type.shape))

    arguments = [operand.type for operand in operands]
    return stablehlo_collectives.manual_computation(
        operands,
        [whole(type) for type in arguments],
        [whole(type) for type in types],
        rest,
        arguments,
        types,
        lambda blocks: emit(blocks, types)[1],
    )


for _primitive in (pure_callback_p, io_callback_p, debug_callback_p):
    _primitive.facts = Facts(calls_python=True)
    rules.impl.register(_primitive, callback_impl)
    rules.type_rule.register(_primitive, callback_type)
    rules.lower.register(_primitive, callback_lower)
for _primitive in (pure_callback_p, io_callback_p):
    rules.jvp.register(_primitive, callback_jvp(_primitive))
    rules.transpose.register(_primitive, callback_transpose)
rules.jvp.register(debug_callback_p, debug_callback_jvp)
rules.vmap.register(pure_callback_p, pure_callback_vmap)
rules.vmap.register(io_callback_p, callback_vmap(io_callback_p))
rules.vmap.register(debug_callback_p, callback_vmap(debug_callback_p))
rules.effects.register(io_callback_p, lambda p: frozenset([ORDERED_IO if p["ordered"] else IO]))
rules.effects.register(
    debug_callback_p, lambda p: frozenset([ORDERED_DEBUG if p["ordered"] else DEBUG])
)
