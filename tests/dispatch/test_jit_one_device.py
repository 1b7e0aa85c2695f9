"""`in_shardings` and `out_shardings` of jit, for one device each."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import TreeError, WeftTypeError, WeftValueError
from weft.sharding import SingleDeviceSharding


def devices():
    return weft.devices()[:3]


def test_arguments_are_taken_to_their_device_and_results_stay_there():
    _, second, _ = devices()
    f = weft.jit(lambda x: x + 1, in_shardings=SingleDeviceSharding(second))
    y = f(jnp.ones(3))
    assert y.device == second and y.committed
    np.testing.assert_array_equal(y, [2, 2, 2])
    assert f(1.0).device == second


def test_results_go_where_out_shardings_say():
    first, second, third = devices()
    f = weft.jit(lambda x: {"a": x + 1, "b": x * 2}, out_shardings={"a": second, "b": third})
    out = f(jnp.ones(2))
    assert out["a"].device == second and out["b"].device == third
    np.testing.assert_array_equal(out["b"], [2, 2])
    both = weft.jit(lambda x: (x, x), in_shardings=(second,), out_shardings=first)(jnp.ones(2))
    assert {x.device for x in both} == {first}


def test_prefixes_none_static_arguments_and_the_decorator_form():
    _, second, _ = devices()

    @weft.jit(static_argnums=1, in_shardings=({"w": second, "b": None},))
    def f(p, n):
        return p["w"] * n + p["b"]

    out = f({"w": jnp.ones(2), "b": jnp.ones(2)}, 3)
    assert out.device == second
    np.testing.assert_array_equal(out, [4, 4])


def test_an_argument_that_was_put_elsewhere_is_refused_and_the_fix_works():
    first, second, _ = devices()
    f = weft.jit(lambda x: x + 1, in_shardings=second)
    x = weft.device_put(jnp.ones(2), first)
    with pytest.raises(WeftValueError, match="another device") as caught:
        f(x)
    assert f(weft.device_put(x, caught.value.fix.data["device"])).device == second


@pytest.mark.parametrize("what", ["in_shardings", "out_shardings"])
def test_what_is_no_place_is_refused_at_once(what):
    with pytest.raises(WeftTypeError, match=what):
        weft.jit(lambda x: x, **{what: "cpu:0"})


def test_prefixes_that_do_not_fit_are_refused():
    first, *_ = devices()
    with pytest.raises(TreeError, match="in_shardings"):
        weft.jit(lambda x: x, in_shardings=(first, first))(1.0)
    with pytest.raises(TreeError, match="out_shardings"):
        weft.jit(lambda x: x, out_shardings={"a": first})(1.0)


def test_under_a_transformation():
    _, second, _ = devices()
    f = weft.jit(lambda x: x * x, in_shardings=second)
    assert float(weft.grad(f)(3.0)) == 6.0 and weft.grad(f)(3.0).device == second
    inner = weft.jit(weft.grad(lambda x: x * x), in_shardings=second)
    assert float(inner(3.0)) == 6.0
