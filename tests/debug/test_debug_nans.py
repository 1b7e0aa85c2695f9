"""debug_nans and debug_infs: which operation, line, iteration, branch and pass made a NaN."""

from __future__ import annotations

import pathlib
import pickle
import threading

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from processes import python_output
from weft import config, errors
from weft.callbacks.primitives import io_callback
from weft.config import debug_infs, debug_nans
from weft.control_flow.checkpoint import checkpoint
from weft.control_flow.fori_loop import fori_loop
from weft.control_flow.loops import scan
from weft.control_flow.while_loop import while_loop
from weft.custom_derivatives.custom_jvp_rule import custom_jvp
from weft.custom_derivatives.custom_vjp_rules import custom_vjp
from weft.errors import NonFiniteError
from weft.profiler.session import named_scope
from weft.runtime import stablehlo

pytestmark = pytest.mark.fast

F32 = np.float32
TEXT = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()


def line_of(mark):
    """`file:line` of the line of this file that ends with the comment `# <mark>`."""
    (number,) = [i for i, line in enumerate(TEXT, 1) if line.endswith(f"# {mark}")]
    return f"test_debug_nans.py:{number} in"


def failure(function, *args, of=None, at=""):
    """The error that a call raises with debug_nans, of that operation and at the line marked so."""
    with debug_nans(), pytest.raises(NonFiniteError) as caught:
        function(*args)
    assert of in (None, caught.value.operation)
    assert not at or line_of(at) in caught.value.location
    return caught.value


def difference_of_roots(x):
    low = wnp.sqrt(x)
    high = wnp.sqrt(x - 2.0)  # root
    return high - low


# ---- operation, operands, line ---------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_operation_line_and_operands_are_named(compiled):
    function = weft.jit(difference_of_roots) if compiled else difference_of_roots
    error = failure(function, np.array([4.0, 1.0, 9.0], F32), of="sqrt", at="root")
    assert error.kind == "NaN"
    assert not error.backward
    assert "f32[3], with NaN in 1 of 3 elements, first at [1]" in error.got
    assert "operand 0, f32[3]: -1.0 there" in error.got
    assert str(error).startswith("sqrt made a NaN\n")


def test_the_error_is_a_floating_point_error_and_a_weft_error():
    error = failure(wnp.log, -1.0)
    assert isinstance(error, FloatingPointError) and isinstance(error, errors.WeftError)


def test_the_suggested_fix_works():
    x = np.array([-1.0], F32)
    error = failure(weft.jit(wnp.log), x)
    assert error.fix.kind == "allow"
    with debug_nans(), config.override(**{error.fix.data["setting"]: False}):
        assert np.isnan(weft.jit(wnp.log)(x)).all() and np.isnan(wnp.log(x)).all()


def test_finite_results_pass():
    x = np.array([1.0, 2.0], F32)
    with debug_nans(), debug_infs():
        np.testing.assert_allclose(weft.jit(wnp.log)(x), np.log(x), rtol=1e-6)
        np.testing.assert_allclose(weft.grad(lambda x: wnp.sum(x * x))(x), 2 * x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "complex64"])
def test_every_floating_and_complex_dtype_is_looked_at(dtype):
    x = wnp.zeros(3, "float32").astype(dtype)
    with config.override(debug_nans=True), pytest.raises(NonFiniteError):
        weft.jit(lambda x: (x.astype("float32") / 0.0).astype(dtype) if "8" in dtype else x / x)(x)


def test_integers_and_booleans_are_not_looked_at():
    with debug_nans():
        assert weft.lax.div(np.int32(7), np.int32(2)) == 3
        assert wnp.isnan(np.array([1.0, np.nan], F32)).tolist() == [False, True]


def test_arrays_that_hold_nan_may_be_made_and_read():
    with debug_nans():
        x = wnp.asarray(np.array([1.0, np.nan], F32))
        assert np.isnan(x[1])


@pytest.mark.parametrize("compiled", [False, True])
def test_an_input_that_holds_nan_already_is_named(compiled):
    def shift(values, by):
        return values["a"] * by

    function = weft.jit(shift) if compiled else shift
    error = failure(function, {"a": wnp.asarray(np.array([1.0, np.nan], F32))}, 2.0, of="mul")
    assert str(error).startswith("mul passed on a NaN\n")
    operand = "operand 0, f32[2] (values['a'])" if compiled else "operand 0, f32[2]"
    assert f"{operand}: nan there; it holds NaN already" in error.got


def test_a_compiled_function_may_pass_on_what_it_was_given():
    with debug_nans():
        out = weft.jit(lambda x, y: (x, y + 1.0))(np.array([np.nan], F32), 1.0)
    assert np.isnan(out[0]).all()


def test_closed_over_arrays_are_named():
    hole = wnp.asarray(np.array([np.nan, 1.0], F32))
    error = failure(weft.jit(lambda x: x + hole), 1.0)
    assert "(a closed-over array): nan there" in error.got


# ---- which NaN it is -------------------------------------------------------------------------


def test_compiled_calls_are_looked_at_by_their_results():
    def masked(x):
        return wnp.where(x > 0.0, wnp.log(x), 0.0)

    x = np.array([1.0, -1.0], F32)
    with debug_nans():
        np.testing.assert_array_equal(weft.jit(masked)(x), np.zeros(2, F32))
    assert failure(masked, x).operation == "log"


def test_a_masked_nan_is_not_blamed_for_another():
    def f(x):
        masked = wnp.where(x > 0.0, wnp.log(x), 0.0)
        return wnp.sqrt(masked - 1.0)  # blamed

    failure(weft.jit(f), np.array([1.0, -1.0], F32), of="sqrt", at="blamed")


def test_the_first_of_several_is_named():
    def f(x):
        first = wnp.log(x)  # first
        second = wnp.sqrt(x)
        return second, first + second

    failure(weft.jit(f), -1.0, of="log", at="first")


def test_a_program_that_passes_nan_on_is_not_where_it_was_made():
    @weft.jit
    def swap(a, b):
        return b, a

    def f(x, y):
        x, y = swap(x, y)
        return y * 3.0  # used

    failure(weft.jit(f), wnp.asarray(np.nan), 1.0, of="mul", at="used")


def test_functions_of_numpy_name_the_operation_inside():
    error = failure(wnp.std, np.array([1.0, np.inf], F32), of="sub")
    assert "infinity" in error.got


# ---- loops and branches ------------------------------------------------------------------------


def root_step(left, x):
    left = left - x
    return left, wnp.sqrt(left)  # step


def walk(xs):
    return scan(root_step, 5.0, xs)  # walk


@pytest.mark.parametrize("compiled", [False, True])
def test_the_iteration_of_a_scan_is_named(compiled):
    function = weft.jit(walk) if compiled else walk
    error = failure(function, np.array([1.0, 1.0, 1.0, 7.0, 1.0], F32), of="sqrt", at="step")
    assert error.within[0].startswith("iteration 3 of the scan at ")
    assert line_of("walk") in error.within[0]
    assert "operand 0, f32[]: -5.0" in error.got and len(error.within) == 1 + compiled


def test_iterations_of_nested_scans_are_named_from_the_inside():
    def outer(carry, row):
        return scan(root_step, carry, row)[0], 0

    rows = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 9.0]], F32)

    def f(rows):
        return scan(lambda c, r: (outer(c, r)[0], scan(root_step, c, r)[1]), 5.0, rows)

    error = failure(weft.jit(f), rows)
    assert [place.split(" at ")[0] for place in error.within[:2]] == [
        "iteration 1 of the scan",
        "iteration 2 of the scan",
    ]
    assert error.within[2].startswith("the jit of f, called at ")


def test_a_reversed_scan_counts_like_its_xs():
    error = failure(lambda xs: scan(root_step, 5.0, xs, reverse=True), np.array([1, 9, 1, 1], F32))
    assert error.within[0].startswith("iteration 1 of the scan at ")


def test_a_nan_that_a_loop_was_given_is_found_where_it_is_used():
    given = wnp.asarray(F32(np.nan))
    error = failure(
        weft.jit(lambda c, xs: scan(root_step, c, xs)), given, np.ones(2, F32), of="sub"
    )
    assert error.within[0].startswith("iteration 0 of the scan at ") and "already" in error.got


def test_a_loop_of_no_steps_passes_its_carry_on():
    with debug_nans():
        given = wnp.asarray(F32(np.nan))
        carry, _ = weft.jit(lambda c, xs: scan(root_step, c, xs))(given, np.ones(0, F32))
        assert np.isnan(carry) and np.isnan(while_loop(lambda x: x < 0.0, wnp.log, given))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_iteration_of_a_while_loop_is_named(compiled):
    def f(x):
        return while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, wnp.log(s[1])), (0, x))

    # 5, 1.61, 0.48, -0.74: the fourth logarithm fails.
    error = failure(weft.jit(f) if compiled else f, 5.0, of="log")
    assert error.within[0].startswith("iteration 3 of the while_loop at ")


def test_the_iteration_of_a_fori_loop_is_named():
    error = failure(weft.jit(lambda x: fori_loop(0, 9, lambda i, x: wnp.log(x), x)), 5.0)
    assert error.within[0].startswith("iteration 3 of the ")


@pytest.mark.parametrize("compiled", [False, True])
def test_the_branch_is_named(compiled):
    def f(x):
        return weft.lax.switch(2, [wnp.sin, wnp.cos, wnp.log], x)

    error = failure(weft.jit(f) if compiled else f, -1.0, of="log")
    assert error.within[0].startswith("branch 2 of the conditional at ")


def test_the_jitted_function_is_named():
    @weft.jit
    def inner(x):
        return wnp.log(x)

    def outer(x):
        return inner(x) + 1.0  # inner call

    error = failure(weft.jit(outer), -1.0)
    assert error.within[0].startswith("the jit of inner at ")
    assert line_of("inner call") in error.within[0]
    assert error.within[1].startswith("the jit of outer, called at ")


def test_a_branch_that_is_not_taken_is_not_looked_at():
    with debug_nans():
        out = weft.jit(lambda x: weft.lax.cond(x > 0, wnp.log, wnp.sin, x))(-1.0)
    np.testing.assert_allclose(out, np.sin(-1.0), rtol=1e-6)


# ---- forward and backward ---------------------------------------------------------------------


def root_of_square(x):
    return wnp.sqrt(x * x)  # kink


@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
@pytest.mark.parametrize("inner", [lambda f: f, weft.jit, checkpoint])
def test_the_backward_pass_is_named(outer, inner):
    error = failure(outer(weft.grad(inner(root_of_square))), 0.0, of="mul", at="kink")
    assert error.backward
    assert error.location.startswith("the backward pass of ")
    assert f"  in {error.location}" in str(error)


@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
def test_the_forward_pass_of_a_derivative_is_named(outer):
    error = failure(
        outer(weft.grad(lambda x: wnp.sum(difference_of_roots(x)))),
        np.ones(2, F32),
        of="sqrt",
        at="root",
    )
    assert not error.backward


def test_the_iteration_of_the_backward_pass_is_that_of_the_forward_pass():
    def f(xs):
        return wnp.sum(scan(lambda c, x: (c, root_of_square(x)), 0.0, xs)[1])

    for function in (weft.grad(f), weft.jit(weft.grad(f))):
        error = failure(function, np.array([3.0, 2.0, 0.0, 1.0], F32))
        assert error.backward
        assert error.within[0].startswith("iteration 2 of the scan in the backward pass of ")


def test_the_scope_is_named():
    def f(x):
        with named_scope("model"), named_scope("head"):
            return wnp.log(x)

    for function in (f, weft.jit(f)):
        assert failure(function, -1.0).location.endswith("f, scope model/head")


@pytest.mark.parametrize("compiled", [False, True])
def test_mapped_functions_are_looked_at(compiled):
    mapped = weft.vmap(difference_of_roots)
    error = failure(
        weft.jit(mapped) if compiled else mapped, np.array([4.0, 1.0], F32), of="sqrt", at="root"
    )
    assert "first at [1]" in error.got


def test_tangents_are_looked_at():
    # The tangent 0 by the root 0.
    failure(lambda: weft.jvp(root_of_square, (0.0,), (1.0,)), of="div", at="kink")


@custom_vjp
def scaled(x):
    return x * 2.0


scaled.defvjp(
    lambda x: (x * 2.0, x),
    lambda x, ct: (ct * wnp.log(x),),  # bwd
)


@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
@pytest.mark.parametrize("inner", [lambda f: f, weft.jit])
def test_a_backward_rule_of_the_users_is_named_by_its_own_line(outer, inner):
    error = failure(outer(weft.grad(inner(lambda x: scaled(x)))), -1.0, of="log", at="bwd")
    assert error.backward


@custom_jvp
def shifted(x):
    return wnp.sqrt(x - 1.0)  # custom function


@shifted.defjvp
def shifted_jvp(primals, tangents):
    return shifted(*primals), tangents[0] * wnp.sqrt(-primals[0])  # jvp rule


@pytest.mark.parametrize("outer", [lambda f: f, weft.jit])
def test_functions_with_derivatives_of_their_own_are_searched(outer):
    failure(outer(shifted), 0.0, of="sqrt", at="custom function")
    failure(outer(weft.grad(shifted)), 4.0, of="sqrt", at="jvp rule")


def test_solvers_are_searched():
    def solve(b):
        return weft.lax.custom_linear_solve(
            lambda x: -x,
            b,
            lambda matvec, b: wnp.sqrt(matvec(b)),  # solver
            symmetric=True,
        )

    for function in (solve, weft.jit(solve)):
        error = failure(function, np.ones(2, F32), of="sqrt", at="solver")
        assert error.within[0].startswith("the solver of the custom_linear_solve at ")


# ---- infinities --------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_infinities(compiled):
    def f(x):
        return 1.0 / x  # pole

    x = wnp.asarray(np.array([1.0, 0.0], F32))
    with debug_infs(), pytest.raises(NonFiniteError) as caught:
        (weft.jit(f) if compiled else f)(x)
    assert caught.value.kind == "infinity" and caught.value.fix.data["setting"] == "debug_infs"
    assert str(caught.value).startswith("div made an infinity\n")
    assert line_of("pole") in caught.value.location
    with debug_nans():
        assert np.isinf(f(x)).any()


def test_both_settings_follow_a_nan_back_to_an_infinity():
    def f(x):
        high = 1.0 / x
        return high - high

    assert failure(weft.jit(f), 0.0).operation == "sub"
    with debug_infs():
        error = failure(weft.jit(f), 0.0)
    assert (error.operation, error.kind) == ("div", "infinity")


# ---- the settings ------------------------------------------------------------------------------


def test_outside_of_the_block_nothing_is_looked_at():
    with debug_nans():
        assert config.looking
        with debug_nans(False):
            assert np.isnan(wnp.log(-1.0))
    assert not config.looking
    assert np.isnan(wnp.log(-1.0)) and np.isnan(weft.jit(wnp.log)(-1.0))


def test_the_block_is_this_threads_only():
    found = []
    with debug_nans():
        thread = threading.Thread(target=lambda: found.append(wnp.log(-1.0)))
        thread.start()
        thread.join()
    assert np.isnan(found[0])


def test_the_setting_can_be_changed_for_good():
    config.update("debug_nans", True)
    try:
        with pytest.raises(NonFiniteError):
            wnp.log(-1.0)
    finally:
        config.update("debug_nans", False)
    assert not config.looking


@pytest.mark.parametrize(("text", "raises"), [("1", True), ("0", False)])
def test_the_environment_variable(text, raises):
    code = "import weft\ntry:\n    weft.numpy.log(-1.0)\nexcept FloatingPointError:\n    print('x')"
    out = python_output("-c", code, env={"WEFT_DEBUG_NANS": text, "WEFT_PLATFORMS": "cpu"})
    assert (out.strip() == "x") is raises


def test_evaluation_asks_for_the_settings_only_where_somebody_looks(monkeypatch):
    monkeypatch.setattr(config, "settings_in_keys", False)  # as where no other effort is asked for
    x = wnp.ones(3)
    weft.lax.sin(x)
    asked = []
    monkeypatch.setattr(config, "settings", lambda: asked.append(1))
    weft.lax.sin(x)
    assert not asked


# ---- what else a call does ------------------------------------------------------------------


@pytest.mark.parametrize("by_hand", [False, True])
def test_donated_arguments_are_kept_while_results_are_looked_at(by_hand):
    function = weft.jit(lambda x: wnp.sqrt(x), donate_argnums=0)
    with debug_nans():
        x = wnp.asarray(np.array([-1.0, 4.0], F32))
        call = function.lower(x).compile() if by_hand else function
        with pytest.raises(NonFiniteError) as caught:
            call(x)
        assert "operand 0, f32[2] (x): -1.0 there" in caught.value.got
        assert not x.is_deleted()
        y = wnp.ones(2)
        call(y)
        assert not y.is_deleted()


def test_a_donated_argument_of_a_function_under_a_transformation_is_kept():
    function = weft.jit(lambda x: wnp.sqrt(x), donate_argnums=0)
    x = wnp.asarray(np.array([-1.0, 4.0], F32))
    failure(lambda y: weft.vmap(lambda y: y + wnp.sum(function(x)))(y), np.ones(3, F32), of="sqrt")
    assert not x.is_deleted()


def test_static_and_keyword_arguments_are_named():
    function = weft.jit(lambda n, x, *, scale: x * n / scale, static_argnums=0)
    error = failure(lambda: function(2, wnp.zeros(2), scale=wnp.zeros(2)), of="div")
    assert "(scale)" in error.got


def test_samplers_are_looked_at():
    key = weft.random.key(0)
    with debug_nans():
        weft.random.normal(key, (3,))
    assert failure(lambda: weft.random.uniform(key, (3,), minval=np.nan)).kind == "NaN"


def test_what_acts_on_the_world_is_not_evaluated_again():
    calls = []

    def tell(x):
        calls.append(1)
        return x

    def f(x):
        return wnp.log(io_callback(tell, weft.ShapeDtypeStruct((), F32), x))

    for count, function in enumerate([weft.jit(f), weft.jit(weft.jit(f))], 1):
        error = failure(function, wnp.asarray(F32(-1.0)))
        assert len(calls) == count
        assert "io_callback" in error.got


def test_an_error_can_be_pickled():
    error = failure(weft.jit(weft.grad(root_of_square)), 0.0)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.kind, again.within, again.backward) == (error.kind, error.within, True)


def test_the_device_is_named_where_arrays_were_put_on_one():
    x = weft.device_put(np.array([-1.0], F32), weft.devices()[3])
    error = failure(weft.jit(wnp.log), x)
    assert error.device == str(weft.devices()[3]) and f"  on {error.device}" in str(error)


def test_a_nan_that_only_the_compiled_program_makes_is_reported_for_the_whole():
    """A primitive whose value, computed alone, differs from that in a compiled program."""
    primitive = weft.extend.core.Primitive("differs")
    primitive.def_abstract_eval(lambda x: x)
    primitive.def_impl(lambda x: x)
    weft.extend.interpreters.mlir.register_lowering(primitive, lambda ctx, x: stablehlo.sqrt(x))
    error = failure(weft.jit(primitive.bind), np.array([-1.0], F32))
    assert error.operation.startswith("jit of ") and "no operation can be named" in error.got
