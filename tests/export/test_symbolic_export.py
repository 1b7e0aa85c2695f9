"""Export for sizes that are not known yet: one program for all, with its derivatives, as bytes."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from processes import python_output
from weft import export, lax, nn
from weft.errors import (
    InconclusiveDimensionOperation,
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftValueError,
)


def exported(function, *specs, constraints=(), dtype="float32"):
    scope = export.SymbolicScope(constraints)
    shapes = [export.symbolic_shape(spec, scope=scope) for spec in specs]
    return export.export(weft.jit(function))(*[weft.ShapeDtypeStruct(s, dtype) for s in shapes])


def random(*shape):
    return np.random.default_rng(0).uniform(0.1, 1, shape).astype(np.float32)


# Function, shapes of the arguments, types of the results, sizes to call it with.
PROGRAMS = {
    "shapes": (
        lambda x: (x.sum(0), jnp.concatenate([x, x]), x.reshape(-1)),
        ["n, 3"],
        "(f32[3], f32[2*n,3], f32[3*n])",
        [(4, 3), (1, 3), (500, 3)],
    ),
    "statistics": (
        lambda x: jnp.std(x, axis=0) / jnp.sqrt(x.shape[0]),
        ["n, m"],
        "(f32[m],)",
        [(4, 3), (1, 1), (60, 2)],
    ),
    "attention": (
        lambda x: nn.softmax(x @ x.T / jnp.sqrt(x.shape[-1])),
        ["n, d"],
        "(f32[n,n],)",
        [(4, 3), (1, 2)],
    ),
    "images": (
        lambda x: x.reshape(x.shape[0], -1).mean(1),
        ["b, h, w, 3"],
        "(f32[b],)",
        [(4, 3, 2, 3), (1, 1, 1, 3)],
    ),
    "strides": (lambda x: x[::2], ["n"], "(f32[n - floordiv(n, 2)],)", [(4,), (5,), (1,)]),
    "arange": (lambda x: jnp.arange(x.shape[0]) * x, ["n"], "(f32[n],)", [(4,), (1,)]),
    "scan": (
        lambda x: lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1],
        ["n"],
        "(f32[n],)",
        [(4,), (100,)],
    ),
    "fori_loop": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i], 0.0),
        ["n"],
        "(f32[],)",
        [(4,), (100,)],
    ),
    "split": (lambda x: x.reshape(2, -1), ["2*n"], "(f32[2,n],)", [(4,), (100,)]),
    "sort": (lambda x: jnp.sort(x)[::-1], ["n"], "(f32[n],)", [(4,), (100,)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_all_sizes(name):
    function, specs, types, shapes = PROGRAMS[name]
    found = exported(function, *specs)
    assert str(found.out_avals) == types
    again = export.deserialize(found.serialize())
    assert str(again.out_avals) == types and str(again.in_avals) == str(found.in_avals)
    for shape in shapes:
        x = random(*shape)
        wanted = weft.jit(function)(x)
        for one in (found, again):
            pairs = zip(weft.tree.leaves(one.call(x)), weft.tree.leaves(wanted), strict=True)
            for own, other in pairs:
                np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-6)


def test_sizes_of_several_arguments_fit_together():
    found = exported(lambda x, y: jnp.tanh(x @ y), "b, n", "n, 8")
    assert repr(found) == "<Exported <lambda>: (f32[b,n], f32[n,8]) -> (f32[b,8]) on cpu>"
    x, y = random(2, 3), random(3, 8)
    np.testing.assert_allclose(found.call(x, y), np.tanh(x @ y), rtol=1e-5)
    with pytest.raises(ShapeError, match=r"y.shape\[0\] does not fit"):
        found.call(x, random(4, 8))
    with pytest.raises(ShapeError, match=r"y.shape\[1\] does not fit"):
        found.call(x, random(3, 7))
    with pytest.raises(ShapeError, match="another rank"):
        found.call(random(3), y)
    with pytest.raises(TreeError):
        found.call(x)
    with pytest.raises(WeftValueError, match="do not follow from shapes"):
        exported(lambda x: x, "2*n").call(random(3))


def test_constraints_are_checked_when_it_is_called():
    found = exported(lambda x, y: x.sum() + y, "n", "m", constraints=["n >= m", "m <= 6"])
    np.testing.assert_allclose(found.call(np.ones(4), np.ones(3)), np.full(3, 5.0))
    for n, m in ((3, 4), (9, 7)):
        with pytest.raises(WeftValueError, match="do not match the symbolic shape constraint"):
            found.call(random(n), random(m))


def test_derivatives_are_exported_for_the_same_sizes():
    found = exported(lambda x: (x**3).mean(), "n")
    again = export.deserialize(found.serialize(vjp_order=2))
    x = np.float32([1, 2, 3, 4])
    for one in (found, again):
        assert one.has_vjp() and str(one.vjp().in_avals) == "(f32[n], f32[])"
        np.testing.assert_allclose(weft.grad(one.call)(x), 3 * x**2 / 4, rtol=1e-6)
        np.testing.assert_allclose(weft.jit(weft.grad(one.call))(x[:2]), 3 * x[:2] ** 2 / 2)
        second = weft.grad(lambda x, one=one: weft.grad(one.call)(x).sum())(x)
        np.testing.assert_allclose(second, 6 * x / 4, rtol=1e-6)
        np.testing.assert_allclose(weft.vmap(one.call)(np.ones((3, 4), np.float32)), np.ones(3))
    with pytest.raises(WeftValueError, match="has no derivative"):
        export.deserialize(found.serialize()).vjp()


def test_another_process_calls_it(tmp_path):
    file = tmp_path / "program"
    file.write_bytes(exported(lambda x: 2.0 * x[:-1], "n + 1", constraints=["n >= 2"]).serialize())
    program = (
        "import numpy as np\nfrom weft import export\n"
        f"found = export.deserialize(open({str(file)!r}, 'rb').read())\n"
        "print(found, found.call(np.ones(4, 'float32')))"
    )
    wanted = "<Exported <lambda>: (f32[n + 1]) -> (f32[n]) on cpu> [2. 2. 2.]\n"
    assert python_output("-c", program) == wanted


def test_programs_that_depend_on_sizes_are_refused():
    with pytest.raises(InconclusiveDimensionOperation, match="depends on the sizes"):
        exported(lambda x: x * 2 if x.shape[0] % 2 else x, "n")
    with pytest.raises(InconclusiveDimensionOperation, match="depends on the sizes"):
        exported(lambda x: x + np.arange(x.shape[0], dtype=np.float32) ** 2, "n")
    # Where sizes are special, it is refused for these.
    small = exported(lambda x: x * 2 if x.shape[0] > 2 else x, "n")
    np.testing.assert_allclose(small.call(np.ones(3, np.float32)), 2 * np.ones(3))
    with pytest.raises(WeftValueError, match="another program where n is 2"):
        small.call(np.ones(2, np.float32))
    large = exported(lambda x: x * 2 if x.shape[0] > 500 else x, "n")
    np.testing.assert_allclose(large.call(np.ones(3, np.float32)), np.ones(3))
    with pytest.raises(WeftValueError, match="another program where n is 600"):
        large.call(np.ones(600, np.float32))


def test_what_cannot_be_exported_says_so():
    one, other = export.symbolic_shape("n"), export.symbolic_shape("n")
    structs = [weft.ShapeDtypeStruct(shape, "float32") for shape in (one, other)]
    with pytest.raises(WeftValueError, match="of one scope"):
        export.export(weft.jit(jnp.add))(*structs)
    mesh = weft.make_mesh((2,), ("x",), devices=weft.devices()[:2])
    split = weft.jit(lambda x: x, in_shardings=weft.NamedSharding(mesh, weft.P("x")))
    (n,) = export.symbolic_shape("2*n")
    with pytest.raises(WeftNotImplementedError, match="several devices"):
        export.export(split)(weft.ShapeDtypeStruct((n,), "float32"))


def test_names_of_jax_export():
    found = exported(lambda x: x, "n")
    assert found.calling_convention_version == export.maximum_supported_calling_convention_version
    assert export.minimum_supported_calling_convention_version <= 10
    assert export.default_export_platform() == found.platforms[0]
    assert (found.module_kept_var_idx, found.uses_global_constants) == ((0,), False)
    assert (found.ordered_effects, found.unordered_effects) == ((), ())
    assert found.mlir_module_serialized and "stablehlo" not in found.fun_name
    mesh = weft.make_mesh((1,), ("x",), devices=weft.devices()[:1])
    assert found.in_shardings_jax(mesh) == found.out_shardings_jax(mesh) == (None,)


def test_numbers_that_are_made_of_sizes():
    def f(x):
        n = x.shape[0]
        return jnp.array(n) + x, n - np.arange(3, dtype=np.int32), 5.0 + n, jnp.array(x.shape)

    exported = export.export(weft.jit(f))(
        weft.ShapeDtypeStruct(export.symbolic_shape("b, 2"), np.int32)
    )
    for size in (2, 3, 7):
        found = exported.call(np.zeros((size, 2), np.int32))
        np.testing.assert_array_equal(found[0], np.full((size, 2), size))
        np.testing.assert_array_equal(found[1], size - np.arange(3))
        assert found[2] == size + 5.0
        np.testing.assert_array_equal(found[3], [size, 2])


def test_the_derivative_by_sizes():
    f = weft.jit(lambda x: jnp.sum(x * x) / jnp.array(x.shape[0]))
    exported = export.export(f)(weft.ShapeDtypeStruct(export.symbolic_shape("b"), np.float32))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(weft.grad(exported.call)(x), 2 * x / 4)


def test_the_version_of_the_calling_convention_is_kept():
    setting = "jax_export_calling_convention_version"
    with weft.config.override(**{setting: 9}):
        found = export.export(weft.jit(jnp.sin))(np.float32(1.0))
    assert found.calling_convention_version == 9
    assert export.deserialize(found.serialize()).calling_convention_version == 9
    with weft.config.override(**{setting: 8}), pytest.raises(WeftValueError, match="version 8"):
        export.export(weft.jit(jnp.sin))(np.float32(1.0))
