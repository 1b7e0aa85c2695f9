"""Python functions on the host of their arguments' devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import WeftTypeError, WeftValueError
from weft.experimental.colocated_python import (
    colocated_cpu_devices,
    colocated_python,
    colocated_python_class,
)

MESH = weft.make_mesh((8,), ("x",))


def split(x):
    return weft.device_put(x, weft.NamedSharding(MESH, weft.P("x")))


def test_results_lie_where_the_arguments_lie():
    x = split(np.arange(8.0))
    seen = []

    @colocated_python
    def f(x, *, scale):
        seen.append(type(x))
        return {"on": x * 2, "host": np.asarray(x) * np.asarray(scale)}

    found = f(x, scale=split(np.full(8, 3.0)))
    assert seen == [weft.Array]
    assert f.__name__ == "f"
    np.testing.assert_array_equal(found["on"], 2 * np.arange(8))
    np.testing.assert_array_equal(found["host"], 3 * np.arange(8))
    assert found["on"].sharding == found["host"].sharding == x.sharding


def test_specialized():
    x = split(np.arange(8.0))
    f = colocated_python(lambda x: x + 1).specialize(out_specs_fn=lambda x: x)
    np.testing.assert_array_equal(f(x), np.arange(8) + 1)
    with pytest.raises(WeftValueError, match="the results"):
        f.specialize(out_specs_fn=lambda x: weft.ShapeDtypeStruct((4,), x.dtype))(x)
    only = weft.ShapeDtypeStruct((4,), np.float32)
    with pytest.raises(WeftValueError, match="the arguments"):
        f.specialize(in_specs=((only,), {}))(x)


def test_without_arguments():
    done = []
    f = colocated_python(lambda: done.append(1))
    with pytest.raises(WeftValueError, match="told where it runs"):
        f()
    assert f.specialize(devices=colocated_cpu_devices(weft.devices()))() is None
    assert done == [1]
    with pytest.raises(WeftTypeError, match="takes arrays"):
        f(1)


def test_an_instance_is_made_by_the_first_call():
    made = []

    class Total:
        def __init__(self, start):
            made.append(start)
            self.total = start

        def plus(self, x):
            self.total = self.total + x
            return self.total

    total = colocated_python_class(Total)(5)
    assert not made
    one = jnp.ones(2)
    np.testing.assert_array_equal(total.plus(one), [6, 6])
    np.testing.assert_array_equal(total.plus(one), [7, 7])
    assert made == [5]
    with pytest.raises(AttributeError):
        _ = total.missing


def test_several_threads():
    f = colocated_python(lambda x: x * x)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(f, [jnp.arange(3), jnp.arange(3) + 1]))
    np.testing.assert_array_equal(found, [[0, 1, 4], [1, 4, 9]])
