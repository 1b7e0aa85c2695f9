"""Functions of arrays from functions of elements or slices, by `vmap`: `vectorize`,
`apply_along_axis` and `apply_over_axes`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

from weft import tree
from weft.arrays.array import Array
from weft.base.util import like
from weft.core.rules import AxisData
from weft.core.types import type_of
from weft.errors import Fix, ShapeError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import refusal
from weft.interpreters.staging import function_name
from weft.interpreters.vmap import vmap_flat
from weft.kinds.arguments import NEVER, Function, OneAxis, Passed
from weft.kinds.array_function import python_function
from weft.kinds.checks import axis_of, check_arrays
from weft.kinds.kind import Arguments, Kind
from weft.numpy.creation import Elements, asarray, unlisted
from weft.numpy.manipulation import expand_dims
from weft.ops.structural.shape import move_dim, reshape
from weft.typing import ArrayLike

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

_ARGUMENT = r"\([^()]*\)"
_LIST = rf"{_ARGUMENT}(?:,{_ARGUMENT})*"
# The grammar of NumPy's generalized universal functions; a name or a length per core dimension.
_SIGNATURE = re.compile(rf"^(?:{_LIST})?->{_LIST}$")
_DIMENSION = re.compile(r"^\w+$")

CoreDims = tuple[str, ...]


def map_leading_axes(
    function: Callable[..., Any],
    sizes: Sequence[int],
    values: Sequence[Any],
    dims: Any,
    name: str = "",
) -> Any:
    """Applies a function of flat arrays over leading axes, outermost first.

    dims: for each axis and value, whether that value has the axis in front. The results, any tree,
    have the axes of length `sizes` in front.
    """
    if not sizes:
        return function(*values)
    trees: list[Any] = []

    def flat(*inner: Any) -> list[Any]:
        leaves, structure = tree.flatten(
            map_leading_axes(function, sizes[1:], inner, dims[1:], name)
        )
        trees.append(structure)
        return leaves

    places = [0 if has else None for has in dims[0]]
    outs, out_dims = vmap_flat(flat, AxisData(None, sizes[0]), list(values), places, name)
    return trees[0].unflatten(
        [move_dim(x, d, 0, sizes[0]) for x, d in zip(outs, out_dims, strict=True)]
    )


def over(
    function: Callable[..., Any], values: Sequence[Any], ranks: Sequence[int], name: str = ""
) -> Any:
    """Maps a function over all dimensions in front of the last `ranks` ones, broadcast together.

    Bodies of array functions pass no name.
    """
    shapes = [type_of(x).shape for x in values]
    loops = [shape[: len(shape) - rank] for shape, rank in zip(shapes, ranks, strict=True)]
    count = max((len(loop) for loop in loops), default=0)
    padded = [(1,) * (count - len(loop)) + loop for loop in loops]
    sizes = []
    for lengths in zip(*padded, strict=True):
        wide = {n for n in lengths if n != 1}
        if len(wide) > 1:
            what = "the dimensions over which it goes do not broadcast together"
            raise ShapeError(
                f"{name}: {what}" if name else what,
                operation=name or None,
                got=", ".join(map(str, shapes)),
                wanted="lengths that are equal or 1, dimension by dimension from the last",
            )
        sizes.append(wide.pop() if wide else 1)
    # An operand of length 1 is not repeated: every call gets it as it is.
    dims = [
        [len(loop) >= count - i and loop[i - count] == size for loop in loops]
        for i, size in enumerate(sizes)
    ]
    operands = []
    for value, shape, loop in zip(values, shapes, loops, strict=True):
        first = count - len(loop)
        stay = tuple(n for i, n in enumerate(loop, first) if n == sizes[i])
        new = (*stay, *shape[len(loop) :])
        operands.append(value if new == shape else reshape(value, new))
    return map_leading_axes(function, sizes, operands, dims, name)


@functools.lru_cache(maxsize=256)
def parse_signature(signature: str) -> tuple[tuple[CoreDims, ...], tuple[CoreDims, ...]]:
    """The core dimensions of operands and results. Raises WeftValueError for other texts."""
    text = re.sub(r"\s+", "", signature)
    sides = text.split("->")
    terms = [re.findall(_ARGUMENT, side) for side in sides]
    core = [tuple(tuple(t[1:-1].split(",")) if t != "()" else () for t in side) for side in terms]
    names = [d for side in core for term in side for d in term]
    if not _SIGNATURE.match(text) or not all(map(_DIMENSION.match, names)):
        message, got = f"{signature!r} is not a signature", f"signature={signature!r:.80}"
        wanted = "dimensions of operands and results, for example '(n,m),(m)->(n)'"
        raise WeftValueError(message, got=got, wanted=wanted)
    return core[0], core[1]


class _Sizes:
    """The known lengths of core dimensions."""

    def __init__(self, name: str, signature: str) -> None:
        self.name, self.signature = name, signature
        self.known: dict[str, int] = {}

    def add(self, what: str, shape: Sequence[int], dims: CoreDims) -> None:
        """Compares the last dimensions of a value with its core dimensions."""
        if len(shape) < len(dims):
            raise self.wrong(f"{what} has {len(shape)} dimensions", shape, dims)
        for label, size in zip(dims, shape[len(shape) - len(dims) :], strict=True):
            known = int(label) if label.isdigit() else self.known.setdefault(label, size)
            if known != size:
                raise self.wrong(f"{what}: {label!r} is {known}, not {size}", shape, dims)

    def wrong(self, problem: str, shape: Sequence[int], dims: CoreDims) -> ShapeError:
        message = f"vectorize of {self.name}: {problem}, which does not fit {self.signature!r}"
        wanted = f"the core dimensions ({','.join(dims)})"
        return refusal(ShapeError, message, "vectorize", f"shape {tuple(shape)}", wanted)


def _take_excluded(value: Any, call: Arguments) -> frozenset[int | str]:
    wrong = value
    if isinstance(value, Collection) and not isinstance(value, str):
        bad = [e for e in value if not (isinstance(e, str) or (isinstance(e, int) and e >= 0))]
        if not bad:
            return frozenset(value)
        wrong = bad[0]
    message, got = "excluded is a set of positions and keywords", f"excluded with {wrong!r:.60}"
    raise WeftTypeError(message, got=got, wanted="integers that are not negative, and names")


def _signature(value: Any, call: Arguments) -> Any:
    if not isinstance(value, str):
        wanted = "a text such as '(n,m),(m)->(n)'"
        raise WeftTypeError("signature is a text", got=f"signature={value!r:.80}", wanted=wanted)
    parse_signature(value)
    return value


def _axes_in_turn(value: Any, call: Arguments) -> tuple[int, ...]:
    axes, rank = value if isinstance(value, (tuple, list)) else (value,), type_of(call["a"]).ndim
    return tuple([axis_of(axis, rank) for axis in axes])


_EXCLUDED = "positions and names of arguments that every call gets whole"
Excluded = Annotated[Any, Kind(_take_excluded, _EXCLUDED, ("text", {-1}, None), plain=NEVER)]
Signature = Annotated[str, Kind(_signature, "dimensions of operands and results", ("text", 5))]
AxesInTurn = Annotated[Any, Kind(_axes_in_turn, "an axis or axes", (99, 0.5), 0, plain=NEVER)]


@python_function
def vectorize(
    pyfunc: Function, *, excluded: Excluded = frozenset(), signature: Signature | None = None
) -> Callable[..., Any]:
    """A function that applies `pyfunc` to all elements of its arguments, broadcast together.

    signature: the dimensions that one call takes and gives, as in "(n,m),(m)->(n)"; the others are
    gone over. excluded: positions and keywords of arguments that every call gets whole, of any
    class; without a signature, None counts as such. `pyfunc` is traced once per call; under `jit`,
    once. Results are arrays or trees that have a `shape`, or with several a tuple of them. Raises
    WeftValueError for a signature that cannot be read, ShapeError for dimensions that do not fit,
    WeftTypeError for a wrong number of arguments or results.

    >>> mean = jnp.vectorize(lambda x, w: jnp.sum(x * w), signature="(n),(n)->()")
    >>> mean(jnp.ones((3, 4)), jnp.arange(4.0))
    Array([6., 6., 6.], dtype=float32)
    """
    core = None if signature is None else parse_signature(signature)
    name = function_name(pyfunc)

    @api_boundary("vectorize")
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        places: list[int | str] = [i for i in range(len(args)) if i not in excluded]
        if core is None:
            # None is no array: every call gets it as it is.
            places = [i for i in places if isinstance(i, int) and args[i] is not None]
            places += [key for key in kwargs if key not in excluded and kwargs[key] is not None]
        elif any(key not in excluded for key in kwargs):
            others = [key for key in kwargs if key not in excluded]
            text = f"pass them by position, or, if they are not mapped, excluded={others}"
            problem = "with a signature, only excluded keywords are given"
            raise _wrong_call(name, problem, kwargs, text)
        values = [_operand(name, args[p] if isinstance(p, int) else kwargs[p]) for p in places]

        def call(*inner: Any) -> Any:
            full, keywords = list(args), dict(kwargs)
            for place, value in zip(places, inner, strict=True):
                if isinstance(place, int):
                    full[place] = value
                else:
                    keywords[place] = value
            return pyfunc(*full, **keywords)

        if core is None:
            return over(call, values, [0] * len(values), f"vectorize of {name}")
        return _with_signature(call, values, core, name, str(signature))

    return like(pyfunc, vectorized)


def _with_signature(
    call: Callable[..., Any], values: list[Any], core: Any, name: str, signature: str
) -> Any:
    inputs, outputs = core
    if len(values) != len(inputs):
        text = f"pass {len(inputs)}, and the positions of others in excluded="
        raise _wrong_call(name, f"{signature!r} has {len(inputs)} operands", len(values), text)
    sizes = _Sizes(name, signature)
    for i, (value, dims) in enumerate(zip(values, inputs, strict=True)):
        sizes.add(f"argument {i}", type_of(value).shape, dims)

    def checked(*inner: Any) -> Any:
        out = call(*inner)
        results = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(results) != len(outputs) or (len(outputs) > 1 and len(results) == 1):
            text = f"write a signature with {len(results)} results"
            problem = f"{signature!r} has {len(outputs)} results"
            raise _wrong_call(name, problem, len(results), text)
        for i, (result, dims) in enumerate(zip(results, outputs, strict=True)):
            shape = _shape(result)
            if len(shape) != len(dims):
                raise sizes.wrong(f"result {i} has {len(shape)} dimensions", shape, dims)
            sizes.add(f"result {i}", shape, dims)
        return results[0] if len(outputs) == 1 else tuple(results)

    return over(checked, values, [len(dims) for dims in inputs], f"vectorize of {name}")


def _shape(result: Any) -> tuple[int, ...]:
    """The shape of an array, a number, or a tree node that has one."""
    return tuple(result.shape) if hasattr(result, "shape") else type_of(result).shape


def _operand(name: str, value: Any) -> Any:
    value = unlisted(value)
    check_arrays(value, operation=f"vectorize of {name}")
    return value if hasattr(value, "type") else asarray(value)


def _wrong_call(name: str, problem: str, got: Any, text: str) -> WeftTypeError:
    message = f"vectorize of {name}: {problem}"
    wanted = "as many as the signature says"
    fix = Fix("excluded", text)
    return refusal(WeftTypeError, message, "vectorize", str(got)[:80], wanted, fix)


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """`func1d(line, *args, **kwargs)` for every line of `arr` along `axis`, as one array.

    The dimensions of its result (any number of them) replace the axis. `func1d` is traced once, for
    all lines at once. args, kwargs: further arguments of the function, the same for every line.
    Raises AxisError for an axis out of range.

    >>> jnp.apply_along_axis(lambda x: x[0] + x[-1], 1, jnp.arange(6).reshape(2, 3))
    Array([2, 8], dtype=int32)
    """
    out: Array = _apply_along_axis(arr, axis, func1d, args, kwargs)
    return out


@python_function
def _apply_along_axis(
    arr: Elements, axis: OneAxis, func1d: Function, args: Passed, kwargs: Passed
) -> Any:
    last = move_dim(arr, axis, arr.ndim - 1, arr.shape[axis])
    out = over(lambda line: func1d(line, *args, **kwargs), [last], [1], "apply_along_axis")
    rest = arr.ndim - 1

    def placed(x: Any) -> Any:
        shape = type_of(x).shape
        for k in range(len(shape) - rest):
            x = move_dim(x, rest + k, axis + k, shape[rest + k])
        return x

    return tree.map(placed, out)


@python_function
def apply_over_axes(func: Function, a: Elements, axes: AxesInTurn) -> Array:
    """`func(a, axis)` for each axis in turn, each time on the previous result.

    `func` keeps the number of dimensions or drops the axis, which then stays with length 1. Raises
    ShapeError for a result of another number of dimensions.

    >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), (0, 2)).shape
    (1, 3, 1)
    """
    rank = a.ndim
    for axis in axes:
        out = func(a, axis)
        got = type_of(out).ndim
        if got == rank - 1:
            out = expand_dims(out, axis)
        elif got != rank:
            message = "the function changes the number of dimensions"
            shown, wanted = f"{got} dimensions from {rank}", f"{rank} or {rank - 1}"
            raise ShapeError(message, got=shown, wanted=wanted)
        a = out
    return asarray(a)
