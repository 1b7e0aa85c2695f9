"""Random straight-line programs: every transformation of one agrees with every other.

Each is run with NumPy in double precision and with weft: eagerly, jitted, mapped, differentiated.
"""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from random_programs import Numpy, arguments, kink, programs, same
from weft.core.check import check_jaxpr

settings = hypothesis.settings(max_examples=30)


@settings
@hypothesis.given(programs())
def test_eager_and_jitted_values_are_numpys(drawn):
    program, seed = drawn
    hosts, args = arguments(program, seed)
    hypothesis.assume(not kink(program, hosts))
    wanted = program.run(Numpy, *hosts)
    same(program.weft(*args), wanted)
    same(weft.jit(program.weft)(*args), wanted)
    closed = weft.make_jaxpr(program.weft)(*args)
    check_jaxpr(closed)
    same(closed(*args), wanted)


@settings
@hypothesis.given(programs(), st.data())
def test_vmap_is_a_loop(drawn, data):
    program, seed = drawn
    hosts, _ = arguments(program, seed, 3)
    axes = [data.draw(st.sampled_from([None, *range(len(s) + 1)])) for s in program.inputs]
    if all(axis is None for axis in axes):
        axes[0] = 0
    args = [
        jnp.array(h[0] if axis is None else np.moveaxis(h, 0, axis), np.float64)
        for h, axis in zip(hosts, axes, strict=True)
    ]
    rows = [
        [h[0] if axis is None else h[k] for h, axis in zip(hosts, axes, strict=True)]
        for k in range(3)
    ]
    hypothesis.assume(not any(kink(program, row) for row in rows))
    columns = [program.run(Numpy, *row) for row in rows]
    wanted = [np.stack(column) for column in zip(*columns, strict=True)]
    mapped = weft.vmap(program.weft, in_axes=tuple(axes))
    same(mapped(*args), wanted)
    same(weft.jit(mapped)(*args), wanted)


@settings
@hypothesis.given(programs())
def test_gradients_are_finite_differences_and_every_mode_agrees(drawn):
    program, seed = drawn
    hosts, args = arguments(program, seed)
    hypothesis.assume(not kink(program, hosts))
    numbers = tuple(range(len(args)))
    generator = np.random.default_rng(seed + 1)
    directions = [generator.normal(size=h.shape) for h in hosts]
    tangents = tuple(jnp.array(d, np.float64) for d in directions)

    def total(*values):
        outs = program.run(Numpy, *values)
        return sum(np.sum(out) * (0.5 + k) for k, out in enumerate(outs))

    step = 1e-5
    ahead = total(*(h + step * d for h, d in zip(hosts, directions, strict=True)))
    behind = total(*(h - step * d for h, d in zip(hosts, directions, strict=True)))
    slope = (ahead - behind) / (2 * step)

    gradient = weft.grad(program.total, numbers)(*args)
    along = sum(np.sum(np.asarray(g) * d) for g, d in zip(gradient, directions, strict=True))
    np.testing.assert_allclose(along, slope, rtol=1e-5, atol=1e-6 * max(1.0, abs(ahead)))
    same(weft.jit(weft.grad(program.total, numbers))(*args), gradient)
    same(weft.grad(weft.jit(program.total), numbers)(*args), gradient)

    # Linearization agrees with jvp, and its transpose with it.
    value, tangent = weft.jvp(program.weft, tuple(args), tangents)
    again, f_lin = weft.linearize(program.weft, *args)
    same(again, value)
    same(f_lin(*tangents), tangent)
    check_jaxpr(f_lin.jaxpr)
    weights = tuple(jnp.array(generator.normal(size=np.shape(v)), np.float64) for v in value)
    pulled = weft.linear_transpose(f_lin, *args)(weights)
    same(pulled, weft.vjp(program.weft, *args)[1](weights))
    left = sum(np.sum(np.asarray(w) * np.asarray(t)) for w, t in zip(weights, tangent, strict=True))
    right = sum(np.sum(np.asarray(p) * d) for p, d in zip(pulled, directions, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-9)


@hypothesis.settings(max_examples=12)
@hypothesis.given(programs())
def test_second_derivatives_and_per_example_gradients(drawn):
    program, seed = drawn
    hosts, args = arguments(program, seed, 2)
    hypothesis.assume(not any(kink(program, [h[k] for h in hosts]) for k in range(2)))
    numbers = tuple(range(len(args)))
    gradient = weft.grad(program.total, numbers)
    mapped = weft.vmap(gradient)(*args)
    for k in range(2):
        one = [jnp.array(h[k], np.float64) for h in hosts]
        same([np.asarray(g)[k] for g in mapped], gradient(*one))
    one = [jnp.array(h[0], np.float64) for h in hosts]
    forward = weft.jacfwd(gradient, numbers)(*one)
    reverse = weft.jacrev(gradient, numbers)(*one)
    same(weft.tree.leaves(forward), weft.tree.leaves(reverse), 1e-8, 1e-9)
    for i in numbers:
        for j in numbers:
            block, other = np.asarray(forward[i][j]), np.asarray(forward[j][i])
            n = int(np.prod(program.inputs[i]))
            symmetric = other.reshape(-1, n).T.reshape(block.shape)
            np.testing.assert_allclose(block, symmetric, rtol=1e-8, atol=1e-9)
