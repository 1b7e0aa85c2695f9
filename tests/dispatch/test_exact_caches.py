"""No cache takes one static value for another that Python finds equal.

Values that are equal and differ (0.0 and -0.0; 1, 1.0 and True), and NaNs of both signs, go through
every function that takes numbers as static values, one after the other. Each result is that of a
process without caches, bit by bit. And no cache holds a number in its keys that equality judges.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import config, lax, nn, tree
from weft.arrays import conversion
from weft.base import program_caches
from weft.core.primitive import Primitive
from weft.dispatch.jitted import Jitted
from weft.errors import TreeError

pytestmark = pytest.mark.usefixtures("young_heap")

X = np.array([-1.5, -0.0, 0.0, 2.0, np.inf], np.float32)
ZEROS, NANS, ONES = (0.0, -0.0), (math.nan, -math.nan), (1.0, True, 1)


def x() -> Any:
    return jnp.asarray(X)


_jitted = weft.jit(lambda x, s: jnp.copysign(x, s) / (2 if s is True else 1), static_argnums=1)
_named = weft.jit(lambda x, s: jnp.copysign(x, s[0]), static_argnames="s")
_context = weft.make_user_context(5.0)
_read = weft.jit(lambda x: jnp.copysign(x, _context.value) / (2 if _context.value is True else 1))


@tree.register_dataclass
@dataclasses.dataclass
class Scaled:
    x: Any
    scale: Any = tree.static(default=None)


class Node:
    def __init__(self, x: Any, scale: Any) -> None:
        self.x, self.scale = x, scale


tree.register_node(Node, lambda n: ((n.x,), n.scale), lambda scale, xs: Node(xs[0], scale))


@weft.jit
def _of_field(t: Any) -> Any:
    scale = t.scale[0] if isinstance(t.scale, (tuple, list)) else t.scale
    return jnp.copysign(t.x, scale) / (2 if scale is True else 1)


_of_key = weft.jit(lambda d: jnp.copysign(*reversed([*d.items()][0])))


def _in_context(value: Any) -> Any:
    with _context(value):
        return _read(x())


# Functions of one number that stays static, or is a literal of a program.
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "leaky_relu": lambda s: nn.leaky_relu(x(), s),
    "elu": lambda s: nn.elu(x(), s),
    "celu": lambda s: nn.celu(x(), s),
    "squareplus": lambda s: nn.squareplus(x(), s),
    "vmap of leaky_relu": lambda s: weft.vmap(lambda x: nn.leaky_relu(x, s))(x()),
    "take": lambda s: jnp.take(x(), np.array([9, 0]), mode="fill", fill_value=s),
    "take of complex": lambda s: jnp.take(x() + 0j, 9, mode="fill", fill_value=complex(s, 0.0)),
    "get": lambda s: x().at[np.array([9, 0])].get(mode="fill", fill_value=s),
    "gather": lambda s: lax.index_take(x(), (np.array([0]),), (0,)) * s,
    "full": lambda s: jnp.full(3, s, "float32"),
    "full of no dtype": lambda s: jnp.full(3, s),
    "full_like": lambda s: jnp.full_like(x(), s),
    "lax.full": lambda s: lax.full((2,), s),
    "pad": lambda s: jnp.pad(x(), 1, constant_values=s),
    "lax.pad": lambda s: lax.pad(x(), np.float32(s), [(1, 1, 0)]),
    "asarray": jnp.asarray,
    "array": jnp.array,
    "copysign": lambda s: jnp.copysign(x(), s),
    "multiply": lambda s: x() * s,
    "power": lambda s: jnp.abs(x()) ** s,
    "where": lambda s: jnp.where(x() > 0, s, 1.5),
    "nan_to_num": lambda s: jnp.nan_to_num(x() * np.nan, nan=s),
    "interp": lambda s: jnp.interp(x(), np.array([0.0, 1.0]), np.array([3.0, 4.0]), left=s),
    "sum": lambda s: jnp.sum(x()[:0], initial=s),
    "max": lambda s: jnp.max(x()[:0], initial=s),
    "reduce": lambda s: lax.reduce(x()[:0], np.float32(s), lax.add, (0,)),
    "jit, static": lambda s: _jitted(x(), s),
    "jit, static, by name": lambda s: _named(x(), s=(s, 1)),
    "jit, literal": lambda s: weft.jit(lambda x: jnp.copysign(x, s))(x()),
    "jit, two literals": lambda s: weft.jit(
        lambda x: (jnp.copysign(x, s), jnp.copysign(x, -s), jnp.copysign(x, 0.0 * s))
    )(x()),
    "grad, literal": lambda s: weft.grad(
        lambda x: jnp.sum(jnp.copysign(x, s) * jnp.copysign(x, -s))
    )(jnp.asarray(X[:4])),
    "scan, literal": lambda s: lax.scan(lambda c, x: (c, jnp.copysign(x, s)), 0.0, x())[1],
    "cond, literal": lambda s: lax.cond(True, lambda x: jnp.copysign(x, s), lambda x: x, x()),
    "checkpoint, static": lambda s: weft.checkpoint(
        lambda x, s: jnp.copysign(x, s), static_argnums=1
    )(x(), s),
    "partial": lambda s: weft.jit(functools.partial(lambda s, x: jnp.copysign(x, s), s))(x()),
    "context": _in_context,
    "static field": lambda s: _of_field(Scaled(x(), s)),
    "static field, a tuple": lambda s: _of_field(Scaled(x(), (s, "a"))),
    "static field, a list": lambda s: _of_field(Scaled(x(), [s, "a"])),
    "data of a node": lambda s: _of_field(Node(x(), s)),
    "data of a node in a list": lambda s: weft.jit(lambda nodes: _of_field(nodes[0]))(
        [Node(x(), (s,))]
    ),
    "static field, jit inside": lambda s: weft.jit(lambda x: _of_field(Scaled(x, s)))(x()),
    "static field, vmap": lambda s: weft.vmap(lambda x: _of_field(Scaled(x, s)))(x()),
    "static field, jvp": lambda s: weft.jvp(lambda x: _of_field(Scaled(x, s)), (x(),), (x(),)),
    "static field, checkpoint": lambda s: weft.checkpoint(lambda t: _of_field(t))(Scaled(x(), s)),
    "key of a dictionary": lambda s: _of_key({s: x()}),
}


def bits(out: Any) -> list[Any]:
    """The class, dtype and bits of each result; NaNs of an operation may have any."""
    return [(np.asarray(y).dtype, np.asarray(y).tobytes()) for y in tree.leaves(out)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("values", [ZEROS, NANS, ONES], ids=["zeros", "nans", "ones"])
def test_each_value_has_the_result_of_its_own(name: str, values: tuple[Any, ...]) -> None:
    call = NUMBERS[name]
    alone = []
    for value in values:
        weft.clear_caches()
        alone.append(bits(call(value)))
    weft.clear_caches()
    # The third call of a value takes the shortest way.
    for _ in range(3):
        assert [bits(call(value)) for value in values] == alone


def test_a_nan_is_one_static_value() -> None:
    traced: list[Any] = []
    f = weft.jit(lambda x, s: (traced.append(s), x)[1], static_argnums=1)
    field = weft.jit(lambda t: (traced.append(t.scale), t.x)[1])
    for _ in range(3):
        for value in (float("nan"), (float("nan"), 1), -float("nan"), 0.0, -0.0, 1, True, 1.0):
            f(1.0, value)
            field(Scaled(1.0, value))
    assert len(traced) == 16


def test_a_compiled_program_takes_the_static_data_that_it_was_compiled_for() -> None:
    compiled = weft.jit(lambda t: jnp.copysign(t.x, t.scale)).lower(Scaled(1.0, 0.0)).compile()
    weft.export.register_pytree_node_serialization(
        Scaled,
        serialized_name="tests.Scaled",
        serialize_auxdata=lambda data: repr(data).encode(),
        deserialize_auxdata=lambda text: ast.literal_eval(text.decode()),
    )
    exported = weft.export.export(weft.jit(lambda t: jnp.copysign(t.x, t.scale)))(
        Scaled(np.float32(1.0), 0.0)
    )
    for call in (compiled, exported.call):
        assert call(Scaled(np.float32(1.0), 0.0)) == 1.0
        for other in (-0.0, 0, False):
            with pytest.raises(TreeError, match="static data") as caught:
                call(Scaled(np.float32(1.0), other))
            assert caught.value.fix is not None


def test_an_array_as_static_data_is_refused_and_spoils_no_later_call() -> None:
    f = weft.jit(lambda t: t.x * 2)
    for _ in range(2):
        with pytest.raises(TreeError, match="'scale' of the class Scaled is static, and an array"):
            f(Scaled(1.0, np.ones(3)))
        for scale in (2.0, np.float32(1), "a", [1, 2]):
            assert f(Scaled(1.0, scale)) == 2.0


def test_a_context_is_traced_once_for_each_value() -> None:
    seen: list[Any] = []
    read = weft.jit(lambda x: (seen.append(_context.value), x)[1])
    for _ in range(2):
        for value in (1, True, 1.0, 0.0, -0.0, float("nan"), (0.0,), (-0.0,), 5, 5.0):
            with _context(value):
                read(1.0)
    assert list(map(repr, seen)) == [
        "1", "True", "1.0", "0.0", "-0.0", "nan", "(0.0,)", "(-0.0,)", "5", "5.0",
    ]  # fmt: skip


# ---- the keys of all caches ----------------------------------------------------------------------


# Their keys say the class by a type, and tell zeros apart by text; NaN is never stored.
KNOWN = (conversion._scalars, conversion._plain_numbers)


def _keys() -> Iterator[tuple[Any, Any]]:
    """The keys of the caches of executables, jaxprs and settings, each with its cache."""
    for owner in list(program_caches._owners):
        if isinstance(owner, dict) and not any(owner is known for known in KNOWN):
            yield from ((owner, key) for key in owner)
        if isinstance(owner, Primitive):  # Types do not depend on the bits of numbers.
            yield from ((owner, key) for key in owner.eager_cache)
        if isinstance(owner, Jitted):
            yield from ((owner, key) for key in (*owner._calls, *owner._traces))
    yield from (("config", key) for key in config._interned)


def _numbers_in(key: Any) -> Iterator[Any]:
    if isinstance(key, (float, complex, np.inexact)):
        yield key
    elif isinstance(key, (tuple, frozenset, list)):
        for part in key:
            yield from _numbers_in(part)


def test_no_key_holds_a_number_that_equality_judges() -> None:
    weft.clear_caches()
    for call in NUMBERS.values():
        for value in (0.0, -0.0, 0.25, float("nan")):
            call(value)
            call(value)
    found = [(cache, key) for cache, key in _keys() if any(True for _ in _numbers_in(key))]
    assert not found, found[:3]
    assert sum(1 for _ in _keys()) > 100
