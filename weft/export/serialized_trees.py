"""The structure of arguments and results as data, and the classes that may occur in it.

Containers of Python itself are written as they are. A user's class is written under a name that is
registered on both sides, with its data as bytes.
"""

from __future__ import annotations

import base64
import binascii
import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from weft import tree
from weft.errors import Fix, TreeError, WeftError, WeftTypeError, WeftValueError, api_boundary
from weft.errors.argument_errors import invalid_type
from weft.export.container import Fields, invalid_bytes_error
from weft.runtime import pytree


@dataclasses.dataclass(frozen=True)
class Registered:
    """The name and the data under which a class is written; no functions for named tuples."""

    cls: type
    name: str
    write: Callable[[Any], bytes] | None
    read: Callable[[bytes], Any] | None


_by_class: dict[type, Registered] = {}
_by_name: dict[str, Registered] = {}

# The default factories of a defaultdict by name: no other function can be written down.
_FACTORIES: dict[str, Any] = {
    "none": None,
    **{kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)},
}


@api_boundary("export.register_pytree_node_serialization")
def register_pytree_node_serialization(
    nodetype: type,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
) -> None:
    """Lets a registered container class occur in the arguments and results of exported functions.

    Call it both where a function is exported and where it is read, with one `serialized_name`: an
    exported function holds that name, never the class. `serialize_auxdata` makes bytes of the data
    of a container (the second result of its flatten function; the values of the static fields, as a
    tuple, of a dataclass), and `deserialize_auxdata` makes the data of those bytes.

    nodetype: the class whose values may then occur; serialized_name: the name by which exported
    functions mean the class.

    Raises WeftTypeError for a class that is not a container and for anything that is not a
    function, and WeftValueError if the class or the name is registered already.

    >>> import dataclasses
    >>> from weft import export, tree
    >>> @tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Dense:
    ...     weight: object
    ...     name: str = tree.static(default="dense")
    >>> export.register_pytree_node_serialization(
    ...     Dense,
    ...     serialized_name="docs.Dense",
    ...     serialize_auxdata=lambda data: data[0].encode(),
    ...     deserialize_auxdata=lambda data: (data.decode(),),
    ... )
    """
    operation = "export.register_pytree_node_serialization"
    for function in (serialize_auxdata, deserialize_auxdata):
        if not callable(function):
            message = "the data of a class is written and read by functions"
            got = f"{function!r:.100}"
            wanted = "functions from data to bytes, and back"
            raise WeftTypeError(message, got=got, wanted=wanted)
    if isinstance(nodetype, type) and pytree.is_namedtuple(nodetype):
        message = f"{nodetype.__qualname__} is a class of named tuples, which have no data"
        got = nodetype.__qualname__
        wanted = "another container"
        fix = Fix(
            "namedtuple",
            f"use export.register_namedtuple_serialization({nodetype.__name__}, "
            f"serialized_name={serialized_name!r})",
            {"serialized_name": serialized_name},
        )
        raise WeftTypeError(message, got=got, wanted=wanted, fix=fix)
    _register(operation, nodetype, serialized_name, serialize_auxdata, deserialize_auxdata)


@api_boundary("export.register_namedtuple_serialization")
def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> None:
    """Lets a class of named tuples occur in the arguments and results of exported functions.

    Call it both where a function is exported and where it is read, with one `serialized_name`.
    Raises WeftTypeError for another class and WeftValueError where class or name are registered
    already.

    nodetype: the class whose values may then occur; serialized_name: the name by which exported
    functions mean the class.

    >>> import collections
    >>> from weft import export
    >>> Point = collections.namedtuple("Point", "x y")
    >>> export.register_namedtuple_serialization(Point, serialized_name="docs.Point")
    """
    operation = "export.register_namedtuple_serialization"
    if not (isinstance(nodetype, type) and pytree.is_namedtuple(nodetype)):
        message = "this is no class of named tuples"
        wanted = "a class made by collections.namedtuple or typing.NamedTuple"
        raise WeftTypeError(message, got=f"{nodetype!r:.100}", wanted=wanted)
    _register(operation, nodetype, serialized_name, None, None)


def _register(
    operation: str,
    cls: Any,
    name: Any,
    write: Callable[[Any], bytes] | None,
    read: Callable[[bytes], Any] | None,
) -> None:
    if not isinstance(cls, type) or not pytree.is_node(cls) or cls in _BUILT_IN:
        message = "only container classes of a program's own are registered"
        wanted = (
            "a class that weft.tree knows as a container, by tree.register_dataclass or "
            "tree.register_node"
        )
        raise WeftTypeError(message, got=f"{cls!r:.100}", wanted=wanted)
    if type(name) is not str or not name:
        message = "a class is written under a name"
        wanted = "a string that is not empty"
        raise invalid_type(message, operation, "serialized_name", name, wanted)
    known = _by_class.get(cls) or _by_name.get(name)
    if known is not None:
        message = f"{known.cls.__qualname__} is registered under the name {known.name!r} already"
        got = f"{cls.__qualname__} and {name!r}"
        wanted = "one name for each class"
        fix = Fix("remove", "register the class once, under a name of its own", {"name": name})
        raise WeftValueError(message, got=got, wanted=wanted, fix=fix)
    _by_class[cls] = _by_name[name] = Registered(cls, name, write, read)


_BUILT_IN = (tuple, list, dict, type(None), collections.OrderedDict, collections.defaultdict)
_PLAIN = {"tuple": tuple, "list": list}
_MAPPINGS = {"dict": dict, "ordered_dict": collections.OrderedDict}
_KINDS = {cls: kind for kind, cls in (*_PLAIN.items(), *_MAPPINGS.items())}


def tree_to_data(structure: Any, what: str) -> Any:
    """A structure as data. Raises TreeError for a class or a key that cannot be written; `what`
    says whose structure it is."""
    node = structure.node_data()
    if node is None:
        return {"kind": "leaf"}
    cls, data = node
    if cls is type(None):
        return {"kind": "none"}
    children = [tree_to_data(child, what) for child in structure.children()]
    kind = _KINDS.get(cls)
    if kind in _PLAIN:
        return {"kind": kind, "children": children}
    if kind in _MAPPINGS:
        return {"kind": kind, "keys": _keys(data, what), "children": children}
    if cls is collections.defaultdict:
        factory, keys = data
        found = [name for name, known in _FACTORIES.items() if known is factory]
        if not found:
            raise _unwritable(
                what, f"a defaultdict made with {factory!r:.100}", "a dict, or a defaultdict of "
                + ", ".join(_FACTORIES), Fix("dict", "pass a dict"),
            )  # fmt: skip
        return {
            "kind": "defaultdict",
            "factory": found[0],
            "keys": _keys(keys, what),
            "children": children,
        }
    return _class_to_data(cls, data, children, what)


def _class_to_data(cls: type, data: Any, children: list[Any], what: str) -> Any:
    known = _by_class.get(cls)
    if known is None:
        named = pytree.is_namedtuple(cls)
        call = (
            "register_namedtuple_serialization" if named else "register_pytree_node_serialization"
        )
        more = "" if named else ", serialize_auxdata=..., deserialize_auxdata=..."
        raise _unwritable(
            what,
            f"the class {cls.__module__}.{cls.__qualname__}",
            "containers of Python itself, and classes that have been given a name",
            Fix(
                "register",
                f"call weft.export.{call}({cls.__name__}, serialized_name={cls.__qualname__!r}"
                f"{more}) here and where the program is read",
                {"class": cls, "call": call, "serialized_name": cls.__qualname__},
            ),
        )
    if known.write is None:
        return {"kind": "namedtuple", "name": known.name, "children": children}
    written = known.write(data)
    if not isinstance(written, (bytes, bytearray)):
        message = f"the serialize_auxdata of {cls.__qualname__} returned no bytes"
        got = f"{written!r:.100} of class {type(written).__name__}"
        raise WeftTypeError(message, operation="export", got=got, wanted="bytes")
    text = base64.b64encode(written).decode()
    return {"kind": "class", "name": known.name, "data": text, "children": children}


def _keys(keys: Sequence[Any], what: str) -> list[Any]:
    return [key_to_data(key, what) for key in keys]


def key_to_data(key: Any, what: str, operation: str = "export") -> Any:
    """A key of a dict: a pair of its kind and its value, since 1, 1.0, True and "1" differ."""
    for kind, cls in (("text", str), ("boolean", bool), ("integer", int)):
        if type(key) is cls:
            return [kind, str(key) if kind == "integer" else key]
    if type(key) is float:
        return ["float", key.hex()]
    if key is None:
        return ["none", None]
    if type(key) is tuple:
        return ["tuple", [key_to_data(part, what, operation) for part in key]]
    raise _unwritable(
        what,
        f"a dict with the key {key!r:.100} of class {type(key).__name__}",
        "keys that are strings, numbers, booleans, None, or tuples of those",
        Fix("key", "use a string as the key", {"key": key}),
    )


def _unwritable(what: str, got: str, wanted: str, fix: Fix) -> TreeError:
    return TreeError(f"{what} cannot be written down", got=got, wanted=wanted, fix=fix)


def tree_from_data(value: Any, what: str) -> Any:
    """The structure that was written. Raises WeftValueError for ill-formed data, and for a class
    whose name is not registered here."""
    fields = Fields(value, what)
    kind = fields.text("kind")
    if kind == "leaf":
        fields.end()
        return tree.structure(0)
    if kind == "none":
        fields.end()
        return tree.structure(None)
    children = [tree_from_data(child, what) for child in fields.array("children")]
    node: tuple[type, Any]
    if kind in _PLAIN:
        node = (_PLAIN[kind], None)
    elif kind in _MAPPINGS:
        keys = _keys_from_data(fields, children)
        if kind == "dict" and keys != _sorted_keys(keys):
            # A dictionary is flattened in the order of its keys: no tree has this structure.
            message, got = f"{what} has a dict in another order than its keys", f"{keys!r:.100}"
            raise invalid_bytes_error(message, got, "sorted keys")
        node = (_MAPPINGS[kind], keys if kind == "dict" else tuple(keys))
    elif kind == "defaultdict":
        factory = fields.text("factory")
        if factory not in _FACTORIES:
            raise invalid_bytes_error(
                f"{what} has an unknown factory", repr(factory), ", ".join(_FACTORIES)
            )
        node = (
            collections.defaultdict,
            (_FACTORIES[factory], tuple(_keys_from_data(fields, children))),
        )
    elif kind in ("namedtuple", "class"):
        node = _class_from_data(kind, fields, len(children), what)
    else:
        raise invalid_bytes_error(
            f"{what} has a node of an unknown kind", repr(kind), "a known container"
        )
    fields.end()
    return pytree.make_treedef(node, children)


def _sorted_keys(keys: list[Any]) -> list[Any] | None:
    """The keys of a dictionary in the order in which it is flattened; None if they have none."""
    try:
        node = tree.structure(dict.fromkeys(keys, 0)).node_data()
    except (TypeError, ValueError):
        return None
    return None if node is None else [*node[1]]


def _class_from_data(kind: str, fields: Fields, count: int, what: str) -> tuple[type, Any]:
    name = fields.text("name")
    known = _by_name.get(name)
    if known is None or (known.read is None) != (kind == "namedtuple"):
        call = f"register_{'namedtuple' if kind == 'namedtuple' else 'pytree_node'}_serialization"
        raise invalid_bytes_error(
            f"{what} has a container named {name!r}, and no class is registered under that name",
            f"the {kind} {name!r}",
            ", ".join(sorted(map(repr, _by_name))) or "no containers but those of Python itself",
            Fix(
                "register",
                f"call weft.export.{call}(its class, serialized_name={name!r}, ...) first",
                {"call": call, "serialized_name": name},
            ),
        )
    if known.read is None:
        wanted = len(known.cls._fields)  # type: ignore[attr-defined]
        if count != wanted:
            raise invalid_bytes_error(
                f"{what}: {known.cls.__qualname__} has another number of fields here than there",
                f"{count} fields", f"{wanted} fields",
            )  # fmt: skip
        return known.cls, None
    try:
        return known.cls, known.read(base64.b64decode(fields.text("data"), validate=True))
    except binascii.Error:
        raise invalid_bytes_error(
            f"{what} is ill-formed", "data that is no base64", "base64"
        ) from None
    except WeftError:
        raise
    except Exception as error:
        message = f"the deserialize_auxdata of {known.cls.__qualname__} does not take the data"
        raise invalid_bytes_error(
            message, f"{type(error).__name__}: {error}", "data as its serialize_auxdata writes it"
        ) from error


def _keys_from_data(fields: Fields, children: Sequence[Any]) -> list[Any]:
    keys = [key_from_data(key, fields.what) for key in fields.array("keys")]
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise invalid_bytes_error(
            f"{fields.what} is ill-formed", f"keys {keys!r:.100}", "one for each child"
        )
    return keys


def key_from_data(value: Any, what: str) -> Any:
    """The key that was written. Raises WeftValueError for ill-formed data."""
    match value:
        case ["text", str(key)] | ["boolean", bool(key)] | ["none", None as key]:
            return key
        case ["integer", str(key)] if key.removeprefix("-").isdecimal() and len(key) < 4000:
            return int(key)
        case ["float", str(key)]:
            try:
                return float.fromhex(key)
            except ValueError:
                pass
        case ["tuple", list(keys)]:
            return tuple(key_from_data(key, what) for key in keys)
    raise invalid_bytes_error(f"{what} is ill-formed", f"the key {value!r:.100}", "a key of a dict")
