"""What programs tell the compiler besides operations: pairs of equal shardings, and metadata."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import ShapeError, TreeError, WeftTypeError
from weft.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from weft.experimental.shard_alike import shard_alike
from weft.experimental.xla_metadata import set_xla_metadata
from weft.sharding import NamedSharding, P

# ---- shard_alike -------------------------------------------------------------------------------


def rows():
    return NamedSharding(weft.make_mesh((8,), ("i",)), P("i"))


def test_the_compiler_splits_both_values_in_one_way():
    @weft.jit
    def f(x):
        return shard_alike(x * 2, lax.fori_loop(0, 3, lambda i, c: c + 1, jnp.zeros(8)))

    x, y = f(weft.device_put(jnp.arange(8.0), rows()))
    assert x.sharding == y.sharding == rows()
    np.testing.assert_array_equal(y, np.full(8, 3.0))


def test_cotangents_are_split_alike_and_rows_moved_together():
    x = weft.device_put(jnp.arange(8.0), rows())
    slope = weft.grad(lambda x: jnp.sum(jnp.sin(shard_alike(x, x * x)[1])))
    np.testing.assert_allclose(slope(x), 2 * np.arange(8) * np.cos(np.arange(8.0) ** 2), rtol=1e-5)
    both = weft.grad(lambda x, y: jnp.vdot(*shard_alike(x, y)), (0, 1))
    assert weft.jit(both).lower(x, x).as_text().count("sdy.sharding_group") == 4
    mapped = weft.vmap(shard_alike, in_axes=(0, None))(jnp.ones((3, 2)), jnp.ones(2))
    assert [y.shape for y in mapped] == [(3, 2)] * 2
    tangents = weft.jvp(shard_alike, (1.0, 2.0), (3.0, 4.0))[1]
    assert tuple(map(float, tangents)) == (3.0, 4.0)


def test_outside_of_a_program_the_second_array_is_moved():
    x = weft.device_put(jnp.arange(8.0), rows())
    _, y = shard_alike({"a": x}, {"a": jnp.ones(8)})
    assert y["a"].sharding == rows()
    with pytest.raises(TreeError, match="structures"):
        shard_alike({"a": x}, [x])
    with pytest.raises(ShapeError, match="shapes"):
        shard_alike(x, jnp.ones(3))


# ---- metadata ----------------------------------------------------------------------------------


def marked_lines(function, *args):
    """The operations of a function that carry metadata, each with what it carries."""
    pattern = r'(?:stablehlo\.|func\.)?"?(\w+)"?[ (].*frontend_attributes = \{(.*?)\}'
    text = weft.jit(function).lower(*args).as_text()
    found = (re.search(r"= " + pattern, line) for line in text.splitlines())
    return [(m[1], m[2].replace('"', "")) for m in found if m]


def test_operations_carry_the_metadata_of_the_blocks_around_them():
    def f(x):
        with set_xla_metadata(a="b", n=3, t=True):
            with set_xla_metadata(a="c", n=None):
                x = jnp.sin(x)
            x = jnp.cos(x)
        return jnp.exp(x)

    assert marked_lines(f, 1.0) == [
        ("sine", "a = c, t = true"),
        ("cosine", "a = b, n = 3, t = true"),
    ]


def test_metadata_goes_with_derivatives_loops_and_functions_inside():
    inner = weft.jit(lambda x: jnp.sin(x))

    def f(x):
        y = inner(x)
        with set_xla_metadata(a="b"):
            y = y + inner(x)
            return lax.scan(lambda c, _: (jnp.cos(c), None), y, None, 2)[0]

    names = [name for name, _ in marked_lines(f, 1.0)]
    assert {"sine", "cosine", "call", "add"} <= set(names)
    assert names.count("sine") == 1  # the function that is called outside has none

    def sine(x):
        return set_xla_metadata(a="b")(jnp.sin)(x)

    assert ("cosine", "a = b") in marked_lines(weft.grad(sine), 1.0)
    assert ("sine", "a = b") in marked_lines(weft.vmap(sine), jnp.ones(2))


def test_a_program_is_compiled_anew_for_other_metadata():
    f = weft.jit(lambda x: x + 1.0)
    assert "frontend" not in f.lower(1.0).as_text()
    with set_xla_metadata(a="b"):
        assert "frontend" in f.lower(1.0).as_text() and float(f(1.0)) == 2.0
        with weft.named_scope("named"):
            assert marked_lines(lambda x: jnp.sin(x), 1.0) == [("sine", "a = b")]
    assert "frontend" not in f.lower(1.0).as_text()


def test_a_decorated_function_has_its_methods():
    f = set_xla_metadata(a="b")(weft.jit(lambda x: jnp.sin(x)))
    assert 'a = "b"' in f.lower(1.0).as_text()
    np.testing.assert_allclose(f(1.0), np.sin(1.0), rtol=1e-6)


def test_the_operation_that_computes_a_value_carries_metadata():
    def f(x):
        tree = set_xla_metadata({"u": jnp.sin(x), "v": [x]}, a="b")
        return set_xla_metadata(tree["u"], a="c", d="e") + tree["v"][0]

    assert marked_lines(f, 1.0) == [("sine", "a = b, d = e")]
    np.testing.assert_allclose(weft.grad(f)(1.0), np.cos(1.0) + 1.0, rtol=1e-6)
    np.testing.assert_allclose(weft.vmap(f)(jnp.ones(2)), np.sin([1.0, 1.0]) + 1.0, rtol=1e-6)


def test_functions_that_are_called_with_metadata():
    @scheduling_group("first")
    def f(x, y=2.0):
        return jnp.sin(x) * y

    assert marked_lines(f, 1.0) == [("call", "scheduling_group = first")]
    slope = weft.grad(lambda x: f(x, y=3.0))
    assert len(marked_lines(slope, 1.0)) == 2
    np.testing.assert_allclose(slope(1.0), 3 * np.cos(1.0), rtol=1e-6)
    assert f(jnp.ones(3)).shape == weft.vmap(f)(jnp.ones(3)).shape == (3,)
    np.testing.assert_allclose(weft.hessian(f)(1.0), -2 * np.sin(1.0), rtol=1e-6)
    with pytest.raises(WeftTypeError, match="texts"):
        xla_metadata_call(f, group=3)
