"""Primitives declared as a whole: from a body, or from a type rule and a lowering."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import weft
import weft.lax as lax
import weft.numpy as wnp
from weft.errors import MissingRuleError, ShapeError, WeftTypeError, WeftValueError
from weft.extend.core import Primitive, define_primitive, type_of
from weft.extend.interpreters import ad, mlir
from weft.sharding import PartitionSpec as P
from weft.testing import check_grads, check_jit, check_linearize, check_vmap, exact_array

pytestmark = pytest.mark.fast


@define_primitive("softsign_of_test")
def softsign(x):
    return x / (1.0 + wnp.abs(x))


@define_primitive("moments_of_test", multiple_results=True)
def moments(x, *, axis):
    """Mean and variance along an axis."""
    mean = wnp.mean(x, axis)
    return mean, wnp.mean((x - wnp.expand_dims(mean, axis)) ** 2, axis)


# Three times its operand, from a type rule and a lowering only.
def triple_lower(context, x):
    return mlir.hlo.add(x, mlir.hlo.add(x, x))


def first_type(x, *_):
    return x


triple = define_primitive(
    "triple_of_test",
    type_rule=first_type,
    lower=triple_lower,
    linear=(0,),
    transpose=lambda ct, x: [triple_bind(ct)],
)


def triple_bind(x):
    return triple(x)


product = define_primitive(
    "product_of_test", body=wnp.multiply, linear=((0,), (1,)), elementwise=True
)

A = np.random.default_rng(0).normal(size=(3, 4))
B = np.random.default_rng(1).normal(size=(3, 4))


def double(x):
    return exact_array(x, np.float64)


# ---- from a body -------------------------------------------------------------------------------


def test_the_answer_is_a_primitive_that_can_be_called():
    assert isinstance(softsign, Primitive)
    np.testing.assert_allclose(softsign(A), A / (1 + np.abs(A)), rtol=1e-6)
    np.testing.assert_allclose(softsign.bind(A), weft.jit(softsign)(A), rtol=1e-6)


def test_one_application_is_one_equation_under_jit_and_vmap():
    assert [e.primitive.name for e in weft.make_jaxpr(softsign)(A).eqns] == ["softsign_of_test"]
    mapped = weft.make_jaxpr(weft.vmap(weft.vmap(softsign)))(A)
    assert len(mapped.eqns) == 1
    assert [t.shape for t in mapped.out_avals] == [(3, 4)]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (softsign, (A,)),
        (product, (A, B)),
        (product, (A, np.float64(0.3))),
        (triple, (A,)),
        (lambda x: moments(x, axis=1), (A,)),
    ],
)
def test_every_transformation(function, args):
    args = tuple(map(double, args))
    check_grads(function, args, order=2)
    check_linearize(function, args)
    check_vmap(function, args, limit=8)
    check_jit(function, args)


def test_several_results_with_parameters():
    mean, variance = moments(double(A), axis=1)
    np.testing.assert_allclose(mean, A.mean(1), rtol=1e-14)
    np.testing.assert_allclose(variance, A.var(1), rtol=1e-14)
    assert moments(double(A), axis=0)[0].shape == (4,)
    only_mean = weft.grad(lambda x: moments(x, axis=1)[0].sum())(double(A))
    np.testing.assert_allclose(only_mean, np.full_like(A, 1 / 4))


def test_derivatives_against_closed_forms():
    x = np.array([-2.0, 0.5, 3.0])
    got = weft.vmap(weft.grad(softsign))(double(x))
    np.testing.assert_allclose(got, 1 / (1 + np.abs(x)) ** 2, rtol=1e-14)
    second = weft.vmap(weft.hessian(softsign))(double(x))
    np.testing.assert_allclose(second, -2 * np.sign(x) / (1 + np.abs(x)) ** 3, rtol=1e-13)
    third = weft.vmap(weft.jacfwd(weft.hessian(softsign)))(double(x))
    np.testing.assert_allclose(third, 6 / (1 + np.abs(x)) ** 4, rtol=1e-13)


def test_inside_loops_branches_checkpoint_and_jit():
    x = double(A[0])
    expected = A[0]
    slope = np.ones_like(expected)
    for _ in range(4):
        slope = slope / (1 + np.abs(expected)) ** 2
        expected = expected / (1 + np.abs(expected))

    def looped(x):
        return lax.scan(lambda c, _: (softsign(c), None), x, None, length=4)[0].sum()

    def branched(x):
        y = lax.cond(x[0] < 1e9, softsign, lambda x: -x, x)
        return weft.checkpoint(weft.jit(lambda y: softsign(softsign(softsign(y)))))(y).sum()

    for function in (looped, branched, weft.jit(looped), weft.checkpoint(branched)):
        value, gradient = weft.value_and_grad(function)(x)
        np.testing.assert_allclose(value, expected.sum(), rtol=1e-13)
        np.testing.assert_allclose(gradient, slope, rtol=1e-13)


def test_shard_map_varies_along_the_axes_of_the_operands():
    mesh = weft.make_mesh((8,), ("i",))
    x, w = double(np.arange(8.0)), double(np.array([0.5]))

    def block(x, w):
        out = product(x, w)
        assert type_of(out).varying == {"i"}
        return softsign(out)

    spread = weft.jit(weft.shard_map(block, mesh, (P("i"), P()), P("i")))
    z = np.arange(8.0) * 0.5
    np.testing.assert_allclose(spread(x, w), z / (1 + z), rtol=1e-14)
    gradient = weft.grad(lambda w: spread(x, w).sum())(w)
    np.testing.assert_allclose(gradient, [(np.arange(8.0) / (1 + z) ** 2).sum()], rtol=1e-13)


def test_arrays_that_a_body_closes_over_and_traced_values_that_it_must_not():
    table = np.array([1.0, 10.0, 100.0], np.float32)
    look_up = define_primitive("look_up_of_test", body=lambda i: wnp.asarray(table)[i])
    np.testing.assert_array_equal(look_up(np.array([2, 0])), [100, 1])
    np.testing.assert_array_equal(weft.vmap(look_up)(np.array([2, 0])), [100, 1])

    def leaky(y):
        return define_primitive("leaky_of_test", body=lambda x: x * y)(2.0)

    with pytest.raises(weft.errors.LeakedTracerError) as info:
        weft.jit(leaky)(3.0)
    assert any("leaky_of_test" in note for note in info.value.__notes__)


def test_integers_booleans_and_random_keys_among_the_operands():
    chosen = define_primitive(
        "chosen_of_test", body=lambda flag, n, x: wnp.where(flag, x * n, x), elementwise=True
    )
    flag, n, x = np.array([True, False]), np.array([3, 4], np.int32), np.array([1.5, 2.5])
    np.testing.assert_allclose(chosen(flag, n, x), [4.5, 2.5])
    gradient = weft.grad(lambda x: chosen(flag, n, x).sum())(wnp.asarray(x))
    np.testing.assert_allclose(gradient, [3.0, 1.0])
    _, tangent = weft.jvp(lambda x: chosen(flag, n, x), (x,), (np.ones(2),))
    np.testing.assert_allclose(tangent, [3.0, 1.0])
    noisy = define_primitive(
        "noisy_of_test", body=lambda key, x: x * weft.random.uniform(key, x.shape, x.dtype)
    )
    keys = weft.random.split(weft.random.key(0), 3)
    x = wnp.ones((3, 2))
    rows = [np.asarray(noisy(keys[i], x[i])) for i in range(3)]
    np.testing.assert_allclose(weft.vmap(noisy)(keys, x), np.stack(rows), rtol=1e-6)
    slope = weft.grad(lambda x: noisy(keys[0], x).sum())(x[0])
    np.testing.assert_allclose(slope, rows[0], rtol=1e-6)


def test_the_width_of_numbers_in_a_body_follows_the_settings():
    ramp = define_primitive("ramp_of_test", body=lambda x: wnp.arange(3.0) + x.sum())
    x = exact_array(np.ones(2, np.float32))
    assert ramp(x).dtype == np.float32
    with weft.enable_x64():
        assert ramp(x).dtype == np.float64
        assert weft.jit(ramp)(x).dtype == np.float64
    assert weft.jit(ramp)(x).dtype == np.float32


def test_a_given_rule_goes_before_a_derived_one_and_stays_in_force_under_vmap():
    calls = []

    def jvp(primals, tangents):
        calls.append("jvp")
        (x,), (t,) = primals, tangents
        return ours(x), 7.0 * t

    ours = define_primitive("ours_of_test", body=lambda x: x * x, jvp=jvp)
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(weft.vmap(weft.grad(ours))(x), [7, 7])
    _, tangent = weft.jvp(weft.vmap(ours), (x,), (np.ones(2),))
    np.testing.assert_allclose(tangent, [7, 7])
    both = weft.grad(lambda x: weft.vmap(weft.vmap(ours))(x).sum())(np.ones((2, 2)))
    np.testing.assert_allclose(both, np.full((2, 2), 7))
    assert calls

    later = define_primitive("later_of_test", body=lambda x: x * x)
    ad.register_jvp(later, lambda primals, tangents: (later(*primals), 5.0 * tangents[0]))
    np.testing.assert_allclose(weft.grad(later)(1.0), 5.0)
    np.testing.assert_allclose(weft.jvp(later, (1.0,), (1.0,))[1], 5.0)
    with pytest.raises(WeftValueError, match="already"):
        ad.register_jvp(later, jvp)


def test_a_given_linearize_rule_serves_both_modes():
    def linearize(primals, tangents):
        return ours(*primals), 3.0 * tangents[0]

    ours = define_primitive("linearized_of_test", body=lambda x: x * x, linearize=linearize)
    np.testing.assert_allclose(weft.grad(ours)(1.0), 3.0)
    np.testing.assert_allclose(weft.jvp(ours, (1.0,), (1.0,))[1], 3.0)


def test_a_given_lowering_and_vmap_rule_are_used():
    def vmap(axis, args, dims):
        seen.append(dims)
        return doubled(args[0]), dims[0]

    seen = []
    doubled = define_primitive(
        "doubled_of_test",
        body=lambda x: 2.0 * x,
        lower=lambda context, x: mlir.hlo.add(x, x),
        vmap=vmap,
    )
    assert "stablehlo.add" in weft.jit(doubled).lower(1.0).as_text()
    np.testing.assert_allclose(weft.vmap(doubled, in_axes=1)(A), 2 * A.T, rtol=1e-6)
    assert seen == [(1,)] or seen == [[1]]
    np.testing.assert_allclose(weft.grad(doubled)(1.0), 2.0)


@pytest.mark.parametrize("p", [softsign, triple])
@pytest.mark.parametrize("around", [contextlib.nullcontext, weft.simulate])
def test_eager_shard_map_and_simulate(p, around):
    x = double(np.arange(8.0))
    mesh = weft.make_mesh((4,), ("i",))
    spread = weft.shard_map(lambda x: lax.psum(p(x), "i"), mesh, P("i"), P())
    with around():
        expected = np.asarray(p(x)).reshape(4, 2).sum(0)
        np.testing.assert_allclose(spread(x), expected, rtol=1e-14)
        gradient = weft.grad(lambda x: spread(x).sum())(x)
        np.testing.assert_allclose(gradient, weft.vmap(weft.grad(p))(x), rtol=1e-13)


def test_vmap_laid_out_over_a_mesh_axis():
    mesh = weft.make_mesh((4,), ("i",))
    x = double(np.arange(12.0).reshape(4, 3))
    spread = weft.shard_map(softsign, mesh, P(), P())
    mapped = weft.vmap(spread, spmd_axis_name="i")
    np.testing.assert_allclose(weft.jit(mapped)(x), softsign(x), rtol=1e-14)
    np.testing.assert_allclose(
        weft.grad(lambda x: weft.jit(mapped)(x).sum())(x), 1 / (1 + np.asarray(x)) ** 2, rtol=1e-13
    )


def test_tangents_of_dtype_float0_and_results_without_tangents():
    ranked = define_primitive(
        "ranked_of_test",
        body=lambda x, n: (x * n, wnp.argmax(x), wnp.asarray(n)),
        multiple_results=True,
    )
    n = np.array([2, 3], np.int32)
    x = double(np.array([5.0, 1.0]))
    outs, tangents = weft.jvp(ranked, (x, n), (double(np.ones(2)), np.zeros(2, weft.dtypes.float0)))
    np.testing.assert_allclose(tangents[0], [2.0, 3.0])
    assert [t.dtype for t in tangents[1:]] == [weft.dtypes.float0] * 2
    assert int(outs[1]) == 0
    gradient = weft.vmap(weft.grad(lambda x: ranked(x, n)[0].sum()))(wnp.stack([x, x]))
    np.testing.assert_allclose(gradient, [[2.0, 3.0]] * 2)


def test_a_linear_operand_that_is_not_mapped_collects_its_cotangents():
    x = double(A)
    for p in (product, define_primitive("product_by_loop_of_test", body=wnp.multiply)):

        def mapped(w, p=p):
            return weft.vmap(p, (0, None))(x, w)

        (ct,) = weft.linear_transpose(mapped, double(np.ones(4)))(double(B))
        np.testing.assert_allclose(ct, (A * B).sum(0), rtol=1e-13)
        nested = weft.vmap(weft.grad(lambda w: mapped(w).sum()))(double(B))
        np.testing.assert_allclose(nested, np.broadcast_to(A.sum(0), B.shape), rtol=1e-13)


def test_exported_programs_hold_what_the_primitive_computes():
    exported = weft.export.export(weft.jit(weft.vmap(softsign)))(np.ones(3, np.float32))
    again = weft.export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(np.float32([1, -3, 0])), [0.5, -0.75, 0.0])


def test_a_nan_is_blamed_on_the_primitive():
    logarithm = define_primitive("logarithm_of_test", body=wnp.log)
    with weft.debug_nans(), pytest.raises(weft.errors.NonFiniteError, match="logarithm_of_test"):
        weft.jit(lambda x: logarithm(x) + 1.0)(-1.0)


def test_a_body_is_recorded_once_for_operands_of_one_type():
    calls = []

    @define_primitive("counted_of_test")
    def counted(x):
        calls.append(x.shape)
        return x * x

    x = np.ones(3, np.float32)
    for _ in range(3):
        counted(x)
        weft.jit(lambda x: counted(x) + counted(x))(x)
        weft.grad(lambda x: counted(x).sum())(x)
        weft.vmap(counted)(x[None])
    assert calls == [(3,)]


# ---- from a type rule and a lowering -----------------------------------------------------------


def test_without_a_body_vmap_is_a_loop():
    turned = define_primitive(
        "turned_of_test",
        type_rule=lambda x, y: x.update(shape=x.shape[::-1]),
        lower=lambda context, x, y: mlir.hlo.transpose(
            mlir.hlo.add(x, y), np.array([1, 0], np.int64)
        ),
    )
    x = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
    y = x[0] + 1
    expected = np.stack([(row + y).T for row in x])
    np.testing.assert_allclose(weft.vmap(turned, (0, None))(x, y), expected)
    np.testing.assert_allclose(
        weft.jit(weft.vmap(turned, (2, None), 1))(np.moveaxis(x, 0, 2), y),
        np.moveaxis(expected, 0, 1),
    )
    nested = weft.vmap(weft.vmap(turned, (0, None)), (0, None))(np.stack([x, -x]), y)
    np.testing.assert_allclose(nested[0], expected)
    assert weft.vmap(turned, (0, None))(x[:0], y).shape == (0, 4, 2)
    text = weft.jit(weft.vmap(turned, (0, None))).lower(x, y).as_text()
    assert "stablehlo.while" in text


def test_the_derivative_of_a_linear_primitive_is_itself():
    assert float(weft.jvp(triple, (2.0,), (5.0,))[1]) == 15.0
    assert float(weft.grad(lambda x: triple(triple(x)))(1.0)) == 9.0
    gradient = weft.grad(lambda x: weft.vmap(triple)(x).sum())(np.ones(3))
    np.testing.assert_allclose(gradient, [3, 3, 3])
    assert [np.asarray(x).tolist() for x in weft.linear_transpose(triple, 1.0)(2.0)] == [6.0]


def test_linear_in_some_operands_together_and_in_others_apart():
    difference = define_primitive("difference_of_test", body=lambda x, y: x - y, linear=(0, 1))
    jaxpr = weft.make_jaxpr(lambda x, t: weft.jvp(lambda x: difference(x, 2.0), (x,), (t,))[1])
    names = [e.primitive.name for e in jaxpr(1.0, 1.0).eqns]
    assert names.count("difference_of_test") == 2  # the value and the tangent
    gradient = weft.grad(lambda x, y: difference(x, y) ** 2, argnums=(0, 1))(5.0, 3.0)
    np.testing.assert_allclose(gradient, (4.0, -4.0))
    gradient = weft.grad(lambda x, y: product(x, y), argnums=(0, 1))(5.0, 3.0)
    np.testing.assert_allclose(gradient, (3.0, 5.0))
    with pytest.raises(WeftTypeError, match="not linear"):
        weft.linear_transpose(lambda x: product(x, x), 1.0)(1.0)


def test_elementwise_repeats_operands_without_dimensions():
    axpy = define_primitive(
        "axpy_of_test",
        type_rule=lambda a, x, y: x.update(weak_type=False),
        lower=lambda context, a, x, y: mlir.hlo.add(mlir.hlo.multiply(a, x), y),
        elementwise=True,
    )
    x, y = A.astype(np.float32), B.astype(np.float32)
    np.testing.assert_allclose(axpy(2.0, x, y), 2 * x + y, rtol=1e-6)
    mapped = weft.vmap(axpy, (0, 0, None))(np.arange(3, dtype=np.float32), x, np.float32(1))
    np.testing.assert_allclose(mapped, np.arange(3)[:, None] * x + 1, rtol=1e-6)
    program = weft.make_jaxpr(weft.vmap(axpy, (None, 0, 0)))(np.float32(2), x, y)
    assert [e.primitive.name for e in program.eqns] == ["axpy_of_test"]
    with pytest.raises(ShapeError, match="one shape"):
        axpy(2.0, x, y[:2])


def test_given_derivatives_of_an_elementwise_primitive_may_answer_without_dimensions():
    shifted = define_primitive(
        "shifted_of_test",
        type_rule=lambda x, y: x,
        lower=lambda context, x, y: mlir.hlo.add(x, y),
        elementwise=True,
        jvp=lambda primals, tangents: (
            shifted(*primals),
            ad.add_tangents(*map(repeat_alike, tangents, [primals] * 2)),
        ),
        transpose=lambda ct, x, y: [ct, ct],
    )

    def repeat_alike(tangent, primals):
        return wnp.broadcast_to(
            ad.instantiate(tangent), np.broadcast_shapes(*(p.shape for p in primals))
        )

    gradient = weft.grad(lambda y: shifted(wnp.ones(3), y).sum())(wnp.asarray(1.0))
    np.testing.assert_allclose(gradient, 3.0)
    (ct,) = weft.linear_transpose(lambda y: shifted(np.zeros(3, np.float32), y), np.float32(1))(
        np.ones(3, np.float32)
    )
    assert ct.shape == () and float(ct) == 3.0


def test_a_tangent_in_another_operand_needs_a_rule_and_the_fix_gives_it():
    square = define_primitive(
        "square_of_test", type_rule=lambda x: x, lower=lambda context, x: mlir.hlo.multiply(x, x)
    )
    with pytest.raises(MissingRuleError, match="has no jvp rule") as info:
        weft.grad(square)(3.0)
    assert info.value.fix.data["linear"] == (0,)
    call = info.value.fix.text.split(": ", 1)[1].split(", where")[0]

    def rule(primals, tangents):
        return square(*primals), 2.0 * primals[0] * tangents[0]

    exec(call, {"weft": weft, "primitive": square, "rule": rule})
    assert float(weft.grad(square)(3.0)) == 6.0
    triple_without = define_primitive(
        "triple_without_of_test", type_rule=lambda x: x, lower=triple_lower, linear=(0,)
    )
    assert float(weft.jvp(triple_without, (1.0,), (1.0,))[1]) == 3.0
    with pytest.raises(MissingRuleError, match="has no transpose rule") as info:
        weft.grad(triple_without)(1.0)
    assert "register_transpose" in info.value.fix.text


# ---- bad declarations and bad calls ------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "kind"),
    [
        (lambda: define_primitive("bad", type_rule=first_type), "declare"),
        (lambda: define_primitive("bad", lower=triple_lower), "declare"),
        (lambda: define_primitive(softsign), "name"),
        (lambda: define_primitive("bad", body=3), "function"),
        (lambda: define_primitive("bad", body=abs, jvp=3), "function"),
        (lambda: define_primitive("bad", body=abs, linear=(0, 0)), "linear"),
        (lambda: define_primitive("bad", body=abs, linear=(-1,)), "linear"),
        (lambda: define_primitive("bad", body=abs, linear=((0,), (0,))), "linear"),
        (lambda: define_primitive("bad", body=abs, linear=(0, (1,))), "linear"),
        (lambda: softsign([1.0, 2.0]), "flatten"),
        (lambda: softsign(None), "flatten"),
        (lambda: softsign({"x": 1.0}), "flatten"),
        (lambda: moments(A, axis=[0]), "hashable"),
        (lambda: moments(A, axis=np.array(0)), "positional"),
        (lambda: moments(A, 1), "arguments"),
        (lambda: softsign(A, axis=1), "arguments"),
        (lambda: define_primitive("bad", body=lambda x: (x, x))(1.0), "results"),
        (lambda: define_primitive("bad", body=lambda x: None)(1.0), "results"),
        (lambda: define_primitive("bad", body=abs, multiple_results=True)(1.0), "results"),
        (
            lambda: define_primitive("bad", body=lambda x: [[x]], multiple_results=True)(1.0),
            "results",
        ),
        (lambda: define_primitive("bad", body=printing)(1.0), "effects"),
    ],
)
def test_bad_declarations_and_calls(declare, kind):
    with pytest.raises((WeftTypeError, WeftValueError)) as info:
        declare()
    assert info.value.fix.kind == kind and info.value.wanted
    assert __file__ in info.value.location


def printing(x):
    weft.debug.print("{}", x)
    return x


def test_the_fixes_of_bad_declarations_apply():
    with pytest.raises(WeftTypeError) as info:
        define_primitive("pair_of_test", body=lambda x: (x, x))(1.0)
    fixed = define_primitive("pair_of_test", body=lambda x: (x, x), **info.value.fix.data)
    assert [float(x) for x in fixed(1.0)] == [1.0, 1.0]
    with pytest.raises(WeftTypeError) as info:
        define_primitive("id_of_test", type_rule=first_type)
    missing = {info.value.fix.data["missing"]: lambda context, x: x}
    assert float(define_primitive("id_of_test", type_rule=first_type, **missing)(2.0)) == 2.0


def test_errors_of_a_body_name_the_primitive():
    bad = define_primitive("bad_body_of_test", body=lambda x, y: lax.add(x, y))
    with pytest.raises(ShapeError) as info:
        bad(np.ones(2), np.ones(3))
    assert any("'bad_body_of_test'" in note for note in info.value.__notes__)
    with pytest.raises(weft.errors.UnboundAxisError):
        weft.vmap(define_primitive("axis_of_test", body=lambda x: lax.psum(x, "i")), axis_name="i")(
            np.ones(2)
        )


def test_rules_of_the_batching_helpers_take_parameters_of_any_name():
    odd = define_primitive(
        "odd_names_of_test", body=lambda x, *, axis, dims, args: x * (axis + dims + args)
    )
    mapped = weft.vmap(weft.grad(lambda x: odd(x, axis=1, dims=2, args=3)))
    np.testing.assert_allclose(mapped(np.ones(2)), [6, 6])
