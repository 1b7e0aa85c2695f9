"""Primitives with rules in JAX's protocol, under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.define.for_jax.rule_mappings import dce_rules
from weft.errors import MissingRuleError, WeftNotImplementedError
from weft.extend.core import (
    ArrayType,
    DropVar,
    UncheckedPrimitive,
    Var,
    eval_jaxpr,
    new_jaxpr_eqn,
    primitives,
)
from weft.extend.interpreters import ad, batching, mlir, partial_eval
from weft.interpreters.jvp import DualTracer
from weft.testing import check_grads, check_jit, check_vmap

X = np.array([0.5, 1.5, -2.0], "float32")
Y = np.array([2.0, -1.0, 3.0], "float32")


def made(name, impl, multiple_results=False):
    """A primitive with all rules but derivatives, from a function."""
    primitive = UncheckedPrimitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_impl(impl)
    primitive.def_abstract_eval(
        lambda *types, **params: (
            [weft.eval_shape(impl, *map(struct, types), **params)][0]
            if not multiple_results
            else list(weft.eval_shape(impl, *map(struct, types), **params))
        )
    )
    mlir.set_lowering(primitive, mlir.lower_fun(impl, multiple_results=multiple_results))
    return primitive


def struct(of):
    return weft.ShapeDtypeStruct(of.shape, of.dtype, weak_type=of.weak_type)


# ---- one result: x * y + x * x, with every rule ------------------------------------------------

product_p = made("product_for_test", lambda x, y: x * y)
seen = []


def product_jvp(primals, tangents):
    assert type(primals) is tuple and type(tangents) is tuple
    (x, y), (s, t) = primals, tangents
    seen.append((type(s) is ad.Zero, type(t) is ad.Zero))
    out = product_p.bind(x, y)
    parts = [product_p.bind(s, y)] if type(s) is not ad.Zero else []
    parts += [product_p.bind(x, t)] if type(t) is not ad.Zero else []
    return out, sum(parts[1:], parts[0])


def product_transpose(ct, x, y):
    if ad.is_undefined_primal(x):
        assert type(x) is ad.UndefinedPrimal and x.aval.shape == ct.shape
        return product_p.bind(ct, y), None
    return None, product_p.bind(x, ct)


def product_batch(args, dims):
    size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
    x, y = (batching.bdim_at_front(v, d, size) for v, d in zip(args, dims, strict=True))
    return product_p.bind(x, y), 0


ad.primitive_jvps[product_p] = product_jvp
ad.primitive_transposes[product_p] = product_transpose
batching.primitive_batchers[product_p] = product_batch


def product(x, y):
    return product_p.bind(x, y)


def test_every_transformation_of_a_primitive_with_rules_of_jax():
    np.testing.assert_allclose(product(X, Y), X * Y)
    check_jit(product, (X, Y))
    check_vmap(product, (X, Y))
    check_grads(product, (X, Y), order=2)
    grad = weft.vmap(weft.grad(lambda x, y: product(x, product(x, y))))
    np.testing.assert_allclose(weft.jit(grad)(X, Y), 2 * X * Y, rtol=1e-6)


def test_zeros_come_as_objects():
    seen.clear()
    weft.jvp(lambda x: product(x, Y), (X,), (X,))
    weft.jvp(lambda y: product(X, y), (Y,), (Y,))
    assert seen == [(False, True), (True, False)]


def test_loops_and_branches_hold_such_primitives():
    def f(x):
        carry, _ = lax.scan(lambda c, y: (product(c, y), None), x, jnp.asarray(Y))
        return lax.cond(carry[0] > 0, lambda c: product(c, c), lambda c: product(c, x), carry)

    check_grads(f, (X,), order=1)
    np.testing.assert_allclose(weft.checkpoint(f)(X), f(X), rtol=1e-6)
    np.testing.assert_allclose(
        weft.grad(lambda x: weft.checkpoint(f)(x).sum())(X),
        weft.grad(lambda x: f(x).sum())(X),
        rtol=1e-6,
    )


# ---- several results ---------------------------------------------------------------------------

pair_p = made("pair_for_test", lambda x, *, n: (x * n, x + n), multiple_results=True)


def pair_jvp(primals, tangents, *, n):
    (x,), (t,) = primals, tangents
    return pair_p.bind(x, n=n), [t * n, ad.Zero.from_primal_value(x)]


def pair_transpose(cts, x, *, n):
    return (None,)


ad.primitive_jvps[pair_p] = pair_jvp
batching.axis_primitive_batchers[pair_p] = lambda size, name, trace, args, dims, *, n: (
    pair_p.bind(*args, n=n),
    dims[0],
)


def test_several_results_zeros_and_one_dimension_for_all():
    outs, tangents = weft.jvp(lambda x: pair_p.bind(x, n=2.0), (X,), (Y,))
    np.testing.assert_allclose(tangents[0], 2 * Y)
    np.testing.assert_allclose(tangents[1], 0 * Y)
    first, second = weft.vmap(lambda x: pair_p.bind(x, n=3.0), out_axes=1)(jnp.ones((4, 3)))
    assert first.shape == second.shape == (3, 4)
    grads = weft.jit(weft.grad(lambda x: pair_p.bind(x, n=2.0)[0].sum()))(X)
    np.testing.assert_allclose(grads, np.full(3, 2.0))


def test_fancy_batchers_get_the_axis():
    twice_p = made("twice_for_test", lambda x: x * 2)
    axes = []

    def rule(axis, args, dims):
        axes.append((axis.name, axis.size, axis.spmd_name, axis.explicit_mesh_axis))
        return twice_p.bind(*args), dims[0] - args[0].ndim  # counted from the end

    batching.fancy_primitive_batchers[twice_p] = rule
    np.testing.assert_allclose(weft.vmap(twice_p.bind, axis_name="i")(X), 2 * X)
    assert axes == [("i", 3, None, None)]
    # The three mappings are views of one table.
    assert twice_p in batching.primitive_batchers and twice_p in batching.axis_primitive_batchers
    out, dim = batching.primitive_batchers[twice_p]((jnp.asarray(X),), (0,))
    np.testing.assert_allclose(out, 2 * X)
    del batching.primitive_batchers[twice_p]
    with pytest.raises(MissingRuleError):
        weft.vmap(twice_p.bind)(X)


def test_rules_of_weft_are_read_in_the_same_protocol():

    sin_p, mul_p = primitives["sin"], primitives["mul"]
    out, tangent = ad.primitive_jvps[sin_p]((jnp.asarray(X),), (jnp.asarray(Y),))
    np.testing.assert_allclose(tangent, np.cos(X) * Y, rtol=1e-6)
    out, dim = batching.primitive_batchers[mul_p]((jnp.ones((3, 2)), jnp.ones(3)), (1, None))
    assert np.moveaxis(np.asarray(out), dim, 0).shape == (2, 3)
    linear = ad.UndefinedPrimal(ArrayType((3,), "float32"))
    found = ad.primitive_transposes[mul_p](jnp.asarray(X), linear, jnp.asarray(Y))
    np.testing.assert_allclose(found[0], X * Y)
    assert len(ad.primitive_jvps) > 100 and sin_p in set(ad.primitive_jvps)
    with pytest.raises(KeyError):
        ad.primitive_jvps[UncheckedPrimitive("without_rules")]


def test_a_rule_that_is_set_is_the_one_that_is_read_and_may_be_set_again():
    p = made("again_for_test", lambda x: x * 1.0)
    for factor in (2.0, 3.0):
        rule = lambda xs, ts, factor=factor: (p.bind(*xs), ts[0] * factor)  # noqa: E731
        ad.primitive_jvps[p] = rule
        assert ad.primitive_jvps[p] is rule
        assert float(weft.jvp(p.bind, (1.0,), (1.0,))[1]) == factor


# ---- derivatives by parts ----------------------------------------------------------------------


def test_defjvp_and_defjvp2():
    root_p = made("root_for_test", lambda x: jnp.sqrt(x))
    ad.defjvp2(root_p, lambda t, out, x: t / (2 * out))
    batching.defvectorized(root_p)
    check_grads(root_p.bind, (np.array([1.0, 4.0], "float32"),), order=1)
    quotient_p = made("quotient_for_test", lambda x, y: x / y)
    ad.defjvp(quotient_p, lambda t, x, y: t / y, lambda t, x, y: -t * x / (y * y))
    batching.defbroadcasting(quotient_p)
    check_grads(quotient_p.bind, (X, Y), order=1)
    np.testing.assert_allclose(
        weft.vmap(quotient_p.bind, in_axes=(0, None))(np.stack([X, Y]), Y),
        np.stack([X, Y]) / Y,
        rtol=1e-6,
    )


def test_deflinear_and_defbilinear():
    scaled_p = made("scaled_for_test", lambda x, *, by: x * by)
    ad.deflinear(scaled_p, lambda ct, *, by: [scaled_p.bind(ct, by=by)])
    batching.defvectorized(scaled_p)
    check_grads(lambda x: scaled_p.bind(x, by=3.0), (X,), order=2)
    times_p = made("times_for_test", lambda x, y: x * y)
    ad.defbilinear(
        times_p, lambda ct, x, y: times_p.bind(ct, y), lambda ct, x, y: times_p.bind(x, ct)
    )
    batching.defvectorized(times_p)
    check_grads(times_p.bind, (X, Y), order=2)
    transposed = weft.linear_transpose(lambda x: times_p.bind(x, Y), X)
    np.testing.assert_allclose(transposed(X)[0], X * Y)


def test_a_reduction_is_mapped_by_its_axes():
    total_p = made("total_for_test", lambda x, *, axes: jnp.sum(x, axes))
    batching.defreducer(total_p)
    x = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
    for in_axis in range(3):
        found = weft.vmap(lambda v: total_p.bind(v, axes=(0,)), in_axes=in_axis)(x)
        np.testing.assert_allclose(found, np.moveaxis(x, in_axis, 0).sum(1))


def test_a_rule_may_apply_jitted_functions_and_loops_to_primals_and_tangents():
    """Under `linearize` what needs primals only runs at once."""
    cube_p = made("cube_for_test", lambda x: x**3)
    ad.primitive_jvps[cube_p] = lambda xs, ts: weft.jvp(
        weft.jit(lambda x: lax.fori_loop(0, 2, lambda i, y: y * x, x)), xs, ts
    )
    check_grads(cube_p.bind, (X,), order=1)
    np.testing.assert_allclose(weft.linearize(cube_p.bind, X)[1](Y), 3 * X**2 * Y, rtol=1e-5)


# ---- effects, lowerings, programs --------------------------------------------------------------


class _Sent:
    """An effect of a class of its own."""


def test_effects_of_a_type_rule_keep_an_equation():
    send_p = UncheckedPrimitive("send_for_test")
    effect = _Sent()
    send_p.def_effectful_abstract_eval(lambda x: (x, {effect}))
    mlir.set_lowering(send_p, lambda ctx, x: [x])
    program = weft.make_jaxpr(lambda x: (send_p.bind(x), x)[1])(1.0)
    assert program.effects == {effect} and send_p.is_effectful({})
    smaller, _ = partial_eval.with_instantiated_inputs(program.jaxpr, [True])
    assert len(smaller.eqns) == 1
    assert float(weft.jit(lambda x: (send_p.bind(x), x)[1])(1.0)) == 1.0


def test_a_lowering_is_written_with_operations_of_mlir():
    doubled_p = UncheckedPrimitive("doubled_for_test")
    doubled_p.def_abstract_eval(lambda x: x)
    contexts = []

    def lower(ctx, x):
        contexts.append(ctx)
        two = mlir.ir_constant(np.float32(2.0), aval=ctx.avals_in[0])
        assert x.type == mlir.aval_to_ir_type(ctx.avals_in[0])
        return [[mlir.hlo.MulOp(x, two).result]]  # nested, as JAX's rules may return

    mlir.set_lowering(doubled_p, lower)
    np.testing.assert_allclose(weft.jit(doubled_p.bind)(X), 2 * X)
    (ctx,) = contexts
    assert ctx.avals_out == ctx.out_types and ctx.platforms == ("cpu",)
    assert ctx.module_context.platforms == ("cpu",) and ctx.primitive is doubled_p
    assert str(ctx.replace(avals_in=[]).name_stack).startswith("jit(")
    assert mlir.dense_int_array([1, 2]) is not None and "i64" in str(mlir.i64_attr(3))


def test_python_is_called_by_a_lowering():
    logged = []
    host_p = UncheckedPrimitive("host_for_test")
    host_p.def_abstract_eval(lambda x: x)

    def lower(ctx, x):
        def callback(value):
            logged.append(value)
            return (value * 2,)

        outs, token, kept = mlir.emit_python_callback(
            ctx, callback, None, [x], ctx.avals_in, ctx.avals_out, has_side_effect=False
        )
        ctx.module_context.add_keepalive(kept)
        return outs

    mlir.set_lowering(host_p, lower)
    np.testing.assert_allclose(weft.jit(host_p.bind)(X), 2 * X)
    np.testing.assert_allclose(logged[0], X)


def test_rules_for_dead_code_in_the_protocol_of_jax():
    both_p = made("both_for_test", lambda x, y: (x + 1, y + 1), multiple_results=True)

    def rule(used, eqn):
        if not any(used):
            return [False, False], None
        return [True, True], eqn

    dce_rules[both_p] = rule
    program = weft.make_jaxpr(lambda x, y: (both_p.bind(x, y), x)[1])(1.0, 2.0).jaxpr
    smaller, reads = partial_eval.dce_jaxpr(program, (True,))
    assert not smaller.eqns and reads == (True, False)
    assert dce_rules[both_p] is rule
    with pytest.raises(WeftNotImplementedError, match="without tracers"):
        partial_eval.custom_partial_eval_rules[both_p] = rule


def test_flat_derivatives():
    outs, tangents = ad.jvp(lambda x, y: [x * y, 3.0], (X, Y), (X, ad.Zero(weft.typeof(Y))))
    np.testing.assert_allclose(tangents[0], X * Y)
    assert np.asarray(tangents[1]) == 0
    outs, program = ad.linearize(lambda x: [jnp.sin(x)], X)
    np.testing.assert_allclose(program(Y)[0], np.cos(X) * Y, rtol=1e-6)
    assert ad.JVPTracer is DualTracer
    with pytest.raises(NotImplementedError):
        ad.get_primitive_transpose(UncheckedPrimitive("not_linear"))


def test_partial_evaluation_by_known_values():
    """Loops are split, and what depends on known values only is evaluated."""
    pe = partial_eval

    def f(x, y):
        a, b = weft.jit(lambda x, y: (jnp.sin(x), jnp.cos(y)))(x, y)
        return [a, b, 2.0]

    pvals = [pe.PartialVal.known(jnp.asarray(X)), pe.PartialVal.unknown(weft.typeof(Y))]
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(f, pvals)
    assert [out.is_known() for out in outs] == [True, False, True]
    np.testing.assert_allclose(outs[0].get_known(), np.sin(X), rtol=1e-6)
    assert outs[1].get_aval() is weft.typeof(jnp.asarray(Y)) and outs[1].get_known() is None

    np.testing.assert_allclose(eval_jaxpr(jaxpr, consts, Y)[0], np.cos(Y), rtol=1e-6)
    jaxpr, outs, consts = pe.trace_to_jaxpr_nounits(f, pvals, instantiate=True)
    assert not any(out.is_known() for out in outs)
    np.testing.assert_allclose(eval_jaxpr(jaxpr, consts, Y)[0], np.sin(X), rtol=1e-6)


def test_equations_by_hand():
    x, y = Var(ArrayType((3,), "float32")), DropVar(ArrayType((3,), "float32"))
    eqn = new_jaxpr_eqn([x], [y], product_p, {}, set())
    assert type(eqn.outvars[0]) is Var and eqn.invars == [x] and eqn.ctx is None
    again = eqn.replace(outvars=[x], params={"a": 1}, ctx=None)
    assert again.outvars == [x] and again.params == {"a": 1}
