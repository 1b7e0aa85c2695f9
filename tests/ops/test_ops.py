"""Every property of every operation: each test runs over all rows of the op table.

`pytest tests/ops/test_ops.py -k "sin-"` runs one row; rows are documented in `op_table`.
"""

from __future__ import annotations

import importlib
import itertools
import os
import pkgutil

import numpy as np
import pytest

import weft
from op_table import assert_within_ulps, rows, widened
from tiers import TIER
from weft import control_flow, dtypes, lax, ops, tree
from weft.api.autodiff import jvp, vjp
from weft.api.jit import make_jaxpr
from weft.core.primitive import Primitive
from weft.core.shape_struct import ShapeDtypeStruct
from weft.core.types import type_of
from weft.errors import DTypeError
from weft.testing import (
    assert_close,
    check_grads,
    check_jit,
    check_linearize,
    check_types,
    check_vjp,
    check_vmap,
    exact_array,
)

ROWS = rows()
# In `make test` a row stands for itself with one dtype, one order of derivatives, one mapped axis.
NARROW = TIER in ("quick", "smoke")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan)


def every(condition=lambda row: True):
    chosen = [row for row in ROWS if condition(row)]
    return pytest.mark.parametrize("row", chosen, ids=lambda row: f"{row.name}-")


def narrow(row):
    """One dtype for the properties that do not depend on it: float32 where it is accepted."""
    return dtypes.float32 if dtypes.float32 in row.accepts else row.dtypes[0]


def swept(row, kinds):
    """The dtypes of a property that is checked in several."""
    if not NARROW:
        return kinds
    return [narrow(row)] if narrow(row) in kinds else kinds[:1]


def hosts_of(row, dtype):
    """Operands for the values of an operation. Those that ask for other properties of the same
    values take them too, so that one program serves them all."""
    return row.host_operands(dtype, shapes=[(64,)] * len(row.args) if row.elementwise else None)


def reference(row, hosts):
    with np.errstate(all="ignore"):
        return row.reference(*map(widened, hosts), **row.params)


def compare(row, hosts):
    """The row's function against its reference, on given operands."""
    got = tree.leaves(row.call(*map(exact_array, hosts)))
    want = tree.leaves(reference(row, hosts))
    assert len(got) == len(want), f"{len(got)} results, {len(want)} expected"
    for a, b in zip(got, want, strict=True):
        assert_within_ulps(a, b, row.ulps_of(a.dtype), row.floor)


# ---- values ------------------------------------------------------------------------------------


@pytest.mark.smoke
@every(lambda row: row.reference is not None)
def test_values(row):
    for dtype in swept(row, row.dtypes):
        compare(row, hosts_of(row, dtype))


@pytest.mark.smoke
@every(lambda row: row.property_of is not None)
def test_own_property(row):
    for dtype in swept(row, row.dtypes):
        row.property_of(row, dtype)


def special_row(row):
    return (
        row.elementwise
        and row.specials
        and row.reference is not None
        and dtypes.float32 in row.accepts
        and all(arg.dtype is None for arg in row.args)
    )


@every(special_row)
def test_special_values(row):
    values = SPECIAL if len(row.args) < 3 else (0.0, 1.0, np.inf, -np.inf, np.nan)
    grid = np.array(list(itertools.product(values, repeat=len(row.args)))).T
    compare(row, [column.astype(np.float32) for column in grid])


@every()
def test_other_dtypes_are_refused(row):
    if not row.refuses:
        return
    for dtype in dtypes.ANY - row.accepts:
        kinds = row.dtypes_of(dtype)
        structs = [ShapeDtypeStruct(arg.shape, of) for arg, of in zip(row.args, kinds, strict=True)]
        with pytest.raises(DTypeError):
            make_jaxpr(row.call)(*structs)


@every(lambda row: row.elementwise and len(row.args) > 1)
def test_operands_without_dimensions(row):
    """A scalar operand is repeated: values, and derivatives of the scalar's own shape."""
    dtype = narrow(row)
    for scalar in itertools.product((True, False), repeat=len(row.args)):
        if all(scalar) or not any(scalar):
            continue
        shapes = [() if flag else arg.shape for flag, arg in zip(scalar, row.args, strict=True)]
        hosts = row.host_operands(dtype, shapes=shapes)
        if row.reference is not None:
            compare(row, hosts)
        args = list(map(exact_array, hosts))
        if row.order and dtype in dtypes.INEXACT:
            check_vjp(fixing(row, args), varying(row, args))
        check_vmap(row.call, hosts, limit=6)


@every(lambda row: row.elementwise and len(row.args) > 1)
def test_python_numbers_as_operands(row):
    dtype = narrow(row)
    if any(arg.dtype is not None for arg in row.args) or dtype == dtypes.bool_:
        return
    hosts = row.host_operands(dtype)
    args = list(map(exact_array, hosts))
    for place in range(len(args)):
        number = hosts[place].reshape(-1)[0]
        mixed = [number.item() if i == place else x for i, x in enumerate(args)]
        full = [exact_array(number) if i == place else x for i, x in enumerate(args)]
        assert_close(row.call(*mixed), row.call(*full), what=f"a number as operand {place}")


# ---- derivatives -------------------------------------------------------------------------------


def varying(row, args):
    """The operands in which derivatives are taken."""
    return [x for i, x in enumerate(args) if i not in row.constant]


def fixing(row, args):
    """The row's function of those operands, the others fixed."""

    def function(*values):
        given = iter(values)
        return row.call(*(x if i in row.constant else next(given) for i, x in enumerate(args)))

    return function


def differentiable(row):
    return row.order > 0 and bool(row.grad_dtypes)


@pytest.mark.smoke
@every(differentiable)
def test_derivatives(row):
    for dtype in swept(row, row.grad_dtypes):
        args = row.operands(dtype, grad=True)
        order = min(row.order, 1) if NARROW else row.order
        check_grads(fixing(row, args), varying(row, args), order, row.modes)


@every(lambda row: differentiable(row) and "rev" in row.modes)
def test_linearize_agrees_with_jvp(row):
    for dtype in row.grad_dtypes:
        args = row.operands(dtype, grad=True)
        check_linearize(fixing(row, args), varying(row, args))


@every(differentiable)
def test_derivatives_have_the_dtypes_of_the_primals(row):
    """By types alone, for every inexact dtype."""
    for dtype in row.accepts & dtypes.INEXACT:
        args = row.operands(dtype, grad=True)
        places = [
            i
            for i, x in enumerate(args)
            if i not in row.constant and type_of(x).dtype in dtypes.INEXACT
        ]

        def inexact(*xs, args=args, places=places):
            full = list(args)
            for i, x in zip(places, xs, strict=True):
                full[i] = x
            outs = tree.leaves(row.call(*full))
            return [out for out in outs if type_of(out).dtype in dtypes.INEXACT]

        primals = [args[i] for i in places]
        both = make_jaxpr(lambda *xs, f=inexact: jvp(f, xs, xs))(*primals).out_avals
        for value, tangent in zip(both[: len(both) // 2], both[len(both) // 2 :], strict=True):
            assert (tangent.shape, tangent.dtype) == (value.shape, value.dtype)
        if "rev" not in row.modes:
            continue

        def pullback(*xs, f=inexact):
            outs, back = vjp(f, *xs)
            return back(outs)

        cotangents = make_jaxpr(pullback)(*primals).out_avals
        for x, ct in zip(primals, cotangents, strict=True):
            assert (ct.shape, ct.dtype) == (x.shape, x.dtype)


@every(lambda row: not row.accepts <= dtypes.INEXACT and row.order > 0)
def test_integers_have_no_derivative(row):
    dtype = next(d for d in row.dtypes if d not in dtypes.INEXACT)
    args = row.operands(dtype)
    if any(type_of(x).dtype in dtypes.INEXACT for x in args):
        return
    zeros = tuple(np.zeros(x.shape, dtypes.float0) for x in args)
    values, tangents = jvp(row.call, tuple(args), zeros)
    for value, tangent in zip(tree.leaves(values), tree.leaves(tangents), strict=True):
        assert tangent.dtype == type_of(value).tangent().dtype


# ---- vmap, jit, types --------------------------------------------------------------------------


@pytest.mark.smoke
@every(lambda row: row.vmap)
def test_vmap(row):
    hosts = row.host_operands(narrow(row))
    if row.elementwise:  # one dimension is enough, and has fewer places for the mapped axis
        hosts = row.host_operands(narrow(row), shapes=[(3,)] * len(row.args))
    check_vmap(row.call, hosts, limit=1 if NARROW else row.vmap_limit)


@every()
def test_jit(row):
    check_jit(row.call, list(map(exact_array, hosts_of(row, narrow(row)))))


@every()
def test_types(row):
    for dtype in {narrow(row), row.dtypes[0], row.dtypes[-1]}:
        check_types(row.call, list(map(exact_array, hosts_of(row, dtype))))


@every(lambda row: row.weak is not None)
def test_weak_types(row):
    """Weak operands: what the row says of the result, for all choices of weak and strong."""
    dtype = narrow(row)
    kinds = row.dtypes_of(dtype)
    for weak in itertools.product((True, False), repeat=len(row.args)):
        structs = [
            ShapeDtypeStruct(arg.shape, of, weak_type=flag)
            for arg, of, flag in zip(row.args, kinds, weak, strict=True)
        ]
        for out in make_jaxpr(row.call)(*structs).out_avals:
            same = [flag for flag, of in zip(weak, kinds, strict=True) if of == out.dtype]
            joined = all(same) if same else out.dtype in dtypes.INEXACT and all(weak)
            wanted = {"join": joined, "strong": False, "first": weak[0] and out.dtype == kinds[0]}[
                row.weak
            ]
            assert out.weak_type == wanted, f"operands weak: {weak}, result {out!r}"


# ---- completeness ------------------------------------------------------------------------------


# Primitives that no row can show, with the reason.
EXEMPT = {
    "key_bits": "takes random keys, which have no swept dtype",
    "wrap_key_bits": "makes random keys, which have no reference",
    "clone_key": "takes random keys; tests/random/test_random_key_reuse.py has all its rules",
    "use_key": "takes random keys; tests/random/test_random_key_reuse.py has all its rules",
    "platform_index": "has no operand; tests/control_flow/test_platforms.py",
    "pbroadcast": "changes how a value varies; tests/ops/test_collectives.py binds it",
    "sharding_constraint": "needs a mesh; tests/dispatch/test_jit_shardings.py has all its rules",
    "all_gather_invariant": "needs a mesh; tests/spmd/test_shard_map_matrix.py has all its rules",
    "pscatter": "needs a mesh; tests/spmd/test_shard_map_matrix.py has all its rules",
    "assume_invariant": "needs a mesh; tests/spmd/test_shard_map_matrix.py has check_vma=False",
    "shard_map": "needs a mesh; tests/spmd/test_shard_map_composition.py has all its rules",
    "constant": "made where a rule that closes over an array is traced, as in a row of custom_jvp",
    "call_exported": "holds an exported program; tests/export/test_export.py has all its rules",
    "ffi_call": "needs compiled code; tests/ffi/test_ffi.py has all its rules",
    "custom_vjp_tangents": "made by linearizing a custom_vjp, whose row and matrix run it",
    "in_memory": "says where a value is kept; tests/control_flow/test_checkpoint_policies.py",
    "untaken": "made by mapping a cond, whose rows and matrix run it",
}


def all_primitives():
    found = {}
    for package in (ops, control_flow):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Primitive):
                    found[value.name] = value
    return found


@pytest.mark.skipif(
    "OP_CHAPTERS" in os.environ, reason="only some chapters of the table are loaded"
)
def test_every_primitive_has_a_row(monkeypatch):
    """Watches what the rows bind and call: a primitive of `weft.ops` or `weft.control_flow` that
    none of them uses has no test."""
    bound = set()

    def watching(original):
        def watched(self, *args, **params):
            bound.add(self.name)
            return original(self, *args, **params)

        return watched

    for method in ("bind", "call"):
        monkeypatch.setattr(Primitive, method, watching(getattr(Primitive, method)))
    for row in ROWS:
        args = row.operands(narrow(row))
        make_jaxpr(row.call)(*args)
    missing = set(all_primitives()) - bound - set(EXEMPT)
    assert not missing, f"no row of the op table binds {', '.join(sorted(missing))}"


# ---- arguments by the names that JAX gives them ---------------------------------------------


def test_shapes_change_by_name():
    x = np.arange(6.0, dtype=np.float32).reshape(1, 2, 3)
    cases = (
        (lax.squeeze(array=x, dimensions=(0,)), x[0]),
        (lax.expand_dims(array=x, dimensions=(1,)), x[:, None]),
        (
            lax.reshape(operand=x, new_sizes=(6,), dimensions=(2, 0, 1)),
            x.transpose(2, 0, 1).ravel(),
        ),
        (lax.reshape(x, (6,), None, out_sharding=None), x.ravel()),
        (lax.transpose(operand=x, permutation=(2, 1, 0)), x.T),
        (lax.broadcast(operand=x, sizes=(2,)), np.broadcast_to(x, (2, 1, 2, 3))),
        (lax.full((2,), 3.0, sharding=None), np.full(2, 3.0, np.float32)),
        (lax.switch(1, [lambda x: x, lambda x: -x], operand=x), -x),
    )
    for got, wanted in cases:
        np.testing.assert_array_equal(got, wanted)
    gradient = weft.grad(lambda x: (lax.reshape(x, (6,), (2, 0, 1)) * np.arange(6.0)).sum())(x)
    np.testing.assert_array_equal(gradient, np.arange(6.0).reshape(3, 1, 2).transpose(1, 2, 0))


@pytest.mark.parametrize("make", [lax.full, weft.numpy.full], ids=["lax", "numpy"])
def test_what_is_made_lies_where_it_is_told(make):
    split = weft.NamedSharding(weft.make_mesh((2,), ("i",)), weft.P("i"))
    where = {"sharding" if make is lax.full else "out_sharding": split}
    for run in (lambda f: f, weft.jit):
        found = run(lambda: make((4,), 1.5, **where))()
        assert found.sharding == split and found.tolist() == [1.5] * 4
