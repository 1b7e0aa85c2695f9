"""Partial evaluation of programs: a known part, residuals, an unknown part; checked by types."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from loop_cases import names
from weft import lax
from weft.core.check import check_jaxpr
from weft.core.jaxpr import Jaxpr, eval_jaxpr
from weft.interpreters.partial_eval import partial_eval_jaxpr

TABLE = jnp.array([1.0, 2.0, 3.0])


def simple(a, b, c):
    return lax.sin(a) * b, lax.exp(c), a


def jitted(a, b, c):
    inner = weft.jit(lambda x, y: (lax.sin(x) * 2.0, x + y, lax.cos(y)))
    p, q, r = inner(a, b)
    return p * c, q, r * r


def nested(a, b, c):
    @weft.jit
    def outer(x, y):
        @weft.jit
        def inner(z):
            return z * x + lax.exp(x)

        return inner(y) + inner(x), inner(x)

    first, second = outer(a, b)
    return first + c, second, 3.0


def conditional(a, b, c):
    return lax.cond(
        jnp.sum(a) > 0,
        lambda x, y: (lax.sin(x) * y, lax.exp(x) * TABLE),
        lambda x, y: (y - x * x, x),
        a,
        b,
    ) + (c,)


def conditional_on_the_unknown(a, b, c):
    return lax.cond(jnp.sum(c) > 0, lambda x: x * lax.exp(b), lambda x: -x, a), b


def passing(a, b, c):
    return b, c, a, 1.0, b


FUNCTIONS = [simple, jitted, nested, conditional, conditional_on_the_unknown, passing]
ARGS = [np.array(v, np.float32) for v in ([0.1, 0.2, 0.3], [1.0, -2.0, 3.0], [0.5, 0.6, -0.7])]


def program_of(f):
    closed = weft.make_jaxpr(f)(*ARGS)
    jaxpr = closed.jaxpr
    return Jaxpr(jaxpr.inputs, jaxpr.eqns, jaxpr.outputs), list(closed.consts)


def run_split(split, flags, values):
    """Runs the known part, then the unknown part; answers with all results in order."""
    known_in = [v for v, flag in zip(values, flags, strict=True) if not flag]
    n = split.unknown_out.count(False)
    known = eval_jaxpr(split.known, (), *known_in)
    residuals = known[n:]
    assert [r.type.shape for r in residuals] == [t.shape for t in split.residual_types]
    unknown_in = [v for v, flag in zip(values, flags, strict=True) if flag]
    late = iter(eval_jaxpr(split.unknown, (), *residuals, *unknown_in))
    early = iter(known[:n])
    return [next(late) if flag else next(early) for flag in split.unknown_out]


def as_arrays(values):
    return [jnp.asarray(v) for v in values]


@pytest.mark.parametrize("unknown", list(itertools.product([False, True], repeat=3)), ids=str)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_parts_together_are_the_whole(f, unknown):
    jaxpr, consts = program_of(f)
    flags = (False,) * len(consts) + unknown
    split = partial_eval_jaxpr(jaxpr, flags)
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    assert split.known.in_types == [
        t for t, flag in zip(jaxpr.in_types, flags, strict=True) if not flag
    ]
    assert split.unknown.in_types == split.residual_types + [
        t for t, flag in zip(jaxpr.in_types, flags, strict=True) if flag
    ]
    assert split.unknown.out_types == [
        t for t, flag in zip(jaxpr.out_types, split.unknown_out, strict=True) if flag
    ]
    values = as_arrays([*consts, *ARGS])
    wanted = eval_jaxpr(jaxpr, (), *values)
    for got, want in zip(run_split(split, flags, values), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_forced_to_be_unknown(f):
    jaxpr, consts = program_of(f)
    flags = (False,) * len(consts) + (False, True, False)
    split = partial_eval_jaxpr(jaxpr, flags, (True,) * len(jaxpr.outputs))
    assert split.unknown_out == (True,) * len(jaxpr.outputs)
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    values = as_arrays([*consts, *ARGS])
    for got, want in zip(
        run_split(split, flags, values), eval_jaxpr(jaxpr, (), *values), strict=True
    ):
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


def test_known_work_is_not_left_for_later():
    jaxpr, _ = program_of(jitted)
    split = partial_eval_jaxpr(jaxpr, (False, True, True))
    assert "sin" in names(split.known) and "sin" not in names(split.unknown)
    assert "cos" in names(split.unknown) and "cos" not in names(split.known)


def test_everything_known_and_everything_unknown():
    jaxpr, _ = program_of(simple)
    split = partial_eval_jaxpr(jaxpr, (False,) * 3)
    assert split.unknown.eqns == [] and split.unknown_out == (False,) * 3
    split = partial_eval_jaxpr(jaxpr, (True,) * 3)
    assert split.known.eqns == [] and split.residual_types == []
    assert len(split.unknown.eqns) == len(jaxpr.eqns)


def test_dead_known_work_is_dropped():
    jaxpr, _ = program_of(lambda a, b, c: (lax.exp(a), b * c)[1])
    split = partial_eval_jaxpr(jaxpr, (False, False, True))
    assert names(split.known) == []


def test_the_split_is_remembered_and_the_marks_are_checked():
    jaxpr, _ = program_of(simple)
    flags = (True, False, False)
    assert partial_eval_jaxpr(jaxpr, flags) is partial_eval_jaxpr(jaxpr, flags)
    with pytest.raises(TypeError, match="2 marks for 3 inputs"):
        partial_eval_jaxpr(jaxpr, (True, False))
