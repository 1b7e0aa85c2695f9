"""The transposition note: its examples, and what they and their transposes communicate.

Collectives are counted in the lowered text and in the compiled program; numbers are compared with
NumPy in float64.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_doubles
from collective_counts import communicates, double, inner_jaxpr
from weft import lax, shard_map
from weft.sharding import PartitionSpec as P


def transposed(function, x):
    """The transpose in its last argument, which is like `x`; others stay in front."""

    def pull(*args):
        *known, ct = args
        return weft.linear_transpose(lambda x: function(*known, x), x)(ct)[0]

    return pull


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
        close_doubles(np.ravel(way(function)(*known, X)), matrix @ np.asarray(X))
        close_doubles(way(back)(*known, ct), matrix.T @ flat)
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
    assert texts[2] == texts[0] == texts[4] and texts[3] == texts[1] == texts[5]
    assert communicates(programs[4], *known, X) == forwards
    assert communicates(programs[5], *known, ct) == backwards


def test_bodies_are_those_of_the_note(line):
    """The operations with their types, as the note writes them out."""
    ct, wide = double(1), double(64)
    f1, f2, f3, f4, f5 = (make(line) for make, *_ in EXAMPLES.values())
    assert steps(f1, X) == [("mul", "i"), ("psum", "")]
    assert steps(transposed(f1, X), ct) == [("pbroadcast", "i"), ("mul", "i")]
    two = [("mul", "i"), ("psum", ""), ("pbroadcast", "i"), ("mul", "i")]
    assert steps(f2, Y, X) == two and steps(transposed(f2, X), Y, X) == two
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
    close_doubles(gradient(X), np.cos(np.asarray(X)) * np.asarray(Y).sum())
    assert communicates(gradient, X) == {"all_reduce": 1}


def test_the_scattered_gather_is_the_identity_and_silent_backwards(line):
    def f(x):
        return lax.pscatter(lax.all_gather_invariant(x, "i", tiled=True), "i", tiled=True)

    function = shard_map(f, mesh=line, in_specs=P("i"), out_specs=P("i"))
    close_doubles(function(X), X)
    assert communicates(transposed(function, X), X) == {"all_gather": 1}
    wide = shard_map(
        lambda x: lax.all_gather_invariant(x, "i", tiled=True),
        mesh=line,
        in_specs=P("i"),
        out_specs=P(),
    )
    assert communicates(transposed(wide, X), X) == {}


@pytest.mark.parametrize("axes", ["i", "j", ("i", "j"), ("j", "i")], ids=str)
def test_the_table_over_axes_of_a_grid(axes, mesh):
    """What transposes to what, over one axis and over two in both orders."""
    names = axes if isinstance(axes, tuple) else (axes,)
    label, whole, block = "".join(sorted(names)), P(names), double(64)
    scattered = double(64 // (8 // int(np.prod([mesh.shape[n] for n in names]))))

    def body(f, in_specs, out_specs, x):
        function = shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)
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
    close_doubles(gradient(w), [np.sum(n + np.cos(v * n) * n + np.cos(n))])
    assert communicates(gradient, w) == {"all_reduce": 1}


def test_sums_in_output_specs_need_no_collective_backwards(line):
    """The note's P-sum: example 1 without a psum in its body."""
    better = shard_map(lambda x: 3.0 * x, mesh=line, in_specs=P("i"), out_specs=P(sum="i"))
    close_doubles(better(X), [3.0 * np.asarray(X).sum()])
    assert communicates(transposed(better, X), double(1)) == {}
