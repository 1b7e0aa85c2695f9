"""Fixes of platforms, of compiling, of callbacks and of what lowering rules emit."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import tempfile

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from ffi_cases import example, needs
from fixes import Fixed
from fixes.export import exported, rewritten
from fixes.ffi import library, new
from source_files import ROOT
from weft import ffi, lax
from weft.errors import (
    DeletedArrayError,
    WeftError,
    WeftNotImplementedError,
    WeftTypeError,
    WeftValueError,
)
from weft.extend.core import Primitive
from weft.extend.interpreters import mlir
from weft.extend.interpreters.builders import add, compare, constant, convert, custom_call, op
from weft.runtime.backends import pjrt

X = np.arange(3, dtype=np.float32)


def primitive(rule):
    p = Primitive("of the runtime")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda context, x: rule(x))
    return p.bind


def lowered(rule):
    return primitive(rule)(X)


def less(x, direction):
    flags = compare(x, constant(2.0, (3,), np.float32), direction)
    return convert(flags, np.float32)


def negated(x):
    """An operation that the printers of HLO do not know."""
    return op("arith.negf", [x], [x.type])[0]


def shown(dialect):
    return weft.jit(primitive(negated)).lower(X).as_text(dialect)


def cuda():
    if pjrt.cuda_plugin() is not None:
        pytest.skip("there is a plugin for CUDA")
    return weft.devices("cuda")


def donated():
    x = jnp.array(X)
    y = weft.jit(lambda x: 2 * x, donate_argnums=0)(x)
    return x, y


def donated_copy():
    x = jnp.array(X)
    weft.jit(lambda x: 2 * x, donate_argnums=0)(x.copy())
    return x + 1


def deleted(copy):
    x = jnp.array(X)
    y = copy(x)
    x.delete()
    return y + 1


def nested(depth, inner=weft.jit):
    """A program whose callback runs a program whose callback runs one, and so on."""

    def program(x):
        if depth == 0:
            return x + 1
        return weft.pure_callback(lambda x: np.asarray(nested(depth - 1, inner)(x)), x, x)

    return inner(program)


def combined(a, b):
    return weft.pure_callback(np.add, weft.ShapeDtypeStruct((), "float32"), a, b)


def calling(name, **config):
    return lowered(lambda x: custom_call(name, [x], [x.type], **config)[0])


def registered(function, name, **options):
    ffi.register_ffi_target(name, function, **options)
    return name


class Powers:
    """A library of its own, since another test shows that the type of its state is unknown."""

    def __init__(self):
        needs(".cc")
        made = example("build").load(ROOT / "tests" / "support" / "ffi_states.cc")
        copy = pathlib.Path(tempfile.mkdtemp(), "powers.so")
        self.library = ctypes.CDLL(shutil.copy(made._name, copy))

    def register_type(self):
        parts = {"type_id": self.library.PowersTypeId, "type_info": self.library.PowersTypeInfo}
        ffi.register_ffi_type(new("Powers"), parts)
        return self

    def called(self):
        """Powers of three, by a handler whose state has them."""
        stages = {
            "instantiate": self.library.PowersInstantiate,
            "prepare": self.library.PowersPrepare,
            "initialize": self.library.PowersInitialize,
            "execute": self.library.PowersExecute,
        }
        name = registered(stages, new())
        out = weft.ShapeDtypeStruct((3,), "float32")
        return ffi.ffi_call(name, out)(np.arange(3, dtype=np.int32), base=np.float32(3))


FIXES = [
    Fixed(
        "use platform='cpu'",
        wrong=lambda: weft.devices("abacus"),
        fixed=lambda fix: len(weft.devices("cpu")),
        value=8,
        error=WeftValueError,
    ),
    Fixed(
        "ask for 'cpu' elsewhere",
        wrong=cuda,
        fixed=lambda fix: len(weft.devices("cpu")),
        value=8,
        error=WeftValueError,
    ),
    Fixed(
        ["use the result of the call that it was donated to", "or donate a copy of it: x.copy()"],
        wrong=lambda: donated()[0] + 1,
        fixed=lambda fix: [donated()[1] + 1, donated_copy()],
        value=[2 * X + 1, X + 1],
        error=DeletedArrayError,
    ),
    Fixed(
        "make a copy before that, x.copy(), and use it here",
        wrong=lambda: deleted(lambda x: x),
        fixed=lambda fix: deleted(lambda x: x.copy()),
        value=X + 1,
        error=DeletedArrayError,
    ),
    Fixed(
        'ask for the dialect "stablehlo"',
        wrong=lambda: shown("hlo"),
        fixed=lambda fix: shown("stablehlo"),
        value=lambda text: "arith.negf" in text,
        error=WeftError,
    ),
    Fixed(
        "remove 'xla_abacus' from compiler_options",
        wrong=lambda: weft.jit(lambda x: 2 * x, compiler_options={"xla_abacus": True})(X),
        fixed=lambda fix: weft.jit(lambda x: 2 * x, compiler_options={})(X),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.ffi.register_ffi_target('nobody typed', function) before",
        wrong=lambda: calling("nobody typed", backend_config={}),
        fixed=lambda fix: calling(registered(library().Same, new()), backend_config={}),
        value=X,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.ffi.register_ffi_target('nobody', function, api_version=0) before",
        wrong=lambda: calling("nobody"),
        fixed=lambda fix: calling(registered(library().OldTwiceWithStatus, new(), api_version=0)),
        value=2 * X,
        error=WeftValueError,
    ),
    Fixed(
        "call weft.ffi.register_ffi_type with the state's type before the handler's registration",
        wrong=lambda: Powers().called(),
        fixed=lambda fix: Powers().register_type().called(),
        value=np.array([1, 3, 9]),
        error=WeftError,
    ),
    Fixed(
        "call the inner function outside of jit",
        wrong=lambda: nested(12)(X),
        fixed=lambda fix: nested(12, lambda program: program)(X),
        value=X + 1,
        error=WeftError,
    ),
    Fixed(
        "combine the elements with weft.lax.scan",
        wrong=lambda: lax.reduce(X, np.float32(0), combined, (0,)),
        fixed=lambda fix: weft.lax.scan(
            lambda total, x: (combined(total, x), None), np.float32(0), X
        )[0],
        value=3,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "write 'LT', for example",
        wrong=lambda: lowered(lambda x: less(x, "lt")),
        fixed=lambda fix: lowered(lambda x: less(x, "LT")),
        value=X < 2,
        error=WeftValueError,
    ),
    Fixed(
        "make a number or an array a value with constant(it, shape, dtype)",
        wrong=lambda: lowered(lambda x: add(x, 2.0)),
        fixed=lambda fix: lowered(lambda x: add(x, constant(2.0, (3,), np.float32))),
        value=X + 2,
        error=WeftTypeError,
    ),
    Fixed(
        "write [value]",
        wrong=lambda: lowered(lambda x: op("stablehlo.negate", x, [x.type])[0]),
        fixed=lambda fix: lowered(lambda x: op("stablehlo.negate", [x], [x.type])[0]),
        value=-X,
        error=WeftTypeError,
    ),
    Fixed(
        "take the values out of the list",
        wrong=lambda: lowered(lambda x: add([x], x)),
        fixed=lambda fix: lowered(lambda x: add(x, x)),
        value=2 * X,
        error=WeftTypeError,
    ),
    Fixed(
        "export the program again",
        wrong=lambda: weft.export.deserialize(rewritten(lambda header: None, artifact=b"noise")),
        fixed=lambda fix: weft.export.deserialize(exported(like=X[0]).serialize()).call(X[0]),
        value=0,
        error=WeftValueError,
    ),
]
