"""Bad input gets a typed error that names the operation, says what was wrong, and changes nothing.

A row of the table is a call, the class of the error, phrases that its text must hold, and (where
the error suggests a fix) a call with that fix applied, which must run.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.errors import (
    AxisError,
    DTypeError,
    MissingRuleError,
    ShapeError,
    TreeError,
    WeftError,
    WeftIndexError,
    WeftTypeError,
    WeftValueError,
)

A3 = np.ones(3, np.float32)
A4 = np.ones(4, np.float32)
M23 = np.ones((2, 3), np.float32)
I3 = np.arange(3, dtype=np.int32)


@dataclasses.dataclass
class Row:
    call: Callable[[], Any]
    error: type[BaseException]
    phrases: tuple[str, ...]
    fixed: Callable[[], Any] | None = None


def row(call, error, *phrases, fixed=None):
    return Row(call, error, phrases, fixed)


def scalar_loss(x):
    return jnp.sum(x * x)


TABLE = {
    # ---- shapes and dtypes of operations ----
    "add of two shapes": row(lambda: lax.add(A3, A4), ShapeError, "add", r"f32\[3\]", r"f32\[4\]"),
    "add of shapes that would broadcast": row(
        lambda: lax.add(M23, A3), ShapeError, "add", "one shape", fixed=lambda: jnp.add(M23, A3)
    ),
    "sine of text": row(lambda: lax.sin("text"), TypeError, "str"),
    "sine of nothing": row(lambda: lax.sin(None), TypeError, "None"),
    "sine of an object array": row(lambda: lax.sin(np.array([None])), TypeError, "object"),
    "transpose with a wrong permutation": row(
        lambda: lax.transpose(M23, (0, 0)), WeftError, "transpose"
    ),
    "sum over an axis out of range": row(
        lambda: jnp.sum(M23, axis=2), AxisError, "axis 2", fixed=lambda: jnp.sum(M23, axis=1)
    ),
    "sum over an axis twice": row(lambda: jnp.sum(M23, axis=(0, 0)), ValueError, "0"),
    "broadcast to a shape that does not fit": row(
        lambda: lax.broadcast_in_dim(A3, (2, 4), (1,)), ShapeError, "broadcast_in_dim"
    ),
    "an integer that does not fit": row(
        lambda: weft.jit(lambda x: x)(2**40), OverflowError, str(2**40)
    ),
    "too many indices": row(lambda: jnp.asarray(A3)[0, 0], IndexError, ""),
    "a slice out of range": row(
        lambda: lax.slice(A3, (1,), (5,)), (ShapeError, ValueError), "slice"
    ),
    # ---- jit ----
    "jit of no function": row(lambda: weft.jit(3), WeftTypeError, "jit", "int"),
    "jit with an unknown keyword": row(
        lambda: weft.jit(scalar_loss, static_argnum=0), TypeError, "static_argnum"
    ),
    "an argument that is text": row(
        lambda: weft.jit(lambda mode, x: x)("fast", 1.0),
        WeftTypeError,
        "mode is no array",
        "'fast'",
        fixed=lambda: weft.jit(lambda mode, x: x, static_argnums=0)("fast", 1.0),
    ),
    "an argument deep in a tree": row(
        lambda: weft.jit(lambda p: 1.0)({"layers": [{"act": "relu"}]}),
        WeftTypeError,
        r"p\['layers'\]\[0\]\['act'\]",
    ),
    "an object as an argument": row(
        lambda: weft.jit(lambda x: x)(object()), WeftTypeError, "x is no array", "object"
    ),
    "a static argument that is a list": row(
        lambda: weft.jit(lambda x, s: x, static_argnums=1)(1.0, [1, 2]),
        WeftValueError,
        "argument 1",
        "hashed",
        "list",
        fixed=lambda: weft.jit(lambda x, s: x, static_argnums=1)(1.0, (1, 2)),
    ),
    "a static name that does not exist": row(
        lambda: weft.jit(lambda x: x, static_argnames="n"), WeftValueError, "static_argnames", "'n'"
    ),
    "a static number that does not exist": row(
        lambda: weft.jit(lambda x: x, static_argnums=1), WeftValueError, "static_argnums", "1"
    ),
    "a missing argument": row(lambda: weft.jit(lambda x, y: x)(1.0), TypeError, "'y'"),
    "an argument too many": row(lambda: weft.jit(lambda x: x)(1.0, 2.0), TypeError, "positional"),
    "an unknown keyword of the function": row(
        lambda: weft.jit(lambda x: x)(1.0, k=2.0), TypeError, "'k'"
    ),
    "a result that is text": row(
        lambda: weft.jit(lambda x: (x, {"a": "text"}))(1.0),
        WeftTypeError,
        "jit",
        r"\[1\]\['a'\]",
        "text",
    ),
    "make_jaxpr of a result that is no array": row(
        lambda: weft.make_jaxpr(lambda: object())(), WeftTypeError, "make_jaxpr", "no array"
    ),
    "a compiled function called with another shape": row(
        lambda: weft.jit(jnp.sin).lower(A3).compile()(A4), WeftTypeError, r"f32\[4\]", r"f32\[3\]"
    ),
    # ---- derivatives ----
    "grad of no function": row(lambda: weft.grad(3), WeftTypeError, "grad", "int"),
    "grad of text": row(lambda: weft.grad(lambda x: 1.0)("text"), WeftTypeError, "grad", "'text'"),
    "grad without the pair of has_aux": row(
        lambda: weft.grad(lambda x: x, has_aux=True)(1.0), WeftTypeError, "has_aux", "pair"
    ),
    "jvp of no function": row(lambda: weft.jvp(1, (1.0,), (1.0,)), WeftTypeError, "jvp"),
    "jvp with another structure": row(
        lambda: weft.jvp(lambda d: d["a"], ({"a": 1.0},), ({"b": 1.0},)),
        TreeError,
        "structures",
        "'b'",
    ),
    "jvp with another shape": row(
        lambda: weft.jvp(jnp.sin, (A3,), (A4,)), ShapeError, r"primals\[0\]", r"\(4,\)", r"\(3,\)"
    ),
    "a cotangent of another shape": row(
        lambda: weft.vjp(jnp.sin, A3)[1](A4), ShapeError, "cotangent", r"f32\[4\]"
    ),
    "a cotangent of another structure": row(
        lambda: weft.vjp(lambda x: (x, x), 1.0)[1](1.0), TreeError, "cotangent"
    ),
    "a cotangent of another dtype": row(
        lambda: weft.vjp(jnp.sin, A3)[1](I3),
        DTypeError,
        "cotangent",
        "i32",
        fixed=lambda: weft.vjp(jnp.sin, A3)[1](I3.astype(np.float32)),
    ),
    "a tangent of another structure for a linear function": row(
        lambda: weft.linearize(jnp.sin, 1.0)[1](1.0, 2.0), TreeError, "structure"
    ),
    "linear_transpose of a sine": row(
        lambda: weft.linear_transpose(jnp.sin, 1.0)(1.0), MissingRuleError, "sin", "transpose"
    ),
    # ---- vmap ----
    "vmap of no function": row(lambda: weft.vmap(3), WeftTypeError, "vmap", "int"),
    "vmap over two lengths": row(
        lambda: weft.vmap(lambda x, y: x)(A3, A4), ShapeError, "vmap", "x: 3", "y: 4"
    ),
    "in_axes of another tree": row(
        lambda: weft.vmap(lambda d: d["x"], in_axes=({"y": 0},))({"x": A3}), TreeError, "in_axes"
    ),
    "in_axes of text": row(lambda: weft.vmap(lambda x: x, in_axes="0"), WeftTypeError, "in_axes"),
    "out_axes of another tree": row(
        lambda: weft.vmap(lambda x: x, out_axes=(0, 0))(A3), TreeError, "out_axes"
    ),
    "out_axes out of range": row(
        lambda: weft.vmap(lambda x: x, out_axes=2)(A3), AxisError, "out_axes"
    ),
    # ---- cond and switch ----
    "cond without functions": row(lambda: lax.cond(True, 1, 2), WeftTypeError, "cond", "functions"),
    "switch without branches": row(lambda: lax.switch(0, []), WeftValueError, "switch"),
    # ---- settings and primitives ----
    "an unknown setting": row(lambda: weft.config.update("fast", True), AttributeError, "'fast'"),
    "a setting of the wrong kind": row(
        lambda: weft.config.update("enable_x64", 1), TypeError, "enable_x64"
    ),
    "a primitive without rules": row(
        lambda: weft.jit(weft.extend.core.Primitive("bare").bind)(1.0),
        MissingRuleError,
        "'bare'",
        "type",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_bad_input(name):
    entry = TABLE[name]
    with pytest.raises(entry.error) as info:
        entry.call()
    text = str(info.value)
    for phrase in entry.phrases:
        assert re.search(phrase, text), f"{phrase!r} not in:\n{text}"
    if isinstance(info.value, WeftError):
        assert (
            info.value.__context__ is None
            or info.value.__suppress_context__
            or (info.value.__cause__ is not None)
        ), "chained to an error of weft's own"
    # Nothing has changed: evaluation and tracing work as before.
    assert float(weft.jit(lambda x: jnp.sum(x))(A3)) == 3.0
    assert float(jnp.sum(jnp.asarray(A3))) == 3.0


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.fixed])
def test_the_fix_of_the_error_runs(name):
    TABLE[name].fixed()


@pytest.mark.parametrize(
    "name",
    [
        n
        for n, e in TABLE.items()
        if issubclass(e.error if isinstance(e.error, type) else e.error[0], WeftError)
    ],
)
def test_errors_of_weft_name_the_users_line(name):
    with pytest.raises(WeftError) as info:
        TABLE[name].call()
    assert info.value.location is not None
    assert "test_bad_input.py:" in info.value.location


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.fixed])
def test_errors_with_a_remedy_say_so(name):
    with pytest.raises(TABLE[name].error) as info:
        TABLE[name].call()
    if isinstance(info.value, WeftError) and not isinstance(
        info.value, (AxisError, WeftIndexError)
    ):
        assert info.value.fix is not None and info.value.fix.text


def test_an_error_that_the_user_handles_stays_in_sight():
    with pytest.raises(ShapeError) as info:
        try:
            raise LookupError("the user's own")
        except LookupError:
            lax.add(A3, A4)
    assert isinstance(info.value.__context__, LookupError)
    assert not info.value.__suppress_context__
