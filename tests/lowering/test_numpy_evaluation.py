"""Small arrays are moved by NumPy: the same bits as by a program, and nothing is compiled."""

from __future__ import annotations

import functools
import gc
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from primitive_examples import examples
from weft import lax
from weft.arrays.conversion import as_array
from weft.core import rules
from weft.core.primitive import Primitive
from weft.core.trace import bottom_trace
from weft.core.types import type_of
from weft.dtypes import is_extended
from weft.extend.interpreters import mlir
from weft.layout import Format, Layout
from weft.lowering import numpy_evaluation
from weft.lowering.executables import FAST_COMPILE_LIMIT
from weft.ops.indexing.slicing import pad_p
from weft.runtime import client

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("young_heap")]


def bits(array):
    return np.asarray(array).tobytes()


def same(got, want):
    assert (got.type, got.signature) == (want.type, want.signature)
    assert bits(got) == bits(want)


@pytest.fixture
def compiled(monkeypatch):
    """What was compiled since; nothing was moved before."""
    weft.clear_caches()
    return counted_compilations(monkeypatch)


# ---- every rule ----------------------------------------------------------------------------------

MOVING = sorted((p for p in rules.on_host), key=lambda p: p.name)


@pytest.mark.parametrize("primitive", MOVING, ids=lambda p: p.name)
def test_a_rule_does_what_the_program_does(primitive, compiled):
    moved = 0
    for applied in examples(primitive.name)[:12]:
        args = [as_array(x) for x in applied.example.args]
        params = applied.example.params
        if any(is_extended(x.type.dtype) for x in args):
            continue
        primitive.eager_cache.clear()
        del compiled[:]
        got = bottom_trace().process_primitive(primitive, args, params)
        if compiled:  # it is too large
            continue
        want = weft.jit(functools.partial(primitive.bind, **params))(*args)
        assert len(compiled) == 1
        if not primitive.multiple_results:
            got, want = [got], [want]
        for of_host, of_program in zip(got, want, strict=True):
            same(of_host, of_program)
        moved += 1
    assert moved


def test_the_primitives_that_have_a_rule():
    names = {p.name for p in MOVING}
    assert names >= {"broadcast_in_dim", "concatenate", "dynamic_slice", "reshape", "rev"}
    assert names >= {"dynamic_update_slice", "pad", "select_n", "slice", "split", "transpose"}


@pytest.mark.parametrize("size", range(5))
def test_padding(size):
    x = np.arange(1, size + 1)
    for low, high, inner in itertools.product(range(-5, 4), range(-5, 4), range(4)):
        length = low + size + max(0, size - 1) * inner + high
        if length < 0:
            continue
        want = np.zeros(length, int)
        for i in range(size):
            if 0 <= low + i * (inner + 1) < length:
                want[low + i * (inner + 1)] = x[i]
        got = rules.on_host[pad_p](x, np.int64(0), padding_config=((low, high, inner),))
        assert got.tolist() == want.tolist(), (low, high, inner)


DTYPES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint32", "float16", "bfloat16", "float32"),
    *("complex64", "int4", "uint4", "float8_e4m3fn"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype, compiled):
    rng = np.random.default_rng(0)
    x = jnp.array(rng.integers(0, 8, (3, 4))).astype(dtype)
    del compiled[:]
    operations = {
        "transpose": lambda x: x.T,
        "reshape": lambda x: x.reshape(2, 6),
        "row": lambda x: x[-1],
        "slices": lambda x: x[::-2, 1:3],
        "joined": lambda x: jnp.concatenate([x, x], axis=1),
        "stacked": lambda x: jnp.stack([x, x]),
        "split": lambda x: jnp.split(x, 2, axis=1)[1],
        "broadcast": lambda x: jnp.broadcast_to(x, (2, 3, 4)),
        "flipped": lambda x: jnp.flip(x, 0),
        "chosen": lambda x: jnp.where(np.arange(4) > 1, x, x[::-1]),
        "padded": lambda x: lax.pad(x, x[1, 1], [(1, -1, 2), (0, 1, 0)]),
    }
    for name, operation in operations.items():
        got = operation(x)
        assert not compiled, name
        np.testing.assert_array_equal(np.asarray(got), operation_of_numpy(name, np.asarray(x)))
        same(got, weft.jit(operation)(x))
        del compiled[:]


def operation_of_numpy(name, x):
    return {
        "transpose": lambda: x.T,
        "reshape": lambda: x.reshape(2, 6),
        "row": lambda: x[-1],
        "slices": lambda: x[::-2, 1:3],
        "joined": lambda: np.concatenate([x, x], axis=1),
        "stacked": lambda: np.stack([x, x]),
        "split": lambda: np.split(x, 2, axis=1)[1],
        "broadcast": lambda: np.broadcast_to(x, (2, 3, 4)),
        "flipped": lambda: np.flip(x, 0),
        "chosen": lambda: np.where(np.arange(4) > 1, x, x[::-1]),
        "padded": lambda: padded(x, x[1, 1]),
    }[name]()


def padded(x, value):
    out = np.full((7, 5), value, x.dtype)
    out[1::3, :4] = x[:2]
    return out


def test_bits_are_kept(compiled):
    odd = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x00000001, 0x7F800001], np.uint32)
    x = jnp.array(odd.view(np.float32))
    assert np.asarray(x[::-1]).view(np.uint32).tolist() == odd[::-1].tolist()
    assert bits(jnp.concatenate([x, x])) == bits(odd) * 2


# ---- random programs -----------------------------------------------------------------------------

STEPS = st.sampled_from(
    [
        lambda x: x.T,
        lambda x: x.reshape(-1),
        lambda x: x[None],
        lambda x: x[..., ::-1] if x.ndim else x,
        lambda x: x[1:] if x.ndim else x,
        lambda x: x[-1] if x.ndim and x.shape[0] else x,
        lambda x: np.stack([x, x]) if isinstance(x, np.ndarray) else jnp.stack([x, x]),
        lambda x: x.reshape(*x.shape, 1),
    ]
)


@given(st.lists(STEPS, max_size=6), st.lists(st.integers(0, 4), max_size=3))
def test_chains_of_movements(steps, shape):
    value = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    x, want = jnp.array(value), value
    for step in steps:
        x, want = step(x), step(want)
    assert x.shape == want.shape
    np.testing.assert_array_equal(np.asarray(x), want)


# ---- when a program does it ----------------------------------------------------------------------


def test_a_loop_over_prefixes_compiles_nothing(compiled):
    x = jnp.arange(60.0)
    parts = [x[:i] for i in range(1, 60)]
    assert not compiled
    assert [p.tolist() for p in parts] == [np.arange(60.0)[:i].tolist() for i in range(1, 60)]


def test_what_comes_often_is_compiled_once(compiled, monkeypatch):
    monkeypatch.setattr(numpy_evaluation, "OFTEN", 5)
    x = jnp.arange(12.0)
    for i in range(12):
        got = x.reshape(3, 4)
        assert len(compiled) == (i > 4)
        same(got, jnp.array(np.arange(12, dtype="float32").reshape(3, 4)))
    for i in range(12):
        assert float(x[i]) == i  # windows of one size share a program
        assert len(compiled) == 1 + (i > 4)
    for i in range(12):
        assert jnp.stack([x, x]).tolist() == [list(range(12))] * 2
        if i != 5:  # the first call may have a program of its own
            assert len(compiled) == 2 + (i > 5)


def test_large_arrays_and_those_put_somewhere_are_left_to_programs(compiled):
    large = jnp.zeros(FAST_COMPILE_LIMIT)
    large.reshape(2, -1)
    assert len(compiled) == 1
    jnp.broadcast_to(jnp.zeros(2), (FAST_COMPILE_LIMIT, 2))
    assert len(compiled) == 2
    placed = weft.device_put(jnp.arange(6.0), weft.devices()[1])
    assert placed.reshape(2, 3).devices() == {weft.devices()[1]} and placed[1:].committed
    del compiled[:]
    sharding = jnp.zeros(1).sharding
    column_major = weft.device_put(jnp.arange(6.0).reshape(2, 3), Format(Layout((1, 0)), sharding))
    del compiled[:]
    assert column_major.T.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert len(compiled) == 1


def test_values_that_are_not_there_yet_are_not_waited_for(compiled, monkeypatch):
    x = jnp.arange(6.0)
    assert x.reshape(2, 3).shape == (2, 3)
    assert not compiled
    monkeypatch.setattr(client.backend(), "is_ready", lambda buffer: False)
    for _ in range(2):
        assert x.reshape(2, 3).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert len(compiled) == 1


def test_results_have_memory_of_their_own():
    weft.clear_caches()
    x = jnp.arange(1024.0)
    parts = [x.reshape(32, 32), x[5:], jnp.broadcast_to(x, (2, 1024)), x[::-1]]
    want = [np.array(part) for part in parts]
    x.delete()
    del x
    gc.collect()
    jnp.full((1024,), 7.0).block_until_ready()
    for part, value in zip(parts, want, strict=True):
        np.testing.assert_array_equal(np.asarray(part), value)


def test_a_deleted_operand(compiled):
    x = jnp.arange(6.0)
    x.delete()
    for move in (lambda: x.reshape(2, 3), lambda: x[1:], lambda: jnp.stack([x, x])):
        with pytest.raises(weft.errors.DeletedArrayError, match=r"float32\[6\]|f32\[6\]"):
            move()


def test_under_transformations():
    x = jnp.arange(6.0)
    got = weft.grad(lambda x: (x.reshape(2, 3).T[1] * jnp.array([2.0, 3.0])).sum())(x)
    assert got.tolist() == [0, 2, 0, 0, 3, 0]
    assert weft.vmap(lambda r: r[::-1])(x.reshape(2, 3)).tolist() == [[2, 1, 0], [5, 4, 3]]


def test_keys_are_moved_by_programs():
    keys = weft.random.split(weft.random.key(0), 6)
    for _ in range(2):  # a function made before goes straight to its program
        again = keys.reshape(2, 3)[1]
        assert weft.random.key_data(again).tolist() == weft.random.key_data(keys)[3:].tolist()


def test_with_results_looked_at(compiled):
    with weft.debug_nans(True):
        assert jnp.arange(6.0).reshape(2, 3)[1].tolist() == [3, 4, 5]
        with pytest.raises(FloatingPointError):
            jnp.array([0.0]).reshape(1, 1) / 0.0 - jnp.array([jnp.inf])


# ---- a primitive of one's own --------------------------------------------------------------------


def test_a_rule_of_ones_own(compiled, monkeypatch):
    monkeypatch.setattr(numpy_evaluation, "OFTEN", 1)
    doubled_p = Primitive("rows_twice")
    doubled_p.def_abstract_eval(lambda x: x.update(shape=(2 * x.shape[0], *x.shape[1:])))
    mlir.register_on_host(doubled_p, lambda x: np.concatenate([x, x]))
    mlir.register_lowering(doubled_p, lambda ctx, x: mlir.builders.concatenate([x, x], 0))
    x = jnp.array([[1, 2]])
    del compiled[:]
    first = doubled_p.bind(x)
    assert not compiled and first.tolist() == [[1, 2], [1, 2]]
    same(doubled_p.bind(x), first)
    assert len(compiled) == 1


def test_types_of_results(compiled):
    weak = lax.reshape(jnp.asarray(2.0), (1, 1))
    assert type_of(weak).weak_type is type_of(jnp.asarray(2.0)).weak_type
    assert not compiled
