"""`platform_dependent`: the function of the platform that a program is compiled for."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import WeftNotImplementedError, WeftTypeError


def chosen(x):
    return lax.platform_dependent(x, cpu=lambda x: x * x, default=lambda x: x)


def test_the_platform_chooses():
    assert float(chosen(3.0)) == 9.0 and float(weft.jit(chosen)(3.0)) == 9.0

    def other(x):
        return lax.platform_dependent(x, cuda=lambda x: x * x, default=lambda x: -x)

    assert float(other(3.0)) == -3.0
    assert float(weft.jit(lambda x: lax.platform_dependent(x, cpu=jnp.sin))(0.0)) == 0.0


def test_it_is_transformed_as_a_conditional():
    x = jnp.arange(3.0)
    assert float(weft.grad(chosen)(3.0)) == 6.0 and float(weft.jit(weft.grad(chosen))(3.0)) == 6.0
    np.testing.assert_array_equal(weft.vmap(chosen)(x), x * x)
    np.testing.assert_array_equal(weft.vmap(weft.grad(chosen))(x), 2 * x)
    looped = lax.scan(lambda c, v: (c + chosen(v), None), 0.0, x)[0]
    assert float(looped) == 5.0


def test_only_one_branch_is_in_the_program():
    # A call that this machine cannot make may stand in the branch of another platform.
    def foreign(x):
        return weft.ffi.ffi_call("is_not_there", weft.ShapeDtypeStruct(x.shape, x.dtype))(x)

    f = weft.jit(lambda x: lax.platform_dependent(x, cuda=foreign, default=lambda x: x + 1))
    text = f.lower(1.0).as_text()
    assert "is_not_there" not in text and "case" not in text
    assert float(f(1.0)) == 2.0


def test_what_is_missing_is_said_when_it_is_compiled():
    f = weft.jit(lambda x: lax.platform_dependent(x, tpu=lambda x: x))
    f.trace(1.0)
    with pytest.raises(WeftNotImplementedError, match="no function for the platform 'cpu'"):
        f(1.0)
    with pytest.raises(WeftTypeError, match="at least one function"):
        lax.platform_dependent(1.0)
    with pytest.raises(WeftTypeError, match="different types"):
        lax.platform_dependent(1.0, cpu=lambda x: x, default=lambda x: x > 0)
