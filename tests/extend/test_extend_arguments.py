"""What `weft.extend` is given wrongly is refused where it is given, with a fix."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import WeftError, WeftTypeError, WeftValueError
from weft.extend.core import (
    ArrayType,
    JaxprBuilder,
    Primitive,
    define_primitive,
    eval_jaxpr,
    primitives,
)
from weft.extend.interpreters import ad, batching, mlir, partial_eval

pytestmark = pytest.mark.fast

PROGRAM = weft.make_jaxpr(lambda x: weft.lax.sin(x))(1.0).jaxpr
RULE = lambda *args, **params: args  # noqa: E731
AXIS = batching.AxisData(None, 3)


def bad_calls():
    registrations = (
        ad.register_jvp,
        ad.register_linearize,
        ad.register_transpose,
        batching.register_vmap,
        mlir.register_lowering,
        partial_eval.register_dce,
    )
    for register in registrations:
        name = register.__name__
        yield f"{name} of 3", (lambda r=register: r(Primitive("p"), 3)), WeftTypeError, "3 of class"
        yield f"{name} of None", (lambda r=register: r(Primitive("p"), None)), WeftTypeError, "None"
        yield f"{name} of a name", (lambda r=register: r("sin", RULE)), WeftTypeError, "'sin'"
    two = (True, False)
    yield "jvp marks", lambda: ad.jvp_jaxpr(PROGRAM, two), WeftTypeError, "2 marks for 1 inputs"
    yield (
        "linearize marks",
        lambda: ad.linearize_jaxpr(PROGRAM, two),
        WeftTypeError,
        "2 marks for 1 inputs",
    )
    yield "linear marks", lambda: ad.transpose_jaxpr(PROGRAM, two, (True,)), WeftTypeError, "input"
    yield "cotangents", lambda: ad.transpose_jaxpr(PROGRAM, (True,), two), WeftTypeError, "result"
    yield "dims", lambda: batching.vmap_jaxpr(PROGRAM, AXIS, (0, 0)), WeftTypeError, "2 marks"
    yield "used", lambda: partial_eval.dce_jaxpr(PROGRAM, two), WeftTypeError, "result"
    yield "unknown", lambda: partial_eval.partial_eval_jaxpr(PROGRAM, two), WeftTypeError, "input"
    yield "a number as name", lambda: Primitive(3), WeftTypeError, "3 of class int"
    yield (
        "a platform that there is not",
        lambda: mlir.register_lowering(Primitive("p"), RULE, platform="abacus"),
        WeftValueError,
        "'abacus'",
    )
    yield "axis of sin", lambda: primitives.sin_p.bind(1.0, axis=3), WeftTypeError, "axis=3"
    yield "axis of jitted sin", lambda: traced_with_axis(), WeftTypeError, "axis=3"
    yield "axis in a builder", lambda: built_with_axis(), WeftError, "axis"
    yield (
        "linear in what is not there",
        lambda: define_primitive("p", body=lambda x: x, linear=(3,))(1.0),
        WeftValueError,
        "operand 3",
    )
    yield "a negative length", lambda: ArrayType((-1,), "float32"), WeftTypeError, "-1"
    yield "half a length", lambda: ArrayType((1.5,), "float32"), WeftTypeError, "1.5"
    yield "a function", lambda: eval_jaxpr(jnp.sin, (), 1.0), TypeError, "make_jaxpr"


def traced_with_axis():
    return weft.make_jaxpr(lambda x: primitives.sin_p.bind(x, axis=3))(1.0)


def built_with_axis():
    builder = JaxprBuilder()
    x = builder.input(ArrayType((), "float32"))
    builder.apply(primitives.sin_p, x, axis=3)


CASES = list(bad_calls())


@pytest.mark.parametrize("name, call, error, says", CASES, ids=[case[0] for case in CASES])
def test_it_is_refused(name, call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_parameters_that_a_primitive_has_are_taken():
    assert primitives.reduce_precision_p.bind(1.0, exponent_bits=5, mantissa_bits=3) == 1.0
    assert primitives.integer_pow_p.bind(np.float32(3), y=2) == 9.0
