"""Says which static field cannot be compared, where jaxlib only says that one cannot.

Structures of trees are compared wherever a program is looked up, and jaxlib compares what they
hold. That two arrays are equal has no truth value, and some things have no hash. The structure
itself is found among the variables of the functions that failed, so that no caller has to look out
for this.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from weft.errors import Fix, TreeError, explanations
from weft.runtime import pytree
from weft.tree.nodes import static_names

__all__: list[str] = []

_ABOUT_STATIC_DATA = (
    "Exception raised while checking equality", "Exception raised while hashing", "unhashable type",
)  # fmt: skip

# Their data is their keys, in a list.
_BUILTIN = frozenset({dict, list, tuple, type(None), OrderedDict, defaultdict})


def _explain(error: BaseException) -> None:
    """Names class and field in the text of an error about static data."""
    if not isinstance(error, (ValueError, TypeError)):
        return
    if not str(error).startswith(_ABOUT_STATIC_DATA):
        return
    hashed = "hash" in str(error).partition(".")[0]
    for treedef in _structures(error.__traceback__):
        for cls, data in _nodes(treedef):
            if cls in _BUILTIN or pytree.is_namedtuple(cls):
                continue
            names = static_names(cls)
            parts = [("its data", data)] if names is None else _named(names, data)
            for name, value in parts:
                if not _is_comparable(value, hashed):
                    error.args = (_text(cls, name, value),)
                    return


def _named(names: tuple[str, ...], data: Any) -> list[tuple[str, Any]]:
    return [(f"the field {name!r}", value) for name, value in zip(names, data, strict=False)]


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


def _text(cls: type, name: str, value: Any) -> str:
    array = hasattr(value, "dtype") and hasattr(value, "shape")
    what = f"an array of shape {value.shape}" if array else f"{value!r:.80}"
    message = f"{name} of the class {cls.__qualname__} is static, and {what} cannot be compared"
    wanted = "static data that is hashable, and equal or not as a whole"
    advice = "make it a field with data (data_fields, without static=True)"
    if not array:
        advice += ", or use a tuple"
    fix = Fix("data", advice, {"class": cls.__qualname__})
    got = f"{type(value).__name__}"
    return str(TreeError(message, operation="tree.structure", got=got, wanted=wanted, fix=fix))


explanations.append(_explain)
