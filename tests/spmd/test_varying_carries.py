"""Carried values that begin equal on all devices and come to differ: their types are joined."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lax
from weft.core.axes import extend_axis
from weft.core.check import check_jaxpr
from weft.core.types import ArrayType
from weft.interpreters.staging import trace_to_jaxpr

pytestmark = pytest.mark.fast

SAME = ArrayType((3,), np.float32)
ALONG_I = ArrayType((3,), np.float32, varying={"i"})
ALONG_J = ArrayType((3,), np.float32, varying={"j"})
BOTH = ArrayType((3,), np.float32, varying={"i", "j"})


def traced(function, *types):
    """The program of a function of blocks of these types, on a mesh with the axes i and j."""
    with extend_axis("i", 2), extend_axis("j", 4):
        jaxpr, _ = trace_to_jaxpr(function, types, transformation="test", name="f")
    check_jaxpr(jaxpr)
    return jaxpr


def zeros():
    return lax.full((3,), np.float32(0))


def in_loop(jaxpr, primitive):
    (eqn,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == primitive]
    return eqn


def test_a_scan_that_adds_what_varies():
    calls = []

    def f(x):
        def body(c, _):
            calls.append("body")
            return lax.add(c, x), None

        return [lax.scan(body, zeros(), None, 3)[0]]

    jaxpr = traced(f, ALONG_I)
    assert jaxpr.out_types == [ALONG_I]
    body = in_loop(jaxpr, "scan").params["jaxpr"]
    assert body.in_types[1] is body.out_types[0] is ALONG_I
    assert [eqn.primitive.name for eqn in jaxpr.eqns].count("pbroadcast") == 1
    assert len(calls) == 1


def test_carried_values_that_depend_on_one_another_take_several_rounds():
    def f(x, y):
        def body(carry, _):
            a, b, c = carry
            return (lax.add(a, x), lax.add(b, a), lax.add(c, b)), c

        (a, b, c), cs = lax.scan(body, (zeros(), zeros(), y), None, 3)
        return [a, b, c, cs]

    a, b, c, cs = traced(f, ALONG_I, ALONG_J).out_types
    assert (a, b, c) == (ALONG_I, ALONG_I, BOTH) and cs.varying == {"i", "j"}


def test_a_while_loop_and_a_fori_loop():
    def unbounded(x):
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, lax.add(c[1], x)), (0, zeros())
        )

    def counted(x):
        return [lax.fori_loop(0, 3, lambda i, c: lax.add(c, x), zeros())]

    assert traced(unbounded, ALONG_I).out_types[1] is ALONG_I
    assert traced(counted, ALONG_I).out_types == [ALONG_I]


def test_derivatives_of_such_a_loop():
    def loss(x, y):
        def body(c, _):
            return lax.add(lax.mul(c, y), x), None

        return lax.scan(body, zeros(), None, 3)[0]

    def forward(x, y):
        return weft.jvp(loss, (x, y), (x, y))[1]

    def backward(x, y):
        return weft.vjp(loss, x, y)[1](x)

    assert traced(lambda x, y: [forward(x, y)], ALONG_I, ALONG_I).out_types == [ALONG_I]
    found = traced(lambda x, y: list(backward(x, y)), ALONG_I, ALONG_I).out_types
    assert found == [ALONG_I, ALONG_I]


def test_what_does_not_vary_stays_equal():
    def f(x):
        return [lax.scan(lambda c, _: (lax.add(c, x), None), zeros(), None, 3)[0]]

    jaxpr = traced(f, SAME)
    assert jaxpr.out_types == [SAME] and "pbroadcast" not in str(jaxpr)
