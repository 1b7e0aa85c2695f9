"""Fixes of foreign calls and of what is registered for them."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np

import weft
import weft.numpy as jnp
from ffi_cases import Struct, kernels, needs
from fixes import Fixed
from weft import ffi
from weft.errors import (
    DTypeError,
    MissingRuleError,
    ShapeError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.ffi import targets
from weft.layout import Layout

X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = X[1]
_numbers = itertools.count()
_old = []


def library():
    """The library of handlers; a program that needs it is skipped where no compiler is."""
    needs(".c")
    return kernels()


def path():
    return library()._name


def new(name="fix"):
    """A name that nothing is registered under."""
    return f"{name} {next(_numbers)}"


def call(target, out, *args, attributes=None, **how):
    library()
    return ffi.ffi_call(target, out, **how)(*args, **(attributes or {}))


def like(x):
    return Struct(np.shape(x), "float32")


def same(x, target="Same", **how):
    return call(target, like(x), x, **how)


def doubled(x):
    return call("Twice", (like(x), Struct((), "int32")), x)[0]


def memory(x, **how):
    """The elements of an array in the order that the handler finds them in."""
    return call("Memory", Struct((x.size,), "float32"), x, **how)


def described(value, name="a"):
    """The attribute that a handler got, as text."""
    found = call("Describe", Struct((200,), "uint8"), attributes={name: value})
    return np.asarray(found).tobytes().rstrip(b"\0").decode()


def is_text(*words):
    return lambda found: all(word in found for word in words)


def registered(function=None, name=None, **how):
    """Registers a function, Same if not another one, under a new name, and calls it."""
    name = name or new()
    ffi.register_ffi_target(name, library().Same if function is None else function, **how)
    return same(V, name)


def scaled(*args, **how):
    """Calls a handler of the older interface: it takes the factor as a text."""
    return old("OldScaled", *args, custom_call_api_version=3, **how)


def old(name, *args, attributes=None, **how):
    if name not in _old:
        ffi.register_ffi_target(f"{name} of fixes", getattr(library(), name), api_version=0)
        _old.append(name)
    return ffi.ffi_call(f"{name} of fixes", like(V), **how)(V, *args, **(attributes or {}))


def split(count, target="Parts", x=X):
    return call(
        target, Struct(x.shape[:-1], "float32"), x, np.full_like(x, 2),
        num_batch_dims=count,
    )  # fmt: skip


def with_derivative(x):
    @weft.custom_jvp
    def twice(x):
        return doubled(x)

    twice.defjvp(lambda primals, tangents: (twice(primals[0]), 2 * tangents[0]))
    return twice(x)


def with_pullback(x):
    @weft.custom_vjp
    def twice(x):
        return doubled(x)

    twice.defvjp(lambda x: (twice(x), None), lambda _, ct: (2 * ct,))
    return twice(x)


def slope(function):
    return weft.grad(lambda x: function(x).sum())(V)


CALLS = [
    Fixed(
        "register the function, and pass its name",
        wrong=lambda: same(V, library().Same),
        fixed=lambda fix: registered(library().Same),
        value=V,
        error=WeftTypeError,
    ),
    Fixed(
        [
            "decorate the function that calls it with weft.custom_vjp or weft.custom_jvp",
            "or pass weft.lax.stop_gradient(x)",
        ],
        wrong=lambda: slope(doubled),
        fixed=lambda fix: [
            [slope(with_pullback), slope(with_derivative)],
            slope(lambda x: x + doubled(weft.lax.stop_gradient(x))),
        ],
        value=[[np.full(3, 2)] * 2, np.ones(3)],
        error=MissingRuleError,
    ),
    Fixed(
        "pass the arrays of a tree one by one",
        wrong=lambda: call("Same", (like(V), like(X)), {"v": V, "x": X}),
        fixed=lambda fix: call("Same", (like(V), like(X)), V, X),
        value=(V, X),
        error=WeftTypeError,
    ),
    Fixed(
        "and attributes by keyword",
        wrong=lambda: call("Describe", Struct((200,), "uint8"), "text"),
        fixed=lambda fix: described("text"),
        value=is_text("a string text"),
        error=WeftTypeError,
    ),
    Fixed(
        "pass weft.random.key_data(key) for a random key",
        wrong=lambda: call("Same", Struct((2,), "uint32"), weft.random.key(7)),
        fixed=lambda fix: call(
            "Same", Struct((2,), "uint32"), weft.random.key_data(weft.random.key(7))
        ),
        value=np.array([0, 7]),
        error=DTypeError,
    ),
    Fixed(
        "pass input_layouts=[None]",
        wrong=lambda: memory(X, input_layouts=[(1, 0), (1, 0)]),
        fixed=lambda fix: memory(X, input_layouts=[None]),
        value=X.ravel(),
        error=WeftValueError,
    ),
    Fixed(
        "pass Layout((1, 0))",
        wrong=lambda: memory(X, input_layouts=[Layout((1, 0), tiling=((8, 128),))]),
        fixed=lambda fix: memory(X, input_layouts=[Layout((1, 0))]),
        value=X.T.ravel(),
        error=WeftNotImplementedError,
    ),
    Fixed(
        "leave 0: 1 out",
        wrong=lambda: same(V, input_output_aliases={0: 1}),
        fixed=lambda fix: same(V, input_output_aliases={}),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.ffi.register_ffi_target_as_batch_partitionable('ScaledSum') before",
        wrong=lambda: split(1, target="ScaledSum"),
        fixed=lambda fix: partitionable(),
        value=2 * X.sum(1),
        error=WeftValueError,
    ),
    Fixed(
        "pass num_batch_dims=1",
        wrong=lambda: split(2),
        fixed=lambda fix: split(1),
        value=2 * X.sum(1),
        error=ShapeError,
    ),
    Fixed(
        "pass 4",
        wrong=lambda: same(V, custom_call_api_version=5),
        fixed=lambda fix: same(V, custom_call_api_version=4),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass legacy_backend_config=str(...)",
        wrong=lambda: scaled(legacy_backend_config=2.5),
        fixed=lambda fix: scaled(legacy_backend_config=str(2.5)),
        value=2.5 * V,
        error=WeftTypeError,
    ),
    Fixed(
        "leave legacy_backend_config out",
        wrong=lambda: same(V, legacy_backend_config="2"),
        fixed=lambda fix: same(V),
        value=V,
        error=WeftValueError,
    ),
]


def partitionable():
    """ScaledSum itself stays as the tests of weft.ffi have it."""
    name = new()
    ffi.register_ffi_target(name, library().ScaledSum)
    weft.ffi.register_ffi_target_as_batch_partitionable(name)
    return split(1, target=name)


ATTRIBUTES = [
    Fixed(
        "pass them in legacy_backend_config",
        wrong=lambda: scaled(attributes={"factor": 2.5}),
        fixed=lambda fix: scaled(legacy_backend_config="2.5"),
        value=2.5 * V,
        error=WeftValueError,
    ),
    Fixed(
        "pass the array as an operand, by position",
        wrong=lambda: call("Memory", Struct((6,), "float32"), V, attributes={"a": jnp.array(V)}),
        fixed=lambda fix: call("Memory", Struct((6,), "float32"), V, jnp.array(V)),
        value=np.tile(V, 2),
        error=WeftTypeError,
    ),
    Fixed(
        "or numpy.asarray(x) of it",
        wrong=lambda: described(jnp.array(V)),
        fixed=lambda fix: described(np.asarray(jnp.array(V))),
        value=is_text("a array", V.tobytes().hex()),
        error=WeftTypeError,
    ),
    Fixed(
        "pass numpy.uint64(x)",
        wrong=lambda: described(2**63),
        fixed=lambda fix: described(np.uint64(2**63)),
        value=is_text("a scalar", "0000000000000080"),
        error=WeftValueError,
    ),
    Fixed(
        "pass it as a float or as a text",
        wrong=lambda: described(2**64),
        fixed=lambda fix: described(float(2**64)) + described(str(2**64)),
        value=is_text(np.float64(2.0**64).tobytes().hex(), "a string 18446744073709551616"),
        error=WeftValueError,
    ),
    Fixed(
        "convert it: numpy.asarray(x, numpy.float32)",
        wrong=lambda: described(V.astype("float16")),
        fixed=lambda fix: described(np.asarray(V.astype("float16"), np.float32)),
        value=is_text("a array", V.tobytes().hex()),
        error=DTypeError,
    ),
    Fixed(
        "pass the real and the imaginary part as two attributes",
        wrong=lambda: described(V + 0j),
        fixed=lambda fix: described((V + 0j).real) + described((V + 0j).imag, "b"),
        value=is_text("a array", V.tobytes().hex(), "b array"),
        error=DTypeError,
    ),
    Fixed(
        "pass numbers, texts, or a dict of them",
        wrong=lambda: described(None),
        fixed=lambda fix: described({"text": "none"}),
        value=is_text("a {", "text string none"),
        error=WeftTypeError,
    ),
]


def type_of_plans(parts, name=None, platform="tpu"):
    """Registers a type, where no process has been; gives the pointer to its number."""
    name = name or new("Plan")
    ffi.register_ffi_type(name, parts, platform)
    return targets._types[name, "tpu"][0]


def plan():
    found = library()
    return {"type_id": found.PlanTypeId, "type_info": found.PlanTypeInfo}


def is_plans_number(found):
    return found == ctypes.addressof(ctypes.c_int64.in_dll(library(), "plan_type_id"))


def twice_registered(second, name):
    """Registers Same and then another function."""
    first = new()
    registered(name=first)
    return registered(second(library()), name(first))


def both_types(name):
    first = new("Plan")
    type_of_plans(plan(), first)
    return type_of_plans({"type_id": library().PlanTypeId}, name(first))


REGISTRATIONS = [
    Fixed(
        "pass api_version=1",
        wrong=lambda: registered(api_version=2),
        fixed=lambda fix: registered(api_version=1),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass {'execute': function}",
        wrong=lambda: registered({"run": library().Same}),
        fixed=lambda fix: registered({"execute": library().Same}),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass {'type_id': pointer, 'type_info': pointer}",
        wrong=lambda: type_of_plans(library().PlanTypeId),
        fixed=lambda fix: type_of_plans(plan()),
        value=is_plans_number,
        error=WeftTypeError,
    ),
    Fixed(
        "pass {'type_id': pointer, 'type_info': pointer}",
        wrong=lambda: type_of_plans({"type_info": library().PlanTypeInfo}),
        fixed=lambda fix: type_of_plans(plan()),
        value=is_plans_number,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.ffi.register_ffi_target('nobody', function) before",
        wrong=lambda: same(V, "nobody"),
        fixed=lambda fix: registered(),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass custom_call_api_version=4 to ffi_call",
        wrong=lambda: same(V, custom_call_api_version=2),
        fixed=lambda fix: same(V, custom_call_api_version=4),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass custom_call_api_version=2 to ffi_call",
        wrong=lambda: old("OldTwiceWithStatus"),
        fixed=lambda fix: old("OldTwiceWithStatus", custom_call_api_version=2),
        value=2 * V,
        error=WeftValueError,
    ),
    Fixed(
        "or register the handler with api_version=1",
        wrong=lambda: of_version(0),
        fixed=lambda fix: of_version(1),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "pass the name that is to stand for it",
        wrong=lambda: ffi.register_ffi_target(library().Same, "Same"),
        fixed=lambda fix: registered(name=new()),
        value=V,
        error=WeftTypeError,
    ),
    Fixed(
        "pass platform='cpu'",
        wrong=lambda: registered(platform="abacus"),
        fixed=lambda fix: registered(platform="cpu"),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "register it once, where its library is loaded",
        wrong=lambda: twice_registered(lambda library: library.Same, lambda name: name),
        fixed=lambda fix: registered(),
        value=V,
        error=WeftValueError,
    ),
    Fixed(
        "choose another name",
        wrong=lambda: twice_registered(lambda library: library.Root, lambda name: name),
        fixed=lambda fix: twice_registered(lambda library: library.Root, lambda name: new()),
        value=np.sqrt(V),
        error=WeftValueError,
    ),
    Fixed(
        "choose another name",
        wrong=lambda: both_types(lambda name: name),
        fixed=lambda fix: both_types(lambda name: new("Plan")),
        value=is_plans_number,
        error=WeftValueError,
    ),
    Fixed(
        "pass ctypes.c_int64.in_dll(ctypes.CDLL(path), name)",
        wrong=lambda: type_of_plans({"type_id": "plan_type_id"}),
        fixed=lambda fix: type_of_plans(
            {"type_id": ctypes.c_int64.in_dll(ctypes.CDLL(path()), "plan_type_id")}
        ),
        value=is_plans_number,
        error=WeftTypeError,
    ),
    Fixed(
        "pass ctypes.CDLL(path).TheFunction",
        wrong=lambda: registered("Root"),
        fixed=lambda fix: registered(ctypes.CDLL(path()).Root),
        value=np.sqrt(V),
        error=WeftTypeError,
    ),
]


def of_version(api_version):
    """Registers Same as a handler of an interface, without calling what it is not."""
    name = new()
    ffi.register_ffi_target(name, library().Same, api_version=api_version)
    return same(V, name)


FIXES = CALLS + ATTRIBUTES + REGISTRATIONS
