"""With `bucket_bytes`, reverse mode sums the cotangents of replicated inputs in few all-reduces.
Numbers equal those without; all-reduces are counted in the lowered text."""

from __future__ import annotations

import functools
import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from closeness import close_doubles
from collective_counts import LOWERED, double
from weft import lax, shard_map
from weft.extend.core import jaxprs_in, primitives
from weft.sharding import PartitionSpec as P

LAYERS, WIDTH = 4, 4


def parameters():
    return [
        {"w": double(WIDTH, WIDTH, seed=k), "b": double(WIDTH, seed=10 + k)} for k in range(LAYERS)
    ]


ROWS = double(16, WIDTH, seed=30)


def loss(params, rows):
    for layer in params:
        rows = wnp.tanh(rows @ layer["w"] + layer["b"])
    return (rows**2).sum()


def mean_loss(mesh, function=loss, **options):
    def local(params, rows):
        return lax.pmean(function(params, rows), "i")

    return shard_map(local, mesh=mesh, in_specs=(P(), P("i")), out_specs=P(), **options)


def all_reduces(function, *args):
    return LOWERED.findall(weft.jit(function).lower(*args).as_text()).count("all_reduce")


def buckets(jaxpr):
    """For each psum in a program the types of what it sums together."""
    found, makers = [], {}
    for eqn in jaxpr.eqns:
        makers |= dict.fromkeys(eqn.outputs, eqn)
        if eqn.primitive is primitives.psum_p:
            made = makers.get(eqn.inputs[0])
            joined = made is not None and made.primitive is primitives.concatenate_p
            found.append([x.type for x in (made if joined else eqn).inputs])
        for inner in jaxprs_in(eqn.params):
            found += buckets(inner)
    return found


class TestDataParallel:
    def test_eight_leaves_take_one_all_reduce(self, line):
        args = parameters(), ROWS
        plain, joined = (weft.grad(mean_loss(line, bucket_bytes=n)) for n in (None, 2**20))
        # One more is that of the loss, which the gradient alone does not need.
        assert all_reduces(plain, *args) - all_reduces(joined, *args) == 7
        assert all_reduces(joined, *args) <= 2
        found = weft.jit(joined)(*args)
        for a, b in zip(
            weft.tree.leaves(found), weft.tree.leaves(weft.jit(plain)(*args)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
        weft.tree.map(close_doubles, found, weft.grad(lambda p, x: loss(p, x) / 8)(*args))

    def test_the_compiled_program_has_one(self, line):
        joined = weft.grad(mean_loss(line, bucket_bytes=2**20))
        text = weft.jit(joined).lower(parameters(), ROWS).compile().as_text()
        assert text.count(" all-reduce(") + text.count(" all-reduce-start(") <= 2

    @pytest.mark.parametrize("limit", [1, 32, 128, 160, 161, 320, 640])
    def test_no_bucket_is_larger(self, line, limit):
        args = parameters(), ROWS
        step = weft.grad(mean_loss(line, bucket_bytes=limit))
        weft.tree.map(
            close_doubles, weft.jit(step)(*args), weft.grad(lambda p, x: loss(p, x) / 8)(*args)
        )
        found = buckets(weft.make_jaxpr(step)(*args).jaxpr)
        sizes = [[type.size * 8 for type in own] for own in found if own[0].shape]
        assert sum(map(len, sizes)) == 2 * LAYERS
        assert all(sum(own) <= limit or len(own) == 1 for own in sizes)
        # Two neighbours would not have fitted into one.
        assert all(sum(a) + b[0] > limit for a, b in itertools.pairwise(sizes))

    def test_eagerly_inside_and_simulated(self, line):
        params = parameters()
        wanted = weft.grad(lambda p: loss(p, ROWS) / 8)(params)
        joined = mean_loss(line, bucket_bytes=2**20)
        weft.tree.map(close_doubles, weft.grad(joined)(params, ROWS), wanted)
        with weft.simulate(line):
            weft.tree.map(
                close_doubles, weft.grad(mean_loss(line, bucket_bytes=2**20))(params, ROWS), wanted
            )
        inside = shard_map(
            weft.grad(lambda p, x: lax.pmean(loss(p, x), "i")),
            mesh=line,
            in_specs=(P(), P("i")),
            out_specs=P(),
            bucket_bytes=2**20,
        )
        weft.tree.map(close_doubles, inside(params, ROWS), wanted)
        assert all_reduces(inside, params, ROWS) <= 2

    def test_after_loops(self, line):
        def looped(params, rows):
            def step(h, _):
                return wnp.tanh(h @ params["w"] + params["b"]) * params["s"], None

            return (lax.scan(step, rows, None, length=3)[0] ** 2).sum()

        params = parameters()[0] | {"s": double(WIDTH, seed=5)}
        step = weft.grad(mean_loss(line, looped, bucket_bytes=2**20))
        weft.tree.map(
            close_doubles, step(params, ROWS), weft.grad(lambda p: looped(p, ROWS) / 8)(params)
        )
        assert sorted(map(len, buckets(weft.make_jaxpr(step)(params, ROWS).jaxpr))) in ([3], [1, 3])

    def test_derivatives_of_the_gradient(self, line):
        params = parameters()[:2]
        directions = weft.tree.map(wnp.cos, params)

        def products(f):
            gradient = weft.grad(lambda p: f(p, ROWS))
            forward = weft.jvp(gradient, (params,), (directions,))[1]
            backward = weft.grad(lambda p: dot(gradient(p), directions))(params)
            return forward, backward

        wanted = products(lambda p, x: loss(p, x) / 8)
        weft.tree.map(close_doubles, products(mean_loss(line, bucket_bytes=2**20)), wanted)

    def test_vmap(self, line):
        several = weft.tree.map(lambda x: wnp.stack([x, 2 * x]), parameters())
        found = weft.vmap(weft.grad(mean_loss(line, bucket_bytes=2**20)), (0, None))(several, ROWS)
        wanted = weft.vmap(weft.grad(lambda p, x: loss(p, x) / 8), (0, None))(several, ROWS)
        weft.tree.map(close_doubles, found, wanted)

    def test_dtypes_are_apart(self, line):
        def mixed(params, rows):
            narrow = rows.astype(wnp.float32)
            total = sum((wnp.sin(narrow * x) ** 2).sum() for x in params[:2])
            return total + sum((wnp.sin(rows * x) ** 2).sum() for x in params[2:])

        params = [double(WIDTH, seed=k) for k in range(4)]
        params[:2] = [x.astype(wnp.float32) for x in params[:2]]
        step = weft.grad(mean_loss(line, mixed, bucket_bytes=2**20))
        found = [own for own in buckets(weft.make_jaxpr(step)(params, ROWS).jaxpr) if len(own) > 1]
        assert [[str(type.dtype) for type in own] for own in found] == [
            ["float64"] * 2,
            ["float32"] * 2,
        ]
        wanted = weft.grad(lambda p: mixed(p, ROWS) / 8)(params)
        for a, b in zip(
            weft.tree.leaves(step(params, ROWS)), weft.tree.leaves(wanted), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5)

    def test_weights_that_are_converted_first(self, line):
        """The sums are of the narrower numbers, and stand before the conversions' transposes."""
        params = parameters()
        half = lambda p: weft.tree.map(lambda x: x.astype(wnp.float32), p)  # noqa: E731
        step = weft.grad(
            mean_loss(line, lambda p, x: loss(half(p), x.astype(wnp.float32)), bucket_bytes=2**20)
        )
        found = max(buckets(weft.make_jaxpr(step)(params, ROWS).jaxpr), key=len)
        assert [str(type.dtype) for type in found] == ["float32"] * 8
        wanted = weft.grad(lambda p: loss(p, ROWS) / 8)(params)
        for a, b in zip(
            weft.tree.leaves(step(params, ROWS)), weft.tree.leaves(wanted), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    def test_complex_leaves(self, line):
        params = [x + 1j for x in (double(WIDTH), double(WIDTH, seed=1))]

        def real_loss(params, rows):
            return (wnp.abs(rows * params[0] + params[1]) ** 2).sum()

        step = weft.grad(mean_loss(line, real_loss, bucket_bytes=2**20))
        weft.tree.map(
            close_doubles, step(params, ROWS), weft.grad(lambda p: real_loss(p, ROWS) / 8)(params)
        )

    def test_smap(self, line):
        def local(params, rows):
            return lax.pmean(loss(params, rows), "i")

        with weft.set_mesh(line):
            mapped = weft.smap(
                local, in_axes=(None, 0), out_axes=None, axis_name="i", bucket_bytes=2**20
            )
            assert all_reduces(weft.grad(mapped), parameters(), ROWS) <= 2


def dot(a, b):
    pairs = zip(weft.tree.leaves(a), weft.tree.leaves(b), strict=True)
    return sum((x * y).sum() for x, y in pairs)


class TestTwoAxes:
    @hypothesis.settings(max_examples=10)
    @hypothesis.given(
        st.lists(st.sampled_from([P(), P("i"), P("j"), P(("i", "j"))]), min_size=2, max_size=5),
        st.sampled_from([40, 2**20]),
    )
    def test_random_specs(self, specs, limit):
        grid = weft.make_mesh((4, 2), ("i", "j"))
        leaves = [double(8, 3, seed=k) for k in range(len(specs))]
        rows = double(16, 3, seed=9)

        def local(leaves, rows):
            total = sum((wnp.sin(x.sum(0)) * rows).sum() for x in leaves)
            return lax.psum(total, ("i", "j"))

        def mapped(**options):
            return shard_map(
                local, mesh=grid, in_specs=(specs, P(("i", "j"))), out_specs=P(), **options
            )

        plain, joined = (weft.jit(weft.grad(mapped(bucket_bytes=n))) for n in (None, limit))
        weft.tree.map(close_doubles, joined(leaves, rows), plain(leaves, rows))
        assert all_reduces(joined, leaves, rows) <= all_reduces(plain, leaves, rows)


class TestOneInput:
    def test_two_casts_of_one_input_are_one_sum(self, line):
        def local(w, x):
            return lax.psum((lax.pbroadcast(w, "i") * x + w * x).sum(), "i")

        f = shard_map(local, mesh=line, in_specs=(P(), P("i")), out_specs=P())
        w = double(WIDTH)
        assert all_reduces(lambda w: weft.vjp(lambda w: f(w, ROWS), w)[1](1.0), w) <= 2
        close_doubles(weft.grad(f)(w, ROWS), 2 * np.asarray(ROWS).sum(0))


class TestWrongSizes:
    @pytest.mark.parametrize("size", [0, -1, 1.5, True, "1MB"])
    def test_no_size(self, line, size):
        kind = weft.errors.WeftTypeError if size == "1MB" else weft.errors.WeftValueError
        with pytest.raises(kind, match="bucket_bytes is no size") as caught:
            mean_loss(line, bucket_bytes=size)
        assert caught.value.fix.kind == "bucket_bytes"
        functools.partial(mean_loss, line, bucket_bytes=2**25)()


class TestTheRecipeOfTheMean:
    """A gradient in replicated parameters, taken inside, is summed over the devices already; to
    average it once more is one error, whose fix works."""

    def averaged(self, loss):
        def step(params, rows):
            gradient = weft.grad(loss)(params, rows)
            return weft.tree.map(lambda g: lax.pmean(g, "i"), gradient)

        return step

    @pytest.mark.parametrize("way", [lambda f: f, weft.jit])
    def test_it_is_an_error(self, line, way):
        f = way(shard_map(self.averaged(loss), mesh=line, in_specs=(P(), P("i")), out_specs=P()))
        with pytest.raises(weft.errors.AxisError, match="pmean over 'i' of a value") as caught:
            f(parameters(), ROWS)
        assert "divide it by 8" in caught.value.fix.text

        def fixed(params, rows):
            return weft.tree.map(lambda g: g / 8, weft.grad(loss)(params, rows))

        f = way(shard_map(fixed, mesh=line, in_specs=(P(), P("i")), out_specs=P()))
        wanted = weft.grad(lambda p: loss(p, ROWS) / 8)(parameters())
        weft.tree.map(close_doubles, f(parameters(), ROWS), wanted)
