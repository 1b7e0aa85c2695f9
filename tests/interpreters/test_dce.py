"""Dead-code elimination: what nobody reads is dropped, through inner programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from loop_cases import names
from weft import lax
from weft.core.check import check_jaxpr
from weft.core.jaxpr import Equation, Jaxpr, Literal, Var, eval_jaxpr
from weft.core.types import ArrayType
from weft.extend.core import Primitive
from weft.interpreters.partial_eval import dce_jaxpr

F32 = ArrayType((), np.float32)


def branching(x, y, z):
    inner = weft.jit(lambda a, b: (lax.sin(a), lax.exp(b), a))
    s, e, a = inner(x, y)
    t = lax.cond(x > 0, lambda u, v: (lax.cos(u), v), lambda u, v: (u, lax.tanh(v)), y, z)
    return s, e * 2.0, t[0] + a, t[1]


@pytest.mark.parametrize("used", list(itertools.product([False, True], repeat=4)), ids=str)
def test_the_smaller_program_computes_the_used_results(used):
    jaxpr = weft.make_jaxpr(branching)(1.0, 2.0, 3.0).jaxpr
    values = [np.float32(v) for v in (0.5, -0.25, 2.0)]
    wanted = [v for v, use in zip(eval_jaxpr(jaxpr, (), *values), used, strict=True) if use]
    small, reads = dce_jaxpr(jaxpr, used)
    check_jaxpr(small)
    got = eval_jaxpr(small, (), *[v for v, read in zip(values, reads, strict=True) if read])
    np.testing.assert_allclose([float(v) for v in got], [float(v) for v in wanted], rtol=1e-6)
    kept, kept_reads = dce_jaxpr(jaxpr, used, keep_inputs=True)
    assert kept_reads == reads and len(kept.inputs) == 3
    check_jaxpr(kept)


def test_inner_programs_shrink_with_their_results():
    jaxpr = weft.make_jaxpr(branching)(1.0, 2.0, 3.0).jaxpr
    found = names(dce_jaxpr(jaxpr, (True, False, False, False))[0])
    assert found == ["jit", "sin"]
    found = names(dce_jaxpr(jaxpr, (False, True, False, False))[0])
    assert "sin" not in found and "cond" not in found and "exp" in found
    assert dce_jaxpr(jaxpr, (False,) * 4)[0].eqns == []


def test_chains_of_dead_equations_go():
    def f(x):
        y = x
        for _ in range(10):
            y = lax.sin(y)
        return x, y

    jaxpr = weft.make_jaxpr(f)(1.0).jaxpr
    small, reads = dce_jaxpr(jaxpr, (True, False))
    assert small.eqns == [] and reads == (True,)


def test_equations_with_effects_stay():
    effect_p = Primitive("with_effect", multiple_results=True)
    effect_p.def_abstract_eval(lambda x: [x])
    x, y, z = Var(F32), Var(F32), Var(F32)
    eqns = [
        Equation(effect_p, [x], {}, [y], effects=frozenset({"io"})),
        Equation(effect_p, [x], {}, [z]),
    ]
    small, reads = dce_jaxpr(Jaxpr([x], eqns, [Literal(1.0, F32)]), (True,))
    assert len(small.eqns) == 1 and reads == (True,)


def test_unused_inputs_are_reported_and_constants_counted():
    table = jnp.ones(3)
    closed = weft.make_jaxpr(lambda x, y: (x + 1.0, table * y))(1.0, 2.0)
    small, reads = dce_jaxpr(closed.jaxpr, (True, False))
    assert reads == (False, True, False) and small.num_consts == 0
    small, reads = dce_jaxpr(closed.jaxpr, (False, True))
    assert reads == (True, False, True) and small.num_consts == 1
    assert dce_jaxpr(closed.jaxpr, (False, True))[0] is small
