"""Programs that communicate, as data: each is compared with what XLA compiles of it.

Each has inexact arguments, unless it is said to be without a gradient, so that it stands for two
programs: the forward pass, and both passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
import weft.numpy as wnp
from weft import P, lax

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A function with its arguments; `passes` are the settings of `gradient` that it is put to."""

    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    passes: tuple[bool, ...] = (False, True)


def line(count: int = 4) -> Any:
    return weft.make_mesh((count,), ("i",), devices=weft.devices()[:count])


def plane() -> Any:
    return weft.make_mesh((4, 2), ("i", "j"))


def cube() -> Any:
    return weft.make_mesh((2, 2, 2), ("i", "j", "k"))


def values(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).normal(size=shape)
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * numbers[::-1]
    return wnp.asarray((10 * numbers if np.dtype(dtype).kind in "iu" else numbers).astype(dtype))


def program(name: str, passes: tuple[bool, ...] = (False, True)) -> Callable[..., Any]:
    """Registers a function without arguments that returns a program and its arguments."""

    def register(make: Any) -> Any:
        PROGRAMS[name] = Program(make, passes)
        return make

    return register


def on_blocks(
    name: str,
    body: Callable[..., Any],
    mesh: Callable[[], Any],
    in_specs: Any,
    out_specs: Any,
    *args: Callable[[], Any],
    passes: tuple[bool, ...] = (False, True),
) -> None:
    """Registers a `shard_map` of a function of blocks."""

    def make() -> Any:
        mapped = weft.shard_map(body, mesh=mesh(), in_specs=in_specs, out_specs=out_specs)
        return mapped, tuple(one() for one in args)

    PROGRAMS[name] = Program(make, passes)


def rows(dtype: Any = np.float32) -> Callable[[], Any]:
    return lambda: values(16, 8, dtype=dtype)


# ---- every collective, over one axis -------------------------------------------------------------

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
HALVES = [[0, 1], [2, 3]]
PAIRS = [[0, 2], [1, 3]]
ROWS, WHOLE = P("i"), P()

ONE_AXIS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "psum": (lambda x: lax.psum(wnp.sin(x), "i"), P()),
    "pmean": (lambda x: lax.pmean(x * x, "i"), P()),
    "pmax": (lambda x: lax.pmax(x * x, "i"), P()),
    "pmin": (lambda x: lax.pmin(wnp.exp(x), "i"), P()),
    "ppermute": (lambda x: lax.ppermute(x * x, "i", RING), ROWS),
    "ppermute_of_some": (lambda x: lax.ppermute(x * x, "i", [(0, 2), (2, 1)]), ROWS),
    "pshuffle": (lambda x: lax.pshuffle(x * x, "i", [2, 3, 1, 0]), ROWS),
    "pswapaxes": (lambda x: lax.pswapaxes(x * x, "i", 0), ROWS),
    "all_gather": (lambda x: lax.all_gather(x * x, "i"), ROWS),
    "all_gather_tiled": (lambda x: lax.all_gather(x * x, "i", axis=1, tiled=True), ROWS),
    "all_gather_invariant": (lambda x: lax.all_gather_invariant(x * x, "i"), P()),
    "all_gather_invariant_tiled": (
        lambda x: lax.all_gather_invariant(x * x, "i", axis=1, tiled=True),
        P(),
    ),
    "psum_scatter": (lambda x: lax.psum_scatter(x * x, "i"), ROWS),
    "psum_scatter_tiled": (
        lambda x: lax.psum_scatter(x * x, "i", scatter_dimension=1, tiled=True),
        ROWS,
    ),
    "all_to_all": (lambda x: lax.all_to_all(x * x, "i", 0, 1), ROWS),
    "all_to_all_tiled": (lambda x: lax.all_to_all(x * x, "i", 1, 0, tiled=True), ROWS),
    "psum_in_groups": (lambda x: lax.psum(x * x, "i", axis_index_groups=HALVES), ROWS),
    "pmax_in_groups": (lambda x: lax.pmax(x * x, "i", axis_index_groups=PAIRS), ROWS),
    "all_gather_in_groups": (lambda x: lax.all_gather(x * x, "i", axis_index_groups=PAIRS), ROWS),
    "psum_scatter_in_groups": (
        lambda x: lax.psum_scatter(x * x, "i", axis_index_groups=HALVES, tiled=True),
        ROWS,
    ),
    "all_to_all_in_groups": (
        lambda x: lax.all_to_all(x * x, "i", 0, 0, axis_index_groups=PAIRS, tiled=True),
        ROWS,
    ),
    "pbroadcast": (lambda x: lax.pbroadcast(lax.psum(x * x, "i"), "i") * x, ROWS),
    "pbroadcast_from_a_source": (lambda x: lax.pbroadcast(x * x, "i", source=2) * x, ROWS),
    "pscatter": (lambda x: lax.pscatter(lax.psum(x * x, "i"), "i", tiled=True), ROWS),
    "pcast": (lambda x: lax.pcast(lax.psum(x * x, "i"), "i", to="varying") * x, ROWS),
}
for _name, (_body, _out) in ONE_AXIS.items():
    on_blocks(_name, _body, line, ROWS, _out, rows())

# ---- several axes --------------------------------------------------------------------------------

IJ = P("i", "j")
SEVERAL: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "psum_over_two": (lambda x: lax.psum(x * x, ("i", "j")), P()),
    "psum_over_the_second": (lambda x: lax.psum(x * x, "j"), ROWS),
    "psums_one_by_one": (lambda x: lax.psum(lax.psum(x * x, "j") ** 2, "i"), P()),
    "pmax_over_two": (lambda x: lax.pmax(x * x, ("j", "i")), P()),
    "ppermute_over_two": (
        lambda x: lax.ppermute(x * x, ("i", "j"), [(k, (k + 3) % 8) for k in range(8)]),
        IJ,
    ),
    "all_gather_over_two": (lambda x: lax.all_gather(x * x, ("i", "j"), tiled=True), IJ),
    "all_gather_then_all_gather": (
        lambda x: lax.all_gather(lax.all_gather(x * x, "i", tiled=True), "j", axis=1, tiled=True),
        IJ,
    ),
    "psum_scatter_over_two": (
        lambda x: lax.psum_scatter(
            lax.all_gather(x * x, ("i", "j"), tiled=True), ("j", "i"), tiled=True
        ),
        IJ,
    ),
    "all_to_all_over_two": (
        lambda x: lax.all_to_all(lax.all_gather(x, "i", tiled=True), ("i", "j"), 0, 1, tiled=True),
        IJ,
    ),
    "two_axes_apart": (lambda x: lax.psum(x, "i") * lax.pmean(x, "j"), IJ),
}
for _name, (_body, _out) in SEVERAL.items():
    on_blocks(_name, _body, plane, IJ, _out, rows())

IJK = P("i", "j", "k")


def three() -> Any:
    return values(4, 4, 4)


on_blocks("psum_over_three", lambda x: lax.psum(x * x, ("i", "j", "k")), cube, IJK, P(), three)
on_blocks("psum_over_outer", lambda x: lax.psum(x * x, ("i", "k")), cube, IJK, P(None, "j"), three)
on_blocks(
    "gather_and_scatter_in_a_cube",
    lambda x: lax.psum_scatter(
        lax.all_gather(x * x, "j", axis=1, tiled=True), "i", scatter_dimension=1, tiled=True
    ),
    cube,
    IJK,
    IJK,
    three,
)

# ---- dtypes --------------------------------------------------------------------------------------

on_blocks("complex_psum", lambda x: lax.psum(x * x, "i"), line, ROWS, P(), rows(np.complex64))
on_blocks(
    "complex_psum_scatter",
    lambda x: lax.psum_scatter(x * x, "i", tiled=True),
    line,
    ROWS,
    ROWS,
    rows(np.complex64),
)
on_blocks(
    "complex_all_gather", lambda x: lax.all_gather(x * x, "i"), line, ROWS, ROWS, rows(np.complex64)
)
on_blocks("float64_psum", lambda x: lax.psum(x * x, "i"), line, ROWS, P(), rows(np.float64))
on_blocks(
    "float16_moves",
    lambda x: lax.ppermute(lax.all_to_all(x * x, "i", 0, 0, tiled=True), "i", RING),
    line,
    ROWS,
    ROWS,
    rows(np.float16),
)
on_blocks(
    "int32_psum", lambda x: lax.psum(x * x, "i"), line, ROWS, P(), rows(np.int32), passes=(False,)
)
on_blocks(
    "int32_pmin", lambda x: lax.pmin(x * x, "i"), line, ROWS, P(), rows(np.int32), passes=(False,)
)
on_blocks("bool_psum", lambda x: lax.psum(x > 0, "i"), line, ROWS, P(), rows(), passes=(False,))
on_blocks(
    "uint8_all_gather",
    lambda x: lax.all_gather(x * x, "i"),
    line,
    ROWS,
    ROWS,
    rows(np.uint8),
    passes=(False,),
)


# ---- control flow --------------------------------------------------------------------------------


def scanned(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        carry = wnp.sin(lax.ppermute(carry, "i", RING))
        return carry, lax.psum(carry, "i")

    return lax.scan(step, x, None, length=7)


on_blocks("scan", scanned, line, ROWS, (ROWS, P()), rows())


def nested(x: Any) -> Any:
    def inner(carry: Any, _: Any) -> Any:
        return wnp.sin(lax.pmean(carry, "i") + carry), None

    def outer(carry: Any, _: Any) -> Any:
        carry, _ = lax.scan(inner, carry, None, length=3)
        return wnp.cos(lax.ppermute(carry, "i", RING)), None

    return lax.scan(outer, x, None, length=5)[0]


on_blocks("nested_scans", nested, line, ROWS, ROWS, rows())


def looped(x: Any) -> Any:
    return lax.fori_loop(0, 6, lambda k, c: wnp.sin(lax.ppermute(c, "i", RING)) + k, x)


on_blocks("fori_loop", looped, line, ROWS, ROWS, rows())


def choosing(x: Any) -> Any:
    largest = lax.pmax(lax.stop_gradient(wnp.max(x)), "i")
    return lax.cond(
        largest > 1, lambda x: lax.psum(wnp.sin(x), "i"), lambda x: lax.pmean(wnp.cos(x), "i"), x
    )


on_blocks("cond", choosing, line, ROWS, P(), rows())


def rematerialized(x: Any, w: Any) -> Any:
    @weft.checkpoint
    def layer(x: Any, w: Any) -> Any:
        return wnp.sin(lax.all_gather(wnp.sin(x), "i", axis=1, tiled=True) @ w)

    return lax.psum(layer(layer(x, w)[:, :8], w), "i")


on_blocks("checkpoint", rematerialized, line, (ROWS, P()), P(), rows(), lambda: values(32, 32))


def jitted_inside(x: Any, w: Any) -> Any:
    @weft.jit
    def layer(x: Any, w: Any) -> Any:
        return wnp.sin(lax.psum(x @ w, "i"))

    return layer(layer(x, w) + x, w)


on_blocks("jit_inside", jitted_inside, line, (ROWS, P()), P(), rows(), lambda: values(8, 8))


@weft.custom_vjp
def averaged_gradient(x: Any) -> Any:
    return x * 1.0


averaged_gradient.defvjp(
    lambda x: (x * 1.0, None), lambda _, ct: (lax.pbroadcast(lax.pmean(ct, "i"), "i"),)
)
on_blocks("custom_vjp", lambda x: averaged_gradient(wnp.sin(x)) * x, line, ROWS, ROWS, rows())


@weft.custom_jvp
def damped(x: Any) -> Any:
    return lax.psum(x, "i")


damped.defjvp(lambda primals, tangents: (damped(*primals), 0.5 * lax.psum(*tangents, "i")))
on_blocks("custom_jvp", lambda x: damped(wnp.sin(x)), line, ROWS, P(), rows())
on_blocks(
    "vmap_inside",
    lambda x: weft.vmap(lambda row: lax.psum(wnp.sin(row) * row, "i"))(x),
    line,
    ROWS,
    P(),
    rows(),
)


@program("vmap_outside")
def _() -> Any:
    mapped = weft.shard_map(
        lambda x: lax.all_gather(wnp.sin(x), "i", tiled=True) * lax.psum(x[0], "i"),
        mesh=line(),
        in_specs=ROWS,
        out_specs=ROWS,
    )
    return weft.vmap(mapped), (values(3, 16, 8),)


@program("vmap_with_spmd_axis_name")
def _() -> Any:
    mapped = weft.shard_map(
        lambda x: lax.psum(wnp.sin(x), "j"), mesh=plane(), in_specs=P("j"), out_specs=P()
    )
    return weft.vmap(mapped, spmd_axis_name="i"), (values(4, 16, 8),)


@program("two_shard_maps")
def _() -> Any:
    mesh = plane()
    first = weft.shard_map(
        lambda x: lax.all_gather_invariant(x * x, "j", axis=1, tiled=True),
        mesh=mesh,
        in_specs=IJ,
        out_specs=ROWS,
    )
    second = weft.shard_map(
        lambda x: lax.psum(wnp.sin(x), "i"), mesh=mesh, in_specs=ROWS, out_specs=P()
    )
    return lambda x: second(first(x)), (values(16, 8),)


@program("axes_of_length_one")
def _() -> Any:
    mesh = weft.make_mesh((4, 1), ("i", "j"), devices=weft.devices()[:4])

    def body(x: Any) -> Any:
        x = lax.psum(lax.pbroadcast(wnp.sin(x), "j"), "j")
        return lax.all_gather(x, ("i", "j"), tiled=True)

    return weft.shard_map(body, mesh=mesh, in_specs=ROWS, out_specs=IJ), (values(16, 8),)


@program("dead_collectives")
def _() -> Any:
    def body(x: Any) -> Any:
        unused, used = weft.jit(lambda x: (lax.psum(x, "i"), lax.pmean(x * x, "i")))(x)
        lax.all_gather(x, "i")
        return used

    return weft.shard_map(body, mesh=line(), in_specs=ROWS, out_specs=P()), (values(16, 8),)


@program("already_a_gradient", passes=(False,))
def _() -> Any:
    loss = weft.shard_map(
        lambda w, x: lax.psum(wnp.sum(wnp.sin(x @ w)), "i"),
        mesh=line(),
        in_specs=(P(), ROWS),
        out_specs=P(),
    )
    return weft.grad(loss), (values(8, 4), values(16, 8))


@program("hessian", passes=(False,))
def _() -> Any:
    loss = weft.shard_map(
        lambda w, x: lax.psum(wnp.sum(wnp.sin(x @ w)), "i"),
        mesh=line(),
        in_specs=(P(), ROWS),
        out_specs=P(),
    )
    return weft.hessian(loss), (values(8), values(16, 8))


@program("forward_mode", passes=(False,))
def _() -> Any:
    mapped = weft.shard_map(
        lambda x: lax.pmax(wnp.sin(x), "i"), mesh=line(), in_specs=ROWS, out_specs=P()
    )
    return lambda x, t: weft.jvp(mapped, (x,), (t,)), (values(16, 8), values(16, 8, seed=1))
