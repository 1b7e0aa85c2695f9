"""Whatever says that its indices are unique has unique indices.

The CPU runs a scatter's updates one after the other, so that a false promise does no harm there; a
GPU runs them at once, and loses some. Here the promises in the values and the gradient of every
row, with a mapped axis and without, are tried by counting what reads or writes each element.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from op_table import rows
from weft import dtypes, tree
from weft.api.autodiff import vjp
from weft.api.jit import make_jaxpr
from weft.core import rules
from weft.core.jaxpr import eval_jaxpr
from weft.core.types import type_of
from weft.ops.collectives.named_axes import take_rows
from weft.ops.indexing import scatter
from weft.ops.indexing.gather import gather_p
from weft.testing import exact_array

SCATTERS = [
    getattr(scatter, f"scatter{kind}_p") for kind in ("", "_add", "_sub", "_mul", "_min", "_max")
]


def counted(primitive):
    """Binds a primitive as `eval_jaxpr` does; raises AssertionError for a broken promise."""

    def bind(operand, indices, *updates, **params):
        if params["unique_indices"]:
            honest = params | {"unique_indices": False}
            zeros = jnp.zeros(type_of(operand).shape)
            if primitive is gather_p:
                given = dict(honest, fill_value=None)
                out, back = vjp(lambda x: gather_p.bind(x, indices, **given), zeros)
                (counts,) = back(jnp.ones(out.shape))
            else:
                ones = jnp.ones(type_of(updates[0]).shape)
                counts = scatter.scatter_add_p.bind(zeros, indices, ones, **honest)
            most = float(np.max(np.asarray(counts), initial=0))
            assert most <= 1, f"{primitive}: {most:.0f} times the same element"
        return primitive.bind(operand, indices, *updates, **params)

    return bind


def keep_promises(monkeypatch, function, *args):
    """Whether the program promises something, after it was tried."""
    with weft.disable_jit():
        program = make_jaxpr(function)(*args)
    if "unique_indices=True" not in str(program):
        return False
    for primitive in [gather_p, *SCATTERS]:
        monkeypatch.setitem(rules.rebind, primitive, counted(primitive))
    eval_jaxpr(program, program.consts, *tree.leaves(args))
    return True


def gradient(row, args):
    places = [i for i, x in enumerate(args) if type_of(x).dtype in dtypes.INEXACT]
    places = [i for i in places if i not in row.constant]

    def program(*args):
        def call(*some):
            full = list(args)
            for i, x in zip(places, some, strict=True):
                full[i] = x
            return [x for x in tree.leaves(row.call(*full)) if type_of(x).dtype in dtypes.INEXACT]

        outs, back = vjp(call, *(args[i] for i in places))
        return back([jnp.ones(x.shape, x.dtype) for x in outs])

    return program


ROWS = [row for row in rows() if dtypes.float32 in row.accepts and not row.elementwise]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-")
def test_promises_of_unique_indices_are_kept(row, monkeypatch):
    args = list(map(exact_array, row.host_operands(dtypes.float32)))
    keep_promises(monkeypatch, row.call, *args)
    differentiable = row.order > 0 and "rev" in row.modes and dtypes.float32 in row.grad_dtypes
    programs = [gradient(row, args)] if differentiable else [row.call]
    keep_promises(monkeypatch, programs[0], *args)
    if row.vmap:
        wide = [jnp.stack([x, x]) for x in args]
        keep_promises(monkeypatch, weft.vmap(programs[0]), *wide)


def test_a_broken_promise_is_found(monkeypatch):
    """What this module tries would find the fault that it was written for."""

    def twice(x):
        return take_rows(x, [0, 2, 0])

    with pytest.raises(AssertionError, match="2 times the same element"):
        keep_promises(monkeypatch, twice, jnp.ones((3, 2)))
