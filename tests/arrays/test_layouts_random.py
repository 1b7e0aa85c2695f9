"""Random programs on arrays in random layouts, against the same programs on NumPy arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as wnp
from layout_cases import HERE, MESH, order_of
from weft.layout import Format, Layout, with_layout_constraint
from weft.sharding import NamedSharding, P

pytestmark = pytest.mark.fast

COUNTS = {None: 1, "i": 4, "j": 2, ("i", "j"): 8, ("j", "i"): 8}


@st.composite
def sharding_of(draw, shape):
    """One device, or a spec over the mesh that divides a shape."""
    if draw(st.booleans()):
        return HERE
    free, entries = {"i", "j"}, []
    for length in shape:
        fits = [
            entry
            for entry, count in COUNTS.items()
            if length % count == 0 and free.issuperset(entry or ())
        ]
        entries.append(draw(st.sampled_from(fits)))
        free -= set(entries[-1] or ())
    return NamedSharding(MESH, P(*entries))


@st.composite
def formats(draw, shape):
    order = draw(st.permutations(range(len(shape))))
    return Format(Layout(order), draw(sharding_of(shape)))


def steps(shape):
    """Operations that keep a shape, on arrays of weft and on those of NumPy."""
    ndim = len(shape)
    axis = st.integers(0, ndim - 1)
    return st.one_of(
        st.just(("double", lambda x: x * 2, lambda x: x * 2)),
        axis.map(lambda a: ("flip", lambda x: wnp.flip(x, a), lambda x: np.flip(x, a))),
        axis.map(lambda a: ("cumsum", lambda x: wnp.cumsum(x, a), lambda x: np.cumsum(x, a))),
        axis.map(lambda a: ("sort", lambda x: -wnp.sort(-x, a), lambda x: -np.sort(-x, a))),
        axis.map(
            lambda a: (
                "centre",
                lambda x: x - x.max(a, keepdims=True),
                lambda x: x - x.max(a, keepdims=True),
            )
        ),
        st.just(("identity", lambda x: x, lambda x: x)),
        st.permutations(range(ndim)).map(
            lambda order: (
                f"constrain {order}",
                lambda x: with_layout_constraint(x, Layout(order)),
                lambda x: x,
            )
        ),
        st.permutations(range(ndim)).map(
            lambda order: (
                f"there and back {order}",
                lambda x: x.transpose(order).transpose(np.argsort(order)),
                lambda x: x,
            )
        ),
    )


def values_of(shape):
    return (np.arange(math.prod(shape)) % 97).reshape(shape).astype(np.float32)


SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=4).map(tuple)


@pytest.mark.filterwarnings("ignore:Some donated buffers")
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_programs_are_right_whatever_the_layouts(data):
    shape = data.draw(SHAPES)
    values = values_of(shape)
    chain = data.draw(st.lists(steps(shape), min_size=1, max_size=4))

    def program(x, which):
        for step in chain:
            x = step[which](x)
        return x

    given_format, out = data.draw(formats(shape)), data.draw(formats(shape))
    donated = data.draw(st.booleans())
    x = weft.device_put(values, given_format)
    assert order_of(x) == given_format.layout.major_to_minor
    wanted = program(values, 2)
    np.testing.assert_array_equal(np.asarray(program(x, 1)), wanted)
    options = {"donate_argnums": 0} if donated else {}
    plain = weft.jit(lambda x: program(x, 1), **options)(x)
    order_of(plain)
    np.testing.assert_array_equal(np.asarray(plain), wanted)
    if donated:
        x = weft.device_put(values, given_format)
    if given_format.sharding.device_set == out.sharding.device_set:
        f = weft.jit(
            lambda x: program(x, 1), in_shardings=given_format, out_shardings=out, **options
        )
        found = f(x)
        assert found.format.layout == out.layout
        assert order_of(found) == out.layout.major_to_minor
        np.testing.assert_array_equal(np.asarray(found), wanted)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_arrays_go_from_any_format_to_any_other(data):
    shape = data.draw(SHAPES)
    dtype = data.draw(st.sampled_from(["float32", "int8", "bool", "complex64", "bfloat16"]))
    values = values_of(shape).astype(weft.dtypes.parse(dtype))
    x = weft.device_put(values, data.draw(formats(shape)))
    for _ in range(3):
        target = data.draw(formats(shape))
        only_sharding = data.draw(st.booleans())
        before = order_of(x)
        x = weft.device_put(
            x, target.sharding if only_sharding else target, donate=data.draw(st.booleans())
        )
        assert order_of(x) == (before if only_sharding else target.layout.major_to_minor)
        assert x.sharding == target.sharding
        np.testing.assert_array_equal(np.asarray(x), values)
    np.testing.assert_array_equal(np.asarray(x == wnp.asarray(values, device=x.sharding)), True)
