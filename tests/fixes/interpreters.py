"""Fixes of the rules of primitives, and of checks of these."""

from __future__ import annotations

import numpy as np

import weft
from fixes import Fixed
from weft import P, lax
from weft.errors import AxisError, JaxprError, WeftTypeError
from weft.extend import check_primitive
from weft.extend.core import define_primitive

THREE = np.array([1.0, 2.0, 3.0], np.float32)


def succeeded(done):
    return done is True


tripled = define_primitive("tripled", body=lambda x: 3 * x)


def with_slope(slope):
    """A primitive 3 x with a rule for its derivative."""
    made = define_primitive("tripled", body=lambda x: 3 * x)
    weft.extend.interpreters.ad.register_jvp(
        made, lambda primals, tangents: (made.bind(*primals), slope * tangents[0])
    )
    return made


def checked(primitive, examples=((2.0,),)):
    return check_primitive(primitive, examples).raise_if_failed().failed == []


def over(function, x, **options):
    mesh = weft.make_mesh((2,), ("i",), devices=weft.devices()[:2])
    specs = {"in_specs": (P("i"), P()), "out_specs": P("i"), "auto_pbroadcast": False}
    return weft.shard_map(function, mesh=mesh, **specs)(x, np.float32(3))


def custom(result):
    """The derivative of a function at 3 whose rule computes 2 x t."""
    made = weft.custom_jvp(lambda x: x * x)
    made.defjvp(lambda p, t: (result(p[0], t[0]), 2 * p[0] * t[0]))
    return weft.grad(made)(3.0)


FIXES = [
    Fixed(
        "pass the primitive, not the function that binds it",
        wrong=lambda: checked(tripled.bind),
        fixed=lambda fix: checked(tripled),
        value=succeeded,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a list with one tuple of operands per example",
        wrong=lambda: checked(tripled, [2.0]),
        fixed=lambda fix: checked(tripled, [(2.0,)]),
        value=succeeded,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a list with one tuple of operands per example",
        wrong=lambda: checked(tripled, []),
        fixed=lambda fix: checked(tripled, [(2.0,)]),
        value=succeeded,
        error=WeftTypeError,
    ),
    Fixed(
        "correct the jvp rule",
        wrong=lambda: checked(with_slope(2)),
        fixed=lambda fix: checked(with_slope(3)),
        value=succeeded,
        error=JaxprError,
    ),
    Fixed(
        "cast the operand of type f32[]: lax.pbroadcast(x, ('i',))",
        wrong=lambda: over(lambda x, y: x * y, THREE[:2]),
        fixed=lambda fix: over(lambda x, y: x * lax.pbroadcast(y, fix.data["axes"]), THREE[:2]),
        value=3 * THREE[:2],
        error=AxisError,
    ),
    Fixed(
        "compute the result without the tangents",
        wrong=lambda: custom(lambda x, t: x * x + t),
        fixed=lambda fix: custom(lambda x, t: x * x),
        value=6.0,
        error=WeftTypeError,
    ),
]
