"""Functions of flat lists with what happens around them, under the names of
`jax.extend.linear_util`.

A `WrappedFun` is a function with transformations around it, the last one outermost. One is written
as a generator, which yields the arguments of the function, is sent its results, and yields its own
results; or (`transformation2`) as a function that calls the one inside. It may put something aside
while it runs, which the caller reads afterwards through a function without arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from weft.base.source_info import DebugInfo

__all__ = [
    "EqualStore", "Store", "StoreException", "WrappedFun", "cache", "merge_linear_aux",
    "transformation", "transformation2", "transformation_with_aux", "transformation_with_aux2",
    "wrap_init",
]  # fmt: skip

Function = Callable[..., Any]
Aux = Callable[[], Any]


class StoreException(Exception):
    """What a transformation puts aside was read before it ran, or was put aside twice."""


_NOTHING = object()


class Store:
    """Holds what a transformation puts aside while it runs: one value, once."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: Any = _NOTHING

    def store(self, val: Any) -> None:
        """Puts a value aside. Raises StoreException where there is one."""
        if self._value is not _NOTHING:
            raise StoreException("a value was put aside before")
        self._value = val

    def reset(self) -> None:
        """Forgets the value, as before a second run."""
        self._value = _NOTHING

    @property
    def val(self) -> Any:
        """The value. Raises StoreException if there is none."""
        if self._value is _NOTHING:
            raise StoreException("nothing was put aside: the function has not run")
        return self._value

    def __bool__(self) -> bool:
        return self._value is not _NOTHING

    __nonzero__ = __bool__


class EqualStore(Store):
    """As `Store`, and an equal value may be put aside again."""

    __slots__ = ()

    def store(self, val: Any) -> None:
        """Puts a value aside. Raises StoreException where there is one that differs."""
        if self._value is _NOTHING:
            self._value = val
        elif not self._value == val:
            raise StoreException(f"another value was put aside before: {self._value} and {val}")


class WrappedFun:
    """A function with transformations around it; equal ones have equal parts.

    `f` is the function inside, `params` keyword arguments that it is called with.

    Args:
        f_transformed: The function with the transformations; None for `f` itself.
        transforms: The transformations with their static arguments, outermost first.
        stores: Where each transformation puts its result aside, or None.
        in_type: The types of the arguments, where a transformation needs them.
        debug_info: What messages say of the function, as `weft.api_util.debug_info` gives it.
        f: The function inside.
        params: Keyword arguments that it is called with, as pairs (name, value).

    >>> from weft.extend import linear_util as lu
    >>> @lu.transformation
    ... def doubled(*args):
    ...     (result,) = yield args, {}
    ...     yield [result * 2]
    >>> doubled(lu.wrap_init(lambda x: [x + 1])).call_wrapped(3)
    [8]
    """

    __slots__ = ("debug_info", "f", "f_transformed", "in_type", "params", "stores", "transforms")

    def __init__(
        self,
        f: Function,
        f_transformed: Function | None = None,
        transforms: tuple[tuple[Function, tuple[Hashable, ...]], ...] = (),
        stores: tuple[Store | None, ...] = (),
        params: tuple[tuple[str, Hashable], ...] = (),
        in_type: Any = None,
        debug_info: Any = None,
    ) -> None:
        self.f, self.transforms, self.stores = f, transforms, stores
        self.f_transformed = f if f_transformed is None else f_transformed
        self.params, self.in_type, self.debug_info = params, in_type, debug_info

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed function>")

    def wrap(
        self,
        transform: Function,
        gen_static_args: tuple[Any, ...],
        out_store: Store | None,
        around: Function,
    ) -> WrappedFun:
        """The function with one more transformation around it; `around` runs it."""
        return WrappedFun(
            self.f,
            around,
            ((transform, gen_static_args), *self.transforms),
            (out_store, *self.stores),
            self.params,
            None,
            self.debug_info,
        )

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the function with all transformations."""
        return self.f_transformed(*args, **(dict(self.params) | kwargs))

    def populate_stores(self, stores: Any) -> None:
        """Puts aside what another run did."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None:
                own.store(other)

    def replace_debug_info(self, debug_info: Any) -> WrappedFun:
        """The same with other names for messages."""
        return WrappedFun(
            self.f, self.f_transformed, self.transforms, self.stores, self.params, self.in_type,
            debug_info,
        )  # fmt: skip

    def with_unknown_names(self) -> WrappedFun:
        """The same without names of arguments and results."""
        info = self.debug_info
        return self.replace_debug_info(info and info.with_unknown_names())

    def _parts(self) -> tuple[Any, ...]:
        return self.f, self.transforms, self.params, self.in_type

    def __hash__(self) -> int:
        return hash(self._parts())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._parts() == other._parts()

    def __repr__(self) -> str:
        names = [getattr(t, "__name__", repr(t)) for t, _ in self.transforms]
        return f"WrappedFun({self.__name__}{', within '.join(['', *names])})"


def wrap_init(f: Function, params: Any = None, *, debug_info: Any = None) -> WrappedFun:
    """The function as a `WrappedFun` without transformations; `params` are keyword arguments.

    Args:
        f: Any callable.
        debug_info: What messages say of the function; None for its name alone.
        params: Keyword arguments that it is called with, by name; None for none.
    """
    own = tuple(sorted(params.items())) if params else ()
    if debug_info is None:
        debug_info = DebugInfo("wrap_init", getattr(f, "__name__", "unknown"))
    return WrappedFun(f, params=own, debug_info=debug_info)


def _send(gen: Iterator[Any], f: Function) -> Any:
    """What a generator yields last, given the results of the function for what it yields first."""
    args, kwargs = next(gen)
    try:
        outs = f(*args, **kwargs)
    except BaseException:
        gen.close()  # type: ignore[attr-defined]
        raise
    return gen.send(outs)  # type: ignore[attr-defined]


def transformation(gen: Function, *rest: Any) -> Any:
    """A transformation written as a generator, which may be used as a decorator.

    `transformation(gen)(fun, *static)` calls `gen(*static, *args, **kwargs)`, which yields a pair
    (arguments, keyword arguments) for `fun`, is sent its results, and yields its own.

    Args:
        gen: The generator.
        rest: The function as a `WrappedFun` and static arguments; without them a decorator results.
    """
    if not rest:
        return functools.partial(transformation, gen)
    fun, *static = rest
    inner = fun.f_transformed

    def around(*args: Any, **kwargs: Any) -> Any:
        return _send(gen(*static, *args, **kwargs), inner)

    return fun.wrap(gen, tuple(static), None, around)


def transformation_with_aux(gen: Function, *rest: Any, use_eq_store: bool = False) -> Any:
    """As `transformation`, where the generator yields last a pair: its results, and what is put
    aside. Gives the function, and a function that returns the latter once the former has run.

    Args:
        gen: The generator.
        rest: The function as a `WrappedFun` and static arguments; without them a decorator results.
        use_eq_store: Whether an equal value may be put aside a second time.

    >>> from weft.extend import linear_util as lu
    >>> @lu.transformation_with_aux
    ... def counted(*args):
    ...     results = yield args, {}
    ...     yield results, len(results)
    >>> fun, count = counted(lu.wrap_init(lambda x: [x, x]))
    >>> fun.call_wrapped(1.0), count()
    ([1.0, 1.0], 2)
    """
    if not rest:
        return functools.partial(transformation_with_aux, gen, use_eq_store=use_eq_store)
    fun, *static = rest
    inner, store = fun.f_transformed, EqualStore() if use_eq_store else Store()

    def around(*args: Any, **kwargs: Any) -> Any:
        outs, aux = _send(gen(*static, *args, **kwargs), inner)
        store.store(aux)
        return outs

    return fun.wrap(gen, tuple(static), store, around), lambda: store.val


def transformation2(gen: Function, *rest: Any) -> Any:
    """A transformation written as a function that calls `f`: `gen(f, *static, *args, **kwargs)`.

    Args:
        gen: The function that calls `f`.
        rest: The function as a `WrappedFun` and static arguments; without them a decorator results.
    """
    if not rest:
        return functools.partial(transformation2, gen)
    fun, *static = rest
    return fun.wrap(gen, tuple(static), None, functools.partial(gen, fun.f_transformed, *static))


def transformation_with_aux2(
    gen: Function, *rest: Any, use_eq_store: bool = False, unk_names: bool = False
) -> Any:
    """As `transformation2`, for `gen(f, store, *static, *args, **kwargs)`, which puts something
    aside with `store.store(value)`.

    Args:
        gen: The function that calls `f`.
        rest: The function as a `WrappedFun` and static arguments; without them a decorator results.
        use_eq_store: Whether an equal value may be put aside a second time.
        unk_names: Has no meaning: names of arguments are kept.
    """
    if not rest:
        return functools.partial(
            transformation_with_aux2, gen, use_eq_store=use_eq_store, unk_names=unk_names
        )
    fun, *static = rest
    store = EqualStore() if use_eq_store else Store()
    around = functools.partial(gen, fun.f_transformed, store, *static)
    return fun.wrap(gen, tuple(static), store, around), lambda: store.val


def merge_linear_aux(aux1: Aux, aux2: Aux) -> tuple[bool, Any]:
    """Which of two functions ran (the first?), and what it put aside.

    Raises StoreException where both or none of them did.

    Args:
        aux1: Returns what the first function put aside.
        aux2: Returns what the second function put aside.
    """
    try:
        first = aux1()
    except StoreException:
        return False, aux2()
    try:
        aux2()
    except StoreException:
        return True, first
    raise StoreException("both functions ran")


def cache(call: Callable[..., Any], *, explain: Any = None) -> Callable[..., Any]:
    """`call(fun, *args)`, computed once for equal functions and arguments.

    What the transformations of `fun` put aside comes back with the result.

    Args:
        call: The function whose results are kept; its first argument is a `WrappedFun`.
        explain: Has no meaning: misses are not explained.
    """
    known: dict[Any, Any] = {}

    @functools.wraps(call)
    def remembered(fun: WrappedFun, *args: Any) -> Any:
        key = (fun, args)
        found = known.get(key)
        if found is None:
            result = call(fun, *args)
            kept = [None if store is None else store.val for store in fun.stores]
            known[key] = result, kept
            return result
        result, kept = found
        fun.populate_stores(kept)
        return result

    remembered.cache_clear = known.clear  # type: ignore[attr-defined]
    return remembered
