"""Random programs of arrays that lie over random meshes in random ways: values, derivatives and
mapped programs are those of the same arrays on one device."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import strategies as st

import weft
from closeness import close_doubles
from sharded_programs import programs, reference, specs_of
from weft.sharding import NamedSharding
from weft.sharding import PartitionSpec as P


@st.composite
def placed_programs(draw, most_steps):
    """A program and a spec for each of its inputs, of which some are None: left on one device."""
    program = draw(programs(most_steps))
    specs = [
        draw(st.none() | specs_of(program.sizes, len(spec)).map(lambda spec: P(*spec)))
        for spec in program.specs
    ]
    return program, specs


def placed(program, specs, inputs):
    mesh = program.mesh()
    return [
        x if spec is None else weft.device_put(x, NamedSharding(mesh, spec))
        for x, spec in zip(inputs, specs, strict=True)
    ]


@hypothesis.settings(max_examples=15)
@hypothesis.given(placed_programs(5))
def test_values_and_derivatives_do_not_depend_on_where_arrays_lie(drawn):
    program, specs = drawn
    inputs, numbers, ((loss, value), grads) = reference(program)
    args = placed(program, specs, inputs)
    (got_loss, got_value), got_grads = weft.jit(
        weft.value_and_grad(program.whole, numbers, has_aux=True)
    )(*args)
    close_doubles(got_loss, loss, 1e-9)
    close_doubles(got_value, value, 1e-9)
    for got, grad in zip(got_grads, grads, strict=True):
        close_doubles(got, grad, 1e-9)
    if args[0] is not inputs[0]:
        devices = {shard.device for shard in got_value.addressable_shards}
        assert devices == set(program.mesh().device_list)


@hypothesis.settings(max_examples=8)
@hypothesis.given(placed_programs(3))
def test_eager_operations_do_not_depend_on_where_arrays_lie(drawn):
    program, specs = drawn
    inputs, _, ((loss, value), _) = reference(program)
    got_loss, got_value = program.whole(*placed(program, specs, inputs))
    close_doubles(got_loss, loss, 1e-9)
    close_doubles(got_value, value, 1e-9)


@hypothesis.settings(max_examples=8)
@hypothesis.given(placed_programs(3), st.data())
def test_results_lie_where_they_are_asked_to(drawn, data):
    program, specs = drawn
    inputs, _, ((loss, value), _) = reference(program)
    spec = P(*data.draw(specs_of(program.sizes, np.ndim(value)), label="spec of the result"))
    sharding = NamedSharding(program.mesh(), spec)
    run = weft.jit(program.whole, out_shardings=(None, sharding))
    got_loss, got_value = run(*placed(program, specs, inputs))
    close_doubles(got_loss, loss, 1e-9)
    close_doubles(got_value, value, 1e-9)
    assert got_value.sharding.is_equivalent_to(sharding, np.ndim(value))
