"""Fixes of hardware, plans and proposals."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import P, lax
from weft.errors import WeftTypeError, WeftValueError
from weft.sharding import AbstractMesh

X = np.ones((8, 8), np.float32)
MODEL = weft.Decoder(2, 16, 4, 16, 16)
GIVEN = {"batch": 4, "length": 8, "hardware": weft.ACCELERATORS["H100"], "roles": ("data",)}


def chip(**given):
    return weft.Hardware(**({"flops": 1e12, "memory_bandwidth": 1e12} | given))


def summed(hardware):
    mesh = AbstractMesh((4,), ("i",))
    total = weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    return weft.plan(total, X, hardware=hardware).communication["i",]


def proposed(mesh=4, **changes):
    return len(weft.propose(MODEL, AbstractMesh((mesh,), ("i",)), **(GIVEN | changes)))


FIXES = [
    Fixed(
        "pass flops=1e12",
        wrong=lambda: chip(flops=0),
        fixed=lambda fix: chip(flops=1e12).flops_of("float32"),
        value=1e12,
        error=WeftValueError,
    ),
    Fixed(
        "pass latency=1e-6",
        wrong=lambda: chip(latency=-1),
        fixed=lambda fix: chip(latency=1e-6).latency,
        value=1e-6,
        error=WeftValueError,
    ),
    Fixed(
        "add 'i' to link_bandwidth",
        wrong=lambda: summed(chip(link_bandwidth={"j": 1e9})),
        fixed=lambda fix: summed(chip(link_bandwidth={"j": 1e9, "i": 64.0})),
        value=2 * 0.75 * 64 / 64,
        error=WeftValueError,
    ),
    Fixed(
        "pass hardware=weft.ACCELERATORS['H100']",
        wrong=lambda: weft.plan(jnp.sin, X, hardware="H100"),
        fixed=lambda fix: weft.plan(jnp.sin, X, hardware=weft.ACCELERATORS["H100"]).fits,
        value=True,
        error=WeftTypeError,
    ),
    Fixed(
        "write (f, x) for f(x)",
        wrong=lambda: weft.plans({"sine": jnp.sin}, hardware=chip()),
        fixed=lambda fix: len(weft.plans({"sine": (jnp.sin, X)}, hardware=chip())),
        value=1,
        error=WeftTypeError,
    ),
    Fixed(
        "pass meshes, such as weft.sharding.AbstractMesh",
        wrong=lambda: weft.scaling(lambda mesh: (jnp.sin, X), [8], hardware=chip()),
        fixed=lambda fix: (
            weft.scaling(
                lambda mesh: (jnp.sin, X), [AbstractMesh((8,), ("i",))], hardware=chip()
            ).devices
        ),
        value=lambda found: found == (8,),
        error=WeftTypeError,
    ),
    Fixed(
        "pass a weft.Decoder",
        wrong=lambda: weft.propose(jnp.sin, AbstractMesh((4,), ("i",)), **GIVEN),
        fixed=lambda fix: proposed(),
        value=1,
        error=WeftTypeError,
    ),
    Fixed(
        "for example layers=1",
        wrong=lambda: weft.Decoder(0, 16, 4, 16, 16),
        fixed=lambda fix: weft.Decoder(1, 16, 4, 16, 16).layers,
        value=1,
        error=WeftValueError,
    ),
    Fixed(
        "for example heads=2",
        wrong=lambda: weft.Decoder(2, 6, 4, 16, 16),
        fixed=lambda fix: weft.Decoder(2, 6, 2, 16, 16).heads,
        value=2,
        error=WeftValueError,
    ),
    Fixed(
        "choose among roles=",
        wrong=lambda: proposed(roles=("model",)),
        fixed=lambda fix: proposed(roles=fix.data["roles"]),
        value=lambda found: found >= 3,
        error=WeftValueError,
    ),
    Fixed(
        "for example batch=3",
        wrong=lambda: proposed(mesh=3),
        fixed=lambda fix: proposed(mesh=3, **fix.data),
        value=1,
        error=WeftValueError,
    ),
]
