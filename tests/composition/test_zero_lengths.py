"""Every function of `weft.numpy` on arrays with a dimension of length 0, beside NumPy's."""

from __future__ import annotations

import importlib
import re
import warnings

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_to_numpy
from valid_calls import valid_calls
from weft import tree
from weft.errors import WeftIndexError

pytestmark = pytest.mark.fast

# What differs from NumPy on purpose, and how.
RAISES = {
    "interp": "which is not 0",  # as NumPy did before 2.5
    "partition": "kth is out of range",
    "argpartition": "kth is out of range",
    "polymul": "a polynomial has coefficients",
}
# NumPy counts in integers, has real roots of nothing, and an empty residual.
COUNTS = {"histogram", "roots", "lstsq"}
IN_PLACE = {"fill_diagonal", "place", "put", "put_along_axis"}  # NumPy's return None
MORE = {"apply_along_axis"}  # has a result where NumPy's raises


def cut(call, axis):
    """The arguments with no elements along an axis; None where an array has no such axis."""
    arrays = [x for x in call.args if isinstance(x, np.ndarray)]
    if not arrays or any(x.ndim <= axis for x in arrays):
        return None
    return [x.take([], axis=axis) if isinstance(x, np.ndarray) else x for x in call.args]


def reference(call):
    module = importlib.import_module(call.module.replace("weft.", ""))
    return getattr(module, call.name, None)


CALLS = [
    pytest.param(call, axis, id=f"{call.module.removeprefix('weft.')}.{call.name}-{axis}")
    for call in valid_calls()
    if call.module.startswith("weft.numpy") and reference(call) is not None
    for axis in range(3)
    if cut(call, axis) is not None
]


def outcome(function, args, kwargs):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
        return None, error


@pytest.mark.parametrize(("call", "axis"), CALLS)
def test_as_numpy_does(call, axis):
    args = cut(call, axis)
    own = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    plain = {k: v for k, v in call.kwargs.items() if k != "inplace"}
    wanted, wanted_error = outcome(reference(call), own, plain)
    found, error = outcome(call.function, args, call.kwargs)
    if call.name in RAISES and error is not None:
        assert RAISES[call.name] in str(error)
    elif wanted_error is not None:
        assert error is not None or call.name in MORE
        if error is not None:
            names = {call.name, call.function.__name__}
            assert any(re.search(rf"\b{name}\b", str(error)) for name in names), error
    else:
        assert error is None, error
        wanted = own[0] if call.name in IN_PLACE else wanted
        if call.name in COUNTS:
            assert len(tree.leaves(found)) == len(tree.leaves(wanted))
        else:
            close_to_numpy(found, wanted, 1e-6, 0)


def test_take_along_an_axis_without_elements():
    x = jnp.zeros((2, 0))
    places = jnp.argsort(x, axis=-1)
    assert jnp.take_along_axis(x, places, -1).shape == (2, 0)
    assert weft.jit(lambda x: jnp.take_along_axis(x, jnp.argsort(x), -1))(x).shape == (2, 0)
    batched = weft.vmap(lambda x: jnp.take_along_axis(x, jnp.argsort(x), -1))
    assert batched(x).shape == (2, 0)
    gradient = weft.grad(lambda x: jnp.sum(jnp.take_along_axis(x, jnp.argsort(x), -1)))(x)
    assert gradient.shape == (2, 0)


def test_fill_values_stand_for_what_is_not_there():
    x, places = jnp.zeros((2, 0)), jnp.zeros((2, 3), int)
    np.testing.assert_array_equal(jnp.take_along_axis(x, places, 1), np.full((2, 3), np.nan))
    found = jnp.take_along_axis(x, places, 1, mode="fill", fill_value=7)
    np.testing.assert_array_equal(found, np.full((2, 3), 7.0))
    with pytest.raises(WeftIndexError, match="length 0"):
        jnp.take_along_axis(x, places, 1, mode="clip")


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x[np.zeros(0, int)], (0,)),
        (lambda x: x[:, np.zeros(0, int)] if x.ndim > 1 else x, (0,)),
        (lambda x: jnp.repeat(x, np.zeros(0, int)), (0,)),
        (lambda x: x.at[np.zeros(0, int)].set(1.0), (0,)),
        (lambda x: weft.random.permutation(weft.random.key(0), x), (0,)),
        (lambda x: jnp.zeros((2, 0))[:, np.zeros(0, int)], (2, 0)),
        (lambda x: jnp.zeros((0, 2))[np.zeros((3, 0), int)], (3, 0, 2)),
        (lambda x: weft.ops.segment_sum(x, np.zeros(0, int), 0), (0,)),
        (lambda x: weft.ops.segment_sum(x, np.zeros(0, int), 2), (2,)),
    ],
)
def test_positions_of_nothing(function, shape):
    assert function(jnp.zeros(0)).shape == shape


def test_a_condition_of_another_shape_is_refused():
    with pytest.raises(weft.errors.ShapeError, match="piecewise"):
        jnp.piecewise(jnp.zeros(0), [np.ones(4, bool)], [0.0, 1.0])
