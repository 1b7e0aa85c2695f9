"""Named scopes and marks of the backward pass: on equations, in lowered programs, in errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import errors
from weft.base import source
from weft.control_flow.loops import scan
from weft.core.jaxpr import eval_jaxpr
from weft.profiler.session import named_scope

pytestmark = pytest.mark.fast


def paths(jaxpr):
    """The scope of each equation of a program, as text."""
    scopes = [source.scope_of(eqn.source) for eqn in jaxpr.eqns]
    return ["" if scope is None else scope.path for scope in scopes]


def names_in(function, *args):
    """The name stacks of a lowered function."""
    text = weft.jit(function).lower(*args).as_text(debug_info=True)
    return set(re.findall(r'loc\("(jit\([^"]*)"', text))


def test_scopes_nest_and_end():
    def f(x):
        with named_scope("outer"):
            x = weft.lax.sin(x)
            with named_scope("inner"):
                x = weft.lax.cos(x)
            x = weft.lax.tanh(x)
        return weft.lax.exp(x)

    assert paths(weft.make_jaxpr(f)(1.0)) == ["outer", "outer/inner", "outer", ""]


def test_an_equation_outside_of_scopes_carries_code_and_offset_only():
    (eqn,) = weft.make_jaxpr(weft.lax.sin)(1.0).eqns
    assert len(eqn.source) == 2


def test_a_decorated_function_keeps_its_name_and_may_call_itself():
    @named_scope("part")
    def halve(x, times):
        """Halves."""
        return halve(x / 2.0, times - 1) if times else x

    assert (halve.__name__, halve.__doc__) == ("halve", "Halves.")
    assert paths(weft.make_jaxpr(lambda x: halve(x, 3))(1.0)) == [
        "part",
        "part/part",
        "part/part/part",
    ]


def test_one_scope_may_be_entered_twice_at_once():
    scope = named_scope("again")

    def f(x):
        with scope, scope:
            x = weft.lax.sin(x)
        return weft.lax.cos(x)

    assert paths(weft.make_jaxpr(f)(1.0)) == ["again/again", ""]


def test_a_scope_ends_where_its_block_raises():
    def f(x):
        try:
            with named_scope("broken"):
                raise KeyError("x")
        except KeyError:
            return weft.lax.sin(x)

    assert paths(weft.make_jaxpr(f)(1.0)) == [""]


def test_lowered_programs_carry_the_scopes_of_branches_and_bodies_too():
    def f(x):
        with named_scope("choice"):
            x = weft.lax.cond(x > 0.0, named_scope("yes")(weft.lax.sin), weft.lax.cos, x)
        return x * 2.0

    found = names_in(f, 1.0)
    assert "jit(f)/choice/cond" in found and "jit(f)/choice/branch_1/yes/sin" in found
    assert "jit(f)/choice/branch_0/cos" in found and "jit(f)/mul" in found


def test_a_program_is_traced_once_and_named_by_each_place_that_uses_it():
    traced = []

    @weft.jit
    def part(x):
        traced.append(1)
        with named_scope("part"):
            return weft.lax.sin(x)

    def f(x):
        with named_scope("first"):
            x = part(x)
        with named_scope("second"):
            return part(x)

    jaxpr = weft.make_jaxpr(f)(1.0)
    assert paths(jaxpr) == ["first", "second"]
    assert [paths(eqn.params["jaxpr"]) for eqn in jaxpr.eqns] == [["part"], ["part"]]
    assert len(traced) == 1


def test_a_program_that_runs_again_has_both_scopes():
    def f(x):
        with named_scope("recorded"):
            return weft.lax.cos(weft.lax.sin(x))

    recorded = weft.make_jaxpr(f)(1.0)

    def again(x):
        with named_scope("now"):
            return eval_jaxpr(recorded, (), x)

    assert paths(weft.make_jaxpr(again)(1.0)) == ["now/recorded"] * 2


def test_transformations_keep_scopes():
    def f(x):
        with named_scope("model"):
            return weft.lax.sin(x)

    x = np.ones(3, np.float32)
    assert set(paths(weft.make_jaxpr(weft.vmap(f))(x))) == {"model"}
    jaxpr = weft.make_jaxpr(lambda x: weft.jvp(f, (x,), (x,)))(x)
    assert set(paths(jaxpr)) == {"model"}


def test_the_backward_pass_is_marked():
    def f(x):
        with named_scope("model"):
            x = weft.lax.sin(x)
        return weft.lax.exp(x)

    found = paths(weft.make_jaxpr(weft.grad(f))(1.0))
    assert "transpose(model)" in found and "transpose()" in found and "model" in found
    jaxpr = weft.make_jaxpr(weft.grad(f))(1.0)
    marked = [e.primitive.name for e in jaxpr.eqns if source.in_backward_pass(e.source)]
    assert marked == ["mul", "mul"]


def test_the_backward_pass_of_a_jitted_function_is_marked_inside():
    @weft.jit
    def f(x):
        with named_scope("model"):
            return weft.lax.sin(x)

    (forward, backward) = weft.make_jaxpr(weft.grad(f))(1.0).eqns
    assert not source.in_backward_pass(forward.source)
    assert source.in_backward_pass(backward.source)
    assert paths(backward.params["jaxpr"]) == ["transpose(model)"]


def test_scopes_around_a_derivative_stand_once():
    def f(x):
        with named_scope("inner"):
            return weft.lax.sin(x)

    def g(x):
        with named_scope("outer"):
            return weft.grad(f)(x)

    found = set(paths(weft.make_jaxpr(g)(1.0)))
    assert found == {"outer/inner", "outer/transpose(inner)"}


def test_the_backward_pass_keeps_the_forward_line():
    def f(x):
        return weft.lax.sin(x)

    eqns = weft.make_jaxpr(weft.grad(f))(1.0).eqns
    lines = {source.locate(eqn.source) for eqn in eqns}
    assert len(lines) == 1


def test_errors_name_the_scope_also_inside_of_a_loop():
    def body(carry, x):
        with named_scope("inner"):
            return carry, weft.lax.dot(x, np.ones(5, np.float32))

    def f(xs):
        with named_scope("outer"):
            return scan(body, 0.0, xs)

    with pytest.raises(errors.WeftError) as caught:
        weft.jit(f)(np.ones((2, 3), np.float32))
    assert re.search(
        r"test_named_scope.py:\d+ in .*body, scope outer/inner$", caught.value.location
    )


def test_errors_of_the_backward_pass_say_so():
    primitive = weft.extend.core.Primitive("no_transpose")
    primitive.def_abstract_eval(lambda x: x)
    primitive.def_impl(lambda x: x)
    weft.extend.interpreters.ad.register_jvp(
        primitive, lambda primals, tangents: (primals[0], primitive.bind(tangents[0]))
    )

    def f(x):
        with named_scope("model"):
            return primitive.bind(x)

    with pytest.raises(errors.MissingRuleError) as caught:
        weft.grad(f)(1.0)
    assert caught.value.location.startswith("the backward pass of ")
    assert caught.value.location.endswith(", scope transpose(model)")
    assert "\n  in the backward pass of " in str(caught.value)


def test_a_users_function_inside_of_a_rerun_line_counts_again():
    with named_scope("around"):
        recorded = source.current()
    with source.backward(recorded):
        assert source.current()[:2] == recorded[:2]
        with source.user_frames():
            inside = source.current()
    assert source.locate(inside).line == source.locate(recorded).line + 4
    assert source.in_backward_pass(inside)
    assert source.scope_of(inside).path == "transpose(around)"


def test_scopes_change_no_number():
    def f(x):
        with named_scope("a"):
            return wnp.sum(wnp.sin(x) ** 2)

    x = np.linspace(0.0, 1.0, 5, dtype=np.float32)
    np.testing.assert_allclose(weft.jit(weft.grad(f))(x), np.sin(2 * x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "error"), [(3, TypeError), (None, TypeError), ("", ValueError), (len, TypeError)]
)
def test_what_is_no_name_is_refused(name, error):
    with pytest.raises(error) as caught:
        named_scope(name)
    assert isinstance(caught.value, errors.WeftError) and caught.value.fix.kind == "name"
    with named_scope("attention"):
        pass
