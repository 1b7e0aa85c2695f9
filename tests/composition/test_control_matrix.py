"""The composition matrix: every operation with functions inside, under every transformation, under
pairs of them, and inside every other operation, against loops of Python in float64.

What the operations, the transformations and the references are stands in `control_cells`.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import control_cells as cells
import weft
from control_cells import (
    MAPS,
    OPERATIONS,
    PAIR_WORDS,
    POINT,
    SEEN,
    TRANSFORMATIONS,
    WORDS,
    Plain,
    Weft,
    arrays,
    function_of,
    plain_grad,
    plain_jvp,
    reference,
    refusal,
    transformed,
)
from loop_cases import names
from weft.errors import WeftValueError

# The table: which operations, outermost first, and what is done to them, innermost first.
SINGLE = [((name,), word) for name in OPERATIONS for word in WORDS]
PAIRS = [(chain, word) for chain in itertools.product(OPERATIONS, repeat=2) for word in PAIR_WORDS]
NESTINGS = list(itertools.product(OPERATIONS, repeat=2))


def label(cell):
    chain, word = cell
    return f"{' of '.join(reversed(word)) or 'value'} of {' of '.join(chain)}"


def agree(got, chain, word):
    wanted = reference(chain, word)
    assert (got.shape, got.dtype) == (wanted.shape, np.float64), label((chain, word))
    np.testing.assert_allclose(
        np.asarray(got), wanted, rtol=1e-9, atol=1e-9, err_msg=label((chain, word))
    )


def assert_refused(chain, word):
    """The error says what to do in a reason of the table and a fix, and names the user's line."""
    with pytest.raises(WeftValueError, match="reverse-mode") as info:
        transformed(chain, word)(*arrays("point"))
    assert info.value.fix.kind == "known_length", label((chain, word))
    for way_out in ("fori_loop", "scan", "jvp", "custom_vjp"):
        assert way_out in info.value.fix.text
    assert re.search(r"control_cells\.py:\d+", str(info.value))


# ---- one operation -----------------------------------------------------------------------------


@pytest.mark.parametrize(("chain", "word"), SINGLE, ids=map(label, SINGLE))
def test_one_operation_under_up_to_two_transformations(chain, word):
    if refusal(chain, word):
        assert_refused(chain, word)
        return
    agree(transformed(chain, word)(*arrays("point")), chain, word)


# ---- every ordered pair of operations ----------------------------------------------------------


@pytest.mark.parametrize("chain", NESTINGS, ids=" of ".join)
def test_each_operation_inside_each_other(chain):
    """All words of a pair are one program, so that they share a compilation."""
    words = [word for word in PAIR_WORDS if not refusal(chain, word)]
    functions = [transformed(chain, word) for word in words]
    together = weft.jit(lambda *args: [f(*args) for f in functions])(*arrays("point"))
    for word, got in zip(words, together, strict=True):
        agree(got, chain, word)
    for word in set(PAIR_WORDS) - set(words):
        assert_refused(chain, word)


@pytest.mark.parametrize("chain", NESTINGS, ids=" of ".join)
def test_each_operation_inside_each_other_outside_of_jit(chain):
    word = ("jvp",) if refusal(chain, ("grad",)) else ("grad",)
    agree(transformed(chain, word)(*arrays("point")), chain, word)


# ---- what callbacks see ------------------------------------------------------------------------


def seen(run):
    """What debug callbacks got while something ran, sorted."""
    SEEN.clear()
    run()
    weft.effects_barrier()
    found = sorted(tuple(np.round(value, 9)) for value in SEEN)
    SEEN.clear()
    return found


def watching_chains():
    around = [(name, "debug_callback") for name in OPERATIONS]
    return [("debug_callback",), *around]


@pytest.mark.parametrize("chain", watching_chains(), ids=" of ".join)
@pytest.mark.parametrize("word", [(), ("jit",), *((name,) for name in MAPS)], ids=str)
def test_debug_callbacks_see_each_value_once(chain, word):
    f = function_of(Plain, chain)
    for name in word:
        f = TRANSFORMATIONS[name][1](f)
    wanted = seen(lambda: f(*POINT))
    assert wanted or "switch" in chain
    assert seen(lambda: transformed(chain, word)(*arrays("point"))) == wanted


# Rules of custom functions call the function again, and what they call watches as well.
RULES_THAT_CALL_AGAIN = ("custom_jvp", "custom_vjp")
ONE_DERIVATIVE = [("jvp",), ("linearize",), ("grad",), ("jit", "grad"), ("grad", "jvp")]


@pytest.mark.parametrize("word", ONE_DERIVATIVE, ids=str)
@pytest.mark.parametrize("chain", watching_chains(), ids=" of ".join)
def test_debug_callbacks_see_the_values_of_the_function_under_derivatives(chain, word):
    if refusal(chain, word):
        assert_refused(chain, word)
        return
    wanted = seen(lambda: function_of(Plain, chain)(*POINT))
    got = seen(lambda: transformed(chain, word)(*arrays("point")))
    if set(chain) & set(RULES_THAT_CALL_AGAIN):
        assert set(got) == set(wanted)
    else:
        assert got == wanted


# ---- depth three -------------------------------------------------------------------------------


def triples():
    """A hundred nestings of three operations, where every pair stands in every two places."""
    n = len(OPERATIONS)
    order = list(OPERATIONS)
    return [(order[i], order[j], order[(i + 3 * j + 1) % n]) for i in range(n) for j in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("chain", triples(), ids=" of ".join)
def test_three_operations(chain):
    test_each_operation_inside_each_other(chain)


DEEP = ("jit", "jvp", "grad", "vmap of the predicate", "vmap of all")


@pytest.mark.slow
@pytest.mark.parametrize("first", DEEP)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_operation_under_three_transformations(operation, first):
    for rest in itertools.product(DEEP, repeat=2):
        test_one_operation_under_up_to_two_transformations((operation,), (first, *rest))


# ---- the references and the table --------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_reference_agrees_with_finite_differences(operation, monkeypatch):
    """With rules that say the derivative that the function has."""
    monkeypatch.setattr(cells, "JVP_FACTOR", 1.0)
    monkeypatch.setattr(cells, "VJP_FACTOR", 1.0)
    plain = function_of(Plain, (operation,))
    step = 1e-6
    for f in (plain, plain_jvp(plain), plain_grad(plain)):
        moved = [
            f(*(x + sign * step * d for x, d in zip(POINT, cells.DIRECTION, strict=True)))
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            plain_jvp(f)(*POINT), (moved[0] - moved[1]) / (2 * step), rtol=1e-7, atol=2e-8
        )


def test_rules_of_custom_functions_are_what_is_used():
    for name in RULES_THAT_CALL_AGAIN:
        true = function_of(Plain, (name,))
        step = 1e-6
        moved = [
            true(*(x + s * d for x, d in zip(POINT, cells.DIRECTION, strict=True)))
            for s in (step, -step)
        ]
        difference = (moved[0] - moved[1]) / (2 * step)
        assert np.max(np.abs(reference((name,), ("jvp",)) - difference)) > 0.05


def test_every_branch_and_several_numbers_of_steps_are_taken():
    """The points of the maps steer apart what runs, and no comparison is close to an equality."""
    taken = {"cond": set(), "switch": set(), "while": set()}

    class Watching(Plain):
        @staticmethod
        def cond(pred, *rest):
            taken["cond"].add(bool(pred))
            return Plain.cond(pred, *rest)

        @staticmethod
        def switch(index, *rest):
            taken["switch"].add(int(index))
            return Plain.switch(index, *rest)

        @staticmethod
        def while_loop(*args):
            carry = Plain.while_loop(*args)
            taken["while"].add(carry[1])
            return carry

    for name in taken:
        f = function_of(Watching, (name,))
        TRANSFORMATIONS["vmap of the predicate"][1](f)(*POINT)
    assert taken["cond"] == {False, True} and taken["switch"] == {0, 1, 2}
    assert len(taken["while"]) == 3
    Plain.closest = np.inf
    for chain, word in PAIRS:
        f = function_of(Plain, chain)
        for name in word:
            if name in MAPS:
                f = TRANSFORMATIONS[name][1](f)
        f(*POINT)
    assert 1e-6 < Plain.closest < 1


def test_the_table_is_complete():
    assert set(OPERATIONS) == {
        "scan", "while", "cond", "switch", "custom_jvp", "custom_vjp", "remat", "map",
        "pure_callback", "debug_callback",
    }  # fmt: skip
    once = {(name,) for name in ("jit", "grad", "jvp", "linearize", *MAPS)}
    forward, reverse = ("jvp", "linearize"), ("grad",)
    second = {(f, g) for f in forward + reverse for g in forward + reverse}
    mapped = {
        pair
        for name in MAPS
        for d in forward + reverse
        for pair in ((d, name), (name, d), ("jit", name), (name, "jit"), ("jit", d), (d, "jit"))
    }
    assert {(), *once, *second, *mapped} <= set(WORDS)
    assert set(SINGLE) == set(itertools.product([(n,) for n in OPERATIONS], WORDS))
    assert set(PAIRS) == set(itertools.product(NESTINGS, PAIR_WORDS))
    assert len(NESTINGS) == len(OPERATIONS) ** 2
    # Every reason is that of some cell, and only cells with a while loop have one.
    refused = [(chain, word) for chain, word in SINGLE + PAIRS if refusal(chain, word)]
    assert all("while" in chain and "grad" in word for chain, word in refused)
    assert {refusal(*cell) for cell in refused} == {reason for _, reason in cells.REFUSED}


def test_the_operations_are_made_of_the_primitives_that_they_name():
    bound = {
        "while": "while", "scan": "scan", "cond": "cond", "switch": "cond", "remat": "checkpoint",
        "map": "scan", "custom_jvp": "custom_jvp", "custom_vjp": "custom_vjp",
        "pure_callback": "pure_callback", "debug_callback": "debug_callback",
    }  # fmt: skip
    for operation, primitive in bound.items():
        program = weft.make_jaxpr(function_of(Weft, (operation,)))(*arrays("point")).jaxpr
        assert primitive in names(program), operation
