"""Shapes of more bytes than 63 bits count are refused where they are made: XLA ends the process."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft.core.types import ArrayType
from weft.errors import ShapeError

MAKING = """
jnp.zeros((2**40, 2**40))
jnp.ones((2**31, 2**31, 2))
jnp.full((2**61,), 1, "float32")
jnp.zeros(2**64)
jnp.zeros((2**40, 0, 2**40))
jnp.zeros((2**61,), "int4")
jnp.broadcast_to(1.0, (2**40, 2**40))
jnp.broadcast_to(jnp.zeros(3), (2**62, 3))
lax.broadcast_in_dim(1.0, (2**40, 2**40), ())
jnp.zeros((0,)).reshape(2**40, 2**40, 0)
jnp.arange(4).reshape(2**40, 2**40)
jnp.tile(jnp.ones(4), (2**40, 2**40))
jnp.repeat(jnp.ones(4), 2**62)
jnp.pad(jnp.ones(3), (2**62, 0))
lax.pad(jnp.ones(3), 0.0, [(2**63, 0, 0)])
lax.iota("int32", 2**62)
jnp.eye(2**40)
jnp.indices((2**40, 2**40))
jnp.meshgrid(*[jnp.zeros(1000)] * 8)
lax.conv_general_dilated(jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2)), (1,), [(2**62, 0)])
lax.reduce_window(jnp.ones(4), 0.0, lax.add, (2,), (1,), [(2**62, 0)])
lax.scan(lambda c, _: (c, c), jnp.zeros(1000), None, 2**60)
weft.nn.one_hot(jnp.zeros(1000, int), 2**60)
weft.random.normal(weft.random.key(0), (2**40, 2**40))
weft.random.split(weft.random.key(0), 2**62)
weft.vmap(lambda x: jnp.broadcast_to(x, (2**60,)))(jnp.zeros(1000))
weft.jit(lambda: jnp.zeros((2**40, 2**40)).sum())()
weft.jit(lambda x: x + 1).lower(weft.ShapeDtypeStruct((2**40, 2**40), "float32"))
weft.eval_shape(lambda: jnp.zeros((2**40, 2**40)))
""".strip().splitlines()

PROGRAM = """
import weft, weft.numpy as jnp
from weft import lax
for line in {lines!r}:
    try:
        eval(line)
        print("made", line)
    except weft.errors.ShapeError as error:
        assert error.fix or "reshape" in error.message, line
"""


def test_no_way_to_make_a_shape_ends_the_process():
    # All in a process of its own: what fails here ends it.
    assert python_output("-c", PROGRAM.format(lines=MAKING)) == ""


@pytest.mark.parametrize("dtype", ["bool", "int4", "int8", "bfloat16", "float32", "complex128"])
def test_the_largest_shape_is_that_of_the_fix(dtype):
    with pytest.raises(ShapeError, match="larger than any memory") as caught:
        ArrayType((2**40, 2**40), dtype)
    most = caught.value.fix.data["most"]
    assert ArrayType((most,), dtype).size == most
    with pytest.raises(ShapeError):
        ArrayType((most + 1,), dtype)
    assert weft.eval_shape(lambda: jnp.zeros((most,), dtype)).size == most
    assert ArrayType((2**40,), np.dtype([("float0", "V")])).size == 2**40
