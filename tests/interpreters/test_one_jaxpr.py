"""The family of primitives that hold one jaxpr: what a member gets without rules of its own."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from closeness import close_trees
from weft import lax
from weft.arrays.conversion import as_array
from weft.core.check import check_jaxpr
from weft.core.jaxpr import eval_jaxpr
from weft.core.primitive import Primitive
from weft.errors import JaxprError, MissingRuleError
from weft.extend.interpreters import partial_eval
from weft.interpreters.one_jaxpr import OneJaxpr, holds_one_jaxpr

X = np.array([0.5, 1.0, 2.0], np.float32)
Y = np.array([1.0, -1.0, 3.0], np.float32)


def call_impl(*args, jaxpr, label):
    return [as_array(x) for x in eval_jaxpr(jaxpr, (), *args)]


def call_lower(context, *values, jaxpr, label):
    return list(context.lower_jaxpr(jaxpr, values, label))


def member(**own):
    """A new primitive of the family, and a function that applies it to a function's jaxpr."""
    made = Primitive("labelled", multiple_results=True, memoise=False)
    kind = OneJaxpr(
        made,
        describe=lambda params: f"call labelled {params['label']}",
        derive=lambda params: params | {"label": params["label"] + "'"},
    )
    holds_one_jaxpr(kind, impl=call_impl, lower=call_lower, **own)

    def apply(function, *args):
        jaxpr = weft.make_jaxpr(function)(*args).jaxpr
        return made.bind(*args, jaxpr=jaxpr, label="f")

    return made, apply


def pair(x, y):
    return lax.sin(x) * y, lax.cos(y)


MADE, APPLY = member()


def both(x, y):
    return tuple(APPLY(pair, x, y))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_values_and_derivatives_are_those_of_the_function(compiled):
    f = weft.jit(both) if compiled else both
    close_trees(f(X, Y), pair(X, Y), 1e-6, 0)
    close_trees(weft.jvp(f, (X, Y), (Y, X)), weft.jvp(pair, (X, Y), (Y, X)), 1e-6, 0)
    ct = (X, Y)
    close_trees(weft.vjp(f, X, Y)[1](ct), weft.vjp(pair, X, Y)[1](ct), 1e-6, 0)
    close_trees(weft.vmap(f, (0, None))(X, Y), weft.vmap(pair, (0, None))(X, Y), 1e-6, 0)


def total(f):
    return lambda x, y: sum(part.sum() for part in f(x, y))


def test_the_second_derivative_goes_through_the_family_again():
    found = weft.jacfwd(weft.grad(total(both)))(X, Y)
    close_trees(found, weft.jacfwd(weft.grad(total(pair)))(X, Y), 1e-6, 0)


def test_derived_applications_have_the_parameters_that_are_declared():
    jaxpr = weft.make_jaxpr(weft.grad(total(both)))(X, Y).jaxpr
    labels = [eqn.params["label"] for eqn in jaxpr.eqns if eqn.primitive is MADE]
    assert labels == ["f'", "f''"]


def test_dead_code_inside_goes_and_operands_with_it():
    jaxpr = weft.make_jaxpr(both)(X, Y).jaxpr
    smaller, reads = partial_eval.dce_jaxpr(jaxpr, (False, True))
    assert reads == (False, True)
    (eqn,) = smaller.eqns
    assert [inner.primitive.name for inner in eqn.params["jaxpr"].eqns] == ["cos"]


def test_a_known_part_is_split_off():
    jaxpr = weft.make_jaxpr(both)(X, Y).jaxpr
    split = partial_eval.partial_eval_jaxpr(jaxpr, (False, True))
    assert [eqn.primitive for eqn in split.known.eqns] == [MADE]
    assert [eqn.primitive for eqn in split.unknown.eqns] == [MADE]
    check_jaxpr(split.known)
    check_jaxpr(split.unknown)
    (sin,) = eval_jaxpr(split.known, (), X)
    close_trees(eval_jaxpr(split.unknown, (), sin, Y), list(pair(X, Y)), 1e-6, 0)


def test_operands_of_other_types_are_refused_by_name():
    jaxpr = weft.make_jaxpr(pair)(X, Y).jaxpr
    with pytest.raises(JaxprError, match="call labelled f: the operands do not fit") as caught:
        weft.make_jaxpr(lambda x: MADE.bind(x, x, jaxpr=jaxpr, label="f"))(np.float32(1))
    assert caught.value.wanted == "f32[3], f32[3]"


def test_a_rule_of_its_own_goes_before_the_familys_and_none_leaves_it_out():
    def jvp(primals, tangents, *, jaxpr, label):
        outs = made.bind(*primals, jaxpr=jaxpr, label=label)
        return outs, [7.0 * tangents[0], 7.0 * tangents[0]]

    made, apply = member(jvp=jvp, vmap=None)
    _, tangents = weft.jvp(lambda x: tuple(apply(pair, x, Y)), (X,), (X,))
    close_trees(tangents, (7.0 * X, 7.0 * X), 1e-6, 0)
    with pytest.raises(MissingRuleError, match="labelled"):
        weft.vmap(lambda x: tuple(apply(lambda x: (lax.sin(x),), x)))(X)
