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
    ConcretizationError,
    DeletedArrayError,
    DTypeError,
    LeakedTracerError,
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


def leaked_value():
    box = []
    weft.jit(lambda x: box.append(x * 2) or x)(1.0)
    return box[0]


def donated_array():
    x = jnp.ones(3) + 1.0
    weft.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x


def not_linear(x):
    return x * x


def scalar_loss(x):
    return jnp.sum(x * x)


TABLE = {
    # ---- shapes and dtypes of operations ----
    "add of two shapes": row(lambda: lax.add(A3, A4), ShapeError, "add", r"f32\[3\]", r"f32\[4\]"),
    "add of shapes that would broadcast": row(
        lambda: lax.add(M23, A3), ShapeError, "add", "one shape", fixed=lambda: jnp.add(M23, A3)
    ),
    "add of two dtypes": row(
        lambda: lax.add(A3, I3), DTypeError, "add", "one dtype", fixed=lambda: jnp.add(A3, I3)
    ),
    "add of a fraction to integers": row(
        lambda: lax.add(I3, 1.5), DTypeError, "add", "1.5", fixed=lambda: jnp.add(I3, 1.5)
    ),
    "numpy add of shapes that do not broadcast": row(
        lambda: jnp.add(M23, A4), (ShapeError, ValueError), r"4"
    ),
    "operator between shapes that do not broadcast": row(
        lambda: jnp.asarray(A3) + jnp.asarray(A4), (ShapeError, ValueError), "add", "3", "4"
    ),
    "sine of integers": row(
        lambda: lax.sin(I3), DTypeError, "sin", "i32", fixed=lambda: lax.sin(I3.astype("f"))
    ),
    "negative of booleans": row(lambda: lax.neg(np.array([True])), DTypeError, "neg", "bool"),
    "sine of text": row(lambda: lax.sin("text"), TypeError, "str"),
    "sine of nothing": row(lambda: lax.sin(None), TypeError, "None"),
    "sine of an object array": row(lambda: lax.sin(np.array([None])), TypeError, "object"),
    "reshape to another size": row(
        lambda: lax.reshape(A3, (2, 2)), (ShapeError, ValueError), "reshape", "3", "2"
    ),
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
    "matrix product of shapes that do not fit": row(
        lambda: jnp.matmul(M23, A4), (ShapeError, ValueError, TypeError), "3", "4"
    ),
    "select with a predicate of numbers": row(
        lambda: lax.select(A3, A3, A3),
        DTypeError,
        "select",
        "boolean",
        fixed=lambda: lax.select(A3 != 0, A3, A3),
    ),
    "select between two shapes": row(
        lambda: lax.select(True, A3, A4),
        ShapeError,
        "select",
        fixed=lambda: jnp.where(True, A3, 1.0),
    ),
    "an integer that does not fit": row(
        lambda: weft.jit(lambda x: x)(2**40), OverflowError, str(2**40)
    ),
    "a static index out of bounds": row(
        lambda: jnp.asarray(A3)[5], IndexError, "5", "3", fixed=lambda: jnp.asarray(A3)[2]
    ),
    "a static index out of bounds while tracing": row(
        lambda: weft.jit(lambda x: x[3])(A3), IndexError, "3"
    ),
    "too many indices": row(lambda: jnp.asarray(A3)[0, 0], IndexError, ""),
    "an index of text": row(lambda: jnp.asarray(A3)["a"], (TypeError, IndexError), "str|index"),
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
    "an argument both static and donated": row(
        lambda: weft.jit(lambda x: x, static_argnums=0, donate_argnums=0),
        WeftValueError,
        "both static and donated",
        fixed=lambda: weft.jit(lambda x: x, donate_argnums=0),
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
    "a branch on a traced value": row(
        lambda: weft.jit(lambda x: 1.0 if x > 0 else 2.0)(1.0),
        ConcretizationError,
        r"bool\(\)",
        "under jit",
        fixed=lambda: weft.jit(lambda x: lax.cond(x > 0, lambda: 1.0, lambda: 2.0))(1.0),
    ),
    "a length that is traced": row(
        lambda: weft.jit(lambda n: sum(range(n)))(3),
        ConcretizationError,
        "length",
        "under jit",
        fixed=lambda: weft.jit(lambda n: sum(range(n)), static_argnums=0)(3),
    ),
    "a float of a traced value": row(
        lambda: weft.jit(lambda x: float(x))(1.0),
        ConcretizationError,
        r"float\(\)",
        fixed=lambda: weft.jit(lambda x: float(x), static_argnums=0)(1.0),
    ),
    "NumPy of a traced value": row(
        lambda: weft.jit(lambda x: np.asarray(x))(A3),
        ConcretizationError,
        "NumPy",
        fixed=lambda: weft.jit(lambda x: jnp.asarray(x))(A3),
    ),
    "a value that leaked": row(
        lambda: leaked_value() + 1.0,
        LeakedTracerError,
        "escaped from jit",
        r"test_bad_input.py:\d+",
    ),
    "an array that was donated": row(
        lambda: donated_array() + 1.0, DeletedArrayError, "donated at", r"test_bad_input.py:\d+"
    ),
    "an array donated twice": row(
        lambda: (lambda x: weft.jit(lambda a, b: (a, b), donate_argnums=(0, 1))(x, x))(
            jnp.ones(3) + 0
        ),
        WeftValueError,
        "donated",
        "twice",
    ),
    "make_jaxpr of a result that is no array": row(
        lambda: weft.make_jaxpr(lambda: object())(), WeftTypeError, "make_jaxpr", "no array"
    ),
    "a compiled function called with another shape": row(
        lambda: weft.jit(jnp.sin).lower(A3).compile()(A4), WeftTypeError, r"f32\[4\]", r"f32\[3\]"
    ),
    "a compiled function called with another tree": row(
        lambda: weft.jit(lambda x: 1.0).lower(A3).compile()((A3,)), TreeError, "structure"
    ),
    # ---- derivatives ----
    "grad of no function": row(lambda: weft.grad(3), WeftTypeError, "grad", "int"),
    "grad of a vector": row(
        lambda: weft.grad(lambda x: x * 2)(A3),
        WeftTypeError,
        "grad",
        "scalar",
        r"f32\[3\]",
        fixed=lambda: weft.grad(lambda x: jnp.sum(x * 2))(A3),
    ),
    "grad of a tuple": row(
        lambda: weft.grad(lambda x: (x, x))(1.0),
        WeftTypeError,
        "grad",
        "one scalar",
        fixed=lambda: weft.grad(lambda x: (x, x), has_aux=True)(1.0),
    ),
    "grad of an integer": row(
        lambda: weft.grad(lambda n: n * 2)(3),
        DTypeError,
        "grad",
        "argument 0",
        "i32",
        fixed=lambda: weft.grad(lambda n: n * 2)(3.0),
    ),
    "grad of an integer deep in a tree": row(
        lambda: weft.grad(lambda p: p["x"])({"x": 1.0, "n": [3]}),
        DTypeError,
        r"argument 0\['n'\]\[0\]",
        fixed=lambda: weft.grad(lambda p: p["x"], allow_int=True)({"x": 1.0, "n": [3]}),
    ),
    "grad of an integer result": row(
        lambda: weft.grad(lambda x: 3)(1.0),
        DTypeError,
        "grad",
        "i32",
        fixed=lambda: weft.grad(lambda x: 3.0)(1.0),
    ),
    "grad of a complex result": row(
        lambda: weft.grad(lambda z: z * z)(np.complex64(1j)),
        DTypeError,
        "grad",
        "c64",
        fixed=lambda: weft.grad(lambda z: z * z, holomorphic=True)(np.complex64(1j)),
    ),
    "grad of a real argument as holomorphic": row(
        lambda: weft.grad(lambda z: z, holomorphic=True)(1.0),
        DTypeError,
        "complex",
        fixed=lambda: weft.grad(lambda z: z, holomorphic=True)(np.complex64(1.0)),
    ),
    "grad of an argument that is not there": row(
        lambda: weft.grad(lambda x: x, argnums=1)(1.0), WeftTypeError, "argnums=1", "1 positional"
    ),
    "grad of text": row(lambda: weft.grad(lambda x: 1.0)("text"), WeftTypeError, "grad", "'text'"),
    "grad without the pair of has_aux": row(
        lambda: weft.grad(lambda x: x, has_aux=True)(1.0), WeftTypeError, "has_aux", "pair"
    ),
    "jvp of no function": row(lambda: weft.jvp(1, (1.0,), (1.0,)), WeftTypeError, "jvp"),
    "jvp without tuples": row(
        lambda: weft.jvp(jnp.sin, 1.0, 1.0),
        WeftTypeError,
        "jvp",
        "tuple",
        fixed=lambda: weft.jvp(jnp.sin, (1.0,), (1.0,)),
    ),
    "jvp with another structure": row(
        lambda: weft.jvp(lambda d: d["a"], ({"a": 1.0},), ({"b": 1.0},)),
        TreeError,
        "structures",
        "'b'",
    ),
    "jvp with another shape": row(
        lambda: weft.jvp(jnp.sin, (A3,), (A4,)), ShapeError, r"primals\[0\]", r"\(4,\)", r"\(3,\)"
    ),
    "jvp with another dtype": row(
        lambda: weft.jvp(jnp.sin, (A3,), (A3.astype(np.float16),)),
        DTypeError,
        r"primals\[0\]",
        "float16",
        fixed=lambda: weft.jvp(jnp.sin, (A3,), (A3,)),
    ),
    "jvp of an integer": row(
        lambda: weft.jvp(lambda n: n, (3,), (1,)),
        DTypeError,
        "float0",
        fixed=lambda: weft.jvp(lambda n: n, (3.0,), (1.0,)),
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
    "linear_transpose of what is not linear": row(
        lambda: weft.linear_transpose(not_linear, 1.0)(1.0),
        WeftTypeError,
        "not linear",
        "mul",
        fixed=lambda: weft.linear_transpose(weft.linearize(not_linear, 1.0)[1], 1.0)(1.0),
    ),
    "linear_transpose of a sine": row(
        lambda: weft.linear_transpose(jnp.sin, 1.0)(1.0), MissingRuleError, "sin", "transpose"
    ),
    "jacfwd of an integer": row(
        lambda: weft.jacfwd(lambda n: n)(3),
        DTypeError,
        "jacfwd",
        "i32",
        fixed=lambda: weft.jacfwd(lambda n: n)(3.0),
    ),
    "jacrev of an integer result": row(
        lambda: weft.jacrev(lambda x: I3)(1.0),
        DTypeError,
        "jacrev",
        "i32",
        fixed=lambda: weft.jacrev(lambda x: A3)(1.0),
    ),
    # ---- vmap ----
    "vmap of no function": row(lambda: weft.vmap(3), WeftTypeError, "vmap", "int"),
    "vmap over two lengths": row(
        lambda: weft.vmap(lambda x, y: x)(A3, A4), ShapeError, "vmap", "x: 3", "y: 4"
    ),
    "vmap of a scalar": row(
        lambda: weft.vmap(lambda x: x)(1.0),
        AxisError,
        "vmap",
        "x has no axis 0",
        fixed=lambda: weft.vmap(lambda x: x, in_axes=None, axis_size=2)(1.0),
    ),
    "vmap over nothing": row(
        lambda: weft.vmap(lambda x: x, in_axes=None)(A3),
        WeftValueError,
        "no argument is mapped",
        fixed=lambda: weft.vmap(lambda x: x, in_axes=None, axis_size=2)(A3),
    ),
    "in_axes of the wrong length": row(
        lambda: weft.vmap(lambda x: x, in_axes=(0, 0))(A3),
        WeftValueError,
        "in_axes",
        "1 positional",
        fixed=lambda: weft.vmap(lambda x: x, in_axes=(0,))(A3),
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
    "out_axes None for a mapped result": row(
        lambda: weft.vmap(lambda x: x, out_axes=None)(A3),
        WeftValueError,
        "out_axes",
        fixed=lambda: weft.vmap(lambda x: x, out_axes=0)(A3),
    ),
    "a mapped value in a branch": row(
        lambda: weft.vmap(lambda x: 1.0 if x > 0 else 2.0)(A3),
        ConcretizationError,
        "under vmap",
        fixed=lambda: weft.vmap(lambda x: jnp.where(x > 0, 1.0, 2.0))(A3),
    ),
    "a collective over an unknown axis": row(
        lambda: weft.vmap(lambda x: lax.psum(x, "j"), axis_name="i")(A3),
        WeftValueError,
        "'j'",
        "'i'",
        fixed=lambda: weft.vmap(lambda x: lax.psum(x, "j"), axis_name="j")(A3),
    ),
    # ---- cond and switch ----
    "cond with a vector": row(
        lambda: lax.cond(A3 > 0, lambda: 1, lambda: 2),
        WeftTypeError,
        "cond",
        r"bool\[3\]",
        fixed=lambda: lax.cond((A3 > 0).all(), lambda: 1, lambda: 2),
    ),
    "cond without functions": row(lambda: lax.cond(True, 1, 2), WeftTypeError, "cond", "functions"),
    "cond with branches of two types": row(
        lambda: lax.cond(True, lambda x: x, lambda x: I3, A3),
        WeftTypeError,
        "cond",
        "different types",
        r"f32\[3\]",
        r"i32\[3\]",
        fixed=lambda: lax.cond(True, lambda x: x, lambda x: jnp.asarray(I3, np.float32), A3),
    ),
    "cond with branches of two structures": row(
        lambda: lax.cond(True, lambda: (1, 2), lambda: {"a": 1}),
        TreeError,
        "structures",
        fixed=lambda: lax.cond(True, lambda: (1, 2), lambda: (3, 4)),
    ),
    "switch with a fraction": row(
        lambda: lax.switch(0.5, [lambda: 1, lambda: 2]),
        WeftTypeError,
        "switch",
        "integer",
        fixed=lambda: lax.switch(int(0.5), [lambda: 1, lambda: 2]),
    ),
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


def test_the_table_is_long_enough():
    assert len(TABLE) >= 60


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
