"""Dtypes: names, kinds, default widths, ranges, and the whole table of promotion."""

from __future__ import annotations

import itertools

import hypothesis
import ml_dtypes
import numpy as np
import pytest
from hypothesis import strategies

import weft
import weft.numpy as jnp
from weft import config, dtypes
from weft.errors import DTypeError

pytestmark = pytest.mark.fast

NAMES = "b1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128".split()
DTYPE = {"b1": dtypes.bool_, **{dtypes.short_name(d): d for d in dtypes.ANY - {dtypes.bool_}}}

# The dtype in which two arrays meet, with the setting enable_x64. A star marks a weak type, which
# uint64 and a signed integer meet in. Rows and columns in the order of NAMES; the last three
# columns are a weak integer, a weak real and a weak complex number.
TABLE = """
b1   b1   i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128 i64* f64* c128*
i8   i8   i8   i16  i32  i64  i16  i32  i64  f64* f16  bf16 f32  f64  c64  c128 i8   f64* c128*
i16  i16  i16  i16  i32  i64  i16  i32  i64  f64* f16  bf16 f32  f64  c64  c128 i16  f64* c128*
i32  i32  i32  i32  i32  i64  i32  i32  i64  f64* f16  bf16 f32  f64  c64  c128 i32  f64* c128*
i64  i64  i64  i64  i64  i64  i64  i64  i64  f64* f16  bf16 f32  f64  c64  c128 i64  f64* c128*
u8   u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128 u8   f64* c128*
u16  u16  i32  i32  i32  i64  u16  u16  u32  u64  f16  bf16 f32  f64  c64  c128 u16  f64* c128*
u32  u32  i64  i64  i64  i64  u32  u32  u32  u64  f16  bf16 f32  f64  c64  c128 u32  f64* c128*
u64  u64  f64* f64* f64* f64* u64  u64  u64  u64  f16  bf16 f32  f64  c64  c128 u64  f64* c128*
f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128 f16  f16  c64
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128 bf16 bf16 c64
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128 f32  f32  c64
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 f64  f64  c128
c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128 c64  c64  c64
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""
# The same for two weak operands that are not both of default width: every result is weak.
WEAK_TABLE = """
i8   i8   i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i16  i16  i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i32  i32  i32  i32  i64  i32  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i64  i64  i64  i64  i64  i64  i64  i64  f64  f16  bf16 f32  f64  c64  c128
u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
u16  i32  i32  i32  i64  u16  u16  u32  u64  f16  bf16 f32  f64  c64  c128
u32  i64  i64  i64  i64  u32  u32  u32  u64  f16  bf16 f32  f64  c64  c128
u64  f64  f64  f64  f64  u64  u64  u64  u64  f16  bf16 f32  f64  c64  c128
f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""
# The two tables without enable_x64, where they differ among types of at most 32 bits.
NARROWER = {("u32", "i8"): "i32", ("u32", "i16"): "i32", ("u32", "i32"): "i32"}
WEAK_DTYPES = {
    "i*": "i8 i16 i32 i64 u8 u16 u32 u64".split(),
    "f*": "f16 bf16 f32 f64".split(),
    "c*": "c64 c128".split(),
}
HALVED = {"i64": "i32", "u64": "u32", "f64": "f32", "c128": "c64"}


def rows(table):
    return [line.split() for line in table.strip().splitlines()]


STRONG = {
    (row[0], column): found
    for row in rows(TABLE)
    for column, found in zip([*NAMES, *WEAK_DTYPES], row[1:], strict=True)
}
WEAK = {
    (row[0], column): found
    for row in rows(WEAK_TABLE)
    for column, found in zip(NAMES[1:], row[1:], strict=True)
}


def promoted(*pairs):
    dtype, weak = dtypes.promote(*pairs)
    name = "b1" if dtype == dtypes.bool_ else dtypes.short_name(dtype)
    return name + "*" * weak


# ---- promotion -------------------------------------------------------------------------


@pytest.mark.parametrize("left", NAMES)
def test_the_table_of_all_pairs_with_64_bits(left):
    with config.enable_x64():
        for right in NAMES:
            got = promoted((DTYPE[left], False), (DTYPE[right], False))
            assert got == STRONG[left, right], right
            assert got == promoted((DTYPE[right], False), (DTYPE[left], False)), right


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("enable_x64", [False, True])
def test_the_table_of_all_pairs_with_a_weak_type(left, enable_x64):
    with config.enable_x64(enable_x64):
        for kind, members in WEAK_DTYPES.items():
            expected = STRONG[left, kind]
            if expected.endswith("*") and not enable_x64:
                expected = HALVED[expected[:-1]] + "*"
            for right in members:
                assert promoted((DTYPE[left], False), (DTYPE[right], True)) == expected, right
                assert promoted((DTYPE[right], True), (DTYPE[left], False)) == expected, right


@pytest.mark.parametrize("left", NAMES[1:])
def test_the_table_of_all_pairs_of_weak_types(left):
    with config.enable_x64():
        for right in NAMES[1:]:
            got = promoted((DTYPE[left], True), (DTYPE[right], True))
            assert got == WEAK[left, right] + "*", right


@pytest.mark.parametrize("weak", [False, True])
def test_the_tables_without_64_bits(weak):
    table = WEAK if weak else STRONG
    narrow = [name for name in NAMES[weak:] if name not in HALVED]
    for left, right in itertools.product(narrow, repeat=2):
        expected = NARROWER.get((left, right)) or NARROWER.get((right, left)) or table[left, right]
        got = promoted((DTYPE[left], weak), (DTYPE[right], weak))
        assert got == expected + "*" * weak, (left, right)


def test_explicit_64_bits_are_honoured_without_the_setting():
    for left, right in itertools.product(NAMES, repeat=2):
        if {left, right} & HALVED.keys():
            expected = STRONG[left, right]
            if expected.endswith("*"):  # uint64 and a signed integer: nobody asked for float64
                expected = "f32*"
            assert promoted((DTYPE[left], False), (DTYPE[right], False)) == expected, (left, right)


operand = strategies.tuples(
    strategies.sampled_from(sorted(dtypes.NUMERIC, key=str)), strategies.booleans()
)


@hypothesis.given(strategies.lists(operand, min_size=1, max_size=4), strategies.randoms())
def test_the_order_of_operands_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert dtypes.promote(*pairs) == dtypes.promote(*shuffled)


@hypothesis.given(operand)
def test_an_operand_alone_keeps_its_type(pair):
    assert dtypes.promote(pair) == pair and dtypes.promote(pair, pair) == pair


def test_several_operands():
    i8, bf16 = (dtypes.int8, False), (dtypes.bfloat16, False)
    weak_int, weak_float = (dtypes.int32, True), (dtypes.float32, True)
    weak_complex = (dtypes.complex64, True)
    assert dtypes.promote(i8, weak_int, weak_float) == (dtypes.float32, True)
    assert dtypes.promote(bf16, weak_int, weak_complex) == (dtypes.complex64, False)
    assert dtypes.promote(i8, bf16, weak_float) == (dtypes.bfloat16, False)


def test_no_operands():
    with pytest.raises(DTypeError, match="no types to promote"):
        dtypes.promote()


def test_promote_types_takes_python_types():
    assert dtypes.promote_types("int8", int) == dtypes.int8
    assert dtypes.promote_types(np.int8, float) == dtypes.float32
    assert dtypes.promote_types(complex, "bfloat16") == dtypes.complex64
    assert dtypes.promote_types(bool, np.uint16) == dtypes.uint16
    with config.enable_x64():
        assert dtypes.promote_types(int, float) == dtypes.float64


@pytest.mark.parametrize(
    ("left", "right"),
    [("int4", "int8"), ("int4", "uint4"), ("float8_e4m3fn", "float32"), ("int4", float)],
)
def test_narrow_types_meet_no_others(left, right):
    with pytest.raises(DTypeError, match="no common dtype") as caught:
        dtypes.promote_types(left, right)
    target = caught.value.fix.data["dtype"]
    assert dtypes.promote_types(target, target) == dtypes.parse(target)
    assert target in caught.value.fix.text


def test_narrow_types_take_in_python_numbers():
    assert dtypes.promote_types("int4", int) == np.dtype(ml_dtypes.int4)
    assert dtypes.promote_types("uint4", "bool") == np.dtype(ml_dtypes.uint4)
    assert dtypes.promote_types("float8_e5m2", float) == np.dtype(ml_dtypes.float8_e5m2)


class KeyType:
    """An extended dtype, such as that of random keys."""

    short_name = "key<fry>"


def test_extended_types_meet_only_themselves():
    key = KeyType()
    assert dtypes.promote((key, False), (key, False)) == (key, False)
    with pytest.raises(DTypeError, match="key<fry> and f32"):
        dtypes.promote((key, False), (dtypes.float32, False))


def test_float0_meets_only_itself():
    assert dtypes.promote((dtypes.float0, False), (dtypes.float0, False))[0] == dtypes.float0
    with pytest.raises(DTypeError, match="float0 and f32"):
        dtypes.promote((dtypes.float0, False), (dtypes.float32, False))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("float32", "float32", "float32"),
        ("float16", int, "float16"),
        ("float16", float, "float16"),
        ("complex64", float, "complex64"),
        (int, float, "float32"),
        ("int8", "int32", None),
        ("int32", "bool", None),
        ("int32", float, None),
        ("float32", complex, None),
    ],
)
def test_strict_promotion(left, right, expected):
    with config.override(numpy_dtype_promotion="strict"):
        if expected is not None:
            assert jnp.promote_types(left, right) == np.dtype(expected)
            return
        with pytest.raises(DTypeError, match="'strict'") as caught:
            jnp.promote_types(left, right)
        target = caught.value.fix.data["dtype"]
        assert jnp.promote_types(target, target) == np.dtype(target)


# ---- names, kinds and widths -----------------------------------------------------------


def test_short_names():
    got = {dtypes.short_name(dtype) for dtype in dtypes.ANY}
    assert got == {"bool", *NAMES} - {"b1"}
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.short_name(np.dtype(ml_dtypes.float8_e4m3fn)) == "f8_e4m3fn"
    assert dtypes.short_name(np.dtype(ml_dtypes.int4)) == "i4"
    assert dtypes.short_name(KeyType()) == "key<fry>"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (np.float32, np.float32),
        (np.dtype("int16"), np.int16),
        ("float64", np.float64),
        ("bfloat16", ml_dtypes.bfloat16),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
        ("int4", ml_dtypes.int4),
        (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2),
        ("f4", np.float32),
        ("<i8", np.int64),
        ("?", np.bool_),
        ("half", np.float16),
        (bool, np.bool_),
        (int, np.int32),
        (float, np.float32),
        (complex, np.complex64),
        ("int", np.int32),
        ("uint", np.uint32),
        ("float", np.float32),
        ("complex", np.complex64),
        (np.int64, np.int64),
        (np.zeros(2), np.float64),
    ],
)
def test_parse(named, expected):
    assert dtypes.parse(named) == np.dtype(expected)


def test_parse_takes_scalar_classes_and_extended_dtypes():
    class float32:
        dtype = dtypes.float32

    assert dtypes.parse(float32) == dtypes.float32
    key = KeyType()
    assert dtypes.parse(key) is key and dtypes.is_extended(key)


def test_python_types_mean_the_default_width():
    with config.enable_x64():
        assert [dtypes.parse(t) for t in (int, float, complex, "uint")] == [
            dtypes.int64,
            dtypes.float64,
            dtypes.complex128,
            dtypes.uint64,
        ]


@pytest.mark.parametrize(
    "named",
    [None, "nonsense", "S3", object, list, np.floating, np.longdouble, "datetime64[s]", 3, ("f4",)],
)
def test_parse_refuses(named):
    with pytest.raises(DTypeError, match="not a dtype") as caught:
        dtypes.parse(named)
    assert caught.value.got == repr(named)
    assert dtypes.parse(caught.value.fix.data["dtype"]) in dtypes.ANY


def test_parse_says_what_to_do_with_another_byte_order():
    foreign = np.zeros(3, ">f4")
    with pytest.raises(DTypeError, match="byte order") as caught:
        dtypes.parse(foreign.dtype)
    with pytest.raises(DTypeError, match="byte order"):
        dtypes.parse(">f4")
    mended = foreign.astype(caught.value.fix.data["dtype"])
    assert dtypes.parse(mended.dtype) == dtypes.float32


def test_default_widths():
    assert (dtypes.default_int(), dtypes.default_uint()) == (dtypes.int32, dtypes.uint32)
    assert (dtypes.default_float(), dtypes.default_complex()) == (dtypes.float32, dtypes.complex64)
    with config.enable_x64():
        assert (dtypes.default_int(), dtypes.default_uint()) == (dtypes.int64, dtypes.uint64)
        assert (dtypes.default_float(), dtypes.default_complex()) == (
            dtypes.float64,
            dtypes.complex128,
        )


@pytest.mark.parametrize("dtype", sorted(dtypes.ANY | dtypes.NARROW, key=str))
def test_canonical(dtype):
    name = dtypes.short_name(dtype)
    assert dtypes.short_name(dtypes.canonical(dtype)) == HALVED.get(name, name)
    with config.enable_x64():
        assert dtypes.canonical(dtype) is dtype


def test_canonical_keeps_extended_dtypes():
    key = KeyType()
    assert dtypes.canonical(key) is key


@pytest.mark.parametrize(
    ("value", "expected"), [(True, "bool"), (1, "int32"), (1.5, "float32"), (1j, "complex64")]
)
def test_dtype_of_python_numbers(value, expected):
    assert dtypes.of_scalar(value) == np.dtype(expected)


def test_what_is_no_python_number():
    with pytest.raises(DTypeError, match="not a Python number"):
        dtypes.of_scalar("1")


@pytest.mark.parametrize("dtype", sorted(dtypes.ANY | dtypes.NARROW, key=str))
def test_predicates(dtype):
    kind = dtypes.common_kind(dtype)
    assert dtypes.is_boolean(dtype) == (kind == "boolean")
    assert dtypes.is_integer(dtype) == (kind == "integer")
    assert dtypes.is_floating(dtype) == (kind == "floating")
    assert dtypes.is_complex(dtype) == (kind == "complex")
    assert dtypes.is_inexact(dtype) == (kind in ("floating", "complex"))
    assert dtypes.is_real(dtype) == (kind in ("integer", "floating"))
    assert dtypes.is_numeric(dtype) == (kind != "boolean")
    assert (dtypes.is_signed(dtype) or dtypes.is_unsigned(dtype)) == (kind == "integer")
    assert dtypes.is_unsigned(dtype) == dtype.name.startswith("uint")
    assert not dtypes.is_extended(dtype)


def test_sets_agree_with_numpy():
    for dtype in dtypes.ANY - {dtypes.bfloat16}:
        for category, members in (
            (np.signedinteger, dtypes.SIGNED),
            (np.unsignedinteger, dtypes.UNSIGNED),
            (np.integer, dtypes.INTEGER),
            (np.floating, dtypes.FLOATING),
            (np.complexfloating, dtypes.COMPLEX),
            (np.inexact, dtypes.INEXACT),
            (np.number, dtypes.NUMERIC),
            (np.generic, dtypes.ANY),
            (np.bool_, dtypes.BOOLEAN),
        ):
            assert np.issubdtype(dtype, category) == (dtype in members)
            assert dtypes.issubdtype(dtype, category) == (dtype in members)


def test_issubdtype():
    assert dtypes.issubdtype("bfloat16", np.floating)
    assert dtypes.issubdtype("int4", np.signedinteger)
    assert not dtypes.issubdtype("uint4", np.signedinteger)
    assert dtypes.issubdtype(np.floating, np.inexact)
    assert not dtypes.issubdtype(np.floating, np.integer)
    assert dtypes.issubdtype(np.float32, "float32")
    assert not dtypes.issubdtype("float32", np.character)


def test_common_kind():
    assert dtypes.common_kind(dtypes.bool_, dtypes.uint8) == "integer"
    assert dtypes.common_kind(dtypes.int64, dtypes.bfloat16, dtypes.complex64) == "complex"
    with pytest.raises(DTypeError, match="key<fry>"):
        dtypes.common_kind(KeyType())


# ---- ranges and related types ----------------------------------------------------------


@pytest.mark.parametrize("dtype", sorted(dtypes.INEXACT - {dtypes.bfloat16}, key=str))
def test_finfo_agrees_with_numpy(dtype):
    ours, theirs = dtypes.finfo(dtype), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "tiny", "smallest_subnormal", "nmant"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_finfo_of_bfloat16():
    limits = dtypes.finfo("bfloat16")
    assert (limits.bits, float(limits.eps), float(limits.max)) == (16, 2.0**-7, 255 * 2.0**120)


@pytest.mark.parametrize("dtype", sorted(dtypes.INTEGER, key=str))
def test_iinfo_agrees_with_numpy(dtype):
    ours, theirs = dtypes.iinfo(dtype), np.iinfo(dtype)
    assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)


def test_iinfo_of_int4():
    assert (dtypes.iinfo("int4").min, dtypes.iinfo("int4").max) == (-8, 7)


@pytest.mark.parametrize(
    ("asked", "dtype"), [("finfo", "int8"), ("iinfo", "float32"), ("iinfo", "bfloat16")]
)
def test_limits_of_the_wrong_kind(asked, dtype):
    with pytest.raises(DTypeError, match=asked) as caught:
        getattr(dtypes, asked)(dtype)
    assert getattr(dtypes, caught.value.fix.data["function"])(dtype).max > 0


@pytest.mark.parametrize("dtype", sorted(dtypes.INTEGER, key=str))
def test_fits_at_the_edges(dtype):
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    assert dtypes.fits(low, dtype) and dtypes.fits(high, dtype)
    assert not dtypes.fits(low - 1, dtype) and not dtypes.fits(high + 1, dtype)


@hypothesis.given(
    strategies.integers(-(2**1030), 2**1030),
    strategies.sampled_from(sorted(dtypes.FLOATING, key=str)),
)
def test_an_integer_fits_where_it_stays_finite(value, dtype):
    try:
        with np.errstate(over="ignore"):
            expected = bool(np.isfinite(np.array(float(value)).astype(dtype).astype(np.float64)))
    except OverflowError:
        expected = False
    assert dtypes.fits(value, dtype) == expected


def test_fits_of_other_kinds():
    assert dtypes.fits(1, dtypes.bool_) and not dtypes.fits(2, dtypes.bool_)
    assert dtypes.fits(10**30, dtypes.complex64) and not dtypes.fits(10**40, dtypes.complex64)
    assert not dtypes.fits(0, dtypes.float0)


def test_tangent_dtypes():
    for dtype in dtypes.ANY:
        assert dtypes.tangent_dtype(dtype) == (dtype if dtype in dtypes.INEXACT else dtypes.float0)
    assert dtypes.tangent_dtype(KeyType()) == dtypes.float0


def test_float0_holds_no_bits():
    zeros = np.zeros((3, 2), dtypes.float0)
    assert zeros.nbytes == 0 and zeros.shape == (3, 2)


def test_real_and_complex_parts():
    for dtype in dtypes.INEXACT - {dtypes.bfloat16}:
        assert dtypes.to_real(dtype) == np.zeros((), dtype).real.dtype
        assert dtypes.to_complex(dtype) == np.result_type(dtype, np.complex64)
    assert dtypes.to_complex(dtypes.bfloat16) == dtypes.complex64
    assert dtypes.to_complex(dtypes.int32) == dtypes.complex64
    assert dtypes.to_complex(dtypes.int64) == dtypes.complex128
    with pytest.raises(DTypeError, match="no complex dtype"):
        dtypes.to_complex(dtypes.float0)


def test_bits_of_an_item():
    assert dtypes.itemsize_bits(np.dtype(ml_dtypes.int4)) == 4
    assert dtypes.itemsize_bits("int4") == 4 and dtypes.itemsize_bits(jnp.bfloat16) == 16
    assert dtypes.itemsize_bits(np.dtype(ml_dtypes.float8_e4m3b11fnuz)) == 8
    assert dtypes.itemsize_bits(dtypes.complex128) == 128


# ---- the names of jax.dtypes -------------------------------------------------------------------


def test_the_class_of_random_keys():
    key = weft.random.key(0).dtype
    assert dtypes.issubdtype(key, dtypes.prng_key) and dtypes.issubdtype(key, dtypes.extended)
    assert dtypes.issubdtype(dtypes.prng_key, np.generic)
    assert not dtypes.issubdtype(key, np.number)
    assert not dtypes.issubdtype("float32", dtypes.prng_key)
    with pytest.raises(DTypeError):
        dtypes.prng_key()


def test_categories_of_what_is_no_array_dtype():
    assert dtypes.issubdtype(None, np.floating) and dtypes.issubdtype(int, np.integer)
    assert dtypes.issubdtype(object, np.object_) and not dtypes.issubdtype(str, np.number)
    assert not dtypes.issubdtype(np.int32, int) and dtypes.issubdtype(np.int64, int)


def test_canonicalize_dtype():
    assert dtypes.canonicalize_dtype(np.float64) == dtypes.float32
    assert dtypes.canonicalize_dtype(None) == dtypes.float32
    with config.override(enable_x64=True):
        assert dtypes.canonicalize_dtype("int64") == dtypes.int64
    key = weft.random.key(0).dtype
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    with pytest.raises(ValueError, match="random keys"):
        dtypes.canonicalize_dtype(key)


def test_scalar_type_of():
    found = [dtypes.scalar_type_of(x) for x in (True, "int4", jnp.ones(2), 1j)]
    assert found == [bool, int, float, complex]
    with pytest.raises(TypeError):
        dtypes.scalar_type_of(weft.random.key(0))


def test_result_type_of_arrays_and_numbers():
    assert dtypes.result_type(None, "int8") == dtypes.float32
    assert dtypes.result_type(jnp.ones(2, "int8"), 1.5) == dtypes.float32
    assert dtypes.result_type(2**200) == dtypes.int32
    assert dtypes.result_type(1, 2.0, return_weak_type_flag=True) == (dtypes.float32, True)
    assert dtypes.result_type(np.ones(2), return_weak_type_flag=True) == (dtypes.float32, False)
