"""Functions of flat lists: `linear_util` and `api_util`."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import weft
from weft import api_util
from weft.errors import WeftTypeError, WeftValueError
from weft.extend import linear_util as lu


@lu.transformation
def plus(amount, *args, **kwargs):
    (out,) = yield [x + amount for x in args], kwargs
    yield [out + amount]


@lu.transformation2
def times(f, factor, *args, **kwargs):
    return [x * factor for x in f(*args, **kwargs)]


@lu.transformation_with_aux2
def kept(f, store, *args):
    outs = f(*args)
    store.store(args)
    return outs


def test_the_last_transformation_is_outermost():
    fun = lu.wrap_init(lambda x, *, by: [x * by], {"by": 10})
    assert times(plus(fun, 1), 2).call_wrapped(3) == [82]
    assert plus(times(fun, 2), 1).call_wrapped(3) == [81]
    assert fun.call_wrapped(3, by=2) == [6] and fun.__name__ == "<lambda>"
    assert "times" in repr(times(fun, 2))


def test_equal_parts_make_equal_functions():
    def f(x):
        return [x]

    a, b = plus(lu.wrap_init(f), 1), plus(lu.wrap_init(f), 1)
    assert a == b and hash(a) == hash(b) and a != plus(lu.wrap_init(f), 2) and a != f


def test_what_is_put_aside():
    fun, aux = kept(lu.wrap_init(lambda *xs: list(xs)))
    with pytest.raises(lu.StoreException):
        aux()
    assert fun.call_wrapped(1, 2) == [1, 2] and aux() == (1, 2)
    with pytest.raises(lu.StoreException):
        fun.call_wrapped(1, 2)
    other, other_aux = kept(lu.wrap_init(lambda *xs: list(xs)))
    assert lu.merge_linear_aux(aux, other_aux) == (True, (1, 2))
    assert lu.merge_linear_aux(other_aux, aux) == (False, (1, 2))
    other.call_wrapped(3)
    with pytest.raises(lu.StoreException):
        lu.merge_linear_aux(aux, other_aux)


def test_a_generator_is_closed_where_the_function_raises():
    ended = []

    @lu.transformation
    def watched(*args):
        try:
            yield args, {}
        finally:
            ended.append(True)

    def fails(x):
        raise KeyError(x)

    with pytest.raises(KeyError):
        watched(lu.wrap_init(fails)).call_wrapped(1)
    assert ended == [True]


def test_calls_are_computed_once_and_put_aside_again():
    count = []

    @lu.cache
    def call(fun, x):
        count.append(x)
        return fun.call_wrapped(x)

    def f(x):
        return [x]

    for _ in range(2):
        fun, aux = kept(lu.wrap_init(f))
        assert call(fun, 3) == [3] and aux() == (3,)
    assert count == [3]
    call.cache_clear()
    fun, aux = kept(lu.wrap_init(f))
    call(fun, 3)
    assert count == [3, 3]


def test_functions_of_trees_become_functions_of_lists():
    def f(a, *, b):
        return {"sum": a[0] + b, "rest": (a[1],)}

    leaves, in_tree = weft.tree.flatten((((1.0, 2.0),), {"b": 3.0}))
    flat, out_tree = api_util.flatten_fun(lu.wrap_init(f), in_tree)
    outs = flat.call_wrapped(*leaves)
    assert weft.tree.unflatten(out_tree(), outs) == {"sum": 4.0, "rest": (2.0,)}
    flat, out_tree = api_util.flatten_fun_nokwargs(
        lu.wrap_init(lambda a: a), weft.tree.structure(((1, 2),))
    )
    assert flat.call_wrapped(5, 6) == [5, 6] and out_tree() == weft.tree.structure((1, 2))


def test_some_arguments_are_fixed():
    fun, rest = api_util.argnums_partial(lu.wrap_init(lambda a, b, c: (a, b, c)), (0, -1), "xyz")
    assert rest == ["x", "z"] and fun.call_wrapped("1", "3") == ("1", "y", "3")
    with pytest.raises(WeftValueError, match="no hash"):
        api_util.argnums_partial(lu.wrap_init(lambda a, b: a), 0, (1, [2]))
    api_util.argnums_partial(lu.wrap_init(lambda a, b: a), 0, (1, [2]), False)


def test_donated_arguments():
    in_tree = weft.tree.structure((((1, 2), 3), {"k": 4, "a": (5, 6)}))
    found = api_util.donation_vector((1,), ("a",), in_tree)
    assert found == (False, False, True, True, True, False)
    assert api_util.donation_vector((0,), None, weft.tree.structure(((1, 2), 3)), kws=False) == (
        True, True, False,
    )  # fmt: skip
    with pytest.raises(WeftValueError, match="static and donated"):
        api_util.rebase_donate_argnums((1,), 1)


def test_axes_of_a_prefix():
    whole = weft.tree.structure(((1, {"a": 2, "b": 3}), 4))
    assert api_util.flatten_axes("in_axes", whole, ((0, None), 1)) == [0, None, None, 1]
    with pytest.raises(ValueError, match="in_axes"):
        api_util.flatten_axes("in_axes", whole, (0, 1, 2))


def test_lists_of_one_length():
    assert api_util.safe_map(max, [1, 5], [3, 2]) == [3, 5]
    with pytest.raises(ValueError, match="lengths"):
        api_util.safe_map(max, [1, 5], [3])


def test_what_messages_say_of_a_function():
    def f(a, b, *, c=1):
        return a

    info = api_util.debug_info("jit", f, ({"x": 1, "y": 2}, 3), {}, static_argnums=(1,))
    assert info.traced_for == "jit" and info.arg_names == ("a['x']", "a['y']")
    assert info.func_name.endswith("f") and info.func_filename == __file__
    assert info.func_lineno == inspect.getsourcelines(f)[1]
    assert info.safe_arg_names(3) == ("", "", "") and info.safe_result_paths(1) == ("",)
    assert info.set_result_paths(lambda: ("out",)).safe_result_paths(1) == ("out",)
    sig = inspect.signature(f)
    assert api_util.infer_argnums_and_argnames(sig, None, "b") == ((1,), ("b",))
    assert api_util.infer_argnums_and_argnames(sig, None, None) == ((), ())
    assert api_util.infer_argnums_and_argnames(sig, 0, "c") == ((0,), ("c",))
    with pytest.raises(WeftTypeError):
        api_util.infer_argnums_and_argnames(sig, None, 3)


def test_types_of_values():
    of = api_util.shaped_abstractify(np.ones((2, 3), "float32"))
    assert of.shape == (2, 3) and api_util.shaped_abstractify(of) is of
    assert api_util.shaped_abstractify(weft.ShapeDtypeStruct((2,), "int8")).shape == (2,)
    with pytest.raises(WeftTypeError):
        api_util.shaped_abstractify("text")
