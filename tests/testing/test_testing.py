"""The checks of `weft.testing` find what is wrong: each runs on a primitive with one false rule."""

from __future__ import annotations

import numpy as np
import pytest

from weft import config, dtypes
from weft.core.primitive import Primitive
from weft.core.rules import Zero
from weft.core.types import type_of
from weft.ops.declare import primitive, result_type
from weft.ops.elementwise.arithmetic import cos, mul, neg, sin
from weft.ops.elementwise.families import elementwise_vmap, unary
from weft.ops.structural.shape import reduce_sum
from weft.runtime import stablehlo
from weft.testing import (
    assert_close,
    check_grads,
    check_jit,
    check_jvp,
    check_linearize,
    check_types,
    check_vjp,
    check_vmap,
    exact_array,
)

X = exact_array(np.array([0.3, -1.2, 2.0]))
LINEAR = {"accepts": dtypes.INEXACT, "lower": "stablehlo.negate"}


def like(x, **params):
    return result_type((x,), x.shape, x.dtype)


def bound(primitive):
    return primitive.bind


def test_right_functions_pass():
    z = exact_array(np.array([0.3 + 1j, -1.2 - 0.5j]))
    for x in (X, z):
        check_grads(lambda v: mul(sin(v), v), (x,), order=2)
    check_grads(lambda tree: mul(tree["a"], sin(tree["b"])), ({"a": X, "b": X},), order=2)
    check_linearize(sin, (X,))
    check_jit(sin, (X,))
    check_types(sin, (X,))
    check_vmap(lambda x, y: mul(x, y), (X, X))
    check_grads(sin, (exact_array(np.float32(0.4)),), order=2)


def test_a_wrong_first_derivative_is_found():
    wrong = unary("wrong_sin", accepts=dtypes.INEXACT, lower="stablehlo.sine",
                  jvp=lambda t, ans, x: mul(t, sin(x)))  # fmt: skip
    for check in (check_jvp, check_grads):
        with pytest.raises(AssertionError, match="finite difference"):
            check(bound(wrong), (X,))


def test_a_wrong_second_derivative_is_found():
    slope = unary("wrong_cos", accepts=dtypes.INEXACT, lower="stablehlo.cosine",
                  jvp=lambda t, ans, x: mul(t, cos(x)))  # fmt: skip
    right_once = unary("right_once", accepts=dtypes.INEXACT, lower="stablehlo.sine",
                       jvp=lambda t, ans, x: mul(t, slope.bind(x)))  # fmt: skip
    check_grads(bound(right_once), (X,), order=1)
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match="finite difference"):
            check_grads(bound(right_once), (X,), order=2, modes=(mode,))


def test_a_wrong_transpose_is_found():
    wrong = unary("wrong_transpose", **LINEAR, jvp=lambda t, ans, x: wrong.bind(t),
                  transpose=lambda ct, x: ct)  # fmt: skip
    check_jvp(bound(wrong), (X,))
    with pytest.raises(AssertionError, match=r"<J\^T ct, v>"):
        check_vjp(bound(wrong), (X,))
    with pytest.raises(AssertionError, match=r"<J\^T ct, v>"):
        check_grads(bound(wrong), (X,))


def test_a_cotangent_of_another_shape_is_found():
    # Registered without the check of what weft's own rules return, which would find it before.
    with config.override(check_jaxprs=False):
        wrong = unary("wrong_shape", **LINEAR, jvp=lambda t, ans, x: wrong.bind(t),
                      transpose=lambda ct, x: reduce_sum(ct, (0,)))  # fmt: skip
    with pytest.raises(AssertionError, match="cotangent"):
        check_vjp(bound(wrong), (X,))


def broken(name, **rules):
    """An operation that negates, with rules of its own."""
    made = Primitive(name)
    given = {
        "type_rule": like,
        "vmap": elementwise_vmap(made.bind),
        "lower": lambda context, x: stablehlo.negate(x),
    }
    primitive(made, **(given | rules))
    return made.bind


def test_a_wrong_linearize_rule_is_found():
    wrong = broken(
        "wrong_linearize",
        jvp=lambda primals, tangents: (neg(*primals), neg(*tangents)),
        linearize=lambda primals, tangents: (neg(*primals), tangents[0]),
    )
    check_jvp(wrong, (X,))
    with pytest.raises(AssertionError, match="the linear part"):
        check_linearize(wrong, (X,))


def test_a_derivative_that_is_missing_is_found():
    wrong = broken(
        "no_tangent", jvp=lambda primals, tangents: (neg(*primals), Zero(type_of(primals[0])))
    )
    with pytest.raises(AssertionError, match="finite difference"):
        check_jvp(wrong, (X,))


def test_a_wrong_vmap_rule_is_found():
    wrong = broken("wrong_vmap", vmap=lambda axis, args, dims: (args[0], dims[0]))
    with pytest.raises(AssertionError, match="vmap with in_axes"):
        check_vmap(wrong, (X,))


def test_a_vmap_rule_that_is_wrong_about_the_axis_is_found():
    wrong = broken("wrong_axis", vmap=lambda axis, args, dims: (neg(args[0]), 0))
    square = np.arange(9.0).reshape(3, 3)
    with pytest.raises(AssertionError, match="vmap with in_axes"):
        check_vmap(wrong, (square,), size=3)


def test_a_function_that_jit_changes_is_found():
    calls = []

    def impure(x):
        calls.append(x)
        return neg(x) if len(calls) > 1 else x

    with pytest.raises(AssertionError, match="under jit"):
        check_jit(impure, (X,))


def test_a_wrong_type_rule_is_found():
    # XLA computes float64; the rule claims float32.
    wrong = broken(
        "wrong_type",
        type_rule=lambda x: result_type((x,), x.shape, np.dtype(np.float32)),
        lower=lambda context, x: stablehlo.convert(x, np.float32),
    )
    calls = []

    def by_turns(x):
        calls.append(x)
        return wrong(x) if len(calls) == 1 else neg(x)

    with pytest.raises(AssertionError, match="traced"):
        check_types(by_turns, (X,))


def test_close_means_equal_structure_dtype_and_value():
    assert_close((X, 1), (X, 1))
    for other in ((X,), [X, 1], (X, 2), (neg(X), 1), (exact_array(np.float32(1)), 1)):
        with pytest.raises(AssertionError):
            assert_close((X, 1), other)


def test_unknown_modes_are_refused():
    with pytest.raises(ValueError, match="modes"):
        check_grads(sin, (X,), modes=("forward",))
