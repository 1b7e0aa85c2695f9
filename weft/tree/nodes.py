"""The classes that are containers in a tree: how users register their own, and the ones of weft.

A container is registered with a pair of functions: one takes it apart into children (trees) and
data (hashable, part of the structure), the other builds it from both. Data is compared whenever
structures are, so arrays belong among the children.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

from weft.base.program_caches import clear_caches
from weft.errors import Fix, TreeError
from weft.runtime import pytree
from weft.runtime.jaxlib.lazy import pending_nodes

T = TypeVar("T")
C = TypeVar("C", bound=type)

_field_names: dict[type, tuple[str, ...]] = {}
_static_names: dict[type, tuple[str, ...]] = {}


def is_node(typ: type) -> bool:
    """Whether values of this class are containers: the registered classes, and namedtuples.

    typ: the class that is asked about.
    """
    return pytree.is_node(typ)


def field_names(cls: type) -> tuple[str, ...] | None:
    """The names of the children of a namedtuple or of a registered dataclass, else None."""
    if pytree.is_namedtuple(cls):
        return tuple(cls._fields)  # type: ignore[attr-defined]
    return _field_names.get(cls)


def static_names(cls: type) -> tuple[str, ...] | None:
    """The names of the static fields of a registered dataclass, else None."""
    return _static_names.get(cls)


def _check_new(operation: str, cls: Any) -> None:
    if not isinstance(cls, type):
        message = "only classes are registered"
        got = f"{cls!r}, of type {type(cls).__name__}"
        raise TreeError(message, operation=operation, got=got, wanted="a class")
    if pytree.is_node(cls) and not pytree.is_namedtuple(cls):
        message = f"the class {cls.__qualname__} is registered already"
        got = "a second registration"
        wanted = "one registration for each class"
        fix = Fix("remove", "remove one of the registrations", {"class": cls.__qualname__})
        raise TreeError(message, operation=operation, got=got, wanted=wanted, fix=fix)


def register_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Makes a class a container.

    `flatten_func(value)` returns the children and the data; `unflatten_func(data, children)` builds
    the value again, and must take any children: transformations put other things than arrays there.
    `flatten_with_keys_func` returns pairs of a key and a child instead of children. Raises
    TreeError for a class that is registered already.

    Args:
        nodetype: The class whose values become containers.
        flatten_func: Takes a value apart: it returns the children and the data, which is hashable.
        unflatten_func: Builds a value of the data and the children.
    """
    _check_new("tree.register_node", nodetype)
    if pytree.is_namedtuple(nodetype):  # Calls may be known whose arguments have it as a tuple.
        clear_caches()
    pytree.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Makes a class a container that names its children; see `register_node`.

    Without `flatten_func` the children are those of `flatten_with_keys`.

    Args:
        nodetype: The class whose values become containers.
        flatten_with_keys: Takes a value apart: it returns pairs of a key and a child, and the data,
            which is hashable.
        unflatten_func: Builds a value of the data and the children, as in `register_node`.
        flatten_func: Takes a value apart without keys: it returns the children and the data.
    """
    if flatten_func is None:

        def flatten_func(value: T) -> tuple[Iterable[Any], Any]:
            pairs, data = flatten_with_keys(value)
            return [child for _, child in pairs], data

    register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys)


def register_class(cls: C) -> C:
    """Decorates a class with a method `tree_flatten()` and a class method `tree_unflatten`.

    >>> from weft import tree
    >>> @register_class
    ... class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    ...
    ...     def tree_flatten(self):
    ...         return (self.x, self.y), None
    ...
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children):
    ...         return cls(*children)
    >>> tree.leaves(Pair(1, [2, 3]))
    [1, 2, 3]
    """
    _check_methods("tree.register_class", cls, "tree_flatten")
    register_node(cls, cls.tree_flatten, cls.tree_unflatten)  # type: ignore[attr-defined]
    return cls


def register_class_with_keys(cls: C) -> C:
    """Decorates a class with `tree_flatten_with_keys()` and a class method `tree_unflatten`.

    A method `tree_flatten()` is used if no keys are requested.
    """
    _check_methods("tree.register_class_with_keys", cls, "tree_flatten_with_keys")
    register_with_keys(
        cls,
        cls.tree_flatten_with_keys,  # type: ignore[attr-defined]
        cls.tree_unflatten,  # type: ignore[attr-defined]
        getattr(cls, "tree_flatten", None),
    )
    return cls


def _check_methods(operation: str, cls: Any, flatten_method: str) -> None:
    _check_new(operation, cls)
    missing = [name for name in (flatten_method, "tree_unflatten") if not hasattr(cls, name)]
    if missing:
        raise TreeError(
            f"the class {cls.__qualname__} lacks {' and '.join(missing)}",
            operation=operation,
            wanted=f"a method {flatten_method}(self) and a class method "
            "tree_unflatten(cls, data, children)",
            fix=Fix("define", f"define {' and '.join(missing)}", {"methods": missing}),
        )


def static(**kwargs: Any) -> Any:
    """A dataclass field that is data and not a child: `dataclasses.field` with a mark.

    kwargs: the arguments of `dataclasses.field`.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: object
    ...     activation: str = static(default="relu")
    """
    metadata = {"static": True, **kwargs.pop("metadata", {})}
    return dataclasses.field(metadata=metadata, **kwargs)


@overload
def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C: ...
@overload
def register_dataclass(
    nodetype: None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Callable[[C], C]: ...
def register_dataclass(
    nodetype: Any = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Makes a dataclass a container; as a decorator, or called with the class.

    The children are `data_fields`, the data is `meta_fields`; by default a field is data if its
    metadata has `static=True`, and a child otherwise. `drop_fields` are left to their defaults.
    Every field of the constructor is in one of the three. A class that is not a dataclass needs
    both lists, and a constructor that takes them as keywords. Raises TreeError otherwise.

    nodetype: the class; None gives a decorator.

    >>> from weft import tree
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Dense:
    ...     w: object
    ...     b: object
    ...     name: str = dataclasses.field(default="dense", metadata=dict(static=True))
    >>> tree.map(lambda x: 10 * x, Dense(1, 2))
    Dense(w=10, b=20, name='dense')
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass,
            data_fields=data_fields,
            meta_fields=meta_fields,
            drop_fields=drop_fields,
        )
    _check_new("tree.register_dataclass", nodetype)
    data, meta = _split_fields(nodetype, data_fields, meta_fields, drop_fields)
    _check_fields(nodetype, data, meta, drop_fields)
    pytree.register_dataclass_node(nodetype, data, meta)
    _field_names[nodetype], _static_names[nodetype] = tuple(data), tuple(meta)
    return nodetype


def _init_fields(cls: type) -> list[dataclasses.Field[Any]] | None:
    if not dataclasses.is_dataclass(cls):
        return None
    return [field for field in dataclasses.fields(cls) if field.init]


def _split_fields(
    cls: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
    drop_fields: Sequence[str],
) -> tuple[list[str], list[str]]:
    if data_fields is not None and meta_fields is not None:
        return list(data_fields), list(meta_fields)
    fields = _init_fields(cls)
    if fields is None or data_fields is not None or meta_fields is not None:
        given = {"data_fields": data_fields, "meta_fields": meta_fields}
        missing = [name for name, value in given.items() if value is None]
        fixes = [f"pass {' and '.join(missing)}"]
        if fields is None:
            fixes.append("decorate the class with @dataclasses.dataclass first")
        raise TreeError(
            f"the fields of {cls.__qualname__} are not known",
            operation="tree.register_dataclass",
            got="a class that is not a dataclass" if fields is None else f"no {missing[0]}",
            wanted="a dataclass without lists of fields, or both data_fields and meta_fields",
            fix=Fix("argument", ", or ".join(fixes), {"arguments": missing}),
        )
    kept = [field for field in fields if field.name not in drop_fields]
    meta = [field.name for field in kept if field.metadata.get("static", False)]
    return [field.name for field in kept if field.name not in meta], meta


def _check_fields(cls: type, data: list[str], meta: list[str], drop: Sequence[str]) -> None:
    listed = [*data, *meta, *drop]
    twice = sorted({name for name in listed if listed.count(name) > 1})
    fields = _init_fields(cls)
    names = listed if fields is None else [field.name for field in fields]
    missing = [name for name in names if name not in listed]
    unknown = [name for name in listed if name not in names]
    if not (twice or missing or unknown):
        return
    problems = [
        f"{what} {names_}"
        for what, names_ in (("in no list:", missing), ("unknown:", unknown), ("twice:", twice))
        if names_
    ]
    message = f"the lists of fields do not match the dataclass {cls.__qualname__}"
    got = "; ".join(problems)
    wanted = f"each of the constructor's fields {names} in one list"
    listing = "in data_fields, and the rest in meta_fields (or drop_fields)"
    texts = [f"put arrays of {missing} {listing}"] if missing else []
    texts += [f"leave out {unknown}"] if unknown else []
    texts += [f"name {twice} once"] if twice else []
    lists = {"missing": missing, "unknown": unknown, "twice": twice}
    fix = Fix("fields", "; ".join(texts), lists)
    raise TreeError(message, operation="tree.register_dataclass", got=got, wanted=wanted, fix=fix)


def register_static(cls: C) -> C:
    """Decorates a class whose values are containers without leaves: part of the structure.

    The values must be hashable, and equal if a function treats them as equal.
    """
    register_node(cls, lambda value: ((), value), lambda value, _children: value)
    return cls


# The containers that the C++ registry does not know by itself.


def _flatten_ordered(value: Any) -> tuple[Any, Any]:
    return tuple(value.values()), tuple(value.keys())


def _flatten_ordered_with_keys(value: Any) -> tuple[Any, Any]:
    return [(pytree.DictKey(key), child) for key, child in value.items()], tuple(value.keys())


def _unflatten_ordered(keys: Any, children: Any) -> Any:
    return collections.OrderedDict(zip(keys, children, strict=True))


def _sorted_keys(value: Any) -> list[Any]:
    try:
        return sorted(value)
    except TypeError as error:
        # The same kind of error as for a dict, which `tree.flatten` turns into one with the path.
        raise ValueError(f"the keys of a defaultdict cannot be sorted: {error}") from error


def _flatten_default(value: Any) -> tuple[Any, Any]:
    keys = _sorted_keys(value)
    return [value[key] for key in keys], (value.default_factory, tuple(keys))


def _flatten_default_with_keys(value: Any) -> tuple[Any, Any]:
    keys = _sorted_keys(value)
    return [(pytree.DictKey(key), value[key]) for key in keys], (value.default_factory, tuple(keys))


def _unflatten_default(data: Any, children: Any) -> Any:
    factory, keys = data
    return collections.defaultdict(factory, zip(keys, children, strict=True))


class _Opaque:
    """A `functools.partial` as an opaque function, equal to it and to others around it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return bool(self.function == (other.function if isinstance(other, _Opaque) else other))

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial[Any]):
    """A `functools.partial` that is a container: the arguments are children, the function is data.

    A function with arrays in it can so be passed to a transformed function and returned from one.

    Args:
        func: The function, which is part of the structure and so has to be hashable.
        args: Its first arguments, trees.
        keywords: Its arguments by keyword, trees.

    >>> from weft import tree
    >>> add = Partial(lambda x, y: x + y, 1)
    >>> tree.leaves(add), tree.map(lambda x: 10 * x, add)(5)
    ([1], 15)
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Partial:
        # functools.partial would take over the arguments of a partial it is given: right for those
        # of a Partial, which are children; those of a plain partial are part of the function.
        if isinstance(func, functools.partial) and not isinstance(func, Partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **keywords)


def _flatten_partial(value: Any) -> tuple[Any, Any]:
    return (value.args, value.keywords), value.func


def _flatten_partial_with_keys(value: Any) -> tuple[Any, Any]:
    return (
        (pytree.GetAttrKey("args"), value.args),
        (pytree.GetAttrKey("keywords"), value.keywords),
    ), value.func


def _unflatten_partial(function: Any, children: Any) -> Any:
    args, keywords = children
    return Partial(function, *args, **keywords)


pending_nodes += [
    (collections.OrderedDict, _flatten_ordered, _unflatten_ordered, _flatten_ordered_with_keys),
    (collections.defaultdict, _flatten_default, _unflatten_default, _flatten_default_with_keys),
    (Partial, _flatten_partial, _unflatten_partial, _flatten_partial_with_keys),
]
