"""Primitives whose lowering calls a compiled handler: every transformation, layouts, effects."""

from __future__ import annotations

import numpy as np
import pytest

import ffi_cases
import weft
import weft.numpy as wnp
from ffi_cases import kernels, noted
from ways import WAYS
from weft import errors, ffi, lax
from weft.extend.core import Primitive, define_primitive, type_of
from weft.extend.interpreters import mlir
from weft.extend.interpreters.ad import LinearOperand
from weft.layout import Layout
from weft.sharding import Mesh, NamedSharding, P

pytestmark = pytest.mark.fast
ffi_cases.needs(".c")
LIBRARY = kernels()
MESH = Mesh(np.array(weft.devices()), ("i",))
NUMBERS = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
SCALE = NUMBERS[::-1].copy()


def scaled_type(x, s):
    return x.update(shape=x.shape[:-1])


def scaled_transpose(ct, x, s):
    """Of a product, in which one operand is known: that of the other is where the answer goes."""
    spread = wnp.expand_dims(ct, -1)
    if isinstance(x, LinearOperand):
        return [spread * s, None]
    return [None, spread * x]


scaled = define_primitive(
    "scaled_by_a_handler",
    type_rule=scaled_type,
    lower=ffi.ffi_lowering("ScaledSum"),
    linear=((0,), (1,)),
    transpose=scaled_transpose,
)


@pytest.mark.parametrize("way", WAYS)
def test_a_declared_primitive_has_all_its_derivatives(way):
    x, s = NUMBERS[0], SCALE[0]
    np.testing.assert_allclose(way(scaled)(x, s), (x * s).sum(), rtol=1e-5)
    slopes = way(weft.grad(scaled, (0, 1)))(x, s)
    np.testing.assert_allclose(slopes[0], s, rtol=1e-6)
    np.testing.assert_allclose(slopes[1], x, rtol=1e-6)
    _, tangent = way(lambda *p: weft.jvp(scaled, p, (p[1], p[0])))(x, s)
    np.testing.assert_allclose(tangent, (s * s).sum() + (x * x).sum(), rtol=1e-5)
    mixed = way(weft.jacfwd(weft.grad(scaled), 1))(x, s)
    np.testing.assert_allclose(mixed, np.eye(6), rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_declared_primitive_is_mapped_element_by_element(way):
    with noted() as rows:
        found = way(weft.vmap(scaled, (0, None)))(NUMBERS, SCALE[0])
        np.testing.assert_allclose(found, NUMBERS @ SCALE[0], rtol=1e-5, atol=1e-5)
    assert rows == [1.0] * 8
    slopes = way(weft.vmap(weft.grad(scaled)))(NUMBERS, SCALE)
    np.testing.assert_allclose(slopes, SCALE, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_declared_primitive_over_eight_devices(way):
    wanted = (NUMBERS.astype(np.float64) * SCALE).sum(-1)
    f = weft.shard_map(scaled, mesh=MESH, in_specs=(P("i"), P("i")), out_specs=P("i"))
    with noted() as rows:
        found = weft.block_until_ready(way(f)(NUMBERS, SCALE))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert rows == [1.0] * 8
    loss = weft.shard_map(
        lambda x, s: lax.psum(scaled(x, s).sum(), "i"), mesh=MESH, in_specs=P("i"), out_specs=P()
    )
    slopes = way(weft.grad(loss, (0, 1)))(NUMBERS, SCALE)
    np.testing.assert_allclose(slopes[0], SCALE, rtol=1e-6)
    np.testing.assert_allclose(slopes[1], NUMBERS, rtol=1e-6)
    placed = weft.device_put(NUMBERS, NamedSharding(MESH, P("i")))
    with noted() as rows:  # without shard_map every device has the whole operands
        found = weft.block_until_ready(way(scaled)(placed, SCALE))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert set(rows) == {8.0}


def test_a_primitive_with_rules_by_hand():
    from_outside = Primitive("scaled_sum_of_tests")
    from_outside.def_abstract_eval(scaled_type)
    mlir.register_lowering(from_outside, ffi.ffi_lowering("ScaledSum"))
    for way in (lambda f: f, weft.jit):
        found = way(from_outside.bind)(wnp.asarray(NUMBERS), wnp.asarray(NUMBERS))
        np.testing.assert_allclose(found, (NUMBERS**2).sum(-1), rtol=1e-6)


def primitive(name, type_rule, rule, **declared):
    return define_primitive(name, type_rule=type_rule, lower=rule, **declared)


def test_parameters_are_attributes():
    rule = ffi.ffi_lowering("Describe", backend_config={"b": 2.0})
    describe = primitive("describe", lambda *, size, **_: type_of(np.zeros(size, np.uint8)), rule)
    text = np.asarray(describe(size=200, a=np.int32(1))).tobytes().rstrip(b"\0").decode()
    names = [line.split()[0] for line in text.splitlines()]
    assert names == ["a", "b", "size"]
    with pytest.raises(errors.WeftTypeError, match="attribute 'a'"):
        describe(size=200, a=None)


@pytest.mark.parametrize(
    "given", [(0, 1), Layout((1, 0))], ids=["minor to major, as XLA", "Layout"]
)
def test_layouts_of_a_lowering(given):
    name = f"memory_in_{type(given).__name__}"
    rule = ffi.ffi_lowering("Memory", operand_layouts=[given], result_layouts=[None])
    memory = primitive(name, lambda x: x.update(shape=(x.size,)), rule)
    np.testing.assert_array_equal(memory(NUMBERS), NUMBERS.T.ravel())
    rows = ffi.ffi_lowering("Memory", operand_layouts=[(1, 0)])
    memory = primitive(name + "_rows", lambda x: x.update(shape=(x.size,)), rows)
    np.testing.assert_array_equal(memory(NUMBERS), NUMBERS.ravel())


def test_memory_that_is_shared():
    rule = ffi.ffi_lowering("Twice", operand_output_aliases={0: 0})
    twice = primitive(
        "twice_in_place",
        lambda x: [x, x.update(shape=(), dtype=np.dtype(np.int32))],
        rule,
        multiple_results=True,
    )
    x = wnp.arange(4.0)
    for way in (lambda f: f, weft.jit):
        y, shared = way(twice)(x)
        np.testing.assert_array_equal(y, 2 * np.arange(4))
        assert int(shared) == 1
    np.testing.assert_array_equal(x, np.arange(4))


@pytest.mark.parametrize("way", WAYS)
def test_a_part_of_a_lowering(way):
    """The same handler twice in one rule."""
    call = ffi.build_ffi_lowering_function("Root")

    def lower(context, x):
        return call(context, *call(context, x).results).results

    name = f"fourth_root_{'jit' if way is weft.jit else 'eager'}"
    fourth_root = primitive(name, lambda x: x, lower)
    np.testing.assert_allclose(way(fourth_root)(wnp.full(3, 81.0)), [3, 3, 3], rtol=1e-6)


def test_the_older_interface_in_a_lowering():
    ffi.register_ffi_target("OldScaled in a rule", LIBRARY.OldScaled, api_version=0)
    rule = ffi.ffi_lowering("OldScaled in a rule", api_version=3, backend_config="4")
    np.testing.assert_array_equal(
        primitive("old_scaled", lambda x: x, rule)(wnp.arange(3.0)), [0, 4, 8]
    )
    with pytest.raises(errors.WeftValueError, match="backend_config"):
        ffi.ffi_lowering("OldScaled in a rule", backend_config="4")
    with pytest.raises(errors.WeftValueError, match="no such version"):
        ffi.build_ffi_lowering_function("OldScaled in a rule", api_version=7)
    typed = primitive("old_as_new", lambda x: x, ffi.ffi_lowering("OldScaled in a rule"))
    with pytest.raises(errors.WeftValueError, match="interface before the typed one"):
        typed(wnp.arange(3.0))


def test_a_handler_that_nobody_registered_is_named():
    missing = primitive("missing_handler", lambda x: x, ffi.ffi_lowering("missing"))
    for way in (lambda f: f, weft.jit):
        with pytest.raises(errors.WeftValueError, match="nothing is registered as 'missing'"):
            way(missing)(wnp.ones(2))
