"""Functions declared by kinds: how calls are bound, taken, known again, and refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import warnings
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.numpy as jnp
from compilations import counted_compilations
from source_files import ROOT
from weft.base import source as sources
from weft.errors import ShapeError, WeftError
from weft.kinds.arguments import Axes, Flag, Number, Operand, Operands, Promoted
from weft.kinds.array_function import ArrayFunction, array_function
from weft.kinds.kind import Arguments, Kind
from weft.native.optional import calls as calls_module
from wrong_arguments import FUNCTIONS, is_taken, suggested_values, wrong_calls

X = np.arange(12, dtype=np.float32).reshape(3, 4)
KEY = weft.random.key(0)


# ---- calls that are known ------------------------------------------------------------------------

# Values that are equal to others or nearly so, and that may not be taken for them.
AXES = [None, 0, 1, -1, (0,), (1,), (0, 1), (), [0]]
FLAGS = [True, False, 1, 0, np.True_]
NUMBERS = [0, 1, 1.0, True, 0.0, -0.0, 2, -1, np.float32(1), np.int32(2)]


@st.composite
def calls(draw):
    """A function's name, an operand, and arguments by position or by name."""
    name = draw(st.sampled_from(["sum", "mean", "max", "var", "nansum"]))
    dtype = draw(st.sampled_from(["float32", "int32", "float16"]))
    kwargs = {"axis": draw(st.sampled_from(AXES)), "keepdims": draw(st.sampled_from(FLAGS))}
    if name in ("sum", "max", "nansum") and draw(st.booleans()):
        kwargs["initial"] = draw(st.sampled_from(NUMBERS))
    if name == "var":
        kwargs["ddof"] = draw(st.sampled_from([0, 1, 1.0, True, 0.0, False]))
    if draw(st.booleans()):
        kwargs["where"] = draw(st.sampled_from([X % 3 != 0, np.ones((3, 4), bool)]))
        if name == "max":
            kwargs["initial"] = 1
    return name, dtype, kwargs, draw(st.booleans()), draw(st.booleans())


@settings(deadline=None, max_examples=150)
@given(st.lists(calls(), min_size=4, max_size=8))
def test_calls_that_nearly_match_are_told_apart(sequence):
    for name, dtype, kwargs, by_position, of_numpy in sequence:
        x = X.astype(dtype)
        a = x if of_numpy else jnp.asarray(x)
        given_ = dict(kwargs)
        if "where" in kwargs:
            given_["where"] = jnp.asarray(kwargs["where"])
        args = (given_.pop("axis"),) if by_position else ()
        found = getattr(jnp, name)(a, *args, **given_)
        plain = {**kwargs, "keepdims": bool(kwargs["keepdims"])}
        if isinstance(plain["axis"], list):
            plain["axis"] = tuple(plain["axis"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy's, of means of nothing
            wanted = getattr(np, name)(x.astype(np.float64), **plain)
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2e-3)
        if "initial" in kwargs and np.size(wanted) == 1 and not np.any(wanted):
            assert np.signbit(found) == np.signbit(wanted)


def test_a_known_call_traces_and_compiles_nothing(monkeypatch, only_known_calls):
    x, mask, wide = jnp.asarray(X), jnp.asarray(X > 3), jnp.asarray(X, "float64")
    ways = [
        lambda: jnp.sum(x),
        lambda: jnp.sum(x, axis=1),
        lambda: jnp.var(x, 0, ddof=1),
        lambda: jnp.sum(x, where=mask, initial=2.5),
        lambda: x.mean(),
        lambda: jnp.sum(x, (*range(2),)),  # a tuple that is new at each call
        lambda: jnp.isclose(wide, 0.5),
        lambda: jnp.sum(x, dtype=jnp.float16),
    ]
    for way in 2 * ways:  # Calls with numbers are known when they have come again.
        way()
    compiled = counted_compilations(monkeypatch)
    only_known_calls(ArrayFunction)
    # Where there is no compiled module, no call with a class is known.
    for way in ways if calls_module is not None else ways[:-1]:
        way()
    assert compiled == []


def test_a_call_that_cannot_be_known_costs_no_attempt_to_know_it(monkeypatch):
    x = jnp.asarray(X)
    calls = [
        lambda: jnp.sum(x, axis=[0]),
        lambda: jnp.sum(X, axis=0),
        lambda: jnp.sum(x, where=X > 3),
    ]
    found = [call() for call in calls]
    monkeypatch.setattr(ArrayFunction, "_call", None)
    for call, value in zip(calls, found, strict=True):
        np.testing.assert_array_equal(call(), value)


@array_function
def difference(a: Operand, b: Operand) -> Any:
    """Two operands that may not be exchanged."""
    return a - b


@array_function
def chained(a: Operand, arrays: Operands) -> Any:
    """An operand and a sequence of them."""
    return a - 2 * arrays[0] - 3 * arrays[1]


@array_function
def moved(x: Promoted, by: Promoted = 0.1) -> Any:
    """A function with a number that takes the dtype of an array."""
    return x + by


def test_a_call_with_a_number_beside_float64_is_known(only_known_calls):
    x = jnp.array([1 / 3, 2 / 3], "float64")
    first = [moved(x), moved(x, 0.3), moved(x, by=np.float64(0.3))]
    moved(x, 0.3)
    only_known_calls(ArrayFunction)
    np.testing.assert_array_equal([moved(x), moved(x, 0.3)], first[:2])
    np.testing.assert_array_equal(first[1:], [np.asarray(x) + 0.3] * 2)


def test_a_call_whose_arguments_warn_warns_again():
    def take(value: Any, call: Arguments) -> Any:
        sources.warn("once more")
        return value

    def body(a, count):
        return a

    body.__annotations__ = {"a": Operand, "count": Annotated[Any, Kind(take, "a number")]}
    function = array_function(body)
    for _ in range(3):
        with pytest.warns(UserWarning, match="once more"):
            function(jnp.asarray(X), 1)


def test_a_kind_that_reads_values_checks_each_call():
    def take(value: Any, call: Arguments) -> Any:
        call.reads = True
        if np.asarray(value) < 0:
            raise WeftError("a number is negative")
        return value

    def body(a, by):
        return a * by

    kind = Kind(take, "a number of 0 or more", static=False)
    body.__annotations__ = {"a": Operand, "by": Annotated[Any, kind]}
    function = array_function(body)
    for _ in range(3):
        assert function(jnp.asarray(X), jnp.asarray(2.0)).sum() == 2 * X.sum()
    with pytest.raises(WeftError, match="negative"):
        function(jnp.asarray(X), jnp.asarray(-2.0))


@array_function
def reordered(a: Operand, b: Operand, swap: Flag = False) -> Any:
    """A function that computes nothing."""
    return (b, a) if swap else a


def test_operands_that_are_the_result_are_not_copied(monkeypatch):
    x, y = jnp.asarray(X), jnp.asarray(X + 1)
    compiled = counted_compilations(monkeypatch)
    for _ in range(3):
        assert reordered(x, y) is x
        one, two = reordered(x, y, swap=True)
        assert one is y and two is x
        assert reordered(2.0, x).weak_type and float(reordered(2.0, x)) == 2
    assert compiled == []


@array_function
def parts(a: Operand) -> Any:
    """A function whose result has a tuple in it."""
    return (a + 1, 2 * a), -a


def test_a_result_may_have_tuples_in_it():
    for function in (parts, weft.jit(parts)):
        for _ in range(3):
            (one, two), three = function(jnp.asarray(X))
            np.testing.assert_array_equal([one, two, three], [X + 1, 2 * X, -X])


def test_one_array_for_two_operands():
    x = jnp.asarray(X > 3)
    for _ in range(3):
        assert jnp.sum(x, where=x) == (X > 3).sum()
        assert jnp.sum(x, where=~x) == 0
    y = jnp.asarray(X)
    for _ in range(3):
        assert float(difference(b=y, a=y).sum()) == 0
    for _ in range(2):
        assert float(difference(b=y, a=y + 1).sum()) == X.size


def test_a_call_that_passes_one_array_twice_is_known(only_known_calls):
    x = jnp.asarray(X[0])
    calls = [lambda: difference(x, x), lambda: difference(b=x, a=x), lambda: chained(x, [x, x])]
    calls = calls if calls_module is not None else calls[:2]  # Python knows no sequences.
    found = [call() for call in calls]
    only_known_calls(ArrayFunction)
    for call, value in zip(calls, found, strict=True):
        np.testing.assert_array_equal(call(), value)


def test_numbers_beside_float64_keep_their_digits():
    x = np.array([1 / 3, 2 / 3, 1.7])
    a = jnp.array(x, "float64")
    for _ in range(2):
        assert float(jnp.sum(a, initial=1 / 3)) == np.sum(x, initial=1 / 3)
        assert float(jnp.max(a, initial=np.float64(1.9))) == 1.9
        for ddof in (0, 1, 0.1, np.float64(0.3)):
            for name in ("var", "std", "nanvar", "nanstd"):
                found = float(getattr(jnp, name)(a, ddof=ddof))
                assert abs(found - getattr(np, name)(x, ddof=ddof)) < 1e-15


def test_numpy_scalars_beside_float64_keep_their_digits():
    a = jnp.full(2, 1 / 3, "float64")
    for _ in range(2):
        for value in (1 / 3, np.float64(1 / 3)):
            assert jnp.isclose(a, value, 0, 0).all() and jnp.isclose(value, a, 0, 0).all()
            assert float(jnp.average(value, weights=a[0])) == 1 / 3


def test_caches_are_cleared_and_bounded(monkeypatch):
    monkeypatch.setattr("weft.kinds.array_function._MOST_CALLS", 5)
    x = jnp.asarray(X)
    for i in range(12):
        assert jnp.sum(x, initial=float(i)) == X.sum() + i
    weft.clear_caches()
    assert jnp.sum(x, initial=3.0) == X.sum() + 3


# ---- binding -------------------------------------------------------------------------------------


@array_function
def combined(a: Operand, /, axis: Axes = None, *, scale: Number = 2, flip: Flag = False) -> Any:
    """A function with every sort of parameter."""
    total = jnp.sum(a, axis) * scale
    return -total if flip else total


@array_function
def total(*xs: Operands, flip: Flag = False, scale: Number = 1) -> Any:
    """A function of any number of operands, with parameters after them."""
    out = sum(x.sum() for x in xs) * scale
    return -out if flip else out


def test_parameters_may_follow_any_number_of_operands():
    for _ in range(2):
        assert total(X, X, X) == 3 * X.sum()
        assert total(X, X, 1.0, flip=True, scale=2) == -4 * X.sum() - 2
        assert total(jnp.asarray(X), scale=3) == 3 * X.sum()


def test_python_binds_the_arguments():
    assert str(inspect.signature(combined)).startswith("(a: 'Operand', /, axis")
    assert combined(X, 0, flip=True).shape == (4,)
    assert combined(X, scale=3) == 3 * X.sum()
    for args, kwargs in (((), {}), ((X, 0, 1), {}), ((X,), {"wrong": 1}), ((), {"a": X})):
        with pytest.raises(TypeError, match=r"combined\(\)"):
            combined(*args, **kwargs)


def test_transformations_see_the_primitives_of_the_body():
    text = str(weft.make_jaxpr(lambda x: combined(x, 1))(X))
    assert "reduce_sum[axes=(1,)]" in text and "jit" not in text
    np.testing.assert_allclose(weft.grad(lambda x: combined(x))(X), np.full_like(X, 2))
    np.testing.assert_allclose(weft.vmap(combined)(X), 2 * X.sum(1))


@array_function
def total_of(a: Operand, *others: Operands, axis: Axes = None, flip: Flag = False) -> Any:
    """A function of any number of operands."""
    total = sum((jnp.sum(x, axis) for x in others), jnp.sum(a, axis))
    return -total if flip else total


def test_what_follows_a_rest_is_passed_by_name_alone():
    for count in range(5):
        assert total_of(*[X] * (count + 1)) == (count + 1) * X.sum()
        found = total_of(*[X] * (count + 1), axis=0, flip=True)
        np.testing.assert_allclose(found, -(count + 1) * X.sum(0))


def test_a_late_kind_sees_arguments_that_stand_behind_it():
    def take(value: Any, call: Arguments) -> Any:
        return value if call["flip"] else 0

    late = Annotated[Any, Kind(take, "a number", late=True)]
    namespace = {"late": late}

    def body(a, number=1, flip=False):
        return a + number

    body.__annotations__ = {"a": Operand, "number": late, "flip": Flag}
    function = array_function(body)
    assert namespace and function(X[0, 1], 5) == 1 and function(X[0, 1], 5, flip=True) == 6


def test_it_is_pickled_by_its_name():
    assert pickle.loads(pickle.dumps(jnp.sum)) is jnp.sum
    assert copy.deepcopy(jnp.sum) is jnp.sum and copy.copy(jnp.sum) is jnp.sum


def test_it_is_a_method_where_a_function_is_one():
    class Array(np.ndarray):
        total = combined

    x = X.view(Array)
    assert x.total(scale=3) == 3 * X.sum() and Array.total is combined
    assert inspect.unwrap(combined).__name__ == "combined" and callable(combined)


# ---- what is refused -----------------------------------------------------------------------------


# The classes of the errors for the wrong values of each parameter: tools/update_golden.py.
CLASSES = {
    tuple(line.split()[:2]): line.split()[2:]
    for line in (ROOT / "tests" / "golden" / "refusals.txt").read_text("utf-8").splitlines()
}
# Fixes that name two arguments, of which a call gets one.
TWO_AT_ONCE = {"weft.numpy.linalg.factorizations.svd"}


@pytest.mark.parametrize(
    "call", [pytest.param(call, id="-".join(map(str, call[:3]))) for call in wrong_calls()]
)
def test_wrong_values_are_refused_and_their_fixes_work(call):
    with pytest.raises(WeftError) as caught:
        call.run(call.value)
    error = caught.value
    assert type(error).__name__ == CLASSES[call.name, call.parameter][call.number]
    assert call.function.operation in str(error)
    assert error.operation and error.got is not None
    said = f"{error.message} {error.got}"
    shown = [repr(call.value)[:40], str(call.value)[:40]]
    if isinstance(call.value, (int, float, complex, np.ndarray, np.generic)):
        shown += [str(weft.typeof(call.value)), str(weft.typeof(np.asarray(call.value)))]
    if isinstance(call.value, tuple):
        shown += map(str, call.value)
    named = re.search(rf"\b{call.parameter}\b", said)
    assert named or any(text in said for text in shown)
    for values in suggested_values(error.fix, call.parameter, call.value) if error.fix else ():
        try:
            weft.eval_shape(lambda values=values: call.run(*values))
        except Exception as other:  # noqa: BLE001 (the other arguments may not fit to it)
            refused = getattr(other, "message", None), getattr(other, "got", None)
            assert refused != (error.message, error.got), (values, error.fix)
            # Where a call works otherwise, a value that is advised is taken, but for its shape.
            assert (
                not is_taken(call.name, call.parameter)
                or isinstance(other, ShapeError)
                or type(other) is not type(error)
                or call.name in TWO_AT_ONCE
            ), (values, error.fix, other)


def test_most_fixes_are_applied():
    calls = [call for call in wrong_calls() if is_taken(call.name, call.parameter)]
    assert len(calls) > 3500


def test_errors_name_the_room_where_names_are_used_twice():
    def norm(x: Operand) -> Any:
        return x

    assert array_function(norm).operation == "norm"
    norm.__module__ = "weft.numpy.linalg.norms"
    assert array_function(norm).operation == "linalg.norm"
    with pytest.raises(WeftError, match=r"^linalg\.norm takes arrays"):
        array_function(norm)([1.0])


def test_every_parameter_has_a_kind_with_a_meaning():
    for function in FUNCTIONS.values():
        assert [*inspect.signature(function).parameters] == [*function.kinds]
        assert all(kind.means for kind in function.kinds.values())


def test_the_name_in_errors_has_the_chapter():
    function = ArrayFunction(combined.function, chapter="chapter")
    with pytest.raises(WeftError, match=r"^chapter\.combined: flip is True or False"):
        function(X, flip="no")
    assert function.__name__ == "combined"


def test_the_equation_of_a_private_function_has_the_name_of_the_public_one():
    jaxpr = weft.make_jaxpr(lambda key: weft.random.truncated_normal(key, -1, 1))(KEY)
    assert "name=truncated_normal" in str(jaxpr)
    with pytest.raises(WeftError, match=r"^truncated_normal: lower is a number"):
        weft.random.truncated_normal(KEY, "0", 1)


def test_an_error_of_the_body_is_named_after_the_function():
    with pytest.raises(WeftError, match="^nanmax: no elements to choose from") as caught:
        jnp.nanmax(jnp.zeros((0, 3)), axis=0)
    assert caught.value.operation == "nanmax"


def test_an_error_of_a_function_of_the_users_is_not_named_after_its_caller():
    with pytest.raises(WeftError, match="(?s)^a length is negative.*in: zeros") as caught:
        jnp.apply_along_axis(lambda line: jnp.zeros(-1), 0, X)
    assert caught.value.operation is None
