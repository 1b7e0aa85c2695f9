"""Functions without annotations: nothing is known of them, and no call of them is an error."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-any-expr

from typing import reveal_type

import weft
import weft.numpy as wnp

x = wnp.ones(3)
params = {"w": x}


def loss(params, x, scale=1.0):
    return (params["w"] * x * scale).sum()


reveal_type(weft.jit(loss)(params, x))  # T: Any
reveal_type(weft.grad(loss)(params, x))  # T: Any
reveal_type(weft.jit(weft.grad(loss))(params, x, 2.0))  # T: Any
reveal_type(weft.vjp(loss, params, x)[1](1.0))  # T: Any, tuple[dict[str, Array], Array]
reveal_type(weft.grad(lambda p: p["w"].sum())(params))  # T: Any
reveal_type(weft.grad(lambda p: loss(p, x))(params))  # T: Any
reveal_type(weft.jit(weft.grad(lambda p: p["w"].sum()))(params))  # T: Any
reveal_type(weft.grad(lambda x: x * 2)(1.0))  # T: Any
weft.vmap(lambda p, x: p["w"] * x, (None, 0))(params, x)
weft.value_and_grad(lambda p: p["w"].sum())(params)
weft.jvp(lambda p: p["w"], (params,), (params,))
weft.vjp(lambda p: p["w"], params)
weft.linearize(lambda p: p["w"], params)
weft.checkpoint(lambda p: p["w"])(params)
weft.grad(loss, argnums=(0, 1))(params, x, 3)
weft.grad(loss, 1)(params, x, scale=3)
weft.vmap(weft.grad(lambda p: p["w"].sum()))({"w": wnp.ones((2, 3))})
weft.checkpoint(weft.grad(lambda p: p["w"].sum()))(params)
weft.jit(weft.vmap(lambda p: p["w"].sum()))({"w": wnp.ones((2, 3))})
weft.jit(weft.value_and_grad(lambda p: p["w"].sum()))(params)
