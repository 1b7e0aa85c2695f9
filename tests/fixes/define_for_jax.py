"""Fixes of functions on flat lists and of lowerings written for JAX."""

from __future__ import annotations

import inspect

import numpy as np

import weft
from fixes import Fixed
from weft import api_util
from weft.errors import WeftTypeError, WeftValueError
from weft.extend import linear_util as lu
from weft.extend.core import UncheckedPrimitive
from weft.extend.interpreters import mlir

X = np.arange(4, dtype=np.float32)


def fixed_argument(value):
    fun, rest = api_util.argnums_partial(lu.wrap_init(lambda x, ys: x + sum(ys)), 0, (X, value))
    return fun.call_wrapped(*rest)


def of_callback(function):
    """What a primitive computes that calls a Python function."""
    called_p = UncheckedPrimitive("called")
    called_p.def_abstract_eval(lambda x: x)
    mlir.set_lowering(
        called_p,
        lambda ctx, x: mlir.emit_python_callback(
            ctx, function, None, [x], ctx.avals_in, ctx.avals_out
        )[0],
    )
    return weft.jit(called_p.bind)(X)


def named(names):
    signature = inspect.signature(lambda x, y: x)
    return api_util.infer_argnums_and_argnames(signature, None, names)[0]


FIXES = [
    Fixed(
        "pass a tuple",
        wrong=lambda: fixed_argument([1.0, 2.0]),
        fixed=lambda fix: fixed_argument((1.0, 2.0)),
        value=X + 3,
        error=WeftValueError,
    ),
    Fixed(
        "take it from one of them",
        wrong=lambda: api_util.rebase_donate_argnums((0, 2), (2,)),
        fixed=lambda fix: api_util.rebase_donate_argnums(
            tuple(i for i in (0, 2) if i not in fix.data["arguments"]), (2,)
        ),
        value=(0,),
        error=WeftValueError,
    ),
    Fixed(
        "pass sequences of one length",
        wrong=lambda: api_util.safe_map(lambda x, y: x + y, [1, 2], [3]),
        fixed=lambda fix: api_util.safe_map(lambda x, y: x + y, [1, 2], [3, 4]),
        value=[4, 6],
        error=WeftValueError,
    ),
    Fixed(
        'write a tuple of names, such as ("x",)',
        wrong=lambda: named(1),
        fixed=lambda fix: named(("y",)),
        value=(1,),
        error=WeftTypeError,
    ),
    Fixed(
        "return arrays of these shapes and dtypes",
        wrong=lambda: of_callback(lambda x: (x.sum(),)),
        fixed=lambda fix: of_callback(lambda x: (2 * x,)),
        value=2 * X,
        error=WeftTypeError,
    ),
]
