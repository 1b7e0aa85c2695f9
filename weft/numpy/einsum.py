"""`einsum`: sums of products in Einstein's notation, as a sequence of pairwise contractions.

The order of the contractions is found by opt_einsum (Smith and Gray, 2018); each becomes sums over
the labels that one operand alone has, a `dot_general` and a transposition. Subscripts are parsed,
and the order is found, once per subscripts and shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np

from weft import config, dtypes
from weft.arrays.array import Array
from weft.core.types import type_of
from weft.errors import ShapeError, WeftValueError
from weft.kinds.arguments import (
    NEVER,
    EachPromoted,
    NoSharding,
    Out,
    Passed,
    Precision,
    operand_kind,
)
from weft.kinds.array_function import ArrayFunction
from weft.kinds.checks import check_arrays, check_choice, convert
from weft.kinds.kind import Arguments, Kind
from weft.numpy.linear_algebra import Preferred
from weft.ops.elementwise.selection import select
from weft.ops.indexing.creation import broadcasted_iota
from weft.ops.products.dot import dot_general
from weft.ops.reductions.reduce import reduce_or
from weft.ops.structural.shape import broadcast_in_dim, reduce_sum, reshape, transpose
from weft.runtime.jaxlib.lazy import LazyModule

if TYPE_CHECKING:
    import opt_einsum
else:
    opt_einsum = LazyModule("opt_einsum")

__all__ = ["einsum", "einsum_path"]

F = TypeVar("F", bound=Callable[..., Any])
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _wrong(message: str, subscripts: Any) -> WeftValueError:
    wanted = "terms of letters and commas, as many as operands, and perhaps '->' and a result"
    return WeftValueError(message, got=repr(subscripts), wanted=wanted)


def _put_subscripts_first(*values: Any) -> tuple[Any, ...]:
    """Puts the subscripts of einsum(x, [0, 1], y, [1, 2], [0, 2]) first."""
    result = values[-1:] if len(values) % 2 else ()
    return (_write_subscripts([*values[1::2], *result], bool(result)), *values[:-1:2])


def _write_subscripts(terms: Sequence[Any], with_result: bool) -> str:
    """Writes terms, the last of which may be the result, as subscripts.

    Labels are the numbers of letters, or any values that can be ordered.
    """
    try:
        labels = {label for term in terms for label in term if label is not Ellipsis}
        ordered: Sequence[Any] = sorted(labels)
    except TypeError:
        raise _wrong("labels are integers, or other values that can be ordered", terms) from None
    if len(ordered) > len(_LETTERS):
        raise _wrong(f"more than {len(_LETTERS)} labels", terms)
    if all(isinstance(n, (int, np.integer)) and 0 <= n < len(_LETTERS) for n in ordered):
        ordered = range(len(_LETTERS))
    letter = {label: _LETTERS[n] for n, label in enumerate(ordered)}
    texts = ["".join("..." if n is Ellipsis else letter[n] for n in term) for term in terms]
    return "->".join([",".join(texts[:-1]), texts[-1]]) if with_result else ",".join(texts)


def _to_letters(subscripts: str) -> str:
    """Replaces other characters of subscripts, which JAX takes as labels too, by letters."""
    text = subscripts.replace(" ", "")
    others = set(text.replace("...", "").replace("->", "").replace(",", "")) - set(_LETTERS)
    if not others or not others.isdisjoint(".->"):
        return subscripts
    inputs, arrow, output = text.partition("->")
    pieces = [term.split("...") for term in (*inputs.split(","), *([output] if arrow else []))]
    terms = [[*first, *[c for rest in more for c in (..., *rest)]] for first, *more in pieces]
    return _write_subscripts(terms, bool(arrow))


def _subscripts(value: Any, call: Arguments) -> str:
    return _to_letters(value) if config.lenient() else value


def _order(value: Any, call: Arguments) -> Any:
    if isinstance(value, (tuple, list)):
        # The list that `einsum_path` returns begins with its name.
        return tuple([tuple(step) for step in value if not isinstance(step, str)])
    if not callable(value):
        check_choice(value, _METHODS, call.name)
    return value


def _shapes(value: Any, call: Arguments) -> Any:
    check_arrays(*value, argument=call.name)
    return tuple([type_of(x).shape for x in value])


# opt_einsum's names; it is imported only where an order is looked for.
_NAMES = (
    "auto auto-hq optimal greedy eager opportunistic dp dynamic-programming branch-all branch-2 "
    "branch-1 random-greedy random-greedy-128"
)
_METHODS = (True, False, *_NAMES.split())
Subscripts = Annotated[Any, Kind(_subscripts, "labels of the dimensions", ("?",), "", plain=NEVER)]
Order = Annotated[
    Any, Kind(_order, "how the order of contractions is found", ("?", 0.5, None), True, plain=NEVER)
]
Shapes = Annotated[Any, Kind(_shapes, "arrays, of which the shapes count", operand_kind.wrong)]


# ---- subscripts and order ------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def parse(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[str, ...], str]:
    """The labels of each operand and of the result, dimensions of an ellipsis named too.

    Raises WeftValueError for wrong subscripts and ShapeError where lengths disagree.
    """
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise _wrong(f"{len(terms)} terms for {len(shapes)} operands", subscripts)
    for term in (*terms, output):
        rest = term.replace("...", "", 1)
        if not all(c in _LETTERS for c in rest):
            raise _wrong(f"the term {term!r} cannot be read", subscripts)
    spare = iter([c for c in reversed(_LETTERS) if c not in text])
    ranks = [len(s) - len(t.replace("...", "")) for t, s in zip(terms, shapes, strict=True)]
    for term, rank, shape in zip(terms, ranks, shapes, strict=True):
        if rank < 0 or (rank and "..." not in term):
            raise _wrong(f"the term {term!r} does not fit an operand of shape {shape}", subscripts)
    most = max([r for r, t in zip(ranks, terms, strict=True) if "..." in t], default=0)
    named = "".join(next(spare) for _ in range(most))
    full = tuple(
        t.replace("...", named[most - r :]) if "..." in t else t
        for t, r in zip(terms, ranks, strict=True)
    )
    if arrow:
        out = output.replace("...", named)
    else:
        once = sorted(c for c in set("".join(terms)) - {"."} if inputs.count(c) == 1)
        out = named + "".join(once)
    if len(set(out)) != len(out) or not set(out) <= set("".join(full)):
        raise _wrong(f"the result {output!r} has a label twice, or one of no operand", subscripts)
    _check_lengths(full, shapes, subscripts)
    return full, out


def _check_lengths(
    terms: Sequence[str], shapes: Sequence[Sequence[int]], subscripts: str
) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            known = lengths.get(label, 1)
            if 1 not in (known, size) and known != size:
                raise ShapeError(
                    f"the label {label!r} stands for lengths {known} and {size}",
                    got=f"{subscripts!r} with shapes {', '.join(map(str, shapes))}",
                    wanted="one length per label",
                )
            lengths[label] = size if known == 1 else known
    return lengths


@functools.lru_cache(maxsize=4096)
def contraction_order(
    terms: tuple[str, ...], out: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[int, ...], ...]:
    """The operands to contract in each step; results go to the end of the list."""
    if len(terms) < 3:
        return (tuple(range(len(terms))),)
    method = {True: "optimal" if len(terms) < 6 else "auto", False: None}.get(optimize, optimize)
    if method is None:
        return ((0, 1), *((0, n) for n in range(len(terms) - 2, 0, -1)))
    if isinstance(method, tuple):
        method = list(method)
    path, _ = opt_einsum.contract_path(
        ",".join(terms) + "->" + out, *shapes, shapes=True, optimize=method
    )
    return tuple(tuple(sorted(step)) for step in path)


def without_repeats(x: Any, labels: str) -> tuple[Any, str]:
    """Takes diagonals until no label is repeated."""
    for label in labels:
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = _diagonal_of(x, i, j)
            labels = labels[:j] + labels[j + 1 :]
    return x, labels


def _diagonal_of(x: Any, i: int, j: int) -> Any:
    """The diagonal of dimensions i and j, of which j is dropped."""
    of = type_of(x)
    rows, columns = (broadcasted_iota("int32", of.shape, d) for d in (i, j))
    zero = broadcast_in_dim(of.dtype.type(0), of.shape, ())
    return _sum(select(rows == columns, x, zero), (j,))


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    if not axes:
        return x
    if type_of(x).dtype == dtypes.bool_:
        return reduce_or(x, axes)
    return reduce_sum(x, axes)


def sum_out(x: Any, labels: str, keep: set[str]) -> tuple[Any, str]:
    """Sums over the labels that are not in `keep`."""
    axes = tuple(i for i, label in enumerate(labels) if label not in keep)
    return _sum(x, axes), "".join(c for c in labels if c in keep)


def contract_pair(
    x: Any,
    left: str,
    y: Any,
    right: str,
    keep: set[str],
    precision: Any,
    preferred: Any,
    multiply: Callable[..., Any] = dot_general,
) -> tuple[Any, str]:
    """Multiplies two operands and sums over their shared labels outside of `keep`.

    `multiply` takes the arguments of `dot_general`.
    """
    x, left = sum_out(x, left, keep | set(right))
    y, right = sum_out(y, right, keep | set(left))
    # A shared label of length 1 in one operand alone broadcasts: there that operand lacks it.
    x, left = _drop_ones(x, left, y, right)
    y, right = _drop_ones(y, right, x, left)
    shared = [c for c in left if c in right]
    batch = [c for c in shared if c in keep]
    summed = [c for c in shared if c not in keep]
    numbers = (
        (tuple(map(left.index, summed)), tuple(map(right.index, summed))),
        (tuple(map(left.index, batch)), tuple(map(right.index, batch))),
    )
    out = multiply(x, y, numbers, precision, preferred_element_type=preferred)
    rest = [c for c in left if c not in shared] + [c for c in right if c not in shared]
    return sum_out(out, "".join(batch + rest), keep)


def _drop_ones(x: Any, left: str, y: Any, right: str) -> tuple[Any, str]:
    one, two = type_of(x).shape, type_of(y).shape
    gone = {
        c for i, c in enumerate(left) if c in right and one[i] == 1 and two[right.index(c)] != 1
    }
    if not gone:
        return x, left
    shape = tuple(n for n, c in zip(one, left, strict=True) if c not in gone)
    return reshape(x, shape), "".join(c for c in left if c not in gone)


class _SumOfProducts(ArrayFunction):
    """A function of subscripts and operands that may also be called as f(x, [0, 1], y, [1, 2])."""

    def _call_new(self, trace: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args and not isinstance(args[0], str):
            return self(*_put_subscripts_first(*args), **kwargs)
        if kwargs.get("_dot_general") is not None:  # A function of the user's is called each time.
            return self._run(self._take_arguments(args, kwargs))
        return super()._call_new(trace, args, kwargs)


def _of_subscripts(**options: Any) -> Callable[[F], F]:
    return lambda body: _SumOfProducts(body, **options)  # type: ignore[return-value]


@_of_subscripts()
def einsum(
    subscripts: Subscripts,
    /,
    *operands: EachPromoted,
    out: Out = None,
    optimize: Order = True,
    precision: Precision = None,
    preferred_element_type: Preferred = None,
    _dot_general: Passed = None,
    out_sharding: NoSharding = None,
) -> Array:
    """The sum of products that subscripts in Einstein's notation describe.

    Also called as einsum(x, [0, 1], y, [1, 2], [0, 2]).

    Args:
        subscripts (str): As in "ij,jk->ik", with "..." for broadcast dimensions; labels that the
            result does not have are summed over.
        operands (arrays): An array for each comma-separated part of the subscripts.
        out: Must be None: arrays are never written to.
        optimize: How the order of contractions is found (opt_einsum's names; False for left to
            right, or a list of pairs).
        precision: "default", "high" or "highest".
        preferred_element_type (dtype): The dtype of the sums and of the result.
        _dot_general (Callable): The function that multiplies, by default `weft.lax.dot_general`; it
            is called with the operands, the dimension numbers, the precision and
            preferred_element_type=.
        out_sharding (sharding): How the result is split over devices.

    Raises ValueError for subscripts that cannot be read, ShapeError for lengths.

    >>> jnp.einsum("ij,j->i", jnp.ones((2, 3)), jnp.arange(3.0))
    Array([3., 3.], dtype=float32)
    """
    shapes = tuple([x.shape for x in operands])
    terms, result = parse(subscripts, shapes)
    work = [without_repeats(x, labels) for x, labels in zip(operands, terms, strict=True)]
    for step in contraction_order(terms, result, shapes, optimize):
        pair = [work[i] for i in step]
        work = [w for i, w in enumerate(work) if i not in step]
        later = set(result).union(*(labels for _, labels in work))
        x, left = pair[0]
        if len(pair) == 1:
            x, left = sum_out(x, left, later)
        for n, (y, right) in enumerate(pair[1:], 1):
            keep = later.union(*(labels for _, labels in pair[n + 1 :]))
            settings = precision, preferred_element_type, _dot_general or dot_general
            x, left = contract_pair(x, left, y, right, keep, *settings)
        work.append((x, left))
    ((x, left),) = work
    x = transpose(x, [left.index(c) for c in result])
    return x if preferred_element_type is None else convert(x, preferred_element_type)


@_of_subscripts(program=None)
def einsum_path(
    subscripts: Subscripts, /, *operands: Shapes, optimize: Order | None = "greedy"
) -> tuple[list[Any], str]:
    """The order in which `einsum` would contract, as (list of steps, description).

    subscripts, operands: as in `einsum`; optimize: how the order is found, as in `einsum`.

    >>> steps, _ = einsum_path("ij,jk,k->i", np.ones((2, 3)), np.ones((3, 4)), np.ones(4))
    >>> steps
    ['einsum_path', (1, 2), (0, 1)]
    """
    terms, out = parse(subscripts, operands)
    full = ",".join(terms) + "->" + out
    path, text = opt_einsum.contract_path(full, *operands, shapes=True, optimize=optimize)
    return ["einsum_path", *path], str(text)
