"""The op table: one row per operation, and every property in `test_ops.py` is checked on every row.

`OP_CHAPTERS=special,bits pytest tests/ops/test_ops.py` runs the rows of some chapters only.

A row is an `Op`. The rows of a chapter live in `tests/op_rows/<chapter>.py` as a list `ROWS`; files
in that folder are found by themselves. A row of an elementwise operation is short:

    from op_table import Op, between
    ROWS = [
        Op(lax.sin, np.sin, dtypes.INEXACT, draw=between(-10, 10), ulps=2),
        Op(lax.add, np.add, dtypes.NUMERIC, arity=2),
    ]

A row of any other operation says what its operands are, one `Arg` each, and its parameters:

    Op(lax.reduce_max, reference=lambda x, axes: x.max(axes), accepts=dtypes.ORDERED,
       args=(Arg((2, 3, 4)),), params={"axes": (0, 2)}, elementwise=False)
    Op(gather, ..., args=(Arg((5, 4)), Arg((3, 1), dtype=np.int32, draw=integers(0, 4))))

`Arg.dtype` None stands for the dtype that is swept; a fixed dtype stays. Several rows of one
function take a `name` of their own ("reduce_max of a middle axis"). What the fields mean:

function    called as `function(*arrays, **params)`; any tree of arrays as result
reference   NumPy or SciPy, called as `reference(*arrays, **params)` with floating-point operands
            widened to float64 and complex128 and all others as they are. None: no value is compared
            (then `property_of` must say what is tested instead)
accepts     the swept dtypes; every one has its value tested, and all others of `dtypes.ANY` must
            raise a DTypeError (`refuses=False` turns that off)
draw        draws the operands: `draw(generator, shape, dtype)`; or per operand a tuple of these, or
            in each `Arg`. Keep away from kinks and poles by at least 0.05: see `grad_draw`
grad_draw   draws them for derivatives, where that needs a narrower domain
ulps        how far a result may be from the reference, in units in the last place of its dtype: a
            number, or a mapping from dtypes to numbers with `None` for all others. 0 is exact
floor       below this magnitude (or for complex numbers: always) errors are measured as at it
order       derivatives are checked to this order: 0, 1 or 2. Checked in float64 (and in complex128
            where accepted), in `modes`, on all inexact operands but those in `constant`
elementwise every operand may have no dimensions next to shaped ones, and the result has the shape
            of the operands. Special values (zeros, infinities, NaN) are compared for real dtypes
            unless `specials=False`
weak        "join": the result is weak where all operands are and it is a number; "strong": never;
            "first": as the first operand; None: not checked
vmap        False where the function cannot be mapped; `vmap_limit` choices of axes are tried
property_of a function of (row, dtype) that raises AssertionError, run besides the others
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.testing import exact_array

Draw = Callable[[np.random.Generator, tuple[int, ...], Any], np.ndarray]
SHAPE = (2, 3)
ROWS_FOLDER = pathlib.Path(__file__).parent.parent / "op_rows"


# ---- drawing operands --------------------------------------------------------------------------


def between(low: float, high: float) -> Draw:
    """Uniform numbers of a range; both parts of complex ones. Integers: those of the range that the
    dtype has. Booleans: both."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return generator.integers(0, 2, shape).astype(bool)
        if dtype in dtypes.INTEGER:
            limits = np.iinfo(dtype)
            least, most = max(int(np.ceil(low)), limits.min), min(int(np.floor(high)), limits.max)
            return generator.integers(least, most, shape, dtype=dtype, endpoint=True)
        value = generator.uniform(low, high, shape)
        if dtype in dtypes.COMPLEX:
            value = value + 1j * generator.uniform(low, high, shape)
        return value.astype(dtype)

    return draw


def integers(low: int, high: int) -> Draw:
    """Whole numbers from low to high, both included, in any dtype."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return generator.integers(low, high, shape, endpoint=True).astype(dtype)

    return draw


def distinct(low: float = -3, high: float = 3) -> Draw:
    """Evenly spread numbers of a range in random order, no two equal (for sorts and maxima)."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        count = int(np.prod(shape))
        if np.dtype(dtype) == np.bool_:
            return generator.integers(0, 2, shape).astype(bool)
        if np.dtype(dtype) in dtypes.INTEGER:
            return generator.permutation(count).reshape(shape).astype(dtype)
        value = generator.permutation(np.linspace(low, high, count)).reshape(shape)
        if np.dtype(dtype) in dtypes.COMPLEX:
            value = value + 1j * generator.permutation(np.linspace(low, high, count)).reshape(shape)
        return value.astype(dtype)

    return draw


def away(points: Sequence[float], distance: float, draw: Draw) -> Draw:
    """Draws as `draw` does, and moves real numbers that come too close to a point away from it."""

    def moved(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        value = draw(generator, shape, dtype)
        if value.dtype not in dtypes.FLOATING:
            return value
        wide = value.astype(np.float64)
        for point in points:
            near = np.abs(wide - point) < distance
            wide = np.where(near, point + np.where(wide < point, -distance, distance), wide)
        return wide.astype(value.dtype)

    return moved


def any_bits(generator: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Integers of the whole range of their dtype; booleans."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


# ---- rows --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Arg:
    """One operand: its shape, its dtype (None: the swept one), how drawn (None: as the row)."""

    shape: tuple[int, ...] = SHAPE
    dtype: Any = None
    draw: Draw | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Op:
    """A row of the table; see the module's docstring for the fields."""

    function: Callable[..., Any]
    reference: Callable[..., Any] | None
    accepts: frozenset[Any]
    _: dataclasses.KW_ONLY
    name: str = ""
    arity: int = 1
    args: tuple[Arg, ...] = ()
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    draw: Draw | tuple[Draw, ...] = between(-3, 3)
    grad_draw: Draw | tuple[Draw, ...] | None = None
    ulps: float | Mapping[Any, float] = 1
    floor: float = 0.0
    order: int = 2
    modes: tuple[str, ...] = ("fwd", "rev")
    constant: tuple[int, ...] = ()
    elementwise: bool = True
    specials: bool = True
    weak: str | None = "join"
    refuses: bool = True
    vmap: bool = True
    vmap_limit: int = 12
    property_of: Callable[[Op, Any], None] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.function.__name__)
        if not self.args:
            object.__setattr__(self, "args", (Arg(),) * self.arity)
        if self.reference is None and self.property_of is None:
            raise TypeError(
                f"the row {self.name} compares nothing: give a reference or property_of"
            )

    @property
    def dtypes(self) -> list[Any]:
        """The accepted dtypes in a fixed order."""
        return sorted(self.accepts, key=lambda d: (d.kind, d.itemsize, d.name))

    @property
    def grad_dtypes(self) -> list[Any]:
        """The double-precision dtypes in which derivatives are checked."""
        return [d for d in (dtypes.float64, dtypes.complex128) if d in self.accepts]

    def call(self, *arrays: Any) -> Any:
        """The operation applied with the row's parameters."""
        return self.function(*arrays, **self.params)

    def dtypes_of(self, dtype: Any) -> list[Any]:
        """The dtype of each operand when `dtype` is the swept one."""
        return [np.dtype(dtype if arg.dtype is None else arg.dtype) for arg in self.args]

    def host_operands(
        self, dtype: Any, *, grad: bool = False, shapes: Sequence[Any] | None = None, seed: int = 0
    ) -> list[np.ndarray]:
        """Operands drawn for a dtype, as NumPy arrays; `shapes` replaces those of the row."""
        generator = np.random.default_rng([seed, *self.name.encode()])
        draws = self.grad_draw if grad and self.grad_draw is not None else self.draw
        each = draws if isinstance(draws, tuple) else (draws,) * len(self.args)
        found = [arg.shape for arg in self.args] if shapes is None else shapes
        return [
            (draw if arg.draw is None else arg.draw)(generator, tuple(shape), of)
            for arg, draw, shape, of in zip(
                self.args, each, found, self.dtypes_of(dtype), strict=True
            )
        ]

    def operands(self, dtype: Any, **options: Any) -> list[Any]:
        """Operands drawn for a dtype, as arrays."""
        return [exact_array(x) for x in self.host_operands(dtype, **options)]

    def ulps_of(self, dtype: Any) -> float:
        """The bound for results of a dtype."""
        if isinstance(self.ulps, Mapping):
            return self.ulps.get(np.dtype(dtype), self.ulps[None])
        return self.ulps


def rows() -> list[Op]:
    """The rows of all chapters (or of those that the variable OP_CHAPTERS names, with commas).

    Raises ValueError where two rows have one name.
    """
    found: dict[str, Op] = {}
    chosen = os.environ.get("OP_CHAPTERS")
    for path in sorted(ROWS_FOLDER.glob("[a-z]*.py")):
        if chosen and path.stem not in chosen.split(","):
            continue
        for row in importlib.import_module(f"op_rows.{path.stem}").ROWS:
            if row.name in found:
                raise ValueError(f"two rows of the op table are called {row.name!r}")
            found[row.name] = row
    return list(found.values())


def by_kind(real: float, complex_: float) -> dict[Any, float]:
    """A bound in ulps for real dtypes and one for complex ones."""
    return {None: real, dtypes.complex64: complex_, dtypes.complex128: complex_}


# ---- comparing with a reference ----------------------------------------------------------------


def widened(value: np.ndarray) -> np.ndarray:
    """A NumPy array in double precision, where it is floating-point or complex."""
    if value.dtype in dtypes.COMPLEX:
        return value.astype(np.complex128)
    return value.astype(np.float64) if value.dtype in dtypes.FLOATING else value


def spacing(magnitude: np.ndarray, dtype: Any) -> np.ndarray:
    """The distance between neighbours of the given size in a floating-point dtype, in double."""
    info = dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(magnitude, float(info.smallest_normal))))
    return np.exp2(exponent) * float(info.eps)


def assert_within_ulps(got: Any, want: Any, ulps: float, floor: float = 0.0) -> None:
    """Raises AssertionError unless `got` is within so many units in the last place of `want`.

    `want` has double precision; NaN and infinities must be where they are in `want` rounded to the
    dtype of `got`, and integers and booleans must be equal.
    """
    got, want = np.asarray(got), np.asarray(want)
    dtype = got.dtype
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    if dtype not in dtypes.INEXACT:
        np.testing.assert_array_equal(got, want)
        return
    got = widened(got)
    with np.errstate(over="ignore"):
        rounded = widened(want.astype(dtype))
    finite = np.isfinite(got) & np.isfinite(rounded)
    if dtype in dtypes.COMPLEX:
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(rounded))
    else:
        np.testing.assert_array_equal(got[~finite], rounded[~finite])
    want = np.where(finite, want, 0)
    unit = spacing(np.maximum(np.abs(want), floor), dtype)
    worst = np.max(np.abs(np.where(finite, got, 0) - want) / unit, initial=0.0)
    assert worst <= ulps, f"{worst:.3g} ulps from the reference, {ulps} allowed"
