"""What `weft.comms` reads from jaxprs is what XLA compiles: kind for kind and byte for byte."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import comms_layers  # noqa: F401
import weft
import weft.numpy as wnp
from comms_programs import PROGRAMS, RING, ROWS, WHOLE, line, plane, values
from weft import P, lax
from weft.analysis.hlo_collectives import compiled_rows

CASES = [(name, gradient) for name, one in PROGRAMS.items() for gradient in one.passes]
# Programs that communicate nothing forwards.
SILENT = {("custom_vjp", False)}
# XLA puts all-reduces together, under the line of one of them.
COMBINED = re.compile(r"= \([^=]*\) all-reduce\(")


def dtype_in_hlo(row):
    """Complex numbers are summed as pairs of real ones: that is how weft writes them for XLA.
    Maxima and minima are of integers in the order of the numbers, as XLA's own drop NaN."""
    if row.dtype.kind == "f" and row.operation in ("pmax", "pmin"):
        return f"int{8 * row.dtype.itemsize}"
    if row.dtype.kind == "c" and row.kind in ("all_reduce", "reduce_scatter"):
        return np.dtype(f"f{row.dtype.itemsize // 2}").name
    return row.dtype.name


def sent(rows, *, places=False):
    """How often what is sent along which axes, within groups of which size."""
    found = Counter()
    for row in rows:
        where = (row.operation, row.backward, row.line) if places else ()
        what = (row.kind, frozenset(row.axes), dtype_in_hlo(row), row.bytes, row.group)
        found[what + where] += row.times
    return found


def text_of(report):
    function, args, kwargs = report.program
    return weft.jit(function).lower(*args, **kwargs).compile().as_text()


@pytest.mark.parametrize(("name", "gradient"), CASES, ids=str)
def test_a_report_is_what_is_compiled(name, gradient):
    function, args = PROGRAMS[name].make()
    report = weft.comms(function, *args, gradient=gradient)
    assert bool(report.rows) == ((name, gradient) not in SILENT)
    text = text_of(report)
    compiled = compiled_rows(text, report.mesh)
    assert sent(report.rows) == sent(compiled)
    if not COMBINED.search(text):
        assert sent(report.rows, places=True) == sent(compiled, places=True)


# ---- where XLA does something else, and why ------------------------------------------------------


def over_line(body, in_specs=ROWS, out_specs=WHOLE):
    return weft.shard_map(body, mesh=line(), in_specs=in_specs, out_specs=out_specs)


BFLOAT16 = {
    "psum": (lambda x: lax.psum(x, "i"), P()),
    "pmax": (lambda x: lax.pmax(x, "i"), P()),
    "all_gather": (lambda x: lax.all_gather(x, "i"), ROWS),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", tiled=True), ROWS),
    "ppermute": (lambda x: lax.ppermute(x, "i", RING), ROWS),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ROWS),
}


@pytest.mark.parametrize("name", BFLOAT16)
@pytest.mark.parametrize("gradient", [False, True])
def test_on_cpus_bfloat16_is_sent_as_float32(name, gradient):
    """XLA's float normalization writes operations on bfloat16 in float32 where the device has no
    arithmetic for it, collectives that only move data too: twice the bytes, all else equal."""
    body, out = BFLOAT16[name]
    f = over_line(lambda x: body(x * x), out_specs=out)
    report = weft.comms(f, values(16, 8, dtype=weft.dtypes.bfloat16), gradient=gradient)
    wide = [row._replace(dtype=np.dtype("f4"), bytes=2 * row.bytes) for row in report.rows]
    assert {row.dtype.name for row in report.rows} == {"bfloat16"}
    assert sent(wide) == sent(report.compiled().rows)


def counts_of(f, *args):
    report = weft.comms(f, *args, gradient=False)
    return report.count(), report.compiled().count()


def test_a_sum_of_constants_is_folded():
    """XLA's all-reduce simplifier multiplies what is equal on all devices by their number."""

    def body(x):
        return x + lax.psum(lax.pbroadcast(wnp.full(8, 2.5), "i"), "i")

    assert counts_of(over_line(body, out_specs=ROWS), values(16, 8)) == (1, 0)


def test_what_is_the_same_in_all_steps_of_a_loop_is_moved_out():
    """XLA's motion of loop invariants runs a collective of what does not change once."""

    def body(x, w):
        def step(carry, _):
            return wnp.sin(carry + lax.ppermute(w, "i", RING)), None

        return lax.scan(step, x, None, length=5)[0]

    f = over_line(body, in_specs=(ROWS, ROWS), out_specs=ROWS)
    assert counts_of(f, values(16, 8), values(16, 8)) == (5, 1)


def test_xla_knows_the_count_of_some_while_loops():
    """It evaluates the condition from constants; the jaxpr has a loop of unknown length."""

    def body(x):
        def step(state):
            return state[0] + 1, wnp.sin(lax.ppermute(state[1], "i", RING))

        return lax.while_loop(lambda state: state[0] < 10, step, (0, x))[1]

    f = over_line(body, out_specs=ROWS)
    (row,) = weft.comms(f, values(16, 8), gradient=False).rows
    assert row.trips is None
    assert counts_of(f, values(16, 8)) == (1, 10)


def test_a_branch_that_a_constant_excludes_is_dropped():
    """XLA's simplifier of conditionals keeps the branch that runs; the report counts both."""

    def body(x):
        return lax.cond(True, lambda x: lax.psum(x, "i"), lambda x: lax.pmax(x, "i"), x)

    assert counts_of(over_line(body), values(16, 8)) == (2, 1)


def test_along_automatic_axes_the_compiler_divides_what_is_sent():
    """Blocks are whole along the axes that shard_map was not told, until the compiler splits
    them: the report has the bytes of the whole block, and says so."""
    mesh = plane()
    f = weft.shard_map(
        lambda x: lax.psum(x * x, "i"), mesh=mesh, in_specs=ROWS, out_specs=P(), axis_names={"i"}
    )
    x = weft.device_put(values(16, 8), weft.NamedSharding(mesh, P("i", "j")))
    report = weft.comms(f, x, gradient=False)
    (row,), (split,) = report.rows, report.compiled().rows
    assert (row.bytes, split.bytes, row.axes, split.axes) == (128, 64, ("i",), ("i",))
    assert "compiled()" in report.notes[0]
