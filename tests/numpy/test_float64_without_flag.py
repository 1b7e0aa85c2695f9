"""float64 without `enable_x64`: 64-bit values that a user gives are exact beside float64, or one
warning names the value that was rounded, the line and the way out.

Results are compared with NumPy in float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from valid_calls import Valid, valid_calls
from weft import lax
from weft.arrays import conversion

THIRD = 1 / 3
B = np.array([THIRD])
EXACT = np.array([0.5])


@pytest.fixture(autouse=True)
def without_flag(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(conversion, "_warned", set())
    with weft.enable_x64(False):
        yield


def x64() -> Any:
    return jnp.array([THIRD], "float64")


def add(x: Any, b: Any) -> Any:
    return x + b


def check(out: Any, want: Any) -> None:
    assert np.asarray(out).dtype == np.float64
    np.testing.assert_allclose(np.asarray(out), want, rtol=4e-16)


# Calls of `x + b` with the float64 array and the 64-bit value among the arguments.
BESIDE: dict[str, Callable[[Any, Any], Any]] = {
    "eager": add,
    "jit": lambda x, b: weft.jit(add)(x, b),
    "jit of a tree": lambda x, b: weft.jit(lambda d: d["x"] + d["b"])({"x": x, "b": b}),
    "jit by name": lambda x, b: weft.jit(add)(x=x, b=b),
    "jit, an element": lambda x, b: weft.jit(lambda x, b: x + jnp.ravel(b)[0])(x, b),
    "jit, computed": lambda x, b: weft.jit(lambda x, b: x + jnp.negative(jnp.negative(b)))(x, b),
    "jit in jit": lambda x, b: weft.jit(lambda x: weft.jit(add)(x, b))(x),
    "jit in python": lambda x, b: _under(weft.disable_jit, lambda: weft.jit(add)(x, b)),
    "lowered": lambda x, b: weft.jit(add).lower(x, b).compile()(x, b),
    "make_jaxpr": lambda x, b: weft.extend.core.jaxpr_as_fun(weft.make_jaxpr(add)(x, b))(
        x, jnp.asarray(b, "float64")
    )[0],
    "eval_shape": lambda x, b: jnp.full_like(x, 2 * THIRD, weft.eval_shape(add, x, b).dtype),
    "vmap": lambda x, b: weft.vmap(add, (0, None))(x, b),
    "jit of vmap": lambda x, b: weft.jit(weft.vmap(add, (0, None)))(x, b),
    "vmap of jit": lambda x, b: weft.vmap(weft.jit(add), (0, None))(x, b),
    "jvp": lambda x, b: weft.jvp(add, (x, b), (x, np.asarray(b, "f8")))[1],
    "vjp": lambda x, b: weft.vjp(add, x, b)[0],
    "linearize": lambda x, b: weft.linearize(add, x, b)[0],
    "value_and_grad": lambda x, b: weft.value_and_grad(lambda x, b: jnp.sum(x + b))(x, b)[0],
    "grad of both": lambda x, b: weft.grad(lambda x, b: jnp.sum(x * b) * 2, (0, 1))(x, b)[0],
    "scan": lambda x, b: lax.scan(lambda c, v: (c + v, None), b, x)[0],
    "scan, along": lambda x, b: lax.scan(lambda c, v: (c + v, None), x[0], np.ravel(b))[0],
    "map": lambda x, b: lax.map(lambda v: v[0] + v[1], (x, np.ravel(b))),
    "while": lambda x, b: lax.while_loop(
        lambda c: c[1] < 1, lambda c: (c[0] + c[2], c[1] + 1, c[2]), (x, 0, b)
    )[0],
    "fori": lambda x, b: lax.fori_loop(0, 1, lambda i, c: (c[0] + c[1], c[1]), (x, b))[0],
    "cond": lambda x, b: lax.cond(True, add, lambda x, b: x, x, b),
    "switch": lambda x, b: lax.switch(0, [add, lambda x, b: x], x, b),
    "checkpoint": lambda x, b: weft.checkpoint(add)(x, b),
    "custom_jvp": lambda x, b: weft.jit(_custom)(x, b),
    "shard_map": lambda x, b: weft.shard_map(
        add, mesh=weft.make_mesh((1,), ("i",)), in_specs=(weft.P(), weft.P()), out_specs=weft.P()
    )(x, b),
}


def _under(block: Any, call: Callable[[], Any]) -> Any:
    with block():
        return call()


@weft.custom_jvp
def _custom(x: Any, b: Any) -> Any:
    return x + b


_custom.defjvp(lambda primals, tangents: (add(*primals), add(*tangents)))


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("b", [B, THIRD, np.float64(THIRD), B.astype(">f8")], ids=lambda b: type(b))
def test_beside_float64_values_keep_their_64_bits(name: str, b: Any) -> None:
    for _ in range(2):  # A cached call takes another way.
        check(BESIDE[name](x64(), b), 2 * THIRD)


@pytest.mark.parametrize("name", ["jit", "vmap", "scan", "cond", "vjp"])
def test_complex_numbers_keep_their_bits_beside_float64(name: str) -> None:
    out = BESIDE[name](jnp.array([THIRD], "complex128"), THIRD * 1j)
    np.testing.assert_allclose(np.asarray(out), THIRD * (1 + 1j), rtol=4e-16)
    assert np.asarray(out).dtype == np.complex128


def test_without_float64_nothing_changes() -> None:
    for b in (B, THIRD, np.float64(THIRD)):
        assert weft.jit(add)(jnp.ones(1), b).dtype == np.float32
        assert weft.jit(add)(jnp.ones(1, "int32"), b).dtype == np.float32
    step = weft.jit(lambda x, b: (x + 1, b * 2))
    assert step(jnp.ones(1), B)[1].type is step(jnp.ones(1), jnp.asarray(B))[1].type
    assert step._cache_size() == 1


def test_a_cached_call_is_exact_for_other_values_and_classes() -> None:
    f = weft.jit(add)
    for b in (EXACT, B, 2 * B, THIRD, 2 * THIRD, B.astype(np.float32), jnp.asarray(B, "float64")):
        want = np.float64(THIRD) + np.asarray(b, np.float64)
        for _ in range(3):
            check(f(x64(), b), want)


# ---- what was rounded alone, and then meets float64 ----------------------------------------------


def _closing(transform: Callable[[Callable[..., Any], Any], Any]) -> Callable[[], Any]:
    x = x64()
    return lambda: transform(lambda b: x + b, B)


ROUNDED: dict[str, Callable[[], Any]] = {
    "asarray": lambda: x64() + jnp.asarray(B),
    "asarray of a number": lambda: x64() + jnp.asarray(THIRD),
    "array of a list": lambda: jnp.array([0.1]) * x64(),
    "array of a nested list": lambda: jnp.array([[0.1, 0.5]]) * x64(),
    "complex": lambda: jnp.array([0.1j]) * x64(),
    "device_put": lambda: x64() - weft.device_put(B),
    "full": lambda: x64() + jnp.full(1, THIRD),
    "linspace": lambda: x64() * jnp.linspace(0, 1, 4),
    "arange": lambda: x64() * jnp.arange(0, 1, 0.1),
    "sqrt of a number": lambda: x64() * jnp.sqrt(2.0),
    "log of a number": lambda: x64() + jnp.log(2 * jnp.pi),
    "sine of an array": lambda: x64() + jnp.sin(B),
    "concatenate": lambda: jnp.concatenate([x64(), jnp.asarray(B)]),
    "where": lambda: jnp.where(np.array([True]), x64(), jnp.asarray(B)),
    "maximum": lambda: jnp.maximum(jnp.asarray(B), x64()),
    "jit, closing": _closing(lambda f, b: weft.jit(f)(b)),
    "jit, closing, a number": _closing(lambda f, b: weft.jit(f)(THIRD)),
    "jit, closing, computed": _closing(lambda f, b: weft.jit(lambda b: f(jnp.sin(b)[::1]))(b)),
    "jit, an array": lambda: weft.jit(add)(x64(), jnp.asarray(B)),
    "jit, of numbers": lambda: weft.jit(lambda x: x * jnp.sqrt(2.0))(x64()),
    "jit, closing over": lambda: (lambda b: weft.jit(lambda x: x + b)(x64()))(jnp.asarray(B)),
    "vmap, closing": _closing(lambda f, b: weft.vmap(f)(b)),
    "jvp, closing": _closing(lambda f, b: weft.jvp(f, (b,), (b,))[0]),
    "scan, closing": _closing(lambda f, b: lax.scan(lambda c, v: (c, f(v)), 0.0, b)[1]),
    "cond, closing": _closing(lambda f, b: lax.cond(True, f, f, b)),
    "checkpoint, closing": _closing(lambda f, b: weft.checkpoint(f)(b)),
    "scan, of numbers": lambda: lax.scan(lambda c, x: (c, x * jnp.sqrt(2.0)), 0, x64())[1],
    "map, of numbers": lambda: lax.map(lambda x: x * jnp.exp(0.3), x64()),
    "fori_loop, of numbers": lambda: lax.fori_loop(0, 2, lambda i, c: c * jnp.log(3.0), x64()),
    "while_loop, of numbers": lambda: lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] * jnp.sqrt(2.0)), (0, x64())
    )[1],
    "checkpoint, of numbers": lambda: weft.checkpoint(lambda x: x * jnp.exp(0.3))(x64()),
    "cond, closing over": lambda: (lambda f: lax.cond(True, f, f, x64()))(
        lambda x: x + jnp.asarray(B)
    ),
    "scan, closing over": lambda: lax.scan(
        lambda c, _: (c * jnp.asarray(B), None), x64(), None, length=1
    )[0],
    "checkpoint, closing over": lambda: weft.checkpoint(lambda x: x * jnp.asarray(B))(x64()),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_was_rounded_is_named_once(name: str) -> None:
    with pytest.warns(UserWarning, match="rounded|computed in 32 bits") as found:
        for _ in range(3):
            out = ROUNDED[name]()
    assert np.asarray(out).dtype in (np.float64, np.complex128)
    (one,) = found
    assert one.filename == __file__
    text = str(one.message)
    assert "Fix:" in text and "float64" in text and any(d in text for d in "123456789")


# The same programs where nothing is lost, and where the user has said what is meant.
SILENT: dict[str, Callable[[], Any]] = {
    "exact values": lambda: x64() * jnp.asarray(EXACT) + jnp.array([0.25, 3.0]),
    "exact numbers": lambda: x64() * jnp.sqrt(4.0) + jnp.abs(-2.0),
    "constants": lambda: x64() * jnp.ones(1) + jnp.zeros(1) + jnp.full(1, 0.5) + jnp.eye(1)[0],
    "ranges": lambda: x64() * jnp.linspace(0, 1, 5) + jnp.arange(5.0),
    "choices": lambda: x64() * jnp.where(x64() > 0, 1.0, 0.0),
    "asked for": lambda: x64() + jnp.asarray(B, dtype="float32"),
    "asked for later": lambda: x64() + jnp.asarray(B).astype("float32"),
    "asked for in float64": lambda: x64() + jnp.asarray(B).astype("float64"),
    "a NumPy float32": lambda: x64() + B.astype(np.float32),
    "a scalar float32": lambda: x64() * jnp.float32(0.1) + np.float32(0.1),
    "computed in 32 bits": lambda: x64() + jnp.sin(jnp.ones(1)),
    "half precision": lambda: x64() + jnp.asarray([0.1], "bfloat16"),
    "jit": lambda: weft.jit(
        lambda x: x * jnp.where(x > 0, 1.0, 0.5) * jnp.ones(1) * jnp.float32(0.1) + jnp.sqrt(4.0)
    )(x64()),
    "jit, closing": lambda: (lambda x: weft.jit(lambda b: x + b)(EXACT))(x64()),
    "only 32 bits": lambda: (jnp.asarray(B) * jnp.sqrt(2.0) + B).astype("float64"),
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_where_nothing_was_lost(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.asarray(SILENT[name]()).dtype == np.float64


def test_a_later_call_with_other_values_is_looked_at_too() -> None:
    x = x64()
    f = weft.jit(lambda b: x + b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            check(f(EXACT), THIRD + 0.5)
    with pytest.warns(UserWarning, match="rounded to 32 bits"):
        f(B)


def test_with_the_flag_everything_is_exact() -> None:
    with weft.enable_x64():
        for name, call in ROUNDED.items():
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.asarray(call()).dtype in (np.float64, np.complex128), name


# ---- every function that takes several arrays ----------------------------------------------------


def _bits(x: Any) -> Any:
    """A float array of the table with digits that float32 does not hold."""
    return x.astype(np.float64) * (1 + 2.0**-30)


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == np.float32


SEVERAL = [call for call in valid_calls() if sum(map(_is_float, call.args)) > 1]


@pytest.mark.parametrize("call", SEVERAL, ids=lambda call: f"{call.module}.{call.name}")
def test_functions_of_several_arrays(call: Valid) -> None:
    places = [i for i, x in enumerate(call.args) if _is_float(x)]

    def result(wide: Any) -> list[Any]:
        args = [_bits(x) if i in places else x for i, x in enumerate(call.args)]
        args = [jnp.asarray(x, "float64") if i in wide else x for i, x in enumerate(args)]
        return weft.tree.leaves(call.function(*args, **call.kwargs))

    try:
        want = result(places)
    except weft.errors.DTypeError:
        pytest.skip("it takes no float64")
    for place in places:
        try:
            found = result([place])
        except (weft.errors.DTypeError, UserWarning):
            continue  # It says so.
        for out, wanted in zip(found, want, strict=True):
            if getattr(out, "dtype", None) == np.float64:
                scale = np.abs(np.asarray(wanted)).max(initial=1.0)
                np.testing.assert_allclose(out, wanted, rtol=1e-12, atol=1e-13 * scale)
