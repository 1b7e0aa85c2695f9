"""Gradients of weights that all devices have: the programs that one writes for data parallelism.

Each gives the gradient that one device would compute, or is refused; none is silently wrong.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_doubles
from collective_counts import communicates, double
from weft import lax, shard_map
from weft.errors import AxisError
from weft.sharding import PartitionSpec as P

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
        weft.tree.map(close_doubles, found, wanted)
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
    close_doubles(found, wanted)
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
def test_data_parallel_programs_give_the_gradient_or_raise(name, axes, mesh):
    make, widen, computes = PROGRAMS[name]
    names = axes if isinstance(axes, tuple) else (axes,)
    count = int(np.prod([mesh.shape[n] for n in names]))
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)
    total = np.sum(np.cos(n * v) * n, 0)
    for reduce, wanted in ((lax.psum, total), (lax.pmean, total / count)):
        for check in (True, False):
            program = make(reduce, axes, widen)(mesh, P(names), check)
            ran = [equal_or_raises(way(program), (w, x), wanted) for way in (lambda f: f, weft.jit)]
            assert ran == [computes] * 2, (reduce.__name__, check)


@pytest.mark.parametrize("check", [True, False])
def test_a_gradient_that_nobody_reduces_is_the_sum(check, mesh):
    """grad of the local loss with respect to replicated weights, returned as it is."""
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)
    program = shard_map(
        weft.grad(one_loss),
        mesh=mesh,
        in_specs=(P(), P(("i", "j"))),
        out_specs=P(),
        check_vma=check,
    )
    for way in (lambda f: f, weft.jit):
        close_doubles(way(program)(w, x), np.sum(np.cos(n * v) * n, 0))


def test_reducing_over_one_of_two_axes(mesh):
    """The batch is split over both: the gradient is summed over the other axis by its type."""
    w, x = double(8, seed=40), double(16, 8, seed=41)
    n, v = np.asarray(x), np.asarray(w)

    def body(w, x):
        return weft.grad(lambda w: lax.pmean(one_loss(w, x), "i"))(w)

    def mixed(w, x):
        return lax.pmean(weft.grad(one_loss)(lax.pbroadcast(w, "j"), x), "j")

    total = np.sum(np.cos(n * v) * n, 0)
    for function, wanted in ((body, total / 4), (mixed, total / 2)):
        program = shard_map(function, mesh=mesh, in_specs=(P(), P(("i", "j"))), out_specs=P())
        for way in (lambda f: f, weft.jit):
            close_doubles(way(program)(w, x), wanted)
    # Half reduced: the result still varies along j, and is no result without it.
    half = shard_map(
        lambda w, x: lax.pmean(weft.grad(one_loss)(lax.pbroadcast(w, ("i", "j")), x), "i"),
        mesh=mesh,
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
    close_doubles(program(lambda g: g)(w, x), total)
    copies = 8 if name == "psum" else 1
    close_doubles(
        program(lambda g: reduce(lax.pbroadcast(g, fix.data["axes"]), "i"))(w, x), copies * total
    )
