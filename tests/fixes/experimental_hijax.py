"""Fixes of types and primitives of a program's own."""

from __future__ import annotations

import weft
from fixes import Fixed
from weft.errors import WeftNotImplementedError, WeftTypeError
from weft.experimental import hijax


class Doubled(hijax.HiPrimitive):
    def impl(self, box):
        return box[0] * 2


doubled_p = Doubled("doubled")

FIXES = [
    Fixed(
        "pass the arrays that the value holds",
        wrong=lambda: weft.jit(lambda x: doubled_p.bind([x]))(3.0),
        fixed=lambda fix: weft.jit(lambda x: doubled_p.impl([x]))(3.0),
        value=6.0,
        error=WeftNotImplementedError,
    ),
    Fixed(
        "write register_hitype(Class, function)",
        wrong=lambda: hijax.register_hitype(Doubled("wrong"), Doubled),
        fixed=lambda fix: hijax.register_hitype(Doubled, lambda value: hijax.HiType()),
        value=lambda out: out is None,
        error=WeftTypeError,
    ),
]
