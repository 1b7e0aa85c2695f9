"""Keys of static values: the same for the same class and bits, and for nothing else."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import fractions
import itertools
import math
import pickle
import struct
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from weft.base.exact_keys import exact_key

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass(frozen=True)
class Fields:
    a: Any
    b: Any = None


class Own(float):
    """A number with equality of its own."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and abs(self) == abs(other)

    def __hash__(self) -> int:
        return hash(abs(self))


@dataclasses.dataclass(eq=False, frozen=True)
class Layers:
    sizes: list[int]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layers) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(tuple(self.sizes))


def _nan(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]  # type: ignore[no-any-return]


UTC, OTHER = datetime.UTC, datetime.timezone(datetime.timedelta(hours=1))
NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=UTC)
# Groups of values that Python finds equal, and NaNs: all differ.
NUMBERS = [
    0, 0.0, -0.0, False, 0j, complex(0.0, -0.0), complex(-0.0, 0.0), np.float32(0), np.int32(0),
    np.float32(-0.0), np.float64(0), np.float64(-0.0), np.bool_(False), np.int64(0),
    1, 1.0, True, 1 + 0j, np.float32(1), np.float16(1), ml_dtypes.bfloat16(1), np.uint8(1), "1",
    b"1", np.str_("1"), Own(1.0), fractions.Fraction(1), decimal.Decimal(1), decimal.Decimal("1.0"),
    math.nan, -math.nan, _nan(0x7FF8000000000001), _nan(0x7FF0000000000001), np.float32(math.nan),
    -np.float32(math.nan), complex(math.nan, 0), complex(0, math.nan), decimal.Decimal("nan"),
    math.inf, -math.inf, np.float32(math.inf), None, (), frozenset(),
]  # fmt: skip
OTHERS = [
    range(0), range(1, 1), range(0, 3, 2), range(0, 4, 2), Pair(0, 1), (0, 1), (False, True),
    NOON, NOON.astimezone(OTHER), NOON.replace(fold=1), NOON.timetz(), list[int], list[bool],
    types.GenericAlias(list, (1,)), types.GenericAlias(list, (True,)), int, bool, np.float32,
    np.dtype("f4"), datetime.timezone(datetime.timedelta(0), "A"), UTC, Layers([1]), Layers([2]),
]  # fmt: skip


def _wrapped(value: Any) -> list[Any]:
    return [value, (value,), Pair(1, (value,)), Fields((value, 2)), frozenset({(value,)})]


@pytest.mark.parametrize("wrapping", range(5))
def test_values_that_differ_have_different_keys(wrapping: int) -> None:
    values = [_wrapped(value)[wrapping] for value in (*NUMBERS, *OTHERS)]
    keys = [exact_key(value) for value in values]
    for (a, one), (b, other) in itertools.combinations(zip(values, keys, strict=True), 2):
        assert one != other, (a, b)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS], ids=repr)
def test_the_same_value_made_anew_has_the_same_key(value: Any) -> None:
    again = value if isinstance(value, types.GenericAlias) else pickle.loads(pickle.dumps(value))
    for one, other in zip(_wrapped(value), _wrapped(again), strict=True):
        assert exact_key(one) == exact_key(other)
        assert hash(exact_key(one)) == hash(exact_key(other))


def test_equality_that_a_class_defines_counts_too() -> None:
    assert exact_key(Own(1.0)) != exact_key(Own(-1.0))  # equal, with other bits
    assert exact_key(Layers([1])) == exact_key(Layers([1])) != exact_key(Layers([1, 2]))


def test_functions_and_objects_count_by_identity() -> None:
    def function() -> None: ...

    first, second = object(), object()
    assert exact_key(function) == exact_key(function) != exact_key(lambda: None)
    assert exact_key(first) == exact_key(first) != exact_key(second)


def test_what_has_no_hash_has_a_key_without_one() -> None:
    for value in ([1], {}, {1}, ([1],), np.zeros(2)):
        with pytest.raises(TypeError):
            hash(exact_key(value))
