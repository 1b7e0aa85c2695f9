"""The programs whose text is kept in tests/golden: name -> (function, arguments).

They are written with `weft.lax` where the text of a jaxpr is kept, so that a change of `weft.numpy`
alone does not show here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
import weft.numpy as jnp
from weft import lax
from weft.sharding import PartitionSpec as P

S = weft.ShapeDtypeStruct
X = S((3,), np.float32)
SCALAR = S((), np.float32)
TABLE = np.array([1.0, 2.0, 3.0], np.float32)


def sin_chain(x: Any) -> Any:
    return lax.add(lax.mul(lax.sin(x), 2.0), lax.cos(x))


def total(x: Any) -> Any:
    return lax.reduce_sum(lax.mul(x, lax.mul(x, TABLE)), (0,))


def conditional(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda y: lax.mul(lax.sin(y), TABLE), lambda y: lax.neg(y), x)


def nested(x: Any) -> Any:
    @weft.jit
    def outer(y: Any) -> Any:
        @weft.jit
        def inner(z: Any) -> Any:
            return lax.mul(z, y)

        return lax.add(inner(lax.sin(y)), inner(y))

    return outer(x)


def layer(w: Any, b: Any, x: Any) -> Any:
    product = lax.dot_general(x, w, (((0,), (0,)), ((), ())))
    return lax.tanh(lax.add(product, b))


LAYER = (S((3, 2), np.float32), S((2,), np.float32), X)


def loss(params: Any, x: Any, y: Any) -> Any:
    """The mean squared error of a network with one hidden layer, written with weft.numpy."""
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def recurrence(w: Any, h: Any, xs: Any) -> Any:
    """A loop with a constant, a carried value and stacked results."""

    def body(h: Any, x: Any) -> Any:
        h = lax.tanh(lax.add(lax.mul(h, lax.sin(w)), x))
        return h, lax.mul(h, h)

    return lax.scan(body, h, xs)


RECURRENCE = (X, X, S((5, 3), np.float32))


def until_large(x: Any) -> Any:
    return lax.while_loop(lambda x: lax.lt(x, 100.0), lambda x: lax.mul(x, x), x)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, c: lax.mul(c, x), x)


def rematerialized(x: Any) -> Any:
    def f(y: Any) -> Any:
        named = weft.checkpoint_name(lax.sin(lax.exp(y)), "saved")
        return lax.sin(named)

    return weft.checkpoint(f, policy=weft.checkpoint_policies.save_only_these_names("saved"))(x)


@weft.custom_jvp
def halved(x: Any) -> Any:
    return lax.mul(x, x)


@halved.defjvp
def halved_jvp(primals: Any, tangents: Any) -> Any:
    return halved(primals[0]), lax.mul(tangents[0], primals[0])


@weft.custom_vjp
def clipped(x: Any) -> Any:
    return lax.sin(x)


def clipped_fwd(x: Any) -> Any:
    return clipped(x), lax.cos(x)


def clipped_bwd(slope: Any, ct: Any) -> Any:
    return (lax.clamp(-1.0, lax.mul(slope, ct), 1.0),)


clipped.defvjp(clipped_fwd, clipped_bwd)


def printing(x: Any) -> Any:
    def body(c: Any, _: None) -> Any:
        weft.debug.print("{}", c, ordered=True)
        return lax.mul(c, c), None

    return lax.scan(body, x, None, 3)[0]


def on_mesh(body: Any, in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    """A shard_map over a mesh of (4, 2) devices that is made when it is called."""

    def call(*args: Any) -> Any:
        mesh = weft.make_mesh((4, 2), ("i", "j"))
        return weft.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs)(*args)

    return call


def multiply(x: Any, y: Any) -> Any:
    return lax.psum(lax.dot(x, y), "j")


def exchange(x: Any) -> Any:
    y = lax.all_gather(x, "j", axis=1, tiled=True)
    y = lax.mul(y, lax.convert_element_type(lax.axis_index("i"), np.float32))
    y = lax.ppermute(y, "i", [(0, 1), (1, 2), (2, 3)])
    y = lax.psum_scatter(y, "j", scatter_dimension=1, tiled=True)
    return lax.all_to_all(y, "j", 0, 1, tiled=True)


def squares(w: Any, x: Any) -> Any:
    return lax.pmean(lax.reduce_sum(lax.mul(lax.mul(x, w), x), (0, 1)), ("i", "j"))


PRODUCT = on_mesh(multiply, (P("i", "j"), P("j", None)), P("i", None))
EXCHANGE = on_mesh(exchange, P("i", "j"), P("i", "j"))
SQUARES = on_mesh(squares, (P(), P("i", "j")), P())
MATRICES = (S((8, 16), np.float32), S((16, 32), np.float32))
PARAMS = {
    "w1": S((4, 5), np.float32),
    "b1": S((5,), np.float32),
    "w2": S((5, 2), np.float32),
    "b2": S((2,), np.float32),
}
BATCH = (PARAMS, S((7, 4), np.float32), S((7, 2), np.float32))

JAXPRS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sin_chain": (sin_chain, (X,)),
    "jvp_of_sin_chain": (lambda x, t: weft.jvp(sin_chain, (x,), (t,)), (X, X)),
    "grad_of_total": (weft.grad(total), (X,)),
    "vmap_of_grad_of_total": (weft.vmap(weft.grad(total)), (S((5, 3), np.float32),)),
    "linearize_of_sin_chain": (lambda x, t: weft.linearize(sin_chain, x)[1](t), (X, X)),
    "hessian_of_total": (weft.hessian(total), (X,)),
    "cond": (conditional, (True, X)),
    "grad_of_cond": (
        weft.grad(lambda x, p: lax.reduce_sum(conditional(p, x), (0,))),
        (X, S((), np.bool_)),
    ),
    "vmap_of_cond_with_one_predicate": (
        weft.vmap(conditional, in_axes=(None, 0)),
        (S((), np.bool_), S((5, 3), np.float32)),
    ),
    "vmap_of_cond_with_many_predicates": (
        weft.vmap(conditional),
        (S((5,), np.bool_), S((5, 3), np.float32)),
    ),
    "nested_jit": (nested, (X,)),
    "grad_of_nested_jit": (weft.grad(nested), (SCALAR,)),
    "layer": (layer, LAYER),
    "vmap_of_layer": (
        weft.vmap(layer, in_axes=(None, None, 0)),
        (LAYER[0], LAYER[1], S((5, 3), np.float32)),
    ),
    "scan": (recurrence, RECURRENCE),
    "grad_of_scan": (
        weft.grad(lambda w, h, xs: lax.reduce_sum(recurrence(w, h, xs)[1], (0, 1))),
        RECURRENCE,
    ),
    "jvp_of_scan": (
        lambda w, h, xs, t: weft.jvp(lambda h: recurrence(w, h, xs), (h,), (t,)),
        (*RECURRENCE, X),
    ),
    "vmap_of_scan": (
        weft.vmap(recurrence, in_axes=(None, 0, None)),
        (X, S((2, 3), np.float32), RECURRENCE[2]),
    ),
    "while": (until_large, (SCALAR,)),
    "jvp_of_while": (lambda x, t: weft.jvp(until_large, (x,), (t,)), (SCALAR, SCALAR)),
    "vmap_of_while": (weft.vmap(until_large), (X,)),
    "grad_of_fori_loop": (weft.grad(counted), (SCALAR,)),
    "grad_of_checkpoint": (weft.grad(rematerialized), (SCALAR,)),
    "custom_jvp": (halved, (SCALAR,)),
    "grad_of_custom_jvp": (weft.grad(halved), (SCALAR,)),
    "custom_vjp": (clipped, (SCALAR,)),
    "grad_of_custom_vjp": (weft.grad(clipped), (SCALAR,)),
    "debug_print_in_scan": (printing, (SCALAR,)),
    "shard_map": (PRODUCT, MATRICES),
    "grad_of_shard_map": (
        weft.grad(lambda x, y: lax.reduce_sum(PRODUCT(x, y), (0, 1)), argnums=(0, 1)),
        MATRICES,
    ),
    "vmap_of_shard_map": (
        weft.vmap(PRODUCT, in_axes=(None, 0)),
        (MATRICES[0], S((3, 16, 32), np.float32)),
    ),
    "grad_of_the_mean_over_devices": (weft.grad(SQUARES), (SCALAR, MATRICES[0])),
    "collectives": (EXCHANGE, MATRICES[:1]),
    "transposed_collectives": (
        lambda x, ct: weft.vjp(EXCHANGE, x)[1](ct),
        (MATRICES[0], S((4, 32), np.float32)),
    ),
    "linear_transpose_of_sum": (
        weft.linear_transpose(lambda x: lax.reduce_sum(x, (1,)), S((2, 3), np.float32)),
        (S((2,), np.float32),),
    ),
}

STABLEHLO: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "shard_map": (lambda x, y: PRODUCT(x, y), MATRICES),
    "grad_of_the_mean_over_devices": (weft.grad(lambda w, x: SQUARES(w, x)), (SCALAR, MATRICES[0])),
    "collectives": (lambda x: EXCHANGE(x), MATRICES[:1]),
    "gradient_of_the_loss_of_a_network": (weft.value_and_grad(loss), BATCH),
    "cond": (conditional, (S((), np.bool_), X)),
    "vmap_of_dot": (
        weft.vmap(layer, in_axes=(None, None, 0)),
        (LAYER[0], LAYER[1], S((5, 3), np.float32)),
    ),
    "nested_jit": (nested, (X,)),
    "scan": (recurrence, RECURRENCE),
    "vmap_of_while": (weft.vmap(until_large), (X,)),
    "debug_print_in_scan": (printing, (SCALAR,)),
}


def texts() -> dict[str, str]:
    """What is kept: file name -> text."""
    found = {}
    for name, (function, args) in JAXPRS.items():
        found[f"jaxpr_{name}.txt"] = str(weft.make_jaxpr(function)(*args)) + "\n"
    for name, (function, args) in STABLEHLO.items():
        function.__name__ = name
        found[f"stablehlo_{name}.txt"] = weft.jit(function).lower(*args).as_text().rstrip() + "\n"
    return found
