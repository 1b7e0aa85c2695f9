"""`composite`, and what `vjp` keeps of a function."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import ad_checkpoint, lax
from weft.errors import WeftTypeError, WeftValueError

X = jnp.array([0.5, 1.0])


@functools.partial(lax.composite, name="my.scaled", version=3)
def scaled(x, *, factor=1.0, table=None):
    return jnp.sin(x) * factor


def test_the_program_has_the_name_and_its_decomposition():
    text = weft.jit(lambda x: scaled(x, factor=2.0, table=np.array([1, 2]))).lower(X).as_text()
    assert 'stablehlo.composite "my.scaled"' in text and "version = 3" in text
    assert "factor = 2.000000e+00" in text and "table = dense<[1, 2]>" in text
    assert "func.func private @my.scaled" in text and "stablehlo.sine" in text


def test_values_and_transformations_are_those_of_the_decomposition():
    np.testing.assert_allclose(scaled(X, factor=2.0), 2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(weft.jit(scaled)(X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(weft.grad(scaled))(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(weft.jvp(scaled, (X,), (X,))[1], np.cos(X) * X, rtol=1e-6)

    def looped(x):
        return lax.scan(lambda c, _: (scaled(c), None), x, None, length=2)[0]

    wanted = np.cos(np.sin(0.5)) * np.cos(0.5)
    np.testing.assert_allclose(weft.jit(weft.grad(looped))(0.5), wanted, rtol=1e-6)
    linear = lax.composite(lambda x: 3.0 * x, "my.linear")
    assert float(weft.linear_transpose(linear, 1.0)(2.0)[0]) == 6.0


def test_trees_closed_over_values_and_attributes():
    def f(a, x):
        pair = lax.composite(lambda t: {"y": t["x"] * a}, "my.pair")({"x": x})
        return pair["y"]

    assert float(weft.jit(f)(2.0, 3.0)) == 6.0 and float(weft.grad(f)(2.0, 3.0)) == 3.0
    nested = lax.composite(lambda x, *, a: x, "my.nested")
    text = weft.jit(lambda x: nested(x, a={"k": [1, "t", True]})).lower(1.0).as_text()
    assert 'k = [1, "t", true]' in text
    with pytest.raises(WeftTypeError, match="cannot be an attribute"):
        nested(1.0, a=object())
    with pytest.raises(WeftValueError, match="name"):
        lax.composite(lambda x: x, "no name")


# ---- what is saved -------------------------------------------------------------------------------


def saved(f, *args, **kwargs):
    return [f"{of} {where.split(' from /')[0]}" for of, where in
            ad_checkpoint.saved_residuals(f, *args, **kwargs)]  # fmt: skip


def test_what_is_saved_is_told_with_its_origin(capsys):
    def f(x, y):
        return jnp.tanh(jnp.sin(x) * y)

    found = saved(f, X, y=X)
    assert "f32[2] from the argument y" in found and "f32[2] output of cos" in found
    assert saved(weft.checkpoint(f), X, X) == [
        "f32[2] from the argument x",
        "f32[2] from the argument y",
    ]
    named = weft.checkpoint(
        lambda x: jnp.sin(ad_checkpoint.checkpoint_name(jnp.sin(x), "inner")),
        policy=weft.checkpoint_policies.save_only_these_names("inner"),
    )
    assert "f32[2] named 'inner'" in saved(named, X) and saved(lambda x: x + 1.0, X) == []
    ad_checkpoint.print_saved_residuals(weft.jit(f), X, X)
    assert "output of cos" in capsys.readouterr().out


def test_policies_may_answer_by_name():
    def policy(answer):
        return lambda primitive, *types, **params: answer if primitive.name == "sin" else False

    def f(x):
        return jnp.sin(jnp.sin(x))

    keeping = weft.checkpoint(f, policy=policy(ad_checkpoint.Saveable))
    again = weft.checkpoint(f, policy=policy(ad_checkpoint.Recompute))
    assert len(saved(keeping, X)) == len(saved(again, X)) + 1
    moved = policy(ad_checkpoint.Offloadable("device", "pinned_host"))
    assert len(saved(weft.checkpoint(f, policy=moved), X)) == len(saved(keeping, X))
