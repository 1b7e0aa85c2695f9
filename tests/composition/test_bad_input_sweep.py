"""Every public function refuses what it cannot take, in an error that names it.

From a valid call of each function (`valid_calls.py`) come the wrong ones: one argument after the
other is replaced. What comes out is never an error of the inside, and nothing is ignored.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from scipy_calls import SCIPY_MODULES, SCIPY_NO_ARRAYS, scipy_calls
from valid_calls import KEY, MODULES, NO_ARRAYS, functions, valid_calls
from weft import tree
from weft.errors import WeftError

SCIPY_CALLS = scipy_calls()
CALLS = [*valid_calls(), *SCIPY_CALLS]

DELIBERATE = (WeftError, TypeError, ValueError, NotImplementedError, OverflowError)
# Advice that is not read; and what may be a flag or a name.
NO_FLAGS = frozenset(
    "overwrite_a overwrite_b overwrite_c check_finite overwrite_data turbo debug detrend".split()
)
OPTIONAL = {("csd", "y")}  # x again, where it is None

EVERY = pytest.mark.parametrize(
    "call", CALLS, ids=[f"{c.module.removeprefix('weft.')}.{c.name}" for c in CALLS]
)
# `weft.lax` says exactly what the primitives are given: NumPy's scalars stay as wide as they are.
PROMOTING = pytest.mark.parametrize(
    "call",
    [c for c in CALLS if not c.module.startswith("weft.lax")],
    ids=[
        f"{c.module.removeprefix('weft.')}.{c.name}"
        for c in CALLS
        if not c.module.startswith("weft.lax")
    ],
)


FLAGS = ("no", 0.5, np.zeros(3))


class AnObject:
    """Of a class that nothing knows."""

    def __repr__(self):
        return "an object"


# What parameters refuse, by their names.
WRONG = dict.fromkeys(
    "device out_sharding precision shape N M k fill_value n num mode where lower upper n_max d "
    "method maxiter restart solve_method scale distribution stddev bw_method weights seq".split(),
    ("zz", AnObject()),
) | {
    "axis": (99, -99, 0.5, "x"),
    "dtype": ("f99", object, 3),
    "size": ("zz", AnObject(), -1),
    "out": ("zz",),
}
STRINGS = np.array(["a", "b"])
OBJECTS = np.array([None, 1])
KEYS = weft.random.split(KEY, 4)
NARROW = jnp.zeros(4, jnp.float8_e4m3fn)


def refused(call, args, kwargs, what, *, must=True):
    """What is wrong with the outcome of a wrong call, as a text; None where all is well."""
    function = call.function
    try:
        function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
        said = str(error)
        names = {call.name, call.name.split(".")[0], getattr(function, "__name__", call.name)}
        if not isinstance(error, DELIBERATE):
            return f"{what}: {type(error).__name__} from the inside: {said}"
        plain = isinstance(error, NotImplementedError) and not isinstance(error, WeftError)
        if plain or (isinstance(error, WeftError) and error.got is None):
            return f"{what}: the error does not say what it got: {said}"
        if not any(re.search(rf"\b{re.escape(name)}\b", said) for name in names):
            return f"{what}: the message does not name the function: {said}"
        return None
    return f"{what} was accepted" if must else None


def report(problems):
    __tracebackhide__ = True
    found = [problem for problem in problems if problem]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def with_positional(call, position, value):
    return [*call.args[:position], value, *call.args[position + 1 :]]


def with_named(call, name, value):
    """Arguments and keywords of the call with one parameter set."""
    names = call.names()
    parameter = call.signature.parameters[name]
    if name in names and parameter.kind != parameter.VAR_POSITIONAL:
        return with_positional(call, names.index(name), value), call.kwargs
    return list(call.args), {**call.kwargs, name: value}


def is_flag(parameter):
    return isinstance(parameter.default, bool) and parameter.name not in NO_FLAGS


def check_refused(call, values, more=None):
    """Fails unless every value that a parameter cannot have is refused.

    values: for each parameter its wrong values; more: for a parameter, keywords that go along.
    """
    __tracebackhide__ = True
    problems = []
    for name, wrong in values.items():
        for value in wrong:
            args, kwargs = with_named(call, name, value)
            kwargs = {**kwargs, **(more or {}).get(name, {})}
            problems.append(refused(call, args, kwargs, f"{name}={value!r:.40}"))
    report(problems)


def test_every_function_has_a_valid_call():
    known = {(call.module, call.name) for call in CALLS}
    without = NO_ARRAYS | SCIPY_NO_ARRAYS
    missing = [
        f"{module}.{name}"
        for module in (*MODULES, *SCIPY_MODULES)
        for name in functions(module)
        if (module, name) not in known and name not in without.get(module, ())
    ]
    assert not missing, f"give a valid call of {', '.join(missing)} in valid_calls.py"


@EVERY
def test_what_is_no_array_is_refused(call):
    problems = []
    for position, name in enumerate(call.names()):
        value = call.args[position]
        if not isinstance(value, np.ndarray) and value is not KEY:
            continue
        wrong = {"a string": "abc", "None": None, "an object": AnObject()}
        wrong |= {"an array of strings": STRINGS, "an array of objects": OBJECTS}
        if call.signature.parameters[name].default is None or (call.name, name) in OPTIONAL:
            del wrong["None"]
        if name not in call.lists:
            wrong["a list"] = [1] if value is KEY else value.tolist()
        if value is not KEY and value.size:
            wrong["a masked array"] = np.ma.masked_array(
                value, np.arange(value.size).reshape(value.shape) == 0
            )
        for what, other in wrong.items():
            args = with_positional(call, position, other)
            problems.append(refused(call, args, call.kwargs, f"{name} as {what}"))
    report(problems)


@EVERY
def test_random_keys_and_narrow_numbers_are_taken_or_refused(call):
    problems = []
    for position, name in enumerate(call.names()):
        value = call.args[position]
        if isinstance(value, np.ndarray) or value is KEY:
            for what, other in (("random keys", KEYS), ("8-bit numbers", NARROW)):
                args = with_positional(call, position, other)
                text = f"{name} as {what}"
                problems.append(refused(call, args, call.kwargs, text, must=False))
    report(problems)


def wrong_values(call):
    """The parameters that no kind checks, and what they refuse."""
    kinds = getattr(call.function, "kinds", {})
    return {
        parameter.name: FLAGS if is_flag(parameter) else WRONG[parameter.name]
        for parameter in call.signature.parameters.values()
        if not (parameter.name in kinds and kinds[parameter.name].wrong)
        and (is_flag(parameter) or parameter.name in WRONG)
    }


@EVERY
def test_wrong_values_are_refused(call):
    """Of parameters that no kind checks; `tests/kinds` has the others."""
    # What fills a result is read only where its size is given.
    fills = {"fill_value": {"size": 3}} if "size" in call.signature.parameters else {}
    check_refused(call, wrong_values(call), fills)


@EVERY
def test_what_numpy_takes_for_a_flag_is_one(call):
    """The result is that of the flag itself."""
    for flag in filter(is_flag, call.signature.parameters.values()):
        for value in (np.bool_(flag.default), int(flag.default)):
            args, kwargs = with_named(call, flag.name, flag.default)
            if refused(call, args, kwargs, "", must=True) is not None:
                args, kwargs = with_named(call, flag.name, value)
                call.function(*args, **kwargs)


@EVERY
def test_flags_are_read_also_where_a_program_is_kept(call):
    """weft's arrays, of a call that has been made before, take the shortest way."""
    known = [jnp.asarray(x, x.dtype) if isinstance(x, np.ndarray) else x for x in call.args]
    call = dataclasses.replace(call, args=tuple(known))
    for _ in range(2):
        refused(call, call.args, call.kwargs, "", must=False)
    flags = [p.name for p in call.signature.parameters.values() if is_flag(p)]
    check_refused(call, dict.fromkeys(flags, ("no",)))


@EVERY
def test_what_fills_needs_a_size(call):
    if not {"size", "fill_value"} <= set(call.signature.parameters):
        return
    if call.name == "where":  # which takes either with the condition alone
        call = dataclasses.replace(call, args=call.args[:1])
    problems = [refused(call, call.args, {**call.kwargs, "fill_value": 1}, "fill_value=1 alone")]
    call.function(*call.args, **call.kwargs, fill_value=1, size=9)
    report(problems)


@PROMOTING
def test_a_numpy_scalar_is_an_array_without_dimensions(call):
    """In the default width, as NumPy's arrays are taken, and never answered with as it came."""

    def kinds(value, position):
        args = with_positional(call, position, value)
        try:
            found = call.function(*args, **call.kwargs)
        except DELIBERATE as error:
            return type(error).__name__
        return [(type(leaf), getattr(leaf, "dtype", None)) for leaf in tree.leaves(found)]

    problems = []
    for position, given in enumerate(call.args):
        if not isinstance(given, np.ndarray):
            continue
        for value in (np.float64(1), np.int64(1)):
            one, other = kinds(value, position), kinds(np.array(value), position)
            what = f"{call.names()[position]} as {value!r}"
            if one != other:
                problems.append(f"{what}: {one}, and {other} for an array of it")
            elif isinstance(one, list) and any(cls in (np.ndarray, type(value)) for cls, _ in one):
                problems.append(f"{what}: an array of NumPy came back")
    report(problems)


@pytest.mark.parametrize(
    "call", SCIPY_CALLS, ids=[f"{c.module.removeprefix('weft.')}.{c.name}" for c in SCIPY_CALLS]
)
def test_a_traced_argument_stands_beside_arrays_of_numpy(call):
    """Each argument by itself, alone and in a list or a tuple of arrays."""
    problems = []
    for position, given in enumerate(call.args):
        several = isinstance(given, (list, tuple))
        for place, value in enumerate(given if several else [given]):
            if not isinstance(value, np.ndarray):
                continue

            def function(x, position=position, place=place, given=given, several=several):
                one = type(given)([*given[:place], x, *given[place + 1 :]]) if several else x
                return call.function(*with_positional(call, position, one), **call.kwargs)

            what = f"{call.names()[position]} traced"
            try:
                weft.make_jaxpr(function)(value)
            except Exception as error:  # noqa: BLE001 (whatever it is, the test reports it)
                problems.append(f"{what}: {type(error).__name__}: {error}")
    report(problems)


@EVERY
def test_unknown_keywords_are_refused(call):
    kinds = {p.kind for p in call.signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return
    args, kwargs = call.args, call.kwargs
    problems = [refused(call, args, {**kwargs, "no_such_keyword": 1}, "an unknown keyword")]
    in_numpy = call.module.startswith("weft.numpy")
    module = importlib.import_module(call.module.removeprefix("weft.")) if in_numpy else None
    plain = getattr(module, call.name, None)
    for name in numpy_keywords(plain):
        if name not in call.signature.parameters:
            problems.append(refused(call, args, {**kwargs, name: 1}, f"NumPy's {name}="))
    report(problems)


def numpy_keywords(function):
    """The keywords of NumPy's function of the name, where it says which it has."""
    if isinstance(function, np.ufunc):
        return ("out", "where", "casting", "dtype", "subok", "order", "signature")
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in found if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD))


def test_the_sweep_is_able_to_fail():
    (call,) = [c for c in CALLS if (c.module, c.name) == ("weft.numpy", "reshape")]
    assert "was accepted" in refused(call, call.args, call.kwargs, "a valid call")
    (call,) = [c for c in CALLS if (c.module, c.name) == ("weft.numpy", "apply_along_axis")]
    inside = refused(call, (lambda x: {}["no"], 0, call.args[2]), {}, "a faulty function")
    assert "KeyError from the inside" in inside
    unnamed = refused(call, (lambda x: int("x"), 0, call.args[2]), {}, "a faulty function")
    assert "does not name" in unnamed
