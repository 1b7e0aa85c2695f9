"""`jax._src.util`: small functions on lists."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from weft.define.for_jax.flat_functions import safe_map, safe_zip

__all__ = [
    "cache", "concatenate", "curry", "foreach", "merge_lists", "partition_list", "prod", "safe_map",
    "safe_zip", "split_list", "subs_list", "unzip2", "unzip3", "wraps",
]  # fmt: skip


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first and the second parts of pairs."""
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


def unzip3(xyzs: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], ...]:
    """The first, second and third parts of triples."""
    triples = list(xyzs)
    return tuple(tuple(t[i] for t in triples) for i in range(3))


def split_list(args: Sequence[Any], ns: Sequence[int]) -> list[list[Any]]:
    """A list cut into pieces of these lengths and the rest."""
    rest = list(args)
    found = []
    for n in ns:
        found.append(rest[:n])
        rest = rest[n:]
    return [*found, rest]


def partition_list(bs: Sequence[bool], xs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The elements with a false flag, and those with a true one."""
    pairs = safe_zip(bs, xs)
    return [x for b, x in pairs if not b], [x for b, x in pairs if b]


def merge_lists(bs: Sequence[bool], l0: Iterable[Any], l1: Iterable[Any]) -> list[Any]:
    """Merges two lists; the inverse of `partition_list`."""
    first, second = iter(l0), iter(l1)
    return [next(second) if b else next(first) for b in bs]


def subs_list(subs: Sequence[int | None], src: Sequence[Any], base: Sequence[Any]) -> list[Any]:
    """`src[i]` for each number, and the element of `base` for each None."""
    rest = iter(base)
    return [src[i] if i is not None else next(rest) for i in subs]


def concatenate(xs: Iterable[Sequence[Any]]) -> list[Any]:
    """One list of the elements of several."""
    return [x for part in xs for x in part]


def foreach(f: Callable[..., Any], *args: Iterable[Any]) -> None:
    """Calls a function on the elements of lists of one length."""
    safe_map(f, *args)


def prod(xs: Iterable[Any]) -> Any:
    """The product of numbers; 1 for none."""
    return functools.reduce(operator.mul, xs, 1)


def curry(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes its arguments in two calls."""
    return functools.wraps(f)(functools.partial(functools.partial, f))


def cache(max_size: int | None = 4096, **_: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator that keeps results by arguments."""
    return functools.lru_cache(maxsize=max_size)


def wraps(wrapped: Callable[..., Any], **_: Any) -> Callable[[Callable[..., Any]], Any]:
    """As `functools.wraps`, for functions that may lack a name."""

    def named(fun: Callable[..., Any]) -> Callable[..., Any]:
        return functools.update_wrapper(fun, wrapped)

    return named


def tuple_insert(t: tuple[Any, ...], idx: int, val: Any) -> tuple[Any, ...]:
    """The tuple with a value before an index."""
    return (*t[:idx], val, *t[idx:])


def tuple_delete(t: tuple[Any, ...], idx: int) -> tuple[Any, ...]:
    """The tuple without the element at an index."""
    return (*t[:idx], *t[idx + 1 :])


def pairs(xs: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Neighbours of a sequence."""
    return zip(xs, xs[1:], strict=False)
