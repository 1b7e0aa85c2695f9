"""What weft.random says to wrong arguments: the function, what it got, and a fix that works."""

from __future__ import annotations

import numpy as np
import pytest

import weft.numpy as wnp
from weft import random
from weft.api.jit import jit
from weft.errors import DTypeError, ShapeError, WeftTypeError, WeftValueError

KEY = random.key(0)
KEYS = random.split(KEY, 3)

# The call, the class of the error, and words of its message.
WRONG = [
    (lambda: random.normal(KEYS), ShapeError, r"array of keys of shape \(3,\)"),
    (lambda: random.split(KEYS), ShapeError, "one key"),
    (lambda: jit(lambda n: random.normal(KEY, (n,)))(3), WeftTypeError, "only its type is known"),
    (lambda: random.randint(KEY, (2,), 0, wnp.arange(3)), ShapeError, r"broadcast to shape \(2,\)"),
    (lambda: random.uniform(KEY, minval=wnp.zeros(3)), ShapeError, r"broadcast to shape \(\)"),
    (lambda: random.truncated_normal(KEY, wnp.zeros(2), wnp.ones(3)), ShapeError, "together"),
    (lambda: random.key(1.5), WeftTypeError, "integer as its seed"),
    (lambda: random.key("0"), WeftTypeError, "integer as its seed"),
    (lambda: random.key(KEY), WeftTypeError, "not a key"),
    (lambda: random.key(wnp.arange(3)), ShapeError, "one seed"),
    (lambda: random.key(0, impl="threefri2x32"), WeftValueError, "threefri2x32"),
    (lambda: random.key(0, impl=3), WeftTypeError, "impl"),
    (lambda: random.key(0, dtype="uint32"), DTypeError, "no dtype of random keys"),
    (lambda: random.fold_in(KEY, wnp.arange(2)), ShapeError, "one integer"),
    (lambda: random.wrap_key_data(wnp.zeros(3, "uint32")), DTypeError, r"not u32\[3\]"),
    (lambda: random.wrap_key_data(wnp.zeros(2, "int32")), DTypeError, r"not i32\[2\]"),
    (lambda: random.key_data(wnp.zeros(2)), DTypeError, "key_data"),
    (lambda: random.choice(KEY, 0), WeftValueError, "nothing to choose from"),
    (lambda: random.choice(KEY, 5, (7,), replace=False), WeftValueError, "7 draws"),
    (lambda: random.choice(KEY, 5, p=wnp.ones(4)), ShapeError, "each of the 5"),
    (lambda: random.categorical(KEY, wnp.zeros((2, 3)), shape=(5,)), ShapeError, "logits"),
    (
        lambda: random.categorical(KEY, wnp.zeros((2, 3)), shape=(4, 2), replace=False),
        WeftValueError,
        "4 draws",
    ),
    (lambda: KEY + 1, DTypeError, "key<fry>"),
    (lambda: -KEY, DTypeError, "key<fry>"),
    (lambda: KEY * KEY, DTypeError, "key<fry>"),
    (lambda: KEYS.sum(), DTypeError, "key<fry>"),
    (lambda: KEYS.astype("uint32"), DTypeError, "key<fry>"),
    (lambda: float(KEY), WeftTypeError, "key_data"),
    (lambda: np.asarray(KEY), WeftTypeError, "key_data"),
]


@pytest.mark.parametrize("call", WRONG, ids=range(len(WRONG)))
def test_a_wrong_argument(call):
    wrong, kind, words = call
    with pytest.raises(kind, match=words) as caught:
        wrong()
    assert caught.value.operation
    assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: random.key(2**63),
        lambda: random.key(-(2**63) - 1),
        lambda: random.fold_in(KEY, -1),
        lambda: random.fold_in(KEY, 2**32),
        lambda: random.randint(KEY, (2,), 0, 2**31),
        lambda: random.randint(KEY, (2,), 0, 2**64, "uint64"),
    ],
)
def test_a_number_that_does_not_fit(wrong):
    with pytest.raises(OverflowError):
        wrong()


def test_the_fixes_work():
    with pytest.raises(WeftValueError) as caught:
        random.key(0, impl="threefry")
    assert random.key(0, **caught.value.fix.data).dtype == KEY.dtype
    with pytest.raises(ShapeError) as caught:
        random.uniform(KEY, minval=wnp.zeros(3))
    assert random.uniform(KEY, minval=wnp.zeros(3), **caught.value.fix.data).shape == (3,)
    with pytest.raises(WeftValueError) as caught:
        random.choice(KEY, 2, (3,), replace=False)
    assert random.choice(KEY, 2, (3,), **caught.value.fix.data).shape == (3,)


def test_an_unknown_keyword_is_an_error():
    with pytest.raises(TypeError, match="colour"):
        random.normal(KEY, (2,), colour="red")


def test_bounds_the_wrong_way_round_give_the_lower_one():
    assert random.uniform(KEY, (3,), minval=2, maxval=1).tolist() == [2.0] * 3
    assert random.randint(KEY, (3,), 5, 5).tolist() == [5] * 3
    assert random.randint(KEY, (3,), 5, 2).tolist() == [5] * 3
