"""Symbolic dimensions: their arithmetic, what is known of them, and shapes from text.

The results of operations and comparisons are those of jax.export of JAX 0.10.2.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import export
from weft.errors import InconclusiveDimensionOperation, WeftTypeError, WeftValueError
from weft.export import symbolic_shape
from weft.export.symbolic_dimensions import value_of

a, b = symbolic_shape("a, 2*b + 1", constraints=["a >= 2", "b <= 10"])


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (a, "a"),
        (b, "2*b + 1"),
        (a * b, "2*a*b + a"),
        (a // 2, "floordiv(a, 2)"),
        (a % 2, "mod(a, 2)"),
        (a - b, "a - 2*b - 1"),
        (a + a * a * 3 - b // 3, "3*a^2 + a - floordiv(2*b + 1, 3)"),
        (3 - a, "- a + 3"),
        (5 + 2 * a, "2*a + 5"),
        (7 % a, "mod(7, a)"),
        (9 // a, "floordiv(9, a)"),
        (a**3, "a^3"),
        ((4 * a + 2) // 2, "2*a + 1"),
    ],
)
def test_arithmetic_gives_polynomials(found, text):
    assert str(found) == repr(found) == text
    assert value_of(found, {"a": 7, "b": 3}) == eval(
        text.replace("^", "**"),
        {"a": 7, "b": 3, "floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y},
    )


def test_numbers_come_out_where_variables_cancel():
    assert 2 * a - a == a and a - a == 0 and a // a == 1 and (2 * a) % 2 == 0
    assert hash(a + 1) == hash(1 + a) and a != b and a != 2 and a - a is not a
    assert divmod(a, 2) == (a // 2, a % 2)
    assert export.is_symbolic_dim(a) and not export.is_symbolic_dim(3)


def test_comparisons_are_decided_from_what_is_known():
    assert a >= 2 and not a < 2 and b <= 30 and a * 2 > a and a % 2 < 2 and bool(a)
    assert a // 2 >= 1 and 1 <= a
    n, m = symbolic_shape("n, m", constraints=["n >= 2*m"])
    assert n >= m and n > m and n - 2 * m >= 0
    (k,) = symbolic_shape("k", constraints=["k <= 8", "k >= 8"])
    assert k >= 8 and k <= 8
    for undecided in (lambda: a >= 3, lambda: a > b, lambda: max(a, b), lambda: bool(a - 5)):
        with pytest.raises(InconclusiveDimensionOperation, match="inconclusive"):
            undecided()
    for number in (int, float, range, lambda n: [0] * n, lambda n: np.zeros(n)):
        with pytest.raises((InconclusiveDimensionOperation, TypeError)):
            number(a)
    with pytest.raises(WeftTypeError, match="compared with a str"):
        a > "x"  # noqa: B015
    with pytest.raises(ZeroDivisionError):
        a // 0


@pytest.mark.parametrize(
    ("spec", "shape"),
    [
        ("a, b*c", "(a, b*c)"),
        ("floordiv(a,2), mod(a, b)", "(floordiv(a, 2), mod(a, b))"),
        ("max(a, 3), min(b,2)", "(max(a, 3), min(b, 2))"),
        ("a-1", "(a - 1,)"),
        ("(a, 2)", "(a, 2)"),
        ("a^2+3, -a, 2*(a + 1)", "(a^2 + 3, - a, 2*a + 2)"),
        ("max(a, 0), min(a, 1)", "(a, 1)"),
        ("", "()"),
    ],
)
def test_shapes_are_read_from_text(spec, shape):
    assert str(symbolic_shape(spec)) == shape


def test_shapes_take_lengths_from_others():
    assert symbolic_shape("...", like=(5, 6)) == symbolic_shape(None, like=(5, 6)) == (5, 6)
    assert str(symbolic_shape("_, b", like=(5, 6))) == "(5, b)"
    (m, n) = symbolic_shape("n, 2*m", constraints=["m == 4*k"])
    assert str(n) == "8*k"
    with pytest.raises(WeftValueError, match="cannot hold"):
        symbolic_shape("a", constraints=["1 >= 2"])


@pytest.mark.parametrize(
    "spec", ["2a", "a//2", "a,,b", "_", "...", "a^b", "(a", "floordiv(a)", "a b"]
)
def test_other_text_is_refused(spec):
    with pytest.raises(WeftValueError, match="syntax error"):
        symbolic_shape(spec)


def test_types_of_arguments_have_symbolic_shapes():
    args = (np.ones((3, 4), np.float32), [np.ones(2, np.int32), 3.0])
    first, (second, third) = export.symbolic_args_specs(args, ("b, ...", ["c", None]))
    assert (str(first.shape), first.dtype, str(second.shape)) == ("(b, 4)", np.float32, "(c,)")
    assert third.shape == () and first.shape[0].scope is second.shape[0].scope
    whole, _ = export.symbolic_args_specs(((np.ones(3), np.ones(3)), np.ones(3)), ("n", None))
    assert str([x.shape for x in whole]) == "[(n,), (n,)]"
    struct = weft.ShapeDtypeStruct(symbolic_shape("n, 3"), "float32")
    assert (str(struct.shape), struct.ndim, str(struct.size)) == ("(n, 3)", 2, "3*n")
    assert struct == weft.ShapeDtypeStruct(struct.shape, "float32")
    assert hash(struct) != hash(weft.ShapeDtypeStruct(struct.shape, "int32"))
    with pytest.raises(WeftTypeError, match="its lengths are symbolic"):
        weft.eval_shape(lambda x: x, struct)
