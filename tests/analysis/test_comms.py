"""Reports of what programs communicate: rows, passes, origins, sums, text, HTML, and assertions."""

from __future__ import annotations

import functools
import html.parser
import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from comms_programs import RING, ROWS, WHOLE, line, plane, values
from processes import python_output
from weft import P, lax
from weft.analysis import occurrences
from weft.analysis.comms_rows import KINDS
from weft.core.inner_programs import inner_programs
from weft.errors import CommunicationError, WeftError, WeftTypeError
from weft.sharding import AbstractMesh

ABSTRACT = AbstractMesh((64, 8), ("i", "j"))


def over_line(body, in_specs=ROWS, out_specs=WHOLE, **how):
    return weft.shard_map(body, mesh=line(), in_specs=in_specs, out_specs=out_specs, **how)


def lines_of(function):
    """The numbers of a function's lines, by the comments that they end with."""
    code = function.__code__
    with open(code.co_filename) as file:
        text = file.read().splitlines()
    marked = re.compile(r"# (\w+)$")
    found = {}
    for number in range(code.co_firstlineno, code.co_firstlineno + 30):
        mark = marked.search(text[number - 1])
        if mark:
            found.setdefault(mark[1], number)
    return found


def number(row):
    return int(re.search(r"test_comms.py:(\d+) in ", row.line)[1])


# ---- rows ----------------------------------------------------------------------------------------


def layer(x, w):
    whole = lax.all_gather(w, "i", tiled=True)  # gather
    y = wnp.tanh(x @ whole)  # product
    return lax.pmean(wnp.sum(y), "i")  # mean


def test_rows_say_what_where_and_whose():
    """An FSDP layer: x is 4x16 on each device, w is 4x16 of 16x16."""
    report = weft.comms(over_line(layer, (ROWS, ROWS)), values(16, 16), values(16, 16))
    marks = lines_of(layer)
    gather, mean, scatter = report.rows
    assert gather[:7] == ("all_gather", "all_gather", ("i",), np.float32, 1024, 4, 1)
    assert mean[:7] == ("all_reduce", "psum", ("i",), np.float32, 4, 4, 1)
    assert scatter[:7] == ("reduce_scatter", "psum_scatter", ("i",), np.float32, 1024, 4, 1)
    assert [row.backward for row in report.rows] == [False, False, True]
    assert list(map(number, report.rows)) == [marks["gather"], marks["mean"], marks["gather"]]
    assert [row.origin for row in report.rows] == [
        "explicit", "explicit", "transpose of all_gather",
    ]  # fmt: skip
    assert [row.implied for row in report.rows] == [False, False, True]
    assert report.total_bytes == 2052
    assert [report.count(kind) for kind in KINDS] == [1, 1, 1, 0, 0] and report.count() == 3


def test_arguments_need_no_devices():
    """512 devices, bfloat16, and two axes at once."""
    loss = weft.shard_map(
        lambda w, x: lax.pmean(wnp.sum(x @ w), ("i", "j")),
        mesh=ABSTRACT,
        in_specs=(P(), P(("i", "j"))),
        out_specs=P(),
    )
    struct = weft.ShapeDtypeStruct
    report = weft.comms(loss, struct((1024, 64), "bfloat16"), struct((2048, 1024), "bfloat16"))
    assert [(r.axes, r.bytes, r.group) for r in report.rows] == [
        (("i", "j"), 2, 512),
        (("i", "j"), 1024 * 64 * 2, 512),
    ]
    with pytest.raises(WeftError, match="abstract mesh"):
        report.compiled()


def test_a_cast_that_was_inserted_is_told_from_one_that_was_written():
    def body(w, b, x):
        own = lax.pbroadcast(w, "i")  # written
        return lax.psum(wnp.sum(x @ own + b), "i")  # inserted

    f = over_line(body, (P(), P(), ROWS))
    report = weft.comms(f, values(8, 4), values(4), values(16, 8))
    marks = lines_of(body)
    found = {number(row): (row.bytes, row.inserted) for row in report.rows if row.backward}
    assert found == {marks["written"]: (128, False), marks["inserted"]: (16, True)}
    assert {row.derivative_of for row in report.rows if row.backward} == {"pbroadcast"}


def test_a_cast_inserted_by_a_collective_or_by_a_spec_counts_as_inserted():
    """The operand of a collective is cast in front of it, a result where it leaves."""
    for body, out in (
        (lambda w, x: lax.all_gather(w, "i") * x[0], ROWS),
        (lambda w, x: lax.ppermute(w, "i", RING) * x[0, 0], ROWS),
        (lambda w, x: wnp.sin(w), ROWS),
    ):
        report = weft.comms(over_line(body, (P(), ROWS), out), values(4), values(4, 4))
        sums = [row for row in report.rows if row.kind == "all_reduce"]
        assert sums and all(row.inserted and row.backward for row in sums)


def test_a_cast_over_a_tree_was_written():
    def body(w, x):
        own = lax.pcast(w, "i", to="varying")
        return lax.psum(wnp.sum((x @ own["a"]) * own["b"] + own["b"] ** 2), "i")

    f = over_line(body, (P(), ROWS))
    report = weft.comms(f, {"a": values(8, 4), "b": values(4)}, values(16, 8), strict=True)
    assert [row.inserted for row in report.rows] == [False] * 3


def test_what_a_rule_of_the_user_writes_is_explicit():
    @weft.custom_vjp
    def scaled(x):
        return 2.0 * x

    def backward(_, ct):
        total = lax.psum(ct, "i")  # rule
        return (lax.pbroadcast(total, "i"),)

    scaled.defvjp(lambda x: (2.0 * x, None), backward)
    (row,) = weft.comms(over_line(lambda x: scaled(x), ROWS, ROWS), values(16, 8)).rows
    assert (row.backward, row.origin, number(row)) == (True, "explicit", lines_of(backward)["rule"])


def test_what_a_checkpoint_computes_again_is_explicit_and_backward():
    @weft.checkpoint
    def gathered(x, w):
        return wnp.tanh(x @ lax.all_gather(w, "i", tiled=True))

    f = over_line(lambda x, w: lax.psum(wnp.sum(gathered(x, w)), "i"), (ROWS, ROWS))
    report = weft.comms(f, values(8, 16), values(16, 16))
    assert [(row.kind, row.backward, row.origin) for row in report.rows] == [
        ("all_gather", False, "explicit"),
        ("all_reduce", False, "explicit"),
        ("all_gather", True, "explicit"),
        ("reduce_scatter", True, "transpose of all_gather"),
    ]


def test_the_derivative_of_an_extremum_counts_who_attains_it():
    report = weft.comms(over_line(lambda x: lax.pmax(wnp.sin(x), "i")), values(16, 8))
    largest, count = report.rows
    assert (largest.operation, largest.origin) == ("pmax", "explicit")
    assert (count.operation, count.origin, count.inserted) == ("psum", "derivative of pmax", False)
    # A softmax sums what it has compared with the largest; that is no derivative.
    soft = over_line(lambda x: weft.nn.logsumexp(x, axis=("i", 1)), ROWS, P())
    report = weft.comms(soft, values(4, 8), gradient=False)
    assert [row.origin for row in report.rows] == ["explicit"] * 2


def sends(kind):
    """A function of blocks that sends them by an operation of `weft.lax`."""
    return {
        "psum": lambda x: lax.pbroadcast(lax.psum(x, "i"), "i"),
        "pmean": lambda x: lax.pbroadcast(lax.pmean(x, "i"), "i"),
        "all_gather": lambda x: lax.all_gather(x, "i", tiled=True)[: x.shape[0]],
        "psum_scatter": lambda x: lax.all_gather(
            lax.psum_scatter(x, "i", tiled=True), "i", tiled=True
        ),
        "ppermute": lambda x: lax.ppermute(x, "i", RING),
        "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
        "pmax": lambda x: lax.pbroadcast(lax.pmax(x, "i"), "i"),
    }[kind]


AROUND = {
    "plain": lambda f: f,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0],
    "jit": weft.jit,
    "remat": weft.checkpoint,
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "kind", ["psum", "pmean", "all_gather", "psum_scatter", "ppermute", "all_to_all", "pmax"]
)
def test_what_forward_mode_sends_is_told_from_what_the_program_sends(kind, around):
    """The rows of a jvp are those of the function, and for each one of its derivative."""
    f = over_line(AROUND[around](lambda x: wnp.sin(sends(kind)(x))), ROWS, ROWS)
    x = values(16, 8)
    own = weft.comms(f, x, gradient=False)
    report = weft.comms(lambda x, t: weft.jvp(f, (x,), (t,)), x, x, gradient=False)
    written = [row for row in report.rows if not row.tangent]
    assert [row[:8] for row in written] == [row[:8] for row in own.rows]
    assert {row.origin for row in written} == {"explicit"}
    made = [row for row in report.rows if row.tangent]
    operations = ["psum"] * 2 if kind == "pmax" else [row.operation for row in own.rows]
    assert [row.operation for row in made] == operations
    assert all(row.implied and not row.backward and not row.transposed for row in made)
    assert {row.origin for row in made} == {f"derivative of {row.operation}" for row in own.rows}
    assert {row.line for row in made} <= {row.line for row in own.rows}


def test_forward_mode_over_reverse_mode():
    """Of a sum that a gradient makes, both it and its derivative say that nobody wrote it."""
    loss = over_line(lambda w, x: lax.psum(wnp.sum(wnp.sin(x @ w)), "i"), (P(), ROWS))
    w, x = values(8), values(16, 8)

    def product(w, x):
        return weft.jvp(lambda w: weft.grad(loss)(w, x), (w,), (w,))

    rows = weft.comms(product, w, x).rows
    assert [(row.origin, row.inserted) for row in rows] == [
        ("transpose of pbroadcast (inserted)", True),
        ("derivative of the transpose of pbroadcast (inserted)", True),
    ]
    with pytest.raises(CommunicationError, match="nobody wrote"):
        weft.comms(lambda w, x: product(w, x)[1], w, x, strict=True)


TRANSPOSES = {
    "all_gather": (lambda x: lax.all_gather(x * x, "i"), ROWS, "reduce_scatter"),
    "psum_scatter": (lambda x: lax.psum_scatter(x * x, "i", tiled=True), ROWS, "all_gather"),
    "pscatter": (lambda x: lax.pscatter(lax.psum(x * x, "i"), "i", tiled=True), ROWS, "all_gather"),
    "ppermute": (lambda x: lax.ppermute(x * x, "i", RING), ROWS, "collective_permute"),
    "all_to_all": (lambda x: lax.all_to_all(x * x, "i", 0, 0, tiled=True), ROWS, "all_to_all"),
    "psum": (
        lambda x: lax.psum(x * x, "i", axis_index_groups=[[0, 1], [2, 3]]),
        ROWS,
        "all_reduce",
    ),
    "pbroadcast": (lambda x: x * lax.pbroadcast(lax.psum(x, "i"), "i"), ROWS, "all_reduce"),
}


@pytest.mark.parametrize("name", TRANSPOSES)
def test_a_backward_row_names_what_it_is_the_transpose_of(name):
    body, out, kind = TRANSPOSES[name]
    report = weft.comms(over_line(body, ROWS, out), values(16, 8))
    assert {(row.kind, row.derivative_of) for row in report.rows if row.backward} == {(kind, name)}


# ---- loops and branches --------------------------------------------------------------------------


def test_trips_multiply_and_passes_are_marked_inside_loops():
    def inner(c, _):
        return wnp.sin(lax.ppermute(c, "i", RING)), None

    def outer(c, _):
        return lax.scan(inner, c, None, length=3)[0], None

    f = over_line(lambda x: lax.scan(outer, x, None, length=5)[0], ROWS, ROWS)
    forward, backward = weft.comms(f, values(16, 8)).rows
    assert (forward.trips, forward.backward) == (15, False)
    assert (backward.trips, backward.backward, backward.derivative_of) == (15, True, "ppermute")
    assert forward.total_bytes == 15 * 4 * 8 * 4


def test_a_loop_of_unknown_length_counts_once_and_says_so():
    def body(x):
        small = lambda x: lax.pmax(wnp.max(x), "i") < 100  # noqa: E731
        step = lambda x: wnp.abs(lax.ppermute(x, "i", RING)) + 1  # noqa: E731
        return lax.while_loop(small, step, x)

    report = weft.comms(over_line(body, ROWS, ROWS), values(16, 8))
    assert [(row.operation, row.trips, row.times) for row in report.rows] == [
        ("pmax", None, 1),
        ("ppermute", None, 1),
    ]
    assert report.total_bytes == 4 + 128
    first, second = report.notes
    assert "reverse mode is not possible" in first and "counted once" in second
    assert "  ?  forward" in str(report)
    with pytest.raises(WeftError):
        weft.comms(over_line(body, ROWS, ROWS), values(16, 8), gradient=True)


def test_branches_are_all_listed():
    def body(x):
        large = lax.pmax(wnp.max(x), "i") > 1
        return lax.cond(large, lambda x: lax.psum(x, "i"), lambda x: lax.pmin(x, "i"), x)

    report = weft.comms(over_line(body), values(16, 8), gradient=False)
    assert [row.branch for row in report.rows] == [False, True, True]
    assert "branch" in report.notes[0] and "1|" in str(report)


# ---- which program -------------------------------------------------------------------------------


def test_the_gradient_is_by_all_inexact_arguments_and_from_all_inexact_results():
    def body(weights, count, *, x):
        total = lax.psum(wnp.sum(x * weights["a"]) * count, "i")
        return {"loss": total, "count": count + 1}

    f = over_line(lambda w, c, x: body(w, c, x=x), (P(), P(), ROWS), {"loss": P(), "count": P()})
    args = {"a": values(8)}, 3
    report = weft.comms(lambda w, c, *, x: f(w, c, x), *args, x=values(16, 8))
    assert [(row.bytes, row.backward) for row in report.rows] == [(4, False), (32, True)]
    assert weft.comms(lambda c, x: f({"a": x[0]}, c, x), 3, values(16, 8)).count() == 2


def test_a_gradient_or_a_step_is_reported_as_it_is():
    loss = over_line(lambda w, x: lax.psum(wnp.sum(wnp.sin(x @ w)), "i"), (P(), ROWS))
    w, x = values(8), values(16, 8)
    for f in (
        weft.grad(loss),
        weft.jit(weft.grad(loss)),
        lambda w, x: w - 0.1 * weft.grad(loss)(w, x),
        over_line(lambda w, x: weft.grad(lambda w: wnp.sum(wnp.sin(x @ w)))(w), (P(), ROWS)),
    ):
        report = weft.comms(f, w, x)
        (row,) = report.rows
        assert (row.bytes, row.backward, row.derivative_of) == (32, True, "pbroadcast")
    assert weft.comms(weft.grad(loss), w, x, gradient=True).count() > 1


def test_what_is_without_derivative_has_one_pass():
    integers = over_line(lambda x: lax.psum(x, "i"))
    assert weft.comms(integers, values(16, 8, dtype=np.int32)).count() == 1
    assert weft.comms(over_line(lambda x: lax.psum(wnp.sum(x), "i")), values(16)).count() == 1


def test_static_arguments_of_jitted_functions():
    @functools.partial(weft.jit, static_argnums=1, static_argnames="how")
    def total(x, times, *, how):
        operation = {"sum": lax.psum, "max": lax.pmax}[how]
        return sum(over_line(lambda x, k=k: operation(k * x, "i"))(x) for k in range(times))

    report = weft.comms(total, values(16, 8), 3, how="sum")
    # Multiplied by 0 and 1 too: a sum for each forward; backward a sum is a cast.
    assert (report.name, report.count()) == ("total", 3)
    assert weft.comms(total, values(16, 8), 2, how="max", gradient=False).count() == 2
    assert report.compiled().count() >= 1
    assert weft.cost(total, values(16, 8), 3, how="sum").flops > 0


def test_integers_have_no_cotangents_that_a_compiled_program_could_return():
    f = over_line(
        lambda w, x, flag, n: lax.psum(wnp.where(flag, x @ w, x @ w * n).sum(), "i"),
        (P(), ROWS, P(), P()),
    )
    report = weft.comms(f, values(8), values(16, 8), wnp.asarray(True), 3)
    assert (report.count(), report.compiled().count()) == (2, 2)


def test_a_linear_function_of_a_rule_of_the_user_is_looked_into():
    """`linearize` keeps a rule as one operation, whose program names the axes of the mesh."""

    @weft.custom_vjp
    def sine(x):
        return wnp.sin(x)

    sine.defvjp(
        lambda x: (wnp.sin(x), x),
        lambda x, ct: (lax.pbroadcast(lax.psum(ct, "i"), "i") * wnp.cos(x),),
    )

    def body(x):
        repeated = lambda x: lax.scan(lambda c, _: (sine(c), None), x, None, length=3)[0]  # noqa: E731
        return weft.linearize(sine, x)[1](x) + weft.linearize(repeated, x)[1](x)

    f = over_line(body, ROWS, ROWS)
    report = weft.comms(f, values(16, 8), gradient=False)
    assert report.count("all_reduce") == report.compiled().count("all_reduce") == 4
    plain = weft.cost(f, values(16, 8))
    assert not plain.unknown


def test_an_exported_program_is_named_as_unknown():
    f = over_line(lambda x: lax.psum(x, "i"))
    called = weft.export.export(weft.jit(f))(values(16, 8)).call
    report = weft.comms(called, values(16, 8), gradient=False)
    assert report.count() == 0 and "exported" in report.notes[0]


def test_what_is_not_used_is_not_sent():
    def body(x):
        lax.all_gather(x, "i")
        both = weft.jit(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i")))(x)
        return both[1]

    assert weft.comms(over_line(body), values(16, 8), gradient=False).count() == 1


def test_nobody_to_communicate_with():
    mesh = weft.make_mesh((1, 4), ("i", "j"), devices=weft.devices()[:4])

    def body(x):
        return lax.psum(lax.psum(x, "i"), "j"), lax.psum(x, ("i", "j")), lax.psum(x[:0], ("i", "j"))

    f = weft.shard_map(body, mesh=mesh, in_specs=P("i", "j"), out_specs=P())
    report = weft.comms(f, values(4, 8), gradient=False)
    assert [(row.axes, row.group) for row in report.rows] == [(("j",), 4)] * 2
    assert str(weft.comms(wnp.sin, 1.0)) == "sin communicates nothing"


# ---- sums, text and HTML -------------------------------------------------------------------------


def test_the_table_is_for_reading():
    report = weft.comms(over_line(layer, (ROWS, ROWS)), values(16, 16), values(16, 16))
    head, _, headings, *body = str(report).splitlines()
    assert head == "layer communicates 2,052 bytes per device in 3 collectives"
    assert headings.split() == (
        "count kind operation axes dtype bytes group trips pass origin line".split()
    )
    assert body[0].split()[:9] == [
        "1",
        "all_gather",
        "all_gather",
        "i",
        "float32",
        "1,024",
        "4",
        "1",
        "forward",
    ]
    assert re.search(r"transpose of all_gather +test_comms.py:\d+ in layer$", body[2])
    assert [line.split() for line in body[4:]] == [
        ["kind", "axes", "runs", "total", "bytes"],
        ["all_reduce", "i", "1", "4"],
        ["all_gather", "i", "1", "1,024"],
        ["reduce_scatter", "i", "1", "1,024"],
    ]
    assert repr(report) == str(report)


def test_equal_rows_share_a_line_of_the_table():
    f = over_line(lambda xs: [lax.psum(x, "i") for x in xs])
    report = weft.comms(f, [values(16)] * 9, gradient=False)
    assert len(report.rows) == 9 and report.count() == 9
    assert str(report).splitlines()[3].split()[0] == "9"


class Balance(html.parser.HTMLParser):
    """Holds tags to be closed in order, and keeps the text and the attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def read(text):
    found = Balance()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def test_a_notebook_shows_table_and_picture():
    report = weft.comms(over_line(layer, (ROWS, ROWS)), values(16, 16), values(16, 16))
    text = report._repr_html_()
    found = read(text)
    assert "prefers-color-scheme: dark" in text
    assert found.texts.count("1,024") == 2 + 2  # cells, and ends of bars
    bars = [attrs for tag, attrs in found.tags if tag == "rect"]
    widths = {(b["class"], float(b["width"])) for b in bars if float(b["width"])}
    assert widths == {("forward", 320.0), ("backward", 320.0), ("forward", 1.2)}
    assert sum(tag == "tr" for tag, _ in found.tags) == 1 + 3
    assert "communicates nothing" in "".join(read(weft.comms(wnp.sin, 1.0)._repr_html_()).texts)


def test_text_in_html_is_escaped():
    axis = "<i>&\"'"
    mesh = AbstractMesh((4,), (axis,))

    def evil(x):
        return lax.psum(x, axis)

    evil.__name__ = evil.__qualname__ = "<script>alert(1)</script>"
    f = weft.shard_map(evil, mesh=mesh, in_specs=P(axis), out_specs=P())
    report = weft.comms(f, values(16))
    text = report._repr_html_()
    found = read(text)
    assert "script" not in {tag for tag, _ in found.tags} and "i" not in {t for t, _ in found.tags}
    assert axis in found.texts and evil.__name__ in found.texts


def test_sums_are_by_kind_and_axes():
    mesh = plane()
    f = weft.shard_map(
        lambda x: lax.psum(lax.psum(x, "i"), "j") * lax.psum(x, ("i", "j")),
        mesh=mesh,
        in_specs=P("i", "j"),
        out_specs=P(),
    )
    table = str(weft.comms(f, values(16, 8), gradient=False)).split("\n\n")[2]
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["all_reduce", "i", "1", "64"],
        ["all_reduce", "i,", "j", "1", "64"],
        ["all_reduce", "j", "1", "64"],
    ]


def test_a_kind_that_does_not_exist_is_an_error():
    report = weft.comms(wnp.sin, 1.0)
    with pytest.raises(WeftTypeError, match="kind of collective") as caught:
        report.count("psum")
    assert report.count(caught.value.fix.data["kind"]) == 0


# ---- assertions ----------------------------------------------------------------------------------


def test_assertions_hold_or_list_what_was_found():
    f, args = over_line(layer, (ROWS, ROWS)), (values(16, 16), values(16, 16))
    report = weft.assert_comms(f, *args, all_gather=1, all_reduce=1, reduce_scatter=1)
    assert report.count() == 3
    weft.assert_comms(f, *args, all_gather=1, all_reduce=1, gradient=False, total_bytes=1028)
    with pytest.raises(AssertionError) as caught:
        weft.assert_comms(f, *args, all_gather=1, all_reduce=2)
    error = caught.value
    assert isinstance(error, CommunicationError)
    marks = lines_of(layer)
    assert "all_reduce=1, all_gather=1, reduce_scatter=1" in error.got
    assert f"test_comms.py:{marks['mean']} in layer" in error.got
    assert "transpose of all_gather" in error.got
    assert error.wanted == "all_reduce=2, all_gather=1; kinds that are not named do not run"
    assert error.fix.data == {"all_reduce": 1, "all_gather": 1, "reduce_scatter": 1}
    with pytest.raises(CommunicationError, match="total_bytes=2052"):
        weft.assert_comms(f, *args, **error.fix.data, total_bytes=1)
    with pytest.raises(CommunicationError, match="got: nothing"):
        weft.assert_comms(wnp.sin, 1.0, all_to_all=1)


def test_trips_count_in_assertions():
    def body(x):
        return lax.scan(lambda c, _: (lax.ppermute(c, "i", RING), None), x, None, length=7)[0]

    weft.assert_comms(over_line(body, ROWS, ROWS), values(16, 8), collective_permute=14)
    with pytest.raises(CommunicationError, match="7 times"):
        weft.assert_comms(over_line(body, ROWS, ROWS), values(16, 8), gradient=False)


def test_strict_reports_refuse_what_nobody_wrote():
    def body(w, x):
        return lax.psum(wnp.sum(x @ w), "i")  # product

    def written(w, x):
        return lax.psum(wnp.sum(x @ lax.pbroadcast(w, "i")), "i")

    args = values(8, 4), values(16, 8)
    f = over_line(body, (P(), ROWS))
    for check in (
        lambda: weft.comms(f, *args, strict=True),
        lambda: weft.assert_comms(f, *args, all_reduce=2, implied=False),
    ):
        with pytest.raises(CommunicationError, match="nobody wrote") as caught:
            check()
        error = caught.value
        assert f"test_comms.py:{lines_of(body)['product']} in" in error.got
        assert "lax.pbroadcast(x, 'i')" in error.fix.text
    # Forward nothing is implied; the fix ends it; and the explicit mode asks for the same.
    assert weft.comms(f, *args, strict=True, gradient=False).count() == 1
    weft.assert_comms(over_line(written, (P(), ROWS)), *args, all_reduce=2, implied=False)
    with pytest.raises(WeftError, match="auto_pbroadcast=False"):
        weft.comms(over_line(body, (P(), ROWS), auto_pbroadcast=False), *args)
    explicit = over_line(written, (P(), ROWS), auto_pbroadcast=False)
    assert weft.comms(explicit, *args, strict=True).count() == 2
    # Transposes of collectives that stand in the program are not refused.
    gathering = over_line(layer, (ROWS, ROWS))
    assert weft.comms(gathering, values(16, 16), values(16, 16), strict=True).count() == 3


def test_strict_is_strict_in_loops_and_jitted_parts():
    def body(w, x):
        @weft.jit
        def step(x, _):
            return wnp.sin(x @ w), None

        return lax.scan(step, x, None, length=3)[0]

    f = over_line(body, (P(), ROWS), ROWS)
    report = weft.comms(f, values(8, 8), values(16, 8))
    assert report.rows and all(row.inserted for row in report.rows)
    with pytest.raises(CommunicationError):
        weft.comms(weft.jit(f), values(8, 8), values(16, 8), strict=True)


# ---- cost ----------------------------------------------------------------------------------------


def transformer(layers):
    """The loss of a decoder over a mesh of 512 devices: batch over i, heads and width over j."""

    def normal(x, scale):
        return x * lax.rsqrt(wnp.mean(x * x, -1, keepdims=True) + 1e-5) * scale

    def block(x, p):
        q, k, v = (wnp.einsum("bsd,dhe->bhse", normal(x, p["one"]), p[n]) for n in "qkv")
        scores = wnp.einsum("bhse,bhte->bhst", q, k) / 8
        seen = wnp.tril(wnp.ones(scores.shape[-2:], bool))
        mixed = wnp.einsum("bhst,bhte->bhse", weft.nn.softmax(wnp.where(seen, scores, -1e9)), v)
        x = x + lax.psum(wnp.einsum("bhse,hed->bsd", mixed, p["o"]), "j")
        return x + lax.psum(weft.nn.gelu(normal(x, p["two"]) @ p["up"]) @ p["down"], "j")

    traced = []

    def loss(weights, tokens):
        traced.append(layers)
        x = weights["table"][tokens]
        for p in weights["layers"]:
            x = block(x, p)
        picked = weft.nn.log_softmax(x @ weights["table"].T)[..., 0]
        return lax.pmean(-wnp.mean(picked), "i")

    def struct(*shape):
        return weft.ShapeDtypeStruct(shape, "float32")

    heads, split = struct(256, 16, 16), P(None, "j")
    one = dict.fromkeys("qkv", heads) | {"o": struct(16, 16, 256), "one": struct(256)}
    one |= {"two": struct(256), "up": struct(256, 1024), "down": struct(1024, 256)}
    spec = dict.fromkeys("qkv", split) | {"o": P("j"), "one": P(), "two": P()}
    spec |= {"up": split, "down": P("j")}
    weights = {"table": struct(512, 256), "layers": [one] * layers}
    specs = {"table": P(), "layers": [spec] * layers}
    f = weft.shard_map(loss, mesh=ABSTRACT, in_specs=(specs, P("i")), out_specs=P())
    return weft.grad(f), (weights, weft.ShapeDtypeStruct((64, 32), "int32")), traced


def test_a_report_of_a_transformer_traces_once_and_looks_at_each_equation_thrice(monkeypatch):
    gradient, args, traced = transformer(12)
    jaxpr = weft.make_jaxpr(gradient)(*args).jaxpr
    equations, pending = 0, [jaxpr]
    for one in pending:
        equations += len(one.eqns)
        pending += [part.jaxpr for eqn in one.eqns for part in inner_programs(eqn).parts]
    assert equations > 1500
    looks, own = [], inner_programs
    monkeypatch.setattr(occurrences, "inner_programs", lambda eqn: looks.append(1) or own(eqn))
    traced.clear()
    report = weft.comms(gradient, *args)
    assert traced == [12]
    assert len(looks) <= 3 * equations
    # In each layer two sums forward and two backward along j, and a gradient for each of 8 weights.
    model = [row for row in report.rows if row.axes == ("j",)]
    assert len([row for row in model if not row.backward]) == 2 * 12
    forms = {row.bytes for row in report.rows if row.axes == ("i",) and row.backward}
    assert {256 * 2 * 16 * 4, 256 * 128 * 4, 512 * 256 * 4, 256 * 4} <= forms


def test_a_jitted_layer_is_looked_at_once(monkeypatch):
    layer = weft.jit(lambda x: wnp.sin(lax.ppermute(x, "i", RING)))

    def body(x):
        for _ in range(50):
            x = layer(x)
        return x

    looks, own = [], inner_programs
    monkeypatch.setattr(occurrences, "inner_programs", lambda eqn: looks.append(1) or own(eqn))
    report = weft.comms(over_line(body, ROWS, ROWS), values(16, 8), gradient=False)
    assert report.count() == 50
    assert len(looks) < 3 * 60


def test_importing_weft_loads_none_of_it():
    """But for the facade, and what makes notebooks ask for pictures."""
    code = "import sys, weft; print([n for n in sys.modules if n.startswith('weft.analysis')])"
    assert python_output("-c", code) == "['weft.analysis', 'weft.analysis.notebook_pictures']\n"
