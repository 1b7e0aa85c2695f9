"""Fixes of calls of jet."""

from __future__ import annotations

import numpy as np

import weft.numpy as jnp
from fixes import Fixed
from weft.errors import DTypeError, ShapeError, WeftTypeError, WeftValueError
from weft.experimental.jet import jet

TWO = np.ones(2, np.float32)


def slope(primals, series, function=jnp.sin):
    return jet(function, primals, series)[1][0]


COS = np.cos(1.0)

FIXES = [
    Fixed(
        "pass a tuple with the derivatives of each argument",
        wrong=lambda: slope((1.0,), ((1.0,), (1.0,))),
        fixed=lambda fix: slope((1.0,), ((1.0,),)),
        value=COS,
        error=WeftValueError,
    ),
    Fixed(
        "give each argument as many derivatives",
        wrong=lambda: slope((1.0, 2.0), ((1.0,), ()), jnp.add),
        fixed=lambda fix: slope((1.0, 2.0), ((1.0,), (0.0,)), jnp.add),
        value=1.0,
        error=WeftValueError,
    ),
    Fixed(
        "pass the arrays of a tree as arguments of their own",
        wrong=lambda: slope(((1.0,),), ((1.0,),), lambda x: jnp.sin(x[0])),
        fixed=lambda fix: slope((1.0,), ((1.0,),), lambda x: jnp.sin(x)),
        value=COS,
        error=WeftValueError,
    ),
    Fixed(
        "pass the arrays of a tree as arguments of their own",
        wrong=lambda: slope((1.0,), (((1.0,),),)),
        fixed=lambda fix: slope((1.0,), ((1.0,),)),
        value=COS,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a number of a floating dtype",
        wrong=lambda: slope((1,), ((1.0,),)),
        fixed=lambda fix: slope((1.0,), ((1.0,),)),
        value=COS,
        error=DTypeError,
    ),
    Fixed(
        "pass an array of shape (2,)",
        wrong=lambda: slope((TWO,), ((np.ones(3, np.float32),),)),
        fixed=lambda fix: slope((TWO,), ((np.ones(fix.data["shape"], np.float32),),)),
        value=COS * TWO,
        error=ShapeError,
    ),
]
