"""Operators, methods and properties of arrays and tracers: the functions of weft.numpy."""

from __future__ import annotations

import inspect
import operator
import pickle
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.api.jit import jit, make_jaxpr
from weft.arrays.array import Array
from weft.core.operators import ArrayOperators, implementations
from weft.core.trace import Tracer
from weft.errors import ShapeError
from weft.testing import exact_array

X = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]], np.float32)
I = np.array([[5, 2, 7], [1, 9, 4]], np.int32)  # noqa: E741  (a matrix of integers)

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary_operators(function):
    x, y = np.abs(X) + 1, np.float32(2.0)
    expected = function(x, y), function(y, x)
    for a, b in ((jnp.asarray(x), 2.0), (jnp.asarray(x), y), (jnp.asarray(x), jnp.asarray(y))):
        np.testing.assert_allclose(np.asarray(function(a, b)), expected[0], rtol=1e-6)
        np.testing.assert_allclose(np.asarray(function(b, a)), expected[1], rtol=1e-6)
        np.testing.assert_allclose(np.asarray(jit(function)(a, b)), expected[0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(function(x, jnp.asarray(y))), expected[0], rtol=1e-6)


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_bit_operators(function):
    np.testing.assert_array_equal(np.asarray(function(jnp.asarray(I), 2)), function(I, 2))
    np.testing.assert_array_equal(np.asarray(function(2, jnp.asarray(I))), function(2, I))


@pytest.mark.parametrize("function", [operator.neg, operator.pos, abs, round])
def test_unary_operators(function):
    np.testing.assert_array_equal(np.asarray(function(jnp.asarray(X[0, 0]))), function(X[0, 0]))
    np.testing.assert_array_equal(
        np.asarray(function(jnp.asarray(X)) if function is not round else jnp.asarray(X).round()),
        function(X) if function is not round else X.round(),
    )


def test_other_operators():
    x, i = jnp.asarray(X), jnp.asarray(I)
    np.testing.assert_array_equal(np.asarray(~i), ~I)
    np.testing.assert_allclose(np.asarray(x @ x.T), X @ X.T)
    np.testing.assert_allclose(np.asarray(X @ x.T), X @ X.T)
    for got, expected in zip(divmod(i, 3), divmod(I, 3), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)
    for got, expected in zip(divmod(100, i), divmod(100, I), strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)
    assert round(jnp.asarray(2.345), 2).item() == pytest.approx(2.35, abs=0.011)


METHODS = [
    ("sum", (), {}), ("sum", (0,), {}), ("sum", (), {"axis": 1, "keepdims": True}),
    ("prod", (), {"axis": 0}), ("mean", (), {"axis": (0, 1)}), ("std", (), {"ddof": 1}),
    ("var", (1,), {}), ("min", (0,), {}), ("max", (), {"axis": 1, "keepdims": True}),
    ("argmin", (), {"axis": 1}), ("argmax", (), {}), ("argsort", (), {"axis": 0}),
    ("all", (), {}), ("any", (), {"axis": 1}), ("cumsum", (), {"axis": 1}), ("cumprod", (1,), {}),
    ("dot", (np.ones(3, np.float32),), {}), ("reshape", (3, 2), {}), ("reshape", ((3, -1),), {}),
    ("reshape", (-1,), {"order": "F"}), ("ravel", (), {}), ("flatten", (), {"order": "F"}),
    ("transpose", (), {}), ("transpose", (1, 0), {}), ("transpose", ((1, 0),), {}),
    ("swapaxes", (0, 1), {}), ("squeeze", (), {}), ("clip", (-1, 2), {}), ("clip", (), {"max": 1}),
    ("conj", (), {}), ("conjugate", (), {}), ("round", (1,), {}),
    ("take", (np.array([0, 2]),), {"axis": 1}), ("repeat", (2,), {"axis": 0}), ("diagonal", (), {}),
    ("trace", (), {}), ("nonzero", (), {}), ("copy", (), {}), ("astype", (np.int32,), {}),
    ("view", (np.int32,), {}), ("tolist", (), {}), ("item", (1,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), METHODS)
def test_methods(name, args, kwargs):
    got = getattr(jnp.asarray(X), name)(*args, **kwargs)
    expected = getattr(X, name)(*args, **kwargs)
    for one, other in zip(
        got if isinstance(got, tuple) else [got],
        expected if isinstance(expected, tuple) else [expected],
        strict=True,
    ):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-5)


def test_other_methods():
    x = jnp.asarray(X)
    assert x.sort(axis=0, descending=True).tolist() == np.sort(X, axis=0)[::-1].tolist()
    assert x.ptp(axis=1).tolist() == np.ptp(X, axis=1).tolist()
    assert jnp.arange(5).searchsorted(2).item() == 2
    assert jnp.array([1, 0]).choose([jnp.array([1, 2]), jnp.array([3, 4])]).tolist() == [3, 2]
    assert x.compress(np.array([True, False]), axis=0).tolist() == X[:1].tolist()
    assert x.argpartition(0).shape == x.shape
    assert x.at[0, 0].set(9)[0, 0].item() == 9
    assert x.astype(None).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
def test_properties(dtype):
    value = X.astype(dtype)
    for x in (jnp.asarray(value), value):
        assert (x.nbytes, x.itemsize) == (value.nbytes, value.itemsize)
        for name in ("T", "mT", "real", "imag"):
            np.testing.assert_array_equal(np.asarray(getattr(x, name)), getattr(value, name))
    np.testing.assert_array_equal(np.asarray(jnp.asarray(value).flat), value.ravel())


def test_tracers_have_the_same_methods():
    def f(x):
        assert isinstance(x, Tracer)
        assert (x.nbytes, x.itemsize) == (24, 4)
        return [x.sum(), x.T, x.reshape(-1), x.at[0].set(1.0), x[0], x.astype(int), -x, x.real]

    shapes = [t.shape for t in make_jaxpr(f)(X).out_avals]
    assert shapes == [(), (3, 2), (6,), (2, 3), (3,), (2, 3), (2, 3), (2, 3)]


def test_every_method_has_its_implementation():
    source = inspect.getsource(ArrayOperators)
    calls = r'implementations\["(\w+)"|_(?:unary|binary|reflected|alike)\("(\w+)"'
    names = {one or other for one, other in re.findall(calls, source)}
    names |= set(re.findall(r"@_forwarding\s+def (\w+)", source))
    assert len(names) > 60
    assert not sorted(names - set(implementations))


def test_every_public_method_is_documented():
    for name, member in vars(ArrayOperators).items():
        if not name.startswith("_"):
            assert inspect.getdoc(member), name


def test_methods_know_their_names():
    for name, member in vars(ArrayOperators).items():
        if inspect.isfunction(member):
            assert (member.__name__, member.__qualname__) == (name, f"ArrayOperators.{name}")
            assert pickle.loads(pickle.dumps(member)) is member


def test_what_arrays_do_not_have():
    x = jnp.ones(2)
    with pytest.raises(AttributeError, match="nonsense"):
        x.nonsense  # noqa: B018
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError):
        x[0] = 1
    with pytest.raises(TypeError):
        x.sum(axes=0)


def test_array_namespace():
    x = jnp.ones(2)
    assert x.__array_namespace__() is jnp
    assert x.__array_namespace__(api_version="2024.12") is jnp
    with pytest.raises(ValueError, match="2024.12"):
        x.__array_namespace__(api_version="2999.01")
    assert jnp.__array_api_version__ == "2024.12"


VIEWS = [
    ("float32", "int32"), ("int32", "float32"), ("float32", "uint8"), ("uint8", "uint32"),
    ("uint8", "bool"), ("bool", "int8"), ("complex64", "float32"), ("float32", "complex64"),
    ("complex64", "int64"), ("int64", "complex64"), ("float64", "float16"), ("int16", "int8"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), VIEWS)
def test_view(source, target):
    value = (np.arange(16).reshape(2, 8) % 2).astype(source)
    got = exact_array(value, source).view(target)
    expected = value.view(target)
    assert got.dtype == target and got.shape == expected.shape
    np.testing.assert_array_equal(
        np.asarray(got).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
    )


def test_view_refuses():
    with pytest.raises(ShapeError):
        exact_array(np.ones(3), "int8").view("int16")
    with pytest.raises(ShapeError):
        jnp.float32(1).view("int8")
    with pytest.raises(NotImplementedError):
        jnp.ones(2).view("int32", np.ndarray)


def test_inspection():
    x = jnp.ones((2, 3))
    assert (jnp.shape(x), jnp.ndim(x), jnp.size(x), jnp.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert (jnp.shape([[1, 2]]), jnp.ndim(1.5), jnp.size([1])) == ((1, 2), 0, 1)
    assert jnp.iscomplexobj(1j) and jnp.isrealobj(x)
    for kind in (jnp.complex64, weft.ShapeDtypeStruct((2,), jnp.complex64), np.complex64(1)):
        assert jnp.iscomplexobj(kind) is np.iscomplexobj(kind) is True
    for kind in (jnp.float32, jnp.bfloat16, weft.ShapeDtypeStruct((2,), jnp.float32)):
        assert jnp.iscomplexobj(kind) is np.iscomplexobj(kind) is False
    assert jnp.isscalar(jnp.float32(1)) and jnp.isscalar(1) and not jnp.isscalar(x)
    assert jnp.iterable(x) and not jnp.iterable(1)
    assert jnp.array_repr(x) == repr(np.ones((2, 3), np.float32))
    assert jnp.array_str(x) == str(np.ones((2, 3)))


def test_type_of_results():
    assert type(jnp.ones(2) + 1) is Array
    assert isinstance(jnp.ones(2), jnp.ndarray)


def test_methods_have_the_defaults_of_their_functions():
    compared = 0
    for name in dir(Array):
        method, function = getattr(Array, name), getattr(jnp, name, None)
        if name.startswith("_") or not inspect.isfunction(method) or function is None:
            continue
        theirs = inspect.signature(function).parameters
        for parameter in list(inspect.signature(method).parameters.values())[1:]:
            if parameter.kind is parameter.VAR_POSITIONAL or parameter.name not in theirs:
                continue
            assert parameter.default == theirs[parameter.name].default, (name, parameter.name)
            compared += 1
    assert compared > 80


OPERATORS = "add sub mul truediv floordiv mod pow matmul lt le gt ge eq ne".split()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", [[1, 2], (1, 2), {1}, {}], ids=str)
def test_operators_refuse_containers(name, other):
    operation = getattr(operator, name)
    for x in (jnp.array([1, 2]), jnp.array(2)):  # a list times an integer would be repeated
        for call in (lambda x=x: operation(x, other), lambda x=x: operation(other, x)):
            with pytest.raises(TypeError, match="takes arrays or numbers, not a"):
                call()


def test_narrow_integers_as_booleans_and_their_extremes():
    x = jnp.array([0, 3, -2], jnp.int4)
    np.testing.assert_array_equal(x.astype(bool), [False, True, True])
    np.testing.assert_array_equal(weft.jit(lambda y: y.astype(bool))(x), [False, True, True])
    assert x.round(1).dtype == jnp.int4
    assert (int(x.max()), int(x.min()), x.max().dtype) == (3, -2, jnp.int4)
