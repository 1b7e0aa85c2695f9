"""The primitives that weft is made of, by name."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from weft.core.primitive import Primitive
from weft.define.for_jax.composed_primitives import COMPOSED

# JAX's names of primitives that weft names otherwise; for these see `__getattr__`.
_NAMED_OTHERWISE = {
    "add_any_p": "add_tangents",
    "add_jaxvals_p": "add_tangents",
    "custom_jvp_call_p": "custom_jvp",
    "custom_lin_p": "custom_vjp_tangents",
    "custom_vjp_call_p": "custom_vjp",
    "pjit_p": "jit",
    "pvary_p": "pbroadcast",
    "reduce_scatter_p": "psum_scatter",
    "remat_p": "checkpoint",
}

# JAX's primitives of which weft has none, and which no function applies (for the others see
# weft/define/for_jax/composed_primitives.py). They can be compared with, and rules can be set for
# them; applied they raise MissingRuleError.
_NEVER_APPLIED = frozenset(
    "after_all_p call_p closed_call_p core_call_p create_token_p empty2_p eq_to_p infeed_p le_to_p "
    "lt_to_p outfeed_p ragged_all_to_all_p select_and_scatter_p stack_p stage_p unstack_p".split()
)

# The modules and packages that make primitives. They are imported at the first look-up by name:
# some are otherwise not imported before an operation of theirs is used.
_HOMES = (
    "weft.api.composite",
    "weft.api.linear_functions",
    "weft.callbacks.primitives",
    "weft.control_flow",
    "weft.custom_batching",
    "weft.custom_derivatives",
    "weft.debug.array_shardings",
    "weft.dispatch.debug_nans",
    "weft.experimental.checkify",
    "weft.experimental.scheduling_groups",
    "weft.experimental.sparse",
    "weft.export.call_exported",
    "weft.ffi.call",
    "weft.interpreters.repeated_bodies",
    "weft.nn.ragged_products",
    "weft.ops",
    "weft.random",
    "weft.refs",
    "weft.scipy.special",
    "weft.scipy.stats",
    "weft.spmd",
)


def _all_primitives() -> dict[str, Primitive]:
    """Every primitive that a module of weft names."""
    for home in _HOMES:
        inside = getattr(importlib.import_module(home), "__path__", ())
        for found in pkgutil.walk_packages(inside, f"{home}."):
            importlib.import_module(found.name)
    # Found in modules, not where primitives are made, since that makes those from outside too.
    made = {
        value.name: value
        for name, module in sorted(sys.modules.items())
        if name.startswith(_HOMES)
        for value in vars(module).values()
        if isinstance(value, Primitive)
    }
    return dict(sorted(made.items()))


_never_applied: dict[str, Primitive] = {}


class BuiltinPrimitives(Mapping[str, Primitive]):
    """The primitives of weft: a read-only mapping from names to them, in the order of names.

    `primitives["sin"]` and `primitives.sin_p` are the same; the names are those that jaxprs show.
    An unknown name raises KeyError (as an attribute AttributeError) with those spelled alike.

    >>> from weft.extend.core import primitives
    >>> primitives["sin"] is primitives.sin_p
    True
    >>> weft.make_jaxpr(lambda x: lax.sin(x))(1.0).eqns[0].primitive is primitives.sin_p
    True
    """

    __slots__ = ("_by_name",)

    _by_name: dict[str, Primitive]

    def __getitem__(self, name: str) -> Primitive:
        try:
            return self._by_name[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "_by_name":
            self._by_name = _all_primitives()
            return self._by_name
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        name = attribute.removesuffix("_p")
        if name == attribute or name not in self._by_name:
            raise AttributeError(self._unknown(name))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(f"{name}_p" for name in self._by_name)})

    def __repr__(self) -> str:
        return f"<the {len(self)} primitives of weft>"

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._by_name, 3)
        alike = f"; there are {', '.join(close)}" if close else ""
        return f"weft has no primitive named {name!r}{alike}"


primitives = BuiltinPrimitives()


def __getattr__(name: str) -> Any:
    """A primitive by JAX's name of it, `sin_p` or `remat_p`.

    Those that weft does by other primitives are there too; no jaxpr ever holds one.

    >>> from weft.define import builtin_primitives
    >>> builtin_primitives.remat_p, builtin_primitives.squeeze_p
    (checkpoint, squeeze)
    """
    if not name.endswith("_p"):
        raise AttributeError(f"module 'weft.define.builtin_primitives' has no attribute {name!r}")
    own = _NAMED_OTHERWISE.get(name, name[:-2])
    if own in primitives:
        return primitives[own]
    if name in COMPOSED:
        return COMPOSED[name]
    if name not in _NEVER_APPLIED:
        raise AttributeError(primitives._unknown(own))
    if name not in _never_applied:
        several = name in ("call_p", "closed_call_p", "core_call_p")
        _never_applied[name] = Primitive(own, multiple_results=several)
    return _never_applied[name]
