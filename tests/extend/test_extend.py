"""Adding a primitive and a transformation from outside, with what `weft.extend` shows."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.errors import MissingRuleError, WeftTypeError, WeftValueError
from weft.extend.core import Primitive, Trace, Tracer, current_trace, type_of, using_trace
from weft.extend.interpreters import ad, batching, mlir, partial_eval
from weft.testing import check_grads, check_jit, check_linearize, check_vmap

# ---- a new primitive with every rule -----------------------------------------------------------

mul_add_p = Primitive("mul_add_for_test")


def mul_add(x, y, z):
    return mul_add_p.bind(x, y, z)


@mul_add_p.def_abstract_eval
def mul_add_type(x, y, z):
    if not x.shape == y.shape == z.shape:
        raise WeftTypeError(f"mul_add takes equal shapes, not {x}, {y}, {z}")
    return x.update(weak_type=False)


def mul_add_jvp(primals, tangents):
    x, y, z = primals
    xt, yt, zt = map(ad.instantiate, tangents)
    return mul_add(x, y, z), xt * y + (x * yt + zt)


def mul_add_vmap(axis, args, dims):
    args = [batching.move_dim(x, d, 0, axis.size) for x, d in zip(args, dims, strict=True)]
    return mul_add(*args), 0


def mul_add_lower(context, x, y, z):
    return mlir.hlo.add(mlir.hlo.multiply(x, y), z)


ad.register_jvp(mul_add_p, mul_add_jvp)
batching.register_vmap(mul_add_p, mul_add_vmap)
mlir.register_lowering(mul_add_p, mul_add_lower)


def test_the_example_of_the_note():
    assert float(mul_add(2.0, 3.0, 4.0)) == 10.0
    assert float(weft.jit(mul_add)(2.0, 3.0, 4.0)) == 10.0


def test_results_of_an_evaluation_rule_are_arrays_of_the_default_width():
    in_numpy_p = Primitive("mul_add_in_numpy")
    in_numpy_p.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    out = in_numpy_p.bind(2.0, 3.0, np.arange(2.0))
    assert isinstance(out, weft.Array) and out.dtype == np.float32 and out.tolist() == [6.0, 7.0]
    assert in_numpy_p.bind(2.0, 3.0, 4.0).dtype == np.float32
    both_p = Primitive("both_in_numpy", multiple_results=True)
    both_p.def_impl(lambda x: [np.sin(x), 1])
    assert [out.dtype for out in both_p.bind(2.0)] == [np.float32, np.int32]


def test_every_transformation_follows_from_the_rules():
    x, y, z = (jnp.array(v, np.float64) for v in ([0.1, 0.2], [1.0, 3.0], [5.0, 6.0]))
    check_grads(mul_add, (x, y, z), order=2)
    check_vmap(mul_add, (x, y, z))
    check_jit(mul_add, (x, y, z))
    check_linearize(mul_add, (x, y, z))
    gradient = weft.jit(weft.vmap(weft.grad(mul_add, argnums=(0, 1, 2))))(x, y, z)
    np.testing.assert_allclose(gradient[0], y)
    np.testing.assert_allclose(gradient[1], x)


def test_type_errors_of_the_rule_reach_the_user():
    with pytest.raises(WeftTypeError, match="equal shapes"):
        mul_add(jnp.ones(2), jnp.ones(3), jnp.ones(2))


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda p: weft.jit(p.bind)(1.0), "type"),
        (lambda p: weft.jvp(p.bind, (1.0,), (1.0,)), "jvp"),
        (lambda p: weft.grad(p.bind)(1.0), "jvp"),
        (lambda p: weft.vmap(p.bind)(np.ones(2)), "vmap"),
        (lambda p: p.bind(1.0), "type"),
    ],
)
def test_a_missing_rule_is_named_with_how_to_give_it(use, kind):
    bare = Primitive("without_rules")
    with pytest.raises(MissingRuleError, match=rf"'without_rules' has no {kind} rule") as info:
        use(bare)
    assert info.value.fix.kind == "register_rule"
    assert "where primitive is 'without_rules'" in info.value.fix.text


def test_a_missing_lowering_and_a_missing_transpose():
    p = Primitive("typed_only")
    p.def_abstract_eval(lambda x: x)
    ad.register_jvp(p, lambda primals, tangents: (p.bind(*primals), p.bind(*tangents)))
    with pytest.raises(MissingRuleError, match="lowering"):
        p.bind(1.0)
    with pytest.raises(MissingRuleError, match="lowering"):
        weft.jit(p.bind)(1.0)
    with pytest.raises(MissingRuleError, match="transpose"):
        weft.make_jaxpr(weft.grad(p.bind))(1.0)


def test_the_suggested_registration_works():
    p = Primitive("needs_rules")
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(MissingRuleError) as info:
        weft.jvp(p.bind, (1.0,), (1.0,))
    call = info.value.fix.text.split(": ", 1)[1].split(", where")[0]
    scope = {
        "weft": weft,
        "primitive": p,
        "rule": lambda primals, tangents: (primals[0] * 2.0, tangents[0] * 2.0),
    }
    eval(call, scope)
    assert float(weft.jvp(p.bind, (1.0,), (1.0,))[1]) == 2.0


def test_a_rule_is_registered_once():
    with pytest.raises(WeftValueError, match="already"):
        ad.register_jvp(mul_add_p, mul_add_jvp)
    with pytest.raises(WeftValueError, match="already"):
        batching.register_vmap(mul_add_p, mul_add_vmap)
    with pytest.raises(WeftValueError, match="already"):
        mul_add_p.def_abstract_eval(mul_add_type)
    with pytest.raises(WeftValueError, match="already"):
        mlir.register_lowering(mul_add_p, mul_add_lower)


def test_a_lowering_for_one_platform_goes_before_the_general_one():
    p = Primitive("platform_dependent")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda context, x: mlir.hlo.negate(x))
    mlir.register_lowering(p, lambda context, x: mlir.hlo.add(x, x), platform="cpu")
    mlir.register_lowering(p, lambda context, x: mlir.hlo.multiply(x, x), platform="cuda")
    wanted = {"cpu": 6.0, "cuda": 9.0}[weft.default_backend()]
    assert float(weft.jit(p.bind)(3.0)) == wanted
    with pytest.raises(WeftValueError, match="already"):
        mlir.register_lowering(p, lambda context, x: x, platform="cpu")


def test_a_linearization_rule_goes_before_the_jvp_rule():
    used = []
    p = Primitive("linearized_by_rule")
    p.def_abstract_eval(lambda x: x)
    p.def_impl(lambda x: x * 3.0)

    def linearized(primals, tangents):
        used.append("linearize")
        return p.bind(*primals), tangents[0] * 3.0

    ad.register_linearize(p, linearized)
    assert float(weft.grad(p.bind)(2.0)) == 3.0
    assert used == ["linearize"]


def test_a_primitive_with_several_results():
    p = Primitive("sum_and_difference", multiple_results=True)
    p.def_abstract_eval(lambda x, y: [x, y])
    mlir.register_lowering(p, lambda c, x, y: [mlir.hlo.add(x, y), mlir.hlo.subtract(x, y)])
    ad.register_jvp(p, lambda primals, t: (p.bind(*primals), p.bind(*map(ad.instantiate, t))))
    ad.register_transpose(p, lambda cts, x, y: p.bind(*map(ad.instantiate, cts)))
    s, d = p.bind(5.0, 2.0)
    assert (float(s), float(d)) == (7.0, 3.0)
    s, d = weft.jit(p.bind)(5.0, 2.0)
    assert (float(s), float(d)) == (7.0, 3.0)
    gx, gy = weft.grad(lambda x, y: p.bind(x, y)[0] * p.bind(x, y)[1], (0, 1))(5.0, 2.0)
    assert (float(gx), float(gy)) == (10.0, -4.0)


def test_rules_of_dead_code_elimination_and_partial_evaluation():
    p = Primitive("registers_everything")
    rule = partial_eval.register_dce(p, lambda eqn, used: ([True], eqn))
    assert callable(rule)
    rule = partial_eval.register(p, lambda eqn, unknown: None)
    assert callable(rule)


# ---- a new final-style transformation ----------------------------------------------------------


class CountingTracer(Tracer):
    __slots__ = ("value",)

    def __init__(self, trace, value):
        super().__init__(trace, type_of(value))
        self.value = value


class CountingTrace(Trace):
    __slots__ = ("counts",)

    def process_primitive(self, primitive, args, params):
        self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1
        values = [x.value if isinstance(x, CountingTracer) else x for x in args]
        out = self.parent.process_primitive(primitive, values, params)
        if primitive.multiple_results:
            return [CountingTracer(self, x) for x in out]
        return CountingTracer(self, out)


def count_operations(f, *args):
    """How often `f(*args)` applies each primitive, and its result."""
    trace = CountingTrace(current_trace(), "count", f.__name__)
    trace.counts = {}
    with using_trace(trace):
        out = f(*[CountingTracer(trace, x) for x in args])
    trace.finish()
    return out.value, trace.counts


def test_a_transformation_from_outside():
    out, counts = count_operations(lambda x: weft.lax.sin(x) * x * x, jnp.array(2.0))
    np.testing.assert_allclose(out, np.sin(2.0) * 4, rtol=1e-6)
    assert counts == {"sin": 1, "mul": 2}


@weft.custom_jvp
def cubed(x):
    return x * x * x


@cubed.defjvp
def cubed_jvp(primals, tangents):
    return cubed(*primals), 100.0 * tangents[0]


class ForwardingTrace(CountingTrace):
    """Keeps an operation with a rule of the user's as it is for its parent."""

    __slots__ = ()

    def process_call(self, primitive, function, args, params):
        self.counts[primitive.name] = self.counts.get(primitive.name, 0) + 1
        values = [x.value if isinstance(x, CountingTracer) else x for x in args]
        out = self.parent.process_call(primitive, function, values, params)
        return [CountingTracer(self, x) for x in out]


def test_a_transformation_from_outside_meets_functions_with_rules():
    # A trace that knows nothing of them sees what the function does, and may override the hook.
    out, counts = count_operations(cubed, jnp.array(2.0))
    np.testing.assert_allclose(out, 8.0)
    assert counts == {"mul": 2}

    def forwarded(x):
        trace = ForwardingTrace(current_trace(), "forward", "cubed")
        trace.counts = {}
        with using_trace(trace):
            out = cubed(CountingTracer(trace, x))
        trace.finish()
        assert trace.counts == {"custom_jvp": 1}
        return out.value

    np.testing.assert_allclose(weft.grad(forwarded)(2.0), 100.0)


def test_a_transformation_from_outside_composes_with_weft():
    def counted(x):
        return count_operations(lambda y: weft.lax.sin(y) * x, x)[0]

    np.testing.assert_allclose(weft.grad(counted)(2.0), np.cos(2.0) * 2 + np.sin(2.0), rtol=1e-6)
    np.testing.assert_allclose(weft.jit(counted)(2.0), np.sin(2.0) * 2, rtol=1e-6)
    np.testing.assert_allclose(
        weft.vmap(counted)(np.array([1.0, 2.0])), np.sin([1.0, 2.0]) * [1.0, 2.0], rtol=1e-6
    )
    out, counts = count_operations(weft.grad(lambda x: weft.lax.sin(x)), jnp.array(2.0))
    np.testing.assert_allclose(out, np.cos(2.0), rtol=1e-6)
    assert counts["cos"] == 1


def test_a_primitive_may_have_the_name_of_one_of_weft():
    p = Primitive("jit")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda context, x: mlir.hlo.negate(x))
    mesh = weft.make_mesh((2,), ("i",))
    x = weft.device_put(np.arange(4.0, dtype=np.float32), weft.NamedSharding(mesh, weft.P("i")))
    negated = weft.jit(p.bind)
    shape = weft.eval_shape(negated, x)
    assert (shape.shape, shape.dtype) == ((4,), np.float32)
    np.testing.assert_array_equal(negated(x), -np.arange(4.0))
