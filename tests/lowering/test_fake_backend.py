"""Staging, caching and dispatch without a device: what is asked of the runtime, counted."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.extend.core import Primitive
from weft.runtime import client
from weft.runtime.backends.fake import FakeBackend


@pytest.fixture
def fake():
    with client.use_backend(FakeBackend()) as backend:
        yield backend


def array(shape=(3,), dtype=np.float32):
    return weft.device_put(np.ones(shape, dtype))


def test_one_program_per_signature(fake):
    f = weft.jit(lambda x, y: x * y + 1.0)
    x = array()
    for _ in range(3):
        f(x, x)
    assert (fake.counts["compiles"], fake.counts["executions"]) == (1, 3)
    f(array((4,)), array((4,)))
    f(x, 2.0)
    assert fake.counts["compiles"] == 3
    f(x, 3.0)
    assert fake.counts["compiles"] == 3


def test_a_call_moves_no_data(fake):
    f = weft.jit(lambda d: d["a"] + d["b"][0])
    args = {"a": array(), "b": [array(), None]}
    f(args)
    before = dict(fake.counts)
    for _ in range(5):
        f(args)
    assert fake.counts["puts"] == before["puts"] and fake.counts["copies"] == before["copies"]
    assert fake.counts["executions"] == before["executions"] + 5


def test_tracing_and_lowering_ask_nothing_of_the_device(fake):
    f = weft.jit(lambda x: jnp.sin(x) * 2.0)
    struct = weft.ShapeDtypeStruct((3,), np.float32)
    weft.make_jaxpr(weft.grad(lambda x: jnp.sum(f(x))))(struct)
    text = f.lower(struct).as_text()
    assert "stablehlo.sine" in text
    assert weft.eval_shape(f, struct).shape == (3,)
    assert set(fake.counts.values()) == {0}


def test_an_eager_operation_compiles_once_per_types(fake):
    # A primitive of its own: the caches of the others outlive this test.
    fresh_p = Primitive("fresh_negative")
    fresh_p.def_abstract_eval(lambda x: x)
    weft.extend.interpreters.mlir.register_lowering(fresh_p, lambda context, x: x)
    x = array()
    for _ in range(4):
        fresh_p.bind(x)
    assert (fake.counts["compiles"], fake.counts["executions"]) == (1, 4)
    fresh_p.bind(array((2, 2)))
    assert fake.counts["compiles"] == 2


def test_transformations_of_a_jitted_function_compile_whole_programs(fake):
    f = weft.jit(lambda x: jnp.sum(jnp.sin(x) * x))
    x = array()
    step = weft.jit(weft.value_and_grad(f))
    for _ in range(3):
        step(x)
    assert (fake.counts["compiles"], fake.counts["executions"]) == (1, 3)
    assert fake.modules[0].count("stablehlo.sine") == 1


def test_settings_and_static_values_compile_anew(fake):
    f = weft.jit(lambda x, n: x * n, static_argnums=1)
    x = array()
    f(x, 2)
    f(x, 2)
    assert fake.counts["compiles"] == 1
    f(x, 3)
    assert fake.counts["compiles"] == 2
    with weft.config.override(enable_x64=True):
        f(x, 3)
    assert fake.counts["compiles"] == 3
    f.clear_cache()
    f(x, 2)
    assert fake.counts["compiles"] == 4


def test_equal_closures_of_one_function_share_the_trace_of_nested_calls(fake):
    inner = weft.jit(lambda x: jnp.sin(x))
    weft.jit(lambda x: inner(inner(inner(x))))(array())
    assert fake.modules[0].count("stablehlo.sine") == 1


def test_a_program_stands_for_itself(fake):
    fake.programs["jit_double"] = lambda x: [x * 2]

    @weft.jit
    def double(x):
        return x + x

    np.testing.assert_array_equal(double(array()), [2.0, 2.0, 2.0])


def test_donated_arrays_are_told_to_the_compiler(fake):
    with pytest.warns(UserWarning, match="not usable"):  # This compiler reuses no memory.
        weft.jit(lambda x, y: (x + y, y), donate_argnums=0)(array(), array())
    assert fake.modules[0].count("jax.buffer_donor = true") == 1


def test_unused_arguments_are_not_passed(fake):
    weft.jit(lambda x, y: x + 1.0)(array(), array((5,)))
    assert "tensor<5xf32>" not in fake.modules[0]
    weft.jit(lambda x, y: x + 1.0, keep_unused=True)(array(), array((5,)))
    assert "tensor<5xf32>" in fake.modules[1]


def test_cond_is_one_operation_of_the_program(fake):
    weft.jit(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(True, array())
    assert fake.modules[0].count("stablehlo.case") == 1 and fake.counts["compiles"] == 1
