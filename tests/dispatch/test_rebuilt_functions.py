"""Rebuilt functions are never stale, misses name the culprit, and there are no false alarms."""

from __future__ import annotations

import contextvars
import enum
import functools
import itertools
import math
import operator
import os
import pathlib
import random
import stat
import types
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from compilations import retracing_warnings
from weft.errors import RetracingWarning
from weft.function_keys import function_key
from weft.runtime.backends import disk_cache
from weft.tracing import explain_misses

pytestmark = pytest.mark.fast


@pytest.fixture
def unasked(monkeypatch):
    """What is said of lost time where nobody asked."""
    with retracing_warnings(monkeypatch) as warned:
        yield warned


def x(n=3):
    return np.arange(n, dtype=np.float32)


# ---- nothing stale: what answers from outside ----------------------------------------------------

# Each makes a function anew that answers differently each time, without a global that says so.


def of_closures():
    import random as generator
    import time

    numpy = np
    numbers = np.random
    return {
        "the clock": lambda: lambda x: x * (time.perf_counter() % 1),
        "a generator of Python": lambda: lambda x: x * generator.random(),
        "a generator of NumPy": lambda: lambda x: x * numpy.random.normal(),
        "a module of NumPy": lambda: lambda x: x * numbers.normal(),
        "a generator made anew": lambda: lambda x: x * numpy.random.default_rng().normal(),
    }


def of_imports():
    def clock(x):
        import time

        return x * (time.perf_counter() % 1)

    def of_python(x):
        from random import random

        return x * random()

    def of_numpy(x):
        import numpy

        return x * numpy.random.normal()

    def from_numpy(x):
        from numpy import random

        return x * random.normal()

    def from_its_module(x):
        from numpy.random import normal

        return x * normal()

    found = {f.__name__: f for f in (clock, of_python, of_numpy, from_numpy, from_its_module)}
    return {
        f"{name}, imported inside": functools.partial(types.FunctionType, f.__code__, globals())
        for name, f in found.items()
    }


held = {"module": random}


class Holder:
    module = random


def drawn(module):
    return module.random()


ELSEWHERE = {
    "a module in a dict": lambda: lambda x: x * held["module"].random(),
    "a module in a class": lambda: lambda x: x * Holder.module.random(),
    "a module as a default": lambda: lambda x, module=random: x * module.random(),
    "a module as an argument": lambda: lambda x: x * drawn(random),
    "a module in a partial": lambda: functools.partial(lambda m, x: x * m.random(), random),
    "a name of a module": lambda: lambda x: x * getattr(random, "random")(),  # noqa: B009
}
OUTSIDE = {**of_closures(), **of_imports(), **ELSEWHERE}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_answers_from_outside_is_asked_each_time(name):
    make = OUTSIDE[name]
    assert function_key(make()) is None
    assert len({float(weft.jit(make())(1.0)) for _ in range(3)}) == 3


def of_modules():
    import math as functions

    numpy = np

    def inside(x):
        import math

        import numpy

        return x * math.pi + numpy.sqrt(2.0)

    return {
        "functions of NumPy": lambda: lambda x: x * numpy.linalg.norm([3.0, 4.0]),
        "a constant": lambda: lambda x: x * functions.pi,
        "imports": functools.partial(types.FunctionType, inside.__code__, globals()),
        "functions written in C": lambda: lambda x: x * operator.add(1, len("ab".join("cd"))),
        "weft as a whole": lambda: functools.partial(lambda xp, x: x * xp.sqrt(2.0), jnp),
    }


@pytest.mark.parametrize("name", of_modules())
def test_what_does_not_is_traced_once(name):
    make = of_modules()[name]
    assert function_key(make()) == function_key(make()) is not None


# ---- nothing stale: what changes -----------------------------------------------------------------


class Rates(enum.Enum):
    LISTED = [1.0]


class Counting(type):
    rate = 1.0


class Counted(metaclass=Counting):
    pass


started = contextvars.ContextVar("started", default=[1.0])  # noqa: B039
settings: Any = types.ModuleType("settings")


def changing(folder):
    """Name -> what sets a number, and what makes a function that multiplies by it."""
    file = pathlib.Path(folder, "number")
    module = settings
    return {
        "the value of a member of an enum": (
            lambda k: Rates.LISTED.value.__setitem__(0, k),
            lambda: lambda x: x * Rates.LISTED.value[0],
        ),
        "a member of an enum by its name": (
            lambda k: Rates.LISTED.value.__setitem__(0, k),
            lambda: lambda x: x * Rates["LISTED"].value[0],
        ),
        "an attribute of a metaclass": (
            lambda k: setattr(Counting, "rate", k),
            lambda: lambda x: x * Counted.rate,
        ),
        "the default of a context variable": (
            lambda k: started.get().__setitem__(0, k),
            lambda: lambda x: x * started.get()[0],
        ),
        "a module of the user's in a closure": (
            lambda k: setattr(module, "rate", k),
            lambda: lambda x: x * module.rate,
        ),
        "a file": (
            lambda k: file.write_text(str(k)),
            lambda: lambda x: x * float(file.read_text()),
        ),
        "the size of a file": (
            lambda k: file.write_bytes(bytes(int(k))),
            lambda: lambda x: x * os.path.getsize(file),
        ),
    }


@pytest.mark.parametrize("name", changing("."))
def test_a_change_is_seen(tmp_path, name):
    change, make = changing(tmp_path)[name]
    for k in (1.0, 2.0, 3.0, 2.0):
        change(k)
        assert weft.jit(make())(10.0) == 10.0 * k


def test_a_module_in_a_closure_counts_by_what_is_read_of_it():
    module = settings

    def make():
        return lambda x: x * module.used

    module.used, module.other = 1.0, 1.0
    before = function_key(make())
    module.other = 2.0
    assert function_key(make()) == before is not None
    module.used = 2.0
    assert function_key(make()) != before


# ---- who is named --------------------------------------------------------------------------------


class Model:
    bias = 0.0

    def __init__(self):
        self.weight = jnp.ones(3)
        self.steps = 0

    def loss(self, x):
        return (self.weight * x).sum() + self.bias

    def step(self, x):
        self.weight = self.weight - 0.5 * weft.jit(weft.grad(self.loss))(x)
        self.steps += 1


class Plain:
    """Without an `__init__`."""

    rate = 1.0

    def scale(self):
        return self.rate


plain = Plain()


def scaled(x, options={"rate": 1.0}):  # noqa: B006
    return x * options["rate"]


class Pair(NamedTuple):
    rate: Any
    function: Any


def culprits():
    """Name -> what happens in round k, and what is said in the third."""
    model, kept = Model(), Plain()
    rebuilt = weft.jit

    def of_class(k):
        Plain.rate = float(k)
        rebuilt(lambda x: x * plain.scale())(x())

    def of_object(k):
        kept.rate = float(k)
        rebuilt(lambda x: x * kept.rate)(x())

    def of_default(k):
        scaled.__defaults__[0]["rate"] = float(k)
        rebuilt(lambda x: scaled(x))(x())

    def of_function(k):
        scaled.factor = float(k)
        rebuilt(lambda x: x * scaled.factor)(x())

    def of_library(k):
        math.rate_of_a_test = float(k)
        rebuilt(lambda x: x * math.rate_of_a_test)(x())

    def of_pair(k):
        pair = Pair(k, jnp.sin)
        rebuilt(lambda x: pair.function(x) * pair.rate)(x())

    return {
        "attributes, not the object": (
            lambda k: model.step(x()),
            "types: self.weight, which the method reads, is another float32[3]",
        ),
        "an attribute of a class": (of_class, "types: Plain.rate is 2.0 instead of 1.0"),
        "an attribute without __init__": (
            of_object,
            "kept.rate, which <lambda> closes over, is 2.0 instead of 1.0",
        ),
        "a default": (of_default, "options['rate'], a default of scaled, is 2.0 instead of 1.0"),
        "an attribute of a function": (of_function, "scaled.factor is 2.0 instead of 1.0"),
        "an attribute of a library": (
            of_library,
            "types: math.rate_of_a_test is 2.0 instead of 1.0",
        ),
        "a field of a named tuple": (
            of_pair,
            "types: pair.rate, which <lambda> closes over, is 2 instead of 1",
        ),
        "a part of a partial": (
            lambda k: rebuilt(functools.partial(lambda k, x: x * k, k))(x()),
            "argument 0 of the partial is 2 instead of 1",
        ),
        "eval": (
            lambda k: rebuilt(lambda x: x * eval("3"))(x()),
            "the function has no key by which equal functions are found: eval",
        ),
    }


@pytest.mark.parametrize("name", culprits())
def test_what_changed_is_named(unasked, name):
    again, wanted = culprits()[name]
    for k in range(3):
        again(k)
    (message,) = unasked.messages
    assert message.startswith("weft: ") and wanted in message
    assert len(message) <= 160 and len(message.splitlines()) == 1


# ---- false alarms --------------------------------------------------------------------------------


def trained(loss, k=1.0):
    return weft.jit(lambda p: p - k * weft.grad(loss)(p))(0.5)


def test_several_functions_through_one_helper_are_no_loss(unasked):
    for loss in (lambda p: p**2, lambda p: p**3, jnp.sin, lambda p: p**4 + 1, lambda p: p**5):
        trained(loss)
    assert not unasked.messages


def test_several_functions_in_a_named_tuple_are_no_loss(unasked):
    def run(pair, x):
        return pair.function(x) * pair.rate

    for function in (lambda x: x + 1, lambda x: x + 2, lambda x: x + 3, lambda x: x + 4):
        weft.jit(functools.partial(run, Pair(2.0, function)))(x())
    assert not unasked.messages


def test_each_of_them_counts_for_itself(unasked):
    for k in (1.0, 2.0, 3.0, 4.0):
        for loss in (lambda p: p**2 * 1.5, lambda p: p**3 * 1.5):
            trained(loss, k)
    (message,) = unasked.messages  # one line
    assert "k, which <lambda> closes over, is 3.0" in message and "number 3" in message


def sizes():
    f = weft.jit(lambda x: x * 2)
    for n in range(1, 9):
        f(x(n))


def layers(static):
    def initial(key, n, m):
        return weft.random.normal(key, (n, m))

    init = weft.jit(initial, static_argnums=(1, 2))
    key = weft.random.key(0)
    for n in range(1, 9):
        init(key, n, n + 1) if static else weft.jit(lambda key: initial(key, n, n + 1))(key)  # noqa: B023


def kinds(static):
    f = weft.jit(lambda x, dtype: x.astype(dtype), static_argnums=1)
    for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "bool"):
        f(1.0, dtype) if static else f(x().astype(dtype), "float32")


def lowered():
    for k in range(8):
        weft.jit(lambda x: x * k).lower(x())  # noqa: B023
        weft.eval_shape(weft.jit(lambda x: x * k), x())  # noqa: B023


def devices():
    f = weft.jit(lambda x: x * 2)
    for device in weft.devices():
        f(weft.device_put(x(), device))


def precisions():
    f = weft.jit(lambda x, y: x @ y)
    for precision in ("default", "high", "highest"):
        with weft.config.override(default_matmul_precision=precision):
            f(x(), x())


def few():
    for rate in (0.1, 0.2):
        weft.jit(lambda x: x * rate)(x())  # noqa: B023


@pytest.mark.parametrize(
    "program",
    [
        sizes,
        *[functools.partial(f, static) for f in (layers, kinds) for static in (True, False)],
        lowered,
        devices,
        precisions,
        few,
    ],
    ids=repr,
)
def test_programs_for_other_types_are_no_loss(unasked, program):
    program()
    assert not unasked.messages


def test_a_line_is_warned_of_once_when_a_second_is_lost(monkeypatch):
    def run(count):
        for k in range(count):
            weft.jit(lambda x: x * k)(x())  # noqa: B023

    with retracing_warnings(monkeypatch, 1.0) as warned:
        run(4)
        assert not warned.messages
        ((line, seconds),) = explain_misses._lost.items()
        assert 0 < seconds < 1 and line[0] == __file__
        explain_misses._lost[line] = 1.0
        run(8)
    (one,) = warned.found
    assert one.category is RetracingWarning and (one.filename, one.lineno) == line


def test_the_warning_can_be_filtered_and_made_an_error(monkeypatch):
    def run():
        for _ in range(4):
            k = next(numbers)
            weft.jit(lambda x: x * k)(x())  # noqa: B023

    numbers = itertools.count()

    with retracing_warnings(monkeypatch) as warned:
        warnings.simplefilter("ignore", RetracingWarning)
        run()
        assert not warned.messages
    with retracing_warnings(monkeypatch):
        warnings.simplefilter("error", RetracingWarning)
        with pytest.raises(RetracingWarning, match="^weft: tracing <lambda> again"):
            run()
    with retracing_warnings(monkeypatch) as warned:
        with weft.config.override(explain_cache_misses=True):
            run()
        assert not warned.messages


# ---- the directory -------------------------------------------------------------------------------


def test_a_directory_made_again_is_still_taken(tmp_path):
    usual = os.umask(0o002)  # that of systems where each user has a group
    try:
        root = tmp_path / "cache"
        cache = disk_cache.ProgramCache(disk_cache._prepared(str(root)), 1 << 20)
        os.rmdir(cache.directory)
        os.rmdir(root)
        cache.store("0" * 64, "maker", b"payload")
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        assert disk_cache._prepared(str(root)) == cache.directory
    finally:
        os.umask(usual)
    assert cache.load("0" * 64, "maker") == b"payload"


def test_a_file_in_place_of_the_directory_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(disk_cache._Unusable, match=f"{file} is not a directory"):
        disk_cache._prepared(str(file))
