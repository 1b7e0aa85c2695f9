"""Casts leave loops, branches and calls before reverse mode turns them into sums: each replicated
operand is summed once, outside of all loops. Numbers are compared with those of one device, sums
counted in jaxprs (each as often as it runs) and in compiled programs."""

from __future__ import annotations

import functools
import re

import hypothesis
import pytest
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from closeness import close_doubles
from collective_counts import double, inner_jaxpr
from weft import lax, shard_map
from weft.extend.core import jaxprs_in
from weft.sharding import PartitionSpec as P

ROWS, WIDTH, STEPS = 8, 4, 3


@pytest.fixture(scope="module")
def mesh():
    return weft.make_mesh((4,), ("i",), devices=weft.devices()[:4])


def sums(jaxpr, times=1):
    """How often a program runs a psum; all branches of a conditional count."""
    count = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name.startswith("psum"):
            count += times
        runs = eqn.params["length"] if eqn.primitive.name == "scan" else 1
        count += sum(sums(inner, times * runs) for inner in jaxprs_in(eqn.params))
    return count


def sums_of(function, *args):
    return sums(weft.make_jaxpr(function)(*args).jaxpr)


def compiled_sums(function, *args):
    """How many all-reduces the compiled program has: in its entry, and elsewhere (in loops)."""
    text = weft.jit(function).lower(*args).compile().as_text()
    parts = re.split(r"\n(?=(?:ENTRY )?%)", text)
    counts = [
        (p.startswith("ENTRY"), len(re.findall(r" all-reduce(?:-start)?\(", p))) for p in parts
    ]
    return [sum(n for entry, n in counts if entry is own) for own in (True, False)]


# ---- five microbatches of three layers ---------------------------------------------------------


def layers(x, weights):
    return lax.scan(lambda h, w: (wnp.tanh(h @ w[0] + w[1]), None), x, weights)[0]


def accumulated_loss(weights, batches):
    def one(total, batch):
        return total + (layers(batch, weights) ** 2).sum(), None

    return lax.scan(one, wnp.zeros((), batches.dtype), batches)[0]


def gradients_summed_by_hand(weights, batches):
    """The gradient of each microbatch is taken in the loop, and accumulated."""
    local = lambda weights, batch: (layers(batch, weights) ** 2).sum()  # noqa: E731

    def one(carry, batch):
        return tree_add(carry, weft.value_and_grad(local)(weights, batch)), None

    start = (wnp.zeros((), batches.dtype), weft.tree.map(wnp.zeros_like, weights))
    return lax.scan(one, start, batches)[0]


def tree_add(a, b):
    return weft.tree.map(lambda x, y: x + y, a, b)


def model():
    return (double(3, WIDTH, WIDTH), double(3, WIDTH, seed=1)), double(5, ROWS, WIDTH, seed=2)


def over_batches(mesh, function, **options):
    specs = (P(), P(None, "i"))
    return shard_map(function, mesh=mesh, in_specs=specs, out_specs=P(), **options)


def total_loss(weights, batches):
    return lax.psum(accumulated_loss(weights, batches), "i")


WAYS = {
    "plain": lambda f: f,
    "jit": weft.jit,
    "remat": weft.checkpoint,
    "remat of jit": lambda f: weft.checkpoint(weft.jit(f)),
}


class TestMicrobatches:
    @pytest.mark.parametrize("outside", WAYS)
    @pytest.mark.parametrize("inside", WAYS)
    def test_one_sum_per_leaf(self, mesh, inside, outside):
        weights, batches = model()
        loss = WAYS[outside](over_batches(mesh, WAYS[inside](total_loss)))
        step = weft.value_and_grad(loss)
        wanted = weft.value_and_grad(accumulated_loss)(weights, batches)
        weft.tree.map(close_doubles, weft.jit(step)(weights, batches), wanted)
        # Two leaves and the loss.
        assert sums_of(step, weights, batches) == 3

    def test_eagerly_and_compiled(self, mesh):
        weights, batches = model()
        step = weft.value_and_grad(over_batches(mesh, total_loss))
        wanted = weft.value_and_grad(accumulated_loss)(weights, batches)
        weft.tree.map(close_doubles, step(weights, batches), wanted)
        at_the_end, in_loops = compiled_sums(step, weights, batches)
        # XLA may join several that stand next to each other.
        assert 1 <= at_the_end <= 3 and in_loops == 0
        assert sums_of(weft.jit(step), weights, batches) == 3

    @pytest.mark.parametrize("way", ["plain", "jit"])
    def test_weights_are_kept_as_they_are(self, mesh, way):
        """No residual is a copy of the weights for each device, or for each step."""
        weights, batches = model()
        loss = WAYS[way](over_batches(mesh, total_loss))
        kept = weft.make_jaxpr(lambda *args: weft.vjp(loss, *args))(weights, batches)
        shapes = [type.shape for type in kept.jaxpr.out_types]
        assert (3, WIDTH, WIDTH) in shapes
        assert all(s[-2:] != (WIDTH, WIDTH) or s == (3, WIDTH, WIDTH) for s in shapes)

    def test_inside(self, mesh):
        weights, batches = model()
        step = over_batches(mesh, weft.value_and_grad(total_loss))
        wanted = weft.value_and_grad(accumulated_loss)(weights, batches)
        weft.tree.map(close_doubles, step(weights, batches), wanted)
        assert sums_of(step, weights, batches) == 3

    def test_a_step_that_donates_its_state(self, mesh):
        weights, batches = model()
        gradient = weft.grad(over_batches(mesh, total_loss))
        step = weft.jit(
            lambda w, b: weft.tree.map(lambda x, g: x - 0.1 * g, w, gradient(w, b)),
            donate_argnums=0,
        )
        plain = weights
        for _ in range(2):
            found = weft.grad(accumulated_loss)(plain, batches)
            plain = weft.tree.map(lambda x, g: x - 0.1 * g, plain, found)
        state = weft.tree.map(lambda x: x.copy(), weights)
        state = step(step(state, batches), batches)
        weft.tree.map(close_doubles, state, plain)

    def test_the_gradient_of_each_step_is_that_of_a_varying_loss(self, mesh):
        """The gradients of a loop over batches are sums in the loop; written so that they are taken
        of weights that vary, they are summed once."""
        weights, batches = model()

        def step(weights, batches):
            local = weft.tree.map(lambda w: lax.pbroadcast(w, "i"), weights)
            return lax.psum(gradients_summed_by_hand(local, batches), "i")

        found = over_batches(mesh, step)
        wanted = weft.value_and_grad(accumulated_loss)(weights, batches)
        weft.tree.map(close_doubles, found(weights, batches), wanted)
        assert sums_of(found, weights, batches) == 3


# ---- random nests ------------------------------------------------------------------------------

VECTORS, STACKS = 3, 2
LEAVES = VECTORS + STACKS


def apply(node, params, h):
    """Runs a random program, a tree of tuples, on rows `h`, which vary, and replicated params."""
    vectors, stacks, number = params
    run = functools.partial(apply, params=params)
    match node:
        case ("affine", k):
            return wnp.tanh(h * vectors[k] + vectors[(k + 1) % VECTORS])
        case ("scaled", k):
            return wnp.sin(h + 0.5 * vectors[k])
        case ("sum", k):
            # Read with a cast and without: the norm is equal on all devices.
            return h * wnp.tanh(vectors[k] / (1.0 + (vectors[k] ** 2).sum()))
        case ("then", a, b):
            return run(b, h=run(a, h=h))
        case ("scan", a):
            return lax.scan(lambda c, _: (run(a, h=c), None), h, None, length=STEPS)[0]
        case ("fori", a):
            return lax.fori_loop(0, STEPS, lambda i, c: run(a, h=c), h)
        case ("over", k, a):

            def step(c, row):
                return run(a, h=wnp.cos(c * row)), None

            return lax.scan(step, h, stacks[k], reverse=bool(k))[0]
        case ("cond", a, b):
            return lax.cond(number > 0, lambda c: run(a, h=c), lambda c: run(b, h=c), h)
        case ("jit", a):
            return weft.jit(lambda c: run(a, h=c))(h)
        case ("remat", a):
            return weft.checkpoint(lambda c: run(a, h=c))(h)
    raise AssertionError(node)


def extended(nodes):
    stack, wrappers = st.integers(0, STACKS - 1), ["scan", "fori", "jit", "remat"]
    return st.one_of(
        st.tuples(st.sampled_from(wrappers), nodes),
        st.tuples(st.just("over"), stack, nodes),
        st.tuples(st.sampled_from(["then", "cond"]), nodes, nodes),
    )


KINDS = ["affine", "scaled", "sum"]
BASE = st.tuples(st.sampled_from(KINDS), st.integers(0, VECTORS - 1))
NESTS = st.recursive(BASE, extended, max_leaves=4)


def arguments():
    vectors = [double(WIDTH, seed=k) for k in range(VECTORS)]
    stacks = [double(STEPS, WIDTH, seed=10 + k) for k in range(STACKS)]
    return (vectors, stacks, wnp.float64(0.5)), double(ROWS, WIDTH, seed=20)


def whole_loss(node):
    return lambda params, rows: (apply(node, params, rows) ** 2).sum()


def sharded_loss(node, mesh, **options):
    def loss(params, rows):
        return lax.psum((apply(node, params, rows) ** 2).sum(), "i")

    return shard_map(loss, mesh=mesh, in_specs=(P(), P("i")), out_specs=P(), **options)


class TestRandomNests:
    @hypothesis.settings(max_examples=25)
    @hypothesis.given(NESTS, st.sampled_from(list(WAYS)))
    def test_gradients_and_counts(self, mesh, node, way):
        args = arguments()
        step = WAYS[way](weft.value_and_grad(sharded_loss(node, mesh), (0, 1)))
        wanted = weft.value_and_grad(whole_loss(node), (0, 1))(*args)
        weft.tree.map(close_doubles, weft.jit(step)(*args), wanted)
        if "sum" not in str(node):  # there the cast is of a computed value
            assert sums_of(step, *args) <= LEAVES + 1

    @hypothesis.settings(max_examples=8)
    @hypothesis.given(NESTS)
    def test_eagerly_and_simulated(self, mesh, node):
        args = arguments()
        step = weft.grad(sharded_loss(node, mesh))
        wanted = weft.grad(whole_loss(node))(*args)
        weft.tree.map(close_doubles, step(*args), wanted)
        with weft.simulate(mesh):
            weft.tree.map(close_doubles, weft.grad(sharded_loss(node, mesh))(*args), wanted)

    @hypothesis.settings(max_examples=10)
    @hypothesis.given(NESTS)
    def test_second_derivatives(self, mesh, node):
        args = arguments()

        def product(loss):
            directions = weft.tree.map(wnp.cos, args)
            return weft.jit(lambda *xs: weft.jvp(weft.grad(loss, (0, 1)), xs, directions)[1])

        wanted = product(whole_loss(node))(*args)
        weft.tree.map(close_doubles, product(sharded_loss(node, mesh))(*args), wanted)

    @hypothesis.settings(max_examples=8)
    @hypothesis.given(NESTS)
    def test_vmap_and_linearize(self, mesh, node):
        params, rows = arguments()
        several = wnp.stack([rows, rows + 1.0])
        found = weft.jit(weft.vmap(weft.grad(sharded_loss(node, mesh)), (None, 0)))(params, several)
        wanted = weft.vmap(weft.grad(whole_loss(node)), (None, 0))(params, several)
        weft.tree.map(close_doubles, found, wanted)
        tangents = weft.tree.map(wnp.cos, params)
        _, f_jvp = weft.linearize(lambda p: sharded_loss(node, mesh)(p, rows), params)
        _, tangent = weft.jvp(lambda p: whole_loss(node)(p, rows), (params,), (tangents,))
        close_doubles(f_jvp(tangents), tangent)


# ---- what moves, and what stays ----------------------------------------------------------------


def casts_by_depth(jaxpr, depth=0):
    """Of each cast how deep it stands, and along which axes it goes."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pbroadcast":
            found.append((depth, eqn.params["axis_name"]))
        for inner in jaxprs_in(eqn.params):
            found += casts_by_depth(inner, depth + 1)
    return found


def on_rows(mesh, function, **options):
    specs = (P(), P("i"))
    return shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("i"), **options)


def looped(step):
    """A function that repeats `step(w, h)`, which returns the next h."""
    return lambda w, h: lax.fori_loop(0, STEPS, lambda i, c: step(w, c), h)


W, H = double(WIDTH), double(ROWS, WIDTH, seed=1)


def agrees(mesh, function, w=W, h=H, **options):
    """Compares value and gradients under shard_map with those of one device."""
    mapped = on_rows(mesh, function, **options)

    def both(f):
        return weft.jit(weft.value_and_grad(lambda w, h: (f(w, h) ** 2).sum(), (0, 1)))(w, h)

    weft.tree.map(close_doubles, both(mapped), both(function))
    return sums_of(weft.grad(lambda w, h: (mapped(w, h) ** 2).sum()), w, h)


class TestWhatMoves:
    def casts(self, mesh, function, *args, **options):
        return casts_by_depth(inner_jaxpr(on_rows(mesh, function, **options), *args))

    def test_a_constant_that_is_used_twice_is_cast_once(self, mesh):
        twice = looped(lambda w, h: wnp.sin(h * w) + w)
        assert self.casts(mesh, twice, W, H) == [(0, ("i",))]
        assert agrees(mesh, twice) == 1

    def test_two_loops_share_a_cast(self, mesh):
        both = lambda w, h: looped(lambda w, h: h * w)(w, looped(lambda w, h: h + w)(w, h)) * w  # noqa: E731
        assert self.casts(mesh, both, W, H) == [(0, ("i",))]
        assert agrees(mesh, both) == 1

    def test_nested_bodies_share_a_cast(self, mesh):
        def nested(w, h):
            def step(c, _):
                inner = weft.jit(lambda c: wnp.sin(c * w))
                either = lax.cond(True, inner, lambda c: c + w, c)
                return lax.fori_loop(0, 2, lambda i, c: c * w, weft.checkpoint(inner)(either)), None

            return lax.scan(step, h + w, None, length=STEPS)[0]

        assert self.casts(mesh, nested, W, H) == [(0, ("i",))]
        assert agrees(mesh, nested) == 1

    def test_a_written_cast_and_an_inserted_one(self, mesh):
        mapped = on_rows(mesh, looped(lambda w, h: wnp.sin(h * w) + lax.pbroadcast(w, "i")))
        assert casts_by_depth(inner_jaxpr(mapped, W, H)) == [(0, ("i",))]
        wanted = weft.grad(lambda w: looped(lambda w, h: wnp.sin(h * w) + w)(w, H).sum())(W)
        close_doubles(weft.grad(lambda w: mapped(w, H).sum())(W), wanted)

    def test_what_is_read_without_a_cast_too_becomes_two_inputs(self, mesh):
        def run(w, h):
            def step(carry, _):
                h, norm = carry
                return (h * w, norm + (w**2).sum()), None

            h, norm = lax.scan(step, (h, wnp.zeros((), w.dtype)), None, length=STEPS)[0]
            return h * norm

        assert self.casts(mesh, run, W, H) == [(0, ("i",)), (0, ("i",))]
        assert agrees(mesh, run) == 2  # of w, and of the norm

    def test_scanned_arrays_are_cast_as_a_whole(self, mesh):
        def over(w, h):
            return lax.scan(lambda c, x: (wnp.sin(c * x), None), h, w)[0]

        stack = double(STEPS, WIDTH)
        (cast,) = [
            e
            for e in inner_jaxpr(on_rows(mesh, over), stack, H).eqns
            if e.primitive.name == "pbroadcast"
        ]
        assert cast.inputs[0].type.shape == (STEPS, WIDTH)
        assert agrees(mesh, over, stack) == 1

    def test_a_carried_value_stays(self, mesh):
        def run(w, h):
            def step(carry, _):
                h, w = carry
                return (h * w, 0.5 * w), None

            return lax.scan(step, (h, w), None, length=STEPS)[0][0]

        assert self.casts(mesh, run, W, H) == [(1, ("i",))]
        assert agrees(mesh, run) == STEPS

    def test_casts_move_through_conversions_and_shapes(self, mesh):
        def run(w, h):
            def step(c, _):
                small = (2.0 * w).astype(wnp.float32).reshape(1, WIDTH)
                return wnp.sin(c * small), None

            return lax.scan(step, h, None, length=STEPS)[0]

        assert self.casts(mesh, run, W, H.astype(wnp.float32)) == [(0, ("i",))]
        step = weft.grad(lambda w, h: on_rows(mesh, run)(w, h).sum())
        assert sums_of(step, W, H.astype(wnp.float32)) == 1

    def test_no_sum_gets_more_elements_or_rounds_more(self, mesh):
        """A cast of a sum of elements, and one of a wider dtype, stay behind it."""
        for small in (lambda w: w.sum(), lambda w: w.astype(wnp.float64)):
            run = looped(lambda w, h, small=small: h * small(w))
            assert [depth for depth, _ in self.casts(mesh, run, W.astype(wnp.float32), H)] == [1]

    def test_branches(self, mesh):
        def run(w, h):
            number = w.sum()  # equal on all devices

            def chosen(c, _):
                either = lax.cond(number > 0, lambda c: c * w, lambda c: c - 1.0, c)
                return lax.switch(1, [lambda c: c, lambda c: c + w], either), None

            return lax.scan(chosen, h, None, length=STEPS)[0]

        assert self.casts(mesh, run, W, H) == [(0, ("i",))]
        assert agrees(mesh, run) == 1

    def test_a_while_loop(self, mesh):
        def run(w, h):
            return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * w), (0, h))[1]

        assert self.casts(mesh, run, W, H) == [(0, ("i",))]
        tangents = (wnp.cos(W), wnp.cos(H))
        found = weft.jvp(on_rows(mesh, run), (W, H), tangents)
        weft.tree.map(close_doubles, found, weft.jvp(run, (W, H), tangents))

    def test_users_derivatives(self, mesh):
        @weft.custom_jvp
        def product(w, h):
            return h * w

        product.defjvps(lambda t, out, w, h: h * t, lambda t, out, w, h: t * w)
        assert agrees(mesh, looped(product)) == 1

        @weft.custom_vjp
        def pulled(w, h):
            return h * w

        pulled.defvjp(
            lambda w, h: (h * w, (w, h)), lambda kept, ct: ((ct * kept[1]).sum(0), ct * kept[0])
        )
        assert agrees(mesh, looped(pulled)) == 1

    @pytest.mark.parametrize("where", ["scan", "cond", "jit", "remat", "vmap"])
    def test_what_a_backward_rule_returns_is_summed_once(self, mesh, where):
        @weft.custom_vjp
        def pulled(w, h):
            return wnp.sin(h * w)

        def backward(kept, ct):
            w, h = kept
            return (ct * wnp.cos(h * w) * h).sum(tuple(range(h.ndim - 1))), ct * wnp.cos(h * w) * w

        pulled.defvjp(lambda w, h: (wnp.sin(h * w), (w, h)), backward)
        around = {
            "scan": lambda w, h: lax.scan(lambda c, _: (pulled(w, c), None), h, None, length=2)[0],
            "cond": lambda w, h: lax.cond(w.sum() > 0, pulled, lambda w, h: h + w, w, h),
            "jit": weft.jit(pulled),
            "remat": weft.checkpoint(pulled),
            "vmap": weft.vmap(pulled, (None, 0)),
        }[where]
        assert agrees(mesh, looped(around)) == 1

    def test_a_sum_that_a_backward_rule_writes_stays(self, mesh):
        def pulled(total):
            rule = weft.custom_vjp(lambda w, h: h * w)
            rule.defvjp(
                lambda w, h: (h * w, (w, h)),
                lambda kept, ct: (total((ct * kept[1]).sum(0)), ct * kept[0]),
            )
            return looped(rule)

        step = weft.grad(lambda w: on_rows(mesh, pulled(lambda x: lax.psum(x, "i")))(w, H).sum())
        close_doubles(step(W), weft.grad(lambda w: pulled(lambda x: x)(w, H).sum())(W))
        assert sums_of(step, W) == STEPS

    def test_a_rule_that_sums_only_where_a_cotangent_is_zero(self, mesh):
        """Its cotangent was taken to differ among devices; one that is equal counts once."""

        def pulled(total):
            rule = weft.custom_vjp(lambda w, h: (h * w, h + w))

            def backward(kept, cts):
                w, h = kept
                first, second = cts
                if isinstance(second, weft.custom_derivatives.SymbolicZero):
                    return total((first * h).sum(0)), first * w
                return (first * h + second).sum(0), first * w + second

            def forward(w, h):
                w, h = w.value, h.value
                return (h * w, h + w), (w, h)

            rule.defvjp(forward, backward, symbolic_zeros=True)
            return looped(lambda w, h: rule(w, h)[0])

        found = on_rows(mesh, pulled(lambda x: lax.psum(x, "i")))
        wanted = weft.grad(lambda w: (pulled(lambda x: x)(w, H) ** 2).sum())(W)
        close_doubles(weft.grad(lambda w: (found(w, H) ** 2).sum())(W), wanted)

    def test_where_casts_are_explicit_a_rule_sums_where_it_runs(self, mesh):
        @weft.custom_vjp
        def pulled(w, h):
            return h * lax.pbroadcast(w[None], "i")

        pulled.defvjp(
            lambda w, h: (pulled(w, h), (w, h)),
            lambda kept, ct: ((ct * kept[1]).sum(0), ct * lax.pbroadcast(kept[0], "i")),
        )
        found = on_rows(mesh, looped(pulled), auto_pbroadcast=False)
        wanted = weft.grad(lambda w: looped(lambda w, h: h * w)(w, H).sum())(W)
        close_doubles(weft.grad(lambda w: found(w, H).sum())(W), wanted)

    def test_written_casts_where_they_are_explicit(self, mesh):
        run = looped(lambda w, h: h * lax.pbroadcast(w[None], "i"))
        assert self.casts(mesh, run, W, H, auto_pbroadcast=False) == [(0, ("i",))]

    def test_the_line_of_a_cast_is_that_of_the_operation(self, mesh):
        run = looped(lambda w, h: h * w)
        (cast,) = weft.debug.casts(on_rows(mesh, run))(W, H)
        assert cast.needed_by == "broadcast_in_dim"  # to the shape that mul needs
        assert "looped(lambda w, h: h * w)" in line_of(cast)

    def test_axes_one_by_one(self):
        grid = weft.make_mesh((2, 2), ("i", "j"), devices=weft.devices()[:4])

        def run(w, g, h):
            def step(carry, _):
                g, h = carry
                return (g * w, h * w), None

            g, h = lax.scan(step, (g, h), None, length=STEPS)[0]
            return g.sum(), h.sum()

        def mapped(w, g, h):
            g, h = run(w, g, h)
            return lax.psum(g, "i") + lax.psum(h, ("i", "j"))

        specs = (P(), P("i"), P(("i", "j")))
        f = shard_map(mapped, mesh=grid, in_specs=specs, out_specs=P())
        assert casts_by_depth(inner_jaxpr(f, W, H, H)) == [(0, ("i",)), (0, ("i", "j"))]
        wanted = weft.grad(lambda w: sum(run(w, H, H)))(W)
        close_doubles(weft.grad(f)(W, H, H), wanted)

    def test_outside_of_a_mesh_nothing_changes(self):
        plain = weft.make_jaxpr(looped(lambda w, h: h * w))(W, H)
        assert "pbroadcast" not in str(plain)


def line_of(cast):
    path, number = cast.line.split(" ")[0].rsplit(":", 1)
    with open(path) as file:
        return file.read().splitlines()[int(number) - 1]
