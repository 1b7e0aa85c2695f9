"""The public names of dtypes, and the functions about dtypes."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

import weft.numpy as jnp
from weft import config, dtypes
from weft.arrays.array import Array

NAMES = sorted(d.name for d in dtypes.ANY if d != np.bool_)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_dtype_everywhere(name):
    scalar = getattr(jnp, name)
    expected = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
    assert np.dtype(scalar) == scalar.dtype == expected
    assert scalar == expected and scalar == expected.type and scalar == name
    assert scalar != np.dtype("bool")
    assert {expected.type: 1}[scalar] == 1
    assert jnp.zeros(2, scalar).dtype == expected
    assert jnp.arange(3).astype(scalar).dtype == expected
    assert isinstance(expected.type(1), scalar)
    assert pickle.loads(pickle.dumps(scalar)) is scalar


def test_classes_derive_from_a_name():
    class Kind(jnp.int8):
        FIRST = jnp.array(0, jnp.int8)

    assert Kind.dtype == np.dtype(Kind) == np.int8 and Kind == jnp.int8
    assert issubclass(Kind, jnp.int8) and {jnp.int8: 1}[Kind] == 1
    assert Kind(3).dtype == jnp.zeros(2, Kind).dtype == np.int8
    assert Kind.FIRST == 0 and Kind.__name__ == "Kind"

    class Wide(jnp.float_):
        pass

    with config.enable_x64():
        assert Wide.dtype == np.float64


@pytest.mark.parametrize("name", [*NAMES, "bool_"])
def test_a_name_makes_arrays(name):
    out = getattr(jnp, name)(1)
    assert type(out) is Array
    assert out.shape == () and not out.weak_type
    assert out.dtype == dtypes.parse(name.rstrip("_"))
    assert getattr(jnp, name)([0, 1]).shape == (2,)


def test_default_widths_follow_the_setting():
    names = ("int_", "uint", "float_", "complex_")
    assert [getattr(jnp, n).dtype.itemsize for n in names] == [4, 4, 4, 8]
    with config.enable_x64():
        assert [getattr(jnp, n).dtype.itemsize for n in names] == [8, 8, 8, 16]
        assert jnp.float_(1).dtype == np.float64


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((1, jnp.float16), "float16"),
        (("int8", 1.0), "float32"),
        ((np.int8, np.float16), "float16"),
        ((jnp.ones(2), np.ones(2)), "float32"),
        ((np.float64,), "float64"),
        ((True, 1), "int32"),
        (("bfloat16", "float16"), "float32"),
        ((1j, jnp.arange(2)), "complex64"),
    ],
)
def test_result_type(operands, expected):
    assert jnp.result_type(*operands) == dtypes.parse(expected)


def test_result_type_of_nothing():
    with pytest.raises(ValueError, match="at least one"):
        jnp.result_type()


@pytest.mark.parametrize(
    ("dtype", "kind", "expected"),
    [
        ("int8", "integral", True),
        ("uint8", "signed integer", False),
        ("bfloat16", "real floating", True),
        ("complex64", ("real floating", "complex floating"), True),
        ("bool", "numeric", False),
        ("float32", jnp.float32, True),
        ("float32", ("bool", np.float64), False),
    ],
)
def test_isdtype(dtype, kind, expected):
    assert jnp.isdtype(jnp.zeros(1, dtype).dtype, kind) is expected


def test_isdtype_of_an_unknown_kind():
    with pytest.raises(ValueError, match="integral"):
        jnp.isdtype("int8", "integers")


def test_other_functions():
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating)
    assert not jnp.issubdtype(jnp.int8, jnp.inexact)
    assert jnp.promote_types("int8", jnp.float16) == np.float16
    assert jnp.can_cast("int8", jnp.int16) and not jnp.can_cast(jnp.float32, "int32")
    assert jnp.finfo(jnp.bfloat16).bits == 16
    assert jnp.iinfo(jnp.int8).max == 127
    assert jnp.dtype("float32") == jnp.float32


def test_dtypes_are_not_classes_of_python():
    """They would be promoted as weakly typed numbers are."""
    assert jnp.promote_types(jnp.float16, jnp.float32) == np.float32
    assert jnp.promote_types(jnp.int32, jnp.int8) == np.int32
    assert jnp.promote_types(jnp.float16, float) == np.float16
    assert jnp.bool_ == jnp.bool and jnp.float32 == np.float32
    for dtype, kind in ((jnp.float32, float), (jnp.int32, int), (jnp.bool, bool)):
        assert dtype != kind


def test_constants():
    assert (jnp.pi, jnp.e, jnp.euler_gamma) == (np.pi, np.e, np.euler_gamma)
    assert jnp.inf == float("inf") and jnp.nan != jnp.nan and jnp.newaxis is None
