"""Static data that cannot be compared, such as an array, is named by class and field."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, tree

pytestmark = pytest.mark.fast


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = tree.static(default="dense")
    scale: object = tree.static(default=1.0)


class Pair:
    def __init__(self, child, data):
        self.child, self.data = child, data


tree.register_node(Pair, lambda x: ((x.child,), x.data), lambda data, xs: Pair(xs[0], data))

x = jnp.arange(3.0)
VALUES = {
    "a weft array": lambda: jnp.ones(3),
    "a NumPy array": lambda: np.ones(3),
    "arrays in a tuple": lambda: (np.ones(3), 2),
}
# Each looks a program up, or compares structures; called twice with equal trees.
USES = {
    "jit": lambda make: weft.jit(lambda layer: layer.weight * 2)(make(x)),
    "jit inside": lambda make: weft.jit(lambda x: weft.jit(lambda t: t.weight)(make(x)))(x),
    "results": lambda make: weft.jit(lambda x: make(x))(x),
    "lower": lambda make: weft.jit(lambda layer: layer.weight * 2).lower(make(x)),
    "scan": lambda make: lax.scan(lambda c, _: (make(c.weight), None), make(x), length=3),
    "while": lambda make: lax.while_loop(
        lambda c: c.weight[0] < 3, lambda c: make(c.weight + 1), make(x)
    ),
    "cond": lambda make: lax.cond(True, lambda t: make(x), lambda t: t, make(x)),
    "jvp": lambda make: weft.jvp(lambda t: t.weight, (make(x),), (make(x),)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("value", VALUES)
def test_the_error_names_class_and_field(use, value):
    def make(weight):  # what can be compared is not named
        return Layer(weight, name=["dense"], scale=VALUES[value]())

    function = weft.jit(lambda layer: layer.weight * 2)
    with pytest.raises(Exception, match=r"'scale' of the class Layer is static") as caught:
        for _ in range(2):
            USES[use](make)
            function(make(x))
    assert "make it a field with data" in str(caught.value)
    assert "'name'" not in str(caught.value)


def test_the_class_is_named_where_its_data_has_no_fields():
    function = weft.jit(lambda pair: pair.child + 1)
    with pytest.raises(ValueError, match="its data of the class Pair is static, and an array"):
        for _ in range(2):
            function(Pair(x, np.ones(3)))


def test_the_fix_works_and_other_errors_keep_their_text():
    @tree.register_dataclass
    @dataclasses.dataclass
    class Fixed:
        weight: object
        scale: object

    found = weft.jit(lambda layer: layer.weight * layer.scale)(Fixed(x, np.ones(3)))
    np.testing.assert_array_equal(found, x)

    def fails(layer):
        raise ValueError("unhashable type: mine")

    with pytest.raises(ValueError, match="^unhashable type: mine$"):
        weft.jit(fails)(Layer(x, scale=2.0))
