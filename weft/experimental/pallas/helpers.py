"""What kernels are written with: conditions, loops, scoped buffers, hints, products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.numpy as jnp
from weft import tree
from weft.control_flow.cond import cond
from weft.control_flow.fori_loop import fori_loop
from weft.core.types import user_value
from weft.debug.printing import debug_print as print_values
from weft.errors import Fix, WeftNotImplementedError, WeftValueError, api_boundary
from weft.errors.argument_errors import refusal
from weft.experimental.pallas.blocks import buffer
from weft.experimental.pallas.kernels import MemorySpace, cdiv
from weft.ops.products.dot import dot_general
from weft.refs.reference import Ref, contents, end, new_ref, new_reference


@api_boundary
def when(condition: Any, /) -> Callable[[Callable[[], Any]], None]:
    """A decorator that calls a function of no arguments if the condition holds.

    Args:
        condition: A boolean, or a boolean scalar that may be traced.

    >>> from weft.experimental import pallas as pl
    >>> x = weft.new_ref(0.0)
    >>> @pl.when(jnp.array(True))
    ... def _():
    ...     x[...] = 2.0
    >>> x[...]
    Array(2., dtype=float32, weak_type=True)
    """

    def called(function: Callable[[], Any]) -> None:
        if isinstance(condition, bool):
            if condition:
                function()
            return

        def chosen() -> None:
            function()

        def other() -> None:
            return

        cond(condition, chosen, other)

    return called


@api_boundary
def loop(
    lower: Any,
    upper: Any,
    *,
    init_carry: Any = None,
    step: Any = 1,
    unroll: int | bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that calls a function for each index from `lower` to `upper`, `step` apart.

    With `init_carry` the function gets the carried value too and returns the next one; the
    decorated name is the last one then.

    Args:
        unroll: How many calls are written out in one step of the loop, as in `weft.lax.fori_loop`.
        lower: The first index.
        upper: The index behind the last.
        init_carry: The first carried value, a tree of arrays; None for a function without one.
        step: The distance between indices.

    >>> from weft.experimental import pallas as pl
    >>> @pl.loop(0, 10, init_carry=0, step=3)
    ... def total(i, so_far):
    ...     return so_far + i
    >>> total
    Array(18, dtype=int32, weak_type=True)
    """

    def run(body: Callable[..., Any]) -> Any:
        def at(number: Any, carry: Any) -> Any:
            index = lower + number * step
            return body(index) if init_carry is None else body(index, carry)

        return fori_loop(0, cdiv(upper - lower, step), at, init_carry, unroll=unroll)

    return run


@api_boundary
def run_scoped(
    f: Callable[..., Any], *types: Any, collective_axes: Any = (), **kw_types: Any
) -> Any:
    """Calls a function with references to new buffers, which end with the call.

    Raises WeftNotImplementedError for `collective_axes`.

    Args:
        f: The function; its result is that of the call.
        types: Descriptions of the buffers that it gets by position, or trees of them.
        kw_types: Descriptions of the buffers that it gets by name.
        collective_axes: Must be empty: an interpreted kernel shares no buffers.

    >>> from weft.experimental import pallas as pl
    >>> def twice(x_ref):
    ...     x_ref[...] = jnp.ones(2)
    ...     return 2 * x_ref[...]
    >>> pl.run_scoped(twice, weft.ShapeDtypeStruct((2,), "float32"))
    Array([2., 2.], dtype=float32)
    """
    if collective_axes not in ((), None):
        message = "run_scoped: an interpreted kernel shares no buffers along an axis"
        fix = Fix("scratch", "pass the buffer to pallas_call in scratch_shapes")
        got = f"collective_axes={collective_axes!r}"
        raise refusal(WeftNotImplementedError, message, "run_scoped", got, "none", fix)
    leaves, structure = tree.flatten((types, kw_types))
    refs = [new_reference(buffer(leaf)) for leaf in leaves]
    args, named = structure.unflatten(refs)
    out = f(*args, **named)
    for ref in refs:
        end(ref, "out of scope")
    return out


def with_scoped(
    *types: Any, collective_axes: Any = (), **kw_types: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function gets references to new buffers behind its arguments.

    Args:
        types: Descriptions of the buffers that it gets by position, or trees of them.
        collective_axes: Must be empty: an interpreted kernel shares no buffers.
        kw_types: Descriptions of the buffers that it gets by name.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            def scoped(*refs: Any, **named: Any) -> Any:
                return function(*args, *refs, **named)

            return run_scoped(scoped, *types, collective_axes=collective_axes, **kw_types)

        return called

    return decorated


def run_state(function: Callable[..., None]) -> Callable[..., Any]:
    """A function of arrays: it runs a function on references to them, and returns the final content
    of these references.

    Args:
        function: A function of a tree of references, which it may write.

    >>> from weft.experimental import pallas as pl
    >>> pl.run_state(lambda x_ref: x_ref.addupdate(1.0))(jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """

    def run(values: Any) -> Any:
        leaves, structure = tree.flatten(values)
        refs = [new_ref(leaf) for leaf in leaves]
        function(structure.unflatten(refs))
        return structure.unflatten([contents(ref) for ref in refs])

    return run


def empty(shape: Any, dtype: Any) -> Any:
    """An unwritten array: NaN, or the least integer.

    Args:
        shape: The lengths of the array.
        dtype: The dtype of its elements.
    """
    return buffer(MemorySpace.ANY(shape, dtype))


def empty_like(x: Any) -> Any:
    """A tree of unwritten arrays, with shapes and dtypes like those of `x`."""
    return tree.map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: Any) -> Ref:
    """A reference to an unwritten array, with the shape and dtype of `x`."""
    return new_ref(empty(x.shape, x.dtype))


def multiple_of(x: Any, values: Any) -> Any:
    """`x`; to a compiler it says that `x` is a multiple of `values`.

    Args:
        x: An array of indices.
        values: The number, per dimension, that divides them.
    """
    return user_value(x)


def max_contiguous(x: Any, values: Any) -> Any:
    """`x`; to a compiler it says how many of its elements follow one another.

    Args:
        values: The number of elements, per dimension.
        x: An array of indices.
    """
    return user_value(x)


def broadcast_to(a: Any, shape: Any) -> Any:
    """An array with its dimensions repeated to a shape.

    Args:
        a: The array.
        shape: The lengths of the result.
    """
    return jnp.broadcast_to(a, tuple(shape))


@api_boundary
def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:
    """The product of two matrices, each transposed if asked; sums are float32 or int32, and float64
    if both are. Raises WeftValueError for anything that is not a matrix.

    Args:
        a: The left matrix.
        b: The right matrix.
        trans_a: Whether the left matrix is transposed first.
        trans_b: Whether the right matrix is transposed first.
        allow_tf32: True for the precision "high", False for "highest"; looked at if `precision` is
            None.
        precision: How exactly products are computed: "default", "high" or "highest".

    >>> from weft.experimental import pallas as pl
    >>> pl.dot(jnp.ones((3, 2)), jnp.ones((3, 4)), trans_a=True).shape
    (2, 4)
    """
    if a.ndim != 2 or b.ndim != 2:
        message = "pallas.dot multiplies matrices"
        fix = Fix("matrix", "pass arrays of two dimensions, or use a @ b")
        got = f"{a.ndim} and {b.ndim} dimensions"
        raise refusal(WeftValueError, message, "pallas.dot", got, "two each", fix)
    if precision is None and allow_tf32 is not None:
        precision = "high" if allow_tf32 else "highest"
    dtype: Any = jnp.promote_types(a.dtype, b.dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        dtype = jnp.int32
    elif dtype != jnp.float64:
        dtype = jnp.float32
    dims = (((0,) if trans_a else (1,), (1,) if trans_b else (0,)), ((), ()))
    return dot_general(a, b, dims, precision=precision, preferred_element_type=dtype)


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """`1 / x`; with `approx` as accurate as bfloat16.

    Args:
        x: An array.
        full_range: Has no meaning in an interpreted kernel.
        approx: Whether the result is only as accurate as bfloat16.
    """
    if approx:
        return jnp.reciprocal(jnp.asarray(x, jnp.bfloat16)).astype(jnp.float32)
    return jnp.reciprocal(x)


def debug_print(fmt: str, *args: Any) -> None:
    """Prints values from a kernel, as `weft.debug.print` does.

    Args:
        fmt: The text, which shows values by `{}`.
        args: The values.
    """
    print_values(fmt, *args, skip_format_check=True)


def debug_check(condition: Any, message: str) -> None:
    """Nothing: the checks of kernels cannot be switched on.

    Args:
        condition: Is not looked at.
        message: Is not shown.
    """


# ---- semaphores: where one kernel runs at a time, counts that nobody waits for -------------------


def semaphore_signal(
    sem_or_view: Any, inc: Any = 1, *, device_id: Any = None, core_index: Any = None, **_: Any
) -> None:
    """Adds to the count of a semaphore. Raises WeftNotImplementedError for that of another device
    or core.

    Args:
        sem_or_view: A reference to the semaphore.
        inc: The number that is added.
        device_id: Must be None: the semaphore is of this device.
        core_index: Must be None: the semaphore is of this core.
        _: Further arguments of JAX's function, which have no meaning here.
    """
    if device_id is not None or core_index is not None:
        message = "semaphore_signal: an interpreted kernel runs on one core of one device"
        fix = Fix("local", "leave device_id and core_index out")
        got = f"device_id={device_id!r}, core_index={core_index!r}"
        operation = "semaphore_signal"
        raise refusal(WeftNotImplementedError, message, operation, got, "a semaphore here", fix)
    sem_or_view[...] = sem_or_view[...] + jnp.asarray(inc, sem_or_view.dtype)


def semaphore_wait(sem_or_view: Any, value: Any = 1, *, decrement: bool = True) -> None:
    """Takes from the count of a semaphore. It does not wait, because nothing else runs.

    Args:
        sem_or_view: A reference to the semaphore.
        value: The number that is taken.
        decrement: Whether anything is taken.
    """
    if decrement:
        sem_or_view[...] = sem_or_view[...] - jnp.asarray(value, sem_or_view.dtype)


def semaphore_read(sem_or_view: Any) -> Any:
    """The count of a semaphore.

    Args:
        sem_or_view: A reference to the semaphore.
    """
    return sem_or_view[...].astype(jnp.int32)
