"""Fixes of reports of what programs communicate."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import CommunicationError, WeftTypeError
from weft.sharding import AbstractMesh

ROWS = np.arange(16, dtype=np.float32).reshape(8, 2)
WEIGHTS = np.ones(2, np.float32)


def loss(cast=lambda w: w):
    """A loss over four devices that share weights, which `cast` makes their own."""

    def local(w, x):
        return lax.psum(jnp.sum(x * cast(w)), "i")

    specs = (P(), P("i"))
    return weft.shard_map(local, mesh=AbstractMesh((4,), ("i",)), in_specs=specs, out_specs=P())


FIXES = [
    Fixed(
        "weft.assert_comms(f, ..., all_reduce=2)",
        wrong=lambda: weft.assert_comms(loss(), WEIGHTS, ROWS, all_gather=1),
        fixed=lambda fix: weft.assert_comms(loss(), WEIGHTS, ROWS, **fix.data).count(),
        value=2,
        error=CommunicationError,
    ),
    Fixed(
        "without counts",
        wrong=lambda: weft.assert_comms(jnp.sin, 1.0, all_gather=1),
        fixed=lambda fix: weft.assert_comms(jnp.sin, 1.0, **fix.data).count(),
        value=0,
        error=CommunicationError,
    ),
    Fixed(
        "lax.pbroadcast(x, 'i')",
        wrong=lambda: weft.comms(loss(), WEIGHTS, ROWS, strict=True),
        fixed=lambda fix: (
            weft.comms(
                loss(lambda w: lax.pbroadcast(w, fix.data["axes"])), WEIGHTS, ROWS, strict=True
            ).total_bytes
        ),
        value=4 + 8,
        error=CommunicationError,
    ),
    Fixed(
        "write all_reduce=2",
        wrong=lambda: weft.assert_comms(loss(), WEIGHTS, ROWS, psum=2),
        fixed=lambda fix: weft.assert_comms(loss(), WEIGHTS, ROWS, **fix.data).count(),
        value=2,
        error=WeftTypeError,
    ),
    Fixed(
        "for example 'all_reduce'",
        wrong=lambda: weft.comms(loss(), WEIGHTS, ROWS).count("psum"),
        fixed=lambda fix: weft.comms(loss(), WEIGHTS, ROWS).count(fix.data["kind"]),
        value=2,
        error=WeftTypeError,
    ),
]
