"""A second call compiles nothing, eager or jitted, of functions made anew; and what makes a
shard_map another one."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from closeness import close_doubles
from collective_counts import double
from compilations import counted_compilations
from weft import lax, shard_map
from weft.sharding import PartitionSpec as P

X = double(8)


@pytest.fixture
def compiled(monkeypatch):
    """One entry for each program that has been compiled."""
    return counted_compilations(monkeypatch)


def mapped(body, mesh):
    return shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))


def data_parallel(line):
    """A loss, its gradients, second derivatives, and maps, all of functions made anew."""

    def body(params, x):
        y = wnp.tanh(x @ params["w"] + params["b"])
        y = lax.ppermute(y, "i", [(k, (k + 1) % 8) for k in range(8)])
        return lax.pmean(wnp.sum(y * lax.axis_index("i")), "i")

    function = shard_map(body, mesh=line, in_specs=(P(), P("i")), out_specs=P())
    params = {"w": double(3, 4, seed=1), "b": double(4, seed=2)}
    x = double(16, 3, seed=3)
    gradient = weft.grad(lambda x: function(params, x))
    function(params, x)
    weft.grad(lambda p: function(p, x))(params)
    weft.jvp(gradient, (x,), (x,))
    weft.vmap(lambda x: function(params, x))(wnp.stack([x, x]))
    weft.linearize(lambda x: function(params, x), x)[1](x)


def control_flow(line):
    def body(x):
        y = lax.scan(lambda c, _: (lax.psum(wnp.sin(x), "i") + c / 2, None), x, None, length=3)
        z = lax.cond(lax.pmax(x.sum(), "i") > 0, lambda x: x * 2, lambda x: x, y[0])
        step = lambda c: (c[0] + 1, c[1] / 2)  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 2, step, (0, z))[1]

    mapped(body, line)(X)


def closed_over(line):
    """A branch on Python's side, and a loop that reads a block from around it."""

    def body(x):
        scale = 2.0 if lax.pmax(x.sum(), "i") > 0 else 3.0
        return lax.fori_loop(0, 2, lambda k, c: c * x * scale, x)

    mapped(body, line)(X)


def checkpoint_inside(line):
    function = mapped(weft.checkpoint(lambda x: wnp.sin(wnp.sin(x))), line)
    weft.grad(lambda x: function(x).sum())(X)


def checkpoint_outside(line):
    function = weft.checkpoint(mapped(lambda x: wnp.sin(wnp.sin(x)), line))
    weft.grad(lambda x: function(x).sum())(X)


def jit_inside(line):
    mapped(weft.jit(lambda x: lax.psum(x, "i") + x), line)(X)


def jit_outside(line):
    weft.jit(mapped(lambda x: lax.psum(x, "i") + x, line))(X)


def custom_vjp(line):
    function = weft.custom_vjp(wnp.sin)
    function.defvjp(lambda x: (wnp.sin(x), x), lambda x, ct: (ct * wnp.cos(x),))
    weft.grad(lambda x: mapped(lambda x: function(x), line)(x).sum())(X)


PROGRAMS = [
    data_parallel,
    control_flow,
    closed_over,
    checkpoint_inside,
    checkpoint_outside,
    jit_inside,
    jit_outside,
    custom_vjp,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_call_compiles_nothing(program, line, compiled):
    program(line)
    compiled.clear()
    program(line)
    assert compiled == []


def test_the_counter_counts(line, compiled):
    mapped(lambda x: x + 1, line)(double(24))
    assert compiled


def test_operations_share_programs_between_functions(line, compiled):
    """What is compiled belongs to the operation and the types of its blocks, not to the body."""
    mapped(lambda x: wnp.sin(x) * wnp.cos(x), line)(X)
    compiled.clear()
    mapped(lambda x: wnp.cos(wnp.sin(x)) * wnp.sin(x), line)(X)
    assert compiled == []


def test_the_same_body_by_other_specs_is_another_function(line):
    """Under jit, where functions that are equal share programs."""

    def doubled(in_spec, out_spec):
        return weft.jit(
            shard_map(
                lambda x: x.sum(keepdims=True), mesh=line, in_specs=in_spec, out_specs=out_spec
            )
        )

    n = np.asarray(X)
    for _ in range(2):
        close_doubles(doubled(P("i"), P("i"))(X), n)
        close_doubles(doubled(P(), P())(X), [n.sum()])
        close_doubles(doubled(P(), P("i"))(X), np.full(8, n.sum()))
        close_doubles(doubled(P("i"), P(sum="i"))(X), [n.sum()])


def test_the_same_body_on_another_mesh_is_another_function():
    """Given, and in force where it is called."""
    meshes = [weft.make_mesh((n,), ("i",), devices=weft.devices()[:n]) for n in (2, 4)]
    for _ in range(2):
        for mesh, n in zip(meshes, (2, 4), strict=True):
            size = lambda x: x * lax.axis_size("i")  # noqa: E731
            given = shard_map(size, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
            close_doubles(weft.jit(given)(X), n * np.asarray(X))
            with weft.use_mesh(mesh):
                found = weft.jit(shard_map(size, in_specs=P("i"), out_specs=P("i")))
                close_doubles(found(X), n * np.asarray(X))


def test_the_check_is_part_of_the_function(line):
    """A program that runs without the check is refused with it, before and after."""

    def program(check):
        return weft.jit(
            shard_map(lambda x: x, mesh=line, in_specs=P("i"), out_specs=P(), check_vma=check)
        )

    for _ in range(2):
        with pytest.raises(weft.errors.AxisError, match="may differ"):
            program(True)(X)
        close_doubles(program(False)(X), np.asarray(X)[:1])


def test_explicit_casts_are_part_of_the_function(line):
    def program(auto):
        return weft.jit(
            shard_map(
                lambda w, x: w * x,
                mesh=line,
                in_specs=(P(), P("i")),
                out_specs=P("i"),
                auto_pbroadcast=auto,
            )
        )

    w = double(1)
    for _ in range(2):
        close_doubles(program(True)(w, X), np.asarray(w) * np.asarray(X))
        with pytest.raises(weft.errors.AxisError):
            program(False)(w, X)
