"""The transposition note: its examples, what they communicate, and gradients of replicated weights.

Collectives are counted in the lowered text and in the compiled program; numbers are compared with
NumPy in float64.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from weft import lax, shard_map
from weft.errors import AxisError
from weft.runtime import client
from weft.sharding import PartitionSpec as P

LOWERED = re.compile(
    r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_\w+)\b"
)
COMPILED = re.compile(
    r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-\w+)(?:-start)?\("
)


@pytest.fixture(scope="module")
def line():
    return weft.make_mesh((8,), ("i",))


@pytest.fixture(scope="module")
def grid():
    return weft.make_mesh((4, 2), ("i", "j"))


def double(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return wnp.asarray(values, dtype=wnp.float64)


def close(got, wanted):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-12, atol=1e-12)


def communicates(function, *args):
    """The collectives of a program, which are the same in its text and when it is compiled."""
    lowered = weft.jit(function).lower(*args)
    found = Counter(LOWERED.findall(lowered.as_text()))
    compiled = Counter(
        name.replace("-", "_") for name in COMPILED.findall(lowered.compile().as_text())
    )
    assert compiled == found
    return dict(found)


def transposed(function, x):
    """The transpose in its last argument, which is like `x`; others stay in front."""

    def pull(*args):
        *known, ct = args
        return weft.linear_transpose(lambda x: function(*known, x), x)(ct)[0]

    return pull


def inner_jaxpr(function, *args):
    """The program of the one shard_map in a function's jaxpr."""
    (eqn,) = [
        e for e in weft.make_jaxpr(function)(*args).jaxpr.eqns if e.primitive.name == "shard_map"
    ]
    return eqn.params["jaxpr"]


def steps(function, *args):
    """What the body of a shard_map does: operations with the axes along which results vary."""
    return [
        (eqn.primitive.name, *("".join(sorted(v.type.varying)) for v in eqn.outputs))
        for eqn in inner_jaxpr(function, *args).eqns
    ]


# ---- the examples ------------------------------------------------------------------------------

X = double(8)
Y = double(8, seed=1)
WIDE = double(64, seed=2)


def example_1(mesh):
    return shard_map(lambda x: lax.psum(3.0 * x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())


def example_2(mesh):
    return shard_map(
        lambda y, x: lax.psum(3.0 * x, "i") * y,
        mesh=mesh,
        in_specs=(P("i"), P("i")),
        out_specs=P("i"),
    )


def example_3(mesh):
    return shard_map(lambda x: x, mesh=mesh, in_specs=P(), out_specs=P())


def example_4(mesh):
    return shard_map(
        lambda x: lax.all_gather_invariant(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
    )


def example_5(mesh):
    return shard_map(
        lambda y, x: lax.all_gather(x, "i", tiled=True) * y,
        mesh=mesh,
        in_specs=(P("i"), P("i")),
        out_specs=P("i"),
    )


# The example, what it takes before x, its matrix in x, and what it and its transpose communicate.
EXAMPLES = {
    1: (example_1, (), np.full((1, 8), 3.0), {"all_reduce": 1}, {}),
    2: (example_2, (Y,), 3.0 * np.outer(Y, np.ones(8)), {"all_reduce": 1}, {"all_reduce": 1}),
    3: (example_3, (), np.eye(8), {}, {}),
    4: (example_4, (), np.eye(8), {"all_gather": 1}, {}),
    5: (
        example_5,
        (WIDE,),
        np.asarray(WIDE)[:, None] * np.tile(np.eye(8), (8, 1)),
        {"all_gather": 1},
        {"reduce_scatter": 1},
    ),
}


@pytest.mark.parametrize("number", EXAMPLES)
def test_examples_transpose_exactly(number, line):
    """The numbers of the function and of its transpose, and no collective that is not needed."""
    make, known, matrix, forwards, backwards = EXAMPLES[number]
    function = make(line)
    out = function(*known, X)
    back = transposed(function, X)
    ct = double(*out.shape, seed=3)
    flat = np.asarray(ct).ravel()
    for way in (lambda f: f, weft.jit):
        close(np.ravel(way(function)(*known, X)), matrix @ np.asarray(X))
        close(way(back)(*known, ct), matrix.T @ flat)
    assert communicates(function, *known, X) == forwards
    assert communicates(back, *known, ct) == backwards


@pytest.mark.parametrize("number", EXAMPLES)
def test_the_transpose_of_the_transpose_is_the_function(number, line):
    """As jaxprs, letter by letter, however often."""
    make, known, _, forwards, backwards = EXAMPLES[number]
    function = make(line)
    ct = double(*function(*known, X).shape, seed=3)
    programs, texts, points = [function], [], [X, ct] * 3
    for point in points:
        texts.append(str(weft.make_jaxpr(programs[-1])(*known, point)))
        programs.append(transposed(programs[-1], point))
    assert texts[2] == texts[0] == texts[4]
    assert texts[3] == texts[1] == texts[5]
    assert communicates(programs[4], *known, X) == forwards
    assert communicates(programs[5], *known, ct) == backwards


def test_bodies_are_those_of_the_note(line):
    """The operations with their types, as the note writes them out."""
    ct, wide = double(1), double(64)
    f1, f2, f3, f4, f5 = (make(line) for make, *_ in EXAMPLES.values())
    assert steps(f1, X) == [("mul", "i"), ("psum", "")]
    assert steps(transposed(f1, X), ct) == [("pbroadcast", "i"), ("mul", "i")]
    two = [("mul", "i"), ("psum", ""), ("pbroadcast", "i"), ("mul", "i")]
    assert steps(f2, Y, X) == two
    assert steps(transposed(f2, X), Y, X) == two
    assert steps(f3, X) == steps(transposed(f3, X), X) == []
    assert steps(f4, X) == [("all_gather_invariant", "")]
    assert steps(transposed(f4, X), double(8, 1)) == [("pscatter", "i")]
    assert steps(f5, WIDE, X) == [("all_gather", "i"), ("mul", "i")]
    assert steps(transposed(f5, X), WIDE, wide) == [("mul", "i"), ("psum_scatter", "i")]


def test_types_are_written_with_their_axes(line):
    """`f32[1]{i}` varies along i, `f32[1]` does not."""
    x = wnp.arange(8.0)
    text = str(weft.make_jaxpr(example_1(line))(x))
    assert re.search(r"lambda ; \w:f32\[1\]\{i\}\. let", text)
    assert re.search(r"\w:f32\[1\] = psum\[axis_name=\('i',\)\] \w", text)


def test_a_psum_whose_result_is_used_along_the_axis_keeps_one(line):
    """psum, then a product with a varying value: one all-reduce forwards, one in the gradient."""

    def f(x, y):
        return lax.psum(wnp.sin(x), "i") * y

    function = shard_map(f, mesh=line, in_specs=(P("i"), P("i")), out_specs=P("i"))
    gradient = weft.grad(lambda x: function(x, Y).sum())
    close(gradient(X), np.cos(np.asarray(X)) * np.asarray(Y).sum())
    assert communicates(gradient, X) == {"all_reduce": 1}


def test_the_scattered_gather_is_the_identity_and_silent_backwards(line):
    def f(x):
        return lax.pscatter(lax.all_gather_invariant(x, "i", tiled=True), "i", tiled=True)

    function = shard_map(f, mesh=line, in_specs=P("i"), out_specs=P("i"))
    close(function(X), X)
    assert communicates(transposed(function, X), X) == {"all_gather": 1}
    wide = shard_map(
        lambda x: lax.all_gather_invariant(x, "i", tiled=True),
        mesh=line,
        in_specs=P("i"),
        out_specs=P(),
    )
    assert communicates(transposed(wide, X), X) == {}


@pytest.mark.parametrize("axes", ["i", "j", ("i", "j"), ("j", "i")], ids=str)
def test_the_table_over_axes_of_a_grid(axes, grid):
    """What transposes to what, over one axis and over two in both orders."""
    names = axes if isinstance(axes, tuple) else (axes,)
    label, whole, block = "".join(sorted(names)), P(names), double(64)
    scattered = double(64 // (8 // int(np.prod([grid.shape[n] for n in names]))))

    def body(f, in_specs, out_specs, x):
        function = shard_map(f, mesh=grid, in_specs=in_specs, out_specs=out_specs)
        ct = double(*weft.eval_shape(function, x).shape, seed=1)
        return steps(transposed(function, x), ct)

    gather = body(lambda x: lax.all_gather(x, axes, tiled=True), whole, whole, block)
    assert gather == [("psum_scatter", label)]
    scatter = body(lambda x: lax.psum_scatter(x, axes, tiled=True), whole, whole, double(512))
    assert scatter == [("all_gather", label)]
    both = body(lambda x: lax.all_to_all(x, axes, 0, 0, tiled=True), whole, whole, double(512))
    assert both == [("all_to_all", label)]
    assert body(lambda x: lax.psum(x, axes), whole, P(), block) == [("pbroadcast", label)]
    assert body(lambda x: lax.pbroadcast(x, axes), P(), whole, scattered) == [("psum", "")]
    part = body(lambda x: lax.pscatter(x, axes, tiled=True), P(), whole, block)
    assert part == [("all_gather_invariant", "")]
    shift = body(lambda x: lax.ppermute(x, axes, [(0, 1)]), whole, whole, block)
    assert shift == [("ppermute", label)]


def test_ppermute_transposes_to_the_inverse_pairs(line):
    pairs = ((0, 3), (3, 1), (5, 5))
    function = shard_map(
        lambda x: lax.ppermute(x, "i", pairs), mesh=line, in_specs=P("i"), out_specs=P("i")
    )
    (eqn,) = inner_jaxpr(transposed(function, X), X).eqns
    assert sorted(eqn.params["perm"]) == [(1, 3), (3, 0), (5, 5)]
    assert communicates(transposed(function, X), X) == {"collective_permute": 1}


def test_an_operand_cast_for_several_uses_is_summed_once(line):
    """Three uses of a replicated weight: one psum of the sum, in the jaxpr already."""

    def f(w, x):
        return lax.psum(w * x + wnp.sin(w * x) + w * wnp.cos(x), "i")

    function = shard_map(f, mesh=line, in_specs=(P(), P("i")), out_specs=P())
    w = double(1, seed=5)
    gradient = weft.grad(lambda w: function(w, X).sum())
    n, v = np.asarray(X), np.asarray(w)
    close(gradient(w), [np.sum(n + np.cos(v * n) * n + np.cos(n))])
    assert communicates(gradient, w) == {"all_reduce": 1}


def test_sums_in_output_specs_need_no_collective_backwards(line):
    """The note's P-sum: example 1 without a psum in its body."""
    better = shard_map(lambda x: 3.0 * x, mesh=line, in_specs=P("i"), out_specs=P(sum="i"))
    close(better(X), [3.0 * np.asarray(X).sum()])
    assert communicates(transposed(better, X), double(1)) == {}


# ---- gradients of replicated weights -----------------------------------------------------------

SIZES = (3, 4, 4, 4, 2)


def layers():
    """Four layers: eight leaves."""
    return [
        {"w": double(a, b, seed=a + 10 * k) / 2, "b": double(b, seed=b + 10 * k)}
        for k, (a, b) in enumerate(zip(SIZES, SIZES[1:], strict=False))
    ]


def local_loss(params, inputs, targets):
    for layer in params:
        inputs = wnp.tanh(inputs @ layer["w"] + layer["b"])
    return wnp.mean(wnp.sum((inputs - targets) ** 2, -1))


BATCH = (double(16, 3, seed=30), double(16, 2, seed=31))


@pytest.mark.parametrize("check", [True, False])
def test_a_data_parallel_loss_has_one_all_reduce_per_leaf(check, line):
    """None for the pmean of the loss: its transpose is a cast."""

    def body(params, inputs, targets):
        return lax.pmean(local_loss(params, inputs, targets), "i")

    specs = (P(), P("i"), P("i"))
    loss = shard_map(body, mesh=line, in_specs=specs, out_specs=P(), check_vma=check)
    params = layers()
    assert len(weft.tree.leaves(params)) == 8
    wanted = weft.grad(local_loss)(params, *BATCH)
    for way in (lambda f: f, weft.jit):
        found = way(weft.grad(loss))(params, *BATCH)
        weft.tree.map(close, found, wanted)
    assert communicates(weft.grad(loss), params, *BATCH) == {"all_reduce": 8}
    assert communicates(weft.value_and_grad(loss), params, *BATCH) == {"all_reduce": 9}


# Each of the three programs, and what it is meant to compute: the gradient of the mean of the
# devices' losses or of their sum.
AXES = ["i", "j", ("i", "j"), ("j", "i")]
REDUCE = {"pmean": lax.pmean, "psum": lax.psum}


def outside(reduce, axes, widen):
    """grad(pmean(loss)), with grad outside of the shard_map."""

    def program(mesh, specs, check):
        def body(w, x):
            return reduce(one_loss(widen(w, axes), x), axes)

        loss = shard_map(body, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=check)
        return weft.grad(loss)

    return program


def inside(reduce, axes, widen):
    """grad(pmean(loss)), with grad inside of the shard_map."""

    def program(mesh, specs, check):
        def body(w, x):
            return weft.grad(lambda w: reduce(one_loss(widen(w, axes), x), axes))(w)

        return shard_map(body, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=check)

    return program


def afterwards(reduce, axes, widen):
    """pmean(grad(loss))."""

    def program(mesh, specs, check):
        def body(w, x):
            return reduce(weft.grad(one_loss)(widen(w, axes), x), axes)

        return shard_map(body, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=check)

    return program


def gathered(reduce, axes, widen):
    """The mean or sum of gradients, written with a gather."""
    total = wnp.mean if reduce is lax.pmean else wnp.sum

    def program(mesh, specs, check):
        def body(w, x):
            found = weft.grad(one_loss)(widen(w, axes), x)
            return total(lax.all_gather_invariant(found, axes), 0)

        return shard_map(body, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=check)

    return program


def scattered(reduce, axes, widen):
    """The sum of gradients, by parts that are put together again."""

    def program(mesh, specs, check):
        def body(w, x):
            found = weft.grad(one_loss)(widen(w, axes), x)
            part = lax.psum_scatter(found, axes, tiled=True)
            if reduce is lax.pmean:
                part = part / lax.axis_size(axes)
            return lax.all_gather_invariant(part, axes, tiled=True)

        return shard_map(body, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=check)

    return program


def one_loss(w, x):
    return wnp.sum(wnp.sin(x * w))


def equal_or_raises(program, args, wanted):
    """Runs a program, which gives the wanted numbers or is refused. Whether it gave them."""
    try:
        found = program(*args)
    except AxisError as error:
        assert error.fix is not None
        return False
    close(found, wanted)
    return True


def kept(w, axes):
    return w


def cast(w, axes):
    return lax.pbroadcast(w, axes)


# Programs, by whether the weight is cast by hand; the others have to be refused. A gradient with
# respect to an invariant weight is summed already, and so is no term of a further sum; a gather
# would make N copies of it.
PROGRAMS = {
    "grad(reduce)": (outside, kept, True),
    "grad(reduce), cast": (outside, cast, True),
    "grad(reduce) inside": (inside, kept, True),
    "reduce(grad)": (afterwards, kept, False),
    "reduce(grad), cast": (afterwards, cast, True),
    "gather(grad), cast": (gathered, cast, True),
    "scatter(grad)": (scattered, kept, False),
    "scatter(grad), cast": (scattered, cast, True),
}


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_data_parallel_programs_give_the_gradient_or_raise(name, axes, grid):
    make, widen, computes = PROGRAMS[name]
    names = axes if isinstance(axes, tuple) else (axes,)
    count = int(np.prod([grid.shape[n] for n in names]))
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)
    total = np.sum(np.cos(n * v) * n, 0)
    for reduce, wanted in ((lax.psum, total), (lax.pmean, total / count)):
        for check in (True, False):
            program = make(reduce, axes, widen)(grid, P(names), check)
            ran = [equal_or_raises(way(program), (w, x), wanted) for way in (lambda f: f, weft.jit)]
            assert ran == [computes] * 2, (reduce.__name__, check)


@pytest.mark.parametrize("check", [True, False])
def test_a_gradient_that_nobody_reduces_is_the_sum(check, grid):
    """grad of the local loss with respect to replicated weights, returned as it is."""
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)
    program = shard_map(
        weft.grad(one_loss),
        mesh=grid,
        in_specs=(P(), P(("i", "j"))),
        out_specs=P(),
        check_vma=check,
    )
    for way in (lambda f: f, weft.jit):
        close(way(program)(w, x), np.sum(np.cos(n * v) * n, 0))


def test_reducing_over_one_of_two_axes(grid):
    """The batch is split over both: the gradient is summed over the other axis by its type."""
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)

    def body(w, x):
        return weft.grad(lambda w: lax.pmean(one_loss(w, x), "i"))(w)

    def mixed(w, x):
        return lax.pmean(weft.grad(one_loss)(lax.pbroadcast(w, "j"), x), "j")

    total = np.sum(np.cos(n * v) * n, 0)
    for function, wanted in ((body, total / 4), (mixed, total / 2)):
        program = shard_map(
            function, mesh=grid, in_specs=(P(), P(("i", "j"))), out_specs=P()
        )
        for way in (lambda f: f, weft.jit):
            close(way(program)(w, x), wanted)
    # Half reduced: the result still varies along j, and is no result without it.
    half = shard_map(
        lambda w, x: lax.pmean(weft.grad(one_loss)(lax.pbroadcast(w, ("i", "j")), x), "i"),
        mesh=grid,
        in_specs=(P(), P(("i", "j"))),
        out_specs=P(),
    )
    for way in (lambda f: f, weft.jit):
        with pytest.raises(AxisError, match="'j'"):
            way(half)(w, x)


@pytest.mark.parametrize("name", REDUCE)
def test_both_readings_of_a_refused_reduction_work(name, line):
    """The error's two ways out, applied: drop the collective, or sum N equal copies."""
    reduce = REDUCE[name]
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)
    total = np.sum(np.cos(n * v) * n, 0)

    def program(finish):
        def body(w, x):
            return finish(weft.grad(one_loss)(w, x))

        return shard_map(body, mesh=line, in_specs=(P(), P("i")), out_specs=P())

    with pytest.raises(AxisError, match=f"{name} over 'i'") as caught:
        program(lambda g: reduce(g, "i"))(w, x)
    fix = caught.value.fix
    assert "lax.pbroadcast" in fix.text and f"drop the {name}" in fix.text
    assert fix.data["axes"] == ("i",) and fix.data["rest"] == ()
    close(program(lambda g: g)(w, x), total)
    copies = 8 if name == "psum" else 1
    close(program(lambda g: reduce(lax.pbroadcast(g, fix.data["axes"]), "i"))(w, x), copies * total)


# ---- nothing is compiled twice -----------------------------------------------------------------


def test_a_second_eager_call_compiles_nothing(line, monkeypatch):
    """Not even for lambdas made anew, in the gradient, or in the second derivative."""

    def run():
        def body(params, x):
            y = wnp.tanh(x @ params["w"] + params["b"])
            y = lax.ppermute(y, "i", [(k, (k + 1) % 8) for k in range(8)])
            return lax.pmean(wnp.sum(y * lax.axis_index("i")), "i")

        function = shard_map(body, mesh=line, in_specs=(P(), P("i")), out_specs=P())
        params = {"w": double(3, 4, seed=1), "b": double(4, seed=2)}
        x = BATCH[0]
        gradient = weft.grad(lambda x: function(params, x))
        return (
            function(params, x),
            weft.grad(lambda p: function(p, x))(params),
            weft.jvp(gradient, (x,), (x,)),
            weft.vmap(lambda x: function(params, x))(wnp.stack([x, x])),
            weft.linearize(lambda x: function(params, x), x)[1](x),
        )

    backend, compiled = client.backend(), []
    original = backend.compile
    run()
    monkeypatch.setattr(
        type(backend),
        "compile",
        lambda self, *args, **options: compiled.append(1) or original(*args, **options),
    )
    run()
    assert compiled == []
    shard_map(lambda x: lax.psum(x, "i"), mesh=line, in_specs=P("i"), out_specs=P())(double(24))
    assert compiled  # The counter counts.


def test_a_second_eager_call_of_control_flow_compiles_nothing(line, monkeypatch):
    """Loops, branches and checkpoints in the body and around it, all of lambdas made anew."""

    def run():
        def body(x):
            y = lax.scan(lambda c, _: (lax.psum(wnp.sin(x), "i") + c / 2, None), x, None, length=3)
            z = lax.cond(lax.pmax(x.sum(), "i") > 0, lambda x: x * 2, lambda x: x, y[0])
            step = lambda c: (c[0] + 1, c[1] / 2)  # noqa: E731
            return lax.while_loop(lambda c: c[0] < 2, step, (0, z))[1]

        function = shard_map(body, mesh=line, in_specs=P("i"), out_specs=P("i"))
        inner = shard_map(
            weft.checkpoint(lambda x: wnp.sin(wnp.sin(x))),
            mesh=line,
            in_specs=P("i"),
            out_specs=P("i"),
        )
        return (
            function(X),
            weft.grad(lambda x: inner(x).sum())(X),
            weft.grad(lambda x: weft.checkpoint(inner)(x).sum())(X),
            weft.jit(inner)(X),
        )

    backend, compiled = client.backend(), []
    original = backend.compile
    run()
    monkeypatch.setattr(
        type(backend),
        "compile",
        lambda self, *args, **options: compiled.append(1) or original(*args, **options),
    )
    run()
    assert compiled == []
