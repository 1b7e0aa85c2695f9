"""Checks that an export holds nothing that only this process, or this release, knows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from weft.core.jaxpr import Equation, Jaxpr, jaxprs_in
from weft.errors import Fix, WeftNotImplementedError, WeftTypeError, WeftValueError
from weft.errors.argument_errors import invalid_type, invalid_value
from weft.runtime import cusolver
from weft.runtime.stablehlo import portable_artifact

# The targets that XLA itself has under names that do not change (how values are split and laid
# out), and those that every process with weft registers.
STABLE_CUSTOM_CALLS = frozenset(
    "LayoutConstraint SPMDFullToShardShape SPMDShardToFullShape Sharding "
    "annotate_device_placement weft.LayoutConstraint".split()
)

_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_ALIASES = {"gpu": "cuda"}


@dataclasses.dataclass(frozen=True)
class DisabledSafetyCheck:
    """A check that an export, or reading one, is to leave out; made by the class methods.

    kind: "custom_call" or "platform"; target: the name of the custom call.

    >>> from weft import export
    >>> export.DisabledSafetyCheck.custom_call("my_kernel")
    DisabledSafetyCheck.custom_call('my_kernel')
    """

    kind: str
    target: str = ""

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Allows custom calls of this target: it is registered, and means the same, wherever the
        function is called."""
        return cls("custom_call", target_name)

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Allows calls on a platform that the function was not exported for; they run the module
        for the first one."""
        return cls("platform")

    def __repr__(self) -> str:
        return f"DisabledSafetyCheck.{self.kind}({repr(self.target) if self.target else ''})"


def check_disabled(checks: Any, operation: str) -> tuple[DisabledSafetyCheck, ...]:
    """The checks to leave out. Raises WeftTypeError for other values."""
    out = tuple(checks)
    for check in out:
        if not isinstance(check, DisabledSafetyCheck):
            message = f"{operation} takes checks to leave out"
            wanted = "values like weft.export.DisabledSafetyCheck.custom_call('target')"
            raise WeftTypeError(message, got=f"{check!r:.100}", wanted=wanted)
    return out


def checked_platforms(platforms: Any, default: str) -> tuple[str, ...]:
    """The platforms to export for. Raises WeftValueError for one that does not exist."""
    given = (default,) if platforms is None else platforms
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        message = "export takes platforms as a sequence of names"
        wanted = "names such as ('cpu', 'cuda')"
        names = (given,) if given and isinstance(given, str) else (default,)
        fix = Fix("tuple", f"pass platforms={names!r}", {"platforms": names})
        raise invalid_type(message, "export", "platforms", platforms, wanted, fix=fix)
    found = dict.fromkeys(_ALIASES.get(name, name) for name in given)
    for name in found:
        if name not in _PLATFORMS and name != default:
            message = f"there is no platform {name!r}"
            wanted = ", ".join(map(repr, _PLATFORMS))
            known = tuple(name for name in found if name in _PLATFORMS) or (default,)
            fix = Fix("platform", f"pass platforms={known!r}", {"platforms": known})
            raise invalid_value(message, "export", "platforms", platforms, wanted, fix=fix)
    return tuple(found)


def check_effects(name: str, jaxpr: Jaxpr) -> None:
    """Raises WeftNotImplementedError, with the line, for a jaxpr that calls Python or has side
    effects."""
    for equation in _equations(jaxpr):
        own_effects = equation.effects and not jaxprs_in(equation.params)
        if not equation.primitive.facts.calls_python and not own_effects:
            continue
        what = equation.params.get("callback", equation.params.get("target", equation.primitive))
        function = getattr(what, "function", None)
        shown = getattr(function, "__qualname__", None) or str(what)
        does = "calls a Python function, which stays in this process"
        if not equation.primitive.facts.calls_python:
            does = "has side effects, of which whoever calls it would not know"
        raise WeftNotImplementedError(
            f"export of {name}: the program {does}",
            got=f"{equation.primitive} of {shown}",
            wanted="a program of array operations only",
            where=equation.source or f"{equation.primitive} in {name}",
            fix=Fix("remove", "leave the call out of the function that is exported"),
        )


def _equations(jaxpr: Jaxpr) -> Iterator[Equation]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in(equation.params):
            yield from _equations(inner)


_FILE_LINE = re.compile(r'"([^"]+)":(\d+)')


def check_custom_calls(
    name: str, module: Any, disabled: Sequence[DisabledSafetyCheck], operation: str
) -> None:
    """Raises WeftValueError for a custom call that is not known to mean the same elsewhere."""
    allowed = {check.target for check in disabled if check.kind == "custom_call"}
    for target, place in portable_artifact.custom_calls(module):
        known = STABLE_CUSTOM_CALLS | cusolver.TARGETS | allowed
        if target in known or portable_artifact.of_lapack(target):
            continue
        found = _FILE_LINE.search(place)
        where = {} if found is None else {"where": f"{found[1]}:{found[2]}"}
        raise WeftValueError(
            f"{operation} of {name}: the program calls {target!r}, which another process may not "
            "have or may have as something else",
            got=f"a custom call of {target!r}",
            wanted="operations of StableHLO",
            fix=Fix(
                "disabled_checks",
                "where it is known to be there, pass disabled_checks="
                f"[weft.export.DisabledSafetyCheck.custom_call({target!r})]",
                {"target": target},
            ),
            **where,
        )
