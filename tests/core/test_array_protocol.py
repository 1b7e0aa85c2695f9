"""Values of a user's class that stand for an array: `__weft_array__`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.core.array_value import array_values
from weft.errors import ArrayProtocolError, WeftTypeError
from weft.extend.core import ArrayType, ArrayValue, register_array_value

pytestmark = pytest.mark.fast

BASE = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]], np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Scaled(ArrayValue):
    """A node: goes in and out of transformed functions as itself."""

    base: object
    factor: object

    def __weft_array__(self):
        return jnp.multiply(self.base, self.factor)

    @property
    def type(self):
        return ArrayType(jnp.shape(self.base), self.base.dtype)


weft.tree_util.register_dataclass(Scaled, data_fields=["base", "factor"], meta_fields=[])


class Leaf(ArrayValue):
    """No node, and its type is worked out."""

    def __init__(self, base):
        self.base = base

    def __weft_array__(self):
        return self.base


class Bare:
    """A class with the method and nothing else."""

    def __weft_array__(self):
        return np.array([1.0, 2.0], np.float32)


register_array_value(Bare)


@pytest.fixture(scope="module", autouse=True)
def only_here():
    # A process may come back to this module, when it takes tests of another one's.
    ours = {Scaled, Leaf, Bare, Marked}
    before = array_values - ours
    array_values.update(ours)
    yield
    array_values.intersection_update(before)


def make(kind, base=BASE):
    return Scaled(jnp.array(base), jnp.float32(2.0)) if kind is Scaled else Leaf(jnp.array(base))


FACTOR = {Scaled: 2, Leaf: 1}
KINDS = pytest.mark.parametrize("kind", [Scaled, Leaf])

FUNCTIONS = {
    "unary": lambda m, x: m.sin(x),
    "with a number": lambda m, x: 1.5 - x,
    "number after": lambda m, x: x / 4,
    "with NumPy before": lambda m, x: BASE + x,
    "with NumPy after": lambda m, x: x * BASE[0],
    "with an array before": lambda m, x: m.asarray(BASE) - x,
    "with an array after": lambda m, x: x - m.asarray(BASE),
    "with itself": lambda m, x: x * x + x,
    "matmul": lambda m, x: x @ BASE.T,
    "matmul before": lambda m, x: BASE.T @ x,
    "comparison": lambda m, x: m.where(x > 0, x, -1),
    "reduction": lambda m, x: m.mean(x, axis=1),
    "method": lambda m, x: x.sum(axis=0),
    "of several": lambda m, x: m.concatenate([x, x, BASE]),
    "stack": lambda m, x: m.stack([x, x]),
    "index": lambda m, x: x[1, ::2],
    "index array": lambda m, x: x[np.array([1, 0, 1])],
    "transpose": lambda m, x: x.T.reshape(-1),
    "einsum": lambda m, x: m.einsum("ij,kj->ik", x, x),
    "sort": lambda m, x: m.sort(x, axis=None),
    "power": lambda m, x: x**2,
    "clip": lambda m, x: m.clip(x, -0.5, 0.5),
    "variance": lambda m, x: m.var(x),
    "cumulative": lambda m, x: m.cumsum(x, axis=1),
    "cast": lambda m, x: x.astype(np.int32),
}


@KINDS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numpy_and_operators(kind, name):
    function = FUNCTIONS[name]
    wanted = function(np, BASE * FACTOR[kind])
    near(function(jnp, make(kind)), wanted)
    near(weft.jit(lambda x: function(jnp, x))(make(kind)), wanted)

    def inside(base):
        return function(jnp, make(kind, base))

    near(
        weft.jit(lambda b: function(jnp, Leaf(b) if kind is Leaf else Scaled(b, 2.0)))(BASE), wanted
    )
    near(inside(BASE), wanted)


def near(found, wanted):
    assert isinstance(found, weft.Array)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-6)


@KINDS
def test_functions_of_lax(kind):
    x, value = make(kind), BASE * FACTOR[kind]
    near(lax.sin(x), np.sin(value))
    near(lax.add(x, 1.0), value + 1)
    near(lax.mul(2.0, x), value * 2)
    near(lax.reshape(x, (6,)), value.reshape(6))
    near(lax.dynamic_slice(x, (0, 1), (2, 2)), value[:, 1:])
    near(lax.concatenate([x, x], 1), np.concatenate([value, value], 1))
    near(lax.cond(True, lambda y: y + 1, lambda y: y * 1, x), value + 1)
    if kind is Leaf:  # the leaves of the other have no common leading axis
        near(lax.map(lambda row: row * 2, x), value * 2)
        near(lax.fori_loop(0, 3, lambda i, y: y * 2, x), value * 8)


@KINDS
def test_making_arrays_of_it(kind):
    x, value = make(kind), BASE * FACTOR[kind]
    for array in (jnp.array(x), jnp.asarray(x), jnp.copy(x), weft.device_put(jnp.asarray(x))):
        assert type(array) is weft.Array
        near(array, value)
    assert np.array_equal(np.asarray(x), value)
    assert jnp.array(x, "float16").dtype == np.float16
    near(jnp.zeros_like(x), np.zeros_like(value))
    near(jnp.array([x, x]), np.array([value, value]))
    near(jnp.array(BASE).at[0].set(x[1]), np.stack([value[1], BASE[1]]))
    assert (x.shape, x.ndim, x.size, x.dtype, len(x)) == ((2, 3), 2, 6, np.float32, 2)
    assert [row.tolist() for row in x] == value.tolist() == x.tolist()


def test_numbers():
    x = Leaf(jnp.int32(3))
    assert (int(x), float(x), complex(x), bool(x), x.item()) == (3, 3.0, 3 + 0j, True, 3)
    assert [10, 20, 30, 40][x] == 40
    with pytest.raises(TypeError, match="without dimensions"):
        len(x)


def test_a_leaf_becomes_its_array_at_the_border_of_a_transformation():
    x = make(Leaf)
    assert type(weft.jit(lambda y: y)(x)) is weft.Array
    near(weft.device_put(x), BASE)
    near(weft.grad(lambda y: jnp.sum(y**3))(x), 3 * BASE**2)
    near(weft.vmap(lambda row: row * 2)(x), BASE * 2)
    value, tangent = weft.jvp(jnp.sin, (x,), (x,))
    near(value, np.sin(BASE))
    near(tangent, np.cos(BASE) * BASE)
    near(weft.checkpoint(lambda y: y * 2)(x), BASE * 2)
    near(weft.jit(lambda y: Leaf(y))(BASE), BASE)
    near(weft.jit(lambda: Leaf(jnp.array(BASE)))(), BASE)


X = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("transformed", "wanted"),
    [
        (lambda: weft.jvp(lambda x: Leaf(x * 2), (X,), (X,)), (X * 2, X * 2)),
        (lambda: weft.vjp(lambda x: Leaf(x * 2), X)[0], X * 2),
        (lambda: weft.linearize(lambda x: Leaf(x * 2), X)[1](X), X * 2),
        (lambda: weft.grad(lambda x: Leaf(jnp.sum(x * x)))(X), X * 2),
        (lambda: weft.vmap(lambda x: Leaf(x * 2))(X), X * 2),
        (lambda: weft.checkpoint(lambda x: Leaf(x * 2))(X), X * 2),
        (lambda: lax.scan(lambda c, x: (Leaf(c + x), Leaf(x)), np.float32(0), X), (X.sum(), X)),
        (lambda: lax.cond(True, lambda x: Leaf(x * 2), lambda x: x, X), X * 2),
        (lambda: weft.jit(weft.vmap(lambda x: Leaf(x * 2)))(X), X * 2),
    ],
    ids=range(9),
)
def test_a_leaf_among_results_becomes_its_array(transformed, wanted):
    found, wanted = weft.tree.leaves(transformed()), weft.tree.leaves(wanted)
    for a, b in zip(found, wanted, strict=True):
        near(a, b)


def test_a_node_stays_what_it_is():
    x = make(Scaled)
    out = weft.jit(lambda y: Scaled(y.base, y.factor * 2))(x)
    assert type(out) is Scaled
    near(out + 0, BASE * 4)
    mapped = weft.vmap(lambda y: y, in_axes=(Scaled(0, None),), out_axes=Scaled(0, None))(x)
    near(mapped + 0, BASE * 2)
    gradient = weft.grad(lambda y: jnp.sum(y**2))(x)
    assert type(gradient) is Scaled
    near(gradient.base, 2 * (BASE * 2) * 2)
    np.testing.assert_allclose(gradient.factor, np.sum(2 * BASE * 2 * BASE), rtol=1e-6)
    near(weft.device_put(x) + 0, BASE * 2)


def scaled_sum(base, factor):
    return jnp.sum(jnp.sin(Scaled(base, factor)) * lax.cos(Scaled(base, factor)))


def plain_sum(base, factor):
    product = base * factor
    return jnp.sum(jnp.sin(product) * jnp.cos(product))


@pytest.mark.parametrize(
    "transform",
    [
        weft.grad,
        lambda f: weft.grad(f, argnums=1),
        weft.hessian,
        lambda f: lambda b, s: weft.vjp(f, b, s)[1](1.0),
        lambda f: lambda b, s: weft.linearize(f, b, s)[1](b, s),
        lambda f: lambda b, s: weft.jvp(f, (b, s), (b, s)),
        lambda f: weft.vmap(f, in_axes=(0, None)),
        lambda f: weft.vmap(weft.grad(f), in_axes=(0, None)),
        lambda f: weft.grad(lambda b, s: jnp.sum(weft.vmap(f, (0, None))(b, s))),
        lambda f: weft.grad(weft.checkpoint(f)),
        lambda f: weft.jit(weft.grad(weft.jit(f))),
        lambda f: lambda b, s: lax.scan(lambda c, r: (c + f(r, c), c), s, b),
        lambda f: weft.grad(lambda b, s: lax.scan(lambda c, r: (c + f(r, c), None), s, b)[0]),
    ],
    ids=range(13),
)
def test_what_it_holds_is_traced(transform):
    base, factor = jnp.array(BASE), jnp.float32(0.7)
    found, wanted = transform(scaled_sum)(base, factor), transform(plain_sum)(base, factor)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def test_a_class_that_cannot_inherit():
    assert jnp.add(Bare(), 1).tolist() == [2.0, 3.0]
    assert lax.exp(Bare()).shape == (2,)
    assert (jnp.ones(2) * Bare()).tolist() == [1.0, 2.0]
    assert weft.jit(lambda x: x + Bare())(1.0).tolist() == [2.0, 3.0]
    assert weft.grad(lambda x: jnp.sum(x * jnp.asarray(Bare())))(2.0) == 3.0


class Marked(ArrayValue):
    """Its operators with arrays on the left, and one of its own for the right."""

    def __init__(self, base):
        self.base = base

    def __weft_array__(self):
        return self.base

    def __rmatmul__(self, other):
        return "product", type(other).__name__

    def __rmul__(self, other):
        return Marked(super().__rmul__(other))

    def __gt__(self, other):
        return "greater"


def test_operators_that_a_class_defines_are_asked_before_those_of_arrays():
    value, ones = Marked(jnp.full(2, 3.0)), jnp.ones(2)
    assert ones @ value == ("product", "Array")
    assert np.ones(2) @ value == ("product", "ndarray")
    assert (ones < value) == "greater" and (value > ones) == "greater"
    # What the class takes over may still be what it inherits, and reaches the array.
    assert type(ones * value) is Marked and (ones * value).tolist() == [3.0, 3.0]
    found = []
    weft.jit(lambda x: found.append(x @ value) or x)(ones)
    assert found == [("product", "StagingTracer")]
    # The others, functions, equality and classes without such operators make the array.
    assert isinstance(ones + value, weft.Array) and isinstance(value @ ones, weft.Array)
    assert isinstance(jnp.matmul(ones, value), weft.Array)
    assert (ones == value).tolist() == [False, False]
    assert isinstance(ones @ Leaf(ones), weft.Array) and isinstance(ones < Leaf(ones), weft.Array)
    with pytest.raises(TypeError):
        ones @ object()


def test_a_registered_class_has_its_own_operators():
    class Own(Bare):
        def __radd__(self, other):
            return "sum"

    register_array_value(Own)
    assert jnp.ones(2) + Own() == "sum" and jnp.add(jnp.ones(2), Own()).tolist() == [2.0, 3.0]
    assert (jnp.ones(2) + Bare()).tolist() == [2.0, 3.0]


def test_values_may_stand_for_one_another():
    assert (Leaf(Leaf(jnp.ones(2))) + 1).tolist() == [2.0, 2.0]
    assert jnp.sum(Scaled(Leaf(jnp.ones(2)), 3.0)) == 6.0


def test_it_is_computed_once_per_application():
    counted = []

    class Counted(Leaf):
        def __weft_array__(self):
            counted.append(1)
            return self.base

        @property
        def type(self):
            return self.base.type

    x = Counted(jnp.ones(3))
    jnp.sin(x)
    assert len(counted) == 1
    jnp.add(x, x)
    assert len(counted) == 3


# ---- errors --------------------------------------------------------------------------------------


class Wrong(ArrayValue):
    def __init__(self, answer):
        self.answer = answer

    def __weft_array__(self):
        return self if self.answer == "itself" else self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "class NoneType, which is no array"),
        ("text", "class str, which is no array"),
        ([1.0], "class list, which is no array"),
        ("itself", "returned the value itself"),
    ],
)
@pytest.mark.parametrize(
    "use", [jnp.sin, lax.sin, lambda x: x + 1, jnp.asarray, weft.jit(jnp.cos), weft.grad(jnp.sum)]
)
def test_an_answer_that_is_no_array(answer, message, use):
    with pytest.raises(ArrayProtocolError, match=f"Wrong.__weft_array__ .*{message}") as info:
        use(Wrong(answer))
    assert info.value.fix.kind == "return_array"
    assert use(Wrong(jnp.float32(0.5))).shape == ()


def test_an_answer_of_another_type_than_was_said():
    class Liar(Leaf):
        type = ArrayType((2,), np.float32)

    for answer in (jnp.ones(3), jnp.ones(2, "int32")):
        with pytest.raises(ArrayProtocolError, match=r"another type than Liar.type says") as info:
            jnp.sin(Liar(answer))
        assert info.value.wanted == "f32[2]"
    assert jnp.sin(Liar(jnp.ones(2))).shape == (2,)


def test_the_method_is_missing():
    class Unfinished(ArrayValue):
        pass

    with pytest.raises(NotImplementedError, match="Unfinished does not define __weft_array__"):
        jnp.sin(Unfinished())
    with pytest.raises(WeftTypeError, match="has no method __weft_array__") as info:
        register_array_value(dict)
    assert info.value.fix.kind == "define"


def test_a_class_that_nobody_registered_is_told_how():
    class Stranger:
        def __weft_array__(self):
            return jnp.ones(2)

    for use in (lax.sin, weft.jit(lambda x: lax.sin(x)), lambda x: weft.device_put(x)):
        with pytest.raises(WeftTypeError):
            use(Stranger())
    with pytest.raises(WeftTypeError) as info:
        lax.sin(Stranger())
    assert "register_array_value(Stranger)" in info.value.fix.text
    scope = {"weft": weft, "Stranger": Stranger}
    eval(info.value.fix.text.split(": ", 1)[1], scope)
    assert lax.neg(Stranger()).tolist() == [-1.0, -1.0]
    array_values.discard(Stranger)


def test_a_class_written_for_jax_may_mean_something_else_by_type():
    class Held:
        type = property(lambda self: Held)

        def __init__(self, value):
            self.value = value

        def __jax_array__(self):
            return self.value

    np.testing.assert_array_equal(jnp.add(1, Held(jnp.ones(2))), [2, 2])
    np.testing.assert_array_equal(jnp.ones(2) + Held(jnp.ones(2)), [2, 2])
    np.testing.assert_array_equal(jnp.ones(2) + Held(np.ones((3, 2))), np.full((3, 2), 2))
    np.testing.assert_array_equal(jnp.ones((2, 2)) @ Held(jnp.ones((2, 2))), [[2, 2], [2, 2]])
    assert jnp.dot(Held(jnp.ones(2)), Held(jnp.ones(2))) == jnp.sum(Held(jnp.ones(2))) == 2
    assert jnp.max(Held(jnp.ones(2))) == 1 and jnp.reshape(Held(jnp.ones(2)), (2, 1)).ndim == 2
    assert jnp.zeros_like(Held(jnp.ones(2, "int8"))).dtype == np.int8
    assert jnp.power(Held(jnp.full(2, 3.0)), np.int32(2)).tolist() == [9, 9]
    key = weft.random.key(0)
    assert weft.random.gamma(key, Held(jnp.ones(2))).shape == (2,)
    assert jnp.concatenate([Held(jnp.ones(2)), jnp.ones(1)]).shape == (3,)
    assert jnp.where(Held(jnp.array([True, False])), Held(jnp.ones(2)), 0).tolist() == [1, 0]
    assert lax.scan(lambda c, x: (c + x @ Held(jnp.ones(2)), None), 0.0, jnp.ones((3, 2)))[0] == 6
