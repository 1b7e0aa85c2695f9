"""Keys of functions: equal for functions that compute the same, different where anything changed,
none where that cannot be known.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import logging
import math
import operator
import os
import pathlib
import random
import re
import struct
import threading
import time
import types
import typing

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.function_keys import function_key, named_parts
from weft.tracing.trace_cache import TraceCache  # noqa: F401  (registers weft's classes)

pytestmark = pytest.mark.fast


def around(value):
    """A function that refers to a value, made anew."""
    return lambda x: (x, value)


def same(first, second):
    a, b = function_key(first), function_key(second)
    assert a is not None and b is not None
    assert (a == b) == (b == a)
    assert a != b or hash(a) == hash(b)
    return a == b


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Flag(enum.IntFlag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: object
    note: object = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    n: object


class Point(typing.NamedTuple):
    x: object
    y: object = 0


class Valued:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Valued) and self.n == other.n

    def __hash__(self):
        return hash(self.n)


class Plain:
    def __init__(self, n=0):
        self.n = n

    def step(self, x):
        return x * self.n

    def __call__(self, x):
        return self.step(x)


class OnlySlots:
    __slots__ = ("n", "other")

    def __init__(self, n):
        self.n = n


class MyInt(int):
    pass


class MyList(list):
    pass


class MyArray(np.ndarray):
    pass


MAKERS = [
    lambda: None,
    lambda: ...,
    lambda: NotImplemented,
    lambda: True,
    lambda: 1,
    lambda: 1.0,
    lambda: -1.0,
    lambda: 0.0,
    lambda: -0.0,
    lambda: float("nan"),
    lambda: math.inf,
    lambda: 1j,
    lambda: complex(0.0, -0.0),
    lambda: complex(0.0, 0.0),
    lambda: MyInt(1),
    lambda: 10**40,
    lambda: "a",
    lambda: "1",
    lambda: b"a",
    lambda: bytearray(b"a"),
    lambda: slice(1, 2),
    lambda: slice(1, 2.0),
    lambda: range(3),
    lambda: range(0, 3, 2),
    lambda: Color.RED,
    lambda: Color.BLUE,
    lambda: Flag.A,
    lambda: Flag.A | Flag.B,
    lambda: (),
    lambda: (1, 2),
    lambda: (1, 2.0),
    lambda: (1, True),
    lambda: ((1, 2),),
    lambda: [1, 2],
    lambda: MyList([1, 2]),
    lambda: [1, [2]],
    lambda: {1, 2},
    lambda: {1, 2.0},
    lambda: frozenset({1, 2}),
    lambda: {"a": 1},
    lambda: {"a": 1.0},
    lambda: {"a": 1, "b": 2},
    lambda: collections.OrderedDict(a=1),
    lambda: collections.defaultdict(int, a=1),
    lambda: collections.defaultdict(float, a=1),
    lambda: collections.Counter(a=1),
    lambda: collections.deque([1]),
    lambda: collections.deque([1], 3),
    lambda: types.MappingProxyType({"a": 1}),
    lambda: Point(1, 2),
    lambda: Point(1, 2.0),
    lambda: Frozen(1),
    lambda: Frozen(1.0),
    lambda: Frozen(1, "not compared"),
    lambda: Slotted(1),
    lambda: types.SimpleNamespace(a=1),
    lambda: types.SimpleNamespace(a=True),
    lambda: Slotted(True),
    lambda: Valued(1),
    lambda: Valued(1.0),
    lambda: OnlySlots(1),
    lambda: OnlySlots(2),
    lambda: np.float32(1),
    lambda: np.float64(1),
    lambda: np.int32(1),
    lambda: np.bool_(True),
    lambda: np.str_("a"),
    lambda: np.datetime64("2020-01-01"),
    lambda: ml_dtypes.bfloat16(1),
    lambda: np.dtype("float32"),
    lambda: np.dtype(">f4"),
    lambda: np.dtype("int32"),
    lambda: np.dtype([("a", "f4")]),
    lambda: np.float32,
    lambda: jnp.float32,
    lambda: np.zeros(3),
    lambda: -np.zeros(3),
    lambda: np.zeros(3, np.float32),
    lambda: np.zeros(3, ">f8"),
    lambda: np.zeros((3, 1)),
    lambda: np.zeros(3).view(MyArray),
    lambda: np.zeros(3, ml_dtypes.bfloat16),
    lambda: np.array(0.0),
    lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    lambda: np.ma.masked_array([1.0, 2.0], [False, False]),
    lambda: int,
    lambda: Plain,
    lambda: Point,
    lambda: Color,
    lambda: list[int],
    lambda: int | None,
    lambda: jnp,
    lambda: math.sin,
    lambda: np.sin,
    lambda: np.sum,
    lambda: jnp.sin,
    lambda: jnp.sum,
    lambda: len,
    lambda: str.join,
    lambda: "a".join,
    lambda: int.__add__,
    lambda: (1).__add__,
    lambda: operator.itemgetter(1),
    lambda: operator.itemgetter(1.0),
    lambda: operator.attrgetter("a"),
    lambda: operator.methodcaller("a", 1),
    lambda: functools.partial(len),
    lambda: functools.partial(len, 1),
    lambda: functools.partial(len, 1.0),
    lambda: functools.partial(len, n=1),
    lambda: weft.tree_util.Partial(len, 1),
    lambda: around(1),
    lambda: around(1.0),
    lambda: around(around(1)),
    lambda: weft.jit(around(1)),
    lambda: weft.jit(around(1), keep_unused=True),
    lambda: weft.jit(around(2)),
    lambda: weft.grad(around(1)),
    lambda: weft.grad(around(1), argnums=(0,)),
    lambda: weft.vmap(around(1)),
    lambda: fractions.Fraction(1, 2),
    lambda: re.compile("a"),
    lambda: re.compile("b"),
    lambda: weft.ShapeDtypeStruct((1,), "float32"),
    lambda: weft.ShapeDtypeStruct((2,), "float32"),
]
# Made anew they are not the same.
BY_IDENTITY = [
    Plain,
    lambda: jnp.ones(3),
    lambda: weft.random.key(0),
    lambda: contextvars.ContextVar("a"),
    lambda: type("Anew", (), {}),
    object,
]


def without_address(make):
    """The text of a value, equal in every process that collects the tests."""
    return repr(make())[:40].split(" at 0x")[0].split(" from ")[0]


@pytest.mark.parametrize("make", MAKERS, ids=without_address)
def test_equal_values_have_equal_keys(make):
    assert same(around(make()), around(make()))


def test_values_of_different_content_or_class_have_different_keys():
    keys = [function_key(around(make())) for make in MAKERS]
    for i, j in itertools.combinations(range(len(keys)), 2):
        first, second = MAKERS[i](), MAKERS[j]()
        if first is second:  # np.float32 under two names
            continue
        assert keys[i] != keys[j], (first, second)


def test_named_parts_differ_exactly_where_keys_do():
    held = []  # The references in the parts keep identities apart.

    def contents(value):
        held.append(named_parts(around(value)))
        return {name: part[:2] for name, part in held[-1].items()}

    values = [(value, contents(value)) for value in (make() for make in MAKERS)]
    for make, (value, parts) in zip(MAKERS, values, strict=True):
        assert contents(make()) == parts, value
    for (first, parts), (second, others) in itertools.combinations(values, 2):
        assert first is second or parts != others, (first, second)
    assert contents(-1) != contents(-2)


@pytest.mark.parametrize("make", BY_IDENTITY)
def test_other_objects_are_told_apart_by_identity(make):
    value = make()
    assert same(around(value), around(value))
    assert not same(around(value), around(make()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(600_000),
        lambda: np.array([object()]),
        lambda: "a" * 100_000,
        lambda: b"a" * 100_000,
        lambda: iter([1]),
        lambda: (i for i in range(3)),
        lambda: itertools.count(),
        lambda: np.random.default_rng(0),
        lambda: random.Random(0),
        lambda: np.random.normal,
        lambda: random.random,
        lambda: memoryview(b"a"),
        lambda: memoryview(bytearray(b"a")),
        lambda: types.ModuleType("settings"),
        lambda: list(range(5000)),
        lambda: functools.reduce(lambda inner, _: [inner], range(100), []),
        lambda: functools.reduce(lambda inner, _: (inner,), range(5000), ()),
        lambda: functools.reduce(lambda inner, _: around(inner), range(100), 0),
        lambda: ValueError("a"),
        lambda: eval,
        lambda: open,
        lambda: id,
        lambda: np,
        lambda: functools.lru_cache(around(1)),
        lambda: decimal.Decimal(1),
        lambda: decimal.Decimal,
        lambda: pathlib.Path("a"),
        lambda: pathlib.Path,
        lambda: logging.getLogger("a"),
        lambda: threading.Lock(),
        lambda: np.get_printoptions,
        lambda: np.frompyfunc(abs, 1, 1),
        lambda: jnp.load,
        lambda: datetime.datetime.now,
        lambda: os.environ,
        lambda: time.time,
    ],
)
def test_what_can_change_unseen_has_no_key(make):
    value = make()
    assert function_key(around(value)) is None
    assert function_key(around([value])) is None
    assert function_key(around({"a": value})) is None
    assert function_key(around(Plain(value))) is None
    assert function_key(functools.partial(len, value)) is None


def test_traced_values_have_no_key():
    found = []

    def f(x):
        found.append(function_key(lambda y: y * x))
        found.append(function_key(lambda y: y * 2))
        return x

    for transform in (weft.jit, weft.grad, weft.vmap):
        transform(f)(np.ones(3, np.float32) if transform is weft.vmap else 1.0)
    assert [key is None for key in found] == [True, False] * 3


# ---- code --------------------------------------------------------------------------------------


def test_constants_are_told_apart_by_class_and_sign():
    functions = [
        eval(text)
        for text in (
            "lambda x: x * 1",
            "lambda x: x * 1.0",
            "lambda x: x * True",
            "lambda x: x * 0.0",
            "lambda x: x * -0.0",
            "lambda x: x in (1, 2)",
            "lambda x: x in (1, 2.0)",
            "lambda x: x + 1",
            "lambda x: (lambda: 1)()",
            "lambda x: (lambda: 1.0)()",
            "lambda x, y=0: x * 1",
        )
    ]
    keys = {function_key(f) for f in functions}
    assert len(keys) == len(functions)


def test_code_compiled_again_is_equal():
    text = "lambda x: x * 1.0"
    assert same(eval(text), eval(text))
    assert not same(eval(text), eval(compile(text, "another file", "eval")))


def test_defaults_and_attributes_take_part():
    def make(a, b):
        def f(x, y=a, *, z=b):
            return x

        return f

    assert same(make(1, 2), make(1, 2))
    assert not same(make(1, 2), make(1.0, 2))
    assert not same(make(1, 2), make(1, 2.0))
    marked, renamed = make(1, 2), make(1, 2)
    marked.scale = 3
    renamed.__name__ = "g"
    assert not same(marked, make(1, 2))
    assert not same(renamed, make(1, 2))


def test_cells_that_are_not_assigned_yet():
    def make(assign):
        def f():
            return later

        if assign:
            later = 1
        return f

    assert same(make(False), make(False))
    assert not same(make(False), make(True))


def test_functions_that_refer_to_themselves():
    def make(n):
        def even(k):
            return n if k == 0 else odd(k - 1)

        def odd(k):
            return 0 if k == 0 else even(k - 1)

        return even

    assert same(make(1), make(1))
    assert not same(make(1), make(2))
    cyclic = [1]
    cyclic.append(cyclic)
    other = [1]
    other.append(other)
    assert same(around(cyclic), around(other))
    other[0] = 2
    assert not same(around(cyclic), around(other))


def test_decorated_functions():
    def logged(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args)

        return wrapper

    assert same(logged(around(1)), logged(around(1)))
    assert not same(logged(around(1)), logged(around(2)))


def test_methods_and_callable_objects():
    first, second = Plain(2), Plain(2)
    assert same(first.step, first.step)
    assert not same(first.step, second.step)
    assert not same(first.step, first)
    assert same(first, first)
    before = function_key(first.step)
    first.n = 3
    assert function_key(first.step) != before
    first.n = 2
    assert function_key(first.step) == before


# ---- globals -----------------------------------------------------------------------------------


def in_module(source, **names):
    """The namespace of a module with this text."""
    module = types.ModuleType("written_here")
    module.__dict__.update(names)
    exec(source, module.__dict__)
    return module


def test_globals_that_the_code_reads_take_part():
    module = in_module(
        """
scale, unread = 2, 3
def helper(x): return x * scale
def f(x): return helper(x)
def nested(x): return [(lambda: x * scale)() for _ in range(3)]
def built_in(x): return len(x)
"""
    )
    for name in ("f", "nested", "built_in"):
        function = getattr(module, name)
        before = function_key(function)
        module.unread = module.unread + 1
        assert function_key(function) == before
        module.scale = 2.0
        assert (function_key(function) == before) == (name == "built_in")
        module.scale = 2
        assert function_key(function) == before
    before = function_key(module.f)
    exec("def helper(x): return x + scale", module.__dict__)
    assert function_key(module.f) != before
    before = function_key(module.built_in)
    module.len = abs
    assert function_key(module.built_in) != before
    del module.len
    assert function_key(module.built_in) == before


def test_attributes_of_modules_take_part():
    config = types.ModuleType("config")
    config.scale = 2
    config.inner = types.ModuleType("inner")
    config.inner.shift = 1
    module = in_module("def f(x): return x * config.scale + config.inner.shift", config=config)
    before = function_key(module.f)
    assert before is not None
    config.scale = 3
    assert function_key(module.f) != before
    config.scale = 2
    assert function_key(module.f) == before
    config.inner.shift = 1.0
    assert function_key(module.f) != before


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return getattr(config, 'scale')",
        "def f(x): return g(config)",
        "def f(x): config.scale += 1",
        "def f(x): return config.missing",
        "def f(x): return eval('scale')",
        "def f(x): return globals()['scale']",
        "def f(x):\n import config\n return config.scale",
        "def f(x):\n from . import config\n return config.scale",
    ],
)
def test_what_is_read_out_of_sight_has_no_key(text):
    config = types.ModuleType("config")
    config.scale = 2
    module = in_module(text, config=config, g=lambda config: config.scale)
    assert function_key(module.f) is None


def test_imports_of_libraries_inside_functions():
    module = in_module("def f(x):\n import numpy.linalg as la\n from math import pi\n return la")
    assert function_key(module.f) is not None


def test_classes_of_the_user_by_their_content():
    module = in_module(
        """
class Base:
    scale = 2
    def inner(self): return constant
class Layer(Base):
    def __call__(self, x): return x * self.scale + self.inner()
constant = 1
layer = Layer()
def f(x): return layer(x)
def g(x): return Layer.scale * x
""",
        __name__="written_here",
    )
    for function in (module.f, module.g):
        before = function_key(function)
        assert before is not None
        module.Base.scale = 3
        assert function_key(function) != before
        module.Base.scale = 2
        assert function_key(function) == before
        module.constant = 2
        assert function_key(function) != before
        module.constant = 1
        method = module.Base.inner
        module.Base.inner = lambda self: 5
        assert function_key(function) != before
        module.Base.inner = method


def test_context_variables_by_their_present_value():
    variable = contextvars.ContextVar("variable", default=0)
    f = around(variable)
    before = function_key(f)
    token = variable.set(1)
    assert function_key(f) != before
    variable.reset(token)
    assert function_key(f) == before


# ---- changes in place --------------------------------------------------------------------------


def changes():
    numbers, table, names = [1, 2], {"a": [1]}, {1}
    array, layer = np.zeros(3), Plain([1])
    slots, ordered = OnlySlots(1), collections.OrderedDict(a=1, b=2)
    queue, text = collections.deque([1]), bytearray(b"a")
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    return [
        (numbers, lambda: numbers.append(3)),
        (numbers, lambda: operator.setitem(numbers, 0, 1.0)),
        (table, lambda: table["a"].append(1)),
        (table, lambda: table.update(b=1)),
        (names, lambda: names.add(2)),
        (array, lambda: operator.setitem(array, 0, -0.0)),
        (array, lambda: array.resize((3, 1), refcheck=False)),
        (layer, lambda: setattr(layer, "n", 1)),
        (layer, lambda: setattr(layer, "other", 1)),
        (slots, lambda: setattr(slots, "other", 1)),
        (ordered, lambda: ordered.move_to_end("a")),
        (queue, lambda: queue.rotate(1) or queue.append(1)),
        (text, lambda: text.extend(b"b")),
        (masked, lambda: operator.setitem(masked, 1, np.ma.masked)),
    ]


@pytest.mark.parametrize("i", range(len(changes())))
def test_a_change_in_place_is_seen(i):
    value, change = changes()[i]
    before = function_key(around(value))
    assert function_key(around(value)) == before
    change()
    assert function_key(around(value)) != before


def test_a_variable_assigned_later_is_seen():
    def make():
        n = 1

        def advance():
            nonlocal n
            n += 1

        return (lambda x: x * n), advance

    f, advance = make()
    before = function_key(f)
    advance()
    assert function_key(f) != before


# ---- any values --------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
    ),
    max_leaves=8,
)


def written(value):
    """A value as text that tells classes, signs of zeros and bits of NaNs apart."""
    if isinstance(value, (list, tuple)):
        return type(value).__name__ + "".join(f"[{written(x)}]" for x in value)
    if isinstance(value, dict):
        return "dict" + "".join(f"[{k!r}:{written(x)}]" for k, x in value.items())
    if isinstance(value, complex):
        return "complex" + struct.pack("dd", value.real, value.imag).hex()
    if isinstance(value, float):
        return "float" + struct.pack("d", value).hex()
    return f"{type(value).__name__} {value!r}"


def rebuilt(value):
    if isinstance(value, (list, tuple)):
        return type(value)(rebuilt(x) for x in value)
    if isinstance(value, dict):
        return {k: rebuilt(x) for k, x in value.items()}
    return value


@hypothesis.given(nested, nested)
def test_keys_are_equal_exactly_where_values_are_the_same(first, second):
    assert same(around(first), around(rebuilt(first)))
    assert same(around(first), around(second)) == (written(first) == written(second))
