"""The measurement of accuracy: how errors are counted, that its references are right, and that the
page says what is recorded."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest

from source_files import ROOT

FOLDER = ROOT / "benchmarks" / "accuracy"
sys.path.insert(0, str(FOLDER))
functions, measure, page, points, references, all_inputs, evaluate = map(
    importlib.import_module,
    (
        "elementwise_table", "largest_errors", "accuracy_page", "float_points",
        "float_references", "all_inputs", "evaluate",
    ),
)  # fmt: skip
RECORDED = json.loads((FOLDER / "results.json").read_text())

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def test_the_page_says_what_is_recorded():
    reasons = json.loads((FOLDER / "reasons.json").read_text())
    assert (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8") == page.page(
        RECORDED, reasons
    )
    assert all(f"{name} float32" in RECORDED for name in reasons)


CASES = [
    ("float32", 1.0, 1.0, 0.0),
    ("float32", 1.0 + 2.0**-23, 1.0, 1.0),
    ("float32", 1.0 - 2.0**-24, 1.0, 0.5),
    ("float32", 1.0, 1.0 + 2.0**-25, 0.25),
    ("bfloat16", 1.0 + 2.0**-7, 1.0, 1.0),
    ("float16", 1.0 + 2.0**-10, 1.0, 1.0),
    ("float32", np.nan, 1.0, np.inf),
    ("float32", 1.0, np.nan, np.inf),
    ("float32", np.nan, np.nan, 0.0),
    ("float32", np.inf, 1e300, 0.0),
    ("float32", -np.inf, 1e300, np.inf),
    ("float32", np.inf, 3.4028234663852886e38, 1.0),
    ("float16", 65504.0, 1e9, 1.0),
    ("float32", 0.0, 1e-39, 0.0),
    ("float32", 2.0**-149, 0.0, 1.0),
    ("float32", 0.0, 2.0**-126 * 1.5, 1.5 * 2**23),
]


@pytest.mark.parametrize(("dtype", "result", "reference", "ulp"), CASES)
def test_an_error(dtype, result, reference, ulp):
    (found,) = measure.errors(np.array([result]), np.array([reference]), dtype)
    if ulp == np.inf:
        assert found > 1e7
    else:
        assert found == ulp


PLACES = np.array([-31.3, -2.6, -1.2, -0.7, -0.3, 0.1, 0.25, 0.6, 0.9, 1.3, 1.9, 2.7, 7.4, 31.3])


@pytest.mark.parametrize("row", functions.UNARY, ids=lambda row: row.name)
def test_a_derivative_in_the_table_is_that_of_the_value(row):
    if row.derivative is None:
        return
    h = 1e-6
    value = lambda x: row.value(references.Double, x)  # noqa: E731
    slope = (value(PLACES + h) - value(PLACES - h)) / (2 * h)
    found = row.derivative(references.Double, PLACES)
    there = np.isfinite(slope) & np.isfinite(found)
    assert there.sum() >= 3
    np.testing.assert_allclose(found[there], slope[there], rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("row", functions.BINARY, ids=lambda row: row.name)
def test_derivatives_by_both_arguments(row):
    x, y = (grid.ravel() for grid in np.meshgrid(PLACES, PLACES + 0.05))
    for by, derivative in enumerate(row.derivatives):
        h = 1e-6
        up, down = ([x, y] for _ in range(2))
        up[by], down[by] = up[by] + h, down[by] - h
        slope = (row.value(references.Double, *up) - row.value(references.Double, *down)) / (2 * h)
        found = derivative(references.Double, x, y)
        there = np.isfinite(slope) & np.isfinite(found) & (np.abs(slope) > 1e-6)
        assert there.sum() >= 10
        np.testing.assert_allclose(found[there], slope[there], rtol=1e-4)


@pytest.mark.parametrize("row", (*functions.UNARY, *functions.BINARY), ids=lambda row: row.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_errors_are_no_larger_than_recorded(row, dtype):
    """Near powers of two, zeros and poles, and at pairs that nearly cancel."""
    kind = measure.dtype_of(dtype)
    if isinstance(row, functions.Unary):
        xs = [points.dense(kind, row.near, 2, 4000, seed=7)]
    else:
        xs = points.dense_pairs(kind, 2000, seed=7)
    for by in (None, *range(len(measure.derivatives_of(row)))):
        expression = row.value if by is None else measure.derivatives_of(row)[by]
        key = measure.key_of(row, by, dtype)
        recorded = RECORDED[key]["worst"]["weft"][0] if key in RECORDED else np.nan
        if np.isnan(recorded):  # it does not end within minutes
            continue
        got = np.asarray(evaluate.compiled("weft", row.name, by)(*xs)).astype(np.float64)
        errors = measure.Reference(expression, xs, dtype, by).errors(got)
        place = int(np.argmax(errors))
        assert errors[place] <= 1.5 * recorded + 1, [float(x[place]) for x in xs]


def test_all_inputs_are_covered_with_stride_1():
    """Each number of float32 is in one chunk; a stride takes every n-th."""
    assert points.strided_chunks(1) * points.CHUNK == 1 << 32
    assert points.strided_chunks(4099) == 1
    found = points.strided(4099, 0).view(np.uint32)
    assert (found % 4099 == 0).all() and found.size > 0.99 * (1 << 32) / 4099
    last = points.strided(1, points.strided_chunks(1) - 1).view(np.uint32)
    assert last[-1] == 2**32 - 1


def test_chunks_hold_each_normal_number_once():
    firsts = np.fromiter(all_inputs.all_numbers(), np.uint64)
    assert (np.diff(firsts) >= all_inputs.CHUNK).all()
    assert firsts.size * all_inputs.CHUNK == 2 * 254 * 2**23
    for first in (int(firsts[0]), int(firsts[-1])):
        chunk = all_inputs.chunk_at(first)
        assert np.isfinite(chunk).all() and (np.abs(chunk) >= np.finfo("float32").tiny).all()


@pytest.mark.parametrize("spread", [0, 1, 3, 40, 1 << 24])
def test_an_error_is_bounded_by_the_numbers_between(spread):
    """What is left out cannot have the largest error."""
    draw = np.random.default_rng(spread)
    powers = np.ldexp(1.0, draw.integers(-160, 130, 20_000)) * draw.choice([-1, 1], 20_000)
    near = powers * (1 + draw.normal(size=20_000) * draw.choice([0, 1e-8, 1e-7, 1e-3, 1], 20_000))
    want = np.concatenate([near, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    bits = want.astype(np.float32).view(np.uint32)
    moved = bits + draw.integers(-spread, spread + 1, bits.size).astype(np.uint32)
    got = moved.view(np.float32)
    steps = all_inputs.steps_between(got, want.astype(np.float32))
    found = measure.errors(got.astype(np.float64), want, "float32")
    below = steps < all_inputs.FAR
    assert below.any()
    assert (found[below] <= 2.0 * steps[below] + 1).all() and (found[steps == 0] <= 0.5).all()


def test_all_inputs_find_the_largest_error():
    """Of a function with errors of several sizes, some of them not finite."""
    one = all_inputs.Row(functions.UNARY[0], None)
    x = all_inputs.chunk_at(0x3F800000)
    wrong = np.sqrt(x)
    wrong[[7, 11, 13]] += np.float32([3e-7, 2e-5, 1e-6])
    one.function, one.expression = lambda _: wrong, lambda m, x: m.sqrt(x)
    one.look(x)
    want = measure.errors(wrong.astype(np.float64), np.sqrt(x.astype(np.float64)), "float32")
    assert one.worst[:2] == [want.max(), [float(x[11])]]
    wrong[5] = np.nan
    one.look(x)
    assert one.worst[0] > 1e30 and one.worst[1] == [float(x[5])]
