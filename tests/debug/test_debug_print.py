"""Printing, calling and stopping inside programs: what is shown, when, and what is refused."""

from __future__ import annotations

import bdb
import io
import sys

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as wnp
from ways import WAYS
from weft import debug, errors

pytestmark = pytest.mark.fast


def lines(capsys):
    return capsys.readouterr().out.splitlines()


# ---- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("fmt", "value", "expected"),
    [
        ("x = {}", 1.5, "x = 1.5"),
        ("{0} {0}", 2, "2 2"),
        ("{:.3f}|{0:8.2e}".replace("{:", "{0:"), 1234.5, "1234.500|1.23e+03"),
        ("{:d}", 7, "7"),
        ("{:>5}", True, f"{True:>5}"),
        ("{:.1f}", 1 + 2j, "1.0+2.0j"),
        ("{{{}}} {{x}}", 3, "{3} {x}"),
        ("{}", np.arange(3.0), "[0. 1. 2.]"),
        ("{0[1]:.2f} {0.shape} {0.dtype}", np.arange(3.0), "1.00 (3,) float32"),
        ("{!r}", np.arange(2), "array([0, 1], dtype=int32)"),
        ("{!s:>12}", np.arange(2), "       [0 1]"),
    ],
)
def test_formats(way, fmt, value, expected, capsys):
    way(lambda x: debug.print(fmt, x))(value)
    assert lines(capsys) == [expected]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float64, np.int64]
)
def test_specifications_for_every_number(way, dtype, capsys):
    x = wnp.asarray(2, dtype=dtype)
    spec = "{:03d}" if np.dtype(dtype).kind == "i" else "{:.2f}"
    way(lambda x: debug.print(spec, x))(x)
    assert lines(capsys) == ["002" if np.dtype(dtype).kind == "i" else "2.00"]


@pytest.mark.parametrize("way", WAYS)
def test_names_trees_keys_and_other_values(way, capsys):
    def f(x):
        debug.print("{x} {tree} {text!r} {width:{spec}}", x=x, tree={"a": x}, text="t", width=3,
                    spec=">4")  # fmt: skip
        debug.print("{fmt} {ordered_}", fmt=x, ordered_=2)
        debug.print("{}", weft.random.key(3))
        debug.print("nothing")

    way(f)(1.0)
    assert lines(capsys) == [
        "1.0 {'a': array(1., dtype=float32)} 't'    3",
        "1.0 2",
        str(weft.random.key(3)),
        "nothing",
    ]


BAD = {
    "missing name": (lambda x: debug.print("{y}", x=x), "'y'"),
    "missing number": (lambda x: debug.print("{} {}", x), "index"),
    "unused number": (lambda x: debug.print("x", x), "number 0"),
    "unused name": (lambda x: debug.print("{}", x, z=x), "'z'"),
    "f-string": (lambda x: debug.print(f"{x}", x), "number 0"),
    "array with a specification": (lambda x: debug.print("{:.2f}", wnp.stack([x, x])), "format"),
    "float as integer": (lambda x: debug.print("{:d}", x), "'d'"),
    "an element out of bounds": (lambda x: debug.print("{0[2]}", wnp.stack([x, x])), "bounds"),
    "no such attribute": (lambda x: debug.print("{0.shap}", x), "shap"),
    "open brace": (lambda x: debug.print("{", x), "'{'"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_format_is_found_while_tracing(case, capsys):
    function, match = BAD[case]
    for trace in (lambda: function(1.0), lambda: weft.make_jaxpr(function)(1.0)):
        with pytest.raises(errors.WeftValueError, match="format does not fit") as caught:
            trace()
        assert match in caught.value.message
    assert not lines(capsys)


@pytest.mark.parametrize("case", ["missing name", "unused number", "unused name", "f-string"])
def test_the_fix_of_a_bad_format_works(case, capsys):
    function, _ = BAD[case]
    with pytest.raises(errors.WeftValueError) as caught:
        function(1.5)
    fmt = caught.value.fix.data["fmt"]
    given = {
        "missing name": lambda: debug.print(fmt, x=1.5),
        "unused name": lambda: debug.print(fmt, 1.5, z=1.5),
    }.get(case, lambda: debug.print(fmt, 1.5))
    given()
    assert lines(capsys)[0].count("1.5") == (2 if case == "unused name" else 1)


def test_what_is_no_format():
    with pytest.raises(errors.WeftTypeError, match="format first") as caught:
        debug.print(wnp.ones(3))
    debug.print(caught.value.fix.data["fmt"], 1)
    with pytest.raises(errors.WeftTypeError, match="takes a function"):
        debug.callback("text", 1.0)


# ---- transformations ---------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
def test_through_transformations(ordered, capsys):
    def f(x):
        debug.print("x {}", x, ordered=ordered)
        y = weft.jit(lambda y: (debug.print("y {}", y, ordered=ordered), y * y)[1])(x)
        debug.print("z {}", y, ordered=ordered)
        return y

    for way in (lambda f: f, weft.jit):
        assert float(way(f)(3.0)) == 9
        assert lines(capsys) == ["x 3.0", "y 3.0", "z 9.0"]
        assert float(way(weft.grad(f))(3.0)) == 6
        assert lines(capsys) == ["x 3.0", "y 3.0", "z 9.0"]
        assert way(weft.vmap(f))(wnp.arange(2.0)).tolist() == [0, 1]
        assert lines(capsys) == ["x 0.0", "x 1.0", "y 0.0", "y 1.0", "z 0.0", "z 1.0"]
        assert way(weft.vmap(weft.grad(f)))(wnp.arange(2.0)).tolist() == [0, 2]
        assert lines(capsys) == ["x 0.0", "x 1.0", "y 0.0", "y 1.0", "z 0.0", "z 1.0"]


def test_nothing_is_printed_while_tracing(capsys):
    f = weft.jit(lambda x: debug.print("{}", x))
    weft.make_jaxpr(f)(1.0)
    weft.eval_shape(f, 1.0)
    f.lower(1.0).compile()
    assert not lines(capsys)


def test_printing_at_each_call(capsys):
    f = weft.jit(lambda x: (debug.print("{}", x), x + 1)[1])
    for i in range(3):
        f(float(i))
    assert lines(capsys) == ["0.0", "1.0", "2.0"]


def test_a_callback_gets_other_values_as_they_are():
    class Other:
        pass

    other, seen = Other(), []
    weft.jit(lambda x: debug.callback(lambda *a, **k: seen.append((a, k)), x, other, n=2**40))(1.0)
    ((x, same), named) = seen[0]
    assert same is other and named == {"n": 2**40} and float(x) == 1.0


# ---- breakpoints -------------------------------------------------------------------------------


def stopping(x, n=3):
    y = 2 * x
    debug.breakpoint()
    return y + n


@pytest.mark.parametrize("way", [*WAYS, pytest.param(weft.vmap, id="vmap")])
def test_a_breakpoint_shows_local_variables(way, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("p float(x), float(y), int(n)\nc\n" * 2))
    size = 2 if way is weft.vmap else 1
    out = way(stopping)(np.full(2, 1.5, np.float32) if size == 2 else 1.5)
    assert np.ravel(out).tolist() == [6.0] * size
    assert capsys.readouterr().out.count("(1.5, 3.0, 3)") == size


def test_a_breakpoint_shows_the_values_it_is_given(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("p total.tolist()\nc\n"))

    @weft.jit
    def f(x):
        debug.breakpoint(total=x.sum())
        return x

    f(wnp.ones(3))
    out = capsys.readouterr().out
    assert "3.0" in out and "test_debug_print.py" in out


def test_quitting_ends_the_program(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    with pytest.raises(bdb.BdbQuit):
        weft.jit(stopping)(1.0)


def test_breakpoints_without_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    for f in (stopping, weft.jit(stopping)):
        with pytest.raises(errors.WeftError, match="no standard input") as caught:
            f(1.0)
        assert caught.value.fix.kind == "environment"
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    assert float(stopping(1.0)) == float(weft.jit(lambda x: stopping(x))(1.0)) == 5.0
