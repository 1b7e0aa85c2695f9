"""Transposition: `linear_transpose`, transposed programs, and errors for what is not linear."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from closeness import close
from weft import lax
from weft.core.check import check_jaxpr
from weft.core.jaxpr import jaxprs_in
from weft.core.rules import Zero
from weft.errors import MissingRuleError, ShapeError, TreeError, WeftTypeError
from weft.interpreters.transpose import backward_pass, transpose_jaxpr

M = np.arange(12.0, dtype=np.float32).reshape(3, 4)

LINEAR = {
    "identity": (lambda x: x, (3, 4)),
    "scale": (lambda x: x * 3.0, (3, 4)),
    "weights": (lambda x: x * M, (3, 4)),
    "sum": (lambda x: jnp.sum(x, 1), (3, 4)),
    "broadcast": (lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2)), (3, 4)),
    "transpose": (lambda x: x.T, (3, 4)),
    "reshape": (lambda x: jnp.reshape(x, (2, 6)), (3, 4)),
    "product": (lambda x: M.T @ x, (3, 4)),
    "used_twice": (lambda x: x * 2.0 - x + x * M, (3, 4)),
    "slice": (lambda x: x[1:, :2], (3, 4)),
    "jit": (weft.jit(lambda x: x * M + x), (3, 4)),
    "jit_in_jit": (weft.jit(lambda x: weft.jit(lambda y: y[0] * 2.0)(x)), (3, 4)),
    "cond": (lambda x: lax.cond(True, lambda y: y * M, lambda y: -y, x), (3, 4)),
    "vmap": (lambda x: weft.vmap(lambda row: row * jnp.arange(4.0))(x), (3, 4)),
    "jvp": (lambda x: weft.jvp(jnp.sin, (jnp.array(M),), (x,))[1], (3, 4)),
    "negative": (lambda x: -x, ()),
    "divide": (lambda x: x / 4.0, ()),
    "to_float64": (lambda x: lax.convert_element_type(x, np.float64), (2,)),
}


def matrix_of(f, shape):
    """The matrix of a linear function, column by column."""
    n = int(np.prod(shape))
    columns = [np.asarray(f(jnp.array(e.reshape(shape)))).reshape(-1) for e in np.eye(n, dtype="f")]
    return np.stack(columns, 1)


@pytest.mark.parametrize("name", LINEAR)
def test_the_transpose_is_the_transposed_matrix(name):
    f, shape = LINEAR[name]
    x = jnp.zeros(shape)
    out = weft.eval_shape(f, x)
    matrix = matrix_of(f, shape)

    def transposed(ct):
        (result,) = weft.linear_transpose(f, x)(ct)
        assert result.shape == shape and result.dtype == np.float32
        return result

    n = int(np.prod(out.shape))
    rows = []
    for e in np.eye(n, dtype=out.dtype):
        ct = jnp.array(e.reshape(out.shape), out.dtype)
        rows.append(np.asarray(transposed(ct)).reshape(-1))
        close(weft.jit(transposed)(ct), rows[-1].reshape(shape))
        close(weft.vjp(f, x)[1](ct)[0], rows[-1].reshape(shape))
    close(np.stack(rows), matrix)
    # Transposing twice gives the function back.
    probe = jnp.array(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    twice = weft.linear_transpose(transposed, jnp.zeros(out.shape, out.dtype))(probe)[0]
    close(twice, f(probe), 1e-4, 1e-4)


def test_trees_and_types_instead_of_values():
    def f(d, z):
        return [d["a"] * 2.0 + z, jnp.sum(d["b"])]

    struct = weft.ShapeDtypeStruct((3,), np.float32)
    t = weft.linear_transpose(f, {"a": struct, "b": struct}, struct)
    d, z = t([jnp.ones(3), np.float32(5.0)])
    close(d["a"], [2.0] * 3)
    close(d["b"], [5.0] * 3)
    close(z, [1.0] * 3)


def test_arguments_that_do_not_matter_have_zero_cotangents():
    ct = weft.linear_transpose(lambda x, y: x, 1.0, jnp.ones(3))(2.0)
    close(ct[0], 2.0)
    close(ct[1], np.zeros(3))


def test_cotangents_are_checked():
    t = weft.linear_transpose(lambda x: {"y": x * 2.0}, jnp.ones(3))
    with pytest.raises(TreeError, match="another structure"):
        t(jnp.ones(3))
    with pytest.raises(ShapeError, match=r"\['y'\]"):
        t({"y": jnp.ones(4)})


def square(x):
    return x * x


def quotient(x):
    return 1.0 / x


@pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])
def test_what_is_not_linear_is_an_error_that_names_the_operation_and_the_line(wrap):
    with pytest.raises(WeftTypeError, match="not linear") as info:
        weft.linear_transpose(wrap(square), jnp.ones(3))(jnp.ones(3))
    assert f"test_transpose.py:{square.__code__.co_firstlineno + 1}" in str(info.value)
    assert "mul" in str(info.value)
    with pytest.raises(MissingRuleError, match="sin"):
        weft.linear_transpose(wrap(lambda x: jnp.sin(x)), jnp.ones(3))(jnp.ones(3))
    with pytest.raises((WeftTypeError, MissingRuleError), match="div"):
        weft.linear_transpose(wrap(quotient), jnp.ones(3))(jnp.ones(3))


def test_a_transposed_program_is_typed_and_remembered():
    program = weft.jit(lambda w, x: (x * w, jnp.sum(x))).trace(jnp.ones(3), jnp.ones(3)).jaxpr.jaxpr
    transposed, nonzero = transpose_jaxpr(program, (False, True), (True, True))
    check_jaxpr(transposed)
    assert nonzero == (True,)
    assert [str(t) for t in transposed.in_types] == ["f32[3]", "f32[3]", "f32[]"]
    assert transpose_jaxpr(program, (False, True), (True, True))[0] is transposed
    partly, _ = transpose_jaxpr(program, (False, True), (False, True))
    assert [str(t) for t in partly.in_types] == ["f32[3]", "f32[]"]


def test_symbolic_zeros_stay_symbolic():
    program = weft.make_jaxpr(lambda x, y: (x * 2.0, y))(1.0, 2.0).jaxpr
    cts = [Zero(program.out_types[0]), np.float32(3.0)]
    found = backward_pass(program.eqns, program.inputs, {}, program.outputs, cts)
    assert type(found[0]) is Zero and float(found[1]) == 3.0


def test_the_transpose_of_a_jitted_function_is_one_call():
    f = weft.jit(lambda x: x * M + x)
    closed = weft.make_jaxpr(weft.linear_transpose(f, jnp.zeros((3, 4))))(jnp.ones((3, 4)))
    calls = [eqn for eqn in closed.eqns if eqn.primitive.name == "jit"]
    assert len(calls) == 1
    assert not jaxprs_in(calls[0].params)[0].num_consts
