"""Convolutions against a direct loop over windows, for random dimension numbers and windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import dtypes
from weft.errors import ShapeError, WeftValueError
from weft.ops.products import convolution_forms as forms
from weft.ops.products.convolution import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated,
    conv_shape_tuple,
)
from weft.ops.structural.padding_sizes import padtype_to_pads
from weft.testing import check_grads, check_vmap, exact_array


def standard(x, spec):
    return np.transpose(x, spec)


def stretched(x, steps, pads):
    """Zeros between elements, then padding (negative: cut off) of the dimensions from 2 on."""
    shape = [n if d < 2 or not n else (n - 1) * steps[d - 2] + 1 for d, n in enumerate(x.shape)]
    out = np.zeros(shape, x.dtype)
    out[(slice(None), slice(None), *(slice(None, None, s) for s in steps))] = x
    widths = [(0, 0), (0, 0), *((max(0, a), max(0, b)) for a, b in pads)]
    out = np.pad(out, widths)
    cuts = [slice(max(0, -a), out.shape[d + 2] - max(0, -b)) for d, (a, b) in enumerate(pads)]
    return out[(slice(None), slice(None), *cuts)]


def direct(lhs, rhs, strides, pads, lhs_dilation, rhs_dilation, numbers, groups=1, batch_groups=1):
    """The definition, one window after the other."""
    x = stretched(standard(lhs, numbers.lhs_spec), lhs_dilation, pads)
    k = stretched(standard(rhs, numbers.rhs_spec), rhs_dilation, [(0, 0)] * len(strides))
    batch, outputs = x.shape[0] // batch_groups, k.shape[0]
    spatial = [
        max(0, (n - r) // s + 1) for n, r, s in zip(x.shape[2:], k.shape[2:], strides, strict=True)
    ]
    out = np.zeros((batch, outputs, *spatial), np.result_type(x, k))
    total = groups * batch_groups
    for o in range(outputs):
        group = o // (outputs // total)
        if batch_groups > 1:
            block = x[group * batch : (group + 1) * batch]
        else:
            block = x[:, group * k.shape[1] : (group + 1) * k.shape[1]]
        for place in itertools.product(*map(range, spatial)):
            at = [
                slice(p * s, p * s + r) for p, s, r in zip(place, strides, k.shape[2:], strict=True)
            ]
            window = block[(slice(None), slice(None), *at)]
            out[(slice(None), o, *place)] = (window * k[o]).reshape(batch, -1).sum(1)
    return np.transpose(out, np.argsort(numbers.out_spec))


@st.composite
def problems(draw, max_spatial=2):
    spatial = draw(st.integers(0, max_spatial))
    order = list(range(spatial + 2))
    numbers = ConvDimensionNumbers(*(tuple(draw(st.permutations(order))) for _ in range(3)))
    small = st.integers(1, 3)
    groups, batch_groups = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]))
    inputs, outputs = draw(st.integers(1, 2)), draw(st.integers(1, 2)) * groups * batch_groups
    batch = draw(st.integers(1, 2)) * batch_groups
    kernel = [draw(small) for _ in range(spatial)]
    sizes = [draw(st.integers(1, 5)) for _ in range(spatial)]
    steps = {
        name: tuple(draw(small) for _ in range(spatial))
        for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    }
    pads = tuple((draw(st.integers(-1, 3)), draw(st.integers(-1, 3))) for _ in range(spatial))
    pads = tuple((max(a, 0), max(b, 0)) if a + b < -1 else (a, b) for a, b in pads)
    lhs_shape, rhs_shape = [0] * (spatial + 2), [0] * (spatial + 2)
    for d, n in zip(numbers.lhs_spec, (batch, inputs * groups, *sizes), strict=True):
        lhs_shape[d] = n
    for d, n in zip(numbers.rhs_spec, (outputs, inputs, *kernel), strict=True):
        rhs_shape[d] = n
    generator = np.random.default_rng(draw(st.integers(0, 9)))
    lhs, rhs = (generator.integers(-4, 5, s).astype(np.float64) for s in (lhs_shape, rhs_shape))
    params = {
        **steps,
        "padding": pads,
        "dimension_numbers": numbers,
        "feature_group_count": groups,
        "batch_group_count": batch_groups,
    }
    return lhs, rhs, params


def reference(lhs, rhs, params):
    return direct(
        lhs,
        rhs,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        params["dimension_numbers"],
        params["feature_group_count"],
        params["batch_group_count"],
    )


@settings(max_examples=60)
@given(problems())
def test_values(problem):
    lhs, rhs, params = problem
    got = conv_general_dilated(exact_array(lhs), exact_array(rhs), **params)
    np.testing.assert_array_equal(np.asarray(got), reference(lhs, rhs, params))


@settings(max_examples=12)
@given(problems(max_spatial=1))
def test_derivatives(problem):
    lhs, rhs, params = problem
    args = [exact_array(lhs), exact_array(rhs)]
    check_grads(lambda x, y: conv_general_dilated(x, y, **params), args, 2, ("fwd", "rev"))


@settings(max_examples=15)
@given(problems(max_spatial=1))
def test_vmap(problem):
    lhs, rhs, params = problem
    check_vmap(lambda x, y: conv_general_dilated(x, y, **params), [lhs, rhs], limit=6)


@pytest.mark.parametrize("dtype", sorted(dtypes.ANY, key=str), ids=str)
def test_dtypes(dtype):
    generator = np.random.default_rng(3)
    low = 0 if dtype in dtypes.UNSIGNED | dtypes.BOOLEAN else -2
    high = 1 if dtype == dtypes.bool_ else 2
    lhs, rhs = (
        generator.integers(low, high, shape, endpoint=True)
        for shape in ((2, 3, 5, 4), (4, 3, 2, 2))
    )
    if dtype in dtypes.COMPLEX:
        lhs = lhs + 1j * lhs[::-1]
        rhs = rhs - 1j * rhs[::-1]
    numbers = conv_dimension_numbers(lhs.shape, rhs.shape, None)
    want = direct(lhs, rhs, (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), numbers)
    got = conv_general_dilated(
        exact_array(lhs.astype(dtype)), exact_array(rhs.astype(dtype)), (1, 1), "VALID"
    )
    assert got.dtype == dtype
    want = want != 0 if dtype == dtypes.bool_ else want.astype(dtype)
    np.testing.assert_array_equal(np.asarray(got), want)


def test_preferred_element_type():
    x, k = (np.ones(shape, np.int8) * 100 for shape in ((1, 2, 4), (1, 2, 3)))
    got = conv_general_dilated(x, k, (1,), "VALID", preferred_element_type=np.int32)
    np.testing.assert_array_equal(np.asarray(got), np.full((1, 1, 2), 60000, np.int32))


def test_complex_derivatives():
    generator = np.random.default_rng(0)
    lhs, rhs = (
        exact_array(generator.normal(size=s) + 1j * generator.normal(size=s))
        for s in ((2, 2, 4), (2, 2, 2))
    )
    check_grads(
        lambda x, y: conv_general_dilated(x, y, (1,), "SAME"), [lhs, rhs], 2, ("fwd", "rev")
    )


def test_real_array_and_complex_kernel():
    generator = np.random.default_rng(0)
    lhs = exact_array(generator.normal(size=(1, 1, 4)))
    rhs = exact_array(generator.normal(size=(1, 1, 2)) + 1j)
    check_grads(lambda x: conv_general_dilated(x, rhs, (1,), "SAME"), [lhs], 2, ("fwd", "rev"))


# ---- dimension numbers and padding -------------------------------------------------------------


def test_dimension_numbers_of_strings():
    got = conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), ("NCHW", "HWIO", "CWHN"))
    assert got == ((0, 1, 2, 3), (3, 2, 0, 1), (3, 0, 2, 1))


@pytest.mark.parametrize(
    "numbers",
    [
        ("NCHW", "HWIO"),
        ("NCHW", "HWIO", "NCHH"),
        ("NCH", "HIO", "NCH"),
        5,
        ("NCHW", "HWIO", "NAHW"),
    ],
)
def test_wrong_dimension_numbers(numbers):
    with pytest.raises(WeftValueError, match="dimension numbers"):
        conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), numbers)


@pytest.mark.parametrize(
    "size, window, stride", list(itertools.product((4, 5, 7), (1, 2, 3, 8), (1, 2, 3)))
)
def test_same_padding_gives_one_window_per_stride(size, window, stride):
    for name in ("SAME", "same_lower"):
        ((low, high),) = padtype_to_pads((size,), (window,), (stride,), name)
        assert (size + low + high - window) // stride + 1 == -(-size // stride)
        assert 0 <= (high - low if name == "SAME" else low - high) <= 1


def test_shape_tuple():
    assert conv_shape_tuple((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), "SAME") == (2, 4, 5, 8)
    assert conv_shape_tuple((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), [(0, 0), (1, 0)]) == (2, 4, 4, 8)


@pytest.mark.parametrize(
    "lhs, rhs, params",
    [
        ((1, 3, 5), (2, 2, 3), {}),
        ((1, 3, 5), (2, 3), {}),
        ((1, 4, 5), (3, 2, 3), {"feature_group_count": 2}),
        ((3, 2, 5), (4, 2, 3), {"batch_group_count": 2}),
        ((1, 3, 5), (2, 3, 3), {"rhs_dilation": (1, 1)}),
    ],
)
def test_operands_that_do_not_fit(lhs, rhs, params):
    with pytest.raises(ShapeError):
        conv_general_dilated(np.zeros(lhs), np.zeros(rhs), (1,), [(0, 0)], **params)


def test_named_padding_of_a_stretched_array():
    with pytest.raises(WeftValueError, match="no name"):
        conv_general_dilated(np.zeros((1, 1, 5)), np.zeros((1, 1, 3)), (1,), "SAME", (2,))


# ---- the named forms ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "padding, stride, kernel", list(itertools.product(("SAME", "VALID"), (1, 2, 3), (1, 2, 4)))
)
def test_conv_transpose_is_the_transpose(padding, stride, kernel):
    """<conv(x), y> = <x, conv_transpose(y)>, for a length that the stride divides."""
    generator = np.random.default_rng(0)
    length = 6 if padding == "SAME" else 2 * stride + max(kernel, stride)
    x = generator.integers(-3, 4, (1, length, 2)).astype(np.float64)
    k = generator.integers(-3, 4, (kernel, 2, 3)).astype(np.float64)
    numbers = ("NHC", "HIO", "NHC")
    y = conv_general_dilated(
        exact_array(x), exact_array(k), (stride,), padding, dimension_numbers=numbers
    )
    ct = generator.integers(-3, 4, y.shape).astype(np.float64)
    # The kernel of the transposed operation has the features of the transposed direction.
    back = forms.conv_transpose(
        exact_array(ct), exact_array(k), (stride,), padding, transpose_kernel=True
    )
    assert back.shape == x.shape
    assert np.vdot(np.asarray(y), ct) == np.vdot(x, np.asarray(back))


def test_conv_transpose_with_padding_of_either_kind():
    generator = np.random.default_rng(0)
    x, k = (
        exact_array(generator.normal(size=(1, 5, 2))),
        exact_array(generator.normal(size=(3, 2, 4))),
    )
    plain = forms.conv_transpose(x, k, (2,), [(1, 2)])
    consistent = forms.conv_transpose(x, k, (2,), [(1, 0)], use_consistent_padding=True)
    np.testing.assert_array_equal(np.asarray(plain), np.asarray(consistent))


def test_patches():
    x = np.arange(2 * 3 * 5 * 4, dtype=np.float64).reshape(2, 3, 5, 4)
    got = np.asarray(forms.conv_general_dilated_patches(exact_array(x), (2, 3), (1, 1), "VALID"))
    want = np.lib.stride_tricks.sliding_window_view(x, (2, 3), axis=(2, 3))
    want = np.moveaxis(want, (4, 5), (2, 3)).reshape(2, 18, 4, 2)
    np.testing.assert_array_equal(got, want)
    last = forms.conv_general_dilated_patches(
        exact_array(np.moveaxis(x, 1, -1)),
        (2, 3),
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HOWI", "NHWC"),
    )
    np.testing.assert_array_equal(np.asarray(last), np.moveaxis(want, 1, -1))


def test_local_convolution():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, 3, 5))
    k = generator.normal(size=(4, 3 * 2, 4))
    got = forms.conv_general_dilated_local(exact_array(x), exact_array(k), (1,), "VALID", (2,))
    windows = np.stack([x[:, :, i : i + 2].reshape(2, -1) for i in range(4)], -1)
    np.testing.assert_allclose(np.asarray(got), np.einsum("nis,ois->nos", windows, k), rtol=1e-12)


def test_plain_forms():
    generator = np.random.default_rng(0)
    x, k = (
        exact_array(generator.normal(size=(2, 3, 6))),
        exact_array(generator.normal(size=(4, 3, 2))),
    )
    want = np.asarray(conv_general_dilated(x, k, (2,), [(0, 0)]))
    np.testing.assert_array_equal(np.asarray(forms.conv(x, k, (2,), "VALID")), want)
    padded = forms.conv_with_general_padding(x, k, (2,), "VALID", None, None)
    np.testing.assert_array_equal(np.asarray(padded), want)
