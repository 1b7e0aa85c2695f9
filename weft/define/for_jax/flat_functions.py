"""From functions of trees to functions of flat lists, under the names of `jax.api_util`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft import tree
from weft.base.source_info import DebugInfo
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import ArrayType, type_of
from weft.define.for_jax.wrapped_functions import (
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)
from weft.errors import Fix, WeftTypeError, WeftValueError

Function = Callable[..., Any]


@transformation_with_aux2
def flatten_fun(f: Function, store: Any, in_tree: Any, *args_flat: Any) -> list[Any]:
    """`flatten_fun(fun, in_tree)`: a function of flat lists, and one that returns the structure of
    its results once it has run. `in_tree` is the structure of `(args, kwargs)`.

    >>> from weft import api_util
    >>> from weft.extend import linear_util as lu
    >>> leaves, in_tree = weft.tree.flatten((({"a": 1.0},), {}))
    >>> flat, out_tree = api_util.flatten_fun(lu.wrap_init(lambda d: (d["a"], 2.0)), in_tree)
    >>> flat.call_wrapped(*leaves), out_tree()
    ([1.0, 2.0], PyTreeDef((*, *)))
    """
    args, kwargs = tree.unflatten(in_tree, args_flat)
    leaves, out_tree = tree.flatten(f(*args, **kwargs))
    store.store(out_tree)
    return leaves


@transformation_with_aux2
def flatten_fun_nokwargs(f: Function, store: Any, in_tree: Any, *args_flat: Any) -> list[Any]:
    """As `flatten_fun`, where `in_tree` is the structure of the positional arguments."""
    leaves, out_tree = tree.flatten(f(*tree.unflatten(in_tree, args_flat)))
    store.store(out_tree)
    return leaves


class _Fixed:
    """Fixed arguments, compared by identity or, where they have one, by hash."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __hash__(self) -> int:
        return hash(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and self.values == other.values


@transformation2
def _with_fixed(
    f: Function, places: tuple[int, ...], fixed: _Fixed, *given: Any, **kwargs: Any
) -> Any:
    whole: list[Any] = [None] * (len(places) + len(fixed.values))
    for place, value in zip(places, given, strict=True):
        whole[place] = value
    rest = iter(fixed.values)
    args = [whole[i] if i in places else next(rest) for i in range(len(whole))]
    return f(*args, **kwargs)


def argnums_partial(
    f: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, list[Any]]:
    """The function of some arguments, with the others fixed, and the values of the remaining
    arguments.

    Raises WeftValueError for a fixed argument without a hash where one is required.

    Args:
        f: The function of all arguments, as `linear_util.wrap_init` makes it.
        dyn_argnums: The position, or positions, of the arguments that the result still takes;
            negative ones count from the end.
        args: The values of all arguments.
        require_static_args_hashable: Whether each fixed argument must have a hash.

    >>> from weft import api_util
    >>> from weft.extend import linear_util as lu
    >>> fun, rest = api_util.argnums_partial(lu.wrap_init(lambda x, y: x - y), 1, (5, 3))
    >>> fun.call_wrapped(*rest), fun.call_wrapped(1)
    (2, 4)
    """
    chosen = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    places = tuple(i % len(args) for i in chosen)
    fixed = tuple(x for i, x in enumerate(args) if i not in places)
    if require_static_args_hashable:
        for value in fixed:
            _require_hash(value)
    return _with_fixed(f, places, _Fixed(fixed)), [args[i] for i in places]


def _require_hash(value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise WeftValueError(
            "argnums_partial: a fixed argument has no hash",
            operation="argnums_partial",
            got=f"{value!r:.80} of class {type(value).__name__}",
            wanted="a hashable value",
            fix=Fix("hashable", "pass a tuple, or an object with __hash__ and __eq__"),
        ) from None


def flatten_axes(
    name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False
) -> list[Any]:
    """One entry of a tree of axes for each leaf of `treedef`, of which that tree is a prefix.

    None in it is an entry. Raises WeftValueError if it is no prefix.

    Args:
        name: What the tree of axes is called in errors.
        axis_tree: The tree of axes; an entry in place of a subtree goes for each leaf of that.
        kws: Whether `treedef` is that of a pair (positional arguments, keyword arguments), of which
            only the first counts.
        tupled_args: Has no meaning: the tree of axes is compared as it is.
        treedef: The structure of the whole tree.

    >>> from weft import api_util
    >>> api_util.flatten_axes("in_axes", weft.tree.structure((1, (2, 3))), (0, None))
    [0, None, None]
    """
    if kws:
        treedef, _ = tree.treedef_children(treedef)
    whole = tree.unflatten(treedef, [object()] * treedef.num_leaves)
    return tree.prefix_leaves(name, axis_tree, whole, is_leaf=lambda x: x is None)


def _as_tuple(nums: int | Iterable[int]) -> tuple[int, ...]:
    return (nums,) if isinstance(nums, int) else tuple(nums)


def donation_vector(
    donate_argnums: Any, donate_argnames: Any, in_tree: Any, kws: bool = True
) -> tuple[bool, ...]:
    """For each leaf of the arguments whether it is donated, given the arguments' numbers and names.

    Args:
        donate_argnums: The position, or positions, of the donated arguments.
        donate_argnames: The names of donated keyword arguments.
        in_tree: The structure of the arguments.
        kws: Whether `in_tree` is that of a pair (positional arguments, keyword arguments), and not
            of the former alone.

    >>> from weft import api_util
    >>> api_util.donation_vector((0,), (), weft.tree.structure((((1, 2), 3), {})))
    (True, True, False)
    """
    positional, named = in_tree, None
    if kws:
        positional, named = tree.treedef_children(in_tree)
    numbers, names = _as_tuple(donate_argnums or ()), set(donate_argnames or ())
    found: list[bool] = []
    for i, part in enumerate(tree.treedef_children(positional)):
        found += [i in numbers] * part.num_leaves
    if named is not None:
        keys = sorted(tree.unflatten(named, range(named.num_leaves)))
        for key, part in zip(keys, tree.treedef_children(named), strict=True):
            found += [key in names] * part.num_leaves
    return tuple(found)


def rebase_donate_argnums(donate_argnums: Any, static_argnums: Any) -> tuple[int, ...]:
    """The numbers of donated arguments, counted among those that are not static.

    Raises WeftValueError for an argument that is both.

    Args:
        donate_argnums: The position, or positions, of donated arguments, counted among all.
        static_argnums: The position, or positions, of static arguments.

    >>> from weft import api_util
    >>> api_util.rebase_donate_argnums((0, 3), (1,))
    (0, 2)
    """
    static, donated = set(_as_tuple(static_argnums)), _as_tuple(donate_argnums)
    both = sorted(static & set(donated))
    if both:
        raise WeftValueError(
            "an argument is static and donated",
            operation="rebase_donate_argnums",
            got=f"the arguments {both}",
            wanted="an argument that is one of the two",
            fix=Fix("one_of_both", "take it from one of them", {"arguments": both}),
        )
    return tuple(i - sum(j < i for j in static) for i in donated)


def safe_map(f: Function, /, *lists: Iterable[Any]) -> list[Any]:
    """`list(map(f, *lists))`; a WeftValueError where their lengths differ.

    Args:
        f: A function of as many arguments as there are sequences.
        lists: The sequences, of one length.

    >>> from weft import api_util
    >>> api_util.safe_map(lambda x, y: x + y, [1, 2], (3, 4))
    [4, 6]
    """
    return [f(*values) for values in safe_zip(*lists)]


def safe_zip(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`list(zip(*lists))`; a WeftValueError where their lengths differ.

    Args:
        lists: The sequences, of one length.
    """
    columns = [list(values) for values in lists]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise WeftValueError(
            "the sequences have different lengths",
            operation="safe_zip",
            got=f"lengths {[len(column) for column in columns]}",
            wanted="equal lengths",
            fix=Fix("equal_lengths", "pass sequences of one length"),
        )
    return list(zip(*columns, strict=True))


def shaped_abstractify(x: Any) -> ArrayType:
    """The type of an array, a number or a `ShapeDtypeStruct`, or a type itself.

    Raises WeftTypeError for anything else.

    Args:
        x: The value whose type is wanted.

    >>> from weft import api_util
    >>> api_util.shaped_abstractify(np.ones((2, 3), "float32"))
    f32[2,3]
    """
    if isinstance(x, ArrayType):
        return x
    return x.type if isinstance(x, ShapeDtypeStruct) else type_of(x)


def fun_signature(fun: Function) -> inspect.Signature | None:
    """The signature of a function, None if it has none.

    Args:
        fun: Any callable.
    """
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def fun_sourceinfo(fun: Function) -> str:
    """A function's name, with its file and line if they are known.

    Args:
        fun: Any callable; wrappers and `functools.partial` are looked through.
    """
    inner = inspect.unwrap(fun) if callable(fun) else fun
    while hasattr(inner, "func"):
        inner = inner.func
    code = getattr(inner, "__code__", None)
    name = getattr(inner, "__name__", "<unknown>")
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"


def debug_info(
    traced_for: str,
    fun: Function,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    result_paths_thunk: Any = None,
    sourceinfo: str | None = None,
    signature: Any = None,
) -> DebugInfo:
    """What messages say of a function: its name, and the names of the leaves of its arguments.

    Args:
        traced_for: The transformation that traces the function, such as "jit".
        fun: The function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        static_argnums: The positions of static arguments, whose leaves get no names.
        static_argnames: The names of static arguments, whose leaves get no names.
        result_paths_thunk: Returns the names of the leaves of the result; None where they are not
            known.
        sourceinfo: The function's name with file and line; None looks them up.
        signature: The function's signature; None looks it up.
    """
    names: list[str] = []
    parameters = signature or fun_signature(fun)
    try:
        given = parameters.bind(*args, **kwargs).arguments if parameters else {}
    except TypeError:
        given = {}
    static = {name for i, name in enumerate(given) if i in static_argnums} | set(static_argnames)
    for name, value in given.items():
        if name not in static:
            names += [name + tree.keystr(path) for path, _ in tree.leaves_with_path(value)]
    info = sourceinfo or fun_sourceinfo(fun)
    return DebugInfo(traced_for, info, tuple(names), result_paths_thunk)


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Numbers and names of the same arguments, if one of the two is given.

    Raises WeftTypeError for names that are neither a str nor a collection of them.

    Args:
        sig: The function's signature.
        argnums: The position, or positions, of the arguments; None if they are not given.
        argnames: The name, or names, of the arguments; None if they are not given.

    >>> import inspect
    >>> from weft import api_util
    >>> api_util.infer_argnums_and_argnames(inspect.signature(lambda x, y: x), (1,), None)
    ((1,), ('y',))
    """
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    positional = [name for name, p in sig.parameters.items() if p.kind in kinds]
    if argnums is None and argnames is None:
        return (), ()
    if argnums is not None and argnames is not None:
        return _as_tuple(argnums), _names(argnames)
    if argnums is None:
        names = _names(argnames)
        return tuple(i for i, name in enumerate(positional) if name in names), names
    numbers = _as_tuple(argnums)
    count = len(positional)
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return numbers, tuple(
        positional[i]
        for i in numbers
        if -count <= i < count and sig.parameters[positional[i]].kind == keyword
    )


def _names(argnames: Any) -> tuple[str, ...]:
    if isinstance(argnames, str):
        return (argnames,)
    if isinstance(argnames, Iterable) and all(isinstance(x, str) for x in argnames):
        return tuple(argnames)
    raise WeftTypeError(
        "the names of arguments are strings",
        operation="infer_argnums_and_argnames",
        got=f"{argnames!r:.80}",
        wanted="a str or several",
        fix=Fix("names", 'write a tuple of names, such as ("x",)'),
    )
