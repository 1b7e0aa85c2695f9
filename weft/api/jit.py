"""`jit`, `make_jaxpr`, `eval_shape`, `typeof`, and moving values to the host."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Never, ParamSpec, TypedDict, TypeVar, Unpack, overload

import numpy as np

from weft import dtypes, tree
from weft.arrays.array import Array
from weft.arrays.transfers import explicit_transfers
from weft.core.axes import extend_axis
from weft.core.jaxpr import ClosedJaxpr, Jaxpr
from weft.core.shape_struct import ShapeDtypeStruct, described_type
from weft.core.types import type_of, user_value
from weft.dispatch.jit_shardings import JitShardings
from weft.dispatch.jitted import Jitted, Options
from weft.errors import Fix, WeftTypeError, WeftValueError, api_boundary, install_excepthook
from weft.errors.argument_errors import invalid_value, not_a_function
from weft.interpreters.staging import check_results, function_name, trace_to_jaxpr
from weft.lowering.result_layouts import known_formats
from weft.ops.elementwise.convert import beside_float64
from weft.refs.reference import Ref, with_staged_refs
from weft.runtime import client
from weft.tracing.argument_names import argument_names

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def _entries(value: Any, what: str, kinds: Any, noun: str) -> tuple[Any, ...]:
    """The argument as a tuple: nothing for None, one value or several of some kinds."""
    if value is None:
        return ()
    out = (value,) if isinstance(value, kinds) else tuple(value)
    for item in out:
        if isinstance(item, bool) or not isinstance(item, kinds):
            raise WeftTypeError(f"jit takes {noun} in {what}, not {item!r}")
    return out


def _numbers(value: Any, what: str) -> tuple[int, ...]:
    return tuple(map(int, _entries(value, what, (int, np.integer), "ints")))


def _both_forms(
    function: Callable[..., Any], given: Mapping[str, Any], what: str
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Completes argument numbers by names and the reverse, from the function's signature."""
    argnums, argnames = f"{what}_argnums", f"{what}_argnames"
    numbers = _numbers(given[argnums], argnums)
    names = _entries(given[argnames], argnames, str, "strings")
    if not numbers and not names:
        return (), ()
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return numbers, names
    kinds = inspect.Parameter
    by_place = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    positional = [name for name, p in parameters.items() if p.kind in by_place]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters.values())
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    for number in numbers:
        if not variadic and not -len(positional) <= number < len(positional):
            message = (
                f"jit: {what}_argnums has {number} and the function takes {len(positional)} "
                "positional arguments"
            )
            got, wanted = f"{what}_argnums={numbers}", f"numbers below {len(positional)}"
            raise WeftValueError(message, got=got, wanted=wanted)
    for name in names:
        if name not in parameters and not takes_any:
            message = f"jit: {what}_argnames has {name!r} and the function has no such parameter"
            got = f"{what}_argnames={names}"
            wanted = f"names among {', '.join(parameters)}"
            raise WeftValueError(message, got=got, wanted=wanted)
    full_numbers = {n % len(positional) if n < 0 and positional else n for n in numbers}
    full_numbers |= {positional.index(name) for name in names if name in positional}
    full_names = set(names) | {
        positional[n]
        for n in full_numbers
        if n < len(positional) and parameters[positional[n]].kind is not kinds.POSITIONAL_ONLY
    }
    return tuple(sorted(full_numbers)), tuple(sorted(full_names))


def _limit(max_traces: Any) -> int | None:
    if max_traces is None:
        return None
    whole = isinstance(max_traces, (int, np.integer)) and not isinstance(max_traces, bool)
    if not whole or max_traces < 1:
        raise (WeftValueError if whole else WeftTypeError)(
            "jit: max_traces says how many times a function may be traced",
            got=f"max_traces={max_traces!r:.100}",
            wanted="an int of at least 1, or None for no limit",
            fix=Fix("max_traces", "pass max_traces=1, or leave it out", {"max_traces": 1}),
        )
    return int(max_traces)


# What `_options` reads, where none of it was given: most functions are jitted so.
_DEFAULTS = (
    ("static_argnums", None), ("static_argnames", None), ("donate_argnums", None),
    ("donate_argnames", None), ("keep_unused", False), ("inline", False),
    ("compiler_options", None), ("max_traces", None), ("relayout", "error"),
)  # fmt: skip
_PLAIN = Options()


def _options(fun: Callable[..., Any], given: Mapping[str, Any]) -> Options:
    """The checked options of `jit` (`JitOptions`), argnums and names completed by each other."""
    if not callable(fun):
        raise not_a_function("jit", fun, "a callable")
    if all(given[name] is value for name, value in _DEFAULTS):
        return _PLAIN
    static, donated = (_both_forms(fun, given, what) for what in ("static", "donate"))
    relayout = given["relayout"]
    if relayout not in ("error", "auto", "warn"):
        message = "jit: relayout says what happens to arguments that have another layout"
        text = "leave relayout out to be told of them, or pass relayout='auto' to have them moved"
        fix = Fix("relayout", text, {"relayout": "auto"})
        wanted = "'error', 'auto' or 'warn'"
        raise invalid_value(message, "jit", "relayout", relayout, wanted, fix=fix)
    both = set(static[0]) & set(donated[0]) or set(static[1]) & set(donated[1])
    if both:
        message = f"jit: arguments {sorted(both)} are both static and donated"
        fix = Fix("choose", "make each argument static or donated, not both")
        raise WeftValueError(message, fix=fix)
    compiler = tuple(sorted((given["compiler_options"] or {}).items()))
    limit = _limit(given["max_traces"])
    return Options(
        *static, *donated, given["keep_unused"], given["inline"], compiler, limit, relayout
    )


class JitOptions(TypedDict, total=False):
    """The arguments of `jit` that are given by name."""

    static_argnums: int | Sequence[int] | None
    static_argnames: str | Sequence[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Sequence[str] | None
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool
    compiler_options: Mapping[str, Any] | None
    in_shardings: Any
    out_shardings: Any
    max_traces: int | None
    relayout: str


@overload
def jit(fun: Callable[P, R], **options: Unpack[JitOptions]) -> Jitted[P, R]: ...
@overload
def jit(
    fun: None = None, **options: Unpack[JitOptions]
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@api_boundary
def jit(
    fun: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, Any] | None = None,
    in_shardings: Any = None,
    out_shardings: Any = None,
    max_traces: int | None = None,
    relayout: str = "error",
) -> Any:
    """Compiles a function: it is traced once per types of its arguments and runs as one executable.

    A function that is rebuilt from equal code and closed-over values is not compiled again. Without
    shardings a function runs where its arguments lie, split over all of their devices, in the
    layouts that they have, and XLA chooses the shardings of the results. Also a decorator, with or
    without arguments.

    Args:
        fun: The function, of trees of arrays. Without it, `jit` returns a decorator.
        static_argnums: The positions of static arguments: Python values that the trace may look at.
            They must be hashable, and each new value needs a trace.
        static_argnames: The names of static arguments.
        donate_argnums: The positions of donated arguments. They give their memory to the results
            and cannot be used afterwards.
        donate_argnames: The names of donated arguments.
        keep_unused: Whether arguments that the function does not read are kept.
        device: The device to run on; stands for both shardings. Committed arguments are moved.
        backend: The name of the platform to run on, such as "cpu", in place of a device.
        inline: Whether the equations go into an enclosing jaxpr, instead of a call.
        compiler_options: Options that go to XLA, by name.
        in_shardings: Where arguments are moved: a tree prefix of the positional arguments, each
            leaf a sharding, a PartitionSpec over the mesh in force, a device, a Format (which says
            a layout too, or leaves it to the compiler with `Layout.AUTO`), or None. Under
            transformations it is a constraint (see `weft.lax.with_sharding_constraint`).
        out_shardings: Where results are left: a tree prefix of the results, of the same kinds of
            leaves.
        max_traces: How many traces the function may have. A call that needs one more raises
            WeftValueError, which says what changed.
        relayout: What happens to an argument in another layout than the one that `in_shardings`
            says: "error", "auto" (it is copied) or "warn" (it is copied with a warning).

    Raises WeftValueError for an argument that is committed elsewhere or is in another layout, and
    ShapeError for a shape that cannot be split.

    >>> import weft, weft.numpy as jnp
    >>> weft.jit(lambda x: x + 1)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """
    given = dict(locals())
    del given["fun"]
    if fun is None:
        return functools.partial(jit, **given)
    options = _options(fun, given)
    if backend is not None and device is None:
        device = client.devices(backend)[0]
    if device is not None:
        if in_shardings is not None or out_shardings is not None:
            message = "jit takes a device, or the shardings of arguments and results, not both"
            raise WeftTypeError(message, got=f"device={device}")
        in_shardings = out_shardings = device
    if in_shardings is None and out_shardings is None:
        return Jitted(fun, options)
    moves = device is not None
    return Jitted(fun, options, JitShardings.checked(in_shardings, out_shardings, moves))


# These two also take ShapeDtypeStructs in place of arrays, so the parameters of `fun` do not say
# what a call of them may be given.
@overload
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: Literal[False] = False,
) -> Callable[..., ClosedJaxpr]: ...
@overload
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    *,
    return_shape: Literal[True],
) -> Callable[..., tuple[ClosedJaxpr, Any]]: ...
@api_boundary
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that traces `fun` on its arguments and returns the jaxpr.

    Arguments may be arrays, ShapeDtypeStructs, or other values with `shape` and `dtype`. Everything
    that `fun` does is recorded, on constants too. `axis_env` binds axes that collectives in `fun`
    may name, as `vmap` would: pairs of a name and a length. With `return_shape` it returns a pair
    with the tree of result types. static_argnums: the positions of arguments that are not traced:
    `fun` gets them as they are.

    >>> import weft, weft.lax as lax
    >>> weft.make_jaxpr(lambda x: lax.sin(lax.cos(x)))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = cos a
        c:f32[] = sin b
      in (c,) }
    """
    numbers = set(_numbers(static_argnums, "static_argnums"))
    name = function_name(fun)

    @api_boundary("make_jaxpr")
    def traced(*args: Any, **kwargs: Any) -> Any:
        dynamic: Any = args
        if numbers:
            dynamic = tuple([None if i in numbers else x for i, x in enumerate(args)])
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        leaves = list(beside_float64(leaves))
        out_trees: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            given, given_kwargs = in_tree.unflatten(with_staged_refs(values))
            if numbers:
                given = [args[i] if i in numbers else x for i, x in enumerate(given)]
            out = fun(*given, **given_kwargs)
            outs, out_tree = tree.flatten(out)
            out_trees.append(out_tree)
            return check_results(out, outs, f"make_jaxpr of {name}")

        types: list[Any] = []
        for x in leaves:  # an argument may only describe an array
            types.append(x.type if type(x) in (Array, Ref) else described_type(x))

        def record() -> tuple[Jaxpr, list[Any]]:
            return trace_to_jaxpr(
                flat,
                types,
                transformation="make_jaxpr",
                name=name,
                input_names=lambda: argument_names(fun, in_tree),
                references=True,
            )

        if axis_env:
            with contextlib.ExitStack() as bound:
                for axis, size in axis_env:
                    bound.enter_context(extend_axis(axis, int(size)))
                jaxpr, consts = record()
        else:
            jaxpr, consts = record()
        closed = ClosedJaxpr(jaxpr, consts)
        if not return_shape:
            return closed
        given = [_place(x) for x in (*consts, *leaves)]
        formats = known_formats(jaxpr, [x for x, _ in given], [x for _, x in given])
        shapes = [
            ShapeDtypeStruct(t.shape, t.dtype, sharding=place, weak_type=t.weak_type)
            for t, place in zip(jaxpr.out_types, formats, strict=True)
        ]
        return closed, out_trees[0].unflatten(shapes)

    return traced


def _place(value: Any) -> tuple[Any, Any]:
    """The device or sharding that an array is committed to or a struct has, and the layout."""
    if type(value) is Array:
        return value._shown_place(), value._layout()
    if isinstance(value, ShapeDtypeStruct):
        return value.sharding, value.layout
    return None, None


# Only a function that returns `Any` passes for one that never returns.
@overload
def eval_shape(fun: Callable[..., Never], *args: Any, **kwargs: Any) -> Any: ...
@overload
def eval_shape(fun: Callable[..., Array], *args: Any, **kwargs: Any) -> ShapeDtypeStruct: ...
@overload
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of the results of `fun`, as ShapeDtypeStructs, without computing anything.

    args, kwargs: the arguments of `fun`, arrays or ShapeDtypeStructs. A struct has a sharding where
    the jaxpr says it: of a result that is an argument, or that a constraint is put on; and a layout
    beside it.

    >>> import weft, weft.numpy as jnp
    >>> weft.eval_shape(lambda x: x @ x, weft.ShapeDtypeStruct((2, 2), "float32"))
    ShapeDtypeStruct(shape=(2, 2), dtype=f32)
    """
    _, shapes = make_jaxpr(fun, return_shape=True)(*args, **kwargs)
    return shapes


def typeof(x: Any) -> Any:
    """The type of an array, a tracer, a NumPy array or a number: shape, dtype, weak type, and the
    mesh axes along which it varies. That of a reference is `Ref{...}` around its array's.

    x: an array, a number, a traced value or a reference.

    Raises WeftTypeError for anything else.

    >>> import weft, weft.numpy as jnp
    >>> weft.typeof(jnp.ones((2, 3)))
    f32[2,3]
    """
    return x.type if type(x) is Ref else type_of(user_value(x))


@overload
def device_get(x: Array) -> np.ndarray[Any, Any]: ...
@overload
def device_get(x: Any) -> Any: ...
def device_get(x: Any) -> Any:
    """The arrays of a tree as NumPy arrays; other leaves, and random keys, stay as they are.

    x: a tree of arrays and other leaves.

    >>> import weft, weft.numpy as jnp
    >>> weft.device_get({"w": jnp.ones(2), "step": 3})
    {'step': 3, 'w': array([1., 1.], dtype=float32)}
    """

    def numeric(leaf: Any) -> bool:
        return type(leaf) is Array and not dtypes.is_extended(leaf.dtype)

    with explicit_transfers():
        for leaf in tree.leaves(x):
            if numeric(leaf):
                leaf.copy_to_host_async()
        return tree.map(lambda leaf: np.asarray(leaf) if numeric(leaf) else leaf, x)


def block_until_ready(x: T) -> T:
    """Waits until all arrays of a tree are computed, and returns the tree.

    x: a tree of arrays; other leaves are ready.

    >>> import weft, weft.numpy as jnp
    >>> weft.block_until_ready({"w": jnp.ones(2)})  # before a clock is stopped
    {'w': Array([1., 1.], dtype=float32)}
    """
    # Most often one array is waited for, or a few, and the tree need not be asked for.
    leaves: Any = x if type(x) is tuple or type(x) is list else (x,)
    for leaf in leaves:
        if type(leaf) is not Array:
            leaves = tree.leaves(x)
            break
    arrays = [leaf._live() for leaf in leaves if type(leaf) is Array]
    if arrays:
        client.backend().block_until_ready(arrays)
    return x


# Operators and array functions have no boundary of their own, which would cost on every call: their
# errors are trimmed when they are printed.
install_excepthook()
