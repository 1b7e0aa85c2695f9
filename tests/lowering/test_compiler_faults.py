"""The faults of XLA in docs/compiler_faults.md: what weft makes of each program is right, and
each fault is still there, in the releases of jaxlib that are recorded here.

A fault that is gone fails `test_fault_is_where_it_is_recorded`: record the release, and drop the
mend once no supported release has the fault.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import lax, nn
from weft import numpy as jnp
from weft.runtime.backends import pjrt_executable
from weft.runtime.jaxlib.native import version

pytestmark = [pytest.mark.fast, pytest.mark.usefixtures("optimized")]

F4, F8 = np.float32, np.float64
INFINITE, NAN = np.float32(np.inf), np.float32(np.nan)
CHOSEN = (0, 1, 1, 0, 1)
random = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = F4) -> Any:
    return random.standard_normal(shape).astype(dtype)


def with_nan(*shape: int, dtype: Any = F4) -> Any:
    x = normal(*shape, dtype=dtype)
    x.reshape(-1)[x.size // 3] = np.nan
    return x


@dataclasses.dataclass(frozen=True)
class Fault:
    """A program that XLA compiles wrongly, its operands, and what it computes, by NumPy.

    `until` is the first release without the fault; None if the newest supported one has it.
    """

    name: str
    program: Callable[..., Any]
    operands: tuple[Any, ...]
    wanted: Any
    until: tuple[int, ...] | None


def fault(name: str, program: Any, until: tuple[int, ...] | None = None) -> Callable[..., Fault]:
    return lambda *operands, wanted: Fault(name, program, operands, wanted, until)


def stacked(b: Any) -> Any:
    """A stack of frames, each moved on by one."""
    out = b.copy()
    out[1:] = b[:-1]
    return out


def larger_later(x: Any) -> Any:
    """The derivative of what repeated elements become where later ones are larger."""

    def total(x: Any) -> Any:
        repeated = jnp.repeat(x, 4)
        return repeated.at[::2].max(repeated[repeated.size // 2 :]).sum()

    return weft.grad(total)(x)


def weights_of_larger(x: Any) -> Any:
    repeated, weights = np.repeat(x, 4), np.ones(4 * x.size)
    old, new = repeated[::2], repeated[2 * x.size :]
    weights[::2] = (1 + np.sign(old - new)) / 2
    weights[2 * x.size :] += (1 + np.sign(new - old)) / 2
    return weights.reshape(-1, 4).sum(1)


def faults() -> list[Fault]:
    line, table, image = with_nan(70_000), with_nan(70, 1000), with_nan(1, 28, 50, 50)
    short = with_nan(10_000, 7)
    long = with_nan(64, 8750)
    frames = np.arange(20, dtype=F4).reshape(5, 4)
    ten = np.arange(10, dtype=F4)
    huge = np.array([[3e38, -1e38, 2e37], [-2e38, 1.5e38, 0]], F4)
    wide, points, rows = normal(3, 40_003), normal(40_000, 3), normal(2, 3)
    double = normal(20_000, 3, dtype=F8)
    half = line.astype(np.float16)
    top = normal(3, 100)
    quarters, halves = (random.integers(-12, 13, n) / 4 for n in ((4096, 2), 16_384))
    quarters = quarters.astype(F4)
    many, cube, pairs = np.full(16, 2e18, F4), normal(3, 3, 1), normal(3, 1, 2)
    tall = normal(3, 1)
    large, all_nan = F4(1e12), np.full_like(top, np.nan)

    return [
        # Maximum and minimum inside the library of fused loops drop NaN.
        fault("max", jnp.max)(with_nan(4096), wanted=NAN),
        fault("min", jnp.min)(line, wanted=NAN),
        fault("max of rows", lambda x: x.max(1))(table, wanted=table.max(1)),
        fault("min of columns", lambda x: x.min(0))(table, wanted=table.min(0)),
        fault("max of short rows", lambda x: x.max(1))(short, wanted=short.max(1)),
        fault("min in half precision", jnp.min)(half, wanted=half.min()),
        fault("peak to peak", jnp.ptp)(line, wanted=NAN),
        fault("max norm", lambda x: jnp.linalg.norm(x, np.inf))(line, wanted=NAN),
        fault("maximum, summed", lambda x: jnp.maximum(x, 0).sum())(line, wanted=NAN),
        fault("sum, maximum", lambda x: jnp.maximum(x.sum(0), 0))(
            long, wanted=np.maximum(long.sum(0), 0)
        ),
        fault(
            "max pooling",
            lambda x: lax.reduce_window(x, -INFINITE, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        )(image, wanted=image.reshape(1, 28, 25, 2, 25, 2).max((3, 5))),
        # Sums of what is repeated or multiplied, behind the first 128 KiB of the result.
        fault("sum of a product", lambda x, a: (a @ x.T).sum(0), until=(0, 12))(
            points, rows, wanted=(rows @ points.T).sum(0)
        ),
        fault("sum of a product in float64", lambda x, a: (a @ x.T).sum(0), until=(0, 12))(
            double, rows.astype(F8), wanted=(rows.astype(F8) @ double.T).sum(0)
        ),
        fault("sum of a tile", lambda x: jnp.tile(x, (20, 1)).sum(0), until=(0, 12))(
            wide, wanted=20 * wide.sum(0)
        ),
        fault("sum of a small tile", lambda x: (jnp.tile(x, (20, 1)) * 2).sum(0), until=(0, 12))(
            wide[:, :20003], wanted=40 * wide[:, :20003].sum(0)
        ),
        fault(
            "sum of repeated rows",
            lambda x: jnp.broadcast_to(x[None], (20, *x.shape)).sum((0, 1)),
            until=(0, 12),
        )(wide[:, :20003], wanted=20 * wide[:, :20003].sum(0)),
        # An update in place reads what it has written.
        fault("stack of frames", lambda f: (lambda b: b.at[1:].set(b[:-1]))(f + 1)[None])(
            frames, wanted=stacked(frames + 1)[None]
        ),
        fault(
            "stack of frames, reshaped before",
            lambda f: lax.dynamic_update_slice(f[None], (f[:-1] + f[1:])[None], (0, 1, 0)),
        )(frames, wanted=np.concatenate([frames[:1], frames[:-1] + frames[1:]])[None]),
        fault(
            "part of a maximum over one",
            lambda x: (lambda b: lax.dynamic_update_slice(b, b[:2], (1,)))(jnp.max(x, 0)),
        )(frames[:1], wanted=frames[0, [0, 0, 1, 3]]),
        fault(
            "part of chosen elements",
            lambda x: (lambda b: lax.dynamic_update_slice(b, b[:2], (1,)))(x[jnp.array(CHOSEN)]),
        )(ten[:2], wanted=ten[[0, 0, 1, 0, 1]]),
        # The starts of two slices are added before they are clamped.
        fault(
            "slice of a slice",
            lambda b, i, j: lax.dynamic_slice(lax.dynamic_slice(b, (i,), (4,)), (j,), (1,)),
            until=(0, 12),
        )(ten, 9, 0, wanted=ten[6:7]),
        fault(
            "slice of a roll",
            lambda b, i, j: lax.dynamic_slice(jnp.roll(b, i), (j,), (4,)),
            until=(0, 12),
        )(ten, 3, 9, wanted=np.roll(ten, 3)[6:]),
        # A NaN that LLVM sees becomes memory that nobody has written.
        fault("exp of NaN", lambda x: jnp.exp(x * NAN), until=(0, 12))(top, wanted=all_nan),
        fault("exp of zero by zero", lambda x: jnp.exp((x / F4(0)) * F4(0)), until=(0, 12))(
            top, wanted=all_nan
        ),
        fault("exp of NaN around", lambda x: [jnp.exp(x.at[k].set(NAN)) for k in range(4)])(
            ten[:4], wanted=np.where(np.eye(4), NAN, np.exp(ten[:4]))
        ),
        # Multiplied by an inverse that is 0.
        fault("row by its maximum", lambda x: x / x.max())(huge, wanted=huge / huge.max()),
        fault("by a large number", lambda x: x / 3e38)(huge, wanted=huge / F4(3e38)),
        fault("by a large column", lambda x, y: x / y)(
            huge, huge[:, :1], wanted=huge / huge[:, :1]
        ),
        fault(
            "by a chosen number",
            lambda x, p: x / lax.select(p, jnp.full_like(x, 3e38), jnp.full_like(x, 2e38)),
        )(huge, np.bool_(True), wanted=huge / F4(3e38)),
        # A fused multiply-add does not round the product.
        fault("softmax", lambda x: nn.softmax(x * large))(
            top, wanted=(top == top.max(1)[:, None]) * F4(1)
        ),
        fault("softmax, turned", lambda x: nn.softmax(jnp.flip(x * x[::-1], 1), axis=1))(
            F4([[0, 3e9]]), wanted=F4([[1, 0]])
        ),
        # Rounded to integers of 8 bits, or not at all.
        fault("sum in 8 bits", lambda x: x.sum(1).astype("int8"))(
            quarters, wanted=quarters.sum(1).astype(np.int8)
        ),
        fault("sum of 8 bits", lambda x: x.astype("uint8").astype("float32").sum(1))(
            abs(quarters), wanted=np.floor(abs(quarters)).sum(1)
        ),
        # In another order they overflow.
        fault("by a quotient", lambda x: x / (x / x))(F4([1e20]), wanted=F4([1e20])),
        fault("quotient by a number", lambda x: x / x / x * 1e20)(F4([1e20]), wanted=F4([1])),
        fault("by two constants", lambda x: (x * 1e-30) * 1e-30 * x, until=(0, 12))(
            F4([1e35]), wanted=F4([1e10])
        ),
        fault("square of a mean", lambda x: (x.mean() ** 2) / 2e36, until=(0, 12))(
            many, wanted=F4(2)
        ),
        # Products of matrices are computed with changes of the shape.
        fault(
            "stack of products",
            lambda x: (lambda b: b.at[1:].set(b[:-1]))(jnp.tensordot(x, x, ((2,), (2,)))),
        )(cube, wanted=stacked(np.tensordot(cube, cube, ((2,), (2,))))),
        fault(
            "product of a stack",
            lambda x: jnp.tensordot(lax.dynamic_update_slice(x, x[:2], (1, 0, 0)), x, ((2,), (2,))),
        )(pairs, wanted=np.tensordot(stacked(pairs), pairs, ((2,), (2,)))),
        # A sum over one changes the shape alone, and so does the only row.
        fault("sum of a stack", lambda x: x.at[1:].set(x[:-1]).sum(1))(
            tall, wanted=stacked(tall).sum(1)
        ),
        fault(
            "row of a stack",
            lambda x, i: lax.dynamic_index_in_dim(
                lax.dynamic_update_slice(x, x[:2], (1, 0, 0)), i, 1, keepdims=False
            ),
        )(pairs, np.int32(0), wanted=stacked(pairs)[:, 0]),
        fault("sum of padded products", larger_later, until=(0, 12))(
            halves, wanted=weights_of_larger(halves)
        ),
        fault("logsumexp", lambda x: nn.logsumexp(x * large, axis=1))(
            top, wanted=(top * large).max(1)
        ),
    ]


FAULTS = {fault.name: fault for fault in faults()}
named = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())


def is_right(fault: Fault, found: Any) -> bool:
    wanted = np.asarray(fault.wanted)
    return bool(np.allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-4, equal_nan=True))


@named
def test_what_is_compiled_is_right(fault: Fault) -> None:
    f = weft.jit(fault.program)
    with weft.enable_x64():
        # Some faults are races of threads, which not every call loses.
        assert all(is_right(fault, f(*fault.operands)) for _ in range(5))


@named
def test_fault_is_where_it_is_recorded(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault.name == "exp of NaN around" and version >= (0, 12):
        pytest.skip("the memory that nobody has written may hold NaN, by chance")
    monkeypatch.setattr(
        pjrt_executable, "repair_faults", lambda module, partitions, platform: module
    )
    weft.clear_caches()
    try:
        f = weft.jit(lambda *operands: fault.program(*operands))
        with weft.enable_x64():
            right = all(is_right(fault, f(*fault.operands)) for _ in range(40))
    finally:
        weft.clear_caches()
    recorded = fault.until is None or version < fault.until
    if recorded:
        message = (
            f"jaxlib {version} compiles {fault.name!r} rightly: record it here and in the docs"
        )
    else:
        message = f"jaxlib {version} compiles {fault.name!r} wrongly again"
    assert right is not recorded, message


SEVEN_DIMENSIONS = """
import sys
import numpy as np
import weft
from weft.runtime.backends import pjrt_executable
if sys.argv[1] == "raw":
    pjrt_executable.repair_faults = lambda module, partitions, platform: module
x = np.ones((3, 1, 2, 2, 8, 8, 8), np.float32)
print(float(weft.jit(lambda a, b: (a * b).sum(3))(x, x)[0, 0, 0, 0, 0, 0]))
"""


@pytest.mark.parametrize("how", ["mended", "raw"])
def test_sum_of_seven_dimensions(how: str) -> None:
    """jaxlib 0.10.2 ends the process."""
    command = [sys.executable, "-c", SEVEN_DIMENSIONS, how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if how == "raw" and version < (0, 12):
        assert ended.returncode < 0, (
            f"jaxlib {version} compiles seven dimensions rightly: record it"
        )
    else:
        assert ended.stdout.strip() == "2.0", ended.stderr


def test_every_fault_is_on_its_page() -> None:
    page = pathlib.Path(__file__).parents[2] / "docs" / "compiler_faults.md"
    text = page.read_text(encoding="utf-8")
    assert not [name for name in FAULTS if name not in text]


# ---- their neighbours ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(63,), (4096,), (65_537,), (640, 7)])
def test_extrema_keep_nan(dtype: str, shape: tuple[int, ...]) -> None:
    """Compared with NumPy in float64, at sizes on both sides of the library's thresholds."""
    with weft.enable_x64():
        x = jnp.asarray(normal(*shape)).astype(dtype).at[(-1,) * len(shape)].set(np.nan)
        wide = np.asarray(x, np.float64)

        def program(x: Any) -> list[Any]:
            clipped = jnp.clip(x, -1, 1)
            outs = [x.max(), x.min(), x.max(0), x.min(-1), nn.relu(x), jnp.minimum(x, 0), clipped]
            sums = [nn.relu(x).sum(), jnp.minimum(x, 0).sum(0), clipped.sum(-1)]
            return [*outs, *(jnp.isnan(y) for y in sums)]

        upper, lower = np.maximum(wide, 0), np.minimum(wide, 0)
        wanted = [
            wide.max(), wide.min(), wide.max(0), wide.min(-1), upper, lower, np.clip(wide, -1, 1),
            np.isnan(upper.sum()), np.isnan(lower.sum(0)), np.isnan(wide.sum(-1)),
        ]  # fmt: skip
        for have, want in zip(weft.jit(program)(x), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(have, np.float64), want, rtol=1e-2)
        assert np.isnan([float(x.max()), float(x.min())]).all()


@pytest.mark.parametrize(
    ("place", "dtype"), [(0, "float32"), (3, "float64"), (6, "bfloat16"), (7, "float32")]
)
def test_extrema_over_devices_keep_nan(place: int, dtype: str) -> None:
    with weft.enable_x64():
        mesh = weft.make_mesh((8,), ("x",))
        parts = weft.P("x")
        x = jnp.arange(8.0).astype(dtype).at[place].set(np.nan)

        def both(x: Any) -> Any:
            return jnp.stack([lax.pmax(x, "x"), lax.pmin(x, "x")])

        over = weft.shard_map(both, mesh=mesh, in_specs=parts, out_specs=weft.P())
        assert np.isnan(np.asarray(weft.jit(over)(x), np.float32)).all()
        sharding = weft.sharding.NamedSharding(mesh, parts)
        split = weft.jit(lambda x: (x.max(), x.min()), in_shardings=sharding)
        many = jnp.zeros(8 * 600, dtype).at[place * 600].set(np.nan)
        assert np.isnan(np.asarray(split(many), np.float32)).all()


def test_extrema_over_devices_are_exact() -> None:
    mesh = weft.make_mesh((8,), ("x",))
    for values in ([-0.0, 0.0, 1, -1, 2, -3, 4, 5], [-np.inf] * 8, [np.inf, -np.inf, *range(6)]):
        x = np.array(values, F4)

        def both(x: Any) -> Any:
            return jnp.stack([lax.pmax(x, "x"), lax.pmin(x, "x")])

        over = weft.shard_map(both, mesh=mesh, in_specs=weft.P("x"), out_specs=weft.P())
        found = np.asarray(weft.jit(over)(x))[:, 0]
        np.testing.assert_array_equal(found, [x.max(), x.min()])


@pytest.mark.parametrize("seed", range(4))
def test_updates_from_themselves(seed: int) -> None:
    """Random chains of updates by parts of what is updated, between changes of its shape."""
    draw = np.random.default_rng(seed)
    steps = []
    for _ in range(3):
        low, high = sorted(draw.choice(6, 2, replace=False))
        to = int(draw.integers(0, 6 - (high - low) + 1))
        steps.append((int(draw.integers(0, 4)), int(low), int(high), to))

    def program(x: Any, module: Any) -> Any:
        for form, low, high, to in steps:
            block, place = x[low:high], slice(to, to + high - low)
            block = block[::-1] + 1 if form == 1 else block * 2 if form == 2 else block
            if module is np:
                x = x.copy()
                x[place] = block
            elif form == 3:
                x = x[None].at[:, place].set(block[None])[0]
            else:
                x = x.at[place].set(block)
        return x[None]

    for shape in ((6,), (6, 5), (6, 3, 40)):
        x = np.arange(np.prod(shape), dtype=F4).reshape(shape)
        found = weft.jit(lambda x: program(x + 1, jnp))(x)
        np.testing.assert_array_equal(np.asarray(found), program(x + 1, np))


@pytest.mark.parametrize("scale", [1.0, 1e9, -1e12, 1e20])
@pytest.mark.parametrize("shape", [(3, 10), (2, 5000)])
def test_softmax_of_products(scale: float, shape: tuple[int, ...]) -> None:
    x, by, plus = normal(*shape), F4(scale), normal(shape[1])
    z = (x * by).astype(F8)
    weights = np.exp(z - z.max(1, keepdims=True))
    total = weights.sum(1, keepdims=True)

    def program(x: Any) -> Any:
        return nn.softmax(x * by), nn.logsumexp(x * by, axis=1), nn.softmax(x * by + plus).sum(1)

    soft, logarithm, ones = weft.jit(program)(x)
    np.testing.assert_allclose(soft, weights / total, atol=1e-6)
    np.testing.assert_allclose(logarithm, (z.max(1) + np.log(total[:, 0])), rtol=1e-6)
    np.testing.assert_allclose(ones, np.ones(shape[0]), rtol=1e-5)
    gradient = weft.jit(weft.grad(lambda x: nn.softmax(x * by)[:, 0].sum()))(x)
    assert np.isfinite(np.asarray(gradient)).all()


def test_logsumexp_of_infinities() -> None:
    program = weft.jit(lambda x: nn.logsumexp(x * F4(2)))
    for values, want in (([np.inf, 5], np.inf), ([-np.inf] * 2, -np.inf), ([np.nan, 1], np.nan)):
        np.testing.assert_equal(float(program(np.array(values, F4))), want)


def test_module_without_faults_stays_the_same() -> None:
    lowered = weft.jit(lambda x: (x @ x).sum()).lower(np.ones((3, 3), F4))
    module = weft.runtime.stablehlo.parse(lowered.as_text())
    assert pjrt_executable.repair_faults(module, 1) is module


@pytest.mark.parametrize("kind", ["set", "add", "min", "multiply"])
@pytest.mark.parametrize("place", [-9, -5, 0, 4, 5, 40])
def test_an_update_of_a_roll_outside_of_it_changes_nothing(kind, place):
    combine = {"set": lambda a, b: b, "add": np.add, "min": np.minimum, "multiply": np.multiply}
    x, rows = np.arange(2, 7), np.arange(2.0, 17.0, dtype=np.float32).reshape(5, 3)

    def update(x, rows, k, i):
        rolled = [jnp.roll(v, k, 0) for v in (x, x, rows)]
        places, blocks = (i, i[None], i), (1, 1, rows[0])
        return [getattr(v.at[p], kind)(b) for v, p, b in zip(rolled, places, blocks, strict=True)]

    found = weft.jit(update)(x, rows, np.int32(2), np.int32(place))
    for out, v, block in zip(found, (x, x, rows), (1, 1, rows[0]), strict=True):
        want = np.roll(v, 2, 0)
        if -5 <= place < 5:
            want[place] = combine[kind](want[place], block)
        np.testing.assert_array_equal(np.asarray(out), want)
