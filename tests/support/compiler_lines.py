"""Draws the lines of random programs for the compiler: a function for each kind of operation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from bounded_values import BOOL
from compiler_inputs import DEVICES, Input

__all__ = ["IN_BLOCKS", "LINES", "MOST_ELEMENTS", "Draw", "NoValue"]

MOST_ELEMENTS = 300_000
CONSTANTS = ["jnp.nan", "jnp.inf", "-jnp.inf", "0.0", "-0.0", "0.5", "2.0", "-1.0", "3.0"]
CONSTANTS += ["1e10", "1e-30"]


class NoValue(Exception):
    """No value so far is one that a line can be about."""


class Draw:
    """The state of drawing one program: random numbers, and the values so far with their types."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.types: dict[str, Any] = {}
        self.inputs: list[tuple[str, Input]] = []
        self.lines: list[tuple[str, str]] = []
        self.read: set[str] = set()

    # ---- choices ----

    def one(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def value(self, least_rank: int = 0, kinds: str = "fiubcV") -> str:
        """A value so far: the last one more often. Raises NoValue where none fits."""
        fit = [
            name
            for name, type in self.types.items()
            if len(type.shape) >= least_rank and np.dtype(type.dtype).kind in kinds
        ]
        if not fit:
            raise NoValue
        return fit[-1] if self.chance(0.6) else self.rng.choice(fit)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.types[name].shape)

    def axis(self, name: str) -> int:
        return self.number(0, len(self.shape(name)) - 1)

    def axes(self, name: str) -> Any:
        rank = len(self.shape(name))
        if rank == 1 or self.chance(0.5):
            return self.axis(name)
        return tuple(sorted(self.rng.sample(range(rank), self.number(1, rank))))

    def start(self, length: int) -> str:
        """An index that may be out of range, as a number or as a value that a program computes."""
        whole = [n for n, t in self.types.items() if t.shape and np.dtype(t.dtype) == np.int32]
        if whole and self.chance(0.5):
            name = self.rng.choice(whole)
            at = ", ".join(str(self.number(0, n - 1)) for n in self.shape(name))
            return f"{name}[{at}]"
        return str(self.number(-3, length + 3))

    def constant(self) -> str:
        return self.rng.choice(CONSTANTS)

    def partner(self, name: str) -> str:
        """An operand for a value: one of its shape, one that is broadcast, or a number."""
        shape, dtype = self.shape(name), self.types[name].dtype
        fit = [
            n
            for n, t in self.types.items()
            if t.dtype == dtype and _broadcasts(tuple(t.shape), shape) and n != name
        ]
        if fit and self.chance(0.75):
            return self.rng.choice(fit)
        if np.dtype(dtype).kind in "fVc":
            return self.constant()
        return name if dtype == BOOL else str(self.number(1, 3))

    # ---- the program ----

    def add_input(
        self, shape: tuple[int, ...], dtype: str, kind: str, split: int | None, blocks: bool
    ) -> None:
        name = f"v{len(self.types)}"
        self.inputs.append((name, Input(kind, shape, dtype, self.number(0, 2**31), split)))
        block = list(shape)
        if split is not None and blocks:
            block[split] //= DEVICES
        self.types[name] = weft.ShapeDtypeStruct(tuple(block), jnp.dtype(dtype))

    def add_line(self, expression: str, types: Callable[[str], Any]) -> None:
        """Appends a line if it makes an array of a moderate size."""
        try:
            found = types(expression)
        except (weft.errors.WeftError, ValueError, TypeError, IndexError, OverflowError):
            return
        if not isinstance(found, list):
            found = [found]
        if len(found) != 1 or prod(found[0].shape) > MOST_ELEMENTS or 0 in found[0].shape:
            return
        name = f"v{len(self.types)}"
        self.lines.append((name, expression))
        self.types[name] = found[0]
        self.read |= set(re.findall(r"\bv\d+\b", expression))


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    if len(small) > len(large):
        return False
    tail = large[len(large) - len(small) :]
    return all(a in (1, b) for a, b in zip(small, tail, strict=True))


# ---- lines: each function draws an expression, or None if what it found does not fit ----------


def static_slice(d: Draw) -> str | None:
    x = d.value(1)
    parts = []
    for n in d.shape(x):
        low, high = d.number(0, max(0, n // 2)), d.number(max(1, n // 2), n)
        parts.append(
            d.one(":", f"{low}:{max(high, low + 1)}", "::-1", "::2", "1:", ":-1", "-1", "None, :")
        )
    return f"{x}[{', '.join(parts)}]"


def dynamic_slice(d: Draw) -> str | None:
    x = d.value(1)
    sizes = tuple(d.one(n, d.number(1, n), max(1, n // 2)) for n in d.shape(x))
    starts = ", ".join(d.start(n) for n in d.shape(x))
    return f"lax.dynamic_slice({x}, ({starts},), {sizes})"


def dynamic_index(d: Draw) -> str | None:
    x = d.value(1)
    k = d.axis(x)
    return f"lax.dynamic_index_in_dim({x}, {d.start(d.shape(x)[k])}, {k}, keepdims={d.chance(0.5)})"


def dynamic_update(d: Draw) -> str | None:
    x = d.value(1)
    other = d.value(1)
    source = (
        other
        if d.chance(0.5)
        and d.types[other].dtype == d.types[x].dtype
        and len(d.shape(other)) == len(d.shape(x))
        else x
    )
    sizes = [d.number(1, min(n, m)) for n, m in zip(d.shape(x), d.shape(source), strict=True)]
    part = ", ".join(f":{n}" if d.chance(0.5) else f"-{n}:" for n in sizes)
    starts = ", ".join(d.start(n) for n in d.shape(x))
    return f"lax.dynamic_update_slice({x}, {source}[{part}], ({starts},))"


def shifted_update(d: Draw) -> str | None:
    """A part of an array written over another part of it."""
    x = d.value(1)
    n = d.shape(x)[0]
    k = d.number(1, max(1, min(3, n - 1)))
    verb = d.one("set", "set", "set", "add", "max", "min", "multiply")
    forms = [
        (f"{k}:", f":-{k}"),
        (f":-{k}", f"{k}:"),
        ("::-1", ":"),
        (":", "::-1"),
        ("::2", f"{n // 2}:"),
    ]
    there, here = d.one(*forms)
    if d.types[x].dtype == BOOL:
        verb = "set"
    return f"{x}.at[{there}].{verb}({x}[{here}])"


def indexed_update(d: Draw) -> str | None:
    x = d.value(1)
    n = d.shape(x)[0]
    places = [d.number(-n, n - 1) for _ in range(d.number(1, 4))]
    verb = d.one("set", "add", "max", "min", "add")
    verb = "set" if d.types[x].dtype == BOOL else verb
    at = d.one(f"jnp.array({places})", str(places[0]), f"{d.start(n)}")
    number = "1" if np.dtype(d.types[x].dtype).kind in "iub" else d.constant()
    new = d.one(f"{x}[jnp.array({places[::-1]})]", number, f"{x}[0]")
    return f"{x}.at[{at}].{verb}({new})"


def padded(d: Draw) -> str | None:
    x = d.value(1)
    if d.chance(0.3):
        widths = [(d.number(0, 2), d.number(0, 2)) for _ in d.shape(x)]
        return f"jnp.pad({x}, {widths}, mode={d.one('constant', 'edge', 'wrap', 'reflect')!r})"
    config = [(d.number(-2, 3), d.number(-2, 3), d.one(0, 0, 1, 2)) for _ in d.shape(x)]
    fill = d.one("0", "1", d.constant() if np.dtype(d.types[x].dtype).kind in "fVc" else "0")
    return f"lax.pad({x}, jnp.array({fill}, {x}.dtype), {config})"


def reshaped(d: Draw) -> str | None:
    x = d.value()
    shape = d.shape(x)
    total = prod(shape)
    options = ["(-1,)", f"(1, *{shape})", f"(*{shape}, 1)"]
    options += [f"(-1, {k})" for k in (2, 3, 4, 7, 8) if total % k == 0]
    options += [f"({k}, -1)" for k in (2, 3, 4, 7, 8) if total % k == 0]
    return f"{x}.reshape({d.one(*options)})"


def transposed(d: Draw) -> str | None:
    x = d.value(2)
    order = list(range(len(d.shape(x))))
    d.rng.shuffle(order)
    return f"jnp.transpose({x}, {tuple(order)})"


def broadcast(d: Draw) -> str | None:
    x = d.value()
    if d.chance(0.3):
        rank = len(d.shape(x)) + 1
        places = sorted(d.rng.sample(range(rank), rank - 1))
        shape = [d.one(1, 2, 3, 8)] * rank
        for place, n in zip(places, d.shape(x), strict=True):
            shape[place] = n
        return f"lax.broadcast_in_dim({x}, {tuple(shape)}, {tuple(places)})"
    return f"jnp.broadcast_to({x}, ({d.one(1, 2, 3, 7, 20)}, *{d.shape(x)}))"


def tiled(d: Draw) -> str | None:
    x = d.value(1)
    if d.chance(0.3):
        return f"jnp.repeat({x}, {d.number(2, 4)}, axis={d.axis(x)})"
    return f"jnp.tile({x}, {tuple(d.one(1, 2, 3, 20) for _ in d.shape(x))})"


def joined(d: Draw) -> str | None:
    x = d.value(1)
    k = d.axis(x)
    fit = [
        n
        for n, t in d.types.items()
        if t.dtype == d.types[x].dtype
        and len(t.shape) == len(d.shape(x))
        and all(a == b for i, (a, b) in enumerate(zip(t.shape, d.shape(x), strict=True)) if i != k)
    ]
    y = d.rng.choice(fit)
    if d.chance(0.2) and d.shape(y) == d.shape(x):
        return f"jnp.stack([{x}, {y}], axis={k})"
    return f"jnp.concatenate([{d.one(f'{x}, {y}', f'{y}, {x}', f'{x}, {y}, {x}')}], axis={k})"


def reordered(d: Draw) -> str | None:
    x = d.value(1)
    k = d.axis(x)
    n = d.shape(x)[k]
    return d.one(
        f"jnp.flip({x}, {k})",
        f"jnp.roll({x}, {d.number(-n, n)}, {k})",
        f"jnp.roll({x}, {d.start(n)}, {k})",
    )


def taken(d: Draw) -> str | None:
    x = d.value(1)
    k = d.axis(x)
    n = d.shape(x)[k]
    places = [d.number(-n - 1, n + 1) for _ in range(d.number(1, 5))]
    whole = [
        v
        for v, t in d.types.items()
        if np.dtype(t.dtype) == np.int32 and len(t.shape) == 1 and prod(t.shape) < 100
    ]
    index = d.rng.choice(whole) if whole and d.chance(0.5) else f"jnp.array({places})"
    return f"jnp.take({x}, {index}, axis={k}, mode={d.one('clip', 'fill', 'wrap')!r})"


def selected(d: Draw) -> str | None:
    x = d.value()
    if np.dtype(d.types[x].dtype).kind == "c":
        return None
    if d.chance(0.2) and len(d.shape(x)) == 2:
        return f"jnp.{d.one('tril', 'triu')}({x}, {d.number(-2, 2)})"
    y = d.partner(x)
    return d.one(
        f"jnp.where({x} > {d.partner(x)}, {x}, {y})",
        f"jnp.where({x} == {x}, {x}, {y})",
        f"jnp.where({x} < {y}, {y}, {x})",
        f"jnp.clip({x}, -1, 2)",
    )


def reduced(d: Draw) -> str | None:
    x = d.value(1)
    kind, axes = np.dtype(d.types[x].dtype).kind, d.axes(x)
    keep = f", keepdims={d.chance(0.3)}"
    names = ["sum", "sum", "max", "min", "prod", "argmax", "argmin", "mean", "any", "all", "var"]
    if kind == "c":
        names = ["sum", "mean"]
    elif kind == "b":
        names = ["any", "all", "sum", "argmax"]
    name = d.one(*names)
    if name.startswith("arg"):
        axes = axes if isinstance(axes, int) else axes[0]
    return f"jnp.{name}({x}, axis={axes}{keep})"


def extreme(d: Draw) -> str | None:
    """Reductions of all of a value, most of all of large ones."""
    x = d.value(1, "fV")
    return f"jnp.{d.one('max', 'min', 'sum', 'argmax', 'argmin')}({x})"


def product(d: Draw) -> str | None:
    x = d.value(1, "fVic")
    pairs = [
        (y, i, j)
        for y, t in d.types.items()
        if t.dtype == d.types[x].dtype
        for i, n in enumerate(d.shape(x))
        for j, m in enumerate(t.shape)
        if n == m and (prod(d.shape(x)) // n) * (prod(t.shape) // m) * n <= 4_000_000
    ]
    if not pairs:
        return None
    y, i, j = d.rng.choice(pairs)
    if len(d.shape(x)) == 2 == len(d.shape(y)) and d.chance(0.5):
        left, right = ("ki", "ik")[i], ("kj", "jk")[j]
        formula = f"{left},{right}->{d.one('ij', 'ji', 'j', 'i')}"
        return f"jnp.einsum({formula!r}, {x}, {y})"
    return f"jnp.tensordot({x}, {y}, axes=(({i},), ({j},)))"


def cumulative(d: Draw) -> str | None:
    x = d.value(1, "fVi")
    k = d.axis(x)
    name = d.one("cumsum", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
    if name == "cumlogsumexp" and np.dtype(d.types[x].dtype).kind == "i":
        name = "cummax"
    return f"lax.{name}({x}, axis={k}, reverse={d.chance(0.3)})"


def function_of(d: Draw) -> str | None:
    x = d.value(0, "fV")
    names = "exp exp exp log tanh expm1 log1p sqrt sin cos sinh cosh floor sign square abs".split()
    if d.chance(0.2):
        name = d.one(
            "weft.nn.sigmoid", "weft.nn.relu", "weft.nn.softplus", "lax.rsqrt", "lax.logistic"
        )
        return f"{name}({x})"
    return f"jnp.{d.one(*names)}({x})"


def arithmetic(d: Draw) -> str | None:
    x = d.value(0, "fViu")
    y, sign = d.partner(x), d.one("+", "-", "*", "*", "/")
    if np.dtype(d.types[x].dtype).kind in "iu" and sign == "/":
        sign = "+"
    if d.chance(0.15):
        return f"jnp.{d.one('maximum', 'minimum')}({x}, {y})"
    if np.dtype(d.types[x].dtype).kind in "iu" and d.chance(0.3):
        sign = d.one("&", "|", "^")
    return d.one(f"{x} {sign} {y}", f"{y} {sign} {x}")


def compared(d: Draw) -> str | None:
    x = d.value(0, "fViub")
    if np.dtype(d.types[x].dtype).kind in "fV" and d.chance(0.3):
        return f"jnp.{d.one('isnan', 'isfinite', 'signbit')}({x})"
    return f"{x} {d.one('==', '!=', '<', '<=', '>', '>=')} {d.partner(x)}"


def normalized(d: Draw) -> str | None:
    x = d.value(1, "fV")
    k = d.axis(x)
    return d.one(
        f"weft.nn.softmax({x}, axis={k})",
        f"weft.nn.softmax({x} * {d.constant()}, axis={k})",
        f"weft.nn.log_softmax({x}, axis={k})",
        f"weft.nn.logsumexp({x}, axis={k})",
        f"{x} / jnp.sum({x}, axis={k}, keepdims=True)",
        f"{x} - jnp.max({x}, axis={k}, keepdims=True)",
        f"{x} - jnp.mean({x}, axis={k}, keepdims=True)",
    )


def converted(d: Draw) -> str | None:
    x = d.value(0, "fViub")
    kind = np.dtype(d.types[x].dtype).kind
    wanted = ["float32", "bfloat16", "float16", "int32", "bool", "int8"]
    return f"{x}.astype({d.one(*wanted, *(['float32'] * 3 if kind != 'f' else []))!r})"


def with_nan(d: Draw) -> str | None:
    """Special values that the compiler can see."""
    x = d.value(0, "fV")
    return d.one(
        f"{x} * jnp.nan", f"({x} / 0.0) * 0.0", f"{x} + jnp.inf", f"jnp.full_like({x}, jnp.nan)",
        f"jnp.zeros_like({x})", f"jnp.zeros_like({x}).at[0].set(jnp.nan)", f"-({x} * 0.0)",
        f"jnp.where({x} > 0, {x}, jnp.nan)",
    )  # fmt: skip


def mapped(d: Draw) -> str | None:
    x = d.value(1, "fV")
    return d.one(
        f"weft.vmap(lambda r: jnp.sum(r) * r)({x})",
        f"weft.vmap(lambda r: r - jnp.max(r))({x})",
        f"weft.vmap(lambda r: lax.dynamic_index_in_dim({x}, jnp.argmax(r), 0))({x})",
        f"weft.vmap(lambda r: jnp.roll(r, 1))({x})" if len(d.shape(x)) > 1 else f"jnp.roll({x}, 1)",
    )


def looped(d: Draw) -> str | None:
    x = d.value(1, "fV")
    if d.shape(x)[0] > 16:
        return None
    n = d.shape(x)[0]
    return d.one(
        f"lax.scan(lambda c, r: (c + r, c * r), {x}[0], {x})[1]",
        f"lax.scan(lambda c, r: (jnp.maximum(c, r), c), {x}[0], {x}, reverse=True)[1]",
        f"lax.fori_loop(0, {min(n, 4)}, lambda i, c: c.at[i].set(c[{n - 1} - i]), {x})",
        f"lax.fori_loop(0, 3, lambda i, c: c.at[1:].set(c[:-1]), {x})",
        f"lax.cond(jnp.sum({x}) > 0, lambda c: c[::-1], lambda c: c * 2, {x})",
    )


def varied(d: Draw) -> str | None:
    """An earlier line with another number in it."""
    if not d.lines:
        return None
    _, expression = d.rng.choice(d.lines)
    places = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", expression))
    if not places:
        return expression
    place = d.rng.choice(places)
    number = max(0, int(place.group()) + d.one(-2, -1, 1, 2))
    return f"{expression[: place.start()]}{number}{expression[place.end() :]}"


def sorted_(d: Draw) -> str | None:
    x = d.value(1, "fVi")
    return f"jnp.{d.one('sort', 'argsort')}({x}, axis={d.axis(x)})"


def of_complex(d: Draw) -> str | None:
    x = d.value(0, "c")
    return d.one(
        f"{x} * {d.partner(x)}",
        f"{x} + {d.partner(x)}",
        f"jnp.abs({x})",
        f"jnp.real({x})",
        f"jnp.imag({x})",
        f"jnp.conj({x})",
        f"-{x}",
    )


def communicated(d: Draw) -> str | None:
    """Collectives, in programs of blocks."""
    x = d.value(1, "fVi")
    k = d.number(1, DEVICES - 1)
    ring = f"[(j, (j + {k}) % {DEVICES}) for j in range({DEVICES})]"
    return d.one(
        f"lax.psum({x}, 'i')", f"lax.pmax({x}, 'i')", f"lax.pmin({x}, 'i')",
        f"lax.ppermute({x}, 'i', {ring})", f"lax.ppermute({x}, 'i', [(0, {k})])",
        f"lax.all_gather({x}, 'i', axis={d.axis(x)}, tiled=True)",
        f"{x} * lax.axis_index('i').astype({x}.dtype)",
        f"jnp.roll({x}, lax.axis_index('i'), 0)",
    )  # fmt: skip


# Lines, and how often each is drawn.
LINES: dict[Callable[[Draw], str | None], int] = {
    static_slice: 6, dynamic_slice: 8, dynamic_index: 4, dynamic_update: 5, shifted_update: 6,
    indexed_update: 4, padded: 6, reshaped: 6, transposed: 4, broadcast: 4, tiled: 5, joined: 5,
    reordered: 6, taken: 4, selected: 5, reduced: 10, extreme: 4, product: 7, cumulative: 4,
    function_of: 8, arithmetic: 9, compared: 2, normalized: 4, converted: 3, with_nan: 4,
    mapped: 2, looped: 2, sorted_: 1, of_complex: 1, varied: 6,
}  # fmt: skip
IN_BLOCKS = LINES | {communicated: 30}
