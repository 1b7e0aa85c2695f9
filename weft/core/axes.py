"""Named axes: which axis names are bound here, and how long each is.

`vmap(axis_name=…)` and `shard_map` bind names; collectives read them. The environment is a context
variable, and an immutable tuple, so that it can be part of a cache key.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from weft.core.jaxpr import Jaxpr, jaxprs_in
from weft.core.primitive import Primitive
from weft.errors import Fix, UnboundAxisError

__all__ = ["axis_environment", "axis_length", "extend_axis", "names_axis"]

_environment: contextvars.ContextVar[tuple[tuple[Any, int], ...]] = contextvars.ContextVar(
    "weft_axes", default=()
)


def axis_environment() -> tuple[tuple[Any, int], ...]:
    """The bound axes, outermost first, as (name, size)."""
    return _environment.get()


@contextlib.contextmanager
def extend_axis(name: Any, size: int) -> Iterator[None]:
    """Binds one more axis name within a `with` block (None binds nothing)."""
    if name is None:
        yield
        return
    token = _environment.set((*_environment.get(), (name, size)))
    try:
        yield
    finally:
        _environment.reset(token)


def axis_length(name: Any) -> int:
    """The length of a bound axis. Raises UnboundAxisError for a name that is not bound."""
    size: int
    for bound, size in reversed(_environment.get()):
        if bound == name:
            return size
    names = ", ".join(repr(bound) for bound, _ in _environment.get()) or "none"
    raise UnboundAxisError(
        f"the axis name {name!r} is not bound here",
        got=repr(name),
        wanted=f"one of the bound axis names ({names})",
        fix=Fix(
            "bind_axis",
            f"call the function under weft.vmap(..., axis_name={name!r})",
            {"axis_name": name},
        ),
    )


def names_axis(primitive: Primitive, params: dict[str, Any], name: Any) -> bool:
    """Whether an application refers to the axis `name`, itself or in a program it holds."""
    if name is None or not params:
        return False
    named = params.get("axis_name", ())
    if name in (named if isinstance(named, tuple) else (named,)):
        return True
    if primitive.memoise:
        return False
    if "function" in params:
        return True  # What a Python function refers to is not known before it runs.
    return any(_program_names_axis(jaxpr, name) for jaxpr in jaxprs_in(params))


def _program_names_axis(jaxpr: Jaxpr, name: Any) -> bool:
    found: bool = jaxpr.derived(
        ("names_axis", name),
        lambda: any(names_axis(eqn.primitive, eqn.params, name) for eqn in jaxpr.eqns),
    )
    return found
