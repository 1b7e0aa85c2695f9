"""Programs of several devices that once hung, ended the process, or hid that an array is gone."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft import errors, lax, shard_map
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P

ROUND = [(k, (k + 1) % 8) for k in range(8)]

# Run in a process of their own: XLA ends a process whose devices wait for one another too long.
_SETTING = """
import threading
import numpy as np
import weft, weft.numpy as jnp
from weft import lax, shard_map
from weft.sharding import NamedSharding, PartitionSpec as P

mesh = weft.make_mesh((8,), ("i",))
x = weft.device_put(jnp.arange(800.0) / 800, NamedSharding(mesh, P("i")))

def over_mesh(f, out_specs):
    return shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=out_specs)

def turn(c):
    return lax.ppermute(jnp.sin(c), "i", [(k, (k + 1) % 8) for k in range(8)])
"""

# Eight turns bring every block back to its device, with a sine of a sine of a sine ...
_NOT_WAITED_FOR = """
f = weft.jit(over_mesh(lambda a: lax.fori_loop(0, 8, lambda i, c: turn(c), a), P("i")))
results = [f(x) for _ in range(200)]
expected = np.arange(800.0) / 800
for _ in range(8):
    expected = np.sin(expected)
np.testing.assert_allclose(np.asarray(results[-1]), expected, rtol=1e-4, atol=1e-6)
np.testing.assert_array_equal(np.asarray(results[0]), np.asarray(results[-1]))
"""

_EACH_FROM_THE_LAST = """
f = weft.jit(over_mesh(lambda a: lax.fori_loop(0, 8, lambda i, c: turn(c), a), P("i")))
y, expected = x, np.arange(800.0) / 800
for _ in range(200):
    y = f(y)
for _ in range(1600):
    expected = np.sin(expected)
np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-3, atol=1e-5)
"""

_THREADS = """
eager = over_mesh(lambda a: lax.psum(jnp.sin(a) * a.sum(), "i"), P())
wave = weft.jit(over_mesh(jnp.sin, P("i")))
total = weft.jit(over_mesh(lambda a: lax.psum(a, "i"), P()))
double = weft.jit(over_mesh(lambda a: lax.psum(a * 2, "i"), P()))
blocks = (np.arange(800.0) / 800).reshape(8, 100)
by_hand = (np.sin(blocks) * blocks.sum(1, keepdims=True)).sum(0)
failed = []

def work():
    try:
        for _ in range(20):
            found = eager(x), total(wave(x)), double(x)
            np.testing.assert_allclose(np.asarray(found[0]), by_hand, rtol=1e-4)
            np.testing.assert_allclose(np.asarray(found[1]), np.sin(blocks).sum(0), rtol=1e-4)
            np.testing.assert_allclose(np.asarray(found[2]), 2 * blocks.sum(0), rtol=1e-4)
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed[0]
"""


@pytest.mark.parametrize(
    "program",
    [_NOT_WAITED_FOR, _EACH_FROM_THE_LAST, _THREADS],
    ids=["not_waited_for", "each_from_the_last", "threads"],
)
def test_many_collectives_in_flight_do_not_wait_for_one_another(program):
    """XLA's launch waits where 32 programs run on a device, and the others wait in a collective."""
    assert python_output("-c", f"{_SETTING}{program}\nprint('done')\n") == "done\n"


def test_a_program_whose_arguments_are_gone_leaves_the_next_ones_alone():
    mesh = weft.make_mesh((8,), ("i",))
    around = weft.jit(
        shard_map(
            lambda a: lax.ppermute(a, "i", ROUND), mesh=mesh, in_specs=P("i"), out_specs=P("i")
        )
    )
    x = weft.device_put(jnp.arange(8.0), NamedSharding(mesh, P("i")))
    gone = weft.device_put(jnp.arange(8.0) + 1, NamedSharding(mesh, P("i")))
    for _ in range(20):
        y = around(x)
    gone.delete()
    with pytest.raises(errors.DeletedArrayError):
        around(gone)
    for _ in range(20):
        y = around(y)
    np.testing.assert_array_equal(np.asarray(y), np.roll(np.arange(8.0), 21))


@pytest.mark.parametrize("spec", [P("i"), P()])
@pytest.mark.parametrize("donated", [False, True])
def test_an_array_that_is_gone_is_no_argument_of_a_function_that_does_nothing(spec, donated):
    mesh = weft.make_mesh((8,), ("i",))
    same = shard_map(lambda block: block, mesh=mesh, in_specs=spec, out_specs=spec)
    x = weft.device_put(jnp.arange(8.0), NamedSharding(mesh, spec))
    if donated:
        weft.jit(lambda a: a * 2, donate_argnums=0)(x)
    else:
        x.delete()
    with pytest.raises(errors.DeletedArrayError, match="donated at" if donated else "was deleted"):
        same(x)
