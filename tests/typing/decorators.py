"""What type checkers make of transformations as decorators; see `transformations.py`."""

import functools
from collections.abc import Sequence
from typing import reveal_type

import weft
import weft.numpy as wnp
from weft import Array

x = wnp.ones(3)


@weft.jit
def plain(x: Array, n: int = 1) -> Array:
    return x * n


@weft.jit(static_argnums=1)
def with_options(x: Array, n: int = 1) -> Array:
    return x * n


@functools.partial(weft.jit, static_argnames=("n",))
def by_partial(x: Array, n: int = 1) -> Array:
    return x * n


@functools.partial(weft.vmap, in_axes=(0, None))
def mapped(x: Array, n: int) -> Array:
    return x * n


@weft.shard_map(mesh=weft.make_mesh((1,), ("i",)), in_specs=weft.P("i"), out_specs=weft.P("i"))
def sharded(x: Array) -> Array:
    return x


@weft.checkpoint
def checkpointed(x: Array, n: int = 1) -> Array:
    return x * n


@weft.named_scope("scope")
def scoped(x: Array, n: int = 1) -> Array:
    return x * n


@weft.custom_gradient
def halved(x: Array, n: int = 1) -> tuple[Array, object]:
    return x / 2, lambda ct: ct / 2


reveal_type(plain)  # T: Jitted[(x: Array, n: int =), Array]
reveal_type(with_options)  # T: Jitted[(x: Array, n: int =), Array]
reveal_type(mapped)  # T: (x: Array, n: int) -> Array
reveal_type(sharded)  # T: (x: Array) -> Array
reveal_type(checkpointed)  # T: (x: Array, n: int =) -> Array
reveal_type(scoped)  # T: (x: Array, n: int =) -> Array
reveal_type(halved)  # T: (x: Array, n: int =) -> Array
plain(x, m=2)  # E: call-arg, reportCallIssue
with_options(x, m=2)  # E: call-arg, reportCallIssue
mapped(x)  # E: call-arg, reportCallIssue
sharded("x")  # E: arg-type, reportArgumentType
checkpointed(x, m=2)  # E: call-arg, reportCallIssue
scoped(x, m=2)  # E: call-arg, reportCallIssue
halved(x, m=2)  # E: call-arg, reportCallIssue

# mypy takes the partial of an overloaded function for one of any arguments.
by_partial(x, n=2)
by_partial(x, m=2)  # E: -, reportCallIssue


class Model:
    def __init__(self, w: Array) -> None:
        self.w = w

    @weft.jit
    def apply(self, x: Array, train: bool = False) -> Array:
        return x * self.w if train else x

    @weft.jit(static_argnames="train")
    def static(self, x: Array, train: bool = False) -> Array:
        return x * self.w if train else x

    @weft.checkpoint
    def again(self, x: Array) -> Array:
        return x * self.w


model = Model(x)
reveal_type(model.apply)  # T: (x: Array, train: bool =) -> Array
reveal_type(model.static(x, train=True))  # T: Array
reveal_type(model.again(x))  # T: Array
reveal_type(Model.apply(model, x))  # T: Array
model.apply(x, training=True)  # E: call-arg, reportCallIssue
model.static("x")  # E: arg-type, reportArgumentType
Model.apply(x, x)  # E: arg-type, reportArgumentType


@weft.custom_jvp
def smooth(x: Array, n: int = 1) -> Array:
    return x * n


@smooth.defjvp
def smooth_jvp(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    return primals[0], tangents[0]


@weft.custom_vjp
def clipped(x: Array, limit: float) -> Array:
    return x


def clipped_forward(x: Array, limit: float) -> tuple[Array, float]:
    return x, limit


def clipped_backward(limit: float, ct: Array) -> tuple[Array, None]:
    return wnp.clip(ct, -limit, limit), None


clipped.defvjp(clipped_forward, clipped_backward)

reveal_type(smooth)  # T: custom_jvp[(x: Array, n: int =), Array]
reveal_type(smooth(x))  # T: Array
reveal_type(smooth_jvp([x], [x]))  # T: tuple[Array, Array]
reveal_type(clipped(x, 1.0))  # T: Array
reveal_type(weft.grad(clipped)(x, 1.0))  # T: Array
smooth(x, m=2)  # E: call-arg, reportCallIssue
smooth("x")  # E: arg-type, reportArgumentType
clipped(x)  # E: call-arg, reportCallIssue
weft.grad(clipped)(x, "1")  # E: arg-type, reportArgumentType
clipped.defvjp(clipped_forward)  # E: call-arg, reportCallIssue
smooth.defjvp(3)  # E: type-var, reportArgumentType
