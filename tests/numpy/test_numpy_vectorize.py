"""vectorize, apply_along_axis and apply_over_axes: held to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_to_numpy
from weft.errors import ShapeError, WeftTypeError, WeftValueError
from weft.testing import check_grads

pytestmark = pytest.mark.fast

RANDOM = np.random.default_rng(11)
T = RANDOM.normal(size=(2, 3, 4))
A, B = RANDOM.normal(size=(5, 1, 2, 3)), RANDOM.normal(size=(4, 3, 2))


@pytest.mark.parametrize("loops", [(), (3,)])
def test_a_result_that_is_a_tree_with_a_shape(loops):
    @weft.tree.register_class
    class Column:
        def __init__(self, values):
            self.values = values

        shape = property(lambda self: (*self.values.shape, 1))

        def tree_flatten(self):
            return (self.values,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    x = np.arange(2, dtype=np.float32) + np.ones((*loops, 2), np.float32)
    found = jnp.vectorize(lambda v: Column(2 * v), signature="(n)->(n,1)")(x)
    assert type(found) is Column
    np.testing.assert_array_equal(found.values, 2 * x)


@pytest.mark.parametrize("other", [T[0, :, :1], 2.0, T[:, :1]], ids=np.shape)
def test_elements(other):
    ours = jnp.vectorize(lambda x, y: jnp.where(x > y, x - y, x + y))
    theirs = np.vectorize(lambda x, y: x - y if x > y else x + y)
    with weft.enable_x64():
        close_to_numpy(ours(T, other), theirs(T, other))
        close_to_numpy(weft.jit(ours)(T, y=other), theirs(T, other))


def test_the_function_sees_scalars_and_is_called_once():
    shapes = []

    def f(x, y):
        shapes.append((x.shape, y.shape))
        return x * y, x

    product, first = jnp.vectorize(f)(T, T[0])
    assert shapes == [((), ())] and product.shape == first.shape == T.shape


def test_signatures():
    ours = jnp.vectorize(jnp.matmul, signature="(n,m),(m,p)->(n,p)")
    with weft.enable_x64():
        close_to_numpy(ours(A, B), A @ B)
        close_to_numpy(weft.jit(ours)(A, B), A @ B)
        close_to_numpy(weft.vmap(ours, (0, None))(A, B), A @ B)
        check_grads(lambda a, b: ours(a, b), (A[:2, 0], B[0]), order=2)
        pair = jnp.vectorize(
            lambda x, k, mode, *, flip: (x * k if flip else x, x.sum()),
            excluded={2, "flip"},
            signature=" (n), () -> (n) ,()",
        )
        scaled, total = pair(T, T[..., 0], "any", flip=True)
        close_to_numpy(scaled, T * T[..., :1])
        close_to_numpy(total, T.sum(-1))
        close_to_numpy(jnp.vectorize(lambda: jnp.ones(2), signature="->(2)")(), np.ones(2))


@pytest.mark.parametrize("signature", ["(n)", "n->n", "(n)->", "(n,)->()", "(n)(m)->()", "(-)->()"])
def test_texts_that_are_no_signature(signature):
    with pytest.raises(WeftValueError, match="is not a signature"):
        jnp.vectorize(lambda x: x, signature=signature)


@pytest.mark.parametrize(
    ("signature", "function", "args", "error", "text"),
    [
        ("(n),(n)->()", jnp.dot, (T, T[..., :2]), ShapeError, "'n' is 4, not 2"),
        ("(2)->()", jnp.sum, (T,), ShapeError, "'2' is 2, not 4"),
        ("(n)->()", jnp.sum, (1.0,), ShapeError, "argument 0 has 0 dimensions"),
        ("(n)->(n)", jnp.sum, (T,), ShapeError, "result 0 has 0 dimensions"),
        ("(n)->(n)", lambda x: x[:2], (T,), ShapeError, "'n' is 4, not 2"),
        ("(n)->(),()", jnp.sum, (T,), WeftTypeError, "2 results"),
        ("(n)->()", jnp.sum, (T, T), WeftTypeError, "1 operand"),
    ],
)
def test_what_does_not_fit_a_signature(signature, function, args, error, text):
    with pytest.raises(error, match=text):
        jnp.vectorize(function, signature=signature)(*args)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(
    "function", [lambda x: x.sum(), lambda x: x[:2], lambda x: x[:, None] * x[None]]
)
def test_along_an_axis(function, axis):
    with weft.enable_x64():
        found = jnp.apply_along_axis(function, axis, T)
        close_to_numpy(found, np.apply_along_axis(function, axis, T))


def test_over_axes():
    with weft.enable_x64():
        found = jnp.apply_over_axes(jnp.sum, T, (0, 2))
        close_to_numpy(found, np.apply_over_axes(np.sum, T, (0, 2)))
        close_to_numpy(jnp.apply_over_axes(jnp.cumsum, T, 1), np.cumsum(T, 1))
        check_grads(lambda x: jnp.apply_along_axis(jnp.cumprod, 1, x), (T,), order=2)
        close_to_numpy(
            jnp.apply_along_axis(lambda x, k, *, b: x * k + b, 0, T, 2.0, b=1.0), T * 2 + 1
        )


def test_none_is_handed_to_every_call():
    f = jnp.vectorize(lambda x, y, *, z=1: x if y is None and z is None else x + y)
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(f(x, None, z=None), x)
    np.testing.assert_array_equal(f(x[:, None], x), x[:, None] + x)
