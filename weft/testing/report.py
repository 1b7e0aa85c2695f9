"""The report of `check_primitive`: one row per property and rule, readable and as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import Fix, JaxprError


@dataclasses.dataclass(frozen=True, repr=False)
class Example:
    """Operands and parameters of one application, and what is known about it.

    args: the operands, arrays or numbers; params: the parameters; wanted: the results as an
    independent computation gives them (a sequence of them where the primitive has several), or None
    if not known; constant: the indices of operands in which it has no derivative; order: how
    often it has derivatives, 0, 1 or 2 (and more); modes: the modes in which they are taken. With
    "rev" among them, operands in which there are derivatives may be replaced by any numbers, to
    find out in which the primitive is linear.

    >>> Example((1.0, 2.0), {"axis": 0}, wanted=3.0)
    Example(args=(1.0, 2.0), params={'axis': 0}, wanted=3.0)
    """

    args: tuple[Any, ...]
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    _: dataclasses.KW_ONLY
    wanted: Any = None
    constant: tuple[int, ...] = ()
    order: int = 2
    modes: tuple[str, ...] = ("fwd", "rev")

    def __repr__(self) -> str:
        shown = [f"args={self.args!r}", f"params={self.params!r}"]
        if self.wanted is not None:
            shown.append(f"wanted={self.wanted!r}")
        for name, usual in (("constant", ()), ("order", 2), ("modes", ("fwd", "rev"))):
            if (value := getattr(self, name)) != usual:
                shown.append(f"{name}={value!r}")
        return f"Example({', '.join(shown)})"


@dataclasses.dataclass(frozen=True)
class Check:
    """One property of one rule: `outcome` is "passed", "failed", "missing" or "skipped".

    `source` says whether the rule was given, derived, is the default, or is missing; `message` says
    what is wrong, or why the property was skipped; `example` is the smallest one that fails.
    """

    rule: str
    what: str
    source: str
    outcome: str
    message: str = ""
    example: Example | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """The checks of one primitive, base rules first.

    Args:
        rules: Where each rule comes from, by the rule's name.
        checks: The checks that were made, with their results.
    """

    primitive: str
    rules: Mapping[str, str]
    checks: Sequence[Check]

    def with_outcome(self, outcome: str) -> list[Check]:
        """The checks that ended so."""
        return [check for check in self.checks if check.outcome == outcome]

    @property
    def failed(self) -> list[Check]:
        """The checks that failed: the first names the rule that the others may suffer from."""
        return self.with_outcome("failed")

    @property
    def missing(self) -> list[str]:
        """The rules that a check asked for and the primitive does not have."""
        return list(dict.fromkeys(check.rule for check in self.with_outcome("missing")))

    @property
    def broken(self) -> str | None:
        """The rule that failed first, or None."""
        failed = self.failed
        return failed[0].rule if failed else None

    def raise_if_failed(self, missing: bool = False) -> Report:
        """The report itself. Raises JaxprError if a check failed (or a rule is `missing`)."""
        wrong = [*self.failed, *(self.with_outcome("missing") if missing else [])]
        if wrong:
            change = "define" if wrong[0].outcome == "missing" else "correct"
            message = f"{self.primitive}: the {wrong[0].rule} rule is {wrong[0].outcome}"
            got, wanted = repr(self), "rules that agree with each other"
            fix = Fix(
                "rule",
                f"{change} the {wrong[0].rule} rule: {wrong[0].what}",
                {"primitive": self.primitive, "rule": wrong[0].rule},
            )
            raise JaxprError(message, operation=self.primitive, got=got, wanted=wanted, fix=fix)
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{rule} {source}" for rule, source in self.rules.items())
        lines = [f"{self.primitive}: {given}"]
        width = max((len(check.rule) for check in self.checks), default=0)
        for check in self.checks:
            line = f"  {check.outcome:8}{check.rule:{width}}  {check.what}"
            if check.message:
                line += "\n" + _indent(check.message)
            if check.example is not None and check.outcome == "failed":
                line += "\n" + _indent(f"for {check.example!r:.400}")
            lines.append(line)
        return "\n".join([*lines, self._summary()])

    def _summary(self) -> str:
        """The numbers of checks by outcome, and the rule to look at."""
        outcomes = ("passed", "failed", "missing", "skipped")
        counts = {outcome: len(self.with_outcome(outcome)) for outcome in outcomes}
        text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
        if self.broken is not None:
            text += f"; look at the {self.broken} rule first"
        elif self.missing:
            text += f"; there is no rule for {', '.join(self.missing)}"
        return text


def _indent(text: str) -> str:
    return "\n".join(f"            {line}" for line in text.splitlines())
