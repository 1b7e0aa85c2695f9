"""What primitives say of themselves in their declarations: see `weft.core.primitive`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from op_table import rows
from weft import dtypes
from weft.analysis.operation_costs import work_of
from weft.api.autodiff import jvp
from weft.api.jit import make_jaxpr
from weft.core.primitive import Facts

pytestmark = pytest.mark.fast

EXTREME = np.array([0.0, -0.0, np.inf, -np.inf, 1.5, -3e38], np.float32)


@functools.cache
def applications():
    """(primitive, application, operands) of rows with a floating operand that apply only one."""
    found = []
    for row in rows():
        dtype = next((t for t in row.dtypes if t == np.float32), None)
        if dtype is None:
            continue
        operands = row.host_operands(dtype)
        try:
            (eqn,) = make_jaxpr(row.call)(*operands).eqns
        except ValueError:
            continue
        negative = eqn.params.get("y", 1) < 1  # An exponent: sparse arrays refuse it.
        if not negative and [x.type.shape for x in eqn.inputs] == [x.shape for x in operands]:
            found.append((eqn.primitive, row.call, operands))
    return found


def with_fact(fact):
    """The applications of the primitives that state a fact; there are some."""
    found = [one for one in applications() if getattr(one[0].facts, fact)]
    assert found
    return found


def leaves(out):
    return [np.asarray(x) for x in (out if isinstance(out, (list, tuple)) else [out])]


def test_the_derivative_of_a_linear_primitive_is_the_same_everywhere():
    for primitive, apply, operands in with_fact("linear"):
        smooth = [i for i, x in enumerate(operands) if x.dtype.kind in "fc"]

        def of_smooth(*values, apply=apply, operands=operands, smooth=smooth):
            new = dict(zip(smooth, values, strict=True))
            return apply(*[new.get(i, x) for i, x in enumerate(operands)])

        tangents = [operands[i] for i in smooth]
        here, there = (
            leaves(jvp(of_smooth, [x * factor for x in tangents], tangents)[1])
            for factor in (np.float32(1), np.float32(-3))
        )
        for x, y in zip(here, there, strict=True):
            np.testing.assert_array_equal(x, y, str(primitive))


def test_a_bilinear_primitive_is_linear_in_each_operand():
    for primitive, apply, (x, y) in with_fact("bilinear"):
        plain = np.asarray(apply(x, y))
        for operands in ((-2 * x, y), (x, -2 * y)):
            np.testing.assert_array_equal(apply(*operands), -2 * plain, str(primitive))


def test_a_function_that_keeps_zero_is_elementwise_and_zero_there():
    for primitive, apply, operands in with_fact("keeps_zero"):
        (x,) = operands
        (out,) = leaves(apply(np.zeros_like(x)))
        assert out.shape == x.shape and not out.any(), primitive


# Functions of a label, of a user's rule, of places, of several arrays, and along an axis that has
# one element in the row.
NOT_OF_NUMBERS = set(
    "name custom_jvp layout_constraint optimization_barrier concatenate cumsum cumprod cummax "
    "cummin cumlogsumexp fft".split()
)


def is_elementwise(apply, x):
    """Whether the first and the last element of an operand decide those of the result alone."""
    (before,) = leaves(apply(x))
    for place in (0, x.size - 1):
        changed = x.copy()
        changed.flat[place] += np.float32(0.25)
        (after,) = leaves(apply(changed))
        differs = (before != after) & ~(np.isnan(before) & np.isnan(after))
        if list(np.flatnonzero(differs)) != [place]:
            return False
    return True


def test_an_elementwise_function_that_is_zero_at_zero_says_so():
    silent = set()
    for primitive, apply, operands in applications():
        if len(operands) > 1 or primitive.facts.keeps_zero or primitive.name in NOT_OF_NUMBERS:
            continue
        (x,), outs = operands, leaves(apply(*operands))
        if len(outs) > 1 or outs[0].shape != x.shape or x.size < 2 or not is_elementwise(apply, x):
            continue
        if not leaves(apply(np.zeros_like(x)))[0].any():
            silent.add(primitive.name)
    assert not silent


def test_a_function_that_keeps_sums_keeps_zero():
    for primitive, _, _ in with_fact("keeps_sums"):
        assert primitive.facts.keeps_zero


def test_what_makes_no_nan_makes_none_of_extreme_numbers():
    for primitive, apply, operands in with_fact("makes_no_nan"):
        draws = (np.resize(np.roll(EXTREME, i), np.shape(x)) for i, x in enumerate(operands))
        extreme = [y if x.dtype == np.float32 else x for x, y in zip(operands, draws, strict=True)]
        for out in leaves(apply(*extreme)):
            assert out.dtype not in dtypes.FLOATING or not np.isnan(out).any(), primitive


@pytest.mark.parametrize("fact", ["cheap", "view", "again_from_operand"])
def test_what_is_computed_again_has_no_effects(fact):
    for primitive, apply, operands in with_fact(fact):
        assert not make_jaxpr(apply)(*operands).effects, primitive
        assert fact == "cheap" or len(operands) == 1, primitive


def test_an_unknown_fact_is_refused():
    with pytest.raises(TypeError, match="no_such_fact"):
        Facts(no_such_fact=True)


def test_what_moves_nothing_returns_its_operand_in_another_shape():
    for primitive, apply, (x,) in with_fact("moves_nothing"):
        (out,) = leaves(apply(x))
        np.testing.assert_array_equal(out.ravel(), x.ravel(), str(primitive))


def test_what_updates_an_operand_returns_one_of_its_type():
    for primitive, apply, operands in with_fact("updates"):
        (out,) = leaves(apply(*operands))
        first, update = operands[0], operands[primitive.facts.updates]
        assert (out.shape, out.dtype) == (first.shape, first.dtype), primitive
        assert update.dtype == first.dtype, primitive


def test_flops_are_counted_for_each_element_of_the_result():
    found = [one for one in with_fact("flops") if not callable(one[0].facts.flops)]
    assert len(found) > 20
    for primitive, apply, operands in found:
        (eqn,) = make_jaxpr(apply)(*operands).eqns
        counted = sum(out.type.size for out in eqn.outputs if out.type.dtype in dtypes.INEXACT)
        flops = 0 if primitive.facts.flops == "none" else counted
        assert work_of(eqn) == (flops, 0, True), primitive
