"""Fixes of checkpoint and its policies."""

from __future__ import annotations

import numpy as np

import weft
import weft.numpy as jnp
from fixes import Fixed
from weft import checkpoint_policies
from weft.errors import WeftTypeError, WeftValueError

CUBE_SLOPE = 12.0


def cube(x):
    return weft.checkpoint_name(x * x, "square") * x


def slope(policy):
    """The derivative of the cube at 2."""
    return weft.grad(weft.checkpoint(cube, policy=policy))(2.0)


def raised(x, flag=True):
    return x * x if flag else x


def make(*_, **__):
    return checkpoint_policies.save_only_these_names("square")


def offloading(saved, moved, offload_src="device", offload_dst="pinned_host"):
    return checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=saved, names_which_can_be_offloaded=moved,
        offload_src=offload_src, offload_dst=offload_dst,
    )  # fmt: skip


def answering(answer):
    return lambda primitive, *types, **params: answer(primitive)


FIXES = [
    Fixed(
        "pass policy=weft.checkpoint_policies.dots_saveable",
        wrong=lambda: slope("dots"),
        fixed=lambda fix: slope(policy=weft.checkpoint_policies.dots_saveable),
        value=CUBE_SLOPE,
        error=WeftTypeError,
    ),
    Fixed(
        "leave it out",
        wrong=lambda: weft.grad(weft.checkpoint(raised, static_argnums=1))(3.0),
        fixed=lambda fix: weft.grad(weft.checkpoint(raised))(3.0),
        value=6.0,
        error=WeftValueError,
    ),
    Fixed(
        "or pass the argument by position",
        wrong=lambda: weft.checkpoint(raised, static_argnums=1)(3.0, flag=False),
        fixed=lambda fix: weft.checkpoint(raised, static_argnums=1)(3.0, False),
        value=3.0,
        error=WeftValueError,
    ),
    Fixed(
        "call it with the names: save_only_these_names('a')",
        wrong=lambda: slope(checkpoint_policies.save_only_these_names),
        fixed=lambda fix: slope(checkpoint_policies.save_only_these_names("square")),
        value=CUBE_SLOPE,
        error=WeftTypeError,
    ),
    Fixed(
        "pass what it returns, policy=make(…) for policy=make",
        wrong=lambda: slope(make),
        fixed=lambda fix: slope(make()),
        value=CUBE_SLOPE,
        error=WeftTypeError,
    ),
    Fixed(
        "return a bool from the policy: bool(…)",
        wrong=lambda: slope(answering(lambda primitive: np.bool_(primitive.name == "mul"))),
        fixed=lambda fix: slope(
            answering(lambda primitive: bool(np.bool_(primitive.name == "mul")))
        ),
        value=CUBE_SLOPE,
        error=WeftTypeError,
    ),
    Fixed(
        "leave 'square' out of one of the lists",
        wrong=lambda: slope(offloading(["square"], ["square"])),
        fixed=lambda fix: slope(offloading([], fix.data["names"])),
        value=CUBE_SLOPE,
        error=WeftValueError,
    ),
    Fixed(
        "pass offload_dst='device' or 'pinned_host'",
        wrong=lambda: slope(offloading([], ["square"], offload_dst="host")),
        fixed=lambda fix: slope(offloading([], ["square"], **{fix.data["keyword"]: "device"})),
        value=CUBE_SLOPE,
        error=WeftValueError,
    ),
    Fixed(
        "pass the names one by one: f('a', 'b')",
        wrong=lambda: slope(checkpoint_policies.save_only_these_names(["square", "sum"])),
        fixed=lambda fix: slope(checkpoint_policies.save_only_these_names("square", "sum")),
        value=CUBE_SLOPE,
        error=WeftTypeError,
    ),
    Fixed(
        "pass a string: '3'",
        wrong=lambda: weft.checkpoint_name(jnp.ones(2), 3),
        fixed=lambda fix: weft.checkpoint_name(jnp.ones(2), fix.data["name"]),
        value=np.ones(2),
        error=WeftTypeError,
    ),
]
