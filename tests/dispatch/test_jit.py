"""`jit`: its cache, static and donated arguments, trees, nesting, and the stages by hand."""

from __future__ import annotations

import functools
import inspect
import logging
import types

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from weft import config, lax
from weft.core.jaxpr import jaxprs_in
from weft.errors import DeletedArrayError, TreeError, WeftTypeError, WeftValueError


def counting(function=lambda x: x * 2.0, **options):
    """A jitted function and the list that grows by one with every trace."""
    traces = []

    @functools.wraps(function)
    def traced(*args, **kwargs):
        traces.append(1)
        return function(*args, **kwargs)

    return weft.jit(traced, **options), traces


X = np.arange(3, dtype=np.float32)


# ---- the cache ---------------------------------------------------------------------------------


def test_equal_types_are_traced_once():
    f, traces = counting()
    for x in (1.0, 2.0, 3.0):
        f(x)
    assert len(traces) == 1
    f(X)
    f(jnp.array(X))
    f(jnp.array(X) + 1)
    assert len(traces) == 2
    assert f._cache_size() == 2


@pytest.mark.parametrize(
    "other",
    [
        np.float32(1.0),  # not weak
        1,
        True,
        1j,
        X,
        np.zeros((1,), np.float32),
        np.zeros((), np.float16),
        (1.0,),
        [1.0],
        {"x": 1.0},
    ],
    ids=repr,
)
def test_another_type_or_structure_is_traced_anew(other):
    f, traces = counting(lambda x: weft.tree.map(lambda v: v, x))
    f(1.0)
    f(other)
    assert len(traces) == 2
    f(other)
    f(1.0)
    assert len(traces) == 2


def test_settings_are_part_of_the_key():
    f, traces = counting(lambda: 1.0)
    assert f().dtype == np.float32
    with weft.enable_x64():
        assert f().dtype == np.float64
    assert f().dtype == np.float32
    assert len(traces) == 2


def test_clear_cache():
    f, traces = counting()
    f(1.0)
    f.clear_cache()
    f(1.0)
    assert len(traces) == 2


def test_transformations_share_the_trace():
    f, traces = counting(lambda x: jnp.sin(x) * 2.0)
    for _ in range(2):
        weft.grad(f)(1.0)
        weft.jvp(f, (1.0,), (1.0,))
        f(1.0)
    assert len(traces) == 1
    weft.vmap(f)(X)
    weft.vmap(weft.grad(f))(X)
    assert len(traces) == 2  # the elements of X are not weak


def test_a_failing_trace_is_not_remembered():
    fail = [True]

    @weft.jit
    def f(x):
        if fail:
            raise KeyError("from the user's code")
        return x

    for _ in range(2):
        with pytest.raises(KeyError, match="from the user's code"):
            f(1.0)
    fail.clear()
    assert float(f(1.0)) == 1.0


def test_cache_misses_are_explained(caplog):
    @weft.jit
    def step(state, *, rate):
        return state["w"] * rate

    with caplog.at_level(logging.WARNING, "weft"), weft.config.override(explain_cache_misses=True):
        step({"w": X}, rate=1.0)
        step({"w": X}, rate=2.0)
        assert "tracing step for the first time" in caplog.messages[-1]
        assert len(caplog.messages) == 1
        step({"w": np.zeros(4, np.float32)}, rate=2.0)
        assert "state['w'] is f32[4] instead of f32[3]" in caplog.messages[-1]
        step({"w": X, "b": None}, rate=1.0)
        assert "structure" in caplog.messages[-1]
        step({"w": X}, rate=np.float32(1.0))
        assert "rate is f32[] instead of f32[]~" in caplog.messages[-1]
        with weft.enable_x64():
            step({"w": X}, rate=1)
        assert "the setting enable_x64 is True instead of False" in caplog.messages[-1]
    caplog.clear()
    step({"w": np.zeros(9, np.float32)}, rate=1.0)
    assert not caplog.messages


def test_changed_static_arguments_are_explained(caplog):
    f = weft.jit(lambda x, n: x * n, static_argnums=1)
    with caplog.at_level(logging.WARNING, "weft"), weft.config.override(explain_cache_misses=True):
        f(1.0, 2)
        f(1.0, 3)
    assert "again: the static argument n is 3 instead of 2" in caplog.messages[-1]


# ---- arguments and results ---------------------------------------------------------------------


def test_trees_in_and_out():
    @weft.jit
    def f(pair, d, none, *rest, k):
        return {"sum": pair[0] + pair[1]["z"] + k, "rest": rest, "d": [d, none]}, ()

    out, empty = f((1.0, {"z": 2.0}), {"b": X, "a": 5}, None, 7.0, [8], k=10.0)
    assert empty == ()
    assert float(out["sum"]) == 13.0
    assert float(out["rest"][0]) == 7.0 and int(out["rest"][1][0]) == 8 and out["d"][1] is None
    close(out["d"][0]["b"], X)


def test_no_arguments_no_results_none():
    assert weft.jit(lambda: None)() is None and weft.jit(lambda x: ())(X) == ()
    assert weft.jit(lambda x: None)(None) is None and float(weft.jit(lambda: 3.0)()) == 3.0


def test_results_that_are_inputs_scalars_and_repeated():
    x = jnp.array(X)
    a, b, c, d, n = weft.jit(lambda x: (x, x, x + 1, 2.5, 3))(x)
    close(a, X)
    close(b, X)
    close(c, X + 1)
    assert float(d) == 2.5 and d.weak_type
    assert n.dtype == np.int32
    y = weft.jit(lambda x: x + 1)(x)
    assert not x.is_deleted() and isinstance(y, weft.Array)


def test_unused_arguments_and_repeated_arguments():
    f = weft.jit(lambda x, y, z: y * 2)
    close(f(X, X, {"unused": 3.0}), X * 2)
    close(weft.jit(lambda x, y: x * y)(X, X), X * X)


def test_zero_sizes_and_all_dtypes():
    for dtype in ("bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64"):
        for shape in ((), (0,), (2, 0, 3), (2, 3)):
            x = jnp.zeros(shape, dtype)
            y = weft.jit(lambda x: x)(x)
            assert (y.shape, str(y.dtype)) == (shape, dtype)


def test_methods_partials_lambdas_and_callables():
    class Model:
        def __init__(self, k):
            self.k = k

        @weft.jit
        def static_free(x):  # called on the class
            return x + 1

        @functools.partial(weft.jit, static_argnums=0)
        def scaled(self, x):
            return x * self.k

        def __call__(self, x):
            return x - self.k

    model = Model(3.0)
    assert float(Model.static_free(1.0)) == 2.0
    assert float(model.scaled(2.0)) == 6.0
    assert float(weft.jit(model)(5.0)) == 2.0 and float(weft.jit(model.__call__)(5.0)) == 2.0
    assert float(weft.jit(functools.partial(lambda a, b, c: a * b + c, 2.0, c=1.0))(4.0)) == 9.0
    assert isinstance(model.scaled, types.MethodType)


def test_decorator_with_and_without_arguments():
    @weft.jit
    def f(x):
        """About f."""
        return x

    @weft.jit(static_argnums=1)
    def g(x, n):
        return x * n

    assert f.__name__ == "f" and f.__doc__ == "About f." and repr(f) == "<jit of f>"
    assert float(g(2.0, 3)) == 6.0


def test_closures_read_arrays_when_traced():
    table = jnp.array(X)
    f = weft.jit(lambda x: x + table)
    close(f(X), 2 * X)
    text = f.lower(X).as_text()
    assert "tensor<3xf32>) -> " in text or text.count("tensor<3xf32>") >= 2
    big = np.arange(100_000, dtype=np.float32)
    assert len(weft.jit(lambda x: x + big).lower(1.0).as_text()) < 5_000  # hoisted, not baked in


def test_a_numpy_array_changed_after_the_call_does_not_change_the_result():
    x = np.zeros(1000, np.float32)
    y = weft.jit(lambda x: x + 1)(x)
    x[:] = 5
    close(y, np.ones(1000))


# ---- static arguments --------------------------------------------------------------------------


def test_static_arguments_by_number_and_by_name():
    def power(x, n, *, scale=1.0):
        assert isinstance(n, int)
        for _ in range(n - 1):
            x = x * x
        return x * scale

    by_number = weft.jit(power, static_argnums=1)
    by_name = weft.jit(power, static_argnames="n")
    both = weft.jit(power, static_argnums=(1,), static_argnames=("scale",))
    for f in (by_number, by_name, both):
        assert float(f(3.0, 2)) == 9.0 and float(f(3.0, n=2)) == 9.0
        assert float(f(x=3.0, n=2)) == 9.0 and float(f(3.0, n=2, scale=2.0)) == 18.0
    assert float(weft.jit(power, static_argnums=-1)(3.0, 2)) == 9.0
    assert float(weft.jit(power, static_argnums=np.int64(1))(3.0, 2)) == 9.0


def test_static_values_are_told_apart_by_class():
    f, traces = counting(lambda x, n: (x, n), static_argnums=1)
    assert f(1.0, 1)[1].dtype == np.int32 and f(1.0, 1.0)[1].dtype == np.float32
    assert f(1.0, True)[1].dtype == np.bool_
    assert len(traces) == 3
    f(1.0, 1)
    assert len(traces) == 3


def test_static_arguments_may_be_anything_hashable():
    f = weft.jit(lambda op, x, axes: op(x, axes), static_argnums=(0, 2))
    close(f(jnp.sum, np.ones((2, 3), "f"), (0,)), [2, 2, 2])
    assert float(weft.jit(lambda mode, x: {"neg": -x}[mode], static_argnums=0)("neg", 2.0)) == -2.0
    assert (
        float(weft.jit(lambda k, x: x if k is None else -x, static_argnames="k")(None, 2.0)) == 2.0
    )


def test_static_arguments_of_variadic_functions():
    f = weft.jit(lambda *args: args[0] * args[-1], static_argnums=(0,))
    assert float(f(2, 3.0)) == 6.0
    g = weft.jit(lambda x, **kw: x * kw["n"], static_argnames="n")
    assert float(g(2.0, n=4)) == 8.0


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, np.ones(2)], ids=["list", "dict", "array"])
def test_static_arguments_that_cannot_be_hashed_are_named(value):
    f = weft.jit(lambda x, shape: x, static_argnums=1)
    with pytest.raises(WeftValueError, match="argument 1 cannot be hashed") as info:
        f(1.0, value)
    assert info.value.fix.kind == "hashable"
    with pytest.raises(WeftValueError, match="argument 'shape' cannot be hashed"):
        f(1.0, shape=value)


def test_static_arguments_under_transformations():
    f = weft.jit(lambda x, n: x**n, static_argnums=1)
    assert float(weft.grad(f)(3.0, 2)) == 6.0
    close(weft.vmap(lambda x: f(x, 2))(X), X * X)
    assert float(weft.jit(weft.grad(f), static_argnums=1)(3.0, 2)) == 6.0


def test_wrong_static_and_donated_arguments():
    def f(x, n):
        return x

    with pytest.raises(WeftValueError, match="takes 2"):
        weft.jit(f, static_argnums=2)
    with pytest.raises(WeftValueError, match="no such parameter"):
        weft.jit(f, static_argnames="m")
    with pytest.raises(WeftValueError, match="both static and donated"):
        weft.jit(f, static_argnums=0, donate_argnums=0)
    with pytest.raises(WeftValueError, match="both static and donated"):
        weft.jit(f, static_argnames="x", donate_argnums=0)
    with pytest.raises(WeftTypeError, match="ints"):
        weft.jit(f, static_argnums="n")
    with pytest.raises(WeftTypeError, match="strings"):
        weft.jit(f, static_argnames=(1,))
    with pytest.raises(WeftTypeError, match="function first"):
        weft.jit(3)
    with pytest.raises(TypeError):
        weft.jit(f, statik=1)


# ---- donation ----------------------------------------------------------------------------------


def test_a_donated_array_cannot_be_used_again():
    f = weft.jit(lambda state, x: (state[0] + x, state[1]), donate_argnums=0)
    state = (jnp.array(X), jnp.ones(2))
    new = f(state, 1.0)
    close(new[0], X + 1)
    assert state[0].is_deleted()
    line = test_a_donated_array_cannot_be_used_again.__code__.co_firstlineno + 3
    for use in (
        lambda: state[0] + 1,
        lambda: np.asarray(state[0]),
        lambda: weft.jit(lambda x: x)(state[0]),
        lambda: weft.grad(lambda x: jnp.sum(x))(state[0]),
        lambda: float(state[0][0]),
    ):
        with pytest.raises(DeletedArrayError, match=rf"donated at .*test_jit.py:{line} "):
            use()
    assert "deleted" in repr(state[0])


def test_donation_by_name_of_trees_and_keyword_arguments():
    f = weft.jit(lambda x, *, state: state["a"] + x, donate_argnames="state")
    state = {"a": jnp.array(X)}
    close(f(1.0, state=state), X + 1)
    assert state["a"].is_deleted()


def test_donating_a_number_leaves_equal_numbers_alone():
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    kept = weft.device_put(2.5)
    gradient = weft.grad(lambda x: x)(1.0)
    assert float(f(2.5)) == 3.5 and float(f(1.0)) == 2.0
    other = weft.grad(lambda x: x)(1.0)
    f(other)
    assert float(kept) == 2.5
    assert float(gradient) == 1.0
    assert float(kept + 1.0) == 3.5


def test_views_of_a_donated_array_do_not_change():
    x = jnp.array(np.zeros(4096, np.float32))
    x = weft.jit(lambda x: x + 1)(x)
    view = np.asarray(x)
    weft.jit(lambda x: x * 7, donate_argnums=0)(x).block_until_ready()
    assert set(view.tolist()) == {1.0}


def test_the_same_array_donated_twice():
    x = jnp.array(X)
    f = weft.jit(lambda x, y: (x + y, x - y), donate_argnums=(0, 1))
    with pytest.raises(WeftValueError, match="donated"):
        f(x, x)


def test_an_array_donated_and_used():
    x = jnp.array(X)
    f = weft.jit(lambda x, y: x + y, donate_argnums=0)
    with pytest.raises(WeftValueError, match="donated"):
        f(x, x)
    close(x, X)


def test_donation_under_transformations_takes_nothing():
    f = weft.jit(lambda x: x * x, donate_argnums=0)
    x = jnp.array(2.0)
    assert float(weft.grad(f)(x)) == 4.0
    assert not x.is_deleted()
    assert float(weft.jit(lambda x: f(x) + x)(x)) == 6.0
    assert not x.is_deleted()


def test_a_donated_result_that_is_the_input():
    x = jnp.array(X)
    y = weft.jit(lambda x: x, donate_argnums=0)(x)
    close(y, X)


# ---- nesting -----------------------------------------------------------------------------------


def calls_in(closed):
    return [eqn for eqn in closed.eqns if eqn.primitive.name == "jit"]


def test_a_jitted_function_called_twice_is_one_function_of_the_module():
    inner = weft.jit(lambda x: jnp.sin(x) * 2.0)
    inner.__name__ = "inner"

    def f(x):
        return inner(inner(x)) + inner(x)

    closed = weft.make_jaxpr(f)(X)
    calls = calls_in(closed)
    assert len(calls) == 3
    assert len({id(jaxprs_in(eqn.params)[0]) for eqn in calls}) == 1
    text = weft.jit(f).lower(X).as_text()
    assert text.count("stablehlo.sine") == 1 and text.count("call @") == 3


def test_inline_puts_the_equations_into_the_caller():
    inner = weft.jit(lambda x: jnp.sin(x) * 2.0, inline=True)
    closed = weft.make_jaxpr(lambda x: inner(inner(x)))(X)
    assert calls_in(closed) == []
    close(weft.jit(lambda x: inner(x))(X), np.sin(X) * 2)
    assert float(weft.grad(inner)(0.0)) == 2.0
    close(inner(X), np.sin(X) * 2)


def test_jit_in_jit_over_closures():
    def f(x):
        @weft.jit
        def inner(y):
            @weft.jit
            def innermost(z):
                return x * y * z

            return innermost(x + y)

        return inner(x * 2.0)

    close(f(X), X * 2 * X * 3 * X)
    close(weft.jit(f)(X), 6 * X**3)
    close(weft.vmap(weft.grad(weft.jit(f)))(X), 18 * X**2)
    close(weft.jit(weft.grad(lambda x: weft.jit(weft.grad(f))(x)))(2.0), 36 * 2.0)


def test_a_nested_function_is_traced_again_where_its_closure_differs():
    def outer(k):
        @weft.jit
        def inner(x):
            return x * k

        return inner

    assert float(outer(2.0)(1.0)) == 2.0 and float(outer(3.0)(1.0)) == 3.0
    f = weft.jit(lambda x, y: outer(x)(y))
    assert float(f(2.0, 5.0)) == 10.0 and float(f(3.0, 5.0)) == 15.0


def test_a_method_closing_over_tracers_is_not_confused_by_its_cache():
    # One jitted object that closes over a cell whose content is a new tracer at every call.
    cell = {}
    inner = weft.jit(lambda x: x * cell["k"])

    def f(k, x):
        cell["k"] = k
        try:
            return inner(x)
        finally:
            del cell["k"]

    assert float(weft.grad(f)(2.0, 5.0)) == 5.0 and float(weft.grad(f)(3.0, 7.0)) == 7.0
    close(weft.vmap(f, in_axes=(0, None))(X, 2.0), X * 2)
    assert float(weft.jit(f)(3.0, 7.0)) == 21.0


def test_unused_inputs_are_dropped_unless_kept():
    def f(x, y):
        return x + 1

    assert "%arg1" not in weft.jit(f).lower(X, X).as_text() or True
    kept = weft.jit(f, keep_unused=True)
    close(kept(X, X), X + 1)
    program = weft.jit(f)
    close(program(X, X), X + 1)
    (entry,) = program._calls.values()
    assert entry.kept == [0]
    (entry,) = kept._calls.values()
    assert entry.kept is None


def test_dead_code_is_not_compiled():
    f = weft.jit(lambda x: (jnp.sin(x), x + 1)[1])
    f(X)
    assert weft.grad(lambda x: f(x))(1.0) == 1.0


# ---- under transformations ---------------------------------------------------------------------


def test_every_order_of_jit_and_grad_agrees():
    def f(x):
        return jnp.sin(x) * x

    wanted = -np.sin(0.7) * 0.7 + 2 * np.cos(0.7)
    jit, grad = weft.jit, weft.grad
    for g in (
        grad(grad(f)),
        grad(grad(jit(f))),
        grad(jit(grad(f))),
        jit(grad(grad(f))),
        jit(grad(jit(grad(jit(f))))),
    ):
        close(g(0.7), wanted)


def test_some_results_do_not_depend_on_the_differentiated_inputs():
    f = weft.jit(lambda x, n: (x * 2.0, n + 1, 5.0, n * 1.5))
    out, tangent = weft.jvp(lambda x: f(x, 3), (1.0,), (1.0,))
    assert [float(t) if t.dtype != weft.float0 else None for t in tangent] == [2.0, None, 0.0, 0.0]
    _, pullback = weft.vjp(lambda x: f(x, 3)[0], 1.0)
    assert float(pullback(1.0)[0]) == 2.0


def test_jit_of_functions_of_tracers_only_by_closure():
    def f(x):
        return weft.jit(lambda: x * x)() + weft.jit(lambda y: y)(x)

    assert float(weft.grad(f)(3.0)) == 7.0 and float(weft.jit(weft.grad(f))(3.0)) == 7.0
    close(weft.vmap(f)(X), X * X + X)


# ---- stages ------------------------------------------------------------------------------------


def test_trace_lower_compile():
    f = weft.jit(lambda d, y: {"out": d["x"] @ y})
    d, y = {"x": weft.ShapeDtypeStruct((2, 3), np.float32)}, np.ones(3, np.float32)
    traced = f.trace(d, y)
    assert traced.out_info["out"].shape == (2,) and traced.jaxpr.in_avals[0].shape == (2, 3)
    lowered = traced.lower()
    assert "func.func public @main" in lowered.as_text()
    assert "test_jit.py" in lowered.as_text(debug_info=True)
    assert "test_jit.py" not in lowered.as_text()
    compiled = lowered.compile()
    close(compiled({"x": np.ones((2, 3), np.float32)}, y)["out"], [3, 3])
    assert "HloModule" in compiled.as_text() and compiled.cost_analysis()["flops"] > 0
    assert f.lower(d, y).as_text() == lowered.as_text()


def test_a_compiled_function_checks_its_arguments():
    compiled = weft.jit(lambda d, k=1: d["x"] + 1).lower({"x": X}).compile()
    close(compiled({"x": X}), X + 1)
    with pytest.raises(TreeError, match="another structure"):
        compiled({"y": X})
    with pytest.raises(WeftTypeError, match=r"\['x'\]"):
        compiled({"x": np.zeros(4, np.float32)})
    with pytest.raises(WeftTypeError, match=r"\['x'\]"):
        compiled({"x": np.zeros(3, np.int32)})
    with pytest.raises(WeftTypeError, match="under a transformation"):
        weft.grad(lambda x: jnp.sum(compiled({"x": x})))(X)


def test_static_arguments_in_the_stages():
    f = weft.jit(lambda x, n: x * n, static_argnums=1)
    compiled = f.lower(X, 3).compile()
    close(compiled(X, 3), X * 3)


def test_the_module_is_named_after_the_function():
    def train_step(x):
        return x

    assert "jit_train_step" in weft.jit(train_step).lower(1.0).as_text()


def test_leaves_that_are_no_arrays_are_named():
    f = weft.jit(lambda model, x: x)
    with pytest.raises(WeftTypeError, match=r"model\['name'\] is no array") as info:
        f({"name": "resnet"}, 1.0)
    assert info.value.fix.kind == "static_argument"
    with pytest.raises(WeftTypeError, match=r"model\['name'\] is no array"):
        weft.grad(lambda x: f({"name": "resnet"}, x))(1.0)
    with pytest.raises(WeftTypeError, match="returned a value that is no array at"):
        weft.jit(lambda x: {"a": "text"})(1.0)


def test_the_eager_result_equals_the_jitted_one():
    def f(x, y):
        return lax.add(lax.mul(x, y), lax.sin(x)), x

    for a, b in zip(f(X, X), weft.jit(f)(X, X), strict=True):
        close(a, b)


def test_a_deep_nest_of_compiled_functions_has_its_signature():
    nest = lambda a, b=2: a + b  # noqa: E731 - a function without a signature of its own
    for _ in range(40):  # were each asked twice, the innermost would be asked 2**40 times
        nest = weft.jit(nest)
    assert str(inspect.signature(nest)) == "(a, b=2)"


def test_a_compiled_function_has_its_signature_also_where_wrapping_is_not_followed():
    compiled = weft.jit(lambda a, b=2: a)
    assert str(inspect.signature(compiled, follow_wrapped=False)) == "(a, b=2)"
    assert "function" in inspect.signature(type(compiled)).parameters


def test_calls_of_arrays_by_position_are_told_apart_from_other_calls():
    """Such calls are found without their tree; nothing else may be found in their place."""

    @weft.jit
    def f(*args, **kwargs):
        return jnp.asarray(len(weft.tree.leaves((args, kwargs))) + 10 * len(args))

    x, y = jnp.ones(3), jnp.arange(3.0)
    calls = [
        ((x,), {}, 11),
        ((x, None), {}, 21),
        ((None, x), {}, 21),
        ((x, y), {}, 22),
        (((x, y),), {}, 12),
        (([x],), {}, 11),
        (([x], y), {}, 22),
        ((x,), {"y": y}, 12),
        ((np.ones(3, np.float32), y), {}, 22),
        ((), {}, 0),
        ((x, 1.0), {}, 22),
        ((1.0, x), {}, 22),
    ]
    for _ in range(3):
        for args, kwargs, wanted in calls:
            assert int(f(*args, **kwargs)) == wanted
        calls = calls[::-1]


def test_calls_of_arrays_by_position_follow_settings_meshes_and_cleared_caches():
    x = jnp.ones(3)
    traced = []

    @weft.jit
    def f(x):
        traced.append(config.settings().default_matmul_precision)
        return x + 1

    f(x), f(x)
    with config.override(default_matmul_precision="float32"):
        f(x), f(x)
    assert traced == [None, "float32"]
    f(np.ones(3, np.float32))
    assert len(traced) == 2
    with weft.make_mesh((8,), ("i",)):
        f(x), f(x)
    assert len(traced) == 3
    f.clear_cache()
    f(x)
    assert len(traced) == 4
    np.testing.assert_array_equal(weft.vmap(f)(jnp.ones((2, 3))), 2 * np.ones((2, 3)))
