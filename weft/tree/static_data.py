"""Keys of structures, by class and bits of their static data; and errors that name a static field.

jaxlib compares static data by Python's equality, to which 0.0 and -0.0, and 1, 1.0 and True are
equal. A program that is looked up by a structure is looked up by `exact_structure`.

That two arrays are equal has no truth value, and some things have no hash: jaxlib only says that
something cannot be compared. The structure itself is found among the variables of the functions
that failed, so that no caller has to look out for this.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from weft import config
from weft.base.exact_keys import exact_key, is_number
from weft.base.program_caches import BoundedCache
from weft.errors import Fix, TreeError, explanations
from weft.runtime import pytree
from weft.tree.nodes import static_names

_ABOUT_STATIC_DATA = (
    "Exception raised while checking equality", "Exception raised while hashing", "unhashable type",
)  # fmt: skip

# Their data is their keys, in a list.
_BUILTIN = frozenset({dict, list, tuple, type(None), OrderedDict, defaultdict})


# A structure -> the first one equal to it, and the nodes whose data hold numbers.
_known = BoundedCache()


def exact_structure(treedef: Any) -> Any:
    """A key of a structure: structures with equal keys have static data of equal classes and bits.

    Safety: what has equal keys is equal to jaxlib, and the data of each node that may hold numbers
    have equal `exact_key`s. Nodes without numbers are the same in all structures that are equal to
    jaxlib: what is equal to a number is a number, or of a class that defines equality itself.

    Raises TreeError for static data that cannot be compared, such as an array.
    """
    try:
        same, places = _known[treedef]
    except (KeyError, ValueError):
        return _new_key(treedef)
    if not places:
        return same
    nodes = treedef.__getstate__()[1]
    return same, *[_data_key(nodes[i][2]) for i in places]


def _new_key(treedef: Any) -> Any:
    """The key of a structure that is equal to none that came before."""
    nodes = treedef.__getstate__()[1]
    for _, _, data, cls, *_ in nodes:
        if cls is None or all(_is_comparable(value, False) for _, value in _parts(cls, data)):
            continue
        if config.lenient():  # As in JAX, a first call with an array works.
            return object()
        raise next(_refusals(cls, data, hashed=False))
    if any(any(map(_compares_badly, _values_in(node[2]))) for node in nodes):
        return tuple([(kind, arity, cls, _data_key(data)) for kind, arity, data, cls, *_ in nodes])
    places = [i for i, node in enumerate(nodes) if any(map(is_number, _values_in(node[2])))]
    _known[treedef] = treedef, places
    return exact_structure(treedef)


def _data_key(value: Any) -> Any:
    """`exact_key` of static data, which may hold lists and other things without a hash."""
    cls = type(value)
    if cls is list or cls is tuple:
        return cls, *map(_data_key, value)
    if cls is dict:
        return cls, *[(_data_key(key), _data_key(x)) for key, x in value.items()]
    key = exact_key(value)
    try:
        hash(key)
    except TypeError:
        return _ByEquality(value)
    return key


def _values_in(data: Any) -> Iterator[Any]:
    """The values in static data, out of the containers of Python that hold them."""
    if isinstance(data, (list, tuple, set, frozenset, dict)):
        parts = [*data, *data.values()] if isinstance(data, dict) else data
        for part in parts:
            yield from _values_in(part)
    else:
        yield data


def _compares_badly(value: Any) -> bool:
    """Whether a value is NaN, which is not equal to itself, or a NumPy scalar, which has no truth
    value of equality with a list."""
    return isinstance(value, np.generic) or (isinstance(value, (float, complex)) and value != value)


class _ByEquality:
    """A value without a hash in a key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _ByEquality and bool(self.value == other.value)

    def __hash__(self) -> int:
        return 0


# ---- errors --------------------------------------------------------------------------------------


def _explain(error: BaseException) -> None:
    """Names class and field in the text of an error about static data."""
    if not isinstance(error, (ValueError, TypeError)):
        return
    if not str(error).startswith(_ABOUT_STATIC_DATA):
        return
    hashed = "hash" in str(error).partition(".")[0]
    for treedef in _structures(error.__traceback__):
        for cls, data in _nodes(treedef):
            for refusal in _refusals(cls, data, hashed):
                error.args = (str(refusal),)
                return


def _parts(cls: type, data: Any) -> list[tuple[str, Any]]:
    """The static data of a node, by the names of its fields if it has such."""
    if cls in _BUILTIN or pytree.is_namedtuple(cls):
        return []
    names = static_names(cls)
    if names is None:
        return [("its data", data)]
    return [(f"the field {name!r}", value) for name, value in zip(names, data, strict=False)]


def _refusals(cls: type, data: Any, hashed: bool) -> Iterator[TreeError]:
    """An error for each part of the data of a node that cannot be compared."""
    for name, value in _parts(cls, data):
        if not _is_comparable(value, hashed):
            yield _refusal(cls, name, value)


def _structures(traceback: TracebackType | None) -> Iterator[Any]:
    while traceback is not None:
        for value in tuple(traceback.tb_frame.f_locals.values()):
            for item in value if type(value) in (tuple, list) else (value,):
                if isinstance(item, pytree.PyTreeDef):
                    yield item
        traceback = traceback.tb_next


def _nodes(treedef: Any) -> Iterator[tuple[type, Any]]:
    node = treedef.node_data()
    if node is not None:
        yield node
    for child in treedef.children():
        yield from _nodes(child)


def _is_comparable(value: Any, hashed: bool) -> bool:
    if isinstance(value, (float, complex, np.generic)):  # also NaN
        return True
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return False
    if isinstance(value, (tuple, list, dict)):  # these find the same object equal unseen
        parts = value.values() if isinstance(value, dict) else value
        return (not hashed or isinstance(value, tuple)) and all(
            _is_comparable(part, hashed) for part in parts
        )
    try:
        if hashed:
            hash(value)
        return bool(value == value)  # an array in a tuple raises
    except Exception:  # noqa: BLE001  # the class is the user's
        return False


def _refusal(cls: type, name: str, value: Any) -> TreeError:
    array = hasattr(value, "dtype") and hasattr(value, "shape")
    what = f"an array of shape {value.shape}" if array else f"{value!r:.80}"
    message = f"{name} of the class {cls.__qualname__} is static, and {what} cannot be compared"
    wanted = "static data that is hashable, and equal or not as a whole"
    advice = "make it a field with data (data_fields, without static=True)"
    if not array:
        advice += ", or use a tuple"
    fix = Fix("data", advice, {"class": cls.__qualname__})
    got = f"{type(value).__name__}"
    return TreeError(message, operation="tree.structure", got=got, wanted=wanted, fix=fix)


explanations.append(_explain)
