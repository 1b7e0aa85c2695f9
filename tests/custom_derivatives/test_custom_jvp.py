"""`custom_jvp`: arguments, zeros, what is printed, and every error with its fix."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close_after_sums as close
from weft import lax
from weft.core.check import check_jaxpr
from weft.core.jaxpr import eval_jaxpr
from weft.custom_derivatives.custom_function import SymbolicZero
from weft.errors import DTypeError, ShapeError, TreeError, WeftError, WeftTypeError, WeftValueError

pytestmark = pytest.mark.fast
X = np.array([0.3, -0.7, 1.1], np.float32)


def scaled(factor, function=lambda x: x):
    """A function whose rule multiplies the tangent, so that it shows whether the rule was used."""
    f = weft.custom_jvp(function)
    f.defjvp(lambda primals, tangents: (f(*primals), factor * tangents[0]))
    return f


# ---- the rule is what counts ---------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit, lambda f: weft.jit(weft.jit(f))])
def test_the_rule_is_used_in_both_modes(transform):
    f = transform(scaled(10.0))
    assert float(f(2.0)) == 2.0
    assert float(weft.grad(f)(2.0)) == 10.0 and float(weft.jvp(f, (2.0,), (3.0,))[1]) == 30.0
    assert float(weft.linearize(f, 2.0)[1](3.0)) == 30.0
    close(weft.grad(lambda x: weft.vmap(f)(x).sum())(X), [10.0] * 3)
    close(weft.vmap(weft.grad(f))(X), [10.0] * 3)


def test_the_rule_is_differentiated_by_its_own_operations():
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (f(*primals), primals[0] ** 3 * tangents[0]))
    for g in (f, weft.jit(f)):
        assert float(weft.grad(g)(2.0)) == 8.0 and float(weft.grad(weft.grad(g))(2.0)) == 12.0
        assert float(weft.grad(weft.grad(weft.grad(g)))(2.0)) == 12.0
        assert float(weft.jacfwd(weft.jacrev(weft.jacfwd(g)))(2.0)) == 12.0


def test_python_control_flow_in_function_and_rule():
    @weft.custom_jvp
    def f(x):
        n = 0
        while x > 1.0:
            x, n = x / 2.0, n + 1
        return x * 3.0 if n % 2 else x

    @f.defjvp
    def f_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), t * 7.0 if x > 4.0 else -t

    for x, value, slope in [(3.0, 0.75, -1.0), (5.0, 1.875, 7.0), (0.5, 0.5, -1.0)]:
        assert float(f(x)) == value
        assert [float(v) for v in weft.value_and_grad(f)(x)] == [value, slope]
        assert [float(v) for v in weft.jvp(f, (x,), (2.0,))] == [value, 2.0 * slope]
    with pytest.raises(WeftTypeError, match="bool"):
        weft.jit(f)(3.0)


def test_an_eager_derivative_runs_the_function_once_at_most():
    runs = []

    @weft.custom_jvp
    def f(x):
        runs.append("function")
        return x * 2.0

    @f.defjvp
    def f_jvp(primals, tangents):
        runs.append("rule")
        return primals[0] * 2.0, tangents[0] * 2.0

    weft.grad(f)(1.0)
    assert runs == ["rule"]
    weft.jvp(lambda x: f(2.0) * x, (1.0,), (1.0,))  # not differentiated: no rule
    assert runs == ["rule", "function"]


def test_a_rule_may_read_constants_of_its_own():
    table = jnp.array([1.0, 2.0, 3.0])
    f = weft.custom_jvp(lambda x: x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), tangents[0] * table * np.array([2.0, 2.0, 5.0], np.float32)

    def loss(x):
        return jnp.sum(f(x) ** 2)

    wanted = 2 * X * np.array([2.0, 4.0, 15.0])
    close(weft.grad(loss)(X), wanted)
    close(weft.jit(weft.grad(loss))(X), wanted)
    close(weft.grad(weft.jit(loss))(X), wanted)
    close(weft.jvp(weft.jit(loss), (X,), (X,))[1], wanted @ X)
    close(weft.grad(lambda x: lax.cond(True, loss, loss, x))(X), wanted)
    close(weft.vmap(weft.grad(weft.jit(loss)))(np.stack([X, 2 * X])), [wanted, 2 * wanted])
    check_jaxpr(weft.make_jaxpr(weft.grad(weft.jit(loss)))(X))


def test_keys_and_integers_pass_through():
    f = weft.custom_jvp(lambda key, n, x: (weft.random.split(key), n + 1, n * x))

    @f.defjvp
    def f_jvp(primals, tangents):
        key, n, x = primals
        out = f(key, n, x)
        assert tangents[1].dtype == weft.float0
        zeros = np.zeros(out[0].shape, weft.float0), np.zeros((), weft.float0)
        return out, (*zeros, 10.0 * n * tangents[2])

    key = weft.random.key(0)
    for g in (f, weft.jit(f)):
        out, tangents = weft.jvp(lambda x, g=g: g(key, 3, x)[1:], (2.0,), (1.0,))
        assert int(out[0]) == 4 and float(out[1]) == 6.0
        assert tangents[0].dtype == weft.float0 and float(tangents[1]) == 30.0
        assert float(weft.grad(lambda x, g=g: g(key, 3, x)[2])(2.0)) == 30.0
        keys = weft.random.split(key, 4)
        mapped = weft.vmap(weft.grad(lambda x, k, g=g: g(k, 3, x)[2]))(jnp.arange(4.0), keys)
        close(mapped, [30.0] * 4)


def test_transposed_where_it_is_applied_to_tangents():
    f = scaled(10.0, lambda x: 2.0 * x)
    (found,) = weft.linear_transpose(f, 1.0)(3.0)
    assert float(found) == 6.0  # by its body: there is nothing to differentiate


def test_collectives_inside():
    f = weft.custom_jvp(lambda x: lax.psum(x, "i"))
    f.defjvp(lambda primals, tangents: (f(*primals), 2.0 * lax.psum(tangents[0], "i")))
    for g in (f, weft.jit(f)):
        close(weft.vmap(g, axis_name="i")(X), [X.sum()] * 3)
        close(weft.vmap(lambda x, g=g: g(1.0) * x, axis_name="i")(X), 3 * X)
        out = weft.jvp(weft.vmap(g, axis_name="i"), (X,), (X,))[1]
        close(out, [2 * X.sum()] * 3)
        close(weft.grad(lambda x, g=g: weft.vmap(g, axis_name="i")(x).sum())(X), [6.0] * 3)


# ---- arguments -----------------------------------------------------------------------------------


def test_keywords_and_defaults_become_positions():
    @weft.custom_jvp
    def f(x, y=2.0, *, unused=None):
        return x * y

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return x * y, 10.0 * (dx * y + x * dy)

    assert float(f(3.0)) == 6.0
    for call in (lambda x: f(x), lambda x: f(x=x), lambda x: f(y=2.0, x=x), lambda x: f(x, 2.0)):
        assert float(weft.grad(call)(3.0)) == 20.0
        assert float(weft.grad(weft.jit(call))(3.0)) == 20.0
    assert float(weft.grad(lambda y: f(3.0, y=y))(4.0)) == 30.0


def test_variable_numbers_of_arguments():
    @weft.custom_jvp
    def f(x, *rest):
        return x + sum(rest)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), sum((i + 1) * t for i, t in enumerate(tangents))

    found = weft.grad(lambda *xs: f(*xs), (0, 1, 2))(1.0, 2.0, 3.0)
    assert [float(x) for x in found] == [1.0, 2.0, 3.0]


def test_trees_of_arguments_and_results():
    @weft.custom_jvp
    def f(p, pair):
        return {"a": p["w"] * pair[0], "n": None, "b": (p["b"], pair[1])}

    @f.defjvp
    def f_jvp(primals, tangents):
        (p, pair), (dp, dpair) = primals, tangents
        a = 10.0 * (dp["w"] * pair[0] + p["w"] * dpair[0])
        return f(p, pair), {"a": a, "n": None, "b": (dp["b"], dpair[1])}

    def loss(p, pair):
        out = f(p, pair)
        return out["a"] + out["b"][0] * out["b"][1]

    p, pair = {"w": 2.0, "b": 3.0}, [5.0, 7.0]
    for g in (loss, weft.jit(loss)):
        dp, dpair = weft.grad(g, (0, 1))(p, pair)
        assert (float(dp["w"]), float(dp["b"])) == (50.0, 7.0)
        assert [float(x) for x in dpair] == [20.0, 3.0]


@pytest.mark.parametrize(
    "options",
    [
        {"nondiff_argnums": (0, 2)},
        {"nondiff_argnums": (-1, -3)},
        {"nondiff_argnames": ("fun", "mode")},
        {"nondiff_argnums": 2, "nondiff_argnames": "fun"},
    ],
)
def test_arguments_without_derivatives(options):
    @functools.partial(weft.custom_jvp, **options)
    def f(fun, x, mode):
        assert mode == ["any", object] and callable(fun)
        return fun(x)

    @f.defjvp
    def f_jvp(fun, mode, primals, tangents):
        assert mode == ["any", object]
        return fun(*primals), 10.0 * weft.jvp(fun, primals, tangents)[1]

    for transform in (lambda g: g, weft.jit):
        g = transform(lambda x: f(jnp.sin, x, mode=["any", object]))
        close(g(0.5), np.sin(0.5))
        close(weft.grad(g)(0.5), 10 * np.cos(0.5))
        close(weft.grad(weft.grad(g))(0.5), -10 * np.sin(0.5))
        close(weft.vmap(weft.grad(g))(X), 10 * np.cos(X))


def test_traced_arguments_without_derivatives_may_be_mapped_and_staged():
    f = weft.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defjvp(lambda n, primals, tangents: (f(n, *primals), 10.0 * n * tangents[0]))
    close(weft.jit(weft.grad(f, 1))(3.0, 2.0), 30.0)
    close(weft.grad(weft.jit(f), 1)(3.0, 2.0), 30.0)
    close(weft.vmap(weft.grad(f, 1), (0, None))(X, 2.0), 10 * X)
    close(weft.grad(lambda x: weft.vmap(f, (0, None))(X, x).sum())(2.0), 10 * X.sum())
    close(weft.jit(weft.vmap(weft.grad(weft.jit(f), 1), (0, None)))(X, 2.0), 10 * X)


def test_differentiating_an_argument_without_derivatives_is_an_error():
    f = weft.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    f.defjvp(lambda n, primals, tangents: (f(n, *primals), n * tangents[0]))
    for g in (f, weft.jit(f)):
        for transform in (weft.grad, weft.jacfwd):
            with pytest.raises(WeftTypeError, match="declared to have no derivative") as caught:
                transform(g)(3.0, 2.0)
            assert caught.value.fix.kind == "differentiable"
    # The fix:
    assert float(weft.grad(lambda n, x: f(lax.stop_gradient(n), x), 1)(3.0, 2.0)) == 3.0


def test_methods():
    class Model:
        def __init__(self, w):
            self.w = w

        @functools.partial(weft.custom_jvp, nondiff_argnums=(0,))
        def apply(self, x):
            return self.w * x

        @apply.defjvp
        def apply_jvp(self, primals, tangents):
            return self.apply(*primals), 10.0 * self.w * tangents[0]

    model = Model(3.0)
    assert float(model.apply(2.0)) == 6.0
    assert float(weft.grad(model.apply)(2.0)) == 30.0
    assert float(weft.grad(weft.jit(lambda x: model.apply(x)))(2.0)) == 30.0


def test_it_looks_like_the_function():
    @weft.custom_jvp
    def documented(x):
        """What it does."""

    assert documented.__name__ == "documented" and documented.__doc__ == "What it does."
    assert "documented" in repr(documented)


def test_results_are_arrays():
    f = scaled(1.0, lambda x: (3, [np.float64(2.0)]))
    out = f(1.0)
    assert isinstance(out[0], weft.Array) and isinstance(out[1][0], weft.Array)
    traced = weft.jit(f)(1.0)
    assert (out[0].type, out[1][0].type) == (traced[0].type, traced[1][0].type)


def test_numbers_that_rules_return_take_the_type_of_the_result():
    f = weft.custom_jvp(lambda x: jnp.float32(3.0) * x)
    f.defjvp(lambda primals, tangents: (3.0, 2.0))
    out = weft.jvp(weft.jit(f), (jnp.float32(1.0),), (jnp.float32(1.0),))
    assert [x.weak_type for x in out] == [False, False]
    assert [float(x) for x in out] == [3.0, 2.0]
    half = weft.custom_jvp(lambda x: x)
    half.defjvp(lambda primals, tangents: (primals[0], 1.0))
    out = weft.jvp(half, (jnp.bfloat16(1.0),), (jnp.bfloat16(1.0),))
    assert out[1].dtype == jnp.bfloat16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_dtypes(dtype):
    f = scaled(2.0, lambda x: x * x)
    x = jnp.array([1.0, 2.0]).astype(dtype)
    for g in (f, weft.jit(f), weft.vmap(f)):
        out, tangent = weft.jvp(g, (x,), (x,))
        assert out.dtype == tangent.dtype == x.dtype
        close(np.asarray(tangent).astype(np.complex64), [2.0, 4.0])


# ---- defjvps -------------------------------------------------------------------------------------


def test_one_rule_per_argument():
    f = weft.custom_jvp(lambda x, y, z: jnp.sin(x) * y + z)
    f.defjvps(lambda t, out, x, y, z: jnp.cos(x) * y * t, None, lambda t, out, x, y, z: 5.0 * t)
    for g in (f, weft.jit(f)):
        found = weft.grad(g, (0, 1, 2))(0.5, 2.0, 1.0)
        close(found, [np.cos(0.5) * 2.0, 0.0, 5.0])
        close(weft.hessian(g)(0.5, 2.0, 1.0), -np.sin(0.5) * 2.0)
    close(weft.vmap(weft.grad(f), (0, None, None))(X, 2.0, 1.0), 2 * np.cos(X))
    # The argument that has no rule alone.
    assert float(weft.grad(f, 1)(0.5, 2.0, 1.0)) == 0.0


def test_rules_per_argument_see_trees_with_arrays_for_zeros():
    f = weft.custom_jvp(lambda p, x: p["a"] * x + p["b"])
    f.defjvps(lambda t, out, p, x: t["a"] * x + t["b"], lambda t, out, p, x: p["a"] * t)
    assert float(weft.grad(lambda a: f({"a": a, "b": 1.0}, 3.0))(2.0)) == 3.0
    assert float(weft.grad(lambda x: f({"a": 2.0, "b": 1.0}, x))(3.0)) == 2.0


# ---- zeros ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, weft.jit])
def test_symbolic_zeros(transform):
    seen = []
    f = weft.custom_jvp(lambda x, y, n: (x * y, y))

    def rule(primals, tangents):
        x, y, n = primals
        seen.append([type(t) is SymbolicZero for t in tangents])
        assert tangents[2].dtype == weft.float0 and tangents[2].shape == ()
        out = tangents[1] if seen[-1][1] else 2.0 * tangents[1]
        first = tangents[0] * y if not seen[-1][0] else x * tangents[1]
        return (x * y, y), (first, out)

    f.defjvp(rule, symbolic_zeros=True)
    g = transform(f)
    out, tangent = weft.jvp(lambda x: g(x, 3.0, 1), (2.0,), (1.0,))
    assert [float(t) for t in tangent] == [3.0, 0.0] and seen[-1] == [False, True, True]
    out, tangent = weft.jvp(lambda y: g(2.0, y, 1), (3.0,), (1.0,))
    assert [float(t) for t in tangent] == [2.0, 2.0] and seen[-1] == [True, False, True]
    mapped = weft.vmap(lambda x: weft.jvp(lambda x: g(x, 3.0, 1)[0], (x,), (x,))[1])(X)
    close(mapped, 3 * X)
    assert seen[-1] == [False, True, True]
    zero = SymbolicZero(jnp.zeros((2, 3)).type)
    assert (zero.shape, zero.ndim, zero.size, zero.dtype) == ((2, 3), 2, 6, np.float32)
    with pytest.raises(WeftTypeError):
        jnp.sin(zero)


def test_zeros_are_arrays_by_default():
    seen = []
    f = weft.custom_jvp(lambda x, n: x)

    @f.defjvp
    def f_jvp(primals, tangents):
        seen.append([(t.shape, t.dtype) for t in tangents])
        return primals[0], tangents[0]

    weft.jvp(lambda x: f(x, np.int32(3)), (X,), (X,))
    assert seen == [[((3,), np.float32), ((), weft.float0)]]
    g = weft.custom_jvp(lambda x, y: x * y)
    g.defjvp(lambda p, t: (g(*p), t[0] * p[1] + p[0] * t[1]))
    assert float(weft.grad(lambda x: g(x, 3.0))(2.0)) == 3.0


# ---- programs ------------------------------------------------------------------------------------


def test_the_program_shows_the_call_with_its_body():
    table = jnp.array([1.0, 2.0, 3.0])
    f = weft.custom_jvp(lambda x: lax.mul(lax.sin(x), table))

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), lax.mul(lax.cos(primals[0]), tangents[0])

    program = weft.make_jaxpr(lambda x: f(x))(X)
    assert str(program) == (
        "{ lambda a:f32[3] ; b:f32[3]. let\n"
        "    c:f32[3] = custom_jvp[\n"
        "      captured=(1, 0, 0)\n"
        "      jaxpr={ lambda ; d:f32[3] e:f32[3]. let\n"
        "          f:f32[3] = sin e\n"
        "          g:f32[3] = mul f d\n"
        "        in (g,) }\n"
        "      name=<lambda>\n"
        "      rule=f_jvp\n"
        "    ] a b\n"
        "  in (c,) }"
    )
    check_jaxpr(program)
    (out,) = eval_jaxpr(program, program.consts, X)
    close(out, np.sin(X) * [1, 2, 3])
    # The recorded call still has its rule.
    close(weft.grad(lambda x: eval_jaxpr(program, program.consts, x)[0].sum())(X), np.cos(X))


def test_it_is_lowered_in_place():
    text = weft.jit(scaled(2.0, jnp.sin)).lower(X).as_text()
    assert "stablehlo.sine" in text and "custom" not in text


# ---- stop_gradient -------------------------------------------------------------------------------


def test_stop_gradient_blocks_every_order_in_both_modes():
    def f(x):
        return jnp.sum(lax.stop_gradient(x) ** 2 * x)

    for g in (f, weft.jit(f), lambda x: lax.cond(True, f, f, x)):
        close(weft.grad(g)(X), X**2)
        close(weft.jacfwd(g)(X), X**2)
        for outer in (weft.jacfwd, weft.jacrev):
            for inner in (weft.jacfwd, weft.jacrev):
                close(outer(inner(g))(X), np.zeros((3, 3)))
        close(weft.vmap(weft.grad(g))(np.stack([X, X])), [X**2] * 2)
    tree = lax.stop_gradient({"a": X, "n": 3, "none": None, "k": weft.random.key(0)})
    assert tree["n"] == 3 and tree["none"] is None
    assert weft.jvp(lambda n: lax.stop_gradient(n), (3,), (np.zeros((), weft.float0),))[0] == 3


# ---- errors --------------------------------------------------------------------------------------


def failing(rule, function=lambda x: x, args=(2.0,), error=WeftError, match=None):
    """The error of a rule that returns something wrong, the same eager and recorded."""
    f = weft.custom_jvp(function)
    f.defjvp(rule)
    kinds = set()
    for g in (f, weft.jit(f)):
        with pytest.raises(error, match=match) as caught:
            weft.jvp(g, args, args)
        kinds.add(caught.value.fix.kind if caught.value.fix else None)
    assert len(kinds) == 1
    return caught.value


def test_called_without_a_rule():
    f = weft.custom_jvp(lambda x: x)
    with pytest.raises(WeftTypeError, match="no rule for its derivative") as caught:
        f(1.0)
    assert caught.value.fix.kind == "defjvp"
    getattr(f, caught.value.fix.kind)(lambda primals, tangents: (primals[0], tangents[0]))
    assert float(weft.grad(f)(1.0)) == 1.0


@pytest.mark.parametrize("bad", [None, 3, (1.0, 2.0, 3.0), {"a": 1}])
def test_a_rule_that_returns_no_pair(bad):
    error = failing(lambda p, t: bad, error=WeftTypeError, match="no pair")
    assert error.fix.kind == "pair"
    assert type(bad).__name__ in error.got


def test_a_result_of_another_structure():
    error = failing(
        lambda p, t: ((p[0], p[0]), (t[0],)),
        lambda x: (x, x),
        error=TreeError,
        match="tangent of another structure",
    )
    assert "a tuple of length 1 instead of a tuple of length 2" in error.got
    f = weft.custom_jvp(lambda x: {"a": x})
    f.defjvp(lambda p, t: ([p[0]], [t[0]]))
    with pytest.raises(TreeError, match="another structure than the function"):
        weft.jvp(weft.jit(f), (1.0,), (1.0,))


def test_none_as_a_tangent():
    error = failing(
        lambda p, t: ({"a": p[0], "b": p[0]}, {"a": t[0], "b": None}),
        lambda x: {"a": x, "b": x},
        error=TreeError,
        match="tangent of another structure",
    )
    assert "['b']: None instead of the leaf" in error.got


def test_a_tangent_of_another_shape_or_dtype():
    error = failing(
        lambda p, t: ({"a": p[0]}, {"a": jnp.ones(3)}),
        lambda x: {"a": x},
        error=ShapeError,
        match=r"tangent\['a'\]",
    )
    assert error.fix.data["shape"] == ()
    error = failing(lambda p, t: (p[0], jnp.int32(3)), error=DTypeError, match="the tangent")
    assert error.fix.kind == "convert" and error.fix.data["dtype"] == np.float32
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], jnp.int32(3).astype(error.fix.data["dtype"])))
    assert float(weft.jvp(f, (1.0,), (1.0,))[1]) == 3.0
    error = failing(lambda p, t: (p[0], "three"), error=WeftTypeError, match="no array")


def test_tangents_of_integers():
    error = failing(
        lambda p, t: ((p[0], 3), (t[0], 0)),
        lambda x: (x, 3),
        error=DTypeError,
        match=r"tangent\[1\]",
    )
    assert error.fix.kind == "float0"
    f = weft.custom_jvp(lambda x: (x, 3))
    zeros = np.zeros(error.fix.data["shape"], error.fix.data["dtype"])
    f.defjvp(lambda p, t: ((p[0], 3), (t[0], zeros)))
    assert float(weft.grad(lambda x: f(x)[0])(1.0)) == 1.0
    error = failing(lambda p, t: (p[0], np.zeros((), weft.float0)), error=DTypeError)
    assert error.fix.kind == "zeros"


def test_a_result_of_another_type_than_the_function_gives():
    f = weft.custom_jvp(lambda x: {"a": x})
    f.defjvp(lambda p, t: ({"a": jnp.ones(3)}, {"a": jnp.ones(3)}))
    with pytest.raises(ShapeError, match=r"result\['a'\] of the jvp rule"):
        weft.jvp(weft.jit(f), (1.0,), (1.0,))
    f.defjvp(lambda p, t: ({"a": jnp.int32(3)}, {"a": np.zeros((), weft.float0)}))
    with pytest.raises(DTypeError, match=r"result\['a'\] of the jvp rule") as caught:
        weft.jvp(weft.jit(f), (1.0,), (1.0,))
    dtype = caught.value.fix.data["dtype"]
    f.defjvp(lambda p, t: ({"a": jnp.int32(3).astype(dtype)}, {"a": t[0]}))
    assert float(weft.jvp(weft.jit(f), (1.0,), (1.0,))[1]["a"]) == 1.0


def test_arguments_that_are_no_arrays():
    f = scaled(1.0, lambda x, mode: x)
    for call in (lambda: f(1.0, {"m": "fast"}), lambda: weft.grad(f)(1.0, {"m": "fast"})):
        with pytest.raises(WeftTypeError, match=r"mode\['m'\] is no array") as caught:
            call()
    places = caught.value.fix.data["nondiff_argnums"]
    f = weft.custom_jvp(lambda x, mode: x, nondiff_argnums=places)
    f.defjvp(lambda mode, p, t: (p[0], 2.0 * t[0]))
    assert float(weft.grad(f)(1.0, {"m": "fast"})) == 2.0


def test_arguments_that_do_not_fit():
    f = scaled(1.0, lambda x, y: x)
    for args, kwargs in [((1.0,), {}), ((1.0, 2.0, 3.0), {}), ((1.0, 2.0), {"z": 1.0})]:
        with pytest.raises(WeftTypeError, match="do not fit its signature"):
            f(*args, **kwargs)
    f = scaled(1.0, lambda x, *, k=1.0: x)
    with pytest.raises(WeftTypeError, match="no position") as caught:
        f(1.0, k=2.0)
    assert caught.value.fix.kind == "positional"
    f = scaled(1.0, lambda x, k=1.0: x)  # the fix
    assert float(f(1.0, k=2.0)) == 1.0


def test_a_keyword_behind_a_parameter_left_out_has_a_position():
    f = weft.custom_jvp(lambda x, keep=False, times=1.0: times * x, nondiff_argnums=(1,))
    f.defjvp(lambda keep, p, t: (p[0] * p[1], 10.0 * t[0]))
    assert float(f(2.0, times=3.0)) == 6.0
    assert float(weft.grad(lambda x: f(x, times=3.0))(2.0)) == 10.0


def test_numbers_and_names_that_do_not_exist():
    for options in ({"nondiff_argnums": (0, 2)}, {"nondiff_argnums": -3}):
        with pytest.raises(WeftValueError, match="there are 2 arguments") as caught:
            weft.custom_jvp(lambda x, y: x, **options)
        assert caught.value.fix.data["number"] in (2, -3)
    with pytest.raises(WeftValueError, match="'z'"):
        weft.custom_jvp(lambda x, y: x, nondiff_argnames=("z",))
    f = weft.custom_jvp(lambda *xs: xs[0], nondiff_argnums=(4,))
    f.defjvp(lambda p, t: (p[0], t[0]))
    with pytest.raises(WeftValueError, match="there are 2 arguments"):
        f(1.0, 2.0)


def test_rules_that_are_no_functions():
    f = weft.custom_jvp(lambda x, y: x)
    with pytest.raises(WeftTypeError, match="takes functions"):
        f.defjvp(3)
    with pytest.raises(WeftTypeError, match="takes functions"):
        f.defjvps(3, None)
    with pytest.raises(WeftTypeError, match="one rule per argument") as caught:
        f.defjvps(None)
    f.defjvps(*[None] * caught.value.fix.data["count"])
    assert float(weft.grad(f)(1.0, 2.0)) == 0.0
    with pytest.raises(WeftTypeError, match="nondiff_argnums"):
        weft.custom_jvp(lambda x, y: x, nondiff_argnums=1).defjvps(None)
    with pytest.raises(WeftTypeError, match="takes a function"):
        weft.custom_jvp(3)


def test_a_rule_that_is_not_linear_can_not_be_transposed():
    f = weft.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], t[0] * t[0]))
    assert float(weft.jvp(f, (1.0,), (3.0,))[1]) == 9.0
    with pytest.raises(WeftTypeError, match="not linear"):
        weft.grad(f)(1.0)
