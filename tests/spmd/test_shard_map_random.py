"""Random programs under shard_map: on random meshes with random specs, the sharded program equals
the unsharded one in value and in derivatives, eagerly and jitted."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from closeness import close_doubles
from sharded_programs import programs, reference


@hypothesis.settings(max_examples=40)
@hypothesis.given(programs(most_steps=6), st.booleans())
def test_a_jitted_sharded_program_equals_the_unsharded_one(program, check_vma):
    inputs, numbers, ((loss, value), grads) = reference(program)
    sharded = program.sharded(check_vma)
    found = weft.jit(weft.value_and_grad(sharded, numbers, has_aux=True))(*inputs)
    (found_loss, found_value), found_grads = found
    close_doubles(found_loss, loss, 1e-9)
    close_doubles(found_value, value, 1e-9)
    for found_grad, grad in zip(found_grads, grads, strict=True):
        close_doubles(found_grad, grad, 1e-9)
    directions = [wnp.cos(x * 3) for x in inputs]
    _, (tangent, _) = weft.jit(lambda *xs: weft.jvp(sharded, xs, tuple(directions)))(*inputs)
    close_doubles(tangent, sum((g * d).sum() for g, d in zip(grads, directions, strict=True)), 1e-9)


@hypothesis.settings(max_examples=15)
@hypothesis.given(programs(most_steps=4))
def test_an_eager_sharded_program_equals_the_unsharded_one(program):
    inputs, numbers, ((loss, value), grads) = reference(program)
    sharded = program.sharded()
    found_loss, found_value = sharded(*inputs)
    close_doubles(found_loss, loss, 1e-9)
    close_doubles(found_value, value, 1e-9)
    found_grads = weft.grad(sharded, numbers, has_aux=True)(*inputs)[0]
    for found_grad, grad in zip(found_grads, grads, strict=True):
        close_doubles(found_grad, grad, 1e-9)


@hypothesis.settings(max_examples=10)
@hypothesis.given(programs(most_steps=3))
def test_second_derivatives(program):
    inputs = program.inputs()
    directions = tuple(wnp.cos(x * 3) for x in inputs)
    numbers = tuple(range(len(inputs)))

    def product(f):
        """The Hessian times a direction."""
        return weft.jit(
            lambda *xs: weft.jvp(weft.grad(lambda *ys: f(*ys)[0], numbers), xs, directions)[1]
        )(*inputs)

    for found, expected in zip(product(program.sharded()), product(program.whole), strict=True):
        close_doubles(found, expected, 1e-9)
