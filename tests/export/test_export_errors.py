"""What cannot be exported, or called like this, is an error that names it and its mending."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import weft
import weft.numpy as wnp
from export_cases import F, Layer, Point, S, W, X, exported
from weft import export
from weft.errors import (
    ShapeError,
    TreeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir
from weft.runtime import stablehlo

pytestmark = pytest.mark.fast


def with_callback(x):
    def shown(x):
        return np.sin(x)

    return weft.lax.scan(
        lambda c, _: (weft.pure_callback(shown, S((), F), c), None), x, None, length=2
    )[0]


call_p = Primitive("custom_for_export")
call_p.def_abstract_eval(lambda x: x)


def lower_call(ctx, x):
    return stablehlo.custom_call("somebodys_kernel", [x], [x.type])[0]


mlir.register_lowering(call_p, lower_call)


class Unregistered(collections.namedtuple("Unregistered", "a")):
    pass


BAD_EXPORTS = {
    "no jitted function": (lambda: export.export(lambda x: x), WeftTypeError, "made by weft.jit"),
    "a callback": (lambda: exported(with_callback, S((), F)), WeftNotImplementedError,
                   r"pure_callback of .*shown"),
    "a print": (lambda: exported(lambda x: weft.debug.print("{}", x), S((), F)),
                WeftNotImplementedError, "debug_callback"),
    "a class": (lambda: exported(lambda x: x.a, Unregistered(X)), TreeError, "Unregistered"),
    "a class in the result": (lambda: exported(Unregistered, X), TreeError, "of the result"),
    "a key of a dict": (lambda: exported(lambda x: {b"k": x}, X), TreeError, "class bytes"),
    "a factory": (lambda: exported(lambda x: collections.defaultdict(object, a=x), X), TreeError,
                  "defaultdict"),
    "a platform": (lambda: export.export(weft.jit(wnp.sin), platforms=("abacus",)),
                   WeftValueError, "'abacus'"),
    "platforms as text": (lambda: export.export(weft.jit(wnp.sin), platforms="cpu"),
                          WeftTypeError, "sequence of names"),
    "no platform": (lambda: export.export(weft.jit(wnp.sin), platforms=()), WeftTypeError,
                    "sequence of names"),
    "checks": (lambda: export.export(weft.jit(wnp.sin), disabled_checks=["all"]), WeftTypeError,
               "DisabledSafetyCheck"),
    "a dimension with a name": (lambda: exported(wnp.sin, S(("n",), F)), WeftTypeError, "shape"),
    "a traced value": (
        lambda: weft.jit(lambda y: export.export(weft.jit(lambda x: x + y))(X).call(X))(X),
        WeftValueError, "being traced"),
    "an order": (lambda: export.export(weft.jit(wnp.sin))(X).serialize(vjp_order=-1),
                 WeftTypeError, "vjp_order"),
    "no bytes": (lambda: export.deserialize("text"), WeftTypeError, "from bytes"),
    "another platform's module": (lambda: exported(wnp.sin, X).mlir_module("tpu"), WeftValueError,
                                  "other platforms"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_EXPORTS)
def test_what_cannot_be_exported_is_an_error(what):
    make, error, message = BAD_EXPORTS[what]
    with pytest.raises(error, match=message):
        make()


def test_errors_at_export_name_the_line():
    with pytest.raises(WeftNotImplementedError) as caught:
        exported(with_callback, S((), F))
    assert "test_export_errors.py" in str(caught.value) and "with_callback" in str(caught.value)
    with pytest.raises(WeftValueError) as caught:
        exported(lambda x: call_p.bind(x), S((), F))
    assert "test_export_errors.py:" in str(caught.value) and "somebodys_kernel" in str(caught.value)


def test_custom_calls_are_allowed_by_name_on_both_sides():
    function = weft.jit(lambda x: call_p.bind(x))
    with pytest.raises(WeftValueError) as caught:
        export.export(function)(S((), F))
    allowed = [export.DisabledSafetyCheck.custom_call(caught.value.fix.data["target"])]
    data = export.export(function, disabled_checks=allowed)(S((), F)).serialize()
    with pytest.raises(WeftValueError, match="somebodys_kernel"):
        export.deserialize(data)
    found = export.deserialize(data, disabled_checks=allowed)
    assert "somebodys_kernel" in found.mlir_module()


def test_a_class_of_named_tuples_is_registered_by_the_fix():
    fresh = collections.namedtuple("Fresh", "a b")
    with pytest.raises(TreeError) as caught:
        exported(lambda x: x.a, fresh(X, X))
    fix = caught.value.fix
    register = getattr(export, fix.data["call"])
    register(fix.data["class"], serialized_name="tests.Fresh")
    np.testing.assert_array_equal(exported(lambda x: x.a, fresh(X, X)).call(fresh(X, X)), X)


BAD_REGISTRATIONS = {
    "twice": lambda: export.register_namedtuple_serialization(Point, serialized_name="tests.New"),
    "a taken name": lambda: export.register_namedtuple_serialization(
        collections.namedtuple("Other", "a"), serialized_name="tests.Point"
    ),
    "no container": lambda: export.register_pytree_node_serialization(
        int, serialized_name="int", serialize_auxdata=repr, deserialize_auxdata=repr
    ),
    "a built-in one": lambda: export.register_pytree_node_serialization(
        dict, serialized_name="dict", serialize_auxdata=repr, deserialize_auxdata=repr
    ),
    "no named tuples": lambda: export.register_namedtuple_serialization(
        Layer, serialized_name="tests.L"
    ),
    "named tuples": lambda: export.register_pytree_node_serialization(
        Unregistered, serialized_name="U", serialize_auxdata=repr, deserialize_auxdata=repr
    ),
    "no function": lambda: export.register_pytree_node_serialization(
        Layer, serialized_name="U", serialize_auxdata=1, deserialize_auxdata=repr
    ),
    "no name": lambda: export.register_namedtuple_serialization(Unregistered, serialized_name=""),
}


@pytest.mark.parametrize("what", BAD_REGISTRATIONS)
def test_bad_registrations_are_errors(what):
    with pytest.raises((WeftTypeError, WeftValueError)):
        BAD_REGISTRATIONS[what]()


@pytest.fixture(scope="module")
def small():
    return exported(lambda p, x, *, k: p["w"] @ x * k, {"w": W}, X, k=F(2))


BAD_CALLS = {
    "an argument is missing": (lambda e: e.call({"w": W}, k=2.0), TreeError,
                               "positional arguments: a tuple of length 1"),
    "a name is missing": (lambda e: e.call({"w": W}, X), TreeError, "arguments by name"),
    "another structure": (lambda e: e.call({"v": W}, X, k=2.0), TreeError, "argument 0"),
    "another shape": (lambda e: e.call({"w": W.T}, X, k=2.0), ShapeError, r"p\['w'\].*shape"),
    "another dtype": (lambda e: e.call({"w": W}, X.astype("int32"), k=2.0), WeftTypeError,
                      "x has another dtype"),
    "no array": (lambda e: e.call({"w": W}, X, k="2"), WeftTypeError, "k is no array"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_CALLS)
def test_other_arguments_are_errors_that_name_them(small, what):
    call, error, message = BAD_CALLS[what]
    with pytest.raises(error, match=message) as caught:
        call(small)
    assert caught.value.wanted is not None and caught.value.got is not None


def test_the_fixes_of_bad_arguments_work(small):
    np.testing.assert_allclose(small.call({"w": W}, X, k=2.0), 2 * (W @ X), rtol=1e-5)
    with pytest.raises(WeftTypeError) as caught:
        small.call({"w": W}, X.astype("float16"), k=2.0)
    x = X.astype("float16").astype(caught.value.fix.data["dtype"])
    np.testing.assert_allclose(small.call({"w": W}, x, k=2.0), 2 * (W @ x), rtol=1e-5)
    with pytest.raises(ShapeError) as caught:
        small.call({"w": W}, X[:, None], k=2.0)
    x = X[:, None].reshape(caught.value.fix.data["shape"])
    np.testing.assert_allclose(small.call({"w": W}, x, k=2.0), 2 * (W @ X), rtol=1e-5)


def test_cotangents_are_named_in_errors():
    made = export.export(weft.jit(lambda x: {"y": x, "n": 1}))(X)
    with pytest.raises(ShapeError, match=r"the cotangent of .*\['y'\] has another shape"):
        made.vjp().call(X, X[:2])
