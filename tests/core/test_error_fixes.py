"""Fixes of common mistakes: each is applied, and the program then does what was meant."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax, random
from weft.errors import (
    AxisError,
    MissingDerivativeError,
    NoMeshError,
    ShapeError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    TreeError,
    WeftError,
    WeftTypeError,
    WeftValueError,
)
from weft.sharding import P
from wrong_programs import marked


def draw(shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def refused(error, call):
    with pytest.raises(error) as caught:
        call()
    assert caught.value.fix is not None, caught.value
    return caught.value


# ---- shapes ------------------------------------------------------------------------------------

SHAPES = [(3,), (4,), (5,), (3, 4), (4, 3), (5, 6), (2, 3, 4), (2, 4, 3), (5, 4, 3), (3, 4, 5)]


def broadcasts(*shapes):
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


@pytest.mark.parametrize("function", [jnp.matmul, jnp.dot])
def test_what_a_product_suggests_is_a_product_that_exists(function):
    numpy = getattr(np, function.__name__)
    for left, right in itertools.product(SHAPES, SHAPES):
        x, y = draw(left), draw(right, 1)
        try:
            numpy(x, y)
            continue
        except ValueError:
            pass
        with pytest.raises(ShapeError) as caught:
            function(x, y)
        fix = caught.value.fix
        if fix is None:  # the dimensions before the matrices
            assert len(left) > 2 and len(right) > 2
            continue
        names = {"x": jnp.asarray(x), "y": jnp.asarray(y), "dot": jnp.dot}
        for form in fix.data["forms"]:
            assert form in fix.text
            expected = eval(form, {"x": x.view(Turned), "y": y.view(Turned), "dot": np.dot})
            np.testing.assert_array_equal(eval(form, names), expected)
        if fix.kind == "shape" and (function is jnp.dot or len(left) < 3 or len(right) < 3):
            assert str(fix.data["shape"]) in fix.text
            function(x, draw(fix.data["shape"]))


class Turned(np.ndarray):
    """A NumPy array with `mT`, which older releases lack."""

    @property
    def mT(self):
        return np.swapaxes(self, -1, -2)


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        ((3, 4), (5, 6), "pass a second operand of shape (4, 6)"),
        ((3, 4), (5,), "pass a second operand of shape (4,)"),
        ((2, 3, 4), (2, 3, 4), "write x @ y.mT or x.mT @ y"),
        ((3, 4), (3, 4), "write x @ y.T or x.T @ y"),
        ((4, 3), (4,), "write x.T @ y"),
    ],
)
def test_the_fix_of_a_product(left, right, text):
    assert refused(ShapeError, lambda: draw(left) @ jnp.asarray(draw(right))).fix.text.startswith(
        text
    )


def test_dimensions_are_inserted_only_where_that_gives_the_larger_operands_shape():
    shapes = [(2,), (3,), (2, 3), (3, 2), (4, 2, 3), (4, 3), (4, 2), (3, 3, 4), (1, 5)]
    suggested = 0
    for left, right in itertools.product(shapes, shapes):
        if broadcasts(left, right) is not None:
            continue
        with pytest.raises(ShapeError) as caught:
            jnp.ones(left) + jnp.ones(right)
        fix = caught.value.fix
        if fix is None:
            continue
        suggested += 1
        y = (left, right)[fix.data["operand"]]
        assert f"y is the {('first', 'second')[fix.data['operand']]} operand" in fix.text
        for form in fix.data["forms"]:
            inserted = eval(f"y[{form}]", {"y": np.ones(y)}).shape
            assert broadcasts(inserted, max(left, right, key=len)) == max(left, right, key=len)
    assert suggested >= 10
    for left, right in [((3,), (4,)), ((2, 3), (3, 2))]:
        with pytest.raises(ShapeError) as caught:
            jnp.ones(left) + jnp.ones(right)
        assert caught.value.fix is None
    x, y = draw((2, 3)), draw(2, 1)
    error = refused(ShapeError, lambda: jnp.asarray(x) + y)
    assert error.fix.text == "write y[:, None], where y is the second operand"
    np.testing.assert_array_equal(jnp.asarray(x) + y[:, None], x + y[:, None])


def test_arrays_that_are_stacked_or_joined():
    error = refused(ShapeError, lambda: jnp.stack([jnp.ones(3), jnp.ones(4)]))
    assert error.fix.kind == "concatenate"
    assert jnp.concatenate([jnp.ones(3), jnp.ones(4)]).shape == (7,)
    error = refused(ShapeError, lambda: jnp.stack([jnp.ones((2, 3)), jnp.ones(3)]))
    assert error.fix.kind == "broadcast"
    both = jnp.stack(jnp.broadcast_arrays(jnp.ones((2, 3)), jnp.ones(3)))
    assert both.shape == (2, 2, 3)
    error = refused(ShapeError, lambda: jnp.stack([jnp.ones(3), jnp.ones((3, 1))]))
    assert error.fix.kind == "reshape"
    assert jnp.stack([jnp.ones(3), jnp.ones((3, 1)).reshape(3)]).shape == (2, 3)
    error = refused(ShapeError, lambda: jnp.concatenate(jnp.ones(3), jnp.ones(4)))
    assert "concatenate([x, y])" in error.fix.text and isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("index", "form"),
    [(1.0, "int(i)"), (np.float32(1), "i.astype(int)"), (jnp.float32(1), "i.astype(int)")],
)
def test_an_index_that_is_no_integer(index, form):
    x = jnp.arange(3)
    error = refused(WeftTypeError, lambda: x[index])
    assert error.fix.text == f"convert it: {form}"
    assert int(x[eval(form, {"i": index})]) == 1
    with pytest.raises(WeftTypeError) as caught:
        x["a"]
    assert caught.value.fix is None


# ---- transformations ---------------------------------------------------------------------------


def test_vmap_over_an_axis_that_is_not_there():
    for f, axes, args, fixed in [
        (jnp.sin, 1, (jnp.ones(3),), {"in_axes": 0}),
        (jnp.sin, 0, (1.0,), {"in_axes": None, "axis_size": 3}),
        (jnp.add, (0, 0), (jnp.ones(3), 1.0), {"in_axes": (0, None)}),
        (jnp.add, (0, 2), (jnp.ones(3), jnp.ones((3, 3))), {"in_axes": (0, 0)}),
    ]:
        fix = refused(AxisError, lambda f=f, axes=axes, args=args: weft.vmap(f, axes)(*args)).fix
        assert ("axis_size" in fix.text) == ("axis_size" in fixed)
        weft.vmap(f, **fixed)(*args)
        entry = fixed["in_axes"]
        assert fix.data["axis"] == (entry[-1] if isinstance(entry, tuple) else entry)


def test_a_scalar_out_of_a_shard_map():
    mesh = weft.make_mesh((4,), ("d",))
    x = np.arange(8.0, dtype=np.float32)

    def run(f, out):
        return np.asarray(weft.shard_map(f, mesh=mesh, in_specs=P("d"), out_specs=out)(x))

    text = refused(ShapeError, lambda: run(lambda b: b.sum(), P("d"))).fix.text
    assert "x[None]" in text and "lax.psum(x, ('d',))" in text
    np.testing.assert_array_equal(run(lambda b: b.sum()[None], P("d")), [1, 5, 9, 13])
    assert run(lambda b: lax.psum(b.sum(), ("d",)), P()) == 28
    text = refused(AxisError, lambda: run(lambda b: b.sum(), P())).fix.text
    assert "return x[None] and mention" in text
    assert run(lambda b: lax.all_gather_invariant(b.sum(), "d"), P()).shape == (4,)


@pytest.mark.parametrize("loop", ["scan", "fori_loop", "while_loop"])
def test_a_carry_whose_shape_changes(loop):
    def run(f, init):
        if loop == "scan":
            return lax.scan(lambda c, _: (f(c), None), init, None, length=3)[0]
        if loop == "fori_loop":
            return lax.fori_loop(0, 3, lambda _, c: f(c), init)
        return lax.while_loop(lambda c: (c < 0).all(), f, init)

    for f, init, phrase in [
        (lambda c: c @ jnp.ones((3, 4)), jnp.ones((2, 3)), "return an array of shape (2, 3)"),
        (lambda c: c[:, None] * jnp.ones((3, 3)), jnp.ones(3), "return an array of shape (3,)"),
        (lambda c: c + jnp.ones(3), jnp.float32(0), "start with an array of shape (3,)"),
        (lambda c: jnp.append(c, 1.0), jnp.ones(2), ".at[i].set"),
    ]:
        error = refused(WeftTypeError, lambda f=f, init=init: run(f, init))
        assert phrase in error.fix.text, error
        assert "test_error_fixes.py" in error.got and "comes out, made by" in error.got
    assert run(lambda c: c @ jnp.ones((3, 3)), jnp.ones((2, 3))).shape == (2, 3)
    assert run(lambda c: c + jnp.ones(3), jnp.zeros(3)).shape == (3,)


def test_branches_that_differ_are_shown_with_their_lines():
    def one(x):
        return x

    def two(x):
        return jnp.stack([x, x])

    def pair(x):
        return x, x

    for f in (two, pair):
        error = refused(WeftTypeError, lambda f=f: lax.cond(True, one, f, 1.0))
        for branch in (one, f):
            code = branch.__code__
            line = f"{branch.__name__} at {code.co_filename}:{code.co_firstlineno}"
            assert line in error.got
    assert isinstance(error, TreeError)


def test_arithmetic_on_random_keys():
    key = random.key(0)
    for call in (lambda: key + 1, lambda: key * key, lambda: jnp.sin(key), lambda: key < 1.0):
        error = refused(WeftTypeError, call)
        assert "weft.random.normal(key)" in error.fix.text and "astype" not in error.fix.text
    assert (random.normal(key) + 1).shape == () and (random.key_data(key) + 1).shape == (2,)


# ---- traced values -----------------------------------------------------------------------------


def branch(x):
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("call", "error", "got"),
    [
        (
            lambda: weft.jit(lambda x, n: jnp.zeros(n))(1.0, 3),  # here
            TracerIntegerConversionError,
            r"the argument n, given at .*\d+",
        ),
        (
            lambda: weft.jit(lambda p: branch(p["a"] + p["b"]))({"a": 1.0, "b": 2.0, "c": 3.0}),
            TracerBoolConversionError,
            r"a value made at .* in branch, from the arguments p\['a'\], p\['b'\]",
        ),
        (
            lambda: lax.scan(lambda c, x: (branch(c), x), 1.0, jnp.ones(3)),
            TracerBoolConversionError,
            "from the argument c$",
        ),
        (
            lambda: weft.jit(weft.grad(lambda x: branch(x)))(1.0),
            TracerBoolConversionError,
            "from the argument x$",
        ),
        (lambda: weft.jit(lambda x: x[x > 0])(jnp.ones(3)), WeftError, "from the argument x$"),
        (
            lambda: weft.vmap(lambda x, n: x.reshape(n))(jnp.ones(3), jnp.arange(3)),
            TracerIntegerConversionError,
            "the argument n, given at",
        ),
        (
            lambda: weft.jit(lambda n: lax.scan(lambda c, _: (c, jnp.zeros(n)), 1.0, length=3))(2),
            TracerIntegerConversionError,
            "the argument n, given at",
        ),
        (
            lambda: weft.make_jaxpr(lambda x, y: branch(y))(1.0, 2.0),
            TracerBoolConversionError,
            "from the argument y$",
        ),
    ],
)
def test_errors_of_traced_values_name_the_arguments(call, error, got):
    with pytest.raises(error) as caught:
        call()
    assert re.search(got, caught.value.got), caught.value.got
    assert caught.value._tracer is None or "vmap" in str(caught.value)


# ---- classes and texts -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "builtin", "error"),
    [
        (
            lambda: weft.grad(lambda x: lax.while_loop(lambda c: c < 9, lambda c: c * 2, x))(1.0),
            ValueError,
            WeftValueError,
        ),
        (lambda: weft.custom_vjp(lambda x: x)(1.0), AttributeError, MissingDerivativeError),
        (lambda: weft.custom_jvp(lambda x: x)(1.0), AttributeError, MissingDerivativeError),
        (lambda: weft.grad(lambda x: x, argnums=2)(1.0), TypeError, WeftTypeError),
        (lambda: weft.grad(lambda x: x, argnums="x")(1.0), TypeError, WeftTypeError),
        (lambda: weft.grad(lambda x: x, argnums=1.5)(1.0), TypeError, WeftTypeError),
        (lambda: jnp.concatenate(jnp.ones(3), jnp.ones(4)), ValueError, ShapeError),
        (lambda: lax.with_sharding_constraint(jnp.ones(4), P("d")), RuntimeError, NoMeshError),
    ],
)
def test_the_builtin_class_is_that_of_jax(call, builtin, error):
    assert isinstance(refused(error, call), builtin)


def test_what_the_message_says_is_not_said_again():
    text = str(WeftError("add: f32[3] is odd", operation="add", got="f32[3]", where="x.py:1"))
    assert text == "add: f32[3] is odd\n  at x.py:1"
    # Parts of words and of numbers say nothing.
    text = str(WeftError("adder of 13", operation="add", got=3, where="x.py:1"))
    assert "operation: add" in text and "got: 3" in text


def test_one_of_several_is_named_in_the_singular():
    error = WeftError("1 entries of 11 elements", got="1 axes, (1, 1 leaves)", where="1 values")
    assert str(error) == "1 entry of 11 elements\n  got: 1 axis, (1, 1 leaf)\n  at 1 value"
    text = str(refused(WeftTypeError, lambda: weft.grad(lambda x: x, argnums=2)(1.0)))
    assert "1 positional argument\n" in text


def test_leading_dimensions_of_matrices_are_named():
    with pytest.raises(ShapeError, match="matmul: the dimensions before the matrices do not"):
        jnp.ones((2, 3, 4)) @ jnp.ones((3, 4, 5))


def test_a_setting_that_is_not_there():
    with pytest.raises(AttributeError, match="there are: enable_x64"):
        weft.config.update("jax_nothing", True)


def test_the_marks_of_this_file_are_found():
    with pytest.raises(TracerIntegerConversionError) as caught:
        weft.jit(lambda n: jnp.zeros(n))(3)  # here
    assert marked(caught.value.got, "# here")
