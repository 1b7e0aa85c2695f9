"""What type checkers make of transformed functions; test_typing.py reads the comments.

`# T:` stands for the type that is revealed, `# E:` for the errors of mypy and of pyright.
"""

from typing import Any, reveal_type

import weft
import weft.numpy as wnp
from weft import Array

x = wnp.ones(3)
untyped: Any = wnp.sin
Params = dict[str, Array]
params: Params = {"w": x}


def power(x: Array, n: int = 2) -> Array:
    return x**n


def loss(params: Params, x: Array, *, scale: float = 1.0) -> Array:
    return (params["w"] * x * scale).sum()


def loss_and_name(params: Params, x: Array) -> tuple[Array, str]:
    return loss(params, x), "loss"


def sine_and_cosine(x: Array) -> tuple[Array, Array]:
    return wnp.sin(x), wnp.cos(x)


def tree_to_pair(params: Params) -> tuple[Array, Array]:
    return sine_and_cosine(params["w"])


def total(*arrays: Array) -> Array:
    return sum(arrays, start=wnp.zeros(3))


def by_keyword(*, x: Array) -> Array:
    return x


class Layer:
    def __init__(self, w: Array) -> None:
        self.w = w

    def __call__(self, x: Array, train: bool = False) -> Array:
        return x @ self.w if train else x


# ---- jit ---------------------------------------------------------------------------------------

jitted = weft.jit(power)
reveal_type(jitted)  # T: Jitted[(x: Array, n: int =), Array]
reveal_type(jitted(x, n=3))  # T: Array
reveal_type(weft.jit(loss)(params, x, scale=2.0))  # T: Array
reveal_type(weft.jit(Layer(x))(x, train=True))  # T: Array
reveal_type(weft.jit(static_argnames="n")(power))  # T: Jitted[(x: Array, n: int =), Array]
reveal_type(weft.jit(jitted))  # T: Jitted[(x: Array, n: int =), Array]
jitted.lower(weft.ShapeDtypeStruct((3,), "float32"))
jitted(x, m=3)  # E: call-arg, reportCallIssue
jitted("x")  # E: arg-type, reportArgumentType
jitted()  # E: call-arg, reportCallIssue
weft.jit(power, static_argnum=1)  # E: call-overload, reportCallIssue
weft.jit(3)  # E: call-overload, reportCallIssue reportArgumentType

# ---- grad --------------------------------------------------------------------------------------

reveal_type(weft.grad(power))  # T: (Array, n: int =) -> Array
reveal_type(weft.grad(loss)(params, x, scale=2.0))  # T: dict[str, Array]
reveal_type(weft.grad(loss_and_name, has_aux=True)(params, x))  # T: tuple[dict[str, Array], str]
reveal_type(weft.grad(loss, argnums=(0, 1))(params, x))  # T: tuple[dict[str, Array], Array]
reveal_type(weft.grad(loss, argnums=1)(params, x))  # T: Array
reveal_type(weft.grad(loss, argnums=(1, 0))(params, x))  # T: Any
reveal_type(weft.vmap(weft.grad(wnp.sin))(x).shape)  # T: tuple[int, ...]
reveal_type(weft.grad(lambda x: x * x)(2.0))  # T: Any
reveal_type(weft.grad(total)(x, x))  # T: Array
reveal_type(weft.grad(Layer(x))(x, train=True))  # T: Array
reveal_type(weft.grad(by_keyword))  # T: Any
weft.grad(power)(x, m=3)  # E: call-arg, reportCallIssue
weft.grad(power)(x=x)  # E: call-arg, reportCallIssue
weft.grad(loss)(x, x)  # E: arg-type, reportArgumentType
weft.grad(power, argnums="x")  # E: arg-type, reportCallIssue reportArgumentType

reveal_type(weft.value_and_grad(power))  # T: (Array, n: int =) -> tuple[Array, Array]
reveal_type(weft.value_and_grad(loss)(params, x))  # T: tuple[Array, dict[str, Array]]
pair = weft.value_and_grad(loss_and_name, has_aux=True)(params, x)
reveal_type(pair)  # T: tuple[tuple[Array, str], dict[str, Array]]
both = weft.value_and_grad(loss, (0, 1))(params, x)
reveal_type(both)  # T: tuple[Array, tuple[dict[str, Array], Array]]
reveal_type(weft.value_and_grad(loss, 1)(params, x))  # T: tuple[Array, Array]
reveal_type(weft.value_and_grad(loss, 2)(params, x))  # T: tuple[Array, Any]
reveal_type(weft.value_and_grad(wnp.sin)(1.0))  # T: tuple[Array, Array]
weft.value_and_grad(power)("x")  # E: arg-type, reportArgumentType

# ---- jvp, vjp, linearize -----------------------------------------------------------------------

reveal_type(weft.jvp(power, (x,), (x,)))  # T: tuple[Array, Array]
reveal_type(weft.jvp(power, (x, 2), (x, 2)))  # T: tuple[Array, Array]
reveal_type(weft.jvp(loss_and_name, (params, x), (params, x), True))  # T: tuple[Array, Array, str]
weft.jvp(power, (x,))  # E: call-overload, reportCallIssue

reveal_type(weft.vjp(power, x))  # T: tuple[Array, (Any) -> tuple[Array]]
reveal_type(weft.vjp(power, x)[1](1.0))  # T: tuple[Array]
reveal_type(weft.vjp(power, x, 2)[1](1.0))  # T: tuple[Any, ...]
reveal_type(weft.vjp(loss, params, x)[1](1.0))  # T: tuple[dict[str, Array], Array]
reveal_type(weft.vjp(lambda p: loss(p, x), params)[1](1.0))  # T: tuple[dict[str, Array]]
out, back, name = weft.vjp(loss_and_name, params, x, has_aux=True)
reveal_type(out)  # T: Array
reveal_type(name)  # T: str
weft.vjp(power, "x")  # E: arg-type, reportCallIssue reportArgumentType
weft.vjp(loss, x, x)  # E: arg-type, reportCallIssue reportArgumentType

reveal_type(weft.linearize(power, x))  # T: tuple[Array, LinearFunction[Array]]
reveal_type(weft.linearize(loss, params, x)[1](params, x))  # T: Array
weft.linearize(power, "x")  # E: call-overload, reportCallIssue reportArgumentType

reveal_type(weft.vjp(weft.grad(power), x)[0])  # T: Array
reveal_type(weft.linearize(weft.vmap(power), x)[0])  # T: Array
reveal_type(weft.vjp(wnp.sin, 1.0)[0])  # T: Array

reveal_type(weft.linear_transpose(total, x)(x))  # T: tuple[Array]
reveal_type(weft.linear_transpose(total, x, x)(x))  # T: tuple[Any, ...]

# ---- Jacobians: of an array the tree of the results, to an array the tree of the argument -------

reveal_type(weft.jacfwd(power))  # T: (Array, n: int =) -> Array
reveal_type(weft.jacrev(power))  # T: (Array, n: int =) -> Array
reveal_type(weft.jacobian(power)(x))  # T: Array
reveal_type(weft.jacrev(loss)(params, x, scale=2.0))  # T: dict[str, Array]
reveal_type(weft.jacfwd(loss, 1)(params, x))  # T: Array
reveal_type(weft.jacfwd(loss, (0, 1))(params, x))  # T: tuple[dict[str, Array], Array]
reveal_type(weft.jacrev(loss, (1, 0))(params, x))  # T: Any
reveal_type(weft.jacrev(loss_and_name, has_aux=True)(params, x))  # T: tuple[dict[str, Array], str]
reveal_type(weft.jacrev(sine_and_cosine)(x))  # T: tuple[Array, Array]
reveal_type(weft.jacfwd(tree_to_pair)(params))  # T: Any
reveal_type(weft.jacfwd(wnp.sin)(1.0))  # T: Array
reveal_type(weft.jacrev(lambda p: p["w"] * 2)(params))  # T: Any
reveal_type(weft.jacfwd(weft.jacrev(power))(x))  # T: Array
reveal_type(weft.jit(weft.vmap(weft.jacfwd(power)))(x))  # T: Array
reveal_type(weft.hessian(power)(x))  # T: Array
reveal_type(weft.hessian(sine_and_cosine)(x))  # T: tuple[Array, Array]
reveal_type(weft.hessian(loss))  # T: (params: dict[str, Array], x: Array, *, scale: float =) -> Any
reveal_type(weft.hessian(lambda p: p["w"] ** 3)(params))  # T: Any
weft.jacfwd(power)(x, m=3)  # E: call-arg, reportCallIssue
weft.jacrev(loss)(x, x)  # E: arg-type, reportArgumentType
weft.hessian(power)("x")  # E: arg-type, reportArgumentType
weft.jacfwd(power, argnum=1)  # E: call-overload, reportCallIssue

# ---- vmap, pmap, shard_map, checkpoint ---------------------------------------------------------

reveal_type(weft.vmap(power, in_axes=(0, None)))  # T: (x: Array, n: int =) -> Array
reveal_type(weft.vmap(loss, (None, 0))(params, x, scale=1.0))  # T: Array
weft.vmap(power)(x, m=3)  # E: call-arg, reportCallIssue
weft.vmap(power)("x")  # E: arg-type, reportArgumentType
weft.vmap(3)  # E: arg-type, reportArgumentType

reveal_type(weft.pmap(power, "i"))  # T: (x: Array, n: int =) -> Array
weft.pmap(power)(x, m=3)  # E: call-arg, reportCallIssue

mesh = weft.make_mesh((1,), ("i",))
whole = weft.P()
reveal_type(weft.shard_map(power, mesh, whole, whole))  # T: (x: Array, n: int =) -> Array
weft.shard_map(power, mesh, whole, whole)("x")  # E: arg-type, reportArgumentType

reveal_type(weft.checkpoint(power))  # T: (x: Array, n: int =) -> Array
reveal_type(weft.remat(loss)(params, x))  # T: Array
weft.checkpoint(power)(x, m=3)  # E: call-arg, reportCallIssue

# ---- programs: structs may stand for arrays ----------------------------------------------------

struct = weft.ShapeDtypeStruct((3,), "float32")
reveal_type(weft.make_jaxpr(power)(struct))  # T: ClosedJaxpr
reveal_type(weft.make_jaxpr(power, return_shape=True)(x))  # T: tuple[ClosedJaxpr, Any]
reveal_type(weft.eval_shape(power, struct))  # T: ShapeDtypeStruct
reveal_type(weft.eval_shape(loss_and_name, params, struct))  # T: Any
reveal_type(weft.eval_shape(lambda x: untyped(x), struct))  # T: Any
reveal_type(weft.block_until_ready(params))  # T: dict[str, Array]

# ---- transformations of transformations --------------------------------------------------------

reveal_type(weft.jit(weft.grad(power)))  # T: Jitted[(Array, n: int =), Array]
reveal_type(weft.grad(weft.jit(power)))  # T: (Array, n: int =) -> Array
reveal_type(weft.grad(weft.grad(power)))  # T: (Any, n: int =) -> Any, (Array, n: int =) -> Array
reveal_type(weft.vmap(weft.grad(power), in_axes=(0, None))(x, 2))  # T: Array
reveal_type(weft.jit(weft.vmap(weft.value_and_grad(loss)))(params, x)[1])  # T: dict[str, Array]
reveal_type(weft.grad(weft.checkpoint(loss))(params, x))  # T: dict[str, Array]
reveal_type(weft.jvp(weft.grad(power), (x,), (x,)))  # T: tuple[Any, Any]
weft.jit(weft.grad(power))(x, m=3)  # E: call-arg, reportCallIssue
weft.vmap(weft.jit(weft.grad(loss)))(x, x)  # E: arg-type, reportArgumentType
