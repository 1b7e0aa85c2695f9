"""The rules of keys: for each kind of value, its part in the key of a function.

`rule_of` at the end finds the rule of a class. A rule takes the walk and the value. It passes the
values inside to the walk (`walk.part`, `parts`, `pairs`), takes a value that cannot change by
identity (`walk.identity`), and raises NoKey for one that can change unseen.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import enum
import functools
import hashlib
import operator
import re
import struct
import types
import weakref
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from weft.function_keys import known_pure
from weft.function_keys.code_reads import CodeReads, NoKey, Read, code_reads
from weft.function_keys.walk import PURE, Rule, Walk

__all__ = ["identity", "refuse", "rule_of"]

# Content of more bytes is not copied into a key.
MOST_BYTES = 65536
# A digest of so many bytes takes 2 ms, and a first trace is preceded and followed by one. Of larger
# arrays it would cost more than the trace that it may save.
MOST_DIGESTED_BYTES = 1 << 22
ABSENT = ("absent",)


def identity(walk: Walk, value: Any) -> Hashable:
    """The rule of values that cannot change."""
    return walk.identity(value)


def refuse(walk: Walk, value: Any) -> Hashable:
    """The rule of values that can change unseen."""
    raise NoKey(f"an object of class {type(value).__name__}, which can change unseen")


# ---- text and NumPy's values -------------------------------------------------------------------

_pack_float = struct.Struct("d").pack
_pack_complex = struct.Struct("dd").pack


def _string(walk: Walk, value: str) -> Hashable:
    if len(value) > MOST_BYTES:
        raise NoKey("a very long string")
    return ("str", str.__str__(value))


def _byte_string(walk: Walk, value: bytes | bytearray) -> Hashable:
    if len(value) > MOST_BYTES:
        raise NoKey("very many bytes")
    if isinstance(value, bytearray):
        walk.witness(value, len(walk.guards))
        return ("bytearray", bytes(value))
    return ("bytes", bytes(value))


def _context_variable(walk: Walk, value: contextvars.ContextVar[Any]) -> Hashable:
    try:
        now = value.get()  # its default where it was not set
    except LookupError:
        return (walk.identity(value), ABSENT)
    return (walk.identity(value), walk.part(now))


def _numpy_scalar(walk: Walk, value: np.generic) -> Hashable:
    walk.uses_numpy = True
    if value.dtype.hasobject or value.nbytes > MOST_BYTES:
        raise NoKey("a NumPy scalar whose content is not looked at")
    return ("scalar", value.dtype, value.tobytes())


def _numpy_array(walk: Walk, value: np.ndarray[Any, Any]) -> Hashable:
    walk.uses_numpy = True
    if value.dtype.hasobject:
        raise NoKey("a NumPy array of objects, which can change unseen")
    if value.nbytes > MOST_DIGESTED_BYTES:
        raise NoKey(
            f"a NumPy array of {value.nbytes >> 20} MiB, too large to look for changes in it each "
            "time (an array of weft's cannot change)"
        )
    if value.nbytes > MOST_BYTES:
        # By identity too, so that the trace, which has a copy, is dropped when the array dies.
        content = np.ascontiguousarray(value).view(np.uint8).data
        walk.digests.append(hashlib.sha256(content).digest())
        return ("large array", walk.identity(value), value.dtype, value.shape)
    walk.witness(value, len(walk.guards))
    return ("array", value.dtype, value.shape, np.ndarray.tobytes(value))


# ---- collections -------------------------------------------------------------------------------

_ITEM = "[{!r}]"


def _items(value: Any) -> Iterable[str]:
    """The names of the items of a sequence."""
    fields = getattr(type(value), "_fields", None)
    if isinstance(fields, tuple) and len(fields) == len(value):
        return [f".{name}" for name in fields]
    return [f"[{i}]" for i in range(len(value))]


def _changeable(tag: str, content: Rule) -> Rule:
    """The rule of a collection that can be changed in place and may contain itself."""

    def collection(walk: Walk, value: Any) -> Hashable:
        again = walk.again(value)
        if again is not None:
            return again
        guards = len(walk.guards)
        part = (tag, content(walk, value))
        walk.witness(value, guards)
        return part

    return collection


# ---- functions ---------------------------------------------------------------------------------

_MISSING: Any = object()
# Classes whose `+=` and append methods are known.
_COUNTERS = frozenset({int, float, list, set, dict, collections.deque, collections.Counter})
_BUILTIN = ("builtin",)
# Names of builtins that are listed as pure, as long as they mean what they meant.
_BUILTINS = known_pure.pure_builtins()
# The roles of values in messages: {0} is the name of the value, {1} that of its owner.
_CLOSED_OVER = "{0}, which {1} closes over,"
_DEFAULT = "{0}, a default of {1},"
_GLOBAL = "the global {0}"
_ATTRIBUTE = "{1}.{0}"


def _unlisted(walk: Walk, value: Any, module: Any) -> Hashable:
    """The rule of functions and classes that are not listed."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", value)
    where = f"{module}." if isinstance(module, str) and module != "builtins" else ""
    walk.meets_unknown(f"{where}{name}, which is not known to depend on its arguments alone")
    return walk.identity(value)


def _function(walk: Walk, value: types.FunctionType) -> Hashable:
    again = walk.again(value)
    if again is not None:
        return again
    pure = known_pure.is_pure_function(value)
    if pure:
        if known_pure.is_global_of_weft(value):
            return walk.identity(value)
    elif known_pure.is_unknown(value):
        return _unlisted(walk, value, value.__module__)
    reads = code_reads(value.__code__)
    closure = value.__closure__
    cells: Any = None
    if closure is not None:
        named = zip(closure, reads.free, strict=True)
        cells = tuple([_cell(walk, value, cell, name, reads) for cell, name in named])
    defaults, keywords, attributes = value.__defaults__, value.__kwdefaults__, value.__dict__
    more: Any = None
    if defaults or keywords or attributes or value.__name__ != reads.code.co_name:
        more = (
            value.__name__,
            walk.parts(defaults or (), _parameters, value, _DEFAULT),
            walk.pairs((keywords or {}).items(), "{}", _DEFAULT, value),
            walk.pairs(attributes.items(), "{}", _ATTRIBUTE, value),
        )
    if pure:
        return (reads, cells, more)
    if reads.opaque is not None:
        walk.meets_unknown(f"the attribute {reads.opaque}, which leads to anything")
    walk.shows |= reads.shows
    found = _globals(walk, value, reads) if reads.reads else ()
    for imported in reads.imports:
        _check_import(walk, imported, reads)
    return (reads, cells, more, found)


def _check_import(walk: Walk, module: str | None, reads: CodeReads) -> None:
    """Checks an import inside a function: of a module that is all pure, or of NumPy."""
    if known_pure.is_pure_module(module):
        return
    if module not in ("numpy", "numpy.fft", "numpy.linalg"):
        walk.meets_unknown(f"an import of {module or 'a neighbouring module'} inside the function")
    walk.uses_numpy = True
    unlisted = known_pure.unlisted_names(reads.names)
    if unlisted:
        walk.meets_unknown(f"numpy.{min(unlisted)}, imported inside the function")


def _parameters(function: types.FunctionType) -> Iterable[str]:
    """The names of the positional parameters that have defaults."""
    code = function.__code__
    names, given = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
    return names[len(names) - len(given) :]


def _cell(
    walk: Walk, function: types.FunctionType, cell: types.CellType, name: str, reads: CodeReads
) -> Any:
    try:
        content = cell.cell_contents
    except ValueError:  # not assigned yet
        return ABSENT
    assigned = name in reads.assigned
    if name in reads.counters and type(content) in _COUNTERS:
        return walk.counter(cell if assigned else content)
    if isinstance(content, types.ModuleType) and reads.free_reads[name]:
        found = reads.free_reads[name]
        return tuple([_read(walk, content, x, _CLOSED_OVER, function) for x in found])
    guards = len(walk.guards)
    part = walk.part(content, name, _CLOSED_OVER, function)
    if assigned:
        walk.witness(cell, guards)
    return part


def _globals(walk: Walk, function: types.FunctionType, reads: CodeReads) -> Hashable:
    names = function.__globals__
    defaults: Any = getattr(function, "__builtins__")  # noqa: B009 - mypy knows no such attribute
    if reads.assigns_globals:
        walk.witness(names, -1)
    parts: list[Any] = []
    for read in reads.reads:
        name = read[0]
        found, role = names.get(name, _MISSING), _GLOBAL
        if found is _MISSING:
            found, role = defaults.get(name, _MISSING), "the function"
            if found is _MISSING:
                parts.append(ABSENT)
                continue
            if found is _BUILTINS.get(name, _MISSING):
                parts.append(_BUILTIN)
                continue
        if name in reads.counters and type(found) in _COUNTERS:
            parts.append(walk.counter(names if type(found) in (int, float) else found))
        elif isinstance(found, types.ModuleType):
            parts.append(_read(walk, found, read, role, function))
        else:
            parts.append(walk.part(found, name, role, function))
    return tuple(parts)


def _read(walk: Walk, start: types.ModuleType, read: Read, role: str, function: Any) -> Hashable:
    """The part of `start.a.b`, or of the first object on that path that is not a module."""
    owner, value, taken = start, start, 0
    name, path, full = read
    for attribute in path:
        owner, value = value, value.__dict__.get(attribute, _MISSING)
        if value is _MISSING and known_pure.is_pure_module(owner.__name__):
            # weft loads some modules on first use, now as the function would: else that would
            # change the key.
            value = getattr(owner, attribute, _MISSING)
        taken += 1
        if not isinstance(value, types.ModuleType):
            break
    if taken < len(path):
        full = ".".join((name, *path[:taken]))
    if value is _MISSING:
        name = f"{owner.__name__}.{path[taken - 1]}"
        walk.meets_unknown(f"{name}, which is computed when it is asked for")
        return ABSENT
    if walk.named and (
        known_pure.is_unknown_module(owner.__name__) or known_pure.is_pure_module(owner.__name__)
    ):
        role = PURE
    return walk.part(value, full, role, function)


def _module(walk: Walk, value: types.ModuleType) -> Hashable:
    # Not used by reading its attributes alone: which parts are read cannot be known.
    if not known_pure.is_pure_module(value.__name__):
        walk.meets_unknown(f"the module {value.__name__} as a whole, of which any part may be read")
    return walk.identity(value)


def _bound_method(walk: Walk, value: types.MethodType) -> Hashable:
    role = "{0}, which the method reads,"
    return ("method", walk.part(value.__func__), walk.part(value.__self__, "self", role))


def _builtin_function(walk: Walk, value: Any) -> Hashable:
    """A function written in C, of a module, of NumPy, or bound to a value."""
    if known_pure.is_pure_function(value):
        return walk.identity(value)
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return _unlisted(walk, value, getattr(value, "__module__", None))
    return ("method", value.__name__, walk.part(owner))


def _numpy_function(walk: Walk, value: Any) -> Hashable:
    if not known_pure.is_pure_function(value):
        return _unlisted(walk, value, "numpy")
    walk.uses_numpy = True
    return walk.identity(value)


def _descriptor(walk: Walk, value: Any) -> Hashable:
    """A method or attribute that a class written in C has, as `str.join`."""
    return ("of class", value.__name__, _class(walk, value.__objclass__))


def _cached_property(walk: Walk, value: functools.cached_property[Any]) -> Hashable:
    return ("cached property", value.attrname, walk.part(value.func))


def _wrapped(walk: Walk, value: Any) -> Hashable:
    """A static method or a class method."""
    return (type(value).__name__, walk.part(value.__wrapped__))


def _operator(walk: Walk, value: Any) -> Hashable:
    """`operator.itemgetter` and its like, whose `__reduce__` has their arguments."""
    return ("operator", walk.parts(value.__reduce__()))


def _partial(walk: Walk, value: functools.partial[Any]) -> Hashable:
    again = walk.again(value)
    if again is not None:
        return again
    return (
        "partial",
        _class(walk, type(value)),
        walk.part(value.func, "the function", "{0} of the partial"),
        walk.parts(value.args, _positions, value, "{0} of the partial"),
        walk.pairs(value.keywords.items(), "{}", "{0}, which the partial binds,"),
        walk.pairs(value.__dict__.items(), ".{}"),
    )


def _positions(value: functools.partial[Any]) -> Iterable[str]:
    return [f"argument {i}" for i in range(len(value.args))]


# ---- classes and objects -----------------------------------------------------------------------

_HEAP_TYPE = 1 << 9  # of a class's `__flags__`: it was made while Python ran
_POINTER = struct.calcsize("P")
# Attributes of the members of an enum that say where they belong.
_OF_MEMBERS = frozenset(("__objclass__", "_sort_order_"))
# Names in the namespace of a class on which its methods do not depend.
_BOOKKEEPING = frozenset(
    """
    __abstractmethods__ __annotate__ __annotate_func__ __annotations__ __annotations_cache__
    __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __firstlineno__ __match_args__
    __module__ __orig_bases__ __parameters__ __protocol_attrs__ __qualname__ __slots__
    __static_attributes__ __type_params__ __weakref__ _abc_impl _field_defaults
    _generate_next_value_ _hashable_values_ _member_map_ _member_names_ _member_type_ _new_member_
    _unhashable_values_ _unhashable_values_map_ _use_args_ _value2member_map_ _value_repr_
    """.split()
)
_DESCRIPTORS = (classmethod, staticmethod, property)
# The descriptor class of the fields of named tuples: indices that belong to the class.
_FIELD = type(collections.namedtuple("_Pair", "first second").first)  # type: ignore[attr-defined]


def _class(walk: Walk, cls: type) -> Hashable:
    """A class by identity; one that is not listed also by its methods and attributes, inherited
    ones too."""
    if known_pure.is_pure_class(cls):
        return walk.identity(cls)
    if not cls.__flags__ & _HEAP_TYPE or known_pure.is_unknown_module(cls.__module__):
        return _unlisted(walk, cls, cls.__module__)
    again = walk.again(cls)
    if again is not None:
        return again
    meta = type(cls)
    parts: list[Any] = [walk.identity(cls), _class(walk, meta)]
    if issubclass(meta, abc.ABCMeta):
        # What is an instance also depends on the classes that were registered since.
        parts.append(abc.get_cache_token())
    for base in cls.__mro__:
        if not known_pure.is_pure_class(base):
            for name, value in list(base.__dict__.items()):
                if name not in _BOOKKEEPING:
                    parts.append(name)
                    parts.append(_class_attribute(walk, base, name, value))
    return tuple(parts)


def _class_attribute(walk: Walk, cls: type, name: str, value: Any) -> Hashable:
    kind = type(value)
    if kind is types.FunctionType:
        code = value.__code__
        # Methods that a decorator wrote, as for dataclasses.
        if code.co_filename == "<string>" and name[:2] == "__" and not code_reads(code).reads:
            return walk.identity(value)
    elif kind is cls and isinstance(value, enum.Enum):
        return _state(walk, value)
    elif kind is _FIELD:
        return ("slot",)
    elif hasattr(kind, "__get__") and not kind.__flags__ & _HEAP_TYPE and kind not in _DESCRIPTORS:
        return ("slot", kind)
    part: Hashable = walk.part(value, name, _ATTRIBUTE, cls)
    return part


def _member(walk: Walk, value: enum.Enum) -> Hashable:
    """A member of an enum. Its class has the attributes of all members."""
    again = walk.again(value)
    if again is not None:
        return again
    return ("enum", walk.identity(value), _state(walk, value), _class(walk, type(value)))


def _state(walk: Walk, value: Any) -> Hashable:
    """The attributes of an object, from its `__dict__` and its slots."""
    cls = type(value)
    parts: list[Any] = []
    if cls.__dictoffset__:
        attributes = object.__getattribute__(value, "__dict__").items()
        if isinstance(value, enum.Enum):
            attributes = [(k, x) for k, x in attributes if k not in _OF_MEMBERS]
        parts += walk.pairs(attributes, ".{}")
    for base in cls.__mro__:
        for slot in _slots(base):
            try:
                parts.append(walk.part(slot.__get__(value), f".{slot.__name__}"))
            except AttributeError:  # not assigned yet
                parts.append(ABSENT)
    return tuple(parts)


def _slots(cls: type) -> list[types.MemberDescriptorType]:
    if not cls.__dict__.get("__slots__"):
        return []
    return [x for x in list(cls.__dict__.values()) if isinstance(x, types.MemberDescriptorType)]


def _object(walk: Walk, value: Any) -> Hashable:
    """An object of a class written in Python, all of whose state can be seen."""
    again = walk.again(value)
    if again is not None:
        return again
    cls, guards = type(value), len(walk.guards)
    # An object that cannot be referred to weakly counts by its state alone; one without state is a
    # mark, and it is held, since it keeps nothing else alive.
    mark = not cls.__dictoffset__ and not any(map(_slots, cls.__mro__))
    compared = getattr(cls, "__eq__", None) is not object.__eq__  # by content, as dataclasses are
    identified = (cls.__weakrefoffset__ or mark) and not compared
    part = (
        "object",
        walk.identity(value) if identified else None,
        _state(walk, value),
        _class(walk, cls),
    )
    if not identified:
        walk.witness(value, guards)
    return part


def _derived(content: Rule) -> Rule:
    """The rule of a class derived from a builtin one: content, class and attributes."""

    def rule(walk: Walk, value: Any) -> Hashable:
        return (content(walk, value), _state(walk, value), _class(walk, type(value)))

    return rule


def _namespace(walk: Walk, value: types.SimpleNamespace) -> Hashable:
    again = walk.again(value)
    if again is not None:
        return again
    guards = len(walk.guards)
    part = ("namespace", _state(walk, value))
    walk.witness(value, guards)
    return part


def _by_value(walk: Walk, value: Any) -> Hashable:
    """An object by its own equality."""
    try:
        hash(value)
    except (TypeError, ValueError):
        raise NoKey(f"an object of class {type(value).__name__} without a hash") from None
    return ("value", _class(walk, type(value)), value)


# ---- which rule is for which class -------------------------------------------------------------

_EXACT: dict[type, Rule] = {
    bool: lambda walk, value: ("bool", value),
    slice: lambda walk, value: ("slice", walk.parts((value.start, value.stop, value.step))),
    range: lambda walk, value: ("range", value.start, value.stop, value.step),
    memoryview: refuse,
    types.MappingProxyType: lambda walk, value: ("proxy", walk.pairs(value.items())),
    contextvars.ContextVar: _context_variable,
    types.FunctionType: _function,
    types.MethodType: _bound_method,
    types.BuiltinFunctionType: _builtin_function,
    types.MethodWrapperType: _builtin_function,
    types.CodeType: lambda walk, value: ("code", code_reads(value)),
    type(np.sum): _numpy_function,
    np.ufunc: _numpy_function,
    operator.itemgetter: _operator,
    operator.attrgetter: _operator,
    operator.methodcaller: _operator,
    functools.cached_property: _cached_property,
    re.Pattern: _by_value,
    types.GenericAlias: _by_value,
    types.UnionType: _by_value,
    types.SimpleNamespace: _namespace,
    type(NotImplemented): identity,
    types.WrapperDescriptorType: _descriptor,
    types.MethodDescriptorType: _descriptor,
    types.ClassMethodDescriptorType: _descriptor,
    types.GetSetDescriptorType: _descriptor,
    types.MemberDescriptorType: _descriptor,
}

# Also for classes derived from these; the first that fits decides. Collections are read with the
# methods of the builtin class, which a derived class may override.
_CONTENT: dict[type, Rule] = {
    np.generic: _numpy_scalar,
    np.ndarray: _numpy_array,
    int: lambda walk, value: ("int", int.__index__(value)),
    # The bits: zeros of either sign differ, and NaN is like itself.
    float: lambda walk, value: ("float", _pack_float(value)),
    complex: lambda walk, value: ("complex", _pack_complex(value.real, value.imag)),
    str: _string,
    bytes: _byte_string,
    bytearray: _byte_string,
    tuple: lambda walk, x: ("tuple", walk.parts(list(tuple.__iter__(x)), _items, x)),
    list: _changeable("list", lambda walk, x: walk.parts(list(list.__iter__(x)), _items, x)),
    collections.OrderedDict: _changeable(
        "ordered", lambda walk, x: walk.pairs(collections.OrderedDict.items(x), _ITEM)
    ),
    collections.defaultdict: _changeable(
        "defaults", lambda walk, x: (walk.part(x.default_factory), walk.pairs(dict.items(x), _ITEM))
    ),
    dict: _changeable("dict", lambda walk, x: walk.pairs(dict.items(x), _ITEM)),
    # In their order, in which equal sets may differ.
    set: _changeable("set", lambda walk, x: walk.parts(list(set.__iter__(x)))),
    frozenset: lambda walk, x: ("frozenset", walk.parts(list(frozenset.__iter__(x)))),
    collections.deque: _changeable(
        "deque",
        lambda walk, x: (x.maxlen, walk.parts(list(collections.deque.__iter__(x)), _items, x)),
    ),
}
_OTHERS: dict[type, Rule] = {
    types.ModuleType: _module,
    type: _class,
    property: lambda walk, value: ("property", walk.parts((value.fget, value.fset, value.fdel))),
    staticmethod: _wrapped,
    classmethod: _wrapped,
    functools.partial: _partial,
    weakref.ref: lambda walk, value: ("reference", walk.part(value())),
    np.dtype: lambda walk, value: ("dtype", value),
}


def rule_of(cls: type) -> Rule:
    """The rule of a class without a registered one: this alone decides which values have keys."""
    for exact, rule in _EXACT.items():  # By `is`: a metaclass may define `==`.
        if cls is exact:
            return rule
    if issubclass(cls, enum.Enum):
        return _member
    of_weft = str(cls.__module__).partition(".")[0] == "weft"
    if of_weft and _compares_values(cls):
        return _by_value
    for base, rule in _CONTENT.items():
        if issubclass(cls, base):
            # NumPy's scalar classes share a rule: their dtype tells them apart.
            told = cls is base or (base is np.generic and cls.__module__ in ("numpy", "ml_dtypes"))
            return rule if told else _derived(rule)
    for base, rule in _OTHERS.items():
        if issubclass(cls, base):
            return rule
    if of_weft:
        return identity
    # Where state is hidden in C, all that has a key is in the tables above.
    return refuse if _hides_state(cls) else _object


def _compares_values(cls: type) -> bool:
    """Whether a class defines when its objects are equal, with a hash."""
    hashed, equal = getattr(cls, "__hash__", None), getattr(cls, "__eq__", None)
    return hashed not in (None, object.__hash__) and equal is not object.__eq__


def _hides_state(cls: type) -> bool:
    """Whether objects of a class are larger than what Python sees of them: their slots, `__dict__`
    and weak references: the rest is state in C."""
    seen = (cls.__dictoffset__ > 0) + (cls.__weakrefoffset__ > 0)
    seen += sum(len(_slots(base)) for base in cls.__mro__)
    return bool(cls.__itemsize__) or cls.__basicsize__ > object.__basicsize__ + seen * _POINTER
