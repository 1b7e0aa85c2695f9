"""Equations that are copied: the jaxpr is the one that the function's own Python records."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from weft import config
from weft.base import source as sources
from weft.kinds import array_function, recordings
from weft.kinds.arguments import Flag, Operand, Operands, Promoted
from weft.kinds.array_function import ArrayFunction
from weft.kinds.array_function import array_function as declare
from weft.kinds.compiled_functions import OneEquation

X = np.arange(12, dtype=np.float32).reshape(3, 4)
# Arguments that are equal to others or nearly so, and that may not be taken for them.
AXES = [None, 0, 1, -1, (0,), (0, 1), (), True, np.int64(1)]
NUMBERS = [0, 1, 1.0, True, 0.0, -0.0, np.float32(1), np.int8(1), np.float64(1), float("nan")]
DTYPES = [None, "float32", np.float32, jnp.float_, np.dtype("float16"), float, int, "int32", bool]
OPERANDS = ["x", "y", "i", "h", "w", "x_again", "outside", 2.0, 3.0, 1, 4, np.float32(2)]


@declare
def joined(arrays: Operands, a: Operand, b: Promoted, c: Promoted, twice: Flag = False):
    out = sum(arrays, start=a) + b * c
    return [out, {"b": b}] if twice else (out, a)


@declare
def in_both_orders(a: Operand):
    """Calls functions of arrays on an operand, which may be a number."""
    flat = jnp.ravel(a)
    return jnp.flip(flat) * 2 + jnp.sum(flat)


OWN = {"joined": joined, "in_both_orders": in_both_orders}


@st.composite
def calls(draw):
    """A call of a function on operands by name, as a function of them."""
    own = st.sampled_from(OPERANDS)
    if draw(st.booleans()):
        several = draw(st.lists(own, max_size=3))
        return "joined", [several, draw(own), draw(own), draw(own)], {"twice": draw(st.booleans())}
    if draw(st.booleans()):
        return "in_both_orders", [draw(own)], {}
    name = draw(st.sampled_from(["sum", "mean", "std", "max", "nansum", "cumsum", "sort"]))
    named = {"axis": draw(st.sampled_from(AXES))}
    if name in ("sum", "mean", "nansum") and draw(st.booleans()):
        named["dtype"] = draw(st.sampled_from(DTYPES))
    if name in ("sum", "max", "nansum") and draw(st.booleans()):
        named["initial"] = draw(st.sampled_from(NUMBERS))
    if name == "std" and draw(st.booleans()):
        named["ddof"] = draw(st.sampled_from(NUMBERS))
    if name in ("sum", "mean") and draw(st.booleans()):
        named["where"] = "mask"
    return name, [draw(own)], named


def program(sequence):
    """A function that makes the calls one after another, and keeps their results or errors."""
    outside = jnp.asarray(X[0, 0])

    def run(x, y, i, h, w):
        given_ = {"x": x, "y": y, "i": i, "h": h, "w": w[0, 0] * 1, "x_again": x}
        given_ |= {"outside": outside, "mask": x > 0}

        def operand(value):
            if isinstance(value, list):
                return [operand(part) for part in value]
            return given_.get(value, value) if isinstance(value, str) else value

        results = []
        for name, args, kwargs in sequence:
            function = OWN.get(name) or getattr(jnp, name)
            args = [operand(x) for x in args]
            kwargs = {k: given_["mask"] if v == "mask" else v for k, v in kwargs.items()}
            try:
                results.append(function(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - errors are compared, too
                results.append(None)
                errors.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        return results

    errors: list[str] = []
    values = X, X + 1, X.astype("int32"), X.astype("float16"), X
    return str(weft.make_jaxpr(run)(*values)), errors


@settings(deadline=None, max_examples=120)
@given(st.lists(calls(), min_size=3, max_size=7), st.booleans())
def test_copied_equations_are_those_of_the_body(sequence, wide):
    with config.override(enable_x64=wide), pytest.MonkeyPatch.context() as patch:
        program(sequence)
        copied = program(sequence)
        patch.setattr(array_function, "recording_key", lambda *args: None)
        assert copied == program(sequence)


def traced(function, *args):
    return weft.make_jaxpr(function)(*args)


@pytest.fixture
def copies(monkeypatch):
    """How many calls were copied."""
    made = []
    own = recordings.Recording.copy
    monkeypatch.setattr(
        recordings.Recording, "copy", lambda self, *args: made.append(1) or own(self, *args)
    )
    jnp.std.forget_programs()
    joined.forget_programs()
    return made


def test_the_second_call_has_its_own_line():
    jnp.std.forget_programs()

    def f(x):
        a = jnp.std(x)
        return a, jnp.std(x + 1)

    eqns = traced(f, X).eqns
    assert any(jnp.std.recordings.values())
    lines = [sources.locate(eqn.source).line for eqn in eqns]
    first = f.__code__.co_firstlineno + 1
    assert set(lines) == {first, first + 1}
    assert [line for line in lines if line == first + 1] == lines[len(lines) // 2 :]


def test_structures_come_back(copies):
    def f(x, y):
        return [joined([x], y, 1.0, z, twice=True) for z in (y + 1, y + 1)]

    first, second = weft.jit(f)(X, X + 1)
    assert copies == [1]
    assert weft.tree.structure(first) == weft.tree.structure(second)
    np.testing.assert_array_equal(second[0], X + X + 1 + X + 2)


def test_an_operand_that_is_returned_is_the_same_tracer(copies):
    def f(x, y):
        joined([x], y, y + 1, 1.0)
        assert joined([x], y, y * 2, 1.0)[1] is y
        return x

    traced(f, X, X)
    assert copies == [1]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: joined([x], x, y, y),
        lambda x, y: joined([x], jnp.asarray(X), x, y),
        lambda x, y: joined([x, X], y, 1.0, 2.0),
        lambda x, y: weft.vmap(lambda row: jnp.std(row, "i"), axis_name="i")(x),
        lambda x, y: weft.jvp(jnp.std, (x,), (y,)),
    ],
    ids=["an operand twice", "an array from outside", "of NumPy", "a named axis", "a derivative"],
)
def test_what_depends_on_more_than_types_is_recorded_anew(call, copies):
    traced(lambda x, y: (call(x, y), call(x, y)), X, X + 1)
    assert not copies


def test_a_call_that_warns_warns_again():
    def f(x):
        return jnp.sum(x, dtype="float64"), jnp.sum(x, dtype="float64")

    with (
        config.override(dtype_rule="jax", enable_x64=False),
        warnings.catch_warnings(record=True) as found,
    ):
        warnings.simplefilter("always")
        traced(f, X)
    assert len(found) == 2


def test_equations_that_hold_jaxprs_are_recorded_anew(copies):
    @declare
    def looped(x: Operand):
        return weft.lax.fori_loop(0, 3, lambda i, c: c + 1, x)

    assert len(traced(lambda x: (looped(x), looped(x)), X).eqns) >= 2
    assert not copies


def test_a_function_of_one_equation_is_copied_with_its_jaxpr(copies):
    single = ArrayFunction(joined.function, program=OneEquation)

    def f(x, y):
        return [single([x], y, 1.0, z, twice=True) for z in (y + 1, y + 2)]

    eqns = [eqn for eqn in traced(f, X, X).eqns if eqn.primitive.name == "jit"]
    assert len(eqns) == 2 and eqns[0].params["jaxpr"] is eqns[1].params["jaxpr"]
    assert copies == [1]
    for way in (weft.jit(f), f):
        np.testing.assert_array_equal(way(X, X + 1)[1][0], X + X + 1 + X + 3)
