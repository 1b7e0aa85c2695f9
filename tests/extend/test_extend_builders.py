"""`mlir.builders`: lowerings written by users, and what they say to mistakes in them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import WeftTypeError, WeftValueError
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir

pytestmark = pytest.mark.fast

B = mlir.builders
X = np.array([0.5, -2.0, 3.0, 3.0], np.float32)


def lowered(rule, type_rule=lambda x: x, multiple_results=False):
    """A function that is compiled as the rule says."""
    p = Primitive("lowered", multiple_results=multiple_results)
    p.def_abstract_eval(type_rule)
    mlir.register_lowering(p, lambda context, x: rule(x))
    return weft.jit(p.bind)


def zero():
    return B.constant(0.0, (), "float32")


def test_the_largest_element_and_its_first_position():
    def largest(left, right):
        (a, i), (b, j) = left, right
        first = B.and_(B.compare(a, b, "EQ"), B.compare(i, j, "LT"))
        keep = B.or_(B.compare(a, b, "GT"), first)
        return [B.select(keep, a, b), B.select(keep, i, j)]

    def rule(x):
        inits = [B.constant(-np.inf, (), "float32"), B.constant(2**31 - 1, (), "int32")]
        return B.reduce([x, B.iota((4,), "int32", 0)], inits, [0], largest)

    def types(x):
        return [x.update(shape=()), x.update(shape=(), dtype=np.dtype("int32"))]

    value, place = lowered(rule, types, multiple_results=True)(X)
    assert (value, place) == (X.max(), X.argmax())


def test_a_loop():
    def rule(x):
        def body(state):
            i, y = state
            return [B.subtract(i, B.constant(1, (), "int32")), B.multiply(y, x)]

        start = [B.constant(3, (), "int32"), B.full(1.0, (4,), "float32")]
        zero = B.constant(0, (), "int32")
        return B.while_(start, lambda state: B.compare(state[0], zero, "GT"), body)[1]

    np.testing.assert_allclose(lowered(rule)(X), X**3, rtol=1e-6)


def test_a_branch_and_a_sort():
    def rule(x):
        [total] = B.reduce([x], [zero()], [0], lambda a, b: [B.add(a[0], b[0])])
        [ordered] = B.if_(
            B.compare(total, zero(), "GT"),
            lambda: B.sort([x], 0, True, lambda a, b: [B.compare(a[0], b[0], "GT")]),
            lambda: [B.negate(x)],
            [x.type],
        )
        return ordered

    function = lowered(rule)
    np.testing.assert_array_equal(function(X), -np.sort(-X))
    np.testing.assert_array_equal(function(-X), X)


def test_an_operation_without_a_function_and_its_attributes():
    def rule(x):
        config = {
            "start_indices": B.integers([1]),
            "limit_indices": B.integers([3]),
            "strides": B.integers([1]),
        }
        return B.op1("stablehlo.slice", [x], B.tensor_type((2,), "float32"), config)

    function = lowered(rule, lambda x: x.update(shape=(2,)))
    np.testing.assert_array_equal(function(X), X[1:3])
    assert str(B.to_attribute({"many": [1, 2], "name": "sum"})) == ('{many = [1, 2], name = "sum"}')
    assert str(B.boolean(True)) == "true"


# ---- mistakes ------------------------------------------------------------------------------------

CHOICES = {
    "compare": ("ComparisonDirection", "lt", lambda x, c: B.compare(x, x, c)),
    "compare floats": ("ComparisonType", "totalorder", lambda x, c: B.compare(x, x, "LT", c)),
    "fft": ("FftType", "rfft", lambda x, c: B.fft(x, c, (4,))),
    "random": (
        "RngAlgorithm",
        "philox",
        lambda x, c: B.rng_bit_generator(B.full(1, (2,), "uint64"), (4,), "uint32", c)[1],
    ),
    "solve": (
        "Transpose",
        "adjoint",
        lambda x, c: B.triangular_solve(
            B.full(1.0, (4, 4), "float32"), B.full(1.0, (4, 1), "float32"),
            left_side=True, lower=True, transpose_a=c,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_there_is_not(name):
    kind, wrong, build = CHOICES[name]
    made = []

    def rule(x, choice):
        made.append(build(x, choice))
        return x

    with pytest.raises(WeftValueError, match=f"there is no {kind} {wrong!r}") as info:
        lowered(lambda x: rule(x, wrong))(X)
    lowered(lambda x: rule(x, info.value.fix.data["value"]))(X)
    assert len(made) == 1


def test_a_precision_that_there_is_not():
    def product(x, precision):
        return B.dot_general(x, x, ((0,), (0,)), precision=precision)

    with pytest.raises(WeftValueError, match="Precision 'BEST'"):
        lowered(lambda x: product(x, "best"), lambda x: x.update(shape=()))(X)
    exact = lowered(lambda x: product(x, "highest"), lambda x: x.update(shape=()))(X)
    np.testing.assert_allclose(exact, X @ X, rtol=1e-6)


NO_VALUES = {
    "on the right": (lambda x, one: B.add(x, one), 1.0),
    "on the left": (lambda x, one: B.add(one, x), 1.0),
    "alone": (lambda x, one: B.multiply(x, B.exponential(one)), 1.0),
    "an array": (lambda x, one: B.multiply(x, one), np.ones(4, np.float32)),
    "of two types": (lambda x, one: B.select(B.compare(x, one, "LT"), x, x), 1.0),
    "a predicate": (lambda x, one: B.select(B.is_finite(one), x, x), 1.0),
}


@pytest.mark.parametrize("name", NO_VALUES)
def test_a_number_is_made_a_value_first(name):
    build, one = NO_VALUES[name]
    with pytest.raises(WeftTypeError, match="takes MLIR values") as info:
        lowered(lambda x: build(x, one))(X)
    assert "constant(it, shape, dtype)" in info.value.fix.text
    assert type(one).__name__ in info.value.got
    assert lowered(lambda x: build(x, B.constant(one, (4,), "float32")))(X).shape == (4,)


def test_bodies_take_and_answer_with_lists():
    def total(body):
        function = lowered(
            lambda x: B.reduce([x], [zero()], [0], body)[0], lambda x: x.update(shape=())
        )
        return function(X)

    with pytest.raises(WeftTypeError, match="stablehlo.add takes MLIR values") as info:
        total(lambda a, b: [B.add(a, b)])
    assert info.value.got == "a list" and "out of the list" in info.value.fix.text
    with pytest.raises(
        WeftTypeError, match=r"in the body of stablehlo.reduce takes a list"
    ) as info:
        total(lambda a, b: B.add(a[0], b[0]))
    assert info.value.fix.text == "write [value]"
    assert total(lambda a, b: [B.add(a[0], b[0])]) == X.sum()


def test_an_error_that_is_not_about_operands_stays_what_it_is():
    with pytest.raises(TypeError, match="unhashable"):
        lowered(lambda x: B.broadcast_in_dim(x, (4,), [[0]]))(X)
    with pytest.raises(ZeroDivisionError):
        lowered(lambda x: B.add(x, B.constant(1 / 0)))(jnp.asarray(X))
