"""Which order in memory is inferred for the arguments and results of programs, and that programs
rewritten to keep layouts inside loops and branches compute the same."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from weft import lax
from weft.core.access_pattern import Read, Step, full_read, regrouped
from weft.core.jaxpr import Equation, Jaxpr, Var, eval_jaxpr
from weft.core.types import ArrayType
from weft.lowering.layout_inference import (
    MARGIN,
    _Follower,
    explain,
    infer_layouts,
    read_cost,
    reads_of,
)
from weft.lowering.result_layouts import keep_layouts
from weft.sharding import Format, Layout, NamedSharding
from weft.sharding import PartitionSpec as P

pytestmark = pytest.mark.fast

N = 1024  # Large enough that an array does not fit into the cache that the analysis knows of.
ROW, COLUMN = (0, 1), (1, 0)


def program(f, *shapes, dtype=np.float32):
    return weft.make_jaxpr(f)(*(weft.ShapeDtypeStruct(s, dtype) for s in shapes)).jaxpr


def inferred(f, *shapes, inputs=None, outputs=None, dtype=np.float32):
    jaxpr = program(f, *shapes, dtype=dtype)
    return infer_layouts(
        jaxpr, inputs or [None] * len(jaxpr.inputs), outputs or [None] * len(jaxpr.outputs)
    )


def columns_in_loop(y, length=10):
    return lax.fori_loop(0, length, lambda i, s: s + y[:, i], wnp.zeros(y.shape[0]))


def columns_in_while(y):
    def body(state):
        i, s = state
        return i + 1, s + lax.dynamic_index_in_dim(y, i, 1, keepdims=False)

    return lax.while_loop(lambda state: state[1][0] < 3.0, body, (0, wnp.zeros(y.shape[0])))[1]


def rows_outweighed(y):
    """One column in each of 50 steps against twenty rows."""
    return columns_in_loop(y, 50).sum() + y[:20].sum()


def columns_outweighed(y):
    """Two columns against all of the rows."""
    return columns_in_loop(y, 2).sum() + (y + 1.0).sum(1).sum()


SQUARE = (N, N)
TABLE = {
    "the note's": (lambda x, y: (x[0, :], y[:, 0]), [SQUARE, SQUARE], [ROW, COLUMN]),
    "one column": (lambda y: y[:, 3], [SQUARE], [COLUMN]),
    "one row": (lambda y: y[3], [SQUARE], [ROW]),
    "a column of what is computed": (lambda y: (y * 2 + 1)[:, 3], [SQUARE], [COLUMN]),
    "a column after a conversion": (lambda y: y.astype(int)[:, 3].sum(), [SQUARE], [COLUMN]),
    "a column of two arrays": (lambda x, y: (x + y)[:, 3], [SQUARE, SQUARE], [COLUMN] * 2),
    "a traced column": (lambda y, i: y[:, i.astype(int)], [SQUARE, ()], [COLUMN, ()]),
    "every 4th element of a column": (lambda y: y[::4, 3], [SQUARE], [COLUMN]),
    "16 columns": (lambda y: y[:, :16].sum(), [SQUARE], [ROW]),
    "a few rows as columns": (lambda y: y.T[:, :400] + 1, [SQUARE], [COLUMN]),
    "a chosen set of rows": (lambda y: y[wnp.arange(0, N, 7)] * 2, [SQUARE], [ROW]),
    "a chosen set of columns": (lambda y: y[:, wnp.arange(0, N, 7)].T * 2, [SQUARE], [COLUMN]),
    "the sum of columns": (lambda y: y.sum(0), [SQUARE], [ROW]),
    "the sum of rows": (lambda y: y.sum(1), [SQUARE], [ROW]),
    "the sum of a transposed array": (lambda y: y.T.sum(0), [SQUARE], [ROW]),
    "argmax": (lambda y: y.argmax(0), [SQUARE], [ROW]),
    "cumsum": (lambda y: y.cumsum(0), [SQUARE], [ROW]),
    "sort": (lambda y: wnp.sort(y, axis=0), [SQUARE], [ROW]),
    "a product": (lambda x, y: x @ y, [SQUARE, SQUARE], [ROW, ROW]),
    "a matrix and a vector": (lambda x, v: x @ v, [SQUARE, (N,)], [ROW, (0,)]),
    "transposed, with a vector": (lambda x, v: x.T @ v, [SQUARE, (N,)], [COLUMN, (0,)]),
    "transposed, with a matrix": (lambda x, y: x.T @ y, [SQUARE, SQUARE], [ROW, ROW]),
    "transposed beside another": (lambda x, y: x.T + y, [SQUARE, SQUARE], [COLUMN, ROW]),
    "one operation, transposed": (lambda x: wnp.exp(x.T), [SQUARE], [ROW]),
    "elementwise": (lambda x: wnp.tanh(x) * x, [SQUARE], [ROW]),
    "twice transposed": (lambda x: (x.T * 2).T + 1, [SQUARE], [ROW]),
    "joined": (lambda x, y: wnp.concatenate([x, y])[:, 0], [SQUARE, SQUARE], [COLUMN] * 2),
    "split": (lambda x: wnp.split(x, 4, axis=1)[2][:, 1], [SQUARE], [COLUMN]),
    "reversed": (lambda x: x[::-1][:, 1], [SQUARE], [COLUMN]),
    "padded": (lambda x: wnp.pad(x, 1)[:, 1], [SQUARE], [COLUMN]),
    "flat": (lambda x: x.reshape(-1)[::N] * 2, [SQUARE], [COLUMN]),
    "split and a column": (lambda x: x.reshape(N, 32, 32)[:, 1, 2], [SQUARE], [COLUMN]),
    "columns in a loop": (columns_in_loop, [SQUARE], [COLUMN]),
    "columns in a while loop": (columns_in_while, [SQUARE], [COLUMN]),
    "columns in loops in a jit": (lambda y: weft.jit(columns_in_loop)(y), [SQUARE], [COLUMN]),
    "a loop that outweighs": (rows_outweighed, [SQUARE], [COLUMN]),
    "a loop that does not": (columns_outweighed, [SQUARE], [ROW]),
    "a loop over what is computed": (lambda y: columns_in_loop(y * 2), [SQUARE], [ROW]),
    "a loop over the transposed": (lambda y: lax.map(wnp.sum, y.T), [SQUARE], [COLUMN]),
    "a loop over rows": (lambda y: lax.map(wnp.sum, y), [SQUARE], [ROW]),
    "a loop over numbers": (lambda y: lax.map(wnp.sin, y[:, 0]), [SQUARE], [COLUMN]),
    "branches": (
        lambda p, y: lax.cond(p > 0, lambda y: y[:, 0], lambda y: y[:, 1], y),
        [(), SQUARE],
        [(), COLUMN],
    ),
    "branches that differ": (
        lambda p, y: lax.cond(p > 0, lambda y: y[:, 0], lambda y: y[0], y),
        [(), SQUARE],
        [(), ROW],
    ),
    "jit in jit": (weft.jit(lambda y: weft.jit(lambda z: z[:, 3])(y)), [SQUARE], [COLUMN]),
    "checkpoint": (weft.checkpoint(lambda y: y[:, 3]), [SQUARE], [COLUMN]),
    "grad": (weft.grad(lambda y: (y[:, 0] ** 2).sum()), [SQUARE], [COLUMN]),
    "grad of a layer": (
        weft.grad(lambda w, x: wnp.tanh(x @ w).sum()),
        [SQUARE, SQUARE],
        [ROW, ROW],
    ),
    "vmap over columns": (weft.vmap(lambda r: r * 2, in_axes=1), [SQUARE], [COLUMN]),
    "vmap over rows": (weft.vmap(lambda r: r * 2), [SQUARE], [ROW]),
    "vmap of columns": (weft.vmap(lambda y: y[:, 0]), [(8, 256, 256)], [(2, 0, 1)]),
    "3-D, the last fixed": (lambda x: x[:, :, 0] + 1, [(64, 128, 128)], [(2, 0, 1)]),
    "3-D, the middle fixed": (lambda x: x[:, 0] + 1, [(64, 128, 128)], [(0, 1, 2)]),
    "3-D, the first alone": (lambda x: x[:, 1, 2], [(256, 64, 128)], [(1, 2, 0)]),
    "4-D, images to channels last": (
        lambda x: x.transpose(0, 2, 3, 1) * 2,
        [(8, 64, 32, 32)],
        [(0, 2, 3, 1)],
    ),
    "not read": (lambda x, y: y[:, 0], [SQUARE, SQUARE], [ROW, COLUMN]),
    "a length of 1": (lambda x: x[:, 0], [(N, 1)], [ROW]),
    "a length of 1 before": (lambda x: x[0, :, 3], [(1, N, N)], [(0, 2, 1)]),
    "nothing": (lambda x: x.T * 2, [(0, N)], [ROW]),
    "an empty part": (lambda x: x[:0, 3].sum(), [SQUARE], [ROW]),
    "a scalar": (lambda x: x + 1, [()], [()]),
    "a vector": (lambda x: x[::2], [(N,)], [(0,)]),
    "too small to tell": (lambda x: x.T * 2, [(8, 8)], [ROW]),
    "centred": (lambda x: (x - x.mean())[:, 0], [SQUARE], [ROW]),
}


@pytest.mark.parametrize("name", TABLE)
def test_inputs(name):
    f, shapes, wanted = TABLE[name]
    assert inferred(f, *shapes)[0] == wanted


@pytest.mark.parametrize(
    ("f", "inputs", "outputs", "wanted_in", "wanted_out"),
    [
        # A result that is moved there takes the order that makes it a plain copy.
        (lambda x: x.T, None, None, ROW, COLUMN),
        (lambda x: x.T, [COLUMN], None, COLUMN, ROW),
        (lambda x: x.T, None, [ROW], COLUMN, ROW),
        (lambda x: x, [COLUMN], None, COLUMN, COLUMN),
        (lambda x: x[:, :300], [COLUMN], None, COLUMN, COLUMN),
        (lambda x: x[::-1].T, None, None, ROW, COLUMN),
        (lambda x: x.reshape(N, 1, N)[:, 0].T, None, None, ROW, COLUMN),
        (weft.jit(lambda x: weft.jit(lambda y: y.T)(x)), None, None, ROW, COLUMN),
        # One that is computed is written as it is asked for, or row by row.
        (lambda x: x * 2, None, None, ROW, ROW),
        (lambda x: x * 2, [COLUMN], None, COLUMN, ROW),
        (lambda x: x * 2, None, [COLUMN], COLUMN, COLUMN),
        (lambda x: x.T * 2, None, [COLUMN], ROW, COLUMN),
        (lambda x: x.reshape(-1).reshape(N, N), None, None, ROW, ROW),
        # What is given stays.
        (lambda x: x[:, 0].sum(), [ROW], None, ROW, ()),
    ],
)
def test_results(f, inputs, outputs, wanted_in, wanted_out):
    assert inferred(f, SQUARE, inputs=inputs, outputs=outputs) == ([wanted_in], [wanted_out])


def test_a_scan_stacks_its_results_row_by_row():
    def f(x):
        return lax.scan(lambda c, row: (c + row, c * row), wnp.zeros(N), x)

    assert inferred(f, SQUARE) == ([ROW], [(0,), ROW])


def test_closed_over_arrays_are_inputs_too():
    table = wnp.ones(SQUARE)
    jaxpr = weft.make_jaxpr(lambda i: table[:, i])(3).jaxpr
    assert jaxpr.num_consts == 1
    assert infer_layouts(jaxpr, [None, None], [None])[0] == [COLUMN, ()]


def test_random_keys():
    keys = weft.random.split(weft.random.key(0), (300, 300))
    jaxpr = weft.make_jaxpr(lambda k: weft.random.bits(k[3, 5]))(keys).jaxpr
    (order,), _ = infer_layouts(jaxpr, [None], [None])
    assert sorted(order) == list(range(jaxpr.inputs[0].type.ndim))


def test_a_branch_counts_for_its_share():
    def f(p, y):
        return lax.switch(p, [lambda y: y[:, 0], lambda y: y[:, 0], lambda y: y[:, 0]], y)

    jaxpr = weft.make_jaxpr(f)(0, weft.ShapeDtypeStruct(SQUARE, np.float32)).jaxpr
    (read,) = reads_of(jaxpr)[1]
    assert read.times == pytest.approx(1.0) and read.walk == (Step(0, N),)


def test_loops_multiply():
    jaxpr = program(
        lambda y: lax.fori_loop(0, 7, lambda j, s: s + columns_in_loop(y, 5), wnp.zeros(N)), SQUARE
    )
    (read,) = reads_of(jaxpr)[0]
    assert read.times == 35 and read.carried


def test_what_decided_is_told_with_its_line():
    jaxpr = program(lambda x, y: (x[0, :], y[:, 0] * 2), SQUARE, SQUARE)
    text = explain(jaxpr)
    line = test_what_decided_is_told_with_its_line.__code__.co_firstlineno + 1
    assert "input 1, f32[1024,1024]: (1, 0)" in text
    assert f"  (0, 1) moves {N * 64:,} bytes\n" in text
    assert f"  (1, 0) moves {N * 4:,} bytes, as {__file__}:{line} reads it" in text


# ---- properties ------------------------------------------------------------------------------


def lines_touched(shape, order, walk, itemsize):
    """How many different lines of 64 bytes a walk touches, counted by doing it."""
    strides = dict.fromkeys(range(len(shape)), 0)
    stride = itemsize
    for d in reversed(order):
        strides[d], stride = stride, stride * shape[d]
    places = itertools.product(*(range(s.extent) for s in walk))
    return len(
        {
            sum(i * s.step * strides[s.dim] for i, s in zip(at, walk, strict=True)) // 64
            for at in places
        }
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_fits_into_the_cache_costs_its_lines(data):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 4, 16, 32]), min_size=1, max_size=3)))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    dims = data.draw(st.permutations(range(len(shape))))
    walk = tuple(Step(d, data.draw(st.sampled_from([1, shape[d]]))) for d in dims)
    read = Read(tuple(s for s in walk if s.extent > 1))
    type = ArrayType(shape, np.dtype(np.float32))
    counted = 64 * lines_touched(shape, order, read.walk, 4)
    # Never less; more only where a line holds elements of several runs.
    cost = read_cost(type, order, [read])
    assert counted <= cost <= 16 * counted
    if len(read.walk) == len([n for n in shape if n > 1]):
        assert cost == counted  # everything


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_walk_through_a_reshape_goes_over_as_many_elements(data):
    factors = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5]), min_size=1, max_size=5))

    def joined():
        shape, left = [], list(factors)
        while left:
            n = data.draw(st.integers(1, len(left)))
            shape.append(int(np.prod(left[:n])))
            left = left[n:]
        return tuple(shape)

    old, new = joined(), joined()
    type = ArrayType(new, np.dtype(np.float32))
    found = regrouped(full_read(type).walk, new, old)
    assert found == list(full_read(ArrayType(old, np.dtype(np.float32))).walk) or (
        np.prod([s.extent for s in found]) == np.prod(old)
    )
    # In the order of memory: row by row in both shapes.
    numbers = np.arange(np.prod(old)).reshape(old)
    places = itertools.product(*(range(s.extent) for s in found))
    seen = []
    for at in places:
        where = [0] * len(old)
        for i, s in zip(at, found, strict=True):
            where[s.dim] += i * s.step
        seen.append(int(numbers[tuple(where)]))
    assert seen == sorted(seen) and len(set(seen)) == len(seen)


STEPS = {
    "double": lambda x: x * 2,
    "turn": lambda x: x.T,
    "add": lambda x: x + x,
    "upper": lambda x: x[: x.shape[0] // 2 + 1],
    "left": lambda x: x[:, ::2],
    "reverse": lambda x: x[::-1],
    "flat": lambda x: x.reshape(-1).reshape(x.shape),
    "jit": lambda x: weft.jit(lambda y: y.T + 1)(x),
    "sum": lambda x: x - x.sum(0),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, s: s + x[0, 0], x),
}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=5), st.sampled_from([(700, 300), (5, 9)]))
def test_answers_are_permutations(names, shape):
    def f(x):
        for name in names:
            x = STEPS[name](x)
        return x, x[:, 0] * 2

    (order,), (whole, column) = inferred(f, shape)
    assert sorted(order) == sorted(whole) == [0, 1] and column == (0,)


@pytest.mark.parametrize("shape", [(64, 96, 80), (200, 3, 500), (64, 512, 128)])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_permuted_array_is_read_as_cheaply(shape, order):
    """Whatever the dimensions are called, the answer is among the cheapest orders."""
    moved = tuple(shape[d] for d in order)
    back = [order.index(d) for d in range(3)]
    jaxpr = program(lambda x: x.transpose(back)[:, :, 1] + 1, moved)
    (found,), _ = infer_layouts(jaxpr, [None], [None])
    type, reads = jaxpr.in_types[0], reads_of(jaxpr)[0]
    costs = {p: read_cost(type, p, reads) for p in itertools.permutations(range(3))}
    assert costs[found] <= MARGIN * min(costs.values())
    # The read is that of the array as it was, by other names.
    (plain,) = reads_of(program(lambda x: x[:, :, 1] + 1, shape))[0]
    assert [step.dim for step in reads[0].walk] == [back[step.dim] for step in plain.walk]


def chain(n):
    type = ArrayType((64, 64), np.dtype(np.float32))
    start = program(lambda x: x + x, (64, 64)).eqns[0]
    variables = [Var(type) for _ in range(n + 1)]
    eqns = [
        Equation(start.primitive, [variables[max(0, i - 1)], variables[i]], {}, [variables[i + 1]])
        for i in range(n)
    ]
    return Jaxpr([variables[0]], eqns, [variables[-1]])


def test_the_cost_of_the_analysis_grows_with_the_program_and_no_faster():
    def seconds(jaxpr):
        return min(timed(jaxpr) for _ in range(3))

    def timed(jaxpr):
        start = time.perf_counter()
        infer_layouts(jaxpr, [None], [None])
        return time.perf_counter() - start

    small, large = seconds(chain(500)), seconds(chain(5000))
    assert large < 30 * small and large < 2.0


def test_programs_that_are_called_again_are_followed_once_per_demand(monkeypatch):
    follow, followed = _Follower._follow, []

    def counted(self, jaxpr, demands):
        followed.append(jaxpr)
        return follow(self, jaxpr, demands)

    monkeypatch.setattr(_Follower, "_follow", counted)
    f = lambda x: x[:, 0].sum() * x  # noqa: E731
    for _ in range(9):
        f = (lambda g: weft.jit(lambda x: g(x) + g(x * 2)))(f)
    inferred(f, (64, 64))
    assert len(followed) < 40  # and not the 512 that it is called


# ---- layouts kept inside of loops and branches -------------------------------------------------


def column_major(jaxpr):
    return [Layout((1, 0)) if var.type.ndim == 2 else None for var in jaxpr.inputs]


KEPT = {
    "scan": (lambda y: columns_in_loop(y, 5), lambda y: y[:, :5].sum(1)),
    "while": (
        lambda y: lax.while_loop(
            lambda c: c[0] < 4,
            lambda c: (c[0] + 1, c[1] + lax.dynamic_index_in_dim(y, c[0], 1, keepdims=False)),
            (0, wnp.zeros(6)),
        )[1],
        lambda y: y[:, :4].sum(1),
    ),
    "a condition that reads": (
        lambda y: lax.while_loop(lambda c: c < y[0, 1] + 5, lambda c: c + y[1, 1], 0.0),
        None,
    ),
    "cond": (
        lambda y: lax.cond(y[0, 0] > 0, lambda z: z[:, 0], lambda z: z[:, 1], y),
        lambda y: y[:, 0] if y[0, 0] > 0 else y[:, 1],
    ),
    "scan over the transposed": (
        lambda y: lax.scan(lambda c, row: (c + row, row * 2), wnp.zeros(6), y.T),
        lambda y: (y.sum(1), y.T * 2),
    ),
    "nested": (
        lambda y: lax.fori_loop(0, 3, lambda j, s: s + columns_in_loop(y, 2), wnp.zeros(6)),
        lambda y: 3 * y[:, :2].sum(1),
    ),
    "inside": (
        weft.jit(lambda y: weft.checkpoint(lambda z: columns_in_loop(z, 5))(y)),
        lambda y: y[:, :5].sum(1),
    ),
    "carried": (lambda y: lax.fori_loop(0, 3, lambda i, s: s + y, y), lambda y: 4 * y),
    "reversed": (
        lambda y: lax.scan(lambda c, row: (c * 0.5 + row[0] + y[1, 0], c), 0.0, y, reverse=True),
        None,
    ),
    "grad": (
        weft.grad(lambda y: (columns_in_loop(y, 5) ** 2).sum()),
        lambda y: np.where(np.arange(8) < 5, 2 * y[:, :5].sum(1)[:, None], 0.0),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_programs_that_keep_layouts_compute_the_same(name):
    f, wanted = KEPT[name]
    y = np.random.default_rng(3).standard_normal((6, 8)).astype(np.float32)
    jaxpr = weft.make_jaxpr(f)(y).jaxpr
    kept = keep_layouts(jaxpr, column_major(jaxpr))
    assert kept.in_types == jaxpr.in_types and kept.out_types == jaxpr.out_types
    assert "layout_constraint" in str(kept)
    got = weft.jit(lambda x: eval_jaxpr(kept, (), x))(y)
    plain = weft.jit(lambda x: eval_jaxpr(jaxpr, (), x))(y)
    expected = plain if wanted is None else wanted(y.astype(np.float64))
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for a, b, c in zip(got, plain, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        np.testing.assert_allclose(a, c, rtol=1e-5)


def test_a_program_of_row_major_inputs_stays_what_it_is():
    jaxpr = program(columns_in_loop, (6, 16))
    assert keep_layouts(jaxpr, [None]) is jaxpr


def test_a_program_is_rewritten_once():
    jaxpr = program(columns_in_loop, (6, 16))
    assert keep_layouts(jaxpr, [Layout(COLUMN)]) is keep_layouts(jaxpr, [Layout(COLUMN)])


@pytest.mark.parametrize("spec", [P("i"), P(None, "i")])
def test_constraints_do_not_gather_an_array_over_devices(spec):
    mesh = weft.make_mesh((8,), ("i",))
    values = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)
    gathers = []
    for order in (ROW, COLUMN):
        y = weft.device_put(values, Format(Layout(order), NamedSharding(mesh, spec)))
        compiled = weft.jit(columns_in_loop).lower(y).compile()
        gathers.append(compiled.as_text().count(" all-gather("))
        np.testing.assert_allclose(compiled(y), values[:, :10].sum(1), rtol=1e-5, atol=1e-5)
    assert gathers[0] == gathers[1]


def test_what_devices_compute_for_themselves_keeps_its_layout():
    mesh = weft.make_mesh((8,), ("i",))

    def f(y):
        def of_block(block):
            return lax.fori_loop(0, 5, lambda i, s: s + block[:, i], block[:, 0] * 0)

        return weft.shard_map(of_block, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(y)

    values = np.random.default_rng(2).standard_normal((64, 32)).astype(np.float32)
    jaxpr = weft.make_jaxpr(f)(values).jaxpr
    assert "layout_constraint" in str(keep_layouts(jaxpr, [Layout(COLUMN)], partitioned=True))
    y = weft.device_put(values, Format(Layout(COLUMN), NamedSharding(mesh, P("i"))))
    np.testing.assert_allclose(weft.jit(f)(y), values[:, :5].sum(1), rtol=1e-5, atol=1e-5)


def test_loops_over_split_arrays_speak_for_nothing():
    def total(y):
        return lax.fori_loop(0, 100, lambda i, s: s + y[:, i], wnp.zeros(512))

    f = weft.jit(
        total, in_shardings=Format(Layout.AUTO, NamedSharding(weft.make_mesh((4,), ("i",)), P("i")))
    )
    compiled = f.lower(weft.ShapeDtypeStruct((512, 512), "float32")).compile()
    assert compiled.input_formats[0][0].layout.is_row_major
    one = weft.jit(total, in_shardings=Format(Layout.AUTO))
    compiled = one.lower(weft.ShapeDtypeStruct((512, 512), "float32")).compile()
    assert compiled.input_formats[0][0].layout == Layout((1, 0))
