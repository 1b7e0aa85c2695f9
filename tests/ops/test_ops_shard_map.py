"""Every operation inside shard_map, its check on: on blocks that differ and blocks that do not.

Two devices compute the same from operands that all have, one of which is cast to a varying one: the
results must be those of one device, and derivatives by operands that both use are sums of two.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
from op_table import rows
from two_devices import on_both
from weft import dtypes, lax, tree
from weft.core.types import type_of
from weft.ops.structural.extended_dtypes import is_key
from weft.testing import assert_close, exact_array

ROWS = rows()


def every(condition=lambda row: True):
    chosen = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row.name}-")


def narrow(row):
    return dtypes.float32 if dtypes.float32 in row.accepts else row.dtypes[0]


def bits(x):
    return np.asarray(weft.random.key_data(x) if is_key(x) else x)


@every()
@pytest.mark.parametrize("how", ["eager", "jit"])
def test_values(row, how):
    args = row.operands(narrow(row))
    wanted = tree.leaves(row.call(*args))
    f = on_both(row.call, len(args) - 1 if how == "jit" else 0)
    for got, want in zip((weft.jit(f) if how == "jit" else f)(*args), wanted, strict=True):
        got, want = bits(got), bits(want)
        assert got.shape == (2, *want.shape)
        for part in got:
            if want.dtype in dtypes.INEXACT:
                assert_close(exact_array(part), exact_array(want))
            else:
                np.testing.assert_array_equal(part, want)


@every(lambda row: row.order > 0 and "rev" in row.modes)
def test_derivatives(row):
    args = row.operands(row.grad_dtypes[0] if row.grad_dtypes else narrow(row), grad=True)
    places = [
        i
        for i, x in enumerate(args)
        if i not in row.constant and type_of(x).dtype in dtypes.INEXACT
    ]
    if not places:  # derivatives by operands of other dtypes than are swept
        return

    def with_operands(f):
        def function(*xs):
            full = list(args)
            for i, x in zip(places, xs, strict=True):
                full[i] = x
            outs = tree.leaves(f(*full))
            return [out for out in outs if type_of(out).dtype in dtypes.INEXACT]

        return function

    def cotangents(f):
        def function(*xs):
            outs, back = weft.vjp(with_operands(f), *xs)
            return back([lax.full(out.shape, 1, out.dtype) for out in outs])

        return weft.jit(function)(*(args[i] for i in places))

    wanted = cotangents(row.call)
    for place in {0, len(args) - 1}:
        for got, want in zip(cotangents(on_both(row.call, place)), wanted, strict=True):
            assert_close(got, want * 2)
