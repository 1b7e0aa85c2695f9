"""A jaxpr as HTML: a row for each equation with its costs and line, inner jaxprs to be opened."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from weft.analysis.cost import short
from weft.analysis.program_costs import ProgramCost, cost_of
from weft.base import source as sources
from weft.base.notebooks import line_text
from weft.core.inner_programs import inner_programs
from weft.core.jaxpr import Equation, Jaxpr, Var, Writer, jaxprs_in

# Rows beyond these are left out: a browser is to open the page at once.
MOST_ROWS = 4000
# A program of so few equations is shown with all of its jaxprs open.
_MOST_OPEN = 40
_LONGEST_PARAMETER = 160

# A variable and its type, without the full stop at the end of a list of inputs.
_NAMED_TYPE = re.compile(r"([a-z]+):(\S+?)(?=[.]?(?:\s|$))")


class _Costs(NamedTuple):
    flops: float
    functions: float
    moved: float
    found: ProgramCost

    @property
    def weight(self) -> float:
        return self.flops + self.functions

    def text(self, number: float) -> str:
        """A number with its prefix; nothing for zero, a sign where not everything was counted."""
        least = "≥ " if self.found.whiles or self.found.unknown else ""
        if not number:
            return "?" if self.found.unknown else ""
        return least + short(number)

    @property
    def title(self) -> str:
        notes = []
        if self.found.whiles:
            notes.append("a while loop is counted once")
        if self.found.branches:
            notes.append("of branches the dearest is counted")
        if self.found.unknown:
            notes.append(f"no cost is known of {', '.join(sorted(self.found.unknown))}")
        return "; ".join(notes)


def jaxpr_html(jaxpr: Jaxpr) -> str:
    """Returns the rows of a program as an element of HTML; see `PAGE_CSS` for its style."""
    return _Page(jaxpr).text


class _Page:
    """A page with the variable names of the jaxpr's text."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.writer = Writer()
        self.known: dict[Any, ProgramCost] = {}
        self.rows = 0
        self.open = _equations(jaxpr) <= _MOST_OPEN
        total = self.costs(jaxpr, None)
        self.whole = total.weight
        head = _row("weft-heading", "equation", ("flops", "functions", "bytes moved", "line"))
        name = escape(jaxpr.name or "the program")
        self.text = (
            f'<div class="weft-jaxpr">{head}{"".join(self.body(jaxpr, None, 1))}'
            f"{_row('weft-heading', f'{name} in all', (*_numbers(total), ''))}</div>"
        )

    def costs(self, jaxpr: Jaxpr, mesh: Any) -> _Costs:
        """The costs of a jaxpr, computed once."""
        found = cost_of(jaxpr, mesh, self.known)
        lines = found.lines.values()
        return _Costs(
            float(sum(sum(line.flops.values()) for line in lines)),
            sum(line.functions for line in lines),
            sum(line.bytes_read + line.bytes_written for line in lines),
            found,
        )

    def body(self, jaxpr: Jaxpr, mesh: Any, times: int) -> Iterator[str]:
        """The rows of a jaxpr that runs `times` times: inputs, equations, results."""
        yield f'<div class="weft-row"><code>{_color_types(self.writer.head(jaxpr))}</code></div>'
        for number, eqn in enumerate(jaxpr.eqns):
            if self.rows >= MOST_ROWS:
                left = len(jaxpr.eqns) - number
                text = f"… {left} more equations; str(jaxpr) has all"
                yield f'<div class="weft-row weft-quiet"><code>{text}</code></div>'
                return
            self.rows += 1
            yield self.equation(eqn, mesh, times)
        yield f'<div class="weft-row"><code>{_color_types(self.writer.results(jaxpr))}</code></div>'

    def equation(self, eqn: Equation, mesh: Any, times: int) -> str:
        """The row of an equation, with the jaxprs inside it below."""
        operands = [x for x in eqn.inputs if type(x) is Var]
        costs = self.costs(Jaxpr(operands, [eqn], eqn.outputs), mesh)
        # In this order, so that variables have the names that they have in the text.
        inputs = " ".join(map(self.writer.atom, eqn.inputs))
        outputs = " ".join(map(self.writer.binder, eqn.outputs))
        plain = [(k, v) for k, v in self.writer.shown_params(eqn) if not jaxprs_in({k: v})]
        texts = [f"{k}={_truncate(self.writer.param(v))}" for k, v in plain]
        params = f'<span class="weft-quiet">[{escape(" ".join(texts))}]</span>' if texts else ""
        code = (
            f'{_color_types(outputs)} = <span class="weft-primitive">'
            f"{escape(eqn.primitive.name)}</span>{params} {escape(inputs)}"
        )
        cells = (*_numbers(costs), _line(eqn))
        share = min(1.0, costs.weight * times / self.whole) if self.whole else 0.0
        if len(plain) == len(self.writer.shown_params(eqn)):
            return _row("", code, cells, costs.title, share)
        inner = "".join(self.inner(eqn, mesh, times))
        opened = " open" if self.open else ""
        summary = _row("", code, cells, costs.title, share, tag="summary")
        return f'<details{opened}>{summary}<div class="weft-inner">{inner}</div></details>'

    def inner(self, eqn: Equation, mesh: Any, around: int) -> Iterator[str]:
        """The jaxprs within an equation, each below its name and its trips."""
        found = inner_programs(eqn)
        times = {part.jaxpr: part.times for part in found.parts}
        for key, value in self.writer.shown_params(eqn):
            jaxprs = jaxprs_in({key: value})
            for number, jaxpr in enumerate(jaxprs):
                place = f"{key}[{number}]" if len(jaxprs) > 1 else key
                how = _trips_note(jaxpr in times, times.get(jaxpr), found.one_of)
                yield f'<div class="weft-part">{escape(place)}{how}</div>'
                yield from self.body(jaxpr, found.mesh or mesh, around * (times.get(jaxpr) or 1))


def _trips_note(runs: bool, times: int | None, one_of: bool) -> str:
    if not runs:
        return ", which does not run here"
    if one_of:
        return ", if it is chosen"
    if times is None:
        return ", as often as values say; costs are those of one run"
    return "" if times == 1 else f", {times:,} times; costs are those of one run"


def _equations(jaxpr: Jaxpr) -> int:
    """The number of rows of a jaxpr, up to one more than the open ones."""
    out = 0
    for eqn in jaxpr.eqns:
        out += 1 + sum(map(_equations, jaxprs_in(eqn.params)))
        if out > _MOST_OPEN:
            break
    return out


def _numbers(costs: _Costs) -> tuple[str, str, str]:
    return (costs.text(costs.flops), costs.text(costs.functions), costs.text(costs.moved))


def _row(
    style: str,
    code: str,
    cells: tuple[str, ...],
    title: str = "",
    share: float = 0.0,
    tag: str = "div",
) -> str:
    """A row: code, three numbers, and the line, which is already HTML."""
    *numbers, line = cells
    bar = f' class="weft-share" style="--weft-share:{100 * share:.0f}%"' if share >= 0.005 else ""
    about = f' title="{escape(title)}"' if title else ""
    spans = [f"<span{bar if not n else ''}{about}>{x}</span>" for n, x in enumerate(numbers)]
    style = f"weft-row {style}".rstrip()
    return (
        f'<{tag} class="{style}"><code>{code}</code>{"".join(spans)}'
        f"{line if line.startswith('<') else f'<span>{line}</span>'}</{tag}>"
    )


def _line(eqn: Equation) -> str:
    """The user's line in short; its title has the source text and the place."""
    where = None if eqn.source is None else sources.locate(eqn.source)
    if where is None:
        return "<span></span>"
    text = linecache.getline(where.file, where.line).strip()
    title = f"{line_text(*where)}\n{text}"
    short = os.path.basename(line_text(where.file, where.line))
    return f'<span title="{escape(title)}">{escape(short)}</span>'


def _color_types(text: str) -> str:
    """Text of binders, with the types in another colour."""
    parts, end = [], 0
    for match in _NAMED_TYPE.finditer(text):
        parts.append(escape(text[end : match.start(2)]))
        parts.append(f'<span class="weft-type">{escape(match.group(2))}</span>')
        end = match.end()
    return "".join([*parts, escape(text[end:])])


def _truncate(text: str) -> str:
    return text if len(text) <= _LONGEST_PARAMETER else f"{text[:_LONGEST_PARAMETER]}…"
